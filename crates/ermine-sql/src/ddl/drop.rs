//! DROP and TRUNCATE.

use sqlparser::ast::{self, ObjectType, Statement};

use super::{
    context::ChangeContext,
    dependents::{Dependents, view_in_words},
    skip,
};
use crate::{
    bind::{Binder, names::simple_name, plain},
    catalog::{
        Change, Relation, View,
        comments::PG_CLASS,
        definition::{DefaultDef, Definition, SchemaDef, SequenceDef, TableDef},
        rights::{Kind, Object, not_owner},
        temporary::is_temporary,
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    result::RowSink,
    transaction::ActiveTransaction,
};

impl ChangeContext<'_> {
    pub(super) fn drop_objects(
        &self,
        active: &mut ActiveTransaction,
        drop: &Statement,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let Statement::Drop { object_type, if_exists, names, cascade, restrict: _, purge, temporary, table } = drop
        else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "not a DROP"));
        };
        if *purge || *temporary || table.is_some() {
            return Err(SqlError::unsupported("this form of DROP"));
        }
        // Tables and views that are dropped together may refer to one another.
        let mut together = Vec::new();
        for name in names {
            match (object_type, self.find(active, name)?) {
                (ObjectType::Table | ObjectType::MaterializedView, Some(Relation::Table(table))) => {
                    together.push(table.def.id);
                }
                (ObjectType::View, Some(Relation::View(view))) => together.push(view.def.id),
                _ => {}
            }
        }
        for name in names {
            if *object_type == ObjectType::Schema {
                self.drop_schema(active, name, *if_exists, *cascade, rows)?;
                continue;
            }
            match (object_type, self.find(active, name)?) {
                (ObjectType::MaterializedView, Some(Relation::Table(table))) if table.def.materialized.is_some() => {
                    active.take(&table, self.limits())?;
                    let view = active.catalog.view(table.def.id).cloned().expect("its query is a view");
                    self.drop_view(active, &view, &together, *cascade, rows)?;
                }
                (ObjectType::Table, Some(Relation::Table(table))) if table.def.materialized.is_none() => {
                    let table = self.table_alone(active, name, false)?.expect("it has just been found");
                    self.drop_table(active, &table.def, &together, *cascade, rows)?;
                }
                (ObjectType::Index, Some(Relation::Index(table, Some(at)))) => {
                    if table.def.indexes[at].is_constraint {
                        let message = format!("cannot drop index {} because a constraint requires it", plain(name));
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                    }
                    active.take(&table, self.limits())?;
                    let mut def = table.def.clone();
                    let index = def.indexes.remove(at);
                    let (what, keys) = (format!("index {}", index.name), self.without_index(active, &def));
                    self.drop_dependents(active, (&what, &what), keys, (*cascade, &[]), rows)?;
                    self.take_name(active, &def.schema, &index.name, false)?;
                    self.replace_table(active, def)?;
                }
                (ObjectType::Index, Some(Relation::Index(..))) => {
                    let message = format!("cannot drop index {} because a primary key requires it", plain(name));
                    return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                }
                (ObjectType::Sequence, Some(Relation::Sequence(sequence))) => {
                    if self.is_drawn_from(active, sequence.def.id, None)? {
                        let message =
                            format!("cannot drop sequence {} because other objects depend on it", plain(name));
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                    }
                    let dependents = Dependents::using(&active.catalog, sequence.def.id, None);
                    let what = format!("sequence {}", sequence.def.name);
                    self.drop_dependents(active, (&what, &what), dependents, (*cascade, &[]), rows)?;
                    self.check_sequence(active, &sequence.def)?;
                    self.take_name(active, &sequence.def.schema, &sequence.def.name, false)?;
                    self.apply(active, vec![Change::Drop(Definition::Sequence(sequence.def.clone()))])?;
                }
                (ObjectType::View, Some(Relation::View(view))) => {
                    active.take_view(&view, self.limits())?;
                    self.drop_view(active, &view, &together, *cascade, rows)?;
                }
                (
                    ObjectType::Table
                    | ObjectType::Index
                    | ObjectType::Sequence
                    | ObjectType::View
                    | ObjectType::MaterializedView,
                    None,
                ) => {
                    let kind = object_type.to_string().to_lowercase();
                    let message = format!("{kind} \"{}\" does not exist", plain(name));
                    if !if_exists {
                        let state = if *object_type == ObjectType::Index {
                            SqlState::UNDEFINED_OBJECT
                        } else {
                            SqlState::UNDEFINED_TABLE
                        };
                        return Err(SqlError::new(state, message));
                    }
                    skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
                }
                (
                    ObjectType::Table
                    | ObjectType::Index
                    | ObjectType::Sequence
                    | ObjectType::View
                    | ObjectType::MaterializedView,
                    Some(found),
                ) => {
                    return Err(wrong_kind(object_type, name, &found));
                }
                (other, _) => return Err(SqlError::unsupported(format_args!("DROP {other}"))),
            }
        }
        Ok(format!("DROP {object_type}"))
    }

    /// Whether a column of any table draws its values from a sequence.
    pub(super) fn is_drawn_from(&self, active: &ActiveTransaction, sequence: u32, except: Option<u32>) -> Result<bool> {
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        for table in active.catalog.tables().into_iter().filter(|table| Some(table.def.id) != except) {
            for at in 0..table.def.columns.len() {
                let default = binder.default_of(table, at)?;
                if default.has(&|inner| matches!(inner, Expr::Next(of) if of.0.def.id == sequence)) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Drops a table with all that belongs to it. Other tables may refer to it only if they are dropped `together`.
    fn drop_table(
        &self,
        active: &mut ActiveTransaction,
        def: &TableDef,
        together: &[u32],
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let keys = active.catalog.foreign_keys_at(def.id).cloned();
        let (own, others): (Vec<_>, Vec<_>) = keys.partition(|key| together.contains(&key.child));
        let what = format!("table {}", def.name);
        let mut dependents = Dependents { keys: others, ..Dependents::using(&active.catalog, def.id, None) };
        dependents.policies.retain(|policy| policy.table != def.id);
        self.drop_dependents(active, (&what, &what), dependents, (cascade, &[]), rows)?;
        self.drop_foreign_keys(active, own)?;
        self.remove_table(active, def)
    }

    /// Removes a table on which nothing depends, with its indexes and sequences.
    pub(super) fn remove_table(&self, active: &mut ActiveTransaction, def: &TableDef) -> Result<()> {
        let mut changes = vec![Change::Drop(Definition::Table(def.clone()))];
        let security = active.catalog.row_security(def.id).map(|security| (**security).clone());
        changes.extend(security.map(|security| Change::Drop(Definition::RowSecurity(security))));
        let indexes = def.indexes.iter().map(|index| &index.name);
        for name in [&def.name].into_iter().chain(def.primary_key.iter().map(|key| &key.name)).chain(indexes) {
            self.take_name(active, &def.schema, name, false)?;
        }
        for sequence in active.catalog.owned_by(def.id).cloned().collect::<Vec<_>>() {
            self.check_sequence(active, &sequence)?;
            self.take_name(active, &sequence.schema, &sequence.name, false)?;
            changes.push(Change::Drop(Definition::Sequence(sequence)));
        }
        self.apply(active, changes)
    }

    /// Drops a table that no other session uses, with all that depends on it.
    pub(super) fn drop_with_all(&self, active: &mut ActiveTransaction, def: &TableDef) -> Result<()> {
        self.drop_table(active, def, &[], true, &mut crate::result::RowSet::default())?;
        self.drop_comments(active)?;
        self.drop_rights(active)
    }

    /// Drops a view that the transaction holds alone. Other views may use it only if they are dropped `together`.
    pub(super) fn drop_view(
        &self,
        active: &mut ActiveTransaction,
        view: &View,
        together: &[u32],
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let what = view_in_words(&active.catalog, view);
        let dependents = Dependents::using(&active.catalog, view.def.id, None);
        self.drop_dependents(active, (&what, &what), dependents, (cascade, together), rows)?;
        self.forget_view(active, view)
    }

    fn drop_schema(
        &self,
        active: &mut ActiveTransaction,
        name: &ast::ObjectName,
        if_exists: bool,
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let name = simple_name(name)?;
        if is_temporary(&name) && active.catalog.schema(&name).is_some() {
            let error = SqlError::unsupported("DROP SCHEMA of a schema of temporary objects");
            return Err(error.hint("DISCARD TEMP drops the temporary objects of the session."));
        }
        let Some(id) = active.catalog.schema(&name) else {
            let message = format!("schema \"{name}\" does not exist");
            if !if_exists {
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            skip(rows, SqlState::SUCCESSFUL_COMPLETION, format!("{message}, skipping"));
            return Ok(());
        };
        self.watch_schema(active, &name)?;
        let tables: Vec<_> =
            active.catalog.tables().into_iter().filter(|table| table.def.schema == name).cloned().collect();
        let sequences = active.catalog.sequences().into_iter().map(|sequence| sequence.def.clone());
        let sequences: Vec<_> = sequences.filter(|sequence| sequence.schema == name).collect();
        let types = active.catalog.types.all().into_iter().filter(|ty| ty.schema == name);
        let types: Vec<_> = types.map(|ty| ty.oid).collect();
        let views: Vec<_> = active.catalog.views().filter(|view| view.def.schema == name).cloned().collect();
        let is_empty = tables.is_empty() && sequences.is_empty() && types.is_empty() && views.is_empty();
        if !cascade && !is_empty {
            let message = format!("cannot drop schema {name} because other objects depend on it");
            let hint = "Use DROP ... CASCADE to drop the dependent objects too.";
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).hint(hint));
        }
        for view in views {
            // It may have gone with another one.
            if active.catalog.view(view.def.id).is_some() {
                self.view_alone(active, &view)?;
                self.drop_view(active, &view, &[], true, rows)?;
            }
        }
        let tables: Vec<_> = tables.into_iter().filter(|table| active.catalog.table(table.def.id).is_some()).collect();
        let together: Vec<_> = tables.iter().map(|table| table.def.id).collect();
        for table in tables {
            active.take(&table, self.limits())?;
            self.drop_table(active, &table.def, &together, true, rows)?;
        }
        for sequence in
            sequences.into_iter().filter(|sequence| active.catalog.sequence(sequence.id).is_some()).collect::<Vec<_>>()
        {
            self.check_sequence(active, &sequence)?;
            self.take_name(active, &sequence.schema, &sequence.name, false)?;
            self.apply(active, vec![Change::Drop(Definition::Sequence(sequence))])?;
        }
        for ty in types {
            self.drop_type(active, ty, true, rows)?;
        }
        self.take_name(active, "", &name, false)?;
        self.apply(active, vec![Change::Drop(Definition::Schema(SchemaDef { id, name }))])
    }

    pub(super) fn truncate(
        &self,
        active: &mut ActiveTransaction,
        truncate: &ast::Truncate,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
            return Err(SqlError::unsupported("this form of TRUNCATE"));
        }
        let tables = self.truncated(active, truncate, rows)?;
        self.take_newest(active, &tables, self.limits())?;
        self.check_truncated(active, &tables)?;
        for table in tables {
            // The newest definition, now that it is held.
            let table = active.catalog.table(table.def.id).cloned().unwrap_or(table);
            // Empty tables of the engine replace the old ones.
            let mut def = table.def.clone();
            def.relation_file = self.relation_file(active, &def.schema)?;
            for index in &mut def.indexes {
                index.relation_file = self.relation_file(active, &def.schema)?;
            }
            if matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)) {
                self.restart_sequences(active, &mut def)?;
            }
            if !is_temporary(&def.schema) {
                self.store.note_truncation(&active.txn, &def)?;
            }
            self.replace_table(active, def)?;
        }
        Ok("TRUNCATE TABLE".into())
    }

    /// Replaces the sequences that belong to a table's columns by new ones: a number drawn from a sequence is not
    /// returned by a rollback.
    fn restart_sequences(&self, active: &mut ActiveTransaction, def: &mut TableDef) -> Result<()> {
        let owned: Vec<_> = active.catalog.owned_by(def.id).cloned().collect();
        for old in owned {
            if !active.catalog.owns(self.environment.role, Object::new(Kind::Sequence, old.id)) {
                return Err(not_owner("sequence", &old.name));
            }
            self.check_sequence(active, &old)?;
            let new = SequenceDef { id: self.catalog_number()?, ..old.clone() };
            for column in &mut def.columns {
                if column.default == Some(DefaultDef::NextOf(old.id)) {
                    column.default = Some(DefaultDef::NextOf(new.id));
                }
            }
            let (id, new_id) = (old.id, new.id);
            self.apply(active, vec![Change::Drop(Definition::Sequence(old)), Change::Put(Definition::Sequence(new))])?;
            self.move_comment(active, PG_CLASS, id, "", |comment| comment.object = new_id)?;
            self.move_rights(active, id, new_id)?;
        }
        Ok(())
    }
}

/// Returns the error of a relation that is of another kind than the statement drops.
fn wrong_kind(object_type: &ObjectType, name: &ast::ObjectName, found: &Relation) -> SqlError {
    let kind = object_type.to_string().to_lowercase();
    let article = if kind.starts_with('i') { "an" } else { "a" };
    let message = format!("\"{}\" is not {article} {kind}", plain(name));
    let (article, other) = match found {
        Relation::Table(table) if table.def.materialized.is_some() => ("a", "MATERIALIZED VIEW"),
        Relation::Table(_) => ("a", "TABLE"),
        Relation::View(_) => ("a", "VIEW"),
        Relation::Sequence(_) => ("a", "SEQUENCE"),
        Relation::Index(..) => ("an", "INDEX"),
    };
    let hint = format!("Use DROP {other} to remove {article} {}.", other.to_lowercase());
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint)
}
