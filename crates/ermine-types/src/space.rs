//! Blanks in the texts of values.

/// Whether C's `isspace`, and so PostgreSQL, treats the character as blank.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}
