//! Functions of texts with patterns: regular expressions, and the escapes of `LIKE`.

use crate::{
    Array, Environment, Scalar, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{
    Table, pattern,
    posix::{self, Flags, Posix},
    sets::split_text,
    strings::{LENGTH_MAX, offset, too_long, two},
};

/// Which matches are replaced: from a character on, counted from 1, the one with a number, or all.
#[derive(Clone, Copy)]
struct Places {
    start: i32,
    /// 0: all.
    number: i32,
}

/// Returns flags; a text of digits was probably meant for the start.
fn flags_of(letters: &str, is_ascii: bool) -> Result<Flags> {
    Flags::parse(letters, is_ascii).map_err(|error| match letters.starts_with(|first: char| first.is_ascii_digit()) {
        true => error.hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to integer \
             explicitly.",
        ),
        false => error,
    })
}

fn regexp_replace(
    [text, pattern, replacement]: [&str; 3],
    flags: Flags,
    Places { start, number }: Places,
    environment: &Environment,
) -> Result<Value> {
    let not_in_range = |name, value| {
        let message = format!("invalid value for parameter \"{name}\": {value}");
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
    };
    let start = usize::try_from(start).ok().filter(|&start| start > 0).ok_or_else(|| not_in_range("start", start))?;
    let number = u32::try_from(number).map_err(|_| not_in_range("n", number))?;
    let regex = Posix::new(pattern, flags)?;
    if text.chars().count() < start - 1 {
        return Ok(text.into());
    }
    let mut out = String::new();
    let groups_in_new = replacement.matches('\\').count();
    let (mut end, mut from, mut found_so_far) = (0, offset(text, start - 1), 0);
    while from <= text.len()
        && let Some(groups) = regex.find(text, from, &|| environment.check())?
        && let Some(Some(found)) = groups.first()
    {
        // Behind an empty match, the search goes on one character further.
        let step = if found.is_empty() { text[found.end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
        from = found.end + step;
        found_so_far += 1;
        if number > 0 && found_so_far < number {
            continue;
        }
        out.push_str(&text[end..found.start]);
        // The whole match is the longest group.
        let more = replacement.len() + groups_in_new.saturating_mul(found.len());
        if out.len().saturating_add(more) > LENGTH_MAX {
            return Err(too_long());
        }
        environment.memory.check(out.len() + more)?;
        posix::expand(replacement, text, &groups, &mut out);
        end = found.end;
        if number > 0 {
            break;
        }
    }
    out.push_str(&text[end..]);
    Ok(out.into())
}

fn regexp_match(text: &str, pattern: &str, flags: Flags, environment: &Environment) -> Result<Value> {
    if flags.is_global {
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "regexp_match() does not support the \"global\" option",
        )
        .hint("Use the regexp_matches function instead."));
    }
    let regex = Posix::new(pattern, flags)?;
    let Some(groups) = regex.find(text, 0, &|| environment.check())? else { return Ok(Value::Null) };
    // The groups, or the whole match if there are none.
    let groups = groups.into_iter().skip(usize::from(regex.groups() > 0));
    let groups = groups.map(|group| group.map_or(Value::Null, |group| text[group].into()));
    Ok(Value::array(Array::new(Scalar::Text, groups.collect())))
}

/// Returns the part of a text that matches, or that its first group matches.
pub(super) fn substring_by_pattern(
    text: &str,
    pattern: &str,
    is_ascii: bool,
    environment: &Environment,
) -> Result<Value> {
    let flags = Flags { is_ascii, ..Flags::default() };
    let regex = Posix::new(pattern, flags)?;
    let Some(mut groups) = regex.find(text, 0, &|| environment.check())? else { return Ok(Value::Null) };
    let found = groups.swap_remove(usize::from(regex.groups() > 0));
    Ok(found.map_or(Value::Null, |found| text[found].into()))
}

/// The functions of SQL; `IS_ASCII`: under the collation C.
fn substring<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    two(arguments, |text, pattern| substring_by_pattern(text, pattern, IS_ASCII, environment))
}

fn replace<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let ([Value::Text(text), Value::Text(pattern), Value::Text(new)]
    | [Value::Text(text), Value::Text(pattern), Value::Text(new), Value::Text(_)]) = arguments
    else {
        return Err(crate::operators::mismatch());
    };
    let letters = if let Some(Value::Text(letters)) = arguments.get(3) { letters } else { "" };
    let flags = flags_of(letters, IS_ASCII)?;
    let places = Places { start: 1, number: if flags.is_global { 0 } else { 1 } };
    regexp_replace([text, pattern, new], flags, places, environment)
}

fn replace_from<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [Value::Text(text), Value::Text(pattern), Value::Text(new), Value::Int4(start), rest @ ..] = arguments else {
        return Err(crate::operators::mismatch());
    };
    let (number, letters) = match rest {
        [] => (1, ""),
        [Value::Int4(number)] => (*number, ""),
        [Value::Int4(number), Value::Text(letters)] => (*number, &**letters),
        _ => return Err(crate::operators::mismatch()),
    };
    let flags = Flags::parse(letters, IS_ASCII)?;
    regexp_replace([text, pattern, new], flags, Places { start: *start, number }, environment)
}

fn first_match<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let (text, pattern, letters) = match arguments {
        [Value::Text(text), Value::Text(pattern)] => (text, pattern, ""),
        [Value::Text(text), Value::Text(pattern), Value::Text(letters)] => (text, pattern, &**letters),
        _ => return Err(crate::operators::mismatch()),
    };
    regexp_match(text, pattern, Flags::parse(letters, IS_ASCII)?, environment)
}

fn split<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let parts = split_text(arguments, IS_ASCII, "regexp_split_to_array", environment)?;
    Ok(Value::array(Array::new(Scalar::Text, parts)))
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (t, i) = (T::TEXT, T::INT4);
    table.add("substring", &[t, t], t, substring::<false>).in_c(substring::<true>);
    table.add("regexp_replace", &[t, t, t, t], t, replace::<false>).in_c(replace::<true>).optional(1);
    table.add("regexp_replace", &[t, t, t, i, i, t], t, replace_from::<false>).in_c(replace_from::<true>).optional(2);
    table.add("regexp_match", &[t, t, t], t.array(), first_match::<false>).in_c(first_match::<true>).optional(1);
    table.add("regexp_split_to_array", &[t, t, t], t.array(), split::<false>).in_c(split::<true>).optional(1);
    table.add("like_escape", &[t, t], t, |arguments, _| {
        two(arguments, |pattern, escape| pattern::like_escape(pattern, escape).map(Value::from))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn matches_are_replaced_as_in_postgresql() {
        let (t, i) = (SqlType::TEXT, SqlType::INT4);
        for (arguments, expected) in [
            (&[(t, "Thomas"), (t, ".[mN]a."), (t, "M")][..], "ThM"),
            (&[(t, "foobarbaz"), (t, "b(..)"), (t, "X\\1Y"), (t, "g")], "fooXarYXazY"),
            (&[(t, "foobarbaz"), (t, "b.."), (t, "X"), (i, "5")], "foobarX"),
            (&[(t, "A PostgreSQL function"), (t, "a|e|i|o|u"), (t, "X"), (i, "1"), (i, "3")], "A PostgreSQL fXnction"),
            (
                &[(t, "A PostgreSQL function"), (t, "a|e|i|o|u"), (t, "X"), (i, "1"), (i, "0"), (t, "i")],
                "X PXstgrXSQL fXnctXXn",
            ),
            (&[(t, "abc"), (t, ""), (t, "-"), (i, "2"), (i, "0")], "a-b-c-"),
            (&[(t, "abc"), (t, "$"), (t, "-"), (i, "9")], "abc"),
            (&[(t, "abc"), (t, "$"), (t, "-"), (i, "4")], "abc-"),
        ] {
            assert_eq!(call("regexp_replace", arguments).unwrap(), expected, "{arguments:?}");
        }
        let arguments = [(t, "a"), (t, "a"), (t, "b"), (i, "0")];
        assert_eq!(
            call("regexp_replace", &arguments).unwrap_err().report().message,
            "invalid value for parameter \"start\": 0"
        );
    }
}
