//! Runs a transaction until it commits or fails permanently.
//!
//! A lost conflict is retried with a new snapshot: at once after an exclusion or phantom (safe retry, SSN 3.2: the same
//! dependencies cannot form again), after the opponent has ended where one is known, with growing pauses as attempts
//! add up, and alone behind the [`crate::gate`] from attempt [`ATTEMPTS_TOGETHER`] + 1 on. An attempt that runs alone
//! can lose to a transaction that the application drives and leaves open. Two limits bound the retries:
//! [`Options::attempts_max`] and [`Options::run_max`].
//!
//! An error that the body returns is a result like any other: it may follow from the transaction's reads, so it is
//! returned only if these are certified (docs/design/run.md). If they are not, the transaction has lost a conflict and
//! is retried.

use std::time::Duration;

use crate::{
    access::sealed::Attempt,
    begin::Begins,
    error::{Abort, Error, Result},
    gate::Pass,
    ids::Tid,
    inside,
    log::Receipt,
    options::TxnOptions,
    sync::{Instant, Spin},
    transaction::Transaction,
};

/// Attempts before a transaction runs alone. Where every transaction is run by [`run`], and an attempt ends within
/// [`crate::Options::wait_max`], the next attempt commits (docs/design/run.md).
const ATTEMPTS_TOGETHER: u32 = 12;

/// The longest pause between attempts that lost while running alone: the opponent is a transaction that an application
/// drives.
const PAUSE_MS_MAX: u32 = 32;

/// The longest wait of a statement that is to run alone for procedures that are running.
const STATEMENTS_MAX: Duration = Duration::from_millis(10);

/// How long such a statement then waits for other statements.
const STATEMENTS_TIME: Duration = Duration::from_millis(1);

/// How often the end of an opponent is polled.
const OPPONENT_LOOKS: u32 = 24;

/// Begins and retries the `body` of a procedure until it ends or cannot be run; calls `lost` after each lost conflict.
/// Without `retries` the first lost conflict is returned to the caller. The body returns whether it has succeeded: if
/// it has not, its writes are undone and its reads are committed; if the reads cannot be committed, its error is not
/// returned.
pub(crate) fn run<'e, N: Begins, A: Attempt<Receipt = Receipt<'e>>, P: ?Sized>(
    engine: &'e N,
    options: TxnOptions,
    retries: bool,
    access: impl Fn(N::Txn<'e>) -> A,
    procedure: &mut P,
    body: impl Fn(&mut P, &Transaction<'e, A>) -> bool,
    lost: impl Fn(&mut P, &Abort),
) -> Result<Receipt<'e>> {
    let _inside = inside::Run::enter(engine)?;
    let mut attempts = Attempts::default();
    loop {
        let alone = attempts.lost >= ATTEMPTS_TOGETHER && !options.inside;
        let pass = if alone { pass(engine, engine.options().wait_max) } else { None };
        let txn = match &pass {
            Some(_) => engine.begin(&options, true),
            None => begin_together(engine, &options),
        };
        let ended = txn.and_then(|txn| attempt(Transaction::new(access(txn)), |txn| body(procedure, txn)));
        let Err(Error::Abort(abort)) = ended else { return ended };
        lost(procedure, &abort);
        drop(pass);
        if !retries {
            return Err(Error::Abort(abort));
        }
        attempts.count();
        if attempts.is_limit_reached(engine) {
            return Err(attempts.give_up(abort));
        }
        attempts.pause(engine, abort.other);
    }
}

/// The attempts of a transaction that have lost a conflict.
#[derive(Default)]
pub(crate) struct Attempts {
    lost: u32,
    /// When the first one was lost.
    since: Option<Instant>,
}

impl Attempts {
    /// Returns the right of a statement to run alone, if the next attempt is to do so and gets it; otherwise waits
    /// while another transaction runs alone.
    ///
    /// The opponent of a statement may be a transaction that its client has left open, and another statement that is
    /// running may take long. So fewer and fewer attempts run alone, and they wait only for a moment: that is enough
    /// for the short statements that have begun.
    pub(crate) fn turn<'e, N: Begins>(&self, engine: &'e N) -> Option<Pass<'e>> {
        let beyond = (self.lost + 1).saturating_sub(ATTEMPTS_TOGETHER);
        if !beyond.is_power_of_two() {
            engine.gate().wait_open();
            return None;
        }
        let pass = pass(engine, STATEMENTS_MAX);
        if pass.is_some() && !cfg!(any(loom, shuttle)) {
            std::thread::sleep(STATEMENTS_TIME);
        }
        pass
    }

    /// Counts an attempt that has lost.
    pub(crate) fn count(&mut self) {
        self.lost += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// Returns whether there is to be no other attempt.
    pub(crate) fn is_limit_reached<N: Begins>(&self, engine: &N) -> bool {
        self.lost >= engine.options().attempts_max || self.elapsed() >= engine.options().run_max
    }

    fn elapsed(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn give_up(&self, last: Box<Abort>) -> Error {
        Error::GaveUp { attempts: self.lost, elapsed: self.elapsed(), last }
    }

    /// Waits for the opponent to end, then pauses, the longer the more attempts were lost.
    pub(crate) fn pause<N: Begins>(&self, engine: &N, other: Option<Tid>) {
        if let Some(other) = other {
            let mut spin = Spin::default();
            for _ in 0..OPPONENT_LOOKS {
                if !engine.is_in_flight(other) {
                    break;
                }
                spin.wait();
            }
        }
        if self.lost > ATTEMPTS_TOGETHER && !cfg!(any(loom, shuttle)) {
            let millis = (self.lost - ATTEMPTS_TOGETHER).min(PAUSE_MS_MAX);
            return std::thread::sleep(Duration::from_millis(millis.into()));
        }
        let mut spin = Spin::default();
        for _ in 1..self.lost {
            spin.wait();
        }
    }
}

/// Returns the right to run alone, unless another transaction has it for too long; waits for at most `running_max` for
/// the transactions that are running.
fn pass<N: Begins>(engine: &N, running_max: Duration) -> Option<Pass<'_>> {
    engine.gate().pass(|| engine.is_running(), running_max)
}

/// Begins a transaction when no other one runs alone, or in the middle of another one.
fn begin_together<'e, N: Begins>(engine: &'e N, options: &TxnOptions) -> Result<N::Txn<'e>> {
    if options.inside {
        return engine.begin(options, true);
    }
    engine.gate().wait_open();
    let txn = engine.begin(options, true)?;
    if !engine.gate().is_closed() {
        return Ok(txn);
    }
    // The gate closed in between: let the holder go first (gate.rs, invariant 2).
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
        // Also when the body ignored the error.
        Some(abort) => Err(Error::Abort(abort)),
        None if has_succeeded => access.commit_async(),
        None => access.commit_reads_async(),
    }
}
