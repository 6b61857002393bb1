//! Functions of addresses of hosts, networks and interfaces.

use crate::{
    SqlType, Value,
    error::{Result, SqlError, SqlState},
    network::Inet,
};

use super::{Table, arguments};

/// Returns a text that is written.
fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> Result<Value> {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text);
    Ok(Value::Text(text.into()))
}

/// Returns an address with a netmask of all bits.
fn host(inet: &Inet, number: u128) -> Value {
    Value::Inet(Inet { prefix: inet.bits(), is_network: false, ..inet.with_number(number) })
}

fn set_masklen(arguments: &[Value]) -> Result<Value> {
    arguments!(arguments, [Value::Inet(inet), Value::Int4(length)] => {
        let length = if *length == -1 { i32::from(inet.bits()) } else { *length };
        let invalid = || SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid mask length: {length}"));
        let prefix = u8::try_from(length).ok().filter(|length| *length <= inet.bits()).ok_or_else(invalid)?;
        let masked = Inet { prefix, ..*inet };
        Ok(Value::Inet(if inet.is_network { masked.network() } else { masked }))
    })
}

/// Returns the smallest network that contains two others.
fn merge(left: &Inet, right: &Inet) -> Result<Value> {
    if left.bits() != right.bits() {
        let message = "cannot merge addresses from different families";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let unequal = 128 - (left.number() ^ right.number()).leading_zeros();
    let shared = u32::from(left.bits()) - unequal;
    let prefix = left.prefix.min(right.prefix).min(shared as u8);
    Ok(Value::Inet(Inet { prefix, ..*left }.network()))
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    for ty in [T::INET, T::CIDR] {
        table.add(
            "abbrev",
            &[ty],
            T::TEXT,
            |arguments, _| arguments!(arguments, [Value::Inet(inet)] => written(|out| inet.write_abbreviated(out))),
        );
        table.add("set_masklen", &[ty, T::INT4], ty, |arguments, _| set_masklen(arguments));
    }
    table.add(
        "host",
        &[T::INET],
        T::TEXT,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => written(|out| inet.write_host(out))),
    );
    table.add(
        "text",
        &[T::INET],
        T::TEXT,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => written(|out| inet.write_whole(out))),
    );
    table.add("broadcast", &[T::INET], T::INET, |arguments, _| {
        arguments!(arguments, [Value::Inet(inet)] => {
            let address = inet.with_number(inet.number() | inet.host_bits());
            Ok(Value::Inet(Inet { is_network: false, ..address }))
        })
    });
    table.add("family", &[T::INET], T::INT4, |arguments, _| {
        arguments!(arguments, [Value::Inet(inet)] => Ok(Value::Int4(if inet.address.is_ipv4() { 4 } else { 6 })))
    });
    table.add(
        "hostmask",
        &[T::INET],
        T::INET,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => Ok(host(inet, inet.host_bits()))),
    );
    table.add(
        "netmask",
        &[T::INET],
        T::INET,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => Ok(host(inet, inet.network_bits()))),
    );
    table.add(
        "network",
        &[T::INET],
        T::CIDR,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => Ok(Value::Inet(inet.network()))),
    );
    table.add(
        "masklen",
        &[T::INET],
        T::INT4,
        |arguments, _| arguments!(arguments, [Value::Inet(inet)] => Ok(Value::Int4(inet.prefix.into()))),
    );
    table.add(
        "inet_merge",
        &[T::INET, T::INET],
        T::CIDR,
        |arguments, _| arguments!(arguments, [Value::Inet(left), Value::Inet(right)] => merge(left, right)),
    );
    table.add("inet_same_family", &[T::INET, T::INET], T::BOOL, |arguments, _| {
        arguments!(arguments, [Value::Inet(left), Value::Inet(right)] => Ok(Value::Bool(left.bits() == right.bits())))
    });
    table.add("trunc", &[T::MACADDR], T::MACADDR, |arguments, _| {
        arguments!(arguments, [Value::Macaddr([a, b, c, ..])] => Ok(Value::Macaddr([*a, *b, *c, 0, 0, 0])))
    });
    table.add("macaddr8_set7bit", &[T::MACADDR8], T::MACADDR8, |arguments, _| {
        arguments!(arguments, [Value::Macaddr8([first, rest @ ..])] => {
            let mut address = [0; 8];
            address[0] = first | 2;
            address[1..].copy_from_slice(rest);
            Ok(Value::Macaddr8(address))
        })
    });
    table.add("trunc", &[T::MACADDR8], T::MACADDR8, |arguments, _| {
        arguments!(arguments, [Value::Macaddr8([a, b, c, ..])] => Ok(Value::Macaddr8([*a, *b, *c, 0, 0, 0, 0, 0])))
    });
    // Functions of a session do not know the addresses of its connection.
    table.add("inet_client_addr", &[], T::INET, |_, _| Err(SqlError::unsupported("inet_client_addr"))).stable();
    table.add("inet_server_addr", &[], T::INET, |_, _| Err(SqlError::unsupported("inet_server_addr"))).stable();
    table.add("inet_client_port", &[], T::INT4, |_, _| Err(SqlError::unsupported("inet_client_port"))).stable();
    table.add("inet_server_port", &[], T::INT4, |_, _| Err(SqlError::unsupported("inet_server_port"))).stable();
}
