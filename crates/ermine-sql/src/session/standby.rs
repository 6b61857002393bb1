//! Sessions of a standby: what they do not run, and waiting for the log. That they only read is a mode of their
//! transactions (`settings`).

use std::{sync::atomic::Ordering, thread, time::Duration};

use ermine::CommittedTransaction;
use sqlparser::ast::Statement;

use super::{Session, SqlDatabase, State, tree::Tree};
use crate::{
    error::{Result, SqlError, SqlState},
    level::Level,
    logical::lsn,
};

/// The looks at the replayed position that a transaction without a time limit waits for, and the pauses between them.
const LOOKS_MAX: u32 = 30_000;
const LOOK_AGAIN: Duration = Duration::from_millis(1);

impl SqlDatabase {
    /// Replays a transaction of the original on a standby, for `ermine::HotStandby::receive_with`: `apply` makes its
    /// rows visible, and sessions see changes of definitions together with them.
    ///
    /// # Errors
    /// Those of `apply`, and for definitions that cannot be read, after which the transaction may be replayed again;
    /// otherwise the image has to be opened again.
    pub fn replay(
        &self,
        transaction: &CommittedTransaction,
        apply: &mut dyn FnMut() -> ermine::Result<()>,
    ) -> ermine::Result<()> {
        self.0.first.replay(transaction, apply)
    }
}

/// Whether a transaction could not begin because there is no safe snapshot.
pub(super) fn is_without_snapshot(error: &SqlError) -> bool {
    matches!(engine_error(error), Some(ermine::Error::NoSnapshot))
}

/// Returns the engine's error behind an error.
fn engine_error(error: &SqlError) -> Option<&ermine::Error> {
    error.report().source.as_ref()?.downcast_ref()
}

impl Session {
    /// Fails on a standby for a statement about the session, or the server, that writes or that others would hear of.
    pub(super) fn check_in_recovery(&self, tree: &Tree) -> Result<()> {
        if !self.shared.database.is_standby() {
            return Ok(());
        }
        Err(match tree {
            Tree::Database(tree) => SqlError::read_only(tree.words()),
            Tree::TwoPhase(what, _) => SqlError::during_recovery(what.words()),
            Tree::Maintenance(what) => SqlError::during_recovery(what.words()),
            Tree::Plain(statement) => match &**statement {
                Statement::LISTEN { .. } => SqlError::during_recovery("LISTEN"),
                Statement::NOTIFY { .. } => SqlError::during_recovery("NOTIFY"),
                _ => return Ok(()),
            },
            _ => return Ok(()),
        })
    }

    /// Returns the error of a statement that has met a table of the engine that is dropped: on a standby, that happens
    /// under transactions whose catalog has it. A newer transaction may do without it.
    pub(super) fn conflict_with_recovery(&self, error: SqlError) -> SqlError {
        if !self.shared.database.is_standby() || !matches!(engine_error(&error), Some(ermine::Error::Schema(_))) {
            return error;
        }
        let message = "canceling statement due to conflict with recovery";
        SqlError::new(SqlState::SERIALIZATION_FAILURE, message)
            .detail("A table that the transaction reads has been dropped on the primary.")
    }

    /// On a standby, waits before a statement is bound whose names may be defined in the log up to
    /// `ermine.read_after`.
    pub(super) fn wait_to_bind(&mut self, tree: &Tree) -> Result<()> {
        let begins = !matches!(&self.state, State::Block { active: Some(_), .. });
        if begins && tree.has_names() && self.settings.in_force().read_after > 0 {
            self.environment.interrupt.deadline = self.deadline();
            self.wait_until_replayed(Level::ReadCommitted)?;
        }
        Ok(())
    }

    /// On a standby, waits until the log is replayed up to `ermine.read_after`, and for a serializable transaction
    /// until there is a safe snapshot that shows all of it, and whatever the session has seen before.
    pub(super) fn wait_until_replayed(&self, level: Level) -> Result<()> {
        let (wanted, interrupt) = (self.settings.in_force().read_after, &self.environment.interrupt);
        let (is_safe, database) = (level == Level::Serializable, &self.shared.database);
        if wanted == 0 && !is_safe || !database.is_standby() {
            return Ok(());
        }
        // At weaker levels, later transactions see more anyway.
        let seen = if is_safe { self.party.seen.load(Ordering::Relaxed) } else { 0 };
        let wanted = wanted.max(seen);
        for look in 0.. {
            let replayed = if is_safe { database.safe_replayed() } else { database.replayed() };
            if replayed.is_some_and(|replayed| replayed >= wanted) {
                break;
            }
            interrupt.check()?;
            if interrupt.deadline.is_none() && look == LOOKS_MAX {
                let wanted = lsn(wanted);
                let (message, hint) = match replayed {
                    Some(replayed) => (
                        format!("the standby has replayed the log up to {}, not up to {wanted}", lsn(replayed)),
                        "Read on the primary, or set ermine.read_after to an earlier position.",
                    ),
                    None => (
                        "the standby has no safe snapshot for a serializable transaction".into(),
                        "The primary marks them while it runs, if its scheme is serializable. You can use REPEATABLE \
                         READ instead.",
                    ),
                };
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message).hint(hint));
            }
            (interrupt.aside)(&mut || thread::sleep(LOOK_AGAIN));
        }
        // The rows of a change of definitions are there before the definitions are.
        drop(self.shared.catalog.steady());
        Ok(())
    }
}
