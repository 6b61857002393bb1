//! Cursors: queries whose rows are fetched in parts, within a transaction.
//!
//! The executor pushes rows to its consumer without stopping. So a query is run when its cursor is declared, and its
//! rows are kept: later writes of the transaction do not change them, and they are only fetched forward.

use sqlparser::{
    ast::CloseCursor,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    Session, State,
    plan::{other_columns, same_types},
};
use crate::{
    bind::names::name_of,
    cursors::{Cursor, Cursors},
    error::{Result, SqlError, SqlState},
    exec::Run,
    plan::Declare,
    result::{Column, MORE, RowSink},
    row_buffer::RowBuffer,
    transaction::ActiveTransaction,
    types::Value,
};

/// FETCH or MOVE, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    name: String,
    count: Count,
    /// MOVE: the rows are left out.
    is_move: bool,
}

/// Which rows are fetched.
#[derive(Clone, Debug)]
enum Count {
    Next(usize),
    All,
    /// Rows other than the next ones: these words.
    Other(String),
}

impl Fetch {
    /// Parses such a statement, if one comes next.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let is_move = match &parser.peek_token_ref().token {
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("move") => true,
            Token::Word(word) if word.keyword == Keyword::FETCH => false,
            _ => return Ok(None),
        };
        parser.next_token();
        Self::parse_rest(parser, is_move).map(Some)
    }

    fn parse_rest(parser: &mut Parser<'_>, is_move: bool) -> Result<Self, ParserError> {
        const OTHERS: [Keyword; 6] =
            [Keyword::PRIOR, Keyword::FIRST, Keyword::LAST, Keyword::ABSOLUTE, Keyword::RELATIVE, Keyword::BACKWARD];
        let count = if let Some(word) = parser.parse_one_of_keywords(&OTHERS) {
            Count::parse(parser)?;
            Count::Other(format!("{word:?}"))
        } else if parser.parse_keyword(Keyword::NEXT) {
            Count::Next(1)
        } else {
            let _ = parser.parse_keyword(Keyword::FORWARD);
            Count::parse(parser)?
        };
        let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
        Ok(Self { name: name_of(&parser.parse_identifier()?), count, is_move })
    }
}

impl Count {
    /// Parses a number or ALL; one row if neither is present.
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        if parser.parse_keyword(Keyword::ALL) {
            return Ok(Self::All);
        }
        if parser.consume_token(&Token::Minus) {
            parser.parse_literal_uint()?;
            return Ok(Self::Other("BACKWARD".into()));
        }
        if !matches!(parser.peek_token_ref().token, Token::Number(..)) {
            return Ok(Self::Next(1));
        }
        Ok(match parser.parse_literal_uint()? {
            0 => Self::Other("0".into()),
            count => Self::Next(count.try_into().unwrap_or(usize::MAX)),
        })
    }
}

/// Takes rows that are left out.
struct Nowhere;

impl RowSink for Nowhere {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[Value]) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
}

impl Declare {
    /// Runs the query, in a transaction that has no cursor of this name.
    pub(super) fn run(&self, cursors: &Cursors, run: &Run<'_>) -> Result<RowBuffer> {
        if cursors.find(&self.name).is_some() {
            let message = format!("cursor \"{}\" already exists", self.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let memory = &run.environment.memory;
        let kept: usize = cursors.open.iter().map(|cursor| cursor.rows.bytes()).sum();
        let mut rows = RowBuffer::counted(RowBuffer::BYTES_MAX.saturating_sub(kept), memory, memory.work_mem());
        let _ = run.query(&self.query, None, &mut |row| {
            rows.push(row)?;
            MORE
        })?;
        Ok(rows)
    }

    /// Opens the cursor with these rows.
    pub(super) fn open(&self, cursors: &mut Cursors, rows: RowBuffer) {
        let Self { name, is_binary, columns, .. } = self;
        let (name, columns) = (name.clone(), columns.clone());
        cursors.open.push(Cursor { name, is_binary: *is_binary, columns, rows, number: cursors.opened });
        cursors.opened += 1;
    }
}

impl Session {
    /// Returns the columns of an open cursor (DECLARE).
    pub fn cursor(&self, name: &str) -> Option<&[Column]> {
        let State::Block { active: Some(active), .. } = &self.state else { return None };
        active.cursors.find(name).map(|at| &*active.cursors.open[at].columns)
    }

    /// Returns the columns of the rows that FETCH returns; fails if it asks for rows other than the next ones.
    pub(super) fn fetched(&self, fetch: &Fetch) -> Result<Option<Vec<Column>>> {
        match &fetch.count {
            Count::Other(words) if fetch.is_move => Err(SqlError::unsupported(format_args!("MOVE {words}"))),
            Count::Other(words) => Err(SqlError::unsupported(format_args!("FETCH {words}"))),
            _ if fetch.is_move => Ok(None),
            // A cursor that is not open is reported when FETCH is run.
            Count::Next(_) | Count::All => Ok(self.cursor(&fetch.name).map(<[_]>::to_vec)),
        }
    }

    /// Runs FETCH; `told`: the columns that the client was sent beforehand.
    pub(super) fn fetch(&mut self, fetch: &Fetch, told: Option<&[Column]>, rows: &mut dyn RowSink) -> Result<()> {
        let is_simple = self.is_simple;
        let (cursors, at) = self.open_cursor(&fetch.name)?;
        let Cursor { columns, is_binary, rows: kept, .. } = &mut cursors.open[at];
        let count = match fetch.count {
            Count::Next(count) => count,
            Count::All | Count::Other(_) => usize::MAX,
        };
        if fetch.is_move {
            let count = kept.fetch(count, &mut Nowhere)?;
            return rows.complete(&format!("MOVE {count}"));
        }
        if !is_simple && !same_types(told, Some(columns)) {
            return Err(other_columns());
        }
        if *is_binary {
            rows.binary();
        }
        rows.columns(columns)?;
        let count = kept.fetch(count, rows)?;
        rows.complete(&format!("FETCH {count}"))
    }

    /// Runs CLOSE.
    pub(super) fn close(&mut self, which: &CloseCursor, rows: &mut dyn RowSink) -> Result<()> {
        match which {
            CloseCursor::All => {
                if let State::Block { active: Some(active), .. } = &mut self.state {
                    active.cursors.go_back(0);
                }
                rows.complete("CLOSE CURSOR ALL")
            }
            CloseCursor::Specific { name } => {
                let (cursors, at) = self.open_cursor(&name_of(name))?;
                cursors.open.swap_remove(at);
                rows.complete("CLOSE CURSOR")
            }
        }
    }

    fn open_cursor(&mut self, name: &str) -> Result<(&mut Cursors, usize)> {
        let missing = || SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"));
        let State::Block { active: Some(active), .. } = &mut self.state else { return Err(missing()) };
        let ActiveTransaction { cursors, .. } = &mut **active;
        let at = cursors.find(name).ok_or_else(missing)?;
        Ok((cursors, at))
    }
}
