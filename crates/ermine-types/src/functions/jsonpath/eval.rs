//! Evaluates SQL/JSON paths: `@?`, `@@`, `jsonb_path_query` and their like.
//!
//! A part of a path passes the items that it finds on, one after the other, so that a test of existence ends with the
//! first. Errors of the path can be suppressed; others, as of missing variables, cannot.

use std::{cell::RefCell, cmp::Ordering, ops::ControlFlow, rc::Rc};

use crate::{
    Environment, Json, Numeric, SqlType, Value,
    error::{Result, SqlError, SqlState},
    functions::posix::{Flags, Posix},
    json::jsonpath::{Arithmetic, Compare, JsonPath, Method, Node, Step},
};

/// An error of a path, and whether `silent` suppresses it.
pub(super) struct Failure {
    pub(super) error: SqlError,
    pub(super) is_silent: bool,
}

type Found = std::result::Result<ControlFlow<()>, Failure>;
type Each<'e> = dyn FnMut(&Json) -> Found + 'e;

impl From<SqlError> for Failure {
    fn from(error: SqlError) -> Self {
        Self { error, is_silent: false }
    }
}

fn failed(state: &'static str, message: impl Into<String>) -> Failure {
    Failure { error: SqlError::new(SqlState(state), message.into()), is_silent: true }
}

const CONTINUE: Found = Ok(ControlFlow::Continue(()));

/// The paths used most recently, the latest first, by their texts.
const CACHED_MAX: usize = 8;

thread_local! {
    static CACHE: RefCell<Vec<(Box<str>, Rc<JsonPath>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the path of a text.
pub(super) fn path(text: &str) -> Result<Rc<JsonPath>> {
    let cached = CACHE.with_borrow_mut(|cache| {
        let at = cache.iter().position(|entry| *entry.0 == *text)?;
        cache[..=at].rotate_right(1);
        Some(Rc::clone(&cache[0].1))
    });
    if let Some(known) = cached {
        return Ok(known);
    }
    let parsed: Rc<JsonPath> = Rc::new(text.parse()?);
    CACHE.with_borrow_mut(|cache| {
        cache.truncate(CACHED_MAX - 1);
        cache.insert(0, (text.into(), Rc::clone(&parsed)));
    });
    Ok(parsed)
}

/// The circumstances of a path.
pub(super) struct Evaluation<'a> {
    pub(super) path: &'a JsonPath,
    pub(super) root: &'a Json,
    pub(super) variables: Option<&'a Json>,
    pub(super) environment: &'a Environment,
}

/// The item that parts refer to, and how steps treat what does not fit.
#[derive(Clone, Copy)]
struct Context<'a> {
    /// `@`
    current: &'a Json,
    /// The length of the array in whose subscripts the part is.
    length: Option<usize>,
    /// Whether steps that do not fit the value lead nowhere in strict mode, too: behind `.**`.
    is_lenient: bool,
}

impl Evaluation<'_> {
    /// Passes on the items of the path.
    pub(super) fn run(&self, each: &mut Each<'_>) -> Found {
        self.node(&self.path.root, Context { current: self.root, length: None, is_lenient: false }, each)
    }

    fn is_lax(&self) -> bool {
        !self.path.is_strict
    }

    /// Passes on the items of a part; a predicate is a single one.
    fn node(&self, node: &Node, context: Context<'_>, each: &mut Each<'_>) -> Found {
        self.environment.check()?;
        match node {
            Node::Root => each(self.root),
            Node::Current => each(context.current),
            Node::Last => match context.length {
                Some(length) => each(&Json::integer(length as i64 - 1)),
                None => CONTINUE,
            },
            Node::Null => each(&Json::Null),
            Node::Bool(value) => each(&Json::Bool(*value)),
            Node::Number(number) => each(&Json::Number(number.clone())),
            Node::String(text) => each(&Json::String(text.clone())),
            Node::Variable(name) => each(self.variable(name)?),
            Node::Steps(base, steps) => {
                self.node(base, context, &mut |item| self.steps(steps, item, (context, true), each))
            }
            Node::Sign(is_negative, operand) => {
                let mut all = Vec::new();
                self.unwrapped(operand, context, &mut all)?;
                for item in all {
                    let Json::Number(number) = item else {
                        let sign = if *is_negative { '-' } else { '+' };
                        let message = format!("operand of unary jsonpath operator {sign} is not a numeric value");
                        return Err(failed("2203B", message));
                    };
                    if each(&Json::Number(if *is_negative { number.negate() } else { number }))?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                CONTINUE
            }
            Node::Arithmetic(operator, operands) => each(&Json::Number(self.arithmetic(*operator, operands, context)?)),
            predicate => each(&self.predicate(predicate, context)?.map_or(Json::Null, Json::Bool)),
        }
    }

    fn variable(&self, name: &str) -> Result<&Json> {
        let found = self.variables.and_then(|variables| variables.get(name));
        found.ok_or_else(|| {
            let message = format!("could not find jsonpath variable \"{name}\"");
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })
    }

    /// Collects the items of a part; in lax mode arrays are their elements.
    fn unwrapped(&self, node: &Node, context: Context<'_>, all: &mut Vec<Json>) -> std::result::Result<(), Failure> {
        let mut bytes = 0;
        let _ = self.node(node, context, &mut |item| {
            match item {
                Json::Array(elements) if self.is_lax() => all.extend(elements.iter().cloned()),
                item => all.push(item.clone()),
            }
            bytes += size_of::<Json>() + item.text_bytes();
            self.environment.memory.check(bytes)?;
            CONTINUE
        })?;
        Ok(())
    }

    fn arithmetic(
        &self,
        operator: Arithmetic,
        operands: &[Node; 2],
        context: Context<'_>,
    ) -> std::result::Result<Numeric, Failure> {
        let single = |at: usize, side: &str| {
            let mut all = Vec::new();
            self.unwrapped(&operands[at], context, &mut all)?;
            match all.pop() {
                Some(Json::Number(number)) if all.is_empty() => Ok(number),
                _ => {
                    let sign = operator.name();
                    let message = format!("{side} operand of jsonpath operator {sign} is not a single numeric value");
                    Err(failed("22038", message))
                }
            }
        };
        let (left, right) = (single(0, "left")?, single(1, "right")?);
        let result = match operator {
            Arithmetic::Add => left.add(&right),
            Arithmetic::Subtract => left.subtract(&right),
            Arithmetic::Multiply => left.multiply(&right),
            Arithmetic::Divide => left.divide(&right),
            Arithmetic::Remainder => left.remainder(&right),
        };
        result.map_err(|error| Failure { error, is_silent: true })
    }

    /// Passes on the items to which steps lead; `unwraps`: an array stands for its elements where a step needs
    /// something else.
    fn steps(
        &self,
        steps: &[Step],
        item: &Json,
        (context, unwraps): (Context<'_>, bool),
        each: &mut Each<'_>,
    ) -> Found {
        let Some((step, rest)) = steps.split_first() else { return each(item) };
        self.environment.check()?;
        let unwraps = unwraps && self.is_lax();
        let is_lenient = self.is_lax() || context.is_lenient;
        let next = |item: &Json, each: &mut Each<'_>| self.steps(rest, item, (context, true), each);
        if unwraps
            && let Json::Array(elements) = item
            && !matches!(step, Step::AnyElement | Step::Elements(_) | Step::Levels(..))
            && !matches!(step, Step::Method(Method::Type | Method::Size))
        {
            return all_of(elements, &mut |element| self.steps(steps, element, (context, false), each));
        }
        match (step, item) {
            (Step::Key(key), Json::Object(_)) => match item.get(key) {
                Some(value) => next(value, each),
                None if is_lenient => CONTINUE,
                None => Err(failed("2203A", format!("JSON object does not contain key \"{key}\""))),
            },
            (Step::AnyKey, Json::Object(pairs)) => {
                for (_, value) in pairs {
                    if next(value, each)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                CONTINUE
            }
            (Step::AnyElement, Json::Array(elements)) => all_of(elements, &mut |element| next(element, each)),
            (Step::AnyElement, item) if self.is_lax() => next(item, each),
            (Step::Elements(ranges), item) if self.is_lax() || matches!(item, Json::Array(_)) => {
                self.elements(ranges, item, context, &mut |element| next(element, each))
            }
            (Step::Levels(from, to), item) => {
                let context = Context { is_lenient: true, ..context };
                self.levels((*from, *to), item, 0, &mut |value| self.steps(rest, value, (context, true), each))
            }
            (Step::Filter(condition), item) => {
                let inner = Context { current: item, ..context };
                match self.predicate(condition, inner)? {
                    Some(true) => next(item, each),
                    _ => CONTINUE,
                }
            }
            (Step::Method(method), item) => self.method(*method, item, &mut |value| next(value, each)),
            _ if is_lenient => CONTINUE,
            (Step::Key(_), _) => Err(failed("2203A", "jsonpath member accessor can only be applied to an object")),
            (Step::AnyKey, _) => {
                Err(failed("2203C", "jsonpath wildcard member accessor can only be applied to an object"))
            }
            (Step::AnyElement, _) => {
                Err(failed("22039", "jsonpath wildcard array accessor can only be applied to an array"))
            }
            (Step::Elements(_), _) => Err(failed("22039", "jsonpath array accessor can only be applied to an array")),
        }
    }

    /// Passes on the elements of some ranges; a value that is no array is one of itself.
    fn elements(
        &self,
        ranges: &[(Node, Option<Node>)],
        item: &Json,
        context: Context<'_>,
        each: &mut dyn FnMut(&Json) -> Found,
    ) -> Found {
        let elements = match item {
            Json::Array(elements) => &elements[..],
            item => std::slice::from_ref(item),
        };
        let inner = Context { length: Some(elements.len()), ..context };
        for (from, to) in ranges {
            let from = self.index(from, inner)?;
            let to = to.as_ref().map_or(Ok(from), |to| self.index(to, inner))?;
            let is_beyond = from < 0 || from > to || to as usize >= elements.len();
            if !self.is_lax() && is_beyond {
                return Err(failed("22033", "jsonpath array subscript is out of bounds"));
            }
            let to = usize::try_from(i64::from(to) + 1).unwrap_or(0).min(elements.len());
            let from = usize::try_from(from).unwrap_or(0);
            if from < to && all_of(&elements[from..to], each)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        CONTINUE
    }

    fn index(&self, node: &Node, context: Context<'_>) -> std::result::Result<i32, Failure> {
        let mut all = Vec::new();
        let _ = self.node(node, context, &mut |item| {
            all.push(item.clone());
            CONTINUE
        })?;
        let number = match all.pop() {
            Some(Json::Number(number)) if all.is_empty() => number,
            _ => return Err(failed("22033", "jsonpath array subscript is not a single numeric value")),
        };
        let index = number.truncate(0).and_then(|number| number.to_i32());
        index.map_err(|_| failed("22033", "jsonpath array subscript is out of integer range"))
    }

    /// Passes on the values on some levels below an item, which is level 0; `None`: only values without parts.
    fn levels(
        &self,
        (from, to): (Option<u32>, Option<u32>),
        item: &Json,
        level: u32,
        each: &mut dyn FnMut(&Json) -> Found,
    ) -> Found {
        let is_there = match from {
            Some(from) => level >= from,
            None => item.is_scalar(),
        };
        if is_there && each(item)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if to.is_some_and(|to| level >= to) {
            return CONTINUE;
        }
        let mut inner = |value: &Json| self.levels((from, to), value, level + 1, each);
        match item {
            Json::Array(elements) => all_of(elements, &mut inner),
            Json::Object(pairs) => {
                for (_, value) in pairs {
                    if inner(value)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                CONTINUE
            }
            _ => CONTINUE,
        }
    }

    fn method(&self, method: Method, item: &Json, each: &mut dyn FnMut(&Json) -> Found) -> Found {
        let name = method.name();
        match (method, item) {
            (Method::Type, item) => each(&Json::string(item.type_name())),
            (Method::Size, Json::Array(elements)) => each(&Json::integer(elements.len() as i64)),
            (Method::Size, _) if self.is_lax() => each(&Json::integer(1)),
            (Method::Size, _) => Err(failed("22039", "jsonpath item method .size() can only be applied to an array")),
            (Method::Abs, Json::Number(number)) => each(&Json::Number(number.absolute())),
            (Method::Floor, Json::Number(number)) => each(&Json::Number(number.floor()?)),
            (Method::Ceiling, Json::Number(number)) => each(&Json::Number(number.ceiling()?)),
            (Method::Abs | Method::Floor | Method::Ceiling, _) => {
                Err(failed("22036", format!("jsonpath item method .{name}() can only be applied to a numeric value")))
            }
            (Method::Double, Json::Number(number)) => {
                let float = crate::cast::cast(
                    Value::Numeric(number.clone()),
                    SqlType::NUMERIC,
                    SqlType::FLOAT8,
                    -1,
                    false,
                    self.environment,
                );
                let message = "numeric argument of jsonpath item method .double() is out of range for type double \
                               precision";
                float.map_err(|_| failed("22036", message))?;
                each(item)
            }
            (Method::Double, Json::String(text)) => {
                let message = "string argument of jsonpath item method .double() is not a valid representation of a \
                               double precision number";
                match crate::text::parse(SqlType::FLOAT8, -1, text, self.environment) {
                    Ok(Value::Float8(float)) if float.is_finite() => each(&Json::Number(Numeric::from_f64(float))),
                    _ => Err(failed("22036", message)),
                }
            }
            (Method::Double, _) => {
                Err(failed("22036", "jsonpath item method .double() can only be applied to a string or numeric value"))
            }
            (Method::KeyValue, Json::Object(pairs)) => {
                let id = self.number_of(item);
                for (key, value) in pairs {
                    let pair = Json::object(vec![
                        ("id".into(), Json::integer(id)),
                        ("key".into(), Json::String(key.clone())),
                        ("value".into(), value.clone()),
                    ]);
                    if each(&pair)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                CONTINUE
            }
            (Method::KeyValue, _) => {
                Err(failed("2203C", "jsonpath item method .keyvalue() can only be applied to an object"))
            }
        }
    }

    /// Returns a number that tells an object from the others of the value: how many parts precede it. PostgreSQL's is
    /// its place in memory.
    fn number_of(&self, object: &Json) -> i64 {
        fn find(json: &Json, wanted: &Json, number: &mut i64) -> bool {
            if std::ptr::eq(json, wanted) {
                return true;
            }
            *number += 1;
            match json {
                Json::Array(elements) => elements.iter().any(|element| find(element, wanted, number)),
                Json::Object(pairs) => pairs.iter().any(|(_, value)| find(value, wanted, number)),
                _ => false,
            }
        }
        let mut number = 0;
        if find(self.root, object, &mut number) { number } else { 0 }
    }

    /// Returns the truth of a predicate; `None`: unknown, also if its operands have errors.
    fn predicate(&self, node: &Node, context: Context<'_>) -> std::result::Result<Option<bool>, Failure> {
        Ok(match node {
            Node::And(operands) => match self.predicate(&operands[0], context)? {
                Some(false) => Some(false),
                left => match self.predicate(&operands[1], context)? {
                    Some(true) => left,
                    Some(false) => Some(false),
                    None => None,
                },
            },
            Node::Or(operands) => match self.predicate(&operands[0], context)? {
                Some(true) => Some(true),
                left => match self.predicate(&operands[1], context)? {
                    Some(false) => left,
                    Some(true) => Some(true),
                    None => None,
                },
            },
            Node::Not(operand) => self.predicate(operand, context)?.map(|holds| !holds),
            Node::IsUnknown(operand) => Some(self.predicate(operand, context)?.is_none()),
            Node::Exists(operand) => self.exists(operand, context)?,
            Node::Compare(compare, operands) => {
                self.pairs(&operands[0], Some(&operands[1]), context, &mut |left, right| {
                    Ok(compared(*compare, left, right))
                })?
            }
            Node::StartsWith(operands) => {
                self.pairs(&operands[0], Some(&operands[1]), context, &mut |left, right| match (left, right) {
                    (Json::String(text), Json::String(start)) => Ok(Some(text.starts_with(&**start))),
                    _ => Ok(None),
                })?
            }
            Node::LikeRegex(operand, pattern, flags) => {
                let regex = regex(pattern, flags)?;
                self.pairs(operand, None, context, &mut |text, _| match text {
                    Json::String(text) => Ok(Some(regex.is_match(text))),
                    _ => Ok(None),
                })?
            }
            // A sequence of items is no predicate: the parser excludes it.
            _ => None,
        })
    }

    fn exists(&self, operand: &Node, context: Context<'_>) -> std::result::Result<Option<bool>, Failure> {
        let mut is_found = false;
        let found = self.node(operand, context, &mut |_| {
            is_found = true;
            // In strict mode all have to be free of errors.
            if self.is_lax() { Ok(ControlFlow::Break(())) } else { CONTINUE }
        });
        match found {
            Ok(_) => Ok(Some(is_found)),
            Err(failure) if failure.is_silent => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Tests all pairs of items of two operands. In lax mode one that holds suffices; in strict mode none may be
    /// unknown.
    fn pairs(
        &self,
        left: &Node,
        right: Option<&Node>,
        context: Context<'_>,
        test: &mut dyn FnMut(&Json, &Json) -> Result<Option<bool>>,
    ) -> std::result::Result<Option<bool>, Failure> {
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        let operands = [(Some(left), &mut lefts), (right, &mut rights)];
        for (node, items) in operands {
            match node.map_or(Ok(()), |node| self.unwrapped(node, context, items)) {
                Err(failure) if failure.is_silent => return Ok(None),
                other => other?,
            }
        }
        if right.is_none() {
            rights.push(Json::Null);
        }
        let (mut is_found, mut is_unknown) = (false, false);
        for left in &lefts {
            self.environment.check()?;
            for right in &rights {
                match test(left, right)? {
                    Some(true) if self.is_lax() => return Ok(Some(true)),
                    Some(true) => is_found = true,
                    Some(false) => {}
                    None if !self.is_lax() => return Ok(None),
                    None => is_unknown = true,
                }
            }
        }
        Ok(if is_found { Some(true) } else { (!is_unknown).then_some(false) })
    }
}

fn all_of(elements: &[Json], each: &mut dyn FnMut(&Json) -> Found) -> Found {
    for element in elements {
        if each(element)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    CONTINUE
}

/// Compares two items; `None`: they cannot be compared.
fn compared(compare: Compare, left: &Json, right: &Json) -> Option<bool> {
    let order = match (left, right) {
        (Json::Null, Json::Null) => Ordering::Equal,
        (Json::Null, _) | (_, Json::Null) => return Some(compare == Compare::NotEqual),
        (Json::Bool(left), Json::Bool(right)) => left.cmp(right),
        (Json::Number(left), Json::Number(right)) => left.order(right),
        (Json::String(left), Json::String(right)) => left.cmp(right),
        _ => return None,
    };
    Some(match compare {
        Compare::Equal => order.is_eq(),
        Compare::NotEqual => order.is_ne(),
        Compare::Less => order.is_lt(),
        Compare::LessOrEqual => order.is_le(),
        Compare::Greater => order.is_gt(),
        Compare::GreaterOrEqual => order.is_ge(),
    })
}

/// Returns the regular expression of `like_regex`. Its flags are those of XQuery: without `s`, a dot is no end of line.
fn regex(pattern: &str, flags: &str) -> Result<Rc<Posix>> {
    let has = |flag: char| flags.contains(flag);
    let flags = Flags {
        ignore_case: has('i'),
        is_literal: has('q'),
        stops_at_lines: !has('s') && !has('q'),
        anchors_at_lines: has('m') && !has('q'),
        ..Flags::default()
    };
    Posix::new(pattern, flags)
}
