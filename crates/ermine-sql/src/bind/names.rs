//! Names and types as statements write them.

use std::sync::Arc;

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, ObjectName, ObjectNamePart, TimezoneInfo,
};

use crate::{
    collation::Collation,
    error::{Result, SqlError, SqlState},
    parse::place::at_name,
    system::reg::Reg,
    types::{Environment, Scalar, SqlType, datetime::Range, user_types::UserType},
};

/// Maximum length of a name; longer ones are cut, as PostgreSQL does.
const NAME_MAX: usize = 63;

/// Returns a name: in lower case, unless it is quoted.
pub(crate) fn name_of(ident: &Ident) -> String {
    let mut name = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
    name.truncate(cut(&name).len());
    name
}

/// Returns the significant prefix of a name.
pub(crate) fn cut(name: &str) -> &str {
    let end = (0..=NAME_MAX.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    &name[..end.unwrap_or(0)]
}

/// Returns the parts of a name.
pub(crate) fn parts_of(name: &ObjectName) -> Result<Vec<String>> {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(ident) => Ok(name_of(ident)),
        ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function as a name")),
    };
    name.0.iter().map(part).collect()
}

/// Splits the name of a relation into its schema, if given, and its own name.
pub(crate) fn relation_of(name: &ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = parts_of(name)?;
    let own = parts.pop().unwrap_or_default();
    match &mut parts[..] {
        [] => Ok((None, own)),
        // The first of three parts is the database.
        [schema] | [_, schema] => Ok((Some(std::mem::take(schema)), own)),
        _ => {
            let message = format!("improper relation name (too many dotted names): {name}");
            Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
        }
    }
}

/// Returns a collation; fails for unsupported ones: texts are compared by their bytes.
pub(crate) fn collation_of(name: &ObjectName) -> Result<Collation> {
    match &*relation_of(name)?.1 {
        "default" => Ok(Collation::Default),
        "C" | "c" => Ok(Collation::C),
        "POSIX" => Ok(Collation::Posix),
        "ucs_basic" => Ok(Collation::UcsBasic),
        other => Err(SqlError::unsupported(format_args!("collation \"{other}\""))),
    }
}

/// Returns a name that has no schema.
pub(crate) fn simple_name(name: &ObjectName) -> Result<String> {
    match &mut parts_of(name)?[..] {
        [own] => Ok(std::mem::take(own)),
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("a name without dots was expected: {name}"))),
    }
}

/// Returns a type with its modifier.
pub(crate) fn type_of(data_type: &DataType, environment: &Environment) -> Result<(SqlType, i32)> {
    let plain = |ty| Ok((ty, -1));
    match data_type {
        DataType::Bool | DataType::Boolean => plain(SqlType::BOOL),
        DataType::SmallInt(Some(_)) | DataType::Int2(Some(_)) => bare(SqlType::INT2),
        DataType::Int(Some(_)) | DataType::Integer(Some(_)) | DataType::Int4(Some(_)) => bare(SqlType::INT4),
        DataType::BigInt(Some(_)) | DataType::Int8(Some(_)) => bare(SqlType::INT8),
        DataType::SmallInt(None) | DataType::Int2(None) => plain(SqlType::INT2),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => plain(SqlType::INT4),
        DataType::BigInt(None) | DataType::Int8(None) => plain(SqlType::INT8),
        DataType::Real | DataType::Float4 => plain(SqlType::FLOAT4),
        DataType::Double(_) => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, "type \"double\" does not exist")),
        DataType::DoublePrecision | DataType::Float8 => plain(SqlType::FLOAT8),
        DataType::Float(ExactNumberInfo::Precision(digits)) if *digits <= 24 => plain(SqlType::FLOAT4),
        DataType::Float(_) => plain(SqlType::FLOAT8),
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            Ok((SqlType::NUMERIC, numeric_modifier(info)?))
        }
        DataType::Char(length) | DataType::Character(length) => {
            Ok((SqlType::CHAR, length_modifier(length.as_ref(), Some(1))?))
        }
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            Ok((SqlType::VARCHAR, length_modifier(length.as_ref(), None)?))
        }
        DataType::Text | DataType::String(None) => plain(SqlType::TEXT),
        DataType::Bytea => plain(SqlType::BYTEA),
        DataType::Date => plain(SqlType::DATE),
        DataType::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok((SqlType::TIME, precision_modifier(*precision)))
        }
        DataType::Time(precision, _) => Ok((SqlType::TIMETZ, precision_modifier(*precision))),
        DataType::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok((SqlType::TIMESTAMP, precision_modifier(*precision)))
        }
        DataType::Timestamp(precision, _) => Ok((SqlType::TIMESTAMPTZ, precision_modifier(*precision))),
        DataType::Interval { fields, precision } => {
            let names = fields.as_ref().map(ToString::to_string).unwrap_or_default();
            let (first, last) = names.split_once(" TO ").map_or((&*names, None), |(first, last)| (first, Some(last)));
            Ok((SqlType::INTERVAL, interval_modifier(first, last, *precision)?))
        }
        DataType::Bit(length) => Ok((SqlType::BIT, bits_modifier(length.or(Some(1)), "bit")?)),
        DataType::BitVarying(length) | DataType::VarBit(length) => {
            Ok((SqlType::VARBIT, bits_modifier(*length, "varbit")?))
        }
        DataType::Uuid => plain(SqlType::UUID),
        DataType::JSONB => plain(SqlType::JSONB),
        DataType::JSON => plain(SqlType::JSON),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _)) => {
            if let DataType::Custom(name, _) = &**element
                && user_type_of(name, environment)?.is_some_and(|ty| ty.domain().is_some())
            {
                return Err(SqlError::unsupported("an array of a domain"));
            }
            let (element, modifier) = type_of(element, environment)?;
            Ok((element.array(), modifier))
        }
        DataType::Custom(name, modifiers) => custom_type(data_type, name, modifiers, environment),
        DataType::Regclass => Ok((SqlType::OID, Reg::Class.modifier())),
        // The grammar knows it from elsewhere.
        other => match environment.user_type(None, &other.to_string().to_lowercase()) {
            Some(ty) => Ok((ty.ty(), -1)),
            None => Err(SqlError::unsupported(format_args!("type {other}"))),
        },
    }
}

/// Returns the name that a cast to a type gives its result.
pub(crate) fn type_label(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::Qualified(element, _)) => {
            type_label(element)
        }
        other => match (type_of(other, &Environment::default()), other) {
            (Ok((ty, _)), _) => SqlType::scalar(ty.scalar).typname().map(str::to_owned),
            (Err(_), DataType::Custom(name, _)) => Some(relation_of(name).ok()?.1),
            (Err(_), _) => None,
        },
    }
}

/// Returns the type of a name, if a statement has created it. Names of PostgreSQL's own types mean these, unless the
/// schema is given.
pub(crate) fn user_type_of<'e>(name: &ObjectName, environment: &'e Environment) -> Result<Option<&'e Arc<UserType>>> {
    if environment.types.is_empty() {
        return Ok(None);
    }
    let (schema, own) = relation_of(name)?;
    let is_hidden = schema.is_none() && SqlType::from_name(&own).is_some();
    Ok(environment.user_type(schema.as_deref(), &own).filter(|_| !is_hidden))
}

/// The error of a type that is given a modifier that it does not have.
fn bare(ty: SqlType) -> Result<(SqlType, i32)> {
    let message = format!("type modifier is not allowed for type \"{}\"", ty.name());
    Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
}

/// Returns a type that the grammar has no word for.
fn custom_type(
    data_type: &DataType,
    name: &ObjectName,
    modifiers: &[String],
    environment: &Environment,
) -> Result<(SqlType, i32)> {
    let plain = |ty| Ok((ty, -1));
    if let Some(ty) = user_type_of(name, environment)? {
        return match modifiers {
            [] => Ok((ty.ty(), ty.domain().map_or(-1, |domain| domain.modifier))),
            _ => bare(ty.ty()),
        };
    }
    match (&*simple_type_name(name)?, modifiers) {
        ("oid", []) => plain(SqlType::OID),
        ("record", _) => Err(SqlError::unsupported("type record")),
        ("name", []) => plain(SqlType::NAME),
        ("bpchar", [length]) => Ok((SqlType::CHAR, length.parse::<i32>().map_or(-1, |length| length + 4))),
        ("bpchar", []) => plain(SqlType::CHAR),
        // The type `char` has a word in the grammar: this one was written in quotes, or behind its schema.
        ("char", []) => plain(SqlType::INTERNAL_CHAR),
        ("timestamptz", [precision]) => Ok((SqlType::TIMESTAMPTZ, precision.parse().unwrap_or(-1))),
        ("timestamptz", []) => plain(SqlType::TIMESTAMPTZ),
        (other, modifiers) => match (Reg::named(other), SqlType::from_name(other)) {
            (Some(reg), _) if modifiers.is_empty() => Ok((SqlType::OID, reg.modifier())),
            (Some(_), _) => bare(SqlType::OID),
            (None, Some(ty)) if modifiers.is_empty() => plain(ty),
            (None, Some(ty)) if takes_modifier(ty) => {
                Err(SqlError::unsupported(format_args!("the modifier of type {data_type}")))
            }
            (None, Some(ty)) => bare(ty),
            (None, None) => {
                let error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{other}\" does not exist"));
                Err(at_name(error, name))
            }
        },
    }
}

/// Whether values of a type have a length or a precision.
fn takes_modifier(ty: SqlType) -> bool {
    use Scalar::{Bit, Char, Interval, Numeric, Time, TimeTz, Timestamp, TimestampTz, Varbit, Varchar};
    matches!(ty.scalar, Bit | Varbit | Char | Interval | Numeric | Time | TimeTz | Timestamp | TimestampTz | Varchar)
}

/// Returns the name of a type that the grammar has no word for.
pub(crate) fn simple_type_name(name: &ObjectName) -> Result<String> {
    let (schema, own) = relation_of(name)?;
    match schema.as_deref() {
        None | Some("pg_catalog") => Ok(own),
        Some(schema) => {
            let error = SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{schema}.{own}\" does not exist"));
            Err(at_name(error, name))
        }
    }
}

fn numeric_modifier(info: &ExactNumberInfo) -> Result<i32> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(-1),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if !(1..=1000).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if !(-1000..=1000).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(((precision as i32) << 16 | (scale as i32 & 0x7ff)) + 4)
}

fn length_modifier(length: Option<&CharacterLength>, usual: Option<u64>) -> Result<i32> {
    let length = match length {
        Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
        Some(CharacterLength::Max) => None,
        None => usual,
    };
    match length {
        None => Ok(-1),
        Some(length @ 1..=10_485_760) => Ok(length as i32 + 4),
        Some(length) => {
            let message = format!("length for type varchar must be between 1 and 10485760, not {length}");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Returns the modifier of an interval with some of the fields.
pub(crate) fn interval_modifier(first: &str, last: Option<&str>, precision: Option<u64>) -> Result<i32> {
    if first.is_empty() && precision.is_none() {
        return Ok(-1);
    }
    let fields = Range::between(first, last.unwrap_or(first)).ok_or_else(|| {
        let last = last.map(|last| format!(" TO {last}")).unwrap_or_default();
        SqlError::new(SqlState::SYNTAX_ERROR, format!("an interval has no fields {first}{last}"))
    })?;
    let digits = precision.map_or(Range::FULL_PRECISION, |digits| digits.min(6) as i32);
    Ok(fields << 16 | digits)
}

fn bits_modifier(length: Option<u64>, ty: &str) -> Result<i32> {
    const LENGTH_MAX: u64 = 8 * 10_485_760;
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match length {
        None => Ok(-1),
        Some(0) => invalid(format!("length for type {ty} must be at least 1")),
        Some(length @ 1..=LENGTH_MAX) => Ok(length as i32),
        Some(_) => invalid(format!("length for type {ty} cannot exceed {LENGTH_MAX}")),
    }
}

fn precision_modifier(precision: Option<u64>) -> i32 {
    precision.map_or(-1, |digits| digits.min(6) as i32)
}
