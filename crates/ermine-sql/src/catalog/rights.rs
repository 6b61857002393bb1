//! Rights: to which objects which roles may do what.
//!
//! An object has an owner and a list of [`Grant`]s ([`definition::RightsDef`](super::definition::RightsDef)); without
//! one, the rights are those from the beginning ([`Kind::initial`]). A role has the rights that are granted to itself,
//! to all roles, and to the roles that it inherits from (`roles`). The owner may grant all rights to others, whatever it
//! has itself. The rules are PostgreSQL's.

use std::{
    borrow::Cow,
    ops::{BitAnd, BitOr, Not},
};

use serde::{Deserialize, Serialize};

use super::{
    Catalog, PUBLIC, Relation,
    comments::{PG_CLASS, PG_DATABASE, PG_NAMESPACE, PG_PUBLICATION, PG_TYPE},
    definition::{Grant, ObjectId, RightsDef},
    roles::{DATABASE_OWNER, READ_ALL_DATA, SUPERUSER, WRITE_ALL_DATA},
};
use crate::error::{Result, SqlError, SqlState};

/// A set of rights, with PostgreSQL's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rights(u16);

impl Rights {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const INSERT: Self = Self(1);
    pub(crate) const SELECT: Self = Self(1 << 1);
    pub(crate) const UPDATE: Self = Self(1 << 2);
    pub(crate) const DELETE: Self = Self(1 << 3);
    pub(crate) const TRUNCATE: Self = Self(1 << 4);
    pub(crate) const REFERENCES: Self = Self(1 << 5);
    pub(crate) const TRIGGER: Self = Self(1 << 6);
    pub(crate) const USAGE: Self = Self(1 << 8);
    pub(crate) const CREATE: Self = Self(1 << 9);
    pub(crate) const TEMPORARY: Self = Self(1 << 10);
    pub(crate) const CONNECT: Self = Self(1 << 11);

    /// All rights: their letters and words, in the order in which lists show them.
    pub(crate) const ALL: [(Self, char, &'static str); 11] = [
        (Self::INSERT, 'a', "INSERT"),
        (Self::SELECT, 'r', "SELECT"),
        (Self::UPDATE, 'w', "UPDATE"),
        (Self::DELETE, 'd', "DELETE"),
        (Self::TRUNCATE, 'D', "TRUNCATE"),
        (Self::REFERENCES, 'x', "REFERENCES"),
        (Self::TRIGGER, 't', "TRIGGER"),
        (Self::USAGE, 'U', "USAGE"),
        (Self::CREATE, 'C', "CREATE"),
        (Self::TEMPORARY, 'T', "TEMPORARY"),
        (Self::CONNECT, 'c', "CONNECT"),
    ];

    /// Returns the right of a word, in any case.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let word = if word.eq_ignore_ascii_case("temp") { "temporary" } else { word };
        Self::ALL.iter().find(|(.., known)| known.eq_ignore_ascii_case(word)).map(|(right, ..)| *right)
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` are among them.
    pub(crate) fn has(self, other: Self) -> bool {
        self & other == other
    }

    pub(crate) fn without(self, other: Self) -> Self {
        self & !other
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Rights {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// All roles, as the receiver of a right.
pub(crate) const EVERYONE: ObjectId = 0;

/// A kind of objects that have rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A table, or a view.
    Table,
    Column,
    Sequence,
    Database,
    Schema,
    Type,
    /// It has an owner, and no rights.
    Publication,
}

impl Kind {
    /// Returns all rights that objects of the kind have.
    pub(crate) fn all(self) -> Rights {
        use Rights as R;
        match self {
            Self::Table => R::INSERT | R::SELECT | R::UPDATE | R::DELETE | R::TRUNCATE | R::REFERENCES | R::TRIGGER,
            Self::Column => R::INSERT | R::SELECT | R::UPDATE | R::REFERENCES,
            Self::Sequence => R::SELECT | R::UPDATE | R::USAGE,
            Self::Database => R::CREATE | R::TEMPORARY | R::CONNECT,
            Self::Schema => R::CREATE | R::USAGE,
            Self::Type => R::USAGE,
            Self::Publication => R::NONE,
        }
    }

    /// Returns the rights that all roles have from the beginning.
    pub(crate) fn of_everyone(self) -> Rights {
        match self {
            Self::Database => Rights::TEMPORARY | Rights::CONNECT,
            Self::Type => Rights::USAGE,
            Self::Table | Self::Column | Self::Sequence | Self::Schema | Self::Publication => Rights::NONE,
        }
    }

    /// Returns the rights that an object of an owner has from the beginning.
    pub(crate) fn initial(self, owner: ObjectId) -> Vec<Grant> {
        let to = |role, rights| Grant { role, grantor: owner, rights, options: Rights::NONE };
        let owned = if self == Self::Column { Rights::NONE } else { self.all() };
        let all = [to(EVERYONE, self.of_everyone()), to(owner, owned)];
        all.into_iter().filter(|grant| !grant.rights.is_empty()).collect()
    }

    /// Returns the kind's name in messages.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Table => "relation",
            Self::Column => "column",
            Self::Sequence => "sequence",
            Self::Database => "database",
            Self::Schema => "schema",
            Self::Type => "type",
            Self::Publication => "publication",
        }
    }
}

/// An object that has an owner and rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) kind: Kind,
    pub(crate) id: ObjectId,
}

impl Object {
    pub(crate) fn new(kind: Kind, id: ObjectId) -> Self {
        Self { kind, id }
    }

    pub(crate) fn of(relation: &Relation) -> Self {
        match relation {
            Relation::Table(table) | Relation::Index(table, _) => Self::new(Kind::Table, table.def.id),
            Relation::View(view) => Self::new(Kind::Table, view.def.id),
            Relation::Sequence(sequence) => Self::new(Kind::Sequence, sequence.def.id),
        }
    }

    /// Returns the number of the system table that lists it.
    pub(crate) fn class(self) -> u32 {
        match self.kind {
            Kind::Table | Kind::Column | Kind::Sequence => PG_CLASS,
            Kind::Database => PG_DATABASE,
            Kind::Schema => PG_NAMESPACE,
            Kind::Type => PG_TYPE,
            Kind::Publication => PG_PUBLICATION,
        }
    }
}

impl Catalog {
    /// Returns what is stored of an object's owner and rights.
    pub(crate) fn rights(&self, object: Object) -> Option<&RightsDef> {
        self.rights.get(&(object.class(), object.id)).map(|rights| &**rights)
    }

    /// Returns the owner and the rights of all objects that have others than those from the beginning.
    pub(crate) fn all_rights(&self) -> impl Iterator<Item = &RightsDef> {
        self.rights.values().map(|rights| &**rights)
    }

    /// Returns the owner of an object.
    pub(crate) fn owner(&self, object: Object) -> ObjectId {
        let is_public = || object.kind == Kind::Schema && self.schema(PUBLIC) == Some(object.id);
        match self.rights(object) {
            Some(rights) => rights.owner,
            None if is_public() => DATABASE_OWNER.1,
            None => SUPERUSER,
        }
    }

    /// Returns the rights to an object that have been granted.
    pub(crate) fn granted(&self, object: Object) -> Cow<'_, [Grant]> {
        if let Some(granted) = self.rights(object).and_then(|rights| rights.granted.as_deref()) {
            return granted.into();
        }
        let owner = self.owner(object);
        let mut initial = object.kind.initial(owner);
        if object.kind == Kind::Schema && self.schema(PUBLIC) == Some(object.id) {
            let (role, rights) = (EVERYONE, Rights::USAGE);
            initial.push(Grant { role, grantor: owner, rights, options: Rights::NONE });
        }
        initial.into()
    }

    /// Returns the rights to a column of a relation that have been granted.
    pub(crate) fn granted_of_column(&self, relation: ObjectId, column: usize) -> &[Grant] {
        let rights = self.rights(Object::new(Kind::Table, relation));
        let found = rights.and_then(|rights| rights.columns.iter().find(|(at, _)| *at == column));
        found.map_or(&[], |(_, granted)| granted)
    }

    /// Whether a role has the rights of an object's owner.
    pub(crate) fn owns(&self, role: ObjectId, object: Object) -> bool {
        self.has_role(role, self.owner(object))
    }

    /// Returns those of the wanted rights that a role has to an object.
    pub(crate) fn held(&self, role: ObjectId, object: Object, wanted: Rights) -> Rights {
        if self.is_superuser(role) {
            return wanted;
        }
        let mut held = self.held_of(role, &self.granted(object), self.owner(object)).0;
        let is_relation = matches!(object.kind, Kind::Table | Kind::Sequence);
        if (is_relation && wanted.has(Rights::SELECT) || object.kind == Kind::Schema && wanted.has(Rights::USAGE))
            && self.has_role(role, READ_ALL_DATA.1)
        {
            held = held | if is_relation { Rights::SELECT } else { Rights::USAGE };
        }
        if (is_relation || object.kind == Kind::Schema) && self.has_role(role, WRITE_ALL_DATA.1) {
            held = held | if is_relation { Rights::INSERT | Rights::UPDATE | Rights::DELETE } else { Rights::USAGE };
        }
        held & wanted
    }

    /// Whether a role has one of some rights to an object.
    pub(crate) fn has_any(&self, role: ObjectId, object: Object, wanted: Rights) -> bool {
        !self.held(role, object, wanted).is_empty()
    }

    /// Returns those of the wanted rights that a role has to a column, whether granted for it or for its relation.
    pub(crate) fn held_of_column(&self, role: ObjectId, relation: ObjectId, column: usize, wanted: Rights) -> Rights {
        let table = Object::new(Kind::Table, relation);
        let own = self.held_of(role, self.granted_of_column(relation, column), self.owner(table)).0;
        self.held(role, table, wanted) | own & wanted
    }

    /// Returns the rights that a role has by a list, and those that it may grant to others.
    pub(crate) fn held_of(&self, role: ObjectId, granted: &[Grant], owner: ObjectId) -> (Rights, Rights) {
        let (mut held, mut options) = (Rights::NONE, Rights::NONE);
        if self.has_role(role, owner) {
            options = !Rights::NONE;
        }
        let roles = self.roles_of(role, true);
        for grant in granted.iter().filter(|grant| grant.role == EVERYONE || roles.contains(&grant.role)) {
            held = held | grant.rights;
            options = options | grant.options;
        }
        (held, options)
    }

    /// Whether a role may look up names in a schema.
    pub(crate) fn may_use_schema(&self, role: ObjectId, schema: &str) -> bool {
        let Some(id) = self.schema(schema).filter(|id| !self.is_temporary(*id)) else { return true };
        self.has_any(role, Object::new(Kind::Schema, id), Rights::USAGE)
    }

    /// Returns the relation of a name that has no schema.
    pub(crate) fn find_in(&self, search_path: &[String], role: ObjectId, name: &str) -> Option<Relation> {
        let found = |schema: &str| self.find(schema, name).filter(|_| self.may_use_schema(role, schema));
        self.schemas_of(search_path).find_map(found)
    }
}

/// Fails if a role may not look up names in a schema.
pub(crate) fn check_usage(catalog: &Catalog, role: ObjectId, schema: &str) -> Result<()> {
    match catalog.may_use_schema(role, schema) {
        true => Ok(()),
        false => Err(no_right_to("schema", schema)),
    }
}

/// Returns the error of a missing right to an object.
pub(crate) fn no_right(catalog: &Catalog, object: Object) -> SqlError {
    let (kind, name) = catalog.described(object);
    no_right_to(kind, &name)
}

pub(crate) fn no_right_to(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for {kind} {name}"))
}

/// Returns the error of a statement that only an object's owner may run.
pub(crate) fn not_owner(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("must be owner of {kind} {name}"))
}

/// Returns the kind of a relation in messages.
pub(crate) fn kind_of(relation: &Relation) -> &'static str {
    match relation {
        Relation::Table(table) => table.def.kind(),
        Relation::View(_) => "view",
        Relation::Sequence(_) => "sequence",
        Relation::Index(..) => "index",
    }
}
