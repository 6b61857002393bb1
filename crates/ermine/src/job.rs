//! Procedures written once and run under any scheme, without dispatch on the scheme inside where the program asks for
//! that.

use crate::{
    access::Access,
    error::{Abort, Error},
    options::{Scheme, TxnOptions},
    transaction::Transaction,
};

/// A transaction as a value: its body is compiled for each of [`Job::SCHEMES`] separately, so that the scheme is chosen
/// once per transaction instead of once per operation.
///
/// The body may run several times: it must not keep anything of a failed attempt. An error of the body is returned only
/// if the transaction's reads are certified, as in [`crate::Database::run`].
pub trait Job {
    /// The result of a committed transaction.
    type Output;
    /// The error with which the job fails permanently.
    type Error: From<Error>;

    /// The schemes for which the body is compiled separately; under all others, one copy of the body dispatches on the
    /// scheme at each operation, which takes some two nanoseconds. A copy, with all operations that it calls, takes
    /// tens of kilobytes of the program and its part of the time to compile it.
    const SCHEMES: &'static [Scheme] = &[Scheme::SiSsn];

    /// Returns the options of the transaction; called once, before the first attempt.
    #[inline]
    fn options(&self) -> TxnOptions {
        TxnOptions::default()
    }

    /// Runs the body.
    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<Self::Output, Self::Error>;

    /// Called after every attempt that lost a conflict, in its body or at commit, before the next one begins.
    fn lost(&mut self, _abort: &Abort) {}
}
