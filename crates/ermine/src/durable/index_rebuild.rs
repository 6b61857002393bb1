//! Builds indexes from the keys in the checkpoint and the log.
//!
//! A checkpoint has keys in order, unless their index has no order; the log has the newer ones in no order. The newest
//! key of a row counts, and the newest entry of a row in each index; if a row got its key after the checkpoint, the
//! keys and entries that the checkpoint has for that row do not count. What is left is merged and loaded bottom-up.

use std::{cell::RefCell, iter::Peekable};

use super::{
    image::KeyBytes,
    replay::{KeyNote, Notes},
    row_set::RowSet,
};
use crate::{
    epoch::Participant,
    error::{Error, Result},
    ids::{RowId, TableId},
    index::{Index, IndexKind, Insert, KEY_LENGTH_MAX},
    rows::{array::ChainArray, chain::CertifierStamps},
};

/// The keys of a checkpoint, in order.
pub(super) type Run<'r> = &'r mut dyn Iterator<Item = Result<(KeyBytes, RowId)>>;

/// The newest note of each row that still exists, sorted by key; and all rows that have a note.
pub(super) fn newest<'n, H: CertifierStamps>(
    array: &ChainArray<H>,
    notes: &'n [Notes],
    of: impl Fn(&'n Notes) -> Option<&'n Vec<KeyNote>>,
) -> (Vec<(&'n [u8], RowId)>, RowSet) {
    let mut all: Vec<(KeyNote, &Notes)> = Vec::new();
    for notes in notes {
        all.extend(of(notes).into_iter().flatten().map(|note| (*note, notes)));
    }
    // Stable: within a block the order of records counts, and a block is replayed by one thread.
    all.sort_by_key(|(note, _)| (note.row, note.offset));
    let mut rows = RowSet::default();
    let mut kept = Vec::new();
    for (at, (note, notes)) in all.iter().enumerate() {
        rows.insert(note.row);
        let is_last = all.get(at + 1).is_none_or(|(next, _)| next.row != note.row);
        if is_last && is_live(array, note.row) {
            kept.push((notes.bytes(note), note.row));
        }
    }
    kept.sort_unstable();
    (kept, rows)
}

fn is_live<H: CertifierStamps>(array: &ChainArray<H>, row: RowId) -> bool {
    array.slot(row).stored().is_some_and(|address| !address.is_deleted())
}

/// Builds the primary index of a table; also returns the rows that got their keys from the log.
pub(super) fn primary<H: CertifierStamps>(
    array: &ChainArray<H>,
    table: TableId,
    kind: IndexKind,
    notes: &[Notes],
    run: Run<'_>,
    participant: &Participant,
) -> Result<(Index, RowSet)> {
    let (keys, renewed) = newest(array, notes, |notes| notes.keys.get(&table));
    let (index, _) = load(array, kind, &keys, &[&renewed], run, (table, participant))?;
    Ok((index, renewed))
}

/// Builds a secondary index of a table; also returns its number of entries.
pub(super) fn secondary<H: CertifierStamps>(
    array: &ChainArray<H>,
    table: TableId,
    (index, kind): (u16, IndexKind),
    renewed: &RowSet,
    notes: &[Notes],
    run: Run<'_>,
    participant: &Participant,
) -> Result<(Index, u64)> {
    let (entries, changed) = newest(array, notes, |notes| notes.entries.get(&(table, index)));
    load(array, kind, &entries, &[renewed, &changed], run, (table, participant))
}

/// Merges keys of the log with those of the checkpoint that are not `stale`; also returns their number.
fn load<H: CertifierStamps>(
    array: &ChainArray<H>,
    kind: IndexKind,
    keys: &[(&[u8], RowId)],
    stale: &[&RowSet],
    run: Run<'_>,
    (table, participant): (TableId, &Participant),
) -> Result<(Index, u64)> {
    let (failure, mut count) = (RefCell::new(None), 0);
    let old = run
        .map_while(|entry| entry.map_err(|error| failure.replace(Some(error))).ok())
        .filter(|(_, row)| is_live(array, *row) && !stale.iter().any(|stale| stale.contains(*row)));
    let new = keys.iter().map(|(key, row)| (KeyBytes::from_slice(key), *row));
    if !kind.is_ordered() {
        let index = load_unordered(kind, old.chain(new).inspect(|_| count += 1), table, participant)?;
        return failure.into_inner().map_or(Ok((index, count)), Err);
    }
    let mut last: Option<KeyBytes> = None;
    let ascending = merge(old.peekable(), new.peekable()).map_while(|(key, row)| {
        if last.as_ref().is_some_and(|last| *last >= key) {
            failure.replace(Some(two_rows(table)));
            return None;
        }
        if key.len() > KEY_LENGTH_MAX {
            failure.replace(Some(too_long(table, &key)));
            return None;
        }
        last = Some(key.clone());
        count += 1;
        Some((key, row))
    });
    let index = Index::bulk_load(kind, participant, ascending);
    match failure.into_inner() {
        None => Ok((index, count)),
        Some(error) => Err(error),
    }
}

/// Inserts the keys in the given order: a checkpoint has the keys of an unordered index in the order of the index.
fn load_unordered(
    kind: IndexKind,
    keys: impl Iterator<Item = (KeyBytes, RowId)>,
    table: TableId,
    participant: &Participant,
) -> Result<Index> {
    let index = Index::new(kind);
    for (key, row) in keys {
        if key.len() > KEY_LENGTH_MAX {
            return Err(too_long(table, &key));
        }
        if let Insert::Exists(..) = index.insert_if_absent(&participant.enter(), &key, row) {
            return Err(two_rows(table));
        }
        participant.reclaim(2);
    }
    Ok(index)
}

fn two_rows(table: TableId) -> Error {
    Error::Storage(format!("two rows of table {} have one key; `ermine verify` lists such rows", table.0))
}

fn too_long(table: TableId, key: &[u8]) -> Error {
    Error::Storage(format!("a key of table {} has {} bytes, more than any", table.0, key.len()))
}

/// Merges two ascending runs into one.
pub(super) fn merge<K: Ord>(
    mut one: Peekable<impl Iterator<Item = (K, RowId)>>,
    mut two: Peekable<impl Iterator<Item = (K, RowId)>>,
) -> impl Iterator<Item = (K, RowId)> {
    std::iter::from_fn(move || match (one.peek(), two.peek()) {
        (Some((first, _)), Some((second, _))) if first <= second => one.next(),
        (Some(_), None) => one.next(),
        _ => two.next(),
    })
}
