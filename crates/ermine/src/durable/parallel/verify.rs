//! Checks every byte that counts of a database of a single-version scheme, and changes nothing.
//!
//! It is a recovery that writes nothing: the same code reads the files and builds the tables. But it continues with the
//! next file if one is damaged, and it also checks what a recovery can do without:
//! 1. both slots of a persistent epoch are whole;
//! 2. persistent epochs of later generations are not before those of earlier ones;
//! 3. each row has an entry in every index of its table.
//!
//! Files that do not count are left out: they are removed when the database is opened next.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    super::{
        copy::Progress,
        store::storage,
        verify::{Finding, Verification, is_blank},
    },
    files::{Found, Places, Redo, find},
    image::{Manifest, read_rows},
    loading::Loading,
    recovery::replay,
};
use crate::{
    error::{Error, Result},
    index::{Batch, Index, Walk},
    log::{
        identity::{self, IDENTITY},
        parallel::{pepoch, record::Row},
    },
    options::{Options, Scheme},
    platform::{
        budget::Budget,
        file::{Directory, Open},
    },
    rows::in_place::{CommitTid, RecordSlot},
    table::TableParts,
};

/// Verifies the database in a directory that is of this family and not in use meanwhile.
pub(in super::super) fn verify(
    directory: &Arc<dyn Directory>,
    options: &Options,
    verification: &mut Verification,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let places = Places::open_to_look(directory, options)?;
    // Any scheme of the family will do.
    let found = match find(&places, Scheme::Silo) {
        Ok(found) => found,
        Err(error) => {
            verification.tell_error(error);
            verification.not_checked.push("everything else: it is not known which files count".into());
            return Ok(());
        }
    };
    verification.persistent_epoch = Some(found.epoch);
    Check { places, found, loading: Loading::new(&Arc::new(Budget::unlimited())), verification, progress }.run()
}

/// One run of the verification.
struct Check<'v> {
    places: Places,
    found: Found,
    loading: Loading<()>,
    verification: &'v mut Verification,
    progress: &'v mut dyn FnMut(Progress),
}

impl Check<'_> {
    fn run(mut self) -> Result<()> {
        if self.places.said.is_some() {
            self.verification.files += 1;
            for at in identity::damaged_slots(&*self.places.directory).map_err(storage)? {
                self.verification.tell(IDENTITY, at, "there is no whole slot");
            }
        }
        self.check_epochs()?;
        let before = self.verification.wrong;
        if let Some(manifest) = &self.found.manifest.clone() {
            self.verification.files += 1;
            for number in 0..manifest.files.len() as u32 {
                self.read_rows(manifest, number)?;
            }
        }
        for redo in &self.found.redo.clone() {
            self.read_log(redo)?;
        }
        if self.verification.wrong > before {
            self.verification.not_checked.push("keys and indexes: the checkpoint or the log is damaged".into());
            return Ok(());
        }
        self.check_tables()
    }

    /// Checks the persistent epochs of generations that have needed files of the log.
    fn check_epochs(&mut self) -> Result<()> {
        let used: BTreeSet<_> = self.found.redo.iter().map(|redo| redo.name.generation).collect();
        let mut last = 0;
        for generation in used {
            let name = pepoch::name_of(generation);
            self.verification.files += 1;
            for at in pepoch::damaged_slots(&*self.places.directory, generation, self.places.said).map_err(storage)? {
                self.verification.tell(&name, at, "there is no whole persistent epoch");
            }
            let epoch = self.found.persistent[&generation].epoch;
            if epoch < last {
                let what = format!("epoch {epoch} is persistent here, and {last} was in an earlier generation");
                self.verification.tell(&name, 0, what);
            }
            last = epoch.max(last);
        }
        Ok(())
    }

    fn read_rows(&mut self, manifest: &Manifest, number: u32) -> Result<()> {
        let blocks = self.load(|places, apply| read_rows(places, manifest, number, apply))?;
        self.verification.files += 1;
        self.verification.blocks += blocks.unwrap_or(0);
        self.verification.bytes += manifest.files[number as usize].bytes;
        self.show_progress();
        Ok(())
    }

    fn read_log(&mut self, redo: &Redo) -> Result<()> {
        let from = self.found.manifest.as_ref().map_or(0, |manifest| manifest.epoch);
        let replayed = self.load(|places, apply| replay(places, redo, from, apply))?;
        self.verification.files += 1;
        if let Some(replayed) = replayed {
            self.verification.log_records += replayed.records;
            self.verification.bytes += replayed.end;
            let file = redo.name.to_string();
            let open = self.places.devices[redo.device].open(&file, Open::Read).map_err(storage)?;
            if !is_blank(&*open, replayed.end, u64::MAX)? {
                let what = "the log ends here with what was not durable".into();
                self.verification.torn = Some(Finding { file, offset: replayed.end, what });
            }
        }
        self.show_progress();
        Ok(())
    }

    /// Loads the rows that `read` passes on into the tables; `None`: the file is damaged, which has been reported.
    fn load<T>(
        &mut self,
        read: impl FnOnce(&Places, &mut dyn FnMut(CommitTid, &Row<'_>) -> Result<()>) -> Result<T>,
    ) -> Result<Option<T>> {
        let (participant, mut hand) = (self.loading.nodes.join_as("verification"), self.loading.hand());
        let loading = &self.loading;
        match read(&self.places, &mut |tid, row| loading.apply(&mut hand, &participant.enter(), tid, row)) {
            Ok(read) => Ok(Some(read)),
            Err(error @ Error::Corrupt { .. }) => {
                self.verification.tell_error(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn show_progress(&mut self) {
        let rows = self.found.manifest.iter().flat_map(|manifest| &manifest.files).map(|file| file.bytes);
        let total = rows.chain(self.found.redo.iter().map(|redo| redo.whole)).sum();
        (self.progress)(Progress { step: "reading", done: self.verification.bytes, total });
    }

    /// Checks that the catalog can be read, every row belongs to a table that it has, and every row has its entries.
    fn check_tables(self) -> Result<()> {
        let Self { loading, verification, .. } = self;
        let nodes = loading.nodes.clone();
        let tables = match loading.finish(&Options::default()) {
            Ok(loaded) => loaded.tables,
            Err(error @ (Error::Corrupt { .. } | Error::Storage(_))) => {
                verification.tell_error(error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        verification.tables = tables.len() as u64 - 1;
        let participant = nodes.join_as("verification");
        for (table, rows) in &tables[1..] {
            verification.rows += rows;
            let table: &TableParts<RecordSlot<()>> = table;
            for (_, secondary) in table.secondaries() {
                let entries = count(&secondary.entries, &participant.enter());
                verification.entries += entries;
                // An index that was built over rows gets the entries that the files lack when it is opened.
                if entries != *rows && !secondary.entry().built {
                    let (name, index) = (table.name(), &secondary.name);
                    let what = format!("table {name} has {rows} rows, and its index {index} has {entries} entries");
                    verification.tell("", 0, what);
                }
            }
        }
        Ok(())
    }
}

fn count(index: &Index, nodes: &crate::epoch::Guard<'_>) -> u64 {
    let (mut walk, mut batch, mut count) = (Walk::default(), Batch::default(), 0);
    while index.walk(nodes, &mut walk, &mut batch, 1024) {
        count += batch.len() as u64;
    }
    count
}
