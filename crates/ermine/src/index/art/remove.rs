//! Removal of a key that no transaction can see any more, and shrinking of the node that it was in.
//!
//! A node with few children left is replaced by a smaller one; a node with a single child is removed, and its parent
//! holds that child. The node that has the range afterwards is the absorber: no observation becomes void.

use super::{
    Art, At, Child, Edge, Hold, KeyPath, NodeRef, Place, Size, Step, Synchronization, Torn, believed,
    insert::replacement, version::Locked,
};
use crate::{
    epoch::Guard,
    ids::{RowId, Stamp},
    sync::Spin,
};

/// The effect of a removal on the node.
enum Plan {
    /// The node stays.
    Stay,
    /// A smaller node replaces it.
    Shrink(Size),
    /// Its only other child replaces it.
    Collapse,
}

impl<S: Synchronization> Art<S> {
    /// See [`Index::remove_if`](crate::index::Index::remove_if).
    pub(crate) fn remove_if(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        gap: Stamp,
        removed: Stamp,
        still: impl FnOnce() -> bool,
    ) -> bool {
        let mut still = Some(still);
        S::writing(&self.latch, || {
            let mut spin = Spin::default();
            loop {
                match self.try_remove(guard, key, row, (gap, removed), &mut still) {
                    Ok(done) => return done,
                    Err(Torn) => spin.wait(),
                }
            }
        })
    }

    fn try_remove(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        row: RowId,
        (gap, removed): (Stamp, Stamp),
        still: &mut Option<impl FnOnce() -> bool>,
    ) -> Result<bool, Torn> {
        let at = self.try_descend(guard, key)?;
        let found = match at.place {
            Place::Slot { edge, child, depth } if child.row_of(key, depth, &at.still())? == Some(row) => {
                Some((edge, child))
            }
            _ => None,
        };
        let plan = found.map(|(edge, _)| plan(&at, edge));
        believed(at.node, &at.hold)?;
        let (Some((edge, leaf)), Some(plan)) = (found, plan) else { return Ok(false) };

        let At { parent, node, hold, depth, .. } = at;
        let parent = match (&plan, parent) {
            (Plan::Stay, _) => None,
            (_, Some(Step { node, hold, byte })) => Some((node, Edge::Byte(byte), hold.lock().ok_or(Torn)?)),
            (_, None) => unreachable!("the root stays"),
        };
        let mut lock = hold.lock().ok_or(Torn)?;
        let other = matches!(plan, Plan::Collapse).then(|| only_other(node, edge));
        let other_lock = match other {
            Some((_, Child::Node(child))) => {
                // SAFETY: node.rs, invariant 4: a child of a locked node is in the tree, and stays there.
                let child = unsafe { NodeRef::new(child) };
                Some((child, S::try_lock(&child.header().coverage.version).ok_or(Torn)?))
            }
            _ => None,
        };
        let still = still.take().expect("asked once: the locks are not given up before the removal is done or refused");
        if !still() {
            let parent_lock = parent.map(|(_, _, lock)| lock);
            let other_lock = other_lock.map(|(_, lock)| lock);
            parent_lock.into_iter().chain([lock]).chain(other_lock).for_each(Locked::release_unchanged);
            return Ok(false);
        }
        node.header().coverage.raise(gap, removed, &lock);
        node.take(edge);
        // SAFETY: just removed, under the lock.
        unsafe { leaf.retire(guard) };
        let Some((parent, slot, parent_lock)) = parent else { return Ok(true) };
        match (plan, other) {
            (Plan::Shrink(size), _) => {
                parent.put(slot, replacement(node, size, &lock, lock.phantoms().0, guard).as_child());
            }
            (_, Some((edge, other))) => {
                let mut path = KeyPath::from_slice(&key[..depth]);
                write_prefix(node, &mut path);
                if let Edge::Byte(byte) = edge {
                    path.push(byte);
                }
                let coverage = &node.header().coverage;
                match other_lock {
                    Some((child, child_lock)) => {
                        write_prefix(child, &mut path);
                        child.retire_prefix(guard);
                        child.set_prefix(&path[depth..], guard);
                        parent.put(slot, other);
                        coverage.hand_over(&lock, &child.header().coverage, child_lock.phantoms().0);
                    }
                    None => {
                        let row = other.complete(&mut path, &|| true).expect("nothing changes under the lock");
                        let row = row.expect("a slot holds nothing, a node or a leaf");
                        parent.put(slot, other.moved(&path, depth, row, guard));
                        coverage.hand_over(&lock, &parent.header().coverage, parent_lock.phantoms().0);
                    }
                }
                node.retire_prefix(guard);
            }
            _ => unreachable!("the node stays or is replaced"),
        }
        lock.mark_dead();
        // SAFETY: dead when the lock is released, and the parent names the replacement.
        unsafe { node.retire(guard) };
        Ok(true)
    }
}

/// Decides what happens to a node that loses the child of an edge.
fn plan<S: Synchronization>(at: &At<'_, S>, edge: Edge) -> Plan {
    if at.parent.is_none() {
        return Plan::Stay;
    }
    let shape = at.node.header().shape();
    let ends = usize::from(!matches!(at.node.header().end(), Child::Nothing));
    if shape.count() + ends <= 2 {
        return Plan::Collapse;
    }
    let count = shape.count() - edge.length();
    match shape.size().shrunk(count) {
        size if size == shape.size() => Plan::Stay,
        size => Plan::Shrink(size),
    }
}

/// Returns the only child of a locked node besides that of an edge.
fn only_other(node: NodeRef<'_>, edge: Edge) -> (Edge, Child) {
    let children = node.children().map(|(byte, child)| (Edge::Byte(byte), child));
    let mut all = children.chain([(Edge::End, node.header().end())]);
    let other = all.find(|&(other, child)| other != edge && !matches!(child, Child::Nothing));
    other.expect("every node but the root has two (invariant 5)")
}

/// Appends the prefix of a locked node to a path.
fn write_prefix(node: NodeRef<'_>, path: &mut KeyPath) {
    node.write_prefix(path, &|| true).expect("nothing changes under the lock");
}
