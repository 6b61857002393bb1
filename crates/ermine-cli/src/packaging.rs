//! Files of packages that follow from the arguments: completions for shells, and man pages.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use clap::CommandFactory as _;
use clap_complete::Shell;
use ermine_bench::{Error, standard_output::ended};

use crate::arguments::Ermine;

/// Prints the script with which a shell completes the arguments.
pub fn completions(shell: Shell) -> Result<bool, Error> {
    // Collected first: the generator panics if its output fails, as that of a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Ermine::command(), "ermine", &mut script);
    let mut out = io::stdout();
    ended(out.write_all(&script).and_then(|()| out.flush())).map(|()| true)
}

/// Writes a man page for each verb to a directory, which is made if it does not exist.
pub fn man(dir: &Path) -> Result<bool, Error> {
    let pages = fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(Ermine::command(), dir));
    pages.map_err(|source| Error::File { path: dir.into(), source })?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::env;

    use clap::{Command, ValueEnum as _};

    use super::*;

    /// Returns the command and all its verbs.
    fn commands(command: &Command) -> Vec<&Command> {
        let verbs = command.get_subcommands().flat_map(commands);
        std::iter::once(command).chain(verbs).collect()
    }

    /// Returns a section of a page, without its heading.
    fn section<'p>(page: &'p str, heading: &str) -> &'p str {
        let (_, section) = page.split_once(&format!(".SH {heading}\n")).unwrap_or_default();
        section.split_once("\n.SH ").map_or(section, |(section, _)| section)
    }

    #[test]
    fn every_verb_has_a_page_with_a_description() {
        let dir = env::temp_dir().join(format!("ermine-man-{}", std::process::id()));
        assert!(man(&dir).unwrap());
        let mut command = Ermine::command().disable_help_subcommand(true);
        command.build();
        let commands = commands(&command);
        assert!(commands.len() > 5);
        for command in &commands {
            let name = command.get_display_name().unwrap_or_else(|| command.get_name());
            let page = fs::read_to_string(dir.join(format!("{name}.1"))).unwrap();
            assert!(section(&page, "NAME").len() > format!("{name} \\- ").len(), "{name} is not named");
            assert!(!section(&page, "DESCRIPTION").trim().is_empty(), "{name} is not described");
            for argument in command.get_arguments() {
                let help = argument.get_help().unwrap_or_default().to_string();
                assert!(!help.is_empty() || argument.is_hide_set(), "{name}: {argument} is not described");
            }
        }
        assert_eq!(fs::read_dir(&dir).unwrap().count(), commands.len(), "there is a page of no verb");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_shell_completes_every_verb() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Ermine::command(), "ermine", &mut script);
            let script = String::from_utf8(script).unwrap();
            for verb in Ermine::command().get_subcommands().map(Command::get_name) {
                assert!(script.contains(verb), "{shell} does not complete {verb}");
            }
        }
    }
}
