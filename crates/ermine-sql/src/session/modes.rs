//! BEGIN, START TRANSACTION, SET TRANSACTION and SET SESSION CHARACTERISTICS: the grammar does not know all the modes
//! that these set.

use sqlparser::{
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Session, State, utility::warn};
use crate::{
    error::{Result, SqlError, SqlState},
    level::Level,
    result::RowSink,
};

/// One of these statements.
#[derive(Clone, Debug)]
pub(crate) struct ModesTree {
    what: What,
    modes: Vec<Mode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Begin,
    Start,
    /// Sets the modes of the current transaction.
    Set,
    /// Sets the modes of later transactions.
    SetDefault,
}

/// A mode of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Level(Level),
    ReadOnly(bool),
    Deferrable(bool),
}

impl ModesTree {
    /// Parses such a statement, if one comes next.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{AS, BEGIN, CHARACTERISTICS, LOCAL, SESSION, SET, START, TRANSACTION, WORK};
        let what = if parser.parse_keyword(BEGIN) {
            let _ = parser.parse_one_of_keywords(&[WORK, TRANSACTION]);
            What::Begin
        } else if parser.parse_keywords(&[START, TRANSACTION]) {
            What::Start
        } else if parser.parse_keywords(&[SET, TRANSACTION])
            || parser.parse_keywords(&[SET, LOCAL, TRANSACTION])
            || parser.parse_keywords(&[SET, SESSION, TRANSACTION])
        {
            What::Set
        } else if parser.parse_keywords(&[SET, SESSION, CHARACTERISTICS, AS, TRANSACTION]) {
            What::SetDefault
        } else {
            return Ok(None);
        };
        let mut modes = Vec::new();
        let mut is_wanted = matches!(what, What::Set | What::SetDefault);
        while let Some(mode) = Mode::parse(parser)? {
            modes.push(mode);
            is_wanted = parser.consume_token(&Token::Comma);
        }
        if is_wanted {
            return parser.expected_ref("a transaction mode", parser.peek_token_ref());
        }
        Ok(Some(Self { what, modes }))
    }
}

impl Mode {
    fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{
            COMMITTED, DEFERRABLE, ISOLATION, LEVEL, NOT, ONLY, READ, REPEATABLE, SERIALIZABLE, UNCOMMITTED, WRITE,
        };
        const LEVELS: [(&[Keyword], Level); 4] = [
            (&[READ, COMMITTED], Level::ReadCommitted),
            // Dirty reads are not supported.
            (&[READ, UNCOMMITTED], Level::ReadCommitted),
            (&[REPEATABLE, READ], Level::RepeatableRead),
            (&[SERIALIZABLE], Level::Serializable),
        ];
        const OTHERS: [(&[Keyword], Mode); 4] = [
            (&[READ, ONLY], Mode::ReadOnly(true)),
            (&[READ, WRITE], Mode::ReadOnly(false)),
            (&[DEFERRABLE], Mode::Deferrable(true)),
            (&[NOT, DEFERRABLE], Mode::Deferrable(false)),
        ];
        if parser.parse_keywords(&[ISOLATION, LEVEL]) {
            let level = LEVELS.iter().find(|(words, _)| parser.parse_keywords(words));
            return match level {
                Some((_, level)) => Ok(Some(Self::Level(*level))),
                None => parser.expected_ref("an isolation level", parser.peek_token_ref()),
            };
        }
        Ok(OTHERS.iter().find(|(words, _)| parser.parse_keywords(words)).map(|(_, mode)| *mode))
    }
}

impl Session {
    /// Runs such a statement.
    pub(super) fn transaction_modes(&mut self, tree: &ModesTree, rows: &mut dyn RowSink) -> Result<()> {
        let ModesTree { what, modes } = tree;
        match what {
            What::Begin | What::Start => {
                let own = self.modes();
                match &mut self.state {
                    State::Idle => self.state = State::Block { active: None, modes: own, is_implicit: false },
                    State::Block { is_implicit, .. } if *is_implicit => *is_implicit = false,
                    _ => warn(rows, SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress"),
                }
                modes.iter().try_for_each(|mode| self.set_mode(*mode))?;
            }
            What::Set if matches!(self.state, State::Idle) => {
                let message = "SET TRANSACTION can only be used in transaction blocks";
                warn(rows, SqlState::NO_ACTIVE_SQL_TRANSACTION, message);
            }
            What::Set => modes.iter().try_for_each(|mode| self.set_mode(*mode))?,
            What::SetDefault => modes.iter().try_for_each(|mode| self.set_default_mode(*mode))?,
        }
        rows.complete(match what {
            What::Begin => "BEGIN",
            What::Start => "START TRANSACTION",
            What::Set | What::SetDefault => "SET",
        })
    }

    /// Sets a mode of the current transaction.
    fn set_mode(&mut self, mode: Mode) -> Result<()> {
        let State::Block { active, modes, .. } = &mut self.state else { return Ok(()) };
        let may_change = active.is_none();
        let late =
            |what: &str| Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, format!("{what} before any query")));
        match mode {
            Mode::Level(level) if may_change => modes.level = self.settings.promised(level)?,
            Mode::Level(_) => return late("SET TRANSACTION ISOLATION LEVEL must be called"),
            Mode::ReadOnly(false) if !may_change && modes.read_only => {
                return late("transaction read-write mode must be set");
            }
            Mode::ReadOnly(read_only) => {
                if !read_only {
                    self.settings.check_may_write()?;
                }
                modes.read_only = read_only;
            }
            Mode::Deferrable(deferrable) if may_change => modes.deferrable = deferrable,
            Mode::Deferrable(_) => return late("SET TRANSACTION [NOT] DEFERRABLE must be called"),
        }
        Ok(())
    }

    /// Sets a default mode for transactions that do not specify it.
    fn set_default_mode(&mut self, mode: Mode) -> Result<()> {
        let on_off = |is_on| if is_on { "on" } else { "off" };
        let (name, value) = match mode {
            Mode::Level(level) => ("default_transaction_isolation", level.name()),
            Mode::ReadOnly(read_only) => ("default_transaction_read_only", on_off(read_only)),
            Mode::Deferrable(deferrable) => ("default_transaction_deferrable", on_off(deferrable)),
        };
        self.set_one(name, Some(value), self.extent(false))
    }
}
