//! The TID table on real threads: the life of a transaction, recycling, and inquiry against reuse under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

fn commit(lease: &mut TidLease, stamp: u64, successor: u64) {
    lease.mark_committing();
    lease.set_commit_stamp(Stamp(stamp));
    lease.set_committed(Stamp(stamp), Stamp(successor));
    lease.end();
}

#[test]
fn an_inquiry_follows_the_life_of_a_transaction() {
    let table = TidTable::new(64);
    let mut lease = table.lease();
    let tid = lease.begin().unwrap();
    assert_eq!(lease.tid(), tid);
    assert_eq!((table.inquire(tid), table.in_use()), (Inquiry::InFlight, 1));
    lease.mark_committing();
    assert_eq!(table.inquire(tid), Inquiry::Committing(None));
    lease.set_commit_stamp(Stamp(9));
    assert_eq!(table.inquire(tid), Inquiry::Committing(Some(Stamp(9))));
    lease.set_committed(Stamp(9), Stamp(5));
    let committed = Inquiry::Committed { stamp: Stamp(9), successor: Stamp(5) };
    assert_eq!((table.inquire(tid), table.in_use()), (committed, 0));
    lease.end();
    assert_eq!(table.inquire(tid), committed, "readable until the slot is needed");

    let aborted = lease.begin().unwrap();
    assert_ne!(aborted, tid);
    lease.set_aborted();
    lease.end();
    assert_eq!(table.inquire(aborted), Inquiry::Aborted);
    assert_eq!(table.inquire(Tid(tid.0 + (1 << 16))), Inquiry::Stale, "a generation that never was");
}

#[test]
fn a_slot_serves_again_and_its_former_tid_is_stale() {
    let table = TidTable::new(32);
    let mut lease = table.lease();
    let mut seen = HashSet::new();
    let first = lease.begin().unwrap();
    commit(&mut lease, 2, 2);
    for n in 1..1000 {
        let tid = lease.begin().unwrap();
        assert!(tid.0 != 0 && tid.0 >> 63 == 0);
        assert!(seen.insert(tid.0), "TIDs never come back");
        commit(&mut lease, n + 1, n + 1);
    }
    assert_eq!(table.inquire(first), Inquiry::Stale);
}

#[test]
fn an_observer_in_the_epoch_keeps_the_answers_it_can_ask_for() {
    let table = TidTable::new(64);
    let observer = table.epochs().join_as("observer");
    let mut lease = table.lease();
    let tid = lease.begin().unwrap();
    let guard = observer.enter();
    commit(&mut lease, 2, 2);
    let mut begun = 0;
    while lease.begin().is_some() {
        commit(&mut lease, 4, 4);
        begun += 1;
    }
    assert_eq!(begun, 63, "every slot but no slot twice: the observer holds the epoch");
    assert_eq!(table.inquire(tid), Inquiry::Committed { stamp: Stamp(2), successor: Stamp(2) });
    assert_eq!(table.epochs().try_advance().unwrap_err()[0].label, "observer");
    drop(guard);
    assert!(lease.begin().is_some());
}

#[test]
fn blocks_are_private_given_back_and_run_out() {
    let table = TidTable::new(64);
    let (mut first, mut second, mut third) = (table.lease(), table.lease(), table.lease());
    assert!(first.begin().is_some());
    let lost = second.begin().unwrap();
    assert!(third.begin().is_none(), "two blocks, both leased");
    drop(second);
    assert_eq!(table.inquire(lost), Inquiry::Aborted, "no transaction waits for a lease that is gone");
    assert!(third.begin().is_some());
    assert_eq!(table.in_use(), 2);
}

/// One thread commits through few slots as fast as it can and publishes each TID; other threads inquire for the TIDs
/// that they find. Stamp and successor are functions of the TID, so a mixed answer shows.
#[test]
fn answers_belong_to_the_tid_asked_for() {
    let table = TidTable::with_blocks_of(2, 2);
    let published = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let stamp_of = |tid: Tid| Stamp(tid.0 >> 10);
    let successor_of = |tid: Tid| Stamp(tid.0 >> 11);
    thread::scope(|scope| {
        for _ in 0..2 {
            let (table, published, stop) = (Arc::clone(&table), &published, &stop);
            scope.spawn(move || {
                let mut tid = Tid(0);
                while !stop.load(Ordering::Relaxed) {
                    // Inquires for some TIDs several times: their slots are reused meanwhile.
                    if tid.0 == 0 || table.inquire(tid) == Inquiry::Stale {
                        tid = Tid(published.load(Ordering::Acquire));
                        continue;
                    }
                    match table.inquire(tid) {
                        Inquiry::Committed { stamp, successor } => {
                            assert_eq!((stamp, successor), (stamp_of(tid), successor_of(tid)));
                        }
                        Inquiry::Committing(Some(stamp)) => assert_eq!(stamp, stamp_of(tid)),
                        Inquiry::Aborted => panic!("none aborts"),
                        Inquiry::InFlight | Inquiry::Committing(None) | Inquiry::Stale => {}
                    }
                }
            });
        }
        let (table, published, stop) = (Arc::clone(&table), &published, &stop);
        scope.spawn(move || {
            let mut lease = table.lease();
            while !stop.load(Ordering::Relaxed) {
                let tid = lease.begin().expect("no participant is in the epoch");
                published.store(tid.0, Ordering::Release);
                commit(&mut lease, stamp_of(tid).0, successor_of(tid).0);
            }
        });
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
}

/// More threads than cores begin and end transactions, and create and drop leases: no TID occurs twice.
#[test]
fn no_two_leases_hand_out_the_same_tid() {
    let table = TidTable::with_blocks_of(2, 16);
    let tids: Vec<_> = thread::scope(|scope| {
        let worker = |_| {
            scope.spawn(|| {
                let mut tids = Vec::new();
                for _ in 0..200 {
                    let mut lease = table.lease();
                    for _ in 0..20 {
                        tids.extend(lease.begin().map(|tid| tid.0));
                        commit(&mut lease, 2, 2);
                    }
                }
                tids
            })
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(tids.len(), 4 * 200 * 20);
    assert_eq!(tids.iter().collect::<HashSet<_>>().len(), tids.len());
    assert_eq!(table.in_use(), 0);
}
