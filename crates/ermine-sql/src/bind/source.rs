//! Sources of rows: tables, queries, functions, and how they are joined.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, JoinConstraint, JoinOperator, TableFactor};

use super::{
    Binder, Named, Scope, ScopeColumn, Typed,
    join_order::{is_null_with, need, order_joins, places_in},
    names::{name_of, relation_of, simple_name},
    pull_up::{Derived, replace_all},
    record_source::{record_function, refuse_definitions},
    rights::is_true,
    sequence::sequence_source,
};
use crate::{
    catalog::{Catalog, Relation, View, definition::ColumnDef, rights::Rights},
    collation::Collation,
    error::{Result, SqlError, SqlState},
    expr::{Comparison, Expr, SubqueryKind},
    fold::fold_condition,
    functions::{SetFunction, SetRows, is_set_returning},
    parse::place::at_function,
    query::{Access, Body, Join, Path, Query, Select, Source, SourceKind, TableSource, sets::SetCall},
    result::Column,
    system::{ColumnSet, SystemTable, privileges::EXPLODED, publications::OF_PUBLICATION},
    types::{SqlType, Value},
};

/// The system column with the number of the table that a row comes from: behind the columns of tables.
const TABLE_OID: &str = "tableoid";

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
    /// Places that no source fills, and the results of queries that stand for them (`pull_up`).
    pub(super) replaced: BTreeMap<usize, Expr>,
    /// Conditions of such queries, which have to be met as those of WHERE.
    pub(super) filter: Vec<Expr>,
    /// Whether the next source comes first, and no join turns it to the nullable side.
    pub(super) is_first: bool,
}

/// Where the left side of a join begins.
#[derive(Clone, Copy)]
pub(super) struct Left {
    /// The index of its first source.
    pub(super) start: usize,
    /// The place of its first column in a row.
    pub(super) first: usize,
    /// The index of its first column in the scope.
    pub(super) column: usize,
}

impl Binder<'_> {
    /// Binds sources that follow others; their columns are added to the innermost scope.
    pub(super) fn more_sources(&mut self, from: &mut From, tables: &[ast::TableWithJoins]) -> Result<()> {
        for table in tables {
            let turns =
                |join: &ast::Join| matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
            let is_full = |join: &ast::Join| matches!(join.join_operator, JoinOperator::FullOuter(_));
            from.is_first = !table.joins.iter().any(|join| turns(join) || is_full(join));
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
    pub(super) fn join(&mut self, from: &mut From, join: &ast::Join, left: Left) -> Result<()> {
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
                wrap(self.catalog, from, start, first, Join::Left)?;
                is_turned = true;
                (Join::Inner, constraint)
            }
            JoinOperator::FullOuter(constraint) => {
                wrap(self.catalog, from, start, first, Join::Inner)?;
                (Join::Full, constraint)
            }
            _ => return Err(SqlError::unsupported("this kind of join")),
        };
        let (before, end) = (self.scope().columns.len(), from.width);
        self.source(from, &join.relation, kind)?;
        let is_lateral = from.sources.last().is_some_and(|right| reads(right, first..end));
        if (is_turned || kind == Join::Full) && is_lateral {
            let which = if is_turned { "RIGHT" } else { "FULL" };
            let message = format!("invalid reference to a FROM-clause entry to the left of {which} JOIN");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
                .detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference."));
        }
        let mut merged = Vec::new();
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
                merged.clone_from(&names);
                self.merge(column..before, &names, is_turned)?
            }
            JoinConstraint::Natural => {
                let (left, right) = self.scope().columns[column..].split_at(before - column);
                let is_shown = |column: &ScopeColumn| !column.is_merged && !column.is_system;
                let is_right = |name: &str| right.iter().any(|column| column.name == name && is_shown(column));
                let shared = left.iter().filter(|column| is_shown(column) && is_right(&column.name));
                let names: Vec<_> = shared.map(|column| column.name.clone()).collect();
                merged.clone_from(&names);
                self.merge(column..before, &names, is_turned)?
            }
        };
        if is_turned {
            let left = from.sources.remove(start);
            from.sources.push(left);
        }
        from.sources.last_mut().expect("it has just been added").on.extend(on);
        if kind == Join::Full {
            let values = self.full_columns(column, &merged)?;
            return wrap_with(self.catalog, from, (start, first), Join::Inner, values);
        }
        Ok(())
    }

    /// Replaces the columns that a full join merges, which are the first ones from `column` on, by new ones: the value
    /// of the left side, or else of the right one. Returns the values.
    fn full_columns(&mut self, column: usize, names: &[String]) -> Result<Vec<Expr>> {
        let (mut values, mut columns) = (Vec::new(), Vec::new());
        let next = self.scope().columns[column..].iter().map(|column| column.at + 1).max().unwrap_or(0);
        for (number, name) in names.iter().enumerate() {
            let left = self.scope().columns[column + number].clone();
            let is_side = |own: &&ScopeColumn| own.name == *name && own.is_merged;
            let right = self.scope().columns[column..].iter().rfind(is_side).cloned().unwrap_or_else(|| left.clone());
            let typed = [&left, &right].map(|own| Typed::new(Expr::Column(own.at), own.ty));
            let (both, ty) = self.common(typed.into(), "JOIN/USING")?;
            values.push(Expr::Coalesce(both));
            let modifier = if left.modifier == right.modifier { left.modifier } else { -1 };
            columns.push(ScopeColumn {
                source: self.scope().sources.len(),
                at: next + number,
                ty,
                modifier,
                origin: (0, 0),
                ..left
            });
        }
        let scope = self.scope();
        scope.columns[column..column + names.len()].iter_mut().for_each(|left| left.is_merged = true);
        if !columns.is_empty() {
            // They belong to no source that has a name.
            scope.sources.push(String::new());
            scope.columns.splice(column..column, columns);
        }
        Ok(values)
    }

    /// Returns the conditions of USING; the columns after those of the left side belong to the right one. Of two
    /// columns with the same name one stays visible, the right one if the join `is_turned`, and precedes all other
    /// columns.
    fn merge(&mut self, left: Range<usize>, names: &[String], is_turned: bool) -> Result<Vec<Expr>> {
        let (mut conditions, mut merged) = (Vec::new(), Vec::new());
        for name in names {
            let columns = &mut self.scope().columns;
            let find = |side: Range<usize>, which: &str| {
                let mut found =
                    side.filter(|&at| columns[at].name == *name && !columns[at].is_merged && !columns[at].is_system);
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
            let used = sides.map(|at| columns[at].origin);
            columns[sides[usize::from(!is_turned)]].is_merged = true;
            merged.push(columns[sides[usize::from(is_turned)]].at);
            let [left, right] = sides.map(|at| Typed::new(Expr::Column(columns[at].at), columns[at].ty));
            used.into_iter().for_each(|column| self.note_use(column));
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
        let is_first = std::mem::take(&mut from.is_first);
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                self.named_source(from, name, alias.as_ref(), (join, is_first))
            }
            TableFactor::Derived { lateral: false, subquery, alias, .. } => {
                // It sees the outer queries, but not the other sources of this one.
                let own = self.scopes.pop().expect("a query has a scope");
                let bound = self.derived(subquery, from.width);
                self.scopes.push(own);
                self.add_derived(from, bound?, "", alias.as_ref(), (join, is_first))
            }
            TableFactor::Derived { lateral: true, subquery, alias, .. } => {
                let (query, columns) = self.subquery(subquery, SubqueryKind::Value)?;
                self.add(from, SourceKind::Lateral(query), &columns, "", alias.as_ref(), join)
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                let function = FunctionSource::new(name, &args.args, *with_ordinality)?;
                self.function_source(from, &function, alias.as_ref(), join).map_err(|error| at_function(error, name))
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                let function = FunctionSource::new(name, args, *with_ordinality)?;
                self.function_source(from, &function, alias.as_ref(), join).map_err(|error| at_function(error, name))
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let arguments = array_exprs.iter().collect();
                let function = FunctionSource { name: "unnest".into(), arguments, is_numbered: *with_ordinality };
                self.function_source(from, &function, alias.as_ref(), join)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let (start, first) = (from.sources.len(), from.width);
                let (column, source) = (self.scope().columns.len(), self.scope().sources.len());
                self.joined(from, table_with_joins)?;
                if let Some(alias) = alias {
                    self.rename_join(alias, column, source)?;
                }
                // If all joins are inner joins, parentheses mean nothing.
                if join == Join::Inner && from.sources[start..].iter().all(|source| source.join == Join::Inner) {
                    return Ok(());
                }
                wrap(self.catalog, from, start, first, join)
            }
            other => Err(SqlError::unsupported(format_args!("{other} as a source of rows"))),
        }
    }

    /// Makes the columns of a join, from `column` on, those of one source of that name; the names of its own sources,
    /// from `source` on, are hidden.
    fn rename_join(&mut self, alias: &ast::TableAlias, column: usize, source: usize) -> Result<()> {
        let name = name_of(&alias.name);
        let scope = self.scope();
        if scope.sources[..source].contains(&name) {
            return Err(duplicate_alias(&name));
        }
        let mut own = scope.columns.split_off(column);
        own.retain(|column| !column.is_merged && !column.is_system);
        check_renamed(&name, own.len(), alias.columns.len())?;
        for (number, column) in own.iter_mut().enumerate() {
            (column.source, column.number) = (scope.sources.len(), number);
            if let Some(renamed) = alias.columns.get(number) {
                column.name = name_of(&renamed.name);
            }
        }
        scope.columns.extend(own);
        scope.sources[source..].fill(String::new());
        scope.sources.push(name);
        Ok(())
    }

    /// Adds a named source: a WITH query, a table of the system, a sequence, a table, or a view.
    fn named_source(
        &mut self,
        from: &mut From,
        name: &ast::ObjectName,
        alias: Option<&ast::TableAlias>,
        (join, is_first): (Join, bool),
    ) -> Result<()> {
        let (schema, own) = relation_of(name)?;
        let named = self.named.iter().rposition(|named| schema.is_none() && named.name == own);
        if let Some(at) = named {
            let Named { query, columns, tree, is_kept, expanded, .. } = &self.named[at];
            let kind = if *is_kept { SourceKind::Once } else { SourceKind::Derived };
            let (kind, columns, tree, expanded) = (kind(query.clone()), columns.clone(), tree.clone(), *expanded);
            self.count_expanded(1 + expanded)?;
            if columns.is_empty()
                && matches!(&kind, SourceKind::Derived(query) if matches!(query.body, Body::Returned(_)))
            {
                let message = format!("WITH query \"{own}\" does not have a RETURNING clause");
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            let Some(tree) = tree else { return self.add(from, kind, &columns, &own, alias, join) };
            // It sees the WITH queries before it.
            let later = self.named.split_off(at);
            let inner = self.scopes.pop().expect("a query has a scope");
            let bound = self.derived(&tree, from.width);
            self.scopes.push(inner);
            self.named.extend(later);
            return self.add_derived(from, (bound?.0, columns), &own, alias, (join, is_first));
        }
        if let Some(system) = SystemTable::find(schema.as_deref(), &own) {
            if self.denied.is_none() && !system.is_shown_to(self.catalog, self.acting()) {
                self.denied = Some(system.no_right());
            }
            let columns = system.columns();
            return self.add(
                from,
                SourceKind::System { table: system, needed: ColumnSet::ALL },
                &columns,
                &own,
                alias,
                join,
            );
        }
        let right = self.next_right.take().unwrap_or(Rights::SELECT);
        let relation = self.relation(name)?;
        if let Some(Relation::Sequence(sequence)) = &relation {
            self.needs(sequence.def.id, right);
            let (kind, columns) = sequence_source(sequence);
            return self.add(from, kind, &columns, &own, alias, join);
        }
        let known = self.known_columns(name)?;
        let name_at = |at: usize, own: &String| known.as_ref().and_then(|known| known.get(at)).unwrap_or(own).clone();
        // Later columns than those that the query of a view knows are not visible.
        let is_visible = |at: usize| known.as_ref().is_none_or(|known| at < known.len());
        if let Some(Relation::View(view)) = relation {
            self.needs(view.def.id, right);
            let (mut derived, mut columns) = self.view(&view, from.width)?;
            if let Derived::Unordered(mut unordered) = derived {
                derived = match is_true(&view, "security_barrier") {
                    // Nothing around it sees rows that it hides.
                    true => {
                        unordered.replace();
                        let is_repeated = self.scopes.len() > 1;
                        Derived::Query(Box::new(unordered.into_query(self.catalog, false, is_repeated)))
                    }
                    false => Derived::Unordered(unordered),
                };
            }
            for (at, (column, def)) in columns.iter_mut().zip(&view.def.columns).enumerate() {
                column.name = name_at(at, &def.name);
            }
            let hidden = (0..columns.len()).filter(|at| !is_visible(*at)).count();
            self.add_derived(from, (derived, columns), &own, alias, (join, is_first))?;
            let scope = self.scope();
            scope.columns.truncate(scope.columns.len() - hidden);
            return Ok(());
        }
        let table = self.table(name, right)?;
        let column = |(at, column): (usize, &ColumnDef)| Column {
            modifier: column.modifier,
            source: (table.def.id, at as i16 + 1),
            ..Column::new(name_at(at, &column.name), column.ty)
        };
        let columns: Vec<_> = table.def.columns.iter().enumerate().map(column).collect();
        if let Some(key) = &table.def.primary_key {
            let first = from.width;
            let places = key.columns.iter().map(|column| first + column).collect();
            // `tableoid` is behind the columns.
            from.keys.push((first..first + columns.len() + 1, places));
        }
        // Dropped columns have places, but no names.
        let named = table.def.live_columns().map(|(at, _)| at).filter(|at| is_visible(*at)).collect::<Vec<_>>();
        let (access, needed, key_at) = (Access::full(Path::Primary), Vec::new(), None);
        let computed = self.in_rules(|this| this.computed(&table.def))?;
        let source = TableSource { table: table.clone(), access, needed, key_at, computed, visible: Vec::new() };
        let (start, first) = (from.sources.len(), from.width);
        self.add_named(from, SourceKind::Table(source), (&columns, &named), (&own, alias), join)?;
        // What a statement writes gets others (`write`).
        match self.applies_policies() && right == Rights::SELECT {
            true => self.hide_rows(from, &table, (start, first)),
            false => Ok(()),
        }
    }

    /// Binds the query of a view; its columns are those of the view.
    pub(super) fn view(&mut self, view: &Arc<View>, first: usize) -> Result<(Derived, Vec<Column>)> {
        let (derived, mut columns) = self.in_view(view, |this, query| {
            if this.ignores_order && query.limit_clause.is_none() && query.fetch.is_none() {
                let unordered = ast::Query { order_by: None, locks: Vec::new(), ..query.clone() };
                return this.derived(&unordered, first);
            }
            this.derived(query, first)
        })?;
        for (at, (column, def)) in columns.iter_mut().zip(&view.def.columns).enumerate() {
            column.name.clone_from(&def.name);
            column.source = (view.def.id, at as i16 + 1);
        }
        Ok((derived, columns))
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
        if let Some(function) = record_function(name) {
            let (call, columns) = self.record_call(function, arguments, alias)?;
            if is_numbered && refuse_definitions(alias).is_err() {
                let message = "WITH ORDINALITY cannot be used with a column definition list";
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            return add(self, SourceKind::Function { calls: vec![call], is_numbered }, columns);
        }
        refuse_definitions(alias)?;
        if let ("aclexplode", [list]) = (name, &arguments[..]) {
            let (calls, columns) = self.exploded(list)?;
            return add(self, SourceKind::Function { calls, is_numbered }, columns);
        }
        if let ("pg_get_publication_tables", [publication]) = (name, &arguments[..]) {
            let (calls, columns) = self.tables_of_publication(publication)?;
            return add(self, SourceKind::Function { calls, is_numbered }, columns);
        }
        let argument_lists: Vec<&[&ast::Expr]> = match name {
            // Several arrays are several calls.
            "unnest" if !arguments.is_empty() => arguments.chunks(1).collect(),
            name if is_set_returning(name) => vec![&arguments[..]],
            _ => {
                let (call, column) = self.one_row(name, arguments, is_alone)?;
                return add(self, SourceKind::Function { calls: vec![call], is_numbered }, vec![column]);
            }
        };
        let (mut calls, mut columns) = (Vec::new(), Vec::new());
        for arguments in argument_lists {
            let mut bound = None;
            let (_, collation) = self.collated(|this| {
                let each = |this: &mut Self| arguments.iter().map(|argument| this.expr(argument)).collect();
                let arguments = this.without_rows("functions in FROM", each)?;
                let (_, columns) = bound.insert(this.set_call(name, arguments)?);
                Ok(Typed::new(Expr::TRUE, columns[0].ty))
            })?;
            let Some((call, own)) = bound else { continue };
            let collated = |column: Column| match column.ty.element().unwrap_or(column.ty).is_text() {
                true => Column { collation, ..column },
                false => column,
            };
            columns.extend(own.into_iter().map(collated));
            calls.push(call);
        }
        add(self, SourceKind::Function { calls, is_numbered }, columns)
    }

    /// Binds a function that returns one value as a source of one row.
    fn one_row(&mut self, name: &str, arguments: &[&ast::Expr], is_alone: bool) -> Result<(SetCall, Column)> {
        if crate::functions::is_aggregate(name) {
            let message = "aggregate functions are not allowed in functions in FROM";
            return Err(SqlError::new(SqlState::GROUPING_ERROR, message));
        }
        let (value, collation) =
            self.without_rows("functions in FROM", |this| this.collated(|this| this.plain_function(name, arguments)))?;
        let (value, ty) = self.settle(value)?;
        if value.is_volatile() && !is_alone {
            let what = format_args!("the function {name} beside other sources of rows");
            return Err(SqlError::unsupported(what));
        }
        let eval: SetFunction = |mut arguments, _| Ok(arguments.pop().map_or_else(SetRows::none, SetRows::one));
        let name: Arc<str> = name.into();
        let column = Column { collation, ..Column::new(&*name, ty) };
        Ok((SetCall { name, arguments: vec![value], is_strict: false, eval, width: 1, record: None }, column))
    }

    /// Binds `aclexplode`: a set for each of its columns, because it looks up the names of roles in the catalog.
    pub(super) fn exploded(&mut self, list: &ast::Expr) -> Result<(Vec<SetCall>, Vec<Column>)> {
        let list = self.expr(list)?;
        let (mut calls, mut columns) = (Vec::new(), Vec::new());
        for (column, ty) in EXPLODED {
            let part = self.call_of(&format!("aclexplode.{column}"), vec![list.clone()])?;
            calls.push(self.set_call("unnest", vec![part])?.0);
            columns.push(Column::new(column, ty));
        }
        Ok((calls, columns))
    }

    /// Binds `pg_get_publication_tables`: a set for each of its columns, of which all but the first are NULL.
    fn tables_of_publication(&mut self, publication: &ast::Expr) -> Result<(Vec<SetCall>, Vec<Column>)> {
        let publication = self.expr(publication)?;
        let numbers = self.call_of("pg_get_publication_tables.relid", vec![publication])?;
        let mut calls = vec![self.set_call("unnest", vec![numbers])?.0];
        let nothing: SetFunction = |_, _| Ok(SetRows::none());
        calls.extend(OF_PUBLICATION[1..].iter().map(|(name, _)| SetCall {
            name: (*name).into(),
            arguments: Vec::new(),
            is_strict: false,
            eval: nothing,
            width: 1,
            record: None,
        }));
        Ok((calls, OF_PUBLICATION.iter().map(|(name, ty)| Column::new(*name, *ty)).collect()))
    }

    /// Adds a source with its columns.
    pub(super) fn add(
        &mut self,
        from: &mut From,
        kind: SourceKind,
        columns: &[Column],
        name: &str,
        alias: Option<&ast::TableAlias>,
        join: Join,
    ) -> Result<()> {
        let named: Vec<usize> = (0..columns.len()).collect();
        self.add_named(from, kind, (columns, &named), (name, alias), join)
    }

    /// Adds a source, only some of whose columns have names.
    fn add_named(
        &mut self,
        from: &mut From,
        kind: SourceKind,
        (columns, named): (&[Column], &[usize]),
        (name, alias): (&str, Option<&ast::TableAlias>),
        join: Join,
    ) -> Result<()> {
        let is_function = match &kind {
            // Not if the column has a name of its own.
            SourceKind::Function { calls, .. } => {
                matches!(&calls[..], [call] if call.width == 1 && *call.name == *columns[0].name)
            }
            _ => false,
        };
        let name = self.add_columns(from, named, columns, (name, alias), is_function)?;
        let names = match &kind {
            SourceKind::Table(_) | SourceKind::System { .. } => Box::default(),
            // All of their columns have names.
            _ => {
                let all = &self.scope().columns;
                all[all.len() - named.len()..].iter().map(|column| column.name.as_str().into()).collect()
            }
        };
        let (first, mut width) = (from.width, columns.len());
        if matches!(kind, SourceKind::Table(_) | SourceKind::System { .. }) {
            let system_column = if let SourceKind::Table(source) = &kind { (source.table.def.id, 0) } else { (0, 0) };
            let scope = self.scope();
            let oid = table_oid(scope.sources.len() - 1, width, first + width);
            scope.columns.push(ScopeColumn { origin: system_column, ..oid });
            width += 1;
        }
        from.width += width;
        from.sources.push(Source { names, ..Source::new(first, width, kind, join, name) });
        Ok(())
    }

    /// Adds the columns of a source, whose places begin behind the others; returns its name.
    pub(super) fn add_columns(
        &mut self,
        from: &From,
        named: &[usize],
        columns: &[Column],
        (name, alias): (&str, Option<&ast::TableAlias>),
        is_function: bool,
    ) -> Result<String> {
        let name = alias.map_or_else(|| name.to_owned(), |alias| name_of(&alias.name));
        let scope = self.scope();
        if !name.is_empty() && scope.sources.contains(&name) {
            return Err(duplicate_alias(&name));
        }
        let renamed = alias.map_or(&[][..], |alias| &alias.columns);
        check_renamed(&name, named.len(), renamed.len())?;
        let source = scope.sources.len();
        for (number, &at) in named.iter().enumerate() {
            let column = &columns[at];
            let own = match renamed.get(number) {
                Some(renamed) => name_of(&renamed.name),
                // The column of a function with one column is named after its source.
                None if is_function && number == 0 && alias.is_some() => name.clone(),
                None => column.name.clone(),
            };
            scope.columns.push(ScopeColumn {
                source,
                number,
                name: own,
                at: from.width + at,
                ty: column.ty,
                modifier: column.modifier,
                collation: column.collation,
                origin: column.source,
                fields: column.fields.clone(),
                is_merged: false,
                is_system: false,
            });
        }
        scope.sources.push(name.clone());
        Ok(name)
    }
}

/// Returns the column `tableoid` of a source.
pub(super) fn table_oid(source: usize, number: usize, at: usize) -> ScopeColumn {
    ScopeColumn {
        source,
        number,
        name: TABLE_OID.to_owned(),
        at,
        ty: SqlType::OID,
        modifier: -1,
        collation: Collation::Default,
        origin: (0, 0),
        fields: None,
        is_merged: false,
        is_system: true,
    }
}

fn duplicate_alias(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_ALIAS, format!("table name \"{name}\" specified more than once"))
}

fn check_renamed(name: &str, there: usize, wanted: usize) -> Result<()> {
    if wanted <= there {
        return Ok(());
    }
    let message = format!("table \"{name}\" has {there} columns available but {wanted} columns specified");
    Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message))
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

/// Whether the rows of a source depend on some places of the rows before it.
fn reads(source: &Source, places: Range<usize>) -> bool {
    let mut read = BTreeSet::new();
    source.kind.exprs().iter().for_each(|expr| places_in(expr, &mut read));
    read.range(places).next().is_some()
}

/// Combines the sources from `start` on, whose columns begin at `first`, into one source: they are joined before any
/// others.
fn wrap(catalog: &Catalog, from: &mut From, start: usize, first: usize, join: Join) -> Result<()> {
    wrap_with(catalog, from, (start, first), join, Vec::new())
}

/// Like `wrap`, with some values of the joined rows as further columns.
fn wrap_with(
    catalog: &Catalog,
    from: &mut From,
    (start, first): (usize, usize),
    join: Join,
    mut values: Vec<Expr>,
) -> Result<()> {
    let own = first..from.width;
    let is_filled_up = |(_, expr): (&usize, &Expr)| *expr == Expr::Constant(Value::Null) || is_null_with(expr, &own);
    if let [only] = &mut from.sources[start..]
        && matches!(only.kind, SourceKind::Table(_))
        // A full join has rows that meet none of its conditions.
        && (join == Join::Left || only.on.is_empty())
        && from.replaced.range(first..).all(is_filled_up)
    {
        only.join = join;
        return Ok(());
    }
    let own = first..from.width;
    from.width += values.len();
    let width = from.width - first;
    let replaced = from.take_replaced(start, first);
    replace_all(&mut values, &replaced);
    let mut inner = From { sources: from.sources.split_off(start), width: from.width, ..From::default() };
    let exprs = inner.sources.iter().flat_map(|source| source.on.iter().chain(source.kind.exprs()));
    let mut read = BTreeSet::new();
    exprs.for_each(|expr| places_in(expr, &mut read));
    if read.iter().any(|at| !own.contains(at)) {
        return Err(SqlError::unsupported("a join in parentheses, or to the right, that looks at rows beside it"));
    }
    let own = own.map(|at| replaced.get(&at).cloned().unwrap_or(Expr::Column(at)));
    let mut select = Select { output: own.chain(values).collect(), ..Select::default() };
    order_joins(catalog, &mut select, &mut inner, Vec::new(), &[], false);
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
    from.sources.push(Source::new(first, width, kind, join, String::new()));
    Ok(())
}
