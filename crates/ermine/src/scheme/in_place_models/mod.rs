//! The single-version schemes under the model checker: the real schemes, over the real records.
//!
//! An [`Actor`] is one transaction, in the steps of `single` and in their order: it reads, claims the rows that it will
//! write, and at its end locks their words in the order of their addresses, reads the epoch and chooses its TID, lets
//! the scheme certify its reads, stores the values, unlocks, and lets the scheme release its resources. In the engine
//! these steps are methods of a whole engine (`single/commit.rs`), so they are written again here; index, log and
//! garbage are left out.
//!
//! Every transaction writes a value of its own. When all have ended, the dependency graph of those that committed is
//! built from the values that each read and the TIDs that each gave to its writes. A model fails if
//! - a value was read that no transaction has committed, or the graph has a cycle;
//! - epochs are not in the order of the graph; under `sto` and `tso`: timestamps;
//! - where a scheme excludes conflicting transactions: two that conflict were at a row at the same time;
//! - a transaction waits for ever, which reaches loom's limit of steps.
//!
//! The set of committed transactions is compared with the sets that the scheme allows. Preemptions are bounded: by 3 to
//! 5, as far as takes less than seconds.
//!
//! loom takes sequentially consistent accesses for acquire and release; `sync::total_order` is next to those that need
//! more.

mod actor;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use loom::thread;

use self::actor::{A, Actor, B, C, History, Modelled, Rows, SITE, assert_serializable};
use super::{
    in_place::{Declared, InPlace},
    partitioned::Partitioned,
    serial::Serial,
    silo::Silo,
    sto::{Sto, Wide},
    tso::{Stamped, Tso, Validated},
    two_phase::{NoWait, TwoPhase, WaitDepthLimited, WaitDie},
    vll::Vll,
};
use crate::rows::in_place::TidWord;

/// The sets of committed transactions that a model met.
type Outcomes = BTreeSet<Vec<bool>>;

/// Checks a model and returns the set of its results.
fn explore<T: Ord + Send + 'static>(preemptions: usize, model: impl Fn() -> T + Send + Sync + 'static) -> BTreeSet<T> {
    let met = Arc::new(Mutex::new(BTreeSet::new()));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let meeting = Arc::clone(&met);
    builder.check(move || {
        let outcome = model();
        meeting.lock().unwrap().insert(outcome);
    });
    Arc::into_inner(met).unwrap().into_inner().unwrap()
}

/// Checks a model of transactions and returns which of them committed.
fn outcomes<P: Modelled>(
    preemptions: usize,
    model: impl Fn(&Arc<Rows<P>>) -> Vec<Option<History>> + Send + Sync + 'static,
) -> Outcomes {
    explore(preemptions, move || {
        let rows = Rows::<P>::new();
        let ended = model(&rows);
        assert_serializable(&rows, &ended);
        ended.iter().map(Option::is_some).collect()
    })
}

/// Runs two transactions concurrently, with these reads and writes each. The first one is older.
fn two<P: Modelled>(preemptions: usize, one: [&'static [usize]; 2], other: [&'static [usize]; 2]) -> Outcomes {
    outcomes::<P>(preemptions, move |rows| {
        let [first, second] = Actor::two(rows);
        let theirs = thread::spawn(move || second.run(other[0], other[1]));
        let mine = first.run(one[0], one[1]);
        vec![mine, theirs.join().unwrap()]
    })
}

const BOTH: [bool; 2] = [true, true];
const FIRST_ONLY: [bool; 2] = [true, false];
const SECOND_ONLY: [bool; 2] = [false, true];
const NONE: [bool; 2] = [false, false];

/// Asserts that these outcomes were met, and no others.
fn assert_met<const N: usize>(met: &Outcomes, expected: [[bool; 2]; N]) {
    assert_eq!(*met, expected.map(Vec::from).into());
}

/// Asserts that these outcomes of three transactions were met, and no others.
fn assert_met_of_three<const N: usize>(met: &Outcomes, expected: [[bool; 3]; N]) {
    assert_eq!(*met, expected.map(Vec::from).into());
}

/// Each transaction reads the row that the other one writes.
fn write_skew<P: Modelled>() -> Outcomes {
    two::<P>(5, [&[A], &[B]], [&[B], &[A]])
}

/// Each transaction reads a row and writes it.
fn lost_update<P: Modelled>() -> Outcomes {
    two::<P>(5, [&[A], &[A]], [&[A], &[A]])
}

/// The older transaction reads two rows that the other one writes.
fn older_reader<P: Modelled>() -> Outcomes {
    two::<P>(5, [&[A, B], &[]], [&[], &[A, B]])
}

/// The older transaction writes two rows that the other one reads.
fn older_writer<P: Modelled>() -> Outcomes {
    two::<P>(5, [&[], &[A, B]], [&[A, B], &[]])
}

/// One transaction writes a row that the other one, which writes too, has read, while the epoch is advanced.
fn epochs<P: Modelled>() -> Outcomes {
    outcomes::<P>(3, |rows| {
        let [reader, writer] = Actor::two(rows);
        let advancing = thread::spawn({
            let rows = Arc::clone(rows);
            move || rows.epochs.advance()
        });
        let writing = thread::spawn(move || writer.run(&[], &[A]));
        let read = reader.run(&[A], &[B]);
        advancing.join().unwrap();
        vec![read, writing.join().unwrap()]
    })
}

/// Two transactions begin concurrently; the reader's worker runs another one before, so that it may have the first
/// timestamp and the third.
fn begun_beside<P: Modelled>() -> Outcomes {
    outcomes::<P>(4, |rows| {
        let [one, other] = [1, 2].map(|value| Actor::new(rows, value));
        let theirs = thread::spawn(move || other.begin().end().begin().run(&[A, B], &[]));
        let mine = one.begin().run(&[], &[A, B]);
        vec![mine, theirs.join().unwrap()]
    })
}

/// The older transaction is about to write a row that the other one reads, and rolls back.
fn older_gives_up<P: Modelled>() -> Outcomes {
    outcomes::<P>(3, |rows| {
        let [one, other] = Actor::two(rows);
        let theirs = thread::spawn(move || other.run(&[A], &[]));
        let mine = one.give_up(&[A]);
        vec![mine, theirs.join().unwrap()]
    })
}

/// A deleted row is removed from its table, as by `single::removal`, while a transaction finds that there is no row:
/// the transaction sees that the record is gone, or the removal sees the transaction.
fn removal<P: Modelled>() -> BTreeSet<[bool; 2]> {
    explore(5, || {
        let rows = Rows::<P>::new();
        let record = rows.records[A];
        let word = record.lock();
        record.unlock(TidWord::written(word.tid(), false).unwanted());
        let mut reader = Actor::new(&rows, 1).begin();
        let reading = thread::spawn(move || {
            let Actor { rows, state, copies, .. } = &mut reader;
            let (word, _) = P::read(&rows.shared, state, rows.records[A], SITE, Some(copies)).unwrap();
            (reader, word)
        });
        let word = record.lock();
        let looks = P::is_unclaimed(&rows.shared, record).then(|| P::last_looks(&rows.shared, record));
        match looks {
            Some(_) => record.unlock_gone(word),
            None => record.unlock(word),
        }
        let (reader, seen) = reading.join().unwrap();
        if let Some((looked, _)) = looks
            && !seen.is_gone()
        {
            assert!(!P::EXCLUDES && looked >= P::stamp(&reader.state), "the gap does not know of the look");
        }
        reader.abort();
        [seen.is_gone(), looks.is_some()]
    })
}

#[test]
fn loom_silo_write_skew() {
    assert_met(&write_skew::<Silo>(), [BOTH, FIRST_ONLY, SECOND_ONLY, NONE]);
}

#[test]
fn loom_silo_lost_update() {
    assert_met(&lost_update::<Silo>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

/// A transaction that only writes always commits.
#[test]
fn loom_silo_torn_pair() {
    assert_met(&older_reader::<Silo>(), [BOTH, SECOND_ONLY]);
}

/// T1 overwrites a row that T2 has read, or the other way round: their epochs are in that order (`single::commit`).
#[test]
fn loom_silo_epochs() {
    assert_met(&epochs::<Silo>(), [BOTH, SECOND_ONLY]);
}

/// Each of three transactions has read a row and writes the row that the next one has read: not all of them commit.
#[test]
fn loom_silo_cycle_of_three() {
    let met = outcomes::<Silo>(5, |rows| {
        let mut actors = [A, B, C].map(|row| (row, Actor::new(rows, 1 + row as u8).begin()));
        for (row, actor) in &mut actors {
            actor.read(*row).unwrap();
        }
        let [(_, first), (_, second), (_, third)] = actors;
        let second = thread::spawn(move || second.go_on(&[], &[C]));
        let third = thread::spawn(move || third.go_on(&[], &[A]));
        vec![first.go_on(&[], &[B]), second.join().unwrap(), third.join().unwrap()]
    });
    assert!(met.len() > 3 && !met.contains(&vec![true; 3]), "{met:?}");
}

/// The younger transaction never aborts: it waits.
#[test]
fn loom_sto_write_skew() {
    assert_met(&write_skew::<Sto<Wide>>(), [BOTH, SECOND_ONLY]);
}

#[test]
fn loom_sto_lost_update() {
    assert_met(&lost_update::<Sto<Wide>>(), [BOTH, SECOND_ONLY]);
}

/// A reader that a younger writer has overtaken comes too late.
#[test]
fn loom_sto_older_reader() {
    assert_met(&older_reader::<Sto<Wide>>(), [BOTH, SECOND_ONLY]);
}

/// An older writer is refused where a younger transaction has read, and is waited for where it was first: no write of
/// it is missed.
#[test]
fn loom_sto_older_writer() {
    assert_met(&older_writer::<Sto<Wide>>(), [BOTH, SECOND_ONLY]);
}

/// The dirty bit is on when the reader arrives: it waits for the outcome, and sees it.
#[test]
fn loom_sto_waits_for_the_outcome() {
    let met = outcomes::<Sto<Wide>>(5, |rows| {
        let [mut writer, reader] = Actor::two(rows);
        writer.write(A).unwrap();
        let reading = thread::spawn(move || reader.run(&[A], &[]));
        vec![writer.commit(), reading.join().unwrap()]
    });
    assert_met(&met, [BOTH]);
}

#[test]
fn loom_sto_older_gives_up() {
    assert_met(&older_gives_up::<Sto<Wide>>(), [SECOND_ONLY]);
}

/// Two transactions write a row one after the other, and the youngest reads it: no transaction waits for a younger one.
#[test]
fn loom_sto_queue_of_three() {
    let met = outcomes::<Sto<Wide>>(3, |rows| {
        let [one, other, reader] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        let one = thread::spawn(move || one.run(&[], &[A]));
        let other = thread::spawn(move || other.run(&[], &[A]));
        let read = reader.run(&[A], &[]);
        vec![one.join().unwrap(), other.join().unwrap(), read]
    });
    assert!(met.iter().all(|ended| ended[2]) && met.contains(&vec![true; 3]), "{met:?}");
}

#[test]
fn loom_sto_removal() {
    assert_eq!(removal::<Sto<Wide>>(), [[false, true], [true, true]].into());
}

#[test]
fn loom_sto_begun_beside() {
    assert_met(&begun_beside::<Sto<Wide>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

#[test]
fn loom_tso_write_skew() {
    assert_met(&write_skew::<Tso<Stamped>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

#[test]
fn loom_tso_lost_update() {
    assert_met(&lost_update::<Tso<Stamped>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

#[test]
fn loom_tso_older_reader() {
    assert_met(&older_reader::<Tso<Stamped>>(), [BOTH, SECOND_ONLY]);
}

#[test]
fn loom_tso_older_writer() {
    assert_met(&older_writer::<Tso<Stamped>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

/// A transaction that takes a timestamp for safe, or finds that its transaction has ended, sees everything that this
/// one wrote.
#[test]
fn loom_tso_safe_timestamp() {
    assert_met(&begun_beside::<Tso<Stamped>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

#[test]
fn loom_tso_older_gives_up() {
    assert_met(&older_gives_up::<Tso<Stamped>>(), [SECOND_ONLY, NONE]);
}

#[test]
fn loom_tso_removal() {
    assert_eq!(removal::<Tso<Stamped>>(), [[false, true], [true, true]].into());
}

#[test]
fn loom_tso_validate_write_skew() {
    assert_met(&write_skew::<Tso<Validated>>(), [BOTH, FIRST_ONLY, SECOND_ONLY, NONE]);
}

#[test]
fn loom_tso_validate_lost_update() {
    assert_met(&lost_update::<Tso<Validated>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

#[test]
fn loom_tso_validate_safe_timestamp() {
    assert_met(&begun_beside::<Tso<Validated>>(), [BOTH, FIRST_ONLY]);
}

#[test]
fn loom_tso_validate_epochs() {
    assert_met(&epochs::<Tso<Validated>>(), [BOTH, SECOND_ONLY]);
}

#[test]
fn loom_2pl_nowait_write_skew() {
    assert_met(&write_skew::<TwoPhase<NoWait>>(), [BOTH, FIRST_ONLY, SECOND_ONLY, NONE]);
}

#[test]
fn loom_2pl_nowait_epochs() {
    assert_met(&epochs::<TwoPhase<NoWait>>(), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

/// The older transaction waits, and so commits.
#[test]
fn loom_2pl_waitdie_write_skew() {
    assert_met(&write_skew::<TwoPhase<WaitDie>>(), [BOTH, FIRST_ONLY]);
}

/// Both transactions may share the lock and want to upgrade it.
#[test]
fn loom_2pl_waitdie_lost_update() {
    assert_met(&lost_update::<TwoPhase<WaitDie>>(), [BOTH, FIRST_ONLY]);
}

/// Two transactions lock the same rows in opposite orders.
#[test]
fn loom_2pl_waitdie_crossing() {
    assert_met(&two::<TwoPhase<WaitDie>>(5, [&[], &[A, B]], [&[], &[B, A]]), [BOTH, FIRST_ONLY]);
}

/// The youngest transaction holds the lock; two queue for it concurrently.
fn queue_of_three(first: [&'static [usize]; 2], second: [&'static [usize]; 2]) -> Outcomes {
    outcomes::<TwoPhase<WaitDie>>(3, move |rows| {
        let [one, other, mut holder] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        holder.write(A).unwrap();
        let one = thread::spawn(move || one.run(first[0], first[1]));
        let other = thread::spawn(move || other.run(second[0], second[1]));
        let held = holder.commit();
        vec![one.join().unwrap(), other.join().unwrap(), held]
    })
}

/// The lock is handed on to a request for exclusive mode, and from it to the other one; the younger dies behind the
/// older.
#[test]
fn loom_2pl_waitdie_lock_is_handed_on() {
    let met = queue_of_three([&[A], &[]], [&[], &[A]]);
    assert_met_of_three(&met, [[true; 3], [true, false, true]]);
}

/// The lock is handed on to all requests that share it.
#[test]
fn loom_2pl_waitdie_lock_is_handed_on_to_both() {
    assert_met_of_three(&queue_of_three([&[A], &[]], [&[A], &[]]), [[true; 3]]);
}

/// One of two transactions that share a lock waits to upgrade it, and the oldest waits behind them.
#[test]
fn loom_2pl_waitdie_upgrade_before_a_waiter() {
    let met = outcomes::<TwoPhase<WaitDie>>(3, |rows| {
        let [oldest, mut upgrading, mut sharing] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        upgrading.read(A).unwrap();
        sharing.read(A).unwrap();
        let writing = thread::spawn(move || oldest.run(&[], &[A]));
        let upgrading = thread::spawn(move || upgrading.go_on(&[], &[A]));
        let shared = sharing.commit();
        vec![writing.join().unwrap(), upgrading.join().unwrap(), shared]
    });
    assert_met_of_three(&met, [[true; 3]]);
}

#[test]
fn loom_2pl_removal() {
    assert_eq!(removal::<TwoPhase<NoWait>>(), [[false, false], [true, true]].into());
}

#[test]
fn loom_2pl_wdl_write_skew() {
    assert_met(&write_skew::<TwoPhase<WaitDepthLimited>>(), [BOTH, FIRST_ONLY, SECOND_ONLY, NONE]);
}

/// Of two transactions that would wait for each other one detects that, or both do.
#[test]
fn loom_2pl_wdl_crossing() {
    let met = two::<TwoPhase<WaitDepthLimited>>(4, [&[], &[A, B]], [&[], &[B, A]]);
    assert_met(&met, [BOTH, FIRST_ONLY, SECOND_ONLY, NONE]);
}

/// One transaction holds a lock that another one requests, and waits for a third one that does not end before: it gives
/// way, in every order.
#[test]
fn loom_2pl_wdl_depth() {
    let met = outcomes::<TwoPhase<WaitDepthLimited>>(4, |rows| {
        let [running, mut waiting, mut third] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        waiting.write(A).unwrap();
        third.write(B).unwrap();
        let running = thread::spawn(move || running.run(&[], &[A]));
        let waiting = thread::spawn(move || waiting.go_on(&[], &[B]));
        let waited = waiting.join().unwrap();
        vec![running.join().unwrap(), waited, third.commit()]
    });
    assert_met_of_three(&met, [[true, false, true]]);
}

/// No transaction aborts: one that meets another is blocked, and runs when that one has ended.
#[test]
fn loom_vll_crossing() {
    assert_met(&two::<Vll>(5, [&[A], &[B]], [&[B], &[A]]), [BOTH]);
    assert_met(&two::<Vll>(5, [&[A, B], &[]], [&[], &[B, A]]), [BOTH]);
}

/// The transaction in the middle meets both others; the last one may run concurrently with the first.
fn vll_three_in_the_queue(reads: &'static [usize], writes: &'static [usize]) {
    let met = outcomes::<Vll>(3, move |rows| {
        let [one, middle, other] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        let middle = thread::spawn(move || middle.run(reads, writes));
        let other = thread::spawn(move || other.run(&[], &[B]));
        vec![one.run(&[], &[A]), middle.join().unwrap(), other.join().unwrap()]
    });
    assert_met_of_three(&met, [[true; 3]]);
}

#[test]
fn loom_vll_writer_in_the_middle() {
    vll_three_in_the_queue(&[], &[A, B]);
}

#[test]
fn loom_vll_reader_in_the_middle() {
    vll_three_in_the_queue(&[A, B], &[]);
}

/// One transaction has declared nothing: it runs alone.
#[test]
fn loom_vll_everything() {
    let met = outcomes::<Vll>(3, |rows| {
        let [mut alone, one, other] = [1, 2, 3].map(|value| Actor::new(rows, value).begin());
        let one = thread::spawn(move || one.run(&[], &[A]));
        let other = thread::spawn(move || other.run(&[], &[B]));
        Vll::enter(&rows.shared, &mut alone.state, Declared::Everything).unwrap();
        vec![alone.go_on(&[A], &[B]), one.join().unwrap(), other.join().unwrap()]
    });
    assert_met_of_three(&met, [[true; 3]]);
}

#[test]
fn loom_serial_begun_beside() {
    assert_met(&begun_beside::<Serial>(), [BOTH]);
}

/// Each transaction takes the whole database after its first partition: if both share it and want that, one aborts.
#[test]
fn loom_partitioned_crossing() {
    assert_met(&two::<Partitioned>(5, [&[], &[A, B]], [&[], &[B, A]]), [BOTH, FIRST_ONLY, SECOND_ONLY]);
}

/// One transaction stays in its partition, the other takes the whole database for a second one.
#[test]
fn loom_partitioned_database() {
    assert_met(&two::<Partitioned>(5, [&[], &[A, B]], [&[B], &[]]), [BOTH]);
}
