//! The things outside of statements that a session waits for: its client and the log. Waits for other sessions are in
//! [`super::waits`].

use std::sync::Arc;

use super::footprint::Footprint;

/// A thing that a session waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum WaitEvent {
    /// Data of a COPY, from the client. A client that may send a statement is waited for without an event.
    ClientRead = 1,
    /// The client has to read.
    ClientWrite,
    /// The log has to be durable.
    WalSync,
}

impl WaitEvent {
    /// The type and the name of the event in PostgreSQL.
    pub(crate) fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::ClientRead => ("Client", "ClientRead"),
            Self::ClientWrite => ("Client", "ClientWrite"),
            Self::WalSync => ("IO", "WALSync"),
        }
    }
}

/// Shows other sessions what a session waits for. The default one shows nothing.
#[derive(Default)]
pub struct WaitEvents(pub(crate) Option<Arc<Footprint>>);

/// A wait, until this is dropped.
pub struct During<'e>(&'e WaitEvents);

impl WaitEvents {
    /// Begins a wait. It costs a store into memory of the session, and another one at its end.
    pub fn during(&self, event: WaitEvent) -> During<'_> {
        self.set(Some(event));
        During(self)
    }

    fn set(&self, event: Option<WaitEvent>) {
        self.0.iter().for_each(|footprint| footprint.waits_for(event));
    }
}

impl Drop for During<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}
