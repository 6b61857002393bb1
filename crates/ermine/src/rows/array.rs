//! The indirection array of a table (ERMIA 3.5) and its RowIds.
//!
//! The array is a reserved range of addresses that the system fills with zero pages as rows are touched: a lookup is
//! one addition, growth copies nothing. RowIds are handed out to workers in blocks, so that inserting threads write
//! different cache lines, and come back to the worker that retired them.
//!
//! Invariants
//! 1. A RowId below `taken` belongs to one worker (free in its list or block) or to one key of the table.
//! 2. A slot without a version belongs to no key, except while its key is being taken out of the index.

use std::{marker::PhantomData, mem::size_of, ops::Range};

use crate::{
    error::{Error, Result},
    ids::RowId,
    log::lsn::Address,
    platform::{memory::Region, prefetch},
    rows::{
        chain::{CertifierStamps, RowSlot},
        in_place::{Control, RecordSlot},
    },
    sync::{AtomicU64, Mutex, Ordering},
};

/// Rows that a worker takes at a time.
const BLOCK_ROWS: u64 = 64;

/// Rows for which a table reserves addresses: 2^32, 32 GiB of address space.
#[cfg(not(any(loom, shuttle, miri)))]
const CAPACITY: u64 = 1 << 32;
#[cfg(any(loom, shuttle, miri))]
const CAPACITY: u64 = 1 << 12;

/// The word that stands for a row in its table's array.
///
/// # Safety
/// It is eight bytes long, aligned to eight, and zero bytes are a valid one: no row.
pub(crate) unsafe trait Slot: Send + Sync + 'static {}

/// RowId -> newest version.
pub(crate) type ChainArray<H> = RowArray<RowSlot<H>>;

/// RowId -> the row's word.
pub(crate) struct RowArray<T> {
    slots: Region,
    rows: PhantomData<T>,
    /// Addresses in the cold store of rows that are in memory and not in the log any more. Untouched, and without memory,
    /// where there are none.
    homes: Region,
    taken: AtomicU64,
    /// RowIds below `taken` that recovery found to be nobody's, in runs, the lowest last.
    free: Mutex<Vec<Range<u64>>>,
}

/// Small pages for the first rows: a table of few rows takes few pages.
const HUGE_FROM: usize = 2 << 20;

const _: () = assert!(size_of::<RowSlot<()>>() == 8, "a slot is one word");

// SAFETY: an atomic pointer, transparently; null: no version.
unsafe impl<H: CertifierStamps> Slot for RowSlot<H> {}

// SAFETY: as above; null: no record.
unsafe impl<C: Control> Slot for RecordSlot<C> {}

impl<T: Slot> RowArray<T> {
    /// An array without rows.
    pub(crate) fn reserve() -> Result<Self> {
        let reserve = |huge_from| {
            Region::reserve(CAPACITY as usize * size_of::<T>(), huge_from)
                .map_err(|_| Error::Limit("address space: the system refused to reserve 64 GiB for a table"))
        };
        let (slots, homes) = (reserve(HUGE_FROM)?, reserve(usize::MAX)?);
        Ok(Self { slots, homes, rows: PhantomData, taken: AtomicU64::new(0), free: Mutex::new(Vec::new()) })
    }

    /// The place of a row.
    pub(crate) fn slot(&self, row: RowId) -> &T {
        assert!(row.0 < CAPACITY);
        // SAFETY: inside the region, aligned as pages are, and zero bytes are a valid slot (`Slot`). The region lives as
        // long as `self`.
        unsafe { &*self.slots.start().cast::<T>().add(row.0 as usize) }
    }

    fn home_word(&self, row: RowId) -> &AtomicU64 {
        assert!(row.0 < CAPACITY);
        // SAFETY: as in `slot`.
        unsafe { &*self.homes.start().cast::<AtomicU64>().add(row.0 as usize) }
    }

    /// Where a row is in the cold store that is in memory, too, and not in the log.
    pub(crate) fn home(&self, row: RowId) -> Option<Address> {
        // Acquire: pairs with the stores below.
        Address::from_word(self.home_word(row).load(Ordering::Acquire))
    }

    /// A row has been moved to the cold store.
    pub(crate) fn set_home(&self, row: RowId, home: Address) {
        self.home_word(row).store(home.word(), Ordering::Release);
    }

    /// A row has been read from the cold store. It may have been moved since; then that counts.
    pub(crate) fn set_first_home(&self, row: RowId, home: Address) {
        let _ = self.home_word(row).compare_exchange(0, home.word(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether there is a place for a row of that number.
    pub(crate) fn has_place(row: RowId) -> bool {
        row.0 < CAPACITY
    }

    /// The rows that recovery found, in ascending order. Nobody else uses the array yet.
    pub(crate) fn recovered_rows(&self) -> Vec<RowId> {
        let free = self.free.lock().expect("no code panics while it holds the free rows");
        let starts = free.iter().rev().map(|run| run.end);
        let ends = free.iter().rev().map(|run| run.start).chain([self.count()]);
        [0].into_iter().chain(starts).zip(ends).flat_map(|(start, end)| start..end).map(RowId).collect()
    }

    /// Starts loading a row's slot from memory.
    pub(crate) fn prefetch(&self, row: RowId) {
        prefetch::lines(std::ptr::from_ref(self.slot(row)).cast(), 1);
    }

    /// At least as many as there are rows: the RowIds that have been handed out.
    pub(crate) fn count(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes of the array that have been handed out.
    pub(crate) fn bytes(&self) -> u64 {
        self.count() * size_of::<T>() as u64
    }

    /// Free RowIds that recovery found, some at a time.
    fn take_free(&self, into: &mut Vec<RowId>) {
        let mut free = self.free.lock().expect("no code panics while it holds the free rows");
        let first = into.len();
        while into.len() - first < BLOCK_ROWS as usize
            && let Some(mut run) = free.pop()
        {
            let room = BLOCK_ROWS as usize - (into.len() - first);
            into.extend(run.by_ref().take(room).map(RowId));
            free.extend(Some(run).filter(|run| !run.is_empty()));
        }
        // They are taken from the end: the lowest first.
        into[first..].reverse();
    }

    fn take_block(&self) -> Result<u64> {
        // Relaxed: the counter orders nothing but itself.
        let first = self.taken.fetch_add(BLOCK_ROWS, Ordering::Relaxed);
        if first + BLOCK_ROWS > CAPACITY {
            return Err(Error::Limit("rows of one table"));
        }
        Ok(first)
    }
}

impl<C: Control> RowArray<RecordSlot<C>> {
    /// Recovery has put rows into the array: what it has left is free. Nobody else uses the array yet.
    pub(crate) fn settle(&self) {
        let is_used = |row: &u64| self.slot(RowId(*row)).record().is_some();
        let taken = (0..self.count()).rev().find(is_used).map_or(0, |last| (last + 1).next_multiple_of(BLOCK_ROWS));
        // Relaxed: nobody else is there.
        self.taken.store(taken, Ordering::Relaxed);
        let (mut free, mut end) = (Vec::new(), taken);
        for row in (0..taken).rev().filter(is_used) {
            free.extend(Some(row + 1..end).filter(|run| !run.is_empty()));
            end = row;
        }
        free.extend(Some(0..end).filter(|run| !run.is_empty()));
        *self.free.lock().expect("no code panics while it holds the free rows") = free;
    }
}

impl<H: CertifierStamps> ChainArray<H> {
    /// Recovery has put rows into the array: finds out what is free. Nobody else uses the array yet; all rows are in `used`,
    /// stretches of their numbers in ascending order. Elsewhere no memory is touched, nor is a free row written down by itself.
    pub(crate) fn recovered(&self, used: &[Range<u64>]) {
        let is_used = |row: u64| self.slot(RowId(row)).stored().is_some();
        let last = used.iter().rev().find_map(|stretch| stretch.clone().rev().find(|&row| is_used(row)));
        let taken = last.map_or(0, |last| (last + 1).next_multiple_of(BLOCK_ROWS));
        // Relaxed: nobody else is there.
        self.taken.store(taken, Ordering::Relaxed);
        let mut free = Vec::new();
        // Where a run of free rows ends, if there is one above `row`.
        let mut end = taken;
        for row in
            used.iter().rev().flat_map(|stretch| stretch.clone().rev()).filter(|&row| row < taken && is_used(row))
        {
            free.extend(Some(row + 1..end).filter(|run| !run.is_empty()));
            end = row;
        }
        free.extend(Some(0..end).filter(|run| !run.is_empty()));
        *self.free.lock().expect("no code panics while it holds the free rows") = free;
    }
}

/// A worker's RowIds of one table.
#[derive(Default)]
pub(crate) struct RowIds {
    next: u64,
    end: u64,
    recycled: Vec<RowId>,
}

impl RowIds {
    /// A RowId whose slot is empty and which nobody else knows.
    pub(crate) fn take<T: Slot>(&mut self, array: &RowArray<T>) -> Result<RowId> {
        if let Some(row) = self.recycled.pop() {
            return Ok(row);
        }
        if self.next == self.end {
            array.take_free(&mut self.recycled);
            if let Some(row) = self.recycled.pop() {
                return Ok(row);
            }
            self.next = array.take_block()?;
            self.end = self.next + BLOCK_ROWS;
        }
        self.next += 1;
        Ok(RowId(self.next - 1))
    }

    /// Takes back a RowId that nobody can know any more.
    pub(crate) fn give(&mut self, row: RowId) {
        self.recycled.push(row);
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use crate::log::lsn::{Lsn, Space};

    #[test]
    fn what_recovery_left_free_is_handed_out_first_and_once() {
        let array = ChainArray::<()>::reserve().unwrap();
        let rows = [0, 3, 200, (1 << 32) - 130];
        for row in rows {
            let address = Address::new(Space::Log, Lsn::new(16, 0), 0).unwrap();
            assert!(array.slot(RowId(row)).replace_stored(None, Some(address)));
        }
        array.recovered(&[0..4096, (1 << 32) - 4096..1 << 32]);
        assert_eq!((array.count(), array.recovered_rows()), ((1 << 32) - 128, rows.map(RowId).to_vec()));
        let mut ids = RowIds::default();
        let taken: Vec<u64> = (0..300).map(|_| ids.take(&array).unwrap().0).collect();
        assert_eq!(taken, (0..303).filter(|row| !rows.contains(row)).collect::<Vec<_>>());
        // What is free between far rows does not have to be written down.
        assert!(array.free.lock().unwrap().len() < 4);
        let empty = ChainArray::<()>::reserve().unwrap();
        empty.recovered(&[]);
        assert_eq!((empty.count(), RowIds::default().take(&empty).unwrap()), (0, RowId(0)));
    }
}
