//! A client that sends arbitrary messages.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use bytes::BytesMut;
use pgwire::messages::{DecodeContext, PgWireBackendMessage, ProtocolVersion};

pub struct Raw {
    pub socket: TcpStream,
    input: BytesMut,
    context: DecodeContext,
}

/// Returns a packet that starts a session.
pub fn startup(minor: u16, parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = vec![0, 3];
    body.extend(minor.to_be_bytes());
    for (name, value) in parameters {
        body.extend(name.bytes().chain([0]).chain(value.bytes()).chain([0]));
    }
    body.push(0);
    packet(&body)
}

/// Returns a message without a type.
pub fn packet(body: &[u8]) -> Vec<u8> {
    (body.len() as u32 + 4).to_be_bytes().into_iter().chain(body.iter().copied()).collect()
}

/// Returns a message.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [kind].into_iter().chain(packet(body)).collect()
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', &[text.as_bytes(), b"\0"].concat())
}

pub fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

/// Returns a `Bind` with parameters as texts, for results as texts.
pub fn bind(portal: &str, statement: &str, parameters: &[&str]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0\0\0").into_bytes();
    body.extend((parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        body.extend(packet_of_value(parameter));
    }
    body.extend([0, 0]);
    message(b'B', &body)
}

fn packet_of_value(value: &str) -> Vec<u8> {
    (value.len() as u32).to_be_bytes().into_iter().chain(value.bytes()).collect()
}

pub fn describe(kind: char, name: &str) -> Vec<u8> {
    message(b'D', format!("{kind}{name}\0").as_bytes())
}

pub fn close(kind: char, name: &str) -> Vec<u8> {
    message(b'C', format!("{kind}{name}\0").as_bytes())
}

pub fn execute(portal: &str, rows_max: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &rows_max.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

pub fn flush() -> Vec<u8> {
    message(b'H', b"")
}

impl Raw {
    pub fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_2);
        context.awaiting_frontend_ssl = false;
        Self { socket, input: BytesMut::new(), context }
    }

    /// Opens a connection with a session.
    pub fn connect(address: SocketAddr) -> Self {
        let mut raw = Self::open(address);
        raw.send(&[startup(0, &[("user", "eva")])]);
        raw.until_ready();
        raw
    }

    pub fn send(&mut self, messages: &[Vec<u8>]) {
        self.socket.write_all(&messages.concat()).unwrap();
    }

    /// Returns the next message; `None` if the server has closed the connection.
    pub fn next(&mut self) -> Option<PgWireBackendMessage> {
        loop {
            if let Some(message) = PgWireBackendMessage::decode(&mut self.input, &self.context).unwrap() {
                return Some(message);
            }
            let mut chunk = [0; 4096];
            match self.socket.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.input.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Returns the messages up to `ReadyForQuery`, in short form.
    pub fn until_ready(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(message) = self.next() {
            seen.push(short(&message));
            if matches!(message, PgWireBackendMessage::ReadyForQuery(_)) {
                return seen;
            }
        }
        panic!("closed after {seen:?}")
    }

    /// Returns the messages up to the end, in short form.
    pub fn until_closed(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.next().map(|message| short(&message))).collect()
    }

    /// Sends a query and returns the replies.
    pub fn query(&mut self, text: &str) -> Vec<String> {
        self.send(&[query(text)]);
        self.until_ready()
    }
}

/// Returns a message in a few characters.
pub fn short(message: &PgWireBackendMessage) -> String {
    use PgWireBackendMessage as M;
    let field = |fields: &[(u8, String)], code: u8| {
        fields.iter().find(|(known, _)| *known == code).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    match message {
        M::ParseComplete(_) => "parsed".into(),
        M::BindComplete(_) => "bound".into(),
        M::CloseComplete(_) => "closed".into(),
        M::NoData(_) => "no data".into(),
        M::EmptyQueryResponse(_) => "empty".into(),
        M::PortalSuspended(_) => "suspended".into(),
        M::CommandComplete(complete) => complete.tag.clone(),
        M::ReadyForQuery(ready) => format!("ready {:?}", ready.status),
        M::ErrorResponse(error) => format!("{} {}", field(&error.fields, b'S'), field(&error.fields, b'C')),
        M::NoticeResponse(notice) => format!("notice {}", field(&notice.fields, b'M')),
        M::NotificationResponse(told) => format!("notification {} {}", told.channel, told.payload),
        M::RowDescription(row) => {
            format!("columns {}", row.fields.iter().map(|field| &*field.name).collect::<Vec<_>>().join(" "))
        }
        M::ParameterDescription(parameters) => format!("parameters {:?}", parameters.types),
        M::DataRow(row) => format!("row {}", row.data.escape_ascii()),
        M::ParameterStatus(status) => format!("{}={}", status.name, status.value),
        M::BackendKeyData(_) => "key".into(),
        M::Authentication(authentication) => format!("{authentication:?}"),
        other => format!("{other:?}"),
    }
}
