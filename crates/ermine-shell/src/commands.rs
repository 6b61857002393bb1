//! Commands of the shell, which begin with a backslash.

use std::{io, path::Path};

use crate::{
    buffer, copy, describe,
    input::{Lines, split::Splitter},
    output::{Destination, Expanded, Paging},
    shell::{Outcome, Shell},
};

const HELP: &str = "\
Statements
  \\i FILE                run statements and commands of a file
  \\copy TABLE|(QUERY) from|to 'FILE'|stdin|stdout [OPTIONS]
                         copy between a table and a file of this machine
  \\g [FILE]              run the statement typed so far, or the last one again; its result in a file
  \\gx [FILE]             as \\g, with a line for each value
  \\watch [SECONDS] [c=N] run it every so many seconds (2), N times or until Ctrl-C
  \\e [FILE]              edit it, or a file, with PSQL_EDITOR, EDITOR, VISUAL or vi; then run what is complete
  \\p                     print it
  \\r                     drop the statement typed so far
  \\restrict KEY          refuse commands up to \\unrestrict KEY, as the dumps of pg_dump do
  \\?                     show this list
  \\q                     end
What there is
  \\d [NAME]              tables and sequences, or what those of that name have; * and ? stand for others
  \\dt \\di \\ds \\dn [NAME] tables, indexes, sequences, schemas
  \\l                     databases
  \\du                    users
  \\conninfo              what is used, and as whom
Output
  \\echo [-n] TEXT        write a text
  \\o [FILE]              send results to a file, or back
  \\timing [on|off]       tell how long statements took
  \\x [on|off|auto]       a line for each value; auto: where the rows are wider than the terminal
  \\t [on|off]            rows only
  \\pset [NAME VALUE]     set how rows are shown; without more, list it: format aligned|csv|unaligned, null TEXT,
                         expanded on|off|auto, columns N (the width for auto; 0 is the terminal's), tuples_only on|off,
                         pager on|off|always
In a terminal, Tab completes, Ctrl-C gives up what is being typed or ends the statement that runs, Ctrl-D ends.
Results that do not fit on the screen are shown by PSQL_PAGER, PAGER, less or more; NO_COLOR turns colors off.";

/// Runs a command, which is passed without its backslash; `typed` has the statement typed so far.
pub fn run(shell: &mut Shell, text: &str, typed: &mut Splitter, lines: &mut Lines) -> io::Result<Outcome> {
    let (name, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let origin = lines.origin();
    if shell.restriction.is_some() && name != "unrestrict" {
        return shell.complain(format!("\\{name}: only \\unrestrict is allowed after \\restrict"), origin);
    }
    if name == "copy" {
        return copy::copy(shell, rest, lines);
    }
    let words = match words(rest) {
        Ok(words) => words,
        Err(what) => return shell.complain(format!("\\{name}: {what}"), origin),
    };
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    if let Some(done) = buffer::run(shell, (name, &words), typed, lines) {
        return done;
    }
    if let (Some(kind), [] | [_]) = (describe::Kind::of(name), &*words) {
        return match describe::describe(shell, kind, words.first().copied())? {
            Ok(()) => Ok(Outcome::Done),
            Err(failure) => shell.fail(&failure, "", origin),
        };
    }
    let done: Result<(), String> = match (name, &*words) {
        ("q" | "quit", []) => return Ok(Outcome::Quit),
        ("i" | "include", [path]) => return shell.file(Path::new(path)),
        ("?" | "help", []) => return said(shell.say_all(HELP)),
        ("conninfo", []) => {
            let description = shell.description();
            return said(shell.say(description));
        }
        ("echo", ["-n", words @ ..]) => return said(shell.write(&words.join(" "))),
        ("echo", words) => return said(shell.say(words.join(" "))),
        ("o" | "out", []) => return said(shell.redirect(Destination::standard()).map(drop)),
        ("o" | "out", [path]) => Destination::file(path)
            .and_then(|file| shell.redirect(file))
            .map(drop)
            .map_err(|error| format!("{path}: {error}")),
        ("x", words) => set(shell, "expanded", words),
        ("t", words) => set(shell, "tuples_only", words),
        ("restrict", [key]) => {
            shell.restriction = Some((*key).to_owned());
            Ok(())
        }
        ("unrestrict", [key]) => match shell.restriction.take_if(|restriction| restriction == key) {
            Some(_) => Ok(()),
            None => Err("it is not the key of \\restrict".to_owned()),
        },
        ("timing", words) => set(shell, "timing", words),
        ("pset", []) => return said(shell.say(settings(shell))),
        ("pset", [name, words @ ..]) => set(shell, name, words),
        _ if NAMES.contains(&name) => Err("not with these arguments; \\? lists what there is".to_owned()),
        _ => return shell.complain(format!("invalid command \\{name}\nTry \\? for help."), origin),
    };
    match done {
        Ok(()) => Ok(Outcome::Done),
        Err(what) => shell.complain(format!("\\{name}: {what}"), origin),
    }
}

/// The names of all commands.
#[rustfmt::skip]
pub const NAMES: [&str; 33] = [
    "?", "conninfo", "copy", "d", "di", "dn", "ds", "dt", "du", "e", "echo", "edit", "g", "gx", "help", "i", "include",
    "l", "o", "out", "p", "print", "pset", "q", "quit", "r", "reset", "restrict", "t", "timing", "unrestrict", "watch",
    "x",
];

fn said(written: io::Result<()>) -> io::Result<Outcome> {
    written.map(|()| Outcome::Done)
}

/// Changes a setting of the layout, and reports its new value.
fn set(shell: &mut Shell, name: &str, words: &[&str]) -> Result<(), String> {
    let layout = &mut shell.layout;
    let told = match (name, words) {
        ("format", [format]) => {
            layout.format = format.parse()?;
            format!("Output format is {format}.")
        }
        ("null", [null]) => {
            layout.null = (*null).to_owned();
            format!("Null display is \"{null}\".")
        }
        ("expanded", words) => {
            layout.expanded = match words {
                ["auto"] => Expanded::Auto,
                words if switched(layout.expanded != Expanded::Off, words)? => Expanded::On,
                _ => Expanded::Off,
            };
            match layout.expanded {
                Expanded::Auto => "Expanded display is used automatically.".to_owned(),
                expanded => format!("Expanded display is {}.", expanded.name()),
            }
        }
        ("pager", words) => {
            layout.paging = match words {
                [] if layout.paging == Paging::Off => Paging::On,
                [] => Paging::Off,
                words => words.join(" ").parse()?,
            };
            match layout.paging {
                Paging::On => "Pager is used for long output.",
                Paging::Off => "Pager usage is off.",
                Paging::Always => "Pager is always used.",
            }
            .to_owned()
        }
        ("columns", [columns]) => {
            let columns = columns.parse().map_err(|_| format!("\"{columns}\" is no number of columns"))?;
            layout.columns = Some(columns).filter(|columns| *columns > 0);
            format!("Target width is {columns}.")
        }
        ("tuples_only", words) => {
            layout.rows_only = switched(layout.rows_only, words)?;
            format!("Tuples only is {}.", on(layout.rows_only))
        }
        ("timing", words) => {
            shell.has_timing = switched(shell.has_timing, words)?;
            format!("Timing is {}.", on(shell.has_timing))
        }
        ("format" | "null" | "columns", _) => return Err(format!("{name} wants one value")),
        _ => return Err(format!("there is no {name} to set")),
    };
    shell.confirm(told).map_err(|error| error.to_string())
}

fn settings(shell: &Shell) -> String {
    let layout = &shell.layout;
    let null = layout.null.replace('\'', "''");
    let (columns, rows_only) = (layout.columns.unwrap_or(0), on(layout.rows_only));
    let paging = layout.paging.name();
    let (expanded, format) = (layout.expanded.name(), layout.format.name());
    format!(
        "columns     {columns}\nexpanded    {expanded}\nformat      {format}\nnull        '{null}'\n\
         pager       {paging}\ntuples_only {rows_only}"
    )
}

fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Returns the new state of a switch; without a word, the opposite of its current state.
fn switched(is_on: bool, words: &[&str]) -> Result<bool, String> {
    match words {
        [] => Ok(!is_on),
        ["on" | "true" | "1"] => Ok(true),
        ["off" | "false" | "0"] => Ok(false),
        words => Err(format!("\"{}\" is neither on nor off", words.join(" "))),
    }
}

/// Splits a command's line into words; single quotes enclose blanks, and `''` inside of them is a quote.
fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let mut word = String::new();
        while let Some(first) = rest.chars().next().filter(|first| !first.is_whitespace()) {
            if first != '\'' {
                word.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
            let end = rest[1..].find('\'').ok_or("a quote is not closed")? + 1;
            word.push_str(&rest[1..end]);
            rest = &rest[end + 1..];
            if rest.starts_with('\'') {
                word.push('\'');
            }
        }
        words.push(word);
        rest = rest.trim_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_in_quotes() {
        for (line, wanted) in [
            ("", &[][..]),
            (" a  b ", &["a", "b"]),
            ("'a b' c", &["a b", "c"]),
            ("'it''s' ''", &["it's", ""]),
            ("a'b c'd", &["ab cd"]),
            ("t*.ä", &["t*.ä"]),
        ] {
            assert_eq!(words(line).unwrap(), wanted, "{line}");
        }
        assert!(words("'a").is_err());
    }

    #[test]
    fn help_tells_of_all_commands() {
        let told: Vec<_> = HELP.split('\\').skip(1).map(|rest| rest.split([' ', '\n', ',']).next().unwrap()).collect();
        let aliases = ["edit", "help", "include", "out", "print", "quit", "reset"];
        for name in NAMES.iter().filter(|name| !aliases.contains(*name)) {
            assert!(told.contains(name), "{name}");
        }
        assert!(told.iter().all(|name| *name == "?" || NAMES.contains(name)), "{told:?}");
    }

    #[test]
    fn switches_switch() {
        assert_eq!((switched(false, &[]), switched(true, &[])), (Ok(true), Ok(false)));
        assert_eq!((switched(true, &["on"]), switched(true, &["off"])), (Ok(true), Ok(false)));
        assert!(switched(true, &["maybe"]).is_err());
    }
}
