//! Publications: the tables whose changes readers follow, and the kinds of changes. A publication stores nothing and
//! costs writers nothing: the log has all changes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    Catalog, Table,
    definition::{ObjectId, TableDef},
    temporary::is_temporary,
};
use crate::{
    error::{Result, SqlError, SqlState},
    key::can_be_read,
    logical::slots::Slots,
};

/// A publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PublicationDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// FOR ALL TABLES
    pub(crate) has_all: bool,
    /// FOR TABLE. Some may have been dropped: their numbers mean no other table.
    pub(crate) tables: Vec<Member>,
    /// FOR TABLES IN SCHEMA. Some may have been dropped, likewise.
    pub(crate) schemas: Vec<Member>,
    pub(crate) kinds: Kinds,
}

/// A table or a schema of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// The number of the membership.
    pub(crate) id: ObjectId,
    /// The number of the table or schema.
    pub(crate) of: ObjectId,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kinds {
    pub(crate) insert: bool,
    pub(crate) update: bool,
    pub(crate) delete: bool,
    pub(crate) truncate: bool,
}

impl Kinds {
    /// All of them: the default.
    pub(crate) const ALL: Self = Self { insert: true, update: true, delete: true, truncate: true };
}

impl PublicationDef {
    /// Whether it publishes a table, which is in a schema with this number.
    pub(crate) fn has(&self, table: &TableDef, schema: Option<ObjectId>) -> bool {
        let is_among = |members: &[Member], id| members.iter().any(|member| member.of == id);
        is_publishable(table)
            && (self.has_all
                || is_among(&self.tables, table.id)
                || schema.is_some_and(|schema| is_among(&self.schemas, schema)))
    }
}

/// Whether a table can be published at all.
pub(crate) fn is_publishable(table: &TableDef) -> bool {
    table.materialized.is_none() && !is_temporary(&table.schema)
}

/// Whether readers can tell the rows of a table by the keys that the log has of updated and deleted rows: PostgreSQL's
/// replica identity.
pub(crate) fn has_identity(table: &TableDef) -> bool {
    let is_readable = |at: &usize| can_be_read(table.columns[*at].ty);
    table.primary_key.as_ref().is_some_and(|key| key.columns.iter().all(is_readable))
}

impl Catalog {
    /// Returns the publications, by number.
    pub(crate) fn publications(&self) -> impl Iterator<Item = &PublicationDef> {
        self.publications.values().map(|publication| &**publication)
    }

    #[inline]
    pub(crate) fn has_publications(&self) -> bool {
        !self.publications.is_empty()
    }

    /// Returns the publication of a name.
    pub(crate) fn publication(&self, name: &str) -> Option<&PublicationDef> {
        self.publications().find(|publication| publication.name == name)
    }

    /// Returns the tables that a publication has now, by number.
    pub(crate) fn published(&self, publication: &PublicationDef) -> Vec<&Table> {
        let tables = self.tables().into_iter().map(|table| &**table);
        let mut found: Vec<_> =
            tables.filter(|table| publication.has(&table.def, self.schema(&table.def.schema))).collect();
        found.sort_by_key(|table| table.def.id);
        found
    }

    /// Returns the replication slots of a database that is served.
    pub(crate) fn slots(&self) -> Result<Arc<Slots>> {
        self.sessions.slots.get().cloned().ok_or_else(|| {
            SqlError::unsupported("a replication slot of a database that is not served")
                .hint("A program that has opened the database reads changes with Database::changes.")
        })
    }

    /// Fails for a role without the right to read the log.
    pub(crate) fn check_replicates(&self, role: ObjectId) -> Result<()> {
        match self.is_superuser(role) || self.traits(role).replicates {
            true => Ok(()),
            false => {
                let message = "must be superuser or replication role to use replication slots";
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
            }
        }
    }

    /// Notes that the transaction with this catalog has written the rows of a published table anew.
    pub(crate) fn note_rewrite(&mut self, table: ObjectId) {
        self.rewritten.insert(table);
    }

    /// Whether the transaction with this catalog has written the rows of a published table anew.
    pub(crate) fn is_rewritten(&self, table: ObjectId) -> bool {
        self.rewritten.contains(&table)
    }

    /// Whether some publication has such changes of a table.
    pub(crate) fn publishes(&self, table: &TableDef, is_published: impl Fn(Kinds) -> bool) -> bool {
        self.publications()
            .any(|publication| is_published(publication.kinds) && publication.has(table, self.schema(&table.schema)))
    }
}
