//! `ermine bench papers`: the papers' figures in small, and a document with them.
//!
//! | module | contents |
//! |---|---|
//! | `figure` | a figure: what the paper shows, what is looked for, how it is made |
//! | `simulated` | the figures of the simulator |
//! | `measured` | the figures of the engine |
//! | `document` | the document |

mod document;
mod figure;
mod measured;
mod simulated;

use std::time::Instant;

use ermine_bench::{Error, Result, report::Setting, standard_output::Stdout};

use self::{document::Drawn, figure::Figure};
use crate::arguments::Papers;

/// Makes the figures, prints what was found, and writes the document.
pub fn papers(arguments: &Papers) -> Result<bool> {
    let wanted = |figure: &&Figure| arguments.only.is_empty() || arguments.only.contains(&figure.slug());
    let all = || simulated::FIGURES.iter().chain(&measured::FIGURES);
    if let Some(unknown) = arguments.only.iter().find(|name| !all().any(|figure| figure.slug() == **name)) {
        let names: Vec<_> = all().map(Figure::slug).collect();
        return Err(Error::Usage(format!("there is no figure {unknown}: use {}", names.join(", "))));
    }
    let setting = Setting::here();
    let figures: Vec<_> = all().filter(wanted).collect();
    let mut drawn = Vec::new();
    for (number, figure) in figures.iter().enumerate() {
        let Figure { paper, number: of_paper, title, .. } = figure;
        eprintln!("[{} of {}] {paper} figure {of_paper}: {title}", number + 1, figures.len());
        let began = Instant::now();
        let made = Drawn { figure, charts: (figure.draw)(figure)? };
        for (claim, holds) in made.claims() {
            writeln!(Stdout, "{:<9} {}  {claim}", figure.slug(), if holds { "yes" } else { "NO " })?;
        }
        eprintln!("    {:.1} s", began.elapsed().as_secs_f64());
        drawn.push(made);
    }
    arguments.out.as_deref().map_or(Ok(()), |path| document::write(path, &setting.facts(), &drawn))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{figure::parsed, measured::expanded, *};

    #[test]
    fn every_figure_has_a_name_of_its_own_and_commands_that_are_accepted() {
        let mut names = HashSet::new();
        for figure in simulated::FIGURES.iter().chain(&measured::FIGURES) {
            assert!(names.insert(figure.slug()), "{} is there twice", figure.slug());
            assert!(!figure.claims.is_empty() && !figure.commands.is_empty(), "{}", figure.slug());
            for (_, command) in figure.commands.iter().flat_map(|command| expanded(command)) {
                parsed(&command).unwrap();
            }
        }
        let all = expanded("a {1,2} b {x,y,z}");
        assert_eq!(all.len(), 6);
        assert_eq!(all[4], (vec!["2".to_owned(), "y".to_owned()], "a 2 b y".to_owned()));
    }

    #[test]
    fn an_unknown_figure_is_refused_with_the_names_of_all() {
        let error = papers(&Papers { out: None, only: vec!["ssn-99".into()] }).unwrap_err().to_string();
        assert!(error.contains("ssn-99") && error.contains("htm-14"), "{error}");
    }
}
