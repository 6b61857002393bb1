//! Texts of any number of statements, as simple queries are.

use std::{collections::VecDeque, sync::Arc};

use super::{
    Completion, REMEMBERED_MAX, Session,
    activity::shown,
    tree::{self, Tree},
};
use crate::{error::Result, result::RowSink};

impl Session {
    /// Runs a text of any number of statements and waits until their effects are durable.
    pub fn run(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<()> {
        self.simple_query(text, rows)?.wait()
    }

    /// Runs a text of any number of statements, in one transaction unless the text contains its own BEGIN or COMMIT.
    pub fn simple_query(&mut self, text: &str, rows: &mut dyn RowSink) -> Result<Completion> {
        let known = self.known(text);
        self.begins(|| known.as_ref().map_or_else(|| shown(text), |known| known.text.clone()));
        let done = match known {
            Some(known) => self.execute_inside(&known, &[], rows),
            None => self.text(text, rows),
        };
        self.rests();
        done
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
                Ok(done) => completion.receipt = done.receipt.or(completion.receipt),
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
            let done = self.end_implicit()?;
            completion.receipt = done.receipt.or(completion.receipt);
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
        let prepared = Arc::new(prepared);
        if let Some(text) = text
            && prepared.made_for.version.is_some()
            && prepared.bound.parameters.is_empty()
        {
            self.remember(text, &prepared);
        }
        self.is_simple = true;
        let done = self.execute_inside(&prepared, &[], rows);
        self.is_simple = false;
        done
    }
}
