//! Nodes that threads wait on in the queue of a lock ([`mcs`](super::mcs)), each on a cache line of its own that no other thread spins on.
//!
//! ```text
//!   tail ------------------------------+
//!                                      v
//!   [holder] --next--> [waiter] --next--> [waiter] --next--> nobody
//! ```
//!
//! Invariants
//! 1. A [`QueueNode`] is in no queue, and its owner alone reaches it. Taking a lock gives it away; what comes back in its place
//!    frees nothing. So a node in a queue is alive, also when a guard is forgotten: the lock then stays taken, for ever.
//! 2. A node leaves its queue when nobody will touch it again: its successor's last access is the store that links it, its
//!    predecessor's the one that lets it in.
//! 3. Nodes are reached through pointers only, field by field: a reference to a whole node of another would outlive it.
//!
//! J. Mellor-Crummey, M. Scott: *Algorithms for scalable synchronization on shared-memory multiprocessors*, TOCS 9(1), 1991.

use std::{cell::RefCell, mem::ManuallyDrop, ptr::NonNull};

use super::{AtomicPtr, AtomicU64, Ordering, Spin};

/// What a node consists of. 128 bytes: processors load cache lines in pairs.
#[repr(align(128))]
pub(super) struct Waiter {
    /// Who comes next; null while nobody is linked.
    next: AtomicPtr<Waiter>,
    /// The lock says what it means.
    state: AtomicU64,
}

/// A node that its owner may wait with. Moves between threads.
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
        // SAFETY: comes from a box; in no queue, and its owner is gone (invariant 1).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The nodes that one who waits keeps: as many as the locks that it ever held at once. Not shared.
pub(crate) struct QueueNodes {
    free: RefCell<Vec<QueueNode>>,
}

impl QueueNodes {
    pub(crate) fn new() -> Self {
        Self { free: RefCell::new(Vec::new()) }
    }

    /// A node that is not in use; a new one where all are.
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
    /// The address of the tail, only to be compared: a place is left in the queue where it was taken.
    queue: usize,
}

/// A node in a queue, seen by its neighbours. Valid as long as invariant 2 says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Neighbour(NonNull<Waiter>);

/// The end of a queue; null while nobody is in it.
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

    /// Enters at the end. Says who is in front; that one waits to be told of its successor ([`Neighbour::link`]).
    pub(super) fn enter(&self, node: QueueNode, state: u64) -> (Place, Option<Neighbour>) {
        let place = self.place(node, state);
        // Release: what `place` stored is seen by who comes next and by who lets in. Acquire pairs with that, and with
        // `leave` of the last one, whose work is over.
        let before = self.0.swap(place.itself().0.as_ptr(), Ordering::AcqRel);
        (place, NonNull::new(before).map(Neighbour))
    }

    /// Enters an empty queue, or not at all.
    pub(super) fn try_enter(&self, node: QueueNode, state: u64) -> Result<Place, QueueNode> {
        let place = self.place(node, state);
        let this = place.itself().0.as_ptr();
        // As in `enter`. Relaxed: who does not enter looks at nothing.
        match self.0.compare_exchange(std::ptr::null_mut(), this, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(place),
            Err(_) => Err(place.left()),
        }
    }

    /// Leaves the end of the queue, or says who comes next. Then no other is going to touch the node but by a pointer
    /// that the caller has given away.
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

    /// The place of a node at the head of this queue whose owner has given it up: the caller's now.
    pub(super) fn adopt(&self, head: Neighbour) -> Place {
        Place { node: ManuallyDrop::new(QueueNode(head.0)), queue: (&raw const *self).addr() }
    }

    /// Whether nobody is in the queue, just now.
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

    /// Waits for one who has entered behind this place to link itself, which takes it a step.
    pub(super) fn wait_for_successor(&self) -> Neighbour {
        wait_for(|| self.itself().successor())
    }

    /// The node, of a place that has been left.
    pub(super) fn left(self) -> QueueNode {
        ManuallyDrop::into_inner(self.node)
    }
}

impl Neighbour {
    fn next<'a>(self) -> &'a AtomicPtr<Waiter> {
        // SAFETY: invariants 1 and 2: alive at every call; the reference is used for one access (invariant 3).
        unsafe { &(*self.0.as_ptr()).next }
    }

    /// What the lock keeps in the node.
    pub(super) fn state<'a>(self) -> &'a AtomicU64 {
        // SAFETY: as in `next`.
        unsafe { &(*self.0.as_ptr()).state }
    }

    fn successor(self) -> Option<Neighbour> {
        // Acquire: pairs with `link`: the successor's node is filled in.
        NonNull::new(self.next().load(Ordering::Acquire)).map(Neighbour)
    }

    /// Tells this one who comes next; it may be gone the moment after.
    pub(super) fn link(self, place: &Place) {
        // Release: pairs with `successor`.
        self.next().store(place.itself().0.as_ptr(), Ordering::Release);
    }
}

/// Waits for a step of another thread, after which `look` finds something.
pub(super) fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let mut spin = Spin::default();
    loop {
        if let Some(found) = look() {
            return found;
        }
        // Two that wait can take turns for ever, and loom would follow them: it goes on from here in one way only.
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
