//! Procedures written once and run under any scheme, under most without dispatch inside.

use crate::{
    access::Access,
    error::{Abort, Error},
    options::TxnOptions,
    transaction::Transaction,
};

/// A transaction as a value: its body is compiled for the schemes with versions and for `silo`, and once for all others, so that
/// the scheme is chosen once a transaction instead of once an operation.
///
/// The body may run several times: it must not keep anything of a failed attempt. An error of the body leaves only if what the
/// transaction has read is certified, as in [`crate::Database::run`].
pub trait Job {
    /// What a committed transaction hands back.
    type Output;
    /// What makes it fail for good.
    type Error: From<Error>;

    /// What the transaction says of itself, asked once, before the first attempt.
    #[inline]
    fn options(&self) -> TxnOptions {
        TxnOptions::default()
    }

    /// The body.
    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Self::Output, Self::Error>;

    /// Is told of every attempt that lost a conflict, in its body or at commit, before the next one begins.
    fn lost(&mut self, _abort: &Abort) {}
}
