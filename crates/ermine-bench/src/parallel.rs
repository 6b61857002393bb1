//! Many threads that work off numbered parts: how initial data is written.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use ermine::{Database, Transaction};
use indicatif::ProgressBar;

use crate::{Result, storage};

/// Calls `work` with each number below `parts`, on several threads; `progress` counts parts. Returns the first error,
/// after which no thread begins another part.
pub fn run_parts<E: Send>(
    parts: usize,
    threads: usize,
    progress: &ProgressBar,
    work: impl Fn(usize) -> Result<(), E> + Sync,
) -> Result<(), E> {
    progress.set_length(parts as u64);
    progress.set_position(0);
    let next = AtomicUsize::new(0);
    let take_parts = || -> Result<(), E> {
        loop {
            // Relaxed: the counter hands out numbers and carries no data.
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts {
                return Ok(());
            }
            if let Err(failure) = work(part) {
                next.store(parts, Ordering::Relaxed);
                return Err(failure);
            }
            progress.inc(1);
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(take_parts)).collect();
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.into_iter().try_for_each(|joined| joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Inserts the rows with numbers below `count` with several threads, a few hundred per transaction. They are durable at
/// the end.
pub fn insert_rows(
    db: &Database,
    count: u64,
    threads: usize,
    progress: &ProgressBar,
    insert: impl Fn(&Transaction<'_>, u64) -> ermine::Result<()> + Sync,
) -> Result<()> {
    const BATCH: u64 = 200;
    run_parts(count.div_ceil(BATCH) as usize, threads, progress, |part| {
        let first = part as u64 * BATCH;
        let batch = first..count.min(first + BATCH);
        db.run_with(storage::loading(), |txn| batch.clone().try_for_each(|number| insert(txn, number)))
    })?;
    Ok(db.sync()?)
}

#[cfg(test)]
mod tests {
    use ermine::{Options, Scheme};

    use super::*;

    #[test]
    fn each_row_is_inserted_once() {
        for scheme in Scheme::ALL {
            let db = Database::open_in_memory(Options::default().scheme(scheme)).unwrap();
            let rows = db.table::<u64, u64>("rows").unwrap();
            let progress = ProgressBar::hidden();
            insert_rows(&db, 1_001, 3, &progress, |txn, number| txn.insert(&rows, &number, &(number * 2))).unwrap();
            let found = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap();
            assert!(found.into_iter().eq((0..1_001).map(|number| (number, number * 2))), "{scheme}");
            assert_eq!(progress.position(), 6);
        }
    }

    #[test]
    fn an_error_ends_the_work() {
        let begun = AtomicUsize::new(0);
        let done = run_parts(1_000, 2, &ProgressBar::hidden(), |part| {
            begun.fetch_add(1, Ordering::Relaxed);
            if part < 10 { Ok(()) } else { Err(part) }
        });
        assert!(done.is_err_and(|part| part >= 10));
        assert!(begun.into_inner() < 20, "each thread ends after its part");
    }
}
