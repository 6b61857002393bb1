//! Operators of texts and bytes: concatenation and matching.

use crate::{
    Environment, Scalar, SqlType, Value,
    error::Result,
    functions::{
        pattern,
        posix::{Flags, Posix},
        resolution::{Outcome, Parameter, of},
    },
    text,
};

use super::{Tables, take};

fn concatenate(left: &Value, right: &Value, environment: &Environment) -> Result<Value> {
    let mut out = String::new();
    for value in [left, right] {
        match value {
            // As in casts to text, not as in results.
            Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
            // Writing to a string does not fail.
            Value::Inet(inet) => inet.write_whole(&mut out).unwrap_or_default(),
            value => text::write(value, value.natural_type().unwrap_or(SqlType::TEXT), environment, &mut out),
        }
    }
    Ok(out.into())
}

fn concatenate_bytes(left: &Value, right: &Value, _: &Environment) -> Result<Value> {
    take!(left => Value::Bytea(left), right => Value::Bytea(right) =>
        Ok(Value::Bytea([&**left, &**right].concat().into())))
}

fn matches(left: &Value, right: &Value, test: impl FnOnce(&str, &str) -> Result<bool>) -> Result<Value> {
    take!(left => Value::Text(left) | Value::Char(left), right => Value::Text(right) =>
        test(left, right).map(Value::Bool))
}

/// Whether bytes match a pattern of bytes: each byte is taken for the character with its number.
fn like_bytes(left: &Value, right: &Value, environment: &Environment) -> Result<bool> {
    environment.memory.check(2 * (left.bytes() + right.bytes()))?;
    let characters = |bytes: &[u8]| bytes.iter().map(|&byte| char::from(byte)).collect::<String>();
    match (left, right) {
        (Value::Bytea(left), Value::Bytea(right)) => {
            pattern::like(&characters(left), &characters(right), ESCAPE, environment)
        }
        _ => Err(super::mismatch()),
    }
}

const ESCAPE: Option<char> = Some('\\');

/// Whether a text matches a regular expression, or with `NEGATED` does not.
fn matches_posix<const IGNORE_CASE: bool, const IS_ASCII: bool, const NEGATED: bool>(
    left: &Value,
    right: &Value,
    _: &Environment,
) -> Result<Value> {
    let flags = Flags { ignore_case: IGNORE_CASE, is_ascii: IS_ASCII, ..Flags::default() };
    matches(left, right, |text, pattern| Ok(Posix::new(pattern, flags)?.is_match(text) != NEGATED))
}

pub(super) fn register(tables: &mut Tables) {
    use SqlType as T;
    tables.binary("||", T::TEXT, T::TEXT, T::TEXT, concatenate);
    tables.add("||", of(Scalar::Text), Parameter::NonArray, Outcome::Is(T::TEXT), concatenate);
    tables.add("||", Parameter::NonArray, of(Scalar::Text), Outcome::Is(T::TEXT), concatenate);
    tables.binary("||", T::BYTEA, T::BYTEA, T::BYTEA, concatenate_bytes);
    let b = T::BYTEA;
    tables.binary("~~", b, b, T::BOOL, |l, r, e| like_bytes(l, r, e).map(Value::Bool));
    tables.binary("!~~", b, b, T::BOOL, |l, r, e| like_bytes(l, r, e).map(|found| Value::Bool(!found)));
    // The padding of char(n) counts here, unlike in comparisons, so it has rows of its own.
    for ty in [T::TEXT, T::CHAR, T::NAME] {
        tables.binary("~~", ty, T::TEXT, T::BOOL, |l, r, e| matches(l, r, |l, r| pattern::like(l, r, ESCAPE, e)));
        tables.binary("!~~", ty, T::TEXT, T::BOOL, |l, r, e| {
            matches(l, r, |l, r| pattern::like(l, r, ESCAPE, e).map(|found| !found))
        });
        tables.matching(
            "~~*",
            ty,
            |l, r, e| matches(l, r, |l, r| pattern::ilike(l, r, ESCAPE, e)),
            |l, r, e| matches(l, r, |l, r| pattern::ilike_in_c(l, r, ESCAPE, e)),
        );
        tables.matching(
            "!~~*",
            ty,
            |l, r, e| matches(l, r, |l, r| pattern::ilike(l, r, ESCAPE, e).map(|found| !found)),
            |l, r, e| matches(l, r, |l, r| pattern::ilike_in_c(l, r, ESCAPE, e).map(|found| !found)),
        );
        tables.matching("~", ty, matches_posix::<false, false, false>, matches_posix::<false, true, false>);
        tables.matching("~*", ty, matches_posix::<true, false, false>, matches_posix::<true, true, false>);
        tables.matching("!~", ty, matches_posix::<false, false, true>, matches_posix::<false, true, true>);
        tables.matching("!~*", ty, matches_posix::<true, false, true>, matches_posix::<true, true, true>);
    }
    tables.binary("^@", T::TEXT, T::TEXT, T::BOOL, |l, r, _| matches(l, r, |l, r| Ok(l.starts_with(r))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::tests::apply;

    #[test]
    fn texts_are_joined_and_matched() {
        let text = SqlType::TEXT;
        for (left, operator, right, expected) in [
            ((text, "a"), "||", (text, "b"), "ab"),
            ((text, "a"), "||", (SqlType::INT4, "1"), "a1"),
            ((SqlType::VARCHAR, "a"), "||", (SqlType::VARCHAR, "1"), "a1"),
            ((text, "abc"), "~~", (text, "a%"), "t"),
            ((text, "abc"), "!~~*", (text, "A%"), "f"),
            ((text, "abc"), "~", (text, "^a.c$"), "t"),
            ((text, "abc"), "~*", (text, "B"), "t"),
            ((text, "a\nc"), "~", (text, "a.c"), "t"),
            ((SqlType::BYTEA, "\\x61ff"), "~~", (SqlType::BYTEA, "a_"), "t"),
            ((SqlType::BYTEA, "\\x01"), "||", (SqlType::BYTEA, "\\x02"), "\\x0102"),
        ] {
            assert_eq!(apply(left, operator, right).unwrap(), expected, "{left:?} {operator} {right:?}");
        }
        assert_eq!(apply((text, "a"), "~", (text, "(")).unwrap_err().state().0, "2201B");
    }
}
