//! Messages to the supervisor of the process (`sd_notify(3)`): ready, reloading, stopping.
//!
//! The supervisor names a socket in `NOTIFY_SOCKET`; without it, nothing is sent. A message that is lost has no effect
//! that another one could have, so errors are logged only.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::{
    io,
    os::unix::net::{SocketAddr, UnixDatagram},
};

use rustix::time::{ClockId, clock_gettime};

/// A state of the process.
#[derive(Clone, Copy, Debug)]
pub enum State {
    /// Clients are served, after the start or after a reload.
    Ready,
    /// The configuration is read again.
    Reloading,
    /// No more clients are taken.
    Stopping,
}

/// Tells the supervisor, if there is one.
pub fn tell(state: State) {
    let Some(socket) = std::env::var("NOTIFY_SOCKET").ok().filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&socket, &message(state)) {
        log::warn!("the supervisor is not told of {state:?}: {error}");
    }
}

fn message(state: State) -> String {
    match state {
        State::Ready => "READY=1".into(),
        State::Reloading => {
            // The time tells the messages of several reloads apart.
            let now = clock_gettime(ClockId::Monotonic);
            let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
            format!("RELOADING=1\nMONOTONIC_USEC={micros}")
        }
        State::Stopping => "STOPPING=1".into(),
    }
}

fn send(socket: &str, message: &str) -> io::Result<()> {
    let address = match socket.strip_prefix('@') {
        #[cfg(target_os = "linux")]
        Some(name) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address).map(drop)
}
