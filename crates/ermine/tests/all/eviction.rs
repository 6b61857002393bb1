//! Goal: rows that leave memory come back as they were, with everything that certifiers knew about them; a database of
//! several times its memory stays within its limit.
//!
//! Method: tables larger than the limit are written, read, changed and scanned under every scheme that evicts, and
//! opened again; reads of evicted rows fail on purpose; and a schedule in which only the stamp of an evicted version's
//! reader shows the cycle. Random histories with eviction between their steps are in `model`, with threads in
//! `concurrent`.

use std::{path::PathBuf, sync::Arc};

use ermine::{Database, Durability, Error, Options, Order, Scheme, TableOptions, TxnOptions, Uniqueness, verify_in};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

const MIB: u64 = 1 << 20;

fn directory(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("ermine-eviction-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions())
}

/// Returns the value of a key in a generation: as long as the key says, and like no other.
fn value(key: u64, generation: u64) -> Vec<u8> {
    let mut value = vec![(key ^ generation) as u8; 100 + (key % 7 * 40) as usize];
    value[..8].copy_from_slice(&key.to_le_bytes());
    value[8..16].copy_from_slice(&generation.to_le_bytes());
    value
}

#[test]
fn a_table_of_several_times_the_memory_is_written_read_and_opened_again() {
    /// Rows, each of 250 bytes or so.
    const ROWS: u64 = 200_000;
    for scheme in schemes() {
        let path = directory(&format!("larger-{scheme}"));
        let options = || {
            let options = Options::default().scheme(scheme).memory_limit(20 * MIB).durability(Durability::Async);
            options.log_buffer_bytes(1 << 20).segment_bytes(8 << 20).checkpoint_after(16 << 20)
        };
        let mut rng = Rng::with_seed(7);
        let mut generations = vec![0; ROWS as usize];
        for opened in 0..2 {
            let db = Database::open(&path, options()).unwrap();
            let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
            if opened == 0 {
                for first in (0..ROWS).step_by(20) {
                    // The order of a hash: neighbours in the log are no neighbours in the table.
                    let keys = (first..first + 20).map(|key| key.wrapping_mul(7919) % ROWS);
                    db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key, 0)))).unwrap();
                }
            }
            for _ in 0..5000 {
                let key = rng.u64(..ROWS);
                let generation = &mut generations[key as usize];
                let read = db.run(|txn| txn.get(&rows, &key)).unwrap();
                assert_eq!(read, Some(value(key, *generation)), "{scheme}");
                if rng.bool() {
                    *generation += 1;
                    db.run(|txn| txn.put(&rows, &key, &value(key, *generation))).unwrap();
                }
                assert!(db.statistics().memory_taken <= 20 * MIB, "{scheme}: {:?}", db.statistics());
            }
            let statistics = db.statistics();
            assert!(statistics.unloaded_rows > ROWS / 2, "{scheme}: {statistics:?}");
            assert!(statistics.evicted_rows > ROWS / 2 || opened > 0, "{scheme}: {statistics:?}");
            assert!(statistics.cold_reads > 2000, "{scheme}: {statistics:?}");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// A transaction keeps a bounded amount of the rows that its scans find in files.
#[test]
fn a_scan_of_several_times_the_memory_takes_little_of_it() {
    const ROWS: u64 = 150_000;
    for scheme in schemes() {
        let path = directory(&format!("scanned-{scheme}"));
        let options = Options::default().scheme(scheme).memory_limit(20 * MIB).durability(Durability::Async);
        let options = options.log_buffer_bytes(1 << 20).segment_bytes(8 << 20).checkpoint_after(16 << 20);
        let db = Database::open(&path, options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        for first in (0..ROWS).step_by(20) {
            let keys = (first..first + 20).map(|key| key.wrapping_mul(7919) % ROWS);
            db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key, 0)))).unwrap();
        }
        let sum = |txn: &ermine::Transaction<'_>| {
            let mut seen = 0;
            txn.scan(&rows, ..).for_each(|key, bytes| {
                assert!(bytes == value(key, 0) || key == 0, "{scheme}: row {key}");
                seen += 1;
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
            Ok::<u64, Error>(seen)
        };
        // Under `mvocc` a transaction that may write validates the versions that it has read.
        let mut all = vec![TxnOptions::read_only(), TxnOptions::snapshot()];
        all.extend((scheme != Scheme::MvOcc).then(TxnOptions::default));
        for options in all {
            let before = db.statistics();
            let txn = db.begin(options.clone()).unwrap();
            for _ in 0..2 {
                assert_eq!(sum(&txn).map_err(|error| format!("{scheme}, {options:?}: {error}")), Ok(ROWS));
            }
            let after = db.statistics();
            assert!(after.cold_reads - before.cold_reads > ROWS, "{scheme}: {before:?}, {after:?}");
            assert!(after.memory_taken < 19 * MIB, "{scheme}: {before:?}, {after:?}");
            // It is still a transaction like any other.
            let committed = txn.commit();
            assert!(committed.is_ok(), "{scheme}: {committed:?}");
        }
        if scheme == Scheme::SiSsn || scheme == Scheme::SiSsi {
            // It has read row 1 without a trace in a version: the writer of row 1 must find it.
            let begin = || db.begin(TxnOptions::default()).unwrap();
            let (reader, writer) = (begin(), begin());
            sum(&reader).unwrap();
            reader.put(&rows, &0, &value(0, 1)).unwrap();
            writer.get(&rows, &0).unwrap();
            writer.put(&rows, &1, &value(1, 0)).unwrap();
            let committed = [reader.commit().is_ok(), writer.commit().is_ok()];
            assert_ne!(committed, [true, true], "{scheme}: write skew");
            // The last ones share their bits among the table's readers with others.
            let open: Vec<_> = (0..70).map(|_| begin()).collect();
            assert_eq!(sum(&open[69]).unwrap(), ROWS, "{scheme}");
        }
        drop(db);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// Rows that are accessed now and then, each only once while a good part of the memory is filled with others, stay
/// there, and those others leave, once a few rounds have told them apart.
#[test]
fn rows_in_use_stay_while_a_table_grows_past_them() {
    const IN_USE: u64 = 10_000;
    /// Rows of the others after which rows in use are known as such, however late the helper gets to its rounds.
    const LEARNT: u64 = 200_000;
    let path = directory("in-use");
    let options = Options::default().memory_limit(32 * MIB).durability(Durability::Async);
    let db = Database::open(&path, options.log_buffer_bytes(1 << 20)).unwrap();
    let (rows, log) = (db.table::<u64, Vec<u8>>("rows").unwrap(), db.table::<u64, Vec<u8>>("log").unwrap());
    for key in 0..IN_USE {
        db.run(|txn| txn.insert(&rows, &key, &value(key, 0))).unwrap();
    }
    let (mut reads, mut before) = (0, db.statistics());
    for first in (0..600_000).step_by(10) {
        if first == LEARNT {
            (reads, before) = (0, db.statistics());
        }
        db.run(|txn| (first..first + 10).try_for_each(|key| txn.insert(&log, &key, &value(key, 0)))).unwrap();
        for key in (reads..reads + 4).map(|read| read % IN_USE) {
            assert_eq!(db.run(|txn| txn.get(&rows, &key)).unwrap(), Some(value(key, 0)));
        }
        reads += 4;
    }
    let statistics = db.statistics();
    assert!(statistics.evicted_rows - before.evicted_rows > 200_000, "{statistics:?}");
    let cold = statistics.cold_reads - before.cold_reads;
    assert!(cold * 100 < reads, "{cold} of {reads} reads were cold");
    drop(db);
    std::fs::remove_dir_all(path).unwrap();
}

/// Others go on reading and writing rows of several times the memory while a transaction stays open, which keeps what it
/// has read.
#[test]
fn a_transaction_that_stays_open_keeps_only_its_own_rows() {
    const ROWS: u64 = 100_000;
    for scheme in schemes() {
        let path = directory(&format!("open-{scheme}"));
        let options = Options::default().scheme(scheme).memory_limit(20 * MIB).durability(Durability::Async);
        let options = options.log_buffer_bytes(1 << 20).segment_bytes(8 << 20).checkpoint_after(16 << 20);
        let db = Database::open(&path, options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        for first in (0..ROWS).step_by(20) {
            let keys = first..first + 20;
            db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key, 0)))).unwrap();
        }
        let (certified, relaxed) =
            (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::snapshot()).unwrap());
        let kept = |key: &u64| key % 1000 == 7;
        let views: Vec<_> = (0..ROWS)
            .filter(kept)
            .map(|key| {
                (key, certified.view(&rows, &key).unwrap().unwrap(), relaxed.view(&rows, &key).unwrap().unwrap())
            })
            .collect();
        let before = db.statistics();
        let mut rng = Rng::with_seed(5);
        for _ in 0..120_000 {
            let key = rng.u64(..ROWS);
            let read = db.run(|txn| txn.get(&rows, &key)).unwrap().unwrap();
            assert_eq!(read[..8], key.to_le_bytes(), "{scheme}");
            if rng.u8(..128) == 0 && !kept(&key) {
                db.run(|txn| txn.put(&rows, &key, &value(key, 1))).unwrap();
            }
        }
        let after = db.statistics();
        assert!(after.evicted_rows - before.evicted_rows > 20_000, "{scheme}: {before:?}, {after:?}");
        for (key, one, other) in views {
            assert!(one == value(key, 0) && other == value(key, 0), "{scheme}: row {key}");
        }
        // Only rows that it has not read were written.
        certified.put(&rows, &ROWS, &value(ROWS, 0)).unwrap();
        certified.commit().unwrap();
        drop(relaxed);
        drop(db);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

/// A transaction that has read a table row by row, and so as a whole in the end, holds few of its rows in memory: those
/// whose values it has lent.
#[test]
fn a_transaction_that_reads_a_whole_table_row_by_row_lets_it_leave() {
    const ROWS: u64 = 60_000;
    for scheme in schemes().filter(|scheme| *scheme != Scheme::MvOcc) {
        let db = Database::open_in(Arc::new(FaultyDirectory::new()), Options::default().scheme(scheme)).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        for first in (0..ROWS).step_by(1000) {
            let keys = first..first + 1000;
            db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key, 0)[..60]))).unwrap();
        }
        let reader = db.begin(TxnOptions::default()).unwrap();
        for key in 0..ROWS {
            assert_eq!(reader.view_with(&rows, &key, |bytes| Ok(bytes.len())).unwrap(), Some(60));
        }
        let lent: Vec<_> = (ROWS - 50..ROWS).map(|key| (key, reader.view(&rows, &key).unwrap().unwrap())).collect();
        let evicted: u64 = (0..3).map(|_| db.evict(|_| true)).sum();
        assert!(evicted > ROWS / 10 * 9, "{scheme}: {evicted} have left");
        // In the memory that is free now.
        (0..3).for_each(|_| _ = db.evict(|_| false));
        for first in (ROWS..2 * ROWS).step_by(1000) {
            let keys = first..first + 1000;
            db.run(|txn| keys.clone().try_for_each(|key| txn.put(&rows, &key, &value(key, 0)[..60]))).unwrap();
        }
        for (key, value_of_key) in lent {
            assert!(value_of_key == &value(key, 0)[..60], "{scheme}: row {key}");
        }
    }
}

#[test]
fn a_table_can_be_kept_in_memory() {
    let mut options = Options::default();
    options.uncached_after = 0;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options).unwrap();
    let kept = db.table_with::<u64, u64>("kept", TableOptions::default().keep_in_memory()).unwrap();
    let other = db.table::<u64, u64>("other").unwrap();
    for key in 0..100 {
        db.run(|txn| txn.put(&kept, &key, &key).and_then(|()| txn.put(&other, &key, &key))).unwrap();
    }
    assert_eq!((0..3).map(|_| db.evict(|_| true)).sum::<u64>(), 100, "those of the other table");
    let reads = |table| {
        let before = db.statistics().cold_reads;
        assert_eq!(db.run(|txn| txn.scan(table, ..).collect()).unwrap().len(), 100);
        db.statistics().cold_reads - before
    };
    assert_eq!((reads(&kept), reads(&other)), (0, 100));
}

#[test]
fn a_visitor_that_panics_leaves_no_memory_behind() {
    for scheme in schemes() {
        let mut options = Options::default().scheme(scheme);
        options.uncached_after = 0;
        let db = Database::open_in(Arc::new(FaultyDirectory::new()), options).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        (0..100).for_each(|key| db.run(|txn| txn.put(&rows, &key, &vec![7; 30_000])).unwrap());
        assert!((0..3).map(|_| db.evict(|_| true)).sum::<u64>() >= 100, "{scheme}");
        let reads = || {
            let txn = db.begin(TxnOptions::read_only()).unwrap();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                txn.scan(&rows, 10..).for_each(|_, _| panic!("on purpose"))
            }))
            .unwrap_err();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                txn.view_with(&rows, &7, |_| -> Result<(), Error> { panic!("on purpose") })
            }))
            .unwrap_err();
            txn.view_with(&rows, &8, |bytes| Ok(bytes.len())).unwrap()
        };
        assert_eq!(reads(), Some(30_000), "{scheme}");
        let before = db.statistics();
        (0..50).for_each(|_| _ = reads());
        let after = db.statistics();
        assert!(after.cold_reads >= before.cold_reads + 50 * 18, "{scheme}: {before:?}, {after:?}");
        let used = |of: &ermine::Statistics| of.version_bytes - of.free_version_bytes;
        assert!(used(&after) < used(&before) + (100 << 10), "{scheme}: {before:?}, {after:?}");
    }
}

/// R read v after X had written y; U had read y before X, and writes x; T, which began before U ended, reads x and
/// overwrites v: a cycle, which only the stamp that R left in v shows.
#[test]
fn the_readers_of_an_evicted_version_still_count() {
    assert_eq!(commits_of_t(), 0);
}

/// Returns how often T committed.
fn commits_of_t() -> u64 {
    let mut committed = 0;
    for scheme in [Scheme::SiSsn, Scheme::SiSsi] {
        let mut reads = 0;
        for _ in 0..100 {
            let db = Database::open_in(Arc::new(FaultyDirectory::new()), Options::default().scheme(scheme)).unwrap();
            let rows = db.table::<u64, u64>("rows").unwrap();
            let [v, x, y, other] = [0, 1, 2, 3];
            db.run(|txn| (0..4).try_for_each(|key| txn.put(&rows, &key, &0))).unwrap();
            let begin = || db.begin(TxnOptions::default().order(Order::None)).unwrap();
            let u = begin();
            u.get(&rows, &y).unwrap();
            db.run(|txn| txn.put(&rows, &y, &1)).unwrap();
            let r = begin();
            let _ = (r.get(&rows, &y).unwrap(), r.get(&rows, &v).unwrap());
            r.put(&rows, &other, &1).unwrap();
            r.commit().unwrap();
            // Marks the rows.
            db.evict(|_| true);
            let t = begin();
            u.put(&rows, &x, &1).unwrap();
            u.commit().unwrap();
            db.evict(|_| true);
            let before = db.statistics().cold_reads;
            let lost = t.get(&rows, &x).and_then(|_| t.put(&rows, &v, &1)).and_then(|()| t.commit().map(drop));
            reads += db.statistics().cold_reads - before;
            committed += u64::from(lost.is_ok());
        }
        assert!(reads > 0, "{scheme}: no version has been evicted in time");
    }
    committed
}

/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine --test all a_fault -- --test-threads 1`.
#[cfg(ermine_mutants)]
#[test]
fn a_fault_of_eviction_on_purpose_is_found() {
    use ermine::mutant::Mutant;
    Mutant::choose(Some(Mutant::EvictionForgets));
    let commits = commits_of_t();
    Mutant::choose(None);
    assert!(commits > 0, "no cycle was let through");
    println!("EvictionForgets: let {commits} cycles through");
}

#[test]
fn a_read_that_fails_is_an_error_of_the_transaction() {
    for scheme in schemes() {
        let directory = FaultyDirectory::new();
        let options = || Options::default().scheme(scheme).segment_bytes(64 << 10).log_buffer_bytes(64 << 10);
        let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        let by_length = db.index(&rows, "length", Uniqueness::NonUnique, |_, value: &[u8]| value.len() as u64);
        let by_length = by_length.unwrap();
        (0..300).for_each(|key| db.run(|txn| txn.put(&rows, &key, &value(key, 0))).unwrap());
        let evict = || (0..3).map(|_| db.evict(|_| true)).sum::<u64>();
        assert!(evict() >= 300, "{scheme}");
        directory.fail_reads(true);
        for key in [0, 299] {
            let error = db.run(|txn| txn.get(&rows, &key)).unwrap_err();
            assert!(matches!(error, Error::Storage(_)), "{scheme}: {error}");
            let error = db.run(|txn| txn.put(&rows, &key, &value(key, 1))).unwrap_err();
            assert!(matches!(error, Error::Storage(_)), "{scheme}: {error}");
            let error = db.run(|txn| txn.scan_by(&by_length, ..).collect()).unwrap_err();
            assert!(matches!(error, Error::Storage(_)), "{scheme}: {error}");
        }
        directory.fail_reads(false);
        assert_eq!(db.run(|txn| txn.scan_by(&by_length, ..).collect()).unwrap().len(), 300, "{scheme}");
        db.run(|txn| txn.put(&rows, &7, &value(7, 1))).unwrap();
        evict();
        db.checkpoint().unwrap();
        assert_eq!(db.run(|txn| txn.get(&rows, &7)).unwrap(), Some(value(7, 1)), "{scheme}");
        drop(db);
        let directory: Arc<dyn ermine::files::Directory> = Arc::new(directory);
        assert!(verify_in(&directory, &options(), &mut |_| ()).unwrap().is_right(), "{scheme}");
    }
}

/// A row in a file that is read, changed by nobody and evicted again and again, while checkpoints move it.
#[test]
fn rows_survive_eviction_between_checkpoints_that_move_them() {
    for scheme in schemes() {
        let directory = FaultyDirectory::new();
        let options = || {
            let options = Options::default().scheme(scheme).segment_bytes(64 << 10).log_buffer_bytes(64 << 10);
            options.durability(Durability::Async)
        };
        let mut rng = Rng::with_seed(11);
        let mut generations = vec![0; 500];
        for _ in 0..2 {
            let db = Database::open_in(Arc::new(directory.clone()), options()).unwrap();
            let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
            if generations[0] == 0 {
                (0..500).for_each(|key| db.run(|txn| txn.put(&rows, &key, &value(key, 1))).unwrap());
                generations.fill(1);
            }
            for _ in 0..30 {
                for _ in 0..200 {
                    // Mostly the same keys, so that files become waste around the others.
                    let key = if rng.u8(..8) == 0 { rng.u64(..500) } else { rng.u64(..50) };
                    generations[key as usize] += 1;
                    let new = value(key, generations[key as usize]);
                    db.run(|txn| txn.put(&rows, &key, &new)).unwrap();
                }
                db.sync().unwrap();
                let some = rng.u64(..);
                (0..2).for_each(|_| _ = db.evict(|row| some >> (row % 64) & 1 == 0));
                db.checkpoint().unwrap();
                (0..2).for_each(|_| _ = db.evict(|row| some >> (row % 61) & 1 == 0));
                for _ in 0..100 {
                    let key = rng.u64(..500);
                    let read = db.run(|txn| txn.get(&rows, &key)).unwrap();
                    assert_eq!(read, Some(value(key, generations[key as usize])), "{scheme}");
                }
            }
            let read = db.run(|txn| txn.scan(&rows, ..).collect()).unwrap();
            let is_right = read.iter().all(|(key, read)| *read == value(*key, generations[*key as usize]));
            assert!(is_right && read.len() == 500, "{scheme}");
            assert!(db.statistics().evicted_rows > 2000, "{scheme}");
        }
    }
}

/// Opening a database again: rows that were in use are in memory before others.
#[test]
fn rows_in_use_are_loaded_first() {
    const ROWS: u64 = 150_000;
    let path = directory("hot");
    let options = || {
        let options = Options::default().memory_limit(20 * MIB).durability(Durability::Async);
        options.log_buffer_bytes(1 << 20).segment_bytes(8 << 20).checkpoint_after(16 << 20)
    };
    let hot = || (0..ROWS).step_by(60);
    let read = |db: &Database, keys: &mut dyn Iterator<Item = u64>| {
        let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
        for key in keys {
            assert_eq!(db.run(|txn| txn.get(&rows, &key)).unwrap(), Some(value(key, 0)));
        }
    };
    let db = Database::open(&path, options()).unwrap();
    let rows = db.table::<u64, Vec<u8>>("rows").unwrap();
    for first in (0..ROWS).step_by(50) {
        db.run(|txn| (first..first + 50).try_for_each(|key| txn.put(&rows, &key, &value(key, 0)))).unwrap();
    }
    let mut rng = Rng::with_seed(3);
    for _ in 0..8 {
        read(&db, &mut hot().flat_map(|key| [key, rng.u64(..ROWS)]));
    }
    drop(db);

    let mut missing = Vec::new();
    for has_list in [true, false] {
        if !has_list {
            std::fs::remove_file(path.join("HOT")).unwrap();
        }
        let db = Database::open(&path, options()).unwrap();
        while !db.has_loaded() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(db.statistics().unloaded_rows > ROWS / 2);
        let before = db.statistics().cold_reads;
        read(&db, &mut hot());
        missing.push(db.statistics().cold_reads - before);
    }
    let [with, without] = missing[..] else { panic!() };
    assert!(with < without / 4, "{with} of {} rows in use were not in memory, {without} without a list", hot().count());
    std::fs::remove_dir_all(&path).unwrap();
}
