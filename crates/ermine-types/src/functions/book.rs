//! The list of functions in the book, compared with the tables that calls are resolved by.

use std::{env, fs};

use super::{TABLE, aggregates, sets};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/sql/functions.md");

const INTRODUCTION: &str = "# Functions

The names of functions, from the tables by which calls are resolved: a test compares this page with them. Arguments and
results are PostgreSQL's. Sequences, locks, and what the catalog knows have functions that are not listed here, nor is
what has syntax of its own, such as `COALESCE` and window functions. Some are there to say that they are not supported
(0A000): `crypt`, `gen_salt`, `uuid_generate_v1`, `uuid_generate_v5`, `inet_client_addr` and its like.
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    let sections = [
        ("Functions of a row", TABLE.0.keys().copied().collect::<Vec<_>>()),
        ("Functions that return rows", sets::names().collect()),
        ("Aggregates", aggregates::names().collect()),
    ];
    for (heading, mut names) in sections {
        names.sort_unstable();
        page += &format!("\n## {heading}\n\n");
        let mut line = String::new();
        for (at, name) in names.iter().enumerate() {
            let word = format!("`{name}`{}", if at + 1 == names.len() { "" } else { "," });
            if line.len() + word.len() >= 120 {
                page += &format!("{line}\n");
                line.clear();
            }
            line += if line.is_empty() { "" } else { " " };
            line += &word;
        }
        page += &format!("{line}\n");
    }
    page
}

/// `ERMINE_WRITE_BOOK=1 cargo test -p ermine-types the_book` writes the page.
#[test]
fn the_book_lists_every_function() {
    if env::var_os("ERMINE_WRITE_BOOK").is_some() {
        fs::write(PAGE, page()).unwrap();
    }
    assert!(page().contains("`generate_series`"));
    assert_eq!(fs::read_to_string(PAGE).unwrap(), page(), "run this test with ERMINE_WRITE_BOOK=1");
}
