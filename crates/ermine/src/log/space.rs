//! The LSN space: which worker gets which piece of it, and which pieces are on disk (ERMIA 3.2).
//!
//! One `fetch_add` of the shared offset claims a piece. The piece is then compared with the segments, which are of any
//! size and leave gaps between them:
//!
//! ```text
//!   | segment i                    |   dead zone   | segment i + 1 ...
//!   .. block | block | closing skip|straddler| lost |winner's block | ..
//! ```
//!
//! - inside a segment: it is good;
//! - across the end of one: its owner closes that segment with a skip block, and claims again;
//! - behind the last one: its owner opens the next segment, which begins with that piece; a worker that claimed a piece
//!   below that finds it in the dead zone, and claims again.
//!
//! The filled pieces are known without counting them: before the `fetch_add` a worker [announces](Filling) a lower
//! bound of the piece it will get, and it withdraws the announcement when the piece is filled. Everything below all
//! announcements is filled.
//!
//! Invariants
//! 1. *Announced first.* The announcement is stored before the `fetch_add`, and [`filled_to`](LogSpace::filled_to)
//!    reads the offset before the announcements. If it reads an offset from a `fetch_add` or a later one, it also sees
//!    the announcement made before that `fetch_add`; so a worker whose announcement it misses has a piece at or above
//!    that offset. This needs no fence.
//! 2. *Filled before.* Every later store to an announcement, the withdrawal first, releases the filled bytes; a thread
//!    that finds the announcement gone acquires them.
//! 3. *One segment per place.* Segments do not overlap, and follow each other in order of their sequence numbers. The
//!    number in an LSN is that of its segment modulo 16; where more than 16 are live, offsets distinguish them.
//! 4. *A torn read is detected.* A worker reads the newest segment without a lock: sequence, span, sequence again. A
//!    span is overwritten only after the sequence has moved on by 16.
//! 5. *No worker waits for itself.* Once a piece is claimed, the announcement is the piece's own offset: so the worker
//!    with the lowest announcement has no other below it, everything below is written, and its piece finds room in the
//!    buffer, which is no smaller than a piece.
//! 6. *A dead zone is closed.* A worker that finds its piece in one has not withdrawn its announcement, and opens or
//!    finds a later segment before it does. So below `filled_to` every offset is in a segment or in a gap between two.
//! 7. *A segment is always available.* The log grows rather than wait for old segments to be freed: a worker that
//!    waited would hold up the checkpoint that frees them, because that checkpoint waits for workers that have claimed
//!    a piece.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    block::HEADER_BYTES,
    lsn::{GRANULE, Lsn, SEGMENTS},
};
use crate::{
    clock::LogOffset,
    ids::Stamp,
    sync::{AppendList, AtomicU64, Mutex, Ordering},
};

/// The unit in which devices write.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A lower bound of the piece that a worker is about to fill, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Filling(AtomicU64);

impl Filling {
    const NOTHING: u64 = u64::MAX;

    fn new() -> Self {
        Self(AtomicU64::new(Self::NOTHING))
    }

    /// Announces a piece at or above the current offset, and returns that offset.
    fn announce(&self, offset: &LogOffset) -> u64 {
        let now = offset.reached();
        // Release: as a withdrawal of the pieces filled before. Invariant 1 rests on the `fetch_add` that follows.
        self.0.store(now, Ordering::Release);
        now
    }

    /// Narrows the announcement to the piece that was claimed, so that nothing is held back longer than necessary.
    fn narrow(&self, offset: u64) {
        // Release: as a withdrawal of everything below.
        self.0.store(offset, Ordering::Release);
    }

    /// Withdraws the announcement: everything claimed since it was made has been filled.
    fn withdraw(&self) {
        // Release: invariant 2.
        self.0.store(Self::NOTHING, Ordering::Release);
    }
}

/// Upper bound of a segment's length, so that one skip can close it.
pub(crate) const SEGMENT_BYTES_MAX: u64 = u32::MAX as u64 * GRANULE;

/// A live segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Increases forever.
    pub(crate) sequence: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// Returns the number in the LSNs of this segment.
    pub(crate) fn number(&self) -> u8 {
        (self.sequence % SEGMENTS as u64) as u8
    }

    /// Returns the position of an offset in the segment's file. Files begin at whole pages of the LSN space, so that
    /// the pages of ring and file coincide (`flusher`).
    pub(crate) fn position(&self, offset: u64) -> u64 {
        offset - self.start / PAGE_BYTES * PAGE_BYTES
    }

    /// Returns the LSN of an offset inside the segment.
    pub(crate) fn lsn(&self, offset: u64) -> Lsn {
        assert!((self.start..self.end).contains(&offset), "{offset} is outside of {self:?}");
        Lsn::new(offset, self.number())
    }
}

/// A span that is read without a lock.
struct SharedSpan {
    start: AtomicU64,
    end: AtomicU64,
}

/// The position of a piece relative to the segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    Good(Lsn),
    /// The piece lies across the end of a segment: its first bytes close that segment.
    Closes(Lsn, u64),
    Dead,
}

/// The pieces of the log.
pub(crate) struct LogSpace {
    offset: Arc<LogOffset>,
    filling: AppendList<Arc<Filling>>,
    /// Sequence number of the newest segment.
    newest: AtomicU64,
    spans: [SharedSpan; SEGMENTS],
    live: Mutex<Live>,
}

struct Live {
    /// Oldest first; never empty.
    segments: VecDeque<Span>,
    /// Bytes of a segment while there are few.
    segment_bytes: u64,
    /// There is no room for larger ones.
    is_sparing: bool,
    /// The newest segment when the log was opened: those before it say nothing of the cleaning since then. A standby that
    /// takes over has had no cleaning at all.
    opened_in: u64,
}

impl Live {
    /// Number of live segments from which on new ones are larger, so that a lack of time for cleaning does not leave
    /// very many.
    const FEW: usize = 4;
    /// The same limit where there is no room for larger segments.
    const FEW_SPARING: usize = SEGMENTS * 3 / 4;
    const DOUBLINGS_MAX: usize = 8;

    fn newest(&self) -> Span {
        *self.segments.back().expect("there is always a segment")
    }

    fn next_bytes(&self, is_sparing: bool, ahead: usize) -> u64 {
        let few = if is_sparing { Self::FEW_SPARING } else { Self::FEW };
        let written = self.segments.len().min((self.newest().sequence - self.opened_in) as usize + 1);
        let doublings = (written + ahead).saturating_sub(few).min(Self::DOUBLINGS_MAX);
        (self.segment_bytes << doublings).min(SEGMENT_BYTES_MAX)
    }
}

/// A claimed piece; after filling it, its owner calls [`LogSpace::filled`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) lsn: Lsn,
    pub(crate) size: u64,
}

impl LogSpace {
    /// Creates a space with `segments`, oldest first and at least one, whose offset is inside the newest.
    pub(crate) fn new(offset: Arc<LogOffset>, segments: Vec<Span>, segment_bytes: u64) -> Self {
        let spans = std::array::from_fn(|_| SharedSpan { start: AtomicU64::new(0), end: AtomicU64::new(0) });
        let newest = *segments.last().expect("there is at least one");
        let live = Live { segments: segments.into(), segment_bytes, is_sparing: false, opened_in: newest.sequence };
        let space = Self {
            offset,
            filling: AppendList::new(),
            newest: AtomicU64::new(newest.sequence),
            spans,
            live: Mutex::new(live),
        };
        space.show(newest);
        space
    }

    /// Returns the shared offset.
    pub(crate) fn offset(&self) -> &LogOffset {
        &self.offset
    }

    /// Returns the offset at which the next piece begins.
    pub(crate) fn now(&self) -> u64 {
        self.offset.now().0
    }

    /// Returns the announcements of a new worker.
    pub(crate) fn join(&self) -> Arc<Filling> {
        let filling = Arc::new(Filling::new());
        self.filling.push_with(|_| filling.clone());
        filling
    }

    /// Claims `size` bytes. `close` fills a piece that closes a segment.
    pub(crate) fn claim(&self, filling: &Filling, size: u64, mut close: impl FnMut(Piece)) -> Piece {
        filling.announce(&self.offset);
        loop {
            let offset = self.offset.reserve(size).0;
            let claim = self.look(offset, size);
            // Before any wait for room: everything below can be flushed.
            filling.narrow(offset);
            match claim {
                Claim::Good(lsn) => return Piece { lsn, size },
                Claim::Closes(lsn, size) if size >= HEADER_BYTES as u64 => close(Piece { lsn, size }),
                // The rest of the segment is smaller than a header, which marks its end by itself.
                Claim::Closes(..) | Claim::Dead => {}
            }
        }
    }

    /// Claims `size` bytes below `limit` if that is possible at once: inside the newest segment, and unless other
    /// workers are claiming.
    pub(crate) fn try_claim(&self, filling: &Filling, size: u64, limit: u64) -> Option<Piece> {
        let offset = filling.announce(&self.offset);
        let lsn = if offset + size <= limit { self.in_newest(offset, size) } else { None };
        let lsn = lsn.filter(|_| self.offset.reserve_at(Stamp(offset), size));
        if lsn.is_none() {
            filling.withdraw();
        }
        Some(Piece { lsn: lsn?, size })
    }

    /// Notes that the claimed piece has been filled.
    pub(crate) fn filled(&self, filling: &Filling) {
        filling.withdraw();
    }

    /// Returns the offset up to which everything has been filled. It may be less than the last time, when a worker has
    /// just announced a piece with an offset that is no longer current.
    pub(crate) fn filled_to(&self) -> u64 {
        // An acquire of all announcements made before the offset got this value: invariant 1.
        let mut to = self.offset.reached();
        self.filling.visit(|filling| {
            // Acquire: invariant 2.
            to = to.min(filling.0.load(Ordering::Acquire));
            true
        });
        to
    }

    fn look(&self, offset: u64, size: u64) -> Claim {
        self.in_newest(offset, size).map_or_else(|| self.look_locked(offset, size), Claim::Good)
    }

    /// Returns the place of a piece that lies in the newest segment. May miss a segment that has just been opened.
    fn in_newest(&self, offset: u64, size: u64) -> Option<Lsn> {
        // Acquire: pairs with `show`.
        let sequence = self.newest.load(Ordering::Acquire);
        let span = &self.spans[(sequence % SEGMENTS as u64) as usize];
        // Acquire: the second read of the sequence comes after them (invariant 4).
        let (start, end) = (span.start.load(Ordering::Acquire), span.end.load(Ordering::Acquire));
        let is_whole = self.newest.load(Ordering::Relaxed) == sequence;
        (is_whole && start <= offset && offset + size <= end).then(|| Span { sequence, start, end }.lsn(offset))
    }

    #[cold]
    fn look_locked(&self, offset: u64, size: u64) -> Claim {
        let mut live = self.live.lock().expect("no code panics while it holds the segments");
        let newest = live.newest();
        if offset >= newest.end {
            let bytes = live.next_bytes(live.is_sparing, 0).max(size);
            let opened = Span { sequence: newest.sequence + 1, start: offset, end: offset + bytes };
            live.segments.push_back(opened);
            self.show(opened);
            return Claim::Good(opened.lsn(offset));
        }
        match live.segments.iter().rev().find(|span| span.start <= offset) {
            Some(span) if offset + size <= span.end => Claim::Good(span.lsn(offset)),
            Some(span) if offset < span.end => Claim::Closes(span.lsn(offset), span.end - offset),
            _ => Claim::Dead,
        }
    }

    fn show(&self, span: Span) {
        let shared = &self.spans[usize::from(span.number())];
        // Release: pairs with the acquires in `look`. A thread that reads them while they change began with a sequence
        // at least 16 lower, and sees a newer one afterwards (invariant 4).
        shared.start.store(span.start, Ordering::Release);
        shared.end.store(span.end, Ordering::Release);
        // Release: pairs with `look`.
        self.newest.store(span.sequence, Ordering::Release);
    }

    /// Returns the parts of `range` that lie in segments, in order. Below [`filled_to`](Self::filled_to) the rest are
    /// gaps.
    pub(crate) fn stretches(&self, range: Range<u64>) -> Vec<(Span, Range<u64>)> {
        let live = self.live.lock().expect("no code panics while it holds the segments");
        let stretches = live.segments.iter().map(|span| (*span, span.start.max(range.start)..span.end.min(range.end)));
        stretches.filter(|(_, stretch)| !stretch.is_empty()).collect()
    }

    /// Bytes of the segment that comes next (0 ahead), or after it (1), where room is spared and where it is not.
    #[cfg(not(loom))]
    pub(crate) fn next_bytes(&self, is_sparing: bool, ahead: usize) -> u64 {
        self.live.lock().expect("no code panics while it holds the segments").next_bytes(is_sparing, ahead)
    }

    /// Sets whether new segments stay small for lack of room.
    #[cfg(not(loom))]
    pub(crate) fn spare(&self, is_sparing: bool) {
        self.live.lock().expect("no code panics while it holds the segments").is_sparing = is_sparing;
    }

    /// Returns the live segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<Span> {
        self.live.lock().expect("no code panics while it holds the segments").segments.iter().copied().collect()
    }

    /// Returns the live segment in which an offset lies.
    pub(crate) fn find(&self, offset: u64) -> Option<Span> {
        let live = self.live.lock().expect("no code panics while it holds the segments");
        live.segments.iter().find(|span| (span.start..span.end).contains(&offset)).copied()
    }

    /// Frees and returns the oldest segments, all that end at or below `offset`: they are no longer live, and nothing
    /// reads them.
    pub(crate) fn free_below(&self, offset: u64) -> Vec<Span> {
        let mut live = self.live.lock().expect("no code panics while it holds the segments");
        let all_but_newest = live.segments.len() - 1;
        let is_below = |span: &&Span| span.end <= offset;
        let count = live.segments.iter().take(all_but_newest).take_while(is_below).count();
        live.segments.drain(..count).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn space(segment_bytes: u64) -> LogSpace {
        let first = Span { sequence: 0, start: 16, end: 16 + segment_bytes };
        LogSpace::new(Arc::new(LogOffset::new()), vec![first], segment_bytes)
    }

    fn claim(space: &LogSpace, filling: &Filling, size: u64, closed: &mut Vec<(u64, u64)>) -> Piece {
        let close = |piece: Piece| closed.push((piece.lsn.offset(), piece.size));
        space.claim(filling, size, close)
    }

    #[test]
    fn a_block_across_the_end_closes_its_segment() {
        let (space, mut closed) = (space(256), Vec::new());
        let filling = space.join();
        for expected in [16, 112] {
            assert_eq!(claim(&space, &filling, 96, &mut closed).lsn, Lsn::new(expected, 0));
            space.filled(&filling);
        }
        let piece = claim(&space, &filling, 96, &mut closed);
        assert_eq!((piece.lsn, &closed[..]), (Lsn::new(304, 1), &[(208, 64)][..]));
        assert_eq!(space.filled_to(), 304, "an announcement holds it back");
        space.filled(&filling);
        assert_eq!(space.filled_to(), 400);
        assert_eq!(space.segments()[1], Span { sequence: 1, start: 304, end: 560 });
    }

    #[test]
    fn segments_grow_while_none_is_freed_and_go_oldest_first() {
        let (space, mut closed) = (space(256), Vec::new());
        let filling = space.join();
        while space.segments().len() < SEGMENTS {
            claim(&space, &filling, 256, &mut closed);
            space.filled(&filling);
        }
        let segments = space.segments();
        assert!(segments.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(segments[15].end - segments[15].start, 256 << 8);
        assert_eq!(space.free_below(segments[2].end), segments[..3]);
        // Also when there are many.
        while space.segments().len() < 70 {
            claim(&space, &filling, 256, &mut closed);
            space.filled(&filling);
        }
        let newest = *space.segments().last().unwrap();
        assert_eq!((newest.sequence, newest.number(), newest.end - newest.start), (72, 8, 256 << 8));
    }

    #[test]
    fn segments_of_an_earlier_process_do_not_make_new_ones_larger() {
        let earlier = (0..40).map(|at| Span { sequence: at, start: 16 + 256 * at, end: 16 + 256 * (at + 1) }).collect();
        let offset = LogOffset::from(16 + 256 * 40);
        let (space, mut closed) = (LogSpace::new(Arc::new(offset), earlier, 256), Vec::new());
        let filling = space.join();
        while space.segments().len() < 45 {
            claim(&space, &filling, 256, &mut closed);
            space.filled(&filling);
        }
        let bytes: Vec<_> = space.segments()[40..].iter().map(|span| span.end - span.start).collect();
        assert_eq!(bytes, [256, 256, 256, 256, 512]);
    }

    #[test]
    fn pieces_of_many_threads_do_not_overlap() {
        let space = space(4096);
        let mut pieces: Vec<(u64, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4u64)
                .map(|thread| {
                    let space = &space;
                    scope.spawn(move || {
                        let (filling, mut closed, mut pieces) = (space.join(), Vec::new(), Vec::new());
                        for turn in 0..300 {
                            let size = 32 + 16 * ((turn * 7 + thread) % 20);
                            let piece = claim(space, &filling, size, &mut closed);
                            pieces.push((piece.lsn.offset(), piece.size));
                            assert!(space.filled_to() <= piece.lsn.offset());
                            space.filled(&filling);
                            space.free_below(space.filled_to().saturating_sub(100_000));
                        }
                        pieces.extend(closed);
                        pieces
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert_eq!(space.filled_to(), space.offset.now().0);
    }
}
