//! Conversions between texts and their bytes: `convert_to`, `convert_from`, `convert`. The only encoding is UTF-8.

use crate::{
    SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{Table, arguments, strings::count};

/// Fails for the name of another encoding.
fn check_encoding(name: &str, role: &str) -> Result<()> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match &*plain {
        "utf8" | "unicode" => Ok(()),
        "sqlascii" | "latin1" | "latin9" | "win1252" | "iso88591" | "iso885915" | "eucjp" | "sjis" | "gbk" | "big5" => {
            Err(SqlError::unsupported(format_args!("the encoding {name}")))
        }
        _ => {
            let message = format!("invalid {role} encoding name \"{name}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Returns the text of bytes.
fn decode(bytes: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| {
        let at =
            std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |text| text.find('\0').unwrap_or(0));
        // As many bytes as the first one announces.
        let length = match bytes.get(at) {
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(0xc0..) => 2,
            _ => 1,
        };
        let shown: Vec<_> = bytes[at..].iter().take(length).map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
        SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message)
    })
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (t, b, n) = (T::TEXT, T::BYTEA, T::NAME);
    table.add("convert_to", &[t, n], b, |arguments, _| {
        arguments!(arguments, [Value::Text(text), Value::Text(name)] => {
            check_encoding(name, "destination")?;
            Ok(Value::Bytea(text.as_bytes().into()))
        })
    });
    table.add("convert_from", &[b, n], t, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Text(name)] => {
            check_encoding(name, "source")?;
            Ok(decode(bytes)?.into())
        })
    });
    table.add("convert", &[b, n, n], b, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Text(from), Value::Text(to)] => {
            check_encoding(from, "source")?;
            check_encoding(to, "destination")?;
            Ok(Value::Bytea(decode(bytes)?.as_bytes().into()))
        })
    });
    table.add("length", &[b, n], T::INT4, |arguments, _| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Text(name)] => {
            check_encoding(name, "source")?;
            count(decode(bytes)?.chars().count())
        })
    });
}
