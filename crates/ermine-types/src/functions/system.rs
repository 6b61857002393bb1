//! Functions of the session and of types, and hashes.

use crate::{
    Environment, SqlType, Value,
    error::{Result, SqlError, SqlState},
};

use super::{Function, Table, Volatility, arguments};

/// `pg_typeof`: the type is known when the call is resolved, so each type has a function of its own.
pub(super) fn type_of(argument: Option<SqlType>) -> Function {
    fn name<const OID: u32>(_: &[Value], _: &Environment) -> Result<Value> {
        Ok(SqlType::from_oid(OID).map_or("unknown".into(), SqlType::name).into_owned().into())
    }
    macro_rules! by_oid {
        ($oid:expr, $($known:literal)*) => {
            match $oid {
                $($known => name::<$known>,)*
                _ => name::<0>,
            }
        };
    }
    let function: super::ScalarFunction = by_oid!(argument.map_or(0, SqlType::oid),
        16 17 18 19 20 21 23 25 26 114 199 700 701 1042 1043 1082 1083 1114 1184 1186 1700 2950 3802
        869 650 829 1266 4072 1041 651 1040 1270 4073
        2249 2287 1000 1001 1002 1003 1016 1005 1007 1009 1028 1021 1022 1014 1015 1182 1183 1115 1185 1187 1231 2951
        3807 1560 1561 1562 1563 774 775);
    Function {
        arguments: vec![argument.unwrap_or(SqlType::TEXT)],
        untyped: if argument.is_none() { vec![0] } else { Vec::new() },
        result: SqlType::TEXT,
        is_strict: false,
        volatility: Volatility::Stable,
        function,
        in_c: None,
    }
}

/// Bob Jenkins' hash of 2006, as in PostgreSQL on little-endian machines.
fn hash_bytes(bytes: &[u8]) -> u32 {
    let start = 0x9e37_79b9_u32.wrapping_add(bytes.len() as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    let (blocks, rest) = bytes.as_chunks::<12>();
    let word = |bytes: &[u8], at: usize| {
        (0..4).fold(0u32, |word, byte| word | u32::from(bytes.get(at + byte).copied().unwrap_or(0)) << (8 * byte))
    };
    for block in blocks {
        a = a.wrapping_add(word(block, 0));
        b = b.wrapping_add(word(block, 4));
        c = c.wrapping_add(word(block, 8));
        for (x, y, z, bits) in [(0, 1, 2, 4), (1, 2, 0, 6), (2, 0, 1, 8), (0, 1, 2, 16), (1, 2, 0, 19), (2, 0, 1, 4)] {
            let mut words = [a, b, c];
            // words[x] -= words[z]; words[x] ^= rotate(words[z], bits); words[z] += words[y]
            words[x] = words[x].wrapping_sub(words[z]) ^ words[z].rotate_left(bits);
            words[z] = words[z].wrapping_add(words[y]);
            [a, b, c] = words;
        }
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 4));
    // The lowest byte of c is reserved for the length.
    c = c.wrapping_add(word(rest, 8) << 8);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// Fills a place with unguessable bytes.
pub(super) fn random_bytes(place: &mut [u8]) -> Result<()> {
    getrandom::fill(place).map_err(|_| SqlError::new(SqlState::INTERNAL_ERROR, "could not generate random values"))
}

fn random_uuid() -> Result<Value> {
    let mut uuid = [0; 16];
    random_bytes(&mut uuid)?;
    // Version 4, variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(Value::Uuid(uuid))
}

pub(super) fn register(table: &mut Table) {
    use SqlType as T;
    for name in ["current_user", "user", "current_role"] {
        table.add(name, &[], T::NAME, |_, environment| Ok(Value::text(&*environment.user))).stable();
    }
    table.add("session_user", &[], T::NAME, |_, environment| Ok(Value::text(&*environment.session_user))).stable();
    for name in ["current_database", "current_catalog"] {
        table.add(name, &[], T::NAME, |_, environment| Ok(Value::text(&*environment.database))).stable();
    }
    table.add("current_schema", &[], T::NAME, |_, environment| Ok(Value::text(&*environment.schema))).stable();
    table
        .add("version", &[], T::TEXT, |_, _| {
            Ok(format!("PostgreSQL 15.0 (Ermine {})", env!("CARGO_PKG_VERSION")).into())
        })
        .stable();
    for name in ["gen_random_uuid", "uuid_generate_v4"] {
        table.add(name, &[], T::UUID, |_, _| random_uuid()).volatile();
    }
    table.add("hashtext", &[T::TEXT], T::INT4, |arguments, _| {
        arguments!(arguments, [Value::Text(text)] => Ok(Value::Int4(hash_bytes(text.as_bytes()) as i32)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn types_have_names() {
        for ty in SqlType::all() {
            assert_eq!(
                (type_of(Some(ty)).function)(&[Value::Null], &Environment::default()).unwrap(),
                ty.name().into_owned().into()
            );
        }
    }

    #[test]
    fn uuids_have_version_four() {
        let uuid = call("gen_random_uuid", &[]).unwrap();
        assert_eq!(&uuid[14..15], "4");
    }
}
