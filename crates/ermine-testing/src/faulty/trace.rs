//! The operations on a directory, in order, and the disks that a crash may leave of it.

use std::{fmt, sync::Arc};

use super::{
    FaultyDirectory,
    crash::{Keep, after_crash},
    disk::{Disk, FileNumber},
};

/// An operation that changed something, or attempted to.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Create {
        name: String,
        file: FileNumber,
    },
    Write {
        file: FileNumber,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    SetLength {
        file: FileNumber,
        bytes: u64,
    },
    Sync {
        file: FileNumber,
        succeeded: bool,
    },
    Rename {
        from: String,
        to: String,
        file: FileNumber,
    },
    Remove {
        name: String,
    },
    SyncDirectory {
        succeeded: bool,
    },
    /// The operation failed, and changed nothing.
    Failed,
}

/// The number of operations between two disks that are kept.
const STRIDE: usize = 64;

/// A record of the operations of a [`FaultyDirectory`], numbered from zero, and of the marks between them.
pub struct Trace {
    operations: Vec<Operation>,
    marks: Marks,
    /// The disks before operations 0, [`STRIDE`], 2 [`STRIDE`], ..: a crash need not go through the whole trace.
    disks: Vec<Disk>,
}

impl Trace {
    pub(super) fn new(start: Disk, operations: Vec<Operation>, marks: Marks) -> Self {
        let mut disks = vec![start];
        while disks.len() * STRIDE <= operations.len() {
            let mut disk = disks[disks.len() - 1].clone();
            let end = disks.len() * STRIDE;
            (end - STRIDE..end).for_each(|number| disk.advance(&operations, number));
            disks.push(disk);
        }
        Self { operations, marks, disks }
    }

    /// Returns the number of operations.
    pub fn operations(&self) -> usize {
        self.operations.len()
    }

    /// Returns the marks that were made before the operation `at` began, in order.
    pub fn marks_before(&self, at: usize) -> &[u64] {
        self.marks.before(at)
    }

    /// Returns the directory after a crash when `at` operations had returned. Operation number `at`, if there is one,
    /// was in progress, and may have happened in part if `keep` is [`Keep::Random`].
    ///
    /// The same arguments yield the same directory.
    pub fn crash(&self, at: usize, keep: Keep) -> FaultyDirectory {
        assert!(at <= self.operations.len(), "a crash lies within the trace");
        let nearest = at / STRIDE;
        let mut disk = self.disks[nearest].clone();
        (nearest * STRIDE..at).for_each(|number| disk.advance(&self.operations, number));
        let (names, files) = after_crash(&disk, &self.operations, at, keep);
        FaultyDirectory::with(names, files)
    }

    /// Returns the directory after the process died when `at` operations had returned, and the machine continued: all
    /// changes exist, and unsynced ones are still unsynced. Its own trace continues this one, marks included.
    pub fn kill(&self, at: usize) -> FaultyDirectory {
        let marks = self.marks.clone().first(at);
        FaultyDirectory::resumed(self.disks[0].clone(), self.operations[..at].to_vec(), marks)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.operations.iter().enumerate()).finish()
    }
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = |succeeded: &bool| if *succeeded { "" } else { ", failed" };
        match self {
            Self::Create { name, file } => write!(f, "create {name} as file {}", file.0),
            Self::Write { file, offset, bytes } => write!(f, "write file {}, {offset} + {}", file.0, bytes.len()),
            Self::SetLength { file, bytes } => write!(f, "set the length of file {} to {bytes}", file.0),
            Self::Sync { file, succeeded } => write!(f, "sync file {}{}", file.0, outcome(succeeded)),
            Self::Rename { from, to, .. } => write!(f, "rename {from} to {to}"),
            Self::Remove { name } => write!(f, "remove {name}"),
            Self::SyncDirectory { succeeded } => write!(f, "sync the directory{}", outcome(succeeded)),
            Self::Failed => write!(f, "failed"),
        }
    }
}

/// The marks of a test, in the order of the operations.
#[derive(Clone, Default)]
pub(super) struct Marks {
    values: Vec<u64>,
    /// For each mark, the number of operations before it. Ascending.
    positions: Vec<usize>,
}

impl Marks {
    pub(super) fn add(&mut self, value: u64, position: usize) {
        debug_assert!(self.positions.last().is_none_or(|last| *last <= position), "time goes forward");
        self.values.push(value);
        self.positions.push(position);
    }

    /// Returns the marks before operation `at`.
    fn first(mut self, at: usize) -> Self {
        let count = self.before(at).len();
        self.values.truncate(count);
        self.positions.truncate(count);
        self
    }

    fn before(&self, at: usize) -> &[u64] {
        &self.values[..self.positions.partition_point(|position| *position <= at)]
    }
}
