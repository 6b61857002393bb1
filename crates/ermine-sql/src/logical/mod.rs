//! Changes of tables for other systems: publications' changes, decoded from the log, transaction by transaction, as
//! PostgreSQL's logical replication has them.
//!
//! | module | subject |
//! |---|---|
//! | `history` | the definitions of tables as of a position in the log |
//! | `decode` | the rows of a transaction, with the definitions of its time |
//! | `slots` | positions of readers, kept in files |
//! | `rewind` | moves a slot back |
//! | `stream` | a reader that follows the log from its slot on |
//!
//! Invariants
//! 1. *Once, in order.* A reader is sent every transaction that commits at or above the position of its slot, whole, in
//!    the order of commits; after a break, again what it has not confirmed.
//! 2. *With the definitions of its time.* A row is decoded with the definition that its table had when its transaction
//!    committed, however late it is read (`history`).
//! 3. *Nothing of the log is removed that a slot needs*, unless it would need more than its limit, or the device is
//!    full; then the slot is lost, and says so.

mod decode;
pub(crate) mod history;
pub(crate) mod rewind;
pub(crate) mod slots;
pub(crate) mod stream;

pub use decode::{PublishedColumn, PublishedTable, RowChange, TableChange};
pub use slots::kept_from as slots_kept_from;
pub use stream::{ChangeStream, Decoded, Event};

use crate::error::{SqlError, SqlState};

/// Returns the error of a publication that does not exist.
pub(crate) fn no_publication(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("publication \"{name}\" does not exist"))
}

/// Returns a position as PostgreSQL writes it.
pub fn lsn(position: u64) -> String {
    format!("{:X}/{:X}", position >> 32, position as u32)
}

/// Reads a position.
pub fn parse_lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let part = |text: &str| match text.len() {
        1..=8 if text.bytes().all(|byte| byte.is_ascii_hexdigit()) => u32::from_str_radix(text, 16).ok(),
        _ => None,
    };
    Some(u64::from(part(high)?) << 32 | u64::from(part(low)?))
}

#[cfg(test)]
mod tests {
    use super::{lsn, parse_lsn};

    #[test]
    fn positions_are_read_as_they_were_written() {
        for position in [0, 1, 0x16_B374_D848, u64::MAX] {
            assert_eq!(parse_lsn(&lsn(position)), Some(position));
        }
        for text in ["", "/", "1", "1/", "/1", "G/0", "1/123456789", "-1/0", "+1/0"] {
            assert_eq!(parse_lsn(text), None, "{text}");
        }
    }
}
