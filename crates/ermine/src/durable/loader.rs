//! Reads all rows that are only in files into memory, file by file, while transactions go on: first those that were in
//! use when the database was last open, if a list says so (`hot`), as there may not be room for all.
//!
//! The loader ends when so much memory is in use that rows would be evicted; without a log, where no row is, it waits for
//! memory, and goes on. A row that is not loaded is read when a transaction asks for it, with the part of the reserve
//! that is for reads.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    hot::HotRows,
    store::{Store, storage},
};
use crate::{
    engine::Engine,
    error::Result,
    ids::{RowId, Stamp, TableId},
    log::{
        block::{BlockKind, HEADER_BYTES, Header},
        lsn::{Address, Space},
        record::{Payload, Record, Records},
        scan::{Extent, Found, Scan},
    },
    platform::{budget::Need, file::File},
    rows::{arena::Arena, array::ChainArray, chain::VersionPtr},
    scheme::{Scheme, StampsOf},
    units::Mebibytes,
};

/// A pass over the files.
struct Pass<'l> {
    store: &'l Store,
    /// The rows that are read; `None`: all.
    hot: Option<&'l HotRows>,
    stop: &'l AtomicBool,
}

impl<S: Scheme> Engine<S> {
    /// Loads rows that are only in files, until all are in memory or `stop` is set.
    pub(crate) fn load(&self, stop: &AtomicBool) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let (began, rows) = (Instant::now(), store.unloaded());
        let mut arena = self.memory.arena();
        let mut left = u64::MAX;
        let identity = store.segment_files().identity().map(|identity| identity.identity());
        let hot = identity.filter(|_| self.evicts()).and_then(|of| HotRows::read(&*store.directory, of));
        if hot.is_some() {
            self.load_files(&Pass { store, hot: hot.as_ref(), stop }, &mut arena)?;
        }
        // Again where a checkpoint has moved rows meanwhile to where the pass had been; rows that stay then are read on
        // demand, or cannot be read.
        while !self.is_loaded(store, stop) && store.unloaded() < left {
            left = store.unloaded();
            self.load_files(&Pass { store, hot: None, stop }, &mut arena)?;
        }
        if !stop.load(Ordering::Relaxed) {
            store.loaded();
        }
        if !stop.load(Ordering::Relaxed) && store.unloaded() == 0 {
            ::log::info!("{rows} rows were read into memory in {:.2?}", began.elapsed());
        }
        Ok(())
    }

    /// Reads all files.
    fn load_files(&self, pass: &Pass<'_>, arena: &mut Arena) -> Result<()> {
        let Pass { store, stop, .. } = *pass;
        for (info, file) in store.cold.list() {
            self.load_file(pass, Space::Cold, &*file, info.extent(), arena)?;
        }
        for span in store.segments() {
            if self.is_loaded(store, stop) {
                break;
            }
            // If a segment has been freed since, its rows are in memory or elsewhere.
            if let Ok(file) = store.segment_files().get(span) {
                self.load_file(pass, Space::Log, &*file, (*span).into(), arena)?;
            }
        }
        Ok(())
    }

    fn load_file(
        &self,
        pass: &Pass<'_>,
        space: Space,
        file: &dyn File,
        extent: Extent,
        arena: &mut Arena,
    ) -> Result<()> {
        let Pass { store, stop, .. } = *pass;
        let (participant, nodes) = (self.versions.join_as("loader"), self.nodes.join_as("loader"));
        let mut scan = Scan::new(file, extent, extent.start);
        while !self.is_loaded(store, stop) {
            let at = scan.at() - extent.base;
            let (header, block) = match scan.next().map_err(storage)? {
                Found::Block(header, block) => (header, block),
                Found::End => break,
                Found::Invalid(_) => {
                    // Left to the transactions that ask for the rows.
                    let path = store.directory.path();
                    ::log::warn!("rows of {path} stay in a file: a block at {at} is damaged; `ermine verify` names it");
                    break;
                }
            };
            if matches!(header.kind, BlockKind::Commit | BlockKind::Overflow | BlockKind::Cold) {
                let mut load = || {
                    let (_versions, _nodes) = (participant.enter(), nodes.enter());
                    self.load_block(pass, space, &header, block, arena)
                };
                while load().is_err() && !self.is_loaded(store, stop) && !self.evicts() {
                    self.wait_for_memory(store);
                }
            }
        }
        Ok(())
    }

    /// Whether loading ends here: what is read on demand from now on would push loaded rows out of memory, or, on a
    /// standby, leave none for what is replayed.
    fn is_loaded(&self, store: &Store, stop: &AtomicBool) -> bool {
        let is_filled = (self.evicts() || self.options.is_standby()) && self.is_filled();
        if is_filled {
            self.say_unloaded(store);
        }
        is_filled || stop.load(Ordering::Relaxed) || store.unloaded() == 0
    }

    /// Waits a moment for other threads to delete rows.
    #[cold]
    fn wait_for_memory(&self, store: &Store) {
        self.say_unloaded(store);
        thread::park_timeout(Duration::from_millis(100));
    }

    fn say_unloaded(&self, store: &Store) {
        if !store.says_unloaded() {
            let (rows, limit) = (store.unloaded(), Mebibytes(self.budget.limit()));
            ::log::warn!(
                "{rows} rows stay in files: there is no room for them in the {limit} of memory that the database may \
                 take; they are read when they are asked for"
            );
        }
    }

    /// Loads the rows of a block whose slots have its address, or those of them in a list. Fails if there is no memory
    /// for one.
    fn load_block(
        &self,
        pass: &Pass<'_>,
        space: Space,
        header: &Header,
        block: &[u8],
        arena: &mut Arena,
    ) -> Result<()> {
        let Pass { store, hot, .. } = *pass;
        let (descriptors, payloads) = block[HEADER_BYTES..].split_at(header.descriptors as usize);
        let (mut number, mut at) = (0, 0);
        for record in Records::new(descriptors) {
            let Some(record) = record else { return Ok(()) };
            let payload = record.payload().unwrap_or(Payload::here(0));
            let value = payloads.get(at..at + payload.length);
            at += payload.length;
            if !record.is_row() {
                continue;
            }
            let Ok(address) = Address::new(space, header.lsn, number) else { return Ok(()) };
            number += 1;
            let (Some((table, row, stamp)), Some(value)) = (row_of(&record, header), value) else { continue };
            let is_wanted = ChainArray::<StampsOf<S>>::has_place(row) && hot.is_none_or(|hot| hot.contains(table, row));
            let Some(table) = self.find_table(table).filter(|_| is_wanted) else { continue };
            if table.rows.slot(row).stored() == Some(address)
                && let Ok(value) = store.value(payload, value, table.id, row)
            {
                arena.provide(VersionPtr::<StampsOf<S>>::bytes(value.len()), Need::Grow)?;
                store.install(&table.rows, row, address, stamp, &value, arena);
            }
        }
        Ok(())
    }
}

fn row_of(record: &Record<'_>, header: &Header) -> Option<(TableId, RowId, Stamp)> {
    match *record {
        Record::Insert { table, row, .. } | Record::Update { table, row, .. } => Some((table, row, header.lsn.stamp())),
        Record::Moved { table, row, stamp, .. } => Some((table, row, Stamp(stamp))),
        Record::Delete { .. } | Record::Entry { .. } | Record::Chain { .. } | Record::Unlogged | Record::Key { .. } => {
            None
        }
    }
}
