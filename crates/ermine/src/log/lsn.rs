//! Places: in the log ([`Lsn`]), and of a durable row ([`Address`]).
//!
//! ```text
//!   Lsn                 63..4 offset / 16 | 3..0 segment                                     ERMIA 3.2, figure 3
//!   Address, log        63 one  | 62..20 offset / 16, low 43 bits | 19..16 segment | 15..2 record | 1 deleted | 0 one
//!   Address, cold store 63 zero | 62..20 offset / 16, low 43 bits | 19..2 record                  | 1 deleted | 0 one
//! ```
//!
//! An LSN is an offset in a space that never ends, and in its low bits the number, modulo 16, of the segment that holds
//! it. Offsets are multiples of 16, so that both fit one word and LSNs compare as offsets do.
//!
//! An address names a record in a block: of the log, or of the cold store. It is stored in the indirection array in
//! place of a pointer (the lowest bit distinguishes them), and in checkpoints. The cold store has no segments, so the
//! bits of the segment are part of the record's number there: a block of narrow rows has more records than a block of
//! the log.
//!
//! An address keeps 47 bits of the offset, 128 TiB. The addressed part of a space is shorter than that
//! ([`check_span`]), so the remaining bits follow from where that part begins.
//!
//! Invariant: no field overflows into the next one. A number that does not fit is an error in every build.

use std::fmt;

use crate::{
    error::{Error, Result},
    ids::Stamp,
};

/// The granule of the LSN space, in bytes.
pub(crate) const GRANULE: u64 = 16;

/// Upper bound of a log's offsets: all stamps are below.
pub(crate) const OFFSET_MAX: u64 = 1 << 61;

/// This many consecutive segments have different numbers in their LSNs.
#[cfg(not(loom))]
pub(crate) const SEGMENTS: usize = 16;
/// Few, so that a model wraps around.
#[cfg(loom)]
pub(crate) const SEGMENTS: usize = 3;

/// A place in the log: an offset and its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(u64);

impl Lsn {
    pub(crate) fn new(offset: u64, segment: u8) -> Self {
        assert!(offset.is_multiple_of(GRANULE) && usize::from(segment) < SEGMENTS, "{offset}.{segment} is no LSN");
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

    /// Returns the stamp of the transaction that committed here.
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
    /// Formats as `offset.segment`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.offset(), self.segment())
    }
}

/// The storage that an address points into (ERMIA 3.2: address spaces).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Space {
    /// The cold store: blocks that the cleaner moved out of the log.
    Cold,
    /// The log.
    Log,
}

impl Space {
    /// Returns the number of records of one block that addresses can distinguish: a power of two.
    pub(crate) const fn records_max(self) -> usize {
        match self {
            Self::Log => 1 << 14,
            Self::Cold => 1 << 18,
        }
    }
}

/// Maximum distance in bytes between the first and the last place that addresses of one space can distinguish.
pub(crate) const SPAN_BYTES_MAX: u64 = 1 << 47;

/// Fails when the distance between two offsets of a space is too large for addresses.
pub(crate) fn check_span(start: u64, end: u64) -> Result<()> {
    if end.saturating_sub(start) < SPAN_BYTES_MAX && end <= OFFSET_MAX {
        return Ok(());
    }
    Err(Error::Limit("128 TiB of log or of the cold store that addresses reach: make a checkpoint"))
}

/// The place of the newest durable version of a row: a record of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Address(u64);

impl Address {
    /// Distinguishes an address from a pointer.
    pub(crate) const TAG: u64 = 1;
    const DELETED: u64 = 1 << 1;
    const RECORD_SHIFT: u32 = 2;
    const PLACE_SHIFT: u32 = 16;
    const LOG: u64 = 1 << 63;
    /// The bits of a place that an address keeps: offset and segment, below the space.
    const PLACE_MASK: u64 = (1 << (63 - Self::PLACE_SHIFT)) - 1;

    /// Returns the address of the `record`-th record of the block at `lsn`; in the cold store the segment is 0. Fails
    /// if the block has more records than addresses can distinguish.
    pub(crate) fn new(space: Space, lsn: Lsn, record: usize) -> Result<Self> {
        if record >= space.records_max() {
            return Err(Error::Limit("records of one block: an address has no room for the number"));
        }
        assert!(space == Space::Log || lsn.segment() == 0, "the cold store has no segments");
        let tag = if space == Space::Log { Self::LOG | Self::TAG } else { Self::TAG };
        let place = (lsn.0 & Self::PLACE_MASK) << Self::PLACE_SHIFT;
        Ok(Self(tag | place | (record as u64) << Self::RECORD_SHIFT))
    }

    /// Returns the address that a word of an indirection array holds, if the word is not a pointer.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word & Self::TAG != 0).then_some(Self(word))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Returns the same address, marked as a record that deletes its row.
    pub(crate) fn deleted(self) -> Self {
        Self(self.0 | Self::DELETED)
    }

    pub(crate) fn is_deleted(self) -> bool {
        self.0 & Self::DELETED != 0
    }

    pub(crate) fn space(self) -> Space {
        if self.0 & Self::LOG != 0 { Space::Log } else { Space::Cold }
    }

    /// Returns the record's number in its block.
    pub(crate) fn record(self) -> usize {
        (self.0 >> Self::RECORD_SHIFT) as usize & (self.space().records_max() - 1)
    }

    /// Returns the LSN of its block. Everything addressed in that space lies at or above `start`, and within
    /// [`SPAN_BYTES_MAX`] of it.
    pub(crate) fn lsn(self, start: u64) -> Lsn {
        let place = self.0 >> Self::PLACE_SHIFT & Self::PLACE_MASK;
        let place = if self.space() == Space::Cold { place & !(GRANULE - 1) } else { place };
        let base = start & !(GRANULE - 1);
        Lsn(base + (place.wrapping_sub(base) & Self::PLACE_MASK))
    }

    /// Returns a sort key that orders addresses by age, where the log is replayed from `start` on: higher is newer.
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
            let address = Address::new(Space::Log, lsn, record).unwrap();
            let start = offset.saturating_sub(1 << 40);
            assert_eq!((address.lsn(start), address.record(), address.space()), (lsn, record, Space::Log));
            assert_eq!(Address::from_word(address.word()), Some(address));
            assert!(!address.is_deleted() && address.deleted().is_deleted());
            assert_eq!(address.deleted().lsn(start), lsn);
        }
        assert_eq!(Address::from_word(0x7f00_0000_1238), None);
    }

    #[test]
    fn a_record_beyond_the_room_for_its_number_is_an_error() {
        let lsn = Lsn::new(1 << 20, 0);
        for space in [Space::Log, Space::Cold] {
            let last = Address::new(space, lsn, space.records_max() - 1).unwrap();
            assert_eq!((last.lsn(16), last.record(), last.space()), (lsn, space.records_max() - 1, space));
            let beyond = Address::new(space, lsn, space.records_max());
            assert!(matches!(beyond, Err(Error::Limit(_))), "{beyond:?}");
        }
        assert!(check_span(16, SPAN_BYTES_MAX).is_ok() && check_span(16, SPAN_BYTES_MAX + 16).is_err());
    }

    /// Earlier versions of the program put the number of a record of the cold store into 14 bits without a check, so
    /// that its upper bits ran into those of the segment. Such words are stored in checkpoints, and are now read
    /// correctly.
    #[test]
    fn an_address_of_the_cold_store_that_ran_into_the_segment_is_read_as_it_was_meant() {
        let lsn = Lsn::new(0x1234_5670, 0);
        for record in [0, 16_383, 16_384, 18_596] {
            let word = (lsn.word() & Address::PLACE_MASK) << 16 | record << 2 | 1;
            let address = Address::from_word(word).unwrap();
            assert_eq!((address.lsn(16), address.record()), (lsn, record as usize));
            assert_eq!(Address::new(Space::Cold, lsn, record as usize).unwrap(), address);
        }
    }

    #[test]
    fn age_survives_the_wrap() {
        let start = (1 << 47) - 64;
        let before = Address::new(Space::Log, Lsn::new(start, 1), 0).unwrap();
        let after = Address::new(Space::Log, Lsn::new(start + 128, 2), 0).unwrap();
        assert!(after.word() < before.word(), "the bits have wrapped");
        assert!(after.age_rank(start) > before.age_rank(start));
        let cold = Address::new(Space::Cold, Lsn::new(1 << 40, 0), 5).unwrap();
        assert!(cold.age_rank(0) < before.age_rank(start));
    }
}
