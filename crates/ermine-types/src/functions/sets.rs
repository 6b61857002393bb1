//! Functions that return sets of rows: the resolution of a call, and the implementations.
//!
//! The rows of a call are taken one after the other. Those of a series, and the elements of an array, are made when
//! they are taken; other functions make all of them first.

use std::{collections::HashMap, ops::Range, rc::Rc, sync::LazyLock};

use super::{
    catalogs, jsonpath,
    posix::{Flags, Posix},
    resolution::{self, Candidate, Outcome, Parameter, Unresolved, of},
    unresolved,
};
use crate::{
    Array, Environment, Json, Numeric, Scalar, SqlType, Value,
    datetime::{add_interval_to_timestamp, add_interval_to_timestamptz},
    error::{Result, SqlError, SqlState},
    json::raw,
    operators::mismatch,
    order,
};

/// The implementation of a function: it returns the rows of a call.
pub type SetFunction = fn(Vec<Value>, &Environment) -> Result<SetRows>;

type Next = Box<dyn FnMut(&mut [Value], &Environment) -> Result<bool>>;

/// The rows of a call that have not been taken.
pub struct SetRows {
    next: Next,
    bytes: usize,
}

impl SetRows {
    pub(super) fn new(next: impl FnMut(&mut [Value], &Environment) -> Result<bool> + 'static) -> Self {
        Self { next: Box::new(next), bytes: 0 }
    }

    /// Returns rows of one column.
    fn of_values(values: Vec<Value>) -> Self {
        let bytes = values.iter().map(Value::bytes).sum();
        let mut values = values.into_iter();
        let next = move |row: &mut [Value], _: &Environment| {
            let Some(value) = values.next() else { return Ok(false) };
            row[0] = value;
            Ok(true)
        };
        Self { bytes, ..Self::new(next) }
    }

    /// Returns rows of as many columns as each has values.
    pub(super) fn of_rows<R: IntoIterator<Item = Value> + AsRef<[Value]> + 'static>(rows: Vec<R>) -> Self {
        let bytes = rows.iter().flat_map(|row| row.as_ref()).map(Value::bytes).sum();
        let mut rows = rows.into_iter();
        let next = move |row: &mut [Value], _: &Environment| {
            let Some(values) = rows.next() else { return Ok(false) };
            row.iter_mut().zip(values).for_each(|(place, value)| *place = value);
            Ok(true)
        };
        Self { bytes, ..Self::new(next) }
    }

    /// Returns no rows.
    pub fn none() -> Self {
        Self::of_values(Vec::new())
    }

    /// Returns one row with this value.
    pub fn one(value: Value) -> Self {
        Self::of_values(vec![value])
    }

    /// Writes the next row to its places; returns whether there is one.
    pub fn next(&mut self, row: &mut [Value], environment: &Environment) -> Result<bool> {
        (self.next)(row, environment)
    }

    /// Returns the size of the rows that are in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// A function that a call means.
#[derive(Clone, Debug)]
pub struct SetReturning {
    /// The types that the arguments have to be cast to.
    pub arguments: Vec<SqlType>,
    /// The types of the columns, with the names that they have of their own.
    pub columns: Vec<(Option<&'static str>, SqlType)>,
    /// Whether there are no rows if an argument is NULL; the function is not to be called then.
    pub is_strict: bool,
    /// The implementation.
    pub function: SetFunction,
    /// The implementation under the collation C, if it is another one.
    pub in_c: Option<SetFunction>,
}

/// A row of the table.
pub(super) struct Entry {
    parameters: Vec<Parameter>,
    columns: Vec<(Option<&'static str>, Outcome)>,
    is_strict: bool,
    optional: usize,
    function: SetFunction,
    in_c: Option<SetFunction>,
}

impl Candidate for Entry {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn optional(&self) -> usize {
        self.optional
    }
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Entry>>> = LazyLock::new(|| {
    let mut table = Table::default();
    register_series(&mut table);
    register_texts(&mut table);
    register_json(&mut table);
    catalogs::register(&mut table);
    table.0
});

/// Returns the names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.keys().copied()
}

/// Whether there is a function of this name.
pub fn is_set_returning(name: &str) -> bool {
    TABLE.contains_key(name)
}

/// Returns the function that a call means.
pub fn set_returning(name: &str, arguments: &[Option<SqlType>]) -> Result<SetReturning> {
    let entries = TABLE.get(name).map_or(&[][..], Vec::as_slice);
    let call = || format!("{name}({})", resolution::describe(arguments));
    let resolved = resolution::resolve(entries.iter(), arguments).map_err(|reason| match reason {
        // PostgreSQL reports the missing types before the candidates.
        Unresolved::Undetermined if name != "unnest" => unresolved(Unresolved::Undetermined, &call()),
        Unresolved::Undetermined => unresolved(Unresolved::Ambiguous, &call()),
        reason => unresolved(reason, &call()),
    })?;
    let entry = resolved.candidate;
    let columns = entry.columns.iter().map(|(name, outcome)| (*name, outcome.resolve(resolved.element)));
    Ok(SetReturning {
        arguments: resolved.types,
        columns: columns.collect(),
        is_strict: entry.is_strict,
        function: entry.function,
        in_c: entry.in_c,
    })
}

/// Functions by their names.
#[derive(Default)]
pub(super) struct Table(HashMap<&'static str, Vec<Entry>>);

impl Table {
    /// Adds a function: strict, unless changed.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        parameters: &[Parameter],
        columns: &[(Option<&'static str>, Outcome)],
        function: SetFunction,
    ) -> &mut Entry {
        let entries = self.0.entry(name).or_default();
        entries.push(Entry {
            parameters: parameters.to_vec(),
            columns: columns.to_vec(),
            is_strict: true,
            optional: 0,
            function,
            in_c: None,
        });
        let at = entries.len() - 1;
        &mut entries[at]
    }
}

fn register_series(table: &mut Table) {
    let column = |ty| [(None, Outcome::Is(ty))];
    for (scalar, function) in
        [(Scalar::Int4, integers as SetFunction), (Scalar::Int8, integers), (Scalar::Numeric, numerics)]
    {
        let parameters = [of(scalar); 3];
        table.add("generate_series", &parameters, &column(SqlType::scalar(scalar)), function).optional = 1;
    }
    for scalar in [Scalar::Timestamp, Scalar::TimestampTz] {
        let parameters = [of(scalar), of(scalar), of(Scalar::Interval)];
        table.add("generate_series", &parameters, &column(SqlType::scalar(scalar)), times);
    }
    let subscripts = [Parameter::Array, of(Scalar::Int4), of(Scalar::Bool)];
    table.add("generate_subscripts", &subscripts, &column(SqlType::INT4), subscripts_of).optional = 1;
    let elements: SetFunction = |mut arguments, _| match arguments.pop() {
        Some(Value::Array(array)) => Ok(SetRows::of_values(array.into_elements())),
        _ => Err(mismatch()),
    };
    table.add("unnest", &[Parameter::Array], &[(None, Outcome::Element)], elements);
    // The binder adds the argument: the channels of the session.
    let texts = [Parameter::Is(SqlType::TEXT.array())];
    table.add("pg_listening_channels", &texts, &column(SqlType::TEXT), elements);
    // No table has partitions.
    let relid = [(Some("relid"), Outcome::Is(SqlType::OID))];
    table.add("pg_partition_ancestors", &[Parameter::Any], &relid, |_, _| Ok(SetRows::none()));
}

/// Returns the numbers from the first to the last of the three; the third is the step.
fn series([first, last, step]: [i64; 3]) -> Result<impl Iterator<Item = i64>> {
    if step == 0 {
        return Err(no_step());
    }
    let numbers = std::iter::successors(Some(first), move |number| number.checked_add(step));
    Ok(numbers.take_while(move |number| if step > 0 { *number <= last } else { *number >= last }))
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn no_step() -> SqlError {
    invalid("step size cannot equal zero")
}

fn integers(arguments: Vec<Value>, _: &Environment) -> Result<SetRows> {
    let mut numbers = [0, 0, 1];
    for (number, argument) in numbers.iter_mut().zip(&arguments) {
        *number = match argument {
            Value::Int4(argument) => i64::from(*argument),
            Value::Int8(argument) => *argument,
            _ => return Err(mismatch()),
        };
    }
    let is_long = matches!(arguments[..], [Value::Int8(_), ..]);
    let mut numbers = series(numbers)?;
    Ok(SetRows::new(move |row, _| {
        let Some(number) = numbers.next() else { return Ok(false) };
        row[0] = if is_long { Value::Int8(number) } else { Value::Int4(number as i32) };
        Ok(true)
    }))
}

fn numerics(arguments: Vec<Value>, _: &Environment) -> Result<SetRows> {
    let mut numbers = Vec::with_capacity(3);
    for argument in arguments {
        let Value::Numeric(number) = argument else { return Err(mismatch()) };
        numbers.push(number);
    }
    if numbers.len() == 2 {
        numbers.push(Numeric::ONE);
    }
    for (at, what) in [(0, "start value"), (1, "stop value"), (2, "step size")] {
        let fault = match &numbers[at] {
            number if number.is_nan() => "NaN",
            number if number.is_infinite() => "infinity",
            _ => continue,
        };
        return Err(invalid(format!("{what} cannot be {fault}")));
    }
    let [first, last, step] = <[Numeric; 3]>::try_from(numbers).map_err(|_| mismatch())?;
    if step.is_zero() {
        return Err(no_step());
    }
    let (mut next, is_upward) = (first, step.signum() > 0);
    Ok(SetRows::new(move |row, _| {
        let order = next.order(&last);
        if if is_upward { order.is_gt() } else { order.is_lt() } {
            return Ok(false);
        }
        let following = next.add(&step)?;
        row[0] = Value::Numeric(std::mem::replace(&mut next, following));
        Ok(true)
    }))
}

/// A series of `timestamp` or `timestamp with time zone`.
fn times(arguments: Vec<Value>, _: &Environment) -> Result<SetRows> {
    let (first, last, interval, has_zone) = match &arguments[..] {
        [Value::Timestamp(first), Value::Timestamp(last), interval] => (*first, *last, interval, false),
        [Value::TimestampTz(first), Value::TimestampTz(last), interval] => (*first, *last, interval, true),
        _ => return Err(mismatch()),
    };
    let Value::Interval { months, days, micros } = *interval else { return Err(mismatch()) };
    let zero = Value::Interval { months: 0, days: 0, micros: 0 };
    let direction = order::compare(interval, &zero, SqlType::INTERVAL);
    if direction.is_eq() {
        return Err(no_step());
    }
    let mut next = first;
    Ok(SetRows::new(move |row, environment| {
        if next.cmp(&last) == direction {
            return Ok(false);
        }
        row[0] = if has_zone { Value::TimestampTz(next) } else { Value::Timestamp(next) };
        next = match has_zone {
            true => add_interval_to_timestamptz(next, months, days, micros, &environment.time_zone)?,
            false => add_interval_to_timestamp(next, months, days, micros)?,
        };
        Ok(true)
    }))
}

fn subscripts_of(arguments: Vec<Value>, _: &Environment) -> Result<SetRows> {
    let (array, dimension, is_reverse) = match &arguments[..] {
        [Value::Array(array), Value::Int4(dimension)] => (array, dimension, false),
        [Value::Array(array), Value::Int4(dimension), Value::Bool(is_reverse)] => (array, dimension, *is_reverse),
        _ => return Err(mismatch()),
    };
    let extent = dimension.checked_sub(1).and_then(|at| array.dimensions().get(usize::try_from(at).ok()?));
    let mut subscripts = extent.map_or(0..0, |extent| extent.lower..extent.lower + extent.length as i32);
    Ok(SetRows::new(move |row, _| {
        let next = if is_reverse { subscripts.next_back() } else { subscripts.next() };
        row[0] = next.map_or(Value::Null, Value::Int4);
        Ok(next.is_some())
    }))
}

fn register_texts(table: &mut Table) {
    let (text, texts) = (of(Scalar::Text), Outcome::Is(SqlType::TEXT.array()));
    let of_texts = [(None, Outcome::Is(SqlType::TEXT))];
    let entry = table.add("regexp_matches", &[text; 3], &[(None, texts)], all_matches::<false>);
    entry.optional = 1;
    entry.in_c = Some(all_matches::<true>);
    let entry = table.add("regexp_split_to_table", &[text; 3], &of_texts, split::<false>);
    entry.optional = 1;
    entry.in_c = Some(split::<true>);
    let entry = table.add("string_to_table", &[text; 3], &of_texts, string_to_table);
    (entry.optional, entry.is_strict) = (1, false);
}

/// A consumer of matches: of the places of the whole match, then of its groups.
type SeeGroups<'s> = dyn FnMut(&[Option<Range<usize>>]) -> Result<()> + 's;

/// Calls `see` on each match and its groups; without `all`, on the first one. `is_splitting` leaves out empty matches
/// at the ends of the text and behind another match.
fn each_match(
    text: &str,
    regex: &Posix,
    (all, is_splitting): (bool, bool),
    environment: &Environment,
    see: &mut SeeGroups<'_>,
) -> Result<()> {
    let (mut from, mut end) = (0, 0);
    while from <= text.len()
        && let Some(groups) = regex.find(text, from, &|| environment.check())?
        && let Some(Some(found)) = groups.first().cloned()
    {
        if !is_splitting || (found.start < text.len() && found.end > end) {
            see(&groups)?;
        }
        end = found.end;
        if !all {
            break;
        }
        let step = if found.is_empty() { text[end..].chars().next().map_or(1, char::len_utf8) } else { 0 };
        from = end + step;
    }
    Ok(())
}

/// Returns the text, the compiled pattern, and the flags of a call.
fn pattern_of<'a>(
    arguments: &'a [Value],
    is_ascii: bool,
    function: &str,
    takes_global: bool,
) -> Result<(&'a str, Rc<Posix>, Flags)> {
    let (text, pattern, letters) = match arguments {
        [Value::Text(text), Value::Text(pattern)] => (text, pattern, ""),
        [Value::Text(text), Value::Text(pattern), Value::Text(letters)] => (text, pattern, &**letters),
        _ => return Err(mismatch()),
    };
    let flags = Flags::parse(letters, is_ascii)?;
    if flags.is_global && !takes_global {
        return Err(invalid(format!("{function}() does not support the \"global\" option")));
    }
    Ok((text, Posix::new(pattern, flags)?, flags))
}

fn all_matches<const IS_ASCII: bool>(arguments: Vec<Value>, environment: &Environment) -> Result<SetRows> {
    let (text, regex, flags) = pattern_of(&arguments, IS_ASCII, "regexp_matches", true)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    each_match(text, &regex, (flags.is_global, false), environment, &mut |groups| {
        // The groups, or the whole match if there are none.
        let groups = &groups[usize::from(regex.groups() > 0)..];
        let groups = groups.iter().map(|group| group.clone().map_or(Value::Null, |group| text[group].into()));
        let groups = Value::array(Array::new(Scalar::Text, groups.collect()));
        bytes += groups.bytes();
        found.push(groups);
        environment.memory.check(bytes)
    })?;
    Ok(SetRows::of_values(found))
}

fn split<const IS_ASCII: bool>(arguments: Vec<Value>, environment: &Environment) -> Result<SetRows> {
    split_text(&arguments, IS_ASCII, "regexp_split_to_table", environment).map(SetRows::of_values)
}

/// Returns the parts of a text between the matches of a pattern.
pub(super) fn split_text(
    arguments: &[Value],
    is_ascii: bool,
    function: &str,
    environment: &Environment,
) -> Result<Vec<Value>> {
    let (text, regex, _) = pattern_of(arguments, is_ascii, function, false)?;
    let (mut parts, mut bytes, mut end) = (Vec::new(), 0, 0);
    each_match(text, &regex, (true, true), environment, &mut |groups| {
        let Some(Some(found)) = groups.first() else { return Ok(()) };
        let part = Value::from(&text[end..found.start]);
        bytes += part.bytes();
        parts.push(part);
        end = found.end;
        environment.memory.check(bytes)
    })?;
    parts.push(text[end..].into());
    Ok(parts)
}

/// Splits a text at a separator, or into characters if that is NULL; parts equal to the third argument become NULL.
fn string_to_table(arguments: Vec<Value>, environment: &Environment) -> Result<SetRows> {
    let (Some(Value::Text(text)), Some(separator)) = (arguments.first(), arguments.get(1)) else {
        return Ok(SetRows::none());
    };
    let part = |part: &str| match arguments.get(2) {
        Some(Value::Text(null)) if **null == *part => Value::Null,
        _ => part.into(),
    };
    environment.memory.check(text.len().saturating_mul(size_of::<Value>()))?;
    let parts = match separator {
        _ if text.is_empty() => Vec::new(),
        Value::Text(separator) if separator.is_empty() => vec![part(text)],
        Value::Text(separator) => text.split(&**separator).map(part).collect(),
        _ => text.split_inclusive(|_: char| true).map(part).collect(),
    };
    Ok(SetRows::of_values(parts))
}

fn register_json(table: &mut Table) {
    use SqlType as T;
    let is = |ty| Outcome::Is(ty);
    let (json, jsonb) = (of(Scalar::Json), of(Scalar::Jsonb));
    let elements = |ty| [(Some("value"), is(ty))];
    table.add("json_array_elements", &[json], &elements(T::JSON), |arguments, environment| {
        json_elements(&arguments, "json_array_elements", environment, |text| Ok(Value::Json(text.into())))
    });
    table.add("json_array_elements_text", &[json], &elements(T::TEXT), |arguments, environment| {
        json_elements(&arguments, "json_array_elements_text", environment, plain)
    });
    table.add("jsonb_array_elements", &[jsonb], &elements(T::JSONB), |arguments, _| {
        jsonb_elements(arguments, Value::json)
    });
    table.add("jsonb_array_elements_text", &[jsonb], &elements(T::TEXT), |arguments, _| {
        jsonb_elements(arguments, |json| json.to_plain_text().map_or(Value::Null, Value::text))
    });
    let path = [of(Scalar::Jsonb), of(Scalar::Jsonpath), of(Scalar::Jsonb), of(Scalar::Bool)];
    for name in ["jsonb_path_query", "jsonb_path_query_tz"] {
        let entry = table.add(name, &path, &[(None, is(T::JSONB))], |arguments, environment| {
            let items = jsonpath::query(&arguments, environment)?;
            Ok(SetRows::of_values(items.into_iter().map(Value::json).collect()))
        });
        entry.optional = 2;
    }
    let pairs = |ty| [(Some("key"), is(T::TEXT)), (Some("value"), is(ty))];
    table.add("json_each", &[json], &pairs(T::JSON), |arguments, environment| {
        json_each(&arguments, environment, |text| Ok(Value::Json(text.into())))
    });
    table.add("json_each_text", &[json], &pairs(T::TEXT), |arguments, environment| {
        json_each(&arguments, environment, plain)
    });
    table
        .add("jsonb_each", &[jsonb], &pairs(T::JSONB), |arguments, _| jsonb_each(arguments, "jsonb_each", Value::json));
    table.add("jsonb_each_text", &[jsonb], &pairs(T::TEXT), |arguments, _| {
        jsonb_each(arguments, "jsonb_each_text", |json| json.to_plain_text().map_or(Value::Null, Value::text))
    });
    let keys = [(None, is(T::TEXT))];
    table.add("json_object_keys", &[json], &keys, |arguments, environment| {
        let text = json_text(&arguments, environment)?;
        if raw::type_name(text) != "object" {
            return Err(no_object("json_object_keys", raw::type_name(text) == "array"));
        }
        let keys = raw::parts(text)?.into_iter().filter_map(|(key, _)| key);
        Ok(SetRows::of_values(keys.map(|key| raw::plain(key).map(Value::text)).collect::<Result<_>>()?))
    });
    table.add("jsonb_object_keys", &[jsonb], &keys, |mut arguments, _| match arguments.pop() {
        Some(Value::Jsonb(json)) => match *json {
            Json::Object(pairs) => {
                Ok(SetRows::of_values(pairs.into_iter().map(|(key, _)| Value::text(&*key)).collect()))
            }
            json => Err(no_object("jsonb_object_keys", matches!(json, Json::Array(_)))),
        },
        _ => Err(mismatch()),
    });
}

fn no_object(function: &str, is_array: bool) -> SqlError {
    invalid(format!("cannot call {function} on {}", if is_array { "an array" } else { "a scalar" }))
}

/// Returns the content of a part of a `json` text, as `->>` does.
fn plain(text: &str) -> Result<Value> {
    if raw::type_name(text) == "null" { Ok(Value::Null) } else { raw::plain(text).map(Value::text) }
}

fn json_text<'a>(arguments: &'a [Value], environment: &Environment) -> Result<&'a str> {
    let [Value::Json(text)] = arguments else { return Err(mismatch()) };
    environment.memory.check_parts(text.as_bytes())?;
    Ok(text)
}

fn json_elements(
    arguments: &[Value],
    function: &str,
    environment: &Environment,
    convert: impl Fn(&str) -> Result<Value>,
) -> Result<SetRows> {
    let text = json_text(arguments, environment)?;
    match raw::type_name(text) {
        "array" => {
            let parts = raw::parts(text)?.into_iter().map(|(_, part)| convert(part));
            Ok(SetRows::of_values(parts.collect::<Result<_>>()?))
        }
        "object" => Err(invalid(format!("cannot call {function} on a non-array"))),
        _ => Err(invalid(format!("cannot call {function} on a scalar"))),
    }
}

fn jsonb_elements(mut arguments: Vec<Value>, convert: impl Fn(Json) -> Value) -> Result<SetRows> {
    let Some(Value::Jsonb(json)) = arguments.pop() else { return Err(mismatch()) };
    match *json {
        Json::Array(elements) => Ok(SetRows::of_values(elements.into_iter().map(convert).collect())),
        Json::Object(_) => Err(invalid("cannot extract elements from an object")),
        _ => Err(invalid("cannot extract elements from a scalar")),
    }
}

fn json_each(
    arguments: &[Value],
    environment: &Environment,
    convert: impl Fn(&str) -> Result<Value>,
) -> Result<SetRows> {
    let text = json_text(arguments, environment)?;
    match raw::type_name(text) {
        "object" => {
            let pair = |(key, value): (Option<&str>, &str)| {
                Ok([Value::text(raw::plain(key.unwrap_or_default())?), convert(value)?])
            };
            Ok(SetRows::of_rows(raw::parts(text)?.into_iter().map(pair).collect::<Result<_>>()?))
        }
        "array" => Err(invalid("cannot deconstruct an array as an object")),
        _ => Err(invalid("cannot deconstruct a scalar")),
    }
}

fn jsonb_each(mut arguments: Vec<Value>, function: &str, convert: impl Fn(Json) -> Value) -> Result<SetRows> {
    let Some(Value::Jsonb(json)) = arguments.pop() else { return Err(mismatch()) };
    let Json::Object(pairs) = *json else {
        return Err(invalid(format!("cannot call {function} on a non-object")));
    };
    let pairs = pairs.into_iter().map(|(key, value)| [Value::text(&*key), convert(value)]);
    Ok(SetRows::of_rows(pairs.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random_value;

    #[test]
    fn no_rows_panic() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let environment = Environment::default();
        for (name, entries) in TABLE.iter() {
            for entry in entries.iter().flat_map(|entry| std::iter::repeat_n(entry, 100)) {
                let count = entry.parameters.len() - random.usize(..=entry.optional);
                let values: Vec<_> = entry.parameters[..count]
                    .iter()
                    .map(|parameter| match parameter {
                        _ if !entry.is_strict && random.u8(..5) == 0 => Value::Null,
                        Parameter::Is(ty) => random_value(*ty, &mut random),
                        Parameter::Array => random_value(SqlType::TEXT.array(), &mut random),
                        _ => random_value(SqlType::INT4, &mut random),
                    })
                    .collect();
                println!("{name} {values:?}");
                let Ok(mut rows) = (entry.function)(values, &environment) else { continue };
                let mut row = vec![Value::Null; entry.columns.len()];
                for _ in 0..20 {
                    if !rows.next(&mut row, &environment).unwrap_or(false) {
                        break;
                    }
                }
            }
        }
    }
}
