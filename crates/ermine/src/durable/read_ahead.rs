//! Announces blocks to the system before rows are read from them, so that the device reads many at a time.
//!
//! A row that is only in a file costs a read of its block, for which the reader waits. A scan, or a group of lookups,
//! knows many of these rows beforehand: it passes them to [`Store::announce`], which finds their blocks and announces
//! them with [`File::will_read`]. The blocks then arrive in the system's page cache while the rows are read one by one,
//! as ever (docs/decisions/0019-the-system-reads-ahead.md).
//!
//! Invariants
//! 1. *An announcement is a hint.* It changes no slot, no block and no result, and it reports no error: a device that
//!    fails does so again for the read of the row, which is the transaction's.
//! 2. *It costs nothing where rows are in memory*: callers announce when they have met a row that is not.
//! 3. *The device has a bounded amount to do*: a caller announces up to [`ROWS`] rows beyond those that it reads, and
//!    up to [`STEP_BYTES_MAX`] bytes of a file beyond its blocks.
//!
//! Rows that were written in the order of their keys lie side by side, also where index and file disagree about the
//! first of them: when the blocks of a scan follow one another in a file, the file is read ahead in ever larger steps,
//! beyond the rows that are known. So a sequential scan is one of the device as well.
//!
//! [`File::will_read`]: crate::platform::file::File::will_read

use std::{ops::Range, sync::atomic::Ordering};

use smallvec::SmallVec;

use super::store::{Store, StoredAt};
use crate::{
    ids::RowId,
    index::Batch,
    log::{
        lsn::{Address, Lsn, Space},
        scan::part_to_read,
    },
    rows::chain::{CertifierStamps, SlotContent},
    table::TableStore,
};

/// Rows that are announced before the first of them is read.
pub(crate) const ROWS: usize = 64;

/// Bytes between two blocks that are rather read than skipped.
const GAP_BYTES: u64 = 16 << 10;

/// Bytes of a file that are announced beyond the blocks that are known, where these follow one another: at first, and
/// at most.
const STEP_BYTES_MIN: u64 = 32 << 10;
const STEP_BYTES_MAX: u64 = 1 << 20;

/// A scan's or a group's announcements.
#[derive(Default)]
pub(crate) struct Ahead {
    /// The part of a file that was announced last: its space, and offsets there.
    announced: Option<(Space, Range<u64>)>,
    step: u64,
}

/// The rows of a scan that are announced.
#[derive(Default)]
pub(crate) struct RowsAhead {
    /// A row that is only in a file has been met in the present leaf.
    pub(crate) met: bool,
    /// All such rows of the leaf have been announced.
    pub(crate) has_announced_leaf: bool,
    /// Rows beyond the leaf that have been announced, and the key of the last one.
    pub(crate) rows: usize,
    pub(crate) last: Vec<u8>,
    /// The entries that were announced last.
    pub(crate) batch: Batch,
    pub(crate) announced: Ahead,
}

impl RowsAhead {
    /// Begins a scan.
    pub(crate) fn begin(&mut self) {
        self.met = false;
        self.announced = Ahead::default();
        self.end();
    }

    /// Ends the announcements, for now: there was no row in a file in the last leaf.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.has_announced_leaf = false;
        self.rows = 0;
        self.last.clear();
    }
}

/// A part of a file with blocks to be read.
struct Part {
    space: Space,
    at: StoredAt,
    offsets: Range<u64>,
}

impl Store {
    /// Announces the blocks of those of some rows that are only in files. The caller is in the epoch of operations.
    #[cold]
    #[inline(never)]
    pub(crate) fn announce<H: CertifierStamps>(
        &self,
        table: &TableStore<H>,
        rows: impl Iterator<Item = RowId>,
        ahead: &mut Ahead,
    ) {
        let stored = rows.filter_map(|row| match table.rows.slot(row).peek() {
            SlotContent::Stored(address) => Some(address),
            SlotContent::Head(_) | SlotContent::Empty => None,
        });
        let addresses: SmallVec<[Address; ROWS]> = stored.collect();
        if addresses.is_empty() {
            return;
        }
        let segments = self.live_segments();
        let place = |address: Address| (address.space() == Space::Cold, self.place(&segments, address));
        let mut places: SmallVec<[(bool, Lsn); ROWS]> = addresses.into_iter().map(place).collect();
        places.sort_unstable_by_key(|(is_cold, lsn)| (*is_cold, lsn.offset()));
        places.dedup();
        let mut parts: SmallVec<[Part; ROWS]> = SmallVec::new();
        for (is_cold, lsn) in places {
            let space = if is_cold { Space::Cold } else { Space::Log };
            // Relaxed: a guess.
            let expected = self.expected(space).load(Ordering::Relaxed);
            let end = lsn.offset() + expected;
            match parts.last_mut() {
                Some(last) if last.continues_at(space, lsn.offset()) => last.offsets.end = last.offsets.end.max(end),
                _ => {
                    // A file that cannot be opened: the row's read reports that.
                    let Ok(Some(mut at)) = self.file_at(&segments, space, lsn) else { continue };
                    if space == Space::Log {
                        at.extent.end = at.extent.end.min(self.durable());
                    }
                    parts.push(Part { space, at, offsets: lsn.offset()..end });
                }
            }
        }
        ahead.announce(&parts);
    }
}

impl Part {
    /// Whether a block at an offset lies in this part, or little behind it in the same file.
    fn continues_at(&self, space: Space, offset: u64) -> bool {
        self.space == space && offset <= self.offsets.end + GAP_BYTES && offset < self.at.extent.end
    }

    /// Announces some of the offsets.
    fn announce(&self, offsets: Range<u64>) {
        let extent = self.at.extent;
        let end = offsets.end.min(extent.end);
        if offsets.start < end {
            let (position, bytes) = part_to_read(extent, offsets.start, end - offsets.start);
            self.at.file.will_read(position, bytes);
        }
    }
}

impl Ahead {
    fn announce(&mut self, parts: &[Part]) {
        let following = parts.iter().position(|part| self.is_followed_by(part));
        for (at, part) in parts.iter().enumerate() {
            if following == Some(at) {
                self.go_on(part);
            } else {
                part.announce(part.offsets.clone());
            }
        }
        if following.is_none() {
            // The longest of them is most likely to be continued.
            let longest = parts.iter().max_by_key(|part| part.offsets.end - part.offsets.start);
            self.announced = longest.map(|part| (part.space, part.offsets.clone()));
            self.step = STEP_BYTES_MIN;
        }
    }

    /// Whether a part begins within what was announced last, or little behind that.
    fn is_followed_by(&self, part: &Part) -> bool {
        self.announced.as_ref().is_some_and(|(space, announced)| {
            *space == part.space && (announced.start..=announced.end + GAP_BYTES).contains(&part.offsets.start)
        })
    }

    /// Announces a part that follows, and more behind it, unless so much has been announced already.
    fn go_on(&mut self, part: &Part) {
        let announced = self.announced.as_ref().map_or(part.offsets.start, |(_, announced)| announced.end);
        let mut end = announced;
        if part.offsets.end + self.step / 2 > announced {
            end = (part.offsets.end + self.step).min(part.at.extent.end).max(announced);
            self.step = (2 * self.step).min(STEP_BYTES_MAX);
            part.announce(announced.max(part.offsets.start)..end);
        }
        self.announced = Some((part.space, part.offsets.start..end));
    }
}
