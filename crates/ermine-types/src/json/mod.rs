//! JSON in the form of `jsonb`: a tree, without the whitespace and duplicates of the text.
//!
//! Invariants
//! 1. An object's keys are unique and in `jsonb`'s order (shorter first, then by bytes); of several values given for a
//!    key, the last one stays.
//! 2. Numbers are exact and finite.
//! 3. Trees from outside are at most [`DEPTH_MAX`] deep, so that recursion over them is bounded; code that builds a
//!    tree from others calls [`Json::check_depth`].

pub mod jsonpath;
mod parse;
pub(crate) mod path;
pub(crate) mod raw;
pub(crate) mod write;

use std::cmp::Ordering;

use crate::error::{Result, SqlError, SqlState};

use super::Numeric;

/// The maximum nesting depth of arrays and objects.
pub const DEPTH_MAX: usize = 500;

/// A `jsonb` value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(Box<str>),
    /// An array.
    Array(Vec<Json>),
    /// An object: keys in order, each with its value.
    Object(Vec<(Box<str>, Json)>),
}

/// The error for nesting that is too deep.
pub(crate) fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .detail(format!("JSON is nested deeper than {DEPTH_MAX} levels."))
}

/// Compares keys inside an object, in `jsonb`'s order.
pub(crate) fn compare_keys(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

impl Json {
    /// Creates an object of these pairs; of several with one key, the last stays.
    pub fn object(mut pairs: Vec<(Box<str>, Json)>) -> Self {
        pairs.sort_by(|left, right| compare_keys(&left.0, &right.0));
        // The sort is stable: the last of equal keys is the one to keep.
        let mut kept: Vec<(Box<str>, Json)> = Vec::with_capacity(pairs.len());
        for pair in pairs {
            match kept.last_mut() {
                Some(last) if last.0 == pair.0 => *last = pair,
                _ => kept.push(pair),
            }
        }
        Self::Object(kept)
    }

    /// Creates a whole number.
    pub fn integer(number: i64) -> Self {
        Self::Number(number.into())
    }

    /// Creates a string.
    pub fn string(text: impl Into<Box<str>>) -> Self {
        Self::String(text.into())
    }

    /// Returns the value under a key of an object.
    pub fn get(&self, key: &str) -> Option<&Json> {
        let Self::Object(pairs) = self else { return None };
        let at = pairs.binary_search_by(|pair| compare_keys(&pair.0, key)).ok()?;
        Some(&pairs[at].1)
    }

    /// Returns an element of an array; negative positions count from the end.
    pub fn element(&self, at: i64) -> Option<&Json> {
        let Self::Array(elements) = self else { return None };
        elements.get(index_from_either_end(at, elements.len())?)
    }

    /// `object`, `array`, ..
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Whether it has neither elements nor keys.
    pub fn is_scalar(&self) -> bool {
        !matches!(self, Self::Array(_) | Self::Object(_))
    }

    fn is_deeper_than(&self, depth: usize) -> bool {
        match self {
            Self::Array(_) | Self::Object(_) if depth == 0 => true,
            Self::Array(elements) => elements.iter().any(|element| element.is_deeper_than(depth - 1)),
            Self::Object(pairs) => pairs.iter().any(|(_, value)| value.is_deeper_than(depth - 1)),
            _ => false,
        }
    }

    /// Fails if the value is nested too deep.
    pub fn check_depth(self) -> Result<Self> {
        if self.is_deeper_than(DEPTH_MAX) { Err(too_deep()) } else { Ok(self) }
    }

    /// Returns the rank among the types.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::String(_) => 1,
            Self::Number(_) => 2,
            Self::Bool(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) => 5,
        }
    }

    /// Compares in `jsonb`'s order. Empty arrays come first of all, a quirk that PostgreSQL keeps for its old indexes.
    pub fn order(&self, other: &Self) -> Ordering {
        let is_empty_array = |json: &Self| matches!(json, Self::Array(elements) if elements.is_empty());
        match (is_empty_array(self), is_empty_array(other)) {
            (true, true) => Ordering::Equal,
            (true, false) if !matches!(other, Self::Object(_)) => Ordering::Less,
            (false, true) if !matches!(self, Self::Object(_)) => Ordering::Greater,
            _ => self.order_inside(other),
        }
    }

    fn order_inside(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Number(left), Self::Number(right)) => left.order(right),
            (Self::String(left), Self::String(right)) => left.cmp(right),
            (Self::Array(left), Self::Array(right)) => left.len().cmp(&right.len()).then_with(|| {
                let mut orders = left.iter().zip(right).map(|(left, right)| left.order_inside(right));
                orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }),
            (Self::Object(left), Self::Object(right)) => left.len().cmp(&right.len()).then_with(|| {
                let mut orders = left
                    .iter()
                    .zip(right)
                    .map(|(left, right)| left.0.cmp(&right.0).then_with(|| left.1.order_inside(&right.1)));
                orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            }),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// Returns the index for a subscript that counts from the end if negative.
pub(crate) fn index_from_either_end(at: i64, length: usize) -> Option<usize> {
    match usize::try_from(at) {
        Ok(at) => Some(at),
        Err(_) => length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        text.parse().unwrap()
    }

    #[test]
    fn keys_are_normalized() {
        assert_eq!(json(r#"{"bb":1,"a":2,"c":3,"a":4}"#).to_string(), r#"{"a": 4, "c": 3, "bb": 1}"#);
        assert_eq!(json(r#"{"a":{"b":[1,2,{}]}}"#).get("a").unwrap().to_string(), r#"{"b": [1, 2, {}]}"#);
        assert_eq!(json("[1,2,3]").element(-1), Some(&Json::integer(3)));
        assert_eq!(json("[1,2,3]").element(-4), None);
    }

    #[test]
    fn order_is_jsonbs() {
        let sorted = [
            "[]",
            "null",
            r#""a""#,
            r#""b""#,
            "-1",
            "1.0",
            "2",
            "false",
            "true",
            "[2]",
            "[1, 1]",
            "{}",
            r#"{"a": 2}"#,
            r#"{"b": 1}"#,
            r#"{"a": 1, "b": 1}"#,
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(json(left).order(&json(right)), at.cmp(&other), "{left} {right}");
            }
        }
        assert_eq!(json("1").order(&json("1.00")), Ordering::Equal);
        assert_eq!(json("[[]]").order(&json("[null]")), Ordering::Greater);
    }
}
