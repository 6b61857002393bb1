//! Row security: the policies of a table, which decide the rows that a role sees and may write.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Catalog,
    definition::{NamedRelation, ObjectId},
    rights::{EVERYONE, Kind, Object},
};

/// The row security of a table: an object of its own, which does not change the definition of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowSecurityDef {
    pub(crate) id: ObjectId,
    pub(crate) table: ObjectId,
    /// ENABLE ROW LEVEL SECURITY
    pub(crate) is_enabled: bool,
    /// FORCE ROW LEVEL SECURITY: the policies hold for the owner, too.
    pub(crate) is_forced: bool,
    /// By name.
    pub(crate) policies: Vec<PolicyDef>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// PERMISSIVE: one of those has to allow a row; RESTRICTIVE: all of those have to.
    pub(crate) is_permissive: bool,
    /// `None`: all commands.
    pub(crate) command: Option<PolicyCommand>,
    /// Members of these roles have it; 0 stands for all roles.
    pub(crate) roles: Vec<ObjectId>,
    /// The condition on rows that are read.
    pub(crate) using: Option<PolicyCondition>,
    /// The condition on rows that are written.
    pub(crate) check: Option<PolicyCondition>,
}

/// A command that a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum PolicyCommand {
    Select,
    Insert,
    Update,
    Delete,
}

/// A condition on the rows of a table, in which names keep their meaning as in the query of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PolicyCondition {
    pub(crate) text: String,
    /// The meanings of the names of relations, the policy's own table among them.
    pub(crate) relations: Vec<NamedRelation>,
    /// The columns of tables and views that it uses, by their numbers.
    pub(crate) uses: Vec<(ObjectId, usize)>,
}

impl PolicyCommand {
    /// Returns the command's name in statements.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl PolicyDef {
    /// Returns its conditions.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &PolicyCondition> {
        self.using.iter().chain(&self.check)
    }

    /// Whether its conditions use an object, or a column of it.
    pub(crate) fn depends_on(&self, id: ObjectId, column: Option<usize>) -> bool {
        self.conditions().any(|condition| match column {
            None => condition.relations.iter().any(|relation| relation.id == id),
            Some(column) => condition.uses.contains(&(id, column)),
        })
    }
}

impl RowSecurityDef {
    /// Returns the row security of a table that has none.
    pub(crate) fn none(id: ObjectId, table: ObjectId) -> Self {
        Self { id, table, is_enabled: false, is_forced: false, policies: Vec::new() }
    }

    /// Returns the relations that policies refer to, and the table.
    pub(super) fn relations(&self) -> Vec<ObjectId> {
        let conditions = self.policies.iter().flat_map(PolicyDef::conditions);
        let named = conditions.flat_map(|condition| condition.relations.iter().map(|relation| relation.id));
        named.chain([self.table]).collect()
    }
}

impl Catalog {
    /// Returns the row security of a table.
    pub(crate) fn row_security(&self, table: ObjectId) -> Option<&Arc<RowSecurityDef>> {
        self.row_security.get(&table)
    }

    /// Returns the row security of all tables.
    pub(crate) fn all_row_security(&self) -> impl Iterator<Item = &Arc<RowSecurityDef>> {
        self.row_security.values()
    }

    /// Returns the row security of a table, if a role is subject to it.
    pub(crate) fn row_security_for(&self, role: ObjectId, table: ObjectId) -> Option<&Arc<RowSecurityDef>> {
        let security = self.row_security(table).filter(|security| security.is_enabled)?;
        let is_exempt = self.is_superuser(role)
            || self.traits(role).sees_all_rows
            || !security.is_forced && self.owns(role, Object::new(Kind::Table, table));
        (!is_exempt).then_some(security)
    }

    /// Whether a role has a policy.
    pub(crate) fn has_policy(&self, role: ObjectId, policy: &PolicyDef) -> bool {
        policy.roles.iter().any(|member| *member == EVERYONE || self.has_role(role, *member))
    }
}
