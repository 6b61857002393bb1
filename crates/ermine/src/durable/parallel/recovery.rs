//! Turns the files of a directory into a database: the same way after a crash and after a clean stop (SiloR 5).
//!
//! File names identify the files; the manifest says which checkpoint counts, and persistent epochs say which part of
//! the log counts. All processors read the files: the checkpoint first, then the log, newest first, so that most of
//! what has been overwritten is never inserted. Then the catalog's rows describe the tables.
//!
//! Invariants
//! 1. *Nothing beyond the persistent epoch counts*: records above the persistent epoch of their generation are ignored,
//!    now and always: a new generation writes files of its own, and its epochs begin above all that have been seen.
//! 2. *Nothing within it is missing*: what a persistent epoch declares whole is whole, or recovery stops with an error
//!    instead of leaving out what was acknowledged. After that, the first record that is not whole ends a file.
//! 3. *What is served is durable*: if only the process died, the device may lag behind what recovery reads, by the last
//!    persistent epoch; that is written again and synced before anything builds on it. The records that it covers were
//!    synced before it.
//! 4. *Recovery changes nothing else* except that it removes files that do not count, so that it can itself be
//!    interrupted anywhere.

use std::{sync::Arc, time::Instant};

use super::{
    super::{
        recovery::{Recovery, open_identity},
        store::storage,
    },
    files::{Found, Places, Redo, find, remove},
    image::{Manifest, read_rows},
    loading::{Loaded, Loading, side_by_side},
};
use crate::{
    catalog::DroppedTables,
    epoch::EpochManager,
    error::{Error, Result},
    ids::Stamp,
    log::{
        identity::{IdentityFile, Said},
        parallel::{
            file::{FILE_HEAD_BYTES, FileName, Records},
            pepoch,
            record::{Note, Row},
        },
    },
    options::{Durability, Options},
    platform::{budget::Budget, file::Directory},
    rows::{
        arena::Pool,
        in_place::{CommitTid, Control, RecordSlot},
    },
    table::TableParts,
};

/// A recovered database.
pub(crate) struct Recovered<C: Control> {
    /// In order of their numbers, the catalog first.
    pub(crate) tables: Vec<TableParts<RecordSlot<C>>>,
    pub(crate) dropped: DroppedTables,
    /// Number of dropped tables of which the files still have rows.
    pub(crate) dropped_behind: usize,
    pub(crate) nodes: Arc<EpochManager>,
    pub(crate) memory: Arc<Pool>,
    pub(crate) places: Places,
    /// The identity of the files' database; `None`: the files have none, and none will be written.
    pub(crate) identity: Option<Arc<IdentityFile>>,
    /// The generation that begins, and its first epoch.
    pub(crate) generation: u32,
    pub(crate) epoch: u64,
    /// Bytes of the checkpoint, and number of generations of the log that were replayed.
    pub(crate) checkpoint_bytes: Option<u64>,
    pub(crate) generations: usize,
    pub(crate) summary: Recovery,
}

/// Results of replaying a file of the log.
#[derive(Default)]
pub(super) struct Replayed {
    /// Records that count and are not in the checkpoint.
    transactions: u64,
    /// All records.
    pub(super) records: u64,
    /// End of the last record.
    pub(super) end: u64,
    /// The greatest epoch seen, including records that do not count.
    last_epoch: u64,
}

/// Recovers the database in a directory.
pub(crate) fn recover<C: Control>(
    directory: &Arc<dyn Directory>,
    options: &Options,
    budget: &Arc<Budget>,
) -> Result<Recovered<C>> {
    let began = Instant::now();
    let mut places = Places::open(directory, options)?;
    let found = find(&places, options.scheme)?;
    let path = directory.path();
    if found.manifest.is_some() || !found.redo.is_empty() {
        let from = found
            .manifest
            .as_ref()
            .map_or_else(|| "no checkpoint".into(), |of| format!("the checkpoint of epoch {}", of.epoch));
        ::log::info!("recovering {path} from {from} and {} files of the log", found.redo.len());
    }
    let loading = Loading::<C>::new(budget);
    if let Some(manifest) = &found.manifest {
        side_by_side(manifest.files.len(), |number| {
            let (participant, mut hand) = (loading.nodes.join_as("recovery"), loading.hand());
            read_rows(&places, manifest, number as u32, |tid, row| {
                loading.apply(&mut hand, &participant.enter(), tid, row)
            })
        })?;
    }
    let from = found.manifest.as_ref().map_or(0, |manifest| manifest.epoch);
    let replayed = side_by_side(found.redo.len(), |at| {
        let (participant, mut hand) = (loading.nodes.join_as("recovery"), loading.hand());
        replay(&places, &found.redo[at], from, |tid, row| loading.apply(&mut hand, &participant.enter(), tid, row))
    })?;
    make_sure(&places, &found)?;
    let (nodes, memory) = (loading.nodes.clone(), loading.memory.clone());
    let Loaded { tables, dropped, dropped_behind } = loading.finish(options)?;
    remove(&places, &found.leftovers)?;
    let summary = Recovery {
        tables: tables.len() as u64 - 1,
        rows: tables[1..].iter().map(|(_, rows)| rows).sum(),
        transactions: replayed.iter().map(|file| file.transactions).sum(),
        log_bytes: replayed.iter().map(|file| file.end.saturating_sub(FILE_HEAD_BYTES as u64)).sum(),
        cut_at: None,
        took: began.elapsed(),
    };
    ::log::info!("{path} is open: {summary}");
    let last_epoch = replayed.iter().map(|file| file.last_epoch).fold(found.epoch, u64::max);
    let epoch = last_epoch.checked_add(1).filter(|epoch| *epoch < CommitTid::EPOCHS / 2);
    let epoch = epoch.ok_or(Error::Limit("epochs of commits: a TID has no room for more"))?;
    let tables = tables.into_iter().map(|(table, _)| table).collect();
    let bytes_of = |manifest: &Manifest| manifest.files.iter().map(|file| file.bytes).sum();
    let checkpoint_bytes = found.manifest.as_ref().map(bytes_of);
    let generation = found.generation.checked_add(1);
    let generation =
        generation.ok_or(Error::Limit("2^32 openings of one database: names of files have no room for more"))?;
    let generations = found.persistent.len();
    let identity = match places.said {
        Some(said) => {
            let identity = open_identity(&*places.directory)?;
            // Recovery may have found a generation that was not noted yet: from now on its commits are visible, and
            // would be missed.
            let newest = found.redo.iter().map(|redo| redo.name.generation).max();
            if let Some(newest) = newest.filter(|newest| u64::from(*newest) >= said.newest) {
                identity.note(u64::from(newest) + 1, found.epoch).map_err(storage)?;
            }
            Some(Arc::new(identity))
        }
        // Nothing will be written.
        None if options.durability == Durability::None => None,
        None => {
            let is_new = found.generation == 0 && found.manifest.is_none();
            let said = Said::of_new(if is_new { 0 } else { generation.into() });
            places.said = Some(said);
            Some(Arc::new(IdentityFile::create(&*places.directory, said).map_err(storage)?))
        }
    };
    Ok(Recovered {
        tables,
        dropped,
        dropped_behind,
        nodes,
        memory,
        places,
        identity,
        generation,
        epoch,
        checkpoint_bytes,
        generations,
        summary,
    })
}

/// Passes every row that counts in a file of the log, with its TID, to `visit`, except those that the checkpoint has:
/// epochs below `from`.
pub(super) fn replay(
    places: &Places,
    redo: &Redo,
    from: u64,
    mut visit: impl FnMut(CommitTid, &Row<'_>) -> Result<()>,
) -> Result<Replayed> {
    let Redo { device, name, whole, limit } = *redo;
    let damaged = |offset: u64, what: &str| Error::Corrupt { file: name.to_string(), offset, what: what.into() };
    let (head, mut records) = Records::open(&*places.devices[device], name, places.said).map_err(storage)?;
    let is_its_own = |of: FileName, number: u32| of == name && number as usize == device;
    match head {
        Some(head) if is_its_own(head.name, head.device) => {}
        Some(head) => {
            let what =
                format!("it is {} of log directory {}: name the directories in their order", head.name, head.device);
            return Err(damaged(0, &what));
        }
        None if whole > 0 => return Err(damaged(0, "it has no head of this database")),
        None => return Ok(Replayed::default()),
    }
    let mut replayed = Replayed::default();
    loop {
        let at = records.at();
        let Some((tid, mut rows)) = records.next().map_err(storage)? else { break };
        if Note::read(tid, rows).is_some() {
            continue;
        }
        let tid = CommitTid::from_stamp(Stamp(tid));
        replayed.records += 1;
        replayed.last_epoch = tid.epoch().max(replayed.last_epoch);
        if tid.epoch() > limit || tid.epoch() < from {
            continue;
        }
        replayed.transactions += 1;
        while !rows.is_empty() {
            let row = Row::take(&mut rows).ok_or_else(|| damaged(at, "a record has what is no row"))?;
            visit(tid, &row)?;
        }
    }
    replayed.end = records.at();
    if replayed.end < whole {
        return Err(damaged(replayed.end, "there is no whole record where one was durable"));
    }
    Ok(replayed)
}

/// Makes durable what was read (invariant 3): the newest generation may have noted a persistent epoch that was not
/// synced, and the rename of the manifest may not be durable yet.
fn make_sure(places: &Places, found: &Found) -> Result<()> {
    if let Some(manifest) = found.manifest.as_ref().filter(|_| !found.leftovers.is_empty()) {
        manifest.publish(&*places.directory).map_err(storage)?;
    }
    let Some((generation, _)) = found.persistent.last_key_value() else { return Ok(()) };
    pepoch::make_sure(&*places.directory, *generation, places.said).map_err(storage)
}
