//! A client's socket, with TLS or without.

use std::{
    io::{self, Read as _},
    pin::Pin,
    task::{Context, Poll},
};

use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

/// A client's socket.
pub enum Stream {
    /// Without encryption.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Whether there is no encryption.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Receives the bytes that have come, if any; `None` also with TLS.
    pub fn receive_now(&self, buffer: &mut [u8]) -> Option<io::Result<usize>> {
        let Self::Plain(stream) = self else { return None };
        // Past the runtime, which asks a socket only after it has waited for it. The socket does not block.
        match (&*SockRef::from(stream)).read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            received => Some(received),
        }
    }
}

macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Plain($inner) => {
                let $inner = Pin::new($inner);
                $call
            }
            Stream::Tls($inner) => {
                let $inner = Pin::new(&mut **$inner);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(&mut *self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        each!(&mut *self, stream => stream.poll_write(context, bytes))
    }

    #[inline]
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(&mut *self, stream => stream.poll_shutdown(context))
    }
}
