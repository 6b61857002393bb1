//! Sets of row numbers: one bit per row, in pages that exist only where there are rows.
//!
//! Row numbers come from files. However scattered they are, a set takes memory in proportion to the rows in it, and not
//! to the highest number: at most 17 KiB for a single row, and one bit per row where they are dense.

use std::ops::Range;

use crate::ids::RowId;

/// Rows of a page, the smallest unit.
const PAGE_ROWS: u64 = 64 * PAGE_WORDS as u64;
const PAGE_WORDS: usize = 64;
/// Pages of the next larger unit.
const PART_PAGES: usize = 1024;

type Page = [u64; PAGE_WORDS];
type Part = [Option<Box<Page>>; PART_PAGES];

/// Rows by number.
#[derive(Default)]
pub(super) struct RowSet(Vec<Option<Box<Part>>>);

/// Position of a row: the part, its page, the word in it, the bit.
fn place(row: RowId) -> (usize, usize, usize, u64) {
    let page = (row.0 / PAGE_ROWS) as usize;
    (page / PART_PAGES, page % PART_PAGES, (row.0 % PAGE_ROWS / 64) as usize, 1 << (row.0 % 64))
}

impl RowSet {
    /// Bytes of a page, a bit for each of its rows.
    pub(super) const PAGE_BYTES: usize = 8 * PAGE_WORDS;

    pub(super) fn insert(&mut self, row: RowId) {
        let (part, page, word, bit) = place(row);
        self.page_mut(part, page)[word] |= bit;
    }

    fn page_mut(&mut self, part: usize, page: usize) -> &mut Page {
        if self.0.len() <= part {
            self.0.resize_with(part + 1, || None);
        }
        let part = self.0[part].get_or_insert_with(|| Box::new([const { None }; PART_PAGES]));
        part[page].get_or_insert_with(|| Box::new([0; PAGE_WORDS]))
    }

    /// The pages that have rows, by number, in ascending order.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, [u8; Self::PAGE_BYTES])> {
        let parts = self.0.iter().enumerate().filter_map(|(at, part)| Some((at * PART_PAGES, part.as_deref()?)));
        let pages = parts.flat_map(|(first, part)| (first..).zip(part));
        pages.filter_map(|(number, page)| {
            let mut bits = [0; Self::PAGE_BYTES];
            let words = bits.as_chunks_mut().0.iter_mut().zip(&**page.as_ref()?);
            words.for_each(|(bytes, word)| *bytes = word.to_le_bytes());
            Some((number as u64, bits))
        })
    }

    /// Adds the rows of a page.
    pub(super) fn insert_page(&mut self, number: u64, bits: &[u8]) {
        let (part, page, ..) = place(RowId(number * PAGE_ROWS));
        for (word, bytes) in self.page_mut(part, page).iter_mut().zip(bits.as_chunks().0) {
            *word |= u64::from_le_bytes(*bytes);
        }
    }

    pub(super) fn contains(&self, row: RowId) -> bool {
        let (part, page, word, bit) = place(row);
        let page = self.0.get(part).and_then(|part| part.as_ref()?[page].as_ref());
        page.is_some_and(|page| page[word] & bit != 0)
    }

    /// The highest row number in the set plus one; 0 if the set is empty.
    pub(super) fn above(&self) -> u64 {
        let Some(Some(part)) = self.0.last() else { return 0 };
        let used =
            |(at, page): (usize, &Option<Box<Page>>)| Some((at, page.as_ref()?.iter().rposition(|word| *word != 0)?));
        let (page, word) = part.iter().enumerate().filter_map(used).next_back().expect("a part has a row");
        let bits = part[page].as_ref().map_or(0, |page| 64 - u64::from(page[word].leading_zeros()));
        ((self.0.len() - 1) * PART_PAGES + page) as u64 * PAGE_ROWS + word as u64 * 64 + bits
    }

    /// Ranges of row numbers, in ascending order, outside of which the sets have no rows.
    pub(super) fn stretches<'a>(sets: impl Iterator<Item = &'a Self>) -> Vec<Range<u64>> {
        let mut pages: Vec<u64> = Vec::new();
        for set in sets {
            let parts = set.0.iter().enumerate().filter_map(|(at, part)| Some((at, part.as_deref()?)));
            let of = |(at, part): (usize, &'a Part)| {
                let used = part.iter().enumerate().filter(|(_, page)| page.is_some());
                used.map(move |(page, _)| (at * PART_PAGES + page) as u64)
            };
            pages.extend(parts.flat_map(of));
        }
        pages.sort_unstable();
        pages.dedup();
        pages.into_iter().map(|page| page * PAGE_ROWS..(page + 1) * PAGE_ROWS).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_there_and_nothing_else() {
        let rows = [0, 1, 63, 64, 4095, 4096, 1 << 22, (1 << 32) - 1];
        let mut set = RowSet::default();
        rows.iter().for_each(|&row| set.insert(RowId(row)));
        for row in rows.iter().flat_map(|&row| row.saturating_sub(2)..row + 3) {
            assert_eq!(set.contains(RowId(row)), rows.contains(&row), "{row}");
        }
        assert_eq!((set.above(), RowSet::default().above()), (1 << 32, 0));
        let mut other = RowSet::default();
        other.insert(RowId(5000));
        other.insert(RowId(9000));
        assert_eq!(other.above(), 9001);
        let stretches = RowSet::stretches([&set, &other].into_iter());
        let page = |at: u64| at * PAGE_ROWS..(at + 1) * PAGE_ROWS;
        assert_eq!(stretches, [page(0), page(1), page(2), page(1 << 10), page((1 << 20) - 1)]);
    }
}
