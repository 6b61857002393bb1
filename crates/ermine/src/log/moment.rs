//! A moment in the log: the wall-clock time, in the payload of a clock block, and whether the state there is a safe
//! snapshot (`txn::safe`).
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | microseconds since 1970 |
//! | 8 | 1: a transaction that reads all commits below the block, and none above it, is serializable |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::block::{BlockKind, Body, HEADER_BYTES, Header};

pub(crate) struct Moment([u8; 9]);

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let mut bytes = [0; 9];
        bytes[..8].copy_from_slice(&micros.to_le_bytes());
        Self(bytes)
    }
}

impl Moment {
    /// Says that the state is a safe snapshot.
    pub(super) fn safe(mut self) -> Self {
        self.0[8] = 1;
        self
    }

    /// Says nothing of the state.
    pub(super) fn plain(mut self) -> Self {
        self.0[8] = 0;
        self
    }

    pub(super) fn body(&self) -> Body<'_> {
        Body::of(BlockKind::Clock, &[], &self.0)
    }

    /// Returns what a block says, if it is one of these.
    pub(crate) fn read(header: &Header, block: &[u8]) -> Option<Self> {
        // The padding of an old one is zero.
        let bytes = block.get(HEADER_BYTES + header.descriptors as usize..)?.first_chunk()?;
        (header.kind == BlockKind::Clock).then_some(Self(*bytes))
    }

    /// Returns the time; `None`: no clock knows it.
    pub(crate) fn time(&self) -> Option<SystemTime> {
        let micros = u64::from_le_bytes(*self.0.first_chunk()?);
        UNIX_EPOCH.checked_add(Duration::from_micros(micros))
    }

    pub(crate) fn is_safe(&self) -> bool {
        self.0[8] == 1
    }
}
