//! The grammar of COPY. sqlparser's own has fewer options, and fewer forms of them.

use sqlparser::{
    ast::{Expr, Ident, ObjectName, Query},
    keywords::Keyword,
    parser::{IsOptional, Parser, ParserError},
    tokenizer::Token,
};

use crate::bind::names::name_of;

/// A COPY statement.
#[derive(Clone, Debug)]
pub(crate) struct CopyTree {
    pub(crate) direction: Direction,
    pub(crate) target: Target,
    pub(crate) options: Vec<GivenOption>,
}

#[derive(Clone, Debug)]
pub(crate) enum Direction {
    /// FROM, into columns of a table; none: all. Rows that do not meet the condition are skipped.
    In { table: ObjectName, columns: Vec<Ident>, condition: Option<Box<Expr>> },
    /// TO: the rows of a query.
    Out(Box<Query>),
    /// TO: columns of a table; none: all that are not generated.
    OutTable { table: ObjectName, columns: Vec<Ident> },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The client that runs the statement.
    Client,
    File,
    Program,
}

/// An option as it was written; its meaning is determined later.
#[derive(Clone, Debug)]
pub(crate) struct GivenOption {
    /// In lower case.
    pub(crate) name: String,
    pub(crate) value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OptionValue {
    Word(String),
    All,
    Names(Vec<String>),
}

/// The result of parsing.
type Parsed<T> = Result<T, ParserError>;

impl CopyTree {
    /// Returns the query whose rows are copied out.
    pub(crate) fn query_mut(&mut self) -> Option<&mut Query> {
        match &mut self.direction {
            Direction::Out(query) => Some(query),
            Direction::In { .. } | Direction::OutTable { .. } => None,
        }
    }

    /// Parses the text after the word COPY.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Parsed<Self> {
        let mut options = Vec::new();
        if parser.parse_keyword(Keyword::BINARY) {
            options.push(word_option("format", "binary"));
        }
        let query = if parser.consume_token(&Token::LParen) {
            let query = parser.parse_query()?;
            parser.expect_token(&Token::RParen)?;
            Some(query)
        } else {
            None
        };
        let mut direction = match query {
            Some(query) => {
                parser.expect_keyword(Keyword::TO)?;
                Direction::Out(query)
            }
            None => {
                let table = parser.parse_object_name(false)?;
                let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
                match parser.expect_one_of_keywords(&[Keyword::FROM, Keyword::TO])? {
                    Keyword::FROM => Direction::In { table, columns, condition: None },
                    _ => Direction::OutTable { table, columns },
                }
            }
        };
        let target = if parser.parse_one_of_keywords(&[Keyword::STDIN, Keyword::STDOUT]).is_some() {
            Target::Client
        } else if parser.parse_keyword(Keyword::PROGRAM) {
            string(parser)?;
            Target::Program
        } else {
            string(parser)?;
            Target::File
        };
        let _ = parser.parse_keyword(Keyword::WITH);
        if parser.consume_token(&Token::LParen) {
            options.extend(parser.parse_comma_separated(option)?);
            parser.expect_token(&Token::RParen)?;
        } else {
            while let Some(option) = old_option(parser)? {
                options.push(option);
            }
        }
        if let Direction::In { condition, .. } = &mut direction
            && parser.parse_keyword(Keyword::WHERE)
        {
            *condition = Some(Box::new(parser.parse_expr()?));
        }
        Ok(Self { direction, target, options })
    }
}

fn word_option(name: &str, word: &str) -> GivenOption {
    GivenOption { name: name.into(), value: Some(OptionValue::Word(word.into())) }
}

/// Parses `NAME`, `NAME value`, `NAME *`, `NAME (value, ...)`.
fn option(parser: &mut Parser<'_>) -> Parsed<GivenOption> {
    let name = label(parser)?;
    let value = match &parser.peek_token_ref().token {
        Token::Comma | Token::RParen => None,
        Token::Mul => {
            parser.next_token();
            Some(OptionValue::All)
        }
        Token::LParen => {
            parser.next_token();
            let names = parser.parse_comma_separated(|parser| {
                if matches!(parser.peek_token_ref().token, Token::Word(_)) { label(parser) } else { string(parser) }
            })?;
            parser.expect_token(&Token::RParen)?;
            Some(OptionValue::Names(names))
        }
        Token::Word(_) => Some(OptionValue::Word(label(parser)?)),
        Token::Number(number, _) => {
            let number = number.clone();
            parser.next_token();
            Some(OptionValue::Word(number))
        }
        _ => Some(OptionValue::Word(string(parser)?)),
    };
    Ok(GivenOption { name, value })
}

/// Parses an option as written before PostgreSQL 9.0.
fn old_option(parser: &mut Parser<'_>) -> Parsed<Option<GivenOption>> {
    use Keyword::{BINARY, CSV, DELIMITER, ENCODING, ESCAPE, FORCE, FREEZE, HEADER, NOT, NULL, QUOTE};
    let known = [BINARY, FREEZE, DELIMITER, NULL, CSV, HEADER, QUOTE, ESCAPE, FORCE, ENCODING];
    Ok(Some(match parser.parse_one_of_keywords(&known) {
        None => return Ok(None),
        Some(BINARY) => word_option("format", "binary"),
        Some(CSV) => word_option("format", "csv"),
        Some(FREEZE) => word_option("freeze", "true"),
        Some(HEADER) => word_option("header", "true"),
        Some(DELIMITER) => string_option(parser, "delimiter")?,
        Some(NULL) => string_option(parser, "null")?,
        Some(QUOTE) => string_option(parser, "quote")?,
        Some(ESCAPE) => string_option(parser, "escape")?,
        Some(ENCODING) => string_option(parser, "encoding")?,
        Some(_) => {
            let name = if parser.parse_keyword(QUOTE) {
                "force_quote"
            } else if parser.parse_keywords(&[NOT, NULL]) {
                "force_not_null"
            } else {
                parser.expect_keyword(NULL)?;
                "force_null"
            };
            let value = if name == "force_quote" && parser.consume_token(&Token::Mul) {
                OptionValue::All
            } else {
                OptionValue::Names(parser.parse_comma_separated(label)?)
            };
            GivenOption { name: name.into(), value: Some(value) }
        }
    }))
}

fn string_option(parser: &mut Parser<'_>, name: &str) -> Parsed<GivenOption> {
    let _ = parser.parse_keyword(Keyword::AS);
    Ok(word_option(name, &string(parser)?))
}

/// Parses a word, reserved or not.
fn label(parser: &mut Parser<'_>) -> Parsed<String> {
    match parser.next_token().token {
        Token::Word(word) => Ok(name_of(&word.into_ident(sqlparser::tokenizer::Span::empty()))),
        _ => {
            parser.prev_token();
            parser.expected_ref("a word", parser.peek_token_ref())
        }
    }
}

fn string(parser: &mut Parser<'_>) -> Parsed<String> {
    match parser.next_token().token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
            Ok(text)
        }
        _ => {
            parser.prev_token();
            parser.expected_ref("a string", parser.peek_token_ref())
        }
    }
}
