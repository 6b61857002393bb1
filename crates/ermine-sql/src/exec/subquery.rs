//! Queries in expressions.

use std::{ops::ControlFlow, slice, sync::Arc};

use super::{Run, key_set::KeySet, query::key_of};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Expr, Frame, Quantifier, Subquery, SubqueryKind, compare},
    functions::collect_array,
    memory::Kept,
    types::Value,
};

/// The values of a query by their keys, without NULL, and whether there is NULL, in rows too.
pub(super) type MemberSet = (KeySet, bool);

/// Maximum number of values that are compared one by one.
const SCANNED_MAX: usize = 8;

impl Run<'_> {
    pub(crate) fn subquery(&self, subquery: &Subquery, frame: &Frame<'_>) -> Result<Value> {
        match &subquery.kind {
            SubqueryKind::Value => {
                let mut values = Vec::clone(&*self.first_column(subquery, frame, 2)?);
                if values.len() > 1 {
                    return Err(several_rows());
                }
                Ok(values.pop().unwrap_or(Value::Null))
            }
            SubqueryKind::Exists => Ok(Value::Bool(!self.first_column(subquery, frame, 1)?.is_empty())),
            SubqueryKind::Array(element) => {
                let values = self.first_column(subquery, frame, usize::MAX)?.to_vec();
                collect_array(values, element.scalar, element.is_array).map(Value::array)
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
                    && let Some(members) = self.members(subquery, &values, Value::is_null)?
                {
                    return Ok(match members.0.contains(&key_of(slice::from_ref(&*operand))) {
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
            SubqueryKind::Row { row, comparison, quantifier } => {
                self.compare_row(subquery, row, *comparison, *quantifier, frame)
            }
        }
    }

    fn compare_row(
        &self,
        subquery: &Subquery,
        row: &Expr,
        comparison: Comparison,
        quantifier: Quantifier,
        frame: &Frame<'_>,
    ) -> Result<Value> {
        let wanted = if quantifier == Quantifier::One { 2 } else { usize::MAX };
        let rows = self.first_column(subquery, frame, wanted)?;
        let all = quantifier != Quantifier::Any;
        match (quantifier, &rows[..]) {
            (Quantifier::One, []) => return Ok(Value::Null),
            (Quantifier::One, [_, _, ..]) => return Err(several_rows()),
            (_, []) => return Ok(Value::Bool(all)),
            _ => {}
        }
        let row = row.eval(frame, self)?;
        let is_membership = comparison == if all { Comparison::NotEqual } else { Comparison::Equal };
        if is_membership
            && !subquery.is_correlated
            && rows.len() > SCANNED_MAX
            && !has_null(&row)
            && let Some(members) = self.members(subquery, &rows, has_null)?
        {
            let is_member = members.0.contains(&key_of(slice::from_ref(&*row)));
            // Beside a NULL in another row the result may be NULL, which depends on the other values of that row.
            if is_member || !members.1 {
                return Ok(Value::Bool(is_member != all));
            }
        }
        let mut so_far = Value::Bool(all);
        for other in &*rows {
            self.check_cancelled()?;
            match compare_rows(comparison, &row, other) {
                None => so_far = Value::Null,
                Some(holds) if holds != all => return Ok(Value::Bool(holds)),
                Some(_) => {}
            }
        }
        Ok(so_far)
    }

    /// Returns the set of the values of a query that is run once; `None` when it is asked for the first time: it may be
    /// the only time, and the set takes memory.
    fn members(
        &self,
        subquery: &Subquery,
        values: &[Value],
        is_unknown: fn(&Value) -> bool,
    ) -> Result<Option<Arc<MemberSet>>> {
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
        let (mut set, mut kept) = (KeySet::default(), Kept::new(&self.environment.memory));
        for value in values.iter().filter(|value| !value.is_null()) {
            set.is_new(&key_of(slice::from_ref(value)), &mut kept)?;
        }
        kept.stays();
        let members = Arc::new((set, values.iter().any(is_unknown)));
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

fn several_rows() -> SqlError {
    let message = "more than one row returned by a subquery used as an expression";
    SqlError::new(SqlState::CARDINALITY_VIOLATION, message)
}

/// Whether a row has NULL in it.
fn has_null(row: &Value) -> bool {
    values_of(row).iter().any(Value::is_null)
}

fn values_of(row: &Value) -> &[Value] {
    match row {
        Value::Record(record) => record.values(),
        value => slice::from_ref(value),
    }
}

/// Compares two rows as row constructors are compared; `None`: a NULL makes the result unknown.
fn compare_rows(comparison: Comparison, left: &Value, right: &Value) -> Option<bool> {
    let pairs = values_of(left).iter().zip(values_of(right));
    let orders = pairs.map(|(left, right)| match left.is_null() || right.is_null() {
        true => None,
        false => Some(compare(left, right)),
    });
    if matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
        let is_unequal = comparison == Comparison::NotEqual;
        // A pair that differs decides, whatever is unknown of the others.
        let mut so_far = Some(!is_unequal);
        for order in orders {
            match order {
                Some(order) if order.is_ne() => return Some(is_unequal),
                Some(_) => {}
                None => so_far = None,
            }
        }
        return so_far;
    }
    // The first pair that differs decides.
    let first = { orders }.find(|order| order.is_none_or(|order| order.is_ne()));
    first.unwrap_or(Some(std::cmp::Ordering::Equal)).map(|order| comparison.holds(order))
}
