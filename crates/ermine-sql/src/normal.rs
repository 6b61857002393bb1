//! Texts of statements without their constants, so that runs of one statement with other constants are recognized.
//!
//! The text is read once, from the left, without a syntax tree: constants become `$1`, `$2`, .., blanks and
//! comments between two others become one blank, everything else stays. Parameters that the text has already keep their numbers, and constants
//! are numbered after them.

/// Shows the pieces of a text without its constants.
pub(crate) fn normal(text: &str, show: &mut dyn FnMut(&str)) {
    let mut number = parameters(text);
    let mut rest = text.trim_end_matches(|letter: char| letter == ';' || letter.is_whitespace());
    let (mut is_first, mut has_blank, mut takes_sign) = (true, false, true);
    while let Some((kind, piece, after)) = next(rest) {
        rest = after;
        if kind == Kind::Blank {
            has_blank = !is_first;
            continue;
        }
        if std::mem::take(&mut has_blank) {
            show(" ");
        }
        is_first = false;
        // A sign is a part of the constant behind it, but not between two operands.
        let is_sign = takes_sign && piece == "-" && after.starts_with(|letter: char| letter.is_ascii_digit());
        takes_sign = matches!(piece, "(" | "," | "[" | "=" | "<" | ">" | "+" | "-" | "*" | "/" | "%");
        match kind {
            _ if is_sign => {}
            Kind::Constant => {
                number += 1;
                show(&format!("${number}"));
            }
            _ => show(piece),
        }
    }
}

/// Returns the greatest number of a parameter in a text.
fn parameters(text: &str) -> u32 {
    let (mut rest, mut greatest) = (text, 0);
    while let Some((_, piece, after)) = next(rest) {
        if let Some(number) = piece.strip_prefix('$').and_then(|number| number.parse().ok()) {
            greatest = greatest.max(number);
        }
        rest = after;
    }
    greatest
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Constant,
    /// Blanks or a comment.
    Blank,
    Other,
}

/// Returns the first piece of a text, and what follows it.
fn next(text: &str) -> Option<(Kind, &str, &str)> {
    let first = text.chars().next()?;
    let (kind, length) = match first {
        '\'' => (Kind::Constant, quoted(text, 0, '\'', false)),
        '"' => (Kind::Other, quoted(text, 0, '"', false)),
        '$' => match dollar_quoted(text) {
            Some(length) => (Kind::Constant, length),
            None => (Kind::Other, 1 + run(&text[1..], |letter| letter.is_ascii_digit())),
        },
        _ if first.is_whitespace() => (Kind::Blank, run(text, char::is_whitespace)),
        '-' if text.starts_with("--") => (Kind::Blank, text.find('\n').map_or(text.len(), |at| at + 1)),
        '/' if text.starts_with("/*") => (Kind::Blank, comment(text)),
        _ if first.is_ascii_digit() => (Kind::Constant, number(text)),
        '.' if text[1..].starts_with(|letter: char| letter.is_ascii_digit()) => (Kind::Constant, number(text)),
        _ if is_letter(first) => match text[first.len_utf8()..].starts_with('\'') {
            true if "eEbBxXnN".contains(first) => (Kind::Constant, quoted(text, 1, '\'', "eE".contains(first))),
            _ => (Kind::Other, run(text, |letter| is_letter(letter) || letter.is_ascii_digit() || letter == '$')),
        },
        _ => (Kind::Other, first.len_utf8()),
    };
    let (piece, rest) = text.split_at(length);
    Some((kind, piece, rest))
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

/// Returns the length of the letters in front for which `is_one` holds.
fn run(text: &str, is_one: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !is_one(letter)).unwrap_or(text.len())
}

fn number(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let is_sign = matches!(bytes[at], b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E');
        if !(bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'.' | b'_') || at > 0 && is_sign) {
            break;
        }
        at += 1;
    }
    at
}

/// Returns the length of a text in quotes that begin at `from`; a doubled quote is none, and neither is one behind a
/// backslash where that escapes.
fn quoted(text: &str, from: usize, quote: char, escapes: bool) -> usize {
    let bytes = text.as_bytes();
    let mut at = from + 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote as u8 {
            if bytes.get(at + 1) != Some(&(quote as u8)) {
                return at + 1;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Returns the length of a text between two equal tags, `$tag$`, if one begins here.
fn dollar_quoted(text: &str) -> Option<usize> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[..end];
    let name = &tag[1..tag.len() - 1];
    let is_name = !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| is_letter(letter) || letter.is_ascii_digit());
    is_name.then(|| text[end..].find(tag).map_or(text.len(), |at| end + at + end))
}

/// Returns the length of a comment, which may have others inside.
fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal_of(text: &str) -> String {
        let mut all = String::new();
        normal(text, &mut |piece| all.push_str(piece));
        all
    }

    #[test]
    fn constants_become_parameters() {
        for (text, expected) in [
            ("SELECT 1", "SELECT $1"),
            ("  SELECT\n\t1 , a1 ;  ", "SELECT $1 , a1"),
            ("SELECT -1, a + -2, a -3, a - 4, (-5)", "SELECT -$1, a + $2, a -$3, a - $4, ($5)"),
            (
                "select 'it''s', E'a\\'b', $$x$$, $q$ $$ $q$, x'ff', .5, 1.5e-3, 1-2",
                "select $1, $2, $3, $4, $5, $6, $7, $8-$9",
            ),
            ("select $2 + 7, $1, t.\"a '1\"", "select $2 + $3, $1, t.\"a '1\""),
            ("a /* 1 /* 2 */ 3 */ b -- 4\nc", "a b c"),
            ("select a$1, b_2, é3, 'x'::t4", "select a$1, b_2, é3, $1::t4"),
            ("INSERT INTO t VALUES (1, 'ü'), (-2, NULL)", "INSERT INTO t VALUES ($1, $2), ($3, NULL)"),
            ("", ""),
        ] {
            assert_eq!(normal_of(text), expected, "{text}");
        }
    }

    #[test]
    fn broken_texts_end() {
        for text in ["'", "\"", "$$", "$a$ b", "/* /*", "E'\\", "--", "$", "1e", "é'", "'é", "/", "$é", "1.5.", "e'\\é"]
        {
            normal_of(text);
            normal_of(&format!("{text} {text}"));
        }
    }
}
