//! The log's pieces under the model checker: reserve, fill and flush; segments that are opened, closed and freed; the
//! ring; waiting for the flusher; chains and boundaries.
//!
//! The ring's bytes are cells that loom watches: a piece that is read before it is filled, or filled before its former
//! content has been read, fails the model as a race, whatever the values. Only a few segments have different numbers
//! (`lsn::SEGMENTS`), so that the numbers wrap around. Workers and flusher take the steps of `central` and `flusher`,
//! with memory for files.
//!
//! | mutant | found by |
//! |---|---|
//! | announcing, narrowing, withdrawing no release; `filled_to` no acquire | `.._has_been_filled`, `.._not_missed` |
//! | nothing is announced; `filled_to` reads the offset last | the same |
//! | the announcement is withdrawn before a piece is claimed again | `a_segment_is_closed_..` |
//! | the announcement is not narrowed | `.._for_himself` |
//! | no second read of the newest sequence; a load or store relaxed; sequence stored before span | `a_torn_look_..` |
//! | a piece in the dead zone is taken; a segment begins in it | `.._dead_zone_..`, `a_segment_is_closed_..` |
//! | `free_to` or `wrote` relaxed; a granule too much is free | `the_ring_..`, `who_closes_..` |
//! | the flusher's own piece by `fetch_add`, or without a check of the room | `the_flusher_waits_for_nobody` |
//! | the flusher publishes after checking the list; accesses out of the total order | `no_wake_up_..`, `.._oversleep` |
//! | a failure is reported only where the count says that there are waiters | `a_failure_..` |
//! | only open chains move the boundary | `no_chain_..` |
//!
//! A sequentially consistent announcement was found to be of no use: the `fetch_add` after it orders enough.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex},
    task::{Wake, Waker},
};

use loom::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::{
    block::HEADER_BYTES,
    chains::{Chains, Part},
    lsn::{GRANULE, Lsn, SEGMENTS},
    ring::Ring,
    space::{Filling, LogSpace, Piece, Span},
    waiters::Waiters,
};
use crate::{clock::LogOffset, sync::Spin};

/// The offset at which the log begins.
const FROM: u64 = GRANULE;
/// The byte that fills a skip.
const SKIP: u8 = 0xee;

/// Returns the byte that a piece is filled with.
fn content(offset: u64) -> u8 {
    (offset / GRANULE) as u8
}

/// A log without files.
struct Model {
    space: LogSpace,
    ring: Ring,
    /// Every segment that ever existed, by its sequence number, and every piece, with its content. Plain locks: they
    /// order nothing under loom.
    spans: StdMutex<HashMap<u64, Span>>,
    pieces: StdMutex<Vec<(Piece, u8)>>,
}

impl Model {
    fn new(segment_bytes: u64, ring_bytes: u64) -> Arc<Self> {
        let first = Span { sequence: 0, start: FROM, end: FROM + segment_bytes };
        Arc::new(Self {
            space: LogSpace::new(Arc::new(LogOffset::new()), vec![first], segment_bytes),
            ring: Ring::new(ring_bytes, FROM).unwrap(),
            spans: StdMutex::default(),
            pieces: StdMutex::default(),
        })
    }

    fn note_spans(&self) {
        for span in self.space.segments() {
            let known = self.spans.lock().unwrap().insert(span.sequence, span);
            assert!(known.is_none_or(|known| known == span), "a segment has changed");
        }
    }

    /// As `Log::fill`. Of a skip, only the header is filled.
    fn fill(&self, piece: Piece, with: u8) {
        self.pieces.lock().unwrap().push((piece, with));
        let bytes = if with == SKIP { HEADER_BYTES as u64 } else { piece.size };
        let mut spin = Spin::default();
        while piece.lsn.offset() + bytes > self.ring.free_to() {
            spin.wait();
        }
        // SAFETY: loom checks it.
        unsafe { self.ring.fill(piece.lsn.offset(), &vec![with; bytes as usize]) };
    }

    /// As `Log::append`.
    fn append(&self, filling: &Filling, size: u64) -> Lsn {
        let piece = self.space.claim(filling, size, |skip| self.fill(skip, SKIP));
        self.fill(piece, content(piece.lsn.offset()));
        self.space.filled(filling);
        piece.lsn
    }

    /// Starts a worker that appends pieces of these sizes.
    fn spawn(self: &Arc<Self>, sizes: &'static [u64]) -> thread::JoinHandle<()> {
        let (model, filling) = (Arc::clone(self), self.space.join());
        thread::spawn(move || {
            for &size in sizes {
                model.append(&filling, size);
            }
            model.note_spans();
        })
    }

    /// Fills a piece if there is room.
    fn fill_if_room(&self, filling: &Filling, piece: Piece) -> bool {
        let has_room = piece.lsn.offset() + piece.size <= self.ring.free_to();
        if has_room {
            self.fill(piece, content(piece.lsn.offset()));
            self.space.filled(filling);
        }
        has_room
    }

    /// As [`Model::spawn`], but the worker stops where it finds no room, and keeps its piece.
    fn spawn_stopping(self: &Arc<Self>, sizes: [u64; 2]) -> thread::JoinHandle<Option<(Arc<Filling>, Piece)>> {
        let (model, filling) = (Arc::clone(self), self.space.join());
        thread::spawn(move || {
            for size in sizes {
                let skip = |skip| model.fill(skip, SKIP);
                let piece = model.space.claim(&filling, size, skip);
                if !model.fill_if_room(&filling, piece) {
                    return Some((filling, piece));
                }
            }
            None
        })
    }

    /// Flushes until all workers that stopped have found room.
    fn finish<const N: usize>(&self, from: u64, workers: [thread::JoinHandle<Option<(Arc<Filling>, Piece)>>; N]) {
        let mut stopped: Vec<_> = workers.into_iter().filter_map(|worker| worker.join().unwrap()).collect();
        let mut at = self.flush(from);
        while !stopped.is_empty() {
            let before = stopped.len();
            stopped.retain(|(filling, piece)| !self.fill_if_room(filling, *piece));
            assert!(stopped.len() < before, "all wait for each other");
            at = self.flush(at);
        }
        self.check_all();
    }

    /// Runs one round of the flusher, without files; returns the offset that it reached. Checks that the bytes it reads
    /// are those that were filled.
    fn flush(&self, from: u64) -> u64 {
        let to = self.space.filled_to().max(from);
        let mut at = from;
        for (span, stretch) in self.space.stretches(from..to) {
            self.ring.wrote(stretch.start);
            self.check_gap(at..stretch.start);
            at = stretch.start;
            while at < stretch.end {
                // SAFETY: loom checks it.
                let bytes = unsafe { self.ring.filled(at, stretch.end) };
                assert!(!bytes.is_empty());
                self.check(span, at, &bytes);
                at += bytes.len() as u64;
                self.ring.wrote(at);
            }
        }
        self.check_gap(at..to);
        self.ring.wrote(to);
        to
    }

    /// Checks that a gap contains no piece.
    fn check_gap(&self, gap: std::ops::Range<u64>) {
        for (piece, _) in &*self.pieces.lock().unwrap() {
            assert!(!gap.contains(&piece.lsn.offset()), "the flusher has left {gap:?} out, with a piece in it");
        }
    }

    /// Compares the bytes read at `at` with the pieces.
    fn check(&self, span: Span, at: u64, bytes: &[u8]) {
        let pieces = self.pieces.lock().unwrap();
        for (at, byte) in (at..).zip(bytes) {
            let holds = |piece: &Piece| (piece.lsn.offset()..piece.lsn.offset() + piece.size).contains(&at);
            match pieces.iter().find(|(piece, _)| holds(piece)) {
                Some((piece, SKIP)) if at >= piece.lsn.offset() + HEADER_BYTES as u64 => {}
                Some((piece, with)) => {
                    assert_eq!((byte, piece.lsn.segment()), (with, span.number()), "at {at} of {piece:?}");
                }
                None => assert!(span.end - at < HEADER_BYTES as u64, "no piece fills {at}"),
            }
        }
    }

    /// Checks that each piece lies in one segment, which its LSN names.
    fn check_places(&self) {
        let spans = self.spans.lock().unwrap();
        for (piece, _) in &*self.pieces.lock().unwrap() {
            let (start, end) = (piece.lsn.offset(), piece.lsn.offset() + piece.size);
            let span = spans.values().find(|span| span.start <= start && end <= span.end);
            assert_eq!(span.map(Span::number), Some(piece.lsn.segment()), "{piece:?} among {spans:?}");
        }
    }

    /// Checks, after all workers have ended and everything has been filled, that the pieces cover the segments without
    /// a hole or an overlap.
    fn check_all(&self) {
        self.note_spans();
        self.check_places();
        let mut pieces = self.pieces.lock().unwrap().clone();
        let spans = self.spans.lock().unwrap();
        pieces.sort_unstable_by_key(|(piece, _)| piece.lsn.offset());
        let to = self.space.now();
        assert_eq!(self.space.filled_to(), to, "everything has been filled");
        for span in spans.values() {
            let mut at = span.start;
            for (piece, _) in pieces.iter().filter(|(piece, _)| (span.start..span.end).contains(&piece.lsn.offset())) {
                assert_eq!(piece.lsn.offset(), at, "a hole or an overlap in {span:?}: {pieces:?}");
                at += piece.size;
            }
            assert!(at >= to || span.end - at < HEADER_BYTES as u64, "a hole at {at} in {span:?}: {pieces:?}");
        }
    }
}

fn bounded(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Two workers fill pieces, the second worker two of them; the flusher reads everything below `filled_to` twice.
#[test]
fn loom_what_the_flusher_reads_has_been_filled() {
    bounded(2, || {
        let model = Model::new(1024, 256);
        let workers = [model.spawn(&[32]), model.spawn(&[16, 16])];
        let at = model.flush(FROM);
        let at = model.flush(at);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert_eq!(model.flush(at), FROM + 64);
        model.check_all();
    });
}

/// A worker joins while the flusher visits the announcements.
#[test]
fn loom_a_new_worker_is_not_missed() {
    bounded(3, || {
        let model = Model::new(1024, 256);
        let worker = thread::spawn({
            let model = Arc::clone(&model);
            move || {
                let filling = model.space.join();
                model.append(&filling, 16);
                model.append(&filling, 16);
            }
        });
        let at = model.flush(FROM);
        let at = model.flush(at);
        worker.join().unwrap();
        assert_eq!(model.flush(at), FROM + 32);
        model.check_all();
    });
}

/// The flusher adds pieces of its own where it need not wait for that: there is room, and the segment goes on.
#[test]
fn loom_the_flusher_waits_for_nobody() {
    bounded(2, || {
        let model = Model::new(64, 64);
        let filling = model.space.join();
        let worker = model.spawn_stopping([32, 32]);
        let mut at = FROM;
        for _ in 0..2 {
            if let Some(piece) = model.space.try_claim(&filling, 16, model.ring.free_to()) {
                assert!(model.fill_if_room(&filling, piece), "it would wait for itself");
            }
            at = model.flush(at);
        }
        model.finish(at, [worker]);
    });
}

/// Pieces across the end of the segment and behind it: one worker closes it, one opens the next, a piece may be lost.
#[test]
fn loom_a_segment_is_closed_and_the_next_opened() {
    bounded(2, || {
        // The second piece that is claimed lies across the end, with room for a skip; the third may open the next
        // segment.
        let model = Model::new(96, 1024);
        let workers = [model.spawn(&[64]), model.spawn(&[64])];
        let at = model.flush(FROM);
        let at = model.flush(at);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        model.flush(at);
        model.check_all();
    });
}

/// The skip that closes a segment is read as soon as its owner has gone on to its next piece.
#[test]
fn loom_a_skip_is_filled_before_it_is_read() {
    bounded(4, || {
        let model = Model::new(96, 1024);
        let filling = model.space.join();
        model.append(&filling, 64);
        let worker = model.spawn(&[64]);
        // May open the next segment, so that the worker finds it open and takes no lock.
        model.append(&filling, 16);
        let at = model.flush(FROM);
        worker.join().unwrap();
        model.flush(at);
        model.check_all();
    });
}

/// Two pieces behind the end at once: one worker opens a segment, the other's piece may be in the dead zone.
#[test]
fn loom_pieces_in_the_dead_zone_are_claimed_again() {
    bounded(2, || {
        // The rest of the first segment is too short for a skip.
        let model = Model::new(48, 1024);
        let filling = model.space.join();
        model.append(&filling, 32);
        let workers = [model.spawn(&[32]), model.spawn(&[32])];
        let at = model.flush(FROM);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        model.flush(at);
        model.check_all();
    });
}

/// Segments are opened and freed while a worker reads the newest: the number in its LSN is that of the segment it is
/// in.
#[test]
fn loom_a_torn_look_is_noticed() {
    bounded(3, || {
        let model = Model::new(32, 1024);
        let append = |model: &Model, filling: &Filling, size| {
            let piece = model.space.claim(filling, size, |skip| model.fill(skip, SKIP));
            model.fill(piece, content(piece.lsn.offset()));
            model.space.filled(filling);
            model.note_spans();
        };
        let (worker, filling) = (model.space.join(), model.space.join());
        let worker = thread::spawn({
            let model = Arc::clone(&model);
            move || append(&model, &worker, 16)
        });
        // Each piece is a segment.
        for _ in 0..SEGMENTS + 1 {
            append(&model, &filling, 32);
            model.space.free_below(model.space.filled_to());
        }
        worker.join().unwrap();
        model.check_places();
    });
}

/// The ring is as small as a piece: a piece is filled only when the previous content has been written. A worker that
/// finds no room stops, as it would wait there; when all have stopped, the flusher makes room for them one after the
/// other.
#[test]
fn loom_the_ring_is_used_again_and_nobody_waits_for_himself() {
    bounded(2, || {
        let model = Model::new(1024, 32);
        let workers = [model.spawn_stopping([32, 16]), model.spawn_stopping([16, 32])];
        let at = model.flush(FROM);
        let at = model.flush(at);
        model.finish(at, workers);
    });
}

/// A worker that closes a segment waits for room, too, with an announcement that is as low as the skip.
#[test]
fn loom_who_closes_a_segment_does_not_wait_for_himself() {
    bounded(1, || {
        let model = Model::new(80, 64);
        let worker = model.spawn(&[48, 48]);
        let mut at = FROM;
        while at < FROM + 144 {
            at = model.flush(at);
            thread::yield_now();
        }
        worker.join().unwrap();
        model.check_all();
    });
}

/// A waker that leaves a mark.
struct Mark(AtomicU64);

impl Wake for Mark {
    fn wake(self: Arc<Self>) {
        self.0.store(1, Ordering::Release);
    }
}

/// Enters the list, and checks once more; returns true if it may go on, and false if it must be woken.
fn wait(waiters: &Waiters, offset: u64, mark: &Arc<Mark>, done: impl Fn() -> bool) -> bool {
    if done() {
        return true;
    }
    waiters.enlist(offset, Waker::from(Arc::clone(mark)));
    done()
}

/// Two waiters wait for places that become durable one after the other.
#[test]
fn loom_no_wake_up_is_lost() {
    bounded(3, || {
        let waiters = Arc::new(Waiters::new(0));
        let waiting: Vec<_> = [16, 32]
            .map(|offset| {
                let waiters = Arc::clone(&waiters);
                thread::spawn(move || {
                    let mark = Arc::new(Mark(AtomicU64::new(0)));
                    let goes_on = wait(&waiters, offset, &mark, || waiters.durable() > offset);
                    (goes_on, mark)
                })
            })
            .into_iter()
            .collect();
        waiters.publish(32);
        waiters.publish(48);
        for waiting in waiting {
            let (goes_on, mark) = waiting.join().unwrap();
            assert!(goes_on || mark.0.load(Ordering::Acquire) == 1, "it sleeps for ever");
        }
    });
}

/// The log breaks: every waiter is notified.
#[test]
fn loom_a_failure_is_told_to_all() {
    loom::model(|| {
        let (waiters, broken) = (Arc::new(Waiters::new(0)), Arc::new(AtomicU64::new(0)));
        let waiting = thread::spawn({
            let (waiters, broken) = (Arc::clone(&waiters), Arc::clone(&broken));
            move || {
                let mark = Arc::new(Mark(AtomicU64::new(0)));
                // Not `durable`, which would put this into the total order: a `OnceLock` is not in it.
                let goes_on = wait(&waiters, 16, &mark, || broken.load(Ordering::Acquire) == 1);
                (goes_on, mark)
            }
        });
        // As a `OnceLock` is set.
        broken.store(1, Ordering::Release);
        waiters.wake_all();
        let (goes_on, mark) = waiting.join().unwrap();
        assert!(goes_on || mark.0.load(Ordering::Acquire) == 1, "it sleeps for ever");
    });
}

/// The flusher rests only when there are no waiters, or is woken.
#[test]
fn loom_the_flusher_does_not_oversleep() {
    loom::model(|| {
        let waiters = Arc::new(Waiters::new(0));
        let waiting = thread::spawn({
            let waiters = Arc::clone(&waiters);
            move || {
                waiters.enlist(16, Waker::noop().clone());
                waiters.is_flusher_resting()
            }
        });
        let sleeps = waiters.begin_rest();
        let wakes_it = waiting.join().unwrap();
        assert!(!sleeps || wakes_it, "the flusher sleeps, and one waits");
    });
}

/// Chains begin and end; none stretches across the boundary, whenever it is taken.
#[test]
fn loom_no_chain_stretches_across_a_boundary() {
    bounded(3, || {
        let (chains, offset) = (Arc::new(Chains::new()), Arc::new(LogOffset::new()));
        let workers: Vec<_> = (0..2)
            .map(|owner| {
                let (chains, offset) = (Arc::clone(&chains), Arc::clone(&offset));
                thread::spawn(move || {
                    chains.open(owner, &offset);
                    let blocks = [0, 1].map(|_| Lsn::new(offset.reserve(GRANULE).0, 0));
                    let parts = blocks.map(|block| Part { rows_before: 0, block }).to_vec();
                    chains.end(owner, Some((blocks[1].stamp(), parts)));
                    blocks
                })
            })
            .collect();
        let boundary = chains.boundary(&offset);
        for worker in workers {
            let [first, last] = worker.join().unwrap().map(Lsn::offset);
            assert!(boundary <= first || last < boundary, "{first} to {last} stretches across {boundary}");
        }
    });
}
