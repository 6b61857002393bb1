//! The pieces of a pattern for points in time: words that stand for fields, and literal texts between them.

/// Case counts, because it determines how names are written. Of several words with the same beginning, the longest
/// wins.
const WORDS: [&str; 92] = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "D", "DAY", "DD", "DDD", "DY", "Day", "Dy", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "HH", "HH12", "HH24", "I", "ID", "IDDD", "IW", "IY", "IYY", "IYYY", "J", "MI", "MM",
    "MON", "MONTH", "MS", "Mon", "Month", "OF", "P.M.", "PM", "Q", "RM", "SS", "SSSS", "SSSSS", "TZ", "TZH", "TZM",
    "US", "W", "WW", "Y", "Y,YYY", "YY", "YYY", "YYYY", "a.d.", "a.m.", "ad", "am", "b.c.", "bc", "cc", "d", "day",
    "dd", "ddd", "dy", "hh", "hh12", "hh24", "j", "mi", "mm", "mon", "month", "ms", "of", "p.m.", "pm", "q", "rm",
    "ss", "ssss", "sssss", "tz", "us", "w", "ww", "y,yyy",
];
/// The words whose lower case means the same as their upper case; they are looked up in upper case.
const ALSO_LOWER: [&str; 19] = [
    "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "I", "ID", "IDDD", "IW", "IY", "IYY", "IYYY", "TZH", "TZM", "YYYY",
    "YYY", "YY",
];

/// A piece of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Word(Word),
    /// A sign or a blank, which matches any other when a text is read.
    Separator(char),
    Text(char),
}

/// A word with its prefix and suffix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) word: &'static str,
    /// `FM`: the field is not padded.
    pub(super) is_bare: bool,
    /// `TM`: a name in the language of the session, which is not padded either.
    pub(super) is_translated: bool,
    pub(super) suffix: Suffix,
}

impl Word {
    /// Returns the word in upper case.
    pub(super) fn upper(&self) -> String {
        self.word.to_ascii_uppercase()
    }
}

/// The suffix of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Suffix {
    None,
    Lower,
    Upper,
}

/// Returns the word at the front of a pattern.
fn word(pattern: &str) -> Option<&'static str> {
    let exact = WORDS.iter().filter(|word| pattern.starts_with(**word));
    let lower = ALSO_LOWER.iter().filter(|word| {
        let start = pattern.get(..word.len()).unwrap_or_default();
        start.eq_ignore_ascii_case(word) && !start.bytes().any(|byte| byte.is_ascii_uppercase())
    });
    let y = pattern.starts_with('y').then_some(&"Y");
    exact.chain(lower).chain(y).max_by_key(|word| word.len()).copied()
}

/// Returns the pieces of a pattern, in their order.
pub(super) fn pieces(pattern: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = pattern;
    loop {
        let prefix = rest.get(..2).filter(|prefix| ["FM", "fm", "TM", "tm"].contains(prefix)).unwrap_or_default();
        rest = &rest[prefix.len()..];
        let Some(first) = rest.chars().next() else { return pieces };
        if let Some(word) = word(rest) {
            rest = &rest[word.len()..];
            let suffix = match rest.get(..2) {
                Some("th") => Suffix::Lower,
                Some("TH") => Suffix::Upper,
                _ => Suffix::None,
            };
            // SP, for numbers as words, has no effect.
            if suffix != Suffix::None || rest.starts_with("SP") {
                rest = &rest[2..];
            }
            let (is_bare, is_translated) = (prefix.eq_ignore_ascii_case("FM"), prefix.eq_ignore_ascii_case("TM"));
            pieces.push(Piece::Word(Word { word, is_bare, is_translated, suffix }));
        } else if first == '"' {
            // Up to the next quote; a character behind a backslash is literal.
            let mut characters = rest[1..].chars();
            loop {
                match characters.next() {
                    None | Some('"') => break,
                    Some('\\') => pieces.push(Piece::Text(characters.next().unwrap_or('\\'))),
                    Some(character) => pieces.push(Piece::Text(character)),
                }
            }
            rest = characters.as_str();
        } else {
            rest = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
            let first = rest.chars().next().unwrap_or(first);
            rest = &rest[first.len_utf8()..];
            pieces.push(match is_separator(first) || first.is_ascii_whitespace() {
                true => Piece::Separator(first),
                false => Piece::Text(first),
            });
        }
    }
}

/// Whether it is a sign, which matches any other.
pub(super) fn is_separator(character: char) -> bool {
    character.is_ascii_graphic() && !character.is_ascii_alphanumeric()
}
