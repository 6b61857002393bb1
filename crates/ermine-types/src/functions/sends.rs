//! The functions that return values in PostgreSQL's binary format, such as `int4send`.

use crate::{SqlType, Value, binary};

use super::{Table, arguments};

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    for (name, ty) in [
        ("boolsend", T::BOOL),
        ("int2send", T::INT2),
        ("int4send", T::INT4),
        ("int8send", T::INT8),
        ("float4send", T::FLOAT4),
        ("float8send", T::FLOAT8),
        ("numeric_send", T::NUMERIC),
        ("textsend", T::TEXT),
        ("bpcharsend", T::CHAR),
        ("varcharsend", T::VARCHAR),
        ("namesend", T::NAME),
        ("charsend", T::INTERNAL_CHAR),
        ("byteasend", T::BYTEA),
        ("oidsend", T::OID),
        ("uuid_send", T::UUID),
        ("date_send", T::DATE),
        ("time_send", T::TIME),
        ("timetz_send", T::TIMETZ),
        ("timestamp_send", T::TIMESTAMP),
        ("timestamptz_send", T::TIMESTAMPTZ),
        ("interval_send", T::INTERVAL),
        ("inet_send", T::INET),
        ("cidr_send", T::CIDR),
        ("macaddr_send", T::MACADDR),
        ("macaddr8_send", T::MACADDR8),
        ("bit_send", T::BIT),
        ("varbit_send", T::VARBIT),
        ("json_send", T::JSON),
        ("jsonb_send", T::JSONB),
    ] {
        table.add(name, &[ty], T::BYTEA, |arguments, environment| {
            arguments!(arguments, [value] => {
                environment.memory.check(value.text_bytes())?;
                let mut out = Vec::new();
                binary::write(value, value.natural_type().unwrap_or(SqlType::TEXT), environment, &mut out);
                Ok(Value::Bytea(out.into()))
            })
        });
    }
}
