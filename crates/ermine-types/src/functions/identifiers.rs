//! `parse_ident`, and `unistr`: the parts of a qualified name, and escaped characters of Unicode.

use crate::{
    Array, Scalar, SqlType, Value,
    error::{Result, SqlError, SqlState},
    space::is_space,
};

use super::{Table, arguments};

fn parse_ident(text: &str, is_strict: bool) -> Result<Value> {
    let invalid =
        || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("string is not a valid identifier: \"{text}\""));
    let is_start = |first: char| first == '_' || first.is_ascii_alphabetic() || !first.is_ascii();
    let is_part = |next: char| is_start(next) || next.is_ascii_digit() || next == '$';
    let (mut parts, mut is_behind_dot) = (Vec::new(), false);
    let mut rest = text.trim_start_matches(is_space);
    loop {
        let mut is_missing = true;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut part = String::new();
            let mut inner = quoted;
            loop {
                let end = inner.find('"').ok_or_else(|| invalid().detail("String has unclosed double quotes."))?;
                part.push_str(&inner[..end]);
                inner = &inner[end + 1..];
                let Some(behind) = inner.strip_prefix('"') else { break };
                part.push('"');
                inner = behind;
            }
            if part.is_empty() {
                return Err(invalid().detail("Quoted identifier must not be empty."));
            }
            parts.push(Value::from(part));
            (rest, is_missing) = (inner, false);
        } else if rest.starts_with(is_start) {
            let (part, behind) = rest.split_at(rest.find(|next| !is_part(next)).unwrap_or(rest.len()));
            parts.push(Value::from(part.to_ascii_lowercase()));
            (rest, is_missing) = (behind, false);
        }
        if is_missing {
            return Err(match () {
                () if rest.starts_with('.') => invalid().detail("No valid identifier before \".\"."),
                () if is_behind_dot => invalid().detail("No valid identifier after \".\"."),
                () => invalid(),
            });
        }
        rest = rest.trim_start_matches(is_space);
        match rest.strip_prefix('.') {
            Some(behind) => (rest, is_behind_dot) = (behind.trim_start_matches(is_space), true),
            None if rest.is_empty() || !is_strict => break,
            None => return Err(invalid()),
        }
    }
    Ok(Value::array(Array::new(Scalar::Text, parts)))
}

fn invalid_pair() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode surrogate pair")
}

/// Replaces `\XXXX`, `\+XXXXXX`, `\uXXXX` and `\UXXXXXXXX` by characters, and two backslashes by one.
fn unistr(text: &str) -> Result<Value> {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut high) = (text, None::<u32>);
    while let Some(at) = rest.find('\\') {
        if at > 0 && high.is_some() {
            return Err(invalid_pair());
        }
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('\\') {
            if high.is_some() {
                return Err(invalid_pair());
            }
            out.push('\\');
            rest = behind;
            continue;
        }
        let (skipped, width) = match rest.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let digits =
            rest.get(skipped..skipped + width).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).ok_or_else(|| {
            SqlError::new(SqlState::SYNTAX_ERROR, "invalid Unicode escape")
                .hint("Unicode escapes must be \\XXXX, \\+XXXXXX, \\uXXXX, or \\UXXXXXXXX.")
        })?;
        rest = &rest[skipped + width..];
        let code = match (high.take(), code) {
            (None, 0xd800..=0xdbff) => {
                high = Some(code);
                continue;
            }
            (None, 0xdc00..=0xdfff) => return Err(invalid_pair()),
            (None, code) => code,
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff),
            (Some(_), _) => return Err(invalid_pair()),
        };
        let character = char::from_u32(code).filter(|character| *character != '\0').ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid Unicode code point: {code:04X}"))
        })?;
        out.push(character);
    }
    if high.is_some() {
        return Err(invalid_pair());
    }
    out.push_str(rest);
    Ok(out.into())
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    table
        .add("parse_ident", &[T::TEXT, T::BOOL], T::TEXT.array(), |arguments, _| match arguments {
            [Value::Text(text)] => parse_ident(text, true),
            [Value::Text(text), Value::Bool(is_strict)] => parse_ident(text, *is_strict),
            _ => Err(crate::operators::mismatch()),
        })
        .optional(1);
    table.add("unistr", &[T::TEXT], T::TEXT, |arguments, _| arguments!(arguments, [Value::Text(text)] => unistr(text)));
}
