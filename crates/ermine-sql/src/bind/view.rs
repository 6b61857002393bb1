//! Views: what the names in their queries mean, and what a new view depends on.
//!
//! A view's query is bound where the view is used, without the names of the query around it. Names of relations in it
//! mean the objects that they meant when the view was created ([`NamedRelation`]), with the columns as of then. When a
//! view is created, a [`Recorder`] notes these meanings, the columns that are used, and what stars stand for.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
    ops::ControlFlow,
    sync::Arc,
};

use sqlparser::{
    ast::{self, ObjectName, ObjectNamePart, Select, SelectItem, VisitMut as _, VisitorMut},
    tokenizer::Location,
};

use super::{Binder, Named, Scope, ScopeColumn, names::relation_of};
use crate::{
    catalog::{
        Relation, View,
        definition::{NamedRelation, ObjectId},
    },
    error::{Result, SqlError, SqlState},
    parse::{self, ident, starred},
    query::Query,
    result::Column,
};

/// Maximum depth of views in views, to protect the stack.
const NESTED_MAX: usize = 32;

/// Notes on the query of a view that is being created.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) relations: Vec<NamedRelation>,
    pub(crate) uses: BTreeSet<(ObjectId, usize)>,
    /// Whether a literal is another time in another time zone.
    pub(crate) depends_on_zone: bool,
    /// The columns that stars stand for, by the places of the stars.
    stars: HashMap<Location, Vec<SelectItem>>,
    /// The schemas of relations, by the places of their names.
    schemas: HashMap<Location, String>,
}

/// A query or a condition that the catalog stores.
pub(super) struct Inside {
    /// The meanings of the names of relations in it.
    pub(super) relations: Vec<NamedRelation>,
    /// The role with whose rights it is bound.
    pub(super) role: ObjectId,
}

/// The state of binding around what the catalog stores.
pub(super) struct Around {
    scopes: Vec<Scope>,
    named: Vec<Named>,
    inside: Option<Inside>,
    recorder: Option<Box<Recorder>>,
    reads_stored: bool,
}

impl Binder<'_> {
    /// Binds the query of a new view; returns it as it is to be stored, with its columns and the notes on it.
    pub(crate) fn new_view(&mut self, query: &ast::Query) -> Result<(String, Query, Vec<Column>, Recorder)> {
        self.recorder = Some(Box::default());
        let bound = self.query(query);
        let recorder = *self.recorder.take().expect("it has just been put there");
        let (bound, columns) = bound?;
        if !self.parameters.is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let mut stored = query.clone();
        let _ = stored.visit(&mut Expander(&recorder));
        Ok((stored.to_string(), bound, columns, recorder))
    }

    /// Calls `bind` with the query of a view, where names mean what they mean in the view.
    pub(super) fn in_view<T>(
        &mut self,
        view: &Arc<View>,
        bind: impl FnOnce(&mut Self, &ast::Query) -> Result<T>,
    ) -> Result<T> {
        self.count_expanded(1)?;
        if self.view_depth == NESTED_MAX {
            let message = format!("views are nested in more than {NESTED_MAX} others");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        self.uses_view(view);
        let mut held = self.environment.memory.hold();
        held.grow_to(parse::tree_bytes(&view.def.query)?, usize::MAX)?;
        let query = parse::stored_query(&view.def.query)?;
        let inside = Inside { relations: view.def.relations.clone(), role: self.acting_in(view) };
        let around = self.enter(inside);
        self.view_depth += 1;
        let bound = self.apart(|this| bind(this, &query));
        self.view_depth -= 1;
        self.leave_to(around);
        bound.map_err(SqlError::nowhere)
    }

    /// Begins to bind what the catalog stores: names mean what they mean there.
    pub(super) fn enter(&mut self, inside: Inside) -> Around {
        Around {
            scopes: mem::take(&mut self.scopes),
            named: mem::take(&mut self.named),
            inside: self.inside.replace(inside),
            recorder: self.recorder.take(),
            reads_stored: mem::replace(&mut self.reads_stored, true),
        }
    }

    /// Goes on with what is around.
    pub(super) fn leave_to(&mut self, around: Around) {
        let Around { scopes, named, inside, recorder, reads_stored } = around;
        (self.scopes, self.named, self.inside, self.recorder) = (scopes, named, inside, recorder);
        self.reads_stored = reads_stored;
    }

    /// Returns the columns of the query of a view.
    pub(crate) fn columns_of_view(&mut self, view: &Arc<View>) -> Result<Vec<Column>> {
        Ok(self.in_view(view, |this, query| this.query(query))?.1)
    }

    /// Returns the query of a materialized view, which the statement does not use itself.
    pub(crate) fn materialized_query(&mut self, view: &Arc<View>) -> Result<Query> {
        let (query, _) = self.in_view(view, |this, query| this.query(query))?;
        self.views.retain(|used| used.def.id != view.def.id);
        Ok(query)
    }

    /// Records that the statement uses a view.
    pub(super) fn uses_view(&mut self, view: &Arc<View>) {
        if !self.views.iter().any(|used| used.def.id == view.def.id) {
            self.views.push(view.clone());
        }
    }

    /// Returns the relation that a name refers to.
    pub(crate) fn relation(&mut self, name: &ObjectName) -> Result<Option<Relation>> {
        let (schema, own) = relation_of(name)?;
        if let Some(inside) = &self.inside {
            let named = NamedRelation::find(&inside.relations, schema.as_deref(), &own);
            return Ok(named.and_then(|named| self.catalog.relation(named.id)));
        }
        let found = match &schema {
            Some(schema) => {
                self.check_usage(schema)?;
                self.catalog.find(schema, &own)
            }
            None => self.catalog.find_in(self.search_path, self.environment.role, &own),
        };
        if let (Some(recorder), Some(found)) = (&mut self.recorder, &found) {
            recorder.note(name, schema, own, found);
        }
        Ok(found)
    }

    /// Returns the names by which the query that is bound knows the columns of a relation, if it is that of a view:
    /// later columns are not visible.
    pub(super) fn known_columns(&self, name: &ObjectName) -> Result<Option<Vec<String>>> {
        let Some(inside) = &self.inside else { return Ok(None) };
        let (schema, own) = relation_of(name)?;
        let named = NamedRelation::find(&inside.relations, schema.as_deref(), &own);
        Ok(named.map(|named| named.columns.clone()))
    }

    /// Notes that a column is used: that the statement needs a right to it, and that a new view depends on it.
    pub(super) fn note_use(&mut self, (relation, number): (u32, i16)) {
        if relation == 0 {
            return;
        }
        self.needs_column(relation, number);
        if let Some(recorder) = &mut self.recorder
            && let Ok(at) = usize::try_from(i32::from(number) - 1)
        {
            recorder.uses.insert((relation, at));
        }
    }

    /// Notes the columns that a star in a new view stands for.
    pub(super) fn note_star(&mut self, star: Location, meant: &[usize]) {
        let Some(mut recorder) = self.recorder.take() else { return };
        let scope = self.scopes.last().expect("a query has a scope");
        let item = |at: &usize| SelectItem::UnnamedExpr(name_in(scope, &scope.columns[*at]));
        recorder.stars.insert(star, meant.iter().map(item).collect());
        self.recorder = Some(recorder);
    }

    /// Records which columns of a row a star stands for.
    pub(super) fn note_star_of_row<'n>(
        &mut self,
        star: Location,
        row: &ast::Expr,
        columns: impl Iterator<Item = &'n str>,
    ) {
        let Some(recorder) = &mut self.recorder else { return };
        let item = |name: &str| {
            let root = match row {
                ast::Expr::Nested(_) => Box::new(row.clone()),
                row => Box::new(ast::Expr::Nested(Box::new(row.clone()))),
            };
            let access_chain = vec![ast::AccessExpr::Dot(ast::Expr::Identifier(ident(name)))];
            SelectItem::UnnamedExpr(ast::Expr::CompoundFieldAccess { root, access_chain })
        };
        recorder.stars.insert(star, columns.map(item).collect());
    }
}

/// Returns the expression of a column that a star stands for.
fn name_in(scope: &Scope, column: &ScopeColumn) -> ast::Expr {
    let source = &scope.sources[column.source];
    let named = scope.columns.iter().filter(|other| other.name == column.name);
    let (merged, others): (Vec<_>, Vec<_>) = named.partition(|other| other.is_merged);
    // Only the name alone means both sides of USING.
    if source.is_empty() || !merged.is_empty() && others.len() == 1 {
        return ast::Expr::Identifier(ident(&column.name));
    }
    ast::Expr::CompoundIdentifier(vec![ident(source), ident(&column.name)])
}

impl Recorder {
    fn note(&mut self, name: &ObjectName, schema: Option<String>, own: String, found: &Relation) {
        let (id, kept, columns) = match found {
            Relation::Table(table) => {
                let columns = table.def.columns.iter().map(|column| column.name.clone()).collect();
                (table.def.id, Some(&table.def.schema), columns)
            }
            Relation::View(view) => {
                let columns = view.def.columns.iter().map(|column| column.name.clone()).collect();
                (view.def.id, Some(&view.def.schema), columns)
            }
            // Its name is a literal, which stays as it is.
            Relation::Sequence(sequence) => (sequence.def.id, None, Vec::new()),
            Relation::Index(..) => return,
        };
        if let (Some(kept), Some(ObjectNamePart::Identifier(first))) = (kept, name.0.first()) {
            self.schemas.insert(first.span.start, kept.clone());
        }
        let schema = kept.cloned().or(schema);
        let named = NamedRelation { schema, name: own, id, columns };
        if !self.relations.contains(&named) {
            self.relations.push(named);
        }
    }
}

/// Writes out stars and the schemas of relations.
struct Expander<'r>(&'r Recorder);

impl VisitorMut for Expander<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let items = mem::take(&mut select.projection).into_iter();
        select.projection = items
            .flat_map(|item| {
                let star = match &item {
                    SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
                        self.0.stars.get(&options.wildcard_token.0.span.start)
                    }
                    SelectItem::UnnamedExpr(expr) => starred(expr).and_then(|(_, star)| self.0.stars.get(&star)),
                    _ => None,
                };
                star.cloned().unwrap_or_else(|| vec![item])
            })
            .collect();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut ast::TableFactor) -> ControlFlow<()> {
        if let ast::TableFactor::Table { name, .. } = factor
            && let Some(ObjectNamePart::Identifier(first)) = name.0.first()
            && let Some(schema) = self.0.schemas.get(&first.span.start)
            && let Some(own) = name.0.pop()
        {
            name.0 = vec![ObjectNamePart::Identifier(ident(schema)), own];
        }
        ControlFlow::Continue(())
    }
}
