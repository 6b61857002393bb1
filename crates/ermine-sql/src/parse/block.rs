//! Blocks of PL/pgSQL as far as they consist of SQL: statements, PERFORM, IF, NULL, and blocks inside of blocks with
//! handlers of errors. Scripts that create schemas use them: `BEGIN CREATE TYPE ..; EXCEPTION WHEN duplicate_object
//! THEN NULL; END`. There are no variables, so the statements are those of SQL.

use sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};

use super::{DEPTH, tokens};
use crate::error::{Result, SqlError, SqlState};

/// The tokens of a statement.
pub(crate) type Tokens = Vec<TokenWithSpan>;

/// A block: its steps, and the handlers of their errors.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) steps: Vec<Step>,
    pub(crate) handlers: Vec<Handler>,
}

/// A step of a block.
#[derive(Debug)]
pub(crate) enum Step {
    /// A statement of SQL.
    Statement(Tokens),
    /// PERFORM: a query, whose rows are left out.
    Perform(Tokens),
    /// IF: the steps behind the first condition that is true, or else the last ones. A condition is a query of one row.
    If {
        cases: Vec<(Tokens, Vec<Step>)>,
        otherwise: Vec<Step>,
    },
    Block(Block),
}

/// WHEN .. THEN: the steps that are run in place of those that failed with such an error.
#[derive(Debug)]
pub(crate) struct Handler {
    conditions: Vec<Condition>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
enum Condition {
    /// Every error that can be caught.
    Others,
    /// An error with this code; one of its class if it ends in `000`.
    State(String),
}

/// Conditions that have names and never occur.
const NEVER: &[(&str, &str)] = &[
    ("assert_failure", "P0004"),
    ("data_exception", "22000"),
    ("duplicate_database", "42P04"),
    ("duplicate_function", "42723"),
    ("exclusion_violation", "23P01"),
    ("integrity_constraint_violation", "23000"),
    ("invalid_authorization_specification", "28000"),
    ("no_data_found", "P0002"),
    ("plpgsql_error", "P0000"),
    ("raise_exception", "P0001"),
    ("restrict_violation", "23001"),
    ("syntax_error_or_access_rule_violation", "42000"),
    ("too_many_rows", "P0003"),
    ("transaction_rollback", "40000"),
    ("undefined_file", "58P01"),
];

impl Handler {
    /// Whether it handles an error. A conflict cannot be handled: the transaction is over.
    pub(crate) fn catches(&self, error: &SqlError) -> bool {
        let state = error.state();
        if [SqlState::SERIALIZATION_FAILURE, SqlState::DEADLOCK_DETECTED].contains(&state) {
            return false;
        }
        self.conditions.iter().any(|condition| match condition {
            Condition::Others => state != SqlState::QUERY_CANCELED,
            Condition::State(code) => match code.strip_suffix("000") {
                Some(class) => state.0.starts_with(class),
                None => state.0 == code,
            },
        })
    }
}

/// Parses the text of a block.
pub(crate) fn block(text: &str) -> Result<Block> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0, depth: 0 };
    reader.skip();
    if !reader.take("begin") {
        return Err(reader.unexpected());
    }
    let block = reader.block()?;
    while reader.take_token(&Token::SemiColon) {}
    if reader.peek() == &Token::EOF { Ok(block) } else { Err(reader.unexpected()) }
}

/// Reads tokens one after the other; `at` is never at whitespace.
struct Reader {
    tokens: Tokens,
    at: usize,
    /// The number of blocks and conditions around.
    depth: usize,
}

impl Reader {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::EOF, |token| &token.token)
    }

    fn skip(&mut self) {
        while matches!(self.peek(), Token::Whitespace(_)) {
            self.at += 1;
        }
    }

    fn advance(&mut self) {
        self.at += 1;
        self.skip();
    }

    fn take_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.advance();
        }
        found
    }

    /// Whether this word comes next, without quotes.
    fn is(&self, word: &str) -> bool {
        is_word(self.peek(), word)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn semicolon(&mut self) -> Result<()> {
        if self.take_token(&Token::SemiColon) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// The error for the next token: what PL/pgSQL has besides these blocks is not supported.
    fn unexpected(&self) -> SqlError {
        let found = match self.peek() {
            Token::EOF => return SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at end of input"),
            found => found.to_string(),
        };
        const OTHERS: &[&str] = &[
            "assert",
            "abort",
            "call",
            "case",
            "close",
            "commit",
            "continue",
            "declare",
            "do",
            "execute",
            "exit",
            "fetch",
            "for",
            "foreach",
            "get",
            "loop",
            "move",
            "open",
            "raise",
            "release",
            "return",
            "rollback",
            "savepoint",
            "start",
            "while",
            "<<",
        ];
        if OTHERS.contains(&&*found.to_ascii_lowercase()) {
            let hint = "A block consists of SQL statements, PERFORM, IF, and blocks with EXCEPTION.";
            return SqlError::unsupported(format_args!("{} in a block of PL/pgSQL", found.to_uppercase())).hint(hint);
        }
        SqlError::new(SqlState::SYNTAX_ERROR, format!("syntax error at or near \"{found}\""))
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the block is nested too deeply"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Reads a block behind its BEGIN, up to its END.
    fn block(&mut self) -> Result<Block> {
        self.deeper(|reader| {
            let steps = reader.steps()?;
            let mut handlers = Vec::new();
            if reader.take("exception") {
                while reader.take("when") {
                    handlers.push(reader.handler()?);
                }
                if handlers.is_empty() {
                    return Err(reader.unexpected());
                }
            }
            reader.expect("end")?;
            Ok(Block { steps, handlers })
        })
    }

    fn handler(&mut self) -> Result<Handler> {
        let mut conditions = vec![self.condition()?];
        while self.take("or") {
            conditions.push(self.condition()?);
        }
        self.expect("then")?;
        Ok(Handler { conditions, steps: self.steps()? })
    }

    fn condition(&mut self) -> Result<Condition> {
        if self.take("sqlstate") {
            let Token::SingleQuotedString(code) = self.peek().clone() else { return Err(self.unexpected()) };
            self.advance();
            return Ok(Condition::State(code));
        }
        let Token::Word(word) = self.peek() else { return Err(self.unexpected()) };
        let name = word.value.to_ascii_lowercase();
        self.advance();
        if name == "others" {
            return Ok(Condition::Others);
        }
        let never = || NEVER.iter().find(|(known, _)| *known == name).map(|(_, code)| *code);
        match SqlState::named(&name).map(|state| state.0).or_else(never) {
            Some(code) => Ok(Condition::State(code.to_owned())),
            None => {
                let message = format!("unrecognized exception condition \"{name}\"");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        }
    }

    /// Reads steps up to a word that ends them.
    fn steps(&mut self) -> Result<Vec<Step>> {
        const ENDS: &[&str] = &["end", "exception", "when", "else", "elsif", "elseif"];
        let mut steps = Vec::new();
        while !ENDS.iter().any(|end| self.is(end)) {
            if let Some(step) = self.step()? {
                steps.push(step);
            }
        }
        Ok(steps)
    }

    /// Reads a step; `None`: it does nothing.
    fn step(&mut self) -> Result<Option<Step>> {
        if self.take("begin") {
            let block = self.block()?;
            self.semicolon()?;
            return Ok(Some(Step::Block(block)));
        }
        if self.take("if") {
            return self.deeper(Self::condition_steps).map(Some);
        }
        if self.take("null") {
            self.semicolon()?;
            return Ok(None);
        }
        if self.take("perform") {
            let mut query = tokens("SELECT ")?;
            query.extend(self.statement()?);
            return Ok(Some(Step::Perform(query)));
        }
        let Token::Word(first) = self.peek() else { return Err(self.unexpected()) };
        let may_begin = !matches!(first.keyword, Keyword::NoKeyword) && !self.unexpected_is_unsupported();
        if !may_begin {
            return Err(self.unexpected());
        }
        self.statement().map(Step::Statement).map(Some)
    }

    fn unexpected_is_unsupported(&self) -> bool {
        self.unexpected().state() == SqlState::FEATURE_NOT_SUPPORTED
    }

    /// Reads the tokens of a statement, and the semicolon.
    fn statement(&mut self) -> Result<Tokens> {
        let (start, mut before) = (self.at, Token::EOF);
        while !matches!(self.peek(), Token::SemiColon | Token::EOF) {
            if self.is("into") && !is_word(&before, "insert") && !is_word(&before, "merge") {
                return Err(SqlError::unsupported("INTO a variable in a block of PL/pgSQL"));
            }
            before = self.peek().clone();
            self.advance();
        }
        let statement = self.tokens[start..self.at].to_vec();
        self.semicolon()?;
        Ok(statement)
    }

    /// Reads IF behind its word.
    fn condition_steps(&mut self) -> Result<Step> {
        let mut cases = Vec::new();
        loop {
            let condition = self.up_to_then()?;
            cases.push((condition, self.steps()?));
            if !(self.take("elsif") || self.take("elseif")) {
                break;
            }
        }
        let otherwise = if self.take("else") { self.steps()? } else { Vec::new() };
        self.expect("end")?;
        self.expect("if")?;
        self.semicolon()?;
        Ok(Step::If { cases, otherwise })
    }

    /// Reads a condition and THEN; returns the query of its value.
    fn up_to_then(&mut self) -> Result<Tokens> {
        let (start, mut open) = (self.at, 0_usize);
        loop {
            match self.peek() {
                Token::EOF | Token::SemiColon => return Err(self.unexpected()),
                Token::LParen => open += 1,
                Token::RParen => open = open.saturating_sub(1),
                token if is_word(token, "then") && open == 0 => break,
                _ => {}
            }
            self.advance();
        }
        let mut query = tokens("SELECT CAST((")?;
        query.extend_from_slice(&self.tokens[start..self.at]);
        query.extend(tokens(") AS boolean)")?);
        self.advance();
        Ok(query)
    }
}

fn is_word(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read() {
        let text = "begin insert into t values (1); if a = (case when b then 1 else 2 end) then null; elsif c then \
                    perform f(1); else begin delete from t; end; end if; exception when unique_violation or sqlstate \
                    '42P01' then drop table t; when others then null; end;";
        let block = block(text).unwrap();
        assert_eq!((block.steps.len(), block.handlers.len()), (2, 2));
        let Step::If { cases, otherwise } = &block.steps[1] else { panic!("{block:?}") };
        assert_eq!((cases.len(), cases[0].1.len(), cases[1].1.len(), otherwise.len()), (2, 0, 1, 1));
        let catches = |at: usize, state| block.handlers[at].catches(&SqlError::new(state, ""));
        assert!(catches(0, SqlState::UNIQUE_VIOLATION) && catches(0, SqlState::UNDEFINED_TABLE));
        assert!(!catches(0, SqlState::CHECK_VIOLATION) && catches(1, SqlState::CHECK_VIOLATION));
        assert!(!catches(1, SqlState::QUERY_CANCELED) && !catches(1, SqlState::SERIALIZATION_FAILURE));
    }

    #[test]
    fn classes_of_errors_are_caught() {
        let block = block("begin null; exception when integrity_constraint_violation then null; end").unwrap();
        let catches = |state| block.handlers[0].catches(&SqlError::new(state, ""));
        assert!(catches(SqlState::UNIQUE_VIOLATION) && !catches(SqlState::UNDEFINED_TABLE));
    }

    #[test]
    fn the_rest_of_pl_pgsql_is_named() {
        let state = |text: &str| block(text).unwrap_err().state();
        for text in [
            "declare x int; begin end",
            "begin raise notice 'x'; end",
            "begin for i in 1..2 loop end loop; end",
            "begin execute 'select 1'; end",
            "begin select 1 into x; end",
            "begin commit; end",
        ] {
            assert_eq!(state(text), SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
        for text in
            ["", "select 1", "begin", "begin x := 1; end", "begin null end", "begin null; end; select 1", "begin if"]
        {
            assert_eq!(state(text), SqlState::SYNTAX_ERROR, "{text}");
        }
        assert_eq!(state("begin null; exception when nothing then null; end"), SqlState::UNDEFINED_OBJECT);
        let deep = format!("{}{}", "begin ".repeat(100), "end; ".repeat(100));
        assert_eq!(state(&deep), SqlState::STATEMENT_TOO_COMPLEX);
    }
}
