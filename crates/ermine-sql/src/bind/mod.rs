//! Binding: from the tree of a statement to a plan for the executor.
//!
//! Names become places, operators become functions, and every value gets a type. A literal in quotes and a parameter
//! have no type of their own ([`Typed::ty`] is `None`): they take the type that their context expects.

pub(crate) mod call;
mod collation;
pub(crate) mod domain;
mod enumeration;
mod expr;
mod generated;
mod group;
mod grouping_sets;
mod index_expression;
mod join_conditions;
mod join_order;
pub(crate) mod join_search;
mod lock;
mod membership;
pub(crate) mod merge;
mod named;
pub(crate) mod names;
mod ordered;
pub(crate) mod parts;
pub(crate) mod path;
mod pull_up;
mod record_source;
pub(crate) mod references;
mod rewrite;
pub(crate) mod rights;
mod row;
pub(crate) mod row_security;
pub(crate) mod search;
mod select;
mod sequence;
mod sets;
mod source;
mod variadic;
pub(crate) mod view;
pub(crate) mod view_write;
mod window;
mod with;
pub(crate) mod write;

use std::{borrow::Cow, mem, sync::Arc};

use sqlparser::ast;

use self::{
    collation::Derived,
    parts::Part,
    rights::Need,
    row_security::Policies,
    sets::SetScope,
    view::{Inside, Recorder},
    window::WindowScope,
};
use crate::{
    catalog::{Catalog, Relation, Table, View, definition::ObjectId, rights::Rights},
    collation::Collation,
    error::{Result, SqlError, SqlState},
    expr::{Conversion, Expr},
    parse,
    query::{AggregateCall, Query},
    result::Column,
    types::{
        Environment, Scalar, SqlType, TimeZone, Value,
        cast::{self, Context},
        datetime::{Style, depends_on_now},
        record::Field,
        text,
    },
};

/// The context and state of binding a statement.
pub(crate) struct Binder<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) environment: &'a Environment,
    /// Schemas in which names are looked up, in this order.
    pub(crate) search_path: &'a [String],
    /// Types of parameters, as far as they are known.
    pub(crate) parameters: Vec<Option<SqlType>>,
    /// Parameters used where any type will do, before their types are known.
    left_untyped: Vec<usize>,
    /// The reason why there is no plan, if it is found only when all names and types are known.
    pub(crate) failure: Option<SqlError>,
    /// The error of a materialized view that it reads and that has no rows yet.
    pub(crate) unpopulated: Option<SqlError>,
    /// The rights that the statement needs.
    needs: Vec<Need>,
    /// The error of a right that it lacks and that is no right to a table.
    denied: Option<SqlError>,
    /// The right that the next source needs, if it is not read only.
    next_right: Option<Rights>,
    /// Whether an expression of a table's definition is bound, that does not run with the rights of the role.
    is_in_rules: bool,
    /// Whether an expression that the catalog stores is bound: its literals have the usual style.
    reads_stored: bool,
    /// The tables that the statement uses.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The views that the statement uses.
    pub(crate) views: Vec<Arc<View>>,
    /// The query of a view, or the condition of a policy, that is bound.
    inside: Option<Inside>,
    /// The tables of whose policies a condition is bound, one inside the other.
    secured: Vec<ObjectId>,
    /// The tables to whose rows policies are applied.
    policies: Policies,
    /// The number of views whose queries are bound, one inside the other.
    view_depth: usize,
    /// The number of SELECTs that are bound, one inside the other.
    select_depth: usize,
    /// Notes on the query of a new view.
    recorder: Option<Box<Recorder>>,
    /// Whether queries in FROM stay apart, because rows are to be locked.
    keeps_sources: bool,
    /// Whether the order of views does not matter, because they stand for the rows that a statement writes.
    ignores_order: bool,
    /// Scopes of the enclosing queries, the innermost last.
    scopes: Vec<Scope>,
    /// Queries that have names (WITH).
    named: Vec<Named>,
    /// Number of queries by which references to named ones have been replaced.
    expanded: usize,
    /// Number of recursive queries, and of WITH queries that write, so far.
    recursions: usize,
    /// The WITH queries that write, where they are allowed.
    parts: Option<Vec<Part>>,
    /// The current depth of nested expressions.
    depth: usize,
    /// The collation of the operands bound so far, inside an expression.
    collation: Option<Derived>,
}

/// A query with a name (WITH).
struct Named {
    name: String,
    query: Arc<Query>,
    columns: Vec<Column>,
    /// Its tree, if it is bound once more where its only use is, so that it may become part of the query there.
    tree: Option<Arc<ast::Query>>,
    /// Whether its rows are computed once and then kept: they may differ from run to run, or are used several times.
    is_kept: bool,
    /// Number of queries by which references to other named ones in it have been replaced.
    expanded: usize,
}

/// Maximum number of queries by which references to named ones are replaced: each level of WITH may double it.
const EXPANDED_MAX: usize = 10_000;

/// Maximum depth of expressions: deeper ones are refused, to protect the stack.
const DEPTH_MAX: usize = 200;

/// Maximum depth of SELECTs, to protect the stack: a text has fewer, but views in it may have as many each.
const SELECTS_NESTED_MAX: usize = 40;

/// An expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    /// `None`: a literal or parameter that takes the expected type.
    pub(crate) ty: Option<SqlType>,
    pub(crate) modifier: i32,
}

impl Typed {
    pub(crate) fn new(expr: Expr, ty: SqlType) -> Self {
        Self { expr, ty: Some(ty), modifier: -1 }
    }
}

/// The columns that names may refer to in a query.
#[derive(Default)]
pub(crate) struct Scope {
    columns: Vec<ScopeColumn>,
    /// Aliases of sources, in their order.
    sources: Vec<String>,
    /// Columns before this one are invisible: those of sources beside a join, in its condition.
    hidden: usize,
    /// The aggregates found so far, where aggregates are allowed.
    aggregates: Option<Vec<AggregateCall>>,
    /// The arguments of the calls of GROUPING found so far.
    groupings: Vec<Vec<Expr>>,
    /// The windows and the window functions found so far, where window functions are allowed.
    windows: Option<WindowScope>,
    /// The set-returning functions found so far, where they are allowed.
    sets: Option<SetScope>,
    /// The clause that allows no window functions or set-returning functions; empty: one that is not named.
    clause: &'static str,
    /// Whether it is that of an expression in a table's definition, whose text would not survive a new name of the
    /// table.
    is_definition: bool,
}

#[derive(Clone)]
struct ScopeColumn {
    source: usize,
    /// Its number among those of the source.
    number: usize,
    name: String,
    at: usize,
    ty: SqlType,
    modifier: i32,
    collation: Collation,
    /// The table and the number of the column.
    origin: (u32, i16),
    /// The columns of its records, where they are known.
    fields: Option<Arc<[Field]>>,
    /// Joined by USING with a previous column of the same name: it is found only with its source's name.
    is_merged: bool,
    /// `tableoid`: found by its name only.
    is_system: bool,
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
            unpopulated: None,
            needs: Vec::new(),
            denied: None,
            next_right: None,
            is_in_rules: false,
            reads_stored: false,
            tables: Vec::new(),
            views: Vec::new(),
            inside: None,
            secured: Vec::new(),
            policies: Policies::All,
            view_depth: 0,
            select_depth: 0,
            recorder: None,
            keeps_sources: false,
            ignores_order: false,
            scopes: Vec::new(),
            named: Vec::new(),
            expanded: 0,
            recursions: 0,
            parts: None,
            depth: 0,
            collation: None,
        }
    }

    /// Returns the types of all parameters, at the end of binding.
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

    /// Returns the table that a name refers to, and records that the statement uses it and needs a right to it.
    pub(crate) fn table(&mut self, name: &ast::ObjectName, right: Rights) -> Result<Arc<Table>> {
        let missing =
            || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", plain(name)));
        match self.relation(name)?.ok_or_else(|| parse::place::at_name(missing(), name))? {
            Relation::Table(table) => {
                if let Some(part) = &table.def.materialized {
                    self.check_materialized(&table.def.name, part.is_populated, right)?;
                }
                self.uses(&table);
                self.needs(table.def.id, right);
                Ok(table)
            }
            Relation::View(_) | Relation::Sequence(_) | Relation::Index(..) => {
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", plain(name))))
            }
        }
    }

    /// Fails for a statement that would write a materialized view, and notes that one has no rows yet.
    fn check_materialized(&mut self, name: &str, is_populated: bool, right: Rights) -> Result<()> {
        if right != Rights::SELECT {
            let message = format!("cannot change materialized view \"{name}\"");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        if !is_populated && self.unpopulated.is_none() {
            let message = format!("materialized view \"{name}\" has not been populated");
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            self.unpopulated = Some(error.hint("Use the REFRESH MATERIALIZED VIEW command."));
        }
        Ok(())
    }

    /// Records that the statement uses a table.
    pub(crate) fn uses(&mut self, table: &Arc<Table>) {
        if !self.tables.iter().any(|used| used.def.id == table.def.id) {
            self.tables.push(table.clone());
        }
    }

    /// Gives a literal or parameter its type; other values keep their own, and a value still without a type becomes
    /// `text`.
    pub(crate) fn settle(&mut self, typed: Typed) -> Result<(Expr, SqlType)> {
        match typed.ty {
            Some(ty) => Ok((typed.expr, ty)),
            None => Ok((self.take(typed, SqlType::TEXT, -1)?, SqlType::TEXT)),
        }
    }

    /// Binds a value where any type will do: a literal is a text, and a parameter must have got its type elsewhere
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

    /// Converts a value to a type, if an implicit cast allows it.
    pub(crate) fn coerce(&mut self, typed: Typed, to: SqlType) -> Result<Expr> {
        self.convert(typed, to, -1, Context::Implicit)
    }

    /// Converts a value for storage in a column.
    pub(crate) fn assign(&mut self, typed: Typed, to: SqlType, modifier: i32, column: &str) -> Result<Expr> {
        self.assign_what("expression", typed, (to, modifier), column)
    }

    /// Converts the default of a column, or what it is computed from.
    pub(crate) fn assign_default(&mut self, typed: Typed, to: (SqlType, i32), column: &str) -> Result<Expr> {
        self.assign_what("default expression", typed, to, column)
    }

    fn assign_what(&mut self, what: &str, typed: Typed, to: (SqlType, i32), column: &str) -> Result<Expr> {
        let (from, (to, modifier)) = (typed.ty, to);
        self.convert(typed, to, modifier, Context::Assignment).map_err(|error| match from {
            Some(from) if error.state() == SqlState::CANNOT_COERCE => {
                let message =
                    format!("column \"{column}\" is of type {} but {what} is of type {}", to.name(), from.name());
                SqlError::new(SqlState::DATATYPE_MISMATCH, message)
                    .hint("You will need to rewrite or cast the expression.")
            }
            _ => error,
        })
    }

    pub(crate) fn convert(&mut self, typed: Typed, to: SqlType, modifier: i32, context: Context) -> Result<Expr> {
        let is_explicit = context == Context::Explicit;
        let Some(from) = typed.ty else {
            if modifier == -1 || to.scalar == Scalar::Interval {
                return self.take(typed, to, modifier);
            }
            // A value that is too long is cut where the cast is explicit; otherwise it fails later than its type.
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
            // A cast that fails must do so where it is evaluated, and only then.
            if let Ok(value) = cast {
                return Ok(Expr::Constant(value));
            }
        }
        Ok(Expr::Cast(Box::new(typed.expr), conversion))
    }

    /// Gives this type to a result that has none.
    fn untyped_as(&mut self, expr: Expr, ty: SqlType) -> Result<Expr> {
        self.take(Typed { expr, ty: None, modifier: -1 }, ty, -1)
    }

    /// Counts queries by which the name of a query or a view is replaced.
    fn count_expanded(&mut self, queries: usize) -> Result<()> {
        self.expanded += queries;
        if self.expanded <= EXPANDED_MAX {
            return Ok(());
        }
        let message = "the references to WITH queries and views stand for too many queries";
        Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message))
    }

    /// Returns the environment in which literals are read. Those that the catalog stores have the usual style, and those
    /// of policies the time zone UTC: the role that they restrict does not choose their meaning.
    fn literal_environment(&self) -> Cow<'_, Environment> {
        let (style, is_policy) = (Style::default(), !self.secured.is_empty());
        let is_other = self.environment.style != style || is_policy && self.environment.time_zone != TimeZone::UTC;
        if !self.reads_stored || !is_other {
            return Cow::Borrowed(self.environment);
        }
        let time_zone = if is_policy { TimeZone::UTC } else { self.environment.time_zone.clone() };
        Cow::Owned(Environment { style, time_zone, ..self.environment.clone() })
    }

    /// Gives this type to a literal or parameter that has none.
    fn take(&mut self, typed: Typed, ty: SqlType, modifier: i32) -> Result<Expr> {
        match typed.expr {
            Expr::Constant(Value::Text(literal)) if ty.is_datetime() && depends_on_now(&literal) => {
                let conversion = Conversion { from: SqlType::TEXT, to: ty, modifier, is_explicit: true };
                Ok(Expr::Cast(Box::new(Expr::Constant(Value::Text(literal))), conversion))
            }
            Expr::Constant(Value::Text(literal)) => {
                let parsed = text::parse(ty, modifier, &literal, self.literal_environment().as_ref())?;
                if matches!(ty.scalar, Scalar::TimestampTz | Scalar::TimeTz)
                    && let Some(recorder) = &mut self.recorder
                {
                    let utc = Environment { time_zone: TimeZone::UTC, ..self.environment.clone() };
                    recorder.depends_on_zone |= text::parse(ty, modifier, &literal, &utc)? != parsed;
                }
                Ok(Expr::Constant(parsed))
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

    /// Calls `bind` with the tree of an expression that the catalog stores.
    pub(crate) fn stored<T>(&mut self, text: &str, bind: impl FnOnce(&mut Self, &ast::Expr) -> Result<T>) -> Result<T> {
        let expr = parse::expression(text)?;
        let around = mem::replace(&mut self.reads_stored, true);
        let bound = bind(self, &expr);
        self.reads_stored = around;
        bound.map_err(SqlError::nowhere)
    }

    /// Converts values to a common type.
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

pub(crate) use crate::operators::check_equality;
pub(crate) use expr::unnested;
pub(crate) use join_order::is_volatile;
pub(crate) use row::check_storable;
pub(crate) use select::{is_descending, label_of};

/// Returns a name as users write it.
pub(crate) fn plain(name: &ast::ObjectName) -> String {
    names::parts_of(name).map_or_else(|_| name.to_string(), |parts| parts.join("."))
}
