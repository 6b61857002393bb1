//! The rights that new objects of a role get (ALTER DEFAULT PRIVILEGES).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Catalog,
    definition::{Grant, ObjectId},
    rights::Kind,
};

/// The default rights of a role: a record of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DefaultRightsDef {
    /// Each change has a number of its own.
    pub(crate) id: ObjectId,
    pub(crate) role: ObjectId,
    pub(crate) entries: Vec<DefaultRights>,
}

/// The rights to new objects of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DefaultRights {
    /// The schema of the objects; 0: in all schemas.
    pub(crate) schema: ObjectId,
    pub(crate) kind: NewKind,
    /// In all schemas: instead of those that objects have from the beginning; in a schema: in addition.
    pub(crate) granted: Vec<Grant>,
}

/// A kind of new objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum NewKind {
    Tables,
    Sequences,
    Types,
    Schemas,
}

impl NewKind {
    /// Returns the kind of objects in statements: `tables`.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Some(match word {
            "tables" => Self::Tables,
            "sequences" => Self::Sequences,
            "types" => Self::Types,
            "schemas" => Self::Schemas,
            _ => return None,
        })
    }

    /// Returns the letter of `pg_default_acl`.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::Tables => "r",
            Self::Sequences => "S",
            Self::Types => "T",
            Self::Schemas => "n",
        }
    }

    /// Returns the kind in messages.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Tables => "relations",
            Self::Sequences => "sequences",
            Self::Types => "types",
            Self::Schemas => "schemas",
        }
    }

    pub(crate) fn of(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Table => Self::Tables,
            Kind::Sequence => Self::Sequences,
            Kind::Type => Self::Types,
            Kind::Schema => Self::Schemas,
            Kind::Column | Kind::Database | Kind::Publication => return None,
        })
    }

    /// Returns the kind of its objects.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Tables => Kind::Table,
            Self::Sequences => Kind::Sequence,
            Self::Types => Kind::Type,
            Self::Schemas => Kind::Schema,
        }
    }
}

impl DefaultRightsDef {
    /// Returns the entry for a kind of objects in a schema; 0: in all.
    pub(crate) fn entry(&self, schema: ObjectId, kind: NewKind) -> Option<&DefaultRights> {
        self.entries.iter().find(|entry| (entry.schema, entry.kind) == (schema, kind))
    }

    /// Whether one of its lists names a role.
    pub(crate) fn names(&self, role: ObjectId) -> bool {
        self.entries.iter().any(|entry| entry.granted.iter().any(|grant| grant.role == role))
    }
}

/// Whether two lists grant the same.
pub(crate) fn are_same(left: &[Grant], right: &[Grant]) -> bool {
    left.len() == right.len() && left.iter().all(|grant| right.contains(grant))
}

impl Catalog {
    /// Returns the default rights of a role.
    pub(crate) fn default_rights(&self, role: ObjectId) -> Option<&Arc<DefaultRightsDef>> {
        self.default_rights.get(&role)
    }

    /// Returns the default rights of all roles.
    pub(crate) fn all_default_rights(&self) -> impl Iterator<Item = &Arc<DefaultRightsDef>> {
        self.default_rights.values()
    }

    /// Returns the rights to a new object of a role; `None`: those from the beginning.
    pub(crate) fn granted_of_new(&self, owner: ObjectId, kind: Kind, schema: Option<ObjectId>) -> Option<Vec<Grant>> {
        let (def, new) = (self.default_rights(owner)?, NewKind::of(kind)?);
        let initial = kind.initial(owner);
        let mut list = def.entry(0, new).map_or_else(|| initial.clone(), |entry| entry.granted.clone());
        let own = schema.and_then(|schema| def.entry(schema, new));
        for grant in own.iter().flat_map(|entry| &entry.granted) {
            match list.iter_mut().find(|known| (known.role, known.grantor) == (grant.role, grant.grantor)) {
                Some(known) => {
                    known.rights = known.rights | grant.rights;
                    known.options = known.options | grant.options;
                }
                None => list.push(*grant),
            }
        }
        // PostgreSQL shows such lists in this order.
        list.sort_by_key(|grant| (grant.role, grant.grantor));
        (!are_same(&list, &initial)).then_some(list)
    }
}
