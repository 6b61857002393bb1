//! What has come from a client and has not been handled yet.
//!
//! Invariant: memory follows what was sent, not what was announced; after a long message it is given back. Buffers of long messages count
//! against the database's budget.

use std::io;

use bytes::{Buf, BytesMut};
use ermine_sql::SqlError;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::counted::Counted;

/// Bytes that are read at once, and kept while a client is silent.
const CHUNK: usize = 8 << 10;

/// What has come and has not been handled.
pub struct Input {
    bytes: BytesMut,
    counted: Counted,
    /// Bytes that the buffer has had room for since it was small.
    room: usize,
}

/// Why no more has come.
#[derive(Debug)]
pub enum Unfilled {
    Io(io::Error),
    /// There is no memory for what is to come.
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
    /// Nothing yet.
    pub fn new(counted: Counted) -> Self {
        Self { bytes: BytesMut::with_capacity(CHUNK), counted, room: CHUNK }
    }

    /// What has come.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// So many bytes have been handled.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    /// Waits for more; 0: the client has ended it. Nothing is lost when it is given up.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<usize, Unfilled> {
        if self.room > 4 * CHUNK && self.bytes.len() < CHUNK / 2 {
            self.become_small();
        }
        // Twice as much each time, so that long messages are not copied more than twice.
        let more = if self.bytes.capacity() - self.bytes.len() < CHUNK / 2 { CHUNK.max(self.bytes.len()) } else { 0 };
        if more > 0 {
            let room = self.room.max(self.bytes.len() + more);
            self.counted.grow_to(room, "a message so long").map_err(Unfilled::NoRoom)?;
            self.bytes.reserve(more);
            self.room = room;
        }
        Ok(stream.read_buf(&mut self.bytes).await?)
    }

    fn become_small(&mut self) {
        let mut small = BytesMut::with_capacity(CHUNK);
        small.extend_from_slice(&self.bytes);
        self.bytes = small;
        self.room = CHUNK;
        self.counted.clear();
    }

    /// Throws away so many bytes, of which all may have come or none. `false`: the client has ended it before. What is left is said by `left`
    /// when it is given up.
    pub async fn skip(&mut self, left: &mut usize, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        loop {
            let come = (*left).min(self.bytes.len());
            self.bytes.advance(come);
            *left -= come;
            if *left == 0 {
                return Ok(true);
            }
            // Empty, and so it never has to grow.
            self.become_small();
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Ok(false);
            }
        }
    }
}
