//! The first packets of a connection, which have no type: the client's request, before it is authenticated.

use super::{Malformed, reader::Reader};

/// Maximum length of a packet in bytes, the same as in PostgreSQL.
pub const LENGTH_MAX: usize = 10_000;

/// The newest minor version of the protocol's version 3 that is supported.
pub const MINOR_MAX: u16 = 2;

/// A packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet {
    /// Requests TLS.
    Ssl,
    /// Requests encryption by GSSAPI.
    Gss,
    /// Requests the cancellation of another connection's statement.
    Cancel {
        /// That connection's number.
        process: i32,
        /// That connection's secret.
        secret: Vec<u8>,
    },
    /// Requests a session.
    Startup(Startup),
    /// A version that is not supported: its major and minor number.
    Version(u16, u16),
}

/// The parameters of a new session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Startup {
    /// The requested minor version of the protocol.
    pub minor: u16,
    /// The requested options of the protocol; none is supported.
    pub protocol_options: Vec<String>,
    /// The rest: the user, the database, settings.
    pub parameters: Vec<(String, String)>,
}

impl Startup {
    /// Returns a parameter's value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Whether the client asks for commands of replication beside SQL.
    pub fn replicates(&self) -> bool {
        self.parameter("replication") == Some("database")
    }

    /// Whether the supported version has to be reported to the client.
    pub fn is_too_new(&self) -> bool {
        self.minor > MINOR_MAX || !self.protocol_options.is_empty()
    }
}

/// Returns the length of the packet that `input` begins with; `None` if it is not known yet.
pub fn length(input: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((length, _)) = input.split_first_chunk() else { return Ok(None) };
    match u32::from_be_bytes(*length) as usize {
        length @ 8..=LENGTH_MAX => Ok(Some(length)),
        _ => Err(Malformed("this is no packet to start a connection with")),
    }
}

/// Decodes a packet that has arrived completely.
pub fn decode(packet: &[u8]) -> Result<Packet, Malformed> {
    let mut reader = Reader::new(packet);
    reader.u32()?;
    match (reader.u16()?, reader.u16()?) {
        (1234, 5679) => reader.end().map(|()| Packet::Ssl),
        (1234, 5680) => reader.end().map(|()| Packet::Gss),
        (1234, 5678) => {
            let process = reader.i32()?;
            let secret = reader.rest();
            if !(4..=256).contains(&secret.len()) {
                return Err(Malformed("a secret has 4 to 256 bytes"));
            }
            Ok(Packet::Cancel { process, secret: secret.to_vec() })
        }
        (3, minor) => startup(minor, &mut reader).map(Packet::Startup),
        (major, minor) => Ok(Packet::Version(major, minor)),
    }
}

fn startup(minor: u16, reader: &mut Reader<'_>) -> Result<Startup, Malformed> {
    let text =
        |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed("a parameter is not UTF-8"));
    let mut startup = Startup { minor, ..Startup::default() };
    loop {
        let name = text(reader.text()?)?;
        if name.is_empty() {
            return reader.end().map(|()| startup);
        }
        let value = text(reader.text()?)?;
        if name.starts_with("_pq_.") {
            startup.protocol_options.push(name);
        } else {
            startup.parameters.push((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(body: &[u8]) -> Vec<u8> {
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend(body);
        packet
    }

    #[test]
    fn packets_are_told_apart() {
        assert_eq!(decode(&packet(&[4, 210, 22, 47])), Ok(Packet::Ssl));
        assert_eq!(decode(&packet(&[4, 210, 22, 48])), Ok(Packet::Gss));
        let cancel = decode(&packet(&[4, 210, 22, 46, 0, 0, 0, 7, 1, 2, 3, 4]));
        assert_eq!(cancel, Ok(Packet::Cancel { process: 7, secret: vec![1, 2, 3, 4] }));
        assert_eq!(decode(&packet(&[0, 2, 0, 0])), Ok(Packet::Version(2, 0)));
        let Ok(Packet::Startup(startup)) = decode(&packet(b"\0\x03\0\x09user\0eva\0_pq_.x\x001\0\0")) else { panic!() };
        assert_eq!((startup.parameter("user"), startup.is_too_new()), (Some("eva"), true));
        assert_eq!(startup.protocol_options, ["_pq_.x"]);
    }

    #[test]
    fn what_is_cut_is_malformed() {
        assert_eq!(length(b"\0\0"), Ok(None));
        assert!(length(b"GET / HTTP/1.1").is_err());
        for body in
            [&b"\0\x03\0\0user"[..], b"\0\x03\0\0user\0eva\0", b"\0\x03\0\0\xff\0\0\0", b"\x04\xd2\x16\x2e\0\0\0\x07"]
        {
            assert!(decode(&packet(body)).is_err(), "{body:?}");
        }
    }
}
