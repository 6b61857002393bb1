//! CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW: a table with the columns and the rows of a query.
//!
//! The table is created as CREATE TABLE does it; then the rows are inserted by the same transaction. The grammar is our
//! own: sqlparser's has no list of names.

use std::sync::Arc;

use sqlparser::{
    ast::{self, Ident, ObjectName, SetExpr},
    keywords::Keyword,
    parser::{IsOptional, Parser, ParserError},
    tokenizer::Token,
};

use super::{
    context::ChangeContext,
    create::{check_column_count, duplicate_column_name},
    materialized, skip,
};
use crate::{
    bind::{
        Binder, check_storable,
        names::name_of,
        write::{Insert, InsertSource, Rules},
    },
    catalog::{
        Change, Table,
        definition::{ColumnDef, Definition, MaterializedDef, TableDef},
    },
    error::{Result, SqlError, SqlState},
    expr::Expr,
    query::Query,
    result::RowSink,
    transaction::ActiveTransaction,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct TableAsTree {
    name: ObjectName,
    is_temporary: bool,
    on_commit: Option<ast::OnCommit>,
    if_not_exists: bool,
    columns: Vec<Ident>,
    pub(crate) query: Box<ast::Query>,
    pub(super) with_data: bool,
    /// SELECT INTO.
    is_into: bool,
    is_materialized: bool,
    /// The prepared statement that takes the place of the query, and its arguments.
    pub(crate) execute: Option<(Ident, Vec<ast::Expr>)>,
    /// An option that is not supported.
    refused: Option<String>,
}

/// Such a statement, after binding.
pub(crate) struct TableAs {
    name: ObjectName,
    is_temporary: bool,
    on_commit: Option<ast::OnCommit>,
    if_not_exists: bool,
    columns: Vec<ColumnDef>,
    pub(crate) query: Query,
    with_data: bool,
    is_into: bool,
    materialized: Option<Box<MaterializedDef>>,
}

impl TableAsTree {
    /// Parses CREATE TABLE AS, if it comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{
            AS, COMMIT, CREATE, DATA, DELETE, DROP, EXECUTE, EXISTS, GLOBAL, IF, LOCAL, MATERIALIZED, NO, NOT, ON,
            PRESERVE, ROWS, TABLE, TABLESPACE, TEMP, TEMPORARY, UNLOGGED, USING, VIEW, WITH, WITHOUT,
        };
        if !comes_next(parser) {
            return Ok(None);
        }
        parser.expect_keyword_is(CREATE)?;
        let (mut refused, mut is_temporary, mut on_commit) = (None, false, None);
        let (mut is_unlogged, mut is_materialized) = (false, false);
        while let Some(word) = parser.parse_one_of_keywords(&[GLOBAL, LOCAL, TEMP, TEMPORARY, UNLOGGED]) {
            is_temporary |= word != UNLOGGED;
            is_unlogged |= word == UNLOGGED;
        }
        if !is_temporary && parser.parse_keyword(MATERIALIZED) {
            parser.expect_keyword_is(VIEW)?;
            is_materialized = true;
            refused = is_unlogged.then(|| "an unlogged materialized view".to_owned());
        } else {
            parser.expect_keyword_is(TABLE)?;
        }
        let if_not_exists = parser.parse_keywords(&[IF, NOT, EXISTS]);
        let name = parser.parse_object_name(false)?;
        let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
        if parser.parse_keyword(USING) {
            let method = parser.parse_identifier()?;
            refused.get_or_insert_with(|| format!("the access method {method}"));
        }
        let _ = parser.parse_keyword(WITHOUT);
        let _ = parser.parse_options(WITH)?;
        if parser.parse_keywords(&[ON, COMMIT]) {
            on_commit = Some(match parser.expect_one_of_keywords(&[DELETE, PRESERVE, DROP])? {
                DROP => ast::OnCommit::Drop,
                what => {
                    parser.expect_keyword_is(ROWS)?;
                    if what == DELETE { ast::OnCommit::DeleteRows } else { ast::OnCommit::PreserveRows }
                }
            });
        }
        if parser.parse_keyword(TABLESPACE) {
            let space = parser.parse_identifier()?;
            if name_of(&space) != "pg_default" {
                refused.get_or_insert_with(|| format!("the tablespace {space}"));
            }
        }
        parser.expect_keyword_is(AS)?;
        let mut execute = None;
        let query = if !is_materialized && parser.parse_keyword(EXECUTE) {
            let name = parser.parse_identifier()?;
            let arguments = match parser.peek_token_ref().token {
                Token::LParen => {
                    parser.parse_parenthesized(|parser| parser.parse_comma_separated(Parser::parse_expr))?
                }
                _ => Vec::new(),
            };
            execute = Some((name, arguments));
            crate::parse::query("SELECT 1")?
        } else {
            parser.parse_query()?
        };
        let with_data = !parser.parse_keywords(&[WITH, NO, DATA]);
        if with_data {
            let _ = parser.parse_keywords(&[WITH, DATA]);
        }
        let is_into = false;
        Ok(Some(Self {
            name,
            is_temporary,
            on_commit,
            if_not_exists,
            columns,
            query,
            with_data,
            is_into,
            is_materialized,
            execute,
            refused,
        }))
    }

    /// Returns the statement that a query is whose first SELECT has INTO.
    pub(crate) fn of_query(query: &ast::Query) -> Option<Self> {
        if !has_into(&query.body) {
            return None;
        }
        let mut query = Box::new(query.clone());
        let ast::SelectInto { temporary, targets, .. } = into_of(&mut query.body)?.take()?;
        let name = match &targets[..] {
            [ast::Expr::Identifier(name)] => Some(ObjectName::from(vec![name.clone()])),
            [ast::Expr::CompoundIdentifier(names)] => Some(ObjectName::from(names.clone())),
            _ => None,
        };
        let refused = match &name {
            Some(_) => None,
            None => Some("INTO of variables".to_owned()),
        };
        let name = name.unwrap_or_else(|| ObjectName(Vec::new()));
        let (columns, with_data) = (Vec::new(), true);
        let is_temporary = temporary;
        let (if_not_exists, is_into, is_materialized, on_commit) = (false, true, false, None);
        Some(Self {
            name,
            is_temporary,
            on_commit,
            if_not_exists,
            columns,
            query,
            with_data,
            is_into,
            is_materialized,
            execute: None,
            refused,
        })
    }
}

impl TableAsTree {
    /// Returns the statement with the query of the prepared statement that it executes.
    pub(crate) fn with_query(&self, query: &ast::Query) -> Self {
        Self { query: Box::new(query.clone()), execute: None, ..self.clone() }
    }
}

/// Whether the first SELECT of a query has INTO.
fn has_into(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_some(),
        SetExpr::SetOperation { left, .. } => has_into(left),
        SetExpr::Query(query) => has_into(&query.body),
        _ => false,
    }
}

/// Returns the INTO of the first SELECT of a query.
fn into_of(body: &mut SetExpr) -> Option<&mut Option<ast::SelectInto>> {
    match body {
        SetExpr::Select(select) => Some(&mut select.into),
        SetExpr::SetOperation { left, .. } => into_of(left),
        SetExpr::Query(query) => into_of(&mut query.body),
        _ => None,
    }
}

/// Whether CREATE TABLE AS comes next: behind the name there are at most a list in parentheses, and options, before AS.
fn comes_next(parser: &Parser<'_>) -> bool {
    use Keyword::{AS, CREATE, GLOBAL, LOCAL, MATERIALIZED, TABLE, TEMP, TEMPORARY, UNLOGGED, VIEW};
    let is = |at: usize, wanted: &[Keyword]| match &parser.peek_nth_token_ref(at).token {
        Token::Word(word) => word.quote_style.is_none() && wanted.contains(&word.keyword),
        _ => false,
    };
    let mut at = 1;
    while is(at, &[GLOBAL, LOCAL, TEMP, TEMPORARY, UNLOGGED]) {
        at += 1;
    }
    if is(0, &[CREATE]) && is(at, &[MATERIALIZED]) && is(at + 1, &[VIEW]) {
        return true;
    }
    if !is(0, &[CREATE]) || !is(at, &[TABLE]) {
        return false;
    }
    let mut depth = 0usize;
    loop {
        at += 1;
        match &parser.peek_nth_token_ref(at).token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::EOF | Token::SemiColon => return false,
            _ if depth == 0 && is(at, &[AS]) => return true,
            _ => {}
        }
    }
}

impl TableAs {
    /// Binds the statement; the result has no columns.
    pub(crate) fn bind(binder: &mut Binder<'_>, tree: &TableAsTree) -> Result<Self> {
        if let Some(refused) = &tree.refused {
            return Err(SqlError::unsupported(refused));
        }
        let (query, columns, materialized) = match tree.is_materialized {
            true => materialized::new(binder, tree)?,
            false => {
                let (query, columns) = binder.query(&tree.query)?;
                (query, columns, None)
            }
        };
        if tree.columns.len() > columns.len() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
        }
        let mut names = tree.columns.iter().map(name_of);
        let column = |column: crate::result::Column| {
            let name = names.next().unwrap_or(column.name);
            check_storable(&name, column.ty)?;
            Ok(ColumnDef::new(name, column.ty, column.modifier))
        };
        let columns = columns.into_iter().map(column).collect::<Result<_>>()?;
        let TableAsTree { name, is_temporary, on_commit, if_not_exists, with_data, is_into, .. } = tree.clone();
        Ok(Self { name, is_temporary, on_commit, if_not_exists, columns, query, with_data, is_into, materialized })
    }

    /// Returns the statement's name in messages.
    pub(crate) fn words(&self) -> &'static str {
        match self.is_into {
            _ if self.materialized.is_some() => "CREATE MATERIALIZED VIEW",
            true => "SELECT INTO",
            false => "CREATE TABLE AS",
        }
    }

    /// Returns the INSERT that fills the table.
    pub(crate) fn insert(&self, table: Arc<Table>) -> Insert {
        let row = (0..self.columns.len()).map(Expr::Column).collect();
        Insert {
            table,
            rules: Rules::default(),
            references: None,
            source: InsertSource::Query(Box::new(self.query.clone()), row),
            conflict: None,
            returning: None,
        }
    }
}

impl ChangeContext<'_> {
    /// Creates the table, without its rows; `None`: it exists already, or is to stay empty.
    pub(crate) fn create_table_as(
        &self,
        active: &mut ActiveTransaction,
        create: &TableAs,
        rows: &mut dyn RowSink,
    ) -> Result<Option<Arc<Table>>> {
        self.check_creates_new(active, &create.name, create.is_temporary)?;
        let (schema, name) = self.place_of_new(active, &create.name, create.is_temporary)?;
        if active.catalog.find(&schema, &name).is_some() {
            let message = format!("relation \"{name}\" already exists");
            if create.if_not_exists {
                skip(rows, SqlState::DUPLICATE_TABLE, format!("{message}, skipping"));
                return Ok(None);
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, message));
        }
        let columns = create.columns.clone();
        check_column_count(columns.len())?;
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|known| known.name == column.name) {
                return Err(duplicate_column_name(&column.name));
            }
        }
        let id = self.catalog_number()?;
        // The name first: what is taken after it is not given back.
        self.take_name(active, &schema, &name, true)?;
        let relation_file = self.relation_file(active, &schema)?;
        let def = TableDef {
            id,
            schema,
            name,
            columns,
            primary_key: None,
            indexes: Vec::new(),
            checks: Vec::new(),
            relation_file,
            unfinished: None,
            materialized: create.materialized.clone(),
        };
        self.apply(active, vec![Change::Put(Definition::Table(def))])?;
        if create.materialized.is_some() {
            self.check_stored(active, id)?;
        }
        self.ends_with(active, id, create.on_commit)?;
        Ok(active.catalog.table(id).filter(|_| create.with_data).cloned())
    }
}
