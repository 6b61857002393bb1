//! CREATE, ALTER and DROP DATABASE.
//!
//! A new database has the schema `public` and nothing else: a template with objects of users is not copied. All
//! databases have UTF8 and the collation C.

use std::{sync::Arc, thread, time::Duration};

use ermine::OwnedReceipt;
use sqlparser::{
    ast::Ident,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token, Word},
};

use super::{context::ChangeContext, online::retried, skip};
use crate::{
    bind::names::name_of,
    catalog::{
        CatalogStore, Change, MAIN_DATABASE,
        databases::{MAIN_NAME, no_database},
        definition::{DatabaseDef, Definition, ObjectId},
        rights::{Kind, Object, not_owner},
        roles::SIGNAL_BACKEND,
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    transaction::ActiveTransaction,
};

/// Such a statement.
#[derive(Clone, Debug)]
pub(crate) enum DatabaseTree {
    Create(Ident, Vec<Setting>),
    /// ALTER DATABASE with options.
    Alter(Ident, Vec<Setting>),
    Rename(Ident, Ident),
    Drop {
        name: Ident,
        if_exists: bool,
        force: bool,
    },
}

/// An option, in upper case, and its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    name: String,
    value: Token,
}

/// The names of templates without objects.
const TEMPLATES: [&str; 2] = ["template0", "template1"];
/// How often it is looked whether clients that leave are gone, and how long to wait in between.
const LOOKS: u32 = 500;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

impl DatabaseTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, CREATE, DATABASE, DROP, EXISTS, IF, RENAME, TO, WITH};
        if parser.parse_keywords(&[CREATE, DATABASE]) {
            let name = parser.parse_identifier()?;
            let _ = parser.parse_keyword(WITH);
            return Ok(Some(Self::Create(name, parse_settings(parser)?)));
        }
        if parser.parse_keywords(&[DROP, DATABASE]) {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            let name = parser.parse_identifier()?;
            let is_with = parser.parse_keyword(WITH);
            let force = is_with || parser.peek_token_ref().token == Token::LParen;
            if force {
                parser.expect_token(&Token::LParen)?;
                while !parser.consume_token(&Token::RParen) {
                    if !is_word(parser, 0, &["FORCE"]) {
                        return parser.expected_ref("FORCE", parser.peek_token_ref());
                    }
                    parser.next_token();
                    let _ = parser.consume_token(&Token::Comma);
                }
            }
            return Ok(Some(Self::Drop { name, if_exists, force }));
        }
        let is_ours = is_word(parser, 3, &["RENAME", "WITH", "ALLOW_CONNECTIONS", "CONNECTION", "IS_TEMPLATE"]);
        if is_ours && parser.parse_keywords(&[ALTER, DATABASE]) {
            let name = parser.parse_identifier()?;
            if parser.parse_keyword(RENAME) {
                parser.expect_keyword_is(TO)?;
                return Ok(Some(Self::Rename(name, parser.parse_identifier()?)));
            }
            let _ = parser.parse_keyword(WITH);
            return Ok(Some(Self::Alter(name, parse_settings(parser)?)));
        }
        Ok(None)
    }

    /// Returns the statement's name, which is also its tag.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Create(..) => "CREATE DATABASE",
            Self::Alter(..) | Self::Rename(..) => "ALTER DATABASE",
            Self::Drop { .. } => "DROP DATABASE",
        }
    }
}

/// Whether an unquoted word is one of some, in upper case.
fn is_word(parser: &Parser<'_>, at: usize, words: &[&str]) -> bool {
    match &parser.peek_nth_token_ref(at).token {
        Token::Word(Word { value, quote_style: None, .. }) => words.iter().any(|word| value.eq_ignore_ascii_case(word)),
        _ => false,
    }
}

fn parse_settings(parser: &mut Parser<'_>) -> Result<Vec<Setting>, ParserError> {
    let mut settings = Vec::new();
    while let Token::Word(Word { value, quote_style: None, .. }) = &parser.peek_token_ref().token {
        let mut name = value.to_ascii_uppercase();
        parser.next_token();
        if name == "CONNECTION" {
            if !is_word(parser, 0, &["LIMIT"]) {
                return parser.expected_ref("LIMIT", parser.peek_token_ref());
            }
            parser.next_token();
            name += " LIMIT";
        }
        let _ = parser.consume_token(&Token::Eq);
        let is_negative = parser.consume_token(&Token::Minus);
        let value = match parser.next_token().token {
            Token::Number(number, long) if is_negative => Token::Number(format!("-{number}"), long),
            value @ (Token::Word(_) | Token::SingleQuotedString(_) | Token::Number(..)) if !is_negative => value,
            _ => return parser.expected_ref("the value of an option", parser.peek_token_ref()),
        };
        settings.push(Setting { name, value });
    }
    Ok(settings)
}

impl Setting {
    /// Returns the value as a name; `None`: DEFAULT.
    fn text(&self) -> Option<String> {
        match &self.value {
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") => None,
            Token::Word(word) => Some(name_of(&word.clone().into_ident(Span::empty()))),
            Token::SingleQuotedString(text) | Token::Number(text, _) => Some(text.clone()),
            _ => None,
        }
    }

    fn wrong(&self) -> SqlError {
        let message = format!("invalid value for option \"{}\"", self.name.to_lowercase());
        SqlError::new(SqlState::SYNTAX_ERROR, message)
    }

    fn is_on(&self) -> Result<bool> {
        match self.text().map(|text| text.to_lowercase()).as_deref() {
            None => Err(self.wrong()),
            Some("true" | "on" | "1" | "yes") => Ok(true),
            Some("false" | "off" | "0" | "no") => Ok(false),
            Some(_) => Err(self.wrong()),
        }
    }

    fn limit(&self) -> Result<i32> {
        let number = self.text().and_then(|text| text.parse().ok()).ok_or_else(|| self.wrong())?;
        if number < -1 {
            let message = format!("invalid connection limit: {number}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        Ok(number)
    }

    /// Applies an option that all statements have; returns false for another one.
    fn change(&self, def: &mut DatabaseDef) -> Result<bool> {
        match &*self.name {
            "ALLOW_CONNECTIONS" => def.allows_connections = self.is_on()?,
            "CONNECTION LIMIT" => def.connection_limit = self.limit()?,
            "IS_TEMPLATE" => def.is_template = self.is_on()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn unknown_option(setting: &Setting) -> SqlError {
    let message = format!("option \"{}\" not recognized", setting.name.to_lowercase());
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// Reports a statement that repeats an option.
fn check_once(settings: &[Setting]) -> Result<()> {
    let twice = |(at, one): (usize, &Setting)| settings[..at].iter().any(|other| other.name == one.name);
    match settings.iter().enumerate().any(twice) {
        true => Err(SqlError::new(SqlState::SYNTAX_ERROR, "conflicting or redundant options")),
        false => Ok(()),
    }
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_DATABASE, format!("database \"{name}\" already exists"))
}

impl ChangeContext<'_> {
    /// Runs such a statement, in transactions of its own.
    pub(crate) fn change_database(&self, tree: &DatabaseTree, rows: &mut dyn RowSink) -> Result<Option<OwnedReceipt>> {
        match tree {
            DatabaseTree::Create(name, settings) => self.create_database(&name_of(name), settings, rows).map(Some),
            DatabaseTree::Alter(name, settings) => self.alter_database(&name_of(name), settings).map(Some),
            DatabaseTree::Rename(from, to) => self.rename_database(&name_of(from), &name_of(to)).map(Some),
            DatabaseTree::Drop { name, if_exists, force } => {
                let name = name_of(name);
                match self.known_database(&name) {
                    Err(error) if *if_exists && error.state() == SqlState::INVALID_CATALOG_NAME => {
                        let message = format!("database \"{name}\" does not exist, skipping");
                        skip(rows, SqlState::SUCCESSFUL_COMPLETION, message);
                        Ok(None)
                    }
                    known => self.drop_database(&*known?, *force).map(Some),
                }
            }
        }
    }

    /// Returns the definition of a database that the session may own; the first one has none.
    fn known_database(&self, name: &str) -> Result<Arc<DatabaseDef>> {
        let catalog = self.catalog_now();
        match catalog.database_number(name, &self.environment.database) {
            None => Err(no_database(name)),
            Some(MAIN_DATABASE) => {
                let message = format!("a change of \"{name}\", the first database");
                Err(SqlError::unsupported(message))
            }
            Some(number) => {
                let known = catalog.database(number).ok_or_else(|| no_database(name))?;
                match catalog.owns(self.environment.role, Object::new(Kind::Database, number)) {
                    true => Ok(known.clone()),
                    false => Err(not_owner("database", name)),
                }
            }
        }
    }

    /// Runs a change in a transaction of its own, again if that loses a conflict.
    fn in_own_transaction<T>(&self, change: impl Fn(&mut ActiveTransaction) -> Result<T>) -> Result<(T, OwnedReceipt)> {
        retried(self.database, self.environment, || {
            let mut active = self.open_change()?;
            match change(&mut active) {
                Ok(done) => Ok((done, self.commit_change(active)?)),
                Err(error) => Err(active.fail(error)),
            }
        })
    }

    fn creates_databases(&self) -> bool {
        let (catalog, role) = (self.catalog_now(), self.environment.role);
        catalog.is_superuser(role) || catalog.traits(role).creates_databases
    }

    fn create_database(&self, name: &str, settings: &[Setting], rows: &mut dyn RowSink) -> Result<OwnedReceipt> {
        check_once(settings)?;
        if !self.creates_databases() {
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied to create database"));
        }
        check_name(name)?;
        let mut def = DatabaseDef {
            id: 0,
            name: name.to_owned(),
            allows_connections: true,
            connection_limit: -1,
            is_template: false,
            is_dropped: false,
        };
        let mut owner = None;
        for setting in settings {
            let value = setting.text();
            match (&*setting.name, value.as_deref()) {
                (_, _) if setting.change(&mut def)? => {}
                ("OWNER", value) => owner = value.map(Ident::new),
                ("TEMPLATE", Some(template)) => self.check_template(template)?,
                ("ENCODING", Some(encoding)) => check_encoding(encoding)?,
                ("LOCALE" | "LC_COLLATE" | "LC_CTYPE", Some(locale)) => {
                    let is_c = ["C", "POSIX", "C.UTF-8", "C.UTF8", ""].iter().any(|c| c.eq_ignore_ascii_case(locale));
                    if !is_c {
                        let message = format!("locale \"{locale}\" is not there: texts are ordered as in locale \"C\"");
                        rows.notice("WARNING", &SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                }
                ("TABLESPACE", Some("pg_default")) => {}
                ("TABLESPACE", Some(space)) => {
                    let message = format!("tablespace \"{space}\" does not exist");
                    return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
                }
                ("LOCALE_PROVIDER", Some("libc")) | ("STRATEGY" | "OID" | "COLLATION_VERSION", _) => {}
                ("TEMPLATE" | "ENCODING" | "LOCALE" | "LC_COLLATE" | "LC_CTYPE" | "TABLESPACE", None) => {}
                ("LOCALE_PROVIDER" | "ICU_LOCALE", _) => {
                    return Err(SqlError::unsupported("ICU locales of a database"));
                }
                _ => return Err(unknown_option(setting)),
            }
        }
        let ((id, public), receipt) = self.in_own_transaction(|active| {
            if active.catalog.database_number(name, &self.environment.database).is_some() || TEMPLATES.contains(&name) {
                return Err(exists(name));
            }
            let mut changes = Vec::new();
            match active.catalog.named_database(name).cloned() {
                // The name was one of a database that has been dropped.
                Some(old) => {
                    self.store.check_database(&active.txn, &old)?;
                    changes.push(Change::Drop(Definition::Database((*old).clone())));
                }
                None => self.store.take_database_name(&active.txn, name, true)?,
            }
            let id = self.catalog_number()?;
            changes.push(Change::Put(Definition::Database(DatabaseDef { id, ..def.clone() })));
            self.apply(active, changes)?;
            let public = self.store.write_new_database(&active.txn, id)?;
            if let Some(owner) = &owner {
                self.alter_owner(active, Object::new(Kind::Database, id), owner)?;
            }
            Ok((id, public))
        })?;
        self.store.is_created(id, public)?;
        Ok(receipt)
    }

    /// Fails for a template that would have to be copied.
    fn check_template(&self, name: &str) -> Result<()> {
        if TEMPLATES.contains(&name) {
            return Ok(());
        }
        let Some(number) = self.catalog_now().database_number(name, &self.environment.database) else {
            let message = format!("template database \"{name}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message));
        };
        match self.store.of_database(number).is_some_and(|store| store.current().has_objects()) {
            true => Err(SqlError::unsupported("CREATE DATABASE with a template that has objects")
                .hint("Create it without a template, and load a dump of the template (pg_dump).")),
            false => Ok(()),
        }
    }

    /// Replaces the definition of a database.
    fn replace_database(&self, active: &mut ActiveTransaction, old: &DatabaseDef, new: DatabaseDef) -> Result<()> {
        self.store.check_database(&active.txn, old)?;
        let old = Change::Drop(Definition::Database(old.clone()));
        self.apply(active, vec![old, Change::Put(Definition::Database(new))])
    }

    fn alter_database(&self, name: &str, settings: &[Setting]) -> Result<OwnedReceipt> {
        check_once(settings)?;
        let (_, receipt) = self.in_own_transaction(|active| {
            let known = self.known_database(name)?;
            let mut new = (*known).clone();
            for setting in settings {
                if !setting.change(&mut new)? {
                    return Err(unknown_option(setting));
                }
            }
            self.replace_database(active, &known, new)
        })?;
        Ok(receipt)
    }

    fn rename_database(&self, from: &str, to: &str) -> Result<OwnedReceipt> {
        let known = self.known_database(from)?;
        if known.id == self.store.number {
            let message = "current database cannot be renamed";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        if !self.creates_databases() {
            let message = "permission denied to rename database";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        check_name(to)?;
        let store = self.store.of_database(known.id).ok_or_else(|| no_database(from))?;
        let closed = self.closed(&store, from, false)?;
        let (_, receipt) = self.in_own_transaction(|active| {
            let known = self.known_database(from)?;
            check_is(&known, &store)?;
            if active.catalog.database_number(to, &self.environment.database).is_some() || TEMPLATES.contains(&to) {
                return Err(exists(to));
            }
            match active.catalog.named_database(to).cloned() {
                Some(dropped) => {
                    self.store.check_database(&active.txn, &dropped)?;
                    self.apply(active, vec![Change::Drop(Definition::Database((*dropped).clone()))])?;
                }
                None => self.store.take_database_name(&active.txn, to, true)?,
            }
            self.replace_database(active, &known, DatabaseDef { name: to.to_owned(), ..(*known).clone() })?;
            // The old name does not become one of the first database.
            let old = DatabaseDef { id: self.catalog_number()?, is_dropped: true, ..(*known).clone() };
            self.apply(active, vec![Change::Put(Definition::Database(old))])
        })?;
        drop(closed);
        Ok(receipt)
    }

    fn drop_database(&self, known: &DatabaseDef, force: bool) -> Result<OwnedReceipt> {
        let name = &known.name;
        if known.id == self.store.number {
            let message = "cannot drop the currently open database";
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
        }
        if known.is_template {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, "cannot drop a template database"));
        }
        let store = self.store.of_database(known.id).ok_or_else(|| no_database(name))?;
        let mut closed = self.closed(&store, name, force)?;
        let (files, receipt) = self.in_own_transaction(|active| {
            let known = self.known_database(name)?;
            check_is(&known, &store)?;
            self.replace_database(active, &known, DatabaseDef { is_dropped: true, ..(*known).clone() })?;
            let files = store.write_dropped_database(&active.txn)?;
            self.drop_comments(active)?;
            self.drop_rights(active)?;
            Ok(files)
        })?;
        closed.is_for_ever = true;
        store.is_dropped(files);
        Ok(receipt)
    }

    /// Closes a database, which no session and no prepared transaction may use; `force`: ends the sessions.
    fn closed(&self, store: &Arc<CatalogStore>, name: &str, force: bool) -> Result<Closed> {
        let in_use = || {
            let message = format!("database \"{name}\" is being accessed by other users");
            SqlError::new(SqlState::OBJECT_IN_USE, message)
        };
        // Another statement drops it, or renames it.
        if !store.close() {
            return Err(in_use());
        }
        let closed = Closed { store: store.clone(), is_for_ever: false };
        let sessions = store.current().sessions.clone();
        let users = || sessions.all().into_iter().filter(|session| session.database_number == store.number);
        let prepared = || sessions.prepared().values().filter(|about| about.database_number == store.number).count();
        if force && prepared() == 0 {
            users().try_for_each(|session| self.check_may_end(session.role))?;
        }
        // Clients that have said that they leave may not be gone yet.
        for _ in 0..LOOKS {
            if prepared() > 0 || !users().any(|session| session.is_connected()) {
                break;
            }
            if force {
                users().for_each(|session| _ = session.end());
            }
            (self.environment.interrupt.aside)(&mut || thread::sleep(BETWEEN_LOOKS));
            self.environment.check()?;
        }
        let detail = match (users().count(), prepared()) {
            (0, 0) => return Ok(closed),
            (0, 1) => "There is 1 prepared transaction using the database.".into(),
            (0, more) => format!("There are {more} prepared transactions using the database."),
            (1, _) => "There is 1 other session using the database.".into(),
            (more, _) => format!("There are {more} other sessions using the database."),
        };
        Err(in_use().detail(detail))
    }
}

impl ChangeContext<'_> {
    /// Fails if the current role may not end the sessions of a role.
    fn check_may_end(&self, role: ObjectId) -> Result<()> {
        let (catalog, own) = (self.catalog_now(), self.environment.role);
        let message = match () {
            () if catalog.is_superuser(role) && !catalog.is_superuser(own) => {
                "must be a superuser to terminate superuser process"
            }
            () if catalog.has_role(own, role) || catalog.has_role(own, SIGNAL_BACKEND.1) => return Ok(()),
            () => "must be a member of the role whose process is being terminated or member of pg_signal_backend",
        };
        Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))
    }
}

/// A database that no session may begin to use; dropping it admits them again.
struct Closed {
    store: Arc<CatalogStore>,
    is_for_ever: bool,
}

impl Drop for Closed {
    fn drop(&mut self) {
        if !self.is_for_ever {
            self.store.open_again();
        }
    }
}

/// Fails for a name that none can have.
fn check_name(name: &str) -> Result<()> {
    match name.is_empty() {
        true => Err(SqlError::new(SqlState::SYNTAX_ERROR, "zero-length delimited identifier")),
        false => Ok(()),
    }
}

/// Fails if a name has become that of another database than the one that is closed.
fn check_is(known: &DatabaseDef, closed: &CatalogStore) -> Result<()> {
    if known.id == closed.number { Ok(()) } else { Err(no_database(&known.name)) }
}

/// Fails for an encoding that texts do not have.
fn check_encoding(encoding: &str) -> Result<()> {
    let is_utf8 = ["UTF8", "UTF-8", "UNICODE", "6"].iter().any(|utf8| utf8.eq_ignore_ascii_case(encoding));
    match is_utf8 {
        true => Ok(()),
        false => Err(SqlError::unsupported(format_args!("encoding {encoding}"))
            .hint(format!("All databases have UTF8, as database \"{MAIN_NAME}\"."))),
    }
}
