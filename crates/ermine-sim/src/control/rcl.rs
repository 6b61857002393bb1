//! Read Committed with Locking (SSN 2): "Readers and writers alike must block until the latest version is committed,
//! but readers do not block writers."

use super::{Control, wait_for_writer};
use crate::{
    database::{Database, Refusal},
    table::{RecordId, Slot, VersionId},
};

#[derive(Debug)]
pub(crate) struct Rcl;

impl Control for Rcl {
    fn new(_records: u32) -> Self {
        Self
    }

    fn read(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<VersionId, Refusal> {
        wait_for_writer(db, record)?;
        Ok(db.table.latest(record))
    }

    fn write(&mut self, db: &mut Database, _t: Slot, record: RecordId) -> Result<(), Refusal> {
        wait_for_writer(db, record)
    }
}
