//! Colors of a terminal.

use std::env;

/// The way in which a text stands out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A prompt.
    Bold,
    /// A warning; the prompt in an open transaction.
    Yellow,
    /// An error; the prompt in a failed transaction.
    Red,
    /// NULL.
    Dim,
}

impl Style {
    /// Returns a text in this style, or unchanged where there are no colors.
    pub fn paint(self, text: &str, has_colors: bool) -> String {
        if !has_colors || text.is_empty() {
            return text.to_owned();
        }
        let code = match self {
            Self::Bold => "1",
            Self::Yellow => "1;33",
            Self::Red => "1;31",
            Self::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Whether a terminal is to show colors: the user has not turned them off (<https://no-color.org>), and the terminal
/// has them.
pub fn are_wanted() -> bool {
    is_colored(|name| env::var(name).ok())
}

fn is_colored(variable: impl Fn(&str) -> Option<String>) -> bool {
    variable("NO_COLOR").is_none_or(|value| value.is_empty()) && variable("TERM").is_some_and(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_can_be_turned_off() {
        let of = |none: Option<&str>, term: Option<&str>| {
            is_colored(|name| if name == "TERM" { term } else { none }.map(str::to_owned))
        };
        assert!(of(None, Some("xterm")) && of(Some(""), Some("xterm")));
        assert!(!of(Some("1"), Some("xterm")) && !of(None, Some("dumb")) && !of(None, None));
        assert_eq!(Style::Red.paint("a", true), "\x1b[1;31ma\x1b[0m");
        assert_eq!((Style::Red.paint("a", false), Style::Dim.paint("", true)), ("a".into(), String::new()));
    }
}
