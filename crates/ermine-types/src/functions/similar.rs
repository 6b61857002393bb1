//! Patterns of SQL (`SIMILAR TO`) as regular expressions.

use crate::{
    Environment, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{Table, regexp::substring_by_pattern};

/// Converts a pattern; without an escape character, `\` is one, and an empty one is none. Two quotes behind an escape
/// character enclose the part that `substring` returns: each of the three parts matches as a whole.
fn to_regexp(pattern: &str, escape: Option<&str>) -> Result<String> {
    let mut characters = escape.unwrap_or("\\").chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .hint("Escape string must be empty or one character."));
    }
    let mut out = String::from("^(?:");
    let (mut is_escaped, mut is_in_class, mut quotes) = (false, false, 0);
    for character in pattern.chars() {
        match character {
            '"' if is_escaped && !is_in_class => {
                out.push_str(match quotes {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        let message =
                            "SQL regular expression may not contain more than two escape-double-quote separators";
                        return Err(SqlError::new(SqlState("2200C"), message));
                    }
                });
                (quotes, is_escaped) = (quotes + 1, false);
            }
            character if is_escaped => {
                out.extend(['\\', character]);
                is_escaped = false;
            }
            character if Some(character) == escape => is_escaped = true,
            character if is_in_class => {
                out.push_str(if character == '\\' { "\\" } else { "" });
                out.push(character);
                is_in_class = character != ']';
            }
            '[' => {
                out.push('[');
                is_in_class = true;
            }
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '\\' | '.' | '^' | '$' => out.extend(['\\', character]),
            character => out.push(character),
        }
    }
    out.push_str(")$");
    Ok(out)
}

fn convert(arguments: &[Value], _: &Environment) -> Result<Value> {
    match arguments {
        [Value::Text(pattern)] | [Value::Text(pattern), Value::Null] => to_regexp(pattern, None).map(Value::from),
        [Value::Text(pattern), Value::Text(escape)] => to_regexp(pattern, Some(escape)).map(Value::from),
        _ => Ok(Value::Null),
    }
}

fn substring<const IS_ASCII: bool>(arguments: &[Value], environment: &Environment) -> Result<Value> {
    let [Value::Text(text), Value::Text(pattern), Value::Text(escape)] = arguments else {
        return Err(crate::operators::mismatch());
    };
    substring_by_pattern(text, &to_regexp(pattern, Some(escape))?, IS_ASCII, environment)
}

pub(super) fn register(table: &mut Table) {
    let t = SqlType::TEXT;
    table.add("similar_to_escape", &[t, t], t, convert).optional(1);
    table.add("similar_escape", &[t, t], t, convert).accepts_null();
    table.add("substring", &[t, t, t], t, substring::<false>).in_c(substring::<true>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn patterns_of_sql_are_regular_expressions() {
        for (pattern, escape, expected) in [
            ("a%_(b|c)", None, "^(?:a.*.(?:b|c))$"),
            ("a\\%.^$", None, "^(?:a\\%\\.\\^\\$)$"),
            ("a#%[a\\%_]", Some("#"), "^(?:a\\%[a\\\\%_])$"),
            ("a#\"b#\"c", Some("#"), "^(?:a){1,1}?(b){1,1}(?:c)$"),
            ("a\\d", Some(""), "^(?:a\\\\d)$"),
        ] {
            assert_eq!(to_regexp(pattern, escape).unwrap(), expected, "{pattern}");
        }
        assert!(to_regexp("a", Some("ab")).is_err());
        assert_eq!(to_regexp("#\"#\"#\"", Some("#")).unwrap_err().state().0, "2200C");
        let t = SqlType::TEXT;
        assert_eq!(call("substring", &[(t, "abcdefg"), (t, "a#\"(b_d)#\"%"), (t, "#")]).unwrap(), "bcd");
        assert_eq!(call("substring", &[(t, "abcdefg"), (t, "#\"(b_d)#\"%"), (t, "#")]).unwrap(), "NULL");
    }
}
