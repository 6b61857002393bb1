//! Synchronization of a tree's readers and writers: one tree, four strategies (HTM paper, V.B and figure 11).
//!
//! | strategy | a reader of a node | a writer |
//! |---|---|---|
//! | [`Optimistic`] | takes the version, writes nothing, checks again | locks what it changes; used by the engine |
//! | [`Coupled`] | counts itself in and out, the child before it leaves the parent | waits until no other is counted |
//! | [`Coarse`] | holds the tree's latch, which hardware transactions elide | the same |
//! | [`Unsynchronized`] | nothing | must be alone: for the reference line of the figure |
//!
//! The algorithms are written once, in terms of a [`Hold`] on each node: a read counts if the hold
//! [is still](Hold::is_still) good, and [`Hold::lock`] turns the hold into a lock. A strategy whose holds cannot fail
//! says so in constants, and the checks are compiled away.

use super::version::{Locked, Seen, Shared, Version};
use crate::{
    platform::{cpu::Processor, rtm::Rtm},
    sync::elided::{ElidedLatch, Elision, ElisionCounts},
};

/// A strategy that synchronizes readers and writers.
pub(crate) trait Synchronization: 'static {
    /// The latch of the tree as a whole.
    type Latch: Default + Send + Sync;
    /// A reader's hold on a node.
    type Hold<'n>: Hold<'n>;

    /// Runs an operation that changes nothing.
    fn reading<R>(latch: &Self::Latch, work: impl FnOnce() -> R) -> R;
    /// Runs an operation that changes the tree.
    fn writing<R>(latch: &Self::Latch, work: impl FnOnce() -> R) -> R;
    /// Begins to read a node; `None`: it is dead.
    fn observe(version: &Version) -> Option<Self::Hold<'_>>;
    /// Locks a node in its current state, without waiting.
    fn try_lock(version: &Version) -> Option<Locked<'_>>;
}

/// A reader's hold on a node.
pub(crate) trait Hold<'n> {
    /// Whether everything read since the hold began is consistent.
    fn is_still(&self) -> bool;
    /// Returns the version that was read.
    fn seen(&self) -> Seen;
    /// Locks the node, if it is unchanged, without waiting.
    fn lock(self) -> Option<Locked<'n>>;
}

/// Optimistic lock coupling.
pub(crate) struct Optimistic;

/// A node and the version it had.
pub(crate) struct Observed<'n> {
    version: &'n Version,
    seen: Seen,
}

impl Synchronization for Optimistic {
    type Latch = ();
    type Hold<'n> = Observed<'n>;

    #[inline]
    fn reading<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    fn writing<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline]
    fn observe(version: &Version) -> Option<Observed<'_>> {
        Some(Observed { version, seen: version.observe()? })
    }

    fn try_lock(version: &Version) -> Option<Locked<'_>> {
        version.try_lock()
    }
}

impl<'n> Hold<'n> for Observed<'n> {
    #[inline]
    fn is_still(&self) -> bool {
        self.version.is_still(self.seen)
    }

    fn seen(&self) -> Seen {
        self.seen
    }

    fn lock(self) -> Option<Locked<'n>> {
        self.version.lock(self.seen)
    }
}

/// Lock coupling with a reader-writer spin lock in each node.
pub(crate) struct Coupled;

impl Synchronization for Coupled {
    type Latch = ();
    type Hold<'n> = Shared<'n>;

    #[inline]
    fn reading<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    fn writing<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline]
    fn observe(version: &Version) -> Option<Shared<'_>> {
        version.share()
    }

    fn try_lock(version: &Version) -> Option<Locked<'_>> {
        version.share()?.upgrade()
    }
}

impl<'n> Hold<'n> for Shared<'n> {
    #[inline]
    fn is_still(&self) -> bool {
        true
    }

    fn seen(&self) -> Seen {
        Shared::seen(self)
    }

    fn lock(self) -> Option<Locked<'n>> {
        self.upgrade()
    }
}

/// One latch around every operation.
pub(crate) struct Coarse;

/// No synchronization: the user of the tree makes sure that no write runs beside another operation.
pub(crate) struct Unsynchronized;

/// A node that cannot change while it is read.
pub(crate) struct Unchanging<'n>(&'n Version);

impl Synchronization for Coarse {
    type Latch = TreeLatch;
    type Hold<'n> = Unchanging<'n>;

    #[inline]
    fn reading<R>(latch: &TreeLatch, work: impl FnOnce() -> R) -> R {
        latch.run(work)
    }

    fn writing<R>(latch: &TreeLatch, work: impl FnOnce() -> R) -> R {
        latch.run(work)
    }

    #[inline]
    fn observe(version: &Version) -> Option<Unchanging<'_>> {
        Some(Unchanging(version))
    }

    fn try_lock(version: &Version) -> Option<Locked<'_>> {
        version.try_lock()
    }
}

impl Synchronization for Unsynchronized {
    type Latch = ();
    type Hold<'n> = Unchanging<'n>;

    #[inline]
    fn reading<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    fn writing<R>((): &(), work: impl FnOnce() -> R) -> R {
        work()
    }

    #[inline]
    fn observe(version: &Version) -> Option<Unchanging<'_>> {
        Some(Unchanging(version))
    }

    fn try_lock(version: &Version) -> Option<Locked<'_>> {
        version.try_lock()
    }
}

impl<'n> Hold<'n> for Unchanging<'n> {
    #[inline]
    fn is_still(&self) -> bool {
        true
    }

    fn seen(&self) -> Seen {
        self.0.as_it_is()
    }

    fn lock(self) -> Option<Locked<'n>> {
        self.0.try_lock()
    }
}

/// A latch that hardware transactions elide, where the processor has them; taken by readers, too, where it has none.
pub(crate) struct TreeLatch {
    latch: ElidedLatch,
    elision: Elision<Rtm>,
}

impl TreeLatch {
    const RETRIES_MAX: u32 = 7;

    #[inline]
    fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        self.latch.run(&self.elision, &mut ElisionCounts::default(), work)
    }
}

impl Default for TreeLatch {
    fn default() -> Self {
        let memory = Rtm::of(Processor::detect());
        Self { latch: ElidedLatch::new(), elision: Elision::new(memory, Self::RETRIES_MAX) }
    }
}
