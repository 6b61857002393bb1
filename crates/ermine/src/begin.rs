//! The operations of an engine that the retry loop uses.

use crate::{
    access::sealed::Attempt,
    error::Result,
    gate::Gate,
    ids::Tid,
    options::{Options, TxnOptions},
};

/// An engine that begins transactions, under whatever scheme.
pub(crate) trait Begins {
    /// The engine's transactions.
    type Txn<'e>: Attempt
    where
        Self: 'e;

    /// Begins a transaction. `pinned`: it runs through without waiting for the application.
    fn begin<'e>(&'e self, options: &TxnOptions, pinned: bool) -> Result<Self::Txn<'e>>;

    /// Returns the gate, through which transactions that keep losing go.
    fn gate(&self) -> &Gate;

    /// Returns the options that the database was opened with.
    fn options(&self) -> &Options;

    /// Returns whether a transaction is running that ends without the application's help.
    fn is_running(&self) -> bool;

    /// Returns whether a transaction has not ended yet.
    fn is_in_flight(&self, other: Tid) -> bool;
}
