//! Rows of SQL as keys and values of the engine.
//!
//! A table of SQL is a table of the engine: its key is the primary key (`key`), or a number if the table has
//! none; its value is the whole row (`types::row`). An index is a table of its own:
//!
//! | index | key | value |
//! |---|---|---|
//! | unique, no NULL among the columns | columns | key of the row |
//! | otherwise | columns, then key of the row | key of the row |
//!
//! So an index entry is a versioned row like any other: it is inserted, removed and seen with the transaction that
//! wrote it. A duplicate in a unique index is an insert that meets an existing key. Transactions can build an index,
//! hide it from readers, and drop it.

use ermine::{AsKey, EncodedRange, Key, KeyBuffer, KeyRange, Table};

/// A key that is encoded already.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct RawKey(pub(crate) KeyBuffer);

impl AsKey<RawKey> for RawKey {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        out.extend_from_slice(&self.0);
    }
}

impl AsKey<RawKey> for [u8] {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        out.extend_from_slice(self);
    }
}

impl Key for RawKey {
    #[inline]
    fn decode(input: &mut &[u8]) -> ermine::Result<Self> {
        Ok(Self(KeyBuffer::from_slice(std::mem::take(input))))
    }
}

/// A table of the engine.
pub(crate) type RawTable = Table<RawKey, Vec<u8>>;

/// A range of encoded keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawRange(pub(crate) EncodedRange);

impl KeyRange<RawKey> for RawRange {
    fn encode(&self) -> EncodedRange {
        self.0.clone()
    }
}

impl RawRange {
    /// Returns the range of all keys that begin with these bytes.
    pub(crate) fn prefix(bytes: KeyBuffer) -> Self {
        Self(EncodedRange { upper: successor(&bytes), lower: bytes })
    }
}

/// Returns the lowest byte string above all that begin with `bytes`; `None` if none exists.
pub(crate) fn successor(bytes: &[u8]) -> Option<KeyBuffer> {
    let kept = bytes.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut next = KeyBuffer::from_slice(&bytes[..=kept]);
    next[kept] += 1;
    Some(next)
}
