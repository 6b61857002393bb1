//! Owners of objects: the creator owns a new object, ALTER .. OWNER TO, REASSIGN OWNED, DROP OWNED. Rights go with their
//! objects.

use std::collections::BTreeSet;

use sqlparser::ast::Ident;

use super::{context::ChangeContext, grant_tree::RightsTree};
use crate::{
    bind::names::name_of,
    catalog::{
        Change,
        comments::PG_AUTHID,
        databases::no_database,
        definition::{Definition, FIRST_OBJECT, Grant, ObjectId, RightsDef, TraitsDef},
        grants::change_owner,
        rights::{Kind, Object, Rights, no_right_to, not_owner},
        roles::SUPERUSER,
    },
    error::{Result, SqlError, SqlState},
    functions::quote_ident,
    parse,
    result::RowSink,
    transaction::ActiveTransaction,
};

impl ChangeContext<'_> {
    /// Returns the changes that make the role that creates objects their owner. Objects without such a record belong to
    /// the first superuser.
    pub(super) fn owners_of_new(&self, active: &ActiveTransaction, changes: &[Change]) -> Result<Vec<Change>> {
        let mut owned = Vec::new();
        for change in changes {
            let Change::Put(definition) = change else { continue };
            let catalog = &active.catalog;
            let is_temporary = match definition {
                Definition::Table(def) => crate::catalog::temporary::is_temporary(&def.schema),
                Definition::View(def) => crate::catalog::temporary::is_temporary(&def.schema),
                Definition::Sequence(def) => crate::catalog::temporary::is_temporary(&def.schema),
                Definition::Schema(def) => crate::catalog::temporary::is_temporary(&def.name),
                _ => false,
            };
            if is_temporary && matches!(definition, Definition::Schema(_)) {
                continue;
            }
            let (kind, is_known, of) = match definition {
                Definition::Table(def) => (Kind::Table, catalog.table(def.id).is_some(), None),
                Definition::View(def) => (Kind::Table, catalog.view(def.id).is_some(), None),
                Definition::Sequence(def) => (Kind::Sequence, catalog.sequence(def.id).is_some(), def.owner),
                Definition::Schema(def) => (Kind::Schema, catalog.schemas().any(|(_, id)| id == def.id), None),
                Definition::Type(ty) => (Kind::Type, catalog.types.get(ty.oid).is_some(), None),
                Definition::Database(def) => {
                    (Kind::Database, def.is_dropped || catalog.database(def.id).is_some(), None)
                }
                Definition::Publication(def) => {
                    (Kind::Publication, catalog.publications().any(|known| known.id == def.id), None)
                }
                _ => continue,
            };
            // The sequence of a column belongs to the owner of the table.
            let table =
                of.map(|(table, _)| Object::new(Kind::Table, table)).filter(|of| catalog.table(of.id).is_some());
            let owner = table.map_or(self.environment.role, |table| catalog.owner(table));
            let schema = match definition {
                Definition::Table(def) => catalog.schema(&def.schema),
                Definition::View(def) => catalog.schema(&def.schema),
                Definition::Sequence(def) => catalog.schema(&def.schema),
                Definition::Type(ty) => catalog.schema(&ty.schema),
                _ => None,
            };
            let granted = || catalog.granted_of_new(owner, kind, schema).filter(|_| !is_temporary);
            if !is_known
                && let granted = granted()
                && (owner != SUPERUSER || granted.is_some())
            {
                let object = Object::new(kind, definition.id());
                let rights = RightsDef { owner, granted, ..no_rights(object) };
                owned.extend(self.new_rights(active, object, rights, is_temporary)?);
            }
        }
        Ok(owned)
    }

    /// Returns the changes that replace what is stored of an object's owner and rights, and takes them: those of a
    /// temporary object are not stored.
    pub(super) fn new_rights(
        &self,
        active: &ActiveTransaction,
        object: Object,
        rights: RightsDef,
        is_temporary: bool,
    ) -> Result<Vec<Change>> {
        let known = active.catalog.rights(object);
        let id = self.catalog_number()?;
        let place = (object.class(), object.id);
        if !is_temporary {
            self.store.take_rights(&active.txn, place, known.map(|known| known.id), Some(id))?;
        }
        let old = known.map(|known| Change::Drop(Definition::Rights(known.clone())));
        let grants = rights.granted.iter().flatten().chain(rights.columns.iter().flat_map(|(_, granted)| granted));
        let named = grants.flat_map(|grant| [grant.role, grant.grantor]).chain([rights.owner]);
        if !is_temporary {
            self.use_roles(active, named)?;
        }
        let new = Change::Put(Definition::Rights(RightsDef { id, ..rights }));
        Ok(old.into_iter().chain([new]).collect())
    }

    /// Makes sure that roles that get rights stay.
    pub(super) fn use_roles(&self, active: &ActiveTransaction, named: impl Iterator<Item = ObjectId>) -> Result<()> {
        let mut named: BTreeSet<_> = named.collect();
        for role in active.catalog.roles() {
            if named.remove(&role.id) {
                self.store.use_role(&active.txn, role, active.is_serializable())?;
            }
        }
        // The session of a role that was dropped creates nothing: it would have no owner.
        match named.into_iter().find(|role| *role >= FIRST_OBJECT) {
            None => Ok(()),
            Some(gone) => {
                let message = format!("role {gone} was concurrently dropped");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// Stores what a change makes of an object's owner and rights.
    pub(super) fn put_rights(&self, active: &mut ActiveTransaction, object: Object, rights: RightsDef) -> Result<()> {
        let changes = self.new_rights(active, object, rights, active.catalog.is_temporary(object.id))?;
        self.apply(active, changes)
    }

    /// Returns what is stored of an object's owner and rights, or what stands for nothing.
    pub(super) fn rights_of(&self, active: &ActiveTransaction, object: Object) -> RightsDef {
        let owner = active.catalog.owner(object);
        active.catalog.rights(object).cloned().unwrap_or(RightsDef { owner, ..no_rights(object) })
    }

    /// Stores the attributes of a role.
    pub(super) fn put_traits(&self, active: &mut ActiveTransaction, traits: TraitsDef) -> Result<()> {
        let known = active.catalog.stored_traits(traits.role).cloned();
        let id = self.catalog_number()?;
        let place = (PG_AUTHID, traits.role);
        self.store.take_rights(&active.txn, place, known.as_ref().map(|known| known.id), Some(id))?;
        self.use_roles(active, traits.member_of.iter().map(|of| of.role))?;
        let old = known.map(|known| Change::Drop(Definition::Traits(known)));
        let new = Change::Put(Definition::Traits(TraitsDef { id, ..traits }));
        self.apply(active, old.into_iter().chain([new]).collect())
    }

    /// Removes the attributes of a role that is dropped.
    pub(super) fn drop_traits(&self, active: &mut ActiveTransaction, role: ObjectId) -> Result<()> {
        let Some(known) = active.catalog.stored_traits(role).cloned() else { return Ok(()) };
        self.store.take_rights(&active.txn, (PG_AUTHID, role), Some(known.id), None)?;
        self.apply(active, vec![Change::Drop(Definition::Traits(known))])
    }

    /// Removes the rights of objects and columns that the statement has removed.
    pub(super) fn drop_rights(&self, active: &mut ActiveTransaction) -> Result<()> {
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for rights in active.catalog.all_rights() {
            if !active.catalog.has_rights_object(rights) {
                gone.push(rights.clone());
            } else if let Some(table) = active.catalog.table(rights.object) {
                let is_gone = |at: usize| table.def.columns.get(at).is_none_or(|column| column.is_dropped);
                if rights.columns.iter().any(|(at, _)| is_gone(*at)) {
                    let mut rights = rights.clone();
                    rights.columns.retain(|(at, _)| !is_gone(*at));
                    changed.push(rights);
                }
            }
        }
        for rights in gone {
            if !active.catalog.is_temporary(rights.object) {
                self.store.take_rights(&active.txn, (rights.class, rights.object), Some(rights.id), None)?;
            }
            self.apply(active, vec![Change::Drop(Definition::Rights(rights))])?;
        }
        for rights in changed {
            self.put_rights(active, Object::new(Kind::Table, rights.object), rights)?;
        }
        Ok(())
    }

    /// Gives the rights of a sequence to another one, which replaces it.
    pub(super) fn move_rights(&self, active: &mut ActiveTransaction, old: ObjectId, new: ObjectId) -> Result<()> {
        let known = active.catalog.rights(Object::new(Kind::Sequence, old)).cloned();
        match known {
            Some(known) => {
                self.put_rights(active, Object::new(Kind::Sequence, new), RightsDef { object: new, ..known })
            }
            None => Ok(()),
        }
    }

    /// Returns the name of an object, with its schema where it is not found without.
    pub(super) fn shown_name(&self, active: &ActiveTransaction, object: Object) -> String {
        let Some((_, parts)) = active.catalog.full_name(object) else { return self.environment.database.to_string() };
        let is_visible = |schema: &String| self.search_path.contains(schema);
        let shown = if let [schema, name] = &parts[..]
            && is_visible(schema)
        {
            std::slice::from_ref(name)
        } else {
            &parts
        };
        shown.iter().map(|part| quote_ident(part)).collect::<Vec<_>>().join(".")
    }

    /// Returns the number of the role that a word stands for.
    pub(super) fn role_meant(&self, active: &ActiveTransaction, role: &Ident) -> Result<ObjectId> {
        let name = name_of(role);
        match &*name {
            "current_user" | "current_role" if role.quote_style.is_none() => return Ok(self.environment.role),
            "session_user" if role.quote_style.is_none() => return Ok(self.environment.login),
            _ => {}
        }
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        active.catalog.role_number(&name, self.environment).ok_or_else(missing)
    }

    /// Runs ALTER .. OWNER TO, with the owner's rights checked.
    pub(super) fn alter_owner(&self, active: &mut ActiveTransaction, object: Object, owner: &Ident) -> Result<()> {
        let new = self.role_meant(active, owner)?;
        let catalog = &active.catalog;
        let (role, schema) = (self.environment.role, catalog.schema_of(object));
        if new != catalog.owner(object) && !catalog.is_superuser(role) {
            if !catalog.owns(role, object) {
                let (kind, name) = catalog.described(object);
                return Err(not_owner(kind, &name));
            }
            if !catalog.is_member(role, new) {
                let name = catalog.role_name(new, self.environment).unwrap_or_default();
                let message = format!("must be member of role \"{name}\"");
                return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
            }
            let (place, name, acting) = match schema {
                Some(schema) => (catalog.schema(&schema).map(|id| Object::new(Kind::Schema, id)), schema, new),
                None => {
                    (Some(Object::new(Kind::Database, catalog.number)), self.environment.database.to_string(), role)
                }
            };
            if object.kind != Kind::Database
                && place.is_some_and(|place| !catalog.has_any(acting, place, Rights::CREATE))
            {
                let is_of_database = matches!(object.kind, Kind::Schema | Kind::Publication);
                let kind = if is_of_database { "database" } else { "schema" };
                return Err(no_right_to(kind, &name));
            }
        }
        self.give_to(active, object, new)
    }

    /// Makes a role the owner of an object, and of the sequences of its columns.
    fn give_to(&self, active: &mut ActiveTransaction, object: Object, new: ObjectId) -> Result<()> {
        let mut rights = self.rights_of(active, object);
        let old = std::mem::replace(&mut rights.owner, new);
        if old == new {
            return Ok(());
        }
        let lists = rights.granted.iter_mut().chain(rights.columns.iter_mut().map(|(_, granted)| granted));
        lists.for_each(|list: &mut Vec<Grant>| change_owner(list, old, new));
        self.put_rights(active, object, rights)?;
        let owned: Vec<_> = active.catalog.owned_by(object.id).map(|sequence| sequence.id).collect();
        owned.into_iter().try_for_each(|id| self.give_to(active, Object::new(Kind::Sequence, id), new))
    }

    /// Runs REASSIGN OWNED, DROP OWNED and ALTER DATABASE .. OWNER TO.
    pub(super) fn change_owned(
        &self,
        active: &mut ActiveTransaction,
        tree: &RightsTree,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let denied = |what: &str| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        let role = self.environment.role;
        match tree {
            RightsTree::Reassign { from, to } => {
                let from: Vec<_> = from.iter().map(|role| self.role_meant(active, role)).collect::<Result<_>>()?;
                let to = self.role_meant(active, to)?;
                if from.iter().chain([&to]).any(|one| !active.catalog.has_role(role, *one)) {
                    return denied("permission denied to reassign objects");
                }
                self.check_not_first(active, &from, "reassign ownership of")?;
                for object in active.catalog.owned_objects(&from) {
                    self.give_to(active, object, to)?;
                }
                Ok(())
            }
            RightsTree::DropOwned { roles, cascade } => {
                let roles: Vec<_> = roles.iter().map(|role| self.role_meant(active, role)).collect::<Result<_>>()?;
                if roles.iter().any(|one| !active.catalog.has_role(role, *one)) {
                    return denied("permission denied to drop objects");
                }
                self.check_not_first(active, &roles, "drop")?;
                self.drop_owned(active, &roles, *cascade, rows)
            }
            RightsTree::DatabaseOwner { database, owner } => {
                let number = self.database_named(active, &name_of(database))?;
                self.alter_owner(active, Object::new(Kind::Database, number), owner)
            }
            RightsTree::Objects(_) | RightsTree::Roles(_) | RightsTree::Defaults(_) | RightsTree::Unsupported(_) => {
                Ok(())
            }
        }
    }

    /// Fails if a role is the first superuser, or one that is built in.
    fn check_not_first(&self, active: &ActiveTransaction, roles: &[ObjectId], what: &str) -> Result<()> {
        let Some(first) = roles.iter().find(|role| **role < FIRST_OBJECT) else {
            return Ok(());
        };
        let name = active.catalog.role_name(*first, self.environment).unwrap_or_default();
        let message =
            format!("cannot {what} objects owned by role {name} because they are required by the database system");
        Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message))
    }

    /// Returns the number of the database of that name, which stays until the transaction ends.
    pub(super) fn database_named(&self, active: &ActiveTransaction, name: &str) -> Result<ObjectId> {
        let number = active.catalog.database_number(name, &self.environment.database);
        let number = number.ok_or_else(|| no_database(name))?;
        if let Some(known) = active.catalog.database(number) {
            self.store.use_database(&active.txn, known, active.is_serializable())?;
        }
        Ok(number)
    }

    /// Drops the objects of roles, and revokes their rights to others.
    fn drop_owned(
        &self,
        active: &mut ActiveTransaction,
        roles: &[ObjectId],
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let is_theirs = |grant: &Grant| roles.contains(&grant.role);
        let all: Vec<_> = active.catalog.all_rights().cloned().collect();
        for mut rights in all.into_iter().filter(|rights| !roles.contains(&rights.owner)) {
            let lists = rights.granted.iter().flatten().chain(rights.columns.iter().flat_map(|(_, granted)| granted));
            if !lists.into_iter().any(is_theirs) {
                continue;
            }
            rights.granted.iter_mut().for_each(|list| list.retain(|grant| !is_theirs(grant)));
            rights.columns.iter_mut().for_each(|(_, list)| list.retain(|grant| !is_theirs(grant)));
            rights.columns.retain(|(_, list)| !list.is_empty());
            if let Some(object) = active.catalog.object_of(&rights) {
                self.put_rights(active, object, rights)?;
            }
        }
        roles.iter().try_for_each(|role| self.drop_policies_of(active, *role))?;
        roles.iter().try_for_each(|role| self.drop_default_rights_of(active, *role))?;
        let behavior = if cascade { "CASCADE" } else { "RESTRICT" };
        let mut objects = active.catalog.owned_objects(roles);
        // Objects that depend on others come first.
        objects.sort_by_key(|object| {
            let is_view = active.catalog.view(object.id).is_some();
            let place = match object.kind {
                Kind::Table | Kind::Column if is_view => 0,
                Kind::Table | Kind::Column => 1,
                Kind::Sequence => 2,
                Kind::Type => 3,
                Kind::Publication | Kind::Schema | Kind::Database => 4,
            };
            (place, std::cmp::Reverse(object.id))
        });
        for object in objects.into_iter().filter(|object| object.kind != Kind::Database) {
            // It may have gone with another one.
            let Some((kind, name)) = active.catalog.full_name(object) else { continue };
            let name = name.iter().map(|part| quote_ident(part)).collect::<Vec<_>>().join(".");
            let text = format!("DROP {kind} {name} {behavior}");
            self.run_drop(active, object, &text, cascade, rows)?;
        }
        Ok(())
    }

    fn run_drop(
        &self,
        active: &mut ActiveTransaction,
        object: Object,
        text: &str,
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        if object.kind == Kind::Type {
            return self.drop_type(active, object.id, cascade, rows);
        }
        let publication = active.catalog.publications().find(|known| known.id == object.id).cloned();
        if let Some(publication) = publication {
            return self.drop_publication(active, publication);
        }
        let parsed = parse::parser(text)?.parse_statement();
        let statement = parsed.map_err(|error| parse::failure(text, &error))?;
        self.drop_objects(active, &statement, rows).map(drop)
    }
}

/// Returns the record of an object without rights of its own.
fn no_rights(object: Object) -> RightsDef {
    let (class, object) = (object.class(), object.id);
    RightsDef { id: 0, class, object, owner: SUPERUSER, granted: None, columns: Vec::new() }
}
