//! SQL/JSON paths, the type `jsonpath`: their trees, and texts. `functions::jsonpath` evaluates them.

mod parse;
mod write;

use crate::Numeric;

/// A path.
#[derive(Clone, PartialEq, Debug)]
pub struct JsonPath {
    /// Whether a step that does not fit the value is an error. Otherwise arrays are unwrapped, and other values count
    /// as arrays of themselves.
    pub is_strict: bool,
    /// The path.
    pub root: Node,
}

/// A part of a path: it maps an item to items, or is a predicate.
#[derive(Clone, PartialEq, Debug)]
pub enum Node {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// `$name`
    Variable(Box<str>),
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(Numeric),
    /// A string.
    String(Box<str>),
    /// A part, and the steps from its items to others.
    Steps(Box<Node>, Vec<Step>),
    /// `+`, `-` before an operand.
    Sign(bool, Box<Node>),
    /// An operator of arithmetic.
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    /// A comparison.
    Compare(Compare, Box<[Node; 2]>),
    /// `&&`
    And(Box<[Node; 2]>),
    /// `||`
    Or(Box<[Node; 2]>),
    /// `!`
    Not(Box<Node>),
    /// `is unknown`
    IsUnknown(Box<Node>),
    /// `exists`
    Exists(Box<Node>),
    /// `starts with`
    StartsWith(Box<[Node; 2]>),
    /// `like_regex`: the operand, the pattern, the flags.
    LikeRegex(Box<Node>, Box<str>, Box<str>),
}

/// A step of a path.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// `.key`
    Key(Box<str>),
    /// `.*`
    AnyKey,
    /// `[*]`
    AnyElement,
    /// `[1, 2 to 3]`
    Elements(Vec<(Node, Option<Node>)>),
    /// `.**{1 to 2}`: all values on some levels below; `None`: the last level.
    Levels(Option<u32>, Option<u32>),
    /// `?(..)`
    Filter(Box<Node>),
    /// `.type()` and its like.
    Method(Method),
}

/// A method without arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// `type`
    Type,
    /// `size`
    Size,
    /// `double`
    Double,
    /// `ceiling`
    Ceiling,
    /// `floor`
    Floor,
    /// `abs`
    Abs,
    /// `keyvalue`
    KeyValue,
}

/// The methods by their names.
const METHODS: [(&str, Method); 7] = [
    ("type", Method::Type),
    ("size", Method::Size),
    ("double", Method::Double),
    ("ceiling", Method::Ceiling),
    ("floor", Method::Floor),
    ("abs", Method::Abs),
    ("keyvalue", Method::KeyValue),
];

impl Method {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

/// An operator of arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

impl Arithmetic {
    /// Returns its sign.
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`, `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Compare {
    /// Returns its sign.
    pub fn name(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Node {
    /// Whether it is true, false or unknown, and no sequence of items.
    fn is_predicate(&self) -> bool {
        matches!(
            self,
            Self::Compare(..)
                | Self::And(_)
                | Self::Or(_)
                | Self::Not(_)
                | Self::IsUnknown(_)
                | Self::Exists(_)
                | Self::StartsWith(_)
                | Self::LikeRegex(..)
        )
    }

    /// How tightly its operator binds, from 0 on.
    fn priority(&self) -> u8 {
        match self {
            Self::Or(_) => 0,
            Self::And(_) => 1,
            Self::Compare(..) | Self::StartsWith(_) => 2,
            Self::Arithmetic(Arithmetic::Add | Arithmetic::Subtract, _) => 3,
            Self::Arithmetic(..) => 4,
            Self::Sign(..) => 5,
            _ => 6,
        }
    }
}
