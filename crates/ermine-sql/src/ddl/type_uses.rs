//! Expressions in the catalog that name a type: DROP TYPE CASCADE drops the defaults, constraints, generated columns and
//! indexes that have them.

use std::collections::{BTreeMap, BTreeSet};

use sqlparser::ast::Ident;

use super::{context::ChangeContext, type_tree::collect_types};
use crate::{
    catalog::{
        Change,
        definition::{DefaultDef, Definition, TableDef},
    },
    error::Result,
    parse,
    result::RowSink,
    transaction::ActiveTransaction,
    types::{Environment, user_types::UserType},
};

/// A part of a table or of a domain that has an expression that names a type.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TypeUse {
    /// The default of a column: table, column.
    Default(u32, usize),
    /// A generated column: table, column.
    Generated(u32, usize),
    /// A check of a table, by its name.
    Check(u32, String),
    /// The condition of an index, by the index's name.
    Index(u32, String),
    /// A check of a domain, by its name.
    DomainCheck(u32, String),
}

impl TypeUse {
    fn table(&self) -> Option<u32> {
        match self {
            Self::Default(table, _) | Self::Generated(table, _) | Self::Check(table, _) | Self::Index(table, _) => {
                Some(*table)
            }
            Self::DomainCheck(..) => None,
        }
    }

    /// Returns its name in messages; `def`: of its table.
    fn shown(&self, def: Option<&TableDef>) -> String {
        let (table, column) =
            (def.map_or("", |def| &def.name), |at: &usize| def.map_or("", |def| &def.columns[*at].name));
        match self {
            Self::Default(_, at) => format!("default value for column {} of table {table}", column(at)),
            Self::Generated(_, at) => format!("column {} of table {table}", column(at)),
            Self::Check(_, name) => format!("constraint {name} on table {table}"),
            Self::Index(_, name) => format!("index {name}"),
            Self::DomainCheck(_, name) => format!("constraint {name}"),
        }
    }
}

/// Whether an expression that the catalog stores names a type.
pub(super) fn names_type(text: &str, oid: u32, environment: &Environment) -> Result<bool> {
    let mut used = BTreeSet::new();
    collect_types(&parse::expression(text)?, environment, &mut used);
    Ok(used.contains(&oid))
}

impl ChangeContext<'_> {
    /// Returns the expressions that name a type, except those of columns that have it, with their names in messages. The
    /// transaction then holds their tables alone.
    pub(super) fn expressions_with(
        &self,
        active: &mut ActiveTransaction,
        ty: &UserType,
    ) -> Result<Vec<(TypeUse, String)>> {
        let environment = self.environment_of(active);
        let mut found = Vec::new();
        for table in active.catalog.tables() {
            let own = active.catalog.columns_with(&table.def, ty);
            found.extend(uses_in(&table.def, ty.oid, &own, &environment)?);
        }
        for other in active.catalog.types.all() {
            for check in other.domain().map_or(&[][..], |domain| &domain.checks) {
                if other.oid != ty.oid && names_type(&check.condition, ty.oid, &environment)? {
                    found.push(TypeUse::DomainCheck(other.oid, check.name.clone()));
                }
            }
        }
        let tables: BTreeSet<_> = found.iter().filter_map(TypeUse::table).collect();
        let tables: Vec<_> = tables.into_iter().filter_map(|id| active.catalog.table(id).cloned()).collect();
        self.take_newest(active, &tables, self.limits())?;
        let shown = |part: TypeUse| {
            let def = part.table().and_then(|id| active.catalog.table(id)).map(|table| &table.def);
            let name = part.shown(def);
            (part, name)
        };
        Ok(found.into_iter().map(shown).collect())
    }

    /// Drops such parts. Some may be gone already, with a column or a domain.
    pub(super) fn drop_uses(
        &self,
        active: &mut ActiveTransaction,
        uses: Vec<TypeUse>,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let mut by_table: BTreeMap<u32, Vec<TypeUse>> = BTreeMap::new();
        for part in uses {
            match part {
                TypeUse::DomainCheck(oid, name) => {
                    if active.catalog.types.get(oid).is_none() {
                        continue;
                    }
                    let mut domain = self.take_type(active, oid)?;
                    domain.generation += 1;
                    if let Some(domain) = domain.domain_mut() {
                        domain.checks.retain(|check| check.name != name);
                    }
                    self.apply(active, vec![Change::Put(Definition::Type(domain))])?;
                }
                part => by_table.entry(part.table().unwrap_or(0)).or_default().push(part),
            }
        }
        for (table, uses) in by_table {
            self.drop_uses_of(active, table, &uses, rows)?;
        }
        Ok(())
    }

    fn drop_uses_of(
        &self,
        active: &mut ActiveTransaction,
        table: u32,
        uses: &[TypeUse],
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let Some(table) = active.catalog.table(table).cloned() else { return Ok(()) };
        let mut def = table.def.clone();
        let mut columns = Vec::new();
        for part in uses {
            match part {
                TypeUse::Default(_, at) => def.columns[*at].default = None,
                TypeUse::Generated(_, at) if def.columns[*at].is_dropped => {}
                TypeUse::Generated(_, at) => columns.push(Ident::with_quote('"', &def.columns[*at].name)),
                TypeUse::Check(_, name) => def.checks.retain(|check| check.name != *name),
                TypeUse::Index(_, name) => {
                    if let Some(at) = def.indexes.iter().position(|index| index.name == *name) {
                        def.indexes.remove(at);
                        self.take_name(active, &def.schema, name, false)?;
                    }
                }
                TypeUse::DomainCheck(..) => {}
            }
        }
        match columns.is_empty() {
            true => self.replace_table(active, def),
            false => self.drop_columns(active, def, &columns, (false, true), rows),
        }
    }
}

/// Returns the parts of a table whose expressions name a type, except its columns that have it.
fn uses_in(def: &TableDef, oid: u32, own: &[usize], environment: &Environment) -> Result<Vec<TypeUse>> {
    let mut found = Vec::new();
    for (at, column) in def.live_columns().filter(|(at, _)| !own.contains(at)) {
        match &column.default {
            Some(DefaultDef::Expression(text)) if names_type(text, oid, environment)? => {
                found.push(TypeUse::Default(def.id, at));
            }
            Some(DefaultDef::Generated(text)) if names_type(text, oid, environment)? => {
                found.push(TypeUse::Generated(def.id, at));
            }
            _ => {}
        }
    }
    for check in &def.checks {
        if names_type(&check.condition, oid, environment)? {
            found.push(TypeUse::Check(def.id, check.name.clone()));
        }
    }
    for index in &def.indexes {
        let computed = index.columns.iter().filter_map(|(at, _)| def.columns[*at].computation());
        let texts = index.predicate.as_deref().into_iter().chain(computed);
        let named = texts.map(|text| names_type(text, oid, environment)).collect::<Result<Vec<_>>>()?;
        if named.contains(&true) {
            found.push(TypeUse::Index(def.id, index.name.clone()));
        }
    }
    Ok(found)
}
