//! Goal: a standby that is open for reading shows the original as it was at one position, whole transactions and nothing
//! else, while pieces arrive; it is never written.
//! Method: as in `shipping`, a database whose states are known by the stamps of their commits ships its log; the image
//! must have the rows of the last commit below its position, and snapshots that were taken before keep theirs. Then
//! tables that come and go, indexes, and readers beside the replay. Safe snapshots: the read-only anomaly by hand, and
//! reports of closed batches beside writers, under every serializable scheme.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use ermine::{Database, Error, HotStandby, LogReader, Options, Scheme, Table, TxnOptions, Uniqueness};
use ermine_testing::faulty::{FaultyDirectory, Keep};
use fastrand::Rng;

use super::shipping::{Past, Rows, crashed, keep, open, options, receiver, reopened, rows_in};

fn hot(directory: &FaultyDirectory) -> HotStandby {
    HotStandby::of(receiver(directory), Options::default()).map_err(|failed| failed.1).unwrap()
}

/// Ships everything that is durable.
fn ship_all(reader: &mut LogReader<'_>, to: &mut HotStandby) {
    to.receive_all(std::iter::from_fn(|| reader.next(3000).transpose())).unwrap();
}

/// Marks a safe snapshot, durably, at the end of the log.
fn mark(db: &Database) {
    // The flusher notes the time now and then, and a segment may be full.
    assert!((0..100).any(|_| db.mark_safe_snapshot()));
    db.sync().unwrap();
}

/// Makes a standby of a database, and a reader for it.
fn followed(db: &Database) -> (FaultyDirectory, HotStandby, LogReader<'_>) {
    let copy = FaultyDirectory::new();
    db.backup_in(&copy).unwrap();
    let standby = hot(&copy);
    let reader = db.log_reader(Some(standby.position())).unwrap();
    (copy, standby, reader)
}

fn live(seed: u64) {
    let rng = &mut Rng::with_seed(seed);
    let (mut original, mut copy) = (FaultyDirectory::new(), FaultyDirectory::new());
    let mut past = Past(Vec::new());
    let (mut db, mut table) = open(&original);
    for _ in 0..rng.usize(1..60) {
        past.step(&db, &table, rng);
    }
    db.backup_in(&copy).unwrap();
    let mut to = hot(&copy);
    let mut reader = db.log_reader(Some(to.position())).unwrap();
    // Open snapshots of images, with what they must show.
    let mut kept = Vec::new();
    for _ in 0..60 {
        for _ in 0..rng.usize(..12) {
            past.step(&db, &table, rng);
        }
        match rng.u8(..8) {
            0 => drop(db.checkpoint().unwrap()),
            3 => _ = db.mark_safe_snapshot(),
            1 => {
                (db, table) = reopened(&mut original, (db, table), rng);
                reader = db.log_reader(Some(to.position())).unwrap();
            }
            2 => {
                let position = to.position();
                drop(to);
                kept.clear();
                copy = crashed(&copy, keep(rng));
                to = hot(&copy);
                assert!(to.position() >= position);
                reader = db.log_reader(Some(to.position())).unwrap();
            }
            _ => {
                for _ in 0..rng.usize(1..8) {
                    let Some(piece) = reader.next(rng.usize(1..20_000)).unwrap() else { break };
                    to.receive(&piece).unwrap();
                    if rng.u8(..4) == 0 {
                        to.receive(&piece).unwrap();
                    }
                }
            }
        }
        let (image, position) = (to.database().clone(), to.position());
        assert_eq!(image.replayed(), Some(position));
        let there = image.table::<u64, Vec<u8>>("rows").unwrap();
        assert_eq!(&rows_in(&image, &there), past.at(position), "at {position}");
        let snapshot = image.begin_owned(TxnOptions::default()).unwrap();
        kept.push((snapshot, there.clone(), past.at(position).clone()));
        match image.begin_owned(TxnOptions::snapshot()) {
            Ok(safe) => {
                let shown = image.safe_replayed().unwrap();
                assert!(shown <= position);
                kept.push((safe, there, past.at(shown).clone()));
            }
            Err(error) => assert!(matches!(error, Error::NoSnapshot) && image.safe_replayed().is_none()),
        }
        for (snapshot, there, expected) in &kept {
            let rows: Rows = snapshot.scan(there, ..).collect().unwrap().into_iter().collect();
            assert_eq!(&rows, expected, "a snapshot that was taken before {position}");
        }
        if rng.u8(..4) == 0 {
            kept.clear();
        }
    }
    mark(&db);
    ship_all(&mut reader, &mut to);
    let position = to.position();
    assert_eq!(to.database().safe_replayed(), Some(position));
    kept.clear();
    to.promote().unwrap();
    let promoted = crashed(&copy, Keep::Nothing);
    let (db, table) = open(&promoted);
    assert_eq!(&rows_in(&db, &table), past.at(position), "promoted at {position}");
}

#[test]
fn an_image_shows_what_was_received() {
    let seeds = std::env::var("ERMINE_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    for seed in seeds.map_or(0..20, |seed| seed..seed + 1) {
        eprintln!("ERMINE_TEST_SEED={seed}");
        live(seed);
    }
}

type Tables = BTreeMap<String, BTreeMap<u64, String>>;

fn all_rows(db: &Database) -> Tables {
    let rows_of = |name: &str| {
        let table = db.table::<u64, String>(name).unwrap();
        db.run(|txn| txn.scan(&table, ..).collect()).unwrap().into_iter().collect()
    };
    db.tables().into_iter().map(|table| (table.name.clone(), rows_of(&table.name))).collect()
}

#[test]
fn tables_that_are_created_renamed_and_dropped_are_followed() {
    for seed in 0..20 {
        let rng = &mut Rng::with_seed(seed);
        let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
        let (mut copy, mut to, mut reader) = followed(&db);
        for round in 0..80 {
            let name = format!("t{}", rng.u8(..6));
            match rng.u8(..10) {
                0 => drop(db.drop_table(&name).unwrap()),
                // To a name that is free, or not.
                1 => drop(db.rename_table(&name, &format!("t{}", rng.u8(..6)))),
                2 => {
                    ship_all(&mut reader, &mut to);
                    assert_eq!(all_rows(to.database()), all_rows(&db), "seed {seed}, round {round}");
                }
                3 => {
                    drop(to);
                    copy = crashed(&copy, keep(rng));
                    to = hot(&copy);
                    reader = db.log_reader(Some(to.position())).unwrap();
                }
                4 => drop(db.checkpoint().unwrap()),
                _ => {
                    let table = db.table::<u64, String>(&name).unwrap();
                    let (key, value) = (rng.u64(..30), format!("{round}"));
                    db.run(|txn| match rng.u8(..3) {
                        0 => txn.delete(&table, &key).map(drop),
                        _ => txn.put(&table, &key, &value),
                    })
                    .unwrap();
                }
            }
        }
        ship_all(&mut reader, &mut to);
        assert_eq!(all_rows(to.database()), all_rows(&db), "seed {seed}");
        let numbers =
            |db: &Database| db.tables().iter().map(|table| (table.id, table.name.clone())).collect::<Vec<_>>();
        assert_eq!(numbers(to.database()), numbers(&db), "seed {seed}");
    }
}

#[test]
fn an_image_is_not_written() {
    let (db, table) = open(&FaultyDirectory::new());
    db.run(|txn| txn.put(&table, &1, &vec![1])).unwrap();
    let (_copy, standby, _reader) = followed(&db);
    let image = standby.database();
    let there = image.table::<u64, Vec<u8>>("rows").unwrap();
    assert!(image.is_standby() && !db.is_standby() && db.replayed().is_none());
    assert_eq!(image.scheme(), Scheme::Si);
    let refused = [
        image.run(|txn| txn.put(&there, &1, &vec![2])),
        image.run(|txn| txn.delete(&there, &1).map(drop)),
        image.begin(TxnOptions::default()).unwrap().insert(&there, &9, &vec![9]),
        image.table::<u64, u64>("new").map(drop),
        image.drop_table("rows").map(drop),
        image.rename_table("rows", "other"),
        image.index(&there, "new", Uniqueness::NonUnique, |_, value| value.len() as u64).map(drop),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::Standby)), "{refused:?}");
    }
    assert_eq!(rows_in(image, &there), Rows::from([(1, vec![1])]));
}

fn by_value(db: &Database, table: &Table<u64, u64>) -> ermine::SecondaryIndex<u64, u64, u64> {
    db.index(table, "by value", Uniqueness::Unique, |_, value| value).unwrap()
}

/// Rows that give each other their unique keys in one transaction, whatever the order in which they wrote.
#[test]
fn unique_keys_change_hands() {
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    let index = by_value(&db, &table);
    db.run(|txn| (0..4).try_for_each(|n| txn.insert(&table, &n, &n))).unwrap();
    let (_copy, mut to, mut reader) = followed(&db);
    let image = to.database().clone();
    let there = image.table::<u64, u64>("numbers").unwrap();
    db.run(|txn| {
        txn.put(&table, &0, &100)?;
        txn.put(&table, &1, &0)?;
        txn.put(&table, &0, &1)?;
        txn.delete(&table, &3)?;
        txn.insert(&table, &9, &3)
    })
    .unwrap();
    let piece = reader.next(1 << 20).unwrap().unwrap();
    // A table is written when all its indexes are open.
    let early = to.receive(&piece);
    assert!(matches!(&early, Err(Error::Schema(why)) if why.contains("by value")), "{early:?}");
    assert!(image.replayed() < Some(to.position()));
    let there_by_value = by_value(&image, &there);
    to.receive(&piece).unwrap();
    ship_all(&mut reader, &mut to);
    let rows = |db: &Database, index| db.run(|txn| txn.scan_by(index, ..).collect()).unwrap();
    assert_eq!(rows(&image, &there_by_value), [(1, 0), (0, 1), (2, 2), (9, 3)]);
    assert_eq!(rows(&db, &index), rows(&image, &there_by_value));
}

/// An index that the original builds over rows comes with the next opening of the standby.
#[test]
fn an_index_that_was_built_is_there_after_the_next_opening() {
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let [early, late] = ["early", "late"].map(|name| db.table::<u64, u64>(name).unwrap());
    let (copy, mut to, mut reader) = followed(&db);
    by_value(&db, &early);
    db.run(|txn| (0..4).try_for_each(|n| txn.insert(&late, &n, &n))).unwrap();
    ship_all(&mut reader, &mut to);
    let image = to.database();
    by_value(image, &image.table::<u64, u64>("early").unwrap());
    by_value(&db, &late);
    db.run(|txn| txn.insert(&late, &9, &9)).unwrap();
    let piece = reader.next(1 << 20).unwrap().unwrap();
    let refused = to.receive(&piece);
    assert!(matches!(&refused, Err(Error::Schema(why)) if why.contains("open the standby again")), "{refused:?}");
    drop(to);
    let mut to = hot(&copy);
    let image = to.database().clone();
    let there = image.table::<u64, u64>("late").unwrap();
    let index = by_value(&image, &there);
    ship_all(&mut reader, &mut to);
    assert_eq!(image.run(|txn| txn.scan_by(&index, 3..).collect()).unwrap(), [(3, 3), (9, 9)]);
}

#[test]
fn a_log_without_keys_is_refused_and_the_standby_still_receives() {
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options().log_keys(false)).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    db.run(|txn| txn.insert(&table, &1, &1)).unwrap();
    let (copy, mut to, mut reader) = followed(&db);
    db.run(|txn| txn.put(&table, &1, &2)).unwrap();
    let piece = reader.next(1 << 20).unwrap().unwrap();
    let refused = to.receive(&piece);
    assert!(matches!(&refused, Err(Error::Options(why)) if why.contains("log_keys")), "{refused:?}");
    assert_eq!(to.position(), piece.to);
    drop(to);
    let to = hot(&copy);
    let there = to.database().table::<u64, u64>("numbers").unwrap();
    assert_eq!(to.database().run(|txn| txn.get(&there, &1)).unwrap(), Some(2));
}

/// A replay that fails in the middle of what was received goes on in front of the transaction that failed.
#[test]
fn a_replay_that_failed_goes_on_where_it_was() {
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    let (copy, mut to, mut reader) = followed(&db);
    (0..10).for_each(|n| db.run(|txn| txn.insert(&table, &n, &n)).unwrap());
    let piece = reader.next(1 << 20).unwrap().unwrap();
    let image = to.database().clone();
    let there = image.table::<u64, u64>("numbers").unwrap();
    let count = || image.run(|txn| txn.scan(&there, ..).count()).unwrap();

    let mut shown = 0;
    let failed = to.receive_with(&piece, &mut |_, apply| {
        shown += 1;
        if shown <= 4 { apply() } else { Err(Error::Limit("four")) }
    });
    assert!(matches!(failed, Err(Error::Limit("four"))), "{failed:?}");
    assert_eq!((shown, count()), (5, 4));
    assert!(image.replayed() < Some(to.position()));

    // The function has to be called.
    let forgotten = to.receive_with(&piece, &mut |_, _| Ok(()));
    assert!(matches!(&forgotten, Err(Error::Options(_))), "{forgotten:?}");
    assert_eq!(count(), 4);
    to.receive(&piece).unwrap();
    assert_eq!((count(), image.replayed()), (10, Some(to.position())));

    // What was shown cannot be shown again.
    db.run(|txn| txn.insert(&table, &10, &10)).unwrap();
    let piece = reader.next(1 << 20).unwrap().unwrap();
    let failed = to.receive_with(&piece, &mut |_, apply| {
        apply()?;
        Err(Error::Limit("behind"))
    });
    assert!(matches!(failed, Err(Error::Limit("behind"))), "{failed:?}");
    db.run(|txn| txn.insert(&table, &11, &11)).unwrap();
    let piece = reader.next(1 << 20).unwrap().unwrap();
    let failed = to.receive(&piece);
    assert!(matches!(&failed, Err(Error::Storage(why)) if why.contains("open the standby again")), "{failed:?}");
    assert_eq!((count(), to.position()), (11, piece.to));
    drop(to);
    let to = hot(&copy);
    let there = to.database().table::<u64, u64>("numbers").unwrap();
    assert_eq!(to.database().run(|txn| txn.scan(&there, ..).count()).unwrap(), 12);
}

/// Pieces that are received while those before are replayed: all that were taken are durable, whatever the replay does.
#[test]
fn pieces_are_received_while_others_are_replayed() {
    const ROWS: usize = 300;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let table = db.table::<u64, u64>("numbers").unwrap();
    let (copy, mut to, mut reader) = followed(&db);
    (0..ROWS as u64).for_each(|n| db.run(|txn| txn.insert(&table, &n, &n)).unwrap());
    let mut pieces = std::iter::from_fn(|| reader.next(300).transpose());
    let image = to.database().clone();
    let there = image.table::<u64, u64>("numbers").unwrap();
    let count = || image.run(|txn| txn.scan(&there, ..).count()).unwrap();

    to.receive_all(pieces.by_ref().take(0)).unwrap();
    to.receive_all(pieces.by_ref().take(1)).unwrap();
    to.receive_all(pieces.by_ref().take(9)).unwrap();
    let after_ten = count();
    assert!((10..ROWS / 2).contains(&after_ten), "{after_ten}");
    assert_eq!(image.replayed(), Some(to.position()));

    let (mut shown, mut taken) = (0, 0);
    let counted = pieces.by_ref().inspect(|piece| taken = piece.as_ref().map_or(0, |piece| piece.to));
    let failed = to.receive_all_with(counted, &mut |_, apply| {
        shown += 1;
        if shown <= 50 { apply() } else { Err(Error::Limit("fifty")) }
    });
    assert!(matches!(failed, Err(Error::Limit("fifty"))), "{failed:?}");
    assert_eq!((count(), to.position()), (after_ten + 50, taken));

    // An error among the pieces comes after all those before it.
    let last = pieces.next().unwrap().unwrap();
    let gap = [pieces.next().unwrap(), Err(Error::Limit("gap"))];
    let missing = to.receive_all(gap.into_iter());
    assert!(matches!(&missing, Err(Error::Storage(why)) if why.contains("the standby ends at")), "{missing:?}");
    let end = last.to;
    let failed = to.receive_all([Ok(last), Err(Error::Limit("gap"))].into_iter());
    assert!(matches!(failed, Err(Error::Limit("gap"))), "{failed:?}");
    assert_eq!((image.replayed(), to.position()), (Some(end), end));

    let mut reader = db.log_reader(Some(to.position())).unwrap();
    to.receive_all(std::iter::from_fn(|| reader.next(300).transpose())).unwrap();
    assert_eq!((count(), image.replayed()), (ROWS, Some(to.position())));
    drop((there, image, to));
    let to = hot(&copy);
    let there = to.database().table::<u64, u64>("numbers").unwrap();
    assert_eq!(to.database().run(|txn| txn.scan(&there, ..).count()).unwrap(), ROWS);
}

/// What was received long before it is replayed does not come into memory as a whole, nor is any of it left out.
#[test]
fn a_long_backlog_is_replayed_in_order_and_as_a_whole() {
    const ROWS: u64 = 1200;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let table = db.table::<u64, Vec<u8>>("numbers").unwrap();
    let (_copy, mut to, mut reader) = followed(&db);
    // Some MiB of log.
    (0..ROWS).for_each(|n| db.run(|txn| txn.put(&table, &(n / 2), &vec![7; 4000])).unwrap());
    let mut backlog = 0;
    let mut pieces: Vec<_> = std::iter::from_fn(|| reader.next(300_000).unwrap()).collect();
    let mut last = pieces.split_off(pieces.len() - 4).into_iter();
    for piece in pieces {
        backlog += piece.to - piece.from;
        assert!(matches!(to.receive_with(&piece, &mut |_, _| Err(Error::Limit("later"))), Err(Error::Limit("later"))));
    }
    assert!(backlog > 3 << 20, "{backlog}");
    let mut stamps = Vec::new();
    // The replay fails once, in the middle: what was taken until then is received.
    for fails_at in [ROWS / 3, ROWS] {
        let mut taken = 0;
        let two = last.by_ref().take(2).inspect(|piece| taken = piece.to);
        let replayed = to.receive_all_with(two.map(Ok), &mut |committed, apply| {
            if stamps.len() as u64 == fails_at {
                return Err(Error::Limit("later"));
            }
            stamps.push(committed.stamp);
            apply()
        });
        assert_eq!((replayed.is_ok(), to.position()), (fails_at == ROWS, taken));
    }
    assert_eq!(stamps.len() as u64, ROWS);
    assert!(stamps.is_sorted());
    let image = to.database();
    assert_eq!(image.replayed(), Some(to.position()));
    let there = image.table::<u64, Vec<u8>>("numbers").unwrap();
    assert_eq!(image.run(|txn| txn.scan(&there, ..).count()).unwrap(), ROWS as usize / 2);
}

/// The original covers dropped tables by its checkpoints, and a standby makes none.
#[test]
fn any_number_of_dropped_tables_is_followed() {
    const TABLES: u64 = 600;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let (copy, to, mut reader) = followed(&db);
    let mut to = to.into_receiver();
    for number in 0..TABLES {
        let name = format!("t{number}");
        let table = db.table::<u64, u64>(&name).unwrap();
        db.run(|txn| txn.insert(&table, &number, &number)).unwrap();
        assert!(number == TABLES - 1 || db.drop_table(&name).unwrap());
        if number % 100 == 99 {
            db.checkpoint().unwrap();
        }
    }
    while let Some(piece) = reader.next(1 << 20).unwrap() {
        to.receive(&piece).unwrap();
    }
    drop(to);
    let mut to = hot(&copy);
    let last = format!("t{}", TABLES - 1);
    assert_eq!(to.database().tables().iter().map(|table| &table.name).collect::<Vec<_>>(), [&last]);
    db.drop_table(&last).unwrap();
    ship_all(&mut reader, &mut to);
    assert!(to.database().tables().is_empty());
}

/// An image with more rows than memory serves and follows as long as what is received has room.
#[test]
fn an_image_is_not_filled_with_rows_ahead_of_what_it_receives() {
    const ROWS: u64 = 3000;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let table = db.table::<u64, Vec<u8>>("rows").unwrap();
    let value = |n: u64| vec![n as u8; 7000];
    (0..ROWS).for_each(|n| db.run(|txn| txn.insert(&table, &n, &value(n))).unwrap());
    let copy = FaultyDirectory::new();
    db.backup_in(&copy).unwrap();
    let limited = Options::default().memory_limit(16 << 20);
    let mut to = HotStandby::of(receiver(&copy), limited).map_err(|failed| failed.1).unwrap();
    let mut reader = db.log_reader(Some(to.position())).unwrap();
    // Rows are read ahead meanwhile, as many as ever will be.
    let (mut unloaded, mut unchanged) = (u64::MAX, 0);
    for _ in 0..2000 {
        let now = to.database().statistics().unloaded_rows;
        unchanged = if now == unloaded { unchanged + 1 } else { 0 };
        unloaded = now;
        if unchanged == 100 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    for n in 0..200 {
        db.run(|txn| txn.put(&table, &n, &value(n + 1))).unwrap();
        ship_all(&mut reader, &mut to);
    }
    let there = to.database().table::<u64, Vec<u8>>("rows").unwrap();
    for n in [0, 199, 200, ROWS - 1] {
        let expected = if n < 200 { value(n + 1) } else { value(n) };
        assert_eq!(to.database().run(|txn| txn.get(&there, &n)).unwrap(), Some(expected), "row {n}");
    }
}

/// Readers beside the replay see whole transactions, and later ones later.
#[test]
fn readers_beside_the_replay_see_whole_transactions() {
    const ACCOUNTS: u64 = 40;
    const TRANSFERS: u64 = 3000;
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options()).unwrap();
    let [accounts, numbers] = ["accounts", "number"].map(|name| db.table::<u64, i64>(name).unwrap());
    db.run(|txn| (0..ACCOUNTS).try_for_each(|account| txn.put(&accounts, &account, &100))).unwrap();
    db.run(|txn| txn.put(&numbers, &0, &0)).unwrap();
    let (_copy, mut to, mut reader) = followed(&db);
    let (image, ended) = (to.database().clone(), &AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            let image = &image;
            scope.spawn(move || {
                let [accounts, numbers] = ["accounts", "number"].map(|name| image.table::<u64, i64>(name).unwrap());
                let (mut last, mut is_over) = (0, false);
                while !is_over {
                    // Everything has been replayed before the last look.
                    is_over = ended.load(Ordering::Acquire);
                    let txn = image.begin(TxnOptions::default()).unwrap();
                    let number = txn.get(&numbers, &0).unwrap().unwrap();
                    let all = txn.scan(&accounts, ..).collect().unwrap();
                    assert_eq!(all.iter().map(|(_, balance)| balance).sum::<i64>(), 100 * ACCOUNTS as i64);
                    // Each transfer moves `number` from one account to the other.
                    assert_eq!(txn.get(&numbers, &0).unwrap(), Some(number));
                    assert!(number >= last, "{number} after {last}");
                    last = number;
                }
                assert_eq!(last, TRANSFERS as i64);
            });
        }
        let rng = &mut Rng::with_seed(5);
        for number in 1..=TRANSFERS {
            let [from, into] = [(); 2].map(|()| rng.u64(..ACCOUNTS));
            let transferred = db.run(|txn| {
                for (account, amount) in [(from, -1), (into, 1)] {
                    let balance = txn.get(&accounts, &account)?.unwrap();
                    txn.put(&accounts, &account, &(balance + amount))?;
                }
                txn.put(&numbers, &0, &(number as i64))
            });
            transferred.unwrap();
            if rng.u8(..20) == 0 {
                ship_all(&mut reader, &mut to);
            }
        }
        ship_all(&mut reader, &mut to);
        ended.store(true, Ordering::Release);
    });
}

fn serializable_schemes() -> impl Iterator<Item = Scheme> {
    Scheme::ALL.into_iter().filter(|scheme| scheme.has_versions() && scheme.is_serializable())
}

/// The read-only anomaly (Fekete, O'Neil, O'Neil 2004): a receipt is written into a batch that was closed meanwhile. It
/// comes before the close, so a reader that saw the close and not the receipt has seen what no serial order has.
#[test]
fn a_prefix_may_be_one_of_no_serial_order_and_a_safe_snapshot_is_not() {
    for scheme in serializable_schemes() {
        for marks in [false, true] {
            let db = Database::open_in(Arc::new(FaultyDirectory::new()), options().scheme(scheme)).unwrap();
            let [batch, receipts] = ["batch", "receipts"].map(|name| db.table::<u64, u64>(name).unwrap());
            db.run(|txn| txn.put(&batch, &0, &1)).unwrap();
            mark(&db);
            let (_copy, mut to, mut reader) = followed(&db);
            let image = to.database().clone();
            let there = ["batch", "receipts"].map(|name| image.table::<u64, u64>(name).unwrap());
            let shown = |options: TxnOptions| {
                let txn = image.begin(options).unwrap();
                (txn.get(&there[0], &0).unwrap(), txn.get(&there[1], &7).unwrap())
            };

            let receipt = db.begin(TxnOptions::default()).unwrap();
            let number = receipt.get(&batch, &0).unwrap().unwrap();
            db.run(|txn| txn.put(&batch, &0, &2)).unwrap();
            if marks {
                mark(&db);
            }
            ship_all(&mut reader, &mut to);
            assert_eq!(shown(TxnOptions::read_only()), (Some(2), None), "{scheme}");
            let safe = if marks { 2 } else { 1 };
            assert_eq!(shown(TxnOptions::snapshot()), (Some(safe), None), "{scheme}");

            let written = receipt.put(&receipts, &7, &number).and_then(|_| receipt.commit().map(drop));
            // Under mvocc, the order of commits is serial, and the receipt loses anyway.
            assert_eq!(written.is_ok(), !marks && scheme != Scheme::MvOcc, "{scheme}, {marks}: {written:?}");
            mark(&db);
            ship_all(&mut reader, &mut to);
            let expected = (Some(2), written.is_ok().then_some(1));
            assert_eq!(shown(TxnOptions::snapshot()), expected, "{scheme}");
            assert_eq!(shown(TxnOptions::read_only()), expected, "{scheme}");
        }
    }
}

/// Returns how many reports of closed batches on a standby were wrong: those of safe snapshots, and those of the newest
/// prefix.
fn wrong_reports(scheme: Scheme, rounds: usize) -> [usize; 2] {
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options().scheme(scheme)).unwrap();
    let [batch, receipts] = ["batch", "receipts"].map(|name| db.table::<u64, u64>(name).unwrap());
    db.run(|txn| txn.put(&batch, &0, &1)).unwrap();
    let (_copy, mut to, mut reader) = followed(&db);
    let image = to.database().clone();
    let there = ["batch", "receipts"].map(|name| image.table::<u64, u64>(name).unwrap());
    // The batch that was closed last, and the number of its receipts.
    let report = |db: &Database, [batch, receipts]: &[Table<u64, u64>; 2], options| -> Option<(u64, usize)> {
        let txn = db.begin(options).ok()?;
        let closed = txn.get(batch, &0).unwrap()? - 1;
        let all = txn.scan(receipts, ..).collect().unwrap();
        Some((closed, all.iter().filter(|(_, number)| *number == closed).count()))
    };
    let (mut reports, ended) = ([const { Vec::new() }; 2], &AtomicBool::new(false));
    thread::scope(|scope| {
        for clerk in 0..2 {
            let (db, batch, receipts) = (&db, &batch, &receipts);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(clerk);
                for number in 0.. {
                    if ended.load(Ordering::Relaxed) {
                        break;
                    }
                    let txn = db.begin(TxnOptions::default()).unwrap();
                    // One that loses a conflict is dropped.
                    let Ok(Some(current)) = txn.get(batch, &0) else { continue };
                    thread::sleep(Duration::from_micros(rng.u64(..500)));
                    if txn.put(receipts, &(2 * number + clerk), &current).is_ok() {
                        let _ = txn.commit();
                    }
                }
            });
        }
        let mut rng = Rng::with_seed(9);
        for _ in 0..rounds {
            db.run(|txn| {
                let number = txn.get(&batch, &0)?.unwrap();
                txn.put(&batch, &0, &(number + 1))
            })
            .unwrap();
            if rng.bool() {
                db.mark_safe_snapshot();
            }
            db.sync().unwrap();
            ship_all(&mut reader, &mut to);
            for (reports, options) in reports.iter_mut().zip([TxnOptions::snapshot(), TxnOptions::read_only()]) {
                reports.extend(report(&image, &there, options));
            }
            thread::sleep(Duration::from_micros(rng.u64(..1000)));
        }
        ended.store(true, Ordering::Relaxed);
    });
    let all = db.run(|txn| txn.scan(&receipts, ..).collect()).unwrap();
    assert!(all.len() > rounds / 10 && reports.iter().all(|reports| reports.len() > rounds / 10));
    let is_wrong =
        |(closed, count): &&(u64, usize)| all.iter().filter(|(_, number)| number == closed).count() != *count;
    reports.map(|reports| reports.iter().filter(is_wrong).count())
}

#[test]
fn reports_of_closed_batches_stay_true() {
    for scheme in serializable_schemes() {
        let [safe, newest] = wrong_reports(scheme, 500);
        println!("{scheme}: {newest} reports of the newest prefix were wrong");
        assert_eq!(safe, 0, "{scheme}: reports of safe snapshots were wrong");
    }
}

/// The rule that safe snapshots are for:
/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine --test all a_fault -- --test-threads 1`.
#[cfg(ermine_mutants)]
#[test]
fn a_fault_of_safe_snapshots_on_purpose_is_found() {
    use ermine::mutant::Mutant;
    for scheme in serializable_schemes().filter(|scheme| *scheme != Scheme::MvOcc) {
        Mutant::choose(Some(Mutant::NoSafeSnapshot));
        let found = (1..=20).find(|_| wrong_reports(scheme, 500)[0] > 0);
        Mutant::choose(None);
        println!("NoSafeSnapshot under {scheme}: found in run {}", found.expect("a report was wrong"));
    }
}

#[test]
fn a_safe_snapshot_at_the_end_of_a_backup_is_found() {
    let original = FaultyDirectory::new();
    let (db, table) = open(&original);
    for number in 0..50 {
        db.run(|txn| txn.put(&table, &number, &vec![1])).unwrap();
    }
    db.checkpoint().unwrap();
    db.run(|txn| txn.put(&table, &50, &vec![2])).unwrap();
    mark(&db);
    let (copy, to, _) = followed(&db);
    assert_eq!(to.database().safe_replayed(), Some(to.position()));
    drop(to);
    assert!(hot(&crashed(&copy, Keep::Nothing)).database().safe_replayed().is_some());
}

/// A mark needs room in a segment, and must not wait for the next commit to open one.
#[test]
fn the_last_commit_of_a_segment_is_marked() {
    // Without a checkpoint, whose blocks would open the next segment, too.
    let options = options().checkpoint_after(1 << 30);
    let db = Database::open_in(Arc::new(FaultyDirectory::new()), options).unwrap();
    let table = db.table::<u64, Vec<u8>>("rows").unwrap();
    let mut rng = Rng::with_seed(3);
    for number in 0..12_000 {
        db.run(|txn| txn.put(&table, &(number % 7), &vec![1; rng.usize(..40)])).unwrap();
        mark(&db);
    }
}

#[test]
fn a_safe_snapshot_is_given_up_when_no_other_follows() {
    let (original, name) = (FaultyDirectory::new(), "rows");
    let db = Database::open_in(Arc::new(original), options()).unwrap();
    let table = db.table::<u64, u64>(name).unwrap();
    let (_copy, mut to, mut reader) = followed(&db);
    let image = to.database().clone();
    let put = |value| db.run(|txn| txn.put(&table, &1, &value)).unwrap();
    put(1);
    mark(&db);
    ship_all(&mut reader, &mut to);
    // As long as nothing is committed, the newest state stays safe.
    thread::sleep(Duration::from_millis(1100));
    ship_all(&mut reader, &mut to);
    assert_eq!((image.safe_replayed(), image.replayed()), (Some(to.position()), Some(to.position())));
    assert!(image.snapshot().is_ok());
    let asked = image.safe_snapshots_asked();
    // The log notes the time behind a commit, soon.
    let is_given_up = (0..1000).any(|value| {
        put(value);
        ship_all(&mut reader, &mut to);
        thread::sleep(Duration::from_millis(1));
        image.safe_replayed().is_none()
    });
    assert!(is_given_up && matches!(image.snapshot(), Err(Error::NoSnapshot)));
    assert!(image.safe_snapshots_asked() > asked);
    mark(&db);
    ship_all(&mut reader, &mut to);
    assert!(image.snapshot().is_ok());
}
