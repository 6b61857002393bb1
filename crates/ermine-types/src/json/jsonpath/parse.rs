//! The parser of paths.

use std::str::FromStr;

use super::{Arithmetic, Compare, JsonPath, METHODS, Node, Step};
use crate::{
    Numeric,
    error::{Result, SqlError, SqlState},
    json::{DEPTH_MAX, Json},
};

/// A word or sign of a path.
#[derive(Clone, PartialEq, Debug)]
enum Token {
    /// A sign of one or two characters.
    Sign(&'static str),
    /// A name without quotes.
    Word(String),
    /// A text in quotes.
    String(String),
    /// `$name`
    Variable(String),
    Number(Numeric),
    End,
}

/// The signs, the longer ones first.
const SIGNS: [&str; 26] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "<", ">", "!", "=", "$", "@", ".", ",", "(", ")", "[", "]", "{",
    "}", "?", "*", "+", "-",
];
/// The other signs.
const MORE_SIGNS: [&str; 2] = ["/", "%"];

fn failure(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message.into())
}

struct Parser<'a> {
    text: &'a str,
    /// Behind the next token.
    at: usize,
    next: Token,
    /// Where the next token begins.
    start: usize,
    depth: usize,
    /// The number of filters and subscripts around.
    filters: usize,
    subscripts: usize,
}

impl FromStr for JsonPath {
    type Err = SqlError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0, next: Token::End, start: 0, depth: 0, filters: 0, subscripts: 0 };
        parser.advance()?;
        if parser.next == Token::End {
            let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        }
        let is_strict = parser.take_word("strict")?;
        if !is_strict {
            parser.take_word("lax")?;
        }
        let root = parser.any()?;
        match parser.next {
            Token::End => Ok(Self { is_strict, root }),
            _ => Err(parser.unexpected()),
        }
    }
}

impl Parser<'_> {
    fn unexpected(&self) -> SqlError {
        match &self.text[self.start..self.at] {
            "" => failure("syntax error at end of jsonpath input"),
            found => failure(format!("syntax error at or near \"{found}\" of jsonpath input")),
        }
    }

    /// Reads the next token.
    fn advance(&mut self) -> Result<()> {
        let blank = |rest: &str| rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']).len();
        loop {
            self.at += blank(&self.text[self.at..]);
            if !self.text[self.at..].starts_with("/*") {
                break;
            }
            let end = self.text[self.at + 2..].find("*/");
            self.at += end.ok_or_else(|| failure("unexpected end of comment of jsonpath input"))? + 4;
        }
        self.start = self.at;
        let rest = &self.text[self.at..];
        self.next = match rest.chars().next() {
            None => Token::End,
            Some('"') => Token::String(self.quoted()?),
            Some('$') => {
                self.at += 1;
                match self.text[self.at..].chars().next() {
                    Some('"') => Token::Variable(self.quoted()?),
                    Some(letter) if is_of_word(letter) => Token::Variable(self.word()),
                    _ => Token::Sign("$"),
                }
            }
            Some('0'..='9') => self.number()?,
            Some('.') if rest[1..].starts_with(|digit: char| digit.is_ascii_digit()) => self.number()?,
            Some(_) => match SIGNS.iter().chain(&MORE_SIGNS).find(|sign| rest.starts_with(**sign)) {
                Some(sign) => {
                    self.at += sign.len();
                    Token::Sign(sign)
                }
                None => Token::Word(self.word()),
            },
        };
        Ok(())
    }

    fn word(&mut self) -> String {
        let rest = &self.text[self.at..];
        let length = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let length = if length == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { length };
        self.at += length;
        rest[..length].to_owned()
    }

    /// Reads a text in quotes, which has the escapes of JSON, and some of JavaScript.
    fn quoted(&mut self) -> Result<String> {
        let rest = &self.text[self.at..];
        let mut end = 1;
        loop {
            match rest.as_bytes().get(end) {
                None => return Err(failure("unterminated quoted string of jsonpath input")),
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(_) => end += 1,
            }
        }
        let inner = rest.get(..=end).ok_or_else(|| failure("unterminated quoted string of jsonpath input"))?;
        self.at += end + 1;
        // Escapes that JSON does not have stand for the character behind the backslash.
        let mut json = String::with_capacity(inner.len());
        let mut letters = inner.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => match letters.next() {
                    Some(escaped @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')) => {
                        json.extend(['\\', escaped])
                    }
                    Some('v') => json.push_str("\\u000b"),
                    Some('x') => {
                        json.push_str("\\u00");
                        json.extend(letters.by_ref().take(2));
                    }
                    Some(other) => json.push(other),
                    None => {}
                },
                '\u{0}'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(letter))),
                letter => json.push(letter),
            }
        }
        match json.parse() {
            Ok(Json::String(text)) => Ok(text.into()),
            Ok(_) => Err(self.unexpected()),
            Err(_) => Err(failure(format!("invalid escape sequence of jsonpath input: {inner}"))),
        }
    }

    fn number(&mut self) -> Result<Token> {
        let rest = &self.text[self.at..];
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        let trailing = || failure("trailing junk after numeric literal of jsonpath input");
        if end > 1 && rest.starts_with('0') {
            return Err(trailing());
        }
        if rest[end..].starts_with('.') && !rest[end..].starts_with(".*") {
            let fraction = digits(end + 1);
            if fraction > 0 || end > 0 && !rest[end + 1..].starts_with(is_of_word) {
                end += 1 + fraction;
            }
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent = digits(end + 1 + sign);
            if exponent == 0 {
                return Err(trailing());
            }
            end += 1 + sign + exponent;
        }
        if rest[end..].starts_with(is_of_word) {
            return Err(trailing());
        }
        self.at += end;
        Ok(Token::Number(rest[..end].parse()?))
    }

    fn is_word(&self, wanted: &str) -> bool {
        matches!(&self.next, Token::Word(word) if word.eq_ignore_ascii_case(wanted))
    }

    fn take_word(&mut self, wanted: &str) -> Result<bool> {
        let is_next = self.is_word(wanted);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn take(&mut self, sign: &str) -> Result<bool> {
        let is_next = matches!(self.next, Token::Sign(next) if next == sign);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.take(sign)? { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Parses an expression or a predicate.
    fn any(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX / 10 {
            return Err(super::super::too_deep());
        }
        let mut left = self.and()?;
        while self.take("||")? {
            let right = self.and()?;
            left = Node::Or(self.predicates(left, right)?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn predicates(&self, left: Node, right: Node) -> Result<Box<[Node; 2]>> {
        match left.is_predicate() && right.is_predicate() {
            true => Ok(Box::new([left, right])),
            false => Err(self.unexpected()),
        }
    }

    fn operands(&self, left: Node, right: Node) -> Result<Box<[Node; 2]>> {
        match left.is_predicate() || right.is_predicate() {
            true => Err(self.unexpected()),
            false => Ok(Box::new([left, right])),
        }
    }

    fn and(&mut self) -> Result<Node> {
        let mut left = self.comparison()?;
        while self.take("&&")? {
            let right = self.comparison()?;
            left = Node::And(self.predicates(left, right)?);
        }
        Ok(left)
    }

    fn comparison(&mut self) -> Result<Node> {
        if self.take("!")? {
            // Only what has parentheses can be negated.
            let is_delimited = matches!(self.next, Token::Sign("(")) || self.is_word("exists");
            let operand = if is_delimited { self.primary()? } else { return Err(self.unexpected()) };
            return if operand.is_predicate() { Ok(Node::Not(Box::new(operand))) } else { Err(self.unexpected()) };
        }
        let left = self.sum()?;
        let compare = match self.next {
            Token::Sign("==" | "=") => Compare::Equal,
            Token::Sign("!=" | "<>") => Compare::NotEqual,
            Token::Sign("<") => Compare::Less,
            Token::Sign("<=") => Compare::LessOrEqual,
            Token::Sign(">") => Compare::Greater,
            Token::Sign(">=") => Compare::GreaterOrEqual,
            _ => return self.predicate_behind(left),
        };
        self.advance()?;
        let right = self.sum()?;
        Ok(Node::Compare(compare, self.operands(left, right)?))
    }

    /// Parses what makes an operand a predicate, if it comes next.
    fn predicate_behind(&mut self, left: Node) -> Result<Node> {
        if self.take_word("starts")? {
            if !self.take_word("with")? {
                return Err(self.unexpected());
            }
            let right = match self.next.clone() {
                Token::String(text) => Node::String(text.into()),
                Token::Variable(name) => Node::Variable(name.into()),
                _ => return Err(self.unexpected()),
            };
            self.advance()?;
            return Ok(Node::StartsWith(self.operands(left, right)?));
        }
        if !left.is_predicate() && self.take_word("like_regex")? {
            let pattern = self.string()?;
            let flags = if self.take_word("flag")? { self.string()? } else { String::new() };
            let mut known = String::new();
            for flag in flags.chars() {
                match flag {
                    'i' | 's' | 'm' | 'q' if known.contains(flag) => {}
                    'i' | 's' | 'm' | 'q' => known.push(flag),
                    'x' => {
                        let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
                        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                    other => {
                        let message = "invalid input syntax for type jsonpath";
                        let detail = format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.");
                        return Err(failure(message).detail(detail));
                    }
                }
            }
            // In PostgreSQL's order.
            let flags: String = ['i', 's', 'm', 'q'].into_iter().filter(|flag| known.contains(*flag)).collect();
            return Ok(Node::LikeRegex(Box::new(left), pattern.into(), flags.into()));
        }
        Ok(left)
    }

    fn string(&mut self) -> Result<String> {
        let Token::String(text) = self.next.clone() else { return Err(self.unexpected()) };
        self.advance()?;
        Ok(text)
    }

    fn sum(&mut self) -> Result<Node> {
        let mut left = self.product()?;
        loop {
            let operator = match self.next {
                Token::Sign("+") => Arithmetic::Add,
                Token::Sign("-") => Arithmetic::Subtract,
                _ => return Ok(left),
            };
            self.advance()?;
            let right = self.product()?;
            left = Node::Arithmetic(operator, self.operands(left, right)?);
        }
    }

    fn product(&mut self) -> Result<Node> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.next {
                Token::Sign("*") => Arithmetic::Multiply,
                Token::Sign("/") => Arithmetic::Divide,
                Token::Sign("%") => Arithmetic::Remainder,
                _ => return Ok(left),
            };
            self.advance()?;
            let right = self.signed()?;
            left = Node::Arithmetic(operator, self.operands(left, right)?);
        }
    }

    fn signed(&mut self) -> Result<Node> {
        let is_negative = match self.next {
            Token::Sign("-") => true,
            Token::Sign("+") => false,
            _ => return self.primary(),
        };
        self.advance()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX / 10 {
            return Err(super::super::too_deep());
        }
        let operand = self.signed()?;
        self.depth -= 1;
        if operand.is_predicate() {
            return Err(self.unexpected());
        }
        Ok(Node::Sign(is_negative, Box::new(operand)))
    }

    /// Parses a primary with its steps.
    fn primary(&mut self) -> Result<Node> {
        let (base, is_delimited) = match self.next.clone() {
            Token::Sign("(") => {
                self.advance()?;
                let inner = self.any()?;
                self.expect(")")?;
                if inner.is_predicate() && self.take_word("is")? {
                    if !self.take_word("unknown")? {
                        return Err(self.unexpected());
                    }
                    return Ok(Node::IsUnknown(Box::new(inner)));
                }
                (inner, true)
            }
            Token::Word(word) if word.eq_ignore_ascii_case("exists") => {
                self.advance()?;
                self.expect("(")?;
                let inner = self.any()?;
                self.expect(")")?;
                if inner.is_predicate() {
                    return Err(self.unexpected());
                }
                return Ok(Node::Exists(Box::new(inner)));
            }
            _ => (self.scalar()?, false),
        };
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        match (base, steps.is_empty()) {
            (base, true) => Ok(base),
            (Node::Steps(base, mut before), false) if is_delimited => {
                before.extend(steps);
                Ok(Node::Steps(base, before))
            }
            (base, false) => Ok(Node::Steps(Box::new(base), steps)),
        }
    }

    fn scalar(&mut self) -> Result<Node> {
        let node = match &self.next {
            Token::Sign("$") => Node::Root,
            Token::Sign("@") if self.filters == 0 => {
                return Err(failure("@ is not allowed in root expressions"));
            }
            Token::Sign("@") => Node::Current,
            Token::Variable(name) => Node::Variable(name.as_str().into()),
            Token::String(text) => Node::String(text.as_str().into()),
            Token::Number(number) => Node::Number(number.clone()),
            Token::Word(word) => match &*word.to_ascii_lowercase() {
                // These are words in lower case only.
                "null" if word == "null" => Node::Null,
                "true" if word == "true" => Node::Bool(true),
                "false" if word == "false" => Node::Bool(false),
                "last" if self.subscripts == 0 => {
                    return Err(failure("LAST is allowed only in array subscripts"));
                }
                "last" => Node::Last,
                _ => return Err(self.unexpected()),
            },
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        Ok(node)
    }

    fn step(&mut self) -> Result<Option<Step>> {
        if self.take("?")? {
            self.expect("(")?;
            self.filters += 1;
            let condition = self.any()?;
            self.filters -= 1;
            self.expect(")")?;
            if !condition.is_predicate() {
                return Err(self.unexpected());
            }
            return Ok(Some(Step::Filter(Box::new(condition))));
        }
        if self.take("[")? {
            if self.take("*")? {
                self.expect("]")?;
                return Ok(Some(Step::AnyElement));
            }
            let mut ranges = Vec::new();
            self.subscripts += 1;
            loop {
                let from = self.subscript()?;
                let to = if self.take_word("to")? { Some(self.subscript()?) } else { None };
                ranges.push((from, to));
                if !self.take(",")? {
                    break;
                }
            }
            self.subscripts -= 1;
            self.expect("]")?;
            return Ok(Some(Step::Elements(ranges)));
        }
        if !self.take(".")? {
            return Ok(None);
        }
        if self.take("*")? {
            return Ok(Some(Step::AnyKey));
        }
        if self.take("**")? {
            return self.levels().map(Some);
        }
        let (key, is_word) = match self.next.clone() {
            Token::Word(word) => (word, true),
            Token::String(text) => (text, false),
            _ => return Err(self.unexpected()),
        };
        self.advance()?;
        if !is_word || !self.take("(")? {
            return Ok(Some(Step::Key(key.into())));
        }
        if key == "datetime" {
            return Err(SqlError::unsupported("the method .datetime() of jsonpath"));
        }
        self.expect(")")?;
        let found = METHODS.iter().find(|(name, _)| *name == key);
        Ok(Some(Step::Method(found.ok_or_else(|| self.unexpected())?.1)))
    }

    fn subscript(&mut self) -> Result<Node> {
        let node = self.sum()?;
        if node.is_predicate() { Err(self.unexpected()) } else { Ok(node) }
    }

    fn levels(&mut self) -> Result<Step> {
        if !self.take("{")? {
            return Ok(Step::Levels(Some(0), None));
        }
        let from = self.level()?;
        let to = if self.take_word("to")? { self.level()? } else { from };
        self.expect("}")?;
        Ok(Step::Levels(from, to))
    }

    fn level(&mut self) -> Result<Option<u32>> {
        if self.take_word("last")? {
            return Ok(None);
        }
        let level = match &self.next {
            Token::Number(number) if number.scale() == 0 => {
                number.to_i32().ok().and_then(|level| level.try_into().ok())
            }
            _ => None,
        };
        let level = level.ok_or_else(|| self.unexpected())?;
        self.advance()?;
        Ok(Some(level))
    }
}

fn is_of_word(letter: char) -> bool {
    !" \t\n\r\u{c}?%$.[]{}()|&!=<>@#,*:-+/\"\\".contains(letter)
}
