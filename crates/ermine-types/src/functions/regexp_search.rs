//! Functions that find the matches of regular expressions: `regexp_like`, `regexp_count`, `regexp_instr`,
//! `regexp_substr`.

use std::ops::Range;

use crate::{
    Environment, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{
    Table,
    posix::{Flags, Groups, Posix},
    strings::offset,
};

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Returns a parameter if it is in its range.
fn checked(name: &str, value: i32, range: impl std::ops::RangeBounds<i32>) -> Result<usize> {
    match range.contains(&value) {
        true => Ok(value as usize),
        false => Err(invalid(format!("invalid value for parameter \"{name}\": {value}"))),
    }
}

/// The arguments of a call; those that are left out have their defaults.
struct Call<'a> {
    text: &'a str,
    pattern: &'a str,
    numbers: Vec<i32>,
    letters: &'a str,
    group: i32,
}

impl<'a> Call<'a> {
    /// Returns the text, the pattern, numbers, flags, and the number of a group.
    fn of(arguments: &'a [Value]) -> Result<Self> {
        let [Value::Text(text), Value::Text(pattern), rest @ ..] = arguments else {
            return Err(crate::operators::mismatch());
        };
        let mut call = Self { text, pattern, numbers: Vec::new(), letters: "", group: 0 };
        let mut is_behind = false;
        for argument in rest {
            match argument {
                Value::Text(letters) => (call.letters, is_behind) = (letters, true),
                Value::Int4(group) if is_behind => call.group = *group,
                Value::Int4(number) => call.numbers.push(*number),
                _ => return Err(crate::operators::mismatch()),
            }
        }
        Ok(call)
    }

    fn number(&self, at: usize, usual: i32) -> i32 {
        self.numbers.get(at).copied().unwrap_or(usual)
    }

    fn regex(&self, function: &str, is_ascii: bool) -> Result<std::rc::Rc<Posix>> {
        let flags = Flags::parse(self.letters, is_ascii)?;
        if flags.is_global {
            return Err(invalid(format!("{function}() does not support the \"global\" option")));
        }
        Posix::new(self.pattern, flags)
    }

    /// Returns the match with a number, of those that begin at a character or later, counted from 1, and the number of
    /// matches up to it.
    fn find(
        &self,
        regex: &Posix,
        (start, number): (usize, usize),
        environment: &Environment,
    ) -> Result<(Option<Groups>, usize)> {
        let text = self.text;
        if text.chars().count() < start - 1 {
            return Ok((None, 0));
        }
        let (mut from, mut count) = (offset(text, start - 1), 0);
        while from <= text.len()
            && let Some(groups) = regex.find(text, from, &|| environment.check())?
            && let Some(Some(found)) = groups.first()
        {
            count += 1;
            if count == number {
                return Ok((Some(groups), count));
            }
            // Behind an empty match, the search goes on one character further.
            let step = if found.is_empty() { text[found.end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
            from = found.end + step;
        }
        Ok((None, count))
    }

    /// Returns the place of a group of a match, or of the whole match.
    fn place(
        &self,
        regex: &Posix,
        places: (usize, usize),
        group: usize,
        environment: &Environment,
    ) -> Result<Option<Range<usize>>> {
        let (found, _) = self.find(regex, places, environment)?;
        let Some(groups) = found else { return Ok(None) };
        // Without groups, the whole match is the first one.
        let group = if group == 1 && regex.groups() == 0 { 0 } else { group };
        Ok(groups.into_iter().nth(group).flatten())
    }
}

fn like<const IS_ASCII: bool>(arguments: &[Value], _: &Environment) -> Result<Value> {
    let call = Call::of(arguments)?;
    Ok(Value::Bool(call.regex("regexp_like", IS_ASCII)?.is_match(call.text)))
}

fn count<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let call = Call::of(arguments)?;
    let start = checked("start", call.number(0, 1), 1..)?;
    let regex = call.regex("regexp_count", IS_ASCII)?;
    let (_, count) = call.find(&regex, (start, usize::MAX), environment)?;
    Ok(Value::Int4(count as i32))
}

fn position<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let call = Call::of(arguments)?;
    let places = (checked("start", call.number(0, 1), 1..)?, checked("n", call.number(1, 1), 1..)?);
    let is_end = checked("endoption", call.number(2, 0), 0..=1)? == 1;
    let group = checked("subexpr", call.group, 0..)?;
    let regex = call.regex("regexp_instr", IS_ASCII)?;
    let place = call.place(&regex, places, group, environment)?;
    let at =
        place.map_or(0, |place| call.text[..if is_end { place.end } else { place.start }].chars().count() as i32 + 1);
    Ok(Value::Int4(at))
}

fn part<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let call = Call::of(arguments)?;
    let places = (checked("start", call.number(0, 1), 1..)?, checked("n", call.number(1, 1), 1..)?);
    let group = checked("subexpr", call.group, 0..)?;
    let regex = call.regex("regexp_substr", IS_ASCII)?;
    let place = call.place(&regex, places, group, environment)?;
    Ok(place.map_or(Value::Null, |place| call.text[place].into()))
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    let (t, i) = (T::TEXT, T::INT4);
    table.add("regexp_like", &[t, t, t], T::BOOL, like::<false>).in_c(like::<true>).optional(1);
    table.add("regexp_count", &[t, t, i, t], i, count::<false>).in_c(count::<true>).optional(2);
    table.add("regexp_instr", &[t, t, i, i, i, t, i], i, position::<false>).in_c(position::<true>).optional(5);
    table.add("regexp_substr", &[t, t, i, i, t, i], t, part::<false>).in_c(part::<true>).optional(4);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn matches_are_counted_and_found() {
        let (t, i) = (SqlType::TEXT, SqlType::INT4);
        for (name, arguments, expected) in [
            ("regexp_like", &[(t, "Steven"), (t, "^ste(v|ph)en$"), (t, "i")][..], "t"),
            ("regexp_count", &[(t, "123123123123"), (t, "123"), (i, "3")], "3"),
            ("regexp_count", &[(t, "abc"), (t, "")], "4"),
            ("regexp_count", &[(t, "abc"), (t, "a"), (i, "9")], "0"),
            ("regexp_instr", &[(t, "h\u{e9}llo"), (t, "l+"), (i, "1"), (i, "1"), (i, "1")], "5"),
            ("regexp_instr", &[(t, "abcabcabc"), (t, "a(b)(c)"), (i, "1"), (i, "2"), (i, "0"), (t, ""), (i, "2")], "6"),
            ("regexp_instr", &[(t, "abc"), (t, "x|(b)"), (i, "1"), (i, "2")], "0"),
            ("regexp_substr", &[(t, "abcabcabc"), (t, "a.c"), (i, "2")], "abc"),
            ("regexp_substr", &[(t, "abcabc"), (t, "a(b|x)"), (i, "1"), (i, "1"), (t, ""), (i, "1")], "b"),
            ("regexp_substr", &[(t, "abc"), (t, "z")], "NULL"),
        ] {
            assert_eq!(call(name, arguments).unwrap(), expected, "{name} {arguments:?}");
        }
        let error = |name: &str, arguments: &[_]| call(name, arguments).unwrap_err().report().message.clone();
        assert_eq!(error("regexp_count", &[(t, "a"), (t, "a"), (i, "0")]), "invalid value for parameter \"start\": 0");
        assert_eq!(
            error("regexp_like", &[(t, "a"), (t, "a"), (t, "g")]),
            "regexp_like() does not support the \"global\" option"
        );
    }
}
