//! CREATE and ALTER VIEW. The grammar is our own: sqlparser has only parts of it.
//!
//! A new view shares the latches of all that its query names until its transaction has ended, and its definition
//! outdates those tables and views for transactions that do not know it ([`Change`]). So of CREATE VIEW and a concurrent
//! change of one of them the later one sees the other, or begins again. A change of a view has its latch alone, and every
//! transaction that uses a view shares that latch to its end, as with tables.

use std::sync::Arc;

use sqlparser::{
    ast::{self, Ident, ObjectName},
    keywords::Keyword,
    parser::{IsOptional, Parser, ParserError},
    tokenizer::Token,
};

use super::{
    alter::{missing, role_of},
    context::ChangeContext,
    create::duplicate_column_name,
    skip_missing,
};
use crate::{
    bind::{
        Binder, check_storable,
        names::{name_of, relation_of},
        plain,
        view::Recorder,
    },
    catalog::{
        Catalog, Change, Relation, View,
        definition::{CheckOption, Definition, NamedRelation, ObjectId, ViewColumnDef, ViewDef},
        rights::{Kind, Object},
    },
    error::{Result, SqlError, SqlState},
    query::Query,
    result::{Column, RowSink},
    transaction::ActiveTransaction,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum ViewTree {
    Create(CreateView),
    Alter { name: ObjectName, if_exists: bool, change: AlterView },
}

#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    name: ObjectName,
    is_temporary: bool,
    or_replace: bool,
    columns: Vec<Ident>,
    options: Vec<(String, String)>,
    pub(crate) query: Box<ast::Query>,
    check: Option<CheckOption>,
    /// A part that is not supported.
    refused: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) enum AlterView {
    Rename(Ident),
    RenameColumn(Ident, Ident),
    SetSchema(Ident),
    /// WITH CHECK OPTION is set by this, too.
    SetOptions(Vec<(String, String)>),
    /// `None`: the column has no default any more.
    SetDefault(Ident, Option<Box<ast::Expr>>),
    ResetOptions(Vec<String>),
    Owner(Ident),
}

/// Such a statement, after binding.
pub(crate) enum ViewChange {
    /// The definition has no number and no schema yet.
    Create(Box<NewView>),
    Alter {
        name: ObjectName,
        if_exists: bool,
        change: AlterView,
    },
}

pub(crate) struct NewView {
    name: ObjectName,
    says_temporary: bool,
    or_replace: bool,
    def: ViewDef,
}

impl NewView {
    pub(super) fn name(&self) -> &ObjectName {
        &self.name
    }

    /// Whether the view is temporary, because the statement says so, or because it uses something that is.
    pub(super) fn is_temporary(&self, catalog: &Catalog) -> bool {
        self.says_temporary || self.def.relations.iter().any(|relation| catalog.is_temporary(relation.id))
    }

    /// Whether it says OR REPLACE.
    pub(super) fn replaces(&self) -> bool {
        self.or_replace
    }
}

impl ViewTree {
    /// Parses such a statement, if it comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, EXISTS, IF, VIEW};
        if parser.parse_keywords(&[ALTER, VIEW]) {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            let name = parser.parse_object_name(false)?;
            return Ok(Some(Self::Alter { name, if_exists, change: AlterView::parse(parser)? }));
        }
        Ok(CreateView::parse(parser)?.map(Self::Create))
    }
}

impl CreateView {
    fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{
            AS, CASCADED, CHECK, CREATE, LOCAL, OPTION, OR, RECURSIVE, REPLACE, TEMP, TEMPORARY, VIEW, WITH,
        };
        let is = |at: usize, wanted: &[Keyword]| match &parser.peek_nth_token_ref(at).token {
            Token::Word(word) => word.quote_style.is_none() && wanted.contains(&word.keyword),
            _ => false,
        };
        let first = if is(1, &[OR]) && is(2, &[REPLACE]) { 3 } else { 1 };
        let words = (first..).take_while(|at| is(*at, &[TEMP, TEMPORARY, RECURSIVE])).count();
        if !is(0, &[CREATE]) || !is(first + words, &[VIEW]) {
            return Ok(None);
        }
        parser.expect_keyword_is(CREATE)?;
        let or_replace = parser.parse_keywords(&[OR, REPLACE]);
        let mut refused = None;
        let is_temporary = parser.parse_one_of_keywords(&[TEMP, TEMPORARY]).is_some();
        if parser.parse_keyword(RECURSIVE) {
            refused = Some("a recursive view");
        }
        parser.expect_keyword_is(VIEW)?;
        let name = parser.parse_object_name(false)?;
        let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
        let mut options = if parser.parse_keyword(WITH) { options(parser)? } else { Vec::new() };
        parser.expect_keyword_is(AS)?;
        let query = parser.parse_query()?;
        let mut check = take_check(&mut options)?;
        if parser.parse_keyword(WITH) {
            let kind = parser.parse_one_of_keywords(&[LOCAL, CASCADED]);
            parser.expect_keywords(&[CHECK, OPTION])?;
            check = Some(if kind == Some(LOCAL) { CheckOption::Local } else { CheckOption::Cascaded });
        }
        Ok(Some(Self { name, is_temporary, or_replace, columns, options, query, check, refused }))
    }
}

/// Parses options in parentheses; one without a value is true.
fn options(parser: &mut Parser<'_>) -> Result<Vec<(String, String)>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let options = parser.parse_comma_separated(|parser| {
        let name = name_of(&parser.parse_identifier()?);
        let value = match parser.consume_token(&Token::Eq) {
            true => match parser.next_token().token {
                Token::Word(word) => word.value.to_lowercase(),
                Token::SingleQuotedString(text) => text.to_lowercase(),
                other => other.to_string(),
            },
            false => "true".into(),
        };
        Ok((name, value))
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(options)
}

/// Removes the option that means WITH CHECK OPTION.
fn take_check(options: &mut Vec<(String, String)>) -> Result<Option<CheckOption>, ParserError> {
    let Some(at) = options.iter().position(|(name, _)| name == "check_option") else { return Ok(None) };
    match &*options.remove(at).1 {
        "local" => Ok(Some(CheckOption::Local)),
        "cascaded" => Ok(Some(CheckOption::Cascaded)),
        other => {
            let message = format!("invalid value for enum option \"check_option\": {other}");
            Err(ParserError::ParserError(message))
        }
    }
}

impl AlterView {
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{ALTER, COLUMN, DEFAULT, DROP, OWNER, RENAME, RESET, SCHEMA, SET, TO};
        if parser.parse_keyword(ALTER) {
            let _ = parser.parse_keyword(COLUMN);
            let column = parser.parse_identifier()?;
            if parser.parse_keywords(&[DROP, DEFAULT]) {
                return Ok(Self::SetDefault(column, None));
            }
            parser.expect_keywords(&[SET, DEFAULT])?;
            return Ok(Self::SetDefault(column, Some(Box::new(parser.parse_expr()?))));
        }
        if parser.parse_keywords(&[RENAME, TO]) {
            return Ok(Self::Rename(parser.parse_identifier()?));
        }
        if parser.parse_keyword(RENAME) {
            let _ = parser.parse_keyword(COLUMN);
            let old = parser.parse_identifier()?;
            parser.expect_keyword_is(TO)?;
            return Ok(Self::RenameColumn(old, parser.parse_identifier()?));
        }
        if parser.parse_keywords(&[SET, SCHEMA]) {
            return Ok(Self::SetSchema(parser.parse_identifier()?));
        }
        if parser.parse_keywords(&[OWNER, TO]) {
            return Ok(Self::Owner(parser.parse_identifier()?));
        }
        if parser.parse_keyword(SET) {
            return Ok(Self::SetOptions(options(parser)?));
        }
        if parser.parse_keyword(RESET) {
            let names = options(parser)?.into_iter().map(|(name, _)| name);
            return Ok(Self::ResetOptions(names.collect()));
        }
        parser.expected_ref("ALTER, RENAME, SET, RESET or OWNER", parser.peek_token_ref())
    }
}

/// Fails for an option that views do not have.
fn check_options(options: &[(String, String)]) -> Result<()> {
    for (name, value) in options {
        if !matches!(&**name, "security_barrier" | "security_invoker") {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        if !matches!(&**value, "true" | "false" | "on" | "off" | "yes" | "no" | "1" | "0") {
            let message = format!("invalid value for boolean option \"{name}\": {value}");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    Ok(())
}

/// Binds the query of a new view; returns it as it is to be stored, with its columns and the notes on it.
pub(super) fn new_query(binder: &mut Binder<'_>, query: &ast::Query) -> Result<(String, Query, Vec<Column>, Recorder)> {
    let (text, bound, columns, notes) = binder.new_view(query)?;
    let mut stored = crate::parse::stored_query(&text)?;
    super::qualify_types(&mut stored, binder.environment)?;
    Ok((stored.to_string(), bound, columns, notes))
}

impl ViewChange {
    /// Binds such a statement.
    pub(crate) fn bind(binder: &mut Binder<'_>, tree: &ViewTree) -> Result<Self> {
        let create = match tree {
            ViewTree::Create(create) => create,
            ViewTree::Alter { name, if_exists, change } => {
                return Ok(Self::Alter { name: name.clone(), if_exists: *if_exists, change: change.clone() });
            }
        };
        if let Some(refused) = create.refused {
            return Err(SqlError::unsupported(refused));
        }
        check_options(&create.options)?;
        let (text, _, columns, notes) = new_query(binder, &create.query)?;
        binder.unpopulated = None;
        if create.columns.len() > columns.len() {
            let message = "CREATE VIEW specifies more column names than columns";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        let mut names = create.columns.iter().map(name_of);
        let mut defined: Vec<ViewColumnDef> = Vec::new();
        for column in columns {
            let name = names.next().unwrap_or(column.name);
            if defined.iter().any(|known| known.name == name) {
                return Err(duplicate_column_name(&name));
            }
            check_storable(&name, column.ty)?;
            defined.push(ViewColumnDef { name, ty: column.ty, modifier: column.modifier });
        }
        let def = ViewDef {
            id: 0,
            schema: String::new(),
            name: String::new(),
            columns: defined,
            query: text,
            relations: notes.relations,
            uses: notes.uses.into_iter().collect(),
            check: create.check,
            options: create.options.clone(),
        };
        let (name, says_temporary, or_replace) = (create.name.clone(), create.is_temporary, create.or_replace);
        Ok(Self::Create(Box::new(NewView { name, says_temporary, or_replace, def })))
    }

    /// Returns the statement's name in messages.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Create(_) => "CREATE VIEW",
            Self::Alter { .. } => "ALTER VIEW",
        }
    }
}

impl ChangeContext<'_> {
    pub(super) fn change_view(
        &self,
        active: &mut ActiveTransaction,
        change: &ViewChange,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        match change {
            ViewChange::Create(new) => self.create_view(active, new, rows)?,
            ViewChange::Alter { name, if_exists, change } => match self.view_named(active, name)? {
                None if *if_exists => skip_missing(rows, name),
                None => {
                    let message = format!("relation \"{}\" does not exist", plain(name));
                    return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
                }
                Some(view) => self.alter_view(active, &view, change)?,
            },
        }
        Ok(change.words().into())
    }

    /// Returns the view of that name; no other transaction uses it until this one ends.
    fn view_named(&self, active: &mut ActiveTransaction, name: &ObjectName) -> Result<Option<Arc<View>>> {
        match self.find(active, name)? {
            None => Ok(None),
            Some(Relation::View(view)) => {
                active.take_view(&view, self.limits())?;
                Ok(Some(view))
            }
            Some(_) => Err(not_a_view(name)),
        }
    }

    fn create_view(&self, active: &mut ActiveTransaction, new: &NewView, rows: &mut dyn RowSink) -> Result<()> {
        let is_temporary = new.is_temporary(&active.catalog);
        let (schema, name) = self.place_of_new(active, &new.name, is_temporary)?;
        if is_temporary && !new.says_temporary {
            let message = format!("view \"{name}\" will be a temporary view");
            rows.notice("NOTICE", &SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
        }
        let mut def = ViewDef { schema, name, ..new.def.clone() };
        match active.catalog.find(&def.schema, &def.name) {
            Some(Relation::View(old)) if new.or_replace => {
                active.take_view(&old, self.limits())?;
                check_replaces(&old.def, &def)?;
                def.id = old.def.id;
                (0..old.def.columns.len())
                    .for_each(|at| def.set_default(at, old.def.default_of(at).map(str::to_owned)));
                if refers_to(&active.catalog, &def.relations, def.id) {
                    let message = format!("infinite recursion detected in rules for relation \"{}\"", def.name);
                    return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message));
                }
            }
            Some(_) if new.or_replace => return Err(not_a_view(&new.name)),
            Some(_) => {
                let message = format!("relation \"{}\" already exists", def.name);
                return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
            }
            None => {
                def.id = self.catalog_number()?;
                self.take_name(active, &def.schema, &def.name, true)?;
            }
        }
        let id = def.id;
        self.apply(active, vec![Change::Put(Definition::View(def))])?;
        self.check_stored(active, id)
    }

    /// Makes sure that the stored text of a view has the same columns as the query that was written.
    pub(super) fn check_stored(&self, active: &ActiveTransaction, id: ObjectId) -> Result<()> {
        let view = active.catalog.view(id).expect("it has just been put there");
        let mut binder = Binder::new(&active.catalog, self.environment, self.search_path, &[]);
        let columns = binder.columns_of_view(view).map_err(|error| match error.state() {
            SqlState::STATEMENT_TOO_COMPLEX => error,
            _ => SqlError::unsupported(format_args!("a view with this query ({error})")),
        })?;
        let is_same = |(column, def): (&crate::result::Column, &ViewColumnDef)| {
            column.ty == def.ty && column.modifier == def.modifier
        };
        match columns.len() == view.def.columns.len() && columns.iter().zip(&view.def.columns).all(is_same) {
            true => Ok(()),
            false => Err(SqlError::unsupported("a view with this query")),
        }
    }

    pub(super) fn alter_view(&self, active: &mut ActiveTransaction, view: &View, change: &AlterView) -> Result<()> {
        let mut def = view.def.clone();
        match change {
            AlterView::Rename(new) => {
                let new = name_of(new);
                if active.catalog.find(&def.schema, &new).is_some() {
                    let message = format!("relation \"{new}\" already exists");
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                self.move_view(active, &mut def, |def| def.name = new)?;
            }
            AlterView::SetSchema(schema) => {
                let schema = name_of(schema);
                if active.catalog.schema(&schema).is_none() {
                    let message = format!("schema \"{schema}\" does not exist");
                    return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
                }
                if schema == def.schema {
                    return Ok(());
                }
                self.check_moves(&def.schema, &schema)?;
                if active.catalog.find(&schema, &def.name).is_some() {
                    let message = format!("relation \"{}\" already exists in schema \"{schema}\"", def.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
                }
                self.move_view(active, &mut def, |def| def.schema = schema)?;
            }
            AlterView::RenameColumn(old, new) => {
                let (old, new) = (name_of(old), name_of(new));
                let place = |name: &str| def.columns.iter().position(|column| column.name == name);
                let missing = || SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{old}\" does not exist"));
                let at = place(&old).ok_or_else(missing)?;
                if place(&new).is_some() {
                    let message = format!("column \"{new}\" of relation \"{}\" already exists", def.name);
                    return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
                }
                def.columns[at].name = new;
            }
            AlterView::SetOptions(options) => {
                let mut options = options.clone();
                if let Some(check) = take_check(&mut options).map_err(|error| invalid_option(&error))? {
                    def.check = Some(check);
                }
                check_options(&options)?;
                def.options.retain(|(name, _)| !options.iter().any(|(own, _)| own == name));
                def.options.extend(options);
            }
            AlterView::ResetOptions(names) => {
                def.options.retain(|(name, _)| !names.contains(name));
                def.check = def.check.filter(|_| !names.iter().any(|name| name == "check_option"));
            }
            AlterView::SetDefault(column, default) => {
                self.set_view_default(active, &mut def, column, default.as_deref())?
            }
            AlterView::Owner(role) => {
                return self.alter_owner(active, Object::new(Kind::Table, def.id), role);
            }
        }
        self.apply(active, vec![Change::Put(Definition::View(def))])
    }

    fn set_view_default(
        &self,
        active: &ActiveTransaction,
        def: &mut ViewDef,
        column: &Ident,
        default: Option<&ast::Expr>,
    ) -> Result<()> {
        let name = name_of(column);
        let at = def.columns.iter().position(|column| column.name == name);
        let at = at.ok_or_else(|| missing(&name, &def.name))?;
        let Some(default) = default else {
            def.set_default(at, None);
            return Ok(());
        };
        let (mut default, environment) = (default.clone(), self.environment_of(active));
        super::qualify_types(&mut default, &environment)?;
        let text = default.to_string();
        let mut binder = Binder::new(&active.catalog, &environment, self.search_path, &[]);
        binder.default_of_view(&def.columns[at], &text)?;
        def.set_default(at, Some(text));
        Ok(())
    }

    /// Runs an ALTER TABLE that names a view: what it shares with ALTER VIEW.
    pub(super) fn alter_table_of_view(
        &self,
        active: &mut ActiveTransaction,
        view: &View,
        operations: &[ast::AlterTableOperation],
    ) -> Result<String> {
        use ast::{
            AlterTableOperation as Operation,
            RenameTableNameKind::{As, To},
        };
        for operation in operations {
            let change = match operation {
                Operation::RenameTable { table_name: To(name) | As(name) } => {
                    AlterView::Rename(Ident::with_quote('"', relation_of(name)?.1))
                }
                Operation::RenameColumn { old_column_name, new_column_name } => {
                    AlterView::RenameColumn(old_column_name.clone(), new_column_name.clone())
                }
                Operation::OwnerTo { new_owner } => AlterView::Owner(role_of(new_owner)),
                Operation::AlterColumn { column_name, op: ast::AlterColumnOperation::SetDefault { value } } => {
                    AlterView::SetDefault(column_name.clone(), Some(Box::new(value.clone())))
                }
                Operation::AlterColumn { column_name, op: ast::AlterColumnOperation::DropDefault } => {
                    AlterView::SetDefault(column_name.clone(), None)
                }
                other => {
                    let text = other.to_string();
                    let words: Vec<_> = text.split_whitespace().take(2).collect();
                    let (action, name) = (words.join(" "), &view.def.name);
                    let message = format!("ALTER action {action} cannot be performed on relation \"{name}\"");
                    let detail = "This operation is not supported for views.";
                    return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(detail));
                }
            };
            active.take_view(view, self.limits())?;
            let newest = active.catalog.view(view.def.id).cloned();
            self.alter_view(active, newest.as_deref().unwrap_or(view), &change)?;
        }
        Ok("ALTER TABLE".into())
    }

    /// Gives a view another name, or another schema.
    fn move_view(
        &self,
        active: &mut ActiveTransaction,
        def: &mut ViewDef,
        change: impl FnOnce(&mut ViewDef),
    ) -> Result<()> {
        self.take_name(active, &def.schema, &def.name, false)?;
        change(def);
        self.take_name(active, &def.schema, &def.name, true)
    }

    /// Drops a view that the transaction holds alone, and on which nothing depends.
    pub(super) fn forget_view(&self, active: &mut ActiveTransaction, view: &View) -> Result<()> {
        if let Some(table) = active.catalog.table(view.def.id).cloned() {
            return self.remove_table(active, &table.def);
        }
        self.take_name(active, &view.def.schema, &view.def.name, false)?;
        self.apply(active, vec![Change::Drop(Definition::View(view.def.clone()))])
    }
}

fn invalid_option(error: &ParserError) -> SqlError {
    let (ParserError::ParserError(message) | ParserError::TokenizerError(message)) = error else {
        return SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid value for an option");
    };
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message.clone())
}

fn not_a_view(name: &ObjectName) -> SqlError {
    let own = relation_of(name).map_or_else(|_| plain(name), |(_, own)| own);
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{own}\" is not a view"))
}

/// Whether any of these relations is, or uses, an object.
fn refers_to(catalog: &Catalog, relations: &[NamedRelation], id: ObjectId) -> bool {
    let mut views: Vec<ObjectId> = relations.iter().map(|relation| relation.id).collect();
    let mut at = 0;
    while let Some(&next) = views.get(at) {
        let named = catalog.view(next).into_iter().flat_map(|view| &view.def.relations);
        let new: Vec<_> = named.map(|relation| relation.id).filter(|id| !views.contains(id)).collect();
        views.extend(new);
        at += 1;
    }
    views.contains(&id)
}

/// Fails if a view that replaces another one lacks a column of it, or changes it.
fn check_replaces(old: &ViewDef, new: &ViewDef) -> Result<()> {
    let refused = |message: String| Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
    if new.columns.len() < old.columns.len() {
        return refused("cannot drop columns from view".into());
    }
    for (old, new) in old.columns.iter().zip(&new.columns) {
        if old.name != new.name {
            let message = format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name);
            let hint = "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return refused(message).map_err(|error| error.hint(hint));
        }
        if (old.ty, old.modifier) != (new.ty, new.modifier) {
            let [from, to] = [old, new].map(|column| column.ty.describe(column.modifier));
            return refused(format!("cannot change data type of view column \"{}\" from {from} to {to}", old.name));
        }
    }
    Ok(())
}
