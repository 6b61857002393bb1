//! Arrays as text: `{1,2,NULL,"a b"}`, `[0:1]={{1,2},{3,4}}`.

use std::fmt::{self, Write};

use crate::{
    Array, Environment, Scalar, SqlType, Value,
    array::{DIMENSIONS_MAX, Dimension},
    error::{Result, SqlError, SqlState},
};

use super::is_space;

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    element: SqlType,
    modifier: i32,
    environment: &'a Environment,
    /// The lengths of the known dimensions; `None` until the first array of that depth has ended.
    lengths: Vec<Option<u32>>,
    elements: Vec<Value>,
}

/// Reads an array.
pub(super) fn parse(element: Scalar, modifier: i32, text: &str, environment: &Environment) -> Result<Array> {
    let mut parser = Parser {
        text,
        rest: text.trim_start_matches(is_space),
        element: SqlType::scalar(element),
        modifier,
        environment,
        lengths: Vec::new(),
        elements: Vec::new(),
    };
    let given = parser.given_dimensions()?;
    if !parser.rest.starts_with('{') {
        return Err(parser.malformed("Array value must start with \"{\" or dimension information."));
    }
    parser.level(0)?;
    if !parser.rest.trim_start_matches(is_space).is_empty() {
        return Err(parser.malformed("Junk after closing right brace."));
    }
    if parser.elements.is_empty() {
        return Ok(Array::new(element, Vec::new()));
    }
    let lengths = parser.lengths.iter().map(|length| length.unwrap_or(0));
    let dimensions: Vec<_> = match &given {
        None => lengths.map(|length| Dimension { length, lower: 1 }).collect(),
        Some(given) if lengths.clone().eq(given.iter().map(|dimension| dimension.length)) => given.clone(),
        Some(_) => return Err(parser.malformed("Specified array dimensions do not match array contents.")),
    };
    let malformed = parser.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.");
    Array::with_dimensions(element, &dimensions, parser.elements).ok_or(malformed)
}

impl Parser<'_> {
    fn malformed(&self, detail: &str) -> SqlError {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{}\"", self.text))
            .detail(detail)
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    /// Parses `[1:2][0:3]=`, if present.
    fn given_dimensions(&mut self) -> Result<Option<Vec<Dimension>>> {
        let mut dimensions = Vec::new();
        while let Some(inner) = self.rest.strip_prefix('[') {
            if dimensions.len() == DIMENSIONS_MAX {
                return Err(too_many_dimensions());
            }
            let Some((bounds, rest)) = inner.split_once(']') else {
                return Err(self.malformed("Missing \"]\" after array dimensions."));
            };
            let (lower, upper) = bounds.split_once(':').unwrap_or(("1", bounds));
            let bound = |text: &str| text.trim_matches(is_space).parse::<i32>().ok();
            let (Some(lower), Some(upper)) = (bound(lower), bound(upper)) else {
                return Err(self.malformed("Missing array dimension value."));
            };
            let length = i64::from(upper) - i64::from(lower) + 1;
            if length <= 0 {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "upper bound cannot be less than lower bound",
                ));
            }
            dimensions.push(Dimension { length: length as u32, lower });
            self.rest = rest.trim_start_matches(is_space);
        }
        if dimensions.is_empty() {
            return Ok(None);
        }
        match self.rest.strip_prefix('=') {
            Some(rest) => self.rest = rest.trim_start_matches(is_space),
            None => return Err(self.malformed("Missing \"=\" after array dimensions.")),
        }
        Ok(Some(dimensions))
    }

    /// Parses the contents of braces; at most six deep.
    fn level(&mut self, depth: usize) -> Result<()> {
        if depth == DIMENSIONS_MAX {
            return Err(too_many_dimensions());
        }
        if self.lengths.len() == depth {
            if !self.elements.is_empty() {
                return Err(self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions."));
            }
            self.lengths.push(None);
        }
        self.rest = &self.rest[1..];
        self.skip_spaces();
        let mut length = 0;
        if let Some(rest) = self.rest.strip_prefix('}') {
            self.rest = rest;
        } else {
            loop {
                self.skip_spaces();
                if self.rest.starts_with('{') {
                    self.level(depth + 1)?;
                } else if self.lengths.len() > depth + 1 {
                    return Err(
                        self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions.")
                    );
                } else {
                    self.element()?;
                }
                length += 1;
                self.skip_spaces();
                let mut characters = self.rest.chars();
                let next = characters.next();
                self.rest = characters.as_str();
                match next {
                    Some(',') => {}
                    Some('}') => break,
                    Some(other) => {
                        let detail = format!("Unexpected \"{other}\" character.");
                        return Err(self.malformed(&detail));
                    }
                    None => return Err(self.malformed("Unexpected end of input.")),
                }
            }
        }
        match self.lengths[depth] {
            Some(known) if known != length => {
                Err(self.malformed("Multidimensional arrays must have sub-arrays with matching dimensions."))
            }
            _ => {
                self.lengths[depth] = Some(length);
                Ok(())
            }
        }
    }

    fn element(&mut self) -> Result<()> {
        let is_quoted = self.rest.starts_with('"');
        let mut text = String::new();
        // Blanks at the end count only where they are escaped.
        let mut kept = 0;
        let mut characters = self.rest[usize::from(is_quoted)..].char_indices();
        let end = loop {
            match characters.next() {
                None => return Err(self.malformed("Unexpected end of input.")),
                Some((_, '\\')) => match characters.next() {
                    Some((_, escaped)) => {
                        text.push(escaped);
                        kept = text.len();
                    }
                    None => return Err(self.malformed("Unexpected end of input.")),
                },
                Some((at, '"')) if is_quoted => break at + 2,
                Some((at, ',' | '}')) if !is_quoted => break at,
                Some((_, unexpected @ ('"' | '{'))) if !is_quoted => {
                    let detail = match unexpected {
                        '"' => "Unexpected array element.",
                        _ => "Unexpected \"{\" character.",
                    };
                    return Err(self.malformed(detail));
                }
                Some((_, character)) => {
                    text.push(character);
                    if is_quoted || !is_space(character) {
                        kept = text.len();
                    }
                }
            }
        };
        let has_escape = self.rest[..end].contains('\\');
        text.truncate(kept);
        if !is_quoted && text.is_empty() {
            let next = self.rest[end..].chars().next().unwrap_or('}');
            return Err(self.malformed(&format!("Unexpected \"{next}\" character.")));
        }
        self.rest = &self.rest[end..];
        let is_null = !is_quoted && !has_escape && text.eq_ignore_ascii_case("null");
        self.elements.push(match is_null {
            true => Value::Null,
            false => super::parse(self.element, self.modifier, &text, self.environment)?,
        });
        Ok(())
    }
}

fn too_many_dimensions() -> SqlError {
    SqlError::new(
        SqlState::PROGRAM_LIMIT_EXCEEDED,
        format!("number of array dimensions exceeds the maximum allowed ({DIMENSIONS_MAX})"),
    )
}

/// Writes an array.
pub(super) fn write(array: &Array, ty: SqlType, environment: &Environment, out: &mut String) -> fmt::Result {
    let dimensions = array.dimensions();
    if dimensions.is_empty() {
        return out.write_str("{}");
    }
    if dimensions.iter().any(|dimension| dimension.lower != 1) {
        for Dimension { length, lower } in dimensions {
            write!(out, "[{lower}:{}]", i64::from(*lower) + i64::from(*length) - 1)?;
        }
        out.push('=');
    }
    let element_type = SqlType::scalar(ty.scalar);
    let mut text = String::new();
    // The number of elements in one array of each depth.
    let mut counts: Vec<usize> = Vec::new();
    let mut count = 1;
    for dimension in dimensions.iter().rev() {
        count *= dimension.length as usize;
        counts.push(count);
    }
    for (at, element) in array.elements().iter().enumerate() {
        out.push_str(if at > 0 { "," } else { "" });
        counts.iter().filter(|&&count| at % count == 0).for_each(|_| out.push('{'));
        if element.is_null() {
            out.push_str("NULL");
        } else {
            text.clear();
            super::write(element, element_type, environment, &mut text);
            write_element(&text, out);
        }
        counts.iter().filter(|&&count| (at + 1) % count == 0).for_each(|_| out.push('}'));
    }
    Ok(())
}

fn write_element(text: &str, out: &mut String) {
    let is_plain = !text.is_empty()
        && !text.eq_ignore_ascii_case("null")
        && !text.contains(|character| is_space(character) || matches!(character, '"' | '\\' | '{' | '}' | ','));
    if is_plain {
        return out.push_str(text);
    }
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(ty: SqlType, text: &str) -> Result<String> {
        let environment = Environment::default();
        Ok(crate::text::to_string(&crate::text::parse(ty.array(), -1, text, &environment)?, ty.array(), &environment))
    }

    #[test]
    fn arrays_have_postgresqls_texts() {
        for (text, expected) in [
            ("{}", "{}"),
            ("{ 1 , 2,NULL }", "{1,2,NULL}"),
            ("{{1,2},{3,4}}", "{{1,2},{3,4}}"),
            ("[0:1]={1,2}", "[0:1]={1,2}"),
            ("[1:2]={1,2}", "{1,2}"),
        ] {
            assert_eq!(round(SqlType::INT4, text).unwrap(), expected);
        }
        assert_eq!(
            round(SqlType::TEXT, r#"{a b,"c,d","", "null",nUll,\"x\\}"#).unwrap(),
            r#"{"a b","c,d","","null",NULL,"\"x\\"}"#
        );
        for text in [
            "",
            "1",
            "{",
            "{1",
            "{1,}",
            "{1}}",
            "{{1},2}",
            "{1,{2}}",
            "{{1},{2,3}}",
            "{,}",
            "{1}x",
            "[2:1]={1}",
            "[1:3]={1}",
            "[1]{1}",
            "{{{{{{{1}}}}}}}",
        ] {
            assert!(round(SqlType::INT4, text).is_err(), "{text}");
        }
    }
}
