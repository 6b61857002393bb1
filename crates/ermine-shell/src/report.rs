//! Failures in a form for people, with the place in the statement.

use std::io::{self, Write};

use unicode_width::UnicodeWidthChar as _;

use crate::{output::style::Style, statements::Failure};

/// Maximum width of the part of a line that is shown.
const SHOWN: usize = 60;
/// Minimum width of the part shown behind the place.
const BEHIND: usize = 10;

/// Writes a failure of a text; `origin` is the file and line of the text, if they are to be reported.
pub fn write(
    failure: &Failure,
    text: &str,
    origin: Option<&str>,
    has_colors: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Failure { severity, state, message, detail, hint, context, position } = failure;
    if let Some(origin) = origin {
        write!(out, "{origin}: ")?;
    }
    if severity.is_empty() {
        writeln!(out, "{message}")?;
    } else {
        let style = match &**severity {
            "ERROR" | "FATAL" | "PANIC" => Style::Red,
            "WARNING" => Style::Yellow,
            _ => Style::Bold,
        };
        let severity = style.paint(&format!("{severity}:"), has_colors);
        writeln!(out, "{severity}  {state}: {message}")?;
    }
    if let Some((line, below)) = position.and_then(|position| excerpt(text, position)) {
        writeln!(out, "{line}\n{below}{}", Style::Red.paint("^", has_colors))?;
    }
    for (name, more) in [("DETAIL", detail), ("HINT", hint), ("CONTEXT", context)] {
        if let Some(more) = more {
            writeln!(out, "{name}:  {more}")?;
        }
    }
    Ok(())
}

/// Returns the line with the character of that number, from 1 on, as much of it as fits, and blanks up to the column of
/// the character.
fn excerpt(text: &str, position: usize) -> Option<(String, String)> {
    let at = position.checked_sub(1)?;
    let place = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).nth(at)?;
    let begin = text[..place].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[place..].find(['\n', '\r']).map_or(text.len(), |length| place + length);
    let number = text[..begin].matches('\n').count() + 1;
    let characters: Vec<_> = text[begin..end].chars().map(|one| if one == '\t' { ' ' } else { one }).collect();
    let place = text[begin..place].chars().count();
    let of_one = |one: &char| one.width().unwrap_or(1);
    let width = |part: &[char]| part.iter().map(of_one).sum::<usize>();
    // How many characters fit: sums that go on, since a line may be long.
    let fits = |part: &mut dyn Iterator<Item = &char>, most: usize| {
        let mut all = 0;
        part.take_while(|one| {
            all += of_one(one);
            all <= most
        })
        .count()
    };
    let (mut from, mut to) = (0, characters.len());
    if width(&characters) > SHOWN {
        if width(&characters[..place]) + BEHIND > SHOWN {
            to = place + fits(&mut characters[place..].iter(), BEHIND);
            from = to - fits(&mut characters[..to].iter().rev(), SHOWN);
        } else {
            to = fits(&mut characters.iter(), SHOWN);
        }
    }
    let dots = |is_cut| if is_cut { "..." } else { "" };
    let head = format!("LINE {number}: {}", dots(from > 0));
    let blanks = " ".repeat(head.len() + width(&characters[from..place]));
    let shown: String = characters[from..to].iter().collect();
    Some((format!("{head}{shown}{}", dots(to < characters.len())), blanks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_told() {
        let failure = Failure {
            severity: "ERROR".into(),
            state: "42703".into(),
            message: "column \"b\" does not exist".into(),
            detail: Some("more".into()),
            hint: Some("less".into()),
            context: Some("around".into()),
            position: Some(15),
        };
        let mut out = Vec::new();
        write(&failure, "SELECT a,\n    b\nFROM t", Some("a.sql:7"), false, &mut out).unwrap();
        let wanted = "a.sql:7: ERROR:  42703: column \"b\" does not exist\nLINE 2:     b\n            ^\n\
            DETAIL:  more\nHINT:  less\nCONTEXT:  around\n";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
        let mut out = Vec::new();
        write(&failure, "SELECT a,\n    b\nFROM t", None, true, &mut out).unwrap();
        let colored = String::from_utf8(out).unwrap();
        assert!(colored.starts_with("\x1b[1;31mERROR:\x1b[0m  42703: "), "{colored}");
        assert!(colored.contains("\n            \x1b[1;31m^\x1b[0m\n"), "{colored}");
        let mut out = Vec::new();
        write(&Failure::of_shell("no such file"), "", None, true, &mut out).unwrap();
        assert_eq!(out, b"no such file\n");
    }

    #[test]
    fn places_are_below_their_characters() {
        let of = |text: &str, position| {
            let (line, below) = excerpt(text, position).unwrap();
            (line, below.len())
        };
        assert_eq!(of("a\n日\tb", 5), ("LINE 2: 日 b".into(), 11));
        assert_eq!(of("ab", 3), ("LINE 1: ab".into(), 10));
        let long = "x".repeat(200);
        assert_eq!(of(&long, 50), (format!("LINE 1: {}...", "x".repeat(60)), 57));
        assert_eq!(of(&long, 51), (format!("LINE 1: {}...", "x".repeat(60)), 58));
        assert_eq!(of(&long, 150), (format!("LINE 1: ...{}...", "x".repeat(60)), 61));
        assert_eq!(of(&long, 200), (format!("LINE 1: ...{}", "x".repeat(60)), 70));
        assert_eq!(excerpt("ab", 4), None);
        assert_eq!(excerpt("ab", 0), None);
    }
}
