//! What has come from a client and has not been handled yet.
//!
//! Invariant: memory follows what was sent, not what was announced; after a long message it is given back. Of long messages it counts against
//! what the database may take.

use std::{io, sync::Arc};

use bytes::{Buf, BytesMut};
use ermine::Budget;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read at once, and kept while a client is silent.
const CHUNK: usize = 8 << 10;

/// Buffers of at most so many bytes do not count.
const SMALL: usize = 64 << 10;

/// What has come and has not been handled.
pub struct Input {
    bytes: BytesMut,
    budget: Option<Arc<Budget>>,
    /// Bytes that the budget knows of.
    told: usize,
}

impl Input {
    /// Nothing yet.
    pub fn new(budget: Option<Arc<Budget>>) -> Self {
        Self { bytes: BytesMut::with_capacity(CHUNK), budget, told: 0 }
    }

    /// The buffer is about to have so many bytes.
    fn count(&mut self, bytes: usize) -> io::Result<()> {
        let Some(budget) = &self.budget else { return Ok(()) };
        let bytes = if bytes > SMALL { bytes } else { 0 };
        if bytes > self.told {
            let refused = |_| io::Error::new(io::ErrorKind::OutOfMemory, "no memory for a message so long");
            budget.take((bytes - self.told) as u64).map_err(refused)?;
        } else {
            budget.give((self.told - bytes) as u64);
        }
        self.told = bytes;
        Ok(())
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
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.bytes.is_empty() && self.bytes.capacity() > 4 * CHUNK {
            self.bytes = BytesMut::with_capacity(CHUNK);
            self.count(0)?;
        }
        // Twice as much each time, so that long messages are not copied more than twice.
        let more = if self.bytes.capacity() - self.bytes.len() < CHUNK / 2 { CHUNK.max(self.bytes.len()) } else { 0 };
        if more > 0 {
            self.count(self.bytes.len() + more)?;
            self.bytes.reserve(more);
        }
        stream.read_buf(&mut self.bytes).await
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give(self.told as u64);
        }
    }
}
