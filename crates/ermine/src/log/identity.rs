//! The identity of a database, stored in every one of its files, and the extent of its log, stored in a file of its
//! own.
//!
//! ```text
//!   IDENTITY  two slots, 4096 bytes apart, written in turn; the whole one with the greater serial counts
//!   slot      magic 8 bytes | serial u64 | identity 16 bytes | unlabelled u64 | newest u64 | durable u64 | crc u32
//!   label     magic 8 bytes | identity 16 bytes | sequence u64 | start u64 | end u64 | whole u64 | crc u32
//! ```
//!
//! A crash tears what was not synced, and recovery cuts that off. Any other loss (a segment that is missing, empty, cut
//! or of another database) looks the same from within the log, so it is detected by data that was synced elsewhere: the
//! file `IDENTITY` records which file of the log is the newest, and up to where the log had been durable at some time.
//!
//! A *label* is the last page of a segment's file, behind all blocks. A file that was cut has none, and a file that was
//! brought from elsewhere has another.
//!
//! Invariants
//! 1. *Recorded last*: the state of the log that a slot records was synced before the slot was written.
//! 2. *Recorded first*: no block of a segment is written before a slot records that the segment exists. No commit of a
//!    generation of the parallel log is acknowledged before a slot records that the generation exists.
//! 3. *Created first*: the file and its name are durable before any other file of the database is made.
//!
//! Databases of earlier versions of the program have neither the file nor labels. They get the file when they are
//! opened; files in front of `unlabelled` (an offset of the log, a generation) may be without a label.

use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{
    room::is_final,
    space::{PAGE_BYTES, Span},
};
use crate::platform::file::{Directory, File, Open};

/// The name of the identity file.
pub(crate) const IDENTITY: &str = "IDENTITY";
/// The file's name until it is complete.
const UNFINISHED: &str = "IDENTITY.new";

const MAGIC: [u8; 8] = *b"ERMIDEN1";
const LABEL_MAGIC: [u8; 8] = *b"ERMLABE1";
const SLOT_DISTANCE: u64 = 4096;
const SLOT_BYTES: usize = 60;
const LABEL_BYTES: usize = 60;

/// The unique name of a database: drawn at random when the database is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity([u8; Self::BYTES]);

impl Identity {
    pub(crate) const BYTES: usize = 16;

    /// Draws an identity at random.
    pub(crate) fn draw() -> Self {
        let mut bytes = [0; Self::BYTES];
        for half in bytes.chunks_exact_mut(8) {
            // Its keys come from the system's source of randomness.
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u128(std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()));
            hasher.write_u32(std::process::id());
            half.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self(bytes)
    }

    pub(crate) fn bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the CRC-32C of `bytes`, and then of the identity of their database; `None`: of a database of an earlier
    /// version of the program.
    pub(crate) fn sum(of: Option<Self>, bytes: &[u8]) -> u32 {
        let crc = crc32c::crc32c(bytes);
        of.map_or(crc, |of| crc32c::crc32c_append(crc, &of.bytes()))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The statement that a database's identity file makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) identity: Identity,
    /// Files in front of this may be without a label; 0: none is.
    pub(crate) unlabelled: u64,
    /// One more than the number of the newest file of the log, a segment or a generation; 0: there is none.
    pub(crate) newest: u64,
    /// The offset up to which the log was durable.
    pub(crate) durable: u64,
}

impl Said {
    /// For a database that is being created, or for one without an identity whose log ends at `unlabelled`.
    pub(crate) fn of_new(unlabelled: u64) -> Self {
        Self { identity: Identity::draw(), unlabelled, newest: 0, durable: 0 }
    }
}

/// Numbers stored one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn identity(&mut self) -> Option<Identity> {
        let (identity, rest) = self.0.split_at_checked(Identity::BYTES)?;
        self.0 = rest;
        Identity::read(identity)
    }
}

/// Appends the checksum of all the bytes.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// Returns the fields between the magic number and the checksum, if both are right.
fn unsealed<'a>(bytes: &'a [u8], magic: &[u8; 8]) -> Option<Fields<'a>> {
    let (front, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let is_whole = crc == crc32c::crc32c(front).to_le_bytes() && front.starts_with(magic);
    is_whole.then(|| Fields(&front[magic.len()..]))
}

fn encode(serial: u64, said: &Said) -> Vec<u8> {
    let mut slot = MAGIC.to_vec();
    slot.extend(serial.to_le_bytes());
    slot.extend(said.identity.bytes());
    [said.unlabelled, said.newest, said.durable].iter().for_each(|number| slot.extend(number.to_le_bytes()));
    sealed(slot)
}

fn decode(slot: &[u8]) -> Option<(u64, Said)> {
    let mut fields = unsealed(slot, &MAGIC)?;
    let (serial, identity) = (fields.number()?, fields.identity()?);
    let said = Said { identity, unlabelled: fields.number()?, newest: fields.number()?, durable: fields.number()? };
    Some((serial, said))
}

/// The identity file.
pub(crate) struct IdentityFile {
    file: Arc<dyn File>,
    state: Mutex<(u64, Said)>,
}

impl IdentityFile {
    /// Creates the file, durably, with its name.
    pub(crate) fn create(directory: &dyn Directory, said: Said) -> io::Result<Self> {
        if directory.list()?.iter().any(|name| name == UNFINISHED) {
            directory.remove(UNFINISHED)?;
        }
        let file = directory.open(UNFINISHED, Open::Create)?;
        Self::fill(&*file, said)?;
        directory.rename(UNFINISHED, IDENTITY)?;
        directory.sync()?;
        Ok(Self { file, state: Mutex::new((2, said)) })
    }

    /// Writes both slots of a new file, durably; the name is the caller's.
    pub(crate) fn fill(file: &dyn File, said: Said) -> io::Result<()> {
        let mut bytes = vec![0; 2 * SLOT_DISTANCE as usize];
        for serial in [1, 2] {
            let slot = encode(serial, &said);
            bytes[(serial % 2 * SLOT_DISTANCE) as usize..][..slot.len()].copy_from_slice(&slot);
        }
        file.write_at(0, &bytes)?;
        file.sync()
    }

    /// Opens the file, which exists; `None`: no slot of it is whole.
    pub(crate) fn open(directory: &dyn Directory) -> io::Result<Option<Self>> {
        let file = directory.open(IDENTITY, Open::Write)?;
        let newest = newest(&*file)?;
        Ok(newest.map(|newest| Self { file, state: Mutex::new(newest) }))
    }

    fn state(&self) -> MutexGuard<'_, (u64, Said)> {
        self.state.lock().expect("no code panics while it writes the slot")
    }

    pub(crate) fn identity(&self) -> Identity {
        self.said().identity
    }

    /// Returns the current statement.
    pub(crate) fn said(&self) -> Said {
        self.state().1
    }

    /// Records, durably, the newest file of the log, as one more than its number, and the offset up to which the log is
    /// durable.
    pub(crate) fn note(&self, newest: u64, durable: u64) -> io::Result<()> {
        let mut state = self.state();
        let (serial, said) = (state.0 + 1, Said { newest, durable, ..state.1 });
        self.file.write_at(serial % 2 * SLOT_DISTANCE, &encode(serial, &said))?;
        self.file.sync().map_err(is_final)?;
        *state = (serial, said);
        Ok(())
    }
}

/// Reads the identity file of a directory's database; `None`: no slot of it is whole.
pub(crate) fn read(directory: &dyn Directory) -> io::Result<Option<Said>> {
    let file = directory.open(IDENTITY, Open::Read)?;
    Ok(newest(&*file)?.map(|(_, said)| said))
}

/// Positions of the slots that are not whole: each lies in one sector, which no crash tears.
pub(crate) fn damaged_slots(directory: &dyn Directory) -> io::Result<Vec<u64>> {
    let file = directory.open(IDENTITY, Open::Read)?;
    let slots = slots(&*file)?.into_iter().zip([0, SLOT_DISTANCE]);
    Ok(slots.filter(|(slot, _)| slot.is_none()).map(|(_, at)| at).collect())
}

fn newest(file: &dyn File) -> io::Result<Option<(u64, Said)>> {
    Ok(slots(file)?.into_iter().flatten().max_by_key(|(serial, _)| *serial))
}

fn slots(file: &dyn File) -> io::Result<[Option<(u64, Said)>; 2]> {
    let mut slots = [None; 2];
    for (number, slot) in (0..).zip(&mut slots) {
        let mut bytes = [0; SLOT_BYTES];
        let read = file.read_at(number * SLOT_DISTANCE, &mut bytes)?;
        *slot = decode(&bytes[..read]).filter(|(serial, _)| serial % 2 == number);
    }
    Ok(slots)
}

/// The last page of a segment's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label {
    pub(crate) identity: Identity,
    pub(crate) span: Span,
    /// The offset up to which the segment has blocks with content, as far as that is known: for a copy that was cut,
    /// the cut.
    pub(crate) whole: u64,
}

impl Label {
    /// Returns the position of the label in the file of its segment.
    fn position(span: &Span) -> u64 {
        span.position(span.end).next_multiple_of(PAGE_BYTES)
    }

    /// Writes the label; the file then has its proper length.
    pub(crate) fn write(&self, file: &dyn File) -> io::Result<()> {
        let mut label = LABEL_MAGIC.to_vec();
        label.extend(self.identity.bytes());
        let numbers = [self.span.sequence, self.span.start, self.span.end, self.whole];
        numbers.iter().for_each(|number| label.extend(number.to_le_bytes()));
        let mut page = sealed(label);
        page.resize(PAGE_BYTES as usize, 0);
        file.write_at(Self::position(&self.span), &page)
    }

    /// Returns the label in the file of a segment; `None`: there is none that is whole.
    pub(crate) fn read(file: &dyn File, span: &Span) -> io::Result<Option<Self>> {
        let mut bytes = [0; LABEL_BYTES];
        let read = file.read_at(Self::position(span), &mut bytes)?;
        Ok(Self::decode(&bytes[..read]))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = unsealed(bytes, &LABEL_MAGIC)?;
        let identity = fields.identity()?;
        let span = Span { sequence: fields.number()?, start: fields.number()?, end: fields.number()? };
        Some(Self { identity, span, whole: fields.number()? })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::platform::file::faulty::FaultyDirectory;

    #[test]
    fn what_was_said_last_comes_back_and_a_damaged_slot_leaves_the_one_before() {
        let directory = FaultyDirectory::new();
        let said = Said::of_new(7);
        let file = IdentityFile::create(&directory, said).unwrap();
        assert_eq!(read(&directory).unwrap(), Some(said));
        for turn in 1..4 {
            file.note(turn, 100 * turn).unwrap();
            assert_eq!(read(&directory).unwrap(), Some(Said { newest: turn, durable: 100 * turn, ..said }));
        }
        assert_eq!(IdentityFile::open(&directory).unwrap().unwrap().identity(), said.identity);
        // The fifth write went to the second slot.
        directory.flip(IDENTITY, SLOT_DISTANCE + 30, 0).unwrap();
        assert_eq!(read(&directory).unwrap(), Some(Said { newest: 2, durable: 200, ..said }));
        assert_eq!(damaged_slots(&directory).unwrap(), [SLOT_DISTANCE]);
        directory.flip(IDENTITY, 9, 3).unwrap();
        assert_eq!(read(&directory).unwrap(), None);
    }

    #[test]
    fn no_two_databases_have_one_identity() {
        let drawn: std::collections::HashSet<_> = (0..1000).map(|_| Identity::draw()).collect();
        assert_eq!(drawn.len(), 1000);
    }

    #[test]
    fn a_label_says_whose_its_file_is_unless_the_file_was_cut() {
        let directory = FaultyDirectory::new();
        let file = directory.open("a", Open::Create).unwrap();
        let span = Span { sequence: 3, start: 4096 + 32, end: 50_000 };
        assert_eq!(Label::read(&*file, &span).unwrap(), None);
        let label = Label { identity: Identity::draw(), span, whole: span.start };
        label.write(&*file).unwrap();
        assert_eq!(Label::read(&*file, &span).unwrap(), Some(label));
        let length = file.length().unwrap();
        assert_eq!(length, (50_000 - 4096_u64).next_multiple_of(4096) + 4096);
        for (cut, is_there) in [(length - 4000, true), (length - 4096 + 59, false), (0, false)] {
            directory.cut("a", cut).unwrap();
            assert_eq!(Label::read(&*file, &span).unwrap().is_some(), is_there, "{cut}");
        }
    }
}
