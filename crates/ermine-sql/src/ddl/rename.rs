//! New names and schemas of relations, constraints and schemas.
//!
//! Definitions have the names of their own schema, and expressions are stored as texts: what a text names cannot be
//! renamed.

use std::ops::ControlFlow;

use sqlparser::ast::{self, visit_expressions_mut};

use super::alter::{duplicate_column, missing};
use sqlparser::ast::Ident;

use crate::{
    bind::{Binder, names::name_of},
    catalog::{
        Change,
        comments::PG_CONSTRAINT,
        definition::{DefaultDef, Definition, ForeignKeyDef, SchemaDef, SequenceDef, TableDef},
        temporary::is_temporary,
    },
    ddl::{context::ChangeContext, types::check_no_type, view::AlterView},
    error::{Result, SqlError, SqlState},
    expr::Expr,
    functions::quote_ident,
    parse,
    transaction::ActiveTransaction,
};

/// Returns the error of a constraint that a table does not have.
pub(super) fn no_constraint(name: &str, table: &str) -> SqlError {
    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

/// Returns the text of an expression on a table's row with another name of a column.
fn with_column(text: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parse::expression(text)?;
    let _ = visit_expressions_mut(&mut expr, |inner| {
        let column = match inner {
            ast::Expr::Identifier(column) => Some(column),
            ast::Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(column) = column.filter(|column| name_of(column) == old) {
            *column = match quote_ident(new) == new {
                true => ast::Ident::new(new),
                false => ast::Ident::with_quote('"', new),
            };
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(expr.to_string())
}

impl ChangeContext<'_> {
    /// Frees a relation's name and takes another one.
    fn exchange_names(&self, active: &ActiveTransaction, old: (&str, &str), new: (&str, &str)) -> Result<()> {
        if active.catalog.find(new.0, new.1).is_some() {
            let place = if old.0 == new.0 { String::new() } else { format!(" in schema \"{}\"", new.0) };
            let message = format!("relation \"{}\" already exists{place}", new.1);
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        check_no_type(active, new.0, new.1)?;
        self.take_name(active, old.0, old.1, false)?;
        self.take_name(active, new.0, new.1, true)
    }

    pub(super) fn check_schema(&self, active: &ActiveTransaction, name: &str) -> Result<()> {
        match active.catalog.schema(name) {
            Some(_) => Ok(()),
            None => Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))),
        }
    }

    pub(super) fn rename_table(&self, active: &mut ActiveTransaction, mut def: TableDef, new: String) -> Result<()> {
        self.exchange_names(active, (&def.schema, &def.name), (&def.schema, &new))?;
        def.name = new;
        self.replace_checked(active, def)
    }

    /// Renames a column, also in the expressions of the table's definition.
    pub(super) fn rename_column(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        old: &str,
        new: String,
    ) -> Result<()> {
        let at = def.column(old).ok_or_else(|| missing(old, &def.name))?;
        if def.column(&new).is_some() {
            return Err(duplicate_column(&new, &def.name));
        }
        let checks = def.checks.iter_mut().map(|check| &mut check.condition);
        let predicates = def.indexes.iter_mut().filter_map(|index| index.predicate.as_mut());
        let generated = def.columns.iter_mut().filter_map(|column| match &mut column.default {
            Some(DefaultDef::Generated(text) | DefaultDef::Computed(text)) => Some(text),
            _ => None,
        });
        for text in checks.chain(predicates).chain(generated) {
            *text = with_column(text, old, &new)?;
        }
        def.columns[at].name = new;
        self.replace_checked(active, def)
    }

    /// Renames an index, or the primary key.
    pub(super) fn rename_index(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        at: Option<usize>,
        new: String,
    ) -> Result<()> {
        let name = match at {
            Some(at) => &mut def.indexes[at].name,
            None => &mut def.primary_key.as_mut().expect("its name was found").name,
        };
        let old = std::mem::replace(name, new.clone());
        self.exchange_names(active, (&def.schema, &old), (&def.schema, &new))?;
        self.replace_table(active, def)
    }

    /// Gives a sequence a name in a schema.
    pub(super) fn move_sequence(
        &self,
        active: &mut ActiveTransaction,
        def: &SequenceDef,
        schema: &str,
        name: &str,
    ) -> Result<()> {
        self.check_unnamed(active, def)?;
        self.check_sequence(active, def)?;
        self.exchange_names(active, (&def.schema, &def.name), (schema, name))?;
        let def = SequenceDef { schema: schema.to_owned(), name: name.to_owned(), ..def.clone() };
        self.apply(active, vec![Change::Put(Definition::Sequence(def))])
    }

    /// Fails if the text of a default has the name of a sequence.
    fn check_unnamed(&self, active: &ActiveTransaction, sequence: &SequenceDef) -> Result<()> {
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        for table in active.catalog.tables() {
            for (at, column) in table.def.live_columns() {
                let is_text = matches!(column.default, Some(DefaultDef::Expression(_)));
                let draws = |inner: &Expr| matches!(inner, Expr::Next(of) if of.0.def.id == sequence.id);
                if is_text && binder.default_of(table, at)?.has(&draws) {
                    return Err(SqlError::unsupported("renaming a sequence that is a part of a column's default"));
                }
            }
        }
        Ok(())
    }

    /// Moves a table to another schema, with its indexes and the sequences that belong to it.
    pub(super) fn move_table(&self, active: &mut ActiveTransaction, def: &TableDef, schema: &str) -> Result<()> {
        self.check_schema(active, schema)?;
        if def.schema == schema {
            return Ok(());
        }
        let indexes = def.indexes.iter().map(|index| &index.name);
        for name in [&def.name].into_iter().chain(def.primary_key.iter().map(|key| &key.name)).chain(indexes) {
            self.exchange_names(active, (&def.schema, name), (schema, name))?;
        }
        for sequence in active.catalog.owned_by(def.id).cloned().collect::<Vec<_>>() {
            self.move_sequence(active, &sequence, schema, &sequence.name)?;
        }
        self.replace_table(active, TableDef { schema: schema.to_owned(), ..def.clone() })
    }

    /// Renames a schema, and moves all that is in it.
    pub(super) fn rename_schema(&self, active: &mut ActiveTransaction, old: &str, new: String) -> Result<()> {
        if is_temporary(old) {
            return Err(SqlError::unsupported("renaming a schema of temporary objects"));
        }
        if active.catalog.schema(&new).is_some() {
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{new}\" already exists")));
        }
        if new.starts_with("pg_") {
            let message = format!("unacceptable schema name \"{new}\"");
            let detail = "The prefix \"pg_\" is reserved for system schemas.";
            return Err(SqlError::new(SqlState::RESERVED_NAME, message).detail(detail));
        }
        if active.catalog.types.all().iter().any(|ty| ty.schema == old) {
            return Err(SqlError::unsupported("renaming a schema that has types"));
        }
        let id = active.catalog.schema(old).expect("it was looked up");
        self.watch_schema(active, old)?;
        self.take_name(active, "", &new, true)?;
        self.apply(active, vec![Change::Put(Definition::Schema(SchemaDef { id, name: new.clone() }))])?;
        let tables: Vec<_> =
            active.catalog.tables().into_iter().filter(|table| table.def.schema == old).cloned().collect();
        self.take_newest(active, &tables, self.limits())?;
        for table in tables {
            self.move_table(active, &table.def, &new)?;
        }
        for view in active.catalog.plain_views().filter(|view| view.def.schema == old).cloned().collect::<Vec<_>>() {
            active.take_view(&view, self.limits())?;
            self.alter_view(active, &view, &AlterView::SetSchema(Ident::with_quote('"', &new)))?;
        }
        let sequences = active.catalog.sequences().into_iter().map(|sequence| sequence.def.clone());
        for sequence in sequences.filter(|sequence| sequence.schema == old).collect::<Vec<_>>() {
            self.move_sequence(active, &sequence, &new, &sequence.name)?;
        }
        self.take_name(active, "", old, false)
    }

    pub(super) fn rename_constraint(
        &self,
        active: &mut ActiveTransaction,
        mut def: TableDef,
        old: &str,
        new: String,
    ) -> Result<()> {
        let keys = active.catalog.foreign_keys_at(def.id).filter(|key| key.child == def.id && key.name == old);
        let key = keys.map(|key| (**key).clone()).next();
        let is_primary = def.primary_key.as_ref().is_some_and(|key| key.name == old);
        let index = def.indexes.iter().position(|index| index.is_constraint && index.name == old);
        let check = def.checks.iter().position(|check| check.name == old);
        if key.is_none() && !is_primary && index.is_none() && check.is_none() {
            return Err(no_constraint(old, &def.name));
        }
        if self.constraint_names(active, &def).contains(&new) {
            let message = format!("constraint \"{new}\" for relation \"{}\" already exists", def.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        match (key, check) {
            (Some(key), _) => {
                self.apply(active, vec![Change::Put(Definition::ForeignKey(ForeignKeyDef { name: new, ..key }))])
            }
            (None, Some(at)) => {
                def.checks[at].name = new.clone();
                let id = def.id;
                self.replace_table(active, def)?;
                self.move_comment(active, PG_CONSTRAINT, id, old, |comment| comment.check = new)
            }
            (None, None) => self.rename_index(active, def, index, new),
        }
    }
}
