//! Plans: the operations of a statement once it is bound.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use sqlparser::ast::{self, Statement};

use super::{
    Column, MORE, Rows,
    cursor::{self, Declare},
    parse::Tree,
};
use crate::{
    bind::{
        Binder,
        write::{Change, Insert},
    },
    catalog::{Catalog, Table},
    copy::{self, CopyFrom, CopyTo},
    ddl::Definition,
    error::{Result, SqlError, SqlState},
    exec::Run,
    explain,
    failure::of_engine,
    fold::fold_plan,
    query::Query,
    system::reg,
    types::{Environment, SqlType, Value},
};

/// A statement after binding.
pub(crate) struct Bound {
    pub(crate) plan: Plan,
    pub(crate) parameters: Vec<SqlType>,
    pub(crate) columns: Option<Vec<Column>>,
    /// The tables that it uses.
    pub(crate) tables: Vec<Arc<Table>>,
    /// The error of every run of the statement, which can still be prepared and described.
    failure: Option<SqlError>,
}

pub(crate) enum Plan {
    Query(Query),
    Insert(Insert),
    Update(Change),
    Delete(Change),
    /// Continues with the data that the client sends.
    CopyFrom(Arc<CopyFrom>),
    CopyTo(CopyTo),
    /// Opens a cursor.
    Declare(Declare),
    Explain {
        plan: Box<Plan>,
        analyze: bool,
    },
    /// Changes the catalog.
    Definition(Definition),
    /// Concerns the session itself.
    Control,
    /// The text has no statement.
    Nothing,
}

impl Bound {
    /// Returns the plan of a text without a statement.
    pub(crate) fn nothing() -> Self {
        Self { plan: Plan::Nothing, parameters: Vec::new(), columns: None, tables: Vec::new(), failure: None }
    }

    /// Fails if the statement cannot be run.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Whether it concerns the session itself: it runs without a transaction, or it ends one.
    pub(crate) fn is_control(&self) -> bool {
        matches!(self.plan, Plan::Control)
    }
}

impl Plan {
    /// Whether the statistics of its parts are to be reported.
    pub(crate) fn is_analyzed(&self) -> bool {
        matches!(self, Self::Explain { analyze: true, .. })
    }

    /// Returns the name of a statement that writes or takes locks, which a read-only transaction may not run.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Insert(_) => Some("INSERT"),
            Self::Update(_) => Some("UPDATE"),
            Self::Delete(_) => Some("DELETE"),
            Self::CopyFrom(_) => Some("COPY FROM"),
            Self::Query(query) if query.locks.iter().any(|locked| !locked.lock.is_shared) => Some("SELECT FOR UPDATE"),
            Self::Query(query) if !query.locks.is_empty() => Some("SELECT FOR SHARE"),
            Self::Explain { plan, analyze: true } => plan.writes(),
            Self::Definition(definition) => Some(definition.words()),
            Self::Query(_)
            | Self::CopyTo(_)
            | Self::Declare(_)
            | Self::Explain { .. }
            | Self::Control
            | Self::Nothing => None,
        }
    }

    /// Whether PREPARE accepts it.
    pub(crate) fn is_preparable(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Insert(_) | Self::Update(_) | Self::Delete(_))
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
    let mut binder = Binder::new(catalog, environment, search_path, parameters);
    let (mut plan, columns) = match tree {
        Tree::Plain(statement) => plan_of(&mut binder, statement)?,
        Tree::TwoPhase(..) | Tree::Fetch(_) | Tree::Modes(_) => (Plan::Control, None),
        Tree::Maintenance(what) => (Plan::Control, what.columns()),
        Tree::Role(tree) => (Plan::Definition(Definition::Role(tree.clone())), None),
        Tree::Copy(tree) => (copy::bind(&mut binder, tree)?, None),
    };
    let parameters = binder.parameter_types()?;
    let failure = match fold_plan(&mut plan, environment) {
        Ok(()) => binder.failure,
        // Another time it may not be interrupted, or have more memory: only the statement's own errors stay in its plan.
        Err(error) if error.is_of_circumstances() => return Err(error),
        Err(error) => Some(error),
    };
    Ok(Bound { plan, parameters, columns, tables: binder.tables, failure })
}

fn plan_of(binder: &mut Binder<'_>, statement: &Statement) -> Result<(Plan, Option<Vec<Column>>)> {
    Ok(match statement {
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
        Statement::Declare { stmts } => (Plan::Declare(cursor::declare(binder, stmts)?), None),
        Statement::Explain {
            statement, analyze, options, query_plan: false, estimate: false, format: None, ..
        } => {
            let analyze = *analyze || asks_to_analyze(options.as_deref().unwrap_or_default())?;
            let (plan, _) = plan_of(binder, statement)?;
            let column = Column { name: "QUERY PLAN".into(), ty: SqlType::TEXT, modifier: -1, source: (0, 0) };
            (Plan::Explain { plan: Box::new(plan), analyze }, Some(vec![column]))
        }
        other => match Definition::of(other)? {
            Some(definition) => (Plan::Definition(definition), None),
            None => {
                let columns = super::utility::columns(other)?;
                (Plan::Control, columns)
            }
        },
    })
}

/// Reads the options of EXPLAIN in parentheses. Options about output that is never reported, such as buffers, are
/// accepted.
fn asks_to_analyze(options: &[ast::UtilityOption]) -> Result<bool> {
    let mut analyze = false;
    for option in options {
        let name = option.name.value.to_lowercase();
        let value = option.arg.as_ref().map(|value| value.to_string().trim_matches('\'').to_lowercase());
        match &*name {
            "analyze" => analyze = !matches!(value.as_deref(), Some("false" | "off" | "0")),
            "format" if value.as_deref() != Some("text") => {
                let format = value.unwrap_or_default().to_uppercase();
                return Err(SqlError::unsupported(format_args!("EXPLAIN (FORMAT {format})")));
            }
            "format" | "verbose" | "costs" | "settings" | "generic_plan" | "buffers" | "wal" | "timing" | "summary" => {
            }
            _ => {
                let message = format!("unrecognized EXPLAIN option \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        }
    }
    Ok(analyze)
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
pub(crate) fn run(bound: &Bound, run: &Run<'_>, rows: &mut dyn Rows) -> Result<String> {
    if let Some(columns) = &bound.columns {
        rows.columns(columns)?;
    }
    if let Plan::CopyTo(to) = &bound.plan {
        return Ok(format!("COPY {}", copy::copy_to(to, run, rows)?));
    }
    run_plan(&bound.plan, run, &mut |row| rows.row(row))
}

fn run_plan(plan: &Plan, run: &Run<'_>, emit: &mut dyn FnMut(&[Value]) -> Result<()>) -> Result<String> {
    let mut count = 0u64;
    let mut each = |row: &[Value]| -> Result<ControlFlow<()>> {
        count += 1;
        emit(row)?;
        MORE
    };
    Ok(match plan {
        Plan::Query(query) => {
            let _ = run.query(query, None, &mut each)?;
            format!("SELECT {count}")
        }
        Plan::Insert(insert) => format!("INSERT 0 {}", run.insert(insert, &mut each)?),
        Plan::Update(change) => format!("UPDATE {}", run.change(change, &mut each)?),
        Plan::Delete(change) => format!("DELETE {}", run.change(change, &mut each)?),
        Plan::Explain { plan, analyze } => {
            let mut analysis = Vec::new();
            if *analyze {
                let (began, before) = (Instant::now(), run.txn.work().map_err(of_engine)?);
                let tag = run_plan(plan, run, &mut |_| Ok(()))?;
                let (took, work) = (began.elapsed(), run.txn.work().map_err(of_engine)?.since(before));
                analysis.extend(explain::analysis(&tag, &work, took));
            }
            for line in explain::lines(plan, run.actuals.as_ref()).into_iter().chain(analysis) {
                let _ = each(&[Value::Text(line.into())])?;
            }
            "EXPLAIN".into()
        }
        Plan::CopyFrom(_)
        | Plan::CopyTo(_)
        | Plan::Declare(_)
        | Plan::Definition(_)
        | Plan::Control
        | Plan::Nothing => {
            return Err(SqlError::unsupported("this statement here"));
        }
    })
}
