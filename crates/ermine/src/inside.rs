//! The activity that the calling thread is inside of: transactions that [`crate::Database::run`] runs, one per
//! database, or a key function of an index.
//!
//! Invariant: a thread inside `run` enters no other `run` of the same database; a thread inside a key function begins
//! no transaction at all; and a checkpoint, which waits for transactions, is not made inside of one. A `run` inside
//! another one would wait for it, or lose to it, forever; a transaction inside a key function may find a record locked
//! by the commit that has called the function. `Database::begin` inside `run` is permitted: the caller handles its
//! conflicts.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::error::{Error, Result};

thread_local! {
    /// The addresses of the engines whose transactions this thread runs, the innermost last.
    static RUNS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    static KEY_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as running a transaction of an engine, until this is dropped.
pub(crate) struct Run(());

impl Run {
    /// Fails inside a key function, and inside a transaction of the same engine.
    pub(crate) fn enter<E>(engine: &E) -> Result<Self> {
        check_begin()?;
        check_outside(engine, "Database::run was called inside of a transaction that it runs: use that transaction")?;
        let _ = RUNS.try_with(|runs| runs.borrow_mut().push(std::ptr::from_ref(engine).addr()));
        Ok(Self(()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = RUNS.try_with(|runs| runs.borrow_mut().pop());
    }
}

/// Fails with a text if this thread runs a transaction of the engine.
pub(crate) fn check_outside<E>(engine: &E, what: &'static str) -> Result<()> {
    if is_running(engine) { Err(Error::Nested(what)) } else { Ok(()) }
}

/// Returns whether the thread runs a transaction of the engine.
pub(crate) fn is_running<E>(engine: &E) -> bool {
    let own = std::ptr::from_ref(engine).addr();
    // The explorer runs all its tasks on one thread. A thread that is ending has lost its record: destructors of its
    // other locals may run transactions.
    !cfg!(shuttle) && RUNS.try_with(|runs| runs.borrow().contains(&own)).unwrap_or(false)
}

/// Fails inside a key function: no transaction can begin there.
pub(crate) fn check_begin() -> Result<()> {
    if KEY_FUNCTION.get() {
        return Err(Error::Nested(
            "a transaction was begun inside of the key function of an index, which may only compute a key",
        ));
    }
    Ok(())
}

/// Calls a key function; if it panics, returns the panic's message as the error.
pub(crate) fn key_function<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let before = KEY_FUNCTION.replace(true);
    let called = catch_unwind(AssertUnwindSafe(call));
    KEY_FUNCTION.set(before);
    called.map_err(|panic| said(&*panic))
}

/// Returns the message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it did not say why".into())
}
