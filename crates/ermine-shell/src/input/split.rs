//! Cuts lines into statements and commands of the shell.
//!
//! A statement ends at a `;` outside of quotes, dollar quotes, comments and parentheses; a backslash outside of them
//! begins a command, which ends with its line and leaves an unfinished statement as it is. The rules in between are
//! PostgreSQL's (4.1, "Lexical Structure"): comments nest, `''` and `""` stay inside, a backslash escapes in `E''`
//! only.

/// Gathers lines until a piece is complete.
#[derive(Default, Debug)]
pub struct Splitter {
    /// The part of a statement that has been read.
    statement: String,
    /// Text that was pushed and not read yet.
    rest: String,
    inside: Inside,
    parentheses: usize,
    /// Whether the statement has more than blanks and comments.
    is_begun: bool,
}

/// The construct that the end of the text is inside of.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Inside {
    /// None.
    #[default]
    Plain,
    /// `'..'`; in `E'..'`, a backslash escapes.
    Quote {
        /// Whether a backslash escapes.
        escapes: bool,
    },
    /// `".."`.
    Name,
    /// `$tag$ .. $tag$`, with the dollars.
    Dollar(String),
    /// `/* .. */`, with its depth.
    Comment(usize),
    /// `-- ..`.
    LineComment,
}

/// A complete piece.
#[derive(PartialEq, Eq, Debug)]
pub enum Piece {
    /// A statement with the `;` at its end, if it had one.
    Statement(String),
    /// A command, without its backslash.
    Command(String),
}

impl Splitter {
    /// Takes a line, without the character that ended it.
    pub fn push(&mut self, line: &str) {
        debug_assert!(self.rest.is_empty(), "what was given before has been taken");
        self.rest.push_str(line);
        self.rest.push('\n');
    }

    /// Returns the next complete piece of the text; `None` if it needs more lines.
    pub fn piece(&mut self) -> Option<Piece> {
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while at < rest.len() {
            let length = match self.inside {
                Inside::Plain if rest[at..].starts_with('\\') => {
                    self.statement.push('\n');
                    return Some(Piece::Command(rest[at + 1..].trim().to_owned()));
                }
                _ => self.step(&rest[at..]),
            };
            let token = &rest[at..at + length];
            at += length;
            self.statement.push_str(token);
            if token == ";" && self.inside == Inside::Plain && self.parentheses == 0 {
                let is_begun = self.is_begun;
                let statement = self.take();
                if is_begun {
                    self.rest = rest[at..].to_owned();
                    return Some(Piece::Statement(statement));
                }
            }
        }
        if !self.is_begun && self.inside == Inside::Plain {
            // So that lines are counted from the statement's first one.
            self.statement.clear();
        }
        None
    }

    /// Returns the text read so far as if it were complete; empty if there is no statement.
    pub fn take(&mut self) -> String {
        let statement = self.text().to_owned();
        *self = Self { rest: std::mem::take(&mut self.rest), ..Self::default() };
        statement
    }

    /// Returns the text read so far; empty if there is no statement.
    pub fn text(&self) -> &str {
        if self.is_begun { self.statement.trim() } else { "" }
    }

    /// Discards all text.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a statement has been begun, or a comment.
    pub fn is_begun(&self) -> bool {
        self.is_begun || self.inside != Inside::Plain
    }

    /// Returns the character by which the prompt shows what is missing.
    pub fn missing(&self) -> char {
        match &self.inside {
            Inside::Plain | Inside::LineComment if self.parentheses > 0 => '(',
            Inside::Plain | Inside::LineComment => '-',
            Inside::Quote { .. } => '\'',
            Inside::Name => '"',
            Inside::Dollar(_) => '$',
            Inside::Comment(_) => '*',
        }
    }

    /// Reads a token, a blank, or a character inside of quotes from the beginning of a text that is not empty; returns
    /// how many bytes were read, and the kind of quote or comment that they end in: `'`, `"`, `$` or `*`.
    pub fn token(&mut self, text: &str) -> (usize, Option<char>) {
        let length = self.step(text);
        let inside = match self.inside {
            Inside::Plain => None,
            Inside::LineComment => Some('*'),
            _ => Some(self.missing()),
        };
        (length, inside)
    }

    /// Reads from the beginning of a text that is not empty; returns how many bytes were read.
    fn step(&mut self, text: &str) -> usize {
        let first = text.chars().next().expect("there is text");
        match &mut self.inside {
            Inside::Plain => return self.plain(text, first),
            Inside::Quote { escapes: true } if first == '\\' => {
                return 1 + text[1..].chars().next().map_or(0, char::len_utf8);
            }
            // Two quotes end the literal and begin another one.
            Inside::Quote { .. } if first == '\'' => self.inside = Inside::Plain,
            Inside::Name if first == '"' => self.inside = Inside::Plain,
            Inside::Dollar(tag) if text.starts_with(&**tag) => {
                let length = tag.len();
                self.inside = Inside::Plain;
                return length;
            }
            Inside::Comment(depth) if text.starts_with("/*") => {
                *depth += 1;
                return 2;
            }
            Inside::Comment(depth) if text.starts_with("*/") => {
                *depth -= 1;
                if *depth == 0 {
                    self.inside = Inside::Plain;
                }
                return 2;
            }
            Inside::LineComment if first == '\n' => self.inside = Inside::Plain,
            _ => {}
        }
        first.len_utf8()
    }

    fn plain(&mut self, text: &str, first: char) -> usize {
        if first.is_ascii_whitespace() || first == ';' {
            return 1;
        }
        if text.starts_with("--") {
            self.inside = Inside::LineComment;
            return 2;
        }
        if text.starts_with("/*") {
            self.inside = Inside::Comment(1);
            return 2;
        }
        self.is_begun = true;
        match first {
            '\'' => self.inside = Inside::Quote { escapes: false },
            '"' => self.inside = Inside::Name,
            '(' => self.parentheses += 1,
            ')' => self.parentheses = self.parentheses.saturating_sub(1),
            'E' | 'e' if text[1..].starts_with('\'') => {
                self.inside = Inside::Quote { escapes: true };
                return 2;
            }
            '$' => {
                if let Some(tag) = dollar_tag(text) {
                    self.inside = Inside::Dollar(tag.to_owned());
                    return tag.len();
                }
            }
            // The word is read as a whole, because a dollar or an E in a word or number is a part of it.
            first if is_word(first) => return text.find(|next| !is_word(next) && next != '$').unwrap_or(text.len()),
            _ => {}
        }
        first.len_utf8()
    }
}

/// Returns the tag, with its dollars, at the beginning of a text.
fn dollar_tag(text: &str) -> Option<&str> {
    let end = 1 + text[1..].find('$')?;
    let tag = &text[1..end];
    (tag.chars().all(is_word) && !tag.starts_with(|first: char| first.is_ascii_digit())).then(|| &text[..=end])
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all pieces of a script, and the rest of it.
    fn pieces(script: &str) -> (Vec<String>, String) {
        let mut splitter = Splitter::default();
        let mut pieces = Vec::new();
        for line in script.lines() {
            splitter.push(line);
            while let Some(piece) = splitter.piece() {
                pieces.push(match piece {
                    Piece::Statement(statement) => statement,
                    Piece::Command(command) => format!("\\{command}"),
                });
            }
        }
        let left = splitter.take();
        (pieces, left)
    }

    #[test]
    fn statements_end_where_they_end() {
        for (script, wanted) in [
            ("a; b;c", &["a;", "b;"][..]),
            ("a\n  b\n;", &["a\n  b\n;"]),
            (";;; a;;", &["a;"]),
            ("';'; 'it''s;';", &["';';", "'it''s;';"]),
            ("'\\'; E'\\';'; e'\\\\';", &["'\\';", "E'\\';';", "e'\\\\';"]),
            ("\"a;\"\"b\";", &["\"a;\"\"b\";"]),
            ("$$;$$; $a$ $$;$b$; $a$;", &["$$;$$;", "$a$ $$;$b$; $a$;"]),
            ("a$b$;c$b$;", &["a$b$;", "c$b$;"]),
            ("$1;$2;", &["$1;", "$2;"]),
            ("the_E'a\\'; b;", &["the_E'a\\';", "b;"]),
            ("a -- ; '\n;", &["a -- ; '\n;"]),
            ("a /* ; /* ; */ ; ' */;", &["a /* ; /* ; */ ; ' */;"]),
            ("-- a\n\n/* b */ ;\nc;", &["c;"]),
            ("create rule (a; b); c;", &["create rule (a; b);", "c;"]),
            ("a); b;", &["a);", "b;"]),
            ("ä'ß;'; $ä$;$ä$;", &["ä'ß;';", "$ä$;$ä$;"]),
        ] {
            assert_eq!(pieces(script).0, wanted, "{script}");
        }
    }

    #[test]
    fn commands_take_their_line() {
        let (found, left) = pieces("\\timing on\nselect \\x off;\n 1; '\\a\n\\b';");
        assert_eq!(found, ["\\timing on", "\\x off;", "select \n 1;", "'\\a\n\\b';"]);
        assert_eq!(left, "");
        assert_eq!(pieces("a; \\g").0, ["a;", "\\g"]);
    }

    #[test]
    fn what_is_missing_is_known() {
        for (text, missing) in
            [("a", '-'), ("a 'b", '\''), ("\"", '"'), ("f(a", '('), ("$x$ $", '$'), ("/* a", '*'), ("a -- (", '-')]
        {
            let mut splitter = Splitter::default();
            splitter.push(text);
            assert_eq!(splitter.piece(), None);
            assert!(splitter.is_begun());
            assert_eq!(splitter.missing(), missing, "{text}");
        }
        assert_eq!(pieces("a; b\nc").1, "b\nc");
        assert_eq!(pieces("-- b\n  ").1, "");
    }
}
