//! MERGE: the writes of the rows of its join.

use std::ops::ControlFlow;

use super::{
    Run,
    parts::{Pending, RowWrite},
    write::key_of,
};
use crate::{
    bind::merge::{Action, Merge, When},
    error::{Result, SqlError, SqlState},
    expr::{Expr, Frame},
    types::Value,
};

impl Run<'_> {
    /// Computes the writes of a MERGE. A row of the table has one write; what the statement owes is the caller's.
    pub(super) fn pending_merge(&self, merge: &Merge, pending: &mut Pending<'_>) -> Result<Vec<RowWrite>> {
        let Merge { table, key_at, clauses, .. } = merge;
        let (mut writes, mark) = (Vec::new(), self.environment.memory.mark());
        let _ = self.query(&merge.rows, None, &mut |row| {
            self.next_row(mark);
            let frame = Frame { row, outer: None };
            let is_matched = !row[*key_at].is_null();
            let mut found = None;
            for when in clauses.iter().filter(|when| when.is_matched == is_matched) {
                if self.is_met(when, &frame)? {
                    found = Some(when);
                    break;
                }
            }
            let Some(when) = found.filter(|when| !matches!(when.action, Action::Nothing)) else {
                return Ok(ControlFlow::Continue(()));
            };
            if is_matched && !pending.take(table.def.id, key_of(row, *key_at)?)? {
                let message = "MERGE command cannot affect row a second time";
                let hint = "Ensure that not more than one source row matches any one target row.";
                return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message).hint(hint));
            }
            if let Some(write) = self.merged(merge, when, row)? {
                pending.keep(&write)?;
                writes.push(write);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(writes)
    }

    fn is_met(&self, when: &When, frame: &Frame<'_>) -> Result<bool> {
        when.condition.as_ref().map_or(Ok(true), |condition| condition.is_true(frame, self))
    }

    /// Returns the write of an action on a row of the join.
    fn merged(&self, merge: &Merge, when: &When, row: &[Value]) -> Result<Option<RowWrite>> {
        let Merge { table, rules, key_at, .. } = merge;
        let frame = Frame { row, outer: None };
        self.check_policies(table, &when.visible, &row[..*key_at])?;
        let value = |expr: &Expr| Ok(expr.eval(&frame, self)?.into_owned());
        let checked = |mut new: Vec<Value>| -> Result<Vec<Value>> {
            self.generate(rules, &mut new)?;
            self.check_policies(table, &when.policies, &new)?;
            self.check_row(table, rules, &new)?;
            Ok(new)
        };
        Ok(Some(match &when.action {
            Action::Nothing => return Ok(None),
            Action::Insert(exprs) => RowWrite::Insert(checked(exprs.iter().map(value).collect::<Result<_>>()?)?),
            Action::Update(assigned) => {
                let (key, old) = (key_of(row, *key_at)?.into(), row[..*key_at].to_vec());
                let mut new = old.clone();
                for (at, expr) in assigned {
                    new[*at] = value(expr)?;
                }
                RowWrite::Update { key, old, new: checked(new)? }
            }
            Action::Delete => RowWrite::Delete { key: key_of(row, *key_at)?.into(), old: row[..*key_at].to_vec() },
        }))
    }
}
