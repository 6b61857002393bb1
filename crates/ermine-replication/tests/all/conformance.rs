//! What every replicated log does, whatever stores it. Method: one sequence of calls, for each implementation, on a log
//! that is empty and does not fail.

use std::{future::Future, pin::pin, task::Poll};

use bytes::Bytes;
use ermine_replication::{
    ReplicatedLog, Sequence, Term,
    log::{AppendError, BlobError, BlobInfo, Lease, LeaseError, LeaseWrite, LogReader, NoteReader, ReadError},
    memory::{Faults, MemoryLog},
    simulation::Simulation,
};
use tokio::io::AsyncReadExt;

/// The lease, for whose end it pauses, comes last.
pub async fn conforms<L: ReplicatedLog>(log: &L, pause: impl AsyncFn()) {
    messages(log).await;
    blobs(log).await;
    notes(log).await;
    lease(log, pause).await;
}

async fn messages<L: ReplicatedLog>(log: &L) {
    let text = Bytes::from_static;
    assert_eq!(log.last().await, Ok(Sequence(0)));
    assert_eq!(log.get(Sequence(1)).await, Ok(None));
    assert_eq!(log.append(Sequence(1), text(b"too far")).await, Err(AppendError::Taken));
    assert_eq!(log.append(Sequence(0), text(b"one")).await, Ok(Sequence(1)));
    assert_eq!(log.append(Sequence(0), text(b"again")).await, Err(AppendError::Taken));
    assert_eq!(log.append(Sequence(1), text(b"two")).await, Ok(Sequence(2)));
    assert_eq!(log.last().await, Ok(Sequence(2)));
    assert_eq!(log.get(Sequence(1)).await, Ok(Some(text(b"one"))));
    assert_eq!(log.get(Sequence(3)).await, Ok(None));

    let mut reader = log.read(Sequence(2)).await.unwrap();
    assert_eq!(reader.next().await, Ok((Sequence(2), text(b"two"))));
    {
        let mut next = pin!(reader.next());
        // The third message is not there: the reader waits.
        let waits = std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await;
        assert!(waits);
        assert_eq!(log.append(Sequence(2), text(b"three")).await, Ok(Sequence(3)));
        assert_eq!(next.await, Ok((Sequence(3), text(b"three"))));
    }
    // A call that is dropped loses nothing.
    {
        let mut next = pin!(reader.next());
        let waits = std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await;
        assert!(waits);
    }
    assert_eq!(log.append(Sequence(3), text(b"four")).await, Ok(Sequence(4)));
    assert_eq!(reader.next().await, Ok((Sequence(4), text(b"four"))));
    // A reader may begin behind the end.
    let mut reader = log.read(Sequence(5)).await.unwrap();
    assert_eq!(log.append(Sequence(4), text(b"five")).await, Ok(Sequence(5)));
    assert_eq!(reader.next().await, Ok((Sequence(5), text(b"five"))));
    // The front goes; the last message stays.
    let gone = |first| Err(ReadError::Gone { first: Sequence(first) });
    for nothing in [0, 1] {
        log.trim(Sequence(nothing)).await.unwrap();
        assert_eq!(log.get(Sequence(1)).await, Ok(Some(text(b"one"))));
    }
    log.trim(Sequence(3)).await.unwrap();
    assert_eq!((log.get(Sequence(2)).await, log.get(Sequence(3)).await), (gone(3), Ok(Some(text(b"three")))));
    log.trim(Sequence(2)).await.unwrap();
    log.trim(Sequence(100)).await.unwrap();
    assert_eq!((log.get(Sequence(4)).await, log.get(Sequence(5)).await), (gone(5), Ok(Some(text(b"five")))));
    assert_eq!(log.append(Sequence(5), text(b"six")).await, Ok(Sequence(6)));
}

async fn blobs<L: ReplicatedLog>(log: &L) {
    assert!(matches!(log.get_blob("base").await, Err(BlobError::Missing)));
    assert_eq!(log.list_blobs().await.unwrap(), []);
    log.delete_blob("base").await.unwrap();
    let large: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    log.put_blob("base/2", &large[..]).await.unwrap();
    log.put_blob("base/1", &b"small"[..]).await.unwrap();
    log.put_blob("base/0", &b""[..]).await.unwrap();
    let infos = [("base/0", 0), ("base/1", 5), ("base/2", large.len() as u64)];
    let infos = infos.map(|(name, bytes)| BlobInfo { name: name.into(), bytes });
    assert_eq!(log.list_blobs().await.unwrap(), infos);
    let read = async |name| {
        let mut bytes = Vec::new();
        log.get_blob(name).await.unwrap().read_to_end(&mut bytes).await.unwrap();
        bytes
    };
    assert!(read("base/2").await == large);
    assert_eq!(read("base/0").await, b"");
    log.put_blob("base/1", &b"replaced"[..]).await.unwrap();
    assert_eq!(read("base/1").await, b"replaced");
    log.delete_blob("base/1").await.unwrap();
    assert!(matches!(log.get_blob("base/1").await, Err(BlobError::Missing)));
    assert_eq!(log.list_blobs().await.unwrap().len(), 2);
}

async fn notes<L: ReplicatedLog>(log: &L) {
    log.tell(Bytes::from_static(b"nothing listens")).await.unwrap();
    let (mut one, mut other) = (log.listen().await.unwrap(), log.listen().await.unwrap());
    let (last, sent) = (log.last().await, [&b"first"[..], b"", b"last"].map(Bytes::from_static));
    for note in &sent {
        log.tell(note.clone()).await.unwrap();
    }
    for note in sent {
        assert_eq!((one.next().await, other.next().await), (Ok(note.clone()), Ok(note)));
    }
    assert_eq!(log.last().await, last);
}

async fn lease<L: ReplicatedLog>(log: &L, pause: impl AsyncFn()) {
    let held = |attempt: Result<Lease, LeaseError>| match attempt {
        Err(LeaseError::Held { holder, write }) => Some((holder, write)),
        _ => None,
    };
    let by = |holder: &str, write: LeaseWrite| Some((holder.to_owned(), write));
    let first = log.acquire("one", None).await.unwrap();
    assert_eq!((&*first.holder, first.expired), ("one", None));
    assert!(first.term > Term(0));
    let (_, write) = held(log.acquire("two", None).await).unwrap();
    assert_eq!(held(log.acquire("one", None).await), by("one", write));
    assert_eq!(log.renew(&first).await, Ok(()));
    assert_eq!(log.renew(&first).await, Ok(()));
    assert_eq!(held(log.acquire("two", None).await), by("one", LeaseWrite(write.0 + 2)));
    assert_eq!(log.release(&first).await, Ok(()));
    assert_eq!(log.renew(&first).await, Err(LeaseError::Lost));
    let second = log.acquire("two", None).await.unwrap();
    assert!(second.term > first.term && second.expired.is_none());
    assert_eq!(log.renew(&first).await, Err(LeaseError::Lost));
    assert_eq!(log.release(&first).await, Err(LeaseError::Lost));
    assert_eq!(log.renew(&second).await, Ok(()));
    let (_, write) = held(log.acquire("three", None).await).unwrap();
    // It expires, if it is not renewed.
    let mut third = log.acquire("three", None).await;
    for _ in 0..300 {
        if held(third.clone()).is_none() {
            break;
        }
        pause().await;
        third = log.acquire("three", None).await;
    }
    let third = third.unwrap();
    assert_eq!(log.renew(&second).await, Err(LeaseError::Lost));
    assert!(third.term > second.term && third.expired == Some(write));
    assert_eq!(log.release(&second).await, Err(LeaseError::Lost));
    assert_eq!(log.renew(&third).await, Ok(()));
    // One that has not expired is taken by a node that knows its last write.
    let (_, write) = held(log.acquire("four", Some(write)).await).unwrap();
    let fourth = log.acquire("four", Some(write)).await.unwrap();
    assert!(fourth.term > third.term && fourth.expired == Some(write));
    assert_eq!(log.renew(&third).await, Err(LeaseError::Lost));
    assert_eq!(log.release(&fourth).await, Ok(()));
}

#[test]
fn the_log_in_memory_conforms() {
    let simulation = Simulation::new(1);
    let log = MemoryLog::new(&simulation, Faults::none());
    let clock = simulation.clock();
    simulation.block_on(conforms(&log, async || clock.sleep(100).await));
}
