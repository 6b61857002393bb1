//! Functions of PostgreSQL's extensions `pgcrypto` and `uuid-ossp`, as far as they need nothing but digests and random
//! bytes. They are there whether CREATE EXTENSION has been run or not.

use md5::{Digest as _, Md5};
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

use crate::{
    SqlType as T, Value,
    error::{Result, SqlError, SqlState},
};

use super::{Table, arguments, system::random_bytes};

/// A hash algorithm: its function, and the bytes of its blocks.
type Hash = (fn(&[u8]) -> Vec<u8>, usize);

/// Returns the algorithm of a name.
fn hash(name: &str) -> Result<Hash> {
    Ok(match &*name.to_lowercase() {
        "md5" => (|bytes| Md5::digest(bytes).to_vec(), 64),
        "sha224" => (|bytes| Sha224::digest(bytes).to_vec(), 64),
        "sha256" => (|bytes| Sha256::digest(bytes).to_vec(), 64),
        "sha384" => (|bytes| Sha384::digest(bytes).to_vec(), 128),
        "sha512" => (|bytes| Sha512::digest(bytes).to_vec(), 128),
        "sha1" => return Err(SqlError::unsupported("the hash algorithm sha1")),
        _ => {
            let message = format!("Cannot use \"{name}\": No such hash algorithm");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    })
}

/// Returns the message authentication code of RFC 2104.
fn code(data: &[u8], key: &[u8], (hash, block): Hash) -> Vec<u8> {
    let mut padded = if key.len() > block { hash(key) } else { key.to_vec() };
    padded.resize(block, 0);
    let with = |mask: u8, rest: &[u8]| {
        let mut bytes: Vec<_> = padded.iter().map(|byte| byte ^ mask).collect();
        bytes.extend_from_slice(rest);
        hash(&bytes)
    };
    with(0x5c, &with(0x36, data))
}

/// Returns the bytes of a text or of bytes.
fn bytes_of(value: &Value) -> Result<&[u8]> {
    match value {
        Value::Text(text) => Ok(text.as_bytes()),
        Value::Bytea(bytes) => Ok(bytes),
        _ => Err(crate::operators::mismatch()),
    }
}

fn digest(arguments: &[Value]) -> Result<Value> {
    arguments!(arguments, [data, Value::Text(name)] => {
        let (hash, _) = hash(name)?;
        Ok(Value::Bytea(hash(bytes_of(data)?).into()))
    })
}

fn hmac(arguments: &[Value]) -> Result<Value> {
    arguments!(arguments, [data, key, Value::Text(name)] => {
        Ok(Value::Bytea(code(bytes_of(data)?, bytes_of(key)?, hash(name)?).into()))
    })
}

fn some_random_bytes(arguments: &[Value]) -> Result<Value> {
    const MAX: i32 = 1024;
    arguments!(arguments, [Value::Int4(count)] => {
        if !(1..=MAX).contains(count) {
            return Err(SqlError::new(SqlState::EXTERNAL_ROUTINE_EXCEPTION, "Length not in range"));
        }
        let mut bytes = vec![0; *count as usize];
        random_bytes(&mut bytes)?;
        Ok(Value::Bytea(bytes.into()))
    })
}

/// The name spaces of RFC 4122 differ in one byte.
const fn name_space(number: u8) -> [u8; 16] {
    [0x6b, 0xa7, 0xb8, number, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8]
}

/// Returns the uuid of version 3 of a name in a name space.
fn named_uuid(arguments: &[Value]) -> Result<Value> {
    arguments!(arguments, [Value::Uuid(space), Value::Text(name)] => {
        let mut uuid: [u8; 16] = Md5::new().chain_update(space).chain_update(name.as_bytes()).finalize().into();
        uuid[6] = uuid[6] & 0x0f | 0x30;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        Ok(Value::Uuid(uuid))
    })
}

pub(super) fn register(table: &mut Table) {
    for data in [T::TEXT, T::BYTEA] {
        table.add("digest", &[data, T::TEXT], T::BYTEA, |arguments, _| digest(arguments));
        table.add("hmac", &[data, data, T::TEXT], T::BYTEA, |arguments, _| hmac(arguments));
    }
    table.add("gen_random_bytes", &[T::INT4], T::BYTEA, |arguments, _| some_random_bytes(arguments)).volatile();
    table.add("crypt", &[T::TEXT, T::TEXT], T::TEXT, |_, _| Err(SqlError::unsupported("crypt")));
    table.add("gen_salt", &[T::TEXT, T::INT4], T::TEXT, |_, _| Err(SqlError::unsupported("gen_salt"))).optional(1);
    table.add("uuid_nil", &[], T::UUID, |_, _| Ok(Value::Uuid([0; 16])));
    table.add("uuid_ns_dns", &[], T::UUID, |_, _| Ok(Value::Uuid(name_space(0x10))));
    table.add("uuid_ns_url", &[], T::UUID, |_, _| Ok(Value::Uuid(name_space(0x11))));
    table.add("uuid_ns_oid", &[], T::UUID, |_, _| Ok(Value::Uuid(name_space(0x12))));
    table.add("uuid_ns_x500", &[], T::UUID, |_, _| Ok(Value::Uuid(name_space(0x14))));
    table.add("uuid_generate_v3", &[T::UUID, T::TEXT], T::UUID, |arguments, _| named_uuid(arguments));
    table.add("uuid_generate_v5", &[T::UUID, T::TEXT], T::UUID, |_, _| Err(SqlError::unsupported("uuid_generate_v5")));
    for name in ["uuid_generate_v1", "uuid_generate_v1mc"] {
        table.add(name, &[], T::UUID, |_, _| Err(SqlError::unsupported("uuid_generate_v1"))).volatile();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::tests::call;

    #[test]
    fn codes_are_pgcryptos() {
        let (t, long) = (T::TEXT, "k".repeat(200));
        let code = |key: &str, name: &str| call("hmac", &[(t, "data"), (t, key), (t, name)]).unwrap();
        assert_eq!(code("key", "md5"), "\\x9d5c73ef85594d34ec4438b7c97e51d8");
        assert_eq!(code("key", "sha256"), "\\x5031fe3d989c6d1537a013fa6e739da23463fdaec3b70137d828e36ace221bd0");
        assert_eq!(code(&long, "SHA256"), "\\x0163658d479ec73f2b801df07141db1426aaae2c6b5e8e6d9e6789f92f5e2b4f");
        assert!(code(&long, "sha512").starts_with("\\x854e242c54ce5f31621a1f809881b3439c0a77fd594dc546"));
        let space = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";
        let uuid = call("uuid_generate_v3", &[(T::UUID, space), (t, "http://www.postgresql.org")]).unwrap();
        assert_eq!(uuid, "cf16fe52-3365-3a1f-8572-288d8d2aaa46");
        assert_eq!(call("digest", &[(t, "abc"), (t, "nope")]).unwrap_err().state().0, "22023");
    }
}
