//! The persistent epoch of a generation, in a file `pepoch-GENERATION` of the database's directory (SiloR 3.5).
//!
//! ```text
//!   slot   magic 8 bytes | serial u64 | persistent epoch u64 | count of devices u32 | crc u32 | per device:
//!          sequence of its newest file u32, zero u32, up to where it is whole u64
//! ```
//!
//! Two slots, 4096 bytes apart, are written in turn; the whole one with the greater serial counts, so a torn write leaves the
//! other. A slot says also how far the files of the log are whole: what is damaged there was not torn by a crash.
//!
//! Invariants
//! 1. *Written last*: what a slot says of the log was synced before the slot was written.
//! 2. *There before the log*: the file and its name are durable before the generation's first file of the log is made.
//! 3. A generation's records of greater epochs than its persistent one never count, whatever later generations write: the
//!    epoch of a generation that has ended does not change any more.

use std::{io, sync::Arc};

use crate::{
    log::room::{is_final, is_full},
    platform::file::{Directory, File, Open},
};

const PREFIX: &str = "pepoch-";
const MAGIC: [u8; 8] = *b"ERMPEPO1";
const SLOT_DISTANCE: u64 = 4096;
const SLOT_HEAD_BYTES: usize = 32;
const DEVICE_BYTES: usize = 16;

/// Devices that a database can have.
pub(crate) const DEVICES_MAX: usize = 16;

const SLOT_BYTES_MAX: usize = SLOT_HEAD_BYTES + DEVICES_MAX * DEVICE_BYTES;
// A slot is in one sector.
const _: () = assert!(SLOT_BYTES_MAX <= 512);

/// How far the log of one device is whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reach {
    /// Of its newest file; 0: it has none.
    pub(crate) sequence: u32,
    pub(crate) bytes: u64,
}

/// What is persistent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Persistent {
    pub(crate) epoch: u64,
    /// By device.
    pub(crate) reach: Vec<Reach>,
}

pub(crate) fn name_of(generation: u32) -> String {
    format!("{PREFIX}{generation:08x}")
}

/// Of which generation a file of that name is.
pub(crate) fn generation_of(name: &str) -> Option<u32> {
    let generation = u32::from_str_radix(name.strip_prefix(PREFIX)?, 16).ok()?;
    (name_of(generation) == name).then_some(generation)
}

fn encode(serial: u64, persistent: &Persistent) -> Vec<u8> {
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
    let crc = crc32c::crc32c(&slot);
    slot[28..32].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(bytes: &[u8]) -> Option<(u64, Persistent)> {
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
    (encode(serial, &persistent) == slot).then_some((serial, persistent))
}

/// The file, while its generation is alive.
pub(crate) struct PersistentFile {
    file: Arc<dyn File>,
    serial: u64,
}

impl PersistentFile {
    /// Makes the file of a generation, durably, in which nothing is persistent above `persistent`.
    pub(crate) fn create(directory: &dyn Directory, generation: u32, persistent: &Persistent) -> io::Result<Self> {
        let file = directory.open(&name_of(generation), Open::Create)?;
        let mut made = Self { file, serial: 0 };
        let written = made.write_both(persistent);
        if written.as_ref().is_err_and(is_full) {
            // Tried again by the caller.
            let _ = directory.remove(&name_of(generation));
        }
        written?;
        directory.sync().map_err(is_final)?;
        Ok(made)
    }

    /// The file of a generation that has ended, in a copy of its log.
    pub(crate) fn fill(file: Arc<dyn File>, persistent: &Persistent) -> io::Result<()> {
        Self { file, serial: 0 }.write_both(persistent)
    }

    /// Writes the next slot, durably.
    pub(crate) fn write(&mut self, persistent: &Persistent) -> io::Result<()> {
        self.serial += 1;
        self.file.write_at(self.serial % 2 * SLOT_DISTANCE, &encode(self.serial, persistent))?;
        self.file.sync()
    }

    /// Writes both, so that damage to one of them at rest does no harm.
    pub(crate) fn write_both(&mut self, persistent: &Persistent) -> io::Result<()> {
        self.write(persistent)?;
        self.write(persistent)
    }
}

/// What a file says; `None`: no slot of it is whole, or it has been cut and may have said more.
pub(crate) fn read(directory: &dyn Directory, generation: u32) -> io::Result<Option<Persistent>> {
    let file = directory.open(&name_of(generation), Open::Read)?;
    if file.length()? < SLOT_DISTANCE + SLOT_HEAD_BYTES as u64 {
        return Ok(None);
    }
    Ok(newest(&*file)?.map(|(_, persistent)| persistent))
}

/// Makes durable what [`read`] gives: where only the process died, or a sync has failed, the device may lag behind.
pub(crate) fn make_sure(directory: &dyn Directory, generation: u32) -> io::Result<()> {
    let file = directory.open(&name_of(generation), Open::Write)?;
    if let Some((serial, persistent)) = newest(&*file)? {
        file.write_at(serial % 2 * SLOT_DISTANCE, &encode(serial, &persistent))?;
        file.sync()?;
    }
    Ok(())
}

/// Where slots stand that are not whole. Once the generation has a file of the log both are: each lies in one sector, which no crash
/// tears.
pub(crate) fn damaged_slots(directory: &dyn Directory, generation: u32) -> io::Result<Vec<u64>> {
    let file = directory.open(&name_of(generation), Open::Read)?;
    let slots = slots(&*file)?.into_iter().zip([0, SLOT_DISTANCE]);
    Ok(slots.filter(|(slot, _)| slot.is_none()).map(|(_, at)| at).collect())
}

fn newest(file: &dyn File) -> io::Result<Option<(u64, Persistent)>> {
    Ok(slots(file)?.into_iter().flatten().max_by_key(|(serial, _)| *serial))
}

/// Both slots with their serials; `None`: that one is not whole.
fn slots(file: &dyn File) -> io::Result<[Option<(u64, Persistent)>; 2]> {
    let mut slots = [None, None];
    for (number, slot) in (0..).zip(&mut slots) {
        let mut bytes = [0; SLOT_BYTES_MAX];
        let read = file.read_at(number * SLOT_DISTANCE, &mut bytes)?;
        *slot = decode(&bytes[..read]).filter(|(serial, _)| serial % 2 == number);
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
        let reach = vec![Reach { sequence: 1, bytes: 500 }, Reach::default()];
        let say = |epoch| Persistent { epoch, reach: reach.clone() };
        let mut file = PersistentFile::create(&directory, 3, &say(4)).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(4)));
        file.write(&say(5)).unwrap();
        file.write(&say(6)).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(6)));
        // The fourth write went to the first slot.
        directory.flip(&name_of(3), 20, 0).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), Some(say(5)));
        make_sure(&directory, 3).unwrap();
        let whole = directory.trace().crash(0, Keep::Everything);
        directory.flip(&name_of(3), SLOT_DISTANCE + 40, 7).unwrap();
        assert_eq!(read(&directory, 3).unwrap(), None);
        // Cut, it could have said more in the slot that is missing.
        for bytes in [SLOT_DISTANCE + 31, SLOT_DISTANCE, 31, 0] {
            whole.cut(&name_of(3), bytes).unwrap();
            assert_eq!(read(&whole, 3).unwrap(), None, "{bytes}");
        }
        assert_eq!((generation_of(&name_of(3)), generation_of("pepoch-3")), (Some(3), None));
    }
}
