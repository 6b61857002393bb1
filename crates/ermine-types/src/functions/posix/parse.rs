//! The parser of regular expressions: PostgreSQL's advanced ones (its documentation, 9.7.3).

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

use super::invalid;
use crate::error::{Result, SqlError};

/// The maximum nesting depth of groups.
const DEPTH_MAX: usize = 100;
/// The greatest number in braces.
const COUNT_MAX: u32 = 255;

/// The options of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flags {
    pub(crate) ignore_case: bool,
    /// Blanks and comments are ignored.
    pub(crate) is_expanded: bool,
    /// `.` and complements do not match the end of a line.
    pub(crate) stops_at_lines: bool,
    /// `^` and `$` match at the beginnings and ends of lines.
    pub(crate) anchors_at_lines: bool,
    /// The expression is a literal text.
    pub(crate) is_literal: bool,
    pub(crate) is_global: bool,
    /// Only characters of ASCII are in classes and have two cases, as under the collation C.
    pub(crate) is_ascii: bool,
}

impl Flags {
    /// Parses the option letters of functions.
    pub(crate) fn parse(letters: &str, is_ascii: bool) -> Result<Self> {
        let mut flags = Self { is_ascii, ..Self::default() };
        for letter in letters.chars() {
            match letter {
                'g' => flags.is_global = true,
                letter if flags.set(letter)? => {}
                other => {
                    let message = format!("invalid regular expression option: \"{other}\"");
                    return Err(SqlError::new(crate::error::SqlState::INVALID_PARAMETER_VALUE, message));
                }
            }
        }
        Ok(flags)
    }

    /// Sets the option of a letter; returns false if the letter has none.
    fn set(&mut self, letter: char) -> Result<bool> {
        match letter {
            'i' => self.ignore_case = true,
            'c' => self.ignore_case = false,
            'x' => self.is_expanded = true,
            't' => self.is_expanded = false,
            'n' | 'm' => (self.stops_at_lines, self.anchors_at_lines) = (true, true),
            'p' => (self.stops_at_lines, self.anchors_at_lines) = (true, false),
            'w' => (self.stops_at_lines, self.anchors_at_lines) = (false, true),
            's' => (self.stops_at_lines, self.anchors_at_lines) = (false, false),
            'q' => self.is_literal = true,
            'b' | 'e' => return Err(SqlError::unsupported(format_args!("the regular expression option \"{letter}\""))),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A part of an expression.
#[derive(Debug)]
pub(super) enum Node {
    /// One character.
    Set(ClassUnicode),
    Look(Look),
    Concat(Vec<Node>),
    /// The first alternative that matches a stretch of text takes it.
    Alternate(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        /// `None`: a fixed count, with the preference of its operand.
        is_greedy: Option<bool>,
    },
    /// A group, by its number from 1 on.
    Group(usize, Box<Node>),
}

impl Node {
    pub(super) fn empty() -> Self {
        Self::Concat(Vec::new())
    }

    /// Whether it prefers the longest match, or the shortest; `None`: it has no choice.
    pub(super) fn is_greedy(&self) -> Option<bool> {
        match self {
            Self::Set(_) | Self::Look(_) => None,
            Self::Concat(parts) => parts.iter().find_map(Self::is_greedy),
            Self::Alternate(_) => Some(true),
            Self::Repeat { node, is_greedy, .. } => is_greedy.or_else(|| node.is_greedy()),
            Self::Group(_, inner) => inner.is_greedy(),
        }
    }

    pub(super) fn has_groups(&self) -> bool {
        match self {
            Self::Set(_) | Self::Look(_) => false,
            Self::Concat(parts) | Self::Alternate(parts) => parts.iter().any(Self::has_groups),
            Self::Repeat { node, .. } => node.has_groups(),
            Self::Group(..) => true,
        }
    }

    /// Returns the expression for the search; it does not determine which of several matches is taken.
    pub(super) fn to_hir(&self) -> Hir {
        match self {
            Self::Set(set) => Hir::class(Class::Unicode(set.clone())),
            Self::Look(look) => Hir::look(*look),
            Self::Concat(parts) => Hir::concat(parts.iter().map(Self::to_hir).collect()),
            Self::Alternate(parts) => Hir::alternation(parts.iter().map(Self::to_hir).collect()),
            Self::Repeat { node, min, max, .. } => {
                Hir::repetition(Repetition { min: *min, max: *max, greedy: true, sub: Box::new(node.to_hir()) })
            }
            Self::Group(_, inner) => inner.to_hir(),
        }
    }
}

/// Returns the tree of an expression, and the number of its groups.
pub(super) fn parse(pattern: &str, flags: Flags) -> Result<(Node, usize)> {
    let mut parser = Parser { text: pattern.chars().collect(), at: 0, flags, groups: 0, depth: 0 };
    parser.options()?;
    if parser.flags.is_literal {
        let literals = parser.text[parser.at..].iter().map(|literal| parser.literal(*literal));
        return Ok((Node::Concat(literals.collect()), 0));
    }
    let node = parser.alternation()?;
    match parser.peek() {
        None => Ok((node, parser.groups)),
        Some(_) => Err(unbalanced()),
    }
}

fn unbalanced() -> SqlError {
    invalid("parentheses () not balanced")
}

struct Parser {
    text: Vec<char>,
    at: usize,
    flags: Flags,
    groups: usize,
    depth: usize,
}

/// The meaning of an escape.
enum Escape {
    Character(char),
    Set(ClassUnicode),
    Look(Look),
}

impl Parser {
    /// Parses the options at the beginning of the text.
    fn options(&mut self) -> Result<()> {
        if self.eat("***=") {
            self.flags.is_literal = true;
            return Ok(());
        }
        if !self.eat("***:") && self.rest().starts_with(&['*', '*', '*']) {
            return Err(invalid("quantifier operand invalid"));
        }
        if self.rest().starts_with(&['(', '?']) && self.rest().get(2).is_some_and(|letter| letter.is_ascii_alphabetic())
        {
            self.at += 2;
            loop {
                match self.next() {
                    Some(')') => break,
                    Some(letter) if letter.is_ascii_alphabetic() && self.flags.set(letter)? => {}
                    _ => return Err(invalid("invalid embedded option")),
                }
            }
        }
        Ok(())
    }

    fn rest(&self) -> &[char] {
        &self.text[self.at..]
    }

    fn next(&mut self) -> Option<char> {
        let next = self.text.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    fn eat(&mut self, wanted: &str) -> bool {
        let found = wanted.chars().enumerate().all(|(at, wanted)| self.rest().get(at) == Some(&wanted));
        if found {
            self.at += wanted.chars().count();
        }
        found
    }

    /// Returns the next significant character.
    fn peek(&mut self) -> Option<char> {
        if self.flags.is_expanded {
            self.skip_blanks();
        }
        // Comments may be anywhere.
        while self.rest().starts_with(&['(', '?', '#']) {
            let end = self.rest().iter().position(|character| *character == ')');
            self.at = end.map_or(self.text.len(), |end| self.at + end + 1);
            if self.flags.is_expanded {
                self.skip_blanks();
            }
        }
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.rest().iter().take_while(|character| character.is_whitespace()).count();
            self.at += blanks;
            if self.rest().first() != Some(&'#') {
                return;
            }
            self.at += self.rest().iter().take_while(|character| **character != '\n').count();
        }
    }

    fn alternation(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = vec![self.branch()?];
        while self.peek() == Some('|') {
            self.at += 1;
            branches.push(self.branch()?);
        }
        self.depth -= 1;
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternate(branches) })
    }

    fn branch(&mut self) -> Result<Node> {
        let mut parts = Vec::new();
        while let Some(character) = self.peek()
            && !matches!(character, '|' | ')')
        {
            let atom = self.atom()?;
            parts.push(self.quantified(atom)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Concat(parts) })
    }

    fn atom(&mut self) -> Result<Node> {
        let Some(character) = self.next() else { return Ok(Node::empty()) };
        Ok(match character {
            '(' if self.eat("?:") => self.group_end()?,
            '(' if self.rest().first() == Some(&'?') => {
                let what: String = self.rest().iter().take(3).collect();
                let is_look = ["?=", "?!", "?<=", "?<!"].iter().any(|look| what.starts_with(look));
                return Err(match is_look {
                    true => SqlError::unsupported("looking ahead or behind in a regular expression"),
                    false => invalid("quantifier operand invalid"),
                });
            }
            '(' => {
                self.groups += 1;
                let number = self.groups;
                Node::Group(number, Box::new(self.group_end()?))
            }
            '^' if self.flags.anchors_at_lines => Node::Look(Look::StartLF),
            '^' => Node::Look(Look::Start),
            '$' if self.flags.anchors_at_lines => Node::Look(Look::EndLF),
            '$' => Node::Look(Look::End),
            '.' => Node::Set(self.complement(ClassUnicode::empty())),
            '[' if self.eat("[:<:]]") => Node::Look(self.word(Look::WordStartUnicode, Look::WordStartAscii)),
            '[' if self.eat("[:>:]]") => Node::Look(self.word(Look::WordEndUnicode, Look::WordEndAscii)),
            '[' => Node::Set(self.bracket()?),
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.rest().first().is_some_and(char::is_ascii_digit) => {
                return Err(invalid("quantifier operand invalid"));
            }
            '\\' => match self.escape()? {
                Escape::Character(character) => self.literal(character),
                Escape::Set(set) => Node::Set(set),
                Escape::Look(look) => Node::Look(look),
            },
            character => self.literal(character),
        })
    }

    fn group_end(&mut self) -> Result<Node> {
        let inner = self.alternation()?;
        if self.peek() != Some(')') {
            return Err(unbalanced());
        }
        self.at += 1;
        Ok(inner)
    }

    fn literal(&self, character: char) -> Node {
        Node::Set(self.folded(ClassUnicode::new([ClassUnicodeRange::new(character, character)])))
    }

    fn folded(&self, mut set: ClassUnicode) -> ClassUnicode {
        if self.flags.ignore_case && self.flags.is_ascii {
            let mut letters = set.clone();
            letters.intersect(&ascii());
            letters.case_fold_simple();
            letters.intersect(&ascii());
            set.union(&letters);
        } else if self.flags.ignore_case {
            set.case_fold_simple();
        }
        set
    }

    /// Returns the characters of a class.
    fn class(&self, name: &str) -> Result<ClassUnicode> {
        let mut set = class(name)?;
        if self.flags.is_ascii {
            set.intersect(&ascii());
        }
        Ok(set)
    }

    /// Returns the assertion about words that fits the collation.
    fn word(&self, unicode: Look, in_ascii: Look) -> Look {
        if self.flags.is_ascii { in_ascii } else { unicode }
    }

    /// Returns all characters but these, and without ends of lines where those are not matched.
    fn complement(&self, mut set: ClassUnicode) -> ClassUnicode {
        if self.flags.stops_at_lines {
            set.push(ClassUnicodeRange::new('\n', '\n'));
        }
        set.negate();
        set
    }

    /// Parses the quantifier behind an atom.
    fn quantified(&mut self, atom: Node) -> Result<Node> {
        let Some((min, max, is_fixed)) = self.quantifier()? else { return Ok(atom) };
        if matches!(atom, Node::Look(_)) {
            return Err(invalid("quantifier operand invalid"));
        }
        let is_shortest = self.eat("?");
        if self.quantifier()?.is_some() {
            return Err(invalid("quantifier operand invalid"));
        }
        let is_greedy = (!is_fixed).then_some(!is_shortest);
        Ok(Node::Repeat { node: Box::new(atom), min, max, is_greedy })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>, bool)>> {
        let counts = match self.peek() {
            Some('*') => (0, None, false),
            Some('+') => (1, None, false),
            Some('?') => (0, Some(1), false),
            Some('{') if self.rest().get(1).is_some_and(char::is_ascii_digit) => {
                self.at += 1;
                let min = self.number()?;
                let (max, is_fixed) = match self.eat(",") {
                    false => (Some(min), true),
                    true if self.rest().first().is_some_and(char::is_ascii_digit) => (Some(self.number()?), false),
                    true => (None, false),
                };
                if max.is_some_and(|max| max < min) || self.rest().first() != Some(&'}') {
                    return Err(invalid("invalid repetition count(s)"));
                }
                (min, max, is_fixed)
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(counts))
    }

    fn number(&mut self) -> Result<u32> {
        let mut number = 0;
        while let Some(digit) = self.rest().first().and_then(|digit| digit.to_digit(10)) {
            number = number * 10 + digit;
            self.at += 1;
            if number > COUNT_MAX {
                return Err(invalid("invalid repetition count(s)"));
            }
        }
        Ok(number)
    }

    fn escape(&mut self) -> Result<Escape> {
        let unknown = || invalid("invalid escape \\ sequence");
        let character = self.next().ok_or_else(unknown)?;
        let class = |name: &str, negated: bool| -> Result<Escape> {
            let mut set = self.class(name)?;
            if negated {
                set.negate();
            }
            Ok(Escape::Set(set))
        };
        Ok(match character {
            'd' | 'D' => return class("digit", character == 'D'),
            's' | 'S' => return class("space", character == 'S'),
            'w' | 'W' => return class("word", character == 'W'),
            'A' => Escape::Look(Look::Start),
            'Z' => Escape::Look(Look::End),
            'm' => Escape::Look(self.word(Look::WordStartUnicode, Look::WordStartAscii)),
            'M' => Escape::Look(self.word(Look::WordEndUnicode, Look::WordEndAscii)),
            'y' => Escape::Look(self.word(Look::WordUnicode, Look::WordAscii)),
            'Y' => Escape::Look(self.word(Look::WordUnicodeNegate, Look::WordAsciiNegate)),
            'a' => Escape::Character('\u{7}'),
            'b' => Escape::Character('\u{8}'),
            'B' => Escape::Character('\\'),
            'c' => {
                let control = self.next().ok_or_else(unknown)?;
                Escape::Character(char::from_u32(u32::from(control) & 0x1f).ok_or_else(unknown)?)
            }
            'e' => Escape::Character('\u{1b}'),
            'f' => Escape::Character('\u{c}'),
            'n' => Escape::Character('\n'),
            'r' => Escape::Character('\r'),
            't' => Escape::Character('\t'),
            'v' => Escape::Character('\u{b}'),
            'u' => Escape::Character(self.code(16, 4, 4)?),
            'U' => Escape::Character(self.code(16, 8, 8)?),
            'x' => Escape::Character(self.code(16, 1, 255)?),
            '1'..='9' => return Err(SqlError::unsupported("a back reference in a regular expression")),
            '0' => {
                self.at -= 1;
                Escape::Character(self.code(8, 1, 3)?)
            }
            other if other.is_ascii_alphanumeric() => return Err(unknown()),
            other => Escape::Character(other),
        })
    }

    /// Parses a character given by its number.
    fn code(&mut self, base: u32, digits_min: usize, digits_max: usize) -> Result<char> {
        let (mut code, mut digits) = (0u32, 0);
        while digits < digits_max
            && let Some(digit) = self.rest().first().and_then(|digit| digit.to_digit(base))
        {
            code = code.saturating_mul(base).saturating_add(digit);
            digits += 1;
            self.at += 1;
        }
        let character = if digits < digits_min { None } else { char::from_u32(code) };
        character.ok_or_else(|| invalid("invalid escape \\ sequence"))
    }

    /// Parses a bracket expression, whose opening bracket has been consumed.
    fn bracket(&mut self) -> Result<ClassUnicode> {
        let unbalanced = || invalid("brackets [] not balanced");
        let is_complement = self.eat("^");
        let mut set = ClassUnicode::empty();
        let mut is_first = true;
        loop {
            let character = self.next().ok_or_else(unbalanced)?;
            if character == ']' && !is_first {
                break;
            }
            is_first = false;
            let from = match character {
                '[' if self.eat(":") => {
                    let name = self.name(":]")?;
                    set.union(&self.class(&name)?);
                    continue;
                }
                '\\' => match self.escape()? {
                    Escape::Character(character) => character,
                    Escape::Set(inner) => {
                        set.union(&inner);
                        continue;
                    }
                    Escape::Look(_) => return Err(invalid("invalid escape \\ sequence")),
                },
                '-' if !matches!(self.rest().first(), Some(']')) && !set.ranges().is_empty() => {
                    return Err(invalid("invalid character range"));
                }
                character => self.element(character)?,
            };
            let is_range = self.rest().first() == Some(&'-') && self.rest().get(1).is_some_and(|next| *next != ']');
            let to = if is_range {
                self.at += 1;
                match self.next().ok_or_else(unbalanced)? {
                    '\\' => match self.escape()? {
                        Escape::Character(character) => character,
                        Escape::Set(_) | Escape::Look(_) => return Err(invalid("invalid character range")),
                    },
                    character => self.element(character)?,
                }
            } else {
                from
            };
            if to < from {
                return Err(invalid("invalid character range"));
            }
            set.push(ClassUnicodeRange::new(from, to));
        }
        let set = self.folded(set);
        Ok(if is_complement { self.complement(set) } else { set })
    }

    /// Parses a character in brackets, which may be named as a collating element.
    fn element(&mut self, character: char) -> Result<char> {
        let end = match self.rest().first() {
            Some('.') if character == '[' => ".]",
            Some('=') if character == '[' => "=]",
            _ => return Ok(character),
        };
        self.at += 1;
        let name = self.name(end)?;
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => Ok(character),
            _ => Err(invalid("invalid collating element")),
        }
    }

    /// Returns the text before an end mark, and consumes both.
    fn name(&mut self, end: &str) -> Result<String> {
        let mut name = String::new();
        while !self.eat(end) {
            name.push(self.next().ok_or_else(|| invalid("brackets [] not balanced"))?);
        }
        Ok(name)
    }
}

fn ascii() -> ClassUnicode {
    ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')])
}

/// Returns the characters of a class.
fn class(name: &str) -> Result<ClassUnicode> {
    let properties = match name {
        "alpha" => r"\p{Alphabetic}",
        "upper" => r"\p{Uppercase}",
        "lower" => r"\p{Lowercase}",
        "digit" => "[0-9]",
        "xdigit" => "[0-9A-Fa-f]",
        "alnum" => r"[\p{Alphabetic}0-9]",
        "word" => r"[\p{Alphabetic}0-9_]",
        "punct" => r"[\p{P}\p{S}]",
        "space" => r"\s",
        "blank" => r"[ \t]",
        "graph" => r"[^\s\p{C}]",
        "print" => r"[^\p{C}]",
        "cntrl" => r"\p{Cc}",
        "ascii" => r"[\x00-\x7F]",
        _ => return Err(invalid("invalid character class")),
    };
    let hir = regex_syntax::parse(properties).map_err(|error| invalid(&error.to_string()))?;
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(set)) => Ok(set),
        _ => Err(invalid("invalid character class")),
    }
}
