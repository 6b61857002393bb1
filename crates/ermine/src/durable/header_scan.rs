//! Reads a segment of the log with all processors: the headers and descriptors of its commits, which are what recovery
//! needs of them.
//!
//! Blocks follow each other, and only a block itself says where it ends. So a segment is read in windows, and each
//! window in pieces, one per thread: a thread that starts in the middle seeks bytes that look like the beginning of a
//! block. Whether they are one, or bytes of a value that look like one, is known when the piece before has reached its
//! end.
//!
//! Invariant: *only what is connected counts*. Blocks are handed out if the blocks before them end where they begin. A
//! piece that began somewhere else is read again, from the right place. So a window has what reading block by block
//! would have found.

use std::{io, iter, sync::Mutex, thread};

use crate::{
    log::{
        block::{BlockKind, Header, Invalid},
        lsn::GRANULE,
        scan::{Extent, Found, Scan},
    },
    platform::file::File,
};

/// Bounds of the length of a piece, which is a share of what is left. Short pieces are not worth a thread; but tests
/// have short segments.
const PIECE_BYTES_MIN: u64 = if cfg!(debug_assertions) { 16 << 10 } else { 1 << 20 };
const PIECE_BYTES_MAX: u64 = 8 << 20;

/// A run of consecutive blocks: their total bytes, and the header and descriptors of the commits among them.
#[derive(Default)]
pub(super) struct Headers {
    bytes: Vec<u8>,
    commits: Vec<Header>,
    pub(super) log_bytes: u64,
    /// The highest offset up to which a block says that the log was durable when it was filled.
    pub(super) durable: u64,
}

impl Headers {
    fn add(&mut self, header: &Header, block: &[u8]) {
        self.log_bytes += header.size;
        self.durable = self.durable.max(header.durable());
        if header.kind == BlockKind::Commit {
            self.bytes.extend_from_slice(&block[..header.payload_at() as usize]);
            self.commits.push(*header);
        }
    }

    /// The commits, each with the bytes of its header and descriptors.
    pub(super) fn commits(&self) -> impl Iterator<Item = (&Header, &[u8])> {
        let mut rest = &self.bytes[..];
        self.commits.iter().map(move |header| {
            let (front, behind) = rest.split_at(header.payload_at() as usize);
            rest = behind;
            (header, front)
        })
    }
}

/// Why there is no further block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The segment ends here.
    End,
    /// The bytes here are not a valid block.
    Invalid(Invalid),
}

/// The part of a segment that was read in one go.
pub(super) struct Window {
    /// In the order of the log.
    pub(super) pieces: Vec<Headers>,
    /// Position of the next block.
    pub(super) end: u64,
    pub(super) stop: Option<Stop>,
}

struct Piece {
    /// Position of the first block.
    first: u64,
    headers: Headers,
    end: u64,
    stop: Option<Stop>,
}

/// Reads some blocks from `at` on, where a block begins, in up to `threads` pieces.
pub(super) fn read_window(file: &dyn File, extent: Extent, at: u64, threads: usize) -> io::Result<Window> {
    let left = extent.end - at;
    let bytes = (left / (4 * threads as u64)).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX).next_multiple_of(GRANULE);
    let until = |from: u64| extent.end.min(from + bytes);
    let starts =
        (0..threads as u64).map(|piece| at + piece * bytes).filter(|start| *start == at || *start < extent.end);
    let starts: Vec<u64> = starts.collect();
    let pieces = side_by_side(starts.clone(), |start| {
        let mut scan = Scan::new(file, extent, start).until(until(start));
        if start == at || scan.try_seek(until(start))? { read_piece(scan, until(start)).map(Some) } else { Ok(None) }
    });
    let mut window = Window { pieces: Vec::new(), end: at, stop: None };
    for (start, piece) in starts.into_iter().zip(pieces) {
        if window.end >= until(start) && start != at {
            // A long block covers this piece, whatever its bytes look like.
            continue;
        }
        let piece = match piece? {
            Some(piece) if piece.first == window.end => piece,
            _ => read_piece(Scan::new(file, extent, window.end).until(until(start)), until(start))?,
        };
        window.pieces.push(piece.headers);
        window.end = piece.end;
        window.stop = piece.stop;
        if window.stop.is_some() {
            break;
        }
    }
    Ok(window)
}

/// Reads the blocks that begin before `until`, from the position of the scan on.
fn read_piece(mut scan: Scan<'_>, until: u64) -> io::Result<Piece> {
    let first = scan.at();
    let mut piece = Piece { first, headers: Headers::default(), end: first, stop: None };
    while piece.stop.is_none() && (piece.end < until || scan.is_at_end()) {
        match scan.next()? {
            Found::Block(header, block) => {
                piece.headers.add(&header, block);
                piece.end = header.end();
            }
            Found::End => piece.stop = Some(Stop::End),
            Found::Invalid(invalid) => piece.stop = Some(Stop::Invalid(invalid)),
        }
    }
    Ok(piece)
}

/// Applies `work` to all items, in parallel as far as the system has threads for it; returns the results in order.
pub(super) fn side_by_side<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync) -> Vec<R> {
    let others = items.len().saturating_sub(1);
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().expect("no code panics while it takes one").next();
    let take_turns = || iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
    let mut results = thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, take_turns).ok();
        let others: Vec<_> = (0..others).map_while(spawn).collect();
        let mut results = take_turns();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        durable::cold::whole_block,
        log::{
            block::{Body, Sealed},
            space::Span,
        },
        platform::file::{Directory, Open, faulty::FaultyDirectory},
    };

    /// A segment of blocks of random kinds and sizes, some of whose payloads look like blocks.
    fn segment(random: &mut fastrand::Rng) -> (Arc<dyn File>, Span, u64) {
        let start = GRANULE * random.u64(1..1000);
        let span = Span { sequence: 3, start, end: start + GRANULE * random.u64(1000..40_000) };
        let file = FaultyDirectory::new().open("a", Open::Create).unwrap();
        file.set_length(span.position(span.end)).unwrap();
        let mut at = start;
        let full = random.bool();
        while at < span.end {
            let left = span.end - at;
            if random.u8(..) == 0 && !full {
                break;
            }
            let longest = if random.u8(..10) == 0 { 60_000 } else { 300 };
            let mut payload = vec![7; random.usize(..longest)];
            let descriptors = vec![1; random.usize(..100)];
            if random.bool() && payload.len() > 100 {
                // Blocks that would be valid at their own places if they stood alone.
                for inner in (0..payload.len() - 64).step_by(64) {
                    let place = at + (32 + descriptors.len() + inner) as u64;
                    let inner = inner + (place.next_multiple_of(GRANULE) - place) as usize;
                    let lsn = span.lsn((place.next_multiple_of(GRANULE)).min(span.end - 1) / GRANULE * GRANULE);
                    payload[inner..inner + 32].copy_from_slice(&Sealed::skip(48).place(&[], lsn, 0));
                }
            }
            let kind = [BlockKind::Commit, BlockKind::Overflow, BlockKind::Clock][random.usize(..3)];
            let body = Body::of(kind, &descriptors, &payload);
            let mut block = whole_block(body, at);
            if block.len() as u64 + 32 > left {
                if left < 32 {
                    break;
                }
                block = Sealed::skip(left).place(&[], span.lsn(at), at).to_vec();
                file.write_at(span.position(at), &block).unwrap();
                at = span.end;
                continue;
            }
            block[..32].copy_from_slice(&body.seal().place(&descriptors, span.lsn(at), at));
            file.write_at(span.position(at), &block).unwrap();
            at += block.len() as u64;
        }
        (file, span, at)
    }

    /// The result of reading block by block.
    fn one_by_one(file: &dyn File, span: Span) -> (Vec<Header>, u64, Stop) {
        let (mut scan, mut commits) = (Scan::new(file, span.into(), span.start), Vec::new());
        loop {
            let at = scan.at();
            match scan.next().unwrap() {
                Found::Block(header, _) if header.kind == BlockKind::Commit => commits.push(header),
                Found::Block(..) => {}
                Found::End => return (commits, at, Stop::End),
                Found::Invalid(invalid) => return (commits, at, Stop::Invalid(invalid)),
            }
        }
    }

    #[test]
    fn windows_have_what_reading_block_by_block_finds() {
        let mut random = fastrand::Rng::with_seed(5);
        for turn in 0..300 {
            let (file, span, end) = segment(&mut random);
            if turn % 3 == 0 {
                // Damage somewhere.
                let position = random.u64(..span.position(end).max(1));
                let mut byte = [0];
                file.read_at(position, &mut byte).unwrap();
                file.write_at(position, &[byte[0] ^ 1 << random.u8(..8)]).unwrap();
            }
            let expected = one_by_one(&*file, span);
            for threads in [1, 2, 5] {
                let (mut commits, mut at, mut bytes) = (Vec::new(), span.start, 0);
                let stop = loop {
                    let window = read_window(&*file, span.into(), at, threads).unwrap();
                    for headers in &window.pieces {
                        bytes += headers.log_bytes;
                        for (header, front) in headers.commits() {
                            assert!(header.verify(front));
                            commits.push(*header);
                        }
                    }
                    assert!(window.end > at || window.stop.is_some());
                    at = window.end;
                    if let Some(stop) = window.stop {
                        break stop;
                    }
                };
                assert_eq!(
                    (&commits, at, stop),
                    (&expected.0, expected.1, expected.2),
                    "turn {turn}, {threads} threads"
                );
                assert_eq!(bytes, at - span.start);
            }
        }
    }
}
