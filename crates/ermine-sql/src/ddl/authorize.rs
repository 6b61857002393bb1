//! The right that each statement that changes the catalog needs, examined before the statement does anything.
//!
//! | statement | needs |
//! |---|---|
//! | CREATE TABLE, TABLE AS, SEQUENCE, VIEW, TYPE, DOMAIN | CREATE on the schema; USAGE of the types of columns |
//! | CREATE INDEX | the table's ownership, CREATE on its schema |
//! | CREATE SCHEMA | CREATE on the database |
//! | ALTER, COMMENT, CREATE OR REPLACE | the object's ownership; for a new name or schema, CREATE on the schema, too |
//! | DROP | ownership of the object, or of its schema |
//! | CREATE, ALTER, DROP POLICY | the table's ownership (`policy`) |
//! | a foreign key | REFERENCES of the columns of the parent (`foreign_key`) |
//! | TRUNCATE | TRUNCATE of all tables that are emptied; ownership of sequences that are restarted (`drop`) |
//! | LOCK TABLE | a right that fits the mode |
//! | CREATE, ALTER, DROP PUBLICATION | CREATE on the database; the ownership of it and of its tables (`publication`) |
//! | OWNER TO, GRANT, statements about roles | see `owner`, `grant`, `role` |
//!
//! The match over all statements has no wildcard, so a new one has to state its rule. The rights are those of the
//! transaction's catalog: a right that another transaction revokes meanwhile is lost from the next transaction on.
//! Where an object does not exist, or is of another kind, the statement itself fails.

use sqlparser::ast::{self, AlterTableOperation, ObjectName, ObjectType, Statement};

use super::{
    Definition,
    alter_object::AlterTarget,
    comment::CommentTarget,
    context::ChangeContext,
    online::Addition,
    type_tree::{TypeChange, TypeTree},
    view::{AlterView, ViewChange},
};
use crate::{
    bind::names::{name_of, relation_of, simple_name, user_type_of},
    catalog::{
        Relation,
        definition::ObjectId,
        rights::{Kind, Object, Rights, check_usage, kind_of, no_right, no_right_to, not_owner},
    },
    error::{Result, SqlError, SqlState},
    transaction::ActiveTransaction,
    types::user_types::UserType,
};

impl ChangeContext<'_> {
    /// Fails if the current role may not run a statement.
    pub(super) fn authorize(&self, active: &ActiveTransaction, definition: &Definition) -> Result<()> {
        // The first superuser, and others, may do everything.
        if active.catalog.is_superuser(self.environment.role) {
            return Ok(());
        }
        match definition {
            Definition::CreateTable(create) => self.check_creates_new(active, &create.name, create.temporary),
            Definition::CreateIndex(create) => {
                self.check_owns_named(active, &create.table_name)?;
                self.check_creates_beside(active, &create.table_name)
            }
            Definition::CreateSequence(create) => match &**create {
                Statement::CreateSequence { name, temporary, .. } => self.check_creates_new(active, name, *temporary),
                _ => Ok(()),
            },
            Definition::CreateSchema(_) => self.check_database_right(active),
            Definition::AlterObject(alter) => self.authorize_alter(active, &alter.target()),
            Definition::AlterSequence(alter) => self.check_owns_named(active, alter.name()),
            Definition::AlterTable(alter) => {
                self.check_owns_named(active, &alter.name)?;
                let renames =
                    |operation: &AlterTableOperation| matches!(operation, AlterTableOperation::RenameTable { .. });
                if alter.operations.iter().any(renames) {
                    self.check_creates_beside(active, &alter.name)?;
                }
                Ok(())
            }
            Definition::Comment(comment) => self.authorize_comment(active, &comment.target()),
            Definition::Drop(drop) => match &**drop {
                Statement::Drop { object_type, names, .. } => {
                    names.iter().try_for_each(|name| self.check_drops(active, *object_type, name))
                }
                _ => Ok(()),
            },
            Definition::Type(tree) => self.authorize_type(active, tree),
            Definition::Lock(lock) => {
                lock.tables.iter().try_for_each(|target| self.check_locks(active, &target.name, lock))
            }
            Definition::View(change) => self.authorize_view(active, change),
            // They have rules of their own, which depend on what they find.
            Definition::Role(_)
            | Definition::Rights(_)
            | Definition::Truncate(_)
            | Definition::Policy(_)
            | Definition::Publication(_) => Ok(()),
        }
    }

    /// Fails if the current role may not add an index or a constraint to a table.
    pub(super) fn authorize_addition(&self, active: &ActiveTransaction, addition: &Addition<'_>) -> Result<()> {
        let (table, _) = addition.table();
        self.check_owns_named(active, table)?;
        match addition {
            Addition::Index(_) => self.check_creates_beside(active, table),
            Addition::Constraint(..) | Addition::NotNull(..) => Ok(()),
        }
    }

    /// Fails if the role may not create an object of a name.
    pub(super) fn check_creates(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<()> {
        let (schema, _) = self.place_of(active, name)?;
        self.check_creates_in(active, &schema)
    }

    /// Fails if the role may not create objects in a schema.
    pub(super) fn check_creates_in(&self, active: &ActiveTransaction, schema: &str) -> Result<()> {
        let Some(id) = active.catalog.schema(schema).filter(|id| !active.catalog.is_temporary(*id)) else {
            return Ok(());
        };
        let schema = Object::new(Kind::Schema, id);
        match active.catalog.has_any(self.environment.role, schema, Rights::CREATE) {
            true => Ok(()),
            false => Err(no_right(&active.catalog, schema)),
        }
    }

    /// Fails if the role may not create objects in the schema of a relation.
    fn check_creates_beside(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<()> {
        let Some(relation) = self.find(active, name)? else { return Ok(()) };
        match active.catalog.schema_of(Object::of(&relation)) {
            Some(schema) => self.check_creates_in(active, &schema),
            None => Ok(()),
        }
    }

    fn check_database_right(&self, active: &ActiveTransaction) -> Result<()> {
        let database = Object::new(Kind::Database, active.catalog.number);
        match active.catalog.has_any(self.environment.role, database, Rights::CREATE) {
            true => Ok(()),
            false => Err(no_right_to("database", &self.environment.database)),
        }
    }

    /// Fails if the role does not own a relation.
    fn check_owns_named(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<()> {
        match self.find(active, name)? {
            Some(relation) => self.check_owns(active, &relation, kind_of(&relation), &relation_of(name)?.1),
            None => Ok(()),
        }
    }

    fn check_owns(&self, active: &ActiveTransaction, relation: &Relation, kind: &str, name: &str) -> Result<()> {
        match active.catalog.owns(self.environment.role, Object::of(relation)) {
            true => Ok(()),
            false => Err(not_owner(kind, name)),
        }
    }

    /// Fails if the role does not own a schema.
    fn check_owns_schema(&self, active: &ActiveTransaction, name: &str) -> Result<()> {
        let Some(id) = active.catalog.schema(name) else { return Ok(()) };
        match active.catalog.owns(self.environment.role, Object::new(Kind::Schema, id)) {
            true => Ok(()),
            false => Err(not_owner("schema", name)),
        }
    }

    /// Fails if the role does not own a type.
    fn check_owns_type(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<()> {
        match self.type_named(active, name)? {
            Some(ty) if !active.catalog.owns(self.environment.role, Object::new(Kind::Type, ty.oid)) => {
                Err(not_owner("type", &ty.name))
            }
            _ => Ok(()),
        }
    }

    fn authorize_alter(&self, active: &ActiveTransaction, alter: &AlterTarget<'_>) -> Result<()> {
        match alter {
            AlterTarget::Schema { name, renames } => {
                self.check_owns_schema(active, &simple_name(name)?)?;
                if *renames { self.check_database_right(active) } else { Ok(()) }
            }
            AlterTarget::Relation { name, renames, schema } => {
                self.check_owns_named(active, name)?;
                if *renames {
                    self.check_creates_beside(active, name)?;
                }
                schema.map_or(Ok(()), |schema| self.check_creates_in(active, &name_of(schema)))
            }
        }
    }

    fn authorize_comment(&self, active: &ActiveTransaction, target: &CommentTarget<'_>) -> Result<()> {
        let denied = |what: &str| Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what));
        match target {
            CommentTarget::Relation(name) => self.check_owns_named(active, name),
            CommentTarget::Part(name) => match self.find(active, name)? {
                Some(relation) => self.check_owns(active, &relation, "relation", &relation_of(name)?.1),
                None => Ok(()),
            },
            CommentTarget::Type(name) => self.check_owns_type(active, name),
            CommentTarget::Schema(name) => self.check_owns_schema(active, &simple_name(name)?),
            CommentTarget::Publication(name) => {
                let known = active.catalog.publication(&simple_name(name)?);
                let object = known.map(|known| Object::new(Kind::Publication, known.id));
                match object.is_none_or(|object| active.catalog.owns(self.environment.role, object)) {
                    true => Ok(()),
                    false => Err(not_owner("publication", &simple_name(name)?)),
                }
            }
            CommentTarget::Database(name) => {
                let number = active.catalog.database_number(&simple_name(name)?, &self.environment.database);
                // A comment on a database that is not there is a warning.
                let Some(number) = number else { return Ok(()) };
                match active.catalog.owns(self.environment.role, Object::new(Kind::Database, number)) {
                    true => Ok(()),
                    false => Err(not_owner("database", &simple_name(name)?)),
                }
            }
            CommentTarget::Role(name) => {
                let role = active.catalog.role_number(&simple_name(name)?, self.environment);
                match role {
                    Some(role) if active.catalog.is_superuser(role) => denied("must be superuser"),
                    Some(_) if !active.catalog.creates_roles(self.environment.role) => {
                        denied("must have CREATEROLE privilege")
                    }
                    _ => Ok(()),
                }
            }
            CommentTarget::None => Ok(()),
        }
    }

    fn check_drops(&self, active: &ActiveTransaction, kind: ObjectType, name: &ObjectName) -> Result<()> {
        if kind == ObjectType::Schema {
            return self.check_owns_schema(active, &simple_name(name)?);
        }
        let Some(relation) = self.find(active, name)? else { return Ok(()) };
        let fits = match relation {
            Relation::Table(_) => matches!(kind, ObjectType::Table | ObjectType::MaterializedView),
            Relation::View(_) => kind == ObjectType::View,
            Relation::Sequence(_) => kind == ObjectType::Sequence,
            Relation::Index(..) => kind == ObjectType::Index,
        };
        if !fits || self.owns_schema_of(active, Object::of(&relation)) {
            return Ok(());
        }
        self.check_owns(active, &relation, kind_of(&relation), &relation_of(name)?.1)
    }

    /// Whether the role owns the schema of an object: it may drop what is in there.
    fn owns_schema_of(&self, active: &ActiveTransaction, object: Object) -> bool {
        let schema = active.catalog.schema_of(object).and_then(|schema| active.catalog.schema(&schema));
        schema.is_some_and(|id| active.catalog.owns(self.environment.role, Object::new(Kind::Schema, id)))
    }

    fn authorize_type(&self, active: &ActiveTransaction, tree: &TypeTree) -> Result<()> {
        match tree {
            TypeTree::CreateEnum(name, _) => self.check_creates(active, name),
            TypeTree::CreateDomain(tree) => {
                self.check_creates(active, &tree.name)?;
                self.check_type_usage(active, &tree.base)
            }
            TypeTree::AlterType(name, change, _) => {
                self.check_owns_type(active, name)?;
                let beside = |ty: &UserType| self.check_creates_in(active, &ty.schema);
                match change {
                    TypeChange::Rename(_) => self.type_named(active, name)?.map_or(Ok(()), |ty| beside(&ty)),
                    TypeChange::SetSchema(schema) => self.check_creates_in(active, &name_of(schema)),
                    TypeChange::AddValue { .. } | TypeChange::RenameValue(..) | TypeChange::Owner(_) => Ok(()),
                }
            }
            TypeTree::AlterDomain(name, _) => self.check_owns_type(active, name),
            TypeTree::DropTypes(drop, _) => drop.names.iter().try_for_each(|name| {
                let ty = self.type_named(active, name)?.map(|ty| Object::new(Kind::Type, ty.oid));
                match ty.is_some_and(|ty| self.owns_schema_of(active, ty)) {
                    true => Ok(()),
                    false => self.check_owns_type(active, name),
                }
            }),
            TypeTree::Unsupported(_) => Ok(()),
        }
    }

    /// Fails if the role may not use a type for a column.
    pub(super) fn check_type_usage(&self, active: &ActiveTransaction, data_type: &ast::DataType) -> Result<()> {
        let environment = self.environment_of(active);
        let named = match data_type {
            ast::DataType::Custom(name, _) => name,
            ast::DataType::Array(
                ast::ArrayElemTypeDef::SquareBracket(element, _) | ast::ArrayElemTypeDef::Qualified(element, _),
            ) => return self.check_type_usage(active, element),
            _ => return Ok(()),
        };
        match user_type_of(named, &environment)? {
            Some(ty) => self.check_usage_of(active, ty.oid),
            None => Ok(()),
        }
    }

    fn check_usage_of(&self, active: &ActiveTransaction, ty: ObjectId) -> Result<()> {
        let ty = Object::new(Kind::Type, ty);
        match active.catalog.has_any(self.environment.role, ty, Rights::USAGE) {
            true => Ok(()),
            false => Err(no_right(&active.catalog, ty)),
        }
    }

    /// Fails if the role may not lock a table in a mode.
    fn check_locks(&self, active: &ActiveTransaction, name: &ObjectName, lock: &ast::Lock) -> Result<()> {
        use ast::LockTableMode::{AccessShare, RowExclusive};
        let Some(relation) = self.find(active, name)? else { return Ok(()) };
        let writes = Rights::UPDATE | Rights::DELETE | Rights::TRUNCATE;
        let wanted = match lock.lock_mode {
            Some(AccessShare) => Rights::SELECT,
            Some(RowExclusive) => writes | Rights::INSERT,
            _ => writes,
        };
        let object = Object::of(&relation);
        match active.catalog.has_any(self.environment.role, object, wanted) {
            true => Ok(()),
            false => Err(no_right(&active.catalog, object)),
        }
    }

    fn authorize_view(&self, active: &ActiveTransaction, change: &ViewChange) -> Result<()> {
        match change {
            ViewChange::Create(new) => {
                self.check_creates_new(active, new.name(), new.is_temporary(&active.catalog))?;
                match self.find(active, new.name())? {
                    Some(relation @ Relation::View(_)) if new.replaces() => {
                        self.check_owns(active, &relation, "view", &crate::bind::plain(new.name()))
                    }
                    _ => Ok(()),
                }
            }
            ViewChange::Alter { name, change, .. } => {
                self.check_owns_named(active, name)?;
                match change {
                    AlterView::Rename(_) => self.check_creates_beside(active, name),
                    AlterView::SetSchema(schema) => self.check_creates_in(active, &name_of(schema)),
                    AlterView::RenameColumn(..)
                    | AlterView::SetDefault(..)
                    | AlterView::SetOptions(_)
                    | AlterView::ResetOptions(_)
                    | AlterView::Owner(_) => Ok(()),
                }
            }
        }
    }

    /// Fails if the role may not look up names in a schema.
    pub(super) fn check_usage(&self, active: &ActiveTransaction, schema: &str) -> Result<()> {
        check_usage(&active.catalog, self.environment.role, schema)
    }
}
