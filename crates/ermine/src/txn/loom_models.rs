//! The TID table and the reader slots under the model checker.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::readers::ReaderSlots;
use super::table::{Inquiry, TidLease, TidTable};
use crate::ids::{Stamp, Tid};

/// Returns a stamp that identifies the TID that it belongs to.
fn stamp_of(tid: Tid) -> Stamp {
    Stamp(tid.0 >> 16)
}

fn successor_of(tid: Tid) -> Stamp {
    Stamp((tid.0 >> 16) + 100)
}

fn commit(lease: &mut TidLease) {
    let tid = lease.tid();
    lease.mark_committing();
    lease.set_commit_stamp(stamp_of(tid));
    lease.set_committed(stamp_of(tid), successor_of(tid));
}

fn check_answer(table: &TidTable, tid: Tid) -> Inquiry {
    let answer = table.inquire(tid);
    match answer {
        Inquiry::Committed { stamp, successor } => {
            assert_eq!((stamp, successor), (stamp_of(tid), successor_of(tid)), "of another transaction");
        }
        Inquiry::Committing(Some(stamp)) => assert_eq!(stamp, stamp_of(tid), "of another transaction"),
        Inquiry::Aborted => panic!("none aborts"),
        Inquiry::InFlight | Inquiry::Committing(None) | Inquiry::Stale => {}
    }
    answer
}

/// Uses a slot twice, while a thread that got the first TID inquires at any time.
fn inquiry_against_reuse(second: fn(&mut TidLease)) {
    loom::model(move || {
        let table = TidTable::with_blocks_of(1, 1);
        let mut lease = table.lease();
        let first = lease.begin().unwrap();
        let ended = Arc::new(AtomicU64::new(0));
        let asking = thread::spawn({
            let (table, ended) = (Arc::clone(&table), Arc::clone(&ended));
            move || {
                let ended = ended.load(Ordering::Acquire) == 1;
                let answer = check_answer(&table, first);
                assert!(
                    !ended || matches!(answer, Inquiry::Committed { .. } | Inquiry::Stale),
                    "{answer:?} after its end"
                );
            }
        });
        commit(&mut lease);
        lease.end();
        ended.store(1, Ordering::Release);
        lease.begin().unwrap();
        second(&mut lease);
        asking.join().unwrap();
    });
}

#[test]
fn loom_inquiry_against_reuse() {
    inquiry_against_reuse(commit);
}

/// The shortest way to an end, without the fence that represents the mark under loom.
#[test]
fn loom_inquiry_against_reuse_without_mark() {
    inquiry_against_reuse(|lease| lease.set_committed(stamp_of(lease.tid()), successor_of(lease.tid())));
}

#[test]
fn loom_inquiry_against_reuse_and_abort() {
    inquiry_against_reuse(|lease| lease.set_aborted());
}

/// The second TID of a slot is handed over by release and acquire: its receiver never mistakes the first one's answer
/// for its own.
#[test]
fn loom_a_published_tid_is_not_answered_by_its_predecessor() {
    loom::model(|| {
        let table = TidTable::with_blocks_of(1, 1);
        let mut lease = table.lease();
        lease.begin().unwrap();
        commit(&mut lease);
        lease.end();
        let header = Arc::new(AtomicU64::new(0));
        let asking = thread::spawn({
            let (table, header) = (Arc::clone(&table), Arc::clone(&header));
            move || {
                let found = header.load(Ordering::Acquire);
                if found != 0 {
                    assert_ne!(check_answer(&table, Tid(found)), Inquiry::Stale, "no transaction took the slot");
                }
            }
        });
        let tid = lease.begin().unwrap();
        header.store(tid.0, Ordering::Release);
        commit(&mut lease);
        asking.join().unwrap();
    });
}

/// Two leases compete for one block. The owner of a slot has it alone, and sees the actions of all former owners.
#[test]
fn loom_a_slot_has_one_owner() {
    loom::model(|| {
        let table = TidTable::with_blocks_of(1, 1);
        #[expect(clippy::arc_with_non_send_sync, reason = "loom checks what the type does not promise")]
        let owned = Arc::new(UnsafeCell::new(0));
        let work = |table: Arc<TidTable>, owned: Arc<UnsafeCell<u64>>| {
            let mut lease = table.lease();
            let tid = lease.begin()?;
            // SAFETY: loom fails the model when this is concurrent with another write.
            owned.with_mut(|last| unsafe {
                assert!(*last < tid.0, "generations grow");
                *last = tid.0;
            });
            lease.set_aborted();
            lease.end();
            Some(tid)
        };
        let other = thread::spawn({
            let (table, owned) = (Arc::clone(&table), Arc::clone(&owned));
            move || work(table, owned)
        });
        let mine = work(Arc::clone(&table), owned);
        let theirs = other.join().unwrap();
        assert!(mine.is_some() || theirs.is_some());
        assert!(mine != theirs);
    });
}

/// A transaction that takes a higher stamp does not find the one with the lower stamp in flight.
#[test]
fn loom_the_mark_precedes_the_stamp() {
    loom::model(|| {
        let table = TidTable::with_blocks_of(1, 2);
        let log = Arc::new(AtomicU64::new(1));
        let mut leases: Vec<_> = (0..2).map(|_| table.lease()).collect();
        let tids: Vec<_> = leases.iter_mut().map(|lease| lease.begin().unwrap()).collect();
        let take_stamp = |lease: &TidLease, log: &AtomicU64| {
            lease.mark_committing();
            let stamp = Stamp(log.fetch_add(1, Ordering::SeqCst));
            lease.set_commit_stamp(stamp);
            stamp
        };
        let other = thread::spawn({
            let (lease, log) = (leases.pop().unwrap(), Arc::clone(&log));
            move || {
                take_stamp(&lease, &log);
                lease
            }
        });
        let mine = take_stamp(&leases[0], &log);
        match table.inquire(tids[1]) {
            Inquiry::InFlight => assert_eq!(mine, Stamp(1), "the other took the lower stamp"),
            Inquiry::Committing(Some(theirs)) => assert_ne!(mine, theirs),
            Inquiry::Committing(None) => {}
            answer => panic!("{answer:?}"),
        }
        other.join().unwrap();
    });
}

/// A reader raises a version's stamp and then asks for the overwriter; the overwriter marks itself and then reads the
/// stamp. One of them notices the other.
#[test]
fn loom_reader_and_overwriter_do_not_miss_each_other() {
    loom::model(|| {
        let table = TidTable::with_blocks_of(1, 1);
        let pstamp = Arc::new(AtomicU64::new(0));
        let mut lease = table.lease();
        let tid = lease.begin().unwrap();
        let reader = thread::spawn({
            let (table, pstamp) = (Arc::clone(&table), Arc::clone(&pstamp));
            move || {
                pstamp.fetch_max(5, Ordering::SeqCst);
                table.inquire(tid) == Inquiry::InFlight
            }
        });
        lease.mark_committing();
        let seen = pstamp.load(Ordering::SeqCst);
        let reader_found_me_in_flight = reader.join().unwrap();
        assert!(!reader_found_me_in_flight || seen == 5, "neither noticed the other");
    });
}

/// Inside the TID epoch, an inquiry for a TID that was found in a place not cleaned by post-commit yet is answered.
#[test]
fn loom_an_observer_in_the_epoch_gets_an_answer() {
    loom::model(|| {
        let table = TidTable::with_blocks_of(1, 1);
        let observer = table.epochs().join();
        let mut lease = table.lease();
        let tid = lease.begin().unwrap();
        let header = Arc::new(AtomicU64::new(tid.0));
        let asking = thread::spawn({
            let (table, header) = (Arc::clone(&table), Arc::clone(&header));
            move || {
                let _guard = observer.enter();
                let found = header.load(Ordering::Acquire);
                if found != 0 {
                    assert_ne!(check_answer(&table, Tid(found)), Inquiry::Stale);
                }
            }
        });
        commit(&mut lease);
        header.store(0, Ordering::Relaxed);
        lease.end();
        if lease.begin().is_some() {
            commit(&mut lease);
        }
        asking.join().unwrap();
    });
}

/// A bit found in a version leads to its reader.
#[test]
fn loom_a_bit_leads_to_its_reader() {
    loom::model(|| {
        let slots = ReaderSlots::with_count(2);
        let bits = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (1..=2)
            .map(|number| {
                let (slots, bits) = (Arc::clone(&slots), Arc::clone(&bits));
                thread::spawn(move || {
                    let slot = slots.lease().expect("two slots for two");
                    slot.publish(Tid(number << 16));
                    bits.fetch_or(slot.bit(), Ordering::Release);
                    slot
                })
            })
            .collect();
        let found = bits.load(Ordering::Acquire);
        let mut met = 0;
        for_each_reader(&slots, found, |_| met += 1);
        assert_eq!(met, found.count_ones());
        let leased: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert_ne!(leased[0].bit(), leased[1].bit());
    });
}

/// A reader that is found through a bit that another reader set, without acquiring anything of the reader's own, still
/// has a TID to inquire for.
#[test]
fn loom_a_published_reader_is_not_answered_by_its_predecessor() {
    loom::model(|| {
        let (table, slots) = (TidTable::with_blocks_of(1, 1), ReaderSlots::with_count(1));
        let (mut lease, slot) = (table.lease(), slots.lease().unwrap());
        lease.begin().unwrap();
        commit(&mut lease);
        lease.end();
        let bit = slot.bit();
        let reading = thread::spawn(move || {
            let tid = lease.begin().unwrap();
            slot.publish(tid);
            commit(&mut lease);
            (lease, slot)
        });
        for_each_reader(&slots, bit, |tid| assert_ne!(check_answer(&table, tid), Inquiry::Stale));
        reading.join().unwrap();
    });
}

fn for_each_reader(slots: &ReaderSlots, bits: u64, mut visit: impl FnMut(Tid)) {
    let done = slots.try_for_each_slot(bits, |slot| {
        if let Some(reader) = slot.reader() {
            visit(reader.tid);
        }
        Ok::<_, ()>(())
    });
    done.unwrap();
}
