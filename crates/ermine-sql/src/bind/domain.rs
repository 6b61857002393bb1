//! Domains: types with the values of another one, of which some are excluded.
//!
//! A value of a domain is one of its base type, and expressions treat it so. What a domain excludes is checked where a
//! value becomes one of the domain: in casts ([`Expr::Domain`]), and in the rows of tables ([`super::write::Rules`]).

use std::sync::Arc;

use sqlparser::ast;

use super::{Binder, Scope, ScopeColumn, Typed, names::user_type_of};
use crate::{
    catalog::Table,
    collation::Collation,
    error::{Result, SqlError},
    expr::{BoundDomain, Expr},
    types::{
        Value,
        cast::Context,
        user_types::{Domain, UserType},
    },
};

impl Binder<'_> {
    /// Returns the domain that a type's name means.
    pub(super) fn domain_named(&self, data_type: &ast::DataType) -> Result<Option<Arc<UserType>>> {
        let ast::DataType::Custom(name, _) = data_type else { return Ok(None) };
        let found = user_type_of(name, self.environment)?;
        Ok(found.filter(|ty| ty.domain().is_some()).cloned())
    }

    /// Binds a cast to a domain; `None`: the type is none.
    pub(super) fn cast_to_domain(&mut self, operand: &Typed, to: &ast::DataType) -> Result<Option<Typed>> {
        if self.environment.types.is_empty() {
            return Ok(None);
        }
        let Some(ty) = self.domain_named(to)? else { return Ok(None) };
        let Some(Domain { base, modifier, .. }) = ty.domain() else { return Ok(None) };
        let value = self.convert(operand.clone(), *base, *modifier, Context::Explicit)?;
        let domain = self.domain(&ty)?;
        let expr = if domain.is_free() { value } else { Expr::Domain(Box::new(value), Arc::new(domain)) };
        Ok(Some(Typed { expr, ty: Some(*base), modifier: *modifier }))
    }

    /// Binds the conditions on the values of a domain.
    pub(crate) fn domain(&mut self, ty: &UserType) -> Result<BoundDomain> {
        let name = self.environment.user_type_name(ty);
        let mut bound = BoundDomain { name, not_null: false, checks: Vec::new() };
        let all: Vec<_> = self.catalog.types.and_parents(ty).filter_map(UserType::domain).collect();
        // As in PostgreSQL, the first violated check is reported: those of the domain below first, then by name.
        for domain in all.into_iter().rev() {
            bound.not_null |= domain.not_null;
            let before = bound.checks.len();
            for check in &domain.checks {
                let condition =
                    self.stored(&check.condition, |this, condition| this.condition_on_value(domain, condition))?;
                bound.checks.push((check.name.clone(), condition));
            }
            bound.checks[before..].sort_by(|left, right| left.0.cmp(&right.0));
        }
        Ok(bound)
    }

    /// Binds a condition on `VALUE`, the only value of a row.
    pub(crate) fn condition_on_value(&mut self, domain: &Domain, condition: &ast::Expr) -> Result<Expr> {
        let value = ScopeColumn {
            source: 0,
            number: 0,
            name: "value".into(),
            at: 0,
            ty: domain.base,
            modifier: domain.modifier,
            collation: Collation::of(domain.base),
            origin: (0, 0),
            fields: None,
            is_merged: false,
            is_system: false,
        };
        let scopes = std::mem::take(&mut self.scopes);
        self.scopes.push(Scope { columns: vec![value], sources: vec![String::new()], ..Scope::default() });
        let bound = self.condition(condition, "CHECK");
        self.scopes = scopes;
        match bound? {
            bound if bound.has_query() => Err(SqlError::unsupported("a query in a CHECK constraint")),
            bound => Ok(bound),
        }
    }

    /// Binds the default of a domain.
    pub(crate) fn default_of_domain(&mut self, ty: &UserType) -> Result<Expr> {
        let Some(domain) = ty.domain() else { return Ok(Expr::Constant(Value::Null)) };
        let Some(text) = &domain.default else { return Ok(Expr::Constant(Value::Null)) };
        let bound = self.stored(text, |this, expr| {
            let scopes = std::mem::replace(&mut this.scopes, vec![Scope::default()]);
            let typed = this.expr(expr);
            this.scopes = scopes;
            this.assign_default(typed?, (domain.base, domain.modifier), &ty.name)
        })?;
        if bound.has_query() {
            return Err(SqlError::unsupported("a query in a DEFAULT"));
        }
        Ok(bound)
    }

    /// Binds what the domains of a table's columns exclude, evaluated on a row.
    pub(super) fn domains_of(&mut self, table: &Table) -> Result<Vec<Expr>> {
        let catalog = self.catalog;
        if catalog.types.is_empty() {
            return Ok(Vec::new());
        }
        let columns =
            table.def.live_columns().filter_map(|(at, _)| Some((at, catalog.types.of_column(table.def.id, at)?)));
        let mut all = Vec::new();
        for (at, ty) in columns {
            let domain = self.domain(ty)?;
            if !domain.is_free() {
                all.push(Expr::Domain(Box::new(Expr::Column(at)), Arc::new(domain)));
            }
        }
        Ok(all)
    }
}
