//! Places: in the log ([`Lsn`]), and of a durable row ([`Address`]).
//!
//! ```text
//!   Lsn       63 .. 4 offset / 16 | 3 .. 0 segment                                   ERMIA 3.2, figure 3
//!   Address   63 space | 62 .. 20 offset / 16, the low 43 bits | 19 .. 16 segment | 15 .. 2 record | 1 deleted | 0 one
//! ```
//!
//! An LSN is an offset in a space that never ends, and in its low bits the number, modulo 16, of the segment that holds
//! it. Offsets are multiples of 16, so that both fit one word and LSNs compare as offsets do.
//!
//! An address names a record in a block: of the log, or of the cold store. It stands in the indirection array in the
//! place of a pointer (the lowest bit tells them apart), and in checkpoints. It keeps 47 bits of the offset, 128 TiB. That
//! is enough for ever: what is addressed spans less, so that the rest follows from where that span begins.

use std::fmt;

use crate::ids::Stamp;

/// The granule of the LSN space, in bytes.
pub(crate) const GRANULE: u64 = 16;

/// No log comes here: stamps are below.
pub(crate) const OFFSET_MAX: u64 = 1 << 61;

/// So many segments in a row have different numbers in their LSNs.
#[cfg(not(loom))]
pub(crate) const SEGMENTS: usize = 16;
/// So few that a model gets round.
#[cfg(loom)]
pub(crate) const SEGMENTS: usize = 3;

/// A place in the log: an offset and its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(u64);

impl Lsn {
    pub(crate) fn new(offset: u64, segment: u8) -> Self {
        debug_assert!(offset.is_multiple_of(GRANULE) && usize::from(segment) < SEGMENTS);
        Self(offset | u64::from(segment))
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn offset(self) -> u64 {
        self.0 & !(GRANULE - 1)
    }

    pub(crate) fn segment(self) -> u8 {
        (self.0 & (GRANULE - 1)) as u8
    }

    /// The stamp of the transaction that committed here.
    pub(crate) fn stamp(self) -> Stamp {
        Stamp(self.offset())
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Lsn {
    /// `offset.segment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.offset(), self.segment())
    }
}

/// What an address points into (ERMIA 3.2: address spaces).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Space {
    /// The cold store: what the cleaner moved out of the log.
    Cold,
    /// The log.
    Log,
}

/// Where the newest durable version of a row stands: a record of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Address(u64);

impl Address {
    const TAG: u64 = 1;
    const DELETED: u64 = 1 << 1;
    const RECORD_SHIFT: u32 = 2;
    const RECORD_BITS: u32 = 14;
    const PLACE_SHIFT: u32 = Self::RECORD_SHIFT + Self::RECORD_BITS;
    const LOG: u64 = 1 << 63;
    /// Bits of a place that are kept: offset and segment, below the space.
    const PLACE_MASK: u64 = (1 << (63 - Self::PLACE_SHIFT)) - 1;
    /// Records that a block may have.
    pub(crate) const RECORDS_MAX: usize = 1 << Self::RECORD_BITS;

    /// The address of the `record`-th record of the block at `lsn`; in the cold store the segment is 0.
    pub(crate) fn new(space: Space, lsn: Lsn, record: usize) -> Self {
        debug_assert!(record < Self::RECORDS_MAX);
        let space = if space == Space::Log { Self::LOG } else { 0 };
        let place = (lsn.0 & Self::PLACE_MASK) << Self::PLACE_SHIFT;
        Self(space | place | (record as u64) << Self::RECORD_SHIFT | Self::TAG)
    }

    /// The address that a word of an indirection array holds, if it is no pointer.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word & Self::TAG != 0).then_some(Self(word))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The same, of a record by which its row is deleted.
    pub(crate) fn deleted(self) -> Self {
        Self(self.0 | Self::DELETED)
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.0 & Self::DELETED != 0
    }

    pub(crate) fn space(self) -> Space {
        if self.0 & Self::LOG != 0 { Space::Log } else { Space::Cold }
    }

    /// Which record of its block.
    pub(crate) fn record(self) -> usize {
        (self.0 >> Self::RECORD_SHIFT) as usize & (Self::RECORDS_MAX - 1)
    }

    /// Its block. Everything addressed in that space lies at or above `start`, and within 128 TiB of it.
    pub(crate) fn lsn(self, start: u64) -> Lsn {
        let place = self.0 >> Self::PLACE_SHIFT & Self::PLACE_MASK;
        let base = start & !(GRANULE - 1);
        Lsn(base + (place.wrapping_sub(base) & Self::PLACE_MASK))
    }

    /// What orders addresses by age, where the log is replayed from `start` on: higher is newer.
    pub(crate) fn age_rank(self, start: u64) -> (Space, u64) {
        (self.space(), self.lsn(start).offset())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_back_what_it_was_made_of() {
        for (offset, segment, record) in [(16, 0, 0), (1 << 46, 15, 16383), ((1 << 47) - 16, 7, 1), (1 << 55, 3, 9)] {
            let lsn = Lsn::new(offset, segment);
            let address = Address::new(Space::Log, lsn, record);
            let start = offset.saturating_sub(1 << 40);
            assert_eq!((address.lsn(start), address.record(), address.space()), (lsn, record, Space::Log));
            assert_eq!(Address::from_word(address.word()), Some(address));
            assert!(!address.is_deleted() && address.deleted().is_deleted());
            assert_eq!(address.deleted().lsn(start), lsn);
        }
        assert_eq!(Address::from_word(0x7f00_0000_1238), None);
    }

    #[test]
    fn age_survives_the_wrap() {
        let start = (1 << 47) - 64;
        let before = Address::new(Space::Log, Lsn::new(start, 1), 0);
        let after = Address::new(Space::Log, Lsn::new(start + 128, 2), 0);
        assert!(after.word() < before.word(), "the bits have wrapped");
        assert!(after.age_rank(start) > before.age_rank(start));
        let cold = Address::new(Space::Cold, Lsn::new(1 << 40, 0), 5);
        assert!(cold.age_rank(0) < before.age_rank(start));
    }
}
