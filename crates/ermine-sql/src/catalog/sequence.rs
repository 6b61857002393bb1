//! Sequences: numbers that no two callers get, whatever the outcome of their transactions.
//!
//! A sequence is a row of the table `sql sequences`: the last number that may have been returned. Transactions of their
//! own take numbers from it in runs. The numbers of a run that are unused when the database is closed are lost, as
//! PostgreSQL loses those that it has logged ahead.

use std::sync::{Arc, Mutex};

use ermine::{Database, KeyBuffer, OwnedTransaction, TableOptions};

use super::{
    definition::{ObjectId, SequenceDef},
    inside,
    temporary::is_temporary,
};
use crate::{
    error::{Result, SqlError, SqlState},
    failure::EngineResult as _,
    storage::RawTable,
};

/// A sequence.
pub(crate) struct Sequence {
    pub(crate) def: SequenceDef,
    database: Arc<Database>,
    rows: RawTable,
    /// Shared with the sequence's other definitions: sessions may still use an older one.
    run: Arc<Mutex<Run>>,
}

/// Numbers that are taken from the row and not returned yet.
#[derive(Default)]
struct Run {
    next: i64,
    left: u64,
    increment: i64,
    /// The bounds of the definition under which it was taken.
    bounds: (i64, i64),
}

/// The engine's table of the states of sequences.
const STATES: &str = "sql sequences";
/// The engine's table of the states of temporary sequences.
const TEMPORARY: &str = "sql temporary sequences";

/// Forgets the state of a temporary sequence that has been dropped.
pub(super) fn forget(database: &Database, id: ObjectId) {
    if let Ok::<RawTable, _>(rows) = database.table_with(TEMPORARY, TableOptions::default().unlogged()) {
        // Without memory for that, the row stays until the database is closed.
        let _ = database.run_with(inside(), |txn| txn.delete(&rows, &id.to_be_bytes()[..]));
    }
}

/// Deletes the state of a sequence, in the transaction that drops it with its database.
pub(super) fn forget_stored(txn: &OwnedTransaction, id: ObjectId) -> Result<()> {
    let rows: RawTable = txn.database().table(STATES).sql()?;
    txn.delete(&rows, &id.to_be_bytes()[..]).map(drop).sql()
}

/// The size of a run.
const RUN: u64 = 32;

impl Sequence {
    pub(super) fn open(database: &Arc<Database>, def: SequenceDef) -> Result<Self> {
        let rows = match is_temporary(&def.schema) {
            true => database.table_with(TEMPORARY, TableOptions::default().unlogged()),
            false => database.table(STATES),
        };
        let rows = rows.sql()?;
        Ok(Self { def, database: database.clone(), rows, run: Arc::default() })
    }

    /// Returns the sequence with another definition.
    pub(super) fn redefined(&self, def: SequenceDef) -> Self {
        Self { def, database: self.database.clone(), rows: self.rows.clone(), run: self.run.clone() }
    }

    fn key(&self) -> KeyBuffer {
        KeyBuffer::from_slice(&self.def.id.to_be_bytes())
    }

    /// Returns the next number.
    pub(crate) fn next(&self) -> Result<i64> {
        let mut run = self.run.lock().expect("no code panics while it holds a sequence");
        let SequenceDef { increment, least, greatest, .. } = self.def;
        if (run.increment, run.bounds) != (increment, (least, greatest)) {
            self.give_back(&mut run)?;
        }
        if run.left == 0 {
            let (next, left) = self.take_run()?;
            *run = Run { next, left, increment, bounds: (least, greatest) };
        }
        let number = run.next;
        run.left -= 1;
        run.next = number.wrapping_add(self.def.increment);
        Ok(number)
    }

    /// Returns the last number, and whether it has been returned to a caller.
    pub(crate) fn state(&self) -> Result<(i64, bool)> {
        let run = self.run.lock().expect("no code panics while it holds a sequence");
        if run.left > 0 {
            return Ok((run.next.wrapping_sub(run.increment), true));
        }
        let stored = self.database.run_with(inside(), |txn| txn.get(&self.rows, &self.key()[..])).sql()?;
        Ok(stored.and_then(|bytes| decode(&bytes)).unwrap_or((self.def.start, false)))
    }

    /// Sets the next number: `number` itself, or the one after it.
    pub(crate) fn set(&self, number: i64, is_called: bool) -> Result<()> {
        let SequenceDef { least, greatest, name, .. } = &self.def;
        if !(*least..=*greatest).contains(&number) {
            let message =
                format!("setval: value {number} is out of bounds for sequence \"{name}\" ({least}..{greatest})");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        self.set_unchecked(number, is_called)
    }

    /// Makes `number` the next one, also where a new definition permits it only.
    pub(crate) fn restart(&self, number: i64) -> Result<()> {
        self.set_unchecked(number, false)
    }

    fn set_unchecked(&self, number: i64, is_called: bool) -> Result<()> {
        let mut run = self.run.lock().expect("no code panics while it holds a sequence");
        let state = encode(number, is_called);
        self.database.run_with(inside(), |txn| txn.put(&self.rows, &self.key()[..], &state[..])).sql()?;
        *run = Run::default();
        Ok(())
    }

    /// Gives the unused numbers back, because the definition has changed.
    pub(crate) fn settle(&self) -> Result<()> {
        self.give_back(&mut self.run.lock().expect("no code panics while it holds a sequence"))
    }

    fn give_back(&self, run: &mut Run) -> Result<()> {
        if run.left > 0 {
            let state = encode(run.next.wrapping_sub(run.increment), true);
            self.database.run_with(inside(), |txn| txn.put(&self.rows, &self.key()[..], &state[..])).sql()?;
        }
        *run = Run::default();
        Ok(())
    }

    fn take_run(&self) -> Result<(i64, u64)> {
        let SequenceDef { start, increment, least, greatest, cycles, name, .. } = &self.def;
        let taken: ermine::Result<_> = self.database.run_with(inside(), |txn| {
            let stored = txn.get(&self.rows, &self.key()[..])?.and_then(|bytes| decode(&bytes));
            let after = |number: i64| number.checked_add(*increment).filter(|next| (*least..=*greatest).contains(next));
            let first = match stored {
                None => Some(*start),
                Some((number, false)) => Some(number).filter(|number| (*least..=*greatest).contains(number)),
                Some((number, true)) => after(number),
            };
            let wrapped = || if *increment > 0 { *least } else { *greatest };
            let Some(first) = first.or_else(|| cycles.then(wrapped)) else { return ermine::Result::Ok(None) };
            let (mut last, mut count) = (first, 1);
            while count < RUN
                && let Some(next) = after(last)
            {
                (last, count) = (next, count + 1);
            }
            txn.put(&self.rows, &self.key()[..], &encode(last, true)[..])?;
            Ok(Some((first, count)))
        });
        taken.sql()?.ok_or_else(|| {
            let (what, bound) = if *increment > 0 { ("maximum", greatest) } else { ("minimum", least) };
            let message = format!("nextval: reached {what} value of sequence \"{name}\" ({bound})");
            SqlError::new(SqlState("2200H"), message)
        })
    }
}

fn encode(number: i64, is_called: bool) -> [u8; 9] {
    let mut bytes = [u8::from(is_called); 9];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<(i64, bool)> {
    let (number, is_called) = bytes.split_first_chunk()?;
    Some((i64::from_be_bytes(*number), is_called == [1]))
}
