//! The trees of statements about publications, which sqlparser does not know.

use sqlparser::{
    ast::{Ident, ObjectName},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use crate::parse::take_words;

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum PublicationTree {
    Create { name: Ident, members: Option<Members>, options: Vec<Setting> },
    Alter(Ident, PublicationChange),
    Drop { names: Vec<Ident>, if_exists: bool },
}

/// A change of a publication.
#[derive(Clone, Debug)]
pub(crate) enum PublicationChange {
    Add(Members),
    Set(Members),
    Drop(Members),
    Options(Vec<Setting>),
    OwnerTo(Ident),
    Rename(Ident),
}

/// Lists of tables and schemas.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    /// FOR ALL TABLES
    pub(crate) has_all: bool,
    pub(crate) tables: Vec<ObjectName>,
    pub(crate) schemas: Vec<Ident>,
    /// A part that is not supported here, by its words.
    pub(crate) unsupported: Option<&'static str>,
}

/// An option and its value; `None`: it is on.
pub(crate) type Setting = (String, Option<String>);

impl PublicationTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{CASCADE, EXISTS, IF, RESTRICT};
        Ok(Some(if take_words(parser, "CREATE PUBLICATION") {
            let name = parser.parse_identifier()?;
            let members = match take_words(parser, "FOR ALL TABLES") {
                true => Some(Members { has_all: true, ..Members::default() }),
                false if parser.parse_keyword(Keyword::FOR) => Some(Members::parse(parser)?),
                false => None,
            };
            let options = if parser.parse_keyword(Keyword::WITH) { settings(parser)? } else { Vec::new() };
            Self::Create { name, members, options }
        } else if take_words(parser, "ALTER PUBLICATION") {
            let name = parser.parse_identifier()?;
            Self::Alter(name, PublicationChange::parse(parser)?)
        } else if take_words(parser, "DROP PUBLICATION") {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            let names = parser.parse_comma_separated(Parser::parse_identifier)?;
            let _ = parser.parse_one_of_keywords(&[CASCADE, RESTRICT]);
            Self::Drop { names, if_exists }
        } else {
            return Ok(None);
        }))
    }

    /// Returns the words of the statement, which are also its tag.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Create { .. } => "CREATE PUBLICATION",
            Self::Alter(..) => "ALTER PUBLICATION",
            Self::Drop { .. } => "DROP PUBLICATION",
        }
    }
}

impl PublicationChange {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        Ok(if take_words(parser, "RENAME TO") {
            Self::Rename(parser.parse_identifier()?)
        } else if take_words(parser, "OWNER TO") {
            Self::OwnerTo(parser.parse_identifier()?)
        } else if take_words(parser, "ADD") {
            Self::Add(Members::parse(parser)?)
        } else if take_words(parser, "DROP") {
            Self::Drop(Members::parse(parser)?)
        } else if take_words(parser, "SET") {
            match parser.peek_token_ref().token {
                Token::LParen => Self::Options(settings(parser)?),
                _ => Self::Set(Members::parse(parser)?),
            }
        } else {
            return parser.expected_ref("ADD, SET, DROP, RENAME or OWNER", parser.peek_token_ref());
        })
    }
}

impl Members {
    /// Parses tables and schemas: each list goes on until the next one begins.
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let (mut members, mut is_schema) = (Self::default(), None);
        loop {
            if take_words(parser, "TABLES IN SCHEMA") {
                is_schema = Some(true);
            } else if take_words(parser, "TABLE") {
                is_schema = Some(false);
            }
            match is_schema {
                Some(true) => members.schemas.push(parser.parse_identifier()?),
                Some(false) => members.parse_table(parser)?,
                None => return parser.expected_ref("TABLE or TABLES IN SCHEMA", parser.peek_token_ref()),
            }
            if !parser.consume_token(&Token::Comma) {
                return Ok(members);
            }
        }
    }

    fn parse_table(&mut self, parser: &mut Parser<'_>) -> Result<(), ParserError> {
        let _ = take_words(parser, "ONLY");
        self.tables.push(parser.parse_object_name(false)?);
        let _ = parser.consume_token(&Token::Mul);
        if parser.peek_token_ref().token == Token::LParen {
            parser.parse_parenthesized(|parser| parser.parse_comma_separated(Parser::parse_identifier))?;
            self.unsupported = Some("a publication of some columns of a table");
        }
        if parser.parse_keyword(Keyword::WHERE) {
            parser.parse_expr()?;
            self.unsupported = Some("a publication of some rows of a table");
        }
        Ok(())
    }
}

fn settings(parser: &mut Parser<'_>) -> Result<Vec<Setting>, ParserError> {
    parser.parse_parenthesized(|parser| {
        parser.parse_comma_separated(|parser| {
            let name = parser.parse_identifier()?.value.to_lowercase();
            if !parser.consume_token(&Token::Eq) {
                return Ok((name, None));
            }
            let value = match &parser.peek_token_ref().token {
                Token::Word(_) => parser.parse_identifier()?.value,
                _ => parser.parse_literal_string()?,
            };
            Ok((name, Some(value)))
        })
    })
}
