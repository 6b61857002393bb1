//! ALTER SYSTEM: values of the server's configuration that statements set. The server stores them ([`ServerControl`]);
//! they hold when it reads its configuration the next time.
//!
//! [`ServerControl`]: crate::configuration::ServerControl

use sqlparser::{
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Session, State};
use crate::{
    bind::names::{name_of, parts_of},
    configuration::Alteration,
    error::{Result, SqlError, SqlState},
    result::RowSink,
};

/// The statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum AlterSystem {
    Set(String, String),
    Reset(String),
    ResetAll,
}

impl AlterSystem {
    /// Parses the statement, if it comes next.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALL, ALTER, DEFAULT, RESET, SET, SYSTEM, TO};
        if !parser.parse_keywords(&[ALTER, SYSTEM]) {
            return Ok(None);
        }
        if parser.parse_keyword(RESET) {
            let all = parser.parse_keyword(ALL);
            return Ok(Some(if all { Self::ResetAll } else { Self::Reset(name(parser)?) }));
        }
        parser.expect_keyword(SET)?;
        let name = name(parser)?;
        if !parser.parse_keyword(TO) {
            parser.expect_token(&Token::Eq)?;
        }
        if parser.parse_keyword(DEFAULT) {
            return Ok(Some(Self::Reset(name)));
        }
        let values = parser.parse_comma_separated(value)?;
        Ok(Some(Self::Set(name, values.join(", "))))
    }
}

fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let name = parser.parse_object_name(false)?;
    let parts = parts_of(&name).map_err(|error| ParserError::ParserError(error.to_string()))?;
    Ok(parts.join(".").to_lowercase())
}

/// Parses a value: a string, a number, a word.
fn value(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    match &parser.peek_token_ref().token {
        Token::Number(number, _) => {
            let number = format!("{sign}{number}");
            parser.next_token();
            Ok(number)
        }
        Token::Word(_) if sign.is_empty() => Ok(name_of(&parser.parse_identifier()?)),
        _ if sign.is_empty() => parser.parse_literal_string(),
        _ => parser.expected_ref("a number", parser.peek_token_ref()),
    }
}

/// Whether a part of a name has only letters, digits, `_` and `$`, and begins with no digit.
fn is_word(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with(|letter: char| letter.is_numeric())
        && part.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$'))
}

impl Session {
    /// Runs the statement.
    pub(super) fn alter_system(&self, tree: &AlterSystem, rows: &mut dyn RowSink) -> Result<()> {
        if !matches!(self.state, State::Idle) {
            let message = "ALTER SYSTEM cannot run inside a transaction block";
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        if !self.shared.catalog.current().is_superuser(self.environment.role) {
            let message = "must be superuser to execute ALTER SYSTEM command";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        let Some(control) = self.registered.configuration().control.get() else {
            return Err(SqlError::unsupported("ALTER SYSTEM without a server"));
        };
        if let AlterSystem::Set(name, _) = tree
            && !name.split('.').all(is_word)
        {
            // A file of the server holds it as `name=value`.
            let message = format!("invalid configuration parameter name \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_NAME, message));
        }
        control.alter(match tree {
            AlterSystem::Set(name, value) => Alteration::Set(name, value),
            AlterSystem::Reset(name) => Alteration::Reset(name),
            AlterSystem::ResetAll => Alteration::ResetAll,
        })?;
        rows.complete("ALTER SYSTEM")
    }
}
