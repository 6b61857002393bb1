//! A base: a backup of the database as one blob, with the end of the stream from which a standby follows on.
//!
//! | bytes | contents |
//! |---|---|
//! | 0 to 7 | `ERMBASE2` |
//! | 16 | identity of the database |
//! | 8, 8, 8, 32 | the end: sequence, term, position, hash; numbers are little-endian |
//! | | each file: length of its name (2), its length (8), the name, pieces |
//! | | each piece of a file: where it is (8), its length (4), the bytes; behind the last one, a piece without bytes |
//! | 2 | 0 |
//! | 4 | CRC-32C of all bytes before it |
//!
//! What is in no piece is zero: a segment of the log is as long as it may become, with a label at its end.

use std::{fs, io, path::Path, time::Duration};

use ermine_replication::{End, Hash, Identity, Position, Sequence, Term};
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWrite, AsyncWriteExt as _, SeekFrom},
    time::timeout,
};

use super::state::sync;

const MAGIC: &[u8; 8] = b"ERMBASE2";
const PREFIX: &str = "base-";
/// Bytes that are copied at a time: the most that a piece has.
const CHUNK: usize = 64 << 10;

/// How long a base that is read may bring nothing: another primary may have removed it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the name of the base that goes on behind an end: later ones sort behind earlier ones.
pub fn name_of(end: End) -> String {
    format!("{PREFIX}{:020}-{:020}", end.sequence.0, end.position.0)
}

/// Returns the sequence and the position of a base, from its name; `None`: it is no base.
pub fn end_of(name: &str) -> Option<(Sequence, Position)> {
    let (sequence, position) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((Sequence(sequence.parse().ok()?), Position(position.parse().ok()?)))
}

/// Writes the files of a backup.
pub async fn pack(backup: &Path, identity: Identity, end: End, to: impl AsyncWrite + Unpin) -> io::Result<()> {
    let mut to = Summed { stream: to, sum: 0 };
    to.write(MAGIC).await?;
    to.write(&identity.0).await?;
    for number in [end.sequence.0, end.term.0, end.position.0] {
        to.write(&number.to_le_bytes()).await?;
    }
    to.write(&end.hash.0).await?;
    let mut names: Vec<_> = fs::read_dir(backup)?.collect::<io::Result<_>>()?;
    names.sort_by_key(fs::DirEntry::file_name);
    for entry in names {
        let name = entry.file_name().into_encoded_bytes();
        let mut file = File::open(entry.path()).await?;
        let length = file.metadata().await?.len();
        to.write(&(name.len() as u16).to_le_bytes()).await?;
        to.write(&length.to_le_bytes()).await?;
        to.write(&name).await?;
        let mut chunk = vec![0; CHUNK];
        for at in (0..length).step_by(CHUNK) {
            let chunk = &mut chunk[..(length - at).min(CHUNK as u64) as usize];
            file.read_exact(chunk).await?;
            if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
                to.piece(at, &chunk[..=last]).await?;
            }
        }
        to.piece(0, &[]).await?;
    }
    to.write(&[0; 2]).await?;
    let sum = to.sum;
    to.write(&sum.to_le_bytes()).await?;
    to.stream.shutdown().await
}

/// Reads a base into an empty directory, durably; returns the identity of its database, and the end.
pub async fn unpack(from: impl AsyncRead + Unpin, directory: &Path) -> io::Result<(Identity, End)> {
    let mut from = Summed { stream: from, sum: 0 };
    if from.read::<8>().await? != *MAGIC {
        return Err(damaged("it does not begin as a base does"));
    }
    let identity = Identity(from.read().await?);
    let mut numbers = [0; 3];
    for number in &mut numbers {
        *number = u64::from_le_bytes(from.read().await?);
    }
    let [sequence, term, position] = numbers;
    let (sequence, term, position) = (Sequence(sequence), Term(term), Position(position));
    let end = End { sequence, term, position, hash: Hash(from.read().await?) };
    loop {
        let name_length = u16::from_le_bytes(from.read().await?);
        if name_length == 0 {
            break;
        }
        let length = u64::from_le_bytes(from.read().await?);
        let mut name = vec![0; name_length.into()];
        from.read_into(&mut name).await?;
        // A name, and no way to another directory.
        let name = String::from_utf8(name).ok().filter(|name| !name.contains('/') && name != "." && name != "..");
        let name = name.ok_or_else(|| damaged("a name in it is none"))?;
        let mut file = File::create_new(directory.join(name)).await?;
        let mut chunk = vec![0; CHUNK];
        loop {
            let at = u64::from_le_bytes(from.read().await?);
            let bytes = u32::from_le_bytes(from.read().await?);
            if bytes == 0 {
                break;
            }
            let chunk = chunk.get_mut(..bytes as usize);
            let chunk = chunk.filter(|_| at.checked_add(bytes.into()).is_some_and(|end| end <= length));
            let chunk = chunk.ok_or_else(|| damaged("a piece in it is of no place"))?;
            from.read_into(chunk).await?;
            file.seek(SeekFrom::Start(at)).await?;
            file.write_all(chunk).await?;
        }
        file.flush().await?;
        file.set_len(length).await?;
        file.sync_all().await?;
    }
    let sum = from.sum;
    if u32::from_le_bytes(from.read().await?) != sum {
        return Err(damaged("its checksum is wrong"));
    }
    sync(directory)?;
    Ok((identity, end))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the base is damaged: {what}"))
}

/// A stream, and the checksum of what has passed it.
struct Summed<S> {
    stream: S,
    sum: u32,
}

impl<S: AsyncWrite + Unpin> Summed<S> {
    async fn piece(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(&at.to_le_bytes()).await?;
        self.write(&(bytes.len() as u32).to_le_bytes()).await?;
        self.write(bytes).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        self.stream.write_all(bytes).await
    }
}

impl<S: AsyncRead + Unpin> Summed<S> {
    async fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_into(&mut bytes).await?;
        Ok(bytes)
    }

    async fn read_into(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let read = timeout(PATIENCE, self.stream.read_exact(bytes)).await;
        read.map_err(|_| io::Error::other("the base does not go on"))??;
        self.sum = crc32c::crc32c_append(self.sum, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_base_comes_back_and_damage_is_found() {
        let directory = std::env::temp_dir().join(format!("ermined-base-{}", std::process::id()));
        let (from, to) = (directory.join("from"), directory.join("to"));
        fs::create_dir_all(&from).unwrap();
        let long: Vec<u8> = (0..5 * CHUNK / 2).map(|at| (at % 253) as u8).collect();
        let sparse = [&b"data"[..], &vec![0; 20 * CHUNK], b"label", &[0; 9]].concat();
        for (name, bytes) in [("one", &b"1"[..]), ("empty", b""), ("long", &long), ("sparse", &sparse)] {
            fs::write(from.join(name), bytes).unwrap();
        }
        let identity = Identity([3; 16]);
        let end = End { sequence: Sequence(8), term: Term(2), position: Position(99), hash: Hash([7; 32]) };
        assert_eq!(end_of(&name_of(end)), Some((end.sequence, end.position)));
        let mut blob = Vec::new();
        pack(&from, identity, end, &mut blob).await.unwrap();
        fs::create_dir(&to).unwrap();
        assert_eq!(unpack(&blob[..], &to).await.unwrap(), (identity, end));
        assert_eq!(fs::read_dir(&to).unwrap().count(), 4);
        assert!(blob.len() < long.len() + 1000);
        for name in ["one", "empty", "long", "sparse"] {
            assert!(fs::read(to.join(name)).unwrap() == fs::read(from.join(name)).unwrap(), "{name}");
        }
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..50 {
            fs::remove_dir_all(&to).unwrap();
            fs::create_dir(&to).unwrap();
            let mut wrong = blob.clone();
            match random.bool() {
                true => wrong[random.usize(..blob.len())] ^= 1 << random.u8(..8),
                false => wrong.truncate(random.usize(..blob.len())),
            }
            assert!(unpack(&wrong[..], &to).await.is_err());
        }
        // No name leads out of the directory.
        let at = blob.windows(3).position(|bytes| bytes == b"one").unwrap();
        blob[at..at + 3].copy_from_slice(b"../");
        assert!(unpack(&blob[..], &to).await.is_err() && !directory.join("..one").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
