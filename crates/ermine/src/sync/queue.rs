//! The nodes on which threads wait in the queue of a lock ([`mcs`](super::mcs)): each on a cache line of its own, on
//! which no other thread spins.
//!
//! ```text
//!   tail ------------------------------+
//!                                      v
//!   [holder] --next--> [waiter] --next--> [waiter] --next--> null
//! ```
//!
//! Invariants
//! 1. A [`QueueNode`] is in no queue, and its owner alone reaches it. Taking a lock consumes it; the [`Place`] returned
//!    instead frees nothing. So a node in a queue is alive, also when a guard is forgotten: the lock then stays taken
//!    forever.
//! 2. A node leaves its queue when no other thread will touch it again: its successor's last access is the store that
//!    links the successor, its predecessor's the store that lets it in.
//! 3. Nodes are accessed through pointers only, field by field: a reference to another thread's whole node would
//!    outlive it.
//!
//! J. Mellor-Crummey, M. Scott: *Algorithms for scalable synchronization on shared-memory multiprocessors*, TOCS 9(1),
//! 1991.

use std::{cell::RefCell, mem::ManuallyDrop, ptr::NonNull};

use super::{AtomicPtr, AtomicU64, Ordering, Spin};

/// The content of a node. 128 bytes: processors load cache lines in pairs.
#[repr(align(128))]
pub(super) struct Waiter {
    /// The next node in the queue; null while none is linked.
    next: AtomicPtr<Waiter>,
    /// The lock defines its meaning.
    state: AtomicU64,
}

/// A node with which its owner may wait. Moves between threads.
pub(crate) struct QueueNode(NonNull<Waiter>);

// SAFETY: invariant 1: the owner alone reaches it.
unsafe impl Send for QueueNode {}

impl QueueNode {
    pub(crate) fn new() -> Self {
        let waiter = Waiter { next: AtomicPtr::new(std::ptr::null_mut()), state: AtomicU64::new(0) };
        Self(NonNull::from(Box::leak(Box::new(waiter))))
    }
}

impl Drop for QueueNode {
    fn drop(&mut self) {
        // SAFETY: it comes from a box; in no queue, and its owner is gone (invariant 1).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The nodes that a waiter keeps: as many as the locks that it ever held at once. Not shared.
pub(crate) struct QueueNodes {
    free: RefCell<Vec<QueueNode>>,
}

impl QueueNodes {
    pub(crate) fn new() -> Self {
        Self { free: RefCell::new(Vec::new()) }
    }

    /// Returns a node that is not in use; a new one if all are.
    pub(crate) fn take(&self) -> QueueNode {
        self.free.borrow_mut().pop().unwrap_or_else(QueueNode::new)
    }

    /// Keeps a node for the next [`take`](Self::take).
    pub(crate) fn put(&self, node: QueueNode) {
        self.free.borrow_mut().push(node);
    }
}

/// A node in the queue of one lock, seen by its owner.
pub(super) struct Place {
    node: ManuallyDrop<QueueNode>,
    /// The address of the tail, only for comparison: a place is left in the queue where it was taken.
    queue: usize,
}

/// A node in a queue, seen by its neighbours. Valid under the conditions of invariant 2.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Neighbour(NonNull<Waiter>);

/// The end of a queue; null while the queue is empty.
pub(super) struct Tail(AtomicPtr<Waiter>);

impl Tail {
    pub(super) fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    fn place(&self, node: QueueNode, state: u64) -> Place {
        let place = Place { node: ManuallyDrop::new(node), queue: (&raw const *self).addr() };
        // Relaxed: not in the queue yet; entering it releases.
        place.itself().state().store(state, Ordering::Relaxed);
        place.itself().next().store(std::ptr::null_mut(), Ordering::Relaxed);
        place
    }

    /// Enters at the end. Returns the predecessor, which waits until it is linked to its successor
    /// ([`Neighbour::link`]).
    pub(super) fn enter(&self, node: QueueNode, state: u64) -> (Place, Option<Neighbour>) {
        let place = self.place(node, state);
        // Release: the successor and the thread that lets this one in see what `place` stored. Acquire pairs with that,
        // and with `leave` of the last thread in the queue, which has finished.
        let before = self.0.swap(place.itself().0.as_ptr(), Ordering::AcqRel);
        (place, NonNull::new(before).map(Neighbour))
    }

    /// Enters the queue if it is empty.
    pub(super) fn try_enter(&self, node: QueueNode, state: u64) -> Result<Place, QueueNode> {
        let place = self.place(node, state);
        let this = place.itself().0.as_ptr();
        // As in `enter`. Relaxed: a thread that does not enter reads nothing.
        match self.0.compare_exchange(std::ptr::null_mut(), this, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(place),
            Err(_) => Err(place.left()),
        }
    }

    /// Leaves the end of the queue, or returns the next node. Afterwards no other thread touches the node except
    /// through a pointer that the caller has given away.
    pub(super) fn leave(&self, place: &Place) -> Option<Neighbour> {
        assert_eq!(place.queue, (&raw const *self).addr(), "taken from another lock");
        let this = place.itself();
        if let Some(next) = this.successor() {
            return Some(next);
        }
        // Release: pairs with `enter`. Relaxed: the successor is read with acquire, below.
        if self.0.compare_exchange(this.0.as_ptr(), std::ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return None;
        }
        Some(place.wait_for_successor())
    }

    /// Returns the place of a node at the head of this queue whose owner has given it up: it now belongs to the caller.
    pub(super) fn adopt(&self, head: Neighbour) -> Place {
        Place { node: ManuallyDrop::new(QueueNode(head.0)), queue: (&raw const *self).addr() }
    }

    /// Whether the queue is empty at this moment.
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: a hint.
        self.0.load(Ordering::Relaxed).is_null()
    }

    #[cfg(test)]
    pub(super) fn last(&self) -> *const () {
        self.0.load(Ordering::Relaxed).cast_const().cast()
    }
}

impl Place {
    /// Its own node.
    pub(super) fn itself(&self) -> Neighbour {
        Neighbour(self.node.0)
    }

    /// Waits until the thread that has entered behind this place links itself, which takes that thread one step.
    pub(super) fn wait_for_successor(&self) -> Neighbour {
        wait_for(|| self.itself().successor())
    }

    /// Returns the node of a place that has been left.
    pub(super) fn left(self) -> QueueNode {
        ManuallyDrop::into_inner(self.node)
    }
}

impl Neighbour {
    fn next<'a>(self) -> &'a AtomicPtr<Waiter> {
        // SAFETY: invariants 1 and 2: alive at every call; the reference is used for one access (invariant 3).
        unsafe { &(*self.0.as_ptr()).next }
    }

    /// Returns the state that the lock keeps in the node.
    pub(super) fn state<'a>(self) -> &'a AtomicU64 {
        // SAFETY: as in `next`.
        unsafe { &(*self.0.as_ptr()).state }
    }

    fn successor(self) -> Option<Neighbour> {
        // Acquire: pairs with `link`: the successor's node is filled in.
        NonNull::new(self.next().load(Ordering::Acquire)).map(Neighbour)
    }

    /// Links this node to its successor; the node may be gone the moment after.
    pub(super) fn link(self, place: &Place) {
        // Release: pairs with `successor`.
        self.next().store(place.itself().0.as_ptr(), Ordering::Release);
    }
}

/// Waits for a step of another thread, after which `look` returns a value.
pub(super) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut spin = Spin::default();
    loop {
        if let Some(found) = look() {
            return found;
        }
        // Two waiting threads can take turns forever, and loom would follow them: from here on it explores one way
        // only.
        #[cfg(loom)]
        if spin.turns >= 2 {
            loom::skip_branch();
        }
        spin.wait();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// In the steady state nothing is allocated, however many locks are held at once.
    #[test]
    fn nodes_are_used_again() {
        let nodes = QueueNodes::new();
        let (a, b) = (nodes.take(), nodes.take());
        assert_ne!(a.0, b.0);
        let mut had = [a.0, b.0];
        nodes.put(a);
        nodes.put(b);
        let (a, b) = (nodes.take(), nodes.take());
        let mut has = [a.0, b.0];
        had.sort();
        has.sort();
        assert_eq!(had, has);
    }
}
