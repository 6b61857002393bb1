//! Rights in `information_schema`.

use super::{Described, INFORMATION, Known, definitions::plain_tables, table};
use crate::catalog::{
    definition::{Grant, ObjectId},
    rights::{EVERYONE, Kind, Object, Rights},
};

/// A right of a role to a relation, or to a column of one.
struct ShownRight<'a> {
    schema: String,
    relation: String,
    column: String,
    grant: Grant,
    right: Rights,
    word: &'static str,
    is_grantable: bool,
    known: Known<'a>,
}

impl ShownRight<'_> {
    fn role(&self, role: ObjectId) -> String {
        match role {
            EVERYONE => "PUBLIC".into(),
            role => self.known.catalog.role_name(role, self.known.environment).unwrap_or_default().to_owned(),
        }
    }
}

/// Whether the current role has the rights of one of some roles.
fn is_enabled(known: Known<'_>, roles: &[ObjectId]) -> bool {
    roles.iter().any(|role| known.catalog.has_role(known.environment.role, *role))
}

/// A relation that has the rights of tables: its schema and name, and the numbers and names of its columns.
type Relation = (Object, String, String, Vec<(usize, String)>);

/// Returns the relations that have the rights of tables.
fn relations(known: Known<'_>) -> Vec<Relation> {
    let tables = plain_tables(known.catalog).map(|table| {
        let columns = table.def.live_columns().map(|(at, column)| (at, column.name.clone())).collect();
        (table.def.id, table.def.schema.clone(), table.def.name.clone(), columns)
    });
    let views = known.catalog.plain_views().map(|view| {
        let columns = view.def.columns.iter().map(|column| column.name.clone()).enumerate().collect();
        (view.def.id, view.def.schema.clone(), view.def.name.clone(), columns)
    });
    let object = |(id, schema, name, columns)| (Object::new(Kind::Table, id), schema, name, columns);
    tables.chain(views).map(object).collect()
}

/// Returns each right of some grants.
fn shown<'a>(
    known: Known<'a>,
    (object, schema, relation, column): (Object, &str, &str, &str),
    granted: &[Grant],
    only: Rights,
) -> Vec<ShownRight<'a>> {
    let mut all = Vec::new();
    for grant in granted {
        for (right, _, word) in Rights::ALL.iter().filter(|(right, ..)| grant.rights.has(*right) && only.has(*right)) {
            let owns = grant.role != EVERYONE && known.catalog.owns(grant.role, object);
            all.push(ShownRight {
                schema: schema.to_owned(),
                relation: relation.to_owned(),
                column: column.to_owned(),
                grant: *grant,
                right: *right,
                word,
                is_grantable: owns || grant.options.has(*right),
                known,
            });
        }
    }
    all
}

/// Returns the rights to tables and views; `all`: also those of all roles, and only of the roles that the current one
/// has otherwise.
fn of_tables(known: Known<'_>, all: bool) -> impl Iterator<Item = ShownRight<'_>> {
    let rights = relations(known).into_iter().flat_map(move |(object, schema, name, _)| {
        shown(known, (object, &schema, &name, ""), &known.catalog.granted(object), Kind::Table.all())
    });
    rights.filter(move |right| is_seen(right, all))
}

/// Returns the rights to columns: those to their tables, too.
fn of_columns(known: Known<'_>, all: bool) -> impl Iterator<Item = ShownRight<'_>> {
    let rights = relations(known).into_iter().flat_map(move |(object, schema, name, columns)| {
        let mut rights: Vec<ShownRight<'_>> = Vec::new();
        for (at, column) in columns {
            let place = (object, &*schema, &*name, &*column);
            let mut own = shown(known, place, &known.catalog.granted(object), Kind::Column.all());
            let granted = known.catalog.granted_of_column(object.id, at);
            for right in shown(known, place, granted, Kind::Column.all()) {
                let is_same = |other: &&mut ShownRight<'_>| {
                    (other.grant.role, other.grant.grantor, other.right)
                        == (right.grant.role, right.grant.grantor, right.right)
                };
                match own.iter_mut().find(is_same) {
                    Some(other) => other.is_grantable |= right.is_grantable,
                    None => own.push(right),
                }
            }
            rights.extend(own);
        }
        rights
    });
    rights.filter(move |right| is_seen(right, all))
}

fn is_seen(right: &ShownRight<'_>, all: bool) -> bool {
    is_enabled(right.known, &[right.grant.role, right.grant.grantor]) || all && right.grant.role == EVERYONE
}

fn yes(truth: bool) -> &'static str {
    if truth { "YES" } else { "NO" }
}

/// Returns the roles whose rights the current role has.
fn enabled(known: Known<'_>) -> impl Iterator<Item = (ObjectId, &str)> {
    let roles = known.catalog.role_names(known.environment).into_iter();
    roles.filter(move |(id, _)| is_enabled(known, &[*id]))
}

/// Returns the memberships of the current role's roles: the names of the member and of the role, and whether it may
/// make others members.
fn applicable(known: Known<'_>) -> impl Iterator<Item = (String, String, bool)> {
    let name = move |role| known.catalog.role_name(role, known.environment).unwrap_or_default().to_owned();
    let seen = move |member: ObjectId| known.catalog.has_role(known.environment.role, member);
    let memberships = known.catalog.memberships().filter(move |(member, _)| seen(*member));
    memberships.map(move |(member, of)| (name(member), name(of.role), of.is_admin))
}

pub(super) const TABLES: &[Described] = &[
    table!(INFORMATION, 0 table_privileges, known => of_tables(known, true), |right| {
        grantor NAME = right.role(right.grant.grantor);
        grantee NAME = right.role(right.grant.role);
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &right.schema;
        table_name NAME = &right.relation;
        privilege_type TEXT = right.word;
        is_grantable TEXT = yes(right.is_grantable);
        with_hierarchy TEXT = yes(right.right == Rights::SELECT);
    }),
    table!(INFORMATION, 0 role_table_grants, known => of_tables(known, false), |right| {
        grantor NAME = right.role(right.grant.grantor);
        grantee NAME = right.role(right.grant.role);
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &right.schema;
        table_name NAME = &right.relation;
        privilege_type TEXT = right.word;
        is_grantable TEXT = yes(right.is_grantable);
        with_hierarchy TEXT = yes(right.right == Rights::SELECT);
    }),
    table!(INFORMATION, 0 column_privileges, known => of_columns(known, true), |right| {
        grantor NAME = right.role(right.grant.grantor);
        grantee NAME = right.role(right.grant.role);
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &right.schema;
        table_name NAME = &right.relation;
        column_name NAME = &right.column;
        privilege_type TEXT = right.word;
        is_grantable TEXT = yes(right.is_grantable);
    }),
    table!(INFORMATION, 0 role_column_grants, known => of_columns(known, false), |right| {
        grantor NAME = right.role(right.grant.grantor);
        grantee NAME = right.role(right.grant.role);
        table_catalog NAME = &*known.environment.database;
        table_schema NAME = &right.schema;
        table_name NAME = &right.relation;
        column_name NAME = &right.column;
        privilege_type TEXT = right.word;
        is_grantable TEXT = yes(right.is_grantable);
    }),
    table!(INFORMATION, 0 enabled_roles, known => enabled(known), |(_, name)| {
        role_name NAME = name;
    }),
    table!(INFORMATION, 0 applicable_roles, known => applicable(known), |(member, role, is_admin)| {
        grantee NAME = member;
        role_name NAME = role;
        is_grantable TEXT = yes(is_admin);
    }),
];
