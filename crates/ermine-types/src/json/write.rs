//! JSON as text, with PostgreSQL's spacing.

use std::fmt::{self, Write};

use super::Json;

/// Writes a string in quotes.
pub(crate) fn write_string(text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        out.write_str(&rest[..at])?;
        match rest.as_bytes()[at] {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            b'\n' => out.write_str("\\n")?,
            b'\r' => out.write_str("\\r")?,
            b'\t' => out.write_str("\\t")?,
            0x8 => out.write_str("\\b")?,
            0xc => out.write_str("\\f")?,
            byte => write!(out, "\\u{byte:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}

/// Returns the length of a string in quotes.
pub(crate) fn string_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    });
    4 + bytes.sum::<usize>()
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(true) => f.write_str("true"),
            Self::Bool(false) => f.write_str("false"),
            Self::Number(number) => number.fmt(f),
            Self::String(text) => write_string(text, f),
            Self::Array(elements) => {
                f.write_char('[')?;
                for (at, element) in elements.iter().enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    element.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Object(pairs) => {
                f.write_char('{')?;
                for (at, (key, value)) in pairs.iter().enumerate() {
                    f.write_str(if at > 0 { ", " } else { "" })?;
                    write_string(key, f)?;
                    f.write_str(": ")?;
                    value.fmt(f)?;
                }
                f.write_char('}')
            }
        }
    }
}

impl Json {
    /// Returns the length of its text, approximately.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes_within(None)
    }

    /// Returns the length of its indented text, approximately.
    pub(crate) fn pretty_bytes(&self) -> usize {
        self.text_bytes_within(Some(1))
    }

    /// `depth`: the indentation depth of its parts.
    fn text_bytes_within(&self, depth: Option<usize>) -> usize {
        // The separator before each part, and behind the last one.
        let before = depth.map_or(2, |depth| 2 + 4 * depth);
        let inner = depth.map(|depth| depth + 1);
        match self {
            Self::Null | Self::Bool(_) => 5,
            Self::Number(number) => 20 + 3 * number.heap_bytes(),
            Self::String(text) => string_bytes(text),
            Self::Array(elements) => {
                before + elements.iter().map(|element| before + element.text_bytes_within(inner)).sum::<usize>()
            }
            Self::Object(pairs) => {
                let pairs =
                    pairs.iter().map(|(key, value)| before + string_bytes(key) + value.text_bytes_within(inner));
                before + pairs.sum::<usize>()
            }
        }
    }

    /// Returns the indented text, as `jsonb_pretty` does.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write_pretty(0, &mut out);
        out
    }

    fn write_pretty(&self, depth: usize, out: &mut String) -> fmt::Result {
        let indent = |out: &mut String, depth: usize| {
            out.push('\n');
            (0..depth).for_each(|_| out.push_str("    "));
        };
        match self {
            Self::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    indent(out, depth + 1);
                    element.write_pretty(depth + 1, out)?;
                }
                indent(out, depth);
                out.push(']');
                Ok(())
            }
            Self::Object(pairs) => {
                out.push('{');
                for (at, (key, value)) in pairs.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    indent(out, depth + 1);
                    write_string(key, out)?;
                    out.push_str(": ");
                    value.write_pretty(depth + 1, out)?;
                }
                indent(out, depth);
                out.push('}');
                Ok(())
            }
            _ => write!(out, "{self}"),
        }
    }
}
