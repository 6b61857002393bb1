//! `ermined.auto.toml`, the file in the directory of a database that ALTER SYSTEM writes. It is read after the
//! configuration file, and has the same form.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use super::{
    SET,
    file::{self, Entry},
};

const FILE: &str = "ermined.auto.toml";
const HEADER: &str = "# Written by ALTER SYSTEM; ALTER SYSTEM RESET removes lines.\n";

/// Reads the file of a database.
pub fn read(dir: &Path) -> Result<Vec<Entry>, String> {
    file::read_if_there(&dir.join(FILE))
}

/// A change of the file.
pub enum Change {
    /// An option, and its value in TOML.
    Option(String, String),
    /// A setting of sessions, and its value.
    Setting(String, String),
    /// The option or setting that is removed.
    Remove(String),
    RemoveAll,
}

/// Changes the file of a database. A crash leaves the old or the new one.
pub fn change(dir: &Path, change: Change) -> Result<(), String> {
    let mut entries = match change {
        Change::RemoveAll => Vec::new(),
        _ => read(dir)?,
    };
    let changed = match &change {
        Change::Option(name, _) | Change::Setting(name, _) | Change::Remove(name) => Some(name.clone()),
        Change::RemoveAll => None,
    };
    entries.retain(|entry| changed.as_deref() != Some(entry.setting().unwrap_or(&entry.key)));
    let line = |name: &str, literal: &str| format!("{name} = {literal}\n");
    let of = |is_setting: bool| entries.iter().filter(move |entry| (entry.key == SET) == is_setting);
    let mut options: String = of(false).map(|entry| line(&entry.key, &entry.literal)).collect();
    let mut settings: String =
        of(true).map(|entry| line(&quoted(entry.setting().unwrap_or_default()), &entry.literal)).collect();
    match &change {
        Change::Option(key, literal) => options += &line(key, literal),
        Change::Setting(name, value) => settings += &line(&quoted(name), &quoted(value)),
        Change::Remove(_) | Change::RemoveAll => {}
    }
    let table = if settings.is_empty() { String::new() } else { format!("\n[{SET}]\n{settings}") };
    let text = format!("{HEADER}{options}{table}");
    // What was written is what is read.
    file::parse(&text, FILE)?;
    write(dir, &text).map_err(|error| format!("{}: {error}", dir.join(FILE).display()))
}

fn write(dir: &Path, text: &str) -> io::Result<()> {
    let new = dir.join(format!("{FILE}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(FILE))?;
    File::open(dir)?.sync_all()
}

/// Returns a text as TOML writes it.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            plain => quoted.push(plain),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_replaced_and_removed() {
        let dir = std::env::temp_dir().join(format!("ermined-altered-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let shown = || {
            let entries = read(&dir).unwrap();
            entries.iter().flat_map(Entry::arguments).collect::<Vec<_>>()
        };
        assert_eq!(shown(), [""; 0]);
        let of = |name: &str, value: &str| Change::Setting(name.into(), value.into());
        change(&dir, Change::Option("auth-delay".into(), "7".into())).unwrap();
        change(&dir, of("work_mem", "64MB")).unwrap();
        change(&dir, of("my.text", "a \"b\" \\ \n ä")).unwrap();
        change(&dir, Change::Option("auth-delay".into(), "8".into())).unwrap();
        change(&dir, of("work_mem", "128MB")).unwrap();
        assert_eq!(shown(), ["--auth-delay=8", "--set=my.text=a \"b\" \\ \n ä", "--set=work_mem=128MB"]);
        assert!(change(&dir, Change::Option("auth-delay".into(), "no".into())).is_err());
        change(&dir, Change::Remove("work_mem".into())).unwrap();
        change(&dir, Change::Remove("auth-delay".into())).unwrap();
        change(&dir, Change::Remove("nothing".into())).unwrap();
        assert_eq!(shown(), ["--set=my.text=a \"b\" \\ \n ä"]);
        change(&dir, Change::RemoveAll).unwrap();
        assert_eq!(shown(), [""; 0]);
        fs::remove_dir_all(&dir).unwrap();
    }
}
