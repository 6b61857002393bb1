//! SQL's types and values, and the operators and functions over them, as PostgreSQL has them.
//!
//! | module | contents |
//! |---|---|
//! | `value`, `numeric`, `json`, `array`, `record`, `datetime`, `network`, `bits` | the values themselves |
//! | `text`, `binary` | the formats in which PostgreSQL's clients send and receive them |
//! | `row` | the format in which the engine stores them |
//! | `order` | the order of values of a type |
//! | `cast` | conversions to other types |
//! | `operators`, `functions` | resolve a name and its argument types to a function, and implement it |
//! | `error` | PostgreSQL's error codes and fields |
//! | `keywords` | the words that are no names |
//! | `user_types` | the types that statements have created |
//! | `memory` | the memory that a statement may take |
//!
//! This crate is independent of statements, tables, sessions and the engine: it compiles beside the engine, and
//! `ermine-sql` puts the two together. An [`Environment`] holds everything that an expression may depend on besides its
//! arguments.

#![forbid(unsafe_code)]

pub mod array;
pub mod binary;
pub mod bits;
pub mod cast;
pub mod datetime;
pub mod error;
pub mod functions;
pub mod in_range;
pub mod json;
pub mod keywords;
pub mod memory;
pub mod network;
pub mod numeric;
pub mod operators;
pub mod order;
pub mod random;
pub mod record;
pub mod row;
mod space;
pub mod spilled;
pub mod text;
pub mod user_types;
mod value;

pub use array::Array;
pub use jiff::tz::TimeZone;
pub use json::Json;
pub use numeric::Numeric;
pub use record::Record;
pub use value::Value;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use serde::{Deserialize, Serialize};

use crate::{
    error::{Result, SqlError},
    memory::Memory,
    user_types::UserTypes,
};

/// A type of one value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Scalar {
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`, exact
    Numeric,
    /// `char(n)`, padded with blanks
    Char,
    /// `varchar(n)`
    Varchar,
    /// `text`
    Text,
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `time` without time zone
    Time,
    /// `timestamp` without time zone
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `jsonb`
    Jsonb,
    /// `oid`, of the system's tables
    Oid,
    /// `name`, of the system's tables
    Name,
    /// `json`, which keeps its text
    Json,
    /// An enumeration that a statement has created, by its number
    Enum(u32),
    /// `inet`
    Inet,
    /// `cidr`
    Cidr,
    /// `macaddr`
    Macaddr,
    /// `time with time zone`
    TimeTz,
    /// `jsonpath`
    Jsonpath,
    /// `record`: no column of a table has it
    Record,
    /// `bit(n)`
    Bit,
    /// `bit varying(n)`
    Varbit,
    /// `macaddr8`
    Macaddr8,
    /// `"char"`, one byte, of the system's tables
    InternalChar,
}

/// A type: of one value, or of arrays of such values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SqlType {
    /// The type of the value, or of the array's elements.
    pub scalar: Scalar,
    /// Whether it is an array.
    pub is_array: bool,
}

/// The description of a scalar type in PostgreSQL's system tables.
struct Known {
    oid: u32,
    array_oid: u32,
    /// The name in `format_type`.
    name: &'static str,
    array_name: &'static str,
    /// The name in `pg_type`.
    typname: &'static str,
    array_typname: &'static str,
    typlen: i16,
}

const RECORD: Known = Known {
    oid: 2249,
    array_oid: 2287,
    name: "record",
    array_name: "record[]",
    typname: "record",
    array_typname: "_record",
    typlen: -1,
};

macro_rules! types {
    ($(
        $scalar:ident $constant:ident $oid:literal $array_oid:literal $name:literal $typname:literal $typlen:literal
    )*) => {
        /// All types that exist from the beginning and that columns may have.
        const SCALARS: &[Scalar] = &[$(Scalar::$scalar),*];

        impl Scalar {
            /// Returns the description of a type; `None`: a statement has created it.
            const fn known(self) -> Option<&'static Known> {
                match self {
                    $(Self::$scalar => Some(&Known {
                        oid: $oid,
                        array_oid: $array_oid,
                        name: $name,
                        array_name: concat!($name, "[]"),
                        typname: $typname,
                        array_typname: concat!("_", $typname),
                        typlen: $typlen,
                    }),)*
                    Self::Record => Some(&RECORD),
                    Self::Enum(_) => None,
                }
            }
        }

        impl SqlType {
            $(
                #[doc = concat!("`", $name, "`")]
                pub const $constant: Self = Self::scalar(Scalar::$scalar);
            )*
        }
    };
}

types! {
    Bool BOOL 16 1000 "boolean" "bool" 1
    Int2 INT2 21 1005 "smallint" "int2" 2
    Int4 INT4 23 1007 "integer" "int4" 4
    Int8 INT8 20 1016 "bigint" "int8" 8
    Float4 FLOAT4 700 1021 "real" "float4" 4
    Float8 FLOAT8 701 1022 "double precision" "float8" 8
    Numeric NUMERIC 1700 1231 "numeric" "numeric" -1
    Char CHAR 1042 1014 "character" "bpchar" -1
    Varchar VARCHAR 1043 1015 "character varying" "varchar" -1
    Text TEXT 25 1009 "text" "text" -1
    Bytea BYTEA 17 1001 "bytea" "bytea" -1
    Date DATE 1082 1182 "date" "date" 4
    Time TIME 1083 1183 "time without time zone" "time" 8
    Timestamp TIMESTAMP 1114 1115 "timestamp without time zone" "timestamp" 8
    TimestampTz TIMESTAMPTZ 1184 1185 "timestamp with time zone" "timestamptz" 8
    Interval INTERVAL 1186 1187 "interval" "interval" 16
    Uuid UUID 2950 2951 "uuid" "uuid" 16
    Jsonb JSONB 3802 3807 "jsonb" "jsonb" -1
    Oid OID 26 1028 "oid" "oid" 4
    Name NAME 19 1003 "name" "name" 64
    Json JSON 114 199 "json" "json" -1
    Inet INET 869 1041 "inet" "inet" -1
    Cidr CIDR 650 651 "cidr" "cidr" -1
    Macaddr MACADDR 829 1040 "macaddr" "macaddr" 6
    TimeTz TIMETZ 1266 1270 "time with time zone" "timetz" 12
    Jsonpath JSONPATH 4072 4073 "jsonpath" "jsonpath" -1
    Bit BIT 1560 1561 "bit" "bit" -1
    Varbit VARBIT 1562 1563 "bit varying" "varbit" -1
    Macaddr8 MACADDR8 774 775 "macaddr8" "macaddr8" 8
    InternalChar INTERNAL_CHAR 18 1002 "\"char\"" "char" 1
}

/// The difference between PostgreSQL's modifiers and the lengths that they stand for.
const MODIFIER_OFFSET: i32 = 4;

/// The length in bytes to which a `name` is cut.
pub const NAME_LENGTH_MAX: usize = 63;

impl SqlType {
    /// `record`
    pub const RECORD: Self = Self::scalar(Scalar::Record);

    /// Returns the type of one value.
    pub const fn scalar(scalar: Scalar) -> Self {
        Self { scalar, is_array: false }
    }

    /// Returns all types that exist from the beginning and that columns may have, arrays too.
    pub fn all() -> impl Iterator<Item = Self> {
        SCALARS.iter().flat_map(|scalar| [Self::scalar(*scalar), Self::scalar(*scalar).array()])
    }

    /// Returns the type of its arrays; for an array of any number of dimensions, the type itself.
    pub const fn array(self) -> Self {
        Self { scalar: self.scalar, is_array: true }
    }

    /// Returns the type of an array's elements.
    pub const fn element(self) -> Option<Self> {
        if self.is_array { Some(Self::scalar(self.scalar)) } else { None }
    }

    /// Returns PostgreSQL's number for the type.
    pub fn oid(self) -> u32 {
        match (self.scalar, self.scalar.known()) {
            (_, Some(known)) => {
                if self.is_array {
                    known.array_oid
                } else {
                    known.oid
                }
            }
            (Scalar::Enum(oid), _) => oid + u32::from(self.is_array),
            (_, None) => 0,
        }
    }

    /// Returns the type with this number, if it exists from the beginning.
    pub fn from_oid(oid: u32) -> Option<Self> {
        Self::all().chain([Self::RECORD, Self::RECORD.array()]).find(|ty| ty.oid() == oid)
    }

    /// Returns its name in messages, as in `format_type`. That of a type which a statement has created is not known
    /// here: the name is a mark, which [`Environment::named`] replaces.
    pub fn name(self) -> Cow<'static, str> {
        match (self.scalar, self.scalar.known()) {
            (_, Some(known)) => if self.is_array { known.array_name } else { known.name }.into(),
            (Scalar::Enum(oid), _) => (user_types::mark(oid) + if self.is_array { "[]" } else { "" }).into(),
            (_, None) => "???".into(),
        }
    }

    /// Returns its name in `pg_type`; `None`: a statement has created it.
    pub fn typname(self) -> Option<&'static str> {
        let known = self.scalar.known()?;
        Some(if self.is_array { known.array_typname } else { known.typname })
    }

    /// Returns the type of a name that statements may use for it, in lower case and without modifiers.
    pub fn from_name(name: &str) -> Option<Self> {
        if let Some(element) = name.strip_suffix("[]") {
            return Self::from_name(element.trim_end()).map(Self::array);
        }
        Some(match name {
            "int" => Self::INT4,
            "decimal" => Self::NUMERIC,
            "float" => Self::FLOAT8,
            "char" => Self::CHAR,
            "time" => Self::TIME,
            "timestamp" => Self::TIMESTAMP,
            _ => {
                return Self::all().find(|ty| name == ty.name() || Some(name) == ty.typname());
            }
        })
    }

    /// Returns the type that a call like `uuid(x)` casts to: PostgreSQL calls types by their names in `pg_type`.
    pub fn of_function(name: &str) -> Option<Self> {
        Self::all().find(|ty| !ty.is_array && ty.typname() == Some(name))
    }

    /// Returns the size of its values in bytes, as PostgreSQL reports it to clients; -1: not constant.
    pub fn typlen(self) -> i16 {
        const ENUM_LENGTH: i16 = 4;
        if self.is_array { -1 } else { self.scalar.known().map_or(ENUM_LENGTH, |known| known.typlen) }
    }

    /// Returns its name with the modifier, in the syntax of statements: `numeric(10,2)`.
    pub fn describe(self, modifier: i32) -> String {
        let brackets = if self.is_array { "[]" } else { "" };
        let name = Self::scalar(self.scalar).name();
        match (self.scalar, modifier) {
            (Scalar::Char, -1) if !self.is_array => "bpchar".into(),
            (Scalar::Char, -1) => "bpchar[]".into(),
            (_, ..0) => format!("{name}{brackets}"),
            (Scalar::Char | Scalar::Varchar, _) => match Self::length_of(modifier) {
                Some(length) => format!("{name}({length}){brackets}"),
                None => format!("{name}{brackets}"),
            },
            (Scalar::Bit | Scalar::Varbit, _) => format!("{name}({modifier}){brackets}"),
            (Scalar::Numeric, _) => match Self::precision_and_scale_of(modifier) {
                Some((precision, scale)) => format!("{name}({precision},{scale}){brackets}"),
                None => format!("{name}{brackets}"),
            },
            (Scalar::Time | Scalar::TimeTz | Scalar::Timestamp | Scalar::TimestampTz, _) => {
                let (word, rest) = name.split_once(' ').unwrap_or((&name, ""));
                format!("{word}({modifier}) {rest}{brackets}")
            }
            (Scalar::Interval, _) => {
                let fields = datetime::Range::of(modifier).describe();
                match modifier & datetime::Range::FULL_PRECISION {
                    precision @ 0..=6 => format!("{name}{fields}({precision}){brackets}"),
                    _ => format!("{name}{fields}{brackets}"),
                }
            }
            _ => format!("{name}{brackets}"),
        }
    }

    /// Returns the modifier of `char(length)` and `varchar(length)`.
    pub const fn length_modifier(length: i32) -> i32 {
        length + MODIFIER_OFFSET
    }

    /// Returns the length that such a modifier stands for.
    pub const fn length_of(modifier: i32) -> Option<usize> {
        if modifier >= MODIFIER_OFFSET { Some((modifier - MODIFIER_OFFSET) as usize) } else { None }
    }

    /// Returns the modifier of `numeric(precision, scale)`.
    pub const fn numeric_modifier(precision: i32, scale: i32) -> i32 {
        ((precision << 16) | (scale & 0x7ff)) + MODIFIER_OFFSET
    }

    /// Returns the precision and scale that such a modifier stands for.
    pub const fn precision_and_scale_of(modifier: i32) -> Option<(i32, i32)> {
        if modifier < MODIFIER_OFFSET {
            return None;
        }
        let packed = modifier - MODIFIER_OFFSET;
        // Eleven bits with a sign: PostgreSQL 15 has scales from -1000 to 1000.
        Some((packed >> 16, ((packed & 0x7ff) ^ 1024) - 1024))
    }

    /// Whether it is an ordinary number type.
    pub const fn is_numeric(self) -> bool {
        use Scalar::{Float4, Float8, Int2, Int4, Int8, Numeric};
        !self.is_array && matches!(self.scalar, Int2 | Int4 | Int8 | Float4 | Float8 | Numeric)
    }

    /// Returns the number of the type if a statement has created it; of an array, that of its elements' type.
    pub const fn created(self) -> Option<u32> {
        match self.scalar {
            Scalar::Enum(oid) => Some(oid),
            _ => None,
        }
    }

    /// Whether its values are those of an enumeration.
    pub const fn is_enum(self) -> bool {
        !self.is_array && matches!(self.scalar, Scalar::Enum(_))
    }

    /// Whether it is an integer type.
    pub const fn is_integer(self) -> bool {
        !self.is_array && matches!(self.scalar, Scalar::Int2 | Scalar::Int4 | Scalar::Int8)
    }

    /// Whether its values are [`Value::Text`] or [`Value::Char`].
    pub const fn is_text(self) -> bool {
        use Scalar::{Char, InternalChar, Name, Text, Varchar};
        !self.is_array && matches!(self.scalar, Char | Varchar | Text | Name | InternalChar)
    }

    /// Whether its values have equality and an order. Those of `json` and `jsonpath` are texts, of which many mean the
    /// same.
    pub const fn is_ordered(self) -> bool {
        !matches!(self.scalar, Scalar::Json | Scalar::Jsonpath)
    }

    /// Whether it is a date, a time of day or a point in time.
    pub const fn is_datetime(self) -> bool {
        use Scalar::{Date, Time, TimeTz, Timestamp, TimestampTz};
        !self.is_array && matches!(self.scalar, Date | Time | TimeTz | Timestamp | TimestampTz)
    }

    /// Returns PostgreSQL's `typcategory`, which determines the choice of operators and functions.
    pub const fn category(self) -> u8 {
        use Scalar::*;
        if self.is_array {
            return b'A';
        }
        match self.scalar {
            Bool => b'B',
            Int2 | Int4 | Int8 | Float4 | Float8 | Numeric | Oid => b'N',
            Char | Varchar | Text | Name => b'S',
            Date | Time | TimeTz | Timestamp | TimestampTz => b'D',
            Interval => b'T',
            Bytea | Uuid | Jsonb | Json | Jsonpath | Macaddr | Macaddr8 => b'U',
            Bit | Varbit => b'V',
            Inet | Cidr => b'I',
            Enum(_) => b'E',
            Record => b'P',
            InternalChar => b'Z',
        }
    }

    /// Whether it is the preferred type of its category.
    pub const fn is_preferred(self) -> bool {
        use Scalar::{Bool, Float8, Inet, Interval, Oid, Text, TimestampTz, Varbit};
        !self.is_array && matches!(self.scalar, Bool | Float8 | Oid | Text | TimestampTz | Interval | Inet | Varbit)
    }
}

impl std::fmt::Display for SqlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

/// The inputs of an expression's result besides its arguments, and the limits on its evaluation.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The zone in which `timestamp with time zone` is read and written.
    pub time_zone: jiff::tz::TimeZone,
    /// The style of dates, times and intervals.
    pub style: datetime::Style,
    /// The time at which the transaction began, as in [`Value::TimestampTz`].
    pub transaction_began: i64,
    /// The time at which the statement began.
    pub statement_began: i64,
    /// The current user.
    pub user: Arc<str>,
    /// Its number.
    pub role: u32,
    /// The user of the session, of whose roles the current one is.
    pub session_user: Arc<str>,
    /// Its number.
    pub login: u32,
    /// The database's name.
    pub database: Arc<str>,
    /// The first schema of the search path.
    pub schema: Arc<str>,
    /// The schemas in which names are looked up, in this order.
    pub search_path: Arc<[String]>,
    /// The number of the session, unique among the current ones.
    pub process: i32,
    /// The current settings, by their names.
    pub settings: Arc<[(String, String)]>,
    /// The conditions that may interrupt the statement.
    pub interrupt: Interrupt,
    /// The memory of the statement.
    pub memory: Memory,
    /// The bytes that a temporary file may have; `None`: any.
    pub temp_file_limit: Option<u64>,
    /// The types that statements have created.
    pub types: Arc<UserTypes>,
}

/// The conditions that end a statement early, and the hooks by which a long one lets other sessions run.
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// Set by a request to end the statement; reset when the statement has noticed it.
    pub cancel: Arc<AtomicBool>,
    /// The time at which the statement has taken too long.
    pub deadline: Option<Instant>,
    /// Called some thousand times a second by long operations.
    pub pause: fn(),
    /// Runs a part of a statement that may take long without a break, where it blocks nothing else.
    pub aside: fn(&mut dyn FnMut()),
}

impl Default for Interrupt {
    fn default() -> Self {
        Self { cancel: Arc::default(), deadline: None, pause: || {}, aside: |part| part() }
    }
}

impl Interrupt {
    /// Fails if the statement has to end.
    pub fn check(&self) -> Result<()> {
        (self.pause)();
        // Relaxed: publishes nothing else.
        if self.cancel.load(Ordering::Relaxed) {
            self.cancel.store(false, Ordering::Relaxed);
            return Err(SqlError::canceled("user request"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(SqlError::canceled("statement timeout"));
        }
        Ok(())
    }

    /// Whether the statement has been asked to end.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Runs a part that may take long, and fails if the statement has to end.
    pub fn long<T>(&self, mut part: impl FnMut() -> Result<T>) -> Result<T> {
        self.check()?;
        let mut done = None;
        (self.aside)(&mut || done = Some(part()));
        self.check()?;
        done.unwrap_or_else(part)
    }
}

impl Environment {
    /// Fails if there is no room for values of this many bytes, if they are many.
    #[inline]
    pub fn check_room(&self, bytes: usize) -> Result<()> {
        self.memory.check(bytes)
    }

    /// Fails if there is no room for the texts of a row that contains large values.
    #[inline]
    pub fn check_texts(&self, row: &[Value]) -> Result<()> {
        let is_large = row.iter().any(Value::is_large);
        if is_large { self.memory.check(row.iter().map(Value::text_bytes).sum()) } else { Ok(()) }
    }

    /// Lets other sessions run, and fails if the statement has to end; long functions call it from time to time.
    pub fn check(&self) -> Result<()> {
        self.interrupt.check()
    }
}

impl Default for Environment {
    /// UTC, at the turn of the millennium.
    fn default() -> Self {
        Self {
            time_zone: jiff::tz::TimeZone::UTC,
            style: datetime::Style::default(),
            transaction_began: 0,
            statement_began: 0,
            user: "ermine".into(),
            role: 10,
            session_user: "ermine".into(),
            login: 10,
            database: "ermine".into(),
            schema: "public".into(),
            search_path: ["public".to_owned()].into(),
            process: 0,
            settings: [].into(),
            temp_file_limit: None,
            interrupt: Interrupt::default(),
            memory: Memory::default(),
            types: Arc::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oids_lead_back_to_their_types() {
        for ty in SqlType::all() {
            assert_eq!(SqlType::from_oid(ty.oid()), Some(ty));
            assert_eq!(SqlType::from_name(&ty.name()), Some(ty));
        }
        assert_eq!(SqlType::from_oid(0), None);
    }

    #[test]
    fn descriptions_have_modifiers() {
        assert_eq!(SqlType::NUMERIC.describe(SqlType::numeric_modifier(10, 2)), "numeric(10,2)");
        assert_eq!(SqlType::NUMERIC.describe(SqlType::numeric_modifier(3, -2)), "numeric(3,-2)");
        assert_eq!(SqlType::VARCHAR.describe(24), "character varying(20)");
        assert_eq!(SqlType::VARCHAR.array().describe(24), "character varying(20)[]");
        assert_eq!(SqlType::TIMESTAMPTZ.describe(3), "timestamp(3) with time zone");
        assert_eq!(SqlType::INT4.array().describe(-1), "integer[]");
    }
}
