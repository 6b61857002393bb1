//! Runs a transaction until it commits or fails for good.
//!
//! A lost conflict is retried with a new snapshot: at once after an exclusion or phantom (safe retry, SSN 3.2: the same
//! dependencies cannot form again), after the opponent has ended where one is known, with growing random pauses as
//! attempts add up, and alone behind the [`crate::gate`] in the end.

use crate::{
    access::sealed::Attempt,
    engine::Engine,
    error::{Abort, Error, Result},
    ids::Tid,
    options::TxnOptions,
    scheme::Scheme,
    sync::Spin,
    transaction::Transaction,
    txn::{Txn, table::Inquiry},
};

/// Attempts before a transaction runs alone.
const ATTEMPTS_TOGETHER: u32 = 12;

/// How often the end of an opponent is looked for.
const OPPONENT_LOOKS: u32 = 24;

/// Why an attempt did not commit.
enum Failure<E> {
    Lost(Box<Abort>),
    ForGood(E),
}

/// Begins and retries the `body` of a procedure until it commits or fails for good; tells it what it `lost` meanwhile.
pub(crate) fn run<'e, S: Scheme, A: Attempt, P, T, R, E: From<Error>>(
    engine: &'e Engine<S>,
    options: TxnOptions,
    access: impl Fn(Txn<'e, S>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> Result<T, E>,
    lost: impl Fn(&mut P, &Abort),
    commit: impl Fn(A) -> Result<R>,
) -> Result<(T, R), E> {
    let mut attempts = 0;
    loop {
        let pass = (attempts >= ATTEMPTS_TOGETHER).then(|| engine.gate.pass(|| engine.is_running()));
        let txn = match &pass {
            Some(_) => Txn::begin(engine, options, true)?,
            None => begin_together(engine, options)?,
        };
        match attempt(Transaction::new(access(txn)), |txn| body(procedure, txn), &commit) {
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
pub(crate) fn run_once<'e, S: Scheme, A: Attempt, P, T, R, E: From<Error>>(
    engine: &'e Engine<S>,
    options: TxnOptions,
    access: impl Fn(Txn<'e, S>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> Result<T, E>,
    lost: impl Fn(&mut P, &Abort),
    commit: impl Fn(A) -> Result<R>,
) -> Result<(T, R), E> {
    let txn = begin_together(engine, options)?;
    attempt(Transaction::new(access(txn)), |txn| body(procedure, txn), commit).map_err(|failure| match failure {
        Failure::Lost(abort) => {
            lost(procedure, &abort);
            Error::Abort(abort).into()
        }
        Failure::ForGood(error) => error,
    })
}

/// Begins when nobody runs alone.
fn begin_together<S: Scheme>(engine: &Engine<S>, options: TxnOptions) -> Result<Txn<'_, S>> {
    engine.gate.wait_open();
    let txn = Txn::begin(engine, options, true)?;
    if !engine.gate.is_closed() {
        return Ok(txn);
    }
    // It closed in between: let the holder go first (gate.rs, invariant 2).
    drop(txn);
    engine.gate.wait_open();
    Txn::begin(engine, options, true)
}

fn attempt<'e, A: Attempt, T, R, E: From<Error>>(
    txn: Transaction<'e, A>,
    body: impl FnOnce(&Transaction<'e, A>) -> Result<T, E>,
    commit: impl Fn(A) -> Result<R>,
) -> Result<(T, R), Failure<E>> {
    let result = body(&txn);
    let access = txn.into_access();
    let value = match (result, access.doomed()) {
        // Also when the body swallowed the error.
        (_, Some(abort)) => return Err(Failure::Lost(abort)),
        (Err(error), None) => return Err(Failure::ForGood(error)),
        (Ok(value), None) => value,
    };
    match commit(access) {
        Ok(receipt) => Ok((value, receipt)),
        Err(Error::Abort(abort)) => Err(Failure::Lost(abort)),
        Err(error) => Err(Failure::ForGood(error.into())),
    }
}

/// Lets the opponent end, then gives way for longer the more attempts were lost.
fn pause<S: Scheme>(engine: &Engine<S>, attempts: u32, other: Option<Tid>) {
    if let Some(other) = other {
        let mut spin = Spin::default();
        for _ in 0..OPPONENT_LOOKS {
            match engine.shared.tids.inquire(other) {
                Inquiry::InFlight | Inquiry::Committing(_) => spin.wait(),
                _ => break,
            }
        }
    }
    let mut spin = Spin::default();
    for _ in 1..attempts {
        spin.wait();
    }
}
