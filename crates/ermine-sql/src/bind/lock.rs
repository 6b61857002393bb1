//! FOR UPDATE and FOR SHARE.

use sqlparser::ast::{self, LockType, NonBlock};

use super::Binder;
use crate::{
    bind::names::relation_of,
    catalog::rights::Rights,
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::{Body, Distinct, Join, LockedRows, Query, RowLock, SourceKind, TableSource, Wait},
};

impl Binder<'_> {
    /// Makes a query lock the rows that it returns.
    pub(super) fn lock(&mut self, query: &mut Query, clauses: &[ast::LockClause]) -> Result<()> {
        for clause in clauses {
            let lock = RowLock {
                is_shared: clause.lock_type == LockType::Share,
                wait: match clause.nonblock {
                    None => Wait::AsLongAsAllowed,
                    Some(NonBlock::Nowait) => Wait::Never,
                    Some(NonBlock::SkipLocked) => Wait::Skip,
                },
            };
            let of = clause.of.as_ref().map(|name| Ok::<_, SqlError>(relation_of(name)?.1)).transpose()?;
            lock_rows(query, lock, of.as_deref())?;
        }
        query.locks.iter().for_each(|locked| self.needs(locked.table.def.id, Rights::UPDATE));
        self.hide_locked(query)
    }
}

/// Locks the rows of all tables of a query, or those of one; of a query in FROM, the rows that it returns.
fn lock_rows(query: &mut Query, lock: RowLock, of: Option<&str>) -> Result<()> {
    let refused = |what: &str| {
        let name = if lock.is_shared { "FOR SHARE" } else { "FOR UPDATE" };
        Err(SqlError::unsupported(format_args!("{name} with {what}")))
    };
    let Body::Select(select) = &mut query.body else { return refused("UNION, INTERSECT, EXCEPT or VALUES") };
    if select.group.is_some() {
        return refused("GROUP BY, HAVING or aggregate functions");
    }
    if !select.windows.is_empty() {
        return refused("window functions");
    }
    if !select.sets.is_empty() {
        return refused("set-returning functions in the list of results");
    }
    if !matches!(select.distinct, Distinct::No) {
        return refused("DISTINCT");
    }
    let mut next = select.sources.iter().map(|source| source.end()).max().unwrap_or(0);
    let mut is_met = false;
    for source in &mut select.sources {
        if of.is_some_and(|of| of != source.name) {
            continue;
        }
        is_met = true;
        if source.join != Join::Inner {
            let name = if lock.is_shared { "FOR SHARE" } else { "FOR UPDATE" };
            let message = format!("{name} cannot be applied to the nullable side of an outer join");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        match &mut source.kind {
            SourceKind::Table(TableSource { table, .. }) if table.def.materialized.is_some() => {
                let message = format!("cannot lock rows in materialized view \"{}\"", table.name());
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            SourceKind::Table(table) => {
                let at = *table.key_at.get_or_insert_with(|| {
                    next += 1;
                    next - 1
                });
                query.locks.push(LockedRows { table: table.table.clone(), key_at: select.output.len(), lock });
                select.output.push(Expr::Column(at));
            }
            SourceKind::Derived(_) | SourceKind::Once(_) if of.is_none() => {
                return refused("a query in FROM: lock the rows in there");
            }
            _ if of.is_some() => return refused("what is no table"),
            _ => {}
        }
    }
    match of {
        Some(of) if !is_met => {
            let message = format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause");
            Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
        }
        _ => Ok(()),
    }
}
