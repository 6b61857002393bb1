//! Queries in expressions.

use std::{ops::ControlFlow, sync::Arc};

use super::Run;
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Frame, Subquery, SubqueryKind, compare},
    memory::Kept,
    types::{Array, Value},
};

impl Run<'_> {
    pub(crate) fn subquery(&self, subquery: &Subquery, frame: &Frame<'_>) -> Result<Value> {
        match &subquery.kind {
            SubqueryKind::Value => {
                let mut values = Vec::clone(&*self.first_column(subquery, frame, 2)?);
                if values.len() > 1 {
                    let message = "more than one row returned by a subquery used as an expression";
                    return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, message));
                }
                Ok(values.pop().unwrap_or(Value::Null))
            }
            SubqueryKind::Exists => Ok(Value::Bool(!self.first_column(subquery, frame, 1)?.is_empty())),
            SubqueryKind::Array(element) => {
                let values = self.first_column(subquery, frame, usize::MAX)?.to_vec();
                Ok(Value::array(Array::new(element.scalar, values)))
            }
            SubqueryKind::Holds { operand, comparison, all } => {
                let values = self.first_column(subquery, frame, usize::MAX)?;
                let mut so_far = Value::Bool(*all);
                if values.is_empty() {
                    // The operand is not evaluated, so it cannot fail.
                    return Ok(so_far);
                }
                let operand = operand.eval(frame, self)?;
                for value in &*values {
                    if operand.is_null() || value.is_null() {
                        so_far = Value::Null;
                    } else if comparison.holds(compare(&operand, value)) != *all {
                        return Ok(Value::Bool(!*all));
                    }
                }
                Ok(so_far)
            }
        }
    }

    /// Returns the first values of at most `wanted` rows. A query that refers to no outer row is run once.
    fn first_column(&self, subquery: &Subquery, frame: &Frame<'_>, wanted: usize) -> Result<Arc<Vec<Value>>> {
        let address = Arc::as_ptr(&subquery.query) as usize;
        if !subquery.is_correlated
            && let Some(known) = self.remembered.borrow().get(&address)
        {
            return Ok(known.clone());
        }
        let mut values = Vec::new();
        // The remembered result stays until the statement ends.
        let mut kept = Kept::new(&self.environment.memory);
        let _ = self.query(&subquery.query, Some(frame), &mut |row| {
            // A query of no columns has rows, too.
            let value = row.first().cloned().unwrap_or(Value::Null);
            // A growing list may be up to half empty.
            kept.add(value.bytes() + size_of::<Value>())?;
            values.push(value);
            Ok(if values.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let values = Arc::new(values);
        if !subquery.is_correlated {
            kept.stays();
            self.remembered.borrow_mut().insert(address, values.clone());
        }
        Ok(values)
    }
}
