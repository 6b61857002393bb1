//! The progress of a long statement, as other sessions see it: the rows of `pg_stat_progress_copy` and
//! `pg_stat_progress_create_index`.
//!
//! The session's thread alone writes it, into memory of the session, and once a batch of rows. All counters are relaxed:
//! a reader may see those of one moment beside those of the next.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
};

use super::{definition::ObjectId, footprint::Footprint};

/// Rows after which a statement says how far it is.
pub(crate) const ROWS_PER_REPORT: u64 = 128;

/// A kind of statement that says how far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Command {
    CopyFrom = 1,
    CopyTo,
    CreateIndex,
}

/// The phases of building an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    Initializing,
    /// Waits for the transactions that do not know the index.
    Waiting,
    /// Looks for entries that their rows do not have.
    Purging,
    /// Adds the entries of all rows.
    Scanning,
}

/// How far the statement of a session is.
#[derive(Default)]
pub(crate) struct Progress {
    /// A [`Command`]; 0: no statement says how far it is.
    command: AtomicU8,
    /// A [`Phase`].
    phase: AtomicU8,
    relation: AtomicU32,
    index: AtomicU32,
    rows_total: AtomicU64,
    rows: AtomicU64,
    rows_excluded: AtomicU64,
    bytes: AtomicU64,
}

/// How far a statement is, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    pub(crate) command: Command,
    pub(crate) phase: Phase,
    /// The table; 0: a COPY of a query.
    pub(crate) relation: ObjectId,
    pub(crate) index: ObjectId,
    /// About how many rows there are.
    pub(crate) rows_total: u64,
    pub(crate) rows: u64,
    /// Rows that a condition has left out.
    pub(crate) rows_excluded: u64,
    pub(crate) bytes: u64,
}

/// A statement that says how far it is, until this is dropped.
pub(crate) struct Reporting(Arc<Footprint>);

impl Progress {
    /// Returns how far the statement is, if it says so.
    pub(crate) fn reached(&self) -> Option<Reached> {
        let command = match self.command.load(Ordering::Relaxed) {
            1 => Command::CopyFrom,
            2 => Command::CopyTo,
            3 => Command::CreateIndex,
            _ => return None,
        };
        let phase = match self.phase.load(Ordering::Relaxed) {
            1 => Phase::Waiting,
            2 => Phase::Purging,
            3 => Phase::Scanning,
            _ => Phase::Initializing,
        };
        Some(Reached {
            command,
            phase,
            relation: self.relation.load(Ordering::Relaxed),
            index: self.index.load(Ordering::Relaxed),
            rows_total: self.rows_total.load(Ordering::Relaxed),
            rows: self.rows.load(Ordering::Relaxed),
            rows_excluded: self.rows_excluded.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        })
    }

    /// Begins a phase with about so many rows.
    pub(crate) fn enters(&self, phase: Phase, rows_total: u64) {
        self.rows.store(0, Ordering::Relaxed);
        self.rows_total.store(rows_total, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// Records that so many rows have been processed since the beginning.
    pub(crate) fn reaches(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// Records how much has been copied since the beginning.
    pub(crate) fn copies(&self, bytes: u64, rows: u64, excluded: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.rows.store(rows, Ordering::Relaxed);
        self.rows_excluded.store(excluded, Ordering::Relaxed);
    }
}

impl Reporting {
    /// Begins to report the progress of a statement of the session with that footprint.
    pub(crate) fn begin(footprint: Arc<Footprint>, command: Command, relation: ObjectId, index: ObjectId) -> Self {
        let progress = &footprint.progress;
        progress.enters(Phase::Initializing, 0);
        progress.copies(0, 0, 0);
        progress.relation.store(relation, Ordering::Relaxed);
        progress.index.store(index, Ordering::Relaxed);
        progress.command.store(command as u8, Ordering::Relaxed);
        Self(footprint)
    }
}

impl Deref for Reporting {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.0.progress
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        self.0.progress.command.store(0, Ordering::Relaxed);
    }
}
