//! The memory that a database may use, and how much it has taken.
//!
//! The budget counts chunks of versions and records, pages of indirection arrays, nodes and keys of indexes, the read
//! and write sets of transactions, log buffers, and the memory that an application takes for its queries
//! ([`Budget::take`]). Memory is counted in chunks: an arena counts when it takes a chunk, an epoch participant and a
//! worker when their own counts add up to one. So no operation writes a shared word for each of its allocations.
//!
//! ```text
//!   0 ------------------------- rows may grow ----|-- work --|-- shrink --| limit
//!                                                 |<------- reserve ----->|
//! ```
//!
//! Invariants
//! 1. *Only operations that can still fail cleanly are refused*: an operation asks before its first change. Rollback,
//!    commit and garbage collection never ask, but are counted.
//! 2. *Rows never grow into the reserve*, an eighth of the limit: it is for deletes, checkpoints and recovery. Reads
//!    and queries may use the free part of its first half. Where rows can be evicted (`durable::eviction`), running
//!    transactions may take it for rows as well, all of it for those that they read; transactions that begin then wait
//!    until rows have left.
//! 3. Memory is given back by its taker; for each worker, `taken` may lag behind by a chunk, and by buffers of up to 1
//!    MiB and a 256th of the limit ([`Kept`]), never more.

use std::{fmt, fs, path::Path};

use crate::{
    error::{Error, Result},
    sync::{AtomicU64, Ordering},
    units::Mebibytes,
};

/// Bytes that a worker counts locally before it adds them to the shared count.
pub(crate) const CHUNK_BYTES: u64 = 64 << 10;

/// The purpose of memory, which determines how far into the reserve it may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// More rows, or larger ones.
    Grow,
    /// Reading, and memory that queries gather: it is given back when they end.
    Work,
    /// Deleting, and recovery.
    Shrink,
}

/// The memory of a database.
pub struct Budget {
    /// Read with every demand, and written when an operator changes it.
    limit: AtomicU64,
    taken: AtomicU64,
    /// Bytes that were taken when the limit became smaller than that; 0 once there is room below it again.
    floor: AtomicU64,
    /// 1 from the time when four fifths of the memory for rows are taken, until there is room again.
    warned: AtomicU64,
    /// For tests: the state of a random sequence that refuses one in eight demands; 0: none is refused.
    faults: AtomicU64,
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", Mebibytes(self.taken()), Mebibytes(self.limit()))
    }
}

impl Budget {
    /// Upper bound of the part of the limit that is kept from rows: an eighth, and at most this much.
    const RESERVE_MAX: u64 = 1 << 30;
    /// The smallest limit.
    pub(crate) const LIMIT_MIN: u64 = 16 << 20;

    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit: AtomicU64::new(limit),
            taken: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            warned: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        }
    }

    /// From now on, refuses demands at random.
    pub(crate) fn fail(&self, seed: u64) {
        self.faults.store(seed | 1, Ordering::Relaxed);
    }

    /// Whether it refuses demands at random.
    pub(crate) fn fails(&self) -> bool {
        self.faults.load(Ordering::Relaxed) != 0
    }

    /// Returns a budget that refuses nothing.
    pub(crate) fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// Bytes that the database may use ([`crate::Options::memory_limit`]).
    pub fn limit(&self) -> u64 {
        // Relaxed: a bound of its own; nothing is published with it.
        self.limit.load(Ordering::Relaxed)
    }

    /// Changes the limit. Memory that is taken stays so: under a smaller limit, rows that need more are refused until
    /// enough is free; what frees memory, and reads, get a reserve above what is taken.
    pub(crate) fn set_limit(&self, limit: u64) {
        let taken = self.taken();
        self.floor.store(if taken > limit { taken } else { 0 }, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the bytes that were taken when the limit was set, as long as there is no room for rows below it.
    fn floor(&self, rows_max: u64) -> u64 {
        let floor = self.floor.load(Ordering::Relaxed);
        if floor > 0 && self.taken() < rows_max {
            self.floor.store(0, Ordering::Relaxed);
            return 0;
        }
        floor
    }

    /// Bytes that the database has taken.
    pub fn taken(&self) -> u64 {
        // Relaxed: a count. Workers give back memory that others took, so it can be below zero for a moment.
        (self.taken.load(Ordering::Relaxed) as i64).max(0) as u64
    }

    /// Returns the bytes that [`Budget::take`] has left now; other threads may take them.
    pub fn left(&self) -> u64 {
        self.bound(Need::Work).saturating_sub(self.taken())
    }

    /// Returns the bound up to which memory is granted for `need`.
    pub(crate) fn bound(&self, need: Need) -> u64 {
        let limit = self.limit();
        let reserve = (limit / 8).min(Self::RESERVE_MAX);
        match need {
            Need::Grow => limit - reserve,
            Need::Work => (limit - reserve / 2).max(self.floor(limit - reserve).saturating_add(reserve / 2)),
            Need::Shrink => limit.max(self.floor(limit - reserve).saturating_add(reserve)),
        }
    }

    /// Takes memory for a query, which [`Budget::give`] gives back. Take some tens of KiB at a time. Fails with
    /// [`Error::OutOfMemory`] when the database has used up its memory.
    pub fn take(&self, bytes: u64) -> Result<()> {
        self.take_for(bytes, Need::Work)
    }

    /// Works as [`Budget::take`], for a query that deletes what it reads: it may have what is kept for deletes, too.
    pub fn take_to_delete(&self, bytes: u64) -> Result<()> {
        self.take_for(bytes, Need::Shrink)
    }

    /// Gives back memory that was taken.
    pub fn give(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes memory if there is enough for that need.
    pub(crate) fn take_for(&self, bytes: u64, need: Need) -> Result<()> {
        self.check(bytes, need)?;
        self.add(bytes);
        Ok(())
    }

    /// Fails if `bytes` could not be taken for that need. Reads a word that is written once for each chunk.
    #[inline]
    pub(crate) fn check(&self, bytes: u64, need: Need) -> Result<()> {
        if self.taken().saturating_add(bytes) > self.bound(need) || self.fails() {
            return self.refuse(bytes, need);
        }
        Ok(())
    }

    /// Whether there is hardly any room left for rows, if `free` bytes of what is taken are free for them: transactions
    /// that begin then help to collect garbage.
    #[inline]
    pub(crate) fn is_tight(&self, free: u64) -> bool {
        self.taken().saturating_add(4 * CHUNK_BYTES) > self.bound(Need::Grow).saturating_add(free)
    }

    #[cold]
    fn refuse(&self, bytes: u64, need: Need) -> Result<()> {
        let (taken, limit) = (self.taken(), self.limit());
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
            let (taken, limit) = (Mebibytes(taken), Mebibytes(self.limit()));
            ::log::warn!(
                "the database has taken {taken} of the {limit} of memory that it may take; from {} on, writes that \
                 need more are refused: delete rows, or open it with a larger memory_limit",
                Mebibytes(full)
            );
        }
    }

    /// Adds a worker's local count: an increase or a decrease.
    pub(crate) fn settle(&self, bytes: i64) {
        match bytes {
            0 => {}
            1.. => self.add(bytes as u64),
            _ => self.give(bytes.unsigned_abs()),
        }
    }
}

/// The part of a worker's memory that has been reported to the budget.
///
/// The buffers that a worker keeps from transaction to transaction are not part of it: otherwise each transaction would
/// write the shared count twice.
#[derive(Default)]
pub(crate) struct Kept {
    told: u64,
    /// Bytes of the buffers from the transaction before, as far as they are not reported.
    idle: u64,
    reads: u32,
    writes: u32,
}

impl Kept {
    /// The most bytes of buffers that are not reported.
    const IDLE_BYTES_MAX: u64 = 1 << 20;

    /// Whether the worker counts its memory before these reads: once in 64.
    #[inline]
    pub(crate) fn is_due(&mut self, reads: u32) -> bool {
        let before = self.reads;
        self.reads = before.wrapping_add(reads);
        self.reads / 64 != before / 64
    }

    /// As [`Kept::is_due`], for a write: writes have a count of their own, because all due operations could be reads
    /// otherwise.
    #[inline]
    pub(crate) fn is_write_due(&mut self) -> bool {
        self.writes = self.writes.wrapping_add(1);
        self.writes.is_multiple_of(64)
    }

    /// Notes that the worker keeps `bytes`, and is about to keep more. Fails if there is not enough memory for that.
    pub(crate) fn grow(&mut self, bytes: u64, budget: &Budget, need: Need) -> Result<()> {
        let bytes = bytes.saturating_sub(self.idle);
        if bytes >= self.told + CHUNK_BYTES {
            budget.take_for(bytes - self.told, need)?;
            self.told = bytes;
        }
        Ok(())
    }

    /// Notes that the worker keeps `bytes`, whatever the limit.
    #[inline]
    pub(crate) fn set(&mut self, bytes: u64, budget: &Budget) {
        let bytes = bytes.saturating_sub(self.idle);
        if bytes.abs_diff(self.told) >= CHUNK_BYTES {
            budget.settle(bytes as i64 - self.told as i64);
            self.told = bytes;
        }
    }

    /// Gives back what was reported: the transaction has ended. `idle` returns the bytes of the buffers that the worker
    /// keeps, which are smaller than before if memory `is_tight`. What they have above the bounds of invariant 3 is
    /// reported again by each transaction that grows so far.
    #[inline]
    pub(crate) fn end(&mut self, is_tight: bool, idle: impl FnOnce() -> u64, budget: &Budget) {
        if self.told > 0 {
            budget.settle(-(self.told as i64));
        } else if !is_tight {
            return;
        }
        (self.told, self.idle) = (0, idle().min(Self::IDLE_BYTES_MAX).min(budget.limit() / 256));
    }
}

/// Bytes that the general allocator uses for an allocation of `bytes`.
pub(crate) const fn heap_bytes(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16)
}

/// Returns the limit of a database that is not given one: three quarters of the memory of the machine or the control
/// group, less where that leaves too little for the process itself, and half of the address space where that is
/// limited, since it has other uses, too. Unlimited if nothing is known.
pub(crate) fn default_limit() -> u64 {
    let read = |path: &Path| fs::read_to_string(path).ok();
    available(read).map_or(u64::MAX, |bytes| bytes.max(Budget::LIMIT_MIN))
}

/// As [`default_limit`], for a system whose files `read` returns.
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
    // Enclosing groups count, too; in a container, the path may be that outside of it, and the root is the container's.
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
    let memory = machine.into_iter().chain(group).map(share);
    memory.chain(space.map(|bytes| bytes / 2)).min()
}

/// Returns the part of a memory that is the database's.
fn share(bytes: u64) -> u64 {
    /// Bytes that a process needs besides: program, stacks, buffers.
    const PROCESS: u64 = 32 << 20;
    (bytes / 4 * 3).min(bytes.saturating_sub(PROCESS)).max(bytes / 4)
}

#[cfg(all(test, not(loom)))]
mod tests {
    #[test]
    fn a_limit_may_change() {
        let budget = Budget::new(64 << 20);
        budget.take(40 << 20).unwrap();
        budget.set_limit(32 << 20);
        let is_refused = |bytes, need| match budget.take_for(bytes, need) {
            Ok(()) => false,
            Err(Error::OutOfMemory { limit: 0x200_0000, .. }) => true,
            Err(error) => panic!("{error}"),
        };
        assert!(is_refused(1, Need::Grow) && is_refused(4 << 20, Need::Work) && is_refused(5 << 20, Need::Shrink));
        // Reads and deletes go on, and there is an end to what they get.
        assert!(!is_refused(2 << 20, Need::Work) && !is_refused(2 << 20, Need::Shrink));
        assert!(is_refused(1, Need::Shrink));
        budget.give(24 << 20);
        assert!(is_refused(11 << 20, Need::Work) && !is_refused(8 << 20, Need::Grow));
        assert!(is_refused(5 << 20, Need::Shrink));
        budget.set_limit(128 << 20);
        budget.take(40 << 20).unwrap();
    }

    #[test]
    fn buffers_from_the_transaction_before_are_not_reported_again() {
        const IDLE: u64 = 5 * CHUNK_BYTES;
        let (budget, mut kept) = (Budget::new(256 << 20), Kept::default());
        kept.grow(2 * IDLE, &budget, Need::Work).unwrap();
        assert_eq!(budget.taken(), 2 * IDLE);
        kept.end(false, || IDLE, &budget);
        assert_eq!(budget.taken(), 0);

        kept.grow(IDLE + CHUNK_BYTES - 1, &budget, Need::Work).unwrap();
        assert_eq!(budget.taken(), 0, "the count was written for buffers that were there");
        kept.end(false, || panic!("they are as they were"), &budget);
        kept.grow(IDLE + CHUNK_BYTES, &budget, Need::Work).unwrap();
        kept.set(IDLE + 3 * CHUNK_BYTES, &budget);
        assert_eq!(budget.taken(), 3 * CHUNK_BYTES);
        kept.end(false, || IDLE, &budget);

        kept.end(true, || 0, &budget);
        kept.grow(CHUNK_BYTES, &budget, Need::Work).unwrap();
        assert_eq!(budget.taken(), CHUNK_BYTES, "the buffers were freed, and memory was short");

        // Two MiB of them: one is reported. Of a small database, a 256th is not.
        for (limit, unreported) in [(256 << 20, 1 << 20), (32 << 20, 2 * CHUNK_BYTES)] {
            budget.set_limit(limit);
            kept.end(true, || 2 << 20, &budget);
            kept.grow(2 << 20, &budget, Need::Work).unwrap();
            assert_eq!(budget.taken(), (2 << 20) - unreported);
        }
    }

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
        // Version 2: a group inside of another one, which has the smaller limit.
        let inside = ("/proc/self/cgroup", "0::/a/b\n");
        let limit = [("/sys/fs/cgroup/a/b/memory.max", "max\n"), ("/sys/fs/cgroup/a/memory.max", "104857600\n")];
        assert_eq!(available_in(&[meminfo, inside, limit[0], limit[1]]), Some(68 * MIB));
        // A container: its path does not exist there, its root does.
        assert_eq!(available_in(&[meminfo, inside, ("/sys/fs/cgroup/memory.max", "209715200")]), Some(150 * MIB));
        // Version 1: a large number means no limit.
        let first = ("/proc/self/cgroup", "5:cpu,memory:/c\n4:devices:/x\n");
        let huge = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        let small = ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "4194304\n");
        assert_eq!(available_in(&[meminfo, first, huge]), Some(768 * MIB));
        assert_eq!(available_in(&[meminfo, first, huge, small]), Some(MIB));
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
        // Memory that must not be refused is counted nevertheless.
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
