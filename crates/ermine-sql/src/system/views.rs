//! Views as the tables of the system show them: their text, and whether they take statements that write.
//!
//! The text of a view is one that CREATE VIEW takes, and that means the same as the view does today. Relations that
//! have another name than when the view was created get the old name as an alias, and likewise their columns; columns
//! that were added since get names that nothing in the query has.

use std::{collections::HashSet, ops::ControlFlow};

use sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Visit,
    VisitMut, Visitor, VisitorMut,
};

use super::{Known, definitions::is_visible, reg::parts};
use crate::{
    catalog::{Catalog, Relation, View, definition::NamedRelation},
    functions::{is_aggregate, quote_ident},
    parse::{self, ident},
};

/// Returns the query of a view.
pub(super) fn definition(known: Known<'_>, view: &View) -> String {
    let Ok(mut query) = parse::stored_query(&view.def.query) else { return view.def.query.clone() };
    rename_relations(known, &mut *query, &view.def.relations);
    name_results(&mut query, view);
    as_written(format!(" {query};"))
}

/// Returns a text with the words of PostgreSQL that the grammar lacks.
pub(super) fn as_written(text: String) -> String {
    let mark = format!("\"{}\"(", parse::VARIADIC);
    if text.contains(&mark) { text.replace(&mark, "VARIADIC (") } else { text }
}

/// Returns all names in an expression, in lower case.
pub(super) fn names_in(tree: &impl Visit) -> HashSet<String> {
    let mut names = Names::default();
    let _ = Visit::visit(tree, &mut names);
    names.all
}

/// Replaces the names of relations in a query or a condition, with the meanings that the catalog stores, by those of
/// today.
pub(super) fn rename_relations(known: Known<'_>, tree: &mut (impl Visit + VisitMut), relations: &[NamedRelation]) {
    let mut names = Names::default();
    let _ = Visit::visit(tree, &mut names);
    let _ = VisitMut::visit(tree, &mut Renamer { known, relations, names: &names });
}

/// Gathers all names in a query, and those of WITH queries.
#[derive(Default)]
struct Names {
    all: HashSet<String>,
    with: HashSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_ident(&mut self, name: &Ident) -> ControlFlow<()> {
        self.all.insert(name.value.to_lowercase());
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.extend(with.map(|table| table.alias.name.value.to_lowercase()));
        ControlFlow::Continue(())
    }
}

/// Replaces the names of relations by those of today.
struct Renamer<'r> {
    known: Known<'r>,
    relations: &'r [NamedRelation],
    names: &'r Names,
}

impl VisitorMut for Renamer<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, .. } = factor else { return ControlFlow::Continue(()) };
        let Ok((schema, own)) = parts(&name.to_string()) else { return ControlFlow::Continue(()) };
        let named = NamedRelation::find(self.relations, schema.as_deref(), &own);
        let Some((named, relation)) = named.and_then(|named| Some((named, self.known.catalog.relation(named.id)?)))
        else {
            return ControlFlow::Continue(());
        };
        let (schema, today, columns) = match &relation {
            Relation::Table(table) => {
                let columns = table.def.live_columns().map(|(at, column)| (at, column.name.clone()));
                (&table.def.schema, &table.def.name, columns.collect::<Vec<_>>())
            }
            Relation::View(view) => {
                let columns = view.def.columns.iter().map(|column| column.name.clone()).enumerate();
                (&view.def.schema, &view.def.name, columns.collect())
            }
            _ => return ControlFlow::Continue(()),
        };
        if *today != named.name && alias.is_none() {
            let (explicit, columns) = (true, Vec::new());
            *alias = Some(TableAlias { explicit, name: ident(&named.name), columns, at: None });
        }
        let mut path = vec![ObjectNamePart::Identifier(ident(today))];
        if !is_visible(self.known, schema, today) || self.names.with.contains(&today.to_lowercase()) {
            path.insert(0, ObjectNamePart::Identifier(ident(schema)));
        }
        *name = ObjectName(path);
        self.name_columns(alias, named, &columns);
        ControlFlow::Continue(())
    }
}

impl Renamer<'_> {
    /// Gives the columns of a relation the names by which the view knows them.
    fn name_columns(&self, alias: &mut Option<TableAlias>, named: &NamedRelation, columns: &[(usize, String)]) {
        let is_known = |(at, name): &(usize, String)| named.columns.get(*at) == Some(name);
        if columns.iter().all(is_known) {
            return;
        }
        let alias = alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: ident(&named.name),
            columns: Vec::new(),
            at: None,
        });
        let mut taken: HashSet<String> = named.columns.iter().cloned().collect();
        let mut free = |name: &str| {
            let is_taken = |name: &String| self.names.all.contains(&name.to_lowercase());
            let numbered = (1..).map(|number| format!("{name}_{number}"));
            let mut names = [name.to_owned()].into_iter().chain(numbered);
            names.find(|name| !is_taken(name) && taken.insert(name.clone())).unwrap_or_default()
        };
        let own = alias.columns.len();
        for (at, name) in columns.iter().skip(own) {
            let known = named.columns.get(*at).cloned().unwrap_or_else(|| free(name));
            alias.columns.push(TableAliasColumnDef { name: ident(&known), data_type: None });
        }
    }
}

/// Makes the results of a query have the names of the view's columns.
fn name_results(query: &mut ast::Query, view: &View) {
    let wanted = view.def.columns.iter().map(|column| &*column.name);
    let own = own_names(&query.body);
    if own.iter().map(|name| name.as_deref()).eq(wanted.clone().map(Some)) {
        return;
    }
    if let SetExpr::Select(select) = &mut *query.body {
        let groups = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
        // Other clauses may refer to the results by their names.
        if query.order_by.is_none() && !groups && select.distinct.is_none() {
            for (item, name) in select.projection.iter_mut().zip(wanted) {
                match item {
                    SelectItem::ExprWithAlias { alias, .. } => *alias = ident(name),
                    SelectItem::UnnamedExpr(expr) if name_of_column(expr).as_deref() != Some(name) => {
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: ident(name) };
                    }
                    _ => {}
                }
            }
            return;
        }
    }
    let names = wanted.map(quote_ident).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {names} FROM ({query}) AS {} ({names})", quote_ident(&view.def.name));
    if let Ok(named) = parse::stored_query(&text) {
        *query = *named;
    }
}

/// Returns the names of the results of a query, where they are plain to see.
fn own_names(body: &SetExpr) -> Vec<Option<String>> {
    match body {
        SetExpr::Select(select) => select.projection.iter().map(own_name).collect(),
        SetExpr::SetOperation { left, .. } => own_names(left),
        SetExpr::Query(query) => own_names(&query.body),
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            (1..=width).map(|number| Some(format!("column{number}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the name that an item gives its result, where that is plain to see.
fn own_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => name_of_column(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

fn name_of_column(expr: &ast::Expr) -> Option<String> {
    match expr {
        ast::Expr::Identifier(name) => Some(folded(name)),
        ast::Expr::CompoundIdentifier(names) => names.last().map(folded),
        _ => None,
    }
}

fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// Returns the reason why a view with this query takes no statements that write, as far as its text tells.
pub(crate) fn reason_of(query: &ast::Query) -> Option<&'static str> {
    let SetExpr::Select(select) = &*query.body else {
        return Some(match &*query.body {
            SetExpr::SetOperation { .. } => {
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable."
            }
            _ => NOT_ONE_TABLE,
        });
    };
    let has_groups = !matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if select.distinct.is_some() {
        Some("Views containing DISTINCT are not automatically updatable.")
    } else if has_groups {
        Some("Views containing GROUP BY are not automatically updatable.")
    } else if select.having.is_some() {
        Some("Views containing HAVING are not automatically updatable.")
    } else if query.with.is_some() {
        Some("Views containing WITH are not automatically updatable.")
    } else if query.limit_clause.is_some() || query.fetch.is_some() {
        Some("Views containing LIMIT or OFFSET are not automatically updatable.")
    } else {
        None
    }
}

pub(crate) const NOT_ONE_TABLE: &str =
    "Views that do not select from a single table or view are not automatically updatable.";

/// Returns the name of the only relation in FROM.
pub(crate) fn only_relation(query: &ast::Query) -> Option<&ast::ObjectName> {
    let SetExpr::Select(select) = &*query.body else { return None };
    match &select.from[..] {
        [ast::TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] if joins.is_empty() => {
            Some(name)
        }
        _ => None,
    }
}

/// Looks for aggregates and functions that return rows, apart from those in queries in expressions.
struct RowFunctions {
    depth: usize,
}

impl Visitor for RowFunctions {
    type Break = ();

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        let ast::Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = parts(&function.name.to_string()).map_or_else(|_| String::new(), |(_, name)| name);
        match self.depth == 0 && (is_aggregate(&name) || name == "unnest" || name.starts_with("generate_")) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether a view takes INSERT, UPDATE and DELETE, as far as its text tells, for the tables of the system.
pub(super) fn is_updatable(catalog: &Catalog, view: &View) -> bool {
    if catalog.table(view.def.id).is_some() {
        return false;
    }
    let Ok(query) = parse::stored_query(&view.def.query) else { return false };
    let SetExpr::Select(select) = &*query.body else { return false };
    let computes_rows = |item: &SelectItem| {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
        Visit::visit(expr, &mut RowFunctions { depth: 0 }).is_break()
    };
    if reason_of(&query).is_some() || select.projection.iter().any(computes_rows) {
        return false;
    }
    let base = only_relation(&query).and_then(|name| {
        let (schema, own) = parts(&name.to_string()).ok()?;
        catalog.relation(NamedRelation::find(&view.def.relations, schema.as_deref(), &own)?.id)
    });
    match base {
        Some(Relation::Table(_)) => true,
        Some(Relation::View(inner)) => is_updatable(catalog, &inner),
        _ => false,
    }
}

/// Whether a column of such a view is a column of the relation below, by the text of the view.
pub(super) fn is_column_updatable(view: &View, at: usize) -> bool {
    let Ok(query) = parse::stored_query(&view.def.query) else { return false };
    let SetExpr::Select(select) = &*query.body else { return false };
    match select.projection.get(at) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => {
            matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
        }
        _ => false,
    }
}
