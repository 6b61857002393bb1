//! Locks of rows that are read.
//!
//! A row is locked by writing its current value: a transaction that writes it meanwhile loses, or waits, as with any
//! write, and so does a transaction that locks it from an older snapshot. Shared locks are not needed where reads are
//! certified; at weaker levels they are taken as exclusive locks.

use std::ops::ControlFlow;

use super::{Emit, Run};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    level::Level,
    query::{LockedRows, Wait},
    types::Value,
};

impl Run<'_> {
    /// Locks the table rows from which a row of a query comes, and emits it, unless one of them is skipped.
    pub(super) fn lock_and_show(
        &self,
        locks: &[LockedRows],
        row: &[Value],
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        for locked in locks {
            // NULL: the outer join found no row.
            if let Value::Bytea(key) = &row[locked.key_at]
                && !self.lock_row(locked, key)?
            {
                return Ok(ControlFlow::Continue(()));
            }
        }
        emit(row)
    }

    /// Locks a row; returns false if another transaction has locked it, and it is to be skipped.
    fn lock_row(&self, locked: &LockedRows, key: &[u8]) -> Result<bool> {
        let (rows, lock) = (&locked.table.rows, locked.lock);
        if lock.wait != Wait::AsLongAsAllowed {
            match (self.txn.row_lock(rows, key).sql()?, lock.wait) {
                (ermine::RowLock::Held, Wait::Never) => {
                    let message = format!("could not obtain lock on row in relation \"{}\"", locked.table.name());
                    return Err(SqlError::new(SqlState::LOCK_NOT_AVAILABLE, message));
                }
                (ermine::RowLock::Held, Wait::Skip) => return Ok(false),
                // Its snapshot stays: it would lose to the transaction that has changed the row.
                (ermine::RowLock::Outdated, Wait::Skip) if self.level != Level::ReadCommitted => return Ok(false),
                _ => {}
            }
        }
        if lock.is_shared && self.level == Level::Serializable {
            return Ok(true);
        }
        if let Some(bytes) = self.txn.view(rows, key).sql()?.map(<[u8]>::to_vec) {
            self.txn.update(rows, key, &bytes[..]).sql()?;
        }
        Ok(true)
    }
}
