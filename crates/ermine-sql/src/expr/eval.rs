//! The value of an expression on a row.
//!
//! A row has the values of all sources of its query, one behind the other. Queries inside expressions see the rows
//! around them through [`Frame`]s.

use std::{borrow::Cow, cmp::Ordering};

use super::{Binary, BoundDomain, Call, Conversion, Elementwise, Expr, Function};
use crate::{
    error::{Result, SqlError, SqlState},
    types::{Array, Environment, Record, SqlType, Value, cast::cast, order},
};

/// The run of a statement, as expressions see it.
pub(crate) trait Evaluator {
    fn environment(&self) -> &Environment;

    /// Returns the value of a parameter, by its number.
    fn parameter(&self, at: usize) -> &Value;

    /// Calls a function. A call with large arguments runs where it blocks nothing else.
    #[inline]
    fn call(&self, is_large: bool, mut function: impl FnMut() -> Result<Value>) -> Result<Value> {
        if is_large { self.environment().interrupt.long(function) } else { function() }
    }

    /// Returns the value of an expression that needs the database or the session: a query, a number of a sequence, a
    /// name of the catalog.
    fn ask<'a>(&'a self, expr: &'a Expr, frame: &Frame<'a>) -> Result<Value>;
}

/// The current row, and those of the enclosing queries.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) row: &'a [Value],
    pub(crate) outer: Option<&'a Frame<'a>>,
}

impl<'a> Frame<'a> {
    /// Returns the frame this number of queries up.
    fn around(&self, levels: usize) -> &Frame<'a> {
        (0..levels).fold(self, |frame, _| frame.outer.expect("the binder counts the queries around"))
    }
}

const NULL: Value = Value::Null;

/// Compares two values of one type, neither of them NULL.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    order::compare(left, right, left.natural_type().unwrap_or(SqlType::TEXT))
}

impl Expr {
    /// Evaluates the expression on a row.
    pub(crate) fn eval<'a>(&'a self, frame: &Frame<'a>, run: &'a impl Evaluator) -> Result<Cow<'a, Value>> {
        let value = match self {
            Self::Constant(value) => return Ok(Cow::Borrowed(value)),
            Self::Parameter(at) => return Ok(Cow::Borrowed(run.parameter(*at))),
            Self::Column(at) => return Ok(Cow::Borrowed(&frame.row[*at])),
            Self::Outer(levels, at) => frame.around(*levels).row[*at].clone(),
            Self::Aggregate(_) | Self::OuterAggregate(..) | Self::Grouping(_) => {
                unreachable!("the binder replaces aggregates")
            }
            Self::Window(_) | Self::Set(_) => unreachable!("the binder replaces window functions and sets"),
            Self::Binary(function, operands) => binary(function, operands, frame, run)?,
            Self::Prefix(function, operand) => {
                let operand = operand.eval(frame, run)?;
                if operand.is_null() { NULL } else { (function.eval)(&operand, run.environment())? }
            }
            Self::Call(function, arguments) => call(function, arguments, frame, run)?,
            Self::Cast(operand, Conversion { from, to, modifier, is_explicit }) => {
                let value = operand.eval(frame, run)?.into_owned();
                if value.is_null() {
                    NULL
                } else {
                    cast(value, *from, *to, *modifier, *is_explicit, run.environment())?
                }
            }
            Self::Domain(operand, domain) => {
                let value = operand.eval(frame, run)?;
                check_domain(domain, &value, run)?;
                return Ok(value);
            }
            Self::Compare(..)
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull(_)
            | Self::IsBool(..)
            | Self::Distinct(_)
            | Self::In(..) => {
                return Ok(Cow::Owned(self.truth(frame, run)?.map_or(NULL, Value::Bool)));
            }
            Self::Case(conditions, otherwise) => {
                for (condition, result) in conditions {
                    if condition.is_true(frame, run)? {
                        return result.eval(frame, run);
                    }
                }
                return otherwise.eval(frame, run);
            }
            Self::Coalesce(operands) => {
                for operand in operands {
                    let value = operand.eval(frame, run)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                NULL
            }
            Self::Rows(comparisons) => return deciding(comparisons, frame, run)?.eval(frame, run),
            Self::NullIf(equal, operands) => return null_if(equal, operands, frame, run),
            Self::Extreme(wanted, operands) => return extreme(*wanted, operands, frame, run),
            Self::Any { operator, operands, all } => any(operator, operands, *all, frame, run)?,
            Self::Array(element, operands) => {
                let values = operands.iter().map(|operand| Ok(operand.eval(frame, run)?.into_owned()));
                Value::array(Array::new(element.scalar, values.collect::<Result<_>>()?))
            }
            Self::Record(fields, operands) => {
                let values = operands.iter().map(|operand| Ok(operand.eval(frame, run)?.into_owned()));
                Value::Record(Box::new(Record::new(fields.clone(), values.collect::<Result<_>>()?)?))
            }
            Self::Element(operands) => element(operands, frame, run)?,
            Self::Lookup(..)
            | Self::Subquery(_)
            | Self::Next(_)
            | Self::LastGiven(_)
            | Self::SetNext(..)
            | Self::SetConfig(_)
            | Self::Advisory(..)
            | Self::Notify(_)
            | Self::Channels
            | Self::Sleep(_) => run.ask(self, frame)?,
        };
        run.environment().memory.pass(&value)?;
        Ok(Cow::Owned(value))
    }

    /// Whether a condition holds; NULL counts as false.
    pub(crate) fn is_true(&self, frame: &Frame<'_>, run: &impl Evaluator) -> Result<bool> {
        Ok(self.truth(frame, run)? == Some(true))
    }

    /// Evaluates a condition, without a value in memory where that is possible; `None`: it is NULL.
    fn truth(&self, frame: &Frame<'_>, run: &impl Evaluator) -> Result<Option<bool>> {
        Ok(match self {
            Self::Compare(comparison, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                let is_null = left.is_null() || right.is_null();
                (!is_null).then(|| comparison.holds(compare(&left, &right)))
            }
            Self::And(conditions) => connect(conditions, false, frame, run)?,
            Self::Or(conditions) => connect(conditions, true, frame, run)?,
            Self::Not(operand) => operand.truth(frame, run)?.map(|truth| !truth),
            Self::IsNull(operand) => Some(operand.eval(frame, run)?.is_null()),
            Self::IsBool(operand, truth) => Some(operand.truth(frame, run)? == Some(*truth)),
            Self::Distinct(operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                Some(match (left.is_null(), right.is_null()) {
                    (false, false) => compare(&left, &right).is_ne(),
                    (left, right) => left != right,
                })
            }
            Self::In(operand, list) => is_in(operand, list, frame, run)?,
            other => match &*other.eval(frame, run)? {
                Value::Bool(truth) => Some(*truth),
                Value::Null => None,
                _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a condition that is not a boolean")),
            },
        })
    }
}

impl<F> Function<F> {
    /// Fails if there is no room for a result about as large as the arguments.
    fn check_room<'v>(&self, arguments: impl Iterator<Item = &'v Value>, environment: &Environment) -> Result<()> {
        let is_small = !self.result.is_array
            && !self.result.is_text()
            && !matches!(self.result, SqlType::BYTEA | SqlType::JSON | SqlType::JSONB);
        if is_small { Ok(()) } else { environment.memory.check(arguments.map(Value::bytes).sum()) }
    }

    /// Whether a call may take long because of this argument, which is not large itself.
    fn is_long_for(&self, argument: &Value) -> bool {
        const MANY: i64 = 10_000;
        self.grows
            && match argument {
                Value::Int4(number) => i64::from(*number) > MANY,
                Value::Int8(number) => *number > MANY,
                Value::Numeric(_) => true,
                _ => false,
            }
    }
}

fn binary(
    function: &Function<Binary>,
    [left, right]: &[Expr; 2],
    frame: &Frame<'_>,
    run: &impl Evaluator,
) -> Result<Value> {
    let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
    if left.is_null() || right.is_null() {
        return Ok(NULL);
    }
    let is_large = left.is_large() || right.is_large();
    if is_large {
        function.check_room([&*left, &*right].into_iter(), run.environment())?;
    }
    run.call(is_large, || (function.eval)(&left, &right, run.environment()))
}

fn call(function: &Function<Call>, arguments: &[Expr], frame: &Frame<'_>, run: &impl Evaluator) -> Result<Value> {
    let Some(values) = arguments_of(arguments, function.is_strict, frame, run)? else { return Ok(NULL) };
    let is_large = values.iter().any(|value| value.is_large() || function.is_long_for(value));
    if is_large {
        function.check_room(values.iter(), run.environment())?;
    }
    run.call(is_large, || (function.eval)(&values, run.environment()))
}

/// Returns the comparison that decides the order of two rows ([`Expr::Rows`]).
fn deciding<'a>(comparisons: &'a [Expr], frame: &Frame<'a>, run: &'a impl Evaluator) -> Result<&'a Expr> {
    let (last, pairs) = comparisons.split_last().expect("rows have values");
    for pair in pairs.chunks_exact(2) {
        if !pair[0].is_true(frame, run)? {
            return Ok(&pair[1]);
        }
    }
    Ok(last)
}

/// Fails for a value that a domain excludes.
fn check_domain(domain: &BoundDomain, value: &Value, run: &impl Evaluator) -> Result<()> {
    let name = &domain.name;
    if domain.not_null && value.is_null() {
        let message = format!("domain {name} does not allow null values");
        return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message));
    }
    for (constraint, check) in &domain.checks {
        // NULL counts as true.
        if *check.eval(&Frame { row: std::slice::from_ref(value), outer: None }, run)? == Value::Bool(false) {
            let message = format!("value for domain {name} violates check constraint \"{constraint}\"");
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message).constraint(&**constraint));
        }
    }
    Ok(())
}

fn null_if<'a>(
    equal: &Function<Binary>,
    [left, right]: &'a [Expr; 2],
    frame: &Frame<'a>,
    run: &'a impl Evaluator,
) -> Result<Cow<'a, Value>> {
    let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
    if left.is_null() || right.is_null() {
        return Ok(left);
    }
    match (equal.eval)(&left, &right, run.environment())? {
        Value::Bool(true) => Ok(Cow::Owned(NULL)),
        _ => Ok(left),
    }
}

fn extreme<'a>(
    wanted: Ordering,
    operands: &'a [Expr],
    frame: &Frame<'a>,
    run: &'a impl Evaluator,
) -> Result<Cow<'a, Value>> {
    let mut found: Cow<'_, Value> = Cow::Owned(NULL);
    for operand in operands {
        let value = operand.eval(frame, run)?;
        if !value.is_null() && (found.is_null() || compare(&value, &found) == wanted) {
            found = value;
        }
    }
    Ok(found)
}

fn is_in(operand: &Expr, list: &[Expr], frame: &Frame<'_>, run: &impl Evaluator) -> Result<Option<bool>> {
    let operand = operand.eval(frame, run)?;
    let mut found = (!operand.is_null()).then_some(false);
    let mut is_decided = operand.is_null();
    for element in list {
        // The list is one array: an error in it arises wherever the value is found.
        if is_decided && matches!(element, Expr::Constant(_) | Expr::Parameter(_)) {
            continue;
        }
        let element = element.eval(frame, run)?;
        if is_decided {
            continue;
        }
        if element.is_null() {
            found = None;
        } else if compare(&operand, &element).is_eq() {
            (found, is_decided) = (Some(true), true);
        }
    }
    Ok(found)
}

fn any(
    operator: &Elementwise,
    [left, array]: &[Expr; 2],
    all: bool,
    frame: &Frame<'_>,
    run: &impl Evaluator,
) -> Result<Value> {
    let (left, array) = (left.eval(frame, run)?, array.eval(frame, run)?);
    let Value::Array(array) = &*array else { return Ok(NULL) };
    let mut so_far = Value::Bool(all);
    for element in array.elements() {
        if left.is_null() || element.is_null() {
            so_far = NULL;
            continue;
        }
        let holds = match operator {
            Elementwise::Compare(comparison) => Value::Bool(comparison.holds(compare(&left, element))),
            Elementwise::Binary(function) => (function.eval)(&left, element, run.environment())?,
        };
        match holds {
            Value::Bool(holds) if holds != all => return Ok(Value::Bool(holds)),
            Value::Bool(_) => {}
            _ => so_far = NULL,
        }
    }
    Ok(so_far)
}

/// Returns an element of an array: the operands are the array and its subscripts.
fn element(operands: &[Expr], frame: &Frame<'_>, run: &impl Evaluator) -> Result<Value> {
    let array = operands[0].eval(frame, run)?;
    let mut places = Vec::with_capacity(operands.len() - 1);
    for operand in &operands[1..] {
        match &*operand.eval(frame, run)? {
            Value::Int4(place) => places.push(*place),
            _ => return Ok(NULL),
        }
    }
    Ok(match &*array {
        Value::Array(array) => array.get(&places),
        _ => NULL,
    })
}

/// Returns the arguments of a function; `None`: one is NULL, and the function is strict.
pub(crate) fn arguments_of(
    arguments: &[Expr],
    is_strict: bool,
    frame: &Frame<'_>,
    run: &impl Evaluator,
) -> Result<Option<Vec<Value>>> {
    // All of them, as in PostgreSQL: one behind a NULL may fail.
    let values = arguments.iter().map(|argument| Ok(argument.eval(frame, run)?.into_owned()));
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok((!is_strict || !values.iter().any(Value::is_null)).then_some(values))
}

/// Evaluates AND, or OR where `decisive` is true.
fn connect(conditions: &[Expr], decisive: bool, frame: &Frame<'_>, run: &impl Evaluator) -> Result<Option<bool>> {
    let mut so_far = Some(!decisive);
    for condition in conditions {
        match condition.truth(frame, run)? {
            Some(truth) if truth == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => so_far = None,
        }
    }
    Ok(so_far)
}
