//! Sessions of a standby: what they do not run, and waiting for the log. That they only read is a mode of their
//! transactions (`settings`).

use std::{thread, time::Duration};

use ermine::CommittedTransaction;
use sqlparser::ast::Statement;

use super::{Session, SqlDatabase, State, tree::Tree};
use crate::{
    error::{Result, SqlError, SqlState},
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
        let source = error.report().source.as_ref().and_then(|source| source.downcast_ref::<ermine::Error>());
        if !self.shared.database.is_standby() || !matches!(source, Some(ermine::Error::Schema(_))) {
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
            self.wait_until_replayed()?;
        }
        Ok(())
    }

    /// On a standby, waits until the log is replayed up to `ermine.read_after`.
    pub(super) fn wait_until_replayed(&self) -> Result<()> {
        let (wanted, interrupt) = (self.settings.in_force().read_after, &self.environment.interrupt);
        if wanted == 0 {
            return Ok(());
        }
        for look in 0.. {
            let Some(replayed) = self.shared.database.replayed().filter(|replayed| *replayed < wanted) else { break };
            interrupt.check()?;
            if interrupt.deadline.is_none() && look == LOOKS_MAX {
                let (replayed, wanted) = (lsn(replayed), lsn(wanted));
                let message = format!("the standby has replayed the log up to {replayed}, not up to {wanted}");
                return Err(SqlError::new(SqlState::QUERY_CANCELED, message)
                    .hint("Read on the primary, or set ermine.read_after to an earlier position."));
            }
            (interrupt.aside)(&mut || thread::sleep(LOOK_AGAIN));
        }
        // The rows of a change of definitions are there before the definitions are.
        drop(self.shared.catalog.steady());
        Ok(())
    }
}
