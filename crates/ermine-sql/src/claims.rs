//! What a transaction owes to foreign keys, and when it is examined.

use ermine::KeyBuffer;
use hashbrown::{HashMap, hash_map::Entry};

use crate::{
    catalog::definition::{ForeignKeyDef, ObjectId},
    memory::{ALLOCATION, ENTRY, bytes_of},
    types::Value,
};

/// The table whose write made a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// A row that refers was written.
    Child,
    /// The same, by an action: later actions may have changed the row again.
    Action,
    /// A row that may be referred to was removed, or its key changed.
    Parent,
}

/// A key for which a foreign key has to hold.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    /// Values of the parent's columns, in the order of the foreign key.
    pub(crate) key: Vec<Value>,
    pub(crate) side: Side,
    /// Whether it has been examined before, and is examined again with a newer snapshot.
    pub(crate) is_again: bool,
}

/// Claims by foreign key and encoded key.
#[derive(Default, Debug)]
pub(crate) struct Claims(HashMap<(ObjectId, KeyBuffer), Claim>);

impl Claims {
    /// Adds a claim; returns the approximate number of bytes that it needs more. One that was not examined yet counts
    /// before one that was.
    pub(crate) fn add(&mut self, place: (ObjectId, KeyBuffer), claim: Claim) -> usize {
        let bytes = ENTRY + ALLOCATION + place.1.len() + bytes_of(&claim.key) + size_of_val(&claim.key[..]);
        match self.0.entry(place) {
            Entry::Occupied(mut known) => {
                if known.get().is_again {
                    known.insert(claim);
                }
                0
            }
            Entry::Vacant(free) => {
                free.insert(claim);
                bytes
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(ObjectId, KeyBuffer), &Claim)> {
        self.0.iter()
    }

    /// Removes and returns all claims.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = ((ObjectId, KeyBuffer), Claim)> {
        self.0.drain()
    }
}

/// When a foreign key is examined: as SET CONSTRAINTS says, or else as it was defined.
#[derive(Default, Clone, Debug)]
pub(crate) struct Deferral {
    /// The last statement about all constraints.
    all: Option<bool>,
    /// Statements about one of them, since then.
    named: HashMap<ObjectId, bool>,
}

impl Deferral {
    /// Sets when foreign keys are examined; `None`: all that are deferrable.
    pub(crate) fn set(&mut self, keys: Option<Vec<ObjectId>>, is_deferred: bool) {
        match keys {
            None => *self = Self { all: Some(is_deferred), named: HashMap::new() },
            Some(keys) => self.named.extend(keys.into_iter().map(|key| (key, is_deferred))),
        }
    }

    /// Whether a foreign key is examined at the end of the transaction only.
    pub(crate) fn is_deferred(&self, def: &ForeignKeyDef) -> bool {
        let set = self.named.get(&def.id).copied().or(self.all);
        def.is_deferrable && set.unwrap_or(def.is_deferred)
    }
}
