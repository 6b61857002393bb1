//! Streaming replication: commands of connections that asked for it, and streams of changes.
//!
//! A thread of its own reads and encodes the changes of a stream, because reading the log blocks; the connection's task
//! passes them on, and listens to the client meanwhile. The thread is a few pieces ahead at most, and ends when the task
//! takes no more.

use std::{
    io,
    ops::ControlFlow,
    pin::pin,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use ermine_sql::{
    Column, Completion, Result, RowSink as _, SqlError, SqlState,
    logical::{ChangeStream, Event, lsn},
    types::{Environment, SqlType, Value},
};
use tokio::{
    sync::mpsc::{Receiver, Sender, channel},
    time::timeout,
};

use super::{Connection, End, Input, Next, rows::Sink};
use crate::{
    backend::{Backend, Session},
    protocol::{
        backend,
        frontend::{Header, LengthLimits, Message},
        pgoutput::{Encoder, Options},
        replication::{Command, Feedback, keepalive, piece},
        startup,
    },
    registry::Entry,
};

/// Bytes of messages that the thread passes on at a time, and how many such pieces it may be ahead.
const PIECE_BYTES: usize = 64 << 10;
const PIECES_AHEAD: usize = 8;
/// How often the thread looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The client is told at least so often how far the stream is, and asked for an answer when it has been silent longer.
const TELL_EVERY: Duration = Duration::from_secs(10);
const ASK_AFTER: Duration = Duration::from_secs(30);
/// A stream ends when its client has been silent for so long, as by PostgreSQL's `wal_sender_timeout`.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A stream that has begun.
pub(super) struct Streaming {
    stream: Arc<ChangeStream>,
    pieces: Receiver<Result<Piece>>,
}

impl Drop for Streaming {
    fn drop(&mut self) {
        // The client may drop the slot next; the thread ends a little later.
        self.stream.end();
    }
}

/// Messages for the client, and how far the stream is with them.
struct Piece {
    messages: Vec<u8>,
    /// The position that the last of them names.
    told: u64,
    position: u64,
}

impl<B: Backend> Connection<'_, B> {
    /// Runs a command, if the text is one; returns whether it was.
    pub(super) fn replication_command(&mut self, text: &str) -> bool {
        let command = match Command::parse(text) {
            Ok(Some(command)) => command,
            Ok(None) => return false,
            Err(error) => {
                self.report(&error);
                return true;
            }
        };
        // It may wait for the log, and for files.
        let done = self.shared.watch.run(true, Instant::now(), || self.session.check_replicates());
        if let Err(error) = done.and_then(|()| self.run_command(&command)) {
            self.report(&error);
        }
        true
    }

    fn run_command(&mut self, command: &Command) -> Result<()> {
        let text = |name: &str| Column::new(name, SqlType::TEXT);
        let watch = &self.shared.watch;
        let (columns, row) = match command {
            Command::IdentifySystem => {
                let position = watch.run(true, Instant::now(), || self.session.log_position())?;
                let secret = self.shared.backend.secret().first_chunk().copied().unwrap_or_default();
                let (system, database) = (u64::from_be_bytes(secret) >> 1, self.environment.database.to_string());
                let columns =
                    [text("systemid"), Column::new("timeline", SqlType::INT4), text("xlogpos"), text("dbname")];
                let row = [system.to_string().into(), Value::Int4(1), lsn(position).into(), database.into()];
                (columns, row)
            }
            Command::CreateSlot { name, plugin, uses_snapshot } => {
                let create = || self.session.create_slot(name, plugin, *uses_snapshot);
                let position = watch.run(true, Instant::now(), create)?;
                let names = ["slot_name", "consistent_point", "snapshot_name", "output_plugin"];
                let row = [name.as_str().into(), lsn(position).into(), Value::Null, plugin.as_str().into()];
                (names.map(text), row)
            }
            Command::DropSlot { name, waits } => {
                watch.run(true, Instant::now(), || self.session.drop_slot(name, *waits))?;
                backend::command_complete(self.output.bytes(), command.tag());
                return Ok(());
            }
            Command::Start { slot, from, options } => return self.start(slot, *from, options),
        };
        let from = self.output.bytes().len();
        let mut sink = Sink::simple(&mut self.output, &mut self.environment, &mut self.scratch);
        let sent = sink.columns(&columns).and_then(|()| sink.row(&row)).and_then(|()| sink.complete(command.tag()));
        match &sent {
            Ok(()) => self.output.completed(from, Completion::default()),
            Err(error) => self.output.release(error),
        }
        sent
    }

    fn start(&mut self, slot: &str, from: u64, options: &[(String, Option<String>)]) -> Result<()> {
        let options = Options::read(options)?;
        let stream = Arc::new(self.session.changes(slot, from, options.publications.clone())?);
        let (sender, pieces) = channel(PIECES_AHEAD);
        let (environment, reading) = (self.environment.clone(), stream.clone());
        let begun = thread::Builder::new().name("ermined-changes".into()).spawn(move || {
            read(&reading, &sender, environment, &options);
        });
        begun.map_err(|error| {
            SqlError::new(SqlState::TOO_MANY_CONNECTIONS, format!("a thread for the stream cannot be started: {error}"))
        })?;
        backend::copy_both_response(self.output.bytes());
        self.output.due();
        self.streaming = Some(Streaming { stream, pieces });
        Ok(())
    }

    /// Passes on changes until the client wants no more.
    pub(super) async fn stream(
        &mut self,
        mut streaming: Streaming,
        input: &mut Input,
        entry: &Entry,
    ) -> Result<Next, End> {
        let limits = LengthLimits { long: self.options.message_bytes_max, short: startup::LENGTH_MAX };
        let (mut position, mut told, mut heard) = (0, Instant::now(), Instant::now());
        let mut told_position = 0;
        loop {
            while let Some(header) = Header::peek(input.bytes(), limits)? {
                if header.length > input.bytes().len() {
                    break;
                }
                let mut has_ended = false;
                match header.decode(input.bytes())? {
                    Message::CopyData(data) => {
                        heard = Instant::now();
                        if let Feedback::Status { flushed, wants_reply } = Feedback::decode(data)? {
                            let confirm = || streaming.stream.confirm(flushed);
                            if let Err(error) = self.shared.watch.run(true, Instant::now(), confirm) {
                                log::warn!(connection = self.process; "a confirmed position is not kept: {error}");
                            }
                            if wants_reply {
                                self.tell(position, false);
                            }
                        }
                    }
                    Message::CopyDone | Message::CopyFail(_) => has_ended = true,
                    Message::Sync | Message::Flush => {}
                    Message::Terminate => return Ok(Next::Terminate),
                    _ => {
                        let what = "unexpected message within a stream of changes";
                        return Err(End::Told(SqlError::new(SqlState::PROTOCOL_VIOLATION, what)));
                    }
                }
                input.consume(header.length);
                if has_ended {
                    drop(streaming);
                    backend::copy_done(self.output.bytes());
                    backend::command_complete(self.output.bytes(), "COPY 0");
                    backend::command_complete(self.output.bytes(), "START_REPLICATION");
                    self.ready();
                    return Ok(Next::GoOn);
                }
            }
            let now = Instant::now();
            let is_behind = told_position < position && now - told > LOOK_EVERY;
            if is_behind || now - told > TELL_EVERY {
                self.tell(position, now - heard > ASK_AFTER);
                (told, told_position) = (now, position);
            }
            if !self.output.bytes().is_empty() {
                // A client that reads nothing does not keep the connection from being ended.
                let mut flush = pin!(self.output.flush());
                loop {
                    let staged = entry.staged.notified();
                    tokio::select! {
                        flushed = &mut flush => break flushed?,
                        () = staged => if entry.ends() {
                            let what = "terminating connection due to administrator command";
                            return Err(End::Told(SqlError::new(SqlState::ADMIN_SHUTDOWN, what)));
                        }
                    }
                }
            }
            if heard.elapsed() > SILENCE_MAX {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            self.end_when_staged(entry)?;
            let staged = entry.staged.notified();
            tokio::select! {
                read = input.fill(self.output.stream()) => {
                    if read? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                }
                piece = timeout(LOOK_EVERY, streaming.pieces.recv()) => match piece {
                    Ok(Some(Ok(piece))) => {
                        position = position.max(piece.position);
                        if !piece.messages.is_empty() {
                            self.output.bytes().extend_from_slice(&piece.messages);
                            (told, told_position) = (Instant::now(), piece.told);
                        }
                    }
                    Ok(Some(Err(error))) => {
                        self.report(&error);
                        self.ready();
                        return Ok(Next::GoOn);
                    }
                    Ok(None) => {
                        self.report(&SqlError::new(SqlState::INTERNAL_ERROR, "the reader of changes has ended"));
                        self.ready();
                        return Ok(Next::GoOn);
                    }
                    Err(_) => {}
                },
                () = staged => {}
            }
        }
    }

    /// Tells the client how far the stream is.
    fn tell(&mut self, position: u64, wants_reply: bool) {
        let mut message = Vec::with_capacity(18);
        keepalive(&mut message, position, now(), wants_reply);
        backend::copy_data(self.output.bytes(), &message);
    }
}

/// Reads and encodes changes until they are not wanted any more.
fn read(stream: &ChangeStream, sender: &Sender<Result<Piece>>, environment: Environment, options: &Options) {
    let mut encoder = Encoder::new(environment, options);
    let (mut messages, mut message) = (Vec::new(), Vec::new());
    // The position of the transaction that is encoded, the last one that a message names, and the position up to which
    // all is sent.
    let (mut at, mut told, mut done) = (0, 0, 0);
    let is_taken = |messages: &mut Vec<u8>, told, position| {
        let piece = Piece { messages: std::mem::take(messages), told, position };
        sender.blocking_send(Ok(piece)).is_ok()
    };
    let read = stream.run(LOOK_EVERY, &mut |event| {
        let mut add = |position, encoded: &[u8]| {
            message.clear();
            told = position;
            piece(&mut message, position, now(), encoded);
            backend::copy_data(&mut messages, &message);
        };
        let is_idle = matches!(event, Event::Idle(_));
        match event {
            Event::Begin(transaction) => {
                at = transaction.commit;
                add(at, &encoder.begin(transaction, now()));
            }
            Event::Change(change, types) => encoder.change(&change, types, &mut |encoded| {
                add(at, &encoded);
                Ok(())
            })?,
            Event::Commit(transaction) => {
                add(transaction.end, &encoder.commit(transaction, now()));
                done = transaction.end;
            }
            Event::Idle(position) => done = position,
        }
        let goes_on = match is_idle || messages.len() >= PIECE_BYTES {
            true => is_taken(&mut messages, told, done),
            false => true,
        };
        Ok(if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    });
    if let Err(error) = read {
        // What is complete goes first.
        if is_taken(&mut messages, told, done) {
            let _ = sender.blocking_send(Err(error));
        }
    }
}

/// Returns the time in microseconds since 2000-01-01.
fn now() -> i64 {
    const YEAR_2000: u64 = 946_684_800;
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_micros() as i64 - (YEAR_2000 * 1_000_000) as i64
}
