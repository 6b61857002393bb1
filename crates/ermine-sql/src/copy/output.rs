//! Rows of a query to bytes, each row as it is produced.

use std::ops::ControlFlow;

use super::{
    binary::{END, NULL, SIGNATURE},
    options::{Format, Header, Options},
    plan::CopyTo,
};
use crate::{
    catalog::progress::{Command, ROWS_PER_REPORT, Reporting},
    error::Result,
    exec::Run,
    result::RowSink,
    types::{Environment, SqlType, Value, binary, text},
};

/// Runs a COPY TO; returns how many rows it copied. Each row is a separate piece, as PostgreSQL's clients expect.
pub(crate) fn copy_to(to: &CopyTo, run: &Run<'_>, rows: &mut dyn RowSink) -> Result<u64> {
    rows.copy_out(to.format())?;
    let mut writer = Writer { to, environment: run.environment, out: Vec::new(), text: String::new() };
    writer.begin();
    if to.options.format != Format::Binary && !writer.out.is_empty() {
        rows.copy_data(&writer.out)?;
        writer.out.clear();
    }
    let begin = |footprint| Reporting::begin(footprint, Command::CopyTo, to.relation, 0);
    let reporting = run.session.map(|(party, _)| begin(party.footprint.clone()));
    let (mut count, mut bytes) = (0, 0);
    let _ = run.query(&to.query, None, &mut |row| {
        run.environment.check_texts(row)?;
        writer.row(row);
        rows.copy_data(&writer.out)?;
        count += 1;
        bytes += writer.out.len() as u64;
        writer.out.clear();
        if count % ROWS_PER_REPORT == 0 {
            reporting.iter().for_each(|progress| progress.copies(bytes, count, 0));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if to.options.format == Format::Binary {
        writer.out.extend_from_slice(&END.to_be_bytes());
        rows.copy_data(&writer.out)?;
    }
    Ok(count)
}

struct Writer<'a> {
    to: &'a CopyTo,
    environment: &'a Environment,
    /// The bytes of the next piece.
    out: Vec<u8>,
    /// The text of a value.
    text: String,
}

impl Writer<'_> {
    /// Writes the bytes before the first row; in the binary format they are sent together with it.
    fn begin(&mut self) {
        let CopyTo { options, columns, .. } = self.to;
        match (options.format, options.header) {
            (Format::Binary, _) => {
                self.out.extend_from_slice(SIGNATURE);
                // No flags, and no header extension.
                self.out.extend_from_slice(&[0; 8]);
            }
            (_, Header::No) => {}
            (format, _) => {
                for (at, column) in columns.iter().enumerate() {
                    if at > 0 {
                        self.out.push(options.delimiter);
                    }
                    match format {
                        Format::Csv => write_csv(&column.name, false, columns.len() == 1, options, &mut self.out),
                        _ => write_text(&column.name, options, &mut self.out),
                    }
                }
                self.out.push(b'\n');
            }
        }
    }

    fn row(&mut self, row: &[Value]) {
        let CopyTo { options, columns, .. } = self.to;
        if options.format == Format::Binary {
            return self.binary_row(row);
        }
        for (at, (value, column)) in row.iter().zip(columns).enumerate() {
            if at > 0 {
                self.out.push(options.delimiter);
            }
            if value.is_null() {
                self.out.extend_from_slice(options.null.as_bytes());
                continue;
            }
            self.text.clear();
            text::write(value, column.ty, self.environment, &mut self.text);
            match options.format {
                Format::Csv => write_csv(&self.text, column.force_quote, columns.len() == 1, options, &mut self.out),
                _ => write_text(&self.text, options, &mut self.out),
            }
        }
        self.out.push(b'\n');
    }

    fn binary_row(&mut self, row: &[Value]) {
        self.out.extend_from_slice(&(self.to.columns.len() as i16).to_be_bytes());
        for (value, column) in row.iter().zip(&self.to.columns) {
            binary_field(value, column.ty, self.environment, &mut self.out);
        }
    }
}

fn binary_field(value: &Value, ty: SqlType, environment: &Environment, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(&NULL.to_be_bytes());
    if !value.is_null() {
        binary::write(value, ty, environment, out);
        let length = (out.len() - at - 4) as i32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends a text with a backslash before characters that have a special meaning.
fn write_text(text: &str, options: &Options, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        let code = match byte {
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            11 => b'v',
            b'\\' => b'\\',
            other if other == options.delimiter => other,
            other => {
                out.push(other);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', code]);
    }
}

/// Appends a text, in quotes if it would have another meaning without them.
fn write_csv(text: &str, force_quote: bool, is_alone: bool, options: &Options, out: &mut Vec<u8>) {
    let is_special = |byte: u8| byte == options.delimiter || byte == options.quote || matches!(byte, b'\n' | b'\r');
    // The end mark, where it is a whole line.
    let is_end = is_alone && text == "\\.";
    if !force_quote && !is_end && *text != *options.null && !text.bytes().any(is_special) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    out.push(options.quote);
    for byte in text.bytes() {
        if byte == options.quote || byte == options.escape {
            out.push(options.escape);
        }
        out.push(byte);
    }
    out.push(options.quote);
}
