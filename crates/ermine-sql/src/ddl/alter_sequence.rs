//! ALTER SEQUENCE. The grammar is our own: sqlparser has none for it.
//!
//! RESTART takes effect at once, as `setval` does, also if the transaction is rolled back.

use sqlparser::{
    ast::{Ident, ObjectName},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    context::ChangeContext,
    create::{bounds_of, check_sequence},
    skip_missing,
};
use crate::{
    bind::names::parts_of,
    catalog::{
        Change, Relation,
        definition::{Definition, SequenceDef},
    },
    error::{Result, SqlError, SqlState},
    result::RowSink,
    system::sequence_type,
    transaction::ActiveTransaction,
    types::SqlType,
};

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) struct AlterSequence {
    name: ObjectName,
    if_exists: bool,
    options: Vec<SequenceOption>,
}

#[derive(Clone, Debug)]
pub(super) enum SequenceOption {
    Increment(i64),
    /// `None`: the bound of the type.
    Least(Option<i64>),
    Greatest(Option<i64>),
    Start(i64),
    /// `None`: with the start.
    Restart(Option<i64>),
    Cycle(bool),
    /// Changes nothing: all sessions share the numbers that were taken ahead.
    Cache,
    /// `None`: by no column.
    OwnedBy(Option<ObjectName>),
    /// All objects have the same owner.
    Owner(Ident),
}

impl AlterSequence {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, EXISTS, IF, SEQUENCE};
        if !parser.parse_keywords(&[ALTER, SEQUENCE]) {
            return Ok(None);
        }
        let if_exists = parser.parse_keywords(&[IF, EXISTS]);
        let (name, mut options) = (parser.parse_object_name(false)?, vec![SequenceOption::parse(parser)?]);
        while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            options.push(SequenceOption::parse(parser)?);
        }
        Ok(Some(Self { name, if_exists, options }))
    }
}

impl AlterSequence {
    pub(super) fn name(&self) -> &ObjectName {
        &self.name
    }
}

impl SequenceOption {
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{
            BY, CACHE, CYCLE, INCREMENT, MAXVALUE, MINVALUE, NO, NONE, OWNED, OWNER, RESTART, START, TO, WITH,
        };
        let none = |parser: &mut Parser<'_>, word| parser.parse_keywords(&[NO, word]);
        Ok(if parser.parse_keyword(INCREMENT) {
            let _ = parser.parse_keyword(BY);
            Self::Increment(number(parser)?)
        } else if none(parser, MINVALUE) {
            Self::Least(None)
        } else if parser.parse_keyword(MINVALUE) {
            Self::Least(Some(number(parser)?))
        } else if none(parser, MAXVALUE) {
            Self::Greatest(None)
        } else if parser.parse_keyword(MAXVALUE) {
            Self::Greatest(Some(number(parser)?))
        } else if parser.parse_keyword(START) {
            let _ = parser.parse_keyword(WITH);
            Self::Start(number(parser)?)
        } else if parser.parse_keyword(RESTART) {
            let is_given = parser.parse_keyword(WITH)
                || matches!(parser.peek_token_ref().token, Token::Number(..) | Token::Minus | Token::Plus);
            Self::Restart(if is_given { Some(number(parser)?) } else { None })
        } else if parser.parse_keyword(CACHE) {
            number(parser)?;
            Self::Cache
        } else if none(parser, CYCLE) {
            Self::Cycle(false)
        } else if parser.parse_keyword(CYCLE) {
            Self::Cycle(true)
        } else if parser.parse_keywords(&[OWNED, BY]) {
            Self::OwnedBy(if parser.parse_keyword(NONE) { None } else { Some(parser.parse_object_name(false)?) })
        } else if parser.parse_keywords(&[OWNER, TO]) {
            Self::Owner(parser.parse_identifier()?)
        } else {
            return parser.expected_ref("an option of a sequence", parser.peek_token_ref());
        })
    }
}

fn number(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let found = parser.parse_number()?.to_string().replace(' ', "");
    found.parse().map_err(|_| ParserError::ParserError(format!("Expected: a number of a sequence, found: {found}")))
}

/// Applies the options about the numbers of a sequence.
pub(super) fn redefine(def: &mut SequenceDef, ty: SqlType, options: &[SequenceOption]) {
    // The bounds depend on it, wherever it stands.
    for option in options {
        if let SequenceOption::Increment(by) = option {
            def.increment = *by;
        }
    }
    let (least_of_type, greatest_of_type) = bounds_of(ty);
    for option in options {
        match option {
            SequenceOption::Least(least) => {
                def.least = least.unwrap_or(if def.increment > 0 { 1 } else { least_of_type });
            }
            SequenceOption::Greatest(greatest) => {
                def.greatest = greatest.unwrap_or(if def.increment > 0 { greatest_of_type } else { -1 });
            }
            SequenceOption::Start(start) => def.start = *start,
            SequenceOption::Cycle(cycles) => def.cycles = *cycles,
            _ => {}
        }
    }
}

impl ChangeContext<'_> {
    pub(super) fn alter_sequence(
        &self,
        active: &mut ActiveTransaction,
        alter: &AlterSequence,
        rows: &mut dyn RowSink,
    ) -> Result<String> {
        let tag = || Ok("ALTER SEQUENCE".into());
        let sequence = match self.find(active, &alter.name)? {
            Some(Relation::Sequence(sequence)) => sequence,
            Some(_) => {
                let message = format!("\"{}\" is not a sequence", crate::bind::plain(&alter.name));
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            None if alter.if_exists => {
                skip_missing(rows, &alter.name);
                return tag();
            }
            None => {
                let message = format!("relation \"{}\" does not exist", crate::bind::plain(&alter.name));
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            }
        };
        let (mut def, mut restart) = (sequence.def.clone(), None);
        redefine(&mut def, sequence_type(&sequence.def), &alter.options);
        for option in &alter.options {
            match option {
                SequenceOption::Restart(with) => restart = Some(*with),
                SequenceOption::Owner(role) => {
                    self.relation_to(active, &Relation::Sequence(sequence.clone()), role)?;
                }
                SequenceOption::OwnedBy(Some(column)) => def.owner = Some(self.owning_column(active, &def, column)?),
                SequenceOption::OwnedBy(None) => def.owner = None,
                _ => {}
            }
        }
        check_sequence(&def)?;
        self.check_sequence(active, &sequence.def)?;
        if let Some(with) = restart {
            let number = with.unwrap_or(def.start);
            if !(def.least..=def.greatest).contains(&number) {
                let message = format!("RESTART value ({number}) is not between {} and {}", def.least, def.greatest);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
            sequence.restart(number)?;
        }
        if def != sequence.def {
            sequence.settle()?;
            self.apply(active, vec![Change::Put(Definition::Sequence(def))])?;
        }
        tag()
    }

    /// Returns the column that a sequence is to be dropped with: its table, and its number.
    fn owning_column(
        &self,
        active: &mut ActiveTransaction,
        def: &SequenceDef,
        column: &ObjectName,
    ) -> Result<(u32, usize)> {
        let parts = parts_of(column)?;
        let [table @ .., _] = &column.0[..] else { unreachable!("a name has a part") };
        let own = parts.last().expect("a name has a part");
        if table.is_empty() {
            let message = "invalid OWNED BY option";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint("Specify OWNED BY table.column or NONE."));
        }
        let name = ObjectName(table.to_vec());
        let table = self.table_named(active, &name, false)?.expect("it exists, or is an error");
        if table.def.schema != def.schema {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let at = table.def.column(own).ok_or_else(|| super::alter::missing(own, &table.def.name))?;
        let owner = (table.def.id, at);
        if def.owner.is_some_and(|other| other != owner) || self.is_drawn_from(active, def.id, Some(owner.0))? {
            let what = "OWNED BY of a sequence that belongs to another column, or from which another table draws,";
            return Err(SqlError::unsupported(what));
        }
        // As any change of the table.
        self.take_newest(active, std::slice::from_ref(&table), self.limits())?;
        Ok(owner)
    }
}
