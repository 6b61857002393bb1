//! The rows that were in use when others had left memory: after the next opening the loader reads them first.
//!
//! ```text
//!   HOT    identity 16 bytes | CRC-32C u32 | bytes of what follows, unpacked u64 | pages, as a block of LZ4
//!   page   table u32 | number u64 | a bit for each of 4096 rows
//! ```
//!
//! A row is in use if it is in memory: eviction has left it there (`durable::heat`).
//! The list is written with each checkpoint while rows are in files only, and when the database is closed. Nothing
//! depends on it: a list that is missing, torn or old costs time.

use std::{collections::HashMap, io};

use super::{row_set::RowSet, store::Store};
use crate::{
    engine::Engine,
    ids::{RowId, TableId},
    log::identity::Identity,
    platform::file::{Directory, Open},
    scheme::Scheme,
};

/// The name of the file.
const NAME: &str = "HOT";
/// The file's name until it is complete.
const UNFINISHED: &str = "HOT.new";

const FRONT_BYTES: usize = Identity::BYTES + 4 + 8;
const PAGE_BYTES: usize = 4 + 8 + RowSet::PAGE_BYTES;
/// Upper bound of the list, in bytes: 512 million rows.
const BYTES_MAX: u64 = 64 << 20;
/// Pages of a table.
const PAGES_MAX: u64 = 1 << 20;

/// Rows in use, by table.
#[derive(Default)]
pub(super) struct HotRows(HashMap<TableId, RowSet>);

impl HotRows {
    pub(super) fn contains(&self, table: TableId, row: RowId) -> bool {
        self.0.get(&table).is_some_and(|rows| rows.contains(row))
    }

    /// Reads the list of a database; `None`: there is none that counts.
    pub(super) fn read(directory: &dyn Directory, of: Identity) -> Option<Self> {
        let file = directory.open(NAME, Open::Read).ok()?;
        let length = file.length().ok().filter(|length| (FRONT_BYTES as u64..BYTES_MAX).contains(length))?;
        let mut bytes = vec![0; length as usize];
        let is_read = file.read_at(0, &mut bytes).ok()? == bytes.len();
        let (identity, rest) = bytes.split_at(Identity::BYTES);
        let (sum, rest) = rest.split_first_chunk()?;
        if !is_read || identity != of.bytes() || u32::from_le_bytes(*sum) != crc32c::crc32c(rest) {
            return None;
        }
        let (unpacked, packed) = rest.split_first_chunk()?;
        let unpacked = Some(u64::from_le_bytes(*unpacked)).filter(|bytes| *bytes <= BYTES_MAX)?;
        let pages = lz4_flex::block::decompress(packed, unpacked as usize).ok()?;
        let mut rows = Self::default();
        for page in pages.chunks_exact(PAGE_BYTES) {
            let (table, page) = page.split_first_chunk()?;
            let (number, bits) = page.split_first_chunk()?;
            let number = Some(u64::from_le_bytes(*number)).filter(|number| *number < PAGES_MAX)?;
            rows.0.entry(TableId(u32::from_le_bytes(*table))).or_default().insert_page(number, bits);
        }
        Some(rows)
    }

    /// Writes the list in place of the one before.
    fn write(&self, directory: &dyn Directory, of: Identity) -> io::Result<()> {
        let mut pages = Vec::new();
        for (table, rows) in &self.0 {
            for (number, bits) in rows.pages() {
                pages.extend(table.0.to_le_bytes());
                pages.extend(number.to_le_bytes());
                pages.extend(bits);
            }
        }
        if pages.len() as u64 > BYTES_MAX {
            pages.truncate(BYTES_MAX as usize / PAGE_BYTES * PAGE_BYTES);
        }
        let mut rest = (pages.len() as u64).to_le_bytes().to_vec();
        rest.extend(lz4_flex::block::compress(&pages));
        let bytes = [&of.bytes()[..], &crc32c::crc32c(&rest).to_le_bytes(), &rest].concat();
        remove(directory, UNFINISHED)?;
        directory.open(UNFINISHED, Open::Create)?.write_at(0, &bytes)?;
        directory.rename(UNFINISHED, NAME)
    }
}

fn remove(directory: &dyn Directory, name: &str) -> io::Result<()> {
    match directory.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl<S: Scheme> Engine<S> {
    /// Notes which rows are in use, if others have left memory. Until the loader has ended, the list of before says more.
    pub(crate) fn note_hot_rows(&self, store: &Store) {
        let Some(identity) = store.segment_files().identity() else { return };
        if !self.evicts() || !store.has_loaded() {
            return;
        }
        if store.unloaded() == 0 {
            // A list that stays costs a pass over all files.
            let _ = remove(&*store.directory, NAME);
            return;
        }
        let mut hot = HotRows::default();
        for table in self.tables.logged() {
            let rows = hot.0.entry(table.id).or_default();
            let is_in_memory = |row: &RowId| table.rows.slot(*row).address().is_some();
            (0..table.rows.count()).map(RowId).filter(is_in_memory).for_each(|row| rows.insert(row));
        }
        if let Err(error) = hot.write(&*store.directory, identity.identity()) {
            ::log::debug!("the rows in use were not noted: {error}");
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::platform::file::faulty::FaultyDirectory;

    #[test]
    fn the_list_comes_back_unless_it_is_damaged_or_foreign() {
        let (directory, identity) = (FaultyDirectory::new(), Identity::draw());
        assert!(HotRows::read(&directory, identity).is_none());
        let mut random = fastrand::Rng::with_seed(1);
        for turn in 1..20 {
            let mut hot = HotRows::default();
            let rows: Vec<_> =
                (0..turn * 50).map(|_| (TableId(random.u32(..5)), RowId(random.u64(..1 << 30)))).collect();
            rows.iter().for_each(|(table, row)| hot.0.entry(*table).or_default().insert(*row));
            hot.write(&directory, identity).unwrap();
            let read = HotRows::read(&directory, identity).unwrap();
            assert!(rows.iter().all(|(table, row)| read.contains(*table, *row)));
            let count = |rows: &RowSet| rows.pages().flat_map(|(_, bits)| bits).map(u8::count_ones).sum::<u32>();
            assert_eq!(read.0.values().map(count).sum::<u32>(), hot.0.values().map(count).sum());
            assert!(HotRows::read(&directory, Identity::draw()).is_none());
            let length = directory.open(NAME, Open::Read).unwrap().length().unwrap();
            directory.flip(NAME, random.u64(..length), random.u8(..8)).unwrap();
            assert!(HotRows::read(&directory, identity).is_none());
        }
    }
}
