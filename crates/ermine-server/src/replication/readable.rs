//! A standby's copy of the database, from which readers are served while it follows.
//!
//! Invariants
//! 1. *Receiving comes first.* What goes wrong with the image or its readers ends the readers; the copy goes on to receive
//!    the stream, and can be promoted. The image is opened again after a while, which grows with each failure: nothing is
//!    received meanwhile.
//! 2. *No reader of a copy that is not followed any more*: the readers end before the copy is promoted, or dropped.

use std::{
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use ermine::{Database, HotStandby, LogPiece, LogReceiver};
use ermine_server::server::Control;
use ermine_sql::SqlDatabase;

use crate::Failure;

/// Time after which the image is opened again that could not be opened, or not be replayed; twice as long after each
/// further failure.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// How often the time is doubled.
const DOUBLED_MAX: u32 = 6;

/// How long safe snapshots are wanted after a reader has asked for one.
const WANTED_FOR: Duration = Duration::from_secs(60);

/// How readers of a standby are served.
pub struct Reading {
    /// Of the image.
    pub options: ermine::Options,
    pub serve: Box<Serve>,
}

/// Begins to serve readers of an image.
type Serve = dyn Fn(&Arc<Database>, SqlDatabase) -> Result<Readers, String> + Send + Sync;

/// A server for readers; it ends when this is dropped.
pub struct Readers {
    control: Control,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Readers {
    pub fn new(control: Control, thread: JoinHandle<Result<(), Failure>>) -> Self {
        Self { control, thread: Some(thread) }
    }

    fn have_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        // The second call ends transactions, too.
        self.control.end();
        self.control.end();
        match self.thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()) | Err(Failure::Told))) => {}
            Some(Ok(Err(Failure::Usage(why) | Failure::Failed(why)))) => {
                log::error!("readers were served no more: {why}")
            }
            Some(Err(_)) => log::error!("the server of the readers has panicked"),
        }
    }
}

/// A standby's copy.
pub struct ReadableCopy {
    /// `None` only within a change.
    state: Option<State>,
    /// When the image could not be used.
    failed: Option<Instant>,
    failures: u32,
    /// How often readers of the image had asked for a safe snapshot, and when that number was last another one.
    asked: (u64, Option<Instant>),
}

enum State {
    Receiving(LogReceiver),
    Read(Box<Image>),
}

/// Fields are dropped in this order: the readers first.
struct Image {
    readers: Readers,
    database: SqlDatabase,
    standby: HotStandby,
}

impl ReadableCopy {
    /// Begins without an image.
    pub fn new(receiver: LogReceiver) -> Self {
        Self { state: Some(State::Receiving(receiver)), failed: None, failures: 0, asked: (0, None) }
    }

    /// Whether the image should be opened now: there is none, and the last failure was a while ago. Readers whose server
    /// has ended by itself are given up.
    pub fn is_due(&mut self) -> bool {
        if matches!(&self.state, Some(State::Read(image)) if image.readers.have_ended()) {
            self.end_readers();
            self.note(Some("their server has ended".into()));
        }
        let doubled = self.failures.saturating_sub(1).min(DOUBLED_MAX);
        matches!(self.state, Some(State::Receiving(_)))
            && self.failed.is_none_or(|at| at.elapsed() > AGAIN_AFTER * 2_u32.pow(doubled))
    }

    /// Whether readers have asked for safe snapshots a short time ago.
    pub fn wants_safe_snapshots(&mut self) -> bool {
        let asked = match &self.state {
            Some(State::Read(image)) => image.standby.database().safe_snapshots_asked(),
            _ => 0,
        };
        if asked > self.asked.0 {
            self.asked.1 = Some(Instant::now());
        }
        self.asked.0 = asked;
        self.asked.1.is_some_and(|at| at.elapsed() < WANTED_FOR)
    }

    /// Opens the image, which is due, and serves readers from it. Takes as long as a recovery.
    pub fn open_image(&mut self, Reading { options, serve }: &Reading) {
        let Some(State::Receiving(receiver)) = self.state.take() else { unreachable!("there is no image") };
        let begin = |standby: &HotStandby| {
            let database = SqlDatabase::open(standby.database().clone()).map_err(|error| error.to_string())?;
            let readers = serve(standby.database(), database.clone())?;
            Ok((database, readers))
        };
        let (state, failure) = match HotStandby::of(receiver, options.clone()) {
            Ok(standby) => match begin(&standby) {
                Ok((database, readers)) => (State::Read(Box::new(Image { readers, database, standby })), None),
                Err(why) => (State::Receiving(standby.into_receiver()), Some(why)),
            },
            Err(failed) => (State::Receiving(failed.0), Some(failed.1.to_string())),
        };
        self.state = Some(state);
        self.note(failure);
    }

    fn note(&mut self, failure: Option<String>) {
        if let Some(why) = &failure {
            log::error!("this standby follows, but serves no readers: {why}");
        }
        self.failures += u32::from(failure.is_some());
        self.failed = failure.map(|_| Instant::now());
    }

    /// Receives pieces, durably, and shows them to the readers.
    pub fn receive(&mut self, pieces: Vec<LogPiece>) -> ermine::Result<()> {
        let mut pieces = pieces.into_iter();
        if let Some(State::Read(image)) = &mut self.state {
            let Image { standby, database, .. } = &mut **image;
            let mut taken = 0;
            let each = pieces.by_ref().inspect(|piece| taken = piece.to).map(Ok);
            let replayed =
                standby.receive_all_with(each, &mut |transaction, apply| database.replay(transaction, apply));
            match replayed {
                Err(error) if standby.position() >= taken => {
                    self.end_readers();
                    self.note(Some(error.to_string()));
                }
                replayed => replayed?,
            }
        }
        if let Some(State::Receiving(receiver)) = &mut self.state {
            pieces.try_for_each(|piece| receiver.receive(&piece))?;
        }
        Ok(())
    }

    fn end_readers(&mut self) {
        self.state = self.state.take().map(|state| State::Receiving(state.into_receiver()));
    }

    /// Makes the copy a database of its own. No reader is served any more.
    pub fn promote(self) -> ermine::Result<()> {
        self.state.map_or(Ok(()), |state| state.into_receiver().promote())
    }
}

impl State {
    fn into_receiver(self) -> LogReceiver {
        match self {
            Self::Receiving(receiver) => receiver,
            Self::Read(image) => {
                let Image { readers, database, standby } = *image;
                drop((readers, database));
                standby.into_receiver()
            }
        }
    }
}
