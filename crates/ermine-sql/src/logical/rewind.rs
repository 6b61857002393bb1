//! Moves a slot back: its reader has lost what it had confirmed, or was the reader of another slot.
//!
//! Definitions before a slot's position are not in the log behind it. But if the log between an earlier position and the
//! slot's has no change of definitions, they were the same there.

use std::time::Duration;

use ermine::{ChangeReader, Database, Error};

use super::{decode::Decoder, history::History, slots::Lease};
use crate::{error::Result, failure::EngineResult as _};

/// How long the log is waited for that lies before the slot's position.
const WAIT: Duration = Duration::from_secs(5);

/// Moves a slot to an earlier position; returns whether it is there. It stays if the log from there on is not there any
/// more, or has changes of definitions. `catalog` is the engine's table of the catalog.
pub(crate) fn rewind(database: &Database, lease: &Lease, catalog: u32, position: u64) -> Result<bool> {
    let (confirmed, image) = lease.begin()?;
    // Looked at before: a slot that asks for more than there is would be lost.
    if position >= confirmed || open(database, position)?.is_none() {
        return Ok(position == confirmed);
    }
    lease.keep_from(position);
    let Some(mut reader) = open(database, position)? else { return Ok(false) };
    let decoder = Decoder::new(History::default(), Vec::new(), catalog);
    while reader.position() < confirmed {
        match there(reader.next())? {
            Some(Some(transaction)) if transaction.stamp.as_u64() >= confirmed => break,
            Some(Some(transaction)) if decoder.definitions(&transaction.changes)?.is_empty() => {}
            // Of a cluster, what is there is read when it is replicated.
            Some(None) if reader.wait(WAIT).sql()? => {}
            _ => return Ok(false),
        }
    }
    lease.place(position, image)?;
    Ok(true)
}

/// Returns a reader from a position on; `None`: there is no such position, or not any more.
fn open(database: &Database, position: u64) -> Result<Option<ChangeReader<'_>>> {
    there(database.changes(Some(position)))
}

/// `None`: the log is not there any more, or has no keys there.
fn there<T>(read: ermine::Result<T>) -> Result<Option<T>> {
    match read {
        Err(Error::LogRemoved { .. } | Error::Options(_)) => Ok(None),
        read => read.map(Some).sql(),
    }
}
