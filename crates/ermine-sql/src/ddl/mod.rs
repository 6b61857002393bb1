//! Statements that change the catalog.
//!
//! A change is made inside the session's transaction: that holds the tables it changes exclusively until it ends, and
//! writes the new definitions; other transactions see them when it has committed. Indexes and constraints that a
//! statement outside of transactions adds to a table are put in force while other sessions use the table, by several
//! transactions (`online`).

mod alter;
pub(crate) mod alter_object;
pub(crate) mod alter_sequence;
mod alter_type;
mod authorize;
pub(crate) mod comment;
pub(crate) mod context;
mod create;
pub(crate) mod database;
mod default_rights;
mod dependents;
mod domain;
pub(crate) mod domain_tree;
mod drop;
mod foreign_key;
mod grant;
pub(crate) mod grant_tree;
mod identity;
mod index;
mod like;
pub(crate) mod materialized;
pub(crate) mod online;
mod owner;
mod policy;
mod publication;
pub(crate) mod publication_tree;
mod rename;
pub(crate) mod role;
pub(crate) mod table_as;
mod temporary;
pub(crate) mod type_tree;
mod type_uses;
mod types;
pub(crate) mod view;

use std::sync::Arc;

use sqlparser::ast::{self, Statement};

use self::{
    alter_object::AlterObject,
    alter_sequence::AlterSequence,
    comment::CommentTree,
    context::ChangeContext,
    grant_tree::RightsTree,
    publication_tree::PublicationTree,
    role::RoleTree,
    type_tree::{TypeTree, qualify_types},
    view::ViewChange,
};
use crate::{
    catalog::{Change, Relation, Table, definition::Definition as Def, temporary::is_temporary},
    error::{Result, SqlError, SqlState},
    parse::place::in_statement,
    result::RowSink,
    transaction::{ActiveTransaction, changed},
    types::{Environment, NAME_LENGTH_MAX},
};

/// A statement that changes the catalog.
pub(crate) enum Definition {
    CreateTable(Box<ast::CreateTable>),
    CreateIndex(Box<ast::CreateIndex>),
    CreateSequence(Box<Statement>),
    CreateSchema(Box<Statement>),
    AlterObject(AlterObject),
    AlterSequence(AlterSequence),
    AlterTable(Box<ast::AlterTable>),
    Comment(CommentTree),
    Drop(Box<Statement>),
    Rights(RightsTree),
    Role(RoleTree),
    Type(TypeTree),
    /// LOCK TABLE: changes nothing, but holds tables as a change does.
    Lock(ast::Lock),
    /// CREATE, ALTER and DROP POLICY
    Policy(Box<Statement>),
    Publication(PublicationTree),
    Truncate(Box<ast::Truncate>),
    View(ViewChange),
}

impl Definition {
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>> {
        Ok(Some(match statement {
            Statement::CreateTable(create) => Self::CreateTable(Box::new(create.clone())),
            Statement::CreateIndex(create) => Self::CreateIndex(Box::new(create.clone())),
            Statement::CreateSequence { .. } => Self::CreateSequence(Box::new(statement.clone())),
            Statement::CreateSchema { .. } => Self::CreateSchema(Box::new(statement.clone())),
            Statement::AlterTable(alter) => Self::AlterTable(Box::new(alter.clone())),
            Statement::Drop { .. } => Self::Drop(Box::new(statement.clone())),
            Statement::Truncate(truncate) => Self::Truncate(Box::new(truncate.clone())),
            Statement::Lock(lock) => Self::Lock(lock.clone()),
            Statement::CreatePolicy(_) | Statement::AlterPolicy(_) | Statement::DropPolicy(_) => {
                Self::Policy(Box::new(statement.clone()))
            }
            _ => return Ok(None),
        }))
    }

    /// Prepares its expressions for the catalog.
    pub(crate) fn qualify_types(&mut self, environment: &Environment) -> Result<()> {
        match self {
            Self::CreateTable(create) => qualify_types(&mut **create, environment),
            Self::CreateIndex(create) => qualify_types(&mut **create, environment),
            Self::AlterTable(alter) => qualify_types(&mut **alter, environment),
            _ => Ok(()),
        }
    }

    /// Returns the statement's name in messages.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::CreateTable(_) => "CREATE TABLE",
            Self::CreateIndex(_) => "CREATE INDEX",
            Self::CreateSequence(_) => "CREATE SEQUENCE",
            Self::CreateSchema(_) => "CREATE SCHEMA",
            Self::AlterObject(alter) => alter.words(),
            Self::AlterSequence(_) => "ALTER SEQUENCE",
            Self::AlterTable(_) => "ALTER TABLE",
            Self::Comment(_) => "COMMENT",
            Self::Drop(drop) => match &**drop {
                Statement::Drop { object_type: ast::ObjectType::Table, .. } => "DROP TABLE",
                Statement::Drop { object_type: ast::ObjectType::View, .. } => "DROP VIEW",
                Statement::Drop { object_type: ast::ObjectType::MaterializedView, .. } => "DROP MATERIALIZED VIEW",
                Statement::Drop { object_type: ast::ObjectType::Index, .. } => "DROP INDEX",
                Statement::Drop { object_type: ast::ObjectType::Schema, .. } => "DROP SCHEMA",
                Statement::Drop { object_type: ast::ObjectType::Sequence, .. } => "DROP SEQUENCE",
                _ => "DROP",
            },
            Self::Rights(tree) => tree.words(),
            Self::Role(tree) => tree.words(),
            Self::Type(tree) => tree.words(),
            Self::Lock(_) => "LOCK TABLE",
            Self::Policy(policy) => match &**policy {
                Statement::CreatePolicy(_) => "CREATE POLICY",
                Statement::AlterPolicy(_) => "ALTER POLICY",
                _ => "DROP POLICY",
            },
            Self::Publication(tree) => tree.words(),
            Self::Truncate(_) => "TRUNCATE TABLE",
            Self::View(change) => change.words(),
        }
    }
}

impl ChangeContext<'_> {
    /// Runs such a statement; returns the tag.
    pub(crate) fn define(
        &self,
        active: &mut ActiveTransaction,
        definition: &Definition,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        self.authorize(active, definition)?;
        let tag = self.define_objects(active, definition, rows)?;
        self.drop_comments(active)?;
        self.drop_rights(active)?;
        self.drop_default_rights(active)?;
        Ok(tag)
    }

    fn define_objects(
        &self,
        active: &mut ActiveTransaction,
        definition: &Definition,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match definition {
            Definition::CreateTable(create) => {
                self.create_table(active, create, rows).map_err(|error| in_statement(error, &**create))
            }
            Definition::CreateIndex(create) => {
                if create.concurrently && self.is_in_block {
                    let message = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
                }
                self.create_index(active, create, rows)
            }
            Definition::CreateSequence(create) => self.create_sequence(active, create, rows),
            Definition::CreateSchema(create) => self.create_schema(active, create, rows),
            Definition::AlterObject(alter) => self.alter_object(active, alter, rows),
            Definition::AlterSequence(alter) => self.alter_sequence(active, alter, rows),
            Definition::AlterTable(alter) => {
                self.alter_table(active, alter, rows).map_err(|error| in_statement(error, &**alter))
            }
            Definition::Comment(comment) => self.comment_on(active, comment, rows),
            Definition::Drop(drop) => self.drop_objects(active, drop, rows),
            Definition::Rights(tree) => self.change_rights(active, tree, rows),
            Definition::Role(tree) => self.define_role(active, tree, rows),
            Definition::Type(tree) => self.define_type(active, tree, rows),
            Definition::Truncate(truncate) => self.truncate(active, truncate, rows),
            Definition::View(change) => self.change_view(active, change, rows),
            Definition::Lock(lock) => self.lock_tables(active, lock),
            Definition::Policy(statement) => self.change_policy(active, statement, rows),
            Definition::Publication(tree) => self.change_publication(active, tree, rows),
        }
    }

    /// Runs LOCK TABLE. There are two locks: modes that exclude no writers of PostgreSQL's share the table as any
    /// statement does, and all others hold it alone.
    fn lock_tables(&self, active: &mut ActiveTransaction, lock: &ast::Lock) -> Result<String> {
        use ast::LockTableMode::{AccessShare, RowExclusive, RowShare};
        if !self.is_in_block {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let limits = self.limits().or_nowait(lock.nowait);
        for target in &lock.tables {
            if let Some(Relation::View(_)) = self.find(active, &target.name)? {
                return Err(SqlError::unsupported("LOCK TABLE of a view"));
            }
        }
        let named = lock.tables.iter().filter_map(|target| self.table_named(active, &target.name, false).transpose());
        let tables: Vec<_> = named.collect::<Result<_>>()?;
        let is_shared = matches!(lock.lock_mode, Some(AccessShare | RowShare | RowExclusive));
        if !is_shared && active.catalog.is_standby() {
            return Err(SqlError::during_recovery("LOCK TABLE"));
        }
        if !is_shared {
            self.take_newest(active, &tables, limits)?;
        } else if !active.share(&tables, limits)? {
            return Err(changed(tables.first().map_or("", |table| table.name())));
        }
        Ok("LOCK TABLE".into())
    }

    /// Returns the schema in which a new object is created, and its name.
    fn place_of(&self, active: &ActiveTransaction, name: &ast::ObjectName) -> Result<(String, String)> {
        let (schema, own) = crate::bind::names::relation_of(name)?;
        let schema = match schema {
            Some(schema) => schema,
            None => {
                let is_usable = |schema: &&String| {
                    let may_use = || active.catalog.may_use_schema(self.environment.role, schema);
                    !is_temporary(schema) && active.catalog.schema(schema).is_some() && may_use()
                };
                self.search_path.iter().find(is_usable).cloned().ok_or_else(|| {
                    SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in")
                })?
            }
        };
        if active.catalog.schema(&schema).is_none() {
            return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        if is_temporary(&schema) {
            return Err(SqlError::unsupported("a temporary object of this kind"));
        }
        Ok((schema, own))
    }

    /// Returns the table, or the materialized view, with a name, which the statement changes; no other transaction uses
    /// it until this one ends.
    fn table_alone(
        &self,
        active: &mut ActiveTransaction,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<Option<Arc<Table>>> {
        let table = self.stored_named(active, name, if_exists)?;
        if let Some(table) = &table {
            self.take_newest(active, std::slice::from_ref(table), self.limits())?;
        }
        Ok(table)
    }

    /// Returns the table with a name.
    fn table_named(
        &self,
        active: &ActiveTransaction,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<Option<Arc<Table>>> {
        let table = self.stored_named(active, name, if_exists)?;
        match table.as_ref().is_some_and(|table| table.def.materialized.is_some()) {
            true => Err(not_a_table(name)),
            false => Ok(table),
        }
    }

    /// Returns the table, or the materialized view, with a name.
    fn stored_named(
        &self,
        active: &ActiveTransaction,
        name: &ast::ObjectName,
        if_exists: bool,
    ) -> Result<Option<Arc<Table>>> {
        match self.find(active, name)? {
            Some(Relation::Table(table)) => Ok(Some(table)),
            Some(_) => Err(not_a_table(name)),
            None if if_exists => Ok(None),
            None => {
                let message = format!("relation \"{}\" does not exist", crate::bind::plain(name));
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }

    /// Returns the relation with a name.
    fn find(&self, active: &ActiveTransaction, name: &ast::ObjectName) -> Result<Option<Relation>> {
        let (schema, own) = crate::bind::names::relation_of(name)?;
        Ok(match schema {
            Some(schema) => {
                self.check_usage(active, &schema)?;
                active.catalog.find(&schema, &own)
            }
            None => active.catalog.find_in(self.search_path, self.environment.role, &own),
        })
    }

    /// Replaces the definition of a table.
    fn replace_table(&self, active: &mut ActiveTransaction, def: crate::catalog::definition::TableDef) -> Result<()> {
        self.apply(active, vec![Change::Put(Def::Table(def))])
    }

    /// Returns a name that no relation of the schema has, built from the table, its columns, and the kind of object.
    fn free_name(
        &self,
        active: &ActiveTransaction,
        schema: &str,
        table: &str,
        columns: &str,
        what: &str,
        taken: &[String],
    ) -> String {
        let is_taken = |name: &str| active.catalog.find(schema, name).is_some() || taken.iter().any(|own| own == name);
        free_name_of(table, columns, what, &is_taken)
    }
}

fn not_a_table(name: &ast::ObjectName) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", crate::bind::plain(name)))
}

/// Builds a name from two others and the kind of object, as PostgreSQL does: with a number if the name is taken, and
/// with the longer of the two cut if the name is too long.
fn free_name_of(first: &str, second: &str, what: &str, is_taken: &dyn Fn(&str) -> bool) -> String {
    let mut number = 0;
    loop {
        let what = if number == 0 { what.to_owned() } else { format!("{what}{number}") };
        let (mut first, mut second) = (first, second);
        let signs = if second.is_empty() { 1 } else { 2 };
        while first.len() + second.len() + signs + what.len() > NAME_LENGTH_MAX {
            let longer = if first.len() > second.len() { &mut first } else { &mut second };
            *longer = &longer[..longer.floor_char_boundary(longer.len().saturating_sub(1))];
        }
        let parts: Vec<_> = [first, second, &what].into_iter().filter(|part| !part.is_empty()).collect();
        let name = parts.join("_");
        if !is_taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// Sends a notice that something is skipped.
fn skip(rows: &mut dyn RowSink, state: SqlState, message: String) {
    rows.notice("NOTICE", &SqlError::new(state, message));
}

/// Sends a notice that a table that a statement would change does not exist.
fn skip_missing(rows: &mut dyn RowSink, name: &ast::ObjectName) {
    let message = format!("relation \"{}\" does not exist, skipping", crate::bind::plain(name));
    skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
}
