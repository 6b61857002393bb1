//! Statements on a server, over the PostgreSQL protocol: simple queries, one after the other.
//!
//! The messages are `postgres-protocol`'s. The client above it, `tokio-postgres`, hides facts that a shell has to show:
//! the tags of statements, the types of their columns, and whether a transaction is open.

mod login;
mod stream;
mod target;

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::{
    backend::{DataRowBody, ErrorFields, Message, RowDescriptionBody},
    frontend,
};

use self::stream::Stream;
pub use self::target::Target;
use crate::statements::{Beside, Column, Ends, Failure, Reply, Standing, Statements, Table};

/// Bytes that are read or sent in one call.
const PIECE: usize = 64 << 10;

/// A session on a server.
pub struct Connected {
    wire: Wire,
    target: Target,
    /// The process and its secret, by which other connections can cancel the running statement.
    key: Option<(i32, i32)>,
    standing: Standing,
}

impl Connected {
    /// Connects, and logs in; if a password is needed and not known, asks for it at the terminal.
    pub fn open(target: Target) -> Result<Self, Box<Failure>> {
        Self::log_in(target, io::stdin().is_terminal())
    }

    fn log_in(mut target: Target, may_ask: bool) -> Result<Self, Box<Failure>> {
        let (stream, host) = target.stream()?;
        let mut wire = Wire { stream, received: BytesMut::new() };
        let key = login::login(&mut wire, &mut target, &host, may_ask)?;
        Ok(Self { wire, target, key, standing: Standing::Idle })
    }

    /// Reads the replies to a text, until the server is ready for the next one; `failed` receives the first failure.
    fn answer(
        &mut self,
        ends: Ends<'_>,
        replies: &mut Vec<Reply>,
        failed: &mut Option<Box<Failure>>,
    ) -> io::Result<()> {
        let mut table = None::<Table>;
        let mut is_copied_out = false;
        loop {
            match self.wire.message()? {
                Message::RowDescription(body) => table = Some(described(&body)?),
                Message::DataRow(body) => table.get_or_insert_default().rows.push(row(&body)?),
                Message::CommandComplete(body) => {
                    let tag = body.tag()?.to_owned();
                    replies.push(match std::mem::take(&mut is_copied_out) {
                        true => Reply::CopiedOut { tag },
                        false => Reply::Done { table: table.take(), tag },
                    });
                }
                Message::NoticeResponse(body) => replies.push(Reply::Notice(failure(body.fields())?)),
                Message::ErrorResponse(body) => {
                    table = None;
                    let failure = failure(body.fields())?;
                    failed.get_or_insert(failure);
                }
                Message::CopyInResponse(_) => self.wire.copy_in(ends.source)?,
                Message::CopyOutResponse(_) => is_copied_out = true,
                Message::CopyData(body) if failed.is_none() => {
                    // The rest of the reply has to be read nevertheless.
                    *failed = ends.sink.write_all(body.data()).map_err(Failure::of_shell).err();
                }
                Message::ReadyForQuery(body) => {
                    self.standing = match body.status() {
                        b'T' => Standing::Open,
                        b'E' => Standing::Failed,
                        _ => Standing::Idle,
                    };
                    return Ok(());
                }
                _ => {}
            }
        }
    }

    fn ask(&mut self, text: &str) -> io::Result<()> {
        let mut message = BytesMut::new();
        frontend::query(text, &mut message)?;
        self.wire.send(&message)
    }
}

impl Statements for Connected {
    fn run(&mut self, text: &str, ends: Ends<'_>, replies: &mut Vec<Reply>) -> Result<(), Box<Failure>> {
        // The server's last messages are read even if nothing can be sent any more.
        let asked = self.ask(text);
        let mut failed = None;
        if let Err(error) = self.answer(ends, replies, &mut failed) {
            self.standing = Standing::Lost;
            let error = asked.err().unwrap_or(error);
            let lost = || Failure::of_shell(format!("the connection to the server is lost: {error}"));
            return Err(failed.unwrap_or_else(lost));
        }
        failed.map_or(Ok(()), Err)
    }

    fn standing(&self) -> Standing {
        self.standing
    }

    fn canceller(&self) -> Box<dyn Fn() + Send> {
        let (target, key) = (self.target.clone(), self.key);
        Box::new(move || {
            if let (Some((process, secret)), Ok((mut stream, _))) = (key, target.stream()) {
                let mut message = BytesMut::new();
                frontend::cancel_request(process, secret, &mut message);
                // A server that cannot be reached cannot be asked to cancel.
                let _ = stream.write_all(&message).and_then(|()| stream.flush());
            }
        })
    }

    fn reconnect(&mut self) -> Result<(), Box<Failure>> {
        *self = Self::log_in(self.target.clone(), false)?;
        Ok(())
    }

    fn beside(&self) -> Beside {
        let (target, process) = (self.target.clone(), self.key.map_or(0, |(process, _)| process));
        Beside { process, open: Box::new(move || Some(Box::new(Self::log_in(target, false).ok()?))) }
    }

    fn database(&self) -> &str {
        &self.target.database
    }

    fn description(&self) -> String {
        let Target { database, user, .. } = &self.target;
        let tls = if self.wire.stream.is_secure() { ", with TLS" } else { "" };
        format!("Connected to database \"{database}\" as user \"{user}\" on {}{tls}.", self.wire.stream.peer())
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut message = BytesMut::new();
        frontend::terminate(&mut message);
        // A server that is gone needs no `Terminate`.
        let _ = self.wire.send(&message);
    }
}

/// Messages in both directions.
struct Wire {
    stream: Stream,
    received: BytesMut,
}

impl Wire {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        self.stream.flush()
    }

    /// Returns the next message.
    fn message(&mut self) -> io::Result<Message> {
        loop {
            if let Some(message) = Message::parse(&mut self.received)? {
                return Ok(message);
            }
            let length = self.received.len();
            self.received.resize(length + PIECE, 0);
            let read = self.stream.read(&mut self.received[length..]);
            self.received.truncate(length + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Sends all of the data that is copied in.
    fn copy_in(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        let mut message = BytesMut::new();
        loop {
            message.clear();
            match source.read(&mut piece) {
                Ok(0) => {
                    frontend::copy_done(&mut message);
                    return self.send(&message);
                }
                Ok(length) => {
                    frontend::CopyData::new(&piece[..length])?.write(&mut message);
                    self.send(&message)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    frontend::copy_fail(&error.to_string(), &mut message)?;
                    return self.send(&message);
                }
            }
        }
    }
}

fn described(body: &RowDescriptionBody) -> io::Result<Table> {
    let columns = body.fields().map(|field| Ok(Column::new(field.name(), field.type_oid()))).collect()?;
    Ok(Table { columns, rows: Vec::new() })
}

fn row(body: &DataRowBody) -> io::Result<Vec<Option<String>>> {
    let value = |range: Option<std::ops::Range<usize>>| {
        Ok(range.map(|range| String::from_utf8_lossy(&body.buffer()[range]).into_owned()))
    };
    body.ranges().map(value).collect()
}

fn failure(mut fields: ErrorFields<'_>) -> io::Result<Box<Failure>> {
    let mut failure = Box::<Failure>::default();
    while let Some(field) = fields.next()? {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'S' => failure.severity = value,
            b'C' => failure.state = value,
            b'M' => failure.message = value,
            b'D' => failure.detail = Some(value),
            b'H' => failure.hint = Some(value),
            b'W' => failure.context = Some(value),
            b'P' => failure.position = value.parse().ok(),
            _ => {}
        }
    }
    Ok(failure)
}
