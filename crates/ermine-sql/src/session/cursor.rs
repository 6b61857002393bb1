//! Cursors: queries whose rows are fetched in parts.
//!
//! The executor pushes rows to its consumer without stopping. So a query is run when its cursor is declared, and its
//! rows are kept: later writes of the transaction do not change them.

use sqlparser::{
    ast::CloseCursor,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    Session, State, now,
    plan::{other_columns, same_types},
};
use crate::{
    bind::names::name_of,
    cursors::{About, Count, Cursor, Cursors, Movement, Position, missing},
    error::{Result, SqlError, SqlState},
    exec::Run,
    plan::Declare,
    result::{Column, MORE, RowSink},
    row_buffer::RowBuffer,
    transaction::ActiveTransaction,
};

/// FETCH or MOVE, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    name: String,
    movement: Movement,
    /// MOVE: the rows are left out.
    is_move: bool,
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
        let movement = movement(parser)?;
        let _ = parser.parse_one_of_keywords(&[Keyword::FROM, Keyword::IN]);
        Ok(Some(Self { name: name_of(&parser.parse_identifier()?), movement, is_move }))
    }
}

/// Parses the direction and the number of rows: the next row if neither is present.
fn movement(parser: &mut Parser<'_>) -> Result<Movement, ParserError> {
    use Keyword::{ABSOLUTE, BACKWARD, FIRST, FORWARD, LAST, NEXT, PRIOR, RELATIVE};
    const WORDS: [Keyword; 8] = [NEXT, PRIOR, FIRST, LAST, ABSOLUTE, RELATIVE, FORWARD, BACKWARD];
    let one = Count::Rows(1);
    // The last word is the name of the cursor.
    let word = match parser.peek_nth_token_ref(1).token {
        Token::SemiColon | Token::EOF => None,
        _ => parser.parse_one_of_keywords(&WORDS),
    };
    Ok(match word {
        Some(PRIOR) => Movement::Backward(one),
        Some(FIRST) => Movement::Absolute(1),
        Some(LAST) => Movement::Absolute(-1),
        Some(ABSOLUTE) => Movement::Absolute(number(parser)?),
        Some(RELATIVE) => Movement::Relative(number(parser)?),
        Some(FORWARD) => Movement::Forward(count(parser)?),
        Some(BACKWARD) => Movement::Backward(count(parser)?),
        Some(_) => Movement::Forward(one),
        None => Movement::Forward(count(parser)?),
    })
}

/// Parses a number or ALL; one row if neither is present.
fn count(parser: &mut Parser<'_>) -> Result<Count, ParserError> {
    if parser.parse_keyword(Keyword::ALL) {
        return Ok(Count::All);
    }
    match parser.peek_token_ref().token {
        Token::Number(..) | Token::Minus | Token::Plus => number(parser).map(Count::Rows),
        _ => Ok(Count::Rows(1)),
    }
}

/// Parses a number of 32 bits, with or without a sign.
fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let is_negative = parser.consume_token(&Token::Minus);
    let _ = !is_negative && parser.consume_token(&Token::Plus);
    let found = parser.peek_token_ref().clone();
    match i32::try_from(parser.parse_literal_uint()?) {
        Ok(number) => Ok(if is_negative { -i64::from(number) } else { number.into() }),
        Err(_) => parser.expected_ref("a number of 32 bits", &found),
    }
}

impl Declare {
    /// Runs the query, in a session that has none of these cursors open under this name.
    pub(super) fn run(&self, open: [&Cursors; 2], run: &Run<'_>) -> Result<RowBuffer> {
        if open.iter().any(|cursors| cursors.find(&self.name).is_some()) {
            let message = format!("cursor \"{}\" already exists", self.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let memory = &run.environment.memory;
        let kept: usize = open.iter().map(|cursors| cursors.bytes()).sum();
        let mut rows = RowBuffer::counted(RowBuffer::BYTES_MAX.saturating_sub(kept), memory, run.place());
        let _ = run.query(&self.query, None, &mut |row| {
            rows.push(row)?;
            MORE
        })?;
        Ok(rows)
    }
}

impl Session {
    /// Opens a cursor with these rows.
    pub(super) fn opened(&self, declare: &Declare, rows: RowBuffer) -> Cursor {
        let Declare { name, modes, columns, keys, query } = declare;
        let statement = self.registered.presence.doing().query;
        Cursor {
            name: name.clone(),
            about: About { modes: *modes, statement, created: now() },
            columns: columns.clone(),
            keys: keys.clone(),
            is_locking: !query.locks.is_empty(),
            rows,
            position: Position::START,
            number: 0,
        }
    }

    /// Returns the columns of an open cursor (DECLARE).
    pub fn cursor(&self, name: &str) -> Option<&[Column]> {
        let own = match &self.state {
            State::Block { active: Some(active), .. } => active.cursors.find(name),
            _ => None,
        };
        own.or_else(|| self.held.find(name)).map(|cursor| &*cursor.columns)
    }

    /// Returns the columns of the rows that FETCH returns.
    pub(super) fn fetched(&self, fetch: &Fetch) -> Option<Vec<Column>> {
        // A cursor that is not open is reported when FETCH is run.
        if fetch.is_move { None } else { self.cursor(&fetch.name).map(<[_]>::to_vec) }
    }

    /// Runs FETCH; `told`: the columns that the client was sent beforehand.
    pub(super) fn fetch(&mut self, fetch: &Fetch, told: Option<&[Column]>, rows: &mut dyn RowSink) -> Result<()> {
        let is_simple = self.is_simple;
        let cursor = self.open_cursor(&fetch.name)?;
        if fetch.is_move {
            let count = cursor.go(fetch.movement, None)?;
            return rows.complete(&format!("MOVE {count}"));
        }
        if !is_simple && !same_types(told, Some(&cursor.columns)) {
            return Err(other_columns());
        }
        if cursor.about.modes.is_binary {
            rows.binary();
        }
        rows.columns(&cursor.columns)?;
        let count = cursor.go(fetch.movement, Some(rows))?;
        rows.complete(&format!("FETCH {count}"))
    }

    /// Runs CLOSE.
    pub(super) fn close(&mut self, which: &CloseCursor, rows: &mut dyn RowSink) -> Result<()> {
        let mut own = match &mut self.state {
            State::Block { active: Some(active), .. } => Some(&mut active.cursors),
            _ => None,
        };
        match which {
            CloseCursor::All => {
                own.iter_mut().for_each(|cursors| cursors.open.clear());
                self.held.open.clear();
                rows.complete("CLOSE CURSOR ALL")
            }
            CloseCursor::Specific { name } => {
                let name = name_of(name);
                if !own.is_some_and(|cursors| cursors.close(&name)) && !self.held.close(&name) {
                    return Err(missing(&name));
                }
                rows.complete("CLOSE CURSOR")
            }
        }
    }

    fn open_cursor(&mut self, name: &str) -> Result<&mut Cursor> {
        if let State::Block { active: Some(active), .. } = &mut self.state {
            let ActiveTransaction { cursors, .. } = &mut **active;
            if let Some(own) = cursors.find_mut(name) {
                return Ok(own);
            }
        }
        self.held.find_mut(name).ok_or_else(|| missing(name))
    }
}
