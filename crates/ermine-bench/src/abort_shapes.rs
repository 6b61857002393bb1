//! Which conflicts are lost most often: aborts counted by their shape, with the keys that occur most.
//!
//! A shape is what aborts have in common: the kind of transaction that lost, the rule that it broke, the table, and the
//! edges to the transactions before and after it that would have closed the cycle. A field that [`Abort`] gains becomes
//! part of a shape in `Shape::of` and a column in [`ShapeSummary`], and nowhere else.
//!
//! Invariants
//! 1. Memory is bounded: at most [`SHAPES_MAX`] shapes and [`KEYS_MAX`] keys of each; aborts beyond these limits are
//!    counted together.
//! 2. Each thread has its own counts; they are merged when the run is over.

use std::{
    collections::HashMap,
    fmt::{self, Write},
};

use ermine::{Abort, AbortKind, Dependency, Edge, TableName};
use serde::Serialize;

use crate::report::{Grid, grouped};

/// Maximum number of shapes that are distinguished.
pub const SHAPES_MAX: usize = 256;
/// Maximum number of keys counted for each shape.
pub const KEYS_MAX: usize = 32;
/// Keys shown for each shape.
const KEYS_SHOWN: usize = 3;
/// Shapes shown; the JSON has all.
const SHAPES_SHOWN: usize = 12;

/// The common properties of aborts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    /// The number of the transaction in its workload.
    transaction: usize,
    kind: AbortKind,
    table: Option<TableName>,
    predecessor: Option<EdgeShape>,
    successor: Option<EdgeShape>,
}

/// The common properties of edges.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EdgeShape {
    dependency: Dependency,
    table: Option<TableName>,
}

impl Shape {
    fn of(transaction: usize, abort: &Abort) -> Self {
        let edge = |edge: &Edge| EdgeShape { dependency: edge.dependency, table: edge.table.clone() };
        Self {
            transaction,
            kind: abort.kind,
            table: abort.table.clone(),
            predecessor: abort.predecessor.as_ref().map(edge),
            successor: abort.successor.as_ref().map(edge),
        }
    }
}

impl fmt::Display for EdgeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.dependency.name())?;
        self.table.as_ref().map_or(Ok(()), |table| write!(f, " in {table}"))
    }
}

/// Aborts of one shape.
#[derive(Clone, Debug, Default)]
struct Counts {
    aborts: u64,
    keys: FrequentKeys,
}

/// Aborts counted by shape.
#[derive(Clone, Debug, Default)]
pub struct AbortShapes {
    shapes: HashMap<Shape, Counts>,
    /// Aborts of shapes beyond the limit.
    beyond: u64,
}

impl AbortShapes {
    /// Empty counts if aborts are to be explained.
    pub fn when(explained: bool) -> Option<Self> {
        explained.then(Self::default)
    }

    /// Counts an abort of the transaction with this number in the workload.
    pub fn add(&mut self, transaction: usize, abort: &Abort) {
        match self.place(Shape::of(transaction, abort)) {
            Some(counts) => {
                counts.aborts += 1;
                if let Some(key) = &abort.key {
                    counts.keys.add(key, 1);
                }
            }
            None => self.beyond += 1,
        }
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.beyond += other.beyond;
        for (shape, counts) in &other.shapes {
            match self.place(shape.clone()) {
                Some(own) => {
                    own.aborts += counts.aborts;
                    counts.keys.counts.iter().for_each(|(key, count)| own.keys.add(key, *count));
                }
                None => self.beyond += counts.aborts,
            }
        }
    }

    /// Resets all counts.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn place(&mut self, shape: Shape) -> Option<&mut Counts> {
        if self.shapes.len() == SHAPES_MAX && !self.shapes.contains_key(&shape) {
            return None;
        }
        Some(self.shapes.entry(shape).or_default())
    }

    /// All shapes, the most frequent first; `names` are those of the workload's transactions.
    pub fn summaries(&self, names: &[impl AsRef<str>]) -> Vec<ShapeSummary> {
        let mut shapes: Vec<_> = self.shapes.iter().collect();
        shapes.sort_by_key(|(shape, counts)| (std::cmp::Reverse(counts.aborts), shape.transaction, shape.kind));
        let summary = |(shape, counts): (&Shape, &Counts)| ShapeSummary {
            transaction: names.get(shape.transaction).map_or("?", AsRef::as_ref).to_owned(),
            kind: shape.kind.name(),
            table: shape.table.as_deref().map(str::to_owned),
            predecessor: shape.predecessor.as_ref().map(EdgeShape::to_string),
            successor: shape.successor.as_ref().map(EdgeShape::to_string),
            aborts: counts.aborts,
            keys: counts.keys.most_frequent(),
        };
        let mut summaries: Vec<_> = shapes.into_iter().map(summary).collect();
        if self.beyond > 0 {
            summaries.push(ShapeSummary {
                transaction: "others".to_owned(),
                kind: "others",
                table: None,
                predecessor: None,
                successor: None,
                aborts: self.beyond,
                keys: Vec::new(),
            });
        }
        summaries
    }
}

/// The most frequent of many keys in bounded memory: a new key takes the place of the rarest and inherits its count
/// (Space-Saving; Metwally, Agrawal, El Abbadi 2005). A count is never too low.
#[derive(Clone, Debug, Default)]
struct FrequentKeys {
    counts: Vec<(Box<[u8]>, u64)>,
}

impl FrequentKeys {
    fn add(&mut self, key: &[u8], count: u64) {
        if let Some((_, known)) = self.counts.iter_mut().find(|(known, _)| **known == *key) {
            *known += count;
        } else if self.counts.len() < KEYS_MAX {
            self.counts.push((key.into(), count));
        } else if let Some(rarest) = self.counts.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (key.into(), rarest.1 + count);
        }
    }

    fn most_frequent(&self) -> Vec<KeyCount> {
        let mut counts = self.counts.clone();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let shown = counts.iter().take(KEYS_SHOWN);
        shown.map(|(key, count)| KeyCount { key: hex(key), at_most: *count }).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// How often aborts of one shape occurred.
#[derive(Clone, Debug, Serialize)]
pub struct ShapeSummary {
    /// The kind of transaction that lost.
    pub transaction: String,
    /// The rule that it broke.
    pub kind: &'static str,
    /// The table where the conflict was noticed.
    pub table: Option<String>,
    /// The edge from a transaction that comes before it: dependency and table.
    pub predecessor: Option<String>,
    /// The edge to a transaction that comes after it: dependency and table.
    pub successor: Option<String>,
    /// Number of aborts.
    pub aborts: u64,
    /// Examples: the keys that occurred most.
    pub keys: Vec<KeyCount>,
}

/// A key and how often it occurred.
#[derive(Clone, Debug, Serialize)]
pub struct KeyCount {
    /// The encoded key in hexadecimal digits.
    pub key: String,
    /// Aborts at this key, possibly overestimated.
    pub at_most: u64,
}

/// Shapes as a table; prints nothing if there are none.
pub(crate) struct ShapeTable<'a>(pub(crate) &'a [ShapeSummary]);

impl ShapeTable<'_> {
    pub(crate) fn grid(&self) -> Grid {
        let all: u64 = self.0.iter().map(|shape| shape.aborts).sum();
        let mut grid = Grid::new(&[
            "aborts of",
            "lost on",
            "table",
            "count",
            "share",
            "comes after one: it",
            "comes before one: it",
            "most frequent keys (hex: count)",
        ]);
        for shape in self.0.iter().take(SHAPES_SHOWN) {
            let keys = shape.keys.iter().map(|KeyCount { key, at_most }| format!("{key}: {}", grouped(*at_most)));
            grid.row([
                shape.transaction.clone(),
                shape.kind.to_owned(),
                shape.table.clone().unwrap_or_default(),
                grouped(shape.aborts),
                format!("{:.1} %", 100.0 * shape.aborts as f64 / all as f64),
                shape.predecessor.clone().unwrap_or_default(),
                shape.successor.clone().unwrap_or_default(),
                keys.collect::<Vec<_>>().join(", "),
            ]);
        }
        grid
    }
}

impl fmt::Display for ShapeTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}\n\n", self.grid()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write conflict in a table, with its key replaced.
    fn abort(table: &str, key: u32) -> Abort {
        let mut abort = crate::conflicts::tests::write_conflict();
        (abort.table, abort.key) = (Some(table.into()), Some(key.to_be_bytes().into()));
        abort
    }

    #[test]
    fn shapes_are_counted_merged_and_sorted() {
        let (mut one, mut other) = (AbortShapes::default(), AbortShapes::default());
        one.add(0, &abort("stock", 7));
        (0..3).for_each(|_| other.add(1, &abort("district", 1)));
        other.add(0, &abort("stock", 8));
        one.merge(&other);
        let shapes = one.summaries(&["new-order", "payment"]);
        let counts: Vec<_> = shapes.iter().map(|shape| (&*shape.transaction, shape.aborts)).collect();
        assert_eq!(counts, [("payment", 3), ("new-order", 2)]);
        assert_eq!((&*shapes[0].keys[0].key, shapes[0].keys[0].at_most), ("00000001", 3));
        assert_eq!(shapes[1].keys.len(), 2);
    }

    #[test]
    fn memory_is_bounded_and_nothing_is_lost() {
        let mut shapes = AbortShapes::default();
        let tables = SHAPES_MAX + 10;
        (0..tables).for_each(|table| shapes.add(0, &abort(&format!("t{table}"), 0)));
        let summaries = shapes.summaries(&["any"]);
        assert_eq!(summaries.len(), SHAPES_MAX + 1);
        assert_eq!(summaries.iter().map(|shape| shape.aborts).sum::<u64>(), tables as u64);
    }

    #[test]
    fn frequent_keys_survive_many_rare_ones() {
        let mut keys = FrequentKeys::default();
        for n in 0..10_000u32 {
            keys.add(&n.to_be_bytes(), 1);
            if n % 4 == 0 {
                keys.add(b"hot", 1);
            }
        }
        assert_eq!(keys.counts.len(), KEYS_MAX);
        assert_eq!(keys.most_frequent()[0].key, hex(b"hot"));
        assert!(keys.most_frequent()[0].at_most >= 2_500);
    }
}
