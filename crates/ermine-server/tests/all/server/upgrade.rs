//! Databases of SQL that earlier versions wrote must remain readable.
//!
//! `tests/fixtures/sql-1` is the directory of a server that was killed: a checkpoint, and log behind it, with every kind
//! of object that the catalog of SQL had. `sql-1.sql` made it. It is never written again; what is stored in a new way
//! gets a directory of its own.

use std::{fs, path::Path};

use crate::process::{Directory, output};

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns a copy of the directory.
fn copy_of(fixture: &str) -> Directory {
    let copy = Directory::new("upgrade");
    for file in fs::read_dir(fixture).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), copy.0.join(file.file_name())).unwrap();
    }
    copy
}

fn answers(directory: &Path) -> String {
    let questions = fs::read_to_string(fixture("sql-1-questions.sql")).unwrap();
    let (ended, answers) = output(&["shell", directory.to_str().unwrap()], &questions);
    assert!(ended.status.success(), "{answers}");
    answers
}

#[test]
fn a_directory_of_an_earlier_version_is_upgraded() {
    let expected = fs::read_to_string(fixture("sql-1-answers.txt")).unwrap();
    let directory = copy_of(&fixture("sql-1"));
    let (ended, text) = output(&["upgrade", directory.path()], "");
    assert!(ended.status.success() && text.contains("is ready for ermined"), "{text}");
    assert_eq!(text.matches("nothing is wrong: ").count(), 2, "{text}");
    assert_eq!(text.matches("4 tables of SQL").count(), 2, "{text}");
    assert_eq!(answers(&directory.0), expected);

    // Serving it is enough, too.
    assert_eq!(answers(&copy_of(&fixture("sql-1")).0), expected);
}

#[test]
fn a_damaged_directory_is_left_as_it_is() {
    let directory = copy_of(&fixture("sql-1"));
    let file = fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap().path());
    let checkpoint = file.into_iter().find(|path| path.to_str().unwrap().contains("checkpoint-")).unwrap();
    let mut bytes = fs::read(&checkpoint).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&checkpoint, &bytes).unwrap();
    let names = || {
        let files = fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap());
        // The file of the lock has nothing of the database.
        let mut names: Vec<_> = files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect();
        names.retain(|(name, _)| name != "LOCK");
        names.sort();
        names
    };
    let before = names();
    let (ended, text) = output(&["upgrade", directory.path()], "");
    assert!(!ended.status.success() && text.contains("DAMAGED") && !text.contains("written:"), "{text}");
    assert!(names() == before, "{text}");
}

#[test]
fn there_is_nothing_to_upgrade() {
    let empty = Directory::new("empty");
    let (ended, text) = output(&["upgrade", empty.path()], "");
    assert!(ended.status.code() == Some(2) && text.contains("no database"), "{text}");
}
