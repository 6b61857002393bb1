//! A client's connection: messages in, calls to the session, replies out.
//!
//! All input received is handled before any output is written, and the replies go out in one write when the input is
//! used up: measured before, four writes per prepared query instead of one cost half of the throughput.
//!
//! Statements run on the connection's task; see [`aside`] for how long ones do not stop other connections.
//!
//! Invariants
//! 1. One connection's failure, garbage or panic ends that connection only.
//! 2. Between two `Sync`s, nothing is executed after an error.
//! 3. A client is sent notifications outside of transactions only: before it is told that it may go on, or while it
//!    is silent.
//! 4. When the server drains, a connection outside of a transaction ends at once, one inside when the transaction does.

pub mod aside;
mod copy;
mod counted;
mod extended;
mod input;
mod logged;
mod opening;
mod output;
pub mod polling;
mod replication;
mod rows;
mod simple;
mod statements;
mod stream;

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use ermine_sql::{SqlError, SqlState, Status, WaitEvent, types::Environment};
use log::Level;
use tokio::{net::TcpStream, time::timeout};

use self::{
    copy::Copying,
    input::Unfilled,
    logged::Unsynced,
    opening::{Opened, Refusal},
    polling::Polling,
    replication::Streaming,
    rows::Scratch,
    statements::Statements,
};
pub use self::{input::Input, output::Output, stream::Stream};
use crate::{
    backend::{Backend, Opening, Session},
    options::ServerOptions,
    protocol::{
        Malformed, backend,
        frontend::{Header, LengthLimits, Message},
        startup,
    },
    registry::{Entry, Full, Stage},
    shared::Shared,
};

/// Settings that are reported to clients at the start, and whenever they change.
const REPORTED: [(&str, &str); 13] = [
    ("server_version", "15.0 (Ermine)"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("application_name", ""),
    ("default_transaction_read_only", "off"),
    ("in_hot_standby", "off"),
    ("is_superuser", "on"),
    ("session_authorization", ""),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];

/// Serves a client from its first byte to its last.
pub async fn serve<B: Backend>(shared: Arc<Shared<B>>, socket: TcpStream) {
    let peer = socket.peer_addr().ok();
    let Some(starting) = shared.registry.starting() else {
        log::warn!("too many connections are starting up; one is closed");
        return;
    };
    let options = shared.options.get();
    let opened = match timeout(options.authentication_max, opening::open(&shared, socket)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(Refusal::Told(mut output, error))) => {
            log::info!(client = shown(peer), sqlstate = error.state().0; "a connection is refused: {error}");
            return fatal(&mut output, &error).await;
        }
        Ok(Err(Refusal::Io(error))) => return log::debug!("a connection ends while it starts up: {error}"),
        Ok(Err(Refusal::Silent)) => return,
        Err(_) => return log::info!("a connection took too long to start up"),
    };
    let Opened { input, mut output, startup, user, has_proof } = opened;
    let has_long_secret = startup.minor >= startup::MINOR_MAX;
    let registration = match shared.registry.register(has_long_secret, shared.backend.is_superuser(&user)) {
        Ok(registration) => registration,
        Err(full) => {
            let what = match full {
                Full::All => "sorry, too many clients already",
                Full::Others => "remaining connection slots are reserved for superusers",
            };
            return fatal(&mut output, &SqlError::new(SqlState::TOO_MANY_CONNECTIONS, what)).await;
        }
    };
    drop(starting);
    let entry = &registration.entry;
    output.register(shared.registry.clone(), entry.clone());
    let settings = opening::settings(&startup);
    let opening = Opening {
        user: &user,
        has_proof,
        database: startup.parameter("database").filter(|name| !name.is_empty()).unwrap_or(&user),
        settings: &settings,
        process: entry.process,
        pause: aside::pause,
        aside: aside::aside,
    };
    let mut session = match shared.backend.session(&opening) {
        Ok(session) => session,
        Err(error) => return fatal(&mut output, &error).await,
    };
    let ended = entry.clone();
    session.connect(entry.process, peer.map(|peer| peer.to_string()), Box::new(move || ended.end()));
    if let Err(error) = session.check_connections() {
        return fatal(&mut output, &error).await;
    }
    let notified = entry.clone();
    session.on_notification(Box::new(move || notified.wake()));
    output.show_waits(session.wait_events());
    let cancel = session.cancel();
    entry.on_cancel(cancel.clone());
    backend::authentication_ok(output.bytes());
    let mut connection = Connection {
        environment: session.environment(),
        shared: &shared,
        process: entry.process,
        user: user.clone(),
        unsynced: None,
        failing: None,
        options,
        session,
        output,
        cancel,
        polling: Polling::default(),
        statements: Statements::default(),
        scratch: Scratch::default(),
        told: Vec::new(),
        is_skipping: false,
        copying: None,
        replicates: startup.replicates(),
        streaming: None,
        has_set: false,
        simple_was_long: false,
    };
    connection.tell_settings();
    backend::backend_key_data(connection.output.bytes(), entry.process, &entry.secret);
    connection.ready();
    let (process, role, began) = (entry.process, &*user, Instant::now());
    let level = if connection.options.log_connections { Level::Info } else { Level::Debug };
    log::log!(
        level, connection = process, role = role, database = opening.database, client = shown(peer);
        "a connection begins"
    );
    let ended = connection.run(input, entry).await;
    let seconds = (began.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    // The option may have changed since the connection began.
    let level = if shared.options.get().log_disconnections { Level::Info } else { Level::Debug };
    match ended {
        Ok(()) => log::log!(level, connection = process, role = role, seconds = seconds; "a connection ends"),
        Err(End::Io(error)) => {
            log::log!(level, connection = process, role = role, seconds = seconds; "a connection is lost: {error}");
        }
        Err(End::Told(error) | End::NoRoom(error)) => {
            let state = error.state().0;
            log::info!(
                connection = process, role = role, seconds = seconds, sqlstate = state;
                "a connection is ended: {error}"
            );
            fatal(&mut connection.output, &error).await;
        }
    }
}

/// Returns the address of a client.
fn shown(peer: Option<SocketAddr>) -> String {
    peer.map(|peer| peer.to_string()).unwrap_or_default()
}

async fn fatal(output: &mut Output, error: &SqlError) {
    backend::error(output.bytes(), "FATAL", error);
    output.close().await;
}

/// The reason why a connection ends, other than at the client's request.
enum End {
    Io(io::Error),
    /// The error is sent to the client.
    Told(SqlError),
    /// There is no memory for the rest of a message. Where the message's kind is known, only the message fails.
    NoRoom(SqlError),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Unfilled> for End {
    fn from(error: Unfilled) -> Self {
        match error {
            Unfilled::Io(error) => Self::Io(error),
            Unfilled::NoRoom(error) => Self::NoRoom(error),
        }
    }
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> Self {
        Self::Told(SqlError::new(SqlState::PROTOCOL_VIOLATION, malformed.0))
    }
}

/// The next step after a message.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Terminate,
}

struct Connection<'s, B: Backend> {
    shared: &'s Shared<B>,
    options: Arc<ServerOptions>,
    /// The connection's number, and its user.
    process: i32,
    user: String,
    /// The first statement of the output whose commit is not durable yet.
    unsynced: Option<Unsynced<B::Session>>,
    /// The text of a statement that failed before it began.
    failing: Option<String>,
    session: B::Session,
    output: Output,
    polling: Polling,
    statements: Statements<B::Session>,
    environment: Environment,
    scratch: Scratch,
    cancel: Arc<AtomicBool>,
    /// Values of the settings as last reported to the client.
    told: Vec<String>,
    /// Whether messages are skipped, after an error, until `Sync`.
    is_skipping: bool,
    /// The copy from the client in progress.
    copying: Option<Copying<B::Session>>,
    /// Whether the client may give commands of replication.
    replicates: bool,
    /// The stream of changes that has begun.
    streaming: Option<Streaming>,
    /// Whether settings were changed in this transaction.
    has_set: bool,
    simple_was_long: bool,
}

impl<B: Backend> Connection<'_, B> {
    async fn run(&mut self, mut input: Input, entry: &Entry) -> Result<(), End> {
        let limits = LengthLimits { long: self.options.message_bytes_max, short: startup::LENGTH_MAX };
        let events = self.session.wait_events();
        loop {
            let mut announced: Option<Header> = None;
            while let Some(header) = Header::peek(input.bytes(), limits)? {
                if header.length > input.bytes().len() {
                    announced = Some(header);
                    break;
                }
                let is_last = input.bytes().get(header.length) == Some(&b'S');
                let next = self.handle(header.decode(input.bytes())?, is_last);
                input.consume(header.length);
                if next == Next::Terminate {
                    return Ok(());
                }
                if let Some(streaming) = self.streaming.take()
                    && self.stream(streaming, &mut input, entry).await? == Next::Terminate
                {
                    return Ok(());
                }
                if self.output.bytes().len() > output::BUFFER_MAX {
                    self.output.flush().await?;
                }
            }
            if self.output.wants_flush() {
                self.output.flush().await?;
            }
            self.synced();
            self.end_when_staged(entry)?;
            let waiting = self.copying.is_some().then(|| events.during(WaitEvent::ClientRead));
            let waited = self.wait(&mut input, announced.map(|header| header.length), entry).await;
            drop(waiting);
            match (waited, announced) {
                (Err(End::NoRoom(error)), Some(header)) => {
                    log::info!(connection = entry.process; "a message is discarded: {error}");
                    self.skip(&mut input, header, entry).await?;
                    self.refuse(header, error);
                    continue;
                }
                (waited, _) => waited?,
            }
            if input.bytes().is_empty() {
                return Ok(());
            }
        }
    }

    /// Waits for more input; when the connection ends, the input is empty.
    async fn wait(&mut self, input: &mut Input, announced: Option<usize>, entry: &Entry) -> Result<(), End> {
        let is_in_message = !input.bytes().is_empty();
        let limit = if is_in_message {
            Some(self.time_for(announced.unwrap_or_default()))
        } else if self.session.status() == Status::Idle {
            None
        } else {
            self.session.silence_max()
        };
        let began = limit.map(|_| Instant::now());
        let arrivals = &self.shared.arrivals;
        // With TLS, bytes may have come that are no message.
        let patience = if self.output.stream().is_plain() { self.options.busy_poll } else { Duration::ZERO };
        if let Some(read) = self.polling.look(arrivals, patience, || input.look(self.output.stream()))
            && read? > 0
            && announced.is_none_or(|length| input.bytes().len() >= length)
        {
            self.polling.received(arrivals);
            return Ok(());
        }
        self.polling.let_others_come().await;
        loop {
            let staged = entry.staged.notified();
            // After `staged`: what comes later wakes it.
            while !is_in_message && self.tell_notifications() {
                self.output.flush().await?;
            }
            let read = async {
                let more = input.fill(self.output.stream());
                match limit.zip(began) {
                    None => more.await.map(Some),
                    Some((limit, began)) => match timeout(limit.saturating_sub(began.elapsed()), more).await {
                        Ok(more) => more.map(Some),
                        Err(_) => Ok(None),
                    },
                }
            };
            tokio::select! {
                biased;
                read = read => match read? {
                    Some(0) if is_in_message => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    // A partial message cannot be handled yet, and its time limit still applies.
                    Some(_) if is_in_message && announced.is_some_and(|length| input.bytes().len() < length) => {
                        continue;
                    }
                    Some(_) => {
                        self.polling.received(arrivals);
                        return Ok(());
                    }
                    None if is_in_message => {
                        return Err(Malformed("a message was begun and not completed in time").into());
                    }
                    None => {
                        let what = "terminating connection due to idle-in-transaction timeout";
                        return Err(End::Told(SqlError::new(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, what)));
                    }
                },
                () = staged => self.end_when_staged(entry)?,
            }
        }
    }

    /// Returns how long a client may take to send a message of `length` bytes.
    fn time_for(&self, length: usize) -> Duration {
        self.options.message_max + Duration::from_secs(length as u64 >> 20)
    }

    /// Discards a message of which a part has been received.
    async fn skip(&mut self, input: &mut Input, header: Header, entry: &Entry) -> Result<(), End> {
        let (mut left, until) = (header.length, Instant::now() + self.time_for(header.length));
        loop {
            let staged = entry.staged.notified();
            let skipped = input.skip(&mut left, self.output.stream());
            tokio::select! {
                biased;
                skipped = timeout(until.saturating_duration_since(Instant::now()), skipped) => return match skipped {
                    Ok(Ok(true)) => Ok(()),
                    Ok(Ok(false)) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                    Ok(Err(error)) => Err(error.into()),
                    Err(_) => Err(Malformed("a message was begun and not completed in time").into()),
                },
                () = staged => self.end_when_staged(entry)?,
            }
        }
    }

    /// Answers a discarded message as if it had failed.
    fn refuse(&mut self, header: Header, error: SqlError) {
        if self.copying.is_some() {
            self.copy_refused(error);
        } else if !self.is_skipping {
            self.report(&error);
            if header.is_alone() { self.ready() } else { self.is_skipping = true }
        }
    }

    fn end_when_staged(&self, entry: &Entry) -> Result<(), End> {
        let ends = entry.ends()
            || match self.shared.registry.stage() {
                Stage::Serving => false,
                Stage::Draining => self.session.status() == Status::Idle,
                Stage::Ending => true,
            };
        if ends {
            let what = "terminating connection due to administrator command";
            return Err(End::Told(SqlError::new(SqlState::ADMIN_SHUTDOWN, what)));
        }
        Ok(())
    }

    #[inline]
    fn handle(&mut self, message: Message<'_>, is_last: bool) -> Next {
        if self.is_skipping && !matches!(message, Message::Sync | Message::Terminate) {
            return Next::GoOn;
        }
        if self.copying.is_some() && !matches!(message, Message::Terminate) {
            self.copied(&message);
            return Next::GoOn;
        }
        let done = match message {
            Message::Bind(bind) => {
                let done = self.bind(&bind);
                if done.is_err() {
                    // It is no fault of a statement's text.
                    self.failing = Some(String::new());
                }
                done
            }
            Message::Describe(target) => self.describe(target),
            Message::Execute { portal, rows_max } => self.execute(portal, rows_max, is_last),
            Message::Sync => {
                self.sync();
                Ok(())
            }
            Message::Query(text) => {
                self.simple_query(text);
                Ok(())
            }
            Message::Parse { name, text, types } => self.parse(name, text, types),
            Message::Close(target) => {
                self.close(target);
                Ok(())
            }
            Message::Flush => {
                self.output.due();
                Ok(())
            }
            Message::FunctionCall => {
                self.failing = Some(String::new());
                self.report(&SqlError::unsupported("a call of a function by its number"));
                self.ready();
                Ok(())
            }
            // Remaining messages of a copy that has failed.
            Message::CopyData(_) | Message::CopyDone | Message::CopyFail(_) => Ok(()),
            Message::Password(_) => Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                "unexpected password message: the server requested none",
            )),
            Message::Terminate => return Next::Terminate,
        };
        if let Err(error) = done {
            self.report(&error);
            self.is_skipping = true;
        }
        Next::GoOn
    }

    /// Reports an error that does not end the connection.
    fn report(&mut self, error: &SqlError) {
        let failing = self.failing.take();
        self.log_failure(error, failing.as_deref());
        self.session.fail();
        backend::error(self.output.bytes(), "ERROR", error);
        self.output.due();
    }

    /// Tells the client that it may go on, and the state of the transaction.
    fn ready(&mut self) {
        let status = self.session.status();
        if status == Status::Idle {
            self.statements.end_portals();
        }
        if self.has_set {
            self.tell_settings();
            self.has_set = status != Status::Idle;
        }
        self.tell_notifications();
        backend::ready_for_query(self.output.bytes(), status);
        self.output.due();
    }

    /// Reports settings whose values differ from those that the client has.
    fn tell_settings(&mut self) {
        self.environment = self.session.environment();
        self.told.resize(REPORTED.len(), String::new());
        for ((name, default), told) in REPORTED.iter().zip(&mut self.told) {
            let now = self.session.setting(name).unwrap_or_else(|| match *name {
                "session_authorization" => self.environment.user.to_string(),
                _ => (*default).to_owned(),
            });
            // A reported value is never the empty string, except for one that is empty from the beginning.
            if now != *told || !self.has_set {
                backend::parameter_status(self.output.bytes(), name, &now);
                *told = now;
            }
        }
    }

    /// Sends notifications, if there are any and no transaction is open; returns whether there may be more.
    #[inline]
    fn tell_notifications(&mut self) -> bool {
        self.session.has_notifications() && self.tell_some_notifications()
    }

    #[cold]
    fn tell_some_notifications(&mut self) -> bool {
        if self.session.status() != Status::Idle {
            return false;
        }
        let all = self.session.notifications();
        for one in &all {
            backend::notification(self.output.bytes(), one.process, &one.channel, &one.payload);
            // The client may have gone: the next flush reports it.
            let _ = self.output.relieve();
        }
        !all.is_empty() || self.session.has_notifications()
    }

    /// Drops a cancellation that came too late for the statement it meant.
    #[inline]
    fn forget_cancellation(&self) {
        if self.cancel.load(Ordering::Relaxed) && self.shared.registry.stage() != Stage::Ending {
            self.cancel.store(false, Ordering::Relaxed);
        }
    }
}
