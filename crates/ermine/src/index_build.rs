//! Building a secondary index over the rows of a table, while transactions read and write the table
//! (docs/design/index-build.md).
//!
//! ```text
//!   announce   writers maintain the index; it is neither logged nor in the catalog         tables.rs
//!   outlast    wait for the writes that do not know it
//!   fill       all rows: the entry of the newest committed state of each
//!   compare    of a unique index: rows with the same key
//!   finish     the catalog has the index, durably; from now on its entries are logged       tables.rs
//!   or else    the index is withdrawn, and freed when the transactions that met it have ended
//! ```
//!
//! Invariants
//! 1. *After the fill, each row has the entry of its newest committed state and of those that are not committed yet.*
//!    A row that was written by a transaction which did not know the index is visited when that transaction has ended
//!    (rows with versions), or the transaction loses at its commit (rows with one version).
//! 2. *Snapshots from before the end of the fill do not use the index*: the states that they show may have no entry.
//! 3. *The log has no entry of an index that the catalog has not*, and a row's last entry in the log is right: the
//!    writes of a row that log no entry come before those that do. Entries that the log lacks are added when the
//!    application opens the index after a recovery.

use std::{sync::Arc, time::Duration};

use crate::{
    epoch::{EpochManager, Guard, Participant},
    error::{Error, Result},
    ids::{IndexOrdinal, RowId, Stamp, TableId, Tid},
    index::{Batch, Walk},
    schema::Schema,
    sync::{Instant, Spin},
    table::{Secondary, TableParts},
    types::KeyBuffer,
};

/// A visitor of keys and values.
pub(crate) type RowVisit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// Some rows of a table.
#[derive(Clone, Copy)]
pub(crate) enum Sample<'k> {
    /// So many from each end.
    Ends(usize),
    Keys(&'k [KeyBuffer]),
}

/// The result of looking at a row.
pub(crate) enum Looked<T> {
    At(T),
    /// Look again when this transaction has ended; `None`: soon.
    Again(Option<Tid>),
}

/// A row in an index, and the transaction that has been waited for: other transactions that write the row know the
/// index.
#[derive(Clone, Copy)]
pub(crate) struct Place<'k> {
    pub(crate) index: IndexOrdinal,
    pub(crate) row: RowId,
    /// The primary key, or the entry.
    pub(crate) key: &'k [u8],
    pub(crate) ended: Option<Tid>,
}

/// The operations of an engine that building an index needs.
pub(crate) trait Builds: Schema {
    /// The parts of the engine that each row needs.
    type Hand;

    fn hand(&self) -> Self::Hand;

    /// Visits some rows, as a transaction sees them.
    fn visit_rows(&self, table: TableId, sample: Sample<'_>, visit: &mut RowVisit<'_>) -> Result<()>;

    /// Waits until all writes have ended that began before an index was announced, as far as they would go unnoticed
    /// later.
    fn outlast_writes(&self, patience: &mut Patience) -> Result<()>;

    /// Fails if there is no memory for more entries.
    fn check_memory(&self) -> Result<()>;

    /// Adds the entry of a row's newest committed state to an index. The place has the primary key.
    fn add_entry(
        &self,
        hand: &mut Self::Hand,
        nodes: &Guard<'_>,
        table: &TableParts<Self::Family>,
        place: Place<'_>,
    ) -> Result<Looked<()>>;

    /// Returns whether a row's newest committed state belongs to an entry: a number that changes with the state. The
    /// place has the entry.
    fn state_of(
        &self,
        hand: &mut Self::Hand,
        nodes: &Guard<'_>,
        table: &TableParts<Self::Family>,
        place: Place<'_>,
    ) -> Result<Looked<Option<u64>>>;

    /// Whether a transaction that began before the build must not use the index: one that reads no snapshot, and to
    /// which the stamps of leaves tell which keys have left them. They tell nothing of the time before the build.
    fn needs_later_transactions(&self) -> bool;

    /// Returns a stamp that the snapshot of every transaction reaches that begins when this has returned.
    fn snapshot_now(&self) -> Stamp;
}

/// The limit to waits for other transactions.
pub(crate) struct Patience<'n> {
    wait_max: Duration,
    since: Instant,
    spin: Spin,
    /// The index and its table, for messages.
    of: &'n str,
}

impl<'n> Patience<'n> {
    pub(crate) fn new(wait_max: Duration, of: &'n str) -> Self {
        Self { wait_max, since: Instant::now(), spin: Spin::default(), of }
    }

    /// Begins a wait.
    fn begin(&mut self) {
        (self.since, self.spin) = (Instant::now(), Spin::default());
    }

    /// Waits a little; fails when the wait has lasted too long.
    pub(crate) fn wait(&mut self, what: &str) -> Result<()> {
        if self.since.elapsed() >= self.wait_max {
            return Err(Error::Schema(format!(
                "{} was not built: {what} for {:.1?}. If it is the caller's, end it first; or try again, or wait \
                 longer (IndexOptions::wait_max)",
                self.of, self.wait_max
            )));
        }
        self.spin.wait();
        Ok(())
    }
}

/// Tells about a long build from time to time.
struct Progress<'n> {
    began: Instant,
    told: u64,
    of: &'n str,
}

impl Progress<'_> {
    fn tell(&mut self, doing: &str, count: u64) {
        let seconds = self.began.elapsed().as_secs();
        if self.told < seconds {
            self.told = seconds;
            ::log::info!("building {}: {doing} {count} in {seconds} s", self.of);
        }
    }
}

/// Entries visited at a time.
const BATCH_ENTRIES: usize = 64;

/// A build, from the announcement of the index to its end.
pub(crate) struct Build<'b, B: Builds> {
    pub(crate) builds: &'b B,
    pub(crate) table: &'b TableParts<B::Family>,
    pub(crate) index: IndexOrdinal,
    pub(crate) nodes: &'b Arc<EpochManager>,
    pub(crate) patience: Patience<'b>,
}

impl<B: Builds> Build<'_, B> {
    /// Fills the index; returns the first snapshots that may use it. The index has been announced.
    pub(crate) fn run(mut self) -> Result<Stamp> {
        let began = Instant::now();
        let mut progress = Progress { began, told: 0, of: self.patience.of };
        self.patience.begin();
        self.builds.outlast_writes(&mut self.patience)?;
        let rows = self.fill(&mut progress)?;
        self.secondary().set_filled_at(self.builds.snapshot_now());
        let is_unique = self.secondary().uniqueness.is_unique();
        if is_unique {
            self.table.renew_indexes();
        }
        // Operations that took all superseded versions for versions without an entry remove none from now on.
        self.patience.begin();
        self.builds.outlast_writes(&mut self.patience)?;
        if is_unique {
            self.compare(&mut progress)?;
        }
        if rows > 0 {
            ::log::info!("built {} over {rows} rows in {:.1?}", self.patience.of, began.elapsed());
        }
        Ok(self.builds.snapshot_now())
    }

    /// The index. It is announced until the build has ended, so it can be used outside of epochs.
    fn secondary(&self) -> &Secondary {
        self.table.secondary(self.index)
    }

    fn check_table(&self) -> Result<()> {
        if self.table.is_dropped() {
            return Err(Error::Schema(format!("{} was not built: the table was dropped", self.patience.of)));
        }
        Ok(())
    }

    /// Gives all rows their entries; returns the number of rows.
    fn fill(&mut self, progress: &mut Progress<'_>) -> Result<u64> {
        let (participant, mut hand) = (self.nodes.join_as("index build"), self.builds.hand());
        let (mut walk, mut batch) = (Walk::default(), Batch::default());
        let (mut rows, mut later) = (0, Vec::new());
        loop {
            self.check_table()?;
            self.builds.check_memory()?;
            let nodes = participant.enter();
            if !self.table.primary.walk(&nodes, &mut walk, &mut batch, BATCH_ENTRIES) {
                break;
            }
            rows += batch.len() as u64;
            for at in 0..batch.len() {
                let place = Place { index: self.index, row: batch.row(at), key: batch.key(at), ended: None };
                if let Looked::Again(other) = self.builds.add_entry(&mut hand, &nodes, self.table, place)? {
                    later.push((KeyBuffer::from_slice(place.key), other));
                }
            }
            drop(nodes);
            participant.reclaim(BATCH_ENTRIES);
            progress.tell("rows visited:", rows);
        }
        // The rows at which other transactions were, most of which have ended by now.
        for (at, &(ref key, mut ended)) in later.iter().enumerate() {
            self.patience.begin();
            loop {
                self.outlast(ended)?;
                let nodes = participant.enter();
                let Some(row) = self.table.primary.get(&nodes, key).row else { break };
                let place = Place { index: self.index, row, key, ended };
                match self.builds.add_entry(&mut hand, &nodes, self.table, place)? {
                    Looked::At(()) => break,
                    Looked::Again(other) => ended = other,
                }
                drop(nodes);
                self.patience.wait("another transaction has been at one of its rows")?;
            }
            progress.tell("rows left that others were writing:", (later.len() - at) as u64);
        }
        Ok(rows)
    }

    /// Waits until a transaction has ended.
    fn outlast(&mut self, other: Option<Tid>) -> Result<()> {
        while other.is_some_and(|other| self.builds.is_in_flight(other)) {
            self.check_table()?;
            self.patience.wait("a transaction that has written one of its rows has been open")?;
        }
        Ok(())
    }

    /// Fails where two rows have one key. Every row has its entry, and all writes now find it.
    fn compare(&mut self, progress: &mut Progress<'_>) -> Result<()> {
        let (participant, mut hand) = (self.nodes.join_as("index build"), self.builds.hand());
        let (mut walk, mut batch) = (Walk::default(), Batch::default());
        let (mut entries, mut last) = (0, None::<(KeyBuffer, RowId)>);
        loop {
            self.check_table()?;
            if !self.secondary().entries.walk(&participant.enter(), &mut walk, &mut batch, BATCH_ENTRIES) {
                return Ok(());
            }
            entries += batch.len() as u64;
            for at in 0..batch.len() {
                let this = (KeyBuffer::from_slice(batch.key(at)), batch.row(at));
                last = Some(match last.take() {
                    Some(last) if self.unique_key(&last.0)? == self.unique_key(&this.0)? && last.1 != this.1 => {
                        self.one_of(&participant, &mut hand, last, this)?
                    }
                    _ => this,
                });
            }
            progress.tell("entries compared:", entries);
        }
    }

    /// Returns the secondary key of an entry.
    fn unique_key<'e>(&self, entry: &'e [u8]) -> Result<&'e [u8]> {
        let key = self.secondary().primary_key(entry)?;
        Ok(&entry[..entry.len() - key.len()])
    }

    /// Returns one of two entries with the same key: the one that belongs to its row, if one does. Fails if both do at
    /// the same time.
    fn one_of(
        &mut self,
        participant: &Participant,
        hand: &mut B::Hand,
        one: (KeyBuffer, RowId),
        other: (KeyBuffer, RowId),
    ) -> Result<(KeyBuffer, RowId)> {
        let (mut ended, mut other_ended) = (None, None);
        self.patience.begin();
        loop {
            let nodes = participant.enter();
            let before = self.state_of(hand, &nodes, &one, &mut ended)?;
            let between = self.state_of(hand, &nodes, &other, &mut other_ended)?;
            let after = self.state_of(hand, &nodes, &one, &mut ended)?;
            drop(nodes);
            match (before, between, after) {
                (Looked::At(Some(before)), Looked::At(Some(_)), Looked::At(Some(after))) if before == after => {
                    let (table, index) = (self.table.name_of_keys(), Some(self.secondary().name.clone()));
                    return Err(Error::KeyExists { table, index, key: self.unique_key(&one.0)?.into() });
                }
                (_, Looked::At(None), Looked::At(_)) => return Ok(one),
                (_, Looked::At(_), Looked::At(None)) => return Ok(other),
                _ => {}
            }
            self.outlast(ended)?;
            self.outlast(other_ended)?;
            self.patience.wait("another transaction has been at one of two rows with the same key")?;
        }
    }

    /// Returns the state of the row of an entry, if the entry belongs to it; notes the transaction to wait for.
    fn state_of(
        &self,
        hand: &mut B::Hand,
        nodes: &Guard<'_>,
        (entry, row): &(KeyBuffer, RowId),
        ended: &mut Option<Tid>,
    ) -> Result<Looked<Option<u64>>> {
        let place = Place { index: self.index, row: *row, key: entry, ended: *ended };
        let looked = self.builds.state_of(hand, nodes, self.table, place)?;
        if let Looked::Again(other) = looked {
            *ended = other;
        }
        Ok(looked)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
