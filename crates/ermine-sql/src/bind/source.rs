//! Sources of rows: tables, queries, functions, and how they are joined.

use std::{ops::Range, sync::Arc};

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, TableFactor};

use super::{
    Binder, EXPANDED_MAX, Named, Scope, ScopeColumn, Typed,
    join_order::{is_volatile, need, order_joins},
    names::{name_of, relation_of, simple_name},
    with::uses_work_table,
};
use crate::{
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Expr, SubqueryKind},
    fold::fold_condition,
    query::{Access, Body, Join, Path, Query, Select, Source, SourceKind, TableSource},
    result::Column,
    system::SystemTable,
    types::{SqlType, Value},
};

/// Maximum number of sources of one query: each loops inside those before it, on the same stack.
const SOURCES_MAX: usize = 400;

/// The sources of a query's FROM clause.
#[derive(Default)]
pub(super) struct From {
    pub(super) sources: Vec<Source>,
    pub(super) width: usize,
    /// Of each table with a primary key, also of those in joins that are one source: the places of its columns, and of
    /// its key's.
    pub(super) keys: Vec<(Range<usize>, Vec<usize>)>,
}

/// Where the left side of a join begins.
#[derive(Clone, Copy)]
struct Left {
    /// The index of its first source.
    start: usize,
    /// The place of its first column in a row.
    first: usize,
    /// The index of its first column in the scope.
    column: usize,
}

impl Binder<'_> {
    /// Binds the sources of a query; their columns are added to the innermost scope.
    pub(super) fn from(&mut self, tables: &[ast::TableWithJoins]) -> Result<From> {
        let mut from = From::default();
        self.more_sources(&mut from, tables)?;
        Ok(from)
    }

    /// Binds sources that follow others.
    pub(super) fn more_sources(&mut self, from: &mut From, tables: &[ast::TableWithJoins]) -> Result<()> {
        for table in tables {
            self.joined(from, table)?;
            if from.sources.len() > SOURCES_MAX {
                let message = format!("a query of more than {SOURCES_MAX} tables");
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
        }
        Ok(())
    }

    /// Binds a source and those that are joined with it.
    fn joined(&mut self, from: &mut From, table: &ast::TableWithJoins) -> Result<()> {
        let left = Left { start: from.sources.len(), first: from.width, column: self.scope().columns.len() };
        self.source(from, &table.relation, Join::Inner)?;
        table.joins.iter().try_for_each(|join| self.join(from, join, left))
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a query has a scope")
    }

    /// Binds a join with the sources to the left of it.
    fn join(&mut self, from: &mut From, join: &ast::Join, left: Left) -> Result<()> {
        let Left { start, first, column } = left;
        if join.global {
            return Err(SqlError::unsupported("GLOBAL JOIN"));
        }
        let mut is_turned = false;
        let (kind, constraint) = match &join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) | JoinOperator::CrossJoin(constraint) => {
                (Join::Inner, constraint)
            }
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (Join::Left, constraint),
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                // The same as a LEFT JOIN with the sides swapped, except for the order of columns.
                wrap(from, start, first, Join::Left)?;
                is_turned = true;
                (Join::Inner, constraint)
            }
            JoinOperator::FullOuter(_) => return Err(SqlError::unsupported("FULL JOIN")),
            _ => return Err(SqlError::unsupported("this kind of join")),
        };
        let before = self.scope().columns.len();
        self.source(from, &join.relation, kind)?;
        let on = match constraint {
            JoinConstraint::None => Vec::new(),
            JoinConstraint::On(condition) => {
                let outside = std::mem::replace(&mut self.scope().hidden, column);
                let condition = self.condition(condition, "JOIN/ON");
                self.scope().hidden = outside;
                fold_condition(condition?, self.environment).conjuncts()
            }
            JoinConstraint::Using(names) => {
                let names = names.iter().map(simple_name).collect::<Result<Vec<_>>>()?;
                self.merge(column..before, &names, is_turned)?
            }
            JoinConstraint::Natural => {
                let (left, right) = self.scope().columns[column..].split_at(before - column);
                let is_right = |name: &str| right.iter().any(|column| column.name == name && !column.is_merged);
                let shared = left.iter().filter(|column| !column.is_merged && is_right(&column.name));
                let names: Vec<_> = shared.map(|column| column.name.clone()).collect();
                self.merge(column..before, &names, is_turned)?
            }
        };
        if is_turned {
            let left = from.sources.remove(start);
            from.sources.push(left);
        }
        from.sources.last_mut().expect("it has just been added").on.extend(on);
        Ok(())
    }

    /// Returns the conditions of USING; the columns after those of the left side belong to the right one. Of two
    /// columns with the same name one stays visible, the right one if the join `is_turned`, and precedes all other
    /// columns.
    fn merge(&mut self, left: Range<usize>, names: &[String], is_turned: bool) -> Result<Vec<Expr>> {
        let (mut conditions, mut merged) = (Vec::new(), Vec::new());
        for name in names {
            let columns = &mut self.scope().columns;
            let find = |side: Range<usize>, which: &str| {
                let mut found = side.filter(|&at| columns[at].name == *name && !columns[at].is_merged);
                let first = found.next().ok_or_else(|| {
                    let message =
                        format!("column \"{name}\" specified in USING clause does not exist in {which} table");
                    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
                })?;
                if found.next().is_some() {
                    let message = format!("common column name \"{name}\" appears more than once in {which} table");
                    return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
                }
                Ok(first)
            };
            let sides = [find(left.clone(), "left")?, find(left.end..columns.len(), "right")?];
            columns[sides[usize::from(!is_turned)]].is_merged = true;
            merged.push(columns[sides[usize::from(is_turned)]].at);
            let [left, right] = sides.map(|at| Typed::new(Expr::Column(columns[at].at), columns[at].ty));
            conditions.push(self.compare(Comparison::Equal, left, right)?);
        }
        let place = |column: &ScopeColumn| merged.iter().position(|at| *at == column.at).unwrap_or(merged.len());
        self.scope().columns[left.start..].sort_by_key(place);
        Ok(conditions)
    }

    fn source(&mut self, from: &mut From, factor: &TableFactor, join: Join) -> Result<()> {
        if let Some(addition) = addition_of(factor) {
            return Err(SqlError::unsupported(addition));
        }
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => self.named_source(from, name, alias.as_ref(), join),
            TableFactor::Derived { lateral: false, subquery, alias, .. } => {
                // It sees the outer queries, but not the other sources of this one.
                let own = self.scopes.pop().expect("a query has a scope");
                let bound = self.query(subquery);
                self.scopes.push(own);
                let (query, columns) = bound?;
                // In a query in an expression it is run for each outer row.
                let is_outermost = self.scopes.len() == 1;
                let is_once = is_outermost && is_volatile(&query) && !uses_work_table(&query);
                let kind = if is_once { SourceKind::Once } else { SourceKind::Derived };
                self.add(from, kind(Arc::new(query)), &columns, "", alias.as_ref(), join)
            }
            TableFactor::Derived { lateral: true, subquery, alias, .. } => {
                let (query, columns) = self.subquery(subquery, SubqueryKind::Value)?;
                self.add(from, SourceKind::Lateral(query), &columns, "", alias.as_ref(), join)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let function = FunctionSource::new(name, &args.args, *with_ordinality)?;
                self.function_source(from, &function, alias.as_ref(), join)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                let function = FunctionSource::new(name, args, *with_ordinality)?;
                self.function_source(from, &function, alias.as_ref(), join)
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let arguments = array_exprs.iter().collect();
                let function = FunctionSource { name: "unnest".into(), arguments, is_numbered: *with_ordinality };
                self.function_source(from, &function, alias.as_ref(), join)
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                let (start, first) = (from.sources.len(), from.width);
                self.joined(from, table_with_joins)?;
                // If all joins are inner joins, parentheses mean nothing.
                if join == Join::Inner && from.sources[start..].iter().all(|source| source.join == Join::Inner) {
                    return Ok(());
                }
                wrap(from, start, first, join)
            }
            TableFactor::NestedJoin { .. } => Err(SqlError::unsupported("an alias of a join")),
            other => Err(SqlError::unsupported(format_args!("{other} as a source of rows"))),
        }
    }

    /// Adds a named source: a WITH query, a table of the system, or a table.
    fn named_source(
        &mut self,
        from: &mut From,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        join: Join,
    ) -> Result<()> {
        let (schema, own) = relation_of(name)?;
        let named = self.named.iter().rev().find(|named| schema.is_none() && named.name == own);
        if let Some(Named { query, columns, is_kept, expanded, .. }) = named {
            self.expanded += 1 + expanded;
            if self.expanded > EXPANDED_MAX {
                let message = "the references to WITH queries stand for too many queries";
                return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
            }
            let kind = if *is_kept { SourceKind::Once } else { SourceKind::Derived };
            let (kind, columns) = (kind(query.clone()), columns.clone());
            return self.add(from, kind, &columns, &own, alias, join);
        }
        if let Some(system) = SystemTable::find(schema.as_deref(), &own) {
            let columns = system.columns();
            return self.add(from, SourceKind::System(system), &columns, &own, alias, join);
        }
        let table = self.table(name)?;
        let columns: Vec<_> = table
            .def
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| Column {
                modifier: column.modifier,
                source: (table.def.id, at as i16 + 1),
                ..Column::new(&column.name, column.ty)
            })
            .collect();
        if let Some(key) = &table.def.primary_key {
            let first = from.width;
            let places = key.columns.iter().map(|column| first + column).collect();
            from.keys.push((first..first + columns.len(), places));
        }
        let source = TableSource { table, access: Access::full(Path::Primary), needed: Vec::new(), key_at: None };
        self.add(from, SourceKind::Table(source), &columns, &own, alias, join)
    }

    fn function_source(
        &mut self,
        from: &mut From,
        function: &FunctionSource<'_>,
        alias: Option<&ast::TableAlias>,
        join: Join,
    ) -> Result<()> {
        let FunctionSource { name, arguments, is_numbered } = function;
        let (name, is_numbered) = (&**name, *is_numbered);
        let is_alone = from.sources.is_empty();
        let mut add = |this: &mut Self, kind, mut columns: Vec<Column>| {
            if is_numbered {
                columns.push(Column::new("ordinality", SqlType::INT8));
            }
            this.add(from, kind, &columns, name, alias, join)
        };
        match (name, &arguments[..]) {
            ("generate_series", [first, last, by @ ..]) if by.len() < 2 => {
                let mut bound = vec![self.expr(first)?, self.expr(last)?];
                bound.push(match by {
                    [by, ..] => self.expr(by)?,
                    [] => Typed::new(Expr::Constant(Value::Int4(1)), SqlType::INT4),
                });
                let is_long = bound.iter().any(|bound| bound.ty == Some(SqlType::INT8));
                let ty = if is_long { SqlType::INT8 } else { SqlType::INT4 };
                let bound = bound.into_iter().map(|bound| self.coerce(bound, ty)).collect::<Result<Vec<_>>>()?;
                let bounds = bound.try_into().expect("there are three");
                add(self, SourceKind::Series { bounds, is_numbered }, vec![Column::new(name, ty)])
            }
            // NULL gives no rows.
            ("generate_subscripts", [array, dimension]) => {
                let mut bound = |name| {
                    let of = vec![self.expr(array)?, self.expr(dimension)?];
                    let bound = self.call_of(name, of)?;
                    self.coerce(bound, SqlType::INT4)
                };
                let bounds = [bound("array_lower")?, bound("array_upper")?, Expr::Constant(Value::Int4(1))];
                add(self, SourceKind::Series { bounds, is_numbered }, vec![Column::new(name, SqlType::INT4)])
            }
            ("pg_partition_ancestors", [_]) => {
                // No table has partitions: there are no rows.
                let arrays = vec![Expr::Constant(Value::Null)];
                let columns = vec![Column::new("relid", SqlType::OID)];
                add(self, SourceKind::Unnest { arrays, is_numbered }, columns)
            }
            ("unnest", [_, ..]) => {
                let (mut arrays, mut columns) = (Vec::new(), Vec::new());
                for array in arguments {
                    let (array, collation) = self.collated(|this| this.expr(array))?;
                    let Some(element) = array.ty.and_then(SqlType::element) else {
                        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "unnest needs an array"));
                    };
                    columns.push(Column { collation, ..Column::new(name, element) });
                    arrays.push(array.expr);
                }
                add(self, SourceKind::Unnest { arrays, is_numbered }, columns)
            }
            _ => {
                if crate::functions::is_aggregate(name) {
                    let message = "aggregate functions are not allowed in functions in FROM";
                    return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
                }
                let (value, collation) = self.collated(|this| this.plain_function(name, arguments))?;
                let (value, ty) = self.settle(value)?;
                if ty.element().is_some() {
                    let what = format_args!("the function {name}, which returns an array, as a source of rows");
                    return Err(SqlError::unsupported(what));
                }
                if value.is_volatile() && !is_alone {
                    let what = format_args!("the function {name} beside other sources of rows");
                    return Err(SqlError::unsupported(what));
                }
                // One row: the only element of an array.
                let arrays = vec![Expr::Array(ty, vec![value])];
                let column = Column { collation, ..Column::new(name, ty) };
                add(self, SourceKind::Unnest { arrays, is_numbered }, vec![column])
            }
        }
    }

    /// Adds a source with its columns.
    fn add(
        &mut self,
        from: &mut From,
        kind: SourceKind,
        columns: &[Column],
        name: &str,
        alias: Option<&ast::TableAlias>,
        join: Join,
    ) -> Result<()> {
        let name = alias.map_or_else(|| name.to_owned(), |alias| name_of(&alias.name));
        let is_function = match &kind {
            SourceKind::Series { .. } => true,
            SourceKind::Unnest { arrays, .. } => arrays.len() == 1,
            _ => false,
        };
        let scope = self.scope();
        if !name.is_empty() && scope.sources.contains(&name) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_ALIAS, message));
        }
        let renamed = alias.map_or(&[][..], |alias| &alias.columns);
        // Dropped columns have places, but no names.
        let named: Vec<usize> = match &kind {
            SourceKind::Table(source) => source.table.def.live_columns().map(|(at, _)| at).collect(),
            _ => (0..columns.len()).collect(),
        };
        if renamed.len() > named.len() {
            let message = format!(
                "table \"{name}\" has {} columns available but {} columns specified",
                named.len(),
                renamed.len()
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        let source = scope.sources.len();
        for (number, at) in named.into_iter().enumerate() {
            let column = &columns[at];
            let own = match renamed.get(number) {
                Some(renamed) => name_of(&renamed.name),
                // The column of a function with one column is named after its source.
                None if is_function && number == 0 && alias.is_some() => name.clone(),
                None => column.name.clone(),
            };
            scope.columns.push(ScopeColumn {
                source,
                name: own,
                at: from.width + at,
                ty: column.ty,
                modifier: column.modifier,
                collation: column.collation,
                origin: column.source,
                is_merged: false,
            });
        }
        scope.sources.push(name.clone());
        let first = from.width;
        from.width += columns.len();
        from.sources.push(Source { first, width: columns.len(), kind, join, on: Vec::new(), filter: Vec::new(), name });
        Ok(())
    }
}

/// A function in FROM.
struct FunctionSource<'a> {
    name: String,
    arguments: Vec<&'a ast::Expr>,
    /// WITH ORDINALITY.
    is_numbered: bool,
}

impl<'a> FunctionSource<'a> {
    fn new(name: &ast::ObjectName, arguments: &'a [FunctionArg], is_numbered: bool) -> Result<Self> {
        let expr = |argument: &'a FunctionArg| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Ok(argument),
            argument => Err(SqlError::unsupported(format_args!("the argument {argument}"))),
        };
        let arguments = arguments.iter().map(expr).collect::<Result<_>>()?;
        Ok(Self { name: relation_of(name)?.1, arguments, is_numbered })
    }
}

/// Returns a clause that changes the rows of a source, or that only other systems have.
fn addition_of(factor: &TableFactor) -> Option<&'static str> {
    match factor {
        TableFactor::Table { with_ordinality: true, args: None, .. } => Some("WITH ORDINALITY of a table"),
        TableFactor::UNNEST { with_offset: true, .. } => Some("WITH OFFSET"),
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            Some("TABLESAMPLE")
        }
        TableFactor::Table { with_hints, version, partitions, json_path, index_hints, .. } => {
            let is_plain = with_hints.is_empty()
                && version.is_none()
                && partitions.is_empty()
                && json_path.is_none()
                && index_hints.is_empty();
            (!is_plain).then_some("this form of a table in FROM")
        }
        _ => None,
    }
}

/// Combines the sources from `start` on, whose columns begin at `first`, into one source: they are joined before any
/// others.
fn wrap(from: &mut From, start: usize, first: usize, join: Join) -> Result<()> {
    if let [only] = &mut from.sources[start..]
        && matches!(only.kind, SourceKind::Table(_))
    {
        only.join = join;
        return Ok(());
    }
    let width = from.width - first;
    let mut inner = From { sources: from.sources.split_off(start), width: from.width, keys: Vec::new() };
    let own = first..from.width;
    let is_foreign = |expr: &Expr| match expr {
        Expr::Column(at) => !own.contains(at),
        Expr::Subquery(subquery) => subquery.is_correlated,
        _ => false,
    };
    let exprs = inner.sources.iter().flat_map(|source| {
        let rows: &[Expr] = match &source.kind {
            SourceKind::Series { bounds, .. } => bounds,
            SourceKind::Unnest { arrays, .. } => arrays,
            SourceKind::Lateral(expr) => std::slice::from_ref(expr),
            _ => &[],
        };
        source.on.iter().chain(rows)
    });
    if exprs.into_iter().any(|expr| expr.has(&is_foreign)) {
        return Err(SqlError::unsupported("a join in parentheses, or to the right, that looks at rows beside it"));
    }
    let mut select = Select { output: own.map(Expr::Column).collect(), ..Select::default() };
    order_joins(&mut select, &mut inner, Vec::new(), &[]);
    need(&mut select);
    let query = Query {
        body: Body::Select(Box::new(select)),
        order: Vec::new(),
        width,
        limit: None,
        offset: None,
        locks: Vec::new(),
    };
    let kind = SourceKind::Derived(Arc::new(query));
    from.sources.push(Source { first, width, kind, join, on: Vec::new(), filter: Vec::new(), name: "a join".into() });
    Ok(())
}
