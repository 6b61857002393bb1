//! ALTER of what all kinds of objects have: their names, schemas and owners; and the identity of columns. The grammar is
//! our own, because sqlparser has none for most of it.

use sqlparser::{
    ast::{GeneratedAs, Ident, ObjectName},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{alter_sequence::SequenceOption, context::ChangeContext, skip_missing};
use crate::{
    bind::{
        names::{name_of, relation_of, simple_name},
        plain,
    },
    catalog::{
        Relation,
        rights::{self, Object},
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct AlterObject {
    kind: Kind,
    name: ObjectName,
    if_exists: bool,
    action: Action,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Index,
    MaterializedView,
    Schema,
    Sequence,
    Table,
}

#[derive(Clone, Debug)]
enum Action {
    Rename(Ident),
    RenameColumn(Ident, Ident),
    SetSchema(Ident),
    OwnerTo(Ident),
    Column(Ident, ColumnAction),
    /// Storage has no parameters.
    Nothing,
}

/// An action on a column that sqlparser does not know.
#[derive(Clone, Debug)]
pub(super) enum ColumnAction {
    AddIdentity {
        generated: GeneratedAs,
        sequence: Option<ObjectName>,
        options: Vec<SequenceOption>,
    },
    SetIdentity(GeneratedAs),
    DropIdentity {
        if_exists: bool,
    },
    /// Makes a generated column an ordinary one, which keeps its values.
    DropExpression {
        if_exists: bool,
    },
    /// Statistics, the storage of long values, and their compression: none of them exists here.
    Nothing,
}

impl AlterObject {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        match parser.peek_keyword(Keyword::ALTER) {
            true => parser.maybe_parse(Self::parse_inside),
            false => Ok(None),
        }
    }

    /// Returns the statement's name, which is also its tag.
    pub(crate) fn words(&self) -> &'static str {
        self.kind.tag()
    }

    fn parse_inside(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{
            ALTER, COLUMN, EXISTS, IF, INDEX, MATERIALIZED, ONLY, OWNER, RENAME, RESET, SCHEMA, SEQUENCE, SET, TABLE,
            TO, VIEW,
        };
        parser.expect_keyword_is(ALTER)?;
        let kind = match parser.expect_one_of_keywords(&[INDEX, MATERIALIZED, SCHEMA, SEQUENCE, TABLE])? {
            INDEX => Kind::Index,
            MATERIALIZED => {
                parser.expect_keyword_is(VIEW)?;
                Kind::MaterializedView
            }
            SCHEMA => Kind::Schema,
            SEQUENCE => Kind::Sequence,
            _ => Kind::Table,
        };
        let if_exists = kind != Kind::Schema && parser.parse_keywords(&[IF, EXISTS]);
        let _ = kind == Kind::Table && parser.parse_keyword(ONLY);
        let name = parser.parse_object_name(false)?;
        let action = if parser.parse_keywords(&[RENAME, TO]) {
            Action::Rename(parser.parse_identifier()?)
        } else if parser.parse_keywords(&[OWNER, TO]) {
            Action::OwnerTo(parser.parse_identifier()?)
        } else if kind == Kind::MaterializedView && parser.parse_keyword(RENAME) {
            let _ = parser.parse_keyword(COLUMN);
            let old = parser.parse_identifier()?;
            parser.expect_keyword_is(TO)?;
            Action::RenameColumn(old, parser.parse_identifier()?)
        } else if !matches!(kind, Kind::Index | Kind::Schema) && parser.parse_keywords(&[SET, SCHEMA]) {
            Action::SetSchema(parser.parse_identifier()?)
        } else if kind == Kind::MaterializedView && parser.parse_one_of_keywords(&[SET, RESET]).is_some() {
            let _ = parser.parse_parenthesized(|parser| parser.parse_comma_separated(parse_option))?;
            Action::Nothing
        } else if matches!(kind, Kind::Table | Kind::MaterializedView) && parser.parse_keyword(ALTER) {
            let _ = parser.parse_keyword(COLUMN);
            Action::Column(parser.parse_identifier()?, ColumnAction::parse(parser)?)
        } else {
            return parser.expected_ref("an action", parser.peek_token_ref());
        };
        match parser.peek_token_ref().token {
            Token::SemiColon | Token::EOF => Ok(Self { kind, name, if_exists, action }),
            _ => parser.expected_ref("end of statement", parser.peek_token_ref()),
        }
    }
}

/// Parses `name` or `name = value`.
fn parse_option(parser: &mut Parser<'_>) -> Result<(), ParserError> {
    parser.parse_object_name(false)?;
    if parser.consume_token(&Token::Eq) {
        parser.parse_expr()?;
    }
    Ok(())
}

/// The object that such a statement changes, for its rights.
pub(super) enum AlterTarget<'t> {
    Schema { name: &'t ObjectName, renames: bool },
    Relation { name: &'t ObjectName, renames: bool, schema: Option<&'t Ident> },
}

impl AlterObject {
    pub(super) fn target(&self) -> AlterTarget<'_> {
        let (name, renames) = (&self.name, matches!(self.action, Action::Rename(_)));
        match (&self.kind, &self.action) {
            (Kind::Schema, _) => AlterTarget::Schema { name, renames },
            (_, Action::SetSchema(schema)) => AlterTarget::Relation { name, renames, schema: Some(schema) },
            _ => AlterTarget::Relation { name, renames, schema: None },
        }
    }
}

impl ColumnAction {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{ADD, ALWAYS, AS, BY, COMPRESSION, DEFAULT, DROP, EXISTS, GENERATED, IDENTITY, IF, STORAGE};
        if parser.parse_keywords(&[DROP, IDENTITY]) {
            return Ok(Self::DropIdentity { if_exists: parser.parse_keywords(&[IF, EXISTS]) });
        }
        if parser.peek_keyword(DROP) && is_word(&parser.peek_nth_token_ref(1).token, "expression") {
            parser.next_token();
            parser.next_token();
            return Ok(Self::DropExpression { if_exists: parser.parse_keywords(&[IF, EXISTS]) });
        }
        let adds = parser.parse_keyword(ADD);
        if !adds {
            parser.expect_keyword_is(Keyword::SET)?;
            if parser.parse_one_of_keywords(&[COMPRESSION, STORAGE, Keyword::STATISTICS]).is_some() {
                parser.next_token();
                return Ok(Self::Nothing);
            }
        }
        parser.expect_keyword_is(GENERATED)?;
        let generated = match parser.parse_keyword(ALWAYS) {
            true => GeneratedAs::Always,
            false => {
                parser.expect_keywords(&[BY, DEFAULT])?;
                GeneratedAs::ByDefault
            }
        };
        if !adds {
            return Ok(Self::SetIdentity(generated));
        }
        parser.expect_keywords(&[AS, IDENTITY])?;
        let (mut sequence, mut options) = (None, Vec::new());
        if parser.consume_token(&Token::LParen) {
            if parser.parse_keywords(&[Keyword::SEQUENCE, Keyword::NAME]) {
                sequence = Some(parser.parse_object_name(false)?);
            }
            while !parser.consume_token(&Token::RParen) {
                options.push(SequenceOption::parse(parser)?);
            }
        }
        Ok(Self::AddIdentity { generated, sequence, options })
    }
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

impl Kind {
    fn tag(self) -> &'static str {
        match self {
            Self::Index => "ALTER INDEX",
            Self::MaterializedView => "ALTER MATERIALIZED VIEW",
            Self::Schema => "ALTER SCHEMA",
            Self::Sequence => "ALTER SEQUENCE",
            Self::Table => "ALTER TABLE",
        }
    }

    /// Fails for what is not a sequence; ALTER TABLE and ALTER INDEX take all relations.
    fn check(self, relation: &Relation, name: &ObjectName) -> Result<()> {
        if self == Self::Sequence && !matches!(relation, Relation::Sequence(_)) {
            let message = format!("\"{}\" is not a sequence", relation_of(name)?.1);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        let is_materialized = matches!(relation, Relation::Table(table) if table.def.materialized.is_some());
        if self == Self::MaterializedView && !is_materialized {
            let message = format!("\"{}\" is not a materialized view", relation_of(name)?.1);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(())
    }
}

impl ChangeContext<'_> {
    pub(super) fn alter_object(
        &self,
        active: &mut ActiveTransaction,
        alter: &AlterObject,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let AlterObject { kind, name, if_exists, action } = alter;
        if *kind == Kind::Schema {
            self.alter_schema(active, name, action)?;
            return Ok(kind.tag().into());
        }
        match self.find(active, name)? {
            Some(relation) => {
                kind.check(&relation, name)?;
                self.alter_relation(active, &relation, name, action, rows)?;
            }
            None if *if_exists => skip_missing(rows, name),
            None => {
                let message = format!("relation \"{}\" does not exist", plain(name));
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        Ok(kind.tag().into())
    }

    fn alter_relation(
        &self,
        active: &mut ActiveTransaction,
        relation: &Relation,
        name: &ObjectName,
        action: &Action,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        match (action, relation) {
            (Action::Rename(new), Relation::Table(_)) => {
                let table = self.table_alone(active, name, false)?.expect("it has just been found");
                self.rename_table(active, table.def.clone(), name_of(new))
            }
            (Action::RenameColumn(old, new), Relation::Table(_)) => {
                let table = self.table_alone(active, name, false)?.expect("it has just been found");
                self.rename_column(active, table.def.clone(), &name_of(old), name_of(new))
            }
            (Action::Column(_, ColumnAction::Nothing) | Action::Nothing, Relation::Table(_)) => Ok(()),
            (Action::Column(..), Relation::Table(table)) if table.def.materialized.is_some() => {
                let message = format!("\"{}\" is not a table", table.name());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            (Action::Rename(new), Relation::Sequence(sequence)) => {
                let def = &sequence.def;
                self.move_sequence(active, def, &def.schema.clone(), &name_of(new))
            }
            (Action::Rename(new), Relation::Index(table, at)) => {
                active.take(table, self.limits())?;
                self.rename_index(active, table.def.clone(), *at, name_of(new))
            }
            (Action::Rename(new), Relation::View(view)) => {
                active.take_view(view, self.limits())?;
                self.alter_view(active, view, &super::view::AlterView::Rename(new.clone()))
            }
            (Action::SetSchema(schema), Relation::View(view)) => {
                active.take_view(view, self.limits())?;
                self.alter_view(active, view, &super::view::AlterView::SetSchema(schema.clone()))
            }
            (Action::OwnerTo(role), Relation::Index(..)) => {
                if self.role_meant(active, role)? != active.catalog.owner(Object::of(relation)) {
                    // As in PostgreSQL, for dumps of old versions.
                    let message = format!("cannot change owner of index \"{}\"", relation_of(name)?.1);
                    let hint = "Change the ownership of the index's table instead.";
                    rows.notice("WARNING", &SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
                }
                Ok(())
            }
            (Action::OwnerTo(role), _) => self.relation_to(active, relation, role),
            (Action::SetSchema(schema), Relation::Table(_)) => {
                let table = self.table_alone(active, name, false)?.expect("it has just been found");
                self.check_moves(&table.def.schema, &name_of(schema))?;
                self.move_table(active, &table.def, &name_of(schema))
            }
            (Action::SetSchema(schema), Relation::Sequence(sequence)) => {
                let def = &sequence.def;
                if let Some(owner) = def.owner.and_then(|(owner, _)| active.catalog.table(owner)) {
                    let message = "cannot move an owned sequence into another schema";
                    let detail = format!("Sequence \"{}\" is linked to table \"{}\".", def.name, owner.def.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
                }
                self.check_schema(active, &name_of(schema))?;
                self.check_moves(&def.schema, &name_of(schema))?;
                self.move_sequence(active, def, &name_of(schema), &def.name)
            }
            (Action::Column(column, action), Relation::Table(_)) => {
                let table = self.table_alone(active, name, false)?.expect("it has just been found");
                self.alter_identity(active, table.def.clone(), &name_of(column), action, rows)
            }
            (Action::SetSchema(_) | Action::Column(..) | Action::RenameColumn(..) | Action::Nothing, _) => {
                let message = format!("\"{}\" is not a table", relation_of(name)?.1);
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
        }
    }

    /// Gives a relation another owner.
    pub(super) fn relation_to(&self, active: &mut ActiveTransaction, relation: &Relation, owner: &Ident) -> Result<()> {
        match relation {
            // It has the owner of its table.
            Relation::Index(..) => return Ok(()),
            Relation::Sequence(sequence) => {
                let is_other = self.role_meant(active, owner)? != active.catalog.owner(Object::of(relation));
                let table = sequence.def.owner.and_then(|(table, _)| active.catalog.table(table));
                if let Some(table) = table.filter(|_| is_other) {
                    let message = format!("cannot change owner of sequence \"{}\"", sequence.def.name);
                    let detail =
                        format!("Sequence \"{}\" is linked to table \"{}\".", sequence.def.name, table.def.name);
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail));
                }
                self.check_sequence(active, &sequence.def)?;
            }
            Relation::Table(table) => active.take(table, self.limits())?,
            Relation::View(view) => active.take_view(view, self.limits())?,
        }
        self.alter_owner(active, Object::of(relation), owner)
    }

    fn alter_schema(&self, active: &mut ActiveTransaction, name: &ObjectName, action: &Action) -> Result<()> {
        let name = simple_name(name)?;
        self.check_schema(active, &name)?;
        match action {
            Action::Rename(new) => self.rename_schema(active, &name, name_of(new)),
            Action::OwnerTo(role) => {
                let schema = active.catalog.schema(&name).unwrap_or_default();
                self.alter_owner(active, Object::new(rights::Kind::Schema, schema), role)
            }
            _ => Err(SqlError::unsupported("this form of ALTER SCHEMA")),
        }
    }
}
