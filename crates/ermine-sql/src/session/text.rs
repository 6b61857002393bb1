//! Texts of any number of statements, as simple queries are.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Completion, Prepared, REMEMBERED_MAX, Session,
    activity::shown,
    now,
    tree::{self, Tree},
};
use crate::{error::Result, parse::place::located, result::RowSink};

impl Session {
    /// Runs a text of any number of statements and waits until their effects are durable.
    pub fn run(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<()> {
        self.simple_query(text, rows)?.wait()
    }

    /// Runs a text of any number of statements, in one transaction unless the text contains its own BEGIN or COMMIT.
    pub fn simple_query(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        self.simple_query_inside(text, rows).map_err(|error| located(error, text))
    }

    fn simple_query_inside(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        let known = self.known(text, &[]);
        self.begins(|| known.as_ref().map_or_else(|| shown(text), |known| known.text.clone()));
        match known {
            Some(known) => {
                let done = self.simply(&known, rows);
                let ended = self.rests();
                self.ran(&known, (self.environment.statement_began, ended), done.is_ok());
                done
            }
            None => {
                let done = self.text(text, rows);
                self.rests();
                done
            }
        }
    }

    fn text(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        self.check_not_copying()?;
        let held = self.hold_tree(text).inspect_err(|_| self.fail())?;
        let statements = tree::statements(text).inspect_err(|_| self.fail())?;
        if statements.is_empty() {
            rows.nothing()?;
            return Ok(Completion::default());
        }
        let text = (statements.len() == 1).then_some(text);
        let done = self.several(text, statements.into(), rows);
        if let Some(copying) = &mut self.copying {
            // The statements after a COPY are run when that has ended.
            copying.trees = held;
        }
        done
    }

    /// Runs the statements of a text, or the remaining ones; `text`: all of it, if it is one statement.
    pub(super) fn several(
        &mut self,
        text: Option<&str>,
        mut statements: VecDeque<Tree>,
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        let mut completion = Completion::default();
        while let Some(tree) = statements.pop_front() {
            if text.is_none() {
                self.begin_implicit();
            }
            match self.one_of_text(text, tree, rows) {
                Ok(done) => completion.push(done),
                Err(error) => {
                    // The block has failed already: this only discards it.
                    let _ = self.end_implicit();
                    // The client has been told of the earlier commits.
                    completion.wait()?;
                    return Err(error);
                }
            }
            if let Some(copying) = &mut self.copying {
                copying.rest = text.is_none().then_some(statements);
                return Ok(completion);
            }
        }
        if text.is_none() {
            match self.end_implicit() {
                Ok(done) => completion.push(done),
                Err(error) => {
                    completion.wait()?;
                    return Err(error);
                }
            }
        }
        Ok(completion)
    }

    fn one_of_text(&mut self, text: Option<&str>, tree: Tree, rows: &mut dyn RowSink) -> Result<Completion> {
        let mut prepared = self.bind(tree, &[]).inspect_err(|_| self.fail())?;
        if let Some(text) = text {
            prepared.text = shown(text);
            if text.len() <= REMEMBERED_MAX {
                prepared._held = self.hold_tree(text).inspect_err(|_| self.fail())?;
            }
        }
        let counted_as = text.unwrap_or_else(|| prepared.bound.plan.words());
        prepared.uses = self.uses_of(counted_as);
        let prepared = self.planned(prepared);
        if let Some(text) = text
            && prepared.made_for.version.is_some()
            && prepared.bound.parameters.is_empty()
        {
            self.remember(text, &[], &prepared);
        }
        let began = now();
        let done = self.simply(&prepared, rows);
        self.ran(&prepared, (began, now()), done.is_ok());
        done
    }

    /// Runs a statement whose columns the client has not been told before: they may change until it runs.
    fn simply(&mut self, prepared: &Arc<Prepared>, rows: &mut dyn RowSink) -> Result<Completion> {
        self.is_simple = true;
        let done = self.execute_inside(prepared, &[], rows);
        self.is_simple = false;
        done
    }
}
