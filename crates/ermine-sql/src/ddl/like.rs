//! CREATE TABLE (LIKE ..): columns, and on request more, as those of another relation are at that moment. The parser
//! shows each such element as a column whose name says what it is (`parse/likes.rs`).

use std::sync::Arc;

use sqlparser::ast::ObjectName;

use super::{
    context::ChangeContext,
    create::{Constraints, KeyTree, add_name, check_column_count, duplicate_column_name},
};
use crate::{
    bind::plain,
    catalog::{
        Change, Relation, Table,
        comments::{PG_CLASS, PG_CONSTRAINT},
        definition::{
            ColumnDef, CommentDef, DefaultDef, Definition, IndexDef, ObjectId, SequenceDef, TableDef, ViewColumnDef,
        },
        rights::{Object, Rights, kind_of, no_right},
    },
    error::{Result, SqlError, SqlState},
    parse::{LikeOption, Likes},
    transaction::{ActiveTransaction, changed},
};

/// A relation that a new table is like, and what is copied of it.
pub(super) struct Like {
    source: Arc<Table>,
    options: Likes,
    /// The numbers of indexes, and those of their copies.
    indexes: Vec<(ObjectId, ObjectId)>,
}

/// The columns of a new table so far, with their sequences and constraints.
pub(super) struct NewColumns<'n> {
    pub(super) table: (ObjectId, &'n str, &'n str),
    pub(super) columns: &'n mut Vec<ColumnDef>,
    pub(super) sequences: &'n mut Vec<SequenceDef>,
    pub(super) constraints: &'n mut Constraints,
}

impl ChangeContext<'_> {
    /// Adds the columns of a relation to those of a new table; returns the relation, if there may be more to copy.
    pub(super) fn like(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        options: Likes,
        new: &mut NewColumns<'_>,
    ) -> Result<Option<Like>> {
        let missing =
            || SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", plain(name)));
        let relation = self.find(active, name)?.ok_or_else(missing)?;
        let object = Object::of(&relation);
        if !active.catalog.has_any(self.environment.role, object, Rights::SELECT) {
            return Err(no_right(&active.catalog, object));
        }
        match &relation {
            Relation::Table(source) => {
                if !active.share(std::slice::from_ref(source), self.limits())? {
                    return Err(changed(source.name()));
                }
                self.like_table(active, source, options, new)?;
                Ok(Some(Like { source: source.clone(), options, indexes: Vec::new() }))
            }
            Relation::View(view) => {
                if !active.share_views(std::slice::from_ref(view), self.limits())? {
                    return Err(changed(&view.def.name));
                }
                for (at, ViewColumnDef { name, ty, modifier }) in view.def.columns.iter().enumerate() {
                    let default = view.def.default_of(at).filter(|_| options.has(LikeOption::Defaults));
                    let default = default.map(|text| DefaultDef::Expression(text.to_owned()));
                    new.add(ColumnDef { default, ..ColumnDef::new(name.clone(), *ty, *modifier) })?;
                }
                Ok(None)
            }
            Relation::Sequence(_) | Relation::Index(..) => {
                let message = format!("relation \"{}\" is invalid in LIKE clause", plain(name));
                let kind = if kind_of(&relation) == "index" { "indexes" } else { "sequences" };
                let detail = format!("This operation is not supported for {kind}.");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail))
            }
        }
    }

    fn like_table(
        &self,
        active: &ActiveTransaction,
        source: &Table,
        options: Likes,
        new: &mut NewColumns<'_>,
    ) -> Result<()> {
        let def = &source.def;
        for (at, column) in def.live_columns() {
            let place = new.columns.len();
            let mut copy = ColumnDef {
                not_null: def.is_never_null(at),
                ..ColumnDef::new(column.name.clone(), column.ty, column.modifier)
            };
            match &column.default {
                Some(DefaultDef::NextOf(sequence)) if column.identity.is_some() => {
                    let sequence = active.catalog.sequence(*sequence).filter(|_| options.has(LikeOption::Identity));
                    if let Some(known) = sequence {
                        let (table, schema, table_name) = new.table;
                        let name = self.free_name(active, schema, table_name, &column.name, "seq", &[]);
                        let (id, owner) = (self.catalog_number()?, Some((table, place)));
                        let schema = schema.to_owned();
                        (copy.identity, copy.default) = (column.identity, Some(DefaultDef::NextOf(id)));
                        new.sequences.push(SequenceDef { id, schema, name, owner, ..known.def.clone() });
                    }
                }
                Some(DefaultDef::Generated(_)) if !options.has(LikeOption::Generated) => {}
                default @ Some(DefaultDef::Generated(_)) => copy.default.clone_from(default),
                default if options.has(LikeOption::Defaults) => copy.default.clone_from(default),
                _ => {}
            }
            let domain = active.catalog.types.of_column(def.id, at);
            new.constraints.domains.extend(domain.map(|domain| (place, domain.oid)));
            new.add(copy)?;
        }
        if options.has(LikeOption::Constraints) {
            for check in &def.checks {
                new.constraints.add_check(check.name.clone(), crate::parse::expression(&check.condition)?);
            }
        }
        if let Some(key) = def.primary_key.as_ref().filter(|_| options.has(LikeOption::Indexes)) {
            let names = |columns: &[usize]| columns.iter().map(|at| def.columns[*at].name.clone()).collect();
            let (columns, included) = (names(&key.columns), names(&key.included));
            new.constraints.set_primary(KeyTree { name: None, columns, included }, new.table.2)?;
        }
        Ok(())
    }

    /// Adds copies of the indexes of a relation to a definition that has all its columns.
    pub(super) fn like_indexes(&self, active: &ActiveTransaction, def: &mut TableDef, like: &mut Like) -> Result<()> {
        if !like.options.has(LikeOption::Indexes) {
            return Ok(());
        }
        let source = &like.source.def;
        if let (Some(old), Some(new)) = (&source.primary_key, &def.primary_key) {
            like.indexes.push((old.id, new.id));
        }
        for (_, index) in source.indexes.iter().enumerate().filter(|(at, _)| source.is_complete(*at)) {
            let (mut columns, mut names) = (Vec::new(), Vec::new());
            for (at, descending) in &index.columns {
                columns.push((copied(def, &source.columns[*at])?, *descending));
                add_name(&mut names, source.columns[*at].name.clone());
            }
            let mut included = Vec::new();
            for at in &index.included {
                included.push(copied(def, &source.columns[*at])?);
                add_name(&mut names, source.columns[*at].name.clone());
            }
            let key = def.primary_key.iter().map(|key| &key.name);
            let taken = key.chain(def.indexes.iter().map(|index| &index.name)).chain([&def.name]);
            let taken: Vec<_> = taken.cloned().collect();
            let what = if index.is_constraint { "key" } else { "idx" };
            let name = self.free_name(active, &def.schema, &def.name, &names.join("_"), what, &taken);
            let (id, relation_file) = (self.catalog_number()?, self.relation_file(active, &def.schema)?);
            like.indexes.push((index.id, id));
            def.indexes.push(IndexDef { id, relation_file, name, columns, included, ..index.clone() });
        }
        Ok(())
    }

    /// Gives the parts of a new table the comments of those that they are copies of.
    pub(super) fn like_comments(&self, active: &mut ActiveTransaction, table: ObjectId, like: &Like) -> Result<()> {
        if !like.options.has(LikeOption::Comments) {
            return Ok(());
        }
        let (source, new) = (&like.source.def, active.catalog.table(table).cloned());
        let column = |at: usize| new.as_ref()?.def.column(&source.columns.get(at)?.name);
        let mut copies = Vec::new();
        for comment in active.catalog.comments() {
            let index = like.indexes.iter().find(|(old, _)| *old == comment.object).map(|(_, new)| *new);
            let place = match comment.class {
                PG_CLASS if comment.object == source.id && comment.column > 0 => {
                    column(comment.column as usize - 1).map(|at| (table, at as i32 + 1))
                }
                PG_CLASS => index.map(|new| (new, 0)),
                PG_CONSTRAINT if comment.object == source.id && !comment.check.is_empty() => {
                    like.options.has(LikeOption::Constraints).then_some((table, 0))
                }
                _ => None,
            };
            if let Some((object, column)) = place {
                copies.push(CommentDef { object, column, ..(**comment).clone() });
            }
        }
        for copy in copies {
            let def = CommentDef { id: self.catalog_number()?, ..copy };
            self.take_place(active, &def, true)?;
            self.apply(active, vec![Change::Put(Definition::Comment(def))])?;
        }
        Ok(())
    }
}

impl NewColumns<'_> {
    fn add(&mut self, column: ColumnDef) -> Result<()> {
        if self.columns.iter().any(|known| known.name == column.name) {
            return Err(duplicate_column_name(&column.name));
        }
        check_column_count(self.columns.len() + 1)?;
        self.columns.push(column);
        Ok(())
    }
}

/// Returns the column of a new table that is a copy of another one; a hidden one is added to the table.
fn copied(def: &mut TableDef, column: &ColumnDef) -> Result<usize> {
    let known = match column.computation() {
        None => def.column(&column.name),
        Some(text) => def.columns.iter().position(|own| own.computation() == Some(text)),
    };
    match known {
        Some(at) => Ok(at),
        None => {
            check_column_count(def.columns.len() + 1)?;
            def.columns.push(column.clone());
            Ok(def.columns.len() - 1)
        }
    }
}
