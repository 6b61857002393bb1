//! Moves a slot back: its reader has lost what it had confirmed, or was the reader of another slot.
//!
//! Definitions before a slot's position are not in the log behind it. But if the log between an earlier position and
//! that of the slot has no change of definitions, they were the same there.

use std::time::Duration;

use ermine::{ChangeReader, Database, Error};

use super::{decode::Decoder, history::History, slots::Lease};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
};

/// How long the log is waited for that lies before the slot's position.
const WAIT: Duration = Duration::from_secs(1);

/// Moves a slot to an earlier position, that of a commit; returns whether it is there. It stays if the log from there
/// on is not there any more, or too long for a slot, or has changes of definitions, or if no transaction committed
/// there. `catalog` is the engine's table of the catalog.
pub(crate) fn rewind(database: &Database, lease: &Lease, catalog: u32, position: u64) -> Result<bool> {
    let (confirmed, image) = lease.begin()?;
    // Looked at before: a slot that asks for more than there is would be lost.
    if position >= confirmed || !lease.may_keep(position) || open(database, position)?.is_none() {
        return Ok(false);
    }
    lease.keep_from(position);
    let Some(mut reader) = open(database, position)? else { return Ok(false) };
    let decoder = Decoder::new(History::default(), Vec::new(), catalog);
    let mut is_first = true;
    while reader.position() < confirmed {
        let Some(next) = if_there(reader.next())? else { return Ok(false) };
        let Some(transaction) = next else {
            // The log of a cluster is read as far as it is replicated.
            if reader.position() < confirmed && !reader.wait(WAIT).sql()? {
                let message = "the log up to the position of the replication slot cannot be read yet";
                return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
            }
            continue;
        };
        let commit = transaction.stamp.as_u64();
        if std::mem::take(&mut is_first) && commit != position {
            return Ok(false);
        }
        if commit >= confirmed {
            break;
        }
        if !decoder.definitions(&transaction.changes)?.is_empty() {
            return Ok(false);
        }
    }
    if is_first {
        return Ok(false);
    }
    lease.place(position, image)?;
    Ok(true)
}

/// Returns a reader from a position on; `None`: there is no such position, or not any more.
fn open(database: &Database, position: u64) -> Result<Option<ChangeReader<'_>>> {
    if_there(database.changes(Some(position)))
}

/// `None`: the log is not there any more, or has no keys there.
fn if_there<T>(read: ermine::Result<T>) -> Result<Option<T>> {
    match read {
        Err(Error::LogRemoved { .. } | Error::Options(_)) => Ok(None),
        read => read.map(Some).sql(),
    }
}
