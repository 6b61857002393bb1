//! What the catalog stores of schemas, tables, indexes, sequences and roles.
//!
//! Definitions are values: a change makes a new one. Expressions are kept as text and bound where they are used, so that a
//! definition depends on nothing.

use serde::{Deserialize, Serialize};

use crate::{types::SqlType, verifier::Verifier};

/// The number of an object, for ever; its oid.
pub(crate) type ObjectId = u32;

/// Numbers below belong to the system.
pub(crate) const FIRST_OBJECT: ObjectId = 16384;

/// Anything that has a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Definition {
    Schema(SchemaDef),
    Table(TableDef),
    Sequence(SequenceDef),
    Role(RoleDef),
}

impl Definition {
    pub(crate) fn id(&self) -> ObjectId {
        match self {
            Self::Schema(schema) => schema.id,
            Self::Table(table) => table.id,
            Self::Sequence(sequence) => sequence.id,
            Self::Role(role) => role.id,
        }
    }

    /// Where it is kept.
    pub(crate) fn row(&self) -> ObjectId {
        match self {
            Self::Role(role) => role.row,
            other => other.id(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SchemaDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableDef {
    pub(crate) id: ObjectId,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// In order of creation; those that were dropped stay, so that stored rows keep their meaning.
    pub(crate) columns: Vec<ColumnDef>,
    /// Where it has none, rows have numbers.
    pub(crate) primary_key: Option<KeyDef>,
    pub(crate) indexes: Vec<IndexDef>,
    pub(crate) checks: Vec<CheckDef>,
    /// The number of the engine's table: another one after TRUNCATE.
    pub(crate) storage: ObjectId,
    /// What is being added while others use the table.
    pub(crate) unfinished: Option<Unfinished>,
}

/// Something that writers of a table keep to, and that need not hold yet for the rows that were there before: nobody relies on it. It is
/// finished or taken away by the statement that has begun it, or taken away when the database is opened again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Unfinished {
    Index(ObjectId),
    /// By its name.
    Check(String),
    /// Of a column.
    NotNull(usize),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnDef {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    /// As PostgreSQL numbers them; -1: none.
    pub(crate) modifier: i32,
    pub(crate) not_null: bool,
    pub(crate) default: Option<DefaultDef>,
    pub(crate) identity: Option<Identity>,
    pub(crate) is_dropped: bool,
    /// What rows have that were stored before the column was there: a row of one value.
    pub(crate) missing: Option<Vec<u8>>,
}

/// What a column gets that an insert does not mention.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum DefaultDef {
    /// The text of an expression.
    Expression(String),
    /// The next number of a sequence.
    NextOf(ObjectId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Identity {
    Always,
    ByDefault,
}

/// A primary key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeyDef {
    pub(crate) id: ObjectId,
    /// Of the constraint, and of what stands for its index.
    pub(crate) name: String,
    /// Numbers of columns.
    pub(crate) columns: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexDef {
    pub(crate) id: ObjectId,
    /// The number of the engine's table: another one after TRUNCATE.
    pub(crate) storage: ObjectId,
    pub(crate) name: String,
    pub(crate) is_unique: bool,
    /// It stands for a UNIQUE constraint.
    pub(crate) is_constraint: bool,
    /// Numbers of columns, and whether each runs down.
    pub(crate) columns: Vec<(usize, bool)>,
    /// The text of the condition that rows in it meet.
    pub(crate) predicate: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckDef {
    pub(crate) name: String,
    /// The text of the condition.
    pub(crate) condition: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SequenceDef {
    pub(crate) id: ObjectId,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) start: i64,
    pub(crate) increment: i64,
    pub(crate) least: i64,
    pub(crate) greatest: i64,
    pub(crate) cycles: bool,
    /// The column that it is dropped with: table and number.
    pub(crate) owner: Option<(ObjectId, usize)>,
}

/// A user: in no schema, and may do everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoleDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// Of its password; who has none cannot log in where passwords are asked for.
    pub(crate) verifier: Option<Verifier>,
    /// Where the definition is kept: each change of a role has a number of its own.
    pub(crate) row: ObjectId,
}

impl TableDef {
    /// The columns that are there, with their numbers.
    pub(crate) fn live_columns(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped)
    }

    /// The column of that name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.live_columns().find(|(_, column)| column.name == name).map(|(at, _)| at)
    }

    /// Whether an index has all rows that belong in it; queries read no other.
    pub(crate) fn is_complete(&self, index: usize) -> bool {
        self.unfinished != Some(Unfinished::Index(self.indexes[index].id))
    }

    /// Whether no row has NULL in a column.
    pub(crate) fn is_never_null(&self, column: usize) -> bool {
        self.columns[column].not_null && self.unfinished != Some(Unfinished::NotNull(column))
    }

    /// Takes away what is not finished; gives the index that it was.
    pub(crate) fn take_unfinished(&mut self) -> Option<IndexDef> {
        match self.unfinished.take()? {
            Unfinished::Index(id) => {
                let at = self.indexes.iter().position(|index| index.id == id)?;
                return Some(self.indexes.remove(at));
            }
            Unfinished::Check(name) => self.checks.retain(|check| check.name != name),
            Unfinished::NotNull(column) => self.columns[column].not_null = false,
        }
        None
    }

    pub(crate) fn types(&self) -> Vec<SqlType> {
        self.columns.iter().map(|column| column.ty).collect()
    }
}
