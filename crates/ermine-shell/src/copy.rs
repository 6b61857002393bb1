//! `\copy`: COPY whose other end is a file of this machine.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
};

use crate::{
    input::Lines,
    patient::{self, Interruptible},
    shell::{Outcome, Shell},
};

/// Runs `\copy` with the text that follows it.
pub fn copy(shell: &mut Shell, text: &str, lines: &mut Lines) -> io::Result<Outcome> {
    let origin = lines.origin();
    let Copy { relation, is_from, place, options } = match Copy::parse(text) {
        Ok(copy) => copy,
        Err(what) => return shell.complain(format!("\\copy: {what}"), origin),
    };
    let (direction, stream) = if is_from { ("FROM", "STDIN") } else { ("TO", "STDOUT") };
    let statement = format!("COPY {relation} {direction} {stream} {options}");
    let Some(path) = place else { return shell.execute(statement.trim_end(), lines, None, None) };
    let interrupted = shell.interrupted();
    // A pipe is opened when its other end is.
    let opened = patient::wait(&interrupted, {
        let path = path.clone();
        move || if is_from { File::open(path) } else { File::create(path) }
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) => return shell.complain(format!("{path}: {error}"), origin),
    };
    if is_from {
        let mut source = Interruptible::new(file, interrupted);
        return shell.execute(statement.trim_end(), lines, Some(&mut source), None);
    }
    let mut file = BufWriter::new(file);
    let outcome = shell.execute(statement.trim_end(), lines, None, Some(&mut file))?;
    match file.flush() {
        Ok(()) => Ok(outcome),
        Err(error) => shell.complain(format!("{path}: {error}"), origin),
    }
}

/// The parts of a `\copy`.
#[derive(PartialEq, Eq, Debug)]
struct Copy<'t> {
    /// A table, optionally with columns, or a query in parentheses.
    relation: &'t str,
    is_from: bool,
    /// A file; `None` means the source of the command, or the output.
    place: Option<String>,
    options: &'t str,
}

impl<'t> Copy<'t> {
    fn parse(text: &'t str) -> Result<Self, String> {
        let text = text.trim().trim_end_matches(';');
        let (at, word) = direction(text).ok_or("it wants \"from\" or \"to\"")?;
        let (relation, rest) = (text[..at].trim(), text[at + word.len()..].trim_start());
        let is_from = word.eq_ignore_ascii_case("from");
        if relation.is_empty() {
            return Err("it wants a table or a query in parentheses".to_owned());
        }
        if let Some(quoted) = rest.strip_prefix('\'') {
            let (path, options) = quoted_path(quoted)?;
            return Ok(Self { relation, is_from, place: Some(path), options: options.trim() });
        }
        let (place, options) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let place = match (&*place.to_ascii_lowercase(), is_from) {
            ("", _) => return Err("it wants a file".to_owned()),
            ("stdin", true) | ("stdout", false) => None,
            ("stdin" | "stdout", _) => return Err(format!("nothing is copied {word} {place}")),
            ("program", _) => return Err("programs are not supported".to_owned()),
            _ => Some(place.to_owned()),
        };
        Ok(Self { relation, is_from, place, options: options.trim() })
    }
}

/// Returns the word that gives the direction, outside of quotes and parentheses, and its place.
fn direction(text: &str) -> Option<(usize, &str)> {
    let (mut depth, mut quote) = (0usize, None);
    let mut begin = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        let is_word = quote.is_none() && depth == 0 && (character.is_alphanumeric() || matches!(character, '_' | '.'));
        if is_word {
            begin.get_or_insert(at);
            continue;
        }
        if let Some(word) = begin.take().map(|begin| (begin, &text[begin..at]))
            && ["from", "to"].iter().any(|known| word.1.eq_ignore_ascii_case(known))
        {
            return Some(word);
        }
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// Returns a path up to its closing quote, and the text behind it.
fn quoted_path(mut rest: &str) -> Result<(String, &str), String> {
    let mut path = String::new();
    loop {
        let (part, behind) = rest.split_once('\'').ok_or("a quote is not closed")?;
        path.push_str(part);
        match behind.strip_prefix('\'') {
            Some(more) => {
                path.push('\'');
                rest = more;
            }
            None => return Ok((path, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_found() {
        let copy = |relation, is_from, place: Option<&str>, options| Copy {
            relation,
            is_from,
            place: place.map(str::to_owned),
            options,
        };
        for (text, wanted) in [
            ("t from 'a b.csv' csv header;", copy("t", true, Some("a b.csv"), "csv header")),
            ("s.\"From\" (a, \"to\") TO it''s", copy("s.\"From\" (a, \"to\")", false, Some("it''s"), "")),
            ("t to 'it''s'", copy("t", false, Some("it's"), "")),
            ("(select ')' from t) to stdout (format csv)", copy("(select ')' from t)", false, None, "(format csv)")),
            ("t FROM STDIN", copy("t", true, None, "")),
        ] {
            assert_eq!(Copy::parse(text), Ok(wanted), "{text}");
        }
        for text in
            ["", "t", "from 'a'", "t from", "t from 'a", "t from stdout", "t to program 'x'", "(select 1 to 'a'"]
        {
            assert!(Copy::parse(text).is_err(), "{text}");
        }
    }
}
