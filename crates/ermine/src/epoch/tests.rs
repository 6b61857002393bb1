//! Epochs on real threads: the phases step by step, and reclamation under load.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// An object that counts its own destructions.
struct Counted {
    drops: Arc<AtomicUsize>,
}

fn retire_counted(guard: &Guard<'_>, drops: &Arc<AtomicUsize>) {
    unsafe fn count(pointer: NonNull<u8>) -> usize {
        // SAFETY: `retire_counted` leaked it from a box and never used it again.
        let counted = unsafe { Box::from_raw(pointer.cast::<Counted>().as_ptr()) };
        counted.drops.fetch_add(1, Ordering::Relaxed);
        0
    }
    let counted = Box::new(Counted { drops: Arc::clone(drops) });
    let pointer = NonNull::from(Box::leak(counted)).cast();
    // SAFETY: no other code has the pointer, and `count` is sound on any thread.
    unsafe { guard.retire(pointer, count) };
}

#[test]
fn the_closing_epoch_may_be_busy_the_one_before_it_not() {
    let epochs = EpochManager::new("test");
    let slow = epochs.join_as("slow");
    let busy = epochs.join_as("busy");
    let first = epochs.current();

    let inside = slow.enter();
    let second = epochs.try_advance().expect("a participant in the closing epoch is only busy");
    assert_eq!(second, first.next());
    assert!(!epochs.is_closed(first));

    let stragglers = epochs.try_advance().expect_err("the slow one is in the closing epoch");
    assert_eq!(
        stragglers,
        [Straggler { scale: "test", participant: 0, label: "slow".into(), since: first }],
        "and no other participant is named"
    );
    assert_eq!(stragglers[0].to_string(), "test: participant 0 (slow) since epoch 2");
    assert_eq!(epochs.advance(), None);

    let busy_guard = busy.enter();
    drop(inside);
    assert_eq!(epochs.try_advance(), Ok(second.next()));
    assert!(epochs.is_closed(first));
    assert!(!epochs.is_closed(second));
    drop(busy_guard);
}

#[test]
fn entering_nests_and_only_the_outermost_counts() {
    let epochs = EpochManager::new("test");
    let participant = epochs.join();
    participant.pin();
    let inner = participant.enter();
    assert!(!participant.quiesce(), "a guard may stand for references");
    epochs.try_advance().unwrap();
    drop(inner);
    assert!(epochs.try_advance().is_err(), "the pin is still there");
    assert!(participant.quiesce());
    assert!(!participant.quiesce(), "no newer epoch, no announcement");
    epochs.try_advance().unwrap();
    participant.unpin();
    assert!(!participant.quiesce(), "nothing to announce outside");
    assert!(!participant.is_inside());
}

#[test]
fn retired_objects_go_when_their_epoch_is_closed_and_no_earlier() {
    let epochs = EpochManager::new("test");
    let (worker, observer) = (epochs.join(), epochs.join());
    let drops = Arc::new(AtomicUsize::new(0));

    let observing = observer.enter();
    retire_counted(&worker.enter(), &drops);
    retire_counted(&worker.enter(), &drops);
    assert_eq!(worker.retired(), 2);
    epochs.try_advance().unwrap();
    assert_eq!(worker.reclaim(usize::MAX), 0);
    assert!(epochs.try_advance().is_err());
    assert_eq!(worker.reclaim(usize::MAX), 0);
    drop(observing);
    epochs.try_advance().unwrap();
    assert_eq!(worker.reclaim(1), 1);
    assert_eq!(worker.reclaim(usize::MAX), 1);
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

#[test]
fn what_a_dropped_participant_retired_is_freed_by_others_or_with_the_manager() {
    let epochs = EpochManager::new("test");
    let drops = Arc::new(AtomicUsize::new(0));
    let leaving = epochs.join();
    retire_counted(&leaving.enter(), &drops);
    drop(leaving);
    let staying = epochs.join();
    assert_eq!(staying.reclaim(usize::MAX), 0);
    epochs.try_advance().unwrap();
    epochs.try_advance().unwrap();
    assert_eq!(staying.reclaim(usize::MAX), 1);

    retire_counted(&staying.enter(), &drops);
    drop(staying);
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    drop(epochs);
    assert_eq!(drops.load(Ordering::Relaxed), 2);
}

#[test]
fn seats_are_reused_and_a_participant_dropped_inside_leaves() {
    let epochs = EpochManager::new("test");
    let first = epochs.join_as("first");
    first.pin();
    drop(first);
    let second = epochs.join_as("second");
    let third = epochs.join_as("third");
    second.pin();
    third.pin();
    epochs.try_advance().unwrap();
    let stragglers = epochs.try_advance().unwrap_err();
    let named: Vec<_> = stragglers.iter().map(|s| (s.participant, s.label.as_str())).collect();
    assert_eq!(named, [(0, "second"), (1, "third")]);
}

#[test]
fn limbo_is_in_order_of_retirement() {
    let epochs = EpochManager::new("test");
    let mut limbo = Limbo::new();
    limbo.push(&epochs, 'a');
    epochs.try_advance().unwrap();
    limbo.push_all(&epochs, ['b', 'c']);
    assert_eq!(limbo.pop_closed(&epochs), None);
    epochs.try_advance().unwrap();
    assert_eq!(limbo.pop_closed(&epochs), Some('a'));
    assert_eq!(limbo.pop_closed(&epochs), None);
    assert_eq!(limbo.len(), 2);
    epochs.try_advance().unwrap();
    assert_eq!(limbo.pop_closed(&epochs), Some('b'));
    assert_eq!(limbo.pop_closed(&epochs), Some('c'));
}

/// More threads than cores exchange boxes through one cell, read the boxes that they find there and reclaim. A box
/// freed too early is one whose mark is gone (and a use after free for the sanitizer).
#[test]
fn nobody_meets_a_reclaimed_object() {
    const ALIVE: usize = 0x5eed;
    struct Marked {
        mark: AtomicUsize,
    }
    unsafe fn free(pointer: NonNull<u8>) -> usize {
        // SAFETY: it came from a box, was unlinked by a swap that only one thread won, and its epoch is closed.
        let marked = unsafe { Box::from_raw(pointer.cast::<Marked>().as_ptr()) };
        marked.mark.store(0, Ordering::Relaxed);
        0
    }
    let fresh = || Box::into_raw(Box::new(Marked { mark: AtomicUsize::new(ALIVE) }));
    let epochs = EpochManager::new("test");
    let cell = AtomicPtr::new(fresh());
    let stop = AtomicBool::new(false);
    let reclaimed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let participant = epochs.join();
            let (cell, stop, reclaimed) = (&cell, &stop, &reclaimed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let guard = participant.enter();
                    // SAFETY: found inside; retired objects stay until this guard is gone.
                    assert_eq!(unsafe { &(*cell.load(Ordering::Acquire)).mark }.load(Ordering::Relaxed), ALIVE);
                    if number % 2 == 0 {
                        let old = NonNull::new(cell.swap(fresh(), Ordering::AcqRel)).unwrap();
                        // SAFETY: the swap made it unreachable and gave it to this thread alone.
                        unsafe { guard.retire(old.cast(), free) };
                    }
                    drop(guard);
                    let _ = participant.epochs().advance();
                    reclaimed.fetch_add(participant.reclaim(8), Ordering::Relaxed);
                }
            });
        }
        let deadline = Instant::now() + Duration::from_millis(300);
        while Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(reclaimed.load(Ordering::Relaxed) > 1000, "{} reclaimed", reclaimed.load(Ordering::Relaxed));
    // SAFETY: all threads are gone.
    drop(unsafe { Box::from_raw(cell.into_inner()) });
}
