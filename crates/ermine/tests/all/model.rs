//! Goal: every operation does what a map would do, alone and between others, and the committed transactions of a
//! serializable scheme are serializable.
//!
//! Method: random operations from a printed seed on one thread, with one session or several that are interleaved step
//! by step. A reference of a few maps predicts every outcome: each read exactly, each conflict as exactly as the rules
//! state it (first updater wins; where two rules apply at once, either outcome is allowed). The committed transactions
//! are then judged by their serialization graph ([`history::graph`]). Under `si` and `rc` the same hunt must find the
//! cycles that these schemes permit: that proves the judge.
//!
//! `ERMINE_TEST_SEED=n` runs the one history of a failure again and prints its steps, `ERMINE_TEST_SECONDS=n` hunts for
//! n seconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ermine::{AbortKind, Isolation, Scheme, files::Directory};
use ermine_testing::faulty::FaultyDirectory;
use fastrand::Rng;

use crate::history::{
    self, NameSeed, Operation, Outcome, Record, Session, Shape, State, Store, Through,
    graph::{History, Verdict},
    group_of,
};

#[test]
fn one_session_behaves_like_a_map() {
    for scheme in Scheme::ALL {
        hunt(1.0, 1, |rng| {
            let shape = Shape { operations: 40, ..Shape::random(rng) };
            let found = play(rng, scheme, shape, 1, 30);
            assert_eq!(found.aborts, 0, "nothing runs beside it, and still {:?}", found.abort_kinds);
        });
    }
}

#[test]
fn one_session_behaves_like_a_map_over_many_leaves() {
    for scheme in Scheme::ALL {
        hunt(1.0, 1, |rng| {
            let keys = (0..rng.u64(100..2000)).map(|key| key * 7).collect();
            let shape = Shape {
                tables: 2,
                keys,
                fillers: Vec::new(),
                groups: rng.u64(2..200),
                unique: false,
                operations: 60,
                ..Shape::random(rng)
            };
            let found = play(rng, scheme, shape, 1, 60);
            assert_eq!(found.aborts, 0, "nothing runs beside it, and still {:?}", found.abort_kinds);
        });
    }
}

#[test]
fn sessions_between_each_other_behave_as_predicted_under_read_committed() {
    let found = hunt_interleaved(Scheme::Rc);
    assert!(found.cycles > 0 && found.singles > 0, "the judge must find what read committed permits: {found:?}");
}

#[test]
fn sessions_between_each_other_behave_as_predicted_under_snapshot_isolation() {
    let found = hunt_interleaved(Scheme::Si);
    assert!(found.cycles > 0, "the judge must find what snapshot isolation permits: {found:?}");
    assert_eq!(found.singles, 0, "checked history by history as well");
}

#[test]
fn sessions_between_each_other_are_serializable_under_the_safety_net() {
    hunt_serializable(Scheme::SiSsn, AbortKind::Exclusion);
}

#[test]
fn sessions_between_each_other_are_serializable_under_the_safety_net_over_read_committed() {
    hunt_serializable(Scheme::RcSsn, AbortKind::Exclusion);
}

#[test]
fn sessions_between_each_other_are_serializable_under_serializable_snapshot_isolation() {
    hunt_serializable(Scheme::SiSsi, AbortKind::DangerousStructure);
}

#[test]
fn sessions_between_each_other_are_serializable_under_read_validation() {
    hunt_serializable(Scheme::MvOcc, AbortKind::StaleRead);
}

/// `kind` is the conflict that only the scheme's certifier finds.
fn hunt_serializable(scheme: Scheme, kind: AbortKind) {
    let found = hunt_interleaved(scheme);
    assert_eq!(found.cycles, 0, "checked history by history as well");
    assert!(found.commits > found.aborts / 4, "nearly everything is refused: {found:?}");
    let mut kinds = BTreeSet::from([AbortKind::WriteConflict, kind]);
    // The other schemes weigh the rows inserted into a range; only while several transactions commit at once they
    // cannot.
    kinds.extend([Scheme::RcSsn, Scheme::MvOcc].contains(&scheme).then_some(AbortKind::Phantom));
    assert_eq!(found.abort_kinds, kinds, "the kinds of conflict met");
}

/// The rules that eviction rests on:
/// `RUSTFLAGS="--cfg ermine_mutants" cargo test -p ermine --test all a_fault -- --test-threads 1`.
#[cfg(ermine_mutants)]
#[test]
fn a_fault_of_eviction_on_purpose_is_found() {
    use ermine::mutant::Mutant;
    for (mutant, scheme) in [
        (Mutant::EvictedEarly, Scheme::SiSsn),
        (Mutant::UncachedUntold, Scheme::RcSsn),
        (Mutant::UncachedUntold, Scheme::SiSsn),
        (Mutant::UncachedUntold, Scheme::SiSsi),
    ] {
        let (began, mut histories) = (Instant::now(), 0);
        Mutant::choose(Some(mutant));
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while histories < 20_000 {
                histories += 1;
                let rng = &mut Rng::with_seed(histories);
                let shape = Shape::random(rng);
                play(rng, scheme, shape, 3, 200);
            }
        }));
        Mutant::choose(None);
        assert!(found.is_err(), "{mutant:?} was not found under {scheme}");
        println!("{mutant:?} under {scheme}: found in history {histories}, {:.1?}", began.elapsed());
    }
}

/// The events that a hunt has met.
#[derive(Clone, Debug, Default)]
struct Found {
    histories: usize,
    commits: usize,
    aborts: usize,
    abort_kinds: BTreeSet<AbortKind>,
    cycles: usize,
    singles: usize,
    evicted: u64,
}

/// Histories after which every kind of event has been met.
const HISTORIES_MIN: usize = 500;

/// Calls `one` with new random numbers until the time is up, but at least `least` times, however slow the machine is;
/// or once with the seed that was asked for.
fn hunt(otherwise: f64, least: usize, mut one: impl FnMut(&mut Rng)) {
    let end = Instant::now() + history::seconds(otherwise);
    for number in 1.. {
        let seed = history::seed();
        let on_failure = NameSeed(seed);
        one(&mut Rng::with_seed(seed));
        drop(on_failure);
        if history::one_seed() || (number >= least && Instant::now() >= end) {
            return;
        }
    }
}

fn hunt_interleaved(scheme: Scheme) -> Found {
    let mut all = Found::default();
    hunt(2.0, HISTORIES_MIN, |rng| {
        let shape = Shape::random(rng);
        let sessions = rng.usize(2..=4);
        // Long histories as well: the effects of pruning, and of what it leaves behind, show only there.
        let transactions = if rng.u8(..8) == 0 { 1000 } else { 60 };
        let found = play(rng, scheme, shape, sessions, transactions);
        all.histories += 1;
        all.commits += found.commits;
        all.aborts += found.aborts;
        all.abort_kinds.extend(found.abort_kinds);
        all.cycles += found.cycles;
        all.singles += found.singles;
        all.evicted += found.evicted;
    });
    eprintln!("{scheme}: {all:?}");
    assert!(all.evicted > 1000, "rows leave memory: {all:?}");
    all
}

/// Plays and judges one history of `transactions` transactions by `sessions` sessions.
fn play(rng: &mut Rng, scheme: Scheme, shape: Shape, sessions: usize, transactions: usize) -> Found {
    let trace = history::one_seed();
    let initial = shape.initial(rng);
    if trace {
        eprintln!("{scheme}, {sessions} sessions, {shape:?}, {initial:?}");
    }
    // Rows leave memory and come back between the steps.
    let is_cold = scheme.has_versions() && rng.u8(..3) == 0;
    let directory = is_cold.then(|| Arc::new(FaultyDirectory::new()) as Arc<dyn Directory>);
    let store = Store::create(scheme, &shape, &initial, Duration::ZERO, directory, false);
    let mut reference = Reference::new(scheme, &shape, &initial);
    let mut open: Vec<Option<Open<'_>>> = (0..sessions).map(|_| None).collect();
    let mut records = Vec::new();
    let mut found = Found::default();
    let (mut begun, mut number) = (0, 1 << 32);
    while begun < transactions || open.iter().any(Option::is_some) {
        if is_cold && rng.u8(..3) == 0 {
            store.database.sync().unwrap();
            let rows = rng.u64(..);
            found.evicted += store.database.evict(|row| rows >> (row % 64) & 1 == 0);
        }
        let at = rng.usize(..sessions);
        if open[at].as_ref().is_some_and(|running| running.slow) && rng.u8(..32) > 0 {
            continue;
        }
        let Some(running) = &mut open[at] else {
            if begun < transactions {
                let mut options = history::random_options(rng, scheme);
                if options.snapshot {
                    // The reference does not model snapshots that are handed out again.
                    options.order = None;
                }
                let (read_only, snapshot) = (options.read_only, options.snapshot);
                let relaxed = options.isolation == Isolation::Snapshot && scheme.has_versions();
                let left = rng.usize(1..=shape.operations);
                let slow = rng.u8(..16) == 0;
                open[at] = Some(Open { session: Session::begin(&store, (at, begun), options), read_only, slow, left });
                reference.begin(at, snapshot, relaxed);
                begun += 1;
                if trace {
                    eprintln!("session {at}: begins");
                }
            }
            continue;
        };
        number += 1;
        if running.left > 0 {
            running.left -= 1;
            let operation = Operation::random(rng, &shape, running.read_only, number);
            let outcome = running.session.apply(&operation);
            if trace {
                eprintln!("session {at}: {operation:?} -> {outcome:?}");
            }
            if running.session.aborted.is_none() || !reference.is_over(at) {
                reference.check(at, &operation, &outcome);
            }
            continue;
        }
        let Open { session, .. } = open[at].take().expect("looked at above");
        let aborted = session.aborted.is_some();
        if rng.u8(..10) == 0 {
            if trace {
                eprintln!("session {at}: rolls back");
            }
            session.rollback(rng.bool());
            reference.end(at, false);
            continue;
        }
        let committed = session.commit();
        if trace {
            eprintln!("session {at}: commits -> {:?}", committed.1);
        }
        match committed {
            (record, Ok(())) => {
                reference.end(at, true);
                found.commits += 1;
                records.push(record);
            }
            (_, Err(abort)) => {
                assert!(aborted || scheme.is_serializable(), "only a certifier aborts a commit: {abort:?}");
                reference.end(at, false);
                found.aborts += 1;
                found.abort_kinds.insert(abort.kind);
            }
        }
    }
    assert_eq!(store.state(), reference.state(), "the rows at the end");
    judge(scheme, &initial, &records, &store.state(), &mut found);
    found
}

/// A running transaction of [`play`].
struct Open<'s> {
    session: Session<'s>,
    read_only: bool,
    /// Whether it takes its turn rarely, so that many others commit meanwhile.
    slow: bool,
    /// How many operations it has left to do.
    left: usize,
}

fn judge(scheme: Scheme, initial: &State, records: &[Record], end: &State, found: &mut Found) {
    let history = History::new(initial, records, scheme);
    assert_eq!(history.last_rows(initial), *end, "the order of stamps is the order of versions");
    let Verdict { information_flow, single, cycle } = history.judge().unwrap_or_else(|why| panic!("{why}"));
    if let Some(cycle) = information_flow {
        panic!("an effect before its cause under {scheme}:{}", history.explain(&cycle));
    }
    if let (Some(cycle), true) = (&single, scheme.reads_snapshot()) {
        panic!("no snapshot under {scheme}:{}", history.explain(cycle));
    }
    if let (Some(cycle), true) = (&cycle, scheme.is_serializable()) {
        panic!("not serializable under {scheme}:{}", history.explain(cycle));
    }
    found.singles += usize::from(single.is_some());
    found.cycles += usize::from(cycle.is_some());
}

/// Place in the order of commits, and value or tombstone.
type Version = (usize, Option<u64>);

/// Multi-version maps that predict the engine's outcomes.
struct Reference {
    scheme: Scheme,
    /// The table whose index is unique.
    unique: Option<usize>,
    /// Committed versions of every key, oldest first, each with its place in the order of commits.
    tables: Vec<BTreeMap<u64, Vec<Version>>>,
    commits: usize,
    running: BTreeMap<usize, Running>,
}

#[derive(Default)]
struct Running {
    /// How many commits the transaction sees, if that is fixed.
    snapshot: usize,
    fixed: bool,
    own: BTreeMap<(usize, u64), Option<u64>>,
    /// A copy of `own` at each savepoint.
    marks: Vec<BTreeMap<(usize, u64), Option<u64>>>,
    /// Whether the transaction asked for snapshot isolation only.
    relaxed: bool,
    /// All (table, key, group) that the transaction ever wrote.
    claimed: BTreeSet<(usize, u64, u64)>,
    over: bool,
}

/// The outcomes that are allowed for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Allowed {
    written: bool,
    missing: bool,
    exists: bool,
    taken: bool,
    conflict: bool,
}

impl Reference {
    fn new(scheme: Scheme, shape: &Shape, initial: &State) -> Self {
        let version = |(&key, &value): (&u64, &u64)| (key, vec![(0, Some(value))]);
        Self {
            scheme,
            unique: (0..shape.tables).find(|&table| shape.is_unique(table)),
            tables: initial.iter().map(|rows| rows.iter().map(version).collect()).collect(),
            commits: 0,
            running: BTreeMap::new(),
        }
    }

    fn state(&self) -> State {
        let newest = |versions: &Vec<Version>| versions.last().unwrap().1;
        let rows = |table: &BTreeMap<u64, Vec<_>>| table.iter().filter_map(|(&k, v)| Some((k, newest(v)?))).collect();
        self.tables.iter().map(rows).collect()
    }

    fn begin(&mut self, session: usize, fixed: bool, relaxed: bool) {
        let fixed = fixed || relaxed || self.scheme.reads_snapshot();
        self.running.insert(session, Running { snapshot: self.commits, fixed, relaxed, ..Running::default() });
    }

    fn is_over(&self, session: usize) -> bool {
        self.running[&session].over
    }

    fn end(&mut self, session: usize, committed: bool) {
        let running = self.running.remove(&session).expect("it was begun");
        if committed {
            assert!(!running.over, "it had aborted before");
            self.commits += 1;
            for ((table, key), value) in running.own {
                self.tables[table].entry(key).or_default().push((self.commits, value));
            }
        }
    }

    fn visible(&self, session: usize, table: usize, key: u64) -> Option<u64> {
        let running = &self.running[&session];
        if let Some(&own) = running.own.get(&(table, key)) {
            return own;
        }
        let sees = |&&(place, _): &&(usize, _)| !running.fixed || place <= running.snapshot;
        self.tables[table].get(&key)?.iter().rev().find(sees)?.1
    }

    /// Whether another transaction has the row in flight, or has committed it since the snapshot.
    fn contested(&self, session: usize, table: usize, key: u64) -> bool {
        let place = (table, key);
        let mut others = self.running.iter().filter(|(other, _)| **other != session);
        others.any(|(_, running)| running.own.contains_key(&place))
            || !self.running[&session].own.contains_key(&place) && self.is_newer(session, table, key, |_| true)
    }

    /// Whether a version that was committed after the snapshot passes `test`.
    fn is_newer(&self, session: usize, table: usize, key: u64, test: impl Fn(Option<u64>) -> bool) -> bool {
        let snapshot = self.running[&session].snapshot;
        let mut newer = self.tables[table].get(&key).into_iter().flatten().filter(|(place, _)| *place > snapshot);
        self.running[&session].fixed && newer.any(|&(_, value)| test(value))
    }

    /// Compares an outcome with the allowed outcomes of the operation, and records its effects.
    fn check(&mut self, session: usize, operation: &Operation, outcome: &Outcome) {
        if let Outcome::Aborted(kind) = *outcome {
            let goes_back = matches!(operation, Operation::GoBack);
            let allowed =
                if goes_back { self.may_lose_what_it_gave_up(session) } else { self.loses(session, operation) };
            let certified = self.scheme.is_serializable() && kind != AbortKind::WriteConflict;
            assert!(certified || kind == AbortKind::WriteConflict && allowed, "{operation:?} aborts: {kind:?}");
            let running = self.running.get_mut(&session).expect("it was begun");
            running.over = true;
            // With a savepoint to roll back to, the transaction keeps what it has written.
            if !running.relaxed || running.marks.is_empty() || goes_back {
                running.own.clear();
                running.claimed.clear();
                running.marks.clear();
            }
            return;
        }
        match operation {
            Operation::Savepoint => {
                let running = self.running.get_mut(&session).expect("it was begun");
                running.marks.push(running.own.clone());
            }
            Operation::GoBack => {
                let running = self.running.get_mut(&session).expect("it was begun");
                if let Some(own) = running.marks.pop() {
                    (running.own, running.over) = (own, false);
                }
            }
            Operation::Get { table, key } => {
                let expected = Outcome::Value(self.visible(session, *table, *key));
                assert_eq!(*outcome, expected, "{operation:?}");
            }
            Operation::GetMany { table, keys } => {
                let expected = keys.iter().map(|&key| self.visible(session, *table, key)).collect();
                assert_eq!(*outcome, Outcome::Values(expected), "{operation:?}");
            }
            Operation::Scan { .. } => {
                assert_eq!(*outcome, Outcome::Rows(self.scan(session, operation)), "{operation:?}");
            }
            Operation::Insert { table, key, value }
            | Operation::Update { table, key, value }
            | Operation::Put { table, key, value } => {
                self.check_write(session, operation, outcome);
                if *outcome == Outcome::Wrote(true) {
                    self.wrote(session, *table, *key, Some(*value));
                }
            }
            Operation::Delete { table, key } => {
                self.check_write(session, operation, outcome);
                if *outcome == Outcome::Wrote(true) {
                    self.wrote(session, *table, *key, None);
                }
            }
        }
    }

    fn loses(&self, session: usize, operation: &Operation) -> bool {
        self.allowed(session, operation).is_some_and(|allowed| allowed.conflict)
    }

    /// Whether another row may have taken a group that a row of the session had at its last savepoint and no longer
    /// has.
    fn may_lose_what_it_gave_up(&self, session: usize) -> bool {
        let running = &self.running[&session];
        let group = |value: Option<u64>| value.map(group_of);
        running.marks.last().into_iter().flatten().any(|(&(table, key), &value)| {
            let given_up = group(value).filter(|_| group(running.own[&(table, key)]) != group(value));
            let unique = self.unique == Some(table);
            unique && given_up.is_some_and(|group| self.held_by_others(session, table, key, group))
        })
    }

    /// Whether another transaction gave another row this group, or another row has it.
    fn held_by_others(&self, session: usize, table: usize, key: u64, group: u64) -> bool {
        let others = self.running.iter().filter(|(at, _)| **at != session);
        let mut claimed = others.flat_map(|(_, running)| &running.claimed);
        let holds = |versions: &Vec<Version>| versions.last().unwrap().1.is_some_and(|value| group_of(value) == group);
        claimed.any(|&(at, other, held)| (at, held) == (table, group) && other != key)
            || self.tables[table].iter().any(|(&other, versions)| other != key && holds(versions))
    }

    fn check_write(&self, session: usize, operation: &Operation, outcome: &Outcome) {
        let allowed = self.allowed(session, operation).expect("a write");
        let right = match outcome {
            Outcome::Wrote(true) => allowed.written,
            Outcome::Wrote(false) => allowed.missing,
            Outcome::KeyExists { secondary: false } => allowed.exists,
            Outcome::KeyExists { secondary: true } => allowed.taken,
            _ => false,
        };
        assert!(right, "{operation:?} gave {outcome:?}, allowed is {allowed:?}");
    }

    fn wrote(&mut self, session: usize, table: usize, key: u64, value: Option<u64>) {
        let running = self.running.get_mut(&session).expect("it was begun");
        running.own.insert((table, key), value);
        running.claimed.extend(value.map(|value| (table, key, group_of(value))));
    }

    fn scan(&self, session: usize, operation: &Operation) -> Vec<(u64, u64)> {
        let &Operation::Scan { table, through, lower, upper, backward, limit } = operation else { unreachable!() };
        let own = self.running[&session].own.range((table, 0)..=(table, u64::MAX)).map(|(&(_, key), _)| key);
        let keys: BTreeSet<u64> = self.tables[table].keys().copied().chain(own).collect();
        let rows = keys.into_iter().filter_map(|key| Some((key, self.visible(session, table, key)?)));
        let range = (lower, 0)..=(upper, u64::MAX);
        let mut rows: Vec<_> = rows.filter(|&(key, value)| range.contains(&through.entry(key, value))).collect();
        if through == Through::ByGroup {
            rows.sort_by_key(|&(key, value)| through.entry(key, value));
        }
        if backward {
            rows.reverse();
        }
        rows.truncate(limit);
        rows
    }

    /// Returns the allowed outcomes of a write; `None` for a read.
    fn allowed(&self, session: usize, operation: &Operation) -> Option<Allowed> {
        let (table, key, value) = match *operation {
            Operation::Insert { table, key, value }
            | Operation::Update { table, key, value }
            | Operation::Put { table, key, value } => (table, key, Some(value)),
            Operation::Delete { table, key } => (table, key, None),
            Operation::Get { .. }
            | Operation::GetMany { .. }
            | Operation::Scan { .. }
            | Operation::Savepoint
            | Operation::GoBack => return None,
        };
        let found = self.visible(session, table, key).is_some();
        let contested = self.contested(session, table, key);
        // A write that is refused in any case: where the row is contested, a conflict is a correct answer as well.
        let refused = match operation {
            Operation::Insert { .. } if found => Some(Allowed { exists: true, ..Allowed::default() }),
            Operation::Update { .. } | Operation::Delete { .. } if !found => {
                Some(Allowed { missing: true, ..Allowed::default() })
            }
            _ => None,
        };
        if let Some(refused) = refused {
            return Some(Allowed { conflict: contested, ..refused });
        }
        let mut allowed = match value {
            Some(value) if self.unique == Some(table) => self.unique_value(session, table, key, group_of(value)),
            _ => Allowed { written: true, ..Allowed::default() },
        };
        if contested {
            allowed = Allowed { conflict: true, written: false, ..allowed };
        }
        Some(allowed)
    }

    /// Returns the allowed outcomes of giving a row a group in the unique index.
    fn unique_value(&self, session: usize, table: usize, key: u64, group: u64) -> Allowed {
        let holds = |value: Option<u64>| value.is_some_and(|value| group_of(value) == group);
        let mut allowed = Allowed { written: true, ..Allowed::default() };
        if holds(self.visible(session, table, key)) {
            return allowed;
        }
        let in_flight = self.running.values().flat_map(|running| running.own.keys());
        let in_flight = in_flight.filter(|place| place.0 == table).map(|place| place.1);
        let others: BTreeSet<u64> = self.tables[table].keys().copied().chain(in_flight).collect();
        for other in others.into_iter().filter(|&other| other != key) {
            let contested = self.contested(session, table, other);
            if holds(self.visible(session, table, other)) {
                allowed.taken = true;
                allowed.written = false;
                allowed.conflict |= contested;
                continue;
            }
            let mine = self.running[&session].own.contains_key(&(table, other));
            let newest = self.tables[table].get(&other).and_then(|versions| versions.last().unwrap().1);
            let held = self
                .running
                .iter()
                .filter(|(at, _)| **at != session)
                .any(|(_, running)| running.own.get(&(table, other)).is_some_and(|&value| holds(value)));
            if held || !mine && self.is_newer(session, table, other, |_| true) && holds(newest) {
                allowed.conflict = true;
                allowed.written = false;
            } else if self.once_claimed(session, table, other, group) {
                allowed.conflict = true;
            }
        }
        allowed
    }

    /// Whether another transaction that is running, or has committed since the snapshot, gave a row this group in
    /// passing: an engine may find what is left of it.
    fn once_claimed(&self, session: usize, table: usize, key: u64, group: u64) -> bool {
        let mut others = self.running.iter().filter(|(at, _)| **at != session);
        others.any(|(_, running)| running.claimed.contains(&(table, key, group)))
            || self.is_newer(session, table, key, |_| true)
    }
}
