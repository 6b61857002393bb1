//! Typed keys and values over the engine's bytes.
//!
//! The engine orders and stores byte strings and knows no types. This module is the border: above it a table has keys
//! `K` and values `V`, below it there are encoded bytes. [`Key`] and [`Value`] define how a type crosses the border,
//! [`AsKey`] and [`AsValue`] let a caller cross it with a borrowed form (`&str` for a `String`, say), so that a lookup
//! never builds an owned key, and [`KeyRange`] turns range expressions into a range of bytes.
//!
//! Keys are encoded so that comparing bytes compares values; values are stored as they are, so that a read can return a
//! reference into the version instead of a copy.
//!
//! Invariants:
//! 1. Order: `a < b` exactly when `encode(a) < encode(b)` as byte strings.
//! 2. Self-delimiting: no encoding is a proper prefix of another one of the same type. Fields of a tuple, and the
//!    primary key behind a secondary key, are therefore simply written one after the other, and every encoded key that
//!    begins with `encode(a)` has the field `a`.
//! 3. `decode` reverses `encode`, consumes exactly the bytes that `encode` wrote, and returns [`crate::Error::Decode`]
//!    for any other bytes; it never panics.
//! 4. Every form of one key encodes to the same bytes.
//!
//! Depends on nothing of the engine except its error type; called by [`crate::Transaction`] and by the database for
//! secondary keys.

mod key;
mod key_text;
mod layout;
mod range;
#[cfg(all(test, not(loom)))]
mod tests;
mod value;

pub use self::{
    key::{AsKey, Key, KeyBuffer, KeyList},
    range::{EncodedRange, KeyRange, Prefix, PrefixOf, prefix},
    value::{AsValue, PAYLOAD_ALIGN, Value},
};
pub(crate) use key_text::key_texts;
pub(crate) use layout::type_name;
pub(crate) use range::byte_successor;
pub(crate) use value::Framing;

/// The items that the exported macros use.
#[doc(hidden)]
pub mod __private {
    pub use super::{
        layout::{FieldType, FixedField, OtherField, ValueField, fixed_layout, serde_layout},
        value::{decode_fixed, decode_serde, encode_fixed, encode_serde, no_such_version, view_fixed},
    };
}

/// Calls `$with` once for every tuple length and every split of it into a first part and the rest, as
/// `$with!([key form index ...] [key form index ...])`; the first part has at least one field.
macro_rules! for_each_tuple_split {
    ($with:ident) => {
        for_each_tuple_split!(@lengths $with [A Qa 0] [B Qb 1] [C Qc 2] [D Qd 3] [E Qe 4] [F Qf 5] [G Qg 6] [H Qh 7]);
    };
    (@lengths $with:ident [$($first:tt)*] $([$($next:tt)*])*) => {
        for_each_tuple_split!(@grow $with [[$($first)*]] [$([$($next)*])*]);
    };
    (@grow $with:ident [$($fields:tt)*] []) => {
        for_each_tuple_split!(@split $with [] [$($fields)*]);
    };
    (@grow $with:ident [$($fields:tt)*] [[$($next:tt)*] $($rest:tt)*]) => {
        for_each_tuple_split!(@split $with [] [$($fields)*]);
        for_each_tuple_split!(@grow $with [$($fields)* [$($next)*]] [$($rest)*]);
    };
    (@split $with:ident [$($taken:tt)*] []) => {};
    (@split $with:ident [$($taken:tt)*] [[$($next:tt)*] $([$($rest:tt)*])*]) => {
        $with!([$($taken)* $($next)*] [$($($rest)*)*]);
        for_each_tuple_split!(@split $with [$($taken)* $($next)*] [$([$($rest)*])*]);
    };
}
use for_each_tuple_split;
