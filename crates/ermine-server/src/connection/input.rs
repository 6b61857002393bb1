//! What has come from a client and has not been handled yet.
//!
//! Invariant: memory follows what was sent, not what was announced; after a long message it is given back.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Bytes that are read at once, and kept while a client is silent.
const CHUNK: usize = 8 << 10;

/// What has come and has not been handled.
pub struct Input(BytesMut);

impl Default for Input {
    fn default() -> Self {
        Self(BytesMut::with_capacity(CHUNK))
    }
}

impl Input {
    /// What has come.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// So many bytes have been handled.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.0.advance(count);
    }

    /// Waits for more; 0: the client has ended it. Nothing is lost when it is given up.
    pub async fn fill(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.0.is_empty() && self.0.capacity() > 4 * CHUNK {
            self.0 = BytesMut::with_capacity(CHUNK);
        }
        // Twice as much each time, so that long messages are not copied more than twice.
        let more = if self.0.capacity() - self.0.len() < CHUNK / 2 { CHUNK.max(self.0.len()) } else { 0 };
        self.0.reserve(more);
        stream.read_buf(&mut self.0).await
    }
}
