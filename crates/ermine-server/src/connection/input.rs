//! The bytes received from a client that have not been handled yet.
//!
//! Invariant: memory follows what was sent, not what was announced; after a long message it is freed. Buffers of long
//! messages count against the database's budget.

use std::io;

use bytes::{Buf, BytesMut};
use ermine_sql::SqlError;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{counted::Counted, stream::Stream};

/// Bytes that are read in one call, and kept while a client is silent.
const CHUNK: usize = 8 << 10;

/// Bytes that have been received and not handled.
pub struct Input {
    bytes: BytesMut,
    counted: Counted,
    /// Largest capacity of the buffer since it was small, in bytes.
    room: usize,
}

/// The reason why no more could be received.
#[derive(Debug)]
pub enum Unfilled {
    Io(io::Error),
    /// There is no memory for the bytes to come.
    NoRoom(SqlError),
}

impl From<io::Error> for Unfilled {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Unfilled> for io::Error {
    fn from(error: Unfilled) -> Self {
        match error {
            Unfilled::Io(error) => error,
            Unfilled::NoRoom(error) => Self::new(io::ErrorKind::OutOfMemory, error),
        }
    }
}

impl Input {
    /// Returns an empty input.
    pub fn new(counted: Counted) -> Self {
        Self { bytes: BytesMut::with_capacity(CHUNK), counted, room: CHUNK }
    }

    /// Returns the bytes received.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes `count` bytes that have been handled.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    /// Waits for more bytes; returns 0 if the client has ended the connection. Cancelling this loses nothing.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<usize, Unfilled> {
        self.make_room()?;
        Ok(stream.read_buf(&mut self.bytes).await?)
    }

    /// Receives the bytes that have come, if any; `None` also where only waiting shows whether there are any.
    pub fn look(&mut self, stream: &Stream) -> Option<Result<usize, Unfilled>> {
        if let Err(error) = self.make_room() {
            return Some(Err(error));
        }
        let mut bytes = [0; CHUNK / 2];
        let received = stream.receive_now(&mut bytes)?;
        Some(received.map_err(Unfilled::Io).inspect(|&count| self.bytes.extend_from_slice(&bytes[..count])))
    }

    /// Makes room for the next bytes.
    fn make_room(&mut self) -> Result<(), Unfilled> {
        if self.room > 4 * CHUNK && self.bytes.len() < CHUNK / 2 {
            self.become_small();
        }
        // The capacity doubles each time, so that long messages are not copied more than twice.
        let more = if self.bytes.capacity() - self.bytes.len() < CHUNK / 2 { CHUNK.max(self.bytes.len()) } else { 0 };
        if more > 0 {
            let room = self.room.max(self.bytes.len() + more);
            self.counted.grow_to(room, "a message so long").map_err(Unfilled::NoRoom)?;
            self.bytes.reserve(more);
            self.room = room;
        }
        Ok(())
    }

    fn become_small(&mut self) {
        let mut small = BytesMut::with_capacity(CHUNK);
        small.extend_from_slice(&self.bytes);
        self.bytes = small;
        self.room = CHUNK;
        self.counted.clear();
    }

    /// Discards `left` bytes, of which all may have arrived or none. Returns `false` if the client has ended the
    /// connection before. If this is cancelled, `left` is the number of bytes that remain.
    pub async fn skip(&mut self, left: &mut usize, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        loop {
            let come = (*left).min(self.bytes.len());
            self.bytes.advance(come);
            *left -= come;
            if *left == 0 {
                return Ok(true);
            }
            // The buffer is empty, and so it never has to grow.
            self.become_small();
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Ok(false);
            }
        }
    }
}
