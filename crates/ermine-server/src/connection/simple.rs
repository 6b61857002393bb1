//! Simple queries: a text of any number of statements, and their results as texts.

use std::time::{Duration, Instant};

use super::{Connection, aside::LONG, copy::Copying, logged::Ended, rows::Sink};
use crate::{
    backend::{Backend, Session},
    codec::utf8,
    protocol::backend,
};

impl<B: Backend> Connection<'_, B> {
    pub(super) fn simple_query(&mut self, text: &[u8]) {
        self.statements.forget_unnamed();
        self.forget_cancellation();
        match utf8(text) {
            Ok(text) if is_empty(text) => backend::empty_query(self.output.bytes()),
            Ok(text) if self.replicates && self.replication_command(text) => {}
            Ok(text) => self.run_text(text),
            Err(error) => self.report(&error),
        }
        if self.copying.is_none() && self.streaming.is_none() {
            self.ready();
        }
    }

    fn run_text(&mut self, text: &str) {
        let (began, from) = (Instant::now(), self.output.bytes().len());
        let parent = self.parent_of(text);
        let mut sink = Sink::simple(&mut self.output, &mut self.environment, &mut self.scratch);
        let is_long = self.simple_was_long || self.shared.backend.waits();
        let done = self.shared.watch.run(is_long, began, || self.session.simple_query(text, &mut sink));
        self.has_set |= sink.has_set;
        let took = began.elapsed();
        self.simple_was_long = took > LONG;
        match done {
            Ok(completion) => {
                if self.session.is_copying() {
                    self.copying = Some(Copying::begin(began, parent, None));
                } else {
                    let ended = Ended { began, took, client: Duration::ZERO, failure: None, parent };
                    self.ended(ended, completion.receipt.is_none(), None);
                }
                self.output.completed(from, completion);
            }
            Err(error) => {
                self.ended(Ended { began, took, client: Duration::ZERO, failure: Some(&error), parent }, true, None);
                self.log_failure(&error, None);
                self.output.release(&error);
                backend::error(self.output.bytes(), "ERROR", &error);
            }
        }
    }
}

/// Whether a text has no statement at all: blanks, semicolons and comments.
pub(super) fn is_empty(text: &str) -> bool {
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once(['\n', '\r']).map_or("", |(_, rest)| rest);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let Some(end) = end_of_comment(comment.as_bytes()) else { return false };
            rest = &comment[end..];
        } else {
            return false;
        }
        rest = rest.trim_start_matches(is_blank);
    }
    true
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c' | ';')
}

/// Returns the end of a comment; comments nest.
fn end_of_comment(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (1, 0);
    while depth > 0 {
        match text.get(at..at + 2)? {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::is_empty;

    #[test]
    fn texts_without_statements() {
        for text in ["", " ;\n;", "-- a", "-- a\n ;", "/* a /* b */ c */", ";/**/--"] {
            assert!(is_empty(text), "{text:?}");
        }
        for text in ["a", "-- a\nb", "/* a", "/* a */ b", "-", "/"] {
            assert!(!is_empty(text), "{text:?}");
        }
    }
}
