//! CREATE, ALTER and DROP PUBLICATION.
//!
//! Publications have no latch. A change reads the publication's row and writes it, and a name has a row of its own, so
//! of two changes at the same time one loses. A table is not held: changes of the table that commit after the
//! publication has it are published, whenever their transactions began.

use sqlparser::ast::{Ident, ObjectName};

use super::{
    context::ChangeContext,
    publication_tree::{Members, PublicationChange, PublicationTree, Setting},
    skip,
};
use crate::{
    bind::{names::name_of, plain},
    catalog::{
        Change, Relation,
        definition::{Definition, ObjectId},
        publication::{Kinds, Member, PublicationDef},
        rights::{Kind, Object, Rights, no_right, not_owner},
        temporary::is_temporary,
    },
    error::{Result, SqlError, SqlState},
    logical::no_publication,
    result::RowSink,
    transaction::ActiveTransaction,
};

impl ChangeContext<'_> {
    /// Runs such a statement; returns the tag.
    pub(super) fn change_publication(
        &self,
        active: &mut ActiveTransaction,
        tree: &PublicationTree,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match tree {
            PublicationTree::Create { name, members, options } => {
                self.create_publication(active, &name_of(name), members.as_ref(), options, rows)?;
            }
            PublicationTree::Alter(name, change) => {
                let name = name_of(name);
                let known = active.catalog.publication(&name).cloned().ok_or_else(|| no_publication(&name))?;
                self.check_owns_publication(active, &known)?;
                self.alter_publication(active, known, change)?;
            }
            PublicationTree::Drop { names, if_exists } => {
                for name in names.iter().map(name_of) {
                    match active.catalog.publication(&name).cloned() {
                        Some(known) => {
                            self.check_owns_publication(active, &known)?;
                            self.drop_publication(active, known)?;
                        }
                        None if *if_exists => {
                            let message = format!("publication \"{name}\" does not exist, skipping");
                            skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                        }
                        None => return Err(no_publication(&name)),
                    }
                }
            }
        }
        Ok(tree.words().into())
    }

    /// Removes a publication.
    pub(super) fn drop_publication(&self, active: &mut ActiveTransaction, known: PublicationDef) -> Result<()> {
        self.store.check_publication(&active.txn, &known)?;
        self.store.take_publication_name(&active.txn, &known.name, false)?;
        self.apply(active, vec![Change::Drop(Definition::Publication(known))])
    }

    fn create_publication(
        &self,
        active: &mut ActiveTransaction,
        name: &str,
        members: Option<&Members>,
        options: &[Setting],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let database = Object::new(Kind::Database, active.catalog.number);
        if !active.catalog.has_any(self.environment.role, database, Rights::CREATE) {
            return Err(no_right(&active.catalog, database));
        }
        if active.catalog.publication(name).is_some() {
            let message = format!("publication \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let has_all = members.is_some_and(|members| members.has_all);
        let mut new = PublicationDef {
            id: self.catalog_number()?,
            name: name.into(),
            has_all,
            tables: Vec::new(),
            schemas: Vec::new(),
            kinds: kinds(options, Kinds::ALL)?,
        };
        if has_all {
            self.check_superuser(active, "create FOR ALL TABLES publication")?;
        }
        if let Some(members) = members {
            let (tables, schemas) = self.members(active, members, "create FOR TABLES IN SCHEMA publication")?;
            (new.tables, new.schemas) = (self.numbered(&tables)?, self.numbered(&schemas)?);
        }
        self.store.take_publication_name(&active.txn, name, true)?;
        self.apply(active, vec![Change::Put(Definition::Publication(new))])?;
        if !self.database.logs_keys() {
            let message = "wal_level is insufficient to publish logical changes";
            let warning = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
            rows.notice("WARNING", &warning.hint("Set wal_level to \"logical\" before creating subscriptions."));
        }
        Ok(())
    }

    fn alter_publication(
        &self,
        active: &mut ActiveTransaction,
        known: PublicationDef,
        change: &PublicationChange,
    ) -> Result<()> {
        let object = Object::new(Kind::Publication, known.id);
        let mut new = known.clone();
        match change {
            PublicationChange::OwnerTo(owner) => return self.alter_owner(active, object, owner),
            PublicationChange::Rename(name) => {
                new.name = name_of(name);
                if active.catalog.publication(&new.name).is_some() {
                    let message = format!("publication \"{}\" already exists", new.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                self.store.take_publication_name(&active.txn, &known.name, false)?;
                self.store.take_publication_name(&active.txn, &new.name, true)?;
            }
            PublicationChange::Options(options) => new.kinds = kinds(options, known.kinds)?,
            PublicationChange::Add(members) | PublicationChange::Set(members) | PublicationChange::Drop(members) => {
                if known.has_all {
                    return Err(for_all(&known.name, members));
                }
                let (tables, schemas) = self.members(active, members, "add or set schemas")?;
                match change {
                    PublicationChange::Drop(_) => {
                        drop_members(&mut new.tables, &tables, "relation", "is not part of the publication")?;
                        drop_members(
                            &mut new.schemas,
                            &schemas,
                            "tables from schema",
                            "are not part of the publication",
                        )?;
                    }
                    PublicationChange::Set(_) => {
                        (new.tables, new.schemas) = (self.numbered(&tables)?, self.numbered(&schemas)?);
                    }
                    _ => {
                        check_new(&known, &known.tables, &tables, "relation")?;
                        check_new(&known, &known.schemas, &schemas, "schema")?;
                        new.tables.extend(self.numbered(&tables)?);
                        new.schemas.extend(self.numbered(&schemas)?);
                    }
                }
            }
        }
        self.store.check_publication(&active.txn, &known)?;
        self.apply(active, vec![Change::Put(Definition::Publication(new))])
    }

    /// Returns the tables and schemas of a list, with their names, each once.
    fn members(&self, active: &ActiveTransaction, members: &Members, what: &str) -> Result<(Named, Named)> {
        if let Some(what) = members.unsupported {
            return Err(SqlError::unsupported(what));
        }
        if !members.schemas.is_empty() {
            self.check_superuser(active, what)?;
        }
        let (mut tables, mut schemas) = (Named::new(), Named::new());
        for name in &members.tables {
            let id = self.published_table(active, name)?;
            if tables.iter().all(|(known, _)| *known != id) {
                tables.push((id, plain(name)));
            }
        }
        for name in &members.schemas {
            let (id, name) = self.published_schema(active, name)?;
            if schemas.iter().all(|(known, _)| *known != id) {
                schemas.push((id, name));
            }
        }
        Ok((tables, schemas))
    }

    fn published_table(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<ObjectId> {
        let refused = |what: &str| {
            let message = format!("cannot add relation \"{}\" to publication", plain(name));
            let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
            Err(error.detail(format!("This operation is not supported for {what}.")))
        };
        match self.find(active, name)? {
            Some(Relation::Table(table)) if table.def.materialized.is_some() => refused("materialized views"),
            Some(Relation::Table(table)) if is_temporary(&table.def.schema) => refused("temporary tables"),
            Some(Relation::Table(table)) => {
                let object = Object::new(Kind::Table, table.def.id);
                match active.catalog.owns(self.environment.role, object) {
                    true => Ok(table.def.id),
                    false => Err(not_owner("table", &table.def.name)),
                }
            }
            Some(Relation::View(_)) => refused("views"),
            Some(Relation::Sequence(_)) => refused("sequences"),
            Some(Relation::Index(..)) => refused("indexes"),
            None => {
                let message = format!("relation \"{}\" does not exist", plain(name));
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message))
            }
        }
    }

    fn published_schema(&self, active: &ActiveTransaction, name: &Ident) -> Result<(ObjectId, String)> {
        let name = match name_of(name) {
            word if word == "current_schema" && name.quote_style.is_none() => self.search_path.first().cloned(),
            name => Some(name),
        };
        let name = name.unwrap_or_default();
        match active.catalog.schema(&name) {
            Some(id) => Ok((id, name)),
            None => {
                let message = format!("schema \"{name}\" does not exist");
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message))
            }
        }
    }

    fn numbered(&self, named: &Named) -> Result<Vec<Member>> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.catalog_numbers(named.len() as u32)?;
        Ok((first..).zip(named).map(|(id, (of, _))| Member { id, of: *of }).collect())
    }

    fn check_owns_publication(&self, active: &ActiveTransaction, known: &PublicationDef) -> Result<()> {
        match active.catalog.owns(self.environment.role, Object::new(Kind::Publication, known.id)) {
            true => Ok(()),
            false => Err(not_owner("publication", &known.name)),
        }
    }

    fn check_superuser(&self, active: &ActiveTransaction, what: &str) -> Result<()> {
        match active.catalog.is_superuser(self.environment.role) {
            true => Ok(()),
            false => Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be superuser to {what}"))),
        }
    }
}

/// Objects by number, with their names.
type Named = Vec<(ObjectId, String)>;

/// Returns the error of a change of the members of a publication that has all tables.
fn for_all(name: &str, members: &Members) -> SqlError {
    let message = format!("publication \"{name}\" is defined as FOR ALL TABLES");
    let what = if members.schemas.is_empty() { "Tables" } else { "Schemas" };
    let detail = format!("{what} cannot be added to or dropped from FOR ALL TABLES publications.");
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).detail(detail)
}

fn check_new(known: &PublicationDef, members: &[Member], new: &Named, what: &str) -> Result<()> {
    match new.iter().find(|(of, _)| members.iter().any(|member| member.of == *of)) {
        None => Ok(()),
        Some((_, name)) => {
            let message = format!("{what} \"{name}\" is already member of publication \"{}\"", known.name);
            Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message))
        }
    }
}

fn drop_members(members: &mut Vec<Member>, gone: &Named, kind: &str, absent: &str) -> Result<()> {
    for (of, name) in gone {
        let at = members.iter().position(|member| member.of == *of);
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("{kind} \"{name}\" {absent}"));
        members.remove(at.ok_or_else(missing)?);
    }
    Ok(())
}

/// Returns the kinds of changes that options ask for; `kinds` are those without a word about them.
fn kinds(options: &[Setting], mut kinds: Kinds) -> Result<Kinds> {
    let syntax_error = |message: String| SqlError::new(SqlState::SYNTAX_ERROR, message);
    for (name, value) in options {
        match &**name {
            "publish" => {
                kinds = Kinds { insert: false, update: false, delete: false, truncate: false };
                let value = value.as_deref().unwrap_or_default();
                for word in value.split(',').map(|word| word.trim().to_lowercase()).filter(|word| !word.is_empty()) {
                    match &*word {
                        "insert" => kinds.insert = true,
                        "update" => kinds.update = true,
                        "delete" => kinds.delete = true,
                        "truncate" => kinds.truncate = true,
                        _ => {
                            let what = "unrecognized value for publication option";
                            return Err(syntax_error(format!("{what} \"publish\": \"{word}\"")));
                        }
                    }
                }
            }
            // No table has partitions.
            "publish_via_partition_root" => {}
            _ => return Err(syntax_error(format!("unrecognized publication parameter: \"{name}\""))),
        }
    }
    Ok(kinds)
}
