//! Commands on the statement that is being typed, or, where none is, on the one that ran last.

use std::{io, time::Duration};

use jiff::Zoned;

use crate::{
    edit,
    input::{Lines, split::Splitter},
    output::{Destination, Expanded},
    shell::{Outcome, Shell},
};

/// Runs a command if it is one of these, and has arguments that fit.
pub fn run(
    shell: &mut Shell,
    (name, words): (&str, &[&str]),
    typed: &mut Splitter,
    lines: &mut Lines,
) -> Option<io::Result<Outcome>> {
    Some(match (name, words) {
        ("e" | "edit", [] | [_]) => edit(shell, words.first().copied(), typed, lines),
        ("g", [] | [_]) => go(shell, words.first().copied(), shell.layout.expanded, typed, lines),
        ("gx", [] | [_]) => go(shell, words.first().copied(), Expanded::On, typed, lines),
        ("p" | "print", []) => print(shell, typed),
        ("r" | "reset", []) => {
            typed.take();
            shell.confirm("Query buffer reset (cleared).").map(|()| Outcome::Done)
        }
        ("watch", words) => match Watch::parse(words) {
            Ok(watch) => watch.run(shell, typed, lines),
            Err(what) => shell.complain(format!("\\watch: {what}"), lines.origin()),
        },
        _ => return None,
    })
}

/// Takes the statement that is being typed, or else the last one.
fn take(shell: &Shell, typed: &mut Splitter) -> String {
    let text = typed.take();
    if text.is_empty() { shell.previous.clone() } else { text }
}

fn print(shell: &mut Shell, typed: &Splitter) -> io::Result<Outcome> {
    let text = if typed.text().is_empty() { shell.previous.clone() } else { typed.text().to_owned() };
    shell.say(if text.is_empty() { "Query buffer is empty." } else { &text })?;
    Ok(Outcome::Done)
}

/// Runs the statement, with its result in a file if one is named.
fn go(
    shell: &mut Shell,
    path: Option<&str>,
    expanded: Expanded,
    typed: &mut Splitter,
    lines: &mut Lines,
) -> io::Result<Outcome> {
    let text = take(shell, typed);
    if text.is_empty() {
        return Ok(Outcome::Done);
    }
    let before = match path.map(Destination::file).transpose() {
        Ok(file) => file.map(|file| shell.redirect(file)).transpose()?,
        Err(error) => return shell.complain(format!("{}: {error}", path.unwrap_or_default()), lines.origin()),
    };
    let expanded = std::mem::replace(&mut shell.layout.expanded, expanded);
    let outcome = shell.statement(&text, lines);
    shell.layout.expanded = expanded;
    if let Some(before) = before {
        shell.redirect(before)?;
    }
    outcome
}

/// Lets the user edit the statement, or a file. The edited text replaces the statement that is being typed; what was
/// not being typed, and was left as it is, is dropped.
fn edit(shell: &mut Shell, path: Option<&str>, typed: &mut Splitter, lines: &Lines) -> io::Result<Outcome> {
    let is_typed = path.is_none() && !typed.text().is_empty();
    let text = if is_typed { typed.text() } else { &*shell.previous };
    let edited = match path {
        Some(path) => edit::file(path.as_ref()),
        None => edit::text(text),
    };
    match edited {
        Ok(Some(text)) => {
            typed.clear();
            typed.push(text.trim_end());
            Ok(Outcome::Edited)
        }
        Ok(None) => {
            if !is_typed {
                typed.clear();
            }
            Ok(Outcome::Edited)
        }
        Err(error) => shell.complain(format!("\\edit: {error}"), lines.origin()),
    }
}

/// The arguments of `\watch`.
#[derive(PartialEq, Debug)]
struct Watch {
    interval: Duration,
    /// The number of times that the statement runs; `None` means until Ctrl-C.
    count: Option<u64>,
}

impl Watch {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut watch = Self { interval: Duration::from_secs(2), count: None };
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or(("i", word));
            match name {
                "i" | "interval" => {
                    let seconds = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
                    watch.interval = seconds.ok_or_else(|| format!("incorrect interval value \"{value}\""))?;
                }
                "c" | "count" => {
                    let count = value.parse().ok().filter(|count| *count > 0);
                    watch.count = Some(count.ok_or_else(|| format!("incorrect iteration count \"{value}\""))?);
                }
                _ => return Err(format!("unrecognized parameter \"{name}\"")),
            }
        }
        Ok(watch)
    }

    /// Runs the statement again and again, until it fails, or Ctrl-C.
    fn run(&self, shell: &mut Shell, typed: &mut Splitter, lines: &mut Lines) -> io::Result<Outcome> {
        let text = take(shell, typed);
        if text.is_empty() {
            return shell.complain("\\watch cannot be used with an empty query", lines.origin());
        }
        let mut left = self.count;
        loop {
            let now = Zoned::now().strftime("%a %b %e %H:%M:%S %Y").to_string();
            shell.title = Some(format!("{now} (every {}s)\n", self.interval.as_secs_f64()));
            let outcome = shell.statement(&text, lines);
            shell.title = None;
            left = left.map(|left| left - 1);
            if outcome? == Outcome::Failed {
                return Ok(Outcome::Failed);
            }
            if left == Some(0) || !shell.wait(self.interval) {
                return Ok(Outcome::Done);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_an_interval_and_a_count() {
        let watch = |millis, count| Ok(Watch { interval: Duration::from_millis(millis), count });
        assert_eq!(Watch::parse(&[]), watch(2000, None));
        assert_eq!(Watch::parse(&["0.5"]), watch(500, None));
        assert_eq!(Watch::parse(&["i=0", "c=3"]), watch(0, Some(3)));
        assert_eq!(Watch::parse(&["count=1", "interval=1e3"]), watch(1_000_000, Some(1)));
        for words in ["-1", "x", "c=0", "c=-1", "c=x", "i=nan", "m=1", "1e300"] {
            assert!(Watch::parse(&[words]).is_err(), "{words}");
        }
    }
}
