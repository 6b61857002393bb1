//! CREATE, ALTER and DROP of roles, which are users.
//!
//! The grammar is our own, because sqlparser's keeps passwords. Here a password becomes a verifier as soon as it is
//! read, and errors name no token, so that no tree, plan or error contains a password. A role of an older version has no
//! stored attributes, and is a superuser; the first change of an attribute stores all of them.

use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan, Word},
};

use super::{context::ChangeContext, skip};
use crate::{
    bind::names::name_of,
    catalog::{
        Change, MAIN_DATABASE,
        databases::MAIN_NAME,
        definition::{Definition, Grant, ObjectId, RoleDef, TraitsDef},
        roles::BUILT_IN,
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
    types::{Environment, SqlType, Value, text},
    verifier::Verifier,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum RoleTree {
    /// CREATE ROLE, or USER, which may log in.
    Create(String, Options, bool),
    Alter(Who, Options),
    Rename(Who, String),
    Drop {
        names: Vec<String>,
        if_exists: bool,
    },
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
    /// Attributes, and whether the role has them.
    traits: Vec<(Trait, bool)>,
    /// CONNECTION LIMIT; -1: none.
    connection_limit: Option<i32>,
    /// The time after VALID UNTIL.
    valid_until: Option<String>,
    /// The roles of which it becomes a member.
    in_roles: Vec<String>,
    /// The roles that become members of it, and whether with ADMIN OPTION.
    members: Vec<(String, bool)>,
    /// The first word of an option that is not supported.
    refused: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trait {
    Superuser,
    Inherit,
    CreateRole,
    CreateDatabase,
    Login,
    Replication,
    BypassRowSecurity,
}

impl Trait {
    fn named(word: &str) -> Option<(Self, bool)> {
        let (word, is_on) = match word.strip_prefix("NO") {
            Some(word) => (word, false),
            None => (word, true),
        };
        let found = match word {
            "SUPERUSER" => Self::Superuser,
            "INHERIT" => Self::Inherit,
            "CREATEROLE" => Self::CreateRole,
            "CREATEDB" => Self::CreateDatabase,
            "LOGIN" => Self::Login,
            "REPLICATION" => Self::Replication,
            "BYPASSRLS" => Self::BypassRowSecurity,
            _ => return None,
        };
        Some((found, is_on))
    }

    fn set(self, traits: &mut TraitsDef, is_on: bool) {
        let place = match self {
            Self::Superuser => &mut traits.is_superuser,
            Self::Inherit => &mut traits.inherits,
            Self::CreateRole => &mut traits.creates_roles,
            Self::CreateDatabase => &mut traits.creates_databases,
            Self::Login => &mut traits.can_login,
            Self::Replication => &mut traits.replicates,
            Self::BypassRowSecurity => &mut traits.sees_all_rows,
        };
        *place = is_on;
    }
}

#[derive(Clone, Debug)]
enum Password {
    Null,
    Empty,
    Verifier(Verifier),
}

const REFUSED: [&str; 3] = ["RESET", "SET", "UNENCRYPTED"];

/// Whether a statement comes next that begins like one about roles, and that is missing.
fn is_lacking(parser: &Parser<'_>) -> bool {
    let is_one = |at: usize, words: &[&str]| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => {
            word.quote_style.is_none() && words.iter().any(|wanted| word.value.eq_ignore_ascii_case(wanted))
        }
        _ => false,
    };
    let is_mapping = is_one(1, &["USER"]) && is_one(2, &["MAPPING"]) && is_one(3, &["FOR", "IF"]);
    is_mapping || is_one(0, &["ALTER"]) && is_one(1, &["GROUP"]) && is_one(3, &["ADD", "DROP"])
}

impl RoleTree {
    /// Returns the statement's name in messages.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Create(..) => "CREATE ROLE",
            Self::Alter(..) | Self::Rename(..) => "ALTER ROLE",
            Self::Drop { .. } => "DROP ROLE",
        }
    }

    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, CREATE, DROP, EXISTS, IF, RENAME, ROLE, TO, USER};
        if is_lacking(parser) {
            return Ok(None);
        }
        let can_login = parser.parse_keywords(&[CREATE, USER]);
        let mut follows = |verb| {
            let kinds = [USER, ROLE, Keyword::GROUP];
            kinds.into_iter().any(|kind| parser.parse_keywords(&[verb, kind]))
        };
        Ok(Some(if can_login || follows(CREATE) {
            Self::Create(parse_name(parser)?, Options::parse(parser)?, can_login)
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
                "ENCRYPTED" => {}
                "IN" => {
                    parser.expect_one_of_keywords(&[Keyword::ROLE, Keyword::GROUP])?;
                    options.in_roles.extend(parser.parse_comma_separated(parse_name)?);
                }
                "ROLE" | "USER" | "ADMIN" => {
                    let members = parser.parse_comma_separated(parse_name)?;
                    options.members.extend(members.into_iter().map(|member| (member, option == "ADMIN")));
                }
                word if let Some(one) = Trait::named(word) => {
                    if options.traits.iter().any(|(known, _)| *known == one.0) {
                        return Err(expected("each option once", &next));
                    }
                    options.traits.push(one);
                }
                "CONNECTION" if options.connection_limit.is_some() => return Err(expected("one limit only", &next)),
                "CONNECTION" => options.connection_limit = Some(parse_limit(parser)?),
                "VALID" if options.valid_until.is_some() => return Err(expected("one time only", &next)),
                "VALID" => {
                    parser.expect_keyword_is(Keyword::UNTIL)?;
                    options.valid_until = Some(parser.parse_literal_string()?);
                }
                // A number that PostgreSQL ignores, too.
                "SYSID" => _ = parser.parse_number()?,
                refused if REFUSED.contains(&refused) => options.refused = Some(option),
                _ => return Err(expected("an option of a role", &next)),
            }
        }
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        if let Some(limit) = self.connection_limit.filter(|limit| *limit < -1) {
            let message = format!("invalid connection limit: {limit}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let Some(refused) = &self.refused else { return Ok(()) };
        Err(SqlError::unsupported(format_args!("{refused} of a role")))
    }

    /// Whether it changes attributes.
    fn has_traits(&self) -> bool {
        !self.traits.is_empty() || self.connection_limit.is_some() || self.valid_until.is_some()
    }

    /// Changes attributes.
    fn set(&self, traits: &mut TraitsDef, environment: &Environment) -> Result<()> {
        self.traits.iter().for_each(|(one, is_on)| one.set(traits, *is_on));
        traits.connection_limit = self.connection_limit.unwrap_or(traits.connection_limit);
        if let Some(time) = &self.valid_until
            && let Value::TimestampTz(time) = text::parse(SqlType::TIMESTAMPTZ, -1, time, environment)?
        {
            traits.valid_until = Some(time);
        }
        Ok(())
    }
}

/// Parses the number behind CONNECTION LIMIT.
fn parse_limit(parser: &mut Parser<'_>) -> Result<i32, ParserError> {
    parser.expect_keyword_is(Keyword::LIMIT)?;
    let sign = if parser.consume_token(&Token::Minus) { "-" } else { "" };
    let next = parser.next_token();
    match &next.token {
        Token::Number(digits, _) => format!("{sign}{digits}").parse().map_err(|_| expected("a number", &next)),
        _ => Err(expected("a number", &next)),
    }
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
            RoleTree::Create(name, options, can_login) => {
                options.check()?;
                self.check_may_create(active, options)?;
                self.take_new(active, name)?;
                let verifier = options.password.as_ref().and_then(|password| password.verifier(rows));
                let id = self.catalog_number()?;
                self.put_role(active, RoleDef { id, name: name.clone(), verifier, row: id })?;
                let mut traits = TraitsDef { can_login: *can_login, ..TraitsDef::of_new(id) };
                options.set(&mut traits, self.environment)?;
                self.put_traits(active, traits)?;
                self.add_memberships(active, id, options, rows)?;
                Ok("CREATE ROLE".into())
            }
            RoleTree::Alter(who, options) => {
                options.check()?;
                let def = self.role_of(active, who)?;
                self.check_may_alter(active, &def, options)?;
                if let Some(password) = &options.password {
                    self.take_role(active, &def)?;
                    let (verifier, row) = (password.verifier(rows), self.catalog_number()?);
                    self.put_role(active, RoleDef { verifier, row, ..def.clone() })?;
                }
                if options.has_traits() {
                    let mut traits = active.catalog.traits(def.id);
                    options.set(&mut traits, self.environment)?;
                    self.put_traits(active, traits)?;
                }
                self.add_memberships(active, def.id, options, rows)?;
                Ok("ALTER ROLE".into())
            }
            RoleTree::Rename(who, name) => {
                let def = self.role_of(active, who)?;
                let user = [&self.environment.user, &self.environment.session_user];
                if user.iter().any(|user| *def.name == ***user) {
                    let which = if *def.name == *self.environment.session_user { "session" } else { "current" };
                    let message = format!("{which} user cannot be renamed");
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                }
                self.check_may_change(active, &def, "rename")?;
                self.take_new(active, name)?;
                self.take_role(active, &def)?;
                self.take_role_name(active, &def.name, false)?;
                self.put_role(active, RoleDef { name: name.clone(), row: self.catalog_number()?, ..def })?;
                Ok("ALTER ROLE".into())
            }
            RoleTree::Drop { names, if_exists } => {
                if !active.catalog.creates_roles(self.environment.role) {
                    return Err(denied("permission denied to drop role"));
                }
                for name in names {
                    if BUILT_IN.iter().any(|(known, _)| known == name) {
                        let message = format!("cannot drop role {name} because it is required by the database system");
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message));
                    }
                    if *if_exists && active.catalog.role(name).is_none() {
                        let message = format!("role \"{name}\" does not exist, skipping");
                        skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                        continue;
                    }
                    self.drop_role(active, name)?;
                }
                Ok("DROP ROLE".into())
            }
        }
    }

    fn drop_role(&self, active: &mut ActiveTransaction, name: &str) -> Result<()> {
        let def = self.role_of(active, &Who::Named(name.to_owned()))?;
        for (user, number, which) in [
            (&self.environment.user, self.environment.role, "current"),
            (&self.environment.session_user, self.environment.login, "session"),
        ] {
            if *def.name == **user || def.id == number {
                let message = format!("{which} user cannot be dropped");
                return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
            }
        }
        self.check_may_change(active, &def, "drop")?;
        let mut uses = uses_of_role(self, active, def.id);
        let others = self.store.all_databases().into_iter().filter(|store| store.number != self.store.number);
        let mut catalogs: Vec<_> = others.map(|store| store.current()).collect();
        for other in &catalogs {
            let name = match other.database(other.number) {
                Some(database) => &*database.name,
                None if other.number == MAIN_DATABASE => MAIN_NAME,
                // It is being dropped.
                None => continue,
            };
            match other.count_uses(def.id) {
                0 => {}
                1 => uses.push(format!("1 object in database {name}")),
                more => uses.push(format!("{more} objects in database {name}")),
            }
        }
        if !uses.is_empty() {
            let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(uses.join("\n")));
        }
        self.take_role(active, &def)?;
        catalogs.push(active.catalog.clone());
        self.store.watch_rights(&active.txn, &catalogs)?;
        self.take_role_name(active, name, false)?;
        self.drop_traits(active, def.id)?;
        let members: Vec<_> = active.catalog.memberships().filter(|(_, of)| of.role == def.id).collect();
        for (member, _) in members {
            let mut traits = active.catalog.traits(member);
            traits.member_of.retain(|of| of.role != def.id);
            self.put_traits(active, traits)?;
        }
        self.apply(active, vec![Change::Drop(Definition::Role(def))])
    }

    /// Fails if the current role may not create a role with these options.
    fn check_may_create(&self, active: &ActiveTransaction, options: &Options) -> Result<()> {
        if active.catalog.is_superuser(self.environment.role) {
            return Ok(());
        }
        let has = |one| options.traits.contains(&(one, true));
        let what = match () {
            () if has(Trait::Superuser) => "must be superuser to create superusers",
            () if has(Trait::Replication) => "must be superuser to create replication users",
            () if has(Trait::BypassRowSecurity) => "must be superuser to create bypassrls users",
            () if active.catalog.creates_roles(self.environment.role) => return Ok(()),
            () => "permission denied to create role",
        };
        Err(denied(what))
    }

    /// Fails if the current role may not change a role by these options.
    fn check_may_alter(&self, active: &ActiveTransaction, def: &RoleDef, options: &Options) -> Result<()> {
        let (role, traits) = (self.environment.role, active.catalog.traits(def.id));
        if active.catalog.is_superuser(role) {
            return Ok(());
        }
        let mentions = |one| options.traits.iter().any(|(known, _)| *known == one);
        let what = match () {
            () if traits.is_superuser || mentions(Trait::Superuser) => {
                "must be superuser to alter superuser roles or change superuser attribute"
            }
            () if traits.replicates || mentions(Trait::Replication) => {
                "must be superuser to alter replication roles or change replication attribute"
            }
            () if mentions(Trait::BypassRowSecurity) => "must be superuser to change bypassrls attribute",
            () if active.catalog.creates_roles(role) => return Ok(()),
            // Each role may change its own password.
            () if def.id == role && !options.has_traits() && options.members.is_empty() => return Ok(()),
            () => "permission denied",
        };
        Err(denied(what))
    }

    /// Fails if the current role may not rename or drop a role.
    fn check_may_change(&self, active: &ActiveTransaction, def: &RoleDef, what: &str) -> Result<()> {
        if active.catalog.is_superuser(self.environment.role) {
            return Ok(());
        }
        if active.catalog.is_superuser(def.id) {
            return Err(denied(&format!("must be superuser to {what} superusers")));
        }
        match active.catalog.creates_roles(self.environment.role) {
            true => Ok(()),
            false => Err(denied(&format!("permission denied to {what} role"))),
        }
    }

    /// Makes a role a member of others, and others members of it.
    fn add_memberships(
        &self,
        active: &mut ActiveTransaction,
        role: ObjectId,
        options: &Options,
        rows: &mut dyn RowSink,
    ) -> Result<()> {
        let grantor = self.environment.role;
        let named = |active: &ActiveTransaction, name: &str| self.role_meant(active, &Ident::with_quote('"', name));
        for of in &options.in_roles {
            let of = named(active, of)?;
            self.check_admin(active, of, false)?;
            self.add_member(active, (of, grantor), role, false, rows)?;
        }
        for (member, is_admin) in &options.members {
            let member = named(active, member)?;
            self.add_member(active, (role, grantor), member, *is_admin, rows)?;
        }
        Ok(())
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
        let own = |role: &&std::sync::Arc<RoleDef>| role.id == self.environment.role;
        let name = match who {
            Who::Named(name) => name,
            Who::Current if let Some(role) = active.catalog.roles().find(own) => return Ok((**role).clone()),
            Who::Current => &*self.environment.user,
        };
        let missing = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
        active.catalog.role(name).map(|def| (**def).clone()).ok_or_else(missing)
    }
}

fn denied(what: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, what)
}

/// Returns in words the objects that a role owns or has rights to, and the policies that it has.
fn uses_of_role(context: &ChangeContext<'_>, active: &ActiveTransaction, role: ObjectId) -> Vec<String> {
    let mut all: Vec<_> = active.catalog.all_rights().collect();
    all.sort_by_key(|rights| rights.object);
    let mut uses = Vec::new();
    for rights in all {
        let Some(object) = active.catalog.object_of(rights) else { continue };
        let (kind, name) = (active.catalog.described(object).0, context.shown_name(active, object));
        let concerns = |list: &[Grant]| list.iter().any(|grant| grant.role == role || grant.grantor == role);
        if rights.owner == role {
            uses.push(format!("owner of {kind} {name}"));
        } else if rights.granted.as_deref().is_some_and(concerns) {
            uses.push(format!("privileges for {kind} {name}"));
        }
        for (at, list) in rights.columns.iter().filter(|_| rights.owner != role) {
            if concerns(list) {
                let table = active.catalog.table(object.id).map(|table| &table.def.columns[*at].name);
                let view = active.catalog.view(object.id).map(|view| &view.def.columns[*at].name);
                let column = table.or(view).map_or("", |name| name);
                uses.push(format!("privileges for column {column} of {kind} {name}"));
            }
        }
    }
    uses.extend(context.default_rights_in_words(active, role));
    for security in active.catalog.all_row_security() {
        let table = active.catalog.table(security.table).map_or("", |table| table.name());
        let own = security.policies.iter().filter(|policy| policy.roles.contains(&role));
        uses.extend(own.map(|policy| format!("target of policy {} on table {table}", policy.name)));
    }
    uses
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
