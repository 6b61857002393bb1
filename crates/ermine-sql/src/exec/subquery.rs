//! Queries in expressions.

use std::{ops::ControlFlow, slice, sync::Arc};

use hashbrown::HashSet;

use super::{
    Run,
    query::{is_new, key_of},
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Frame, Subquery, SubqueryKind, compare},
    memory::Kept,
    types::{Array, Value},
};

/// The values of a query by their keys, without NULL, and whether there is NULL.
pub(super) type MemberSet = (HashSet<Box<[u8]>>, bool);

/// Maximum number of values that are compared one by one.
const SCANNED_MAX: usize = 8;

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
                let is_membership = *comparison == if *all { Comparison::NotEqual } else { Comparison::Equal };
                if is_membership
                    && !subquery.is_correlated
                    && values.len() > SCANNED_MAX
                    && let Some(members) = self.members(subquery, &values)?
                {
                    return Ok(match members.0.contains(&*key_of(slice::from_ref(&*operand))) {
                        _ if operand.is_null() => Value::Null,
                        true => Value::Bool(!*all),
                        false if members.1 => Value::Null,
                        false => so_far,
                    });
                }
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

    /// Returns the set of the values of a query that is run once; `None` when it is asked for the first time: it may be
    /// the only time, and the set takes memory.
    fn members(&self, subquery: &Subquery, values: &[Value]) -> Result<Option<Arc<MemberSet>>> {
        let address = Arc::as_ptr(&subquery.query) as usize;
        let known = self.member_sets.borrow().get(&address).cloned();
        match known {
            Some(None) => {}
            Some(known) => return Ok(known),
            None => {
                self.member_sets.borrow_mut().insert(address, None);
                return Ok(None);
            }
        }
        let (mut set, mut kept) = (HashSet::new(), Kept::new(&self.environment.memory));
        for value in values.iter().filter(|value| !value.is_null()) {
            is_new(&mut set, &key_of(slice::from_ref(value)), &mut kept)?;
        }
        kept.stays();
        let members = Arc::new((set, values.iter().any(Value::is_null)));
        self.member_sets.borrow_mut().insert(address, Some(members.clone()));
        Ok(Some(members))
    }

    /// Returns the first values of at most `wanted` rows. A query that refers to no outer row is run once.
    pub(super) fn first_column(
        &self,
        subquery: &Subquery,
        frame: &Frame<'_>,
        wanted: usize,
    ) -> Result<Arc<Vec<Value>>> {
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
