//! DECLARE: the options of a cursor, and the rows that its query comes from.

use sqlparser::ast;

use crate::{
    bind::{Binder, names::name_of},
    catalog::definition::ObjectId,
    cursors::Modes,
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::{Body, Distinct, Query, SetOperation, SourceKind},
    result::Column,
    system::reg,
};

/// DECLARE, after binding.
pub(crate) struct Declare {
    pub(crate) name: String,
    pub(crate) modes: Modes,
    /// Its rows have the columns, and behind them the keys of the rows that they come from.
    pub(crate) query: Query,
    pub(crate) columns: Vec<Column>,
    /// The tables of the keys, and the places.
    pub(crate) keys: Vec<(ObjectId, usize)>,
}

/// Binds DECLARE.
pub(crate) fn declare(binder: &mut Binder<'_>, declared: &[ast::Declare]) -> Result<Declare> {
    let [ast::Declare { names, binary, sensitive, scroll, hold, for_query: Some(query), .. }] = declared else {
        return Err(SqlError::unsupported("this form of DECLARE"));
    };
    let [name] = &names[..] else { return Err(SqlError::unsupported("DECLARE of several names")) };
    let is_sorted = query.order_by.is_some();
    let (mut query, mut columns) = binder.query(query)?;
    let is_held = *hold == Some(true);
    if let Some(locked) = query.locks.first() {
        let lock = if locked.lock.is_shared { "FOR SHARE" } else { "FOR UPDATE" };
        check_writable(lock, is_held, *scroll == Some(true), *sensitive == Some(true))?;
    }
    let scrolls = scroll.unwrap_or_else(|| scrolls_back(&query, is_sorted));
    let modes = Modes { is_binary: *binary == Some(true), is_held, scrolls };
    let keys = keys(&mut query);
    let query = reg::named(query, &mut columns);
    let keys = if query.width == columns.len() { Vec::new() } else { keys };
    Ok(Declare { name: name_of(name), modes, query, columns, keys })
}

/// Fails for options that a cursor which locks its rows may not have.
fn check_writable(lock: &str, is_held: bool, scrolls: bool, is_insensitive: bool) -> Result<()> {
    let refused = |message: String, kind: &str| {
        let detail = format!("{kind} cursors must be READ ONLY.");
        let state = if is_insensitive && !is_held && !scrolls {
            SqlState::INVALID_CURSOR_DEFINITION
        } else {
            SqlState::FEATURE_NOT_SUPPORTED
        };
        Err(SqlError::new(state, message).detail(detail))
    };
    if is_held {
        return refused(format!("DECLARE CURSOR WITH HOLD ... {lock} is not supported"), "Holdable");
    }
    if scrolls {
        return refused(format!("DECLARE SCROLL CURSOR ... {lock} is not supported"), "Scrollable");
    }
    if is_insensitive {
        return refused(format!("DECLARE INSENSITIVE CURSOR ... {lock} is not valid"), "Insensitive");
    }
    Ok(())
}

/// Whether a cursor without SCROLL and NO SCROLL scrolls: in PostgreSQL, if the plan can be run backwards. Keeping only
/// the rows that are still to come takes less memory.
fn scrolls_back(query: &Query, is_sorted: bool) -> bool {
    if !query.locks.is_empty() {
        return false;
    }
    match &query.body {
        Body::Values(rows) => rows.len() > 1 || is_sorted,
        Body::Set { operation: SetOperation::Union, all: true, sides } => {
            is_sorted || sides.iter().all(|side| scrolls_back(side, !side.order.is_empty()))
        }
        Body::Set { .. } | Body::WorkTable(_) | Body::Returned(_) => is_sorted,
        Body::Select(select) => {
            let is_plain = select.group.is_none() && select.windows.is_empty() && select.sets.is_empty();
            match &select.sources[..] {
                _ if !matches!(select.distinct, Distinct::No) => false,
                _ if is_sorted => true,
                [one] if is_plain => match &one.kind {
                    SourceKind::Derived(inner) => scrolls_back(inner, !inner.order.is_empty()),
                    _ => true,
                },
                _ => false,
            }
        }
    }
}

/// Makes a query return the keys of the rows that it locks, or of those of the one table that it reads, behind its
/// columns; returns the tables, and the places.
fn keys(query: &mut Query) -> Vec<(ObjectId, usize)> {
    let Body::Select(select) = &mut query.body else { return Vec::new() };
    let keys: Vec<_> = if query.locks.is_empty() {
        let is_plain = select.group.is_none() && select.windows.is_empty() && select.sets.is_empty();
        let is_plain = is_plain && query.order.is_empty() && matches!(select.distinct, Distinct::No);
        let [source] = &mut select.sources[..] else { return Vec::new() };
        let end = source.end();
        let SourceKind::Table(table) = &mut source.kind else { return Vec::new() };
        if !is_plain {
            return Vec::new();
        }
        select.output.push(Expr::Column(*table.key_at.get_or_insert(end)));
        vec![(table.table.def.id, select.output.len() - 1)]
    } else {
        query.locks.iter().map(|locked| (locked.table.def.id, locked.key_at)).collect()
    };
    query.width = select.output.len();
    keys
}
