//! Publishers and followers in the situations that the simulation meets by chance, one at a time, with the errors that
//! they return. Method: a log in memory, whose network does not fail.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use bytes::Bytes;
use ermine_replication::{
    Break, End, Fence, FollowError, Follower, Hash, Identity, Lease, OpenError, Piece, Position, PublishError,
    Publisher, ReplicatedLog, Sequence, Term,
    memory::{Faults, MemoryLog},
    piece::Kind,
    simulation::Simulation,
};

const IDENTITY: Identity = Identity([3; 16]);
const START: Position = Position(100);

fn run(test: impl AsyncFnOnce(MemoryLog)) {
    let simulation = Simulation::new(1);
    simulation.block_on(test(MemoryLog::new(&simulation, Faults::none())));
}

/// Opens a publisher in a new term, whatever lease is in force.
async fn open(log: &MemoryLog, end: End) -> Result<Publisher<MemoryLog>, OpenError> {
    log.expire_lease();
    let lease = log.acquire("node", None).await.unwrap();
    Publisher::open(log.clone(), IDENTITY, lease, end).await
}

fn lease(term: u64) -> Lease {
    Lease { holder: "node".into(), term: Term(term), expired: None }
}

async fn published(log: &MemoryLog) -> Publisher<MemoryLog> {
    let mut publisher = open(log, End::start(START)).await.unwrap();
    publisher.publish(Position(105), b"first").await.unwrap();
    publisher
}

#[test]
fn a_new_primary_fences_the_old_one() {
    run(async |log| {
        let mut old = published(&log).await;
        let mut new = open(&log, old.end()).await.unwrap();
        let fence = Fence::Foreign { sequence: Sequence(3), term: Some(Term(2)) };
        let known = old.end();
        assert_eq!(old.publish(Position(110), b"old").await, Err(PublishError::Fenced(fence.clone())));
        assert_eq!((old.end(), old.pending()), (known, Some(Position(110))));
        // For good.
        assert_eq!(old.settle().await, Err(PublishError::Fenced(fence.clone())));
        assert_eq!(old.publish(Position(110), b"old").await, Err(PublishError::Fenced(fence.clone())));
        assert_eq!(fence.to_string(), "a primary of term 2 has published at sequence 3");
        assert_eq!(new.publish(Position(110), b"new").await, Ok(new.end()));
        assert_eq!(log.messages().len(), 4);
    });
}

#[test]
fn a_lost_lease_fences() {
    run(async |log| {
        let mut publisher = published(&log).await;
        let keeper = publisher.keeper();
        assert_eq!(keeper.renew().await, Ok(()));
        log.expire_lease();
        assert!(keeper.renew().await.is_err());
        let fence = Fence::LeaseLost { term: Term(1) };
        assert_eq!(publisher.fence(), Some(&fence));
        assert_eq!(publisher.publish(Position(110), b"late").await, Err(PublishError::Fenced(fence)));
        assert_eq!(log.messages().len(), 2);
    });
}

#[test]
fn a_released_lease_fences() {
    run(async |log| {
        let mut publisher = published(&log).await;
        publisher.keeper().release().await.unwrap();
        assert!(matches!(publisher.publish(Position(110), b"late").await, Err(PublishError::Fenced(_))));
        assert_eq!(log.acquire("other", None).await.unwrap().term, Term(2));
    });
}

/// The piece was appended, but its publisher did not learn it.
#[test]
fn a_piece_that_is_already_there_is_not_appended_again() {
    run(async |log| {
        let mut publisher = published(&log).await;
        let end = publisher.end();
        let piece = Piece {
            identity: IDENTITY,
            term: Term(1),
            kind: Kind::Log,
            from: end.position,
            to: Position(110),
            predecessor: end.hash,
            body: Bytes::from_static(b"again"),
        };
        log.append(end.sequence, piece.encode()).await.unwrap();
        let end = publisher.publish(Position(110), b"again").await.unwrap();
        assert_eq!((end.sequence, end.position, log.messages().len()), (Sequence(3), Position(110), 3));
    });
}

#[test]
fn a_term_begins_only_at_the_end_that_the_stream_has() {
    run(async |log| {
        let publisher = published(&log).await;
        let end = publisher.end();
        let opened = async |term, end| Publisher::open(log.clone(), IDENTITY, lease(term), end).await.err();
        assert_eq!(opened(1, end).await, Some(OpenError::OldTerm { term: Term(1), end: Term(1) }));
        let behind = End { sequence: Sequence(3), ..end };
        assert_eq!(opened(2, behind).await, Some(OpenError::Behind { sequence: Sequence(3) }));
        let diverged = Some(OpenError::Diverged { sequence: Sequence(2) });
        assert_eq!(opened(2, End { position: Position(106), ..end }).await, diverged);
        assert_eq!(opened(2, End { hash: Hash::NONE, ..end }).await, diverged);
        let moved = OpenError::Moved(Fence::Foreign { sequence: Sequence(1), term: Some(Term(1)) });
        assert_eq!(opened(2, End::start(START)).await, Some(moved));
        // The last message always stays.
        log.append(end.sequence, Bytes::from_static(b"another")).await.unwrap();
        log.remove_before(Sequence(3));
        assert_eq!(opened(2, end).await, Some(OpenError::Gone { first: Sequence(3) }));
    });
}

#[test]
fn a_follower_sees_what_was_published() {
    run(async |log| {
        let first = published(&log).await;
        let second = open(&log, first.end()).await.unwrap();
        let mut follower = Follower::new(log.clone(), IDENTITY, End::start(START));
        let mut pieces = Vec::new();
        while follower.end() != second.end() {
            let piece = follower.next().await.unwrap();
            pieces.push((piece.term.0, piece.kind, piece.to.0));
        }
        assert_eq!(pieces, [(1, Kind::Opening, 100), (1, Kind::Log, 105), (2, Kind::Opening, 105)]);
        // It begins where a base ends, too.
        let mut follower = Follower::new(log.clone(), IDENTITY, first.end());
        assert!(follower.next().await.unwrap().is_opening());
    });
}

#[test]
fn a_follower_stops_where_the_stream_is_broken() {
    run(async |log| {
        let publisher = published(&log).await;
        let mut foreign = Follower::new(log.clone(), Identity([4; 16]), End::start(START));
        let cause = Break::ForeignDatabase(IDENTITY);
        let broken = FollowError::Broken { sequence: Sequence(1), position: START, cause };
        assert_eq!(foreign.next().await, Err(broken.clone()));
        assert_eq!(foreign.next().await, Err(broken));

        log.append(publisher.end().sequence, Bytes::from_static(b"no piece")).await.unwrap();
        let mut follower = Follower::new(log.clone(), IDENTITY, publisher.end());
        let error = follower.next().await.unwrap_err();
        let expected = "the stream is broken at sequence 3, position 105: a message of 8 bytes is no piece of a log";
        assert_eq!(error.to_string(), expected);

        log.remove_before(Sequence(2));
        let mut late = Follower::new(log.clone(), IDENTITY, End::start(START));
        assert_eq!(late.next().await, Err(FollowError::Gone { first: Sequence(2) }));
    });
}

/// A piece of an older term behind a newer one, as a log without expected sequences would accept it.
#[test]
fn a_follower_refuses_an_older_term() {
    run(async |log| {
        let old = published(&log).await;
        let new = open(&log, old.end()).await.unwrap();
        let piece = Piece {
            identity: IDENTITY,
            term: Term(1),
            kind: Kind::Log,
            from: new.end().position,
            to: Position(110),
            predecessor: new.end().hash,
            body: Bytes::from_static(b"old"),
        };
        log.append(new.end().sequence, piece.encode()).await.unwrap();
        let mut follower = Follower::new(log.clone(), IDENTITY, new.end());
        let error = follower.next().await.unwrap_err().to_string();
        assert_eq!(error, "the stream is broken at sequence 4, position 105: the piece is of an older term, 1");
    });
}

/// A body that does not fit a message, and one whose primary is replaced before its last message.
#[test]
fn a_long_piece_takes_several_messages_and_is_handed_out_as_a_whole() {
    run(async |log| {
        let mut old = published(&log).await;
        let begin = old.end();
        let body: Vec<u8> = (0..5 * Piece::BODY_BYTES_MAX / 2).map(|at| (at % 251) as u8).collect();
        let end = old.publish(Position(110), &body).await.unwrap();
        assert_eq!((end.sequence.0, end.position), (begin.sequence.0 + 3, Position(110)));
        let mut follower = Follower::new(log.clone(), IDENTITY, begin);
        let piece = follower.next().await.unwrap();
        assert!(piece.body == body && (piece.from, piece.to) == (begin.position, Position(110)));
        assert_eq!((follower.end(), follower.whole()), (end, end));

        let (from, to, predecessor) = (end.position, end.position, end.hash);
        let part = Bytes::from_static(b"part");
        let part = Piece { identity: IDENTITY, term: end.term, kind: Kind::Part, from, to, predecessor, body: part };
        log.append(end.sequence, part.encode()).await.unwrap();
        {
            let mut next = pin!(follower.next());
            for _ in 0..100 {
                log.get(end.sequence).await.unwrap();
                assert!(poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await);
            }
        }
        // Behind the part; another follower goes on before it.
        assert_eq!((follower.end().sequence.0, follower.whole()), (end.sequence.0 + 1, end));
        let mut new = open(&log, follower.end()).await.unwrap();
        new.publish(Position(120), b"new").await.unwrap();
        for mut follower in [Follower::new(log.clone(), IDENTITY, follower.whole()), follower] {
            assert!(follower.next().await.unwrap().is_opening());
            assert_eq!(follower.next().await.unwrap().body, b"new"[..]);
            assert_eq!((follower.end(), follower.whole()), (new.end(), new.end()));
        }
    });
}
