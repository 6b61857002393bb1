//! Strict two-phase locking (SSN 2): "Reads return the newest version of a record, blocking if it has not committed
//! yet. Writes replace the latest version, blocking if there are any in-flight reads or writes on the record by other
//! transactions." A write that waits keeps later reads out (figure 4).

use super::{Control, wait_for_writer};
use crate::{
    database::{Database, Refusal},
    table::{RecordId, Slot, VersionId},
};

#[derive(Debug)]
pub(crate) struct TwoPhase {
    /// The read locks of each record.
    readers: Vec<Vec<Slot>>,
    /// The records that each transaction has read, each once.
    locked: Vec<Vec<RecordId>>,
}

impl TwoPhase {
    fn readers(&mut self, record: RecordId) -> &mut Vec<Slot> {
        &mut self.readers[record.0 as usize]
    }
}

impl Control for TwoPhase {
    fn new(records: u32) -> Self {
        Self { readers: vec![Vec::new(); records as usize], locked: Vec::new() }
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        let version = db.table.latest(record);
        if !self.readers(record).contains(&t) {
            wait_for_writer(db, record)?;
            self.readers(record).push(t);
            if self.locked.len() <= t.at() {
                self.locked.resize(t.at() + 1, Vec::new());
            }
            self.locked[t.at()].push(record);
        }
        Ok(version)
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        wait_for_writer(db, record)?;
        let mut permitted = Ok(());
        for &reader in self.readers(record).iter().filter(|&&reader| reader != t) {
            permitted = Err(db.wait_for(reader));
        }
        permitted
    }

    fn end(&mut self, _db: &Database, t: Slot) {
        let Self { readers, locked } = self;
        for record in locked.get_mut(t.at()).into_iter().flat_map(|locked| locked.drain(..)) {
            let readers = &mut readers[record.0 as usize];
            let place = readers.iter().position(|&reader| reader == t).expect("it has locked the record");
            readers.swap_remove(place);
        }
    }
}
