//! The memory that a database may take, and how much it has taken.
//!
//! What is counted: chunks of versions and records, pages of indirection arrays, nodes and keys of indexes, what transactions keep of
//! what they have read and written, log buffers, and what an application takes for its queries ([`Budget::take`]). Counts come in chunks: an
//! arena counts when it takes a chunk, an epoch participant and a worker when what they have counted themselves adds up to one. So no
//! operation writes a shared word for each of its allocations.
//!
//! ```text
//!   0 ------------------------- rows may grow ----|-- work --|-- shrink --| limit
//!                                                 |<------- reserve ----->|
//! ```
//!
//! Invariants
//! 1. *Only what can still fail cleanly is refused*: an operation asks before its first change. What undoes, commits and collects garbage
//!    never asks, and is counted.
//! 2. *Rows never grow into the reserve*, an eighth of the limit: deletes, checkpoints and recovery have it. Of its first half, reads and queries
//!    may have what is left.
//! 3. What is taken is given back by whoever took it; `taken` may lag behind by a chunk for each worker, never more.

use std::{fmt, fs, path::Path};

use crate::{
    error::{Error, Result},
    sync::{AtomicU64, Ordering},
};

/// Bytes that a worker counts by itself before it tells the others.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// What memory is needed for: how far into the reserve it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// More rows, or larger ones.
    Grow,
    /// Reading, and what queries gather: it is given back when they end.
    Work,
    /// Deleting, and recovery.
    Shrink,
}

/// The memory of a database.
pub struct Budget {
    limit: u64,
    /// Up to where rows may grow, and up to where there is memory for reads and queries.
    grow: u64,
    work: u64,
    taken: AtomicU64,
    /// 1 from when four fifths of what rows may take are taken, until there is room again.
    warned: AtomicU64,
    /// For tests: one in eight demands is refused, by a sequence that this is in; 0: none is.
    faults: AtomicU64,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", Mebibytes(self.taken()), Mebibytes(self.limit))
    }
}

impl Budget {
    /// Of the limit, what rows do not take: an eighth, and at most so much.
    const RESERVE_MAX: u64 = 1 << 30;
    /// The least limit.
    pub(crate) const LIMIT_MIN: u64 = 16 << 20;

    pub(crate) fn new(limit: u64) -> Self {
        let reserve = (limit / 8).min(Self::RESERVE_MAX);
        Self {
            limit,
            grow: limit - reserve,
            work: limit - reserve / 2,
            taken: AtomicU64::new(0),
            warned: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        }
    }

    /// Refuses demands at random from now on.
    pub(crate) fn fail(&self, seed: u64) {
        self.faults.store(seed | 1, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(crate) fn fails(&self) -> bool {
        self.faults.load(Ordering::Relaxed) != 0
    }

    /// One that refuses nothing.
    pub(crate) fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Bytes that the database may take ([`crate::Options::memory_limit`]).
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that it has taken.
    pub fn taken(&self) -> u64 {
        // Relaxed: a count. Workers give back what others took, so it can be below zero for a moment.
        (self.taken.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Bytes up to which memory is given for `need`.
    fn bound(&self, need: Need) -> u64 {
        match need {
            Need::Grow => self.grow,
            Need::Work => self.work,
            Need::Shrink => self.limit,
        }
    }

    /// Takes memory for a query, which [`Budget::give`] gives back. Ask for some tens of KiB at a time. [`Error::OutOfMemory`] when the
    /// database has taken what it may.
    pub fn take(&self, bytes: u64) -> Result<()> {
        self.take_for(bytes, Need::Work)
    }

    /// Gives back what was taken.
    pub fn give(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes memory if there is enough for that need.
    pub(crate) fn take_for(&self, bytes: u64, need: Need) -> Result<()> {
        self.check(bytes, need)?;
        self.add(bytes);
        Ok(())
    }

    /// Fails where so much could not be taken for that need. Reads a word that is written once for each chunk.
    #[inline]
    pub(crate) fn check(&self, bytes: u64, need: Need) -> Result<()> {
        if self.taken().saturating_add(bytes) > self.bound(need) || self.fails() {
            return self.refuse(bytes, need);
        }
        Ok(())
    }

    /// Whether rows can hardly grow any more: those who begin help to collect garbage then.
    #[inline]
    pub(crate) fn is_tight(&self) -> bool {
        self.taken().saturating_add(4 * CHUNK_BYTES) > self.bound(Need::Grow)
    }

    #[cold]
    fn refuse(&self, bytes: u64, need: Need) -> Result<()> {
        let (taken, limit) = (self.taken(), self.limit);
        if taken.saturating_add(bytes) <= self.bound(need) {
            let n = self.faults.fetch_add(2, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 61 != 0 {
                return Ok(());
            }
        }
        Err(Error::OutOfMemory { needed: bytes, taken, limit })
    }

    /// Counts memory that is taken, whatever the limit.
    pub(crate) fn add(&self, bytes: u64) {
        let taken = (self.taken.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes) as i64).max(0) as u64;
        let full = self.bound(Need::Grow);
        let (warns, rests) = (full / 5 * 4, full / 10 * 7);
        if taken < rests {
            if self.warned.load(Ordering::Relaxed) == 1 {
                self.warned.store(0, Ordering::Relaxed);
            }
        } else if taken >= warns && self.warned.swap(1, Ordering::Relaxed) == 0 {
            let (taken, limit) = (Mebibytes(taken), Mebibytes(self.limit));
            ::log::warn!(
                "the database has taken {taken} of the {limit} of memory that it may take; from {} on, writes that need more are refused: delete rows, \
                 or open it with a larger memory_limit",
                Mebibytes(full)
            );
        }
    }

    /// Counts what a worker has counted by itself: more, or less.
    pub(crate) fn settle(&self, bytes: i64) {
        match bytes {
            0 => {}
            1.. => self.add(bytes as u64),
            _ => self.give(bytes.unsigned_abs()),
        }
    }
}

/// How much of what a worker keeps for itself the budget knows of.
#[derive(Default)]
pub(crate) struct Kept {
    told: u64,
    reads: u32,
    writes: u32,
}

impl Kept {
    /// Whether a read of the worker is one of those before which it counts what it keeps.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.reads = self.reads.wrapping_add(1);
        self.reads.is_multiple_of(64)
    }

    /// As [`Kept::is_due`], of a write: these have a count of their own, or all that are due could be reads.
    #[inline]
    pub(crate) fn is_write_due(&mut self) -> bool {
        self.writes = self.writes.wrapping_add(1);
        self.writes.is_multiple_of(64)
    }

    /// The worker keeps so many bytes, and is about to keep more. Fails where it has too many.
    pub(crate) fn grow(&mut self, bytes: u64, budget: &Budget, need: Need) -> Result<()> {
        if bytes >= self.told + CHUNK_BYTES {
            budget.take_for(bytes - self.told, need)?;
            self.told = bytes;
        }
        Ok(())
    }

    /// The worker keeps so many bytes, whatever the limit.
    #[inline]
    pub(crate) fn set(&mut self, bytes: u64, budget: &Budget) {
        if bytes.abs_diff(self.told) >= CHUNK_BYTES {
            budget.settle(bytes as i64 - self.told as i64);
            self.told = bytes;
        }
    }
}

/// Bytes as people read them.
pub(crate) struct Mebibytes(pub(crate) u64);

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{} KiB", bytes >> 10),
        }
    }
}

/// What the general allocator takes for so many bytes.
pub(crate) const fn heap_bytes(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

/// The limit of a database that is not given one: three quarters of what the machine or the control group has, and half of the address
/// space where that is limited, which other things take, too. Unlimited where nothing is known.
pub(crate) fn default_limit() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).ok();
    available(read).map_or(u64::MAX, |bytes| bytes.max(Budget::LIMIT_MIN))
}

/// As [`default_limit`], of a system whose files `read` gives.
fn available(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    });
    let memberships = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let groups = memberships.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        match (parts.next()?, parts.next()?) {
            ("", path) => Some(("/sys/fs/cgroup", path, "memory.max")),
            (kinds, path) if kinds.split(',').any(|kind| kind == "memory") => {
                Some(("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    // Those around it count, too; in a container, the path may be that of outside, and the root is the container's.
    let group = groups.flat_map(|(root, path, file)| {
        let around = Path::new(path).ancestors().map(|path| path.strip_prefix("/").unwrap_or(path));
        let limits: Vec<u64> = around
            .filter_map(|path| read(&Path::new(root).join(path).join(file))?.trim().parse::<u64>().ok())
            .collect();
        limits
    });
    let space = read(Path::new("/proc/self/limits")).and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let memory = machine.into_iter().chain(group).map(|bytes| bytes / 4 * 3);
    memory.chain(space.map(|bytes| bytes / 2)).min()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const MIB: u64 = 1 << 20;

    fn available_in(files: &[(&str, &str)]) -> Option<u64> {
        let files: HashMap<_, _> = files.iter().copied().collect();
        available(|path| files.get(path.to_str()?).map(|text| (*text).into()))
    }

    #[test]
    fn the_smallest_of_machine_group_and_address_space_counts() {
        let meminfo = ("/proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 3 kB\n");
        assert_eq!(available_in(&[meminfo]), Some(768 * MIB));
        // Version 2: a group inside of another one, which is the smaller one.
        let inside = ("/proc/self/cgroup", "0::/a/b\n");
        let limit = [("/sys/fs/cgroup/a/b/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.max", "104857600\n")];
        assert_eq!(available_in(&[meminfo, inside, limit[0], limit[1]]), Some(75 * MIB));
        // A container: its path is not there, its root is.
        assert_eq!(available_in(&[meminfo, inside, ("/sys/fs/cgroup/memory.max", "209715200")]), Some(150 * MIB));
        // Version 1: no limit is a large number.
        let first = ("/proc/self/cgroup", "5:cpu,memory:/c\n4:devices:/x\n");
        let huge = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let small = ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "4194304\n");
        assert_eq!(available_in(&[meminfo, first, huge]), Some(768 * MIB));
        assert_eq!(available_in(&[meminfo, first, huge, small]), Some(3 * MIB));
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         314572800            unlimited            bytes     \n";
        assert_eq!(available_in(&[meminfo, ("/proc/self/limits", limits)]), Some(150 * MIB));
        assert_eq!(available_in(&[]), None);
    }

    #[test]
    fn each_need_has_its_bound() {
        let budget = Budget::new(80 * MIB);
        budget.take_for(70 * MIB, Need::Grow).unwrap();
        assert!(matches!(budget.take_for(1, Need::Grow), Err(Error::OutOfMemory { needed: 1, .. })));
        budget.take(5 * MIB).unwrap();
        assert!(budget.take(1).is_err());
        budget.take_for(5 * MIB, Need::Shrink).unwrap();
        assert!(budget.take_for(1, Need::Shrink).is_err());
        // What must not fail is counted all the same.
        budget.add(MIB);
        assert_eq!(budget.taken(), 81 * MIB);
        budget.give(20 * MIB);
        budget.take_for(MIB, Need::Grow).unwrap();
    }

    #[test]
    fn one_in_eight_demands_is_refused_where_a_test_wants_that() {
        let budget = Budget::unlimited();
        budget.fail(7);
        let refused = (0..8000).filter(|_| budget.check(1, Need::Grow).is_err()).count();
        assert!((700..1300).contains(&refused), "{refused}");
    }
}
