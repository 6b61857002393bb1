//! Properties of the decoder for every byte that a client sends: it is decoded or refused, without a panic, within its
//! message, and into nothing that is much larger than it.
//!
//! The fuzz target `protocol` shares this file.

use ermine_server::{
    codec,
    protocol::{
        Format,
        frontend::{Bind, Header, LengthLimits, Message},
        startup,
    },
};
use ermine_sql::types::{Environment, SqlType};

/// The server's default limits.
const LIMITS: LengthLimits = LengthLimits { long: 64 << 20, short: 64 << 10 };

/// Decodes the first packets of a connection, then messages up to the first that is cut or refused.
pub fn check(bytes: &[u8]) {
    if let Ok(Some(length)) = startup::length(bytes)
        && let Some(packet) = bytes.get(..length)
    {
        let _ = startup::decode(packet);
    }
    let mut rest = bytes;
    while let Ok(Some(header)) = Header::peek(rest, LIMITS) {
        assert!(header.length >= Header::LENGTH);
        let Some((message, behind)) = rest.split_at_checked(header.length) else {
            assert!(header.decode(rest).is_err(), "a message that is cut was decoded");
            break;
        };
        // Bytes behind a message do not affect it.
        let decoded = header.decode(message);
        assert_eq!(format!("{decoded:?}"), format!("{:?}", header.decode(rest)));
        match decoded {
            Ok(Message::Bind(bind)) => values(&bind),
            Ok(Message::Parse { types, .. }) => {
                for oid in types.chunks_exact(4) {
                    let _ = codec::type_of(u32::from_be_bytes(oid.try_into().unwrap()), &Environment::default());
                }
            }
            Ok(Message::Query(text)) => {
                let _ = codec::utf8(text);
            }
            Ok(_) => {}
            Err(_) => break,
        }
        rest = behind;
    }
}

/// Reads each parameter as if it were of every type.
fn values(bind: &Bind<'_>) {
    let environment = Environment::default();
    assert_eq!(bind.parameters().count(), bind.parameter_count);
    for (index, bytes) in bind.parameters().enumerate() {
        let Some(bytes) = bytes else { continue };
        for ty in SqlType::all() {
            let value = match bind.parameter_formats.of(index) {
                Format::Binary => codec::read_binary(ty, bytes, &environment),
                Format::Text => codec::parse_text(ty, bytes, &environment),
            };
            if let Err(error) = value {
                // An unknown version of jsonb or jsonpath is an internal error in PostgreSQL, too.
                let versioned = [SqlType::JSONB, SqlType::JSONPATH];
                assert!(
                    error.state().0 != "XX000" || versioned.iter().any(|v| [*v, v.array()].contains(&ty)),
                    "{error}"
                );
            }
        }
    }
}
