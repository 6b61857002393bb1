//! Policies of row security.
//!
//! The text of a condition is one that CREATE POLICY takes. Relations in it have the names of today, as in the text of a
//! view, and so have the columns of the policy's own table, except without the table's name in a query inside.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Ident, VisitMut, VisitorMut};

use super::{Described, Known, PG_CATALOG, table, views};
use crate::{
    catalog::{
        Table,
        definition::NamedRelation,
        rights::EVERYONE,
        row_security::{PolicyCondition, PolicyDef},
    },
    parse::{self, ident},
    types::{Array, Scalar, Value},
};

/// A policy, and its table.
type Shown<'a> = (&'a PolicyDef, &'a Table);

fn policies(known: Known<'_>) -> impl Iterator<Item = Shown<'_>> {
    known.catalog.all_row_security().flat_map(move |security| {
        let table = known.catalog.table(security.table);
        security.policies.iter().filter_map(move |policy| Some((policy, &**table?)))
    })
}

/// Returns the names of a policy's roles.
fn roles(known: Known<'_>, policy: &PolicyDef) -> Value {
    let name = |role: &u32| match *role {
        EVERYONE => "public",
        role => known.catalog.role_name(role, known.environment).unwrap_or("???"),
    };
    Value::array(Array::new(Scalar::Name, policy.roles.iter().map(|role| name(role).into()).collect()))
}

/// Returns the text of a condition.
fn text(known: Known<'_>, table: &Table, condition: Option<&PolicyCondition>) -> Option<String> {
    let condition = condition?;
    let Ok(mut expr) = parse::expression(&condition.text) else { return Some(condition.text.clone()) };
    let today = table.name().to_lowercase();
    let is_ambiguous = views::names_in(&expr).contains(&today)
        && condition.relations.iter().any(|named| named.id == table.def.id && named.name != table.name());
    views::rename_relations(known, &mut expr, &condition.relations);
    if let Some(named) = condition.relations.iter().find(|named| named.id == table.def.id) {
        let _ = VisitMut::visit(&mut expr, &mut OwnColumns { table, named, depth: 0, is_ambiguous });
    }
    let is_closed =
        matches!(expr, ast::Expr::Function(_) | ast::Expr::Identifier(_) | ast::Expr::Value(_) | ast::Expr::Nested(_));
    Some(views::as_written(if is_closed { expr.to_string() } else { format!("({expr})") }))
}

/// Gives the columns of a policy's table the names of today. Where another relation in the policy has the table's new
/// name, the old one stays: it is an error where the text is used, and never another column.
struct OwnColumns<'p> {
    table: &'p Table,
    named: &'p NamedRelation,
    /// The number of queries around.
    depth: usize,
    is_ambiguous: bool,
}

impl OwnColumns<'_> {
    fn rename(&self, name: &mut Ident) {
        let at = self.named.columns.iter().position(|known| *known == name.value);
        if let Some(column) = at.and_then(|at| self.table.def.columns.get(at)).filter(|column| !column.is_dropped)
            && column.name != name.value
        {
            *name = ident(&column.name);
        }
    }
}

impl VisitorMut for OwnColumns<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut ast::Expr) -> ControlFlow<()> {
        match expr {
            ast::Expr::Identifier(name) if self.depth == 0 => self.rename(name),
            ast::Expr::CompoundIdentifier(parts) => {
                if let [table, name] = &mut parts[..]
                    && table.value == self.named.name
                    && !self.is_ambiguous
                {
                    self.rename(name);
                    if self.table.name() != self.named.name {
                        *table = ident(self.table.name());
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

pub(super) const TABLES: &[Described] = &[
    table!(PG_CATALOG, 3256 pg_policy, known => policies(known), |(policy, table)| {
        oid OID = policy.id;
        polname NAME = &policy.name;
        polrelid OID = table.def.id;
        polcmd CHAR = match policy.command.map(|command| command.word()) {
            Some("SELECT") => "r",
            Some("INSERT") => "a",
            Some("UPDATE") => "w",
            Some(_) => "d",
            None => "*",
        };
        polpermissive BOOL = policy.is_permissive;
        polroles OIDS = Value::array(Array::new(Scalar::Oid, policy.roles.iter().map(|role| Value::Oid(*role)).collect()));
        polqual TEXT = text(known, table, policy.using.as_ref());
        polwithcheck TEXT = text(known, table, policy.check.as_ref());
    }),
    table!(PG_CATALOG, 0 pg_policies, known => policies(known), |(policy, table)| {
        schemaname NAME = &table.def.schema;
        tablename NAME = table.name();
        policyname NAME = &policy.name;
        permissive TEXT = if policy.is_permissive { "PERMISSIVE" } else { "RESTRICTIVE" };
        roles NAMES = roles(known, policy);
        cmd TEXT = policy.command.map_or("ALL", |command| command.word());
        qual TEXT = text(known, table, policy.using.as_ref());
        with_check TEXT = text(known, table, policy.check.as_ref());
    }),
];
