//! COMMENT ON. A comment is an object of its own, which changes the definition of none other; it goes with its object.
//!
//! Comments have no latch. As with roles, each change of one deletes its row, which has to be there, and writes another:
//! so changes are published in the order in which they were committed.

use sqlparser::{
    ast::{Ident, ObjectName},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{alter::missing, context::ChangeContext, domain::not_a_domain, rename::no_constraint};
use crate::{
    bind::{
        names::{name_of, relation_of, simple_name},
        plain,
    },
    catalog::{
        Change, Relation,
        comments::{PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PUBLICATION, PG_TYPE},
        definition::{CommentDef, Definition},
    },
    error::{Result, SqlError, SqlState},
    logical::no_publication,
    parse::take_words,
    result::RowSink,
    system::oid_of,
    transaction::{ActiveTransaction, changed},
    types::user_types::UserType,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct CommentTree {
    on: Target,
    /// `None`: it removes the comment.
    text: Option<String>,
}

#[derive(Clone, Debug)]
enum Target {
    Column(ObjectName),
    Constraint(Ident, ObjectName),
    DomainConstraint(Ident, ObjectName),
    Database(ObjectName),
    Index(ObjectName),
    MaterializedView(ObjectName),
    Publication(ObjectName),
    Role(ObjectName),
    Schema(ObjectName),
    Sequence(ObjectName),
    Table(ObjectName),
    /// A type or a domain.
    Type(ObjectName),
    View(ObjectName),
    /// Kinds of objects that cannot have a comment here.
    Other(String),
}

impl CommentTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{COMMENT, IS, NULL, ON};
        if !parser.parse_keywords(&[COMMENT, ON]) {
            return Ok(None);
        }
        let on = Target::parse(parser)?;
        parser.expect_keyword_is(IS)?;
        if parser.parse_keyword(NULL) {
            return Ok(Some(Self { on, text: None }));
        }
        let next = parser.next_token();
        let text = match next.token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
                text
            }
            Token::DollarQuotedString(text) => text.value,
            _ => return parser.expected("a text or NULL", next),
        };
        // An empty comment is none, as in PostgreSQL.
        Ok(Some(Self { on, text: Some(text).filter(|text| !text.is_empty()) }))
    }
}

impl Target {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{COLUMN, CONSTRAINT, DATABASE, DOMAIN, INDEX, IS, ON, ROLE, SCHEMA, SEQUENCE, TABLE, TYPE, VIEW};
        let kinds = [COLUMN, CONSTRAINT, DATABASE, DOMAIN, INDEX, ROLE, SCHEMA, SEQUENCE, TABLE, TYPE, VIEW];
        if parser.parse_keywords(&[Keyword::MATERIALIZED, VIEW]) {
            return Ok(Self::MaterializedView(parser.parse_object_name(false)?));
        }
        if take_words(parser, "PUBLICATION") {
            return Ok(Self::Publication(parser.parse_object_name(false)?));
        }
        let Some(kind) = parser.parse_one_of_keywords(&kinds) else {
            let what = parser.peek_token_ref().to_string().to_uppercase();
            while !parser.peek_keyword(IS) && !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
                parser.next_token();
            }
            return Ok(Self::Other(what));
        };
        if kind == CONSTRAINT {
            let name = parser.parse_identifier()?;
            parser.expect_keyword_is(ON)?;
            if parser.parse_keyword(DOMAIN) {
                return Ok(Self::DomainConstraint(name, parser.parse_object_name(false)?));
            }
            return Ok(Self::Constraint(name, parser.parse_object_name(false)?));
        }
        let name = parser.parse_object_name(false)?;
        Ok(match kind {
            COLUMN => Self::Column(name),
            DATABASE => Self::Database(name),
            INDEX => Self::Index(name),
            ROLE => Self::Role(name),
            SCHEMA => Self::Schema(name),
            SEQUENCE => Self::Sequence(name),
            DOMAIN | TYPE => Self::Type(name),
            VIEW => Self::View(name),
            _ => Self::Table(name),
        })
    }
}

/// The object of a comment, for the rights to it.
pub(super) enum CommentTarget<'t> {
    Relation(&'t ObjectName),
    /// A column or a constraint of a relation.
    Part(ObjectName),
    Type(&'t ObjectName),
    Schema(&'t ObjectName),
    Database(&'t ObjectName),
    Publication(&'t ObjectName),
    Role(&'t ObjectName),
    None,
}

impl CommentTree {
    pub(super) fn target(&self) -> CommentTarget<'_> {
        match &self.on {
            Target::Column(name) => CommentTarget::Part(ObjectName(name.0[..name.0.len().saturating_sub(1)].to_vec())),
            Target::Constraint(_, table) => CommentTarget::Part(table.clone()),
            Target::Index(name)
            | Target::MaterializedView(name)
            | Target::Sequence(name)
            | Target::Table(name)
            | Target::View(name) => CommentTarget::Relation(name),
            Target::Type(name) | Target::DomainConstraint(_, name) => CommentTarget::Type(name),
            Target::Schema(name) => CommentTarget::Schema(name),
            Target::Database(name) => CommentTarget::Database(name),
            Target::Publication(name) => CommentTarget::Publication(name),
            Target::Role(name) => CommentTarget::Role(name),
            Target::Other(_) => CommentTarget::None,
        }
    }
}

/// The object of a comment.
#[derive(Default)]
struct Place {
    class: u32,
    object: u32,
    column: i32,
    check: String,
}

impl Place {
    fn of(class: u32, object: u32) -> Self {
        Self { class, object, ..Self::default() }
    }

    fn has(&self, comment: &CommentDef) -> bool {
        (self.class, self.object, self.column, &self.check)
            == (comment.class, comment.object, comment.column, &comment.check)
    }
}

impl ChangeContext<'_> {
    pub(super) fn comment_on(
        &self,
        active: &mut ActiveTransaction,
        tree: &CommentTree,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        if let Target::Database(name) = &tree.on
            && let Err(error) = self.database_named(active, &simple_name(name)?)
        {
            rows.notice("WARNING", &error);
            return Ok("COMMENT".into());
        }
        let place = self.place_of_comment(active, &tree.on)?;
        let known = active.catalog.comments().find(|comment| place.has(comment)).cloned();
        let mut changes = Vec::new();
        if let Some(known) = &known {
            self.take_comment(active, known)?;
            changes.push(Change::Drop(Definition::Comment((**known).clone())));
        }
        if let Some(text) = &tree.text {
            let Place { class, object, column, check } = place;
            let def = CommentDef { id: self.catalog_number()?, class, object, column, check, text: text.clone() };
            if known.is_none() {
                self.take_place(active, &def, true)?;
            }
            changes.push(Change::Put(Definition::Comment(def)));
        } else if let Some(known) = &known {
            self.take_place(active, known, false)?;
        }
        self.apply(active, changes)?;
        Ok("COMMENT".into())
    }

    fn place_of_comment(&self, active: &mut ActiveTransaction, on: &Target) -> Result<Place> {
        match on {
            Target::Table(name) => match self.commented(active, name)? {
                Relation::Table(table) if table.def.materialized.is_none() => Ok(Place::of(PG_CLASS, table.def.id)),
                _ => Err(of_other_kind(name, "table")),
            },
            Target::MaterializedView(name) => match self.commented(active, name)? {
                Relation::Table(table) if table.def.materialized.is_some() => Ok(Place::of(PG_CLASS, table.def.id)),
                _ => Err(of_other_kind(name, "materialized view")),
            },
            Target::Index(name) => match self.commented(active, name)? {
                index @ Relation::Index(..) => Ok(Place::of(PG_CLASS, oid_of(&index))),
                _ => Err(of_other_kind(name, "index")),
            },
            Target::Sequence(name) => match self.commented(active, name)? {
                Relation::Sequence(sequence) => {
                    self.check_sequence(active, &sequence.def)?;
                    Ok(Place::of(PG_CLASS, sequence.def.id))
                }
                _ => Err(of_other_kind(name, "sequence")),
            },
            Target::View(name) => match self.commented(active, name)? {
                Relation::View(view) => Ok(Place::of(PG_CLASS, view.def.id)),
                _ => Err(of_other_kind(name, "view")),
            },
            Target::Type(name) => Ok(Place::of(PG_TYPE, self.commented_type(active, name)?.oid)),
            Target::Column(name) => self.commented_column(active, name),
            Target::Constraint(name, table) => self.commented_constraint(active, &name_of(name), table),
            Target::DomainConstraint(name, domain) => self.commented_check(active, &name_of(name), domain),
            Target::Schema(name) => {
                let name = simple_name(name)?;
                self.check_schema(active, &name)?;
                self.use_schema(active, &name)?;
                Ok(Place::of(PG_NAMESPACE, active.catalog.schema(&name).unwrap_or(0)))
            }
            Target::Role(name) => {
                let name = simple_name(name)?;
                let role = active.catalog.role(&name);
                let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
                Ok(Place::of(PG_AUTHID, role.ok_or_else(missing)?.id))
            }
            Target::Publication(name) => {
                let name = simple_name(name)?;
                let known = active.catalog.publication(&name).ok_or_else(|| no_publication(&name))?;
                self.store.check_publication(&active.txn, known)?;
                Ok(Place::of(PG_PUBLICATION, known.id))
            }
            Target::Database(name) => Ok(Place::of(PG_DATABASE, self.database_named(active, &simple_name(name)?)?)),
            Target::Other(what) => Err(SqlError::unsupported(format_args!("COMMENT ON {what}"))),
        }
    }

    /// Returns the relation that gets a comment; its table stays until the transaction ends.
    fn commented(&self, active: &mut ActiveTransaction, name: &ObjectName) -> Result<Relation> {
        let relation = self.find(active, name)?.ok_or_else(|| {
            let message = format!("relation \"{}\" does not exist", plain(name));
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        })?;
        if let Relation::Table(table) | Relation::Index(table, _) = &relation
            && !active.share(std::slice::from_ref(table), self.limits())?
        {
            return Err(changed(table.name()));
        }
        if let Relation::View(view) = &relation {
            active.take_view(view, self.limits())?;
        }
        Ok(relation)
    }

    fn commented_column(&self, active: &mut ActiveTransaction, name: &ObjectName) -> Result<Place> {
        let (table, column) = name.0.split_at(name.0.len() - 1);
        if table.is_empty() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
        }
        let table = ObjectName(table.to_vec());
        let column = relation_of(&ObjectName(column.to_vec()))?.1;
        let (object, at) = match self.commented(active, &table)? {
            Relation::Table(of) => (of.def.id, of.def.column(&column)),
            Relation::View(of) => (of.def.id, of.def.columns.iter().position(|own| own.name == column)),
            _ => {
                let message = format!("cannot set comment on relation \"{}\"", relation_of(&table)?.1);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        let at = at.ok_or_else(|| missing(&column, &plain(&table)))?;
        Ok(Place { column: at as i32 + 1, ..Place::of(PG_CLASS, object) })
    }

    /// Returns the type that gets a comment.
    fn commented_type(&self, active: &mut ActiveTransaction, name: &ObjectName) -> Result<UserType> {
        let oid = self.type_named(active, name)?.ok_or_else(|| super::types::missing(name))?.oid;
        // Of the comment and a change of the type at the same time one loses.
        let known = self.known_type(active, oid)?;
        let generation = known.generation + 1;
        self.apply(active, vec![Change::Put(Definition::Type(UserType { generation, ..known.clone() }))])?;
        Ok(known)
    }

    fn commented_check(&self, active: &mut ActiveTransaction, name: &str, domain: &ObjectName) -> Result<Place> {
        let ty = self.commented_type(active, domain)?;
        let known = ty.domain().ok_or_else(|| not_a_domain(domain))?;
        let missing = || {
            let message = format!("constraint \"{name}\" for domain {} does not exist", ty.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        };
        let check = known.checks.iter().find(|check| check.name == name);
        Ok(Place::of(PG_CONSTRAINT, check.ok_or_else(missing)?.oid))
    }

    fn commented_constraint(&self, active: &mut ActiveTransaction, name: &str, table: &ObjectName) -> Result<Place> {
        let Relation::Table(of) = self.commented(active, table)? else { return Err(of_other_kind(table, "table")) };
        let def = &of.def;
        let mut keys = active.catalog.foreign_keys_at(def.id).filter(|key| key.child == def.id);
        let indexes = def.indexes.iter().filter(|index| index.is_constraint).map(|index| (&index.name, index.id));
        let numbered = def.primary_key.iter().map(|key| (&key.name, key.id)).chain(indexes);
        let found = numbered.filter(|(own, _)| *own == name).map(|(_, id)| id).next();
        if let Some(id) = found.or_else(|| keys.find(|key| key.name == name).map(|key| key.id)) {
            return Ok(Place::of(PG_CONSTRAINT, id));
        }
        match def.checks.iter().any(|check| check.name == name) {
            true => Ok(Place { check: name.to_owned(), ..Place::of(PG_CONSTRAINT, def.id) }),
            false => Err(no_constraint(name, &def.name)),
        }
    }

    fn take_comment(&self, active: &ActiveTransaction, known: &CommentDef) -> Result<()> {
        match active.catalog.is_temporary(known.object) {
            true => Ok(()),
            false => self.store.take_comment(&active.txn, known),
        }
    }

    pub(super) fn take_place(&self, active: &ActiveTransaction, comment: &CommentDef, is_taken: bool) -> Result<()> {
        match active.catalog.is_temporary(comment.object) {
            true => Ok(()),
            false => self.store.take_place(&active.txn, comment, is_taken),
        }
    }

    /// Removes the comments of objects that the statement has removed.
    pub(super) fn drop_comments(&self, active: &mut ActiveTransaction) -> Result<()> {
        let left = active.catalog.comments().filter(|comment| !active.catalog.has_object(comment));
        for comment in left.cloned().collect::<Vec<_>>() {
            self.take_comment(active, &comment)?;
            self.take_place(active, &comment, false)?;
            self.apply(active, vec![Change::Drop(Definition::Comment((*comment).clone()))])?;
        }
        Ok(())
    }

    /// Gives the comment of an object to another one, which replaces it: `change` is applied to the comment.
    pub(super) fn move_comment(
        &self,
        active: &mut ActiveTransaction,
        class: u32,
        object: u32,
        check: &str,
        change: impl FnOnce(&mut CommentDef),
    ) -> Result<()> {
        let place = Place { check: check.to_owned(), ..Place::of(class, object) };
        let Some(known) = active.catalog.comments().find(|comment| place.has(comment)).cloned() else { return Ok(()) };
        self.take_comment(active, &known)?;
        self.take_place(active, &known, false)?;
        let mut def = CommentDef { id: self.catalog_number()?, ..(*known).clone() };
        change(&mut def);
        self.take_place(active, &def, true)?;
        self.apply(
            active,
            vec![Change::Drop(Definition::Comment((*known).clone())), Change::Put(Definition::Comment(def))],
        )
    }
}

fn of_other_kind(name: &ObjectName, kind: &str) -> SqlError {
    let article = if kind == "index" { "an" } else { "a" };
    let own = relation_of(name).map_or_else(|_| name.to_string(), |(_, own)| own);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{own}\" is not {article} {kind}"))
}
