//! Binds statements, and runs their plans.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sqlparser::ast::{self, Statement};

use super::tree::Tree;
use crate::{
    bind::{
        Binder,
        parts::{Main, Parts, Write, is_written},
    },
    catalog::{
        Catalog, Table, View,
        rights::{Kind, Object, Rights},
    },
    copy,
    ddl::{Definition, materialized::Refresh, table_as::TableAs, view::ViewChange},
    error::{Result, SqlError, SqlState},
    exec::Run,
    parse::place,
    plan::{self, Form, HowToExplain, Plan},
    result::{Column, RowSink},
    system::reg,
    types::{Environment, SqlType},
};

/// A statement after binding.
pub(crate) struct Bound {
    pub(crate) plan: Plan,
    pub(crate) parameters: Vec<SqlType>,
    pub(crate) columns: Option<Vec<Column>>,
    /// The tables that it uses, also by way of views.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The views that it uses.
    pub(crate) views: Vec<Arc<View>>,
    /// The time that it took to make the plan.
    pub(super) took: Duration,
    /// The error of every run of the statement, which can still be prepared and described.
    failure: Option<SqlError>,
    /// Whether the role may not read a table that the statement uses: then errors have no details, which show values.
    hides_details: bool,
}

impl Bound {
    /// Returns the plan of a text without a statement.
    pub(crate) fn nothing() -> Self {
        Self {
            plan: Plan::Nothing,
            parameters: Vec::new(),
            columns: None,
            tables: Vec::new(),
            views: Vec::new(),
            took: Duration::ZERO,
            failure: None,
            hides_details: false,
        }
    }

    /// Fails if the statement cannot be run.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether errors of it have no details.
    pub(crate) fn hides_details(&self) -> bool {
        self.hides_details
    }

    /// Removes the details of an error that the role may not see.
    pub(crate) fn told(&self, error: SqlError) -> SqlError {
        if self.hides_details { error.without_detail() } else { error }
    }

    /// Whether it concerns the session itself: it runs without a transaction, or it ends one.
    pub(crate) fn is_control(&self) -> bool {
        matches!(self.plan, Plan::Control)
    }
}

/// Binds a statement.
pub(crate) fn bind(
    tree: &Tree,
    catalog: &Catalog,
    environment: &Environment,
    search_path: &[String],
    parameters: &[Option<SqlType>],
) -> Result<Bound> {
    let began = Instant::now();
    let mut binder = Binder::new(catalog, environment, search_path, parameters);
    let (mut plan, columns) = match tree {
        Tree::Plain(statement) => {
            plan_of(&mut binder, statement).map_err(|error| place::in_statement(error, &**statement))?
        }
        Tree::Do(_)
        | Tree::TwoPhase(..)
        | Tree::Fetch(_)
        | Tree::Modes(_)
        | Tree::Constraints(_)
        | Tree::Extension(_)
        | Tree::System(_) => (Plan::Control, None),
        Tree::Lacking(what) => return Err(SqlError::unsupported(what)),
        Tree::Database(_) => (Plan::Control, None),
        Tree::Maintenance(what) => (Plan::Control, what.columns()),
        Tree::Publication(tree) => (Plan::Definition(Definition::Publication(tree.clone())), None),
        Tree::Rights(tree) => (Plan::Definition(Definition::Rights(tree.clone())), None),
        Tree::Role(tree) => (Plan::Definition(Definition::Role(tree.clone())), None),
        Tree::Type(tree) => (Plan::Definition(Definition::Type(tree.clone())), None),
        Tree::Comment(comment) => (Plan::Definition(Definition::Comment(comment.clone())), None),
        Tree::Object(alter) => (Plan::Definition(Definition::AlterObject(alter.clone())), None),
        Tree::Sequence(alter) => (Plan::Definition(Definition::AlterSequence(alter.clone())), None),
        Tree::TableAs(tree) if tree.execute.is_some() => (Plan::Control, None),
        Tree::TableAs(tree) => (Plan::TableAs(TableAs::bind(&mut binder, tree)?), None),
        Tree::Refresh(tree) => (Plan::Refresh(Refresh::bind(&mut binder, tree)?), None),
        Tree::View(tree) => (Plan::Definition(Definition::View(ViewChange::bind(&mut binder, tree)?)), None),
        Tree::Copy(tree) => (copy::bind(&mut binder, tree)?, None),
    };
    let parameters = binder.parameter_types()?;
    let failure = match plan.fold(environment) {
        // A definition has rules of its own: a new view, for one, needs no rights to what it shows.
        Ok(()) if matches!(plan, Plan::Definition(_)) => binder.failure,
        Ok(()) => {
            let unpopulated = binder
                .unpopulated
                .take()
                .filter(|_| !matches!(plan, Plan::Explain { how: HowToExplain { analyze: false, .. }, .. }));
            binder.failure.take().or_else(|| binder.denial()).or(unpopulated)
        }
        // Another time it may not be interrupted, or have more memory: only the statement's own errors stay in its
        // plan.
        Err(error) if error.is_of_circumstances() => return Err(error),
        Err(error) => Some(error),
    };
    if cfg!(debug_assertions) && failure.is_none() {
        plan.assert_sound(columns.as_ref().map(Vec::len), parameters.len());
    }
    let hides_details = !may_read_all(catalog, environment.role, &binder.tables);
    let took = began.elapsed();
    if let Plan::Explain { took: shown, .. } = &mut plan {
        *shown = took;
    }
    Ok(Bound { plan, parameters, columns, tables: binder.tables, views: binder.views, took, failure, hides_details })
}

/// Whether a role may read all of some tables.
fn may_read_all(catalog: &Catalog, role: u32, tables: &[Arc<Table>]) -> bool {
    let may_read = |table: &Arc<Table>| {
        catalog.has_any(role, Object::new(Kind::Table, table.def.id), Rights::SELECT)
            && catalog.row_security_for(role, table.def.id).is_none()
    };
    catalog.is_superuser(role) || tables.iter().all(may_read)
}

fn plan_of(binder: &mut Binder<'_>, statement: &Statement) -> Result<(Plan, Option<Vec<Column>>)> {
    Ok(match statement {
        Statement::Query(query) if is_written(query) => {
            let (parts, columns) = binder.parts(query)?;
            let plan = match parts {
                Parts { parts, main: Main::Write(write) } if parts.is_empty() => match write {
                    Write::Insert(insert) => Plan::Insert(insert),
                    Write::Update(change) => Plan::Update(change),
                    Write::Delete(change) => Plan::Delete(change),
                    merge @ Write::Merge(_) => Plan::Parts(Box::new(Parts { parts, main: Main::Write(merge) })),
                },
                parts => Plan::Parts(Box::new(parts)),
            };
            (plan, columns)
        }
        Statement::Query(query) => {
            let (query, mut columns) = binder.query(query)?;
            let query = reg::named(query, &mut columns);
            (Plan::Query(query), Some(columns))
        }
        Statement::Insert(insert) => {
            let (insert, columns) = binder.insert(insert)?;
            (Plan::Insert(insert), columns)
        }
        Statement::Update(update) => {
            let (change, columns) = binder.update(update)?;
            (Plan::Update(change), columns)
        }
        Statement::Delete(delete) => {
            let (change, columns) = binder.delete(delete)?;
            (Plan::Delete(change), columns)
        }
        Statement::Merge(merge) => {
            let main = Main::Write(Write::Merge(Box::new(binder.merge_statement(merge)?)));
            (Plan::Parts(Box::new(Parts { parts: Vec::new(), main })), None)
        }
        Statement::Declare { stmts } => (Plan::Declare(plan::declare(binder, stmts)?), None),
        Statement::Explain {
            statement, analyze, options, query_plan: false, estimate: false, format: None, ..
        } => {
            let mut how = explain_options(options.as_deref().unwrap_or_default())?;
            how.analyze |= *analyze;
            let ty = if how.form == Form::Json { SqlType::JSON } else { SqlType::TEXT };
            let columns = Some(vec![Column::new("QUERY PLAN", ty)]);
            let (plan, _) = match (&**statement, rows_of(statement)) {
                // When it runs, the statement with the name is explained.
                (Statement::Execute { .. }, _) => return Ok((Plan::Control, columns)),
                (_, Some(_)) if how.analyze => {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE of a statement that creates a relation"));
                }
                (_, Some(query)) => plan_of(binder, &Statement::Query(Box::new(query.clone())))?,
                (statement, None) => plan_of(binder, statement)?,
            };
            (Plan::Explain { plan: Box::new(plan), how, took: Duration::ZERO }, columns)
        }
        other => match Definition::of(other)? {
            Some(mut definition) => {
                definition.qualify_types(binder.environment)?;
                (Plan::Definition(definition), None)
            }
            None => {
                let columns = super::utility::columns(other)?;
                (Plan::Control, columns)
            }
        },
    })
}

/// Returns the query whose rows a new relation is to have.
fn rows_of(statement: &Statement) -> Option<&ast::Query> {
    match statement {
        Statement::CreateTable(create) => create.query.as_deref(),
        Statement::CreateView(create) if create.materialized => Some(&create.query),
        _ => None,
    }
}

/// Reads the options of EXPLAIN in parentheses. Options about output that is never reported, such as buffers, are
/// accepted.
fn explain_options(options: &[ast::UtilityOption]) -> Result<HowToExplain> {
    let mut how = HowToExplain::default();
    for option in options {
        let name = option.name.value.to_lowercase();
        let value = option.arg.as_ref().map(|value| value.to_string().trim_matches('\'').to_lowercase());
        let is_on = !matches!(value.as_deref(), Some("false" | "off" | "0"));
        match &*name {
            "analyze" => how.analyze = is_on,
            "costs" => how.estimates = Some(is_on),
            "timing" => how.has_no_times = !is_on,
            "summary" => how.summary = Some(is_on),
            "format" if value.as_deref() == Some("json") => how.form = Form::Json,
            "format" if value.as_deref() != Some("text") => {
                let format = value.unwrap_or_default().to_uppercase();
                return Err(SqlError::unsupported(format_args!("EXPLAIN (FORMAT {format})")));
            }
            "format" | "verbose" | "settings" | "generic_plan" | "buffers" | "wal" => {}
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(how)
}

/// Whether two results have columns of the same types.
pub(super) fn same_types(left: Option<&[Column]>, right: Option<&[Column]>) -> bool {
    let types = |columns: Option<&[Column]>| {
        columns.map(|columns| columns.iter().map(|column| (column.ty, column.modifier)).collect::<Vec<_>>())
    };
    types(left) == types(right)
}

/// Returns the error for columns that differ from those that the client was sent.
pub(super) fn other_columns() -> SqlError {
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
}

/// Runs a plan; returns the tag.
pub(crate) fn run(bound: &Bound, run: &Run<'_>, rows: &mut dyn RowSink) -> Result<String> {
    if let Some(columns) = &bound.columns {
        rows.columns(columns)?;
    }
    if let Plan::CopyTo(to) = &bound.plan {
        return Ok(format!("COPY {}", copy::copy_to(to, run, rows)?));
    }
    plan::run(&bound.plan, run, &mut |row| rows.row(row))
}
