//! `ermined config`, and the file that `ermined init` writes.

use std::{fmt::Write as _, path::Path, sync::Arc};

use clap::Arg;
use ermine::{Database, Options};
use ermine_sql::SqlDatabase;

use super::{
    Effective, SET, Source, attempt,
    file::{self, Entry},
    first_line, is_flag, is_number, key_of, options,
};
use crate::{Failure, failed, standard_output::Stdout};

/// Runs `ermined config check`.
pub fn check(path: &Path) -> Result<(), Failure> {
    let entries = file::read(path).map_err(failed)?;
    let mistake = |what: String| failed(format!("{}: {what}", path.display()));
    let arguments: Vec<_> = entries.iter().flat_map(Entry::arguments).collect();
    let serve = attempt(&arguments).map_err(|error| mistake(first_line(&error)))?;
    // The files that it names.
    serve.rules().and(serve.tls().map(drop)).map_err(mistake)?;
    let scheme = entries.iter().find(|entry| entry.key == "scheme").and_then(|entry| entry.values.first());
    let scheme = scheme.and_then(|name| name.parse().ok()).unwrap_or_default();
    let database = Database::open_in_memory(Options::default().scheme(scheme)).map_err(failed)?;
    let database = SqlDatabase::open(Arc::new(database)).map_err(failed)?;
    for entry in &entries {
        if let Some(name) = entry.setting()
            && let Some((_, value)) = entry.values.first().and_then(|value| value.split_once('='))
        {
            let checked = database.configurable(name, value);
            checked.map_err(|error| failed(format!("{}, line {}: {error}", entry.place.0, entry.place.1)))?;
        }
    }
    writeln!(Stdout, "{}: {} values, and no mistake", path.display(), entries.len())
}

/// Runs `ermined config show`.
pub fn show(effective: &Effective) -> Result<(), Failure> {
    let options = effective.options.iter().map(|(key, (value, source))| (key.clone(), value.as_deref(), source));
    let settings = effective.settings.iter();
    let settings = settings.map(|(name, (value, source))| (format!("{SET}.{name}"), Some(&**value), source));
    for (name, value, source) in options.chain(settings) {
        writeln!(Stdout, "{name:32} {:24} {}", value.unwrap_or("-"), place(source))?;
    }
    Ok(())
}

fn place(source: &Source) -> String {
    match source {
        Source::Default => "default".into(),
        Source::File(file, line) => format!("{file}, line {line}"),
        Source::Environment(variable) => variable.clone(),
        Source::CommandLine => "command line".into(),
    }
}

/// Returns a configuration file with all options as comments.
pub fn template() -> String {
    let mut text =
        "# The configuration of a server of Ermine. Options of the command line and variables ERMINED_.. come \
        before it.\n# `ermined config check FILE` reads it; a running server reads it again after SIGHUP.\n"
            .to_owned();
    let (options, mut heading) = (options(), String::new());
    let group = |option: &Arg| option.get_help_heading().unwrap_or("General").to_owned();
    let mut groups: Vec<_> = options.iter().map(group).collect();
    groups.dedup();
    groups.sort_by_key(|name| options.iter().position(|option| group(option) == *name));
    groups.dedup();
    for option in groups.iter().flat_map(|name| options.iter().filter(move |option| group(option) == *name)) {
        if group(option) != heading {
            heading = group(option);
            let _ = write!(text, "\n## {heading}\n");
        }
        let _ = write!(text, "\n{}{}\n", comment(&option.get_help().unwrap_or_default().to_string()), line(option));
    }
    text + &format!("\n## Settings of sessions that set none: any that SET knows\n\n#[{SET}]\n#work_mem = \"64MB\"\n")
}

/// Returns the line of an option with its default.
fn line(option: &Arg) -> String {
    let values: Vec<_> = option.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let key = key_of(option);
    match &values[..] {
        _ if is_flag(option) => format!("#{key} = false"),
        [value] if is_number(option) => format!("#{key} = {value}"),
        [value] => format!("#{key} = {}", super::altered::quoted(value)),
        _ => {
            let names = option.get_value_names().unwrap_or_default();
            format!("# {key} = {}", names.first().map_or("VALUE", |name| name.as_str()))
        }
    }
}

/// Wraps a text into lines of comments.
fn comment(text: &str) -> String {
    const WIDTH: usize = 100;
    let (mut lines, mut line) = (String::new(), String::from("#"));
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            lines += &line;
            lines.push('\n');
            line = "#".into();
        }
        line.push(' ');
        line += word;
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_every_option_and_is_right() {
        let text = template();
        assert!(file::parse(&text, "f").unwrap().is_empty(), "it changes nothing");
        for option in options() {
            let key = key_of(&option);
            assert_eq!(
                text.lines()
                    .filter(|line| line.contains(&format!("#{key} = ")) || line.contains(&format!("# {key} = ")))
                    .count(),
                1,
                "{key}"
            );
        }
        let with_defaults: Vec<_> = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(line) if !line.starts_with([' ', '#']) => line,
                _ => "",
            })
            .collect();
        let entries = file::parse(&with_defaults.join("\n"), "f").unwrap();
        assert!(entries.len() > 15, "{entries:?}");
        let arguments: Vec<_> = entries.iter().flat_map(Entry::arguments).collect();
        assert!(attempt(&arguments).is_ok());
    }
}
