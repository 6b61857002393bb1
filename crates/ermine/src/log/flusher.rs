//! The thread that writes the log from the ring to its files.
//!
//! The flusher writes everything that is filled, syncs, and publishes how far the log is durable; the blocks that were
//! filled meanwhile form the next round. So the speed of the device groups commits, without a timer: a lone commit is
//! flushed at once, and the more commits arrive, the more of them share a sync. While no thread waits, the flusher lets
//! some commits gather; it also does so after a large round if commits continue meanwhile: each round takes processor
//! time from them, whatever its size.
//!
//! Invariants
//! 1. *In order.* A round begins where the one before ended, and ends before the next begins.
//! 2. *Durable after sync.* `durable` rises to the end of a round only after all files that the round wrote to have
//!    been synced; the name of a new file is synced before anything in it counts.
//! 3. *Once broken, always broken.* After an operation has failed, nothing is written and nothing becomes durable any
//!    more: the state that it left behind is unknown (a failed sync may have dropped the data that it was to write).
//!    The thread ends with the first failure, also with a panic of its own, and all waiters are notified.
//! 4. *The flusher waits for no other thread.* All others wait for it. A block of its own therefore takes a place only
//!    where that needs neither room in the ring nor a new segment, and is otherwise left for the next round. The
//!    flusher waits only for a device that is full (`room`): the data that could not be written is written later, and
//!    no commit begins meanwhile.
//! 5. *A clean stop ends with a proof.* The last block of a log that was stopped says that everything before it is
//!    durable: later damage is not taken for a torn tail.

use std::{
    io,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    Log,
    heads::Collector,
    lsn::Lsn,
    moment::Moment,
    space::{PAGE_BYTES, Span},
};
use crate::platform::file::File;

/// How long commits gather while no thread waits for one.
const GATHER: Duration = Duration::from_millis(10);
/// A flush of this many bytes is large: worth some gathering although a thread waits, for twice as long as the flush
/// took, up to a bound.
const LARGE_BYTES: u64 = 64 << 10;
const GATHER_LARGE_MAX: Duration = Duration::from_millis(4);
/// Interval between two noted times in the log, if anything was committed in between.
const CLOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes written at a time, so that the ring is freed bit by bit.
const WRITE_BYTES: u64 = 1 << 20;

/// State that the thread keeps between rounds.
pub(super) struct Flusher {
    log: Arc<Log>,
    /// The offset up to which everything is durable.
    from: u64,
    /// The segment that was written last, and its file.
    current: Option<(Span, Arc<dyn File>)>,
    /// The heads of its blocks, if they are collected.
    heads: Option<Collector>,
    /// The last page of a round.
    page: Box<Page>,
    /// The time that was noted last.
    last_moment: SystemTime,
    /// The end of the block that notes it.
    moment_end: u64,
    /// The end of a block that says that everything before it is durable.
    proven: u64,
}

/// Marks the log as broken when the flusher panics, so that no thread waits for it.
struct BrokenByPanic(Arc<Log>);

impl Drop for BrokenByPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail_flusher("the thread that writes it has panicked");
        }
    }
}

/// A page with the alignment at which the device can read it directly.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

impl Flusher {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let from = log.durable();
        // The part of the log that recovery found needs no noted time: one was behind it, or its process was killed.
        let (page, last_moment) = (Box::new(Page([0; PAGE_BYTES as usize])), SystemTime::UNIX_EPOCH);
        Self { log, from, current: None, heads: None, page, last_moment, moment_end: from, proven: from }
    }

    /// Flushes until told to stop, and then flushes the rest.
    pub(super) fn run(mut self) {
        let broken = BrokenByPanic(self.log.clone());
        if let Err(error) = self.flush_until_stopped() {
            broken.0.fail_flusher(&error.to_string());
        }
    }

    fn flush_until_stopped(&mut self) -> io::Result<()> {
        while !self.log.stop.load(Ordering::SeqCst) {
            self.note_moment();
            let to = self.log.space.filled_to();
            if to > self.from && (!self.log.waiters.is_empty() || self.is_much(to)) {
                let (began, bytes) = (Instant::now(), to - self.from);
                self.flush(to)?;
                self.gather(bytes, began.elapsed());
            } else {
                self.rest(to)?;
            }
        }
        // No transaction commits any more.
        self.flush(self.log.space.filled_to().max(self.from))?;
        // The ring is free, so this does not wait. Two rounds, where a segment had to be closed.
        while self.from != self.proven {
            let moment = Moment::from(SystemTime::now());
            let lsn = self.log.append(&self.log.clock_filling, moment.body());
            self.moment_placed(lsn, &moment);
            self.flush(self.log.space.filled_to().max(self.from))?;
        }
        if let (Some(identity), Some((span, _))) = (self.log.files.identity(), &self.current) {
            identity.note(span.sequence + 1, self.from)?;
        }
        self.heads.take().into_iter().for_each(|heads| heads.finish(&**self.log.files.directory()));
        Ok(())
    }

    fn is_much(&self, to: u64) -> bool {
        to - self.from >= self.log.ring.bytes() / 4
    }

    /// Waits after a large flush, while other transactions continue to commit, until more has gathered. The processor
    /// cost of a flush does not grow with its size, and the transactions that committed meanwhile are not those that
    /// waited for it.
    fn gather(&self, bytes: u64, took: Duration) {
        let to = self.log.space.filled_to();
        let meanwhile = to.saturating_sub(self.from);
        if bytes >= LARGE_BYTES && meanwhile >= bytes / 8 && !self.is_much(to) {
            thread::sleep((took * 2).min(GATHER_LARGE_MAX));
        }
    }

    /// Waits until there is work to do, or the gathered commits are due.
    fn rest(&mut self, to: u64) -> io::Result<()> {
        if self.log.waiters.begin_rest() {
            if !self.log.stop.load(Ordering::SeqCst) {
                thread::park_timeout(GATHER);
            }
        } else if to <= self.from {
            // The waiters wait for pieces that have been claimed and not filled yet: by a thread that may want this
            // core.
            thread::yield_now();
        }
        self.log.waiters.end_rest();
        if to > self.from && self.log.waiters.is_empty() { self.flush(to) } else { Ok(()) }
    }

    /// Writes the time to the log, for restores to a point in time: at intervals while commits continue, and once after
    /// the last.
    fn note_moment(&mut self) {
        let now = SystemTime::now();
        let filled_to = self.log.space.filled_to();
        if [self.moment_end, self.log.marked_to()].contains(&filled_to)
            || now.duration_since(self.last_moment).is_ok_and(|passed| passed < CLOCK_INTERVAL)
        {
            return;
        }
        let moment = Moment::from(now);
        if let Some(lsn) = self.log.try_append(&self.log.clock_filling, moment.body()) {
            self.last_moment = now;
            self.moment_placed(lsn, &moment);
        }
    }

    fn moment_placed(&mut self, lsn: Lsn, moment: &Moment) {
        self.moment_end = lsn.offset() + moment.body().size();
        if lsn.offset() == self.from {
            self.proven = self.moment_end;
        }
    }

    /// Makes everything below `to` durable.
    fn flush(&mut self, to: u64) -> io::Result<()> {
        let (began, mut bytes) = (Instant::now(), 0);
        for (span, stretch) in self.log.space.stretches(self.from..to) {
            // There may have been a gap before it.
            self.log.ring.wrote(page_of(stretch.start));
            bytes += stretch.end - stretch.start;
            self.write(span, stretch)?;
        }
        self.log.ring.wrote(page_of(to));
        if let Some((_, file)) = &self.current {
            file.sync()?;
        }
        self.from = to;
        self.log.count_flush(bytes, began.elapsed());
        self.log.waiters.publish(to);
        self.log.readers.wake();
        let directory = self.log.files.directory();
        self.heads.take_if(|heads| !heads.spill(&**directory));
        Ok(())
    }

    /// Writes whole pages, from whole pages of the ring, so that the device can take them from there. The last page is
    /// mostly not full: its bytes so far are written with zeros behind them, and stay in the ring to be written again
    /// with the next round.
    fn write(&mut self, span: Span, stretch: Range<u64>) -> io::Result<()> {
        let file = self.file(span)?;
        self.collect_heads(stretch.end);
        let whole = page_of(stretch.end);
        let mut rest: &[u8] = &[];
        if whole < stretch.end {
            // SAFETY: below `filled_to`, and not freed before `wrote`; the same holds for the bytes of the first page
            // below the stretch, which were written before, or lie in front of the segment and belong to no piece.
            let bytes = unsafe { self.log.ring.filled(whole, stretch.end) };
            self.page.0[..bytes.len()].copy_from_slice(&bytes);
            self.page.0[bytes.len()..].fill(0);
            rest = &self.page.0;
        }
        let mut at = page_of(stretch.start);
        loop {
            // SAFETY: as above.
            let bytes = unsafe { self.log.ring.filled(at, whole.min(at + WRITE_BYTES)) };
            let next = at + bytes.len() as u64;
            let rest = if next == whole { rest } else { &[] };
            let (log, position) = (&self.log, span.position(at));
            log.room.until_there_is(|| log.is_stopping(), || file.write_both_at(position, &bytes, rest))?;
            self.log.ring.wrote(next);
            at = next;
            if at == whole {
                return Ok(());
            }
        }
    }

    /// Collects the heads of the blocks below `to`, which are in the ring and about to be written.
    fn collect_heads(&mut self, to: u64) {
        let ring = &self.log.ring;
        let copy = |mut from: u64, to: u64, into: &mut Vec<u8>| {
            while from < to {
                // SAFETY: below `filled_to`, and not freed before `wrote`.
                let bytes = unsafe { ring.filled(from, to) };
                into.extend_from_slice(&bytes);
                from += bytes.len() as u64;
            }
        };
        self.heads.take_if(|heads| !heads.add(to, copy));
    }

    /// Returns the file of a segment. The file written before is synced first: its round ends here.
    fn file(&mut self, span: Span) -> io::Result<Arc<dyn File>> {
        if let Some((current, file)) = &self.current {
            if *current == span {
                return Ok(file.clone());
            }
            file.sync()?;
        }
        let log = &self.log;
        self.heads.take().into_iter().for_each(|heads| heads.finish(&**log.files.directory()));
        let file = match log.existed(&span) {
            true => log.files.get(&span)?,
            false => {
                self.heads = log.files.identity().map(|identity| Collector::new(span, identity.identity()));
                let file = log.room.until_there_is(|| log.is_stopping(), || log.files.create(&span))?;
                if log.space.segments().len() > 1 {
                    // At once: without it, no transaction that needs one more segment may begin.
                    log.keep_room();
                }
                file
            }
        };
        self.current = Some((span, file.clone()));
        Ok(file)
    }
}

/// Returns the offset at which the page of `offset` begins.
fn page_of(offset: u64) -> u64 {
    offset / PAGE_BYTES * PAGE_BYTES
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::{
        clock::LogOffset,
        log::{
            Start,
            block::{BlockKind, Body, Header},
            lsn::GRANULE,
            scan::{Found, Scan},
            segment::SegmentFiles,
        },
        platform::file::faulty::{Attempt, FaultyDirectory},
    };

    fn start(directory: &FaultyDirectory, segment_bytes: u64) -> Arc<Log> {
        let files = Arc::new(SegmentFiles::new(Arc::new(directory.clone())));
        let start = Start { segments: Vec::new(), sequence: 0, offset: GRANULE, segment_bytes, buffer_bytes: 64 << 10 };
        Log::start(files, Arc::new(LogOffset::new()), start).unwrap()
    }

    fn append(log: &Log, filling: &Arc<crate::log::space::Filling>, bytes: usize) -> Lsn {
        let payload = vec![7; bytes];
        log.append(filling, Body::of(BlockKind::Commit, &[], &payload))
    }

    /// Returns the headers of the blocks in the files, up to the first place without a block.
    fn headers(log: &Log) -> Vec<Header> {
        let mut headers = Vec::new();
        for span in log.segments() {
            let Ok(file) = log.files.get(&span) else { continue };
            let mut scan = Scan::new(&*file, span.into(), span.start);
            while let Ok(Found::Block(header, _)) = scan.next() {
                headers.push(header);
            }
        }
        headers
    }

    #[test]
    fn a_log_that_was_stopped_ends_with_a_moment_that_proves_it_whole() {
        // In the second log, the noted time does not fit the rest of the segment.
        for left in [1 << 20, 32] {
            let log = start(&FaultyDirectory::new(), 64 + left);
            let lsn = append(&log, &log.space.join(), 32);
            log.wait(lsn.offset()).unwrap();
            log.stop();
            let headers = headers(&log);
            let last = headers.last().unwrap();
            assert_eq!((last.kind, last.durable()), (BlockKind::Clock, last.lsn.offset()), "{headers:?}");
            assert_eq!(log.durable(), last.end());
        }
        let log = start(&FaultyDirectory::new(), 1 << 20);
        log.stop();
        assert!(headers(&log).is_empty(), "nothing has happened");
    }

    #[test]
    fn moments_are_noted_while_commits_go_on_and_not_otherwise() {
        let log = start(&FaultyDirectory::new(), 1 << 20);
        let filling = log.space.join();
        let began = std::time::Instant::now();
        while began.elapsed() < 6 * CLOCK_INTERVAL {
            append(&log, &filling, 100);
            thread::sleep(Duration::from_millis(1));
        }
        let took = began.elapsed();
        thread::sleep(4 * CLOCK_INTERVAL);
        log.stop();
        let headers = headers(&log);
        let is_moment = |header: &Header| header.kind == BlockKind::Clock;
        let moments = headers.iter().filter(|header| is_moment(header)).count();
        let most = took.as_millis() / CLOCK_INTERVAL.as_millis() + 3;
        assert!((2..=most as usize).contains(&moments), "{moments} in {took:?}");
        let idle = headers.iter().rev().take_while(|header| is_moment(header)).count();
        // One after the last commit, and one that proves it durable.
        assert!(idle <= 2, "{idle} while nothing happened");
    }

    #[test]
    fn the_flusher_does_not_wait_for_itself_while_the_ring_is_full() {
        let directory = FaultyDirectory::new();
        let log = start(&directory, 256 << 10);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let filling = log.space.join();
                    for turn in 0..150 {
                        append(&log, &filling, 20_000 + turn % 7 * 1000);
                    }
                });
            }
        });
        let last = log.space.now() - GRANULE;
        log.wait(last).unwrap();
        log.stop();
        let headers = headers(&log);
        assert_eq!(headers.iter().filter(|header| header.kind == BlockKind::Commit).count(), 450);
    }

    #[test]
    fn who_waits_is_told_when_the_flusher_breaks() {
        let directory = FaultyDirectory::new();
        let log = start(&directory, 1 << 20);
        let (go_on, wait) = mpsc::channel::<()>();
        directory.fail_when(move |_, attempt| {
            matches!(attempt, Attempt::Sync(_)).then(|| {
                let _ = wait.recv();
                crate::platform::file::faulty::Fault::Broken
            })
        });
        let lsn = append(&log, &log.space.join(), 32);
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| log.wait(lsn.offset()))).collect();
            while log.waiters.is_empty() {
                thread::yield_now();
            }
            go_on.send(()).unwrap();
            assert!(waiting.into_iter().all(|waiting| waiting.join().unwrap().is_err()));
        });
        assert!(log.wait(lsn.offset()).is_err() && log.check().is_err());
        // No thread waits for room, either, or for a place.
        for _ in 0..10 {
            let filling = log.space.join();
            let payload = [0; 20_000];
            log.append(&filling, Body::of(BlockKind::Commit, &[], &payload));
        }
        log.stop();
    }
}
