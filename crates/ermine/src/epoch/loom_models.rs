//! Epochs under the model checker: every interleaving and every stale read that the orderings allow.
//!
//! The freed object is a flag instead of freed memory: a participant that still reaches it after its destructor ran
//! fails the model.

use std::ptr::NonNull;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::*;

/// An object that can be found through `linked`, and is marked when it is freed.
struct Shared {
    /// 1 while the object can be found.
    linked: AtomicU64,
    object: Object,
}

/// Accesses are tracked: a destructor that does not happen after the last access is a race.
struct Object {
    content: loom::cell::UnsafeCell<u64>,
}

// SAFETY: loom checks the accesses; the models prove that they are ordered.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

const ALIVE: u64 = 7;
const FREED: u64 = 9;

unsafe fn free(pointer: NonNull<u8>) -> usize {
    // SAFETY: `Shared` outlives the manager in every model.
    let object = unsafe { pointer.cast::<Object>().as_ref() };
    // SAFETY: loom fails the model when this write is concurrent with an access.
    object.content.with_mut(|content| unsafe { *content = FREED });
    0
}

impl Shared {
    fn new() -> Arc<Self> {
        let object = Object { content: loom::cell::UnsafeCell::new(ALIVE) };
        Arc::new(Self { linked: AtomicU64::new(1), object })
    }

    /// Looks the object up, and reads it if it is found. Only inside.
    fn read(&self) {
        if self.linked.load(Ordering::Acquire) == 1 {
            // SAFETY: loom fails the model when this read is concurrent with the destructor.
            let content = self.object.content.with(|content| unsafe { *content });
            assert_eq!(content, ALIVE, "found after it was freed");
        }
    }

    /// Makes the object unreachable and retires it. Relaxed: the epochs need no help from the unlinking store.
    fn unlink(&self, guard: &Guard<'_>) {
        self.linked.store(0, Ordering::Relaxed);
        // SAFETY: the object cannot be found any longer; no other code retires it.
        unsafe { guard.retire(NonNull::from(&self.object).cast(), free) };
    }
}

fn advance_and_reclaim(participant: &Participant, advances: usize) {
    for _ in 0..advances {
        let _ = participant.epochs().advance();
    }
    participant.reclaim(usize::MAX);
}

/// One thread reads; another unlinks, retires, advances and reclaims.
#[test]
fn loom_reclaim_waits_for_who_is_inside() {
    loom::model(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (reader, writer) = (epochs.join(), epochs.join());
        let reading = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _guard = reader.enter();
                shared.read();
            }
        });
        shared.unlink(&writer.enter());
        advance_and_reclaim(&writer, 2);
        reading.join().unwrap();
    });
}

/// The reader advances the epochs itself, so that it may enter a later one than the writer's tag.
#[test]
fn loom_the_tag_is_not_too_old() {
    loom::model(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (reader, writer) = (epochs.join(), epochs.join());
        let reading = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                // Enters the epoch that it has opened itself.
                let _ = reader.epochs().advance();
                let _guard = reader.enter();
                shared.read();
            }
        });
        shared.unlink(&writer.enter());
        advance_and_reclaim(&writer, 2);
        reading.join().unwrap();
    });
}

/// A reader that moves on at a quiescent point finds no object that was freed meanwhile, and holds no epoch back.
#[test]
fn loom_quiescing_is_leaving_and_entering() {
    loom::model(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (reader, writer) = (epochs.join(), epochs.join());
        reader.pin();
        let reading = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                shared.read();
                reader.quiesce();
                shared.read();
                reader.unpin();
            }
        });
        shared.unlink(&writer.enter());
        advance_and_reclaim(&writer, 2);
        reading.join().unwrap();
    });
}

/// The reclaiming thread did not advance: another thread saw the reader leave, or must not have missed that it entered.
#[test]
fn loom_reclaiming_after_the_advances_of_another() {
    // Three threads: at most three involuntary switches, which are enough to expose a broken ordering.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (reader, writer) = (epochs.join(), epochs.join());
        let reading = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let _guard = reader.enter();
                shared.read();
            }
        });
        let advancing = thread::spawn({
            let epochs = Arc::clone(&epochs);
            move || {
                let _ = epochs.advance();
                let _ = epochs.advance();
            }
        });
        shared.unlink(&writer.enter());
        writer.reclaim(usize::MAX);
        reading.join().unwrap();
        advancing.join().unwrap();
    });
}

/// A reader joins at any time, maybe in the slot of a participant that leaves meanwhile.
#[test]
fn loom_a_new_participant_is_not_missed() {
    // Without a bound it takes longer than any other model.
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(5);
    model.check(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (former, writer) = (epochs.join(), epochs.join());
        let leaving = thread::spawn(move || drop(former));
        let reading = thread::spawn({
            let (epochs, shared) = (Arc::clone(&epochs), Arc::clone(&shared));
            move || {
                let reader = epochs.join();
                let _guard = reader.enter();
                shared.read();
            }
        });
        shared.unlink(&writer.enter());
        advance_and_reclaim(&writer, 2);
        leaving.join().unwrap();
        reading.join().unwrap();
    });
}

/// The writer is gone; a reader enters twice meanwhile.
#[test]
fn loom_orphans_are_freed_by_others() {
    loom::model(|| {
        let (epochs, shared) = (EpochManager::new("loom"), Shared::new());
        let (reader, writer) = (epochs.join(), epochs.join());
        let reading = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for _ in 0..2 {
                    let _guard = reader.enter();
                    shared.read();
                }
            }
        });
        shared.unlink(&writer.enter());
        drop(writer);
        let _ = epochs.advance();
        let _ = epochs.advance();
        epochs.reclaim_orphans(usize::MAX);
        reading.join().unwrap();
    });
}
