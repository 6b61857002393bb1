//! CREATE TYPE, ALTER TYPE, DROP TYPE and DROP DOMAIN.
//!
//! 1. *A type's changes have an order*: a transaction that changes a type, drops it, or gives it to a column of a table,
//!    a domain or an expression that the catalog stores, reads the type's row, which has to be what its catalog has, and
//!    writes it with another generation. So of two such transactions at the same time one loses, and one that comes
//!    before the first is published fails with 40001.
//! 2. *A transaction that uses a table knows the types of its columns*: a change of a type holds all tables with such
//!    columns alone, and publishing it counts as a change of their definitions (`catalog`, invariant 1).
//! 3. *Values keep their meaning*: the position of a label never changes, and no other label gets it
//!    ([`UserType::add`]). A dropped column keeps its type, so that its values in older rows can be skipped.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use sqlparser::ast::{Ident, ObjectName};

use super::{
    context::ChangeContext,
    domain::not_a_domain,
    skip,
    type_tree::{LabelPlace, TypeChange, TypeDrop, TypeTree, collect_types},
    type_uses::names_type,
};
use crate::{
    bind::{
        Binder,
        names::{name_of, relation_of, user_type_of},
        plain,
    },
    catalog::{
        Change, Relation, Table, View,
        definition::{DefaultDef, Definition, TableDef},
        rights::{self, Object},
        temporary::is_temporary,
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
    types::{
        Environment, NAME_LENGTH_MAX, SqlType,
        user_types::{Kind, Place, UserType},
    },
};

impl ChangeContext<'_> {
    /// Runs such a statement; returns the tag.
    pub(super) fn define_type(
        &self,
        active: &mut ActiveTransaction,
        tree: &TypeTree,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match tree {
            TypeTree::CreateEnum(name, labels) => self.create_enum(active, name, labels)?,
            TypeTree::AlterType(name, change, is_domain) => self.alter_type(active, name, change, *is_domain, rows)?,
            TypeTree::DropTypes(drop, is_domain) => self.drop_types(active, drop, *is_domain, rows)?,
            TypeTree::CreateDomain(tree) => self.create_domain(active, tree)?,
            TypeTree::AlterDomain(name, change) => self.alter_domain(active, name, change, rows)?,
            TypeTree::Unsupported(what) => return Err(SqlError::unsupported(what)),
        }
        Ok(tree.words().into())
    }

    fn create_enum(&self, active: &mut ActiveTransaction, name: &ObjectName, labels: &[String]) -> Result<()> {
        let (schema, name) = self.place_of(active, name)?;
        check_free(active, &schema, &name)?;
        let mut known = HashSet::new();
        for label in labels {
            check_label(label)?;
            if !known.insert(label) {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message)
                    .detail(format!("Key (enumlabel)=({label}) already exists.")));
            }
        }
        self.take_type_name(active, &schema, &name, true)?;
        // The number behind the type's own is that of its arrays.
        let oid = self.catalog_numbers(2 + labels.len() as u32)?;
        let mut ty = UserType { oid, schema, name, generation: 0, kind: Kind::Enum(Vec::new()) };
        for (at, label) in labels.iter().enumerate() {
            ty.add(oid + 2 + at as u32, label, Place::Last)?;
        }
        self.apply(active, vec![Change::Put(Definition::Type(ty))])
    }

    /// Returns the type of a name; fails for PostgreSQL's own types.
    pub(super) fn type_named(&self, active: &ActiveTransaction, name: &ObjectName) -> Result<Option<Arc<UserType>>> {
        let environment = self.environment_of(active);
        if let Some(found) = user_type_of(name, &environment)? {
            return Ok(Some(found.clone()));
        }
        Ok(None)
    }

    /// Returns the environment with the types of the transaction's catalog.
    pub(super) fn environment_of(&self, active: &ActiveTransaction) -> Environment {
        Environment { types: active.catalog.types.clone(), ..self.environment.clone() }
    }

    fn alter_type(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        change: &TypeChange,
        is_domain: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        if let Some(ty) = builtin(name)?.filter(|_| !is_domain) {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", ty.name())));
        }
        let old = self.type_named(active, name)?.ok_or_else(|| missing(name))?;
        if is_domain && old.domain().is_none() {
            return Err(not_a_domain(name));
        }
        let old = self.take_type(active, old.oid)?;
        let mut new = old.clone();
        match change {
            TypeChange::AddValue { label, if_not_exists, place } => {
                check_label(label)?;
                if old.labels().iter().any(|known| known.name == *label) {
                    let message = format!("enum label \"{label}\" already exists");
                    if *if_not_exists {
                        skip(rows, SqlState::DUPLICATE_OBJECT, format!("{message}, skipping"));
                        return Ok(());
                    }
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                let place = match place {
                    LabelPlace::Last => Place::Last,
                    LabelPlace::Before(other) => Place::Before(other),
                    LabelPlace::After(other) => Place::After(other),
                };
                new.add(self.catalog_number()?, label, place)?;
            }
            TypeChange::RenameValue(from, to) => rename_label(&mut new, from, to)?,
            TypeChange::Rename(name) => new.name = name_of(name),
            TypeChange::SetSchema(schema) => {
                new.schema = name_of(schema);
                if active.catalog.schema(&new.schema).is_none() {
                    let message = format!("schema \"{}\" does not exist", new.schema);
                    return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
                }
                self.check_moves(&old.schema, &new.schema)?;
            }
            TypeChange::Owner(role) => {
                return self.alter_owner(active, Object::new(rights::Kind::Type, old.oid), role);
            }
        }
        if (&new.schema, &new.name) != (&old.schema, &old.name) {
            check_free(active, &new.schema, &new.name)?;
            self.take_type_name(active, &old.schema, &old.name, false)?;
            self.take_type_name(active, &new.schema, &new.name, true)?;
        }
        new.generation += 1;
        let bound = self.bound_definitions(active);
        self.apply(active, vec![Change::Put(Definition::Type(new))])?;
        match self.broken_definition(active, bound) {
            None => Ok(()),
            Some(broken) => {
                let what = "this change of a type that a default, a constraint or an index refers to";
                Err(SqlError::unsupported(what).detail(format!("An expression of {broken} uses it.")))
            }
        }
    }

    /// Holds all tables with columns of a type alone, and returns the type's newest definition, which no other
    /// transaction changes until this one ends.
    pub(super) fn take_type(&self, active: &mut ActiveTransaction, oid: u32) -> Result<UserType> {
        let gone =
            || SqlError::new(SqlState::SERIALIZATION_FAILURE, "the type was dropped by a concurrent transaction");
        loop {
            let known = active.catalog.types.get(oid).ok_or_else(gone)?.clone();
            let tables: Vec<_> = active.catalog.tables_with(&known).cloned().collect();
            self.take_newest(active, &tables, self.limits())?;
            // With a newer catalog there may be more tables.
            let newest = active.catalog.types.get(oid).ok_or_else(gone)?.clone();
            if active.catalog.tables_with(&newest).all(|table| active.has_alone(table)) {
                self.check_type(active, &newest)?;
                return Ok((*newest).clone());
            }
        }
    }

    /// Returns the numbers of the tables and domains whose expressions, and of the views whose queries can be bound.
    fn bound_definitions(&self, active: &ActiveTransaction) -> BTreeSet<u32> {
        let environment = self.environment_of(active);
        let mut binder = Binder::new(&active.catalog, &environment, self.search_path, &[]);
        let tables = active.catalog.tables().into_iter().filter(|table| is_bound(&mut binder, table));
        let mut bound: BTreeSet<_> = tables.map(|table| table.def.id).collect();
        let types = active.catalog.types.all().into_iter();
        let domains = types.filter(|ty| binder.domain(ty).is_ok() && binder.default_of_domain(ty).is_ok());
        bound.extend(domains.map(|ty| ty.oid));
        let views = active.catalog.views().filter(|view| binder.columns_of_view(view).is_ok());
        bound.extend(views.map(|view| view.def.id));
        bound
    }

    /// Returns in words a table, a view or a domain whose expressions could be bound, and cannot any more.
    fn broken_definition(&self, active: &ActiveTransaction, mut bound: BTreeSet<u32>) -> Option<String> {
        let now = self.bound_definitions(active);
        bound.retain(|id| !now.contains(id));
        bound.into_iter().find_map(|id| match (active.catalog.table(id), active.catalog.types.get(id)) {
            (Some(table), _) => Some(format!("table {}", table.name())),
            (None, None) => active.catalog.view(id).map(|view| format!("view {}", view.def.name)),
            (None, ty) => ty.map(|ty| format!("domain {}", ty.name)),
        })
    }

    fn drop_types(
        &self,
        active: &mut ActiveTransaction,
        drop: &TypeDrop,
        is_domain: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let mut found = Vec::new();
        for name in &drop.names {
            if is_domain && builtin(name)?.is_some() {
                return Err(not_a_domain(name));
            }
            if let Some(ty) = builtin(name)? {
                let message = format!("cannot drop type {} because it is required by the database system", ty.name());
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            match self.type_named(active, name)? {
                Some(ty) if is_domain && ty.domain().is_none() => return Err(not_a_domain(name)),
                Some(ty) => found.push(ty),
                None if drop.if_exists => {
                    let message = format!("type \"{}\" does not exist, skipping", plain(name));
                    skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                }
                None => return Err(missing(name)),
            }
        }
        // A domain before what it is over, which is older.
        found.sort_by_key(|ty| (ty.domain().is_none(), std::cmp::Reverse(ty.oid)));
        found.iter().try_for_each(|ty| self.drop_type(active, ty.oid, drop.cascade, rows))
    }

    /// Drops a type, and with CASCADE the domains over it and the columns that have it. It may be gone already.
    pub(super) fn drop_type(
        &self,
        active: &mut ActiveTransaction,
        oid: u32,
        cascade: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        if active.catalog.types.get(oid).is_none() {
            return Ok(());
        }
        let ty = self.take_type(active, oid)?;
        let shown = self.environment_of(active).user_type_name(&ty);
        let mut dependents = Vec::new();
        let mut tables: Vec<_> = active.catalog.tables_with(&ty).cloned().collect();
        tables.sort_by_key(|table| table.def.id);
        for table in &tables {
            let columns = active.catalog.columns_with(&table.def, &ty);
            dependents.extend(columns.into_iter().map(|at| {
                let column = &table.def.columns[at];
                let brackets = if column.ty.is_array && ty.domain().is_none() { "[]" } else { "" };
                (format!("column {} of table {}", column.name, table.name()), format!("type {shown}{brackets}"))
            }));
        }
        let domains = self.domains_with(active, oid)?;
        dependents.extend(domains.iter().map(|domain| {
            let domain = self.environment.user_type_name(domain);
            (format!("type {domain}"), format!("type {shown}"))
        }));
        let views = self.views_with(active, oid)?;
        let view = |view: &Arc<View>| (format!("view {}", view.def.name), format!("type {shown}"));
        dependents.extend(views.iter().map(view));
        let expressions = self.expressions_with(active, &ty)?;
        dependents.extend(expressions.iter().map(|(_, what)| (what.clone(), format!("type {shown}"))));
        let in_use = |detail: String| {
            let message = format!("cannot drop type {shown} because other objects depend on it");
            SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(detail)
                .hint("Use DROP ... CASCADE to drop the dependent objects too.")
        };
        if !cascade && !dependents.is_empty() {
            let lines: Vec<_> = dependents.iter().map(|(what, on)| format!("{what} depends on {on}")).collect();
            return Err(in_use(lines.join("\n")));
        }
        let lines: Vec<_> = dependents.into_iter().map(|(what, _)| format!("drop cascades to {what}")).collect();
        match &lines[..] {
            [] => {}
            [line] => skip(rows, SqlState::SUCCESSFUL_COMPLETION, line.clone()),
            lines => {
                let message = format!("drop cascades to {} other objects", lines.len());
                let notice = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).detail(lines.join("\n"));
                rows.notice("NOTICE", &notice);
            }
        }
        for view in views {
            // It may have gone with another one.
            if active.catalog.view(view.def.id).is_some() {
                self.view_alone(active, &view)?;
                self.drop_view(active, &view, &[], true, rows)?;
            }
        }
        for domain in domains {
            self.drop_type(active, domain.oid, true, rows)?;
        }
        for table in tables {
            self.drop_columns_of(active, table.def.id, &ty, rows)?;
        }
        self.drop_uses(active, expressions.into_iter().map(|(part, _)| part).collect(), rows)?;
        let bound = self.bound_definitions(active);
        self.take_type_name(active, &ty.schema, &ty.name, false)?;
        self.apply(active, vec![Change::Drop(Definition::Type(ty.clone()))])?;
        match self.broken_definition(active, bound) {
            None => Ok(()),
            Some(broken) => Err(in_use(format!("an expression of {broken} depends on type {shown}"))
                .hint("Drop the default, the generated column, the constraint or the index that uses it.")),
        }
    }

    /// Returns the domains over a type, and those whose defaults name it.
    fn domains_with(&self, active: &ActiveTransaction, oid: u32) -> Result<Vec<Arc<UserType>>> {
        let environment = self.environment_of(active);
        let mut found = Vec::new();
        for other in active.catalog.types.all() {
            let Some(domain) = other.domain().filter(|_| other.oid != oid) else { continue };
            let names = |text: &String| names_type(text, oid, &environment);
            if other.parent() == Some(oid)
                || domain.base.created() == Some(oid)
                || domain.default.as_ref().map_or(Ok(false), names)?
            {
                found.push(other.clone());
            }
        }
        Ok(found)
    }

    /// Returns the views whose queries name a type, or have columns of it.
    fn views_with(&self, active: &ActiveTransaction, oid: u32) -> Result<Vec<Arc<View>>> {
        let environment = self.environment_of(active);
        let mut views = Vec::new();
        for view in active.catalog.views() {
            let mut used: BTreeSet<_> = view.def.columns.iter().filter_map(|column| column.ty.created()).collect();
            collect_types(&crate::parse::stored_query(&view.def.query)?, &environment, &mut used);
            for text in view.def.defaults() {
                collect_types(&crate::parse::expression(text)?, &environment, &mut used);
            }
            if used.contains(&oid) {
                views.push(view.clone());
            }
        }
        Ok(views)
    }

    /// Drops the columns of a table that have a type, with the constraints on them.
    fn drop_columns_of(
        &self,
        active: &mut ActiveTransaction,
        table: u32,
        ty: &UserType,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        // Dropping the columns of another table may have changed it.
        let Some(table) = active.catalog.table(table).cloned() else { return Ok(()) };
        let mut def = table.def.clone();
        let places: BTreeSet<_> = active.catalog.columns_with(&def, ty).into_iter().collect();
        let names: Vec<_> = places.iter().map(|at| Ident::with_quote('"', &def.columns[*at].name)).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        for check in &table.def.checks {
            let uses = binder.columns_of_check(&table.def, &crate::parse::expression(&check.condition)?);
            let uses = uses.map_err(SqlError::nowhere)?;
            if !uses.is_disjoint(&places) {
                def.checks.retain(|other| other.name != check.name);
            }
        }
        self.drop_columns(active, def, &names, (false, true), rows)
    }

    /// Returns the definition of a type, which no other transaction may change until this one ends.
    pub(super) fn known_type(&self, active: &ActiveTransaction, oid: u32) -> Result<UserType> {
        let gone = || SqlError::new(SqlState::SERIALIZATION_FAILURE, "a type was dropped by a concurrent transaction");
        let known = active.catalog.types.get(oid).ok_or_else(gone)?;
        self.check_type(active, known)?;
        Ok((**known).clone())
    }

    /// Returns the changes by which transactions that change types learn of the tables and domains that are about to use
    /// them.
    pub(super) fn uses_of_types(&self, active: &ActiveTransaction, changes: &[Change]) -> Result<Vec<Change>> {
        if active.catalog.types.is_empty() {
            return Ok(Vec::new());
        }
        let (mut used, mut changed) = (BTreeSet::new(), BTreeSet::new());
        let environment = self.environment_of(active);
        for change in changes {
            let Change::Put(new) = change else { continue };
            let old = match new {
                // Other sessions do not know of its use.
                Definition::Table(def) if is_temporary(&def.schema) => continue,
                Definition::View(view) if is_temporary(&view.schema) => continue,
                Definition::Table(def) => active.catalog.table(def.id).map(|old| parts_of_table(&old.def)),
                Definition::View(view) => {
                    used.extend(view.columns.iter().filter_map(|column| column.ty.created()));
                    collect_types(&crate::parse::stored_query(&view.query)?, &environment, &mut used);
                    for text in view.defaults() {
                        collect_types(&crate::parse::expression(text)?, &environment, &mut used);
                    }
                    continue;
                }
                Definition::Type(ty) => {
                    changed.insert(ty.oid);
                    active.catalog.types.get(ty.oid).map(|old| parts_of_type(old))
                }
                _ => continue,
            };
            let (old_types, old_texts) = old.unwrap_or_default();
            let (types, texts) = match new {
                Definition::Table(def) => parts_of_table(def),
                Definition::Type(ty) => parts_of_type(ty),
                _ => continue,
            };
            used.extend(types.difference(&old_types));
            for text in texts.difference(&old_texts) {
                collect_types(&crate::parse::expression(text)?, &environment, &mut used);
            }
        }
        let uses = used.difference(&changed).map(|oid| {
            let known = self.known_type(active, *oid)?;
            let generation = known.generation + 1;
            Ok(Change::Put(Definition::Type(UserType { generation, ..known })))
        });
        uses.collect()
    }
}

/// The numbers of types, and the texts of expressions, that a definition contains.
type Parts<'d> = (BTreeSet<u32>, BTreeSet<&'d str>);

fn parts_of_table(def: &TableDef) -> Parts<'_> {
    let columns = || def.live_columns().map(|(_, column)| column);
    let defaults = columns().filter_map(|column| match &column.default {
        Some(DefaultDef::Expression(text) | DefaultDef::Generated(text)) => Some(&**text),
        _ => None,
    });
    let checks = def.checks.iter().map(|check| &*check.condition);
    let predicates = def.indexes.iter().filter_map(|index| index.predicate.as_deref());
    let computed = def.computed_columns().map(|(_, _, text)| text);
    let types = columns().chain(def.computed_columns().map(|(_, column, _)| column));
    (
        types.filter_map(|column| column.ty.created()).collect(),
        defaults.chain(checks).chain(predicates).chain(computed).collect(),
    )
}

fn parts_of_type(ty: &UserType) -> Parts<'_> {
    let Some(domain) = ty.domain() else { return Parts::default() };
    let checks = domain.checks.iter().map(|check| &*check.condition);
    (domain.base.created().into_iter().chain(ty.parent()).collect(), checks.chain(domain.default.as_deref()).collect())
}

/// Whether the expressions of a table's definition can be bound.
fn is_bound(binder: &mut Binder<'_>, table: &Arc<Table>) -> bool {
    binder.rules(table).is_ok() && (0..table.def.columns.len()).all(|at| binder.default_of(table, at).is_ok())
}

/// Returns PostgreSQL's own type of a name.
fn builtin(name: &ObjectName) -> Result<Option<SqlType>> {
    let (schema, own) = relation_of(name)?;
    let is_its_own = schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
    Ok(SqlType::from_name(&own).filter(|_| is_its_own))
}

pub(super) fn missing(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", plain(name)))
}

/// Fails if a type has the name, or a table, which is a type in PostgreSQL.
pub(super) fn check_free(active: &ActiveTransaction, schema: &str, name: &str) -> Result<()> {
    let is_table = matches!(active.catalog.find(schema, name), Some(Relation::Table(_)));
    if is_table || active.catalog.types.find(schema, name).is_some() {
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
    }
    Ok(())
}

/// Fails if a type has the name of a new table.
pub(super) fn check_no_type(active: &ActiveTransaction, schema: &str, name: &str) -> Result<()> {
    let hint = "A relation has an associated type of the same name, so you must use a name that doesn't conflict with \
                any existing type.";
    match active.catalog.types.find(schema, name) {
        None => Ok(()),
        Some(_) => Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")).hint(hint)),
    }
}

fn check_label(label: &str) -> Result<()> {
    if label.len() <= NAME_LENGTH_MAX {
        return Ok(());
    }
    let message = format!("invalid enum label \"{label}\"");
    let detail = format!("Labels must be {NAME_LENGTH_MAX} bytes or less.");
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
}

fn rename_label(ty: &mut UserType, from: &str, to: &str) -> Result<()> {
    check_label(to)?;
    let Kind::Enum(labels) = &mut ty.kind else {
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("{} is not an enum", ty.name)));
    };
    let at = labels.iter().position(|label| label.name == from).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("\"{from}\" is not an existing enum label"))
    })?;
    if labels.iter().any(|label| label.name == to) {
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("enum label \"{to}\" already exists")));
    }
    to.clone_into(&mut labels[at].name);
    Ok(())
}
