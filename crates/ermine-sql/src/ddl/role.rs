//! CREATE, ALTER and DROP of roles, which are users.
//!
//! Every user has all rights: options that grant rights change nothing, and options that withhold them are refused. The
//! grammar is our own, because sqlparser's keeps passwords. Here a password becomes a verifier as soon as it is read,
//! and errors name no token, so that no tree, plan or error contains a password.

use sqlparser::{
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Word},
};

use super::{context::ChangeContext, skip};
use crate::{
    bind::names::name_of,
    catalog::{
        Change,
        definition::{Definition, RoleDef},
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
    verifier::Verifier,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum RoleTree {
    Create(String, Options),
    Alter(Who, Options),
    Rename(Who, String),
    Drop { names: Vec<String>, if_exists: bool },
}

/// The role that is changed.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Named(String),
    /// The session's own role.
    Current,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    password: Option<Password>,
    /// The first word of an option that is not supported.
    refused: Option<String>,
}

#[derive(Clone, Debug)]
enum Password {
    Null,
    Empty,
    Verifier(Verifier),
}

/// Options that hold for every role.
const GIVEN: [&str; 9] = [
    "BYPASSRLS",
    "CREATEDB",
    "CREATEROLE",
    "ENCRYPTED",
    "INHERIT",
    "LOGIN",
    "NOREPLICATION",
    "REPLICATION",
    "SUPERUSER",
];

const REFUSED: [&str; 15] = [
    "ADMIN",
    "CONNECTION",
    "GROUP",
    "IN",
    "NOBYPASSRLS",
    "NOCREATEDB",
    "NOCREATEROLE",
    "NOINHERIT",
    "NOLOGIN",
    "NOSUPERUSER",
    "RESET",
    "ROLE",
    "SET",
    "UNENCRYPTED",
    "VALID",
];

impl RoleTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, CREATE, DROP, EXISTS, IF, RENAME, ROLE, TO, USER};
        let mut follows = |verb| parser.parse_keywords(&[verb, USER]) || parser.parse_keywords(&[verb, ROLE]);
        Ok(Some(if follows(CREATE) {
            Self::Create(parse_name(parser)?, Options::parse(parser)?)
        } else if follows(ALTER) {
            let who = Who::parse(parser)?;
            match parser.parse_keywords(&[RENAME, TO]) {
                true => Self::Rename(who, parse_name(parser)?),
                false => Self::Alter(who, Options::parse(parser)?),
            }
        } else if follows(DROP) {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            Self::Drop { names: parser.parse_comma_separated(parse_name)?, if_exists }
        } else {
            return Ok(None);
        }))
    }
}

impl Who {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{CURRENT_ROLE, CURRENT_USER, SESSION_USER};
        match parser.parse_one_of_keywords(&[CURRENT_ROLE, CURRENT_USER, SESSION_USER]) {
            Some(_) => Ok(Self::Current),
            None => parse_name(parser).map(Self::Named),
        }
    }
}

/// Words that, unless quoted, mean another role, or none.
const RESERVED: [Keyword; 6] = [
    Keyword::CURRENT_ROLE,
    Keyword::CURRENT_USER,
    Keyword::SELECT,
    Keyword::SESSION_USER,
    Keyword::TABLE,
    Keyword::USER,
];

fn parse_name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) if word.quote_style.is_none() && RESERVED.contains(&word.keyword) => {
            Err(expected("the name of a role", &TokenWithSpan { token: Token::Word(word), span: next.span }))
        }
        Token::Word(word) if !word.value.is_empty() => Ok(name_of(&word.into_ident(next.span))),
        _ => Err(expected("the name of a role", &next)),
    }
}

/// Returns an error that does not show the token found.
fn expected(what: &str, found: &TokenWithSpan) -> ParserError {
    ParserError::ParserError(format!("Expected: {what}{}", found.span.start))
}

impl Options {
    /// Parses the rest of the statement.
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let mut options = Self::default();
        let _ = parser.parse_keyword(Keyword::WITH);
        while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            let next = parser.next_token();
            let option = match &next.token {
                Token::Word(Word { value, quote_style: None, .. }) => value.to_uppercase(),
                _ => String::new(),
            };
            match &*option {
                // The words after a refused option may have any form.
                _ if options.refused.is_some() => {}
                "PASSWORD" if options.password.is_some() => return Err(expected("one password only", &next)),
                "PASSWORD" => options.password = Some(Password::parse(parser)?),
                given if GIVEN.contains(&given) => {}
                // No limit; and a number that PostgreSQL ignores, too.
                "CONNECTION" if has_no_limit(parser) => {}
                "VALID" if is_always_valid(parser) => {}
                "SYSID" => _ = parser.parse_number()?,
                refused if REFUSED.contains(&refused) => options.refused = Some(option),
                _ => return Err(expected("an option of a role", &next)),
            }
        }
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        let Some(refused) = &self.refused else { return Ok(()) };
        Err(SqlError::unsupported(format_args!("{refused} of a role"))
            .hint("There are no privileges per user: every user may do everything."))
    }
}

/// Consumes `LIMIT -1`, if it comes next.
fn has_no_limit(parser: &mut Parser<'_>) -> bool {
    let words: Vec<_> = (0..3).map(|at| parser.peek_nth_token_ref(at).to_string()).collect();
    let is_unlimited = words[0].eq_ignore_ascii_case("limit") && words[1..] == ["-", "1"];
    (0..if is_unlimited { 3 } else { 0 }).for_each(|_| drop(parser.next_token()));
    is_unlimited
}

/// Consumes `UNTIL 'infinity'`, if it comes next.
fn is_always_valid(parser: &mut Parser<'_>) -> bool {
    let is_always = parser.peek_nth_token_ref(0).to_string().eq_ignore_ascii_case("until")
        && parser.peek_nth_token_ref(1).token == Token::SingleQuotedString("infinity".into());
    (0..if is_always { 2 } else { 0 }).for_each(|_| drop(parser.next_token()));
    is_always
}

impl Password {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        if parser.parse_keyword(Keyword::NULL) {
            return Ok(Self::Null);
        }
        let next = parser.next_token();
        let text = match &next.token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text) => {
                text
            }
            Token::DollarQuotedString(text) => &text.value,
            _ => return Err(expected("a password between quotes, or NULL", &next)),
        };
        let is_md5 = text.strip_prefix("md5").is_some_and(|hash| {
            hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
        });
        if is_md5 {
            return Err(expected("a password, or a verifier of SCRAM-SHA-256; there are none of MD5", &next));
        }
        Ok(match text.parse() {
            _ if text.is_empty() => Self::Empty,
            Ok(verifier) => Self::Verifier(verifier),
            Err(_) => Self::Verifier(Verifier::of(text)),
        })
    }

    /// Returns the verifier to be stored for the password.
    fn verifier(&self, rows: &mut dyn RowSink) -> Option<Verifier> {
        match self {
            Self::Null => None,
            Self::Empty => {
                let message = "empty string is not a valid password, clearing password";
                skip(rows, SqlState::SUCCESSFUL_COMPLETION, message.into());
                None
            }
            Self::Verifier(verifier) => Some(verifier.clone()),
        }
    }
}

impl ChangeContext<'_> {
    pub(super) fn define_role(
        &self,
        active: &mut ActiveTransaction,
        tree: &RoleTree,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match tree {
            RoleTree::Create(name, options) => {
                options.check()?;
                self.take_new(active, name)?;
                let verifier = options.password.as_ref().and_then(|password| password.verifier(rows));
                let id = self.catalog_number()?;
                self.put_role(active, RoleDef { id, name: name.clone(), verifier, row: id })?;
                Ok("CREATE ROLE".into())
            }
            RoleTree::Alter(who, options) => {
                options.check()?;
                let def = self.role_of(active, who)?;
                if let Some(password) = &options.password {
                    self.take_role(active, &def)?;
                    let (verifier, row) = (password.verifier(rows), self.catalog_number()?);
                    self.put_role(active, RoleDef { verifier, row, ..def })?;
                }
                Ok("ALTER ROLE".into())
            }
            RoleTree::Rename(who, name) => {
                let def = self.role_of(active, who)?;
                if *def.name == *self.environment.user {
                    let message = "session user cannot be renamed";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.take_new(active, name)?;
                self.take_role(active, &def)?;
                self.take_role_name(active, &def.name, false)?;
                self.put_role(active, RoleDef { name: name.clone(), row: self.catalog_number()?, ..def })?;
                Ok("ALTER ROLE".into())
            }
            RoleTree::Drop { names, if_exists } => {
                for name in names {
                    if *if_exists && active.catalog.role(name).is_none() {
                        let message = format!("role \"{name}\" does not exist, skipping");
                        skip(rows, SqlState::UNDEFINED_OBJECT, message);
                        continue;
                    }
                    let def = self.role_of(active, &Who::Named(name.clone()))?;
                    if *def.name == *self.environment.user {
                        return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
                    }
                    self.take_role(active, &def)?;
                    self.take_role_name(active, name, false)?;
                    self.apply(active, vec![Change::Drop(Definition::Role(def))])?;
                }
                Ok("DROP ROLE".into())
            }
        }
    }

    fn put_role(&self, active: &mut ActiveTransaction, def: RoleDef) -> Result<()> {
        self.apply(active, vec![Change::Put(Definition::Role(def))])
    }

    /// Takes a name that no role has.
    fn take_new(&self, active: &ActiveTransaction, name: &str) -> Result<()> {
        if active.catalog.role(name).is_some() {
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, format!("role \"{name}\" already exists")));
        }
        if name.starts_with("pg_") || matches!(name, "none" | "public") {
            return Err(SqlError::new(SqlState::RESERVED_NAME, format!("role name \"{name}\" is reserved")));
        }
        self.take_role_name(active, name, true)
    }

    /// Returns the role that the statement names.
    fn role_of(&self, active: &ActiveTransaction, who: &Who) -> Result<RoleDef> {
        let name = match who {
            Who::Named(name) => name,
            Who::Current => &*self.environment.user,
        };
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        active.catalog.role(name).map(|def| (**def).clone()).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        SqlDatabase,
        session::tree::{self, Tree},
    };

    #[test]
    fn what_hides_unknown_users_stays() {
        let engine = Arc::new(ermine::Database::open_in_memory(ermine::Options::default()).unwrap());
        let secret = || SqlDatabase::open(engine.clone()).unwrap().secret().to_vec();
        assert_eq!(secret(), secret());
        assert_ne!(secret(), [0; 32]);
    }

    #[test]
    fn no_tree_and_no_error_has_a_password() {
        for text in [
            "CREATE USER a PASSWORD 'geheim'",
            "CREATE USER a PASSWORD E'gehei\\x6d'",
            "ALTER ROLE a WITH ENCRYPTED PASSWORD $$geheim$$ LOGIN",
            "ALTER ROLE a NOLOGIN PASSWORD 'geheim'",
            "ALTER USER CURRENT_USER PASSWORD 'geheim'; SELECT 1",
        ] {
            let trees = tree::statements(text).unwrap();
            assert!(matches!(trees[0], Tree::Role(_)) && !format!("{trees:?}").contains("geheim"), "{text}");
        }
        for text in [
            "CREATE USER a PASSWORD geheim",
            "CREATE USER a PASSWORD = 'geheim'",
            "CREATE USER a PASSWORD 'x' 'geheim'",
            "CREATE USER a PASSWORD 'x' PASSWORD 'geheim'",
            "CREATE USER a 'geheim'",
            "CREATE USER 'geheim'",
            "CREATE USER \"\"",
            "ALTER USER a RENAME 'geheim'",
            "CREATE USER a PASSWORD 'md5900150983cd24fb0d6963f7d28e17f72'",
        ] {
            let error = tree::statements(text).map(|trees| format!("{trees:?}")).unwrap_err();
            assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{text}");
            let told = format!("{error:?}");
            assert!(!told.contains("geheim") && !told.contains("90015"), "{told}");
        }
    }
}
