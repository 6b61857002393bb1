//! Rows from a statement into the output, in the formats that the client wants.

use std::sync::Arc;

use ermine_sql::{
    Column, CopyFormat, Result, RowSink, SqlError,
    types::{Environment, SqlType, Value, user_types::UserTypes},
};

use super::output::{Mark, Output};
use crate::{
    codec,
    protocol::{
        Format, Formats,
        backend::{self, Field},
    },
};

/// Buffers that are kept from one statement to the next, to save allocations.
#[derive(Default)]
pub struct Scratch {
    types: Vec<SqlType>,
    text: String,
}

/// Largest capacity of the text buffer that is kept for the next statement, in bytes.
const SCRATCH_MAX: usize = 64 << 10;

/// Takes the rows of a statement.
pub struct Sink<'a> {
    output: &'a mut Output,
    environment: &'a mut Environment,
    formats: &'a Formats,
    scratch: &'a mut Scratch,
    is_simple: bool,
    /// Whether rows are copied out, and the copy is not complete yet.
    is_copying: bool,
    /// The place in the output where the last statement ended.
    begin: Mark,
    /// Whether a statement changed settings.
    pub has_set: bool,
}

impl<'a> Sink<'a> {
    const TEXT: &'static Formats = &Formats::All(Format::Text);

    /// Returns a sink for a text of statements, which are described as they come, and whose values are texts.
    pub fn simple(output: &'a mut Output, environment: &'a mut Environment, scratch: &'a mut Scratch) -> Self {
        let begin = output.mark();
        Self {
            output,
            environment,
            formats: Self::TEXT,
            scratch,
            is_simple: true,
            is_copying: false,
            begin,
            has_set: false,
        }
    }

    /// Returns a sink for a portal, which the client has had described.
    #[inline]
    pub fn portal(
        output: &'a mut Output,
        environment: &'a mut Environment,
        formats: &'a Formats,
        scratch: &'a mut Scratch,
    ) -> Self {
        let begin = output.mark();
        Self { output, environment, formats, scratch, is_simple: false, is_copying: false, begin, has_set: false }
    }
}

impl RowSink for Sink<'_> {
    fn binary(&mut self) {
        if self.is_simple {
            self.formats = &Formats::All(Format::Binary);
        }
    }

    fn environment(&mut self, environment: &Environment) {
        self.environment.clone_from(environment);
    }

    fn types(&mut self, types: &Arc<UserTypes>) {
        self.environment.types.clone_from(types);
    }

    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.scratch.types.clear();
        self.scratch.types.extend(columns.iter().map(|column| column.ty));
        if self.is_simple {
            describe(self.output.bytes(), columns, self.formats);
        }
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.environment.check_texts(values)?;
        let Scratch { types, text } = &mut *self.scratch;
        let (formats, environment) = (self.formats, &*self.environment);
        debug_assert_eq!(types.len(), values.len());
        backend::data_row(self.output.bytes(), values.len(), |out| {
            for (index, (value, &ty)) in values.iter().zip(&*types).enumerate() {
                match (value, formats.of(index)) {
                    (Value::Null, _) => backend::null(out),
                    // The bytes are the same in both formats, but for the type "char".
                    (Value::Text(content), format) if format == Format::Text || ty != SqlType::INTERNAL_CHAR => {
                        backend::value(out, |out| out.extend_from_slice(content.as_bytes()));
                    }
                    (_, Format::Binary) => backend::value(out, |out| codec::write_binary(value, ty, environment, out)),
                    (_, Format::Text) => {
                        text.clear();
                        codec::write_text(value, ty, environment, text);
                        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                        out.extend_from_slice(text.as_bytes());
                    }
                }
            }
        });
        if self.scratch.text.capacity() > SCRATCH_MAX {
            self.scratch.text = String::new();
        }
        self.output.relieve()
    }

    fn copy_out(&mut self, format: CopyFormat) -> Result<()> {
        self.is_copying = true;
        backend::copy_out_response(self.output.bytes(), format_of(format), format.columns);
        Ok(())
    }

    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        backend::copy_data(self.output.bytes(), piece);
        self.output.relieve()
    }

    fn copy_in(&mut self, format: CopyFormat) -> Result<()> {
        backend::copy_in_response(self.output.bytes(), format_of(format), format.columns);
        self.output.due();
        Ok(())
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        if std::mem::take(&mut self.is_copying) {
            backend::copy_done(self.output.bytes());
        }
        if self.is_simple {
            self.formats = Self::TEXT;
            self.output.hold();
        }
        self.has_set |= matches!(tag, "SET" | "RESET" | "DISCARD ALL" | "DISCARD");
        backend::command_complete(self.output.bytes(), tag);
        self.begin = self.output.mark();
        Ok(())
    }

    fn settings_changed(&mut self) {
        self.has_set = true;
    }

    fn take_back(&mut self) -> bool {
        self.is_copying = false;
        self.output.back_to(self.begin)
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        backend::notice(self.output.bytes(), severity, notice);
    }
}

fn format_of(format: CopyFormat) -> Format {
    if format.is_binary { Format::Binary } else { Format::Text }
}

/// Appends a description of columns for the client.
pub fn describe(out: &mut Vec<u8>, columns: &[Column], formats: &Formats) {
    let fields = columns.iter().enumerate().map(|(index, column)| Field {
        name: &column.name,
        source: column.source,
        type_oid: codec::oid(column.ty),
        type_length: codec::length(column.ty),
        modifier: column.modifier,
        format: formats.of(index),
    });
    backend::row_description(out, fields);
}
