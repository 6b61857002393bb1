//! The trees of statements about types. The grammar is our own: that of sqlparser lacks owners and schemas, and takes
//! words for labels.

use std::{collections::BTreeSet, ops::ControlFlow};

use sqlparser::{
    ast::{DataType, Expr, Ident, ObjectName, ObjectNamePart, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::domain_tree::{DomainChange, DomainTree};
use crate::{
    bind::names::user_type_of,
    error::{Result as SqlResult, SqlError},
    types::{Environment, SqlType, datetime::Style, text},
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum TypeTree {
    /// CREATE TYPE .. AS ENUM
    CreateEnum(ObjectName, Vec<String>),
    /// ALTER TYPE, or the same of a domain.
    AlterType(ObjectName, TypeChange, bool),
    /// DROP TYPE, or DROP DOMAIN.
    DropTypes(TypeDrop, bool),
    CreateDomain(Box<DomainTree>),
    AlterDomain(ObjectName, Box<DomainChange>),
    /// A statement of PostgreSQL that is missing here.
    Unsupported(&'static str),
}

/// A change of a type.
#[derive(Clone, Debug)]
pub(crate) enum TypeChange {
    AddValue { label: String, if_not_exists: bool, place: LabelPlace },
    RenameValue(String, String),
    Rename(Ident),
    SetSchema(Ident),
    Owner(Ident),
}

/// Where a new label goes.
#[derive(Clone, Debug)]
pub(crate) enum LabelPlace {
    Last,
    Before(String),
    After(String),
}

/// DROP TYPE.
#[derive(Clone, Debug)]
pub(crate) struct TypeDrop {
    pub(crate) names: Vec<ObjectName>,
    pub(crate) if_exists: bool,
    pub(crate) cascade: bool,
}

impl TypeTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, CREATE, DOMAIN, DROP, TYPE};
        Ok(Some(if parser.parse_keywords(&[CREATE, TYPE]) {
            Self::create(parser)?
        } else if parser.parse_keywords(&[ALTER, TYPE]) {
            Self::alter(parser)?
        } else if parser.parse_keywords(&[DROP, TYPE]) {
            Self::DropTypes(TypeDrop::parse(parser)?, false)
        } else if parser.parse_keywords(&[CREATE, DOMAIN]) {
            Self::create_domain(parser)?
        } else if parser.parse_keywords(&[ALTER, DOMAIN]) {
            Self::alter_domain(parser)?
        } else if parser.parse_keywords(&[DROP, DOMAIN]) {
            Self::drop_domain(parser)?
        } else {
            return Ok(None);
        }))
    }

    /// Returns the words of the statement, which are also its tag.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::CreateEnum(..) => "CREATE TYPE",
            Self::AlterType(.., false) => "ALTER TYPE",
            Self::DropTypes(_, false) => "DROP TYPE",
            Self::CreateDomain(_) => "CREATE DOMAIN",
            Self::AlterDomain(..) | Self::AlterType(.., true) => "ALTER DOMAIN",
            Self::DropTypes(_, true) => "DROP DOMAIN",
            Self::Unsupported(what) => what,
        }
    }

    fn create(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{AS, ENUM, RANGE};
        let name = parser.parse_object_name(false)?;
        if !parser.parse_keyword(AS) {
            return Ok(Self::skipped(parser, "CREATE TYPE of a base type"));
        }
        if parser.parse_keyword(RANGE) {
            return Ok(Self::skipped(parser, "CREATE TYPE AS RANGE"));
        }
        if !parser.parse_keyword(ENUM) {
            return Ok(Self::skipped(parser, "CREATE TYPE of a composite type"));
        }
        parser.expect_token(&Token::LParen)?;
        let mut labels = Vec::new();
        if !parser.consume_token(&Token::RParen) {
            labels = parser.parse_comma_separated(label)?;
            parser.expect_token(&Token::RParen)?;
        }
        Ok(Self::CreateEnum(name, labels))
    }

    fn alter(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{ADD, AFTER, BEFORE, EXISTS, IF, NOT, RENAME, TO, VALUE};
        let name = parser.parse_object_name(false)?;
        let change = if parser.parse_keywords(&[ADD, VALUE]) {
            let if_not_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
            let new = label(parser)?;
            let place = if parser.parse_keyword(BEFORE) {
                LabelPlace::Before(label(parser)?)
            } else if parser.parse_keyword(AFTER) {
                LabelPlace::After(label(parser)?)
            } else {
                LabelPlace::Last
            };
            TypeChange::AddValue { label: new, if_not_exists, place }
        } else if parser.parse_keywords(&[RENAME, VALUE]) {
            let old = label(parser)?;
            parser.expect_keyword(TO)?;
            TypeChange::RenameValue(old, label(parser)?)
        } else {
            match Self::common_change(parser)? {
                Some(change) => change,
                None => return Ok(Self::skipped(parser, "this form of ALTER TYPE")),
            }
        };
        Ok(Self::AlterType(name, change, false))
    }

    /// Parses a change that all types have, if one comes next.
    pub(super) fn common_change(parser: &mut Parser<'_>) -> Result<Option<TypeChange>, ParserError> {
        use Keyword::{OWNER, RENAME, SCHEMA, SET, TO};
        Ok(Some(if parser.parse_keywords(&[RENAME, TO]) {
            TypeChange::Rename(parser.parse_identifier()?)
        } else if parser.parse_keywords(&[SET, SCHEMA]) {
            TypeChange::SetSchema(parser.parse_identifier()?)
        } else if parser.parse_keywords(&[OWNER, TO]) {
            TypeChange::Owner(parser.parse_identifier()?)
        } else {
            return Ok(None);
        }))
    }

    /// Skips the rest of a statement that is missing here.
    pub(super) fn skipped(parser: &mut Parser<'_>, what: &'static str) -> Self {
        while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            parser.next_token();
        }
        Self::Unsupported(what)
    }
}

impl TypeDrop {
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{CASCADE, EXISTS, IF, RESTRICT};
        let if_exists = parser.parse_keywords(&[IF, EXISTS]);
        let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        let cascade = parser.parse_keyword(CASCADE);
        if !cascade {
            let _ = parser.parse_keyword(RESTRICT);
        }
        Ok(Self { names, if_exists, cascade })
    }
}

fn label(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    match &parser.peek_token_ref().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            let text = text.clone();
            parser.next_token();
            Ok(text)
        }
        _ => parser.expected_ref("a literal", parser.peek_token_ref()),
    }
}

/// Adds the schemas to the names of types in expressions that the catalog is going to store: they are looked up again by
/// sessions with other search paths. Fails for a literal that would be another date or interval in the usual style, in
/// which stored literals are read.
pub(crate) fn qualify_types(tree: &mut impl VisitMut, environment: &Environment) -> SqlResult<()> {
    if !environment.types.is_empty() {
        let _ = tree.visit(&mut Qualify(environment));
    }
    let usual = Style::default();
    if environment.style == usual {
        return Ok(());
    }
    match tree.visit(&mut CheckStyle(environment, &Environment { style: usual, ..environment.clone() })) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(literal) => {
            let what = format!("the literal {literal} in a definition, with this DateStyle and IntervalStyle,");
            Err(SqlError::unsupported(what).hint("Write a date as year-month-day, and an interval with units."))
        }
    }
}

/// Looks for literals that mean something else in another style.
struct CheckStyle<'e>(&'e Environment, &'e Environment);

impl VisitorMut for CheckStyle<'_> {
    type Break = String;

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<String> {
        let Some(literal) = value.value.clone().into_string() else { return ControlFlow::Continue(()) };
        let read = |ty: SqlType, environment: &Environment| text::parse(ty, -1, &literal, environment).ok();
        let differs = [SqlType::TIMESTAMP, SqlType::INTERVAL].iter().any(|ty| read(*ty, self.0) != read(*ty, self.1));
        if differs { ControlFlow::Break(value.value.to_string()) } else { ControlFlow::Continue(()) }
    }
}

/// Adds the numbers of the types that an expression or a query names, as far as statements have created them.
pub(crate) fn collect_types(tree: &impl Visit, environment: &Environment, into: &mut BTreeSet<u32>) {
    let _ = tree.visit(&mut Collect { environment, into });
}

struct Collect<'e> {
    environment: &'e Environment,
    into: &'e mut BTreeSet<u32>,
}

impl Collect<'_> {
    fn add(&mut self, data_type: &DataType) {
        use sqlparser::ast::ArrayElemTypeDef::SquareBracket;
        match data_type {
            DataType::Array(SquareBracket(element, _)) => self.add(element),
            DataType::Custom(name, _) => {
                self.into.extend(user_type_of(name, self.environment).ok().flatten().map(|ty| ty.oid));
            }
            _ => {}
        }
    }
}

impl Visitor for Collect<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } => self.add(data_type),
            Expr::TypedString(typed) => self.add(&typed.data_type),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct Qualify<'e>(&'e Environment);

impl Qualify<'_> {
    fn qualify(&self, data_type: &mut DataType) {
        use sqlparser::ast::ArrayElemTypeDef::SquareBracket;
        match data_type {
            DataType::Array(SquareBracket(element, _)) => self.qualify(element),
            DataType::Custom(name, _) if name.0.len() == 1 => {
                if let Ok(Some(ty)) = user_type_of(name, self.0) {
                    name.0.insert(0, ObjectNamePart::Identifier(Ident::with_quote('"', &ty.schema)));
                }
            }
            _ => {}
        }
    }
}

impl VisitorMut for Qualify<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { data_type, .. } => self.qualify(data_type),
            Expr::TypedString(typed) => self.qualify(&mut typed.data_type),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
