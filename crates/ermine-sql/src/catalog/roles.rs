//! Roles: their attributes, and which of them are members of which.
//!
//! The first superuser has the number 10 and no definition: it is every client that gives a name which no role has,
//! where such clients are let in. Some roles are built in, as in PostgreSQL.

use std::collections::BTreeSet;

use super::{
    Catalog,
    definition::{Membership, ObjectId, TraitsDef},
    rights::{Kind, Object},
};
use crate::types::Environment;

/// The number of the first superuser, which owns what no other role owns.
pub(crate) const SUPERUSER: ObjectId = 10;
/// The number of a role that has been dropped: it has no rights.
pub(crate) const NO_ROLE: ObjectId = ObjectId::MAX;
/// The name of the first superuser where it is not that of the session.
const NAME_OF_SUPERUSER: &str = "ermine";

/// The role of which only the owner of the database is a member: it owns the schema `public`.
pub(crate) const DATABASE_OWNER: (&str, ObjectId) = ("pg_database_owner", 6171);
/// The role that may read all tables.
pub(crate) const READ_ALL_DATA: (&str, ObjectId) = ("pg_read_all_data", 6181);
/// The role that may write all tables.
pub(crate) const WRITE_ALL_DATA: (&str, ObjectId) = ("pg_write_all_data", 6182);
/// The role of programs that watch the server: it sees the statements of all sessions.
pub(crate) const MONITOR: (&str, ObjectId) = ("pg_monitor", 3373);
/// The role that sees the statements of all sessions.
pub(crate) const READ_ALL_STATS: (&str, ObjectId) = ("pg_read_all_stats", 3375);
/// The role that may end statements and sessions of others.
pub(crate) const SIGNAL_BACKEND: (&str, ObjectId) = ("pg_signal_backend", 4200);
/// The role that may run CHECKPOINT.
pub(crate) const CHECKPOINT: (&str, ObjectId) = ("pg_checkpoint", 4544);
/// The roles that are built in.
pub(crate) const BUILT_IN: [(&str, ObjectId); 7] =
    [MONITOR, READ_ALL_STATS, DATABASE_OWNER, READ_ALL_DATA, WRITE_ALL_DATA, SIGNAL_BACKEND, CHECKPOINT];

impl TraitsDef {
    /// Returns the attributes of a role that has none stored.
    pub(crate) fn of_first(role: ObjectId) -> Self {
        Self {
            id: 0,
            role,
            is_superuser: true,
            inherits: true,
            creates_roles: true,
            creates_databases: true,
            can_login: true,
            replicates: true,
            sees_all_rows: true,
            connection_limit: -1,
            valid_until: None,
            member_of: Vec::new(),
        }
    }

    /// Returns the attributes of a role that is created without options.
    pub(crate) fn of_new(role: ObjectId) -> Self {
        Self {
            is_superuser: false,
            creates_roles: false,
            creates_databases: false,
            can_login: false,
            replicates: false,
            sees_all_rows: false,
            ..Self::of_first(role)
        }
    }
}

impl Catalog {
    /// Returns the attributes of a role, as far as they are stored.
    pub(crate) fn stored_traits(&self, role: ObjectId) -> Option<&TraitsDef> {
        self.traits.get(&role).map(|traits| &**traits)
    }

    /// Returns the attributes of a role.
    pub(crate) fn traits(&self, role: ObjectId) -> TraitsDef {
        match self.stored_traits(role) {
            Some(traits) => traits.clone(),
            None if self.is_superuser(role) => TraitsDef::of_first(role),
            None => TraitsDef::of_new(role),
        }
    }

    /// Returns the memberships of all roles: the members, and what they are members of.
    pub(crate) fn memberships(&self) -> impl Iterator<Item = (ObjectId, Membership)> {
        self.traits.values().flat_map(|traits| traits.member_of.iter().map(|of| (traits.role, *of)))
    }

    pub(crate) fn is_superuser(&self, role: ObjectId) -> bool {
        match self.stored_traits(role) {
            Some(traits) => traits.is_superuser,
            None => role == SUPERUSER || self.roles().any(|known| known.id == role),
        }
    }

    /// Whether a role may create and change other roles.
    pub(crate) fn creates_roles(&self, role: ObjectId) -> bool {
        self.is_superuser(role) || self.stored_traits(role).is_some_and(|traits| traits.creates_roles)
    }

    /// Returns a role and all roles of which it is a member, directly or by way of others; `inherits`: only those whose
    /// rights it has without SET ROLE.
    pub(crate) fn roles_of(&self, role: ObjectId, inherits: bool) -> BTreeSet<ObjectId> {
        let (mut all, mut next) = (BTreeSet::from([role]), vec![role]);
        let owner = self.owner(Object::new(Kind::Database, self.number));
        while let Some(role) = next.pop() {
            let traits = self.stored_traits(role).filter(|traits| traits.inherits || !inherits);
            let of_owner = (role == owner).then_some(DATABASE_OWNER.1);
            for of in traits.iter().flat_map(|traits| &traits.member_of).map(|of| of.role).chain(of_owner) {
                if all.insert(of) {
                    next.push(of);
                }
            }
        }
        all
    }

    /// Whether a role has the rights of another one.
    pub(crate) fn has_role(&self, member: ObjectId, role: ObjectId) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, true).contains(&role)
    }

    /// Whether a role may become another one (SET ROLE).
    pub(crate) fn is_member(&self, member: ObjectId, role: ObjectId) -> bool {
        member == role || self.is_superuser(member) || self.roles_of(member, false).contains(&role)
    }

    /// Whether a role may make others members of a role.
    pub(crate) fn is_admin(&self, member: ObjectId, role: ObjectId) -> bool {
        if self.is_superuser(member) {
            return true;
        }
        let of = self.roles_of(member, false);
        self.memberships().any(|(member, own)| own.role == role && own.is_admin && of.contains(&member))
    }

    /// Returns the name of the first superuser, as a session sees it.
    fn name_of_superuser<'e>(&self, environment: &'e Environment) -> &'e str {
        match &*environment.session_user {
            name if environment.login == SUPERUSER && self.role(name).is_none() => name,
            _ => NAME_OF_SUPERUSER,
        }
    }

    /// Returns the numbers and names of all roles.
    pub(crate) fn role_names<'e>(&'e self, environment: &'e Environment) -> Vec<(ObjectId, &'e str)> {
        let first = (SUPERUSER, self.name_of_superuser(environment));
        let known = self.roles().map(|role| (role.id, &*role.name));
        [first].into_iter().chain(known).chain(BUILT_IN.map(|(name, id)| (id, name))).collect()
    }

    /// Returns the number of a role.
    pub(crate) fn role_number(&self, name: &str, environment: &Environment) -> Option<ObjectId> {
        if let Some(role) = self.role(name) {
            return Some(role.id);
        }
        self.role_names(environment).into_iter().find(|(_, known)| *known == name).map(|(id, _)| id)
    }

    /// Returns the name of a role.
    pub(crate) fn role_name<'e>(&'e self, role: ObjectId, environment: &'e Environment) -> Option<&'e str> {
        self.role_names(environment).into_iter().find(|(id, _)| *id == role).map(|(_, name)| name)
    }
}
