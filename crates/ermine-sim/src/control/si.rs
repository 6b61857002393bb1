//! Snapshot Isolation (SSN 2): reads return the newest version that predates the transaction's begin; "writers must
//! abort if they would overwrite a version created after their snapshot".

use super::{Control, wait_for_writer};
use crate::{
    database::{Database, Refusal},
    outcome::Cause,
    table::{RecordId, Slot, VersionId},
};

#[derive(Debug)]
pub(crate) struct Si;

impl Control for Si {
    const SNAPSHOT: bool = true;

    fn new(_records: u32) -> Self {
        Self
    }

    fn read(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        Ok(db.table.as_of(record, db[t].begin))
    }

    fn write(&mut self, db: &mut Database, t: Slot, record: RecordId) -> Result<(), Refusal> {
        if db.table[db.table.latest(record)].cstamp > db[t].begin {
            return Err(Refusal::Abort(Cause::TemporalSkew));
        }
        wait_for_writer(db, record)
    }
}
