//! Binding: from the tree of a statement to what the executor runs.
//!
//! Names become places, operators functions, and every value gets a type. A literal in quotes and a parameter have no type of
//! their own ([`Typed::ty`] is `None`): they take the one that is expected where they stand.

mod arrange;
mod call;
mod expr;
mod group;
mod lock;
pub(crate) mod names;
pub(crate) mod path;
mod rewrite;
mod select;
mod source;
pub(crate) mod write;

use std::sync::Arc;

use sqlparser::ast;

use crate::{
    catalog::{Catalog, Relation, Table},
    error::{Result, SqlError, SqlState},
    expr::{Conversion, Expr},
    query::{AggregateCall, Query},
    session::Column,
    types::{
        Environment, SqlType, Value,
        cast::{self, Context},
        text,
    },
};

/// What binding is done against.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) environment: &'a Environment,
    /// Schemas in which names are looked for, in this order.
    pub(crate) search_path: &'a [String],
    /// Types of parameters, as far as they are known.
    pub(crate) parameters: Vec<Option<SqlType>>,
    /// Parameters that stand, before their types are known, where any type will do.
    left_untyped: Vec<usize>,
    /// Why there is no plan, where that is found out only when all names and types are known.
    pub(crate) failure: Option<SqlError>,
    /// The tables that the statement uses.
    pub(crate) tables: Vec<Arc<Table>>,
    /// Of the queries around, the innermost last.
    scopes: Vec<Scope>,
    /// Queries that names stand for.
    named: Vec<Named>,
    /// How deep expressions are nested.
    depth: usize,
}

/// A query with a name (WITH).
struct Named {
    name: String,
    query: Arc<Query>,
    columns: Vec<Column>,
}

/// Deeper expressions are refused, rather than running out of stack.
const DEPTH_MAX: usize = 200;

/// An expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    /// `None`: of a literal or parameter that takes what is expected.
    pub(crate) ty: Option<SqlType>,
    pub(crate) modifier: i32,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: SqlType) -> Self {
        Self { expr, ty: Some(ty), modifier: -1 }
    }
}

/// The columns that names may stand for in a query.
#[derive(Default)]
pub(crate) struct Scope {
    columns: Vec<ScopeColumn>,
    /// Aliases of sources, in their order.
    sources: Vec<String>,
    /// Columns before this one are not seen: those of sources beside a join, in its condition.
    hidden: usize,
    /// Whether an expression looked at it from a query inside.
    is_looked_at: bool,
    /// Where aggregates may stand, those found so far.
    aggregates: Option<Vec<AggregateCall>>,
}

#[derive(Clone)]
struct ScopeColumn {
    source: usize,
    name: String,
    at: usize,
    ty: SqlType,
    modifier: i32,
    /// Table and number.
    origin: (u32, i16),
    /// Joined by USING with one of the same name before it: only its source's name finds it.
    is_merged: bool,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(
        catalog: &'a Catalog,
        environment: &'a Environment,
        search_path: &'a [String],
        parameters: &[Option<SqlType>],
    ) -> Self {
        Self {
            catalog,
            environment,
            search_path,
            parameters: parameters.to_vec(),
            left_untyped: Vec::new(),
            failure: None,
            tables: Vec::new(),
            scopes: Vec::new(),
            named: Vec::new(),
            depth: 0,
        }
    }

    /// The types of all parameters, at the end.
    pub(crate) fn parameter_types(&self) -> Result<Vec<SqlType>> {
        let undetermined =
            |state, at: usize| SqlError::new(state, format!("could not determine data type of parameter ${}", at + 1));
        if let Some(at) = self.left_untyped.iter().find(|at| self.parameters[**at].is_some()) {
            return Err(undetermined(SqlState::AMBIGUOUS_PARAMETER, *at));
        }
        let typed =
            |(at, ty): (usize, &Option<SqlType>)| ty.ok_or_else(|| undetermined(SqlState::INDETERMINATE_DATATYPE, at));
        self.parameters.iter().enumerate().map(typed).collect()
    }

    /// The relation that a name stands for.
    pub(crate) fn relation(&self, name: &ast::ObjectName) -> Result<Option<Relation>> {
        let (schema, own) = names::relation_of(name)?;
        Ok(match schema {
            Some(schema) => self.catalog.find(&schema, &own),
            None => self.search_path.iter().find_map(|schema| self.catalog.find(schema, &own)),
        })
    }

    /// The table that a name stands for; the statement uses it.
    pub(crate) fn table(&mut self, name: &ast::ObjectName) -> Result<Arc<Table>> {
        let missing =
            || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", plain(name)));
        match self.relation(name)?.ok_or_else(missing)? {
            Relation::Table(table) => {
                if !self.tables.iter().any(|used| used.def.id == table.def.id) {
                    self.tables.push(table.clone());
                }
                Ok(table)
            }
            Relation::Sequence(_) | Relation::Index(..) => {
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", plain(name))))
            }
        }
    }

    /// A literal or parameter gets its type; anything else keeps its own, and `text` is what is left without any.
    pub(crate) fn settle(&mut self, typed: Typed) -> Result<(Expr, SqlType)> {
        match typed.ty {
            Some(ty) => Ok((typed.expr, ty)),
            None => Ok((self.take(typed, SqlType::TEXT, -1)?, SqlType::TEXT)),
        }
    }

    /// A value where any type will do: a literal is a text, and a parameter has to have its type from elsewhere,
    /// before.
    pub(crate) fn leave(&mut self, typed: Typed) -> Result<Expr> {
        match (typed.ty, &typed.expr) {
            (None, Expr::Parameter(at)) => {
                self.left_untyped.push(*at);
                Ok(typed.expr)
            }
            _ => Ok(self.settle(typed)?.0),
        }
    }

    /// Makes a value be of a type, if that is possible without saying so.
    pub(crate) fn coerce(&mut self, typed: Typed, to: SqlType) -> Result<Expr> {
        self.convert(typed, to, -1, Context::Implicit)
    }

    /// As for a value that is stored in a column.
    pub(crate) fn assign(&mut self, typed: Typed, to: SqlType, modifier: i32, column: &str) -> Result<Expr> {
        let from = typed.ty;
        self.convert(typed, to, modifier, Context::Assignment).map_err(|error| match from {
            Some(from) if error.state() == SqlState::CANNOT_COERCE => {
                let message =
                    format!("column \"{column}\" is of type {} but expression is of type {}", to.name(), from.name());
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression.")
            }
            _ => error,
        })
    }

    pub(crate) fn convert(&mut self, typed: Typed, to: SqlType, modifier: i32, context: Context) -> Result<Expr> {
        let is_explicit = context == Context::Explicit;
        let Some(from) = typed.ty else {
            if !is_explicit || modifier == -1 {
                return self.take(typed, to, modifier);
            }
            // What is too long is cut where the cast is said.
            let expr = self.take(typed, to, -1)?;
            return self.convert(Typed::new(expr, to), to, modifier, context);
        };
        if from == to && (modifier == -1 || modifier == typed.modifier) {
            return Ok(typed.expr);
        }
        if from != to && cast::context(from, to).is_none_or(|needed| needed > context) {
            let message = format!("cannot cast type {} to {}", from.name(), to.name());
            return Err(SqlError::new(SqlState::CANNOT_COERCE, message));
        }
        let conversion = Conversion { from, to, modifier, is_explicit };
        if let Expr::Constant(value) = &typed.expr
            && cast::is_immutable(from, to)
        {
            let cast = match value {
                Value::Null => Ok(Value::Null),
                value => cast::cast(value.clone(), from, to, modifier, is_explicit, self.environment),
            };
            // What fails does so where it is asked for, and if it is.
            if let Ok(value) = cast {
                return Ok(Expr::Constant(value));
            }
        }
        Ok(Expr::Cast(Box::new(typed.expr), conversion))
    }

    /// A literal or parameter without a type gets this one.
    fn take(&mut self, typed: Typed, ty: SqlType, modifier: i32) -> Result<Expr> {
        match typed.expr {
            Expr::Constant(Value::Text(literal)) if ty.is_datetime() && depends_on_now(&literal) => {
                let conversion = Conversion { from: SqlType::TEXT, to: ty, modifier, is_explicit: true };
                Ok(Expr::Cast(Box::new(Expr::Constant(Value::Text(literal))), conversion))
            }
            Expr::Constant(Value::Text(literal)) => {
                text::parse(ty, modifier, &literal, self.environment).map(Expr::Constant)
            }
            Expr::Parameter(at) => {
                let known = *self.parameters[at].get_or_insert(ty);
                if known != ty {
                    let message = format!("inconsistent types deduced for parameter ${}", at + 1);
                    let detail = format!("{} versus {}", known.name(), ty.name());
                    return Err(SqlError::new(SqlState::AMBIGUOUS_PARAMETER, message).detail(detail));
                }
                self.convert(Typed::new(Expr::Parameter(at), ty), ty, modifier, Context::Assignment)
            }
            other => Ok(other),
        }
    }

    /// Two values that are to be of one type.
    pub(crate) fn common(&mut self, all: Vec<Typed>, what: &str) -> Result<(Vec<Expr>, SqlType)> {
        let types: Vec<_> = all.iter().filter_map(|typed| typed.ty).collect();
        let ty = match cast::common_type(types.iter().copied()) {
            Some(ty) => ty,
            None if types.is_empty() => SqlType::TEXT,
            None => {
                let other = types.iter().find(|ty| ty.category() != types[0].category()).unwrap_or(&types[0]);
                let message = format!("{what} types {} and {} cannot be matched", types[0].name(), other.name());
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        };
        let all = all.into_iter().map(|typed| self.coerce(typed, ty)).collect::<Result<_>>()?;
        Ok((all, ty))
    }
}

/// Fails for types whose values have no order, and cannot be told to be equal.
pub(crate) fn check_ordered(ty: SqlType) -> Result<()> {
    if ty.is_ordered() {
        return Ok(());
    }
    let message = format!("could not identify an equality operator for type {}", ty.name());
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
}

/// Whether a literal means another time each day, or each moment.
fn depends_on_now(literal: &str) -> bool {
    let lower = literal.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphabetic());
    words.any(|word| ["now", "today", "tomorrow", "yesterday"].contains(&word))
}

pub(crate) use select::is_descending;

/// A name as people wrote it.
pub(crate) fn plain(name: &ast::ObjectName) -> String {
    names::parts_of(name).map_or_else(|_| name.to_string(), |parts| parts.join("."))
}
