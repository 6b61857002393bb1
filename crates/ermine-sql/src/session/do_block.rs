//! DO: the statements of a block, in the transaction around it, or else in one of their own. A block with handlers is
//! a savepoint: an error that it handles undoes the block, and the transaction goes on. A conflict that the transaction
//! has lost is not handled, because no savepoint helps against it.

use std::sync::Arc;

use sqlparser::ast::Statement;

use super::{
    Completion, Session, State,
    tree::{DoTree, Tree, statement_of},
};
use crate::{
    bind::parts::written,
    error::{Result, SqlError, SqlState},
    parse::{Block, Step, Tokens, block},
    result::{Column, RowSink},
    types::{Value, user_types::UserTypes},
};

impl Session {
    /// Runs a block.
    pub(super) fn run_block(&mut self, tree: &DoTree, rows: &mut dyn RowSink) -> Result<Completion> {
        let DoTree { text, language } = tree;
        if let Some(language) = language {
            return Err(SqlError::unsupported(format_args!("DO in the language {language}")));
        }
        let _held = self.hold_tree(text)?;
        let parsed = block(text)?;
        let is_alone = matches!(self.state, State::Idle);
        self.begin_implicit();
        // Places in it are those of another text.
        let done = self.block(&parsed, text, 0, &mut Notices(rows)).map_err(SqlError::nowhere);
        if !is_alone {
            done?;
            rows.complete("DO")?;
            return Ok(Completion::default());
        }
        if let Err(error) = done {
            let error = self.fail_with(error);
            // The transaction has failed: this only discards it.
            let _ = self.end_implicit();
            return Err(error);
        }
        let completion = self.end_implicit()?;
        rows.complete("DO")?;
        Ok(completion)
    }

    fn block(&mut self, block: &Block, text: &str, depth: usize, rows: &mut Notices<'_>) -> Result<()> {
        if block.handlers.is_empty() {
            return self.steps(&block.steps, text, depth, rows);
        }
        // No name of a statement begins like this.
        let name = format!("\0{depth}");
        let marks = self.marks();
        self.in_transaction()?.add_savepoint(name.clone(), marks)?;
        let Err(error) = self.steps(&block.steps, text, depth + 1, rows) else {
            return self.in_transaction()?.release_savepoint(&name);
        };
        if matches!(self.state, State::Block { .. }) {
            // The error has come before the statement ran.
            self.fail();
        }
        if matches!(self.state, State::Failed { active: None, .. }) || self.roll_back_to(&name).is_err() {
            return Err(error);
        }
        self.in_transaction()?.release_savepoint(&name)?;
        match block.handlers.iter().find(|handler| handler.catches(&error)) {
            Some(handler) => self.steps(&handler.steps, text, depth, rows),
            None => Err(error),
        }
    }

    fn steps(&mut self, steps: &[Step], text: &str, depth: usize, rows: &mut Notices<'_>) -> Result<()> {
        for step in steps {
            match step {
                Step::Statement(tokens) => match statement_of(tokens.clone(), text)? {
                    Tree::Plain(statement) if has_rows(&statement) => {
                        let message = "query has no destination for result data";
                        let hint = "If you want to discard the results of a SELECT, use PERFORM instead.";
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).hint(hint));
                    }
                    Tree::Copy(_) | Tree::Database(_) | Tree::Maintenance(_) | Tree::TwoPhase(..) => {
                        return Err(SqlError::unsupported("this statement in a block of PL/pgSQL"));
                    }
                    tree => self.step(tree, rows)?,
                },
                Step::Perform(tokens) => self.step(statement_of(tokens.clone(), text)?, rows)?,
                Step::If { cases, otherwise } => {
                    let mut chosen = otherwise;
                    for (condition, steps) in cases {
                        if self.holds(condition, text)? {
                            chosen = steps;
                            break;
                        }
                    }
                    self.steps(chosen, text, depth, rows)?;
                }
                Step::Block(block) => self.block(block, text, depth, rows)?,
            }
        }
        Ok(())
    }

    /// Runs a statement of a block.
    fn step(&mut self, tree: Tree, rows: &mut dyn RowSink) -> Result<()> {
        let prepared = Arc::new(self.bind(tree, &[])?);
        self.execute_inside(&prepared, &[], rows).map(drop)
    }

    /// Whether a condition is true.
    fn holds(&mut self, condition: &Tokens, text: &str) -> Result<bool> {
        let mut answer = Answer(None);
        self.step(statement_of(condition.clone(), text)?, &mut answer)?;
        Ok(answer.0 == Some(Value::Bool(true)))
    }
}

fn has_rows(statement: &Statement) -> bool {
    match statement {
        Statement::Query(query) => written(query).is_none_or(has_rows),
        Statement::Insert(insert) => insert.returning.is_some(),
        Statement::Update(update) => update.returning.is_some(),
        Statement::Delete(delete) => delete.returning.is_some(),
        _ => false,
    }
}

/// Passes on the notices of statements, and nothing else.
struct Notices<'r>(&'r mut dyn RowSink);

impl RowSink for Notices<'_> {
    fn types(&mut self, types: &Arc<UserTypes>) {
        self.0.types(types);
    }

    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[Value]) -> Result<()> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, severity: &'static str, notice: &SqlError) {
        self.0.notice(severity, notice);
    }

    fn settings_changed(&mut self) {
        self.0.settings_changed();
    }

    fn take_back(&mut self) -> bool {
        true
    }
}

/// Keeps the value of a condition.
struct Answer(Option<Value>);

impl RowSink for Answer {
    fn columns(&mut self, _: &[Column]) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.0 = values.first().cloned();
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn take_back(&mut self) -> bool {
        self.0 = None;
        true
    }
}
