//! Expressions after binding: every name is a place, every operator a function, every type settled.
//!
//! `eval` evaluates expressions on rows.

mod eval;

use std::{cmp::Ordering, sync::Arc};

pub(crate) use self::eval::{Evaluator, Frame, arguments_of, compare};
use crate::{
    catalog::sequence::Sequence,
    error::{Result, SqlError},
    query::Query,
    system::functions::Lookup,
    types::{Environment, SqlType, Value, cast, record::Field},
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
    /// A call of GROUPING, until the grouping is known.
    Grouping(usize),
    /// A window function of the query, until the places of rows are known.
    Window(usize),
    /// A set-returning function of the query, until the places of rows are known.
    Set(usize),
    Binary(Function<Binary>, Box<[Expr; 2]>),
    Prefix(Function<Prefix>, Box<Expr>),
    Call(Function<Call>, Vec<Expr>),
    /// A function that reads the catalog.
    Lookup(Function<Lookup>, Vec<Expr>),
    Compare(Comparison, Box<[Expr; 2]>),
    Cast(Box<Expr>, Conversion),
    /// A value, which has to be one of a domain.
    Domain(Box<Expr>, Arc<BoundDomain>),
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
    /// An ordering of rows: for each pair of values but the last whether they are equal and how they are ordered, and
    /// the comparison of the last pair. The first pair that is not equal decides; later ones are not evaluated.
    Rows(Vec<Expr>),
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
    /// A record of these columns.
    Record(Arc<[Field]>, Vec<Expr>),
    /// An element of an array: the array, then its subscripts.
    Element(Vec<Expr>),
    Subquery(Subquery),
    /// The next number of a sequence.
    Next(NextOf),
    /// The last number that the session got, of a sequence or of all.
    LastGiven(Option<NextOf>),
    /// Sets a sequence: to a number, and whether that counts as returned already.
    SetNext(NextOf, Box<[Expr; 2]>),
    /// Sets a setting: its name, its value, and whether only until the transaction ends.
    SetConfig(Box<[Expr; 3]>),
    /// Takes or releases an advisory lock, of one or two numbers.
    Advisory(AdvisoryCall, Vec<Expr>),
    /// Sends a notification when the transaction commits: its channel and payload.
    Notify(Box<[Expr; 2]>),
    /// The channels that the session listens to.
    Channels,
    /// Waits for a number of seconds.
    Sleep(Box<Expr>),
}

/// An operation on an advisory lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AdvisoryCall {
    pub(crate) action: AdvisoryAction,
    pub(crate) is_shared: bool,
    /// Until the transaction ends.
    pub(crate) of_transaction: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AdvisoryAction {
    Take,
    /// Takes it if that needs no waiting.
    Try,
    Release,
    ReleaseAll,
}

/// Names of functions that statements do not call by name.
pub(crate) mod hidden {
    /// The operand, in the type in which it is compared.
    pub(crate) const WIDENED: &str = "as point in time";
    pub(crate) const ROW_IS_NULL: &str = "row is null";
    pub(crate) const ROW_IS_NOT_NULL: &str = "row is not null";
    /// An array of the operands, which are arrays.
    pub(crate) const ARRAYS: &str = "array of arrays";
    /// A character of a value of the type `name`.
    pub(crate) const NAME_ELEMENT: &str = "name.element";
    /// The column of a record whose name follows.
    pub(crate) const COLUMN: &str = "column of a record ";

    /// What follows the name of an operator or function whose implementation is that for the collation C.
    const IN_C: &str = " COLLATE \"C\"";

    /// Returns the name of the implementation of an operator or function for the collation C.
    pub(crate) fn in_c(name: &str) -> String {
        format!("{name}{IN_C}")
    }

    /// Returns the name of an operator or function, and the collation that its implementation is for, as SQL writes it
    /// behind an operand.
    pub(crate) fn collated(name: &str) -> (&str, &'static str) {
        name.strip_suffix(IN_C).map_or((name, ""), |name| (name, IN_C))
    }
}

impl AdvisoryCall {
    /// Returns the name of its function.
    pub(crate) fn name(self) -> String {
        use AdvisoryAction::{Release, ReleaseAll, Take, Try};
        let of_transaction = if self.of_transaction { "_xact" } else { "" };
        let is_shared = if self.is_shared { "_shared" } else { "" };
        match self.action {
            ReleaseAll => "pg_advisory_unlock_all".into(),
            Release => format!("pg_advisory_unlock{is_shared}"),
            Take => format!("pg_advisory{of_transaction}_lock{is_shared}"),
            Try => format!("pg_try_advisory{of_transaction}_lock{is_shared}"),
        }
    }

    /// Returns the operation of a function.
    pub(crate) fn of(name: &str) -> Option<Self> {
        use AdvisoryAction::{Release, ReleaseAll, Take, Try};
        let (action, rest) = if name == "pg_advisory_unlock_all" {
            (ReleaseAll, "")
        } else if let Some(rest) = name.strip_prefix("pg_advisory_unlock") {
            (Release, rest)
        } else if let Some(rest) = name.strip_prefix("pg_advisory_lock") {
            (Take, rest)
        } else if let Some(rest) = name.strip_prefix("pg_try_advisory_lock") {
            (Try, rest)
        } else if let Some(rest) = name.strip_prefix("pg_advisory_xact_lock") {
            return Self::with(Take, rest, true);
        } else {
            return Self::with(Try, name.strip_prefix("pg_try_advisory_xact_lock")?, true);
        };
        Self::with(action, rest, false)
    }

    fn with(action: AdvisoryAction, rest: &str, of_transaction: bool) -> Option<Self> {
        let is_shared = match rest {
            "" => false,
            "_shared" => true,
            _ => return None,
        };
        Some(Self { action, is_shared, of_transaction })
    }
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

/// The rules of a domain, after binding.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct BoundDomain {
    /// Its name in messages.
    pub(crate) name: String,
    pub(crate) not_null: bool,
    /// The names of the conditions, and the conditions, on a row of one value.
    pub(crate) checks: Vec<(String, Expr)>,
}

impl BoundDomain {
    /// Whether it excludes nothing.
    pub(crate) fn is_free(&self) -> bool {
        !self.not_null && self.checks.is_empty()
    }
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
    /// How a row constructor compares with the records of its single column.
    Row {
        row: Box<Expr>,
        comparison: Comparison,
        quantifier: Quantifier,
    },
}

/// The rows with which a row constructor is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Quantifier {
    Any,
    All,
    /// The only one; without one the result is NULL.
    One,
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

impl Expr {
    pub(crate) const TRUE: Self = Self::Constant(Value::Bool(true));

    /// Returns the direct subexpressions.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match self {
            Self::Constant(_)
            | Self::Parameter(_)
            | Self::Column(_)
            | Self::Outer(..)
            | Self::Aggregate(_)
            | Self::OuterAggregate(..)
            | Self::Grouping(_)
            | Self::Window(_)
            | Self::Set(_)
            | Self::Next(_)
            | Self::Channels
            | Self::LastGiven(_) => Vec::new(),
            Self::Binary(_, operands)
            | Self::Compare(_, operands)
            | Self::Distinct(operands)
            | Self::NullIf(_, operands)
            | Self::Notify(operands) => operands.iter().collect(),
            Self::Any { operands, .. } | Self::SetNext(_, operands) => operands.iter().collect(),
            Self::SetConfig(operands) => operands.iter().collect(),
            Self::Advisory(_, operands) => operands.iter().collect(),
            Self::Prefix(_, operand)
            | Self::Cast(operand, _)
            | Self::Domain(operand, _)
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
            | Self::Rows(operands)
            | Self::Extreme(_, operands)
            | Self::Element(operands)
            | Self::Record(_, operands)
            | Self::Array(_, operands) => operands.iter().collect(),
            Self::Case(conditions, otherwise) => {
                let pairs = conditions.iter().flat_map(|(condition, result)| [condition, result]);
                pairs.chain([&**otherwise]).collect()
            }
            Self::In(operand, list) => [&**operand].into_iter().chain(list).collect(),
            Self::Subquery(Subquery { kind: SubqueryKind::Holds { operand, .. }, .. }) => vec![operand],
            Self::Subquery(Subquery { kind: SubqueryKind::Row { row, .. }, .. }) => vec![row],
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
            Self::Notify(operands) => Self::Notify(two(operands, change)?),
            Self::Any { operator, operands, all } => Self::Any { operator, operands: two(operands, change)?, all },
            Self::SetNext(sequence, operands) => Self::SetNext(sequence, two(operands, change)?),
            Self::SetConfig(operands) => {
                let [name, value, is_local] = *operands;
                Self::SetConfig(Box::new([change(name)?, change(value)?, change(is_local)?]))
            }
            Self::Advisory(call, operands) => Self::Advisory(call, all(operands, change)?),
            Self::Sleep(seconds) => Self::Sleep(Box::new(change(*seconds)?)),
            Self::Prefix(function, operand) => Self::Prefix(function, Box::new(change(*operand)?)),
            Self::Cast(operand, conversion) => Self::Cast(Box::new(change(*operand)?), conversion),
            Self::Domain(operand, domain) => Self::Domain(Box::new(change(*operand)?), domain),
            Self::Not(operand) => Self::Not(Box::new(change(*operand)?)),
            Self::IsNull(operand) => Self::IsNull(Box::new(change(*operand)?)),
            Self::IsBool(operand, truth) => Self::IsBool(Box::new(change(*operand)?), truth),
            Self::Call(function, operands) => Self::Call(function, all(operands, change)?),
            Self::Lookup(function, operands) => Self::Lookup(function, all(operands, change)?),
            Self::And(operands) => Self::And(all(operands, change)?),
            Self::Or(operands) => Self::Or(all(operands, change)?),
            Self::Coalesce(operands) => Self::Coalesce(all(operands, change)?),
            Self::Rows(comparisons) => Self::Rows(all(comparisons, change)?),
            Self::Extreme(which, operands) => Self::Extreme(which, all(operands, change)?),
            Self::Array(ty, operands) => Self::Array(ty, all(operands, change)?),
            Self::Record(fields, operands) => Self::Record(fields, all(operands, change)?),
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
            Self::Subquery(Subquery {
                query,
                kind: SubqueryKind::Row { row, comparison, quantifier },
                is_correlated,
            }) => {
                let kind = SubqueryKind::Row { row: Box::new(change(*row)?), comparison, quantifier };
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
            Self::Next(_) | Self::LastGiven(_) | Self::SetNext(..) | Self::SetConfig(_) => true,
            Self::Advisory(..) | Self::Notify(_) | Self::Channels | Self::Sleep(_) => true,
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
            | Self::SetConfig(_)
            | Self::Advisory(..)
            | Self::Notify(_)
            | Self::Channels
            | Self::Sleep(_)
            | Self::Domain(..)
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
