//! Simple queries: a text of any number of statements, and their results as texts.

use std::time::Instant;

use super::{Connection, aside::LONG, rows::Sink};
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
            Ok(text) => self.run_text(text),
            Err(error) => self.report(&error),
        }
        self.ready_or_copying();
    }

    /// Goes on after a text has been run, or the part of it before a COPY FROM STDIN.
    pub(super) fn ready_or_copying(&mut self) {
        if self.session.is_copying() {
            self.begin_copying(true);
        } else {
            self.ready();
        }
    }

    fn run_text(&mut self, text: &str) {
        let (began, from) = (Instant::now(), self.output.bytes().len());
        let mut sink = Sink::simple(&mut self.output, &mut self.environment, &mut self.scratch);
        let is_long = self.simple_was_long || self.shared.backend.waits();
        let done = self.shared.watch.run(is_long, began, || self.session.simple_query(text, &mut sink));
        self.has_set |= sink.has_set;
        self.simple_was_long = began.elapsed() > LONG;
        match done {
            Ok(completion) => self.output.completed(from, completion),
            Err(error) => {
                self.output.release();
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
