//! Storage behind a RowId: a chain of versions, or one record that is changed in place.
//!
//! ```text
//!   index            array (8 bytes a row)       arena (per worker)
//!   key -> RowId --> [ pointer to newest ] ----> version --below--> version --below--> absent
//! ```
//!
//! - `array`: the indirection array of a table (ERMIA 3.5), RowIds and their recycling; `free_rows`: those that no
//!   worker has
//! - `chain`: one version: its origin, what is below it, its bytes, the stamps of its certifier
//! - `arena`: the memory of versions; `granules`: the units in which it goes back to the system
//! - `snapshots`: which snapshots are in use, and so which versions a transaction may still need
//! - `known`: which versions a running transaction may know, and so which must not leave memory
//! - `in_place`: one record, for schemes with a single version; `copies`: the bytes that a transaction has copied out
//!   of records

pub(crate) mod arena;
#[cfg(not(loom))]
pub(crate) mod array;
pub(crate) mod chain;
pub(crate) mod copies;
#[cfg(not(loom))]
mod free_rows;
pub(crate) mod granules;
pub(crate) mod in_place;
pub(crate) mod known;
#[cfg(all(test, loom))]
mod loom_models;
pub(crate) mod snapshots;
