//! Runs a transaction until it commits or fails for good.
//!
//! A lost conflict is retried with a new snapshot: at once after an exclusion or phantom (safe retry, SSN 3.2: the same
//! dependencies cannot form again), after the opponent has ended where one is known, with growing pauses as
//! attempts add up, and alone behind the [`crate::gate`] from attempt [`ATTEMPTS_TOGETHER`] + 1 on. An attempt that runs alone can lose
//! to a transaction that the application drives and leaves open. So that this ends, there are two limits:
//! [`Options::attempts_max`] and [`Options::run_max`].
//!
//! An error that the body returns is a result like any other: it may follow from what the transaction has read, so it leaves
//! only if that is certified (docs/design/run.md). If it is not, the transaction has lost a conflict and is retried.

use std::time::Duration;

use crate::{
    access::sealed::Attempt,
    error::{Abort, Error, Result},
    gate::Gate,
    ids::Tid,
    inside,
    log::Receipt,
    options::{Options, TxnOptions},
    sync::{Instant, Spin},
    transaction::Transaction,
};

/// What begins transactions, under whatever scheme.
pub(crate) trait Runs {
    /// One of them.
    type Txn<'e>: Attempt
    where
        Self: 'e;

    /// Begins one. `pinned`: it runs through without waiting for anybody outside.
    fn begin<'e>(&'e self, options: &TxnOptions, pinned: bool) -> Result<Self::Txn<'e>>;

    /// Transactions that keep losing go through it.
    fn gate(&self) -> &Gate;

    /// How the database was opened.
    fn options(&self) -> &Options;

    /// Whether any transaction is on its way that will end by itself.
    fn is_running(&self) -> bool;

    /// Whether a transaction has not ended yet.
    fn is_in_flight(&self, other: Tid) -> bool;
}

/// Attempts before a transaction runs alone. Where every transaction is run by [`run`], and an attempt ends within
/// [`Options::wait_max`], the next attempt commits (docs/design/run.md).
const ATTEMPTS_TOGETHER: u32 = 12;

/// The longest pause between attempts that lost alone: the transaction in the way is one that an application drives.
const PAUSE_MS_MAX: u32 = 32;

/// How often the end of an opponent is looked for.
const OPPONENT_LOOKS: u32 = 24;

/// Begins and retries the `body` of a procedure until it ends or cannot be run; tells it what it `lost` meanwhile. The body says whether it
/// has succeeded: if it has not, what it has written is undone and what it has read is committed, or its error does not leave.
pub(crate) fn run<'e, N: Runs, A: Attempt<Receipt = Receipt<'e>>, P: ?Sized>(
    engine: &'e N,
    options: TxnOptions,
    access: impl Fn(N::Txn<'e>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> bool,
    lost: impl Fn(&mut P, &Abort),
) -> Result<Receipt<'e>> {
    let _inside = inside::Run::enter(engine)?;
    let mut attempts = 0;
    let mut since = None;
    loop {
        let alone = attempts >= ATTEMPTS_TOGETHER;
        let pass = if alone { engine.gate().pass(|| engine.is_running()) } else { None };
        let txn = match &pass {
            Some(_) => engine.begin(&options, true),
            None => begin_together(engine, &options),
        };
        let ended = txn.and_then(|txn| attempt(Transaction::new(access(txn)), |txn| body(procedure, txn)));
        let Err(Error::Abort(abort)) = ended else { return ended };
        lost(procedure, &abort);
        drop(pass);
        attempts += 1;
        let elapsed = since.get_or_insert_with(Instant::now).elapsed();
        if attempts >= engine.options().attempts_max || elapsed >= engine.options().run_max {
            return Err(Error::GaveUp { attempts, elapsed, last: abort });
        }
        pause(engine, attempts, abort.other);
    }
}

/// One attempt; a lost conflict is the caller's.
pub(crate) fn run_once<'e, N: Runs, A: Attempt<Receipt = Receipt<'e>>, P: ?Sized>(
    engine: &'e N,
    options: TxnOptions,
    access: impl Fn(N::Txn<'e>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> bool,
    lost: impl Fn(&mut P, &Abort),
) -> Result<Receipt<'e>> {
    let _inside = inside::Run::enter(engine)?;
    let txn = begin_together(engine, &options);
    let ended = txn.and_then(|txn| attempt(Transaction::new(access(txn)), |txn| body(procedure, txn)));
    if let Err(Error::Abort(abort)) = &ended {
        lost(procedure, abort);
    }
    ended
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

fn attempt<'e, A: Attempt>(
    txn: Transaction<'e, A>,
    body: impl FnOnce(&Transaction<'e, A>) -> bool,
) -> Result<A::Receipt> {
    let has_succeeded = body(&txn);
    let access = txn.into_access();
    match access.doomed() {
        // Also when the body swallowed the error.
        Some(abort) => Err(Error::Abort(abort)),
        None if has_succeeded => access.commit_async(),
        None => access.commit_reads_async(),
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
    if attempts > ATTEMPTS_TOGETHER && !cfg!(any(loom, shuttle)) {
        let millis = (attempts - ATTEMPTS_TOGETHER).min(PAUSE_MS_MAX);
        return std::thread::sleep(Duration::from_millis(millis.into()));
    }
    let mut spin = Spin::default();
    for _ in 1..attempts {
        spin.wait();
    }
}
