//! Functions of texts.

use md5::{Digest, Md5};

use crate::{
    Array, Environment, Scalar, SqlType, Value,
    error::{Result, SqlError, SqlState},
    functions::resolution::{Outcome, Parameter, of},
    keywords::quote_ident,
    text::{self, bytes},
};

use super::{
    Table, arguments,
    encodings::{decode, encode},
};

/// The maximum length of a text: PostgreSQL's limit on any value.
pub(super) const LENGTH_MAX: usize = (1 << 30) - 1;

pub(super) fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

fn one(arguments: &[Value], function: impl FnOnce(&str) -> Result<Value>) -> Result<Value> {
    arguments!(arguments, [Value::Text(text) | Value::Char(text)] => function(text))
}

pub(super) fn two(arguments: &[Value], function: impl FnOnce(&str, &str) -> Result<Value>) -> Result<Value> {
    arguments!(arguments, [Value::Text(left), Value::Text(right)] => function(left, right))
}

fn with_count(arguments: &[Value], function: impl FnOnce(&str, i32) -> Result<Value>) -> Result<Value> {
    arguments!(arguments, [Value::Text(text), Value::Int4(count)] => function(text, *count))
}

pub(super) fn count(length: usize) -> Result<Value> {
    i32::try_from(length).map(Value::Int4).map_err(|_| too_long())
}

/// Returns the offset of the character with this number, or the end.
pub(super) fn offset(text: &str, characters: usize) -> usize {
    text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at)
}

/// Returns `length` characters from a character on, counted from 1; positions before the first character count too.
fn substring(text: &str, from: i32, length: Option<i32>) -> Result<Value> {
    let first = i64::from(from) - 1;
    let end = match length {
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
        }
        Some(length) => first + i64::from(length),
        None => i64::MAX,
    };
    let start = usize::try_from(first).unwrap_or(0);
    let count = usize::try_from(end).unwrap_or(0).saturating_sub(start);
    let rest = &text[offset(text, start)..];
    Ok(Value::text(&rest[..offset(rest, count)]))
}

fn trim(text: &str, characters: &str, left: bool, right: bool) -> Value {
    let mut cut: Vec<char> = characters.chars().collect();
    cut.sort_unstable();
    let is_cut = |character: char| cut.binary_search(&character).is_ok();
    let text = if left { text.trim_start_matches(is_cut) } else { text };
    Value::text(if right { text.trim_end_matches(is_cut) } else { text })
}

fn trim_arguments(arguments: &[Value], left: bool, right: bool) -> Result<Value> {
    match arguments {
        [Value::Text(text)] => Ok(trim(text, " ", left, right)),
        [Value::Text(text), Value::Text(characters)] => Ok(trim(text, characters, left, right)),
        _ => Err(crate::operators::mismatch()),
    }
}

fn pad(arguments: &[Value], at_left: bool, environment: &Environment) -> Result<Value> {
    let (text, length, fill) = match arguments {
        [Value::Text(text), Value::Int4(length)] => (text, *length, " "),
        [Value::Text(text), Value::Int4(length), Value::Text(fill)] => (text, *length, &**fill),
        _ => return Err(crate::operators::mismatch()),
    };
    let length = usize::try_from(length).unwrap_or(0);
    let own = text.chars().count();
    if own >= length || fill.is_empty() {
        return Ok(Value::text(&text[..offset(text, length)]));
    }
    if length > LENGTH_MAX / 4 {
        return Err(too_long());
    }
    let (times, rest) = ((length - own) / fill.chars().count(), (length - own) % fill.chars().count());
    let rest = &fill[..offset(fill, rest)];
    let bytes = text.len() + times * fill.len() + rest.len();
    environment.memory.check(bytes)?;
    let mut out = String::with_capacity(bytes);
    out.push_str(if at_left { "" } else { text });
    (0..times).for_each(|_| out.push_str(fill));
    out.push_str(rest);
    out.push_str(if at_left { text } else { "" });
    Ok(out.into())
}

fn initcap(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for character in text.chars() {
        if inside {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        inside = character.is_alphanumeric();
    }
    out
}

fn initcap_in_c(text: &str) -> String {
    let mut inside = false;
    let changed = text.chars().map(|character| {
        let was_inside = std::mem::replace(&mut inside, character.is_ascii_alphanumeric());
        if was_inside { character.to_ascii_lowercase() } else { character.to_ascii_uppercase() }
    });
    changed.collect()
}

/// Returns the position of a text in another, counted from 1; 0 if it does not occur.
fn position(text: &str, wanted: &str) -> Result<Value> {
    count(text.find(wanted).map_or(0, |at| text[..at].chars().count() + 1))
}

fn replace(text: &str, from: &str, to: &str, environment: &Environment) -> Result<Value> {
    if from.is_empty() {
        return Ok(text.into());
    }
    let found = text.matches(from).count();
    if text.len() + found.saturating_mul(to.len()) > LENGTH_MAX {
        return Err(too_long());
    }
    environment.memory.check(text.len() + found * to.len())?;
    Ok(text.replace(from, to).into())
}

fn split_part(text: &str, separator: &str, at: i32) -> Result<Value> {
    if at == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let number = at.unsigned_abs() as usize - 1;
    let part = if separator.is_empty() {
        (number == 0).then_some(text)
    } else if at > 0 {
        text.split(separator).nth(number)
    } else {
        text.rsplit(separator).nth(number)
    };
    Ok(part.unwrap_or("").into())
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let into = to.chars().map(Some).chain(std::iter::repeat(None));
    let mut pairs: Vec<_> = from.chars().zip(into).collect();
    // Stable: of several pairs of a character the first counts.
    pairs.sort_by_key(|pair| pair.0);
    pairs.dedup_by_key(|pair| pair.0);
    let new = |character: char| match pairs.binary_search_by_key(&character, |pair| pair.0) {
        Err(_) => Some(character),
        Ok(at) => pairs[at].1,
    };
    text.chars().filter_map(new).collect()
}

fn append(value: &Value, environment: &Environment, out: &mut String) {
    if !value.is_null() {
        text::write(value, value.natural_type().unwrap_or(SqlType::TEXT), environment, out);
    }
}

fn concat(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let mut out = String::new();
    arguments.iter().for_each(|value| append(value, environment, &mut out));
    Ok(out.into())
}

fn concat_ws(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let Some((Value::Text(separator), rest)) = arguments.split_first() else { return Ok(Value::Null) };
    let bytes = rest.iter().map(|value| value.text_bytes() + separator.len()).sum();
    environment.memory.check(bytes)?;
    let mut out = String::new();
    for (at, value) in rest.iter().filter(|value| !value.is_null()).enumerate() {
        out.push_str(if at > 0 { separator } else { "" });
        append(value, environment, &mut out);
    }
    Ok(out.into())
}

/// Quotes a text for use in statements.
pub(crate) fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// `%s`, `%I`, `%L`, `%%`, with positions as in `%2$s`, and widths.
fn format_(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let Some((Value::Text(pattern), values)) = arguments.split_first() else { return Ok(Value::Null) };
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let too_few = || invalid("too few arguments for format()");
    let no_argument = || invalid("format specifies argument 0, but arguments are numbered from 1");
    let mut out = String::new();
    let mut rest = &**pattern;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let length = digits(rest);
        let is_numbered = length > 0 && rest[length..].starts_with('$');
        if is_numbered {
            let number: usize = rest[..length].parse().map_err(|_| invalid("number is out of range"))?;
            next = number.checked_sub(1).ok_or_else(no_argument)?;
            rest = &rest[length + 1..];
        }
        let mut flush_left = rest.starts_with('-');
        rest = rest.strip_prefix('-').unwrap_or(rest);
        let length = digits(rest);
        let mut width: usize = if length == 0 { 0 } else { rest[..length].parse().map_err(|_| too_long())? };
        rest = &rest[length..];
        if let Some(behind) = rest.strip_prefix('*') {
            // The width is an argument: the next one, or the one with a number.
            let length = digits(behind);
            let at = if length > 0 && behind[length..].starts_with('$') {
                let number: usize = behind[..length].parse().map_err(|_| invalid("number is out of range"))?;
                rest = &behind[length + 1..];
                number.checked_sub(1).ok_or_else(no_argument)?
            } else {
                rest = behind;
                next
            };
            let given = width_of(values.get(at).ok_or_else(too_few)?, environment)?;
            flush_left |= given < 0;
            width = given.unsigned_abs() as usize;
            if !is_numbered {
                next = at + 1;
            }
        }
        if width > LENGTH_MAX / 4 {
            return Err(too_long());
        }
        let Some(kind) = rest.chars().next() else {
            return Err(invalid("unterminated format() type specifier").hint("For a single \"%\" use \"%%\"."));
        };
        rest = &rest[kind.len_utf8()..];
        let value = values.get(next).ok_or_else(too_few)?;
        next += 1;
        environment.memory.check(out.len() + width + value.text_bytes())?;
        let mut text = String::new();
        append(value, environment, &mut text);
        let text = match kind {
            's' => text,
            'I' if value.is_null() => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            'I' => quote_ident(&text),
            'L' if value.is_null() => "NULL".into(),
            'L' => quote_literal(&text),
            other => {
                return Err(invalid(&format!("unrecognized format() type specifier \"{other}\""))
                    .hint("For a single \"%\" use \"%%\"."));
            }
        };
        let missing = " ".repeat(width.saturating_sub(text.chars().count()));
        if flush_left {
            out.push_str(&text);
        }
        out.push_str(&missing);
        if !flush_left {
            out.push_str(&text);
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

/// Returns the width that an argument of `format` gives; NULL gives none.
fn width_of(value: &Value, environment: &Environment) -> Result<i32> {
    let mut text = String::new();
    append(value, environment, &mut text);
    match value {
        Value::Null => Ok(0),
        _ => match text::parse(SqlType::INT4, -1, &text, environment)? {
            Value::Int4(width) => Ok(width),
            _ => Ok(0),
        },
    }
}

fn md5_of(bytes: &[u8]) -> Result<Value> {
    let mut out = String::with_capacity(32);
    bytes::write_hex(&Md5::digest(bytes), &mut out).map_err(|_| too_long())?;
    Ok(out.into())
}

fn chr(code: i32) -> Result<Value> {
    let invalid = |message: String| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    match u32::try_from(code) {
        Ok(0) => Err(invalid("null character not permitted".into())),
        Ok(code) => char::from_u32(code)
            .map(|character| Value::text(character.to_string()))
            .ok_or_else(|| invalid(format!("requested character too large for encoding: {code}"))),
        Err(_) => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "character number must be positive")),
    }
}

/// Replaces a part of a text or of bytes; the part is as long as its replacement, unless a length is given.
fn overlay(arguments: &[Value]) -> Result<Value> {
    let (from, length) = match arguments {
        [_, Value::Text(new), Value::Int4(from)] => (*from, new.chars().count() as i32),
        [_, Value::Bytea(new), Value::Int4(from)] => (*from, new.len() as i32),
        [_, _, Value::Int4(from), Value::Int4(length)] => (*from, *length),
        _ => return Err(crate::operators::mismatch()),
    };
    if from <= 0 {
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"));
    }
    let out_of_range = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range");
    let before = from as usize - 1;
    let behind = from.checked_add(length).ok_or_else(out_of_range)?.max(1) as usize - 1;
    match arguments {
        [Value::Text(text), Value::Text(new), ..] => {
            let start: String = text.chars().take(before).collect();
            let end: String = text.chars().skip(behind).collect();
            Ok((start + new + &end).into())
        }
        [Value::Bytea(bytes), Value::Bytea(new), ..] => {
            let (start, end) = (&bytes[..before.min(bytes.len())], &bytes[behind.min(bytes.len())..]);
            Ok(Value::Bytea([start, new, end].concat().into()))
        }
        _ => Err(crate::operators::mismatch()),
    }
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (t, i) = (T::TEXT, T::INT4);
    for name in ["length", "char_length", "character_length"] {
        table.add(name, &[t], i, |arguments, _| one(arguments, |text| count(text.chars().count())));
        // Blanks at the end of char(n) do not count.
        table.add(name, &[T::CHAR], i, |arguments, _| {
            one(arguments, |text| count(text.trim_end_matches(' ').chars().count()))
        });
    }
    for ty in [t, T::CHAR] {
        table.add("octet_length", &[ty], i, |arguments, _| one(arguments, |text| count(text.len())));
    }
    table.add("bit_length", &[t], i, |arguments, _| one(arguments, |text| count(text.len().saturating_mul(8))));
    table
        .add("lower", &[t], t, |arguments, _| one(arguments, |text| Ok(text.to_lowercase().into())))
        .in_c(|arguments, _| one(arguments, |text| Ok(text.to_ascii_lowercase().into())));
    table
        .add("upper", &[t], t, |arguments, _| one(arguments, |text| Ok(text.to_uppercase().into())))
        .in_c(|arguments, _| one(arguments, |text| Ok(text.to_ascii_uppercase().into())));
    table
        .add("initcap", &[t], t, |arguments, _| one(arguments, |text| Ok(initcap(text).into())))
        .in_c(|arguments, _| one(arguments, |text| Ok(initcap_in_c(text).into())));
    for name in ["btrim", "trim"] {
        table.add(name, &[t, t], t, |arguments, _| trim_arguments(arguments, true, true)).optional(1);
    }
    table.add("ltrim", &[t, t], t, |arguments, _| trim_arguments(arguments, true, false)).optional(1);
    table.add("rtrim", &[t, t], t, |arguments, _| trim_arguments(arguments, false, true)).optional(1);
    table.add("lpad", &[t, i, t], t, |arguments, environment| pad(arguments, true, environment)).optional(1);
    table.add("rpad", &[t, i, t], t, |arguments, environment| pad(arguments, false, environment)).optional(1);
    register_parts(table);
    register_composed(table);
    register_encoded(table);
}

fn register_parts(table: &mut Table) {
    let (t, i, b) = (SqlType::TEXT, SqlType::INT4, SqlType::BYTEA);
    for name in ["substring", "substr"] {
        table
            .add(name, &[t, i, i], t, |arguments, _| match arguments {
                [Value::Text(text), Value::Int4(from)] => substring(text, *from, None),
                [Value::Text(text), Value::Int4(from), Value::Int4(length)] => substring(text, *from, Some(*length)),
                _ => Err(crate::operators::mismatch()),
            })
            .optional(1);
    }
    for ty in [t, b] {
        table.add("overlay", &[ty, ty, i, i], ty, |arguments, _| overlay(arguments)).optional(1);
    }
    for name in ["strpos", "position"] {
        table.add(name, &[t, t], i, |arguments, _| two(arguments, position));
    }
    table.add("left", &[t, i], t, |arguments, _| {
        with_count(arguments, |text, count| {
            let kept = if count >= 0 {
                count as usize
            } else {
                text.chars().count().saturating_sub(count.unsigned_abs() as usize)
            };
            Ok(text[..offset(text, kept)].into())
        })
    });
    table.add("right", &[t, i], t, |arguments, _| {
        with_count(arguments, |text, count| {
            let own = text.chars().count();
            let cut = if count >= 0 { own.saturating_sub(count as usize) } else { count.unsigned_abs() as usize };
            Ok(text[offset(text, cut)..].into())
        })
    });
    table.add("replace", &[t, t, t], t, |arguments, environment| {
        arguments!(arguments, [Value::Text(text), Value::Text(from), Value::Text(to)] =>
            replace(text, from, to, environment))
    });
    table.add("translate", &[t, t, t], t, |arguments, _| {
        arguments!(arguments, [Value::Text(text), Value::Text(from), Value::Text(to)] =>
            Ok(translate(text, from, to).into()))
    });
    table.add("reverse", &[t], t, |arguments, _| {
        one(arguments, |text| Ok(text.chars().rev().collect::<String>().into()))
    });
    table.add("repeat", &[t, i], t, |arguments, environment| {
        with_count(arguments, |text, count| {
            let count = usize::try_from(count).unwrap_or(0);
            let length = text.len().saturating_mul(count);
            if length > LENGTH_MAX {
                return Err(too_long());
            }
            environment.memory.check(length)?;
            Ok(text.repeat(count).into())
        })
    });
    table.add("split_part", &[t, t, i], t, |arguments, _| {
        arguments!(arguments, [Value::Text(text), Value::Text(separator), Value::Int4(at)] =>
            split_part(text, separator, *at))
    });
}

fn register_composed(table: &mut Table) {
    use SqlType as T;
    let (t, i, b) = (T::TEXT, T::INT4, T::BYTEA);
    let text_outcome = Outcome::Is(t);
    table.generic("concat", &[Parameter::Any], text_outcome, concat).variadic().accepts_null().stable();
    table
        .generic("concat_ws", &[of(Scalar::Text), Parameter::Any], text_outcome, concat_ws)
        .variadic()
        .accepts_null()
        .stable();
    table.add("format", &[t], t, format_).stable();
    table
        .generic("format", &[of(Scalar::Text), Parameter::Any], text_outcome, format_)
        .variadic()
        .accepts_null()
        .stable();
    table.add("md5", &[t], t, |arguments, _| one(arguments, |text| md5_of(text.as_bytes())));
    table.add("md5", &[b], t, |arguments, _| arguments!(arguments, [Value::Bytea(bytes)] => md5_of(bytes)));
    table.add("starts_with", &[t, t], T::BOOL, |arguments, _| {
        two(arguments, |text, start| Ok(Value::Bool(text.starts_with(start))))
    });
    table.add("ascii", &[t], i, |arguments, _| {
        one(arguments, |text| Ok(Value::Int4(text.chars().next().map_or(0, |first| first as i32))))
    });
    table.add("chr", &[i], t, |arguments, _| arguments!(arguments, [Value::Int4(code)] => chr(*code)));
    table.add(
        "to_hex",
        &[i],
        t,
        |arguments, _| arguments!(arguments, [Value::Int4(number)] => Ok(format!("{number:x}").into())),
    );
    table.add(
        "to_hex",
        &[T::INT8],
        t,
        |arguments, _| arguments!(arguments, [Value::Int8(number)] => Ok(format!("{number:x}").into())),
    );
}

fn register_encoded(table: &mut Table) {
    let (t, b) = (SqlType::TEXT, SqlType::BYTEA);
    table.add("encode", &[b, t], t, |arguments, environment| {
        arguments!(arguments, [Value::Bytea(bytes), Value::Text(name)] => {
            // The size for `escape`; the others take less.
            environment.memory.check(4 * bytes.len())?;
            encode(bytes, name)
        })
    });
    table.add("decode", &[t, t], b, |arguments, _| two(arguments, decode));
    table.add("quote_literal", &[t], t, |arguments, _| one(arguments, |text| Ok(quote_literal(text).into())));
    table.add("quote_ident", &[t], t, |arguments, _| one(arguments, |text| Ok(quote_ident(text).into())));
    table
        .add("quote_nullable", &[t], t, |arguments, _| match arguments {
            [Value::Text(text)] => Ok(quote_literal(text).into()),
            _ => Ok("NULL".into()),
        })
        .accepts_null();
    table
        .add("string_to_array", &[t, t, t], t.array(), |arguments, environment| match arguments {
            [Value::Text(text), separator, null @ ..] => {
                let parts = match separator {
                    Value::Text(separator) if separator.is_empty() => 1,
                    Value::Text(separator) => text.matches(&**separator).count() + 1,
                    _ => text.len(),
                };
                environment.memory.check(text.len() + parts * size_of::<Value>())?;
                let mut parts: Vec<Value> = match separator {
                    _ if text.is_empty() => Vec::new(),
                    Value::Text(separator) if separator.is_empty() => vec![(**text).into()],
                    Value::Text(separator) => text.split(&**separator).map(Value::from).collect(),
                    _ => text.chars().map(|character| Value::text(character.to_string())).collect(),
                };
                // Parts that are equal to the third text are NULL; those of a NULL stay as they are.
                parts.iter_mut().filter(|part| null.contains(part)).for_each(|part| *part = Value::Null);
                Ok(Value::array(Array::new(Scalar::Text, parts)))
            }
            _ => Ok(Value::Null),
        })
        .optional(1)
        .accepts_null();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn texts_are_postgresqls() {
        let (t, i, b) = (SqlType::TEXT, SqlType::INT4, SqlType::BYTEA);
        for (name, arguments, expected) in [
            ("length", &[(t, "h\u{e9}llo")][..], "5"),
            ("length", &[(SqlType::CHAR, "ab  ")], "2"),
            ("octet_length", &[(t, "h\u{e9}")], "3"),
            ("initcap", &[(t, "hi THOMAS")], "Hi Thomas"),
            ("btrim", &[(t, "xyxtrimyyx"), (t, "xyz")], "trim"),
            ("lpad", &[(t, "hi"), (i, "5"), (t, "xy")], "xyxhi"),
            ("rpad", &[(t, "hello"), (i, "2")], "he"),
            ("substr", &[(t, "alphabet"), (i, "3"), (i, "2")], "ph"),
            ("substr", &[(t, "alphabet"), (i, "-1"), (i, "4")], "al"),
            ("substring", &[(t, "Thomas"), (t, "...$")], "mas"),
            ("strpos", &[(t, "high"), (t, "ig")], "2"),
            ("left", &[(t, "abcde"), (i, "-2")], "abc"),
            ("right", &[(t, "abcde"), (i, "2")], "de"),
            ("right", &[(t, "abcde"), (i, "-2")], "cde"),
            ("replace", &[(t, "abcdefabcdef"), (t, "cd"), (t, "XX")], "abXXefabXXef"),
            ("split_part", &[(t, "abc~@~def~@~ghi"), (t, "~@~"), (i, "2")], "def"),
            ("split_part", &[(t, "abc,def,ghi"), (t, ","), (i, "-2")], "def"),
            ("translate", &[(t, "12345"), (t, "143"), (t, "ax")], "a2x5"),
            ("translate", &[(t, "abcd"), (t, "cabac"), (t, "12")], "21d"),
            ("md5", &[(t, "abc")], "900150983cd24fb0d6963f7d28e17f72"),
            ("to_hex", &[(i, "-1")], "ffffffff"),
            ("concat", &[(t, "a"), (i, "1")], "a1"),
            ("concat_ws", &[(t, ","), (i, "1"), (t, "b")], "1,b"),
            (
                "format",
                &[(t, "Hello %s, %1$s %I %L"), (t, "World"), (t, "A b"), (t, "it's")],
                "Hello World, World \"A b\" 'it''s'",
            ),
            ("encode", &[(b, "\\x123400ff"), (t, "base64")], "EjQA/w=="),
            ("decode", &[(t, "EjQA/w=="), (t, "base64")], "\\x123400ff"),
            ("regexp_replace", &[(t, "Thomas"), (t, ".[mN]a."), (t, "M")], "ThM"),
            ("regexp_replace", &[(t, "foobarbaz"), (t, "b(..)"), (t, "X\\1Y"), (t, "g")], "fooXarYXazY"),
            ("regexp_match", &[(t, "foobarbequebaz"), (t, "(bar)(beque)")], "{bar,beque}"),
            ("quote_ident", &[(t, "select")], "\"select\""),
        ] {
            assert_eq!(
                call(name, arguments).unwrap_or_else(|error| error.to_string()),
                expected,
                "{name} {arguments:?}"
            );
        }
        assert!(call("repeat", &[(t, "aaaa"), (i, "2000000000")]).is_err());
        assert!(call("chr", &[(i, "0")]).is_err());
    }

    /// These calls are not interrupted, so their time must not depend on the product of two lengths.
    #[test]
    fn many_characters_are_cut_and_replaced_in_linear_time() {
        let (text, characters) = ("a".repeat(2_000_000), "b".repeat(200_000) + "a");
        assert_eq!(trim(&text, &characters, true, true), Value::text(""));
        assert_eq!(translate(&text, &characters, ""), "");
    }
}
