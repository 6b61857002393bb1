//! CREATE, ALTER and DROP POLICY, and ROW LEVEL SECURITY of ALTER TABLE.
//!
//! A change has the policies' table alone, and its publication counts as a change of the table: so a transaction that
//! uses the table knows its policies. The relations that a policy refers to are shared until the transaction ends, as
//! those of a new view.

use std::{collections::BTreeSet, sync::Arc};

use sqlparser::ast::{
    AlterPolicyOperation, AlterTableOperation, CreatePolicy, CreatePolicyCommand, CreatePolicyType, Expr, ObjectName,
    Owner, Statement,
};

use super::{alter::role_of, context::ChangeContext, skip, skip_missing, type_tree::qualify_types};
use crate::{
    bind::{Binder, names::name_of, plain},
    catalog::{
        Change, Table,
        definition::{Definition, ObjectId},
        rights::{EVERYONE, Kind, Object, not_owner},
        row_security::{PolicyCommand, PolicyCondition, PolicyDef, RowSecurityDef},
    },
    error::{Result, SqlError, SqlState},
    parse,
    result::RowSink,
    transaction::{ActiveTransaction, changed, view_changed},
};

/// The conditions of a policy, as a statement has them.
type Conditions<'t> = (Option<&'t Expr>, Option<&'t Expr>);

impl ChangeContext<'_> {
    /// Runs such a statement; returns the tag.
    pub(super) fn change_policy(
        &self,
        active: &mut ActiveTransaction,
        statement: &Statement,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match statement {
            Statement::CreatePolicy(create) => {
                self.create_policy(active, create, rows)?;
                Ok("CREATE POLICY".into())
            }
            Statement::AlterPolicy(alter) => {
                let (table, name) = (self.policies_table(active, &alter.table_name)?, name_of(&alter.name));
                match &alter.operation {
                    AlterPolicyOperation::Rename { new_name } => {
                        self.rename_policy(active, &table, &name, name_of(new_name))?;
                    }
                    AlterPolicyOperation::Apply { to, using, with_check } => {
                        let conditions = (using.as_ref(), with_check.as_ref());
                        self.alter_policy(active, &table, &name, (&alter.table_name, to.as_deref(), conditions), rows)?;
                    }
                }
                Ok("ALTER POLICY".into())
            }
            Statement::DropPolicy(drop) => {
                let (name, if_exists) = (name_of(&drop.name), drop.if_exists);
                match self.find(active, &drop.table_name)? {
                    None if if_exists => skip_missing(rows, &drop.table_name),
                    Some(of) if !active.catalog.owns(self.environment.role, Object::of(&of)) => {
                        return Err(not_owner("relation", &plain(&drop.table_name)));
                    }
                    _ => self.drop_policy(active, &drop.table_name, &name, if_exists, rows)?,
                }
                Ok("DROP POLICY".into())
            }
            _ => Err(SqlError::new(SqlState::INTERNAL_ERROR, "not a statement about policies")),
        }
    }

    /// Runs ENABLE, DISABLE, FORCE or NO FORCE ROW LEVEL SECURITY; returns false for another operation.
    pub(super) fn alter_row_security(
        &self,
        active: &mut ActiveTransaction,
        table: ObjectId,
        operation: &AlterTableOperation,
    ) -> Result<bool> {
        let mut security = self.security_of(active, table)?;
        match operation {
            AlterTableOperation::EnableRowLevelSecurity => security.is_enabled = true,
            AlterTableOperation::DisableRowLevelSecurity => security.is_enabled = false,
            AlterTableOperation::ForceRowLevelSecurity => security.is_forced = true,
            AlterTableOperation::NoForceRowLevelSecurity => security.is_forced = false,
            _ => return Ok(false),
        }
        self.put_security(active, security)?;
        Ok(true)
    }

    fn create_policy(
        &self,
        active: &mut ActiveTransaction,
        create: &CreatePolicy,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.policies_table(active, &create.table_name)?;
        let name = name_of(&create.name);
        let command = match create.command {
            None | Some(CreatePolicyCommand::All) => None,
            Some(CreatePolicyCommand::Select) => Some(PolicyCommand::Select),
            Some(CreatePolicyCommand::Insert) => Some(PolicyCommand::Insert),
            Some(CreatePolicyCommand::Update) => Some(PolicyCommand::Update),
            Some(CreatePolicyCommand::Delete) => Some(PolicyCommand::Delete),
        };
        let syntax_error = |message: &str| Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        match command {
            Some(PolicyCommand::Select | PolicyCommand::Delete) if create.with_check.is_some() => {
                return syntax_error("WITH CHECK cannot be applied to SELECT or DELETE");
            }
            Some(PolicyCommand::Insert) if create.using.is_some() => {
                return syntax_error("only WITH CHECK expression allowed for INSERT");
            }
            _ => {}
        }
        let mut security = self.security_of(active, table.def.id)?;
        if security.policies.iter().any(|policy| policy.name == name) {
            return Err(exists(&name, table.name()));
        }
        let roles = match &create.to {
            None => vec![EVERYONE],
            Some(roles) => self.policy_roles(active, roles, rows)?,
        };
        let conditions = (create.using.as_ref(), create.with_check.as_ref());
        let (using, check) = self.policy_conditions(active, &create.table_name, &table, conditions)?;
        let is_permissive = create.policy_type != Some(CreatePolicyType::Restrictive);
        let id = self.catalog_number()?;
        security.policies.push(PolicyDef { id, name, is_permissive, command, roles, using, check });
        self.put_security(active, security)
    }

    fn alter_policy(
        &self,
        active: &mut ActiveTransaction,
        table: &Arc<Table>,
        name: &str,
        (named, to, (using, check)): (&ObjectName, Option<&[Owner]>, Conditions<'_>),
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let mut security = self.security_of(active, table.def.id)?;
        let policy = policy_in(&mut security, name, table.name())?;
        let refused = match policy.command {
            Some(PolicyCommand::Select | PolicyCommand::Delete) if check.is_some() => {
                Some("only USING expression allowed for SELECT, DELETE")
            }
            Some(PolicyCommand::Insert) if using.is_some() => Some("only WITH CHECK expression allowed for INSERT"),
            _ => None,
        };
        if let Some(refused) = refused {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, refused));
        }
        if let Some(roles) = to {
            policy.roles = self.policy_roles(active, roles, rows)?;
        }
        let (using, check) = self.policy_conditions(active, named, table, (using, check))?;
        policy.using = using.or(policy.using.take());
        policy.check = check.or(policy.check.take());
        self.put_security(active, security)
    }

    fn rename_policy(&self, active: &mut ActiveTransaction, table: &Arc<Table>, name: &str, new: String) -> Result<()> {
        let mut security = self.security_of(active, table.def.id)?;
        if security.policies.iter().any(|policy| policy.name == new) {
            return Err(exists(&new, table.name()));
        }
        policy_in(&mut security, name, table.name())?.name = new;
        self.put_security(active, security)
    }

    fn drop_policy(
        &self,
        active: &mut ActiveTransaction,
        table: &ObjectName,
        name: &str,
        if_exists: bool,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let table = self.policies_table(active, table)?;
        let mut security = self.security_of(active, table.def.id)?;
        if policy_in(&mut security, name, table.name()).is_err() && if_exists {
            let message = format!("policy \"{name}\" for relation \"{}\" does not exist, skipping", table.name());
            skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
            return Ok(());
        }
        policy_in(&mut security, name, table.name())?;
        security.policies.retain(|policy| policy.name != name);
        self.put_security(active, security)
    }

    /// Returns the table of a name, whose policies are changed; no other transaction uses it until this one ends.
    fn policies_table(&self, active: &mut ActiveTransaction, name: &ObjectName) -> Result<Arc<Table>> {
        let table = self.table_alone(active, name, false)?.expect("an error where it is not there");
        let table = active.catalog.table(table.def.id).cloned().ok_or_else(|| changed(table.name()))?;
        if table.def.materialized.is_some() {
            let message = format!("\"{}\" is not a table", plain(name));
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        match active.catalog.owns(self.environment.role, Object::new(Kind::Table, table.def.id)) {
            true => Ok(table),
            false => Err(not_owner("table", &plain(name))),
        }
    }

    /// Returns the row security of a table; a new one has a number already.
    fn security_of(&self, active: &ActiveTransaction, table: ObjectId) -> Result<RowSecurityDef> {
        match active.catalog.row_security(table) {
            Some(security) => Ok((**security).clone()),
            None => Ok(RowSecurityDef::none(self.catalog_number()?, table)),
        }
    }

    fn put_security(&self, active: &mut ActiveTransaction, mut security: RowSecurityDef) -> Result<()> {
        security.policies.sort_by(|left, right| left.name.cmp(&right.name));
        self.apply(active, vec![Change::Put(Definition::RowSecurity(security))])
    }

    /// Returns the roles of a policy, which stay.
    fn policy_roles(
        &self,
        active: &ActiveTransaction,
        roles: &[Owner],
        rows: &mut dyn RowSink,
    ) -> Result<Vec<ObjectId>> {
        let names: Vec<_> = roles.iter().map(role_of).collect();
        if names.iter().any(|name| name.quote_style.is_none() && name.value.eq_ignore_ascii_case("public")) {
            if names.len() > 1 {
                let message = "ignoring specified roles other than PUBLIC";
                let warning = SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message);
                rows.notice("WARNING", &warning.hint("All roles are members of the PUBLIC role."));
            }
            return Ok(vec![EVERYONE]);
        }
        let found: BTreeSet<_> = names.iter().map(|name| self.role_meant(active, name)).collect::<Result<_>>()?;
        self.use_roles(active, found.iter().copied())?;
        Ok(found.into_iter().collect())
    }

    /// Binds the conditions of a policy; what they refer to stays until the transaction ends.
    fn policy_conditions(
        &self,
        active: &mut ActiveTransaction,
        name: &ObjectName,
        table: &Arc<Table>,
        (using, check): Conditions<'_>,
    ) -> Result<(Option<PolicyCondition>, Option<PolicyCondition>)> {
        let environment = self.environment_of(active);
        let catalog = active.catalog.clone();
        let mut binder = Binder::new(&catalog, &environment, self.search_path, &[]);
        let mut bind = |condition: Option<&Expr>| -> Result<Option<PolicyCondition>> {
            let Some(condition) = condition else { return Ok(None) };
            let mut bound = binder.new_policy_condition(name, table, condition)?;
            let mut stored = parse::expression(&bound.text)?;
            qualify_types(&mut stored, &environment)?;
            bound.text = stored.to_string();
            Ok(Some(bound))
        };
        let bound = (bind(using)?, bind(check)?);
        let is_temporary = |condition: &PolicyCondition| {
            condition.relations.iter().any(|relation| active.catalog.is_temporary(relation.id))
        };
        if !active.catalog.is_temporary(table.def.id) && bound.0.iter().chain(&bound.1).any(is_temporary) {
            return Err(SqlError::unsupported("a policy of a permanent table that refers to temporary objects"));
        }
        let (tables, views) = (binder.tables, binder.views);
        let others: Vec<_> = tables.into_iter().filter(|other| other.def.id != table.def.id).collect();
        if !active.share(&others, self.limits())? {
            return Err(changed(others.first().map_or("", |table| table.name())));
        }
        match active.share_views(&views, self.limits())? {
            true => Ok(bound),
            false => Err(view_changed(views.first().map_or("", |view| &view.def.name))),
        }
    }

    /// Removes a policy that refers to an object which is dropped.
    pub(super) fn forget_policy(&self, active: &mut ActiveTransaction, table: ObjectId, name: &str) -> Result<()> {
        if let Some(table) = active.catalog.table(table).cloned() {
            active.take(&table, self.limits())?;
        }
        let mut security = self.security_of(active, table)?;
        security.policies.retain(|policy| policy.name != name);
        self.put_security(active, security)
    }

    /// Removes a role from the policies that it has; a policy that no other role has is dropped.
    pub(super) fn drop_policies_of(&self, active: &mut ActiveTransaction, role: ObjectId) -> Result<()> {
        for security in active.catalog.all_row_security().cloned().collect::<Vec<_>>() {
            if !security.policies.iter().any(|policy| policy.roles.contains(&role)) {
                continue;
            }
            let mut security = (*security).clone();
            if let Some(table) = active.catalog.table(security.table).cloned() {
                active.take(&table, self.limits())?;
            }
            security.policies.iter_mut().for_each(|policy| policy.roles.retain(|own| *own != role));
            security.policies.retain(|policy| !policy.roles.is_empty());
            self.put_security(active, security)?;
        }
        Ok(())
    }
}

fn policy_in<'s>(security: &'s mut RowSecurityDef, name: &str, table: &str) -> Result<&'s mut PolicyDef> {
    security.policies.iter_mut().find(|policy| policy.name == name).ok_or_else(|| {
        let message = format!("policy \"{name}\" for table \"{table}\" does not exist");
        SqlError::new(SqlState::UNDEFINED_OBJECT, message)
    })
}

fn exists(name: &str, table: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_OBJECT, format!("policy \"{name}\" for table \"{table}\" already exists"))
}
