//! Numbers for rows and entries: the bytes of each key are stored once, all in one buffer.
//!
//! A row and its entry in the primary index have one number, since they have the same bytes.

use std::{cmp::Ordering, hash::BuildHasher};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use crate::history::{Index, Table};

/// A row, or an entry of a secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item(pub(super) u32);

impl Item {
    /// Denotes no item.
    pub(super) const NONE: Self = Self(u32::MAX);

    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u64,
    length: u32,
    /// The index's place in `Keys::indexes`.
    index: u32,
}

/// All keys of a history.
#[derive(Debug, Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    items: HashTable<u32>,
    indexes: Vec<Index>,
    index_numbers: HashMap<Index, u32>,
    hasher: DefaultHashBuilder,
}

impl Keys {
    /// Number of items.
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The row under a primary key.
    pub(super) fn row(&mut self, table: Table, key: &[u8]) -> Item {
        self.item(Index::primary(table), key)
    }

    /// The item in an index under these bytes.
    pub(super) fn item(&mut self, index: Index, key: &[u8]) -> Item {
        let number = match self.index_numbers.get(&index) {
            Some(&number) => number,
            None => {
                let number = self.indexes.len() as u32;
                self.indexes.push(index);
                self.index_numbers.insert(index, number);
                number
            }
        };
        let Self { bytes, spans, items, hasher, .. } = self;
        let key_of = |span: Span| &bytes[span.start as usize..][..span.length as usize];
        let is_it = |&item: &u32| {
            let span = spans[item as usize];
            span.index == number && key_of(span) == key
        };
        let hash_of = |&item: &u32| {
            let span = spans[item as usize];
            hasher.hash_one((span.index, key_of(span)))
        };
        let hash = hasher.hash_one((number, key));
        if let Some(&item) = items.find(hash, is_it) {
            return Item(item);
        }
        let item = u32::try_from(spans.len()).ok().filter(|&item| item < Item::NONE.0).expect("less than 2^32 rows");
        items.insert_unique(hash, item, hash_of);
        spans.push(Span { start: bytes.len() as u64, length: key.len() as u32, index: number });
        bytes.extend_from_slice(key);
        Item(item)
    }

    /// The index that an item lies in.
    pub(super) fn index(&self, item: Item) -> Index {
        self.indexes[self.spans[item.at()].index as usize]
    }

    /// The bytes of an item.
    pub(super) fn bytes(&self, item: Item) -> &[u8] {
        let span = self.spans[item.at()];
        &self.bytes[span.start as usize..][..span.length as usize]
    }

    /// Compares an item with bytes in an index: by index, then by bytes.
    pub(super) fn compare(&self, item: Item, index: Index, bytes: &[u8]) -> Ordering {
        (self.index(item), self.bytes(item)).cmp(&(index, bytes))
    }

    /// Bytes of memory in use.
    pub(super) fn memory(&self) -> u64 {
        let spans = self.spans.capacity() * size_of::<Span>();
        (self.bytes.capacity() + spans + self.items.capacity() * (size_of::<u32>() + 1)) as u64
    }
}
