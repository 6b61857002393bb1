//! Optimistic concurrency control: a transaction commits if no version that it has read has been overwritten.
//!
//! Over [`Private`] writes this is Silo's rule (SiloR 2), over snapshot isolation the read-set validation of ERMIA 3.6
//! (`mvocc`). The commit is atomic here: Silo's locks during the commit do not appear.

use super::Control;
use crate::{
    database::{Database, Refusal},
    outcome::Cause,
    table::{RecordId, Slot, Stamp, VersionId},
};

/// Reads the newest version; keeps writes private until the commit.
#[derive(Debug)]
pub(crate) struct Private;

impl Control for Private {
    const PRIVATE_WRITES: bool = true;

    fn new(_records: u32) -> Self {
        Self
    }

    fn read(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        Ok(db.table.latest(record))
    }

    fn write(&mut self, _db: &mut Database, _t: Slot, _record: RecordId) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The scheme `U` with validation of the read set. Over snapshot isolation, a transaction without writes needs none: it
/// comes before all transactions that its snapshot does not contain.
#[derive(Debug)]
pub(crate) struct Validated<U>(U);

impl<U: Control> Control for Validated<U> {
    const SNAPSHOT: bool = U::SNAPSHOT;
    const PRIVATE_WRITES: bool = U::PRIVATE_WRITES;

    fn new(records: u32) -> Self {
        Self(U::new(records))
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        self.0.read(db, t, record)
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        self.0.write(db, t, record)
    }

    fn commit(&mut self, db: &mut Database, t: Slot, cstamp: Stamp) -> Result<(), Cause> {
        let is_snapshot = U::SNAPSHOT && db[t].writes.is_empty();
        let is_newest = |&version: &VersionId| db.table[version].sstamp == Stamp::INFINITE;
        if !is_snapshot && !db[t].reads.iter().all(is_newest) {
            return Err(Cause::Certifier);
        }
        for at in 0..db[t].writes.len() {
            let overwritten = db.table.latest(db[t].writes[at]);
            db.table[overwritten].sstamp = cstamp;
        }
        Ok(())
    }
}
