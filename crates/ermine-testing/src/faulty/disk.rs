//! The state of the disk: the changes that are certain, and those that are uncertain.
//!
//! A [`Disk`] is the state after the first operations of a trace. [`advance`](Disk::advance) adds one more operation;
//! `crash.rs` then decides which of the uncertain changes survive.
//!
//! 1. A file's `durable` content survives every crash; `changes` are applied on top, in order, and each may survive or
//!    not within the limits of invariant 2 and `crash.rs`.
//! 2. After a sync that failed, `changes` is never emptied again. The changes that a later sync makes durable are noted
//!    as floors: a sector, or the length, is at least as new as its floor. Data that was written only before the
//!    failure gets no floor, because the system takes it for clean.
//! 3. Changes of names are kept in order in `edits`, and are folded into `names` by a sync, unless one before it
//!    failed; each carries the number of its file, so that it makes sense without those before it.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use super::{
    content::{Content, SECTOR},
    trace::Operation,
};

/// The permanent identity of a file, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileNumber(pub(super) usize);

/// The file of each name.
pub(super) type Names = BTreeMap<String, FileNumber>;

#[derive(Clone, Default)]
pub(super) struct Disk {
    pub(super) files: Vec<Platter>,
    pub(super) names: Names,
    pub(super) edits: Vec<Edit>,
}

/// A change of names.
#[derive(Clone, Copy)]
pub(super) struct Edit {
    /// The number of the operation in the trace.
    pub(super) operation: usize,
    pub(super) standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not synced.
    Pending,
    /// A sync failed.
    Doubtful,
    /// Synced, but after a doubtful edit.
    Sure,
}

/// One file on the disk.
#[derive(Clone, Default)]
pub(super) struct Platter {
    pub(super) durable: Content,
    /// The operations in the trace that changed the file since its last sync.
    pub(super) changes: Vec<usize>,
    /// The number of changes that no later sync will write.
    clean: usize,
    /// Invariant 2: the number of changes that a sector certainly includes.
    pub(super) sector_floors: HashMap<u64, usize>,
    /// Invariant 2: the number of changes that the length certainly includes.
    pub(super) length_floor: usize,
}

impl Disk {
    /// Returns the disk of a machine that was shut down properly.
    pub(super) fn at_rest<'a>(files: impl IntoIterator<Item = &'a Content>, names: Names) -> Self {
        let at_rest = |content: &Content| Platter { durable: content.clone(), ..Platter::default() };
        Self { files: files.into_iter().map(at_rest).collect(), names, edits: Vec::new() }
    }

    /// Applies operation `number` of the trace.
    pub(super) fn advance(&mut self, trace: &[Operation], number: usize) {
        let operation = &trace[number];
        match operation {
            Operation::Write { file, .. } | Operation::SetLength { file, .. } => {
                self.files[file.0].changes.push(number);
            }
            Operation::Sync { file, succeeded } => self.files[file.0].sync(trace, *succeeded),
            Operation::Create { file, .. } => {
                assert_eq!(file.0, self.files.len(), "files are numbered in the order of their creation");
                self.files.push(Platter::default());
                self.edits.push(Edit { operation: number, standing: Standing::Pending });
            }
            Operation::Rename { .. } | Operation::Remove { .. } => {
                self.edits.push(Edit { operation: number, standing: Standing::Pending });
            }
            Operation::SyncDirectory { succeeded } => self.sync_names(trace, *succeeded),
            Operation::Failed => {}
        }
    }

    fn sync_names(&mut self, trace: &[Operation], succeeded: bool) {
        if succeeded && self.edits.iter().all(|edit| edit.standing == Standing::Pending) {
            for edit in self.edits.drain(..) {
                trace[edit.operation].edit(&mut self.names);
            }
        }
        let standing = if succeeded { Standing::Sure } else { Standing::Doubtful };
        for edit in self.edits.iter_mut().filter(|edit| edit.standing == Standing::Pending) {
            edit.standing = standing;
        }
    }
}

impl Platter {
    fn sync(&mut self, trace: &[Operation], succeeded: bool) {
        // Without an earlier failure, all clean changes are durable.
        if succeeded && self.clean == 0 {
            for change in self.changes.drain(..) {
                trace[change].change(&mut self.durable);
            }
        } else if succeeded {
            for change in &self.changes[self.clean..] {
                self.sector_floors.extend(trace[*change].sectors().map(|sector| (sector, self.changes.len())));
            }
            self.length_floor = self.changes.len();
        }
        self.clean = self.changes.len();
    }
}

impl Operation {
    /// Applies the operation to the names.
    pub(super) fn edit(&self, names: &mut Names) {
        match self {
            Self::Create { name, file } => {
                names.insert(name.clone(), *file);
            }
            Self::Rename { to, file, .. } => {
                // Under any name: a rename before this one may have been lost.
                names.retain(|_, named| named != file);
                names.insert(to.clone(), *file);
            }
            Self::Remove { name } => {
                names.remove(name);
            }
            _ => {}
        }
    }

    /// Applies the operation to the content of its file.
    pub(super) fn change(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes, .. } => content.write(*offset, bytes),
            Self::SetLength { bytes, .. } => content.set_length(*bytes),
            _ => {}
        }
    }

    /// Returns the sectors that the operation writes.
    pub(super) fn sectors(&self) -> Range<u64> {
        match self {
            Self::Write { offset, bytes, .. } => offset / SECTOR..(offset + bytes.len() as u64).div_ceil(SECTOR),
            _ => 0..0,
        }
    }
}
