//! Records the transactions of TPC-C for the simulator: what each read and wrote, in its order.
//!
//! The engine reports the keys (`ermine::observer`); they become numbers here, by table and key. A read of a row that
//! was not there counts as an access to it, so that it conflicts with the insert. Ranges leave the rows that were found
//! in them, and nothing else: a trace has no phantoms.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ermine::{
    TableId,
    observer::{Action, Observed, Observer, Outcome, ReadVersion},
};
use ermine_bench::{
    Result, machine,
    tpcc::{self, StandardRows, Tables},
};
use ermine_sim::{Kind, Touch, Trace};

use crate::{arguments::Recorded, progress};

/// Loads TPC-C, runs it, and returns the trace of the first transactions that committed.
pub fn tpcc(recorded: &Recorded) -> Result<Trace> {
    let mut options = recorded.tpcc();
    options.check()?;
    let seed = options.run_options.seed;
    let recorder = Arc::new(Recorder::default());
    options.run_options.observer = Some(recorder.clone());
    let db = options.run_options.open(options.scheme)?;
    let tables = Tables::<StandardRows>::open_for(&db, options.mix)?;
    let bar = progress::bar();
    tpcc::load(&db, &tables, options.warehouses, options.scale, seed, machine::cores(), &bar)?;
    bar.finish_and_clear();
    recorder.lock().recording = Some(Recording { trace: Trace::new(seed), left: recorded.transactions });
    tpcc::run(&options, &db, &tables, &mut |_| ())?;
    let Recording { trace, .. } = recorder.lock().recording.take().expect("the recording has begun");
    Ok(trace)
}

/// An observer that records from some moment on.
#[derive(Debug, Default)]
struct Recorder(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The table outside of partitions.
    items: Option<TableId>,
    /// Numbers of rows, by table and key.
    numbers: HashMap<Vec<u8>, u32>,
    recording: Option<Recording>,
}

#[derive(Debug)]
struct Recording {
    trace: Trace,
    /// Transactions to be recorded.
    left: u32,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn table(&self, table: TableId, name: &str) {
        if name == "item" {
            self.lock().items = Some(table);
        }
    }

    fn ended(&self, transaction: &Observed<'_>) {
        let State { items, numbers, recording } = &mut *self.lock();
        let Some(Recording { trace, left }) = recording else { return };
        if *left == 0 || transaction.outcome == Outcome::Aborted {
            return;
        }
        *left -= 1;
        // Rows of which the transaction has seen a version. It inserts those that it writes without.
        let mut seen = HashSet::new();
        trace.add(transaction.actions().filter_map(|action| {
            let (table, key, is_write, sees_row) = match action {
                Action::Read { table, key, version, .. } => {
                    (table, key, false, !matches!(version, ReadVersion::Missing(_)))
                }
                Action::Write { table, key, .. } => (table, key, true, true),
                Action::Range { .. } | Action::Entry { .. } => return None,
            };
            let record = number(numbers, table, key);
            let is_first = sees_row && seen.insert(record);
            let kind = match is_write {
                false => Kind::Read,
                true if is_first => Kind::Insert,
                true => Kind::Write,
            };
            let partition = if *items == Some(table) { None } else { warehouse(key) };
            Some(Touch { table: table.as_u32(), record, partition, kind })
        }));
    }
}

/// The number of a row: those of the rows follow each other in the order in which they are met.
fn number(numbers: &mut HashMap<Vec<u8>, u32>, table: TableId, key: &[u8]) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry([&table.as_u32().to_be_bytes(), key].concat()).or_insert(next)
}

/// The first part of the keys of all tables that have partitions: a number of four bytes.
fn warehouse(key: &[u8]) -> Option<u32> {
    key.first_chunk().map(|&bytes| u32::from_be_bytes(bytes))
}
