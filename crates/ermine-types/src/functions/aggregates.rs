//! Aggregates: one result from the values of many rows.

use crate::{
    Array, Environment, Json, Numeric, Scalar, SqlType, Value,
    array::{Dimension, ELEMENTS_MAX, too_large},
    cast,
    error::{Result, SqlError, SqlState},
    json::write::write_string,
    order,
};

use super::{
    Unresolved,
    collections::{object_key, to_json, write_json},
    ordered,
    regression::{Regression, Sums},
    resolution::describe,
    unresolved,
};

/// An aggregate function, resolved for a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Aggregate {
    kind: Kind,
    /// The types that the arguments have to be cast to; none for `count(*)`.
    pub arguments: Vec<SqlType>,
    /// The type of the result.
    pub result: SqlType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Count,
    Sum,
    Average,
    Min,
    Max,
    And,
    Or,
    Join,
    Array,
    Json,
    /// The result is the text of a `json`.
    JsonText,
    Spread {
        is_root: bool,
        is_population: bool,
    },
    BitAnd,
    BitOr,
    BitXor,
    /// An object of keys and values.
    Object,
    /// The same, as the text of a `json`.
    ObjectText,
    Regression(Regression),
    /// The ordered-set aggregates: the sorted value precedes the direct argument.
    PercentileCont,
    PercentileDisc,
    Mode,
}

const fn spread(is_root: bool, is_population: bool) -> Kind {
    Kind::Spread { is_root, is_population }
}

const KINDS: [(&str, Kind); 26] = [
    ("count", Kind::Count),
    ("sum", Kind::Sum),
    ("avg", Kind::Average),
    ("min", Kind::Min),
    ("max", Kind::Max),
    ("bool_and", Kind::And),
    ("every", Kind::And),
    ("bool_or", Kind::Or),
    ("string_agg", Kind::Join),
    ("array_agg", Kind::Array),
    ("jsonb_agg", Kind::Json),
    ("json_agg", Kind::JsonText),
    ("stddev", spread(true, false)),
    ("stddev_samp", spread(true, false)),
    ("stddev_pop", spread(true, true)),
    ("variance", spread(false, false)),
    ("var_samp", spread(false, false)),
    ("var_pop", spread(false, true)),
    ("bit_and", Kind::BitAnd),
    ("bit_or", Kind::BitOr),
    ("bit_xor", Kind::BitXor),
    ("jsonb_object_agg", Kind::Object),
    ("json_object_agg", Kind::ObjectText),
    ("percentile_cont", Kind::PercentileCont),
    ("percentile_disc", Kind::PercentileDisc),
    ("mode", Kind::Mode),
];

fn kind(name: &str) -> Option<Kind> {
    let kinds = KINDS.iter().find(|(known, _)| *known == name);
    kinds.map(|(_, kind)| *kind).or_else(|| Regression::named(name).map(Kind::Regression))
}

/// Returns the names of all aggregates.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name).chain(Regression::names())
}

/// Whether an aggregate of this name exists.
pub fn is_aggregate(name: &str) -> bool {
    kind(name).is_some()
}

/// Whether an ordered-set aggregate of this name exists.
pub fn is_ordered_set(name: &str) -> bool {
    kind(name).is_some_and(Kind::is_ordered_set)
}

impl Aggregate {
    /// Returns its name; of several, the first.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Regression(of) => of.name(),
            kind => KINDS.iter().find(|(_, known)| *known == kind).map_or("", |(name, _)| name),
        }
    }
}

impl Kind {
    fn is_ordered_set(self) -> bool {
        matches!(self, Self::PercentileCont | Self::PercentileDisc | Self::Mode)
    }
}

/// Returns the ordered-set aggregate that a call means, by the types of its direct arguments and of its sort keys.
pub fn ordered_set_aggregate(name: &str, direct: &[Option<SqlType>], sorted: &[SqlType]) -> Result<Aggregate> {
    use SqlType as T;
    let unknown = || {
        let direct = direct.iter().map(|ty| ty.map_or("unknown".into(), SqlType::name));
        let types: Vec<_> = direct.chain(sorted.iter().map(|ty| ty.name())).collect();
        unresolved(Unresolved::Unknown, &format!("{name}({})", types.join(", ")))
    };
    let (Some(kind), [value]) = (kind(name), sorted) else { return Err(unknown()) };
    let fraction = match (kind, direct) {
        (Kind::Mode, []) => None,
        (Kind::Mode, _) | (_, [] | [_, _, ..]) => return Err(unknown()),
        (_, [Some(ty)]) if ty.is_array && T::scalar(ty.scalar).is_numeric() => Some(T::FLOAT8.array()),
        (_, [Some(ty)]) if !ty.is_numeric() => return Err(unknown()),
        _ => Some(T::FLOAT8),
    };
    let value = match kind {
        Kind::PercentileCont if value.is_numeric() => T::FLOAT8,
        Kind::PercentileCont if *value == T::INTERVAL => T::INTERVAL,
        Kind::PercentileCont => return Err(unknown()),
        _ => *value,
    };
    let is_array = fraction.is_some_and(|ty| ty.is_array);
    if is_array && value.is_array {
        return Err(unknown());
    }
    let arguments = [value].into_iter().chain(fraction).collect();
    Ok(Aggregate { kind, arguments, result: if is_array { value.array() } else { value } })
}

/// Returns the aggregate that a call means, by the types of its arguments: `None` for one without a type; `count(*)` has
/// none.
pub fn aggregate(name: &str, given: &[Option<SqlType>]) -> Result<Aggregate> {
    use SqlType as T;
    let call = || format!("{name}({})", describe(given));
    let unknown = || unresolved(Unresolved::Unknown, &call());
    let kind = kind(name).ok_or_else(unknown)?;
    let takes_two = matches!(kind, Kind::Join | Kind::Object | Kind::ObjectText | Kind::Regression(_));
    let has_other_count = given.len() != 1 + usize::from(takes_two) && !kind.is_ordered_set();
    if has_other_count && (kind != Kind::Count || !given.is_empty()) {
        return Err(unknown());
    }
    let argument = given.first().copied().flatten();
    let number = || match argument {
        Some(ty) if ty.is_numeric() => Ok(ty),
        None => Err(unresolved(Unresolved::Ambiguous, &call())),
        _ => Err(unknown()),
    };
    let (arguments, result) = match kind {
        Kind::Count => (given.iter().map(|ty| ty.unwrap_or(T::TEXT)).collect(), T::INT8),
        Kind::BitAnd | Kind::BitOr | Kind::BitXor => match argument {
            Some(ty @ (T::INT2 | T::INT4 | T::INT8 | T::BIT)) => (vec![ty], ty),
            Some(T::VARBIT) => (vec![T::BIT], T::BIT),
            None => return Err(unresolved(Unresolved::Ambiguous, &call())),
            Some(_) => return Err(unknown()),
        },
        Kind::Object | Kind::ObjectText => {
            let types = given.iter().map(|ty| ty.unwrap_or(T::TEXT)).collect();
            (types, if kind == Kind::Object { T::JSONB } else { T::JSON })
        }
        Kind::Regression(what) => {
            let fits = |ty: &SqlType| cast::context(*ty, T::FLOAT8) == Some(cast::Context::Implicit);
            if !given.iter().flatten().all(fits) {
                return Err(unknown());
            }
            (vec![T::FLOAT8; 2], if what == Regression::Count { T::INT8 } else { T::FLOAT8 })
        }
        Kind::Sum | Kind::Average if matches!(argument, Some(T::INTERVAL | T::TIME)) => {
            (vec![T::INTERVAL], T::INTERVAL)
        }
        Kind::Sum => {
            let ty = number()?;
            let result = match ty {
                T::INT2 | T::INT4 => T::INT8,
                T::INT8 => T::NUMERIC,
                ty => ty,
            };
            (vec![ty], result)
        }
        Kind::Average | Kind::Spread { .. } => {
            // One of the types that `avg` takes is not a number.
            let ty = if argument.is_none() && kind != Kind::Average { T::FLOAT8 } else { number()? };
            (vec![ty], if matches!(ty, T::FLOAT4 | T::FLOAT8) { T::FLOAT8 } else { T::NUMERIC })
        }
        Kind::Min | Kind::Max => {
            let ty = match argument {
                None | Some(T::VARCHAR | T::NAME | T::INTERNAL_CHAR) => T::TEXT,
                Some(T::CIDR) => T::INET,
                Some(ty) if is_without_extremes(ty) => return Err(unknown()),
                Some(ty) => ty,
            };
            (vec![ty], ty)
        }
        Kind::And | Kind::Or => match argument {
            None | Some(T::BOOL) => (vec![T::BOOL], T::BOOL),
            Some(_) => return Err(unknown()),
        },
        Kind::Join => match argument {
            Some(T::BYTEA) => (vec![T::BYTEA; 2], T::BYTEA),
            None => (vec![T::TEXT; 2], T::TEXT),
            Some(ty) if ty.is_text() => (vec![T::TEXT; 2], T::TEXT),
            Some(_) => return Err(unknown()),
        },
        Kind::Array => {
            // The argument may be an array or a scalar.
            let ty = argument.ok_or_else(|| unresolved(Unresolved::Ambiguous, &call()))?;
            (vec![ty], ty.array())
        }
        Kind::PercentileCont | Kind::PercentileDisc | Kind::Mode => {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Kind::Json | Kind::JsonText => {
            let ty = argument.ok_or_else(|| unresolved(Unresolved::Undetermined, &call()))?;
            (vec![ty], if kind == Kind::Json { T::JSONB } else { T::JSON })
        }
    };
    Ok(Aggregate { kind, arguments, result })
}

/// Whether `min` and `max` do not take a type, whether it has an order or not.
fn is_without_extremes(ty: SqlType) -> bool {
    use Scalar::{Bit, Bool, Bytea, Json, Jsonb, Jsonpath, Macaddr, Macaddr8, Record, Uuid, Varbit};
    let scalar = ty.scalar;
    let is_identifier = matches!(scalar, Bool | Uuid | Macaddr | Macaddr8 | Bytea | Bit | Varbit);
    !ty.is_array && (is_identifier || matches!(scalar, Json | Jsonb | Jsonpath | Record))
}

impl Aggregate {
    /// Whether its result contains all values that are added.
    #[inline]
    pub fn keeps_values(&self) -> bool {
        matches!(self.kind, Kind::Join | Kind::Array | Kind::Json | Kind::JsonText | Kind::Object | Kind::ObjectText)
            || self.kind.is_ordered_set()
    }

    /// Whether it keeps them as separate parts, which [`Accumulator::bytes`] does not count.
    #[inline]
    pub fn keeps_each(&self) -> bool {
        matches!(self.kind, Kind::Array | Kind::Json | Kind::Object) || self.kind.is_ordered_set()
    }

    /// Begins a group of rows.
    pub fn accumulator(&self) -> Accumulator {
        let argument = self.arguments.first().copied().unwrap_or(SqlType::BOOL);
        Accumulator { kind: self.kind, argument, result: self.result, state: State::Empty }
    }
}

/// The state of an aggregate for a group of rows.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: Kind,
    argument: SqlType,
    result: SqlType,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Empty,
    Count(i64),
    /// Integers: the sum cannot exceed 127 bits.
    Integers {
        count: i64,
        sum: i128,
        squares: Numeric,
    },
    Exact {
        count: i64,
        sum: Numeric,
        squares: Numeric,
    },
    /// Floats: the sum, and the sum of the squared differences from the mean (Youngs and Cramer).
    Floats {
        count: i64,
        sum: f64,
        squares: f64,
    },
    Intervals {
        count: i64,
        months: i128,
        days: i128,
        micros: i128,
    },
    Value(Value),
    Text(String),
    Bytes(Vec<u8>),
    Values(Vec<Value>),
    Json(Vec<Json>),
    Pairs(Vec<(Box<str>, Json)>),
    Sums(Sums),
    /// Values in their order, and the direct argument.
    Ordered(Vec<Value>, Value),
}

impl Accumulator {
    /// Adds a row's arguments.
    pub fn add(&mut self, arguments: &[Value], environment: &Environment) -> Result<()> {
        let value = arguments.first();
        let takes_null =
            matches!(self.kind, Kind::Array | Kind::Json | Kind::JsonText | Kind::Object | Kind::ObjectText);
        if !takes_null && value.is_some_and(Value::is_null) {
            return Ok(());
        }
        let value = value.unwrap_or(&Value::Null);
        match self.kind {
            Kind::Count => {
                let State::Count(count) = &mut self.state else {
                    self.state = State::Count(1);
                    return Ok(());
                };
                *count += 1;
            }
            Kind::Sum | Kind::Average | Kind::Spread { .. } => self.add_number(value)?,
            Kind::Min | Kind::Max => {
                let is_better = match &self.state {
                    State::Value(_) if !self.argument.is_ordered() => {
                        let message = "could not identify a comparison function for type json";
                        return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message));
                    }
                    State::Value(best) => {
                        let order = order::compare(value, best, self.argument);
                        let is_beyond = if self.kind == Kind::Min { order.is_lt() } else { order.is_gt() };
                        // Of equal values PostgreSQL keeps the last, of `char(n)` the first.
                        is_beyond || order.is_eq() && self.argument != SqlType::CHAR
                    }
                    _ => true,
                };
                if is_better {
                    self.state = State::Value(value.clone());
                }
            }
            Kind::And | Kind::Or => {
                let Value::Bool(new) = value else { return Err(crate::operators::mismatch()) };
                let result = match &self.state {
                    State::Value(Value::Bool(old)) if self.kind == Kind::And => *old && *new,
                    State::Value(Value::Bool(old)) => *old || *new,
                    _ => *new,
                };
                self.state = State::Value(Value::Bool(result));
            }
            Kind::BitAnd | Kind::BitOr | Kind::BitXor => self.add_bits(value)?,
            Kind::Object | Kind::ObjectText => {
                self.add_pair(value, arguments.get(1).unwrap_or(&Value::Null), environment)?;
            }
            Kind::Regression(_) => {
                if let (Value::Float8(y), Some(Value::Float8(x))) = (value, arguments.get(1)) {
                    match &mut self.state {
                        State::Sums(sums) => sums.add(*y, *x)?,
                        state => {
                            let mut sums = Sums::default();
                            sums.add(*y, *x)?;
                            *state = State::Sums(sums);
                        }
                    }
                }
            }
            Kind::Join => self.join(value, arguments.get(1).unwrap_or(&Value::Null)),
            Kind::Array => {
                if let State::Empty = self.state {
                    self.state = State::Values(Vec::new());
                }
                if let State::Values(values) = &mut self.state {
                    values.push(value.clone());
                }
            }
            Kind::PercentileCont | Kind::PercentileDisc | Kind::Mode => match &mut self.state {
                State::Ordered(values, _) => values.push(value.clone()),
                state => *state = State::Ordered(vec![value.clone()], arguments.get(1).cloned().unwrap_or(Value::Null)),
            },
            Kind::JsonText => {
                if let State::Empty = self.state {
                    self.state = State::Text(String::new());
                }
                if let State::Text(text) = &mut self.state {
                    text.push_str(match value {
                        _ if text.is_empty() => "[",
                        Value::Array(_) | Value::Record(_) => ", \n ",
                        _ => ", ",
                    });
                    write_json(value, environment, text)?;
                }
            }
            Kind::Json => {
                let json = to_json(value, environment)?;
                match &mut self.state {
                    State::Json(values) => values.push(json),
                    state => *state = State::Json(vec![json]),
                }
            }
        }
        Ok(())
    }

    /// Combines an integer or bits with those before.
    fn add_bits(&mut self, value: &Value) -> Result<()> {
        let State::Value(before) = &self.state else {
            self.state = State::Value(value.clone());
            return Ok(());
        };
        let operator = match self.kind {
            Kind::BitAnd => "&",
            Kind::BitOr => "|",
            _ => "#",
        };
        let combine = crate::operators::resolve_binary(operator, Some(self.argument), Some(self.argument))?;
        self.state = State::Value((combine.function)(before, value, &Environment::default())?);
        Ok(())
    }

    /// Adds a key and its value.
    fn add_pair(&mut self, key: &Value, value: &Value, environment: &Environment) -> Result<()> {
        let key = object_key(key, environment)?;
        if self.kind == Kind::Object {
            let pair = (key.into_boxed_str(), to_json(value, environment)?);
            match &mut self.state {
                State::Pairs(pairs) => pairs.push(pair),
                state => *state = State::Pairs(vec![pair]),
            }
            return Ok(());
        }
        if let State::Empty = self.state {
            self.state = State::Text(String::new());
        }
        if let State::Text(text) = &mut self.state {
            text.push_str(if text.is_empty() { "{ " } else { ", " });
            // Writing to a string does not fail.
            let _ = write_string(&key, text);
            text.push_str(" : ");
            write_json(value, environment, text)?;
        }
        Ok(())
    }

    /// Appends a text; the separator precedes every text but the first.
    fn join(&mut self, value: &Value, separator: &Value) {
        match (&mut self.state, value) {
            (State::Text(text), Value::Text(more)) => {
                if let Value::Text(separator) = separator {
                    text.push_str(separator);
                }
                text.push_str(more);
            }
            (State::Bytes(bytes), Value::Bytea(more)) => {
                if let Value::Bytea(separator) = separator {
                    bytes.extend_from_slice(separator);
                }
                bytes.extend_from_slice(more);
            }
            (state, Value::Bytea(first)) => *state = State::Bytes(first.to_vec()),
            (state, Value::Text(first)) => *state = State::Text(first.to_string()),
            _ => {}
        }
    }

    fn add_number(&mut self, value: &Value) -> Result<()> {
        if let State::Empty = self.state {
            self.state = match value {
                Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => {
                    State::Integers { count: 0, sum: 0, squares: Numeric::ZERO }
                }
                Value::Float4(_) | Value::Float8(_) => {
                    // A sum begins with its first number, which may be -0.
                    let sum = if self.kind == Kind::Sum { -0.0 } else { 0.0 };
                    State::Floats { count: 0, sum, squares: 0.0 }
                }
                Value::Interval { .. } => State::Intervals { count: 0, months: 0, days: 0, micros: 0 },
                _ => State::Exact { count: 0, sum: Numeric::ZERO, squares: Numeric::ZERO },
            };
        }
        let needs_squares = matches!(self.kind, Kind::Spread { .. });
        match (&mut self.state, value) {
            (State::Integers { count, sum, squares }, _) => {
                let number = match value {
                    Value::Int2(number) => i64::from(*number),
                    Value::Int4(number) => i64::from(*number),
                    Value::Int8(number) => *number,
                    _ => return Err(crate::operators::mismatch()),
                };
                *count += 1;
                *sum += i128::from(number);
                if needs_squares {
                    *squares = squares.add(&Numeric::from(i128::from(number) * i128::from(number)))?;
                }
            }
            (State::Exact { count, sum, squares }, Value::Numeric(number)) => {
                *count += 1;
                *sum = sum.add(number)?;
                if needs_squares {
                    *squares = squares.add(&number.multiply(number)?)?;
                }
            }
            (State::Floats { count, sum, squares }, Value::Float4(_) | Value::Float8(_)) => {
                let number = match value {
                    Value::Float4(number) => f64::from(*number),
                    Value::Float8(number) => *number,
                    _ => 0.0,
                };
                let was_finite = sum.is_finite() && number.is_finite();
                *count += 1;
                *sum += number;
                if *count > 1 {
                    let n = *count as f64;
                    let off = number * n - *sum;
                    *squares += off * off / (n * (n - 1.0));
                } else if !number.is_finite() {
                    *squares = f64::NAN;
                }
                if sum.is_infinite() && was_finite {
                    return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
                }
            }
            (
                State::Intervals { count, months, days, micros },
                Value::Interval { months: more_months, days: more_days, micros: more_micros },
            ) => {
                *count += 1;
                *months += i128::from(*more_months);
                *days += i128::from(*more_days);
                *micros += i128::from(*more_micros);
            }
            _ => return Err(crate::operators::mismatch()),
        }
        Ok(())
    }

    /// Returns the bytes that it takes besides its place and the parts of a list, computed without visiting every part.
    #[inline]
    pub fn bytes(&self) -> usize {
        // The buffer of a growing text has room for twice as much, and is copied in the end.
        match &self.state {
            State::Text(text) => 3 * text.len(),
            State::Bytes(bytes) => 3 * bytes.len(),
            State::Value(value) => value.bytes() - size_of::<Value>(),
            State::Exact { sum, squares, .. } => sum.heap_bytes() + squares.heap_bytes(),
            State::Integers { squares, .. } => squares.heap_bytes(),
            _ => 0,
        }
    }

    /// Returns the result for the rows.
    pub fn finish(self) -> Result<Value> {
        match self.state {
            State::Empty if matches!(self.kind, Kind::Count | Kind::Regression(Regression::Count)) => {
                Ok(Value::Int8(0))
            }
            State::Empty => Ok(Value::Null),
            State::Count(count) => Ok(Value::Int8(count)),
            State::Value(value) => Ok(value),
            State::Text(text) if self.kind == Kind::JsonText => Ok(Value::Json((text + "]").into())),
            State::Text(text) if self.kind == Kind::ObjectText => Ok(Value::Json((text + " }").into())),
            State::Text(text) => Ok(text.into()),
            State::Pairs(pairs) => Json::object(pairs).check_depth().map(Value::json),
            State::Sums(sums) => Ok(match self.kind {
                Kind::Regression(what) => sums.finish(what),
                _ => Value::Null,
            }),
            State::Bytes(bytes) => Ok(Value::Bytea(bytes.into())),
            State::Json(values) => Json::Array(values).check_depth().map(Value::json),
            State::Ordered(values, fraction) => match self.kind {
                Kind::Mode => Ok(ordered::mode(&values, self.argument)),
                kind => {
                    let is_continuous = kind == Kind::PercentileCont;
                    let one = if is_continuous { ordered::percentile_cont } else { ordered::percentile_disc };
                    ordered::percentiles(&values, &fraction, self.argument.scalar, one)
                }
            },
            State::Values(values) => {
                collect_array(values, self.result.scalar, self.argument.is_array).map(Value::array)
            }
            State::Integers { count, sum, squares } => match self.kind {
                Kind::Sum if self.result == SqlType::INT8 => sum
                    .try_into()
                    .map(Value::Int8)
                    .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "bigint out of range")),
                kind => finish_exact(kind, count, &sum.into(), &squares),
            },
            State::Exact { count, sum, squares } => finish_exact(self.kind, count, &sum, &squares),
            State::Floats { count, sum, squares } => Ok(match self.kind {
                Kind::Sum if self.result == SqlType::FLOAT4 => Value::Float4(cast::narrow_float(sum)?),
                Kind::Sum => Value::Float8(sum),
                Kind::Average => Value::Float8(sum / count as f64),
                Kind::Spread { is_root, is_population } => {
                    if count == 1 && !is_population {
                        return Ok(Value::Null);
                    }
                    let variance = squares / (if is_population { count } else { count - 1 }) as f64;
                    Value::Float8(if is_root { variance.sqrt() } else { variance })
                }
                _ => Value::Null,
            }),
            State::Intervals { count, months, days, micros } => {
                let sum = crate::datetime::interval_from_parts(months, days, micros)?;
                if self.kind == Kind::Sum {
                    return Ok(sum);
                }
                let divide = crate::operators::resolve_binary("/", Some(SqlType::INTERVAL), Some(SqlType::FLOAT8))?;
                (divide.function)(&sum, &Value::Float8(count as f64), &Environment::default())
            }
        }
    }
}

/// Computes the sum, average, variance or deviation of exact numbers.
fn finish_exact(kind: Kind, count: i64, sum: &Numeric, squares: &Numeric) -> Result<Value> {
    let count_number = Numeric::from(count);
    match kind {
        Kind::Sum => Ok(sum.clone().into()),
        Kind::Average => sum.divide(&count_number).map(Value::Numeric),
        Kind::Spread { is_root, is_population } => {
            if count == 1 && !is_population {
                return Ok(Value::Null);
            }
            if !sum.is_finite() {
                return Ok(Numeric::NAN.into());
            }
            // (n * sum of squares - square of sum) / (n * (n or n - 1))
            let dividend = count_number.multiply(squares)?.subtract(&sum.multiply(sum)?)?;
            if dividend.signum() <= 0 {
                return Ok(Numeric::ZERO.into());
            }
            let freedom = Numeric::from(if is_population { count } else { count - 1 });
            let variance = dividend.divide(&count_number.multiply(&freedom)?)?;
            if !is_root {
                return Ok(variance.into());
            }
            // The root gets as many digits as the variance has.
            Ok(variance.sqrt_to(variance.scale())?.into())
        }
        _ => Ok(Value::Null),
    }
}

/// Returns an array of values, or of arrays of the same dimensions.
pub fn collect_array(values: Vec<Value>, scalar: Scalar, is_nested: bool) -> Result<Array> {
    if is_nested && values.iter().any(Value::is_null) {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
    }
    let Some(Value::Array(first)) = values.first() else {
        if values.iter().any(|value| matches!(value, Value::Array(_))) {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
        }
        return if values.len() > ELEMENTS_MAX { Err(too_large()) } else { Ok(Array::new(scalar, values)) };
    };
    if first.dimensions().is_empty() {
        return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, "cannot accumulate empty arrays"));
    }
    let inner = first.dimensions().to_vec();
    let mut dimensions = vec![Dimension { length: values.len() as u32, lower: 1 }];
    dimensions.extend(inner.iter().copied());
    let mut elements = Vec::new();
    for value in values {
        match value {
            Value::Array(array) if array.dimensions() == inner => elements.extend(array.into_elements()),
            Value::Null => {
                return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "cannot accumulate arrays of different dimensionality",
                ));
            }
        }
    }
    Array::with_dimensions(scalar, &dimensions, elements).ok_or_else(too_large)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    fn run(name: &str, ty: SqlType, values: &[&str]) -> String {
        let environment = Environment::default();
        let types = [Some(ty); 2];
        let aggregate = aggregate(name, &types[..1 + usize::from(name == "string_agg")]).unwrap();
        let mut accumulator = aggregate.accumulator();
        for content in values {
            let value = match *content {
                "NULL" => Value::Null,
                content => text::parse(ty, -1, content, &environment).unwrap(),
            };
            accumulator.add(&[value, ", ".into()], &environment).unwrap();
        }
        let value = accumulator.finish().unwrap();
        if value.is_null() { "NULL".into() } else { text::to_string(&value, aggregate.result, &environment) }
    }

    #[test]
    fn aggregates_are_postgresqls() {
        let (int4, int8, numeric) = (SqlType::INT4, SqlType::INT8, SqlType::NUMERIC);
        for (name, ty, values, expected) in [
            ("count", int4, &["1", "NULL", "2"][..], "2"),
            ("count", int4, &[], "0"),
            ("sum", int4, &["2147483647", "1"], "2147483648"),
            ("sum", int8, &["9223372036854775807", "1"], "9223372036854775808"),
            ("sum", int4, &[], "NULL"),
            ("avg", int4, &["1", "2"], "1.5000000000000000"),
            ("avg", numeric, &["1.0", "2.0", "2.0"], "1.6666666666666667"),
            ("avg", SqlType::FLOAT8, &["1", "2"], "1.5"),
            ("min", SqlType::TEXT, &["b", "a"], "a"),
            ("max", SqlType::DATE, &["2020-01-01", "NULL", "2021-01-01"], "2021-01-01"),
            ("bool_and", SqlType::BOOL, &["t", "f"], "f"),
            ("bool_or", SqlType::BOOL, &["t", "f"], "t"),
            ("string_agg", SqlType::TEXT, &["a", "b"], "a, b"),
            ("array_agg", int4, &["1", "NULL"], "{1,NULL}"),
            ("array_agg", int4.array(), &["{1,2}", "{3,4}"], "{{1,2},{3,4}}"),
            ("jsonb_agg", int4, &["1", "NULL"], "[1, null]"),
            ("stddev", int4, &["1", "2", "3", "4"], "1.2909944487358056"),
            ("var_pop", numeric, &["1", "2"], "0.25000000000000000000"),
            ("stddev_pop", SqlType::INT8, &["4000000000", "-3"], "2000000001"),
            ("variance", int4, &["1"], "NULL"),
            ("var_samp", SqlType::FLOAT8, &["1", "2", "3"], "1"),
            ("sum", SqlType::INTERVAL, &["1 hour", "1 day"], "1 day 01:00:00"),
            ("avg", SqlType::INTERVAL, &["1 hour", "2 hours"], "01:30:00"),
        ] {
            assert_eq!(run(name, ty, values), expected, "{name} {values:?}");
        }
        assert!(aggregate("sum", &[Some(SqlType::TEXT)]).is_err());
    }
}
