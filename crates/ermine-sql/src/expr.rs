//! Expressions after binding: every name is a place, every operator a function, every type settled.
//!
//! An expression is evaluated on a row, the values of all sources of its query one behind the other. Queries inside
//! expressions see the rows around them through [`Frame`]s.

use std::{borrow::Cow, cmp::Ordering, sync::Arc};

use crate::{
    catalog::sequence::Sequence,
    error::{Result, SqlError, SqlState},
    query::Query,
    system::functions::Lookup,
    types::{
        Array, Environment, SqlType, Value,
        cast::{self, cast},
        order,
    },
};

/// A function of two values, neither of them NULL.
pub(crate) type Binary = fn(&Value, &Value, &Environment) -> Result<Value>;
/// A function of one value that is not NULL.
pub(crate) type Prefix = fn(&Value, &Environment) -> Result<Value>;
/// A function of any number of values.
pub(crate) type Call = fn(&[Value], &Environment) -> Result<Value>;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Constant(Value),
    /// A parameter, by its number.
    Parameter(usize),
    /// A column, by its place in the row.
    Column(usize),
    /// A column of the row of an enclosing query, by the number of levels up and its place.
    Outer(usize, usize),
    /// An aggregate of the query, until the grouping is known.
    Aggregate(usize),
    /// An aggregate of an enclosing query, by the number of levels up.
    OuterAggregate(usize, usize),
    Binary(Function<Binary>, Box<[Expr; 2]>),
    Prefix(Function<Prefix>, Box<Expr>),
    Call(Function<Call>, Vec<Expr>),
    /// A function that reads the catalog.
    Lookup(Function<Lookup>, Vec<Expr>),
    Compare(Comparison, Box<[Expr; 2]>),
    Cast(Box<Expr>, Conversion),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// IS TRUE or IS FALSE.
    IsBool(Box<Expr>, bool),
    /// IS DISTINCT FROM
    Distinct(Box<[Expr; 2]>),
    /// Conditions with their results, and the result otherwise.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Coalesce(Vec<Expr>),
    /// The first operand, or NULL if the function, which is `=`, holds for both.
    NullIf(Function<Binary>, Box<[Expr; 2]>),
    /// The greatest, or the least.
    Extreme(Ordering, Vec<Expr>),
    /// Whether the first expression is equal to one of the others.
    In(Box<Expr>, Vec<Expr>),
    /// Whether an operator holds for any element of an array, or for all.
    Any {
        operator: Elementwise,
        operands: Box<[Expr; 2]>,
        all: bool,
    },
    Array(SqlType, Vec<Expr>),
    /// An element of an array: the array, then its subscripts.
    Element(Vec<Expr>),
    Subquery(Subquery),
    /// The next number of a sequence.
    Next(NextOf),
    /// The last number that the session got, of a sequence or of all.
    LastGiven(Option<NextOf>),
    /// Sets a sequence: to a number, and whether that counts as returned already.
    SetNext(NextOf, Box<[Expr; 2]>),
    /// Waits for a number of seconds.
    Sleep(Box<Expr>),
}

/// A function by its name: two functions are the same if their names and types are.
#[derive(Clone)]
pub(crate) struct Function<F> {
    pub(crate) name: Arc<str>,
    /// Returns NULL if an argument is NULL, without a call.
    pub(crate) is_strict: bool,
    /// Always returns the same result for the same arguments.
    pub(crate) is_immutable: bool,
    /// Returns another value at each call.
    pub(crate) is_volatile: bool,
    /// The size of the result, or the work, depends on the values of the arguments.
    pub(crate) grows: bool,
    pub(crate) eval: F,
    pub(crate) result: SqlType,
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

impl<F> Function<F> {
    /// The function of an operator.
    pub(crate) fn of_operator(name: &str, is_immutable: bool, result: SqlType, eval: F) -> Self {
        Self { name: name.into(), is_strict: true, is_immutable, is_volatile: false, grows: false, eval, result }
    }
}

impl<F> PartialEq for Function<F> {
    /// Within a statement, a stable function returns one value for the same arguments; a volatile one does not.
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.result == other.result && !self.is_volatile
    }
}

impl<F> std::fmt::Debug for Function<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// A comparison of two values of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(crate) fn parse(operator: &str) -> Option<Self> {
        Some(match operator {
            "=" => Self::Equal,
            "<>" | "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    pub(crate) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// Returns the comparison with its sides exchanged.
    pub(crate) fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            same => same,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// The source type and the target type of a cast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conversion {
    pub(crate) from: SqlType,
    pub(crate) to: SqlType,
    pub(crate) modifier: i32,
    pub(crate) is_explicit: bool,
}

/// The test of each element of an array.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Elementwise {
    Compare(Comparison),
    Binary(Function<Binary>),
}

/// A query inside an expression.
#[derive(Clone, Debug)]
pub(crate) struct Subquery {
    pub(crate) query: Arc<Query>,
    pub(crate) kind: SubqueryKind,
    /// Whether it refers to rows of enclosing queries: otherwise it is run once.
    pub(crate) is_correlated: bool,
}

impl PartialEq for Subquery {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.query, &other.query)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum SubqueryKind {
    /// The single value of its single row.
    Value,
    Exists,
    /// Whether a value is among those of its single column.
    Holds {
        operand: Box<Expr>,
        comparison: Comparison,
        all: bool,
    },
    /// All values of its single column.
    Array(SqlType),
}

#[derive(Clone)]
pub(crate) struct NextOf(pub(crate) Arc<Sequence>, pub(crate) SqlType);

impl std::fmt::Debug for NextOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "nextval({})", self.0.def.name)
    }
}

impl PartialEq for NextOf {
    /// Each call returns a number of its own.
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

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

const NULL: Value = Value::Null;

/// Compares two values of one type, neither of them NULL. The binder compares texts of fixed length as texts without
/// padding.
pub(crate) fn compare(left: &Value, right: &Value) -> Ordering {
    order::compare(left, right, left.natural_type().unwrap_or(SqlType::TEXT))
}

impl Expr {
    pub(crate) const TRUE: Self = Self::Constant(Value::Bool(true));

    /// Evaluates the expression on a row.
    pub(crate) fn eval<'a>(&'a self, frame: &Frame<'a>, run: &'a impl Evaluator) -> Result<Cow<'a, Value>> {
        let value = match self {
            Self::Constant(value) => return Ok(Cow::Borrowed(value)),
            Self::Parameter(at) => return Ok(Cow::Borrowed(run.parameter(*at))),
            Self::Column(at) => return Ok(Cow::Borrowed(&frame.row[*at])),
            Self::Outer(levels, at) => {
                let mut around = frame;
                for _ in 0..*levels {
                    around = around.outer.expect("the binder counts the queries around");
                }
                Value::clone(&around.row[*at])
            }
            Self::Aggregate(_) | Self::OuterAggregate(..) => unreachable!("the binder replaces aggregates"),
            Self::Binary(function, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                if left.is_null() || right.is_null() {
                    NULL
                } else {
                    let is_large = left.is_large() || right.is_large();
                    if is_large {
                        function.check_room([&*left, &*right].into_iter(), run.environment())?;
                    }
                    run.call(is_large, || (function.eval)(&left, &right, run.environment()))?
                }
            }
            Self::Prefix(function, operand) => {
                let operand = operand.eval(frame, run)?;
                if operand.is_null() { NULL } else { (function.eval)(&operand, run.environment())? }
            }
            Self::Call(function, arguments) => match arguments_of(arguments, function.is_strict, frame, run)? {
                Some(values) => {
                    let is_large = values.iter().any(|value| value.is_large() || function.is_long_for(value));
                    if is_large {
                        function.check_room(values.iter(), run.environment())?;
                    }
                    run.call(is_large, || (function.eval)(&values, run.environment()))?
                }
                None => NULL,
            },
            Self::Compare(comparison, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                if left.is_null() || right.is_null() {
                    NULL
                } else {
                    Value::Bool(comparison.holds(compare(&left, &right)))
                }
            }
            Self::Cast(operand, Conversion { from, to, modifier, is_explicit }) => {
                let value = operand.eval(frame, run)?.into_owned();
                if value.is_null() {
                    NULL
                } else {
                    cast(value, *from, *to, *modifier, *is_explicit, run.environment())?
                }
            }
            Self::And(conditions) => connect(conditions, false, frame, run)?,
            Self::Or(conditions) => connect(conditions, true, frame, run)?,
            Self::Not(operand) => match &*operand.eval(frame, run)? {
                Value::Bool(truth) => Value::Bool(!truth),
                _ => NULL,
            },
            Self::IsNull(operand) => Value::Bool(operand.eval(frame, run)?.is_null()),
            Self::IsBool(operand, truth) => Value::Bool(*operand.eval(frame, run)? == Value::Bool(*truth)),
            Self::Distinct(operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                Value::Bool(match (left.is_null(), right.is_null()) {
                    (false, false) => compare(&left, &right).is_ne(),
                    (left, right) => left != right,
                })
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
            Self::NullIf(equal, operands) => {
                let [left, right] = &**operands;
                let (left, right) = (left.eval(frame, run)?, right.eval(frame, run)?);
                if left.is_null() || right.is_null() {
                    return Ok(left);
                }
                match (equal.eval)(&left, &right, run.environment())? {
                    Value::Bool(true) => NULL,
                    _ => return Ok(left),
                }
            }
            Self::Extreme(wanted, operands) => {
                let mut found: Cow<'_, Value> = Cow::Owned(NULL);
                for operand in operands {
                    let value = operand.eval(frame, run)?;
                    if !value.is_null() && (found.is_null() || compare(&value, &found) == *wanted) {
                        found = value;
                    }
                }
                return Ok(found);
            }
            Self::In(operand, list) => {
                let operand = operand.eval(frame, run)?;
                let mut found = if operand.is_null() { NULL } else { Value::Bool(false) };
                let mut is_decided = operand.is_null();
                for element in list {
                    // The list is one array: an error in it arises wherever the value is found.
                    if is_decided && matches!(element, Self::Constant(_) | Self::Parameter(_)) {
                        continue;
                    }
                    let element = element.eval(frame, run)?;
                    if is_decided {
                        continue;
                    }
                    if element.is_null() {
                        found = NULL;
                    } else if compare(&operand, &element).is_eq() {
                        (found, is_decided) = (Value::Bool(true), true);
                    }
                }
                found
            }
            Self::Any { operator, operands, all } => {
                let [left, array] = &**operands;
                let (left, array) = (left.eval(frame, run)?, array.eval(frame, run)?);
                let Value::Array(array) = &*array else { return Ok(Cow::Owned(NULL)) };
                let mut so_far = Value::Bool(*all);
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
                        Value::Bool(holds) if holds != *all => return Ok(Cow::Owned(Value::Bool(holds))),
                        Value::Bool(_) => {}
                        _ => so_far = NULL,
                    }
                }
                so_far
            }
            Self::Array(element, operands) => {
                let values = operands.iter().map(|operand| Ok(operand.eval(frame, run)?.into_owned()));
                Value::array(Array::new(element.scalar, values.collect::<Result<_>>()?))
            }
            Self::Element(operands) => {
                let array = operands[0].eval(frame, run)?;
                let mut places = Vec::with_capacity(operands.len() - 1);
                for operand in &operands[1..] {
                    match &*operand.eval(frame, run)? {
                        Value::Int4(place) => places.push(*place),
                        _ => return Ok(Cow::Owned(NULL)),
                    }
                }
                match &*array {
                    Value::Array(array) => array.get(&places),
                    _ => NULL,
                }
            }
            Self::Lookup(..)
            | Self::Subquery(_)
            | Self::Next(_)
            | Self::LastGiven(_)
            | Self::SetNext(..)
            | Self::Sleep(_) => run.ask(self, frame)?,
        };
        run.environment().memory.pass(&value)?;
        Ok(Cow::Owned(value))
    }

    /// Whether a condition holds; NULL counts as false.
    pub(crate) fn is_true(&self, frame: &Frame<'_>, run: &impl Evaluator) -> Result<bool> {
        Ok(matches!(&*self.eval(frame, run)?, Value::Bool(true)))
    }

    /// Returns the direct subexpressions.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Constant(_)
            | Self::Parameter(_)
            | Self::Column(_)
            | Self::Outer(..)
            | Self::Aggregate(_)
            | Self::OuterAggregate(..)
            | Self::Next(_)
            | Self::LastGiven(_) => Vec::new(),
            Self::Binary(_, operands)
            | Self::Compare(_, operands)
            | Self::Distinct(operands)
            | Self::NullIf(_, operands) => operands.iter().collect(),
            Self::Any { operands, .. } | Self::SetNext(_, operands) => operands.iter().collect(),
            Self::Prefix(_, operand)
            | Self::Cast(operand, _)
            | Self::Not(operand)
            | Self::IsNull(operand)
            | Self::IsBool(operand, _)
            | Self::Sleep(operand) => {
                vec![operand]
            }
            Self::Call(_, operands)
            | Self::Lookup(_, operands)
            | Self::And(operands)
            | Self::Or(operands)
            | Self::Coalesce(operands)
            | Self::Extreme(_, operands)
            | Self::Element(operands)
            | Self::Array(_, operands) => operands.iter().collect(),
            Self::Case(conditions, otherwise) => {
                let pairs = conditions.iter().flat_map(|(condition, result)| [condition, result]);
                pairs.chain([&**otherwise]).collect()
            }
            Self::In(operand, list) => [&**operand].into_iter().chain(list).collect(),
            Self::Subquery(Subquery { kind: SubqueryKind::Holds { operand, .. }, .. }) => vec![operand],
            Self::Subquery(_) => Vec::new(),
        }
    }

    /// Replaces each direct subexpression by the result of `change`.
    pub(crate) fn map(self, change: &mut dyn FnMut(Expr) -> Result<Expr>) -> Result<Self> {
        let all = |operands: Vec<Expr>, change: &mut dyn FnMut(Expr) -> Result<Expr>| {
            operands.into_iter().map(change).collect::<Result<Vec<_>>>()
        };
        let two = |operands: Box<[Expr; 2]>, change: &mut dyn FnMut(Expr) -> Result<Expr>| {
            let [left, right] = *operands;
            Ok::<_, SqlError>(Box::new([change(left)?, change(right)?]))
        };
        Ok(match self {
            Self::Binary(function, operands) => Self::Binary(function, two(operands, change)?),
            Self::Compare(comparison, operands) => Self::Compare(comparison, two(operands, change)?),
            Self::Distinct(operands) => Self::Distinct(two(operands, change)?),
            Self::NullIf(equal, operands) => Self::NullIf(equal, two(operands, change)?),
            Self::Any { operator, operands, all } => Self::Any { operator, operands: two(operands, change)?, all },
            Self::SetNext(sequence, operands) => Self::SetNext(sequence, two(operands, change)?),
            Self::Sleep(seconds) => Self::Sleep(Box::new(change(*seconds)?)),
            Self::Prefix(function, operand) => Self::Prefix(function, Box::new(change(*operand)?)),
            Self::Cast(operand, conversion) => Self::Cast(Box::new(change(*operand)?), conversion),
            Self::Not(operand) => Self::Not(Box::new(change(*operand)?)),
            Self::IsNull(operand) => Self::IsNull(Box::new(change(*operand)?)),
            Self::IsBool(operand, truth) => Self::IsBool(Box::new(change(*operand)?), truth),
            Self::Call(function, operands) => Self::Call(function, all(operands, change)?),
            Self::Lookup(function, operands) => Self::Lookup(function, all(operands, change)?),
            Self::And(operands) => Self::And(all(operands, change)?),
            Self::Or(operands) => Self::Or(all(operands, change)?),
            Self::Coalesce(operands) => Self::Coalesce(all(operands, change)?),
            Self::Extreme(which, operands) => Self::Extreme(which, all(operands, change)?),
            Self::Array(ty, operands) => Self::Array(ty, all(operands, change)?),
            Self::Element(operands) => Self::Element(all(operands, change)?),
            Self::Case(conditions, otherwise) => {
                let pairs = conditions.into_iter().map(|(condition, result)| Ok((change(condition)?, change(result)?)));
                let pairs = pairs.collect::<Result<_>>()?;
                Self::Case(pairs, Box::new(change(*otherwise)?))
            }
            Self::In(operand, list) => Self::In(Box::new(change(*operand)?), all(list, change)?),
            Self::Subquery(Subquery {
                query,
                kind: SubqueryKind::Holds { operand, comparison, all },
                is_correlated,
            }) => {
                let kind = SubqueryKind::Holds { operand: Box::new(change(*operand)?), comparison, all };
                Self::Subquery(Subquery { query, kind, is_correlated })
            }
            leaf => leaf,
        })
    }

    /// Calls `see` on the expression and everything in it.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Expr)) {
        see(self);
        self.children().into_iter().for_each(|child| child.visit(see));
    }

    /// Whether it may return different values on the same row.
    pub(crate) fn is_volatile(&self) -> bool {
        self.has(&|inner| match inner {
            Self::Next(_) | Self::LastGiven(_) | Self::SetNext(..) | Self::Sleep(_) => true,
            Self::Call(function, _) => function.is_volatile,
            _ => false,
        })
    }

    /// Whether its value depends on the row only.
    pub(crate) fn is_immutable(&self) -> bool {
        !self.has(&|inner| !inner.is_own_immutable())
    }

    /// Whether, apart from its subexpressions, it always returns the same value for the same row and the same values of
    /// its subexpressions.
    pub(crate) fn is_own_immutable(&self) -> bool {
        match self {
            Self::Next(_)
            | Self::LastGiven(_)
            | Self::SetNext(..)
            | Self::Sleep(_)
            | Self::Subquery(_)
            | Self::Outer(..)
            | Self::Lookup(..) => false,
            Self::Call(function, _) => function.is_immutable,
            Self::Prefix(function, _) => function.is_immutable,
            Self::Binary(function, _)
            | Self::NullIf(function, _)
            | Self::Any { operator: Elementwise::Binary(function), .. } => function.is_immutable,
            Self::Cast(_, conversion) => cast::is_immutable(conversion.from, conversion.to),
            _ => true,
        }
    }

    /// Whether it contains a query.
    pub(crate) fn has_query(&self) -> bool {
        self.has(&|inner| matches!(inner, Self::Subquery(_)))
    }

    /// Whether it, or anything in it, satisfies `is_such`.
    pub(crate) fn has(&self, is_such: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        self.visit(&mut |inner| found |= is_such(inner));
        found
    }

    /// Returns the conditions that all have to hold.
    pub(crate) fn conjuncts(self) -> Vec<Expr> {
        match self {
            Self::And(conditions) => conditions.into_iter().flat_map(Self::conjuncts).collect(),
            condition => vec![condition],
        }
    }
}

/// Returns the arguments of a function; `None`: one is NULL, and the function is strict.
pub(crate) fn arguments_of(
    arguments: &[Expr],
    is_strict: bool,
    frame: &Frame<'_>,
    run: &impl Evaluator,
) -> Result<Option<Vec<Value>>> {
    let mut values = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let value = argument.eval(frame, run)?.into_owned();
        if is_strict && value.is_null() {
            return Ok(None);
        }
        values.push(value);
    }
    Ok(Some(values))
}

/// Evaluates AND, or OR where `decisive` is true.
fn connect(conditions: &[Expr], decisive: bool, frame: &Frame<'_>, run: &impl Evaluator) -> Result<Value> {
    let mut so_far = Value::Bool(!decisive);
    for condition in conditions {
        match &*condition.eval(frame, run)? {
            Value::Bool(truth) if *truth == decisive => return Ok(Value::Bool(decisive)),
            Value::Bool(_) => {}
            Value::Null => so_far = NULL,
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a condition that is not a boolean")),
        }
    }
    Ok(so_far)
}
