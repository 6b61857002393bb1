//! Plans: the operations of a statement once it is bound.

mod declare;
mod soundness;

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use self::declare::{Declare, declare};
use crate::{
    bind::{
        parts::Parts,
        write::{Change, Insert},
    },
    copy::{CopyFrom, CopyTo},
    ddl::{
        Definition,
        materialized::{REFRESH, Refresh},
        table_as::TableAs,
    },
    error::{Result, SqlError},
    exec::Run,
    explain::{self, Explained, Facts},
    failure::EngineResult as _,
    fold::Folder,
    query::Query,
    result::MORE,
    types::{Environment, Value},
};

pub(crate) enum Plan {
    Query(Query),
    Insert(Insert),
    Update(Change),
    Delete(Change),
    /// A statement with WITH queries that write.
    Parts(Box<Parts>),
    /// Continues with the data that the client sends.
    CopyFrom(Arc<CopyFrom>),
    CopyTo(CopyTo),
    /// Opens a cursor.
    Declare(Declare),
    Explain {
        plan: Box<Plan>,
        how: HowToExplain,
        /// The time that it took to make the plan.
        took: Duration,
    },
    /// Changes the catalog.
    Definition(Definition),
    /// Creates a table with the rows of a query.
    TableAs(TableAs),
    /// Runs the query of a materialized view again.
    Refresh(Refresh),
    /// Concerns the session itself.
    Control,
    /// The text has no statement.
    Nothing,
}

/// The options of EXPLAIN.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct HowToExplain {
    /// The plan is run, and measured.
    pub(crate) analyze: bool,
    pub(crate) form: Form,
    /// Whether estimated rows are shown, if the statement says so; otherwise they are in JSON, and beside actual ones.
    pub(crate) estimates: Option<bool>,
    /// The times of nodes are left out.
    pub(crate) has_no_times: bool,
    /// Whether the times of planning and of the run are shown, if the statement says so; otherwise they are where it
    /// is run.
    pub(crate) summary: Option<bool>,
}

impl HowToExplain {
    /// Whether the times of planning and of the run are shown.
    pub(crate) fn has_summary(self) -> bool {
        self.summary.unwrap_or(self.analyze)
    }
}

/// The form in which a plan is explained.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Form {
    #[default]
    Text,
    Json,
}

impl Plan {
    /// Whether the statistics of its parts are to be reported.
    pub(crate) fn is_analyzed(&self) -> bool {
        matches!(self, Self::Explain { how: HowToExplain { analyze: true, .. }, .. })
    }

    /// Returns the first words of its statement.
    pub(crate) fn words(&self) -> &'static str {
        self.writes().unwrap_or(match self {
            Self::Definition(definition) => definition.words(),
            _ => "SELECT",
        })
    }

    /// Returns the name of a statement that writes or takes locks, which a read-only transaction may not run.
    pub(crate) fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Insert(_) => Some("INSERT"),
            Self::Update(_) => Some("UPDATE"),
            Self::Delete(_) => Some("DELETE"),
            Self::Parts(parts) => Some(parts.main.word()),
            Self::CopyFrom(_) => Some("COPY FROM"),
            Self::Query(query) | Self::Declare(Declare { query, .. }) if !query.locks.is_empty() => {
                let is_shared = query.locks.iter().all(|locked| locked.lock.is_shared);
                Some(if is_shared { "SELECT FOR SHARE" } else { "SELECT FOR UPDATE" })
            }
            Self::Explain { plan, how: HowToExplain { analyze: true, .. }, .. } => plan.writes(),
            // It is allowed to take locks.
            Self::Definition(Definition::Lock(_)) => None,
            Self::Definition(definition) => Some(definition.words()),
            Self::TableAs(create) => Some(create.words()),
            Self::Refresh(_) => Some(REFRESH),
            Self::Query(_)
            | Self::CopyTo(_)
            | Self::Declare(_)
            | Self::Explain { .. }
            | Self::Control
            | Self::Nothing => None,
        }
    }

    /// Folds the constants of all expressions.
    pub(crate) fn fold(&mut self, environment: &Environment) -> Result<()> {
        let mut folder = Folder::new(environment);
        match self {
            Self::Query(query) => folder.query(query),
            Self::Insert(insert) => folder.insert(insert),
            Self::Update(change) | Self::Delete(change) => folder.change(change),
            Self::Parts(parts) => folder.parts(parts),
            Self::CopyTo(to) => folder.query(&mut to.query),
            Self::TableAs(create) => folder.query(&mut create.query),
            Self::Refresh(refresh) => refresh.query.as_mut().map_or(Ok(()), |query| folder.query(query)),
            Self::Declare(declare) => folder.query(&mut declare.query),
            Self::Explain { plan, .. } => plan.fold(environment),
            Self::CopyFrom(_) | Self::Definition(_) | Self::Control | Self::Nothing => Ok(()),
        }
    }

    /// Whether it has parts to choose among: it has a plan in PostgreSQL's sense.
    pub(crate) fn is_planned(&self) -> bool {
        let is_without = matches!(self, Self::CopyFrom(_) | Self::Definition(_) | Self::Control | Self::Nothing);
        !is_without && !matches!(self, Self::Refresh(Refresh { query: None, .. }))
    }

    /// Whether PREPARE accepts it.
    pub(crate) fn is_preparable(&self) -> bool {
        matches!(self, Self::Query(_) | Self::Insert(_) | Self::Update(_) | Self::Delete(_) | Self::Parts(_))
    }
}

/// Runs a plan; returns the tag.
pub(crate) fn run(plan: &Plan, run: &Run<'_>, emit: &mut dyn FnMut(&[Value]) -> Result<()>) -> Result<String> {
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
        Plan::Parts(parts) => {
            let (word, written) = (parts.main.word(), run.parts(parts, &mut each)?);
            format!("{word} {}{written}", if word == "INSERT" { "0 " } else { "" })
        }
        Plan::Explain { plan, how, took } => {
            let mut facts = None;
            if how.analyze {
                let (began, before) = (Instant::now(), run.txn.work().sql()?);
                let tag = self::run(plan, run, &mut |_| Ok(()))?;
                facts = Some(Facts { tag, work: run.txn.work().sql()?.since(before), took: began.elapsed() });
            }
            let explained = Explained {
                plan,
                has_estimates: how.estimates.unwrap_or(how.analyze || how.form == Form::Json),
                environment: run.environment,
                instrumentation: run.instrumentation.as_ref(),
                planned: *took,
                how: *how,
            };
            if how.form == Form::Json {
                let _ = each(&[Value::Json(explain::json(&explained, facts.as_ref()).into())])?;
            } else {
                for line in explain::lines(&explained, facts.as_ref()) {
                    let _ = each(&[Value::Text(line.into())])?;
                }
            }
            "EXPLAIN".into()
        }
        Plan::CopyFrom(_)
        | Plan::CopyTo(_)
        | Plan::Declare(_)
        | Plan::Definition(_)
        | Plan::TableAs(_)
        | Plan::Refresh(_)
        | Plan::Control
        | Plan::Nothing => {
            return Err(SqlError::unsupported("this statement here"));
        }
    })
}
