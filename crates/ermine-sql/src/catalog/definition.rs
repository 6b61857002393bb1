//! The stored definitions of databases, schemas, tables, indexes, sequences, views, roles, foreign keys, types, comments,
//! rights and publications.
//!
//! Definitions are values: a change makes a new one. Expressions are stored as text and bound where they are used, so a
//! definition has no dependencies.

use serde::{Deserialize, Serialize};

use super::{
    comments::{PG_AUTHID, PG_DATABASE},
    default_rights::DefaultRightsDef,
    publication::PublicationDef,
    rights::Rights,
    row_security::RowSecurityDef,
};
use crate::{
    types::{SqlType, user_types::UserType},
    verifier::Verifier,
};

/// The number of an object, permanently; its oid.
pub(crate) type ObjectId = u32;

/// Numbers below belong to the system.
pub(crate) const FIRST_OBJECT: ObjectId = 16384;

/// The definition of anything that has a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Definition {
    Schema(SchemaDef),
    Table(TableDef),
    Sequence(SequenceDef),
    Role(RoleDef),
    ForeignKey(ForeignKeyDef),
    View(ViewDef),
    Type(UserType),
    Comment(CommentDef),
    Rights(RightsDef),
    Traits(TraitsDef),
    /// A table with parts that [`TableDef`] is stored without. Only stored rows have this form (`stored.rs`).
    TableWith(TableDef, Vec<TablePart>),
    RowSecurity(RowSecurityDef),
    DefaultRights(DefaultRightsDef),
    Publication(PublicationDef),
    Database(DatabaseDef),
    /// A definition of another database than the first one. Only stored rows have this form (`stored.rs`).
    Of(ObjectId, Box<Definition>),
}

impl Definition {
    pub(crate) fn id(&self) -> ObjectId {
        match self {
            Self::Schema(schema) => schema.id,
            Self::Table(table) | Self::TableWith(table, _) => table.id,
            Self::Sequence(sequence) => sequence.id,
            Self::Role(role) => role.id,
            Self::ForeignKey(key) => key.id,
            Self::View(view) => view.id,
            Self::Type(ty) => ty.oid,
            Self::Comment(comment) => comment.id,
            Self::Rights(rights) => rights.id,
            Self::Traits(traits) => traits.id,
            Self::RowSecurity(security) => security.id,
            Self::DefaultRights(rights) => rights.id,
            Self::Publication(publication) => publication.id,
            Self::Database(database) => database.id,
            Self::Of(_, definition) => definition.id(),
        }
    }

    /// Whether all databases have it in common: roles and their attributes, databases, and the rights to and comments
    /// on these.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Role(_) | Self::Traits(_) | Self::Database(_) => true,
            Self::Rights(rights) => is_shared_class(rights.class),
            Self::Comment(comment) => is_shared_class(comment.class),
            _ => false,
        }
    }

    /// The number under which the definition is stored.
    pub(crate) fn row(&self) -> ObjectId {
        match self {
            Self::Role(role) => role.row,
            other => other.id(),
        }
    }
}

/// Whether the objects of a system table belong to all databases.
pub(crate) fn is_shared_class(class: u32) -> bool {
    matches!(class, PG_AUTHID | PG_DATABASE)
}

/// A database besides the first one: a set of schemas of its own in the same engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatabaseDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    pub(crate) allows_connections: bool,
    /// -1: none.
    pub(crate) connection_limit: i32,
    pub(crate) is_template: bool,
    /// It was dropped: its name does not become one of the first database.
    pub(crate) is_dropped: bool,
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
    /// The columns in order of creation; dropped ones stay, so that stored rows keep their meaning.
    pub(crate) columns: Vec<ColumnDef>,
    /// Without a primary key, rows have numbers.
    pub(crate) primary_key: Option<KeyDef>,
    pub(crate) indexes: Vec<IndexDef>,
    pub(crate) checks: Vec<CheckDef>,
    /// The number of the engine's table: TRUNCATE replaces it.
    pub(crate) relation_file: ObjectId,
    /// A part that is being added while transactions use the table.
    pub(crate) unfinished: Option<Unfinished>,
    /// The query of a materialized view.
    #[serde(skip)]
    pub(crate) materialized: Option<Box<MaterializedDef>>,
}

/// The part of a materialized view that makes it one: a table whose rows are those of a query when it was last run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MaterializedDef {
    /// The text of the query, as in [`ViewDef`].
    pub(crate) query: String,
    pub(crate) relations: Vec<NamedRelation>,
    pub(crate) uses: Vec<(ObjectId, usize)>,
    pub(crate) is_populated: bool,
}

/// An addition that writers of a table observe, but that need not hold yet for older rows: no transaction relies on it.
/// The statement that began it finishes or removes it; otherwise the next opening of the database removes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Unfinished {
    Index(ObjectId),
    /// A check constraint, by its name.
    Check(String),
    /// A NOT NULL constraint, by the number of its column.
    NotNull(usize),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ColumnDef {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    /// The type modifier, as in PostgreSQL; -1: none.
    pub(crate) modifier: i32,
    pub(crate) not_null: bool,
    pub(crate) default: Option<DefaultDef>,
    pub(crate) identity: Option<Identity>,
    pub(crate) is_dropped: bool,
    /// The value for rows that were stored before the column was added: a row of one value.
    pub(crate) missing: Option<Vec<u8>>,
}

/// The default of a column, for inserts that do not mention it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum DefaultDef {
    /// The text of an expression.
    Expression(String),
    /// The next number of a sequence.
    NextOf(ObjectId),
    /// The text of an expression on the other columns of the row: a generated column.
    Generated(String),
    /// The text of an expression of indexes, in parentheses unless it is a call. The column exists for them alone: it
    /// counts as dropped, and no row stores its value. It stays when no index uses it any longer.
    Computed(String),
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
    /// The name of the constraint, and of its index as shown to clients.
    pub(crate) name: String,
    /// Numbers of columns.
    pub(crate) columns: Vec<usize>,
    /// Columns that the key only shows (INCLUDE).
    #[serde(skip)]
    pub(crate) included: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct IndexDef {
    pub(crate) id: ObjectId,
    /// The number of the engine's table: TRUNCATE replaces it.
    pub(crate) relation_file: ObjectId,
    pub(crate) name: String,
    pub(crate) is_unique: bool,
    /// Whether it implements a UNIQUE constraint.
    pub(crate) is_constraint: bool,
    /// Numbers of columns, and whether each is descending.
    pub(crate) columns: Vec<(usize, bool)>,
    /// The text of the condition that its rows meet.
    pub(crate) predicate: Option<String>,
    /// Columns that the index only shows (INCLUDE): each lookup reads the row anyway, so no entry has their values.
    #[serde(skip)]
    pub(crate) included: Vec<usize>,
}

/// A part of a table's definition that its first stored form lacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum TablePart {
    /// The number of an index or a primary key, and the columns that it includes.
    Included(ObjectId, Vec<usize>),
    Materialized(MaterializedDef),
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

/// A user: belongs to no schema. Without [`TraitsDef`] it is a superuser that may log in: roles were so at first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoleDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// The verifier of the password; a role without one cannot log in where passwords are asked for.
    pub(crate) verifier: Option<Verifier>,
    /// The number under which the definition is stored: each change of a role has a number of its own.
    pub(crate) row: ObjectId,
}

/// A foreign key: an object of its own, which changes neither of its tables' definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ForeignKeyDef {
    pub(crate) id: ObjectId,
    pub(crate) name: String,
    /// The table whose rows refer to others.
    pub(crate) child: ObjectId,
    /// Numbers of its columns.
    pub(crate) child_columns: Vec<usize>,
    /// The table whose rows they refer to.
    pub(crate) parent: ObjectId,
    /// Numbers of its columns, in the same order: a primary key, or a unique index has the same.
    pub(crate) parent_columns: Vec<usize>,
    /// MATCH FULL: either all columns are NULL or none is.
    pub(crate) is_full: bool,
    pub(crate) on_delete: ReferentialAction,
    pub(crate) on_update: ReferentialAction,
    pub(crate) is_deferrable: bool,
    /// INITIALLY DEFERRED
    pub(crate) is_deferred: bool,
    /// Whether the rows from before it were examined; NOT VALID: they were not.
    pub(crate) is_valid: bool,
}

/// The comment of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommentDef {
    /// Each change of a comment has a number of its own.
    pub(crate) id: ObjectId,
    /// The number of the system table that lists the object.
    pub(crate) class: u32,
    /// The object's number; of a CHECK constraint, its table's.
    pub(crate) object: u32,
    /// The number of a column, from 1 on; 0: of none.
    pub(crate) column: i32,
    /// The name of a CHECK constraint, which has no number; otherwise empty.
    pub(crate) check: String,
    pub(crate) text: String,
}

/// The owner of an object, and the rights to it. An object without it belongs to the first superuser, and has the rights
/// that objects of its kind have from the beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RightsDef {
    /// Each change has a number of its own.
    pub(crate) id: ObjectId,
    /// The number of the system table that lists the object.
    pub(crate) class: u32,
    pub(crate) object: u32,
    pub(crate) owner: ObjectId,
    /// `None`: those from the beginning.
    pub(crate) granted: Option<Vec<Grant>>,
    /// The rights to columns, by their numbers.
    pub(crate) columns: Vec<(usize, Vec<Grant>)>,
}

/// The rights that a role has granted to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// 0: to all roles (PUBLIC).
    pub(crate) role: ObjectId,
    pub(crate) grantor: ObjectId,
    pub(crate) rights: Rights,
    /// Those of them that the role may grant to others.
    pub(crate) options: Rights,
}

/// The attributes of a role, and the roles of which it is a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TraitsDef {
    /// Each change has a number of its own.
    pub(crate) id: ObjectId,
    pub(crate) role: ObjectId,
    pub(crate) is_superuser: bool,
    pub(crate) inherits: bool,
    pub(crate) creates_roles: bool,
    pub(crate) creates_databases: bool,
    pub(crate) can_login: bool,
    pub(crate) replicates: bool,
    /// BYPASSRLS
    pub(crate) sees_all_rows: bool,
    /// -1: no limit.
    pub(crate) connection_limit: i32,
    /// The time from which on its password does not count, as in `Value::TimestampTz`.
    pub(crate) valid_until: Option<i64>,
    pub(crate) member_of: Vec<Membership>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) role: ObjectId,
    pub(crate) grantor: ObjectId,
    /// WITH ADMIN OPTION
    pub(crate) is_admin: bool,
}

/// The action on the rows that refer to a row that is deleted, or whose key is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ReferentialAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl ReferentialAction {
    /// Returns the words of the action in statements.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }

    /// Whether it writes the rows that refer.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Cascade | Self::SetNull | Self::SetDefault)
    }
}

impl ColumnDef {
    /// Returns a column without rules.
    pub(crate) fn new(name: String, ty: SqlType, modifier: i32) -> Self {
        let (not_null, default, identity, is_dropped, missing) = (false, None, None, false, None);
        Self { name, ty, modifier, not_null, default, identity, is_dropped, missing }
    }

    /// Returns the expression of a generated column.
    pub(crate) fn generation(&self) -> Option<&str> {
        match &self.default {
            Some(DefaultDef::Generated(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the expression of indexes that a hidden column stands for.
    pub(crate) fn computation(&self) -> Option<&str> {
        match &self.default {
            Some(DefaultDef::Computed(text)) => Some(text),
            _ => None,
        }
    }
}

/// A view. Its query is stored as text in which stars are expanded and relations have their schemas. A name in it means
/// the object that it meant when the view was created, with the columns and their names as of then: so neither the
/// search path, nor a renamed or added column, changes the view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ViewDef {
    pub(crate) id: ObjectId,
    pub(crate) schema: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<ViewColumnDef>,
    /// The text of the query.
    pub(crate) query: String,
    /// The meanings of the names in the query.
    pub(crate) relations: Vec<NamedRelation>,
    /// The columns of tables and views that the query uses, by their numbers.
    pub(crate) uses: Vec<(ObjectId, usize)>,
    /// WITH CHECK OPTION.
    pub(crate) check: Option<CheckOption>,
    /// Other options, which change nothing; and the texts of the defaults of columns, see [`ViewDef::default_of`].
    pub(crate) options: Vec<(String, String)>,
}

impl ViewDef {
    /// Returns the text of the default of a column for rows that are inserted by way of the view. It is kept as an
    /// option under a name that no statement can write.
    pub(crate) fn default_of(&self, column: usize) -> Option<&str> {
        let name = default_option(column);
        self.options.iter().find(|(own, _)| *own == name).map(|(_, text)| &**text)
    }

    /// Sets or removes the default of a column.
    pub(crate) fn set_default(&mut self, column: usize, text: Option<String>) {
        let name = default_option(column);
        self.options.retain(|(own, _)| *own != name);
        self.options.extend(text.map(|text| (name, text)));
    }

    /// Returns the texts of all defaults.
    pub(crate) fn defaults(&self) -> impl Iterator<Item = &str> {
        (0..self.columns.len()).filter_map(|at| self.default_of(at))
    }

    /// Returns the options as statements have set them.
    pub(crate) fn shown_options(&self) -> impl Iterator<Item = &(String, String)> {
        self.options.iter().filter(|(name, _)| !name.starts_with(DEFAULT_OPTION))
    }
}

/// The beginning of the names of options that are defaults.
const DEFAULT_OPTION: &str = "default of column ";

fn default_option(column: usize) -> String {
    format!("{DEFAULT_OPTION}{column}")
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ViewColumnDef {
    pub(crate) name: String,
    pub(crate) ty: SqlType,
    pub(crate) modifier: i32,
}

/// The meaning of a relation's name in the query of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NamedRelation {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
    pub(crate) id: ObjectId,
    /// The names of its columns when the view was created, by their numbers; later columns are not visible.
    pub(crate) columns: Vec<String>,
}

impl NamedRelation {
    /// Returns the meaning of a name.
    pub(crate) fn find<'r>(all: &'r [Self], schema: Option<&str>, name: &str) -> Option<&'r Self> {
        all.iter().find(|relation| relation.schema.as_deref() == schema && relation.name == name)
    }
}

/// The views whose conditions the rows that are written through a view have to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CheckOption {
    /// Those of the view itself, and of views below that say so.
    Local,
    /// Those of all views below, too.
    Cascaded,
}

impl TableDef {
    /// Returns the query of a materialized view as a view.
    pub(crate) fn as_view(&self) -> Option<ViewDef> {
        let MaterializedDef { query, relations, uses, .. } = &**self.materialized.as_ref()?;
        let column =
            |column: &ColumnDef| ViewColumnDef { name: column.name.clone(), ty: column.ty, modifier: column.modifier };
        Some(ViewDef {
            id: self.id,
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: self.live_columns().map(|(_, own)| column(own)).collect(),
            query: query.clone(),
            relations: relations.clone(),
            uses: uses.clone(),
            check: None,
            options: Vec::new(),
        })
    }

    /// Returns the kind of the relation in messages.
    pub(crate) fn kind(&self) -> &'static str {
        if self.materialized.is_some() { "materialized view" } else { "table" }
    }

    /// Returns the columns that are not dropped, with their numbers.
    pub(crate) fn live_columns(&self) -> impl Iterator<Item = (usize, &ColumnDef)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.is_dropped)
    }

    /// Returns the name of a column of an index, or its expression.
    pub(crate) fn part(&self, at: usize) -> &str {
        self.columns[at].computation().unwrap_or(&self.columns[at].name)
    }

    /// Returns the hidden columns that indexes use, and their expressions.
    pub(crate) fn computed_columns(&self) -> impl Iterator<Item = (usize, &ColumnDef, &str)> {
        let is_used = |at: usize| self.indexes.iter().any(|index| index.columns.iter().any(|(own, _)| *own == at));
        let all = self.columns.iter().enumerate().filter_map(|(at, column)| Some((at, column, column.computation()?)));
        all.filter(move |(at, ..)| is_used(*at))
    }

    /// Returns the column of that name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.live_columns().find(|(_, column)| column.name == name).map(|(at, _)| at)
    }

    /// Returns the unique index that has exactly these columns, in any order, and the places of its columns among them;
    /// no index: the primary key.
    pub(crate) fn unique_key(&self, columns: &[usize]) -> Option<(Option<usize>, Vec<usize>)> {
        let places = |own: &mut dyn Iterator<Item = usize>| -> Option<Vec<usize>> {
            let places = own.map(|at| columns.iter().position(|known| *known == at));
            let places: Vec<_> = places.collect::<Option<_>>()?;
            (places.len() == columns.len()).then_some(places)
        };
        if let Some(found) = self.primary_key.as_ref().and_then(|key| places(&mut key.columns.iter().copied())) {
            return Some((None, found));
        }
        self.indexes.iter().enumerate().find_map(|(at, index)| {
            let is_usable = index.is_unique && index.predicate.is_none() && self.is_complete(at);
            let found = places(&mut index.columns.iter().map(|column| column.0)).filter(|_| is_usable)?;
            Some((Some(at), found))
        })
    }

    /// Whether an index has all rows that belong in it; queries read only such indexes.
    pub(crate) fn is_complete(&self, index: usize) -> bool {
        self.unfinished != Some(Unfinished::Index(self.indexes[index].id))
    }

    /// Whether no row has NULL in a column.
    pub(crate) fn is_never_null(&self, column: usize) -> bool {
        self.columns[column].not_null && self.unfinished != Some(Unfinished::NotNull(column))
    }

    /// Removes the unfinished part; returns it if it was an index.
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
