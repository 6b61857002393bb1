//! The file `REPLICATION` in the directory of a database: where in the stream the node goes on after a restart.
//!
//! The end may be older than what the database has: pieces that are received twice change nothing.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use ermine_replication::{End, Hash, Identity, Position, Sequence, Term};
use serde::Deserialize;

const NAME: &str = "REPLICATION";
const NEW: &str = "REPLICATION.new";

/// What a node knows of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The name of the cluster.
    pub cluster: String,
    pub identity: Identity,
    /// The last term in which the node was the primary, or was about to be; 0: none.
    pub led: Term,
    /// The position of the base that the database began with.
    pub base: Position,
    /// An end of the stream up to which the database has everything.
    pub end: End,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    cluster: String,
    identity: String,
    led: u64,
    base: u64,
    sequence: u64,
    term: u64,
    position: u64,
    hash: String,
}

impl State {
    /// Reads the state of a database's directory, if it has one.
    pub fn read(database: &Path) -> Result<Option<Self>, String> {
        let path = database.join(NAME);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.map_err(|error| format!("{}: {error}", path.display()))?,
        };
        let parsed = toml::from_str::<Text>(&text).map_err(|error| error.to_string()).and_then(Text::state);
        parsed.map(Some).map_err(|error| format!("{} is damaged: {error}", path.display()))
    }

    /// Writes the state durably: a crash leaves the old one or the new one.
    pub fn write(&self, database: &Path) -> io::Result<()> {
        let Self { cluster, identity, led, base, end: End { sequence, term, position, hash } } = self;
        let (identity, hash) = (hexadecimal(&identity.0), hexadecimal(&hash.0));
        let text = format!(
            "# Where this node goes on in the stream of its cluster. Written by ermined.\ncluster = \"{cluster}\"\n\
             identity = \"{identity}\"\nled = {led}\nbase = {base}\nsequence = {sequence}\nterm = {term}\nposition = {position}\n\
             hash = \"{hash}\"\n"
        );
        let new = database.join(NEW);
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, database.join(NAME))?;
        sync(database)
    }
}

/// Removes the state of a database's directory durably, if it has one: the database is of no cluster any more.
pub fn forget(database: &Path) -> io::Result<()> {
    match fs::remove_file(database.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync(database)),
    }
}

impl Text {
    fn state(self) -> Result<State, String> {
        let Self { cluster, identity, led, base, sequence, term, position, hash } = self;
        let (identity, hash) = (Identity(bytes(&identity)?), Hash(bytes(&hash)?));
        let end = End { sequence: Sequence(sequence), term: Term(term), position: Position(position), hash };
        Ok(State { cluster, identity, led: Term(led), base: Position(base), end })
    }
}

/// Makes the names in a directory durable.
pub fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return Err(format!("\"{text}\" has not {} digits", 2 * N));
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let pair = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        *byte = pair.ok_or_else(|| format!("\"{text}\" is no hexadecimal number"))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_damage_is_named() {
        let directory = std::env::temp_dir().join(format!("ermined-state-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        assert_eq!(State::read(&directory), Ok(None));
        let mut hash = [0xab; 32];
        hash[0] = 1;
        let end = End { sequence: Sequence(7), term: Term(3), position: Position(1 << 40), hash: Hash(hash) };
        let state =
            State { cluster: "shop-1".into(), identity: Identity([9; 16]), led: Term(2), base: Position(5), end };
        state.write(&directory).unwrap();
        assert_eq!(State::read(&directory), Ok(Some(state.clone())));
        let path = directory.join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in [("ab\"", "a\""), ("09", "0x"), ("term = 3", "term = three"), ("led", "fed")] {
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = State::read(&directory).unwrap_err();
            assert!(error.contains("REPLICATION is damaged"), "{error}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
