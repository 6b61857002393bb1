//! The persistent epoch of a generation, in a file `pepoch-GENERATION` of the database's directory (SiloR 3.5).
//!
//! ```text
//!   slot   magic 8 bytes | serial u64 | persistent epoch u64 | count of devices u32 | crc u32 | per device:
//!          sequence of its newest file u32, zero u32, up to where it is whole u64
//! ```
//!
//! Two slots, 4096 bytes apart, are written in turn; the whole one with the greater serial counts, so a torn write
//! leaves the other. The checksum is over everything else in the slot, and then over generation and identity of the
//! database ([`Of`]): a slot of another database or generation is not accepted. A slot also records how far the files
//! of the log are whole: damage in that part was not caused by a torn write.
//!
//! Invariants
//! 1. *Written last*: the state of the log that a slot records was synced before the slot was written.
//! 2. *Created before the log*: the file and its name are durable before the generation's first file of the log is
//!    made.
//! 3. A generation's records of greater epochs than its persistent one never count, whatever later generations write:
//!    the epoch of a generation that has ended no longer changes.

use std::{io, sync::Arc};

use crate::{
    log::{
        identity::{Identity, Said},
        room::{is_final, is_full},
    },
    platform::file::{Directory, File, Open},
};

const PREFIX: &str = "pepoch-";
const MAGIC: [u8; 8] = *b"ERMPEPO1";
const SLOT_DISTANCE: u64 = 4096;
const SLOT_HEAD_BYTES: usize = 32;
const DEVICE_BYTES: usize = 16;

/// Maximum number of devices of a database.
pub(crate) const DEVICES_MAX: usize = 16;

const SLOT_BYTES_MAX: usize = SLOT_HEAD_BYTES + DEVICES_MAX * DEVICE_BYTES;
// A slot fits one sector.
const _: () = assert!(SLOT_BYTES_MAX <= 512);

/// How far the log of one device is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reach {
    /// Number of its newest file; 0: it has none.
    pub(crate) sequence: u32,
    pub(crate) bytes: u64,
}

/// The persistent state of a generation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Persistent {
    pub(crate) epoch: u64,
    /// By device.
    pub(crate) reach: Vec<Reach>,
}

pub(crate) fn name_of(generation: u32) -> String {
    format!("{PREFIX}{generation:08x}")
}

/// Returns the generation that a file of that name belongs to.
pub(crate) fn generation_of(name: &str) -> Option<u32> {
    let generation = u32::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (name_of(generation) == name).then_some(generation)
}

/// The generation and database that a file belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Of {
    pub(crate) generation: u32,
    /// `None`: a database of an earlier version of the program, whose checksums are over the slot alone.
    pub(crate) identity: Option<Identity>,
}

impl Of {
    /// For a generation of the database with that identity file.
    pub(crate) fn new(generation: u32, said: Option<Said>) -> Self {
        Self { generation, identity: said.map(|said| said.identity) }
    }

    /// Returns all owners that a file of a generation may have.
    fn possible(generation: u32, said: Option<Said>) -> impl Iterator<Item = Self> {
        let is_old = said.is_none_or(|said| u64::from(generation) < said.unlabelled);
        let own = said.map(|_| Self::new(generation, said));
        own.into_iter().chain(is_old.then_some(Self::new(generation, None)))
    }

    fn sum(self, slot: &[u8]) -> u32 {
        let crc = crc32c::crc32c(slot);
        self.identity.map_or(crc, |identity| {
            let crc = crc32c::crc32c_append(crc, &self.generation.to_le_bytes());
            crc32c::crc32c_append(crc, &identity.bytes())
        })
    }
}

fn encode(serial: u64, persistent: &Persistent, of: Of) -> Vec<u8> {
    let mut slot = MAGIC.to_vec();
    slot.extend(serial.to_le_bytes());
    slot.extend(persistent.epoch.to_le_bytes());
    slot.extend((persistent.reach.len() as u32).to_le_bytes());
    slot.extend([0; 4]);
    for reach in &persistent.reach {
        slot.extend(reach.sequence.to_le_bytes());
        slot.extend([0; 4]);
        slot.extend(reach.bytes.to_le_bytes());
    }
    let crc = of.sum(&slot);
    slot[28..32].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(bytes: &[u8], of: Of) -> Option<(u64, Persistent)> {
    let head = bytes.get(..SLOT_HEAD_BYTES)?;
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let devices = word(24) as usize;
    if head[..8] != MAGIC || devices > DEVICES_MAX {
        return None;
    }
    let end = SLOT_HEAD_BYTES + devices * DEVICE_BYTES;
    let places = (SLOT_HEAD_BYTES..end).step_by(DEVICE_BYTES);
    let slot = bytes.get(..end)?;
    let reach = places.map(|at| Reach { sequence: word(at), bytes: long(at + 8) }).collect();
    let (serial, persistent) = (long(8), Persistent { epoch: long(16), reach });
    (encode(serial, &persistent, of) == slot).then_some((serial, persistent))
}

/// The file, while its generation is alive.
pub(crate) struct PersistentFile {
    file: Arc<dyn File>,
    of: Of,
    serial: u64,
}

impl PersistentFile {
    /// Creates the file of a generation, durably, in which nothing is persistent above `persistent`.
    pub(crate) fn create(directory: &dyn Directory, of: Of, persistent: &Persistent) -> io::Result<Self> {
        let name = name_of(of.generation);
        let file = directory.open(&name, Open::Create)?;
        let mut made = Self { file, of, serial: 0 };
        let written = made.write_both(persistent);
        if written.as_ref().is_err_and(is_full) {
            // The caller tries again.
            let _ = directory.remove(&name);
        }
        written?;
        directory.sync().map_err(is_final)?;
        Ok(made)
    }

    /// Writes the file of a generation that has ended, in a copy of its log.
    pub(crate) fn fill(file: Arc<dyn File>, of: Of, persistent: &Persistent) -> io::Result<()> {
        Self { file, of, serial: 0 }.write_both(persistent)
    }

    /// Writes the next slot, durably.
    pub(crate) fn write(&mut self, persistent: &Persistent) -> io::Result<()> {
        self.serial += 1;
        self.file.write_at(self.serial % 2 * SLOT_DISTANCE, &encode(self.serial, persistent, self.of))?;
        self.file.sync()
    }

    /// Writes both slots, so that later damage to one of them does no harm.
    pub(crate) fn write_both(&mut self, persistent: &Persistent) -> io::Result<()> {
        self.write(persistent)?;
        self.write(persistent)
    }
}

/// Reads the file of a generation of the database with that identity file; `None`: no slot of it is whole and of this
/// database, or the file has been cut and may have recorded a later state.
pub(crate) fn read(directory: &dyn Directory, generation: u32, said: Option<Said>) -> io::Result<Option<Persistent>> {
    let file = directory.open(&name_of(generation), Open::Read)?;
    if file.length()? < SLOT_DISTANCE + SLOT_HEAD_BYTES as u64 {
        return Ok(None);
    }
    Ok(newest(&*file, generation, said)?.map(|(_, _, persistent)| persistent))
}

/// Makes the state durable that [`read`] returns: if only the process died, or a sync failed, the device may lag
/// behind.
pub(crate) fn make_sure(directory: &dyn Directory, generation: u32, said: Option<Said>) -> io::Result<()> {
    let file = directory.open(&name_of(generation), Open::Write)?;
    if let Some((of, serial, persistent)) = newest(&*file, generation, said)? {
        file.write_at(serial % 2 * SLOT_DISTANCE, &encode(serial, &persistent, of))?;
        file.sync()?;
    }
    Ok(())
}

/// Positions of the slots that are not whole. Once the generation has a file of the log both are: each lies in one
/// sector, which no crash tears.
pub(crate) fn damaged_slots(directory: &dyn Directory, generation: u32, said: Option<Said>) -> io::Result<Vec<u64>> {
    let file = directory.open(&name_of(generation), Open::Read)?;
    let mut damaged = vec![0, SLOT_DISTANCE];
    for of in Of::possible(generation, said) {
        let slots = slots(&*file, of)?.into_iter().zip([0, SLOT_DISTANCE]);
        let whole: Vec<_> = slots.filter(|(slot, _)| slot.is_some()).map(|(_, at)| at).collect();
        damaged.retain(|at| !whole.contains(at));
    }
    Ok(damaged)
}

fn newest(file: &dyn File, generation: u32, said: Option<Said>) -> io::Result<Option<(Of, u64, Persistent)>> {
    for of in Of::possible(generation, said) {
        let newest = slots(file, of)?.into_iter().flatten().max_by_key(|(serial, _)| *serial);
        if let Some((serial, persistent)) = newest {
            return Ok(Some((of, serial, persistent)));
        }
    }
    Ok(None)
}

/// Returns both slots with their serials; `None`: that one is not whole, or of another file.
fn slots(file: &dyn File, of: Of) -> io::Result<[Option<(u64, Persistent)>; 2]> {
    let mut slots = [None, None];
    for (number, slot) in (0..).zip(&mut slots) {
        let mut bytes = [0; SLOT_BYTES_MAX];
        let read = file.read_at(number * SLOT_DISTANCE, &mut bytes)?;
        *slot = decode(&bytes[..read], of).filter(|(serial, _)| serial % 2 == number);
    }
    Ok(slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::file::faulty::{FaultyDirectory, Keep};

    #[test]
    fn a_torn_slot_leaves_the_one_before() {
        let directory = FaultyDirectory::new();
        let said = Some(Said::of_new(0));
        let read = |directory: &FaultyDirectory, generation| read(directory, generation, said);
        let reach = vec![Reach { sequence: 1, bytes: 500 }, Reach::default()];
        let say = |epoch| Persistent { epoch, reach: reach.clone() };
        let mut file = PersistentFile::create(&directory, Of::new(3, said), &say(4)).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(4)));
        file.write(&say(5)).unwrap();
        file.write(&say(6)).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(6)));
        // The fourth write went to the first slot.
        directory.flip(&name_of(3), 20, 0).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(5)));
        make_sure(&directory, 3, said).unwrap();
        // Not accepted for another database, or as another generation's.
        directory.rename(&name_of(3), &name_of(4)).unwrap();
        assert_eq!(read(&directory, 4).unwrap(), None);
        directory.rename(&name_of(4), &name_of(3)).unwrap();
        for said in [None, Some(Said::of_new(0)), Some(Said::of_new(9))] {
            assert_eq!(super::read(&directory, 3, said).unwrap(), None);
        }
        let whole = directory.trace().crash(0, Keep::Everything);
        directory.flip(&name_of(3), SLOT_DISTANCE + 40, 7).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), None);
        // A file that was cut could have recorded more in the slot that is missing.
        for bytes in [SLOT_DISTANCE + 31, SLOT_DISTANCE, 31, 0] {
            whole.cut(&name_of(3), bytes).unwrap();
            assert_eq!(read(&whole, 3).unwrap(), None, "{bytes}");
        }
        assert_eq!((generation_of(&name_of(3)), generation_of("pepoch-3")), (Some(3), None));
    }
}
