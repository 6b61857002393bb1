//! Goal: every scheme permits exactly the anomalies it is known to permit, and prevents the others.
//!
//! Method: `scripts/anomalies/*.txt` are interleavings as data, each with a verdict per scheme. A script runs on one
//! thread, step by step in the order written, against a fresh database; since nothing in the engine waits for an
//! application, no step blocks. The committed transactions are then given to a judge that has only the definition
//! ([`serial`]): `permits` means that everything committed and *no* serial order that agrees with time explains it,
//! `accepts` that everything committed and one does, `prevents` that one explains the transactions that committed, and
//! that at least one did.
//!
//! `ERMINE_SCRIPT=name cargo test --test all conformance:: -- --nocapture` prints what happens in the scripts with that
//! name.

mod script;
mod serial;
mod verdict;

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Duration};

use ermine::{
    Abort, Database, Error, IndexKind, IndexOptions, Options, Result, Scan, Scheme, SecondaryIndex, Table,
    TableOptions, Transaction, TxnOptions, Uniqueness,
};

use script::{Bounds, IndexSpec, Op, Range, Script};
use serial::{State, done, exists, none, render};
use verdict::{End, Run};

#[test]
fn read_committed_gives_its_verdicts() {
    every_script(Scheme::Rc);
}

#[test]
fn snapshot_isolation_gives_its_verdicts() {
    every_script(Scheme::Si);
}

#[test]
fn snapshot_isolation_with_the_safety_net_gives_its_verdicts() {
    every_script(Scheme::SiSsn);
}

#[test]
fn read_committed_with_the_safety_net_gives_its_verdicts() {
    every_script(Scheme::RcSsn);
}

#[test]
fn serializable_snapshot_isolation_gives_its_verdicts() {
    every_script(Scheme::SiSsi);
}

#[test]
fn read_validation_gives_its_verdicts() {
    every_script(Scheme::MvOcc);
}

#[test]
fn silo_gives_its_verdicts() {
    every_script(Scheme::Silo);
}

#[test]
fn two_phase_locking_gives_its_verdicts() {
    every_script(Scheme::TwoPhaseNoWait);
    every_script(Scheme::TwoPhaseWaitDie);
    every_script(Scheme::TwoPhaseWdl);
}

#[test]
fn serial_execution_gives_its_verdicts() {
    every_script(Scheme::Serial);
    every_script(Scheme::Vll);
    every_script(Scheme::Partitioned);
}

#[test]
fn timestamp_ordering_gives_its_verdicts() {
    every_script(Scheme::Sto);
    every_script(Scheme::Sto32);
    every_script(Scheme::Tso);
    every_script(Scheme::TsoValidate);
}

fn every_script(scheme: Scheme) {
    let scripts = script::load(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/anomalies"));
    assert!(scripts.len() >= 40, "only {} scripts found", scripts.len());
    let wanted = std::env::var("ERMINE_SCRIPT").unwrap_or_default();
    let mut failures = String::new();
    let wanted_scripts = scripts.iter().filter(|script| script.name.contains(&wanted));
    for (script, kind) in wanted_scripts.flat_map(|script| [(script, IndexKind::BTree), (script, IndexKind::Art)]) {
        let run = play(script, scheme, kind);
        let faults = run.faults(script, scheme.name());
        if !wanted.is_empty() {
            println!("{}", run.trace(script, scheme.name()));
        }
        for fault in &faults {
            writeln!(failures, "{} under {scheme} with {kind:?}: {fault}", script.name).unwrap();
        }
        if !faults.is_empty() {
            writeln!(failures, "{}", run.trace(script, scheme.name())).unwrap();
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

type ByValue = SecondaryIndex<i64, String, i64>;

/// The tables of a script in a database.
struct Store {
    tables: Vec<(Table<String, i64>, Option<ByValue>)>,
}

impl Store {
    fn create(database: &Database, script: &Script, kind: IndexKind) -> Result<Self> {
        let mut tables = Vec::new();
        for spec in &script.tables {
            let table = database.table_with::<String, i64>(&spec.name, TableOptions::default().index(kind))?;
            let uniqueness = match spec.index {
                IndexSpec::None => None,
                IndexSpec::ByValue => Some(Uniqueness::NonUnique),
                IndexSpec::UniqueByValue => Some(Uniqueness::Unique),
            };
            let index = uniqueness.map(|uniqueness| {
                database.index_with(&table, "by value", IndexOptions::new(uniqueness).kind(kind), |_, value| value)
            });
            tables.push((table, index.transpose()?));
        }
        let txn = database.begin(TxnOptions::default())?;
        for ((table, _), spec) in tables.iter().zip(&script.tables) {
            for (key, value) in &spec.rows {
                txn.insert(table, key, value)?;
            }
        }
        txn.commit()?;
        Ok(Self { tables })
    }

    /// Runs one operation of a transaction and returns its outcome, in the words of the scripts.
    fn run(&self, txn: &Transaction<'_>, op: &Op) -> Result<String> {
        let found = |found: bool| if found { done() } else { none() };
        let outcome = match op {
            Op::Begin { .. } | Op::Commit | Op::Rollback => unreachable!("handled by the runner"),
            Op::Get { table, key } => {
                txn.get(&self.tables[*table].0, key).map(|value| value.map_or_else(none, |value| value.to_string()))
            }
            Op::Scan(range) => self.scan(txn, range).map(|rows| render(&rows)),
            Op::Insert { table, key, value } => txn.insert(&self.tables[*table].0, key, value).map(|()| done()),
            Op::Update { table, key, value } => txn.update(&self.tables[*table].0, key, value).map(found),
            Op::Put { table, key, value } => txn.put(&self.tables[*table].0, key, value).map(|()| done()),
            Op::Delete { table, key } => txn.delete(&self.tables[*table].0, key).map(found),
        };
        match outcome {
            Err(Error::KeyExists { .. }) => Ok(exists()),
            other => other,
        }
    }

    fn scan(&self, txn: &Transaction<'_>, range: &Range) -> Result<Vec<(String, i64)>> {
        let (table, index) = &self.tables[range.table];
        let scan = match &range.bounds {
            Bounds::Keys(lower, upper) => txn.scan(table, (lower.clone(), upper.clone())),
            Bounds::Values(lower, upper) => {
                txn.scan_by(index.as_ref().expect("the script's table has an index"), (*lower, *upper))
            }
        };
        let scan = if range.backward { scan.rev() } else { scan };
        range.limit.into_iter().fold(scan, Scan::limit).collect()
    }

    /// Returns all current rows; the secondary index must show the same ones.
    fn state(&self, database: &Database) -> State {
        let txn = database.begin(TxnOptions::read_only()).unwrap();
        let tables = self.tables.iter().map(|(table, index)| {
            let rows: BTreeMap<_, _> = txn.scan(table, ..).collect().unwrap().into_iter().collect();
            if let Some(index) = index {
                let through_index: BTreeMap<_, _> = txn.scan_by(index, ..).collect().unwrap().into_iter().collect();
                assert_eq!(through_index, rows, "the index of {} shows other rows than the table", table.name());
            }
            rows
        });
        tables.collect()
    }
}

/// Plays a script on a fresh database.
fn play(script: &Script, scheme: Scheme, kind: IndexKind) -> Run {
    // One thread drives all transactions of a script: none can wait for another.
    let options = Options::default().scheme(scheme).wait_max(Duration::ZERO);
    let database = Database::open_in_memory(options).unwrap();
    let store = Store::create(&database, script, kind).unwrap();
    let mut open: Vec<Option<Transaction<'_>>> = script.transactions.iter().map(|_| None).collect();
    let mut ends: Vec<Option<End>> = vec![None; open.len()];
    let mut aborts: Vec<Option<Abort>> = vec![None; open.len()];
    let mut outcomes = Vec::new();
    let mut faults = Vec::new();
    for step in &script.steps {
        let (slot, end) = (&mut open[step.transaction], &mut ends[step.transaction]);
        let first = &mut aborts[step.transaction];
        if slot.is_none() && end.is_none() && first.is_none() {
            let read_only = matches!(step.op, Op::Begin { read_only: true });
            let options = if read_only { TxnOptions::read_only() } else { TxnOptions::default() };
            match database.begin(options) {
                Ok(txn) => *slot = Some(txn),
                Err(Error::Abort(abort)) => *first = Some(*abort),
                Err(error) => panic!("{}, line {}: {error}", script.name, step.line),
            }
        }
        if slot.is_none() && first.is_some() {
            outcomes.push(None);
            continue;
        }
        let outcome = match (&step.op, slot.as_ref()) {
            (Op::Begin { .. }, Some(_)) => Ok(done()),
            (Op::Commit, Some(_)) => slot.take().unwrap().commit().map(|_| {
                *end = Some(End::Committed);
                done()
            }),
            (Op::Rollback, Some(_)) => {
                slot.take().unwrap().rollback();
                *end = Some(End::RolledBack);
                Ok(done())
            }
            (op, Some(txn)) => store.run(txn, op),
            (_, None) => panic!("{}, line {}: the transaction has ended", script.name, step.line),
        };
        outcomes.push(first.is_none().then(|| match &outcome {
            Ok(outcome) => Ok(outcome.clone()),
            Err(Error::Abort(abort)) => Err(abort.kind.name().to_owned()),
            Err(error) => panic!("{}, line {}: {error}", script.name, step.line),
        }));
        match (outcome, &first) {
            (Ok(_), None) => {}
            (Ok(_), Some(_)) if step.op == Op::Rollback => {}
            (Err(Error::Abort(abort)), Some(first)) if *abort == *first => {}
            (Err(Error::Abort(abort)), None) => *first = Some(*abort),
            (outcome, Some(first)) => {
                faults.push(format!("line {}: after {first:?} came {outcome:?}", step.line));
            }
            (Err(error), None) => panic!("{}, line {}: {error}", script.name, step.line),
        }
    }
    drop(open);
    let state = store.state(&database);
    let ended = |(end, abort): (Option<End>, Option<Abort>)| match abort {
        Some(abort) => End::Aborted(abort.kind.name().to_owned()),
        None => end.expect("the parser saw to it"),
    };
    let ends = ends.into_iter().zip(aborts).map(ended).collect();
    Run { outcomes, ends, state, faults }
}

/// The judge and the parser against known histories.
mod judge {
    use super::{
        serial::{Committed, Serial, serial_order},
        *,
    };

    fn history(script: &Script, transaction: &str, outcomes: &[&str]) -> Committed {
        let transaction = script.transactions.iter().position(|name| name == transaction).unwrap();
        let steps = script.steps.iter().filter(|step| step.transaction == transaction);
        steps.zip(outcomes).map(|(step, outcome)| (step.op.clone(), (*outcome).to_owned())).collect()
    }

    #[test]
    fn finds_the_serial_order_and_only_that() {
        let text = "table t\n  x = 1\n\nT1 | T2\nget x = 1 |\n | put x 2\n | commit\ncommit |\nsi accepts\n";
        let [script] = &script::parse("text", text)[..] else { panic!("one variant") };
        let start = Serial::new(&script.tables);
        let end = vec![BTreeMap::from([("x".to_owned(), 2)])];
        let order = |seen: &str, end: &State| {
            let histories = [history(script, "T1", &[seen, "done"]), history(script, "T2", &["done", "done"])];
            serial_order(&start, &histories, &|_, _| false, end)
        };
        assert_eq!(order("1", &end), Some(vec![0, 1]));
        assert_eq!(order("2", &end), Some(vec![1, 0]));
        assert_eq!(order("3", &end), None, "a value that no transaction wrote");
        let histories = [history(script, "T1", &["1", "done"]), history(script, "T2", &["done", "done"])];
        let second_first = |one, other| (one, other) == (1, 0);
        assert_eq!(
            serial_order(&start, &histories, &second_first, &end),
            None,
            "an order that does not agree with time"
        );
        assert_eq!(order("1", &start.state), None, "a write that is gone at the end");
    }

    #[test]
    fn sees_write_skew() {
        let text =
            "table t\n x = 0\n y = 0\nT1 | T2\nget x = 0 |\n | get y = 0\nput y 1 |\n | put x 1\ncommit |\n | commit";
        let [script] = &script::parse("text", text)[..] else { panic!("one variant") };
        let histories = ["T1", "T2"].map(|name| history(script, name, &["0", "done", "done"]));
        let end = vec![BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 1)])];
        assert_eq!(serial_order(&Serial::new(&script.tables), &histories, &|_, _| false, &end), None);
        assert!(
            serial_order(
                &Serial::new(&script.tables),
                &histories[..1],
                &|_, _| false,
                &vec![BTreeMap::from([("x".to_owned(), 0), ("y".to_owned(), 1)])]
            )
            .is_some()
        );
    }

    #[test]
    fn replays_scans_unique_keys_and_refusals() {
        let text = "table t, unique by value\n a = 1\n c = 3\nT1 | T2\nscan all = x | commit\ninsert b 3 = exists |\n\
            insert a 5 = exists |\nupdate z 1 = none |\nupdate a 4 |\nscan by value 3.. backward = x |\n\
            scan a..c limit 1 = x |\ndelete q = none |\ncommit |\n";
        let [script] = &script::parse("text", text)[..] else { panic!("one variant") };
        let mut serial = Serial::new(&script.tables);
        let steps = script.steps.iter().filter(|step| step.transaction == 0);
        let outcomes: Vec<_> = steps.map(|step| serial.run(&step.op)).collect();
        assert_eq!(outcomes, ["a:1 c:3", "exists", "exists", "none", "done", "a:4 c:3", "a:4", "none", "done"]);
    }

    #[test]
    fn a_variant_line_makes_one_script_a_choice() {
        let text =
            "table t, indexed by value\nlet SEE = scan all, scan by value 1..9\nT1 | T2\nSEE = none | commit\ncommit |";
        let scripts = script::parse("text", text);
        assert_eq!(
            scripts.iter().map(|script| script.name.as_str()).collect::<Vec<_>>(),
            ["text [scan all]", "text [scan by value 1..9]"]
        );
        assert_ne!(scripts[0].steps[0].op, scripts[1].steps[0].op);
    }

    #[test]
    #[should_panic(expected = "text, line 4: unknown operation `jump x`")]
    fn a_mistake_in_a_script_names_its_line() {
        script::parse("text", "table t\n x = 0\nT1 | T2\njump x | commit\n");
    }
}
