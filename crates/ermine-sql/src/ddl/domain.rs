//! CREATE and ALTER DOMAIN. DROP DOMAIN is DROP TYPE.
//!
//! The definition of a domain lists the columns that have it; columns themselves have the domain's base type. A column
//! that is dropped stays in the list, and so do those of dropped tables, until another column is added to it: numbers
//! of tables are never used again.

use std::collections::BTreeMap;

use sqlparser::ast::{DataType, Expr, ObjectName};

use super::{
    context::ChangeContext,
    domain_tree::{DomainChange, DomainCheckTree, DomainOption, DomainTree},
    free_name_of, skip,
    type_tree::qualify_types,
    types::{check_free, missing},
};
use crate::{
    bind::{
        Binder,
        names::{collation_of, name_of, type_of, user_type_of},
        plain,
    },
    catalog::{Change, definition::Definition},
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
    types::{
        SqlType,
        user_types::{Domain, DomainCheck, Kind, UserType},
    },
};

impl ChangeContext<'_> {
    pub(super) fn create_domain(&self, active: &mut ActiveTransaction, tree: &DomainTree) -> Result<()> {
        let (schema, name) = self.place_of(active, &tree.name)?;
        check_free(active, &schema, &name)?;
        let environment = self.environment_of(active);
        let parent = self.domain_of(&tree.base)?;
        let (base, modifier) = type_of(&tree.base, &environment)?;
        if let Some(collation) = &tree.collation {
            collation_of(collation)?;
            if !SqlType::scalar(base.scalar).is_text() {
                let message = format!("collations are not supported by type {}", base.name());
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
            }
        }
        let default = parent.and_then(|parent| parent.domain()?.default.clone());
        let mut domain = Domain { base, modifier, default, not_null: false, checks: Vec::new(), columns: Vec::new() };
        let mut has_default = false;
        let (mut is_null, mut checks) = (false, Vec::new());
        for option in &tree.options {
            match option {
                DomainOption::Default(_) if has_default => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "multiple default expressions"));
                }
                DomainOption::Default(expr) => {
                    has_default = true;
                    domain.default = Some(stored(expr, &environment)?);
                }
                DomainOption::NotNull => domain.not_null = true,
                DomainOption::Null => is_null = true,
                DomainOption::Check(check) => checks.push(check),
                DomainOption::OfTables(what) => {
                    let message = format!("{what} constraints not possible for domains");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        if is_null && domain.not_null {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting NULL/NOT NULL constraints"));
        }
        for check in checks {
            self.add_check(active, &name, &mut domain, check)?;
        }
        self.take_type_name(active, &schema, &name, true)?;
        let oid = self.catalog_numbers(2)?;
        let kind = match parent {
            Some(parent) => Kind::DomainOver(parent.oid, domain),
            None => Kind::Domain(domain),
        };
        let ty = UserType { oid, schema, name, generation: 0, kind };
        self.check_default(active, &ty)?;
        self.apply(active, vec![Change::Put(Definition::Type(ty))])
    }

    /// Returns the domain that a type's name means.
    pub(super) fn domain_of(&self, data_type: &DataType) -> Result<Option<&UserType>> {
        let DataType::Custom(name, _) = data_type else { return Ok(None) };
        Ok(user_type_of(name, self.environment)?.map(|ty| &**ty).filter(|ty| ty.domain().is_some()))
    }

    fn check_default(&self, active: &ActiveTransaction, ty: &UserType) -> Result<()> {
        let environment = self.environment_of(active);
        Binder::new(&active.catalog, &environment, self.search_path, &[]).default_of_domain(ty).map(drop)
    }

    fn add_check(
        &self,
        active: &ActiveTransaction,
        name: &str,
        domain: &mut Domain,
        check: &DomainCheckTree,
    ) -> Result<()> {
        let environment = self.environment_of(active);
        let mut binder = Binder::new(&active.catalog, &environment, self.search_path, &[]);
        binder.condition_on_value(domain, &check.condition)?;
        let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
        let own = match &check.name {
            Some(name) => name_of(name),
            None => free_name_of(name, "", "check", &is_taken),
        };
        if is_taken(&own) {
            let message = format!("constraint \"{own}\" for domain \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        let condition = stored(&check.condition, &environment)?;
        domain.checks.push(DomainCheck { oid: self.catalog_number()?, name: own, condition });
        Ok(())
    }

    pub(super) fn alter_domain(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        change: &DomainChange,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let old = self.type_named(active, name)?.ok_or_else(|| missing(name))?;
        if old.domain().is_none() {
            return Err(not_a_domain(name));
        }
        let mut new = self.take_type(active, old.oid)?;
        let domain = new.domain_mut().ok_or_else(|| not_a_domain(name))?;
        let mut is_stricter = false;
        match change {
            DomainChange::SetDefault(default) => {
                let environment = self.environment_of(active);
                domain.default = default.as_ref().map(|expr| stored(expr, &environment)).transpose()?;
            }
            DomainChange::SetNotNull(not_null) => {
                is_stricter = *not_null;
                domain.not_null = *not_null;
            }
            DomainChange::Add(check) => {
                is_stricter = true;
                self.add_check(active, &old.name, domain, check)?;
            }
            DomainChange::Drop { name, if_exists } => {
                let name = name_of(name);
                match domain.checks.iter().position(|check| check.name == name) {
                    Some(at) => drop(domain.checks.remove(at)),
                    None if *if_exists => {
                        let message = format!("{}, skipping", no_constraint(&old, &name).report().message);
                        skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                    }
                    None => return Err(no_constraint(&old, &name)),
                }
            }
            DomainChange::RenameConstraint(from, to) => {
                let (from, to) = (name_of(from), name_of(to));
                if domain.checks.iter().any(|check| check.name == to) {
                    let message = format!("constraint \"{to}\" for domain \"{}\" already exists", old.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                }
                let found = domain.checks.iter_mut().find(|check| check.name == from);
                found.ok_or_else(|| no_constraint(&old, &from))?.name = to;
            }
        }
        self.check_default(active, &new)?;
        new.generation += 1;
        self.apply(active, vec![Change::Put(Definition::Type(new.clone()))])?;
        if is_stricter { self.check_values(active, &new) } else { Ok(()) }
    }

    /// Fails if a row has a value that a domain does not allow any more.
    fn check_values(&self, active: &ActiveTransaction, ty: &UserType) -> Result<()> {
        let tables: Vec<_> = active.catalog.tables_with(ty).cloned().collect();
        for table in tables {
            let Err(error) = self.fill(active, table.def.id, &[]) else { continue };
            let report = error.report();
            let is_of_domain = report.table.is_none();
            let types = &active.catalog.types;
            let mut columns = table.def.live_columns().filter(|(at, _)| {
                let own = types.of_column(table.def.id, *at);
                own.is_some_and(|own| types.and_parents(own).any(|known| known.oid == ty.oid))
            });
            let column = columns.next().map(|(_, column)| &*column.name);
            let what = match report.state {
                SqlState::CHECK_VIOLATION if is_of_domain => "values that violate the new constraint",
                SqlState::NOT_NULL_VIOLATION if is_of_domain => "null values",
                _ => return Err(error),
            };
            let message =
                format!("column \"{}\" of table \"{}\" contains {what}", column.unwrap_or_default(), table.name());
            return Err(SqlError::new(report.state, message).table(&*table.def.schema, table.name()));
        }
        Ok(())
    }

    /// Returns the changes by which domains learn of new columns of a table, given by their numbers and the domains'.
    pub(super) fn uses_of_domains(
        &self,
        active: &ActiveTransaction,
        table: u32,
        columns: &[(usize, u32)],
    ) -> Result<Vec<Change>> {
        if !columns.is_empty() && active.catalog.is_temporary(table) {
            return Err(SqlError::unsupported("a temporary table with a column of a domain"));
        }
        let mut added: BTreeMap<u32, Vec<(u32, usize)>> = BTreeMap::new();
        columns.iter().for_each(|(at, oid)| added.entry(*oid).or_default().push((table, *at)));
        let changes = added.into_iter().map(|(oid, added)| {
            let mut ty = self.known_type(active, oid)?;
            ty.generation += 1;
            if let Some(domain) = ty.domain_mut() {
                let is_live = |&(table, at): &(u32, usize)| {
                    active.catalog.table(table).is_some_and(|table| !table.def.columns[at].is_dropped)
                };
                domain.columns.retain(is_live);
                domain.columns.extend(added);
            }
            Ok(Change::Put(Definition::Type(ty)))
        });
        changes.collect()
    }
}

/// Returns the text of an expression for the catalog.
fn stored(expr: &Expr, environment: &crate::types::Environment) -> Result<String> {
    let mut expr = expr.clone();
    qualify_types(&mut expr, environment)?;
    Ok(expr.to_string())
}

pub(super) fn not_a_domain(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a domain", plain(name)))
}

fn no_constraint(ty: &UserType, name: &str) -> SqlError {
    let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", ty.name);
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}
