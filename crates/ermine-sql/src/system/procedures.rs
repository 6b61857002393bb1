//! `pg_proc`: the functions that read and write the values of types, which drivers look up to recognize types. Other
//! functions have no numbers.

use super::{Described, Known, NULL, PG_CATALOG, PG_CATALOG_OID, ROLE, relations::vector, table};
use crate::types::{Scalar, SqlType, Value};

/// The pseudo types of texts, messages and arrays in these functions.
const CSTRING: u32 = 2275;
const INTERNAL: u32 = 2281;
const ANYARRAY: u32 = 2277;
const ANYENUM: u32 = 3500;
/// The language of PostgreSQL's own functions.
const INTERNAL_LANGUAGE: u32 = 12;

/// The beginning of the names, and the numbers of the functions for input, output, receiving and sending.
type Functions = (&'static str, [u32; 4]);

const OF_ARRAYS: Functions = ("array_", [750, 751, 2400, 2401]);
const ENDINGS: [&str; 4] = ["in", "out", "recv", "send"];

fn functions_of(ty: SqlType) -> Functions {
    if ty.is_array {
        return OF_ARRAYS;
    }
    match ty.scalar {
        Scalar::Bool => ("bool", [1242, 1243, 2436, 2437]),
        Scalar::Bytea => ("bytea", [1244, 31, 2412, 2413]),
        Scalar::Name => ("name", [34, 35, 2422, 2423]),
        Scalar::InternalChar => ("char", [1245, 33, 2434, 2435]),
        Scalar::Int8 => ("int8", [460, 461, 2408, 2409]),
        Scalar::Int2 => ("int2", [38, 39, 2404, 2405]),
        Scalar::Int4 => ("int4", [42, 43, 2406, 2407]),
        Scalar::Text => ("text", [46, 47, 2414, 2415]),
        Scalar::Oid => ("oid", [1798, 1799, 2418, 2419]),
        Scalar::Json => ("json_", [321, 322, 323, 324]),
        Scalar::Float4 => ("float4", [200, 201, 2424, 2425]),
        Scalar::Float8 => ("float8", [214, 215, 2426, 2427]),
        Scalar::Char => ("bpchar", [1044, 1045, 2430, 2431]),
        Scalar::Varchar => ("varchar", [1046, 1047, 2432, 2433]),
        Scalar::Date => ("date_", [1084, 1085, 2468, 2469]),
        Scalar::Time => ("time_", [1143, 1144, 2470, 2471]),
        Scalar::Timestamp => ("timestamp_", [1312, 1313, 2474, 2475]),
        Scalar::TimestampTz => ("timestamptz_", [1150, 1151, 2476, 2477]),
        Scalar::Interval => ("interval_", [1160, 1161, 2478, 2479]),
        Scalar::Numeric => ("numeric_", [1701, 1702, 2460, 2461]),
        Scalar::Uuid => ("uuid_", [2952, 2953, 2961, 2962]),
        Scalar::Jsonb => ("jsonb_", [3806, 3804, 3805, 3803]),
        Scalar::Inet => ("inet_", [910, 911, 2496, 2497]),
        Scalar::Cidr => ("cidr_", [1267, 1427, 2498, 2499]),
        Scalar::Macaddr => ("macaddr_", [436, 437, 2494, 2495]),
        Scalar::Jsonpath => ("jsonpath_", [4001, 4003, 4002, 4004]),
        Scalar::TimeTz => ("timetz_", [1350, 1351, 2472, 2473]),
        Scalar::Bit => ("bit_", [1564, 1565, 2456, 2457]),
        Scalar::Varbit => ("varbit_", [1579, 1580, 2458, 2459]),
        Scalar::Macaddr8 => ("macaddr8_", [4110, 4111, 3446, 3447]),
        Scalar::Record => ("record_", [2290, 2291, 2402, 2403]),
        Scalar::Enum(_) => ("enum_", [3504, 3505, 3532, 3533]),
    }
}

/// Returns the number of such a function of a type: input, output, receiving, sending.
pub(super) fn function_of(ty: SqlType, which: usize) -> u32 {
    functions_of(ty).1[which]
}

/// Such a function.
struct Procedure {
    oid: u32,
    name: String,
    arguments: Vec<u32>,
    result: u32,
    is_immutable: bool,
}

fn procedures() -> impl Iterator<Item = Procedure> {
    let of_array = SqlType::all().find(|ty| ty.is_array);
    let of_enum = SqlType::scalar(Scalar::Enum(ANYENUM));
    let types = SqlType::all().filter(|ty| !ty.is_array).chain(of_array).chain([of_enum, SqlType::RECORD]);
    types.flat_map(|ty| {
        let (prefix, numbers) = functions_of(ty);
        let own = if ty.is_array { ANYARRAY } else { ty.oid() };
        // With the type's number and its modifier.
        let is_long = ty.is_array
            || matches!(
                ty.scalar,
                Scalar::Record
                    | Scalar::Char
                    | Scalar::Varchar
                    | Scalar::Numeric
                    | Scalar::Time
                    | Scalar::TimeTz
                    | Scalar::Timestamp
                    | Scalar::TimestampTz
                    | Scalar::Interval
            );
        let read = |from: u32| if is_long { vec![from, SqlType::OID.oid(), SqlType::INT4.oid()] } else { vec![from] };
        let kinds =
            [(read(CSTRING), own), (vec![own], CSTRING), (read(INTERNAL), own), (vec![own], SqlType::BYTEA.oid())];
        let named = numbers.into_iter().zip(ENDINGS).zip(kinds);
        named.map(move |((oid, ending), (arguments, result))| {
            let is_immutable = !ty.is_array && !ty.is_datetime();
            Procedure { oid, name: format!("{prefix}{ending}"), arguments, result, is_immutable }
        })
    })
}

/// Returns the number of a function.
pub(super) fn function_oid(name: &str) -> Option<u32> {
    procedures().find(|procedure| procedure.name == name).map(|procedure| procedure.oid)
}

/// Returns the name of a function.
pub(super) fn function_name(_: Known<'_>, oid: u32) -> Option<String> {
    procedures().find(|procedure| procedure.oid == oid).map(|procedure| procedure.name)
}

pub(super) const TABLES: &[Described] = &[table!(PG_CATALOG, 1255 pg_proc, _known => procedures(), |procedure| {
    oid OID = procedure.oid;
    proname NAME = &procedure.name;
    pronamespace OID = PG_CATALOG_OID;
    proowner OID = ROLE;
    prolang OID = INTERNAL_LANGUAGE;
    procost FLOAT4 = 1f32;
    prorows FLOAT4 = 0f32;
    provariadic OID = 0u32;
    prosupport REGPROC = 0u32;
    prokind CHAR = "f";
    prosecdef BOOL = false;
    proleakproof BOOL = false;
    proisstrict BOOL = true;
    proretset BOOL = false;
    provolatile CHAR = if procedure.is_immutable { "i" } else { "s" };
    proparallel CHAR = "s";
    pronargs INT2 = procedure.arguments.len() as i16;
    pronargdefaults INT2 = 0i16;
    prorettype OID = procedure.result;
    proargtypes OIDVECTOR = vector(Scalar::Oid, procedure.arguments.into_iter().map(Value::Oid));
    proallargtypes OIDS = NULL;
    proargmodes CHARS = NULL;
    proargnames TEXTS = NULL;
    proargdefaults TEXT = NULL;
    protrftypes OIDS = NULL;
    prosrc TEXT = &procedure.name;
    probin TEXT = NULL;
    prosqlbody TEXT = NULL;
    proconfig TEXTS = NULL;
    proacl TEXTS = NULL;
})];
