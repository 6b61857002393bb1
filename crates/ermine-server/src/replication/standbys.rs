//! How far the standbys of a cluster have come, as they tell the primary: what `pg_stat_replication`, the metrics and
//! the live page show; and whether their readers ask for safe snapshots. Nothing that has to be right depends on it.
//!
//! A standby sends a note about once a second: `POSITION WISH NODE`, the position up to which its files have
//! everything, whether safe snapshots are wanted (`1`, or `0`), and its name. The primary keeps the last note of each
//! node, until the node has been silent for a while.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ermine_replication::{
    End, Position, ReplicatedLog as _,
    jetstream::JetStream,
    log::{NoteReader as _, ReadError},
};
use ermine_sql::Standby;
use tokio::{sync::watch, time::sleep};

/// Time between two notes of a standby.
pub const TELL_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which a silent standby is not shown any more.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Nodes that are shown.
const NODES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_secs(1);

/// The standbys that the primary has heard of.
pub struct Standbys {
    /// The end of what is published.
    published: watch::Receiver<End>,
    heard: Mutex<BTreeMap<String, Heard>>,
}

struct Heard {
    position: Position,
    wants_safe_snapshots: bool,
    at: Instant,
}

/// Tells the primary how far this node has come, if one listens.
pub async fn tell(log: &JetStream, node: &str, position: Position, wants_safe_snapshots: bool) {
    // The next note comes soon.
    let _ = log.tell(note(node, position, wants_safe_snapshots).into()).await;
}

fn note(node: &str, position: Position, wants_safe_snapshots: bool) -> String {
    format!("{position} {} {node}", u8::from(wants_safe_snapshots))
}

fn read(note: &[u8]) -> Option<(&str, Position, bool)> {
    let (position, rest) = str::from_utf8(note).ok()?.split_once(' ')?;
    let (wish, node) = rest.split_once(' ')?;
    Some((node, Position(position.parse().ok()?), wish == "1"))
}

impl Standbys {
    pub fn new(published: watch::Receiver<End>) -> Arc<Self> {
        Arc::new(Self { published, heard: Mutex::default() })
    }

    /// Listens to the standbys.
    pub async fn hear(self: Arc<Self>, log: JetStream) {
        loop {
            if let Err(error) = self.hear_until_error(&log).await {
                log::warn!("the standbys are not heard: {error}");
            }
            sleep(PAUSE).await;
        }
    }

    async fn hear_until_error(&self, log: &JetStream) -> Result<(), ReadError> {
        let mut notes = log.listen().await?;
        loop {
            self.take_in(&notes.next().await?);
        }
    }

    fn take_in(&self, note: &[u8]) {
        let Some((node, position, wants_safe_snapshots)) = read(note) else { return };
        let (mut heard, at) = (self.heard(), Instant::now());
        heard.retain(|_, of| at - of.at < SILENCE_MAX);
        if heard.len() < NODES_MAX || heard.contains_key(node) {
            heard.insert(node.to_owned(), Heard { position, wants_safe_snapshots, at });
        }
    }

    /// Returns the standbys that were heard of a short time ago.
    pub fn all(&self) -> Vec<Standby> {
        let published = self.published.borrow().position;
        let heard = self.heard();
        let known = heard.iter().map(|(name, of)| (name, of, of.at.elapsed()));
        known
            .filter(|(.., silence)| *silence < SILENCE_MAX)
            .map(|(name, of, silence)| Standby {
                name: name.clone(),
                sent: published.0.max(of.position.0),
                received: of.position.0,
                silence,
            })
            .collect()
    }

    /// Whether a standby wants safe snapshots, for its readers.
    pub fn want_safe_snapshots(&self) -> bool {
        self.heard().values().any(|of| of.wants_safe_snapshots && of.at.elapsed() < SILENCE_MAX)
    }

    fn heard(&self) -> MutexGuard<'_, BTreeMap<String, Heard>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ermine_replication::{Hash, Sequence, Term};

    use super::*;

    #[test]
    fn the_last_note_of_each_standby_is_shown() {
        let end = End { sequence: Sequence(9), term: Term(1), position: Position(500), hash: Hash([0; 32]) };
        let (_published, receiver) = watch::channel(end);
        let standbys = Standbys::new(receiver);
        let told = [("b", 100), ("node c", 400), ("b", 450), ("ahead", 600)];
        told.iter().for_each(|(node, position)| standbys.take_in(note(node, Position(*position), false).as_bytes()));
        for nonsense in [&b""[..], b"12", b"12 1", b"x 0 b", b"-1 0 b", &[0xff, b' ', 1]] {
            standbys.take_in(nonsense);
        }
        assert!(!standbys.want_safe_snapshots());
        standbys.take_in(note("b", Position(450), true).as_bytes());
        assert!(standbys.want_safe_snapshots());
        let all: Vec<_> = standbys.all().into_iter().map(|of| (of.name, of.sent, of.received)).collect();
        let wanted = [("ahead", 600, 600), ("b", 500, 450), ("node c", 500, 400)];
        assert_eq!(all, wanted.map(|(node, sent, received)| (node.to_owned(), sent, received)));
        for number in 0..2 * NODES_MAX {
            standbys.take_in(note(&number.to_string(), Position(0), false).as_bytes());
        }
        assert_eq!(standbys.all().len(), NODES_MAX);
    }
}
