//! The format of a block: what one transaction, or one act of the engine, leaves in the log.
//!
//! ```text
//!   | header (32 bytes) | record descriptors | payloads | padding to 16 |
//! ```
//!
//! | bytes | field |
//! |---|---|
//! | 0..2 | magic, 0xe12e |
//! | 2 | version of the format |
//! | 3 | [`BlockKind`] |
//! | 4..8 | CRC-32C of bytes 0..4 and of bytes 8.. up to the end of the descriptors |
//! | 8..16 | LSN of the block itself |
//! | 16..20 | size of the block in granules of 16 bytes |
//! | 20..24 | bytes of the descriptors |
//! | 24..28 | CRC-32C of the payloads and the padding, which is zero |
//! | 28..32 | how far the durable part of the log was behind this block when it was filled, in granules |
//!
//! Little-endian throughout. Header and descriptors say everything about what happened, so that recovery reads only
//! those; a payload is read when its row is requested (ERMIA 3.7).
//!
//! A block names its own place, so that bytes left by an earlier use of the file are never taken for a block. The last
//! field distinguishes a torn tail from damage: a valid block behind an invalid one, which says that the invalid one
//! had been durable, proves that something has been lost since.

use super::lsn::{GRANULE, Lsn};

/// Version of the format, in every block but those with keys.
pub(crate) const FORMAT: u8 = 1;
/// Version of the format of a block that has the keys of the rows which it updates and deletes.
pub(crate) const FORMAT_WITH_KEYS: u8 = 2;

const MAGIC: [u8; 2] = 0xe12e_u16.to_le_bytes();

/// Upper bound of a block's size; only a skip may be longer. The bound keeps damaged bytes from causing a huge
/// allocation.
pub(crate) const BLOCK_BYTES_MAX: u64 = 256 << 20;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 32;

/// The kind of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BlockKind {
    /// A committed transaction. Its LSN is the commit stamp.
    Commit = 1,
    /// No content: an aborted reservation, or the rest of a segment.
    Skip = 2,
    /// A part of a transaction that a commit block will refer to; without that commit block it has no effect.
    Overflow = 3,
    /// A point in time, and whether the state there is a safe snapshot (`moment`).
    Clock = 4,
    /// Rows that were moved to the cold store.
    Cold = 5,
    /// Start of a checkpoint: describes what the checkpoint covers.
    Begin = 6,
    /// Part of a checkpoint: keys of a table in order, with rows and their addresses.
    Keys = 7,
    /// Part of a checkpoint: entries of a secondary index in order, with rows.
    Entries = 8,
    /// End of a checkpoint: it is complete.
    End = 9,
    /// First block of a file of the cold store: the database's identity.
    Label = 10,
}

impl BlockKind {
    fn read(byte: u8) -> Option<Self> {
        use BlockKind::*;
        let kinds = [Commit, Skip, Overflow, Clock, Cold, Begin, Keys, Entries, End, Label];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Whether bytes begin as a block does: a quick check that rejects most places.
pub(crate) fn may_be_block(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// A header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: BlockKind,
    /// Whether the block has the keys of all rows that it updates or deletes.
    pub(crate) has_keys: bool,
    pub(crate) lsn: Lsn,
    /// Size of the whole block, in bytes.
    pub(crate) size: u64,
    /// Bytes of the descriptors.
    pub(crate) descriptors: u32,
    checksum: u32,
    payload_checksum: u32,
    /// Bytes by which the durable part of the log was behind this block.
    pub(crate) undurable: u64,
}

/// The reason why bytes are not a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Invalid {
    /// Another magic number, or the block of another place: nothing was ever written here since the file was put to its
    /// present use.
    Blank,
    /// A format version that this program does not support.
    Version(u8),
    /// The bytes begin as a block, but the checksum or the sizes are wrong.
    Damaged,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Returns the checksum of a header that begins with `front`, and of the bytes that follow it.
fn checksum_of(front: &[u8], rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&front[..4]), rest)
}

impl Header {
    /// Reads the header expected at `lsn`. Only [`verify`](Self::verify) checks that it is correct.
    pub(crate) fn read(bytes: &[u8; HEADER_BYTES], lsn: Lsn) -> Result<Self, Invalid> {
        let itself = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        if bytes[..2] != MAGIC || itself != lsn.word() {
            return Err(Invalid::Blank);
        }
        if ![FORMAT, FORMAT_WITH_KEYS].contains(&bytes[2]) {
            return Err(Invalid::Version(bytes[2]));
        }
        let header = Self {
            kind: BlockKind::read(bytes[3]).ok_or(Invalid::Damaged)?,
            has_keys: bytes[2] == FORMAT_WITH_KEYS,
            lsn,
            size: u64::from(word(bytes, 16)) * GRANULE,
            descriptors: word(bytes, 20),
            checksum: word(bytes, 4),
            payload_checksum: word(bytes, 24),
            undurable: u64::from(word(bytes, 28)) * GRANULE,
        };
        if header.size < header.payload_at() { Err(Invalid::Damaged) } else { Ok(header) }
    }

    /// Whether header and descriptors are as they were written; `bytes` begin with both.
    pub(crate) fn verify(&self, bytes: &[u8]) -> bool {
        let end = self.payload_at() as usize;
        bytes.len() >= end && checksum_of(&bytes[..8], &bytes[8..end]) == self.checksum
    }

    /// Whether the payloads are as they were written; `block` is the whole block.
    pub(crate) fn verify_payload(&self, block: &[u8]) -> bool {
        crc32c::crc32c(&block[self.payload_at() as usize..]) == self.payload_checksum
    }

    /// Where the payloads begin, from the start of the block.
    pub(crate) fn payload_at(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.descriptors)
    }

    /// Returns the offset at which the next block begins.
    pub(crate) fn end(&self) -> u64 {
        self.lsn.offset() + self.size
    }

    /// Returns the offset up to which the log was durable when the block was filled.
    pub(crate) fn durable(&self) -> u64 {
        self.lsn.offset().saturating_sub(self.undurable)
    }
}

/// The content of a block besides its header: the parts that go to the log one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    pub(crate) kind: BlockKind,
    /// Whether the descriptors have the keys of all rows that are updated or deleted.
    pub(crate) has_keys: bool,
    pub(crate) descriptors: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Body<'a> {
    /// Returns the body of a block without keys of rows that it updates or deletes.
    pub(crate) fn of(kind: BlockKind, descriptors: &'a [u8], payload: &'a [u8]) -> Self {
        Self { kind, has_keys: false, descriptors, payload }
    }

    /// Returns the body of a block that consists of its header only.
    pub(crate) fn nothing() -> Self {
        Self::of(BlockKind::Skip, &[], &[])
    }

    /// Bytes that the block occupies in the log.
    pub(crate) fn size(&self) -> u64 {
        ((HEADER_BYTES + self.descriptors.len() + self.payload.len()) as u64).next_multiple_of(GRANULE)
    }

    /// Returns the zeros that fill the block up to its size.
    pub(crate) fn padding(&self) -> &'static [u8] {
        const ZEROS: &[u8; GRANULE as usize] = &[0; GRANULE as usize];
        &ZEROS[..self.size() as usize - HEADER_BYTES - self.descriptors.len() - self.payload.len()]
    }

    /// Builds the part of the header that is known before the block has its place.
    pub(crate) fn seal(&self) -> Sealed {
        let size = u32::try_from(self.size() / GRANULE).expect("a block is far smaller than 64 GiB");
        let descriptors = u32::try_from(self.descriptors.len()).expect("as above");
        let payload = crc32c::crc32c_append(crc32c::crc32c(self.payload), self.padding());
        let mut sealed = Sealed::new(self.kind, size, descriptors, payload);
        if self.has_keys {
            sealed.0[2] = FORMAT_WITH_KEYS;
        }
        sealed
    }
}

/// A header without a place.
#[derive(Clone, Copy)]
pub(crate) struct Sealed([u8; HEADER_BYTES]);

impl Sealed {
    fn new(kind: BlockKind, granules: u32, descriptors: u32, payload_checksum: u32) -> Self {
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&MAGIC);
        header[2] = FORMAT;
        header[3] = kind as u8;
        header[16..20].copy_from_slice(&granules.to_le_bytes());
        header[20..24].copy_from_slice(&descriptors.to_le_bytes());
        header[24..28].copy_from_slice(&payload_checksum.to_le_bytes());
        Self(header)
    }

    /// Returns the header of a block that covers `size` bytes and has no content.
    pub(crate) fn skip(size: u64) -> Self {
        Self::new(BlockKind::Skip, u32::try_from(size / GRANULE).expect("a segment is smaller than 64 GiB"), 0, 0)
    }

    /// Returns the whole header, once the block is placed; the log is durable up to `durable` at this time.
    pub(crate) fn place(mut self, descriptors: &[u8], lsn: Lsn, durable: u64) -> [u8; HEADER_BYTES] {
        let undurable = u32::try_from(lsn.offset().saturating_sub(durable) / GRANULE).unwrap_or(u32::MAX);
        self.0[8..16].copy_from_slice(&lsn.word().to_le_bytes());
        self.0[28..32].copy_from_slice(&undurable.to_le_bytes());
        let checksum = crc32c::crc32c_append(checksum_of(&self.0[..8], &self.0[8..]), descriptors);
        self.0[4..8].copy_from_slice(&checksum.to_le_bytes());
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let body = Body::of(BlockKind::Commit, b"descriptors", b"the payload");
        let mut block = body.seal().place(body.descriptors, Lsn::new(4096, 3), 1024).to_vec();
        block.extend_from_slice(body.descriptors);
        block.extend_from_slice(body.payload);
        block.extend_from_slice(body.padding());
        block
    }

    fn read(block: &[u8], lsn: Lsn) -> Result<Header, Invalid> {
        Header::read(block[..HEADER_BYTES].try_into().unwrap(), lsn)
    }

    #[test]
    fn what_is_written_is_read() {
        let block = sample();
        let header = read(&block, Lsn::new(4096, 3)).unwrap();
        assert!(header.verify(&block) && header.verify_payload(&block));
        assert_eq!((header.kind, header.size, header.end(), header.durable()), (BlockKind::Commit, 64, 4160, 1024));
        assert_eq!(read(&block, Lsn::new(4096, 4)), Err(Invalid::Blank));
        assert_eq!(read(&[0; 64], Lsn::new(4096, 3)), Err(Invalid::Blank));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let block = sample();
        for bit in 0..block.len() * 8 {
            let mut flipped = block.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let right = read(&flipped, Lsn::new(4096, 3))
                .is_ok_and(|header| header.verify(&flipped) && header.verify_payload(&flipped));
            assert!(!right, "bit {bit}");
        }
    }

    #[test]
    fn a_skip_covers_what_it_says() {
        let lsn = Lsn::new(1 << 30, 2);
        let block = Sealed::skip(1 << 20).place(&[], lsn, 1 << 30);
        let header = read(&block, lsn).unwrap();
        assert!(header.verify(&block));
        assert_eq!((header.kind, header.end()), (BlockKind::Skip, (1 << 30) + (1 << 20)));
    }
}
