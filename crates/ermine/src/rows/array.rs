//! The indirection array of a table (ERMIA 3.5) and its RowIds.
//!
//! The array is a few reserved ranges of addresses, each twice as long as the one before, that the system fills with
//! zero pages as rows are touched. So a lookup finds the range by the highest bit of the number, growth copies nothing,
//! and a small table takes few addresses, which matters where the address space is limited. RowIds are handed out to
//! workers in blocks, so that inserting threads write different cache lines. They return to the worker that retired
//! them, which keeps some, and gives the others to the table, for any worker. The memory of a stretch of slots whose
//! RowIds all belong to the table goes back to the system.
//!
//! Invariants
//! 1. A RowId below `taken` belongs to one worker (free in its list or block), to one key of the table, or to the table
//!    (`free`).
//! 2. A slot without a version belongs to no key, except while its key is being removed from the index.
//! 3. A RowId that has been handed out has a slot; a request for the slot of any other RowId makes it.
//! 4. The slot of a RowId of the table is empty: no thread stores into it before a worker takes the RowId. So the
//!    memory of such slots may be given back to the system, which makes zeros of them.
//! 5. The budget has the pages of all slots below `taken`, but for chunks whose RowIds all belong to the table, if
//!    these are given back to the system.

use std::{
    collections::BTreeMap,
    marker::PhantomData,
    mem::size_of,
    ops::{DerefMut, Range},
    ptr::NonNull,
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    ids::{RowId, TableId},
    log::lsn::Address,
    platform::{budget::Budget, memory::Region, prefetch},
    rows::{
        chain::{CertifierStamps, RowSlot},
        free_rows::{CHUNK, FreeRows, Whole},
        in_place::{Control, RecordSlot},
    },
    sync::{AtomicPtr, AtomicU64, Mutex, Ordering},
};

/// RowIds that a worker takes at a time.
const BLOCK_ROWS: u64 = 64;

/// Free RowIds that a worker keeps; when it has more, half of them go to the table.
pub(crate) const KEPT_ROWS: usize = 1024;

/// Rows that a table can have.
#[cfg(not(any(loom, shuttle, miri)))]
const CAPACITY: u64 = 1 << 32;
#[cfg(any(loom, shuttle, miri))]
const CAPACITY: u64 = 1 << 12;

/// Rows in the first range.
const FIRST_ROWS: u64 = 1 << 12;
/// Ranges of a table with the maximal number of rows.
const RANGES: usize = (CAPACITY / FIRST_ROWS + 1).next_power_of_two().ilog2() as usize;
/// Bytes of a word for each row.
const WORD: usize = size_of::<u64>();
/// Rows whose slots share a page.
const PAGE_ROWS: u64 = (4096 / WORD) as u64;

/// A word for each row, in ranges that are reserved when they are first needed.
///
/// Range n has the rows whose [`Words::number`] has its highest bit n places above that of [`FIRST_ROWS`]. A lookup is
/// some ten instructions: for each range, the address at which the word of number 0 would be is stored, so that the
/// number itself is the position in it.
struct Words {
    ranges: [AtomicPtr<u64>; RANGES],
    owned: Mutex<Vec<Region>>,
    /// Ranges of at least this size in bytes use huge pages.
    huge_from: usize,
}

impl Words {
    fn new(huge_from: usize) -> Self {
        let ranges = std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut()));
        Self { ranges, owned: Mutex::new(Vec::new()), huge_from }
    }

    /// Returns a row's number in the ranges, which is at least [`FIRST_ROWS`].
    #[inline]
    fn number(row: RowId) -> usize {
        row.0.saturating_add(FIRST_ROWS) as usize
    }

    /// Returns the range of a row; for a row beyond the last range, a number that no range has.
    #[inline]
    fn range(row: RowId) -> usize {
        // Tells the compiler that the number is not zero.
        let highest = (Self::number(row) | FIRST_ROWS as usize).ilog2();
        (highest - FIRST_ROWS.ilog2()) as usize
    }

    /// Returns the word of a row, if its range exists.
    #[inline]
    fn find(&self, row: RowId) -> Option<NonNull<u64>> {
        // Acquire: pairs with `reserve`.
        let origin = self.ranges[Self::range(row)].load(Ordering::Acquire);
        // Inside of the range: it has a word for each number with this highest bit (`reserve`).
        if origin.is_null() { None } else { NonNull::new(origin.wrapping_add(Self::number(row))) }
    }

    /// Returns the word of a row; reserves its range where that is missing.
    #[inline]
    fn word(&self, row: RowId) -> NonNull<u64> {
        // As the global allocator does when it has no memory.
        self.find(row).unwrap_or_else(|| {
            self.reserve(row).unwrap_or_else(|_| std::alloc::handle_alloc_error(std::alloc::Layout::new::<u64>()))
        })
    }

    /// Reserves the range of a row and returns its word; fails where the system has no addresses left.
    #[cold]
    fn reserve(&self, row: RowId) -> Result<NonNull<u64>> {
        let range = Self::range(row);
        let mut owned = self.owned.lock().expect("no code panics while it holds the ranges");
        // Relaxed: under the lock.
        if self.ranges[range].load(Ordering::Relaxed).is_null() {
            let words = (FIRST_ROWS as usize) << range;
            let bytes = words * WORD;
            let huge_from = if bytes >= self.huge_from { 0 } else { bytes };
            let region = Region::reserve(bytes, huge_from)
                .map_err(|_| Error::Limit("address space: the system has none left for more rows"))?;
            let origin = region.start().cast::<u64>().wrapping_sub(words);
            assert!(!origin.is_null(), "addresses as low as that are not given to programs");
            // Release: pairs with `find`; publishes the zero pages with the range.
            self.ranges[range].store(origin, Ordering::Release);
            owned.push(region);
        }
        drop(owned);
        Ok(self.find(row).expect("just reserved"))
    }

    /// Returns the memory of words to the system, which are a part of one range; they are zero, and no thread writes
    /// them meanwhile.
    fn discard(&self, numbers: Range<u64>) {
        let Some(first) = self.find(RowId(numbers.start - FIRST_ROWS)) else { return };
        let mut owned = self.owned.lock().expect("no code panics while it holds the ranges");
        let (first, bytes) = (first.as_ptr().addr(), (numbers.end - numbers.start) as usize * WORD);
        for region in owned.iter_mut() {
            let offset = first.wrapping_sub(region.start().addr());
            if offset < region.bytes() {
                region.discard(offset, bytes);
            }
        }
    }
}

/// Whether the words of a chunk are a part of one range: the first ranges are shorter.
fn is_discarded(chunk: &Whole) -> bool {
    chunk.start > 0
}

/// The word that represents a row in its table's array.
///
/// # Safety
/// It is eight bytes long, aligned to eight, and zero bytes are a valid one: no row.
pub(crate) unsafe trait Slot: Send + Sync + 'static {}

/// RowId -> newest version.
pub(crate) type ChainArray<H> = RowArray<RowSlot<H>>;

/// RowId -> the row's word.
pub(crate) struct RowArray<T> {
    slots: Words,
    rows: PhantomData<T>,
    /// Addresses in the cold store of rows that are in memory and no longer in the log; those of other rows are zero. A
    /// table without such rows has no ranges here.
    homes: Words,
    budget: Arc<Budget>,
    taken: AtomicU64,
    /// RowIds below `taken` that belong to the table, by their [numbers](Words::number).
    free: Mutex<FreeRows>,
    /// How many RowIds each worker has in stock.
    stocks: Mutex<Vec<Arc<Stock>>>,
}

/// A number of RowIds that its worker alone writes, for statistics: no model of the schemes explores it.
type Stock = std::sync::atomic::AtomicU64;

/// Small pages for the first rows: a table of few rows takes few pages.
const HUGE_FROM: usize = 4 << 20;

const _: () = assert!(size_of::<RowSlot<()>>() == 8, "a slot is one word");

// SAFETY: transparently an atomic pointer; null: no version.
unsafe impl<H: CertifierStamps> Slot for RowSlot<H> {}

// SAFETY: as above; null: no record.
unsafe impl<C: Control> Slot for RecordSlot<C> {}

impl<T: Slot> RowArray<T> {
    /// Creates an array without rows, whose pages count in `budget`.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            slots: Words::new(HUGE_FROM),
            homes: Words::new(usize::MAX),
            rows: PhantomData,
            budget: budget.clone(),
            taken: AtomicU64::new(0),
            free: Mutex::new(FreeRows::default()),
            stocks: Mutex::new(Vec::new()),
        }
    }

    /// Returns the slot of a row.
    #[inline]
    pub(crate) fn slot(&self, row: RowId) -> &T {
        // SAFETY: the word is inside a range, aligned as words are, and zero bytes are a valid slot (`Slot`). Ranges
        // live as long as `self`.
        unsafe { self.slots.word(row).cast::<T>().as_ref() }
    }

    fn home_word(&self, row: RowId) -> &AtomicU64 {
        // SAFETY: as in `slot`.
        unsafe { self.homes.word(row).cast::<AtomicU64>().as_ref() }
    }

    /// Returns the address in the cold store of a row that is in memory, too, and not in the log.
    pub(crate) fn home(&self, row: RowId) -> Option<Address> {
        // SAFETY: as in `slot`.
        let word = unsafe { self.homes.find(row)?.cast::<AtomicU64>().as_ref() };
        // Acquire: pairs with the stores below.
        Address::from_word(word.load(Ordering::Acquire))
    }

    /// Notes where in the cold store a row has been moved to.
    pub(crate) fn set_home(&self, row: RowId, home: Address) {
        self.home_word(row).store(home.word(), Ordering::Release);
    }

    /// Notes where in the cold store a row has been read from. If the row has been moved since, the newer address
    /// stays.
    pub(crate) fn set_first_home(&self, row: RowId, home: Address) {
        let _ = self.home_word(row).compare_exchange(0, home.word(), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Forgets where in the cold store a row is: from now on its slot says where the row is.
    pub(crate) fn forget_home(&self, row: RowId) {
        // SAFETY: as in `slot`.
        let word = self.homes.find(row).map(|word| unsafe { word.cast::<AtomicU64>().as_ref() });
        word.inspect(|word| word.store(0, Ordering::Release));
    }

    /// Whether the array has a place for a row of that number.
    pub(crate) fn has_place(row: RowId) -> bool {
        row.0 < CAPACITY
    }

    /// Returns the rows that recovery found, in ascending order. No other thread uses the array yet.
    pub(crate) fn recovered_rows(&self) -> Vec<RowId> {
        let numbers = FIRST_ROWS..FIRST_ROWS + self.count();
        self.free().others(numbers).map(|number| RowId(number - FIRST_ROWS)).collect()
    }

    /// Starts loading a row's slot from memory.
    pub(crate) fn prefetch(&self, row: RowId) {
        prefetch::lines(std::ptr::from_ref(self.slot(row)).cast(), 1);
    }

    /// Number of RowIds that have been handed out: at least the number of rows.
    pub(crate) fn count(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Number of RowIds that are in use: by rows, and by deleted ones that are not collected yet.
    pub(crate) fn in_use(&self) -> u64 {
        let free = self.free().count();
        let mut stocks = self.stocks.lock().expect("no code panics while it holds the stocks");
        // Those of workers that have ended.
        stocks.retain(|stock| Arc::strong_count(stock) > 1);
        // Relaxed: statistics.
        let stocks: u64 = stocks.iter().map(|stock| stock.load(Ordering::Relaxed)).sum();
        self.count().saturating_sub(free + stocks)
    }

    /// Bytes of the slots that have been handed out, but for those given back to the system.
    pub(crate) fn bytes(&self) -> u64 {
        let given: u64 = self.free().whole().filter(is_discarded).map(|chunk| chunk.end - chunk.start).sum();
        (self.count() - given) * WORD as u64
    }

    fn free(&self) -> impl DerefMut<Target = FreeRows> + '_ {
        self.free.lock().expect("no code panics while it holds the free rows")
    }

    /// Moves some of the table's RowIds to `into`.
    fn take_free(&self, into: &mut Vec<RowId>) {
        let mut numbers = Vec::new();
        let mut free = self.free();
        if let Some(chunk) = free.take(BLOCK_ROWS as usize, &mut numbers).filter(is_discarded) {
            self.budget.add((chunk.end - chunk.start) * WORD as u64);
        }
        // RowIds are taken from the end: the lowest first.
        into.extend(numbers.into_iter().rev().map(|number| RowId(number - FIRST_ROWS)));
    }

    /// Adds RowIds to those of the table.
    fn give_free(&self, rows: impl Iterator<Item = RowId>) {
        let mut free = self.free();
        for row in rows {
            // While the RowIds are out of reach of other workers (invariant 4).
            free.add(row.0 + FIRST_ROWS).into_iter().for_each(|chunk| self.discard(&chunk));
        }
    }

    /// Gives the memory of slots back whose RowIds all belong to the table.
    fn discard(&self, chunk: &Whole) {
        if is_discarded(chunk) {
            self.slots.discard(chunk.clone());
            self.homes.discard(chunk.clone());
            self.budget.give((chunk.end - chunk.start) * WORD as u64);
        }
    }

    fn take_block(&self) -> Result<u64> {
        // Relaxed: the counter orders nothing but itself.
        let first = self.taken.fetch_add(BLOCK_ROWS, Ordering::Relaxed);
        if first + BLOCK_ROWS > CAPACITY {
            return Err(Error::Limit("rows of one table"));
        }
        if self.slots.find(RowId(first)).is_none() {
            self.slots.reserve(RowId(first))?;
        }
        if first.is_multiple_of(PAGE_ROWS) {
            self.budget.add(PAGE_ROWS * WORD as u64);
        }
        Ok(first)
    }
}

impl<T> Drop for RowArray<T> {
    fn drop(&mut self) {
        // Relaxed: no other thread uses the array.
        let taken = self.taken.load(Ordering::Relaxed).min(CAPACITY).next_multiple_of(PAGE_ROWS);
        let Ok(free) = self.free.lock() else { return };
        let given: u64 = free.whole().filter(is_discarded).map(|chunk| chunk.end - chunk.start).sum();
        self.budget.give((taken - given) * WORD as u64);
    }
}

impl<C: Control> RowArray<RecordSlot<C>> {
    /// Finds the free RowIds after recovery has put rows into the array. No other thread uses the array yet.
    pub(crate) fn settle(&self) {
        let is_used = |row: &u64| self.slot(RowId(*row)).record().is_some();
        let taken = (0..self.count()).rev().find(is_used).map_or(0, |last| (last + 1).next_multiple_of(BLOCK_ROWS));
        let pages = |rows: u64| rows.next_multiple_of(PAGE_ROWS) * WORD as u64;
        self.budget.give(pages(self.count()) - pages(taken));
        // Relaxed: no other thread uses the array.
        self.taken.store(taken, Ordering::Relaxed);
        let mut free = self.free();
        let free_up_to = |free: &mut FreeRows, run: Range<u64>| {
            let run = run.start + FIRST_ROWS..run.end + FIRST_ROWS;
            free.add_run(run).iter().for_each(|chunk| self.discard(chunk));
        };
        let mut start = 0;
        for row in (0..taken).filter(is_used) {
            free_up_to(&mut free, start..row);
            start = row + 1;
        }
        free_up_to(&mut free, start..taken);
    }
}

impl<H: CertifierStamps> ChainArray<H> {
    /// Finds the free RowIds after recovery has put rows into the array. No other thread uses the array yet. All rows
    /// are in `used`, stretches of their numbers in ascending order; no memory outside of them is touched.
    pub(crate) fn recovered(&self, used: &[Range<u64>]) {
        let is_used = |row: u64| self.slot(RowId(row)).stored().is_some();
        let last = used.iter().rev().find_map(|stretch| stretch.clone().rev().find(|&row| is_used(row)));
        let taken = last.map_or(0, |last| (last + 1).next_multiple_of(BLOCK_ROWS));
        // Relaxed: no other thread uses the array.
        self.taken.store(taken, Ordering::Relaxed);
        let mut free = self.free();
        let mut whole = 0;
        let mut free_up_to = |run: Range<u64>| {
            let run = run.start + FIRST_ROWS..run.end + FIRST_ROWS;
            for chunk in free.add_run(run).into_iter().filter(is_discarded) {
                // Of rows that came and went in the log.
                self.slots.discard(chunk);
                whole += 1;
            }
        };
        let mut start = 0;
        for row in used.iter().flat_map(Range::clone).filter(|&row| row < taken && is_used(row)) {
            free_up_to(start..row);
            start = row + 1;
        }
        free_up_to(start..taken);
        self.budget.add((taken.next_multiple_of(PAGE_ROWS) - whole * CHUNK) * WORD as u64);
    }
}

/// A worker's RowIds of one table.
#[derive(Default)]
pub(crate) struct RowIds {
    next: u64,
    end: u64,
    recycled: Vec<RowId>,
    /// How many these are, for [`RowArray::in_use`]; `None`: the array does not know them yet.
    stock: Option<Arc<Stock>>,
}

impl RowIds {
    /// Takes a RowId whose slot is empty and which no other worker has.
    pub(crate) fn take<T: Slot>(&mut self, array: &RowArray<T>) -> Result<RowId> {
        if !self.is_counted() {
            self.count_in(Some(array));
        }
        if self.recycled.is_empty() && self.next == self.end {
            array.take_free(&mut self.recycled);
            if self.recycled.is_empty() {
                self.next = array.take_block()?;
                self.end = self.next + BLOCK_ROWS;
            }
        }
        let row = self.recycled.pop().unwrap_or_else(|| {
            self.next += 1;
            RowId(self.next - 1)
        });
        self.note();
        Ok(row)
    }

    /// Whether their number is known, to the array or to nothing.
    pub(crate) fn is_counted(&self) -> bool {
        self.stock.is_some()
    }

    /// Makes their number known to the table's array; `None`: the table is gone.
    #[cold]
    pub(crate) fn count_in<T: Slot>(&mut self, array: Option<&RowArray<T>>) {
        let stock = self.stock.insert(Arc::default());
        if let Some(array) = array {
            array.stocks.lock().expect("no code panics while it holds the stocks").push(stock.clone());
        }
        self.note();
    }

    fn note(&self) {
        if let Some(stock) = &self.stock {
            // Relaxed: statistics.
            stock.store(self.recycled.len() as u64 + (self.end - self.next), Ordering::Relaxed);
        }
    }

    /// Recycles a RowId that no transaction can still use.
    pub(crate) fn give(&mut self, row: RowId) {
        self.recycled.push(row);
        self.note();
    }

    /// Whether half of them are to go to the table: others may insert what this worker deletes.
    pub(crate) fn are_many(&self) -> bool {
        self.recycled.len() > KEPT_ROWS
    }

    /// Gives those to the table that were freed first, but for so many; `None`: the table is gone.
    #[cold]
    pub(crate) fn give_back<T: Slot>(&mut self, array: Option<&RowArray<T>>, keep: usize) {
        let some = self.recycled.drain(..self.recycled.len().saturating_sub(keep));
        match array {
            Some(array) => array.give_free(some),
            None => drop(some),
        }
        self.note();
    }
}

/// A worker's RowIds of all tables.
#[derive(Default)]
pub(crate) struct WorkerRowIds {
    logged: Vec<RowIds>,
    /// Of tables in memory only, which come and go: their numbers are high.
    unlogged: BTreeMap<TableId, RowIds>,
}

impl WorkerRowIds {
    /// Returns those of a table.
    pub(crate) fn of(&mut self, table: TableId) -> &mut RowIds {
        if table.is_unlogged() {
            return self.unlogged.entry(table).or_default();
        }
        let at = table.0 as usize;
        if self.logged.len() <= at {
            self.logged.resize_with(at + 1, RowIds::default);
        }
        &mut self.logged[at]
    }

    /// Calls `give` with those of each table of which there are free ones.
    pub(crate) fn give_back(&mut self, mut give: impl FnMut(TableId, &mut RowIds)) {
        let logged = self.logged.iter_mut().enumerate().map(|(table, ids)| (TableId(table as u32), ids));
        let all = logged.chain(self.unlogged.iter_mut().map(|(table, ids)| (*table, ids)));
        all.filter(|(_, ids)| !ids.recycled.is_empty()).for_each(|(table, ids)| give(table, ids));
    }

    /// Forgets those of tables in memory only that are gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(TableId) -> bool) {
        self.unlogged.retain(|table, _| !is_gone(*table));
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;
    use crate::log::lsn::{Lsn, Space};

    #[test]
    fn every_row_has_a_word_of_its_own() {
        let edges =
            [0, 1, FIRST_ROWS - 1, FIRST_ROWS, 3 * FIRST_ROWS - 1, 3 * FIRST_ROWS, 7 * FIRST_ROWS, CAPACITY - 1];
        let ranges = edges.map(|row| Words::range(RowId(row)));
        assert_eq!(ranges[..6], [0, 0, 0, 1, 1, 2]);
        assert!(ranges.iter().all(|&range| range < RANGES));
        let words = Words::new(usize::MAX);
        for (row, range) in edges.into_iter().zip(ranges) {
            let at = words.word(RowId(row)).as_ptr().addr();
            let origin = words.ranges[range].load(Ordering::Relaxed).addr();
            let start = origin.wrapping_add((FIRST_ROWS << range) as usize * WORD);
            let owned = words.owned.lock().unwrap();
            assert!(owned.iter().any(|region| region.start().addr() == start), "where the range begins");
            assert!((start..start + (FIRST_ROWS << range) as usize * WORD).contains(&at), "row {row} in range {range}");
        }
        let array = ChainArray::<()>::new(&Arc::new(Budget::unlimited()));
        let slots = edges.map(|row| std::ptr::from_ref(array.slot(RowId(row))).addr());
        let distinct: std::collections::HashSet<_> = slots.iter().collect();
        assert_eq!(distinct.len(), edges.len());
        assert_eq!(array.home(RowId(CAPACITY - 1)), None);
    }

    #[test]
    fn row_ids_in_use_are_counted() {
        let array = ChainArray::<()>::new(&Arc::new(Budget::unlimited()));
        let (mut one, mut other) = (RowIds::default(), RowIds::default());
        let taken: Vec<_> = (0..200).map(|_| one.take(&array).unwrap()).collect();
        assert_eq!((array.in_use(), array.count()), (200, 256));
        // A worker that takes none gives those back that others took.
        other.count_in(Some(&array));
        taken[..150].iter().for_each(|row| other.give(*row));
        assert_eq!(array.in_use(), 50);
        (0..10).for_each(|_| drop(other.take(&array)));
        assert_eq!(array.in_use(), 60);
        // RowIds of a worker that has ended belong to no other.
        drop(other);
        assert_eq!(array.in_use(), 200);
    }

    #[test]
    fn slots_whose_rows_belong_to_the_table_go_back_to_the_system() {
        let budget = Arc::new(Budget::unlimited());
        let array = ChainArray::<()>::new(&budget);
        let (mut ids, rows) = (RowIds::default(), 3 * CHUNK - FIRST_ROWS);
        let take_all = |ids: &mut RowIds| (0..rows).map(|_| ids.take(&array).unwrap()).collect::<Vec<_>>();
        let taken = take_all(&mut ids);
        let full = budget.taken();
        assert_eq!((full, array.bytes()), (rows * 8, rows * 8));
        for _ in 0..2 {
            for row in &taken {
                ids.give(*row);
                if ids.are_many() {
                    ids.give_back(Some(&array), KEPT_ROWS / 2);
                }
            }
            // The worker keeps some of the last chunk; the first one stays.
            assert_eq!((array.in_use(), full - budget.taken(), full - array.bytes()), (0, CHUNK * 8, CHUNK * 8));
            let mut again = take_all(&mut ids);
            again.sort_unstable();
            assert!(again == taken, "each of them once");
            assert_eq!((budget.taken(), array.bytes(), array.count()), (full, full, rows));
        }
    }

    #[test]
    fn what_recovery_left_free_is_handed_out_first_and_once() {
        let budget = Arc::new(Budget::unlimited());
        let array = ChainArray::<()>::new(&budget);
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
        assert_eq!(array.in_use(), rows.len() as u64 + 300);
        let empty = ChainArray::<()>::new(&budget);
        empty.recovered(&[]);
        assert_eq!((empty.count(), RowIds::default().take(&empty).unwrap()), (0, RowId(0)));
    }
}
