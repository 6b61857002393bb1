//! Anomalies that a single read or write shows.

use super::keys::Item;
use crate::anomaly::AnomalyKind;

/// One anomaly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    /// The transaction in which it is seen.
    pub(super) seen_in: u32,
    /// The other transaction, if there is one.
    pub(super) other: Option<u32>,
    pub(super) row: Item,
}

/// How often each kind was seen, and where first.
#[derive(Debug, Default)]
pub(super) struct Sightings(Vec<(AnomalyKind, u64, Sighting)>);

impl Sightings {
    pub(super) fn add(&mut self, kind: AnomalyKind, seen_in: u32, other: Option<u32>, row: Item) {
        match self.0.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => self.0.push((kind, 1, Sighting { seen_in, other, row })),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(AnomalyKind, u64, Sighting)> {
        self.0.iter()
    }
}
