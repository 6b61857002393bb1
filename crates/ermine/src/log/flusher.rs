//! The thread that takes the log from the ring to its files.
//!
//! It writes everything that is filled, syncs, and says how far the log is durable; what was filled meanwhile is the next
//! round. So commits are grouped by what the device can do, without a timer: a lone commit is flushed at once, and the more
//! come, the more share a sync. While nobody waits, it lets some gather; and also behind a large round, if commits go on
//! meanwhile: each round takes processor time from them, whatever its size.
//!
//! Invariants
//! 1. *In order.* A round begins where the one before ended, and ends before the next begins.
//! 2. *Durable after sync.* `durable` rises to the end of a round after all files that the round wrote to have been synced,
//!    and the name of a new file before anything in it counts.
//! 3. *Once broken, always broken.* After an operation that failed nothing is written and nothing becomes durable any more:
//!    what the failed one left behind is not known (a sync that fails may have dropped what it was to write). The thread ends
//!    with the first failure, also with a panic of its own, and all who wait are told.
//! 4. *It waits for nobody.* All wait for it. What it puts into the log itself therefore takes a place only where that needs
//!    neither room in the ring nor a new segment, and else is left for the next round. Only for a device that is full it waits
//!    (`room`): what was not written then is written later, and no commit begins meanwhile.
//! 5. *A clean stop ends with a proof.* The last block of a log that was stopped says that everything before it is durable:
//!    what is damaged later is not taken for torn.

use std::{
    io,
    ops::Range,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use super::{
    Log,
    block::{BlockKind, Body},
    lsn::Lsn,
    space::{PAGE_BYTES, Span},
};
use crate::platform::file::File;

/// How long commits gather while nobody waits for one.
const GATHER: Duration = Duration::from_millis(10);
/// A flush of so many bytes is large: worth some gathering although somebody waits, twice as long as it took, up to a bound.
const LARGE_BYTES: u64 = 64 << 10;
const GATHER_LARGE_MAX: Duration = Duration::from_millis(4);
/// Between two moments in the log, if anything was committed in between.
const CLOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Written at a time, so that the ring is freed bit by bit.
const WRITE_BYTES: u64 = 1 << 20;

/// A time as it stands in the log: microseconds since 1970.
pub(super) struct Moment([u8; 8]);

impl From<SystemTime> for Moment {
    fn from(time: SystemTime) -> Self {
        let micros = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        Self(micros.to_le_bytes())
    }
}

impl Moment {
    pub(super) fn body(&self) -> Body<'_> {
        Body { kind: BlockKind::Clock, descriptors: &[], payload: &self.0 }
    }
}

/// What the thread keeps between rounds.
pub(super) struct Flusher {
    log: Arc<Log>,
    /// Up to where everything is durable.
    from: u64,
    /// The segment that was written last, and its file.
    current: Option<(Span, Arc<dyn File>)>,
    /// The last page of a round.
    page: Box<Page>,
    /// When the last moment was noted.
    last_moment: SystemTime,
    /// Where its block ends.
    moment_end: u64,
    /// Where a block ends that says that everything before it is durable.
    proven: u64,
}

/// A flusher that panics leaves a log that is broken, not one that is waited for.
struct BrokenByPanic(Arc<Log>);

impl Drop for BrokenByPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("the thread that writes it has panicked");
        }
    }
}

/// A page, where the device can take it from.
#[repr(align(4096))]
struct Page([u8; PAGE_BYTES as usize]);

impl Flusher {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let from = log.durable();
        // What recovery found needs no moment: there was one behind it, or its process was killed.
        let (page, last_moment) = (Box::new(Page([0; PAGE_BYTES as usize])), SystemTime::UNIX_EPOCH);
        Self { log, from, current: None, page, last_moment, moment_end: from, proven: from }
    }

    /// Flushes until told to stop, and then what is left.
    pub(super) fn run(mut self) {
        let broken = BrokenByPanic(self.log.clone());
        if let Err(error) = self.flush_until_stopped() {
            broken.0.fail(&error.to_string());
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
        // Nobody commits any more.
        self.flush(self.log.space.filled_to().max(self.from))?;
        // The ring is free: there is nothing to wait for. Twice, where a segment had to be closed.
        while self.from != self.proven {
            let moment = Moment::from(SystemTime::now());
            let lsn = self.log.append(&self.log.clock_filling, moment.body());
            self.moment_placed(lsn, &moment);
            self.flush(self.log.space.filled_to().max(self.from))?;
        }
        if let (Some(identity), Some((span, _))) = (self.log.files.identity(), &self.current) {
            identity.note(span.sequence + 1, self.from)?;
        }
        Ok(())
    }

    fn is_much(&self, to: u64) -> bool {
        to - self.from >= self.log.ring.bytes() / 4
    }

    /// After a large flush, while others went on committing: until there is more. What a flush costs the processors does not
    /// grow with its size, and whoever committed meanwhile is not who waited for it.
    fn gather(&self, bytes: u64, took: Duration) {
        let to = self.log.space.filled_to();
        let meanwhile = to.saturating_sub(self.from);
        if bytes >= LARGE_BYTES && meanwhile >= bytes / 8 && !self.is_much(to) {
            thread::sleep((took * 2).min(GATHER_LARGE_MAX));
        }
    }

    /// Until there is something to do, or what has gathered is due.
    fn rest(&mut self, to: u64) -> io::Result<()> {
        if self.log.waiters.begin_rest() {
            if !self.log.stop.load(Ordering::SeqCst) {
                thread::park_timeout(GATHER);
            }
        } else if to <= self.from {
            // What they wait for has been claimed and not filled yet: by a thread that may want this core.
            thread::yield_now();
        }
        self.log.waiters.end_rest();
        if to > self.from && self.log.waiters.is_empty() { self.flush(to) } else { Ok(()) }
    }

    /// Puts the time into the log, for restores to a moment: while commits go on every so often, and once behind the last.
    fn note_moment(&mut self) {
        let now = SystemTime::now();
        if self.log.space.filled_to() == self.moment_end
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
        let mut bytes = 0;
        for (span, stretch) in self.log.space.stretches(self.from..to) {
            // Before it there may have been a gap.
            self.log.ring.wrote(page_of(stretch.start));
            bytes += stretch.end - stretch.start;
            self.write(span, stretch)?;
        }
        self.log.ring.wrote(page_of(to));
        if let Some((_, file)) = &self.current {
            file.sync()?;
        }
        self.from = to;
        self.log.count_flush(bytes);
        self.log.waiters.publish(to);
        Ok(())
    }

    /// Writes whole pages, from whole pages of the ring, so that the device can take them from there. The last one is mostly not
    /// full: what there is of it is written with zeros behind, and stays in the ring to be written again with the next round.
    fn write(&mut self, span: Span, stretch: Range<u64>) -> io::Result<()> {
        let file = self.file(span)?;
        let whole = page_of(stretch.end);
        let mut rest: &[u8] = &[];
        if whole < stretch.end {
            // SAFETY: below `filled_to`, and not freed before `wrote`; nor is what is below the stretch in its page, which was
            // written before, or lies in front of the segment and is nobody's.
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

    /// The file of a segment. What was written to the one before is synced first: its round ends here.
    fn file(&mut self, span: Span) -> io::Result<Arc<dyn File>> {
        if let Some((current, file)) = &self.current {
            if *current == span {
                return Ok(file.clone());
            }
            file.sync()?;
        }
        let log = &self.log;
        let file = match log.existed(&span) {
            true => log.files.get(&span)?,
            false => {
                let file = log.room.until_there_is(|| log.is_stopping(), || log.files.create(&span))?;
                if log.space.segments().len() > 1 {
                    // At once: without it, no transaction may begin what needs one more segment.
                    log.keep_room();
                }
                file
            }
        };
        self.current = Some((span, file.clone()));
        Ok(file)
    }
}

/// Where the page of an offset begins.
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
            block::Header,
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
        log.append(filling, Body { kind: BlockKind::Commit, descriptors: &[], payload: &payload })
    }

    /// What the files hold, up to where there is no block.
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
        // In the second, the moment does not fit what is left of the segment.
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
        // One behind the last, and one that proves it.
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
        // Nobody waits for room, either, or for the place.
        for _ in 0..10 {
            let filling = log.space.join();
            let payload = [0; 20_000];
            log.append(&filling, Body { kind: BlockKind::Commit, descriptors: &[], payload: &payload });
        }
        log.stop();
    }
}
