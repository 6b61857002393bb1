//! Tables that are created, filled, renamed and dropped, and crashes in between.
//!
//! One client takes random steps, each durable when it returns, and keeps the state of all tables after each. A crash
//! must leave the state after the last acknowledged step, or after the step that was in progress: a table exists as a
//! whole, under one name, or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ermine::{Database, Error, Result, Table, Uniqueness, files::Directory, verify_in};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

use super::{
    case::{Case, keeps, points, seed},
    open,
    workload::Setting,
};

/// The rows of each table.
type State = BTreeMap<String, BTreeMap<u64, Vec<u8>>>;

fn table(db: &Database, name: &str) -> Result<Table<u64, Vec<u8>>> {
    let table = db.table(name)?;
    db.index(&table, "by length", Uniqueness::NonUnique, |_: &u64, value: &[u8]| value.len() as u64)?;
    Ok(table)
}

/// Takes one step; returns the state that it leads to.
fn step(db: &Database, rng: &mut Rng, mut state: State) -> Result<State> {
    let [one, other] = [(); 2].map(|()| format!("table {}", rng.u8(..4)));
    match rng.u8(..10) {
        0..2 => {
            assert_eq!(db.drop_table(&one)?, state.remove(&one).is_some());
        }
        2..4 => match db.rename_table(&one, &other) {
            Ok(()) => {
                let rows = state.remove(&one).expect("only a table that is there has another name");
                state.insert(other, rows);
            }
            Err(Error::Schema(_)) => assert!(!state.contains_key(&one) || state.contains_key(&other)),
            Err(error) => return Err(error),
        },
        4 => _ = db.checkpoint()?,
        _ => {
            let table = table(db, &one)?;
            let rows = state.entry(one).or_default();
            let filler = [10, 100, 3000, 40_000][rng.usize(..4)];
            let changes: Vec<_> =
                (0..rng.u64(1..6)).map(|_| (rng.u64(..20), vec![rng.u8(..); rng.usize(..filler)])).collect();
            db.run(|txn| {
                for (key, value) in &changes {
                    if value.len() % 5 == 1 { _ = txn.delete(&table, key)? } else { txn.put(&table, key, value)? }
                }
                Ok::<_, Error>(())
            })?;
            for (key, value) in changes {
                if value.len() % 5 == 1 { drop(rows.remove(&key)) } else { drop(rows.insert(key, value)) }
            }
        }
    }
    Ok(state)
}

/// Returns the state of a database.
fn found(db: &Database) -> State {
    let names: BTreeSet<_> = db.tables().into_iter().map(|table| table.name).collect();
    let rows = |name: &String| {
        let table = table(db, name).unwrap();
        db.run(|txn| txn.scan(&table, ..).collect()).unwrap().into_iter().collect()
    };
    names.iter().map(|name| (name.clone(), rows(name))).collect()
}

/// Tables without rows may appear and disappear with the first step of a row: creating is a step of its own.
fn is_one_of(found: &State, states: &[State]) -> bool {
    let filled = |state: &State| -> State {
        state.iter().filter(|(_, rows)| !rows.is_empty()).map(|(name, rows)| (name.clone(), rows.clone())).collect()
    };
    states.iter().any(|state| filled(state) == filled(found))
}

fn run(db: &Database, directory: &FaultyDirectory, rng: &mut Rng, steps: usize, states: &mut Vec<State>) {
    for _ in 0..steps {
        let next = step(db, rng, states.last().expect("there is a first").clone()).unwrap();
        states.push(next);
        directory.mark(states.len() as u64 - 1);
    }
}

#[test]
fn tables_that_are_dropped_and_renamed_survive_every_crash() {
    let mut left = points(120);
    while left > 0 {
        let seed = seed();
        let mut rng = Rng::with_seed(seed);
        let setting = Setting::random(&mut rng, 1, 0);
        let directory = FaultyDirectory::new();
        let mut states = vec![State::new()];
        {
            let _case = Case::new(seed, format!("{setting:?}"), &directory);
            let db = open(&directory, &setting);
            run(&db, &directory, &mut rng, 60, &mut states);
        }
        let trace = directory.trace();
        for _ in 0..left.min(40) {
            left -= 1;
            let (at, keep) = (rng.usize(..=trace.operations()), keeps(&mut rng)[rng.usize(..6)]);
            let crashed = trace.crash(at, keep);
            let _case = Case::new(seed, format!("{setting:?}, crash at {at}, {keep:?}"), &crashed);
            let acknowledged = trace.marks_before(at).iter().max().map_or(0, |mark| *mark as usize);
            let possible = &states[acknowledged..states.len().min(acknowledged + 2)];
            let db = open(&crashed, &setting);
            let now = found(&db);
            assert!(is_one_of(&now, possible), "{now:?} is none of {possible:?}");
            // The database goes on.
            let mut more = vec![now];
            run(&db, &crashed, &mut rng, 6, &mut more);
            drop(db);
            let report =
                verify_in(&(Arc::new(crashed.clone()) as Arc<dyn Directory>), &setting.options(), &mut |_| ()).unwrap();
            assert!(report.findings.is_empty(), "{report:?}");
            assert_eq!(found(&open(&crashed, &setting)), more[more.len() - 1]);
        }
    }
}
