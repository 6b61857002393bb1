//! Messages of the server, appended to a buffer. Nothing here decides when they are sent.
//!
//! A message is a byte for its kind, its length without that byte, and its body. Texts end with a zero byte.

use ermine_sql::{Report, SqlError, Status};

use super::{Format, startup};

/// Answers a request for TLS or GSSAPI.
pub const REFUSE: u8 = b'N';
/// Answers a request for TLS that is granted.
pub const ACCEPT_TLS: u8 = b'S';

/// A column of a result, as described to clients.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// The column's name.
    pub name: &'a str,
    /// The table and the number of the column it shows; otherwise zeros.
    pub source: (u32, i16),
    /// The type's oid.
    pub type_oid: u32,
    /// The type's length in bytes; -1 if it varies.
    pub type_length: i16,
    /// The type's modifier.
    pub modifier: i32,
    /// How values are written.
    pub format: Format,
}

#[inline]
fn framed(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Appends a text without its zero bytes, the first of which would end it.
fn text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().filter(|&byte| byte != 0));
    out.push(0);
}

/// Requests of authentication differ by a number, in front of what they are about.
fn authentication(out: &mut Vec<u8>, request: u32, body: impl FnOnce(&mut Vec<u8>)) {
    framed(out, b'R', |out| {
        out.extend_from_slice(&request.to_be_bytes());
        body(out);
    });
}

/// Reports that the client is authenticated.
pub fn authentication_ok(out: &mut Vec<u8>) {
    authentication(out, 0, |_| ());
}

/// Asks for one of these mechanisms.
pub fn authentication_sasl(out: &mut Vec<u8>, mechanisms: &[&str]) {
    authentication(out, 10, |out| {
        mechanisms.iter().for_each(|name| text(out, name));
        out.push(0);
    });
}

/// Sends a step of SASL.
pub fn authentication_sasl_continue(out: &mut Vec<u8>, data: &str) {
    authentication(out, 11, |out| out.extend_from_slice(data.as_bytes()));
}

/// Sends the last step of SASL.
pub fn authentication_sasl_final(out: &mut Vec<u8>, data: &str) {
    authentication(out, 12, |out| out.extend_from_slice(data.as_bytes()));
}

/// Reports the version that is used instead of the requested one.
pub fn negotiate_protocol_version(out: &mut Vec<u8>, refused: &[String]) {
    let version = 3 << 16 | u32::from(startup::MINOR_MAX);
    framed(out, b'v', |out| {
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&(refused.len() as u32).to_be_bytes());
        refused.iter().for_each(|option| text(out, option));
    });
}

/// Reports a setting and its current value.
pub fn parameter_status(out: &mut Vec<u8>, name: &str, value: &str) {
    framed(out, b'S', |out| {
        text(out, name);
        text(out, value);
    });
}

/// Sends a notification.
pub fn notification(out: &mut Vec<u8>, process: i32, channel: &str, payload: &str) {
    framed(out, b'A', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        text(out, channel);
        text(out, payload);
    });
}

/// Sends the number and secret that a request for cancellation needs.
pub fn backend_key_data(out: &mut Vec<u8>, process: i32, secret: &[u8]) {
    framed(out, b'K', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        out.extend_from_slice(secret);
    });
}

/// Reports an error. `FATAL` ends the connection, `ERROR` does not.
pub fn error(out: &mut Vec<u8>, severity: &str, error: &SqlError) {
    framed(out, b'E', |out| report(out, severity, error.report()));
}

/// Reports a notice beside the result.
pub fn notice(out: &mut Vec<u8>, severity: &str, notice: &SqlError) {
    framed(out, b'N', |out| report(out, severity, notice.report()));
}

fn report(out: &mut Vec<u8>, severity: &str, report: &Report) {
    let Report {
        state,
        message,
        detail,
        hint,
        context,
        position,
        schema,
        table,
        column,
        constraint,
        lost: _,
        place: _,
        source: _,
    } = report;
    let position = position.map(|position| position.to_string());
    for (code, value) in [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(state.0)),
        (b'M', Some(message.as_str())),
        (b'D', detail.as_deref()),
        (b'H', hint.as_deref()),
        (b'W', context.as_deref()),
        (b'P', position.as_deref()),
        (b's', schema.as_deref()),
        (b't', table.as_deref()),
        (b'c', column.as_deref()),
        (b'n', constraint.as_deref()),
    ] {
        if let Some(value) = value {
            out.push(code);
            text(out, value);
        }
    }
    out.push(0);
}

/// Reports the types of a statement's parameters.
pub fn parameter_description(out: &mut Vec<u8>, types: impl ExactSizeIterator<Item = u32>) {
    framed(out, b't', |out| {
        out.extend_from_slice(&(types.len() as u16).to_be_bytes());
        types.for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

/// Describes the columns of a result.
pub fn row_description<'a>(out: &mut Vec<u8>, fields: impl ExactSizeIterator<Item = Field<'a>>) {
    framed(out, b'T', |out| {
        out.extend_from_slice(&(fields.len() as u16).to_be_bytes());
        for field in fields {
            text(out, field.name);
            out.extend_from_slice(&field.source.0.to_be_bytes());
            out.extend_from_slice(&field.source.1.to_be_bytes());
            out.extend_from_slice(&field.type_oid.to_be_bytes());
            out.extend_from_slice(&field.type_length.to_be_bytes());
            out.extend_from_slice(&field.modifier.to_be_bytes());
            out.extend_from_slice(&[0, field.format as u8]);
        }
    });
}

/// Appends a row of `count` values, each of which `values` appends: see [`value`] and [`null`].
#[inline]
pub fn data_row(out: &mut Vec<u8>, count: usize, values: impl FnOnce(&mut Vec<u8>)) {
    framed(out, b'D', |out| {
        out.extend_from_slice(&(count as u16).to_be_bytes());
        values(out);
    });
}

/// Appends NULL to a row.
#[inline]
pub fn null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i32).to_be_bytes());
}

/// Appends a value to a row: its length, filled in afterwards, and the bytes that `write` appends.
#[inline]
pub fn value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// Asks the client for the data to copy in, in a format, with a number of columns.
pub fn copy_in_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    framed(out, b'G', |out| copy_formats(out, format, columns));
}

/// Announces data that is copied out.
pub fn copy_out_response(out: &mut Vec<u8>, format: Format, columns: usize) {
    framed(out, b'H', |out| copy_formats(out, format, columns));
}

/// Announces a stream in both directions.
pub fn copy_both_response(out: &mut Vec<u8>) {
    framed(out, b'W', |out| copy_formats(out, Format::Text, 0));
}

fn copy_formats(out: &mut Vec<u8>, format: Format, columns: usize) {
    out.push(format as u8);
    out.extend_from_slice(&(columns as u16).to_be_bytes());
    out.extend((0..columns).flat_map(|_| [0, format as u8]));
}

/// Sends a piece of the data that is copied out.
#[inline]
pub fn copy_data(out: &mut Vec<u8>, piece: &[u8]) {
    framed(out, b'd', |out| out.extend_from_slice(piece));
}

/// Reports that all of the data has been sent.
pub fn copy_done(out: &mut Vec<u8>) {
    out.extend_from_slice(b"c\0\0\0\x04");
}

/// Reports that the statement has ended.
#[inline]
pub fn command_complete(out: &mut Vec<u8>, tag: &str) {
    framed(out, b'C', |out| text(out, tag));
}

/// Reports that a statement is prepared.
#[inline]
pub fn parse_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"1\0\0\0\x04");
}

/// Reports that a portal exists.
#[inline]
pub fn bind_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"2\0\0\0\x04");
}

/// Reports that a statement or portal is removed.
pub fn close_complete(out: &mut Vec<u8>) {
    out.extend_from_slice(b"3\0\0\0\x04");
}

/// Reports that there will be no rows.
pub fn no_data(out: &mut Vec<u8>) {
    out.extend_from_slice(b"n\0\0\0\x04");
}

/// Reports that the text had no statement.
pub fn empty_query(out: &mut Vec<u8>) {
    out.extend_from_slice(b"I\0\0\0\x04");
}

/// Reports that the portal has more rows.
pub fn portal_suspended(out: &mut Vec<u8>) {
    out.extend_from_slice(b"s\0\0\0\x04");
}

/// Reports the end of a query or group, and the state of the transaction.
#[inline]
pub fn ready_for_query(out: &mut Vec<u8>, status: Status) {
    let status = match status {
        Status::Idle => b'I',
        Status::Open => b'T',
        Status::Failed => b'E',
    };
    out.extend_from_slice(&[b'Z', 0, 0, 0, 5, status]);
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ermine_sql::SqlState;
    use pgwire::messages::{DecodeContext, PgWireBackendMessage, ProtocolVersion};

    use super::*;

    /// Returns the messages as pgwire reads them.
    fn read(out: &[u8]) -> Vec<String> {
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
        context.awaiting_frontend_ssl = false;
        let mut bytes = BytesMut::from(out);
        let mut read = Vec::new();
        while let Some(message) = PgWireBackendMessage::decode(&mut bytes, &context).unwrap() {
            read.push(format!("{message:?}"));
        }
        assert!(bytes.is_empty());
        read
    }

    #[test]
    fn pgwire_reads_how_a_session_begins() {
        let mut out = Vec::new();
        negotiate_protocol_version(&mut out, &["_pq_.a".to_owned(), "_pq_.b".to_owned()]);
        authentication_sasl(&mut out, &["SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"]);
        authentication_sasl_continue(&mut out, "r=1,s=2,i=3");
        authentication_sasl_final(&mut out, "v=4");
        authentication_ok(&mut out);
        parameter_status(&mut out, "TimeZone", "U\0TC");
        backend_key_data(&mut out, 7, &[1, 2, 3, 4, 5]);
        notice(&mut out, "WARNING", &SqlError::new(SqlState::SYNTAX_ERROR, "a"));
        parameter_description(&mut out, [23, 25].into_iter());
        parameter_description(&mut out, [].into_iter());
        let wanted = [
            "NegotiateProtocolVersion(NegotiateProtocolVersion { newest_minor_protocol: 196610, unsupported_options: \
             [\"_pq_.a\", \"_pq_.b\"] })",
            "Authentication(SASL([\"SCRAM-SHA-256\", \"SCRAM-SHA-256-PLUS\"]))",
            "Authentication(SASLContinue(b\"r=1,s=2,i=3\"))",
            "Authentication(SASLFinal(b\"v=4\"))",
            "Authentication(Ok)",
            "ParameterStatus(ParameterStatus { name: \"TimeZone\", value: \"UTC\" })",
            "BackendKeyData(BackendKeyData { pid: 7, secret_key: Bytes(b\"\\x01\\x02\\x03\\x04\\x05\") })",
            "NoticeResponse(NoticeResponse { fields: [(83, \"WARNING\"), (86, \"WARNING\"), (67, \"42601\"), \
             (77, \"a\")] })",
            "ParameterDescription(ParameterDescription { types: [23, 25] })",
            "ParameterDescription(ParameterDescription { types: [] })",
        ];
        assert_eq!(read(&out), wanted);
    }

    #[test]
    fn pgwire_reads_what_answers_queries() {
        let mut out = Vec::new();
        parse_complete(&mut out);
        bind_complete(&mut out);
        close_complete(&mut out);
        let field =
            Field { name: "n", source: (7, 2), type_oid: 23, type_length: 4, modifier: -1, format: Format::Binary };
        row_description(&mut out, [field].into_iter());
        no_data(&mut out);
        data_row(&mut out, 2, |out| {
            null(out);
            value(out, |out| out.extend(b"abc"));
        });
        copy_in_response(&mut out, Format::Binary, 2);
        copy_out_response(&mut out, Format::Text, 1);
        copy_data(&mut out, b"a\n");
        copy_done(&mut out);
        portal_suspended(&mut out);
        command_complete(&mut out, "SELECT 1");
        empty_query(&mut out);
        error(&mut out, "ERROR", &SqlError::new(SqlState::SYNTAX_ERROR, "a\0b").hint("c").at(Some(3)));
        ready_for_query(&mut out, Status::Failed);

        let wanted = [
            "ParseComplete(ParseComplete)",
            "BindComplete(BindComplete)",
            "CloseComplete(CloseComplete)",
            "RowDescription(RowDescription { fields: [FieldDescription { name: \"n\", table_id: 7, column_id: 2, \
             type_id: 23, type_size: 4, type_modifier: -1, format_code: 1 }] })",
            "NoData(NoData)",
            "DataRow(DataRow { data: b\"\\xff\\xff\\xff\\xff\\0\\0\\0\\x03abc\", field_count: 2 })",
            "CopyInResponse(CopyInResponse { format: 1, columns: 2, column_formats: [1, 1] })",
            "CopyOutResponse(CopyOutResponse { format: 0, columns: 1, column_formats: [0] })",
            "CopyData(CopyData { data: b\"a\\n\" })",
            "CopyDone(CopyDone)",
            "PortalSuspended(PortalSuspended)",
            "CommandComplete(CommandComplete { tag: \"SELECT 1\" })",
            "EmptyQueryResponse(EmptyQueryResponse)",
            "ErrorResponse(ErrorResponse { fields: [(83, \"ERROR\"), (86, \"ERROR\"), (67, \"42601\"), (77, \"ab\"), \
             (72, \"c\"), (80, \"3\")] })",
            "ReadyForQuery(ReadyForQuery { status: Error })",
        ];
        assert_eq!(read(&out), wanted);
    }
}
