//! Transactions of more than one block: where their blocks are.
//!
//! A version names its place in the log by its commit stamp and its number among the transaction's rows. For a
//! transaction with overflow blocks that is not enough: its blocks are listed here, as long as any of them is live.

use std::{collections::BTreeMap, ops::DerefMut};

use super::lsn::Lsn;
use crate::{clock::LogOffset, ids::Stamp, sync::Mutex};

/// One block of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Number of rows in the blocks before it.
    pub(crate) rows_before: u64,
    pub(crate) block: Lsn,
}

/// The chains of a database.
pub(crate) struct Chains(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Transactions that have handed out overflow blocks and have not ended: the lowest offset that their first such
    /// block can have.
    open: BTreeMap<usize, u64>,
    /// By commit stamp, the parts in order.
    ended: BTreeMap<Stamp, Box<[Part]>>,
    /// By the offset of a block, as a stamp, the commit stamp of its transaction.
    commits: BTreeMap<Stamp, Stamp>,
}

impl Chains {
    /// Creates an empty set of chains.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Known::default()))
    }

    fn known(&self) -> impl DerefMut<Target = Known> {
        self.0.lock().expect("no code panics while it holds the chains")
    }

    /// Notes that a transaction is about to claim its first overflow block. `owner` is a number that no other open
    /// transaction uses.
    pub(crate) fn open(&self, owner: usize, offset: &LogOffset) {
        let mut known = self.known();
        let from = offset.now().0;
        known.open.insert(owner, from);
    }

    /// Notes that the transaction has ended; it has committed if there is a stamp.
    pub(crate) fn end(&self, owner: usize, committed: Option<(Stamp, Vec<Part>)>) {
        let mut known = self.known();
        known.open.remove(&owner);
        if let Some((stamp, parts)) = committed {
            known.commits.extend(parts.iter().map(|part| (part.block.stamp(), stamp)));
            known.ended.insert(stamp, parts.into());
        }
    }

    /// Returns a current offset that no chain stretches across: a transaction that commits at or above it has all its
    /// blocks there.
    pub(crate) fn boundary(&self, offset: &LogOffset) -> u64 {
        let known = self.known();
        let mut boundary = known.open.values().copied().fold(offset.now().0, u64::min);
        // Chains that have ended may have begun below one that has not; and further chains below those.
        loop {
            let across = known.ended.range(Stamp(boundary)..).map(|(_, parts)| parts[0].block.offset());
            let lower = across.fold(boundary, u64::min);
            if lower == boundary {
                return boundary;
            }
            boundary = lower;
        }
    }

    /// Returns the block that has the `number`-th row of the transaction that committed at `stamp`, and the row's
    /// number in that block. `None`: it is the commit block.
    pub(crate) fn find(&self, stamp: Stamp, number: u64) -> Option<(Lsn, u64)> {
        let known = self.known();
        let parts = known.ended.get(&stamp)?;
        let part = parts[parts.partition_point(|part| part.rows_before <= number) - 1];
        Some((part.block, number - part.rows_before))
    }

    /// Returns the commit stamp of the transaction whose block is at `block`, and the number among its rows of the
    /// block's `number`-th one: the reverse of [`Self::find`]. `None`: the block is the only one of its transaction, or
    /// was written before the database was opened.
    pub(crate) fn written_by(&self, block: Stamp, number: u32) -> Option<(Stamp, u32)> {
        let known = self.known();
        let stamp = *known.commits.get(&block)?;
        let part = known.ended.get(&stamp)?.iter().find(|part| part.block.stamp() == block)?;
        Some((stamp, part.rows_before as u32 + number))
    }

    /// Forgets the chains that committed below `offset`: none of their blocks is live.
    pub(crate) fn forget_below(&self, offset: u64) {
        let mut known = self.known();
        known.ended = known.ended.split_off(&Stamp(offset));
        let ended = std::mem::take(&mut known.ended);
        known.commits.retain(|_, stamp| ended.contains_key(stamp));
        known.ended = ended;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_and_boundaries_cross_no_chain() {
        let (chains, offset) = (Chains::new(), LogOffset::new());
        chains.open(1, &offset);
        let parts: Vec<_> = [0, 10, 30]
            .map(|rows_before| Part { rows_before, block: Lsn::new(offset.reserve(64).0, 0) })
            .into_iter()
            .collect();
        assert_eq!(chains.boundary(&offset), 16);
        let stamp = parts[2].block.stamp();
        chains.end(1, Some((stamp, parts.clone())));
        for (number, part, there) in [(0, 0, 0), (9, 0, 9), (10, 1, 0), (29, 1, 19), (30, 2, 0), (500, 2, 470)] {
            assert_eq!(chains.find(stamp, number), Some((parts[part].block, there)));
            assert_eq!(chains.written_by(parts[part].block.stamp(), there as u32), Some((stamp, number as u32)));
        }
        assert_eq!(chains.find(Stamp(stamp.0 + 16), 0), None);
        assert_eq!(chains.boundary(&offset), offset.now().0);
        // A chain that began while another was open, which has ended since.
        chains.open(2, &offset);
        let first = Lsn::new(offset.reserve(64).0, 0);
        chains.open(3, &offset);
        let last = Lsn::new(offset.reserve(64).0, 0);
        let parts = [first, last].map(|block| Part { rows_before: 0, block }).to_vec();
        chains.end(2, Some((last.stamp(), parts)));
        assert_eq!(chains.boundary(&offset), first.offset());
        chains.end(3, None);
        assert_eq!(chains.boundary(&offset), offset.now().0);
        chains.forget_below(stamp.0);
        assert!(chains.find(stamp, 0).is_some());
        chains.forget_below(stamp.0 + 16);
        assert!(chains.find(stamp, 0).is_none() && chains.known().commits.keys().all(|&block| block > stamp));
    }
}
