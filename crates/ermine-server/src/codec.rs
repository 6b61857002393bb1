//! Values in the forms in which clients write and read them. All that the server depends on of types is here, and here
//! it comes from [`ermine_sql::types`].

use ermine_sql::{
    Result, SqlError, SqlState,
    types::{Environment, SqlType, Value, binary, text},
};

/// Parameters have no modifier.
const NO_MODIFIER: i32 = -1;

/// Returns the oid of a type.
pub fn oid(ty: SqlType) -> u32 {
    ty.oid()
}

/// Returns the type with an oid.
pub fn type_of(oid: u32, environment: &Environment) -> Option<SqlType> {
    environment.type_of_oid(oid)
}

/// Whether a statement has created a type.
pub fn is_user_type(ty: SqlType) -> bool {
    ty.created().is_some()
}

/// Returns the number of bytes of a type's values; -1 if it varies.
pub fn length(ty: SqlType) -> i16 {
    ty.typlen()
}

/// Parses a value from its text.
#[inline]
pub fn parse_text(ty: SqlType, bytes: &[u8], environment: &Environment) -> Result<Value> {
    text::parse(ty, NO_MODIFIER, utf8(bytes)?, environment)
}

/// Reads a value from its binary form.
#[inline]
pub fn read_binary(ty: SqlType, bytes: &[u8], environment: &Environment) -> Result<Value> {
    binary::read(ty, NO_MODIFIER, bytes, environment)
}

/// Appends the text of a value that is not NULL.
#[inline]
pub fn write_text(value: &Value, ty: SqlType, environment: &Environment, out: &mut String) {
    text::write(value, ty, environment, out);
}

/// Appends the binary form of a value that is not NULL.
#[inline]
pub fn write_binary(value: &Value, ty: SqlType, environment: &Environment, out: &mut Vec<u8>) {
    binary::write(value, ty, environment, out);
}

/// Returns bytes from a client as text, if they are UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    let invalid = |byte: u8| {
        let what = format!("invalid byte sequence for encoding \"UTF8\": 0x{byte:02x}");
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, what)
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => Err(invalid(0)),
        Ok(text) => Ok(text),
        Err(error) => Err(invalid(bytes[error.valid_up_to()])),
    }
}
