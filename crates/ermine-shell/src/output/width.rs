//! Values as a terminal shows them: lines of known width, without characters that would move the cursor.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// Distance between tab stops.
const TAB: usize = 8;

/// A line with its width.
#[derive(PartialEq, Eq, Debug)]
pub struct Line {
    pub text: String,
    pub width: usize,
}

/// Returns the lines of a value, at least one.
pub fn lines(text: &str) -> Vec<Line> {
    let mut lines = vec![Line { text: String::new(), width: 0 }];
    for character in text.chars() {
        let line = lines.last_mut().expect("there is one");
        match (character, character.width()) {
            ('\n', _) => lines.push(Line { text: String::new(), width: 0 }),
            ('\t', _) => {
                let blanks = TAB - line.width % TAB;
                line.width += blanks;
                line.text.extend(std::iter::repeat_n(' ', blanks));
            }
            (_, Some(width)) => {
                line.text.push(character);
                line.width += width;
            }
            (_, None) => {
                let before = line.text.len();
                // Writing to a string does not fail.
                let _ = match character {
                    '\r' => write!(line.text, "\\r"),
                    _ if character.is_ascii() => write!(line.text, "\\x{:02X}", character as u32),
                    _ => write!(line.text, "\\u{:04X}", character as u32),
                };
                line.width += line.text.len() - before;
            }
        }
    }
    lines
}

/// Returns the width of the widest line.
pub fn widest(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_terminal() {
        let of = |text: &str| lines(text).into_iter().map(|line| (line.text, line.width)).collect::<Vec<_>>();
        let line = |text: &str, width| (text.to_owned(), width);
        assert_eq!(of(""), [line("", 0)]);
        assert_eq!(of("a\n\nä"), [line("a", 1), line("", 0), line("ä", 1)]);
        assert_eq!(of("日本"), [line("日本", 4)]);
        assert_eq!(of("e\u{301}"), [line("e\u{301}", 1)]);
        assert_eq!(of("a\tb"), [line("a       b", 9)]);
        assert_eq!(of("\r\x07\u{85}"), [line("\\r\\x07\\u0085", 12)]);
        assert_eq!(of("\x1b[1m"), [line("\\x1B[1m", 7)]);
    }
}
