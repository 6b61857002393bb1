//! Random values, for the tests of this crate and of those above it: ends of ranges, special and equal values are
//! likely.

use std::net::IpAddr;

use crate::{
    Array, Json, Numeric, Record, Scalar, SqlType, Value, array::Dimension, bits::Bits, network::Inet, record::Field,
};

/// Returns a number that is often small, often at an end of its range.
fn random_integer(random: &mut fastrand::Rng) -> i64 {
    match random.u8(..4) {
        0 => random.i64(-3..=3),
        1 => random.i64(-100_000..=100_000),
        2 => random.i64(..),
        _ => *random.choice(&[i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX)]).unwrap(),
    }
}

fn random_float(random: &mut fastrand::Rng) -> f64 {
    match random.u8(..5) {
        0 => *random.choice(&[0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e15, 1e-5]).unwrap(),
        1 => f64::from_bits(random.u64(..)),
        2 => f64::from(random.i32(-5..5)),
        3 => f64::from(f32::from_bits(random.u32(..))),
        _ => (random.f64() - 0.5) * 1000.0,
    }
}

fn random_numeric(random: &mut fastrand::Rng, is_json: bool) -> Numeric {
    if !is_json && random.u8(..10) == 0 {
        return random.choice([Numeric::NAN, Numeric::INFINITY, Numeric::NEGATIVE_INFINITY]).unwrap();
    }
    let mut text = String::from(if random.bool() { "-" } else { "" });
    let length = if random.u8(..5) == 0 { 60 } else { 6 };
    (0..random.usize(1..length)).for_each(|_| text.push(random.digit(10)));
    if random.bool() {
        text.push('.');
        (0..random.usize(1..length)).for_each(|_| text.push(random.digit(10)));
    }
    text.parse().unwrap()
}

fn random_text(random: &mut fastrand::Rng) -> Box<str> {
    let letters = ['a', 'b', 'Z', ' ', '\u{1}', '\u{2}', '"', '\\', ',', '{', '}', '\u{e9}', '\u{1f600}', '\n', '0'];
    let length = if random.u8(..20) == 0 { 200 } else { 5 };
    (0..random.usize(..length)).map(|_| *random.choice(&letters).unwrap()).collect::<String>().into()
}

fn random_json(random: &mut fastrand::Rng, depth: usize) -> Json {
    match random.u8(..if depth > 3 { 5 } else { 8 }) {
        0 => Json::Null,
        1 => Json::Bool(random.bool()),
        2 | 3 => Json::Number(random_numeric(random, true)),
        4 => Json::String(random_text(random)),
        5 | 6 => Json::Array((0..random.usize(..4)).map(|_| random_json(random, depth + 1)).collect()),
        _ => Json::object(
            (0..random.usize(..4)).map(|_| (random_text(random), random_json(random, depth + 1))).collect(),
        ),
    }
}

/// Returns a value of a type that is not NULL; equal ones are likely.
pub fn random_value(ty: SqlType, random: &mut fastrand::Rng) -> Value {
    if ty.is_array {
        let element = SqlType::scalar(ty.scalar);
        let lengths: Vec<u32> = (0..random.usize(1..4)).map(|_| random.u32(1..3)).collect();
        let count = if random.u8(..5) == 0 { 0 } else { lengths.iter().product() };
        let lower = if random.u8(..4) == 0 { random.i32(-2..3) } else { 1 };
        let dimensions: Vec<_> = lengths.iter().map(|&length| Dimension { length, lower }).collect();
        let elements: Vec<_> =
            (0..count).map(|_| if random.u8(..5) == 0 { Value::Null } else { random_value(element, random) }).collect();
        let array = if count == 0 {
            Array::new(ty.scalar, elements)
        } else {
            Array::with_dimensions(ty.scalar, &dimensions, elements).unwrap()
        };
        return Value::array(array);
    }
    match ty.scalar {
        Scalar::Bool => Value::Bool(random.bool()),
        Scalar::Int2 => Value::Int2(random_integer(random) as i16),
        Scalar::Int4 => Value::Int4(random_integer(random) as i32),
        Scalar::Int8 => Value::Int8(random_integer(random)),
        Scalar::Float4 => Value::Float4(random_float(random) as f32),
        Scalar::Float8 => Value::Float8(random_float(random)),
        Scalar::Numeric => Value::Numeric(random_numeric(random, false)),
        Scalar::Char => Value::Char(random_text(random).into()),
        Scalar::Varchar | Scalar::Text => Value::text(random_text(random)),
        Scalar::Name => Value::text(random_text(random).chars().take(10).collect::<String>()),
        Scalar::InternalChar => Value::text(if random.bool() { "r" } else { "" }),
        Scalar::Bytea => Value::Bytea((0..random.usize(..5)).map(|_| random.u8(..4)).collect()),
        Scalar::Date => match random.u8(..8) {
            0 => Value::Date(i32::MIN),
            1 => Value::Date(i32::MAX),
            _ => Value::Date(random.i32(-2_000_000..2_000_000)),
        },
        Scalar::Time => Value::Time(random.i64(0..=86_400_000_000)),
        Scalar::Timestamp | Scalar::TimestampTz => {
            let micros = match random.u8(..8) {
                0 => i64::MIN,
                1 => i64::MAX,
                2 => random.i64(-100_000_000_000_000_000..1_000_000_000_000_000_000),
                _ => random.i64(-1000..1000) * 1_800_000_000,
            };
            if ty == SqlType::TIMESTAMP { Value::Timestamp(micros) } else { Value::TimestampTz(micros) }
        }
        Scalar::Interval => Value::Interval {
            months: random.i32(-3..=3) * random.i32(0..1000),
            days: random.i32(-100..=100),
            micros: random.i64(-3..=3) * random.i64(0..100_000_000_000),
        },
        Scalar::Uuid => {
            let mut uuid = [0; 16];
            random.fill(&mut uuid[..2]);
            Value::Uuid(uuid)
        }
        Scalar::Jsonb => Value::json(random_json(random, 0)),
        Scalar::Json => Value::Json(random_json(random, 0).to_string().into()),
        Scalar::Inet | Scalar::Cidr => {
            let address = match random.bool() {
                true => IpAddr::from([random.u8(..3), 0, random.u8(..), random.u8(..3)]),
                false => IpAddr::from([random.u16(..3), 0, 0, random.u16(..), 0, 0, 0, random.u16(..3)]),
            };
            let prefix = random.u8(..=if address.is_ipv4() { 32 } else { 128 });
            let inet = Inet { address, prefix, is_network: false };
            Value::Inet(if ty == SqlType::CIDR { inet.network() } else { inet })
        }
        Scalar::Jsonpath => {
            let paths = ["$", "strict $.\"a\"[*]?(@ > 1)", "($.\"a\" + 1)", "$[last - 1,0 to 3].*"];
            Value::Jsonpath(random.choice(paths).unwrap_or("$").into())
        }
        Scalar::Macaddr => {
            let mut address = [0; 6];
            random.fill(&mut address[4..]);
            Value::Macaddr(address)
        }
        Scalar::TimeTz => {
            let micros = random.i64(0..=24) * 3_600_000_000;
            Value::TimeTz { micros, ahead: random.i32(-15..=15) * 3600 + random.i32(-1..=1) }
        }
        Scalar::Macaddr8 => {
            let mut address = [0; 8];
            random.fill(&mut address[6..]);
            Value::Macaddr8(address)
        }
        Scalar::Bit | Scalar::Varbit => {
            let length = random.u32(..20);
            Value::bits(Bits::of_integer(random.i64(..) & if random.bool() { 0x0101_0101 } else { -1 }, length))
        }
        Scalar::Oid => Value::Oid(random_integer(random) as u32),
        Scalar::Enum(of) => Value::Enum { of, position: random_integer(random) },
        Scalar::Record => {
            let types = [SqlType::TEXT, SqlType::INT4].into_iter().take(random.usize(..3));
            let fields = types.map(|ty| Field { name: "f".into(), ty }).collect::<Vec<_>>();
            let values = fields.iter().map(|field| match random.u8(..5) {
                0 => Value::Null,
                _ => random_value(field.ty, random),
            });
            let values = values.collect();
            Record::new(fields.into(), values).map_or(Value::Null, |record| Value::Record(Box::new(record)))
        }
    }
}
