//! The ends of statements.

use std::sync::Arc;

use crate::{
    error::{Result, SqlError},
    failure::outcome_unknown,
    result::{Column, CopyFormat, RowSink},
    types::{Environment, Value, user_types::UserTypes},
};

/// The end of one or more statements.
#[must_use = "what was done may not be durable yet: wait for the receipt"]
#[derive(Default)]
pub struct Completion {
    /// The receipt to wait for before the client is told of the commit; it signals durability.
    pub receipt: Option<ermine::OwnedReceipt>,
}

impl Completion {
    /// Takes in what was done next.
    pub(super) fn push(&mut self, next: Self) {
        self.receipt = match (self.receipt.take(), next.receipt) {
            (Some(earlier), Some(later)) => Some(earlier.and(later)),
            (earlier, later) => earlier.or(later),
        };
    }

    /// Blocks until everything is durable that has to be. Otherwise what was done is unknown
    /// ([`STATEMENT_COMPLETION_UNKNOWN`](crate::SqlState::STATEMENT_COMPLETION_UNKNOWN)).
    pub fn wait(self) -> Result<()> {
        self.receipt.map_or(Ok(()), |receipt| receipt.wait().map(drop).map_err(|error| outcome_unknown(&error)))
    }
}

/// The state of the session, as `ReadyForQuery` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// In no transaction.
    Idle,
    /// In a transaction.
    Open,
    /// In a transaction that has failed.
    Failed,
}

/// Keeps the tag until the statement's transaction has committed.
pub(super) struct Tagged<'r> {
    pub(super) rows: &'r mut dyn RowSink,
    pub(super) tag: String,
}

impl RowSink for Tagged<'_> {
    fn binary(&mut self) {
        self.rows.binary();
    }

    fn environment(&mut self, environment: &Environment) {
        self.rows.environment(environment);
    }

    fn types(&mut self, types: &Arc<UserTypes>) {
        self.rows.types(types);
    }

    fn columns(&mut self, columns: &[Column]) -> Result<()> {
        self.rows.columns(columns)
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.rows.row(values)
    }

    fn copy_out(&mut self, format: CopyFormat) -> Result<()> {
        self.rows.copy_out(format)
    }

    fn copy_data(&mut self, piece: &[u8]) -> Result<()> {
        self.rows.copy_data(piece)
    }

    fn copy_in(&mut self, format: CopyFormat) -> Result<()> {
        self.rows.copy_in(format)
    }

    fn complete(&mut self, tag: &str) -> Result<()> {
        self.tag = tag.to_owned();
        Ok(())
    }

    fn settings_changed(&mut self) {
        self.rows.settings_changed();
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.rows.notice(severity, notice);
    }

    fn take_back(&mut self) -> bool {
        self.rows.take_back()
    }
}
