//! Goal: every scheme permits exactly the anomalies it is known to permit, and prevents the others.
//!
//! Method: `scripts/anomalies/*.txt` are interleavings as data, each with a verdict a scheme. A script runs on one
//! thread, step by step in the order written, against a fresh database; since nothing in the engine waits for an
//! application, no step blocks. What committed is then given to a judge that knows only the definition ([`serial`]):
//! `permits` means that everything committed and *no* serial order explains it, `accepts` that everything committed and
//! one does, `prevents` that one explains what committed, and that something did.
//!
//! `ERMINE_SCRIPT=name cargo test --test conformance -- --nocapture` prints what happens in the scripts so named.

mod script;
mod serial;

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf, time::Duration};

use ermine::{
    Abort, AbortKind, Database, Error, IndexKind, Options, Result, Scan, Scheme, SecondaryIndex, Table, TableOptions,
    Transaction, TxnOptions, Uniqueness,
};

use script::{Bounds, Claim, Class, Expect, IndexSpec, Op, Range, Script, Step};
use serial::{Committed, Serial, State, done, exists, none, render, serial_order};

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
        let run = Run::of(script, scheme, kind);
        let faults = run.faults(script, scheme);
        if !wanted.is_empty() {
            println!("{}", run.trace(script, scheme));
        }
        for fault in &faults {
            writeln!(failures, "{} under {scheme} with {kind:?}: {fault}", script.name).unwrap();
        }
        if !faults.is_empty() {
            writeln!(failures, "{}", run.trace(script, scheme)).unwrap();
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
            let index = uniqueness
                .map(|uniqueness| database.index_with(&table, "by value", uniqueness, kind, |_, value| value));
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

    /// Runs one operation of a transaction and says what came of it, in the words of the scripts.
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

    /// All rows now; the secondary index must show the same ones.
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

/// How a transaction of a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Committed,
    RolledBack,
    Aborted(Abort),
}

/// What happened in one run of a script.
struct Run {
    /// Of every step, in order; `None` where the transaction had aborted before.
    outcomes: Vec<Option<Result<String, AbortKind>>>,
    ends: Vec<End>,
    state: State,
    /// Broken rules noticed on the way.
    faults: Vec<String>,
}

impl Run {
    fn of(script: &Script, scheme: Scheme, kind: IndexKind) -> Self {
        // All transactions of a script are one thread's: none can wait for another.
        let options = Options::default().scheme(scheme).wait_max(Duration::ZERO);
        let database = Database::open_in_memory(options).unwrap();
        let store = Store::create(&database, script, kind).unwrap();
        let mut open: Vec<Option<Transaction<'_>>> = script.transactions.iter().map(|_| None).collect();
        let mut ends: Vec<Option<End>> = vec![None; open.len()];
        let mut outcomes = Vec::new();
        let mut faults = Vec::new();
        for step in &script.steps {
            let (slot, end) = (&mut open[step.transaction], &mut ends[step.transaction]);
            if slot.is_none() && end.is_none() {
                let read_only = matches!(step.op, Op::Begin { read_only: true });
                let options = if read_only { TxnOptions::read_only() } else { TxnOptions::default() };
                match database.begin(options) {
                    Ok(txn) => *slot = Some(txn),
                    Err(Error::Abort(abort)) => *end = Some(End::Aborted(*abort)),
                    Err(error) => panic!("{}, line {}: {error}", script.name, step.line),
                }
            }
            if slot.is_none() && matches!(end, Some(End::Aborted(_))) {
                outcomes.push(None);
                continue;
            }
            let outcome = match (&step.op, slot.as_ref()) {
                (Op::Begin { .. }, Some(_)) => Ok(done()),
                (Op::Commit, Some(_)) => slot.take().unwrap().commit().map(|_| {
                    end.get_or_insert(End::Committed);
                    done()
                }),
                (Op::Rollback, Some(_)) => {
                    slot.take().unwrap().rollback();
                    end.get_or_insert(End::RolledBack);
                    Ok(done())
                }
                (op, Some(txn)) => store.run(txn, op),
                (_, None) => panic!("{}, line {}: the transaction has ended", script.name, step.line),
            };
            let doomed = matches!(end, Some(End::Aborted(_)));
            outcomes.push((!doomed).then(|| match &outcome {
                Ok(outcome) => Ok(outcome.clone()),
                Err(Error::Abort(abort)) => Err(abort.kind),
                Err(error) => panic!("{}, line {}: {error}", script.name, step.line),
            }));
            match (outcome, &end) {
                (Err(Error::Abort(abort)), Some(End::Aborted(first))) if *abort == *first => {}
                (Err(Error::Abort(abort)), None) => *end = Some(End::Aborted(*abort)),
                (Ok(_), None | Some(End::Committed | End::RolledBack)) => {}
                (Ok(_), Some(End::Aborted(_))) if step.op == Op::Rollback => {}
                (outcome, Some(first)) => {
                    faults.push(format!("line {}: after {first:?} came {outcome:?}", step.line));
                }
                (Err(error), None) => panic!("{}, line {}: {error}", script.name, step.line),
            }
        }
        drop(open);
        let state = store.state(&database);
        let ends = ends.into_iter().map(|end| end.expect("the parser saw to it")).collect();
        Self { outcomes, ends, state, faults }
    }

    /// Everything in which the run differs from the script.
    fn faults(&self, script: &Script, scheme: Scheme) -> Vec<String> {
        let mut faults = self.faults.clone();
        let named = script.verdicts.get(scheme.name());
        let Some(verdict) = named.or_else(|| script.verdicts.get("others")) else {
            return vec![format!("the script has no verdict for {scheme}")];
        };
        let mut observed = BTreeMap::new();
        for (step, outcome) in script.steps.iter().zip(&self.outcomes) {
            let Some(Ok(outcome)) = outcome else { continue };
            let expected = match &step.expect {
                Expect::Done => "done",
                Expect::Is(expected) => expected,
                Expect::Named(name) => {
                    observed.insert(name.as_str(), outcome.as_str());
                    continue;
                }
            };
            // Who is locked out by somebody who rolls back later is not there: outcomes are the judge's matter then.
            if expected != outcome && named.is_some() {
                faults.push(format!("line {}: expected {expected}, got {outcome}", step.line));
            }
        }
        let name = |transaction: usize| &script.transactions[transaction];
        let aborted = |transaction: usize| matches!(self.ends[transaction], End::Aborted(_));
        for claim in &verdict.claims {
            match claim {
                Claim::Commits(transaction) if self.ends[*transaction] != End::Committed => {
                    faults.push(format!("{} should commit: {:?}", name(*transaction), self.ends[*transaction]));
                }
                Claim::Aborts(transaction, kind) => match &self.ends[*transaction] {
                    End::Aborted(abort) if kind.as_ref().is_none_or(|kind| kind == abort.kind.name()) => {}
                    end => faults.push(format!("{} should abort {kind:?}: {end:?}", name(*transaction))),
                },
                Claim::OneAborts(group) if !group.iter().any(|&transaction| aborted(transaction)) => {
                    faults.push(format!("{claim:?}, but none does"));
                }
                Claim::Observed(what, expected) => match observed.get(what.as_str()) {
                    // An operation that aborted observed nothing; the class says whether it was allowed to.
                    None => {}
                    Some(outcome) if outcome == expected => {}
                    Some(outcome) => faults.push(format!("expected {what} = {expected}, got {outcome}")),
                },
                Claim::Commits(_) | Claim::OneAborts(_) => {}
            }
        }
        if verdict.class != Class::Prevents {
            for transaction in (0..self.ends.len()).filter(|&transaction| aborted(transaction)) {
                faults.push(format!("{} aborts: {:?}", name(transaction), self.ends[transaction]));
            }
        }
        let gave_way = named.is_none() && self.ends.contains(&End::RolledBack);
        if !self.ends.contains(&End::Committed) && !gave_way {
            faults.push("nothing commits".to_owned());
        }
        match (verdict.class, self.serial_order(script)) {
            (Class::Permits, Some(order)) => faults.push(format!("should show the anomaly, but is serial as {order}")),
            (Class::Prevents | Class::Accepts, None) => faults.push("no serial order explains it".to_owned()),
            _ => {}
        }
        faults
    }

    /// A serial order of what committed, by the transactions' names.
    fn serial_order(&self, script: &Script) -> Option<String> {
        let committed: Vec<_> = (0..self.ends.len()).filter(|&t| self.ends[t] == End::Committed).collect();
        let histories: Vec<Committed> =
            committed.iter().map(|&transaction| self.history(script, transaction)).collect();
        let order = serial_order(&Serial::new(&script.tables), &histories, &self.state)?;
        let names: Vec<_> = order.into_iter().map(|at| script.transactions[committed[at]].as_str()).collect();
        Some(names.join(" "))
    }

    fn history(&self, script: &Script, transaction: usize) -> Committed {
        let steps = script.steps.iter().zip(&self.outcomes).filter(|(step, _)| step.transaction == transaction);
        steps.filter_map(|(step, outcome)| Some((step.op.clone(), outcome.clone()?.ok()?))).collect()
    }

    /// The schedule with what came of every step.
    fn trace(&self, script: &Script, scheme: Scheme) -> String {
        let mut text = format!("  {} under {scheme}\n", script.name);
        for (Step { transaction, line, op, .. }, outcome) in script.steps.iter().zip(&self.outcomes) {
            let outcome = match outcome {
                Some(Ok(outcome)) => outcome.clone(),
                Some(Err(kind)) => format!("abort, {}", kind.name()),
                None => "(aborted before)".to_owned(),
            };
            writeln!(text, "  {line:4}  {:8} {op} -> {outcome}", script.transactions[*transaction]).unwrap();
        }
        let order = self.serial_order(script).unwrap_or_else(|| "none".to_owned());
        writeln!(text, "        serial order: {order}; rows at the end: {:?}", self.state).unwrap();
        text
    }
}

/// The judge and the parser against histories that are known.
mod judge {
    use super::*;

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
            serial_order(&start, &histories, end)
        };
        assert_eq!(order("1", &end), Some(vec![0, 1]));
        assert_eq!(order("2", &end), Some(vec![1, 0]));
        assert_eq!(order("3", &end), None, "a value that nobody wrote");
        assert_eq!(order("1", &start.state), None, "a write that is gone at the end");
    }

    #[test]
    fn sees_write_skew() {
        let text =
            "table t\n x = 0\n y = 0\nT1 | T2\nget x = 0 |\n | get y = 0\nput y 1 |\n | put x 1\ncommit |\n | commit";
        let [script] = &script::parse("text", text)[..] else { panic!("one variant") };
        let histories = ["T1", "T2"].map(|name| history(script, name, &["0", "done", "done"]));
        let end = vec![BTreeMap::from([("x".to_owned(), 1), ("y".to_owned(), 1)])];
        assert_eq!(serial_order(&Serial::new(&script.tables), &histories, &end), None);
        assert!(
            serial_order(
                &Serial::new(&script.tables),
                &histories[..1],
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
