//! Runs a transaction until it commits or fails for good.
//!
//! A lost conflict is retried with a new snapshot: at once after an exclusion or phantom (safe retry, SSN 3.2: the same
//! dependencies cannot form again), after the opponent has ended where one is known, with growing random pauses as
//! attempts add up, and alone behind the [`crate::gate`] in the end.
//!
//! An error that the body returns is a result like any other: it may follow from what the transaction has read, so it leaves
//! only if that is certified (docs/design/run.md). If it is not, the transaction has lost a conflict and is retried.

use crate::{
    access::sealed::Attempt,
    error::{Abort, Error, Result},
    gate::Gate,
    ids::Tid,
    options::TxnOptions,
    sync::Spin,
    transaction::Transaction,
};

/// Who begins transactions, under whatever scheme.
pub(crate) trait Runs {
    /// One of them.
    type Txn<'e>: Attempt
    where
        Self: 'e;

    /// Begins one. `pinned`: it runs through without waiting for anybody outside.
    fn begin<'e>(&'e self, options: &TxnOptions, pinned: bool) -> Result<Self::Txn<'e>>;

    /// Who keeps losing goes through it.
    fn gate(&self) -> &Gate;

    /// Whether any transaction is on its way that will end by itself.
    fn is_running(&self) -> bool;

    /// Whether a transaction has not ended yet.
    fn is_in_flight(&self, other: Tid) -> bool;
}

/// Attempts before a transaction runs alone.
const ATTEMPTS_TOGETHER: u32 = 12;

/// How often the end of an opponent is looked for.
const OPPONENT_LOOKS: u32 = 24;

/// Why an attempt did not commit.
enum Failure<E> {
    Lost(Box<Abort>),
    ForGood(E),
}

impl<E: From<Error>> From<Error> for Failure<E> {
    fn from(error: Error) -> Self {
        match error {
            Error::Abort(abort) => Self::Lost(abort),
            error => Self::ForGood(error.into()),
        }
    }
}

/// How an attempt ends.
pub(crate) struct Ends<C, F> {
    /// After a body that succeeded.
    pub(crate) commit: C,
    /// After a body that failed: undoes what it has written and commits what it has read, or the error does not leave.
    pub(crate) fail: F,
}

/// Begins and retries the `body` of a procedure until it commits or fails for good; tells it what it `lost` meanwhile.
pub(crate) fn run<'e, N: Runs, A: Attempt, P, T, R, F, E: From<Error>>(
    engine: &'e N,
    options: TxnOptions,
    access: impl Fn(N::Txn<'e>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> Result<T, E>,
    lost: impl Fn(&mut P, &Abort),
    ends: Ends<impl Fn(A) -> Result<R>, impl Fn(A) -> Result<F>>,
) -> Result<(T, R), E> {
    let mut attempts = 0;
    loop {
        let pass = (attempts >= ATTEMPTS_TOGETHER).then(|| engine.gate().pass(|| engine.is_running()));
        let txn = match &pass {
            Some(_) => engine.begin(&options, true),
            None => begin_together(engine, &options),
        };
        let attempt = |txn| attempt(Transaction::new(access(txn)), |txn| body(procedure, txn), &ends);
        match txn.map_err(Failure::from).and_then(attempt) {
            Ok(committed) => return Ok(committed),
            Err(Failure::ForGood(error)) => return Err(error),
            Err(Failure::Lost(abort)) => {
                drop(pass);
                lost(procedure, &abort);
                attempts += 1;
                pause(engine, attempts, abort.other);
            }
        }
    }
}

/// One attempt; a lost conflict is the caller's.
pub(crate) fn run_once<'e, N: Runs, A: Attempt, P, T, R, F, E: From<Error>>(
    engine: &'e N,
    options: TxnOptions,
    access: impl Fn(N::Txn<'e>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> Result<T, E>,
    lost: impl Fn(&mut P, &Abort),
    ends: Ends<impl Fn(A) -> Result<R>, impl Fn(A) -> Result<F>>,
) -> Result<(T, R), E> {
    let attempt = |txn| attempt(Transaction::new(access(txn)), |txn| body(procedure, txn), &ends);
    begin_together(engine, &options).map_err(Failure::from).and_then(attempt).map_err(|failure| match failure {
        Failure::Lost(abort) => {
            lost(procedure, &abort);
            Error::Abort(abort).into()
        }
        Failure::ForGood(error) => error,
    })
}

/// Begins when nobody runs alone.
fn begin_together<'e, N: Runs>(engine: &'e N, options: &TxnOptions) -> Result<N::Txn<'e>> {
    engine.gate().wait_open();
    let txn = engine.begin(options, true)?;
    if !engine.gate().is_closed() {
        return Ok(txn);
    }
    // It closed in between: let the holder go first (gate.rs, invariant 2).
    drop(txn);
    engine.gate().wait_open();
    engine.begin(options, true)
}

fn attempt<'e, A: Attempt, T, R, F, E: From<Error>>(
    txn: Transaction<'e, A>,
    body: impl FnOnce(&Transaction<'e, A>) -> Result<T, E>,
    ends: &Ends<impl Fn(A) -> Result<R>, impl Fn(A) -> Result<F>>,
) -> Result<(T, R), Failure<E>> {
    let result = body(&txn);
    let access = txn.into_access();
    match (result, access.doomed()) {
        // Also when the body swallowed the error.
        (_, Some(abort)) => Err(Failure::Lost(abort)),
        (Err(error), None) => {
            (ends.fail)(access)?;
            Err(Failure::ForGood(error))
        }
        (Ok(value), None) => Ok((value, (ends.commit)(access)?)),
    }
}

/// Lets the opponent end, then gives way for longer the more attempts were lost.
fn pause(engine: &impl Runs, attempts: u32, other: Option<Tid>) {
    if let Some(other) = other {
        let mut spin = Spin::default();
        for _ in 0..OPPONENT_LOOKS {
            if !engine.is_in_flight(other) {
                break;
            }
            spin.wait();
        }
    }
    let mut spin = Spin::default();
    for _ in 1..attempts {
        spin.wait();
    }
}
