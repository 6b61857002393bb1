//! `pg_depend`: which objects are there only with others. Programs order definitions by it.

use super::{
    Known, PG_ATTRDEF,
    definitions::{self, ConstraintKind, IndexView, constraints, indexes},
};
use crate::catalog::{
    comments::{PG_CLASS, PG_CONSTRAINT, PG_NAMESPACE, PG_TYPE},
    definition::{DefaultDef, ObjectId},
};

/// The number of `pg_rewrite`, which has the queries of views.
const PG_REWRITE: u32 = 2618;

/// An object: the table that lists it, its number, and the number of a column or 0.
pub(super) type ObjectAddress = (u32, u32, i32);

/// An object, one that it depends on, and how: `n`: dropping the other needs CASCADE; `a`: drops this one, too; `i`:
/// this one is a part of the other.
pub(super) type Dependency = (ObjectAddress, ObjectAddress, &'static str);

fn column_of(table: ObjectId, at: usize) -> ObjectAddress {
    (PG_CLASS, table, at as i32 + 1)
}

/// Returns all dependencies.
pub(super) fn dependencies(known: Known<'_>) -> impl Iterator<Item = Dependency> {
    let mut all = Vec::new();
    let schema_of = |schema: &str| (PG_NAMESPACE, known.catalog.schema(schema).unwrap_or(0), 0);
    for table in known.catalog.tables() {
        let def = &table.def;
        all.push(((PG_CLASS, def.id, 0), schema_of(&def.schema), "n"));
        for (at, column) in def.live_columns() {
            let domain = known.catalog.types.of_column(def.id, at).map(|domain| domain.oid);
            let ty = domain.or_else(|| column.ty.created());
            all.extend(ty.map(|ty| (column_of(def.id, at), (PG_TYPE, ty, 0), "n")));
        }
        for (at, column) in def.live_columns().filter(|(_, column)| column.identity.is_none()) {
            let default = (PG_ATTRDEF, definitions::part(def.id, at + 1), 0);
            all.extend(column.default.iter().map(|_| (default, column_of(def.id, at), "a")));
            if let Some(DefaultDef::NextOf(sequence)) = column.default {
                all.push((default, (PG_CLASS, sequence, 0), "n"));
            }
        }
    }
    for index in indexes(known.catalog) {
        let IndexView { oid, table, is_constraint, .. } = index;
        match is_constraint {
            true => all.push(((PG_CLASS, oid, 0), (PG_CONSTRAINT, oid, 0), "i")),
            false => {
                // The columns in an expression are known only where it is bound.
                let part = |at: usize| match table.def.columns[at].computation() {
                    None => column_of(table.def.id, at),
                    Some(_) => (PG_CLASS, table.def.id, 0),
                };
                all.extend(index.all_columns().map(|at| ((PG_CLASS, oid, 0), part(at), "a")));
            }
        }
    }
    for constraint in constraints(known.catalog) {
        let (own, table) = ((PG_CONSTRAINT, constraint.oid, 0), constraint.table.def.id);
        match constraint.columns.is_empty() {
            true => all.push((own, (PG_CLASS, table, 0), "a")),
            false => all.extend(constraint.columns.iter().map(|at| (own, column_of(table, *at), "a"))),
        }
        if let ConstraintKind::Foreign(key, parent) = constraint.kind {
            all.extend(key.parent_columns.iter().map(|at| (own, column_of(parent.def.id, *at), "n")));
            all.push((own, (PG_CLASS, definitions::index_of(key, parent).0, 0), "n"));
        }
    }
    for sequence in known.catalog.sequences() {
        let def = &sequence.def;
        all.push(((PG_CLASS, def.id, 0), schema_of(&def.schema), "n"));
        if let Some((table, at)) = def.owner {
            let column = known.catalog.table(table).and_then(|table| table.def.columns.get(at));
            let is_identity = column.is_some_and(|column| column.identity.is_some());
            all.push(((PG_CLASS, def.id, 0), column_of(table, at), if is_identity { "i" } else { "a" }));
        }
    }
    for ty in known.catalog.types.all() {
        all.push(((PG_TYPE, ty.oid, 0), schema_of(&ty.schema), "n"));
        let base = ty.parent().or_else(|| ty.domain().and_then(|domain| domain.base.created()));
        all.extend(base.map(|base| ((PG_TYPE, ty.oid, 0), (PG_TYPE, base, 0), "n")));
    }
    for view in known.catalog.views() {
        let (own, rule) = ((PG_CLASS, view.def.id, 0), (PG_REWRITE, definitions::part(view.def.id, 0), 0));
        if known.catalog.table(view.def.id).is_none() {
            all.push((own, schema_of(&view.def.schema), "n"));
        }
        all.push((rule, own, "i"));
        let types = view.def.columns.iter().filter_map(|column| column.ty.created());
        all.extend(types.map(|ty| (rule, (PG_TYPE, ty, 0), "n")));
        let uses_whole = |id: u32| !view.def.uses.iter().any(|(own, _)| *own == id);
        let whole = view.def.relations.iter().filter(|relation| uses_whole(relation.id));
        all.extend(whole.map(|relation| (rule, (PG_CLASS, relation.id, 0), "n")));
        all.extend(view.def.uses.iter().map(|(id, at)| (rule, column_of(*id, *at), "n")));
    }
    all.into_iter()
}
