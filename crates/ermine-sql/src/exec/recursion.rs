//! Recursive queries.
//!
//! The rows of the non-recursive term are the first work table. The recursive term is run on the work table, and its
//! rows are the next one, until there are none. Rows are emitted as they come, so that a consumer that has enough stops
//! a recursion without an end. The rows of two runs are in memory, and with UNION a key of each row so far.

use std::{mem, ops::ControlFlow, sync::Arc};

use super::{Emit, Run, key_set::KeySet, query::key_of};
use crate::{
    error::Result,
    expr::Frame,
    memory::{ALLOCATION, Kept},
    query::Query,
    types::Value,
};

/// The rows of a run.
pub(super) type WorkTable = Arc<Vec<Box<[Value]>>>;

impl Run<'_> {
    /// Emits the rows of the last run of a recursive term.
    pub(super) fn work_table(&self, id: usize, emit: &mut Emit<'_>) -> Result<ControlFlow<()>> {
        let rows = self.work_tables.borrow().get(&id).cloned().unwrap_or_default();
        for row in rows.iter() {
            self.check_cancelled()?;
            if emit(row)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Emits the rows of a recursive query.
    pub(super) fn recursion(
        &self,
        id: usize,
        all: bool,
        [first, again]: &[Query; 2],
        outer: Option<&Frame<'_>>,
        emit: &mut Emit<'_>,
    ) -> Result<ControlFlow<()>> {
        let memory = &self.environment.memory;
        let (mut seen, mut seen_kept) = (KeySet::default(), Kept::new(memory));
        let (mut rows, mut kept): (Vec<Box<[Value]>>, _) = (Vec::new(), Kept::new(memory));
        let mut run = |query: &Query, rows: &mut Vec<Box<[Value]>>, kept: &mut Kept<'_>| {
            self.query(query, outer, &mut |row| {
                if !all && !seen.is_new(&key_of(row), &mut seen_kept)? {
                    return Ok(ControlFlow::Continue(()));
                }
                kept.add_row(row)?;
                kept.add(ALLOCATION + 2 * size_of::<Box<[Value]>>())?;
                rows.push(row.into());
                emit(row)
            })
        };
        if run(first, &mut rows, &mut kept)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // A run of the same query around this one goes on with its own work table.
        let around = self.work_tables.borrow_mut().remove(&id);
        let mut flow = ControlFlow::Continue(());
        while !rows.is_empty() && flow.is_continue() {
            self.check_cancelled()?;
            self.work_tables.borrow_mut().insert(id, Arc::new(mem::take(&mut rows)));
            let _last = mem::replace(&mut kept, Kept::new(memory));
            flow = run(again, &mut rows, &mut kept)?;
        }
        let mut work_tables = self.work_tables.borrow_mut();
        match around {
            Some(around) => work_tables.insert(id, around),
            None => work_tables.remove(&id),
        };
        Ok(flow)
    }
}
