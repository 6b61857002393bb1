//! Extensions. Those that there are belong to the database and are always there: `plpgsql`, of which nothing can be
//! written here, and the functions of two others. So scripts and dumps that create them run, and others fail.

use sqlparser::{
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Session, utility::warn};
use crate::{
    bind::names::name_of,
    error::{Result, SqlError, SqlState},
    result::RowSink,
    system::EXTENSIONS,
};

/// A statement about extensions, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum ExtensionTree {
    Create {
        name: String,
        if_not_exists: bool,
        version: Option<String>,
    },
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
    /// COMMENT ON EXTENSION: dumps describe the extensions that they create. The comment is not kept.
    Comment(String),
}

impl ExtensionTree {
    /// Parses such a statement, if one comes next.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{CASCADE, COMMENT, CREATE, DROP, EXISTS, EXTENSION, IF, IS, NOT, NULL, ON, RESTRICT};
        Ok(Some(if parser.parse_keywords(&[CREATE, EXTENSION]) {
            let if_not_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
            let name = name_of(&parser.parse_identifier()?);
            Self::Create { name, if_not_exists, version: version(parser)? }
        } else if parser.parse_keywords(&[DROP, EXTENSION]) {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            let names = parser.parse_comma_separated(Parser::parse_identifier)?.iter().map(name_of).collect();
            let _ = parser.parse_one_of_keywords(&[CASCADE, RESTRICT]);
            Self::Drop { names, if_exists }
        } else if parser.parse_keywords(&[COMMENT, ON, EXTENSION]) {
            let name = name_of(&parser.parse_identifier()?);
            parser.expect_keyword(IS)?;
            if !parser.parse_keyword(NULL) {
                parser.parse_literal_string()?;
            }
            Self::Comment(name)
        } else {
            return Ok(None);
        }))
    }
}

/// Parses the options of CREATE EXTENSION, and returns the version.
fn version(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    use Keyword::{CASCADE, SCHEMA, VERSION, WITH};
    let _ = parser.parse_keyword(WITH);
    let mut version = None;
    while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
        if parser.parse_keyword(SCHEMA) {
            // Functions of extensions are found in all schemas.
            parser.parse_identifier()?;
        } else if parser.parse_keyword(VERSION) {
            version = Some(parser.parse_identifier()?.value);
        } else {
            parser.expect_keyword(CASCADE)?;
        }
    }
    Ok(version)
}

fn find(name: &str) -> Option<(&'static str, &'static str)> {
    EXTENSIONS.iter().find(|(known, _)| *known == name).copied()
}

fn missing(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("extension \"{name}\" does not exist"))
}

impl Session {
    /// Runs such a statement.
    pub(super) fn extension(&mut self, tree: &ExtensionTree, rows: &mut dyn RowSink) -> Result<()> {
        match tree {
            ExtensionTree::Create { name, if_not_exists, version } => {
                let Some((_, own)) = find(name) else {
                    let message = format!("extension \"{name}\" is not available");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                };
                if *if_not_exists {
                    let message = format!("extension \"{name}\" already exists, skipping");
                    rows.notice("NOTICE", &SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                } else if name == "plpgsql" {
                    let message = format!("extension \"{name}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
                } else if version.as_ref().is_some_and(|version| version != own) {
                    let message = format!("extension \"{name}\" has version {own} only");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                rows.complete("CREATE EXTENSION")
            }
            ExtensionTree::Drop { names, if_exists } => {
                for name in names {
                    match find(name) {
                        Some(_) => {
                            let message = format!("extension \"{name}\" is built in, and stays");
                            warn(rows, SqlState::WARNING, &message);
                        }
                        None if *if_exists => {
                            let message = format!("{}, skipping", missing(name).report().message);
                            rows.notice("NOTICE", &SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
                        }
                        None => return Err(missing(name)),
                    }
                }
                rows.complete("DROP EXTENSION")
            }
            ExtensionTree::Comment(name) => {
                find(name).ok_or_else(|| missing(name))?;
                rows.complete("COMMENT")
            }
        }
    }
}
