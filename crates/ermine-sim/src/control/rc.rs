//! Read Committed (SSN 2): "Reads return the newest committed version of a record and never block. Writes add a new
//! version that overwrites the latest one, blocking only if the latter is uncommitted."

use super::{Control, wait_for_writer};
use crate::{
    database::{Database, Refusal},
    table::{RecordId, Slot, VersionId},
};

#[derive(Debug)]
pub(crate) struct Rc;

impl Control for Rc {
    fn new(_records: u32) -> Self {
        Self
    }

    fn read(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        Ok(db.table.latest(record))
    }

    fn write(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<(), Refusal> {
        wait_for_writer(db, record)
    }
}
