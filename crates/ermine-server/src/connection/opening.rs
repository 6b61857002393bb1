//! From an accepted socket to an authenticated client: TLS, the protocol's version, authentication.
//!
//! All of this happens within one time limit, and in messages of at most 10 kB, since the sender is not known yet.

use std::io;

use ermine_sql::{SqlError, SqlState};
use tokio::net::TcpStream;

use super::{Input, Output, Stream, counted::Counted};
use crate::{
    backend::Backend,
    certificate::common_name,
    hba::{Client, Method},
    protocol::{
        Malformed, backend,
        frontend::{Header, LengthLimits, Message},
        reader::Reader,
        startup::{self, Packet, Startup},
    },
    registry::Stage,
    scram::{Channel, Exchange, Failure, MECHANISM, MECHANISM_PLUS},
    shared::Shared,
    tls::Tls,
};

/// A client that has sent its startup packet, and authenticated if it has to.
pub struct Opened {
    /// Input from the client.
    pub input: Input,
    /// Output to the client.
    pub output: Output,
    /// The client's startup packet.
    pub startup: Startup,
    /// The client's user.
    pub user: String,
    /// Whether the client has proved to be the user.
    pub has_proof: bool,
}

/// The reason why a client did not get a session.
pub enum Refusal {
    /// Nothing is sent to the client.
    Silent,
    /// The client has disconnected, or cannot be reached.
    Io(io::Error),
    /// The error is sent to the client.
    Told(Box<Output>, SqlError),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens a connection.
pub async fn open<B: Backend>(shared: &Shared<B>, socket: TcpStream) -> Result<Opened, Refusal> {
    let mut input = Input::new(Counted::new(shared.options.get().fixed.budget.clone()));
    let mut output = Output::new(Stream::Plain(socket), &shared.options.get());
    let startup = loop {
        let packet = match packet(&mut input, output.stream()).await? {
            Ok(packet) => packet,
            Err(malformed) => return Err(told(output, SqlState::PROTOCOL_VIOLATION, malformed.0)),
        };
        match packet {
            Packet::Ssl => {
                let is_plain = matches!(output.stream(), Stream::Plain(_));
                // Bytes sent before the client read the answer would count as encrypted.
                if !is_plain || !input.bytes().is_empty() {
                    return Err(told(output, SqlState::PROTOCOL_VIOLATION, "something came before encryption began"));
                }
                match &shared.tls {
                    Some(tls) => output = encrypt(tls, output, shared).await?,
                    None => answer(&mut output, backend::REFUSE).await?,
                }
            }
            Packet::Gss => answer(&mut output, backend::REFUSE).await?,
            Packet::Cancel { process, secret } => {
                shared.registry.cancel(process, &secret);
                return Err(Refusal::Silent);
            }
            Packet::Version(major, minor) => {
                let what = format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.2");
                return Err(told(output, SqlState::FEATURE_NOT_SUPPORTED, what));
            }
            Packet::Startup(startup) => break startup,
        }
    };
    if shared.options.get().tls_required && matches!(output.stream(), Stream::Plain(_)) {
        return Err(told(output, SqlState::INVALID_AUTHORIZATION, "connections without TLS are refused"));
    }
    if shared.registry.stage() != Stage::Serving {
        return Err(told(output, SqlState::CANNOT_CONNECT_NOW, "the database system is shutting down"));
    }
    if startup.is_too_new() {
        backend::negotiate_protocol_version(output.bytes(), &startup.protocol_options);
    }
    if startup.parameter("replication").is_some_and(is_physical) {
        let error = SqlError::unsupported("physical replication");
        return Err(Refusal::Told(Box::new(output), error.hint("Connect with replication=database.")));
    }
    let Some(user) = startup.parameter("user").filter(|user| !user.is_empty()).map(str::to_owned) else {
        return Err(told(output, SqlState::INVALID_AUTHORIZATION, "no user name was given"));
    };
    let method = match method(shared, &startup, &user, output.stream()) {
        Ok(method) => method,
        Err(error) => return Err(Refusal::Told(Box::new(output), error)),
    };
    match authenticate(shared, (&user, method), &mut input, &mut output).await {
        Ok(()) => Ok(Opened { input, output, startup, user, has_proof: method != Method::Trust }),
        Err(Unknown::Io(error)) => Err(Refusal::Io(error)),
        Err(Unknown::Told(error)) => {
            if error.state() == SqlState::INVALID_PASSWORD {
                tokio::time::sleep(shared.options.get().refusal_delay).await;
            }
            Err(Refusal::Told(Box::new(output), error))
        }
    }
}

/// Whether a value of the parameter asks for a connection of physical replication, which belongs to no database.
fn is_physical(value: &str) -> bool {
    !matches!(value, "false" | "off" | "no" | "0" | "database")
}

fn told(output: Output, state: SqlState, what: impl Into<String>) -> Refusal {
    Refusal::Told(Box::new(output), SqlError::new(state, what))
}

async fn packet(input: &mut Input, stream: &mut Stream) -> io::Result<Result<Packet, Malformed>> {
    loop {
        match startup::length(input.bytes()) {
            Err(malformed) => return Ok(Err(malformed)),
            Ok(Some(length)) if length <= input.bytes().len() => {
                let packet = startup::decode(&input.bytes()[..length]);
                input.consume(length);
                return Ok(packet);
            }
            Ok(_) => {}
        }
        if input.fill(stream).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn answer(output: &mut Output, byte: u8) -> io::Result<()> {
    output.bytes().push(byte);
    output.flush().await
}

async fn encrypt<B>(tls: &Tls, mut output: Output, shared: &Shared<B>) -> Result<Output, Refusal> {
    answer(&mut output, backend::ACCEPT_TLS).await?;
    let Stream::Plain(socket) = output.into_stream() else { return Err(Refusal::Silent) };
    let stream = tls.acceptor.accept(socket).await?;
    Ok(Output::new(Stream::Tls(Box::new(stream)), &shared.options.get()))
}

enum Unknown {
    Io(io::Error),
    Told(SqlError),
}

impl From<io::Error> for Unknown {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Unknown {
    fn from(malformed: Malformed) -> Self {
        Self::Told(SqlError::new(SqlState::PROTOCOL_VIOLATION, malformed.0))
    }
}

/// Returns the proof that a client has to give; fails if it is refused.
fn method<B: Backend>(shared: &Shared<B>, startup: &Startup, user: &str, stream: &Stream) -> Result<Method, SqlError> {
    let options = shared.options.get();
    let Some(rules) = &options.rules else {
        let is_trusted = options.trust && !shared.backend.has_passwords();
        return Ok(if is_trusted { Method::Trust } else { Method::Password });
    };
    let socket = stream.socket();
    let client = Client {
        address: socket.peer_addr().ok().map(|address| address.ip()),
        server: socket.local_addr().ok().map(|address| address.ip()),
        user,
        database: startup.parameter("database").filter(|name| !name.is_empty()).unwrap_or(user),
        is_encrypted: !stream.is_plain(),
    };
    let found = rules.method(&client, &|role| shared.backend.is_member(user, role));
    let what = match found {
        Some(Method::Reject) => "pg_hba.conf rejects connection",
        // A name that no role has is the first superuser, where there are no users yet.
        Some(Method::Trust) if shared.backend.has_passwords() && !shared.backend.is_member(user, user) => {
            let message = format!("role \"{user}\" does not exist");
            return Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
        }
        Some(method) => return Ok(method),
        None => "no pg_hba.conf entry",
    };
    let address = client.address.map_or_else(|| "???".into(), |address| address.to_string());
    let encryption = if client.is_encrypted { "SSL encryption" } else { "no encryption" };
    let database = client.database;
    let message = format!("{what} for host \"{address}\", user \"{user}\", database \"{database}\", {encryption}");
    Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message))
}

/// Whether a client has shown a certificate with the name of a user that exists.
fn has_certificate<B: Backend>(shared: &Shared<B>, user: &str, stream: &Stream) -> bool {
    let Stream::Tls(stream) = stream else { return false };
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    shown.and_then(|shown| common_name(shown)).as_deref() == Some(user) && shared.backend.is_member(user, user)
}

async fn authenticate<B: Backend>(
    shared: &Shared<B>,
    (user, method): (&str, Method),
    input: &mut Input,
    output: &mut Output,
) -> Result<(), Unknown> {
    let users = &shared.backend;
    match method {
        Method::Trust => return Ok(()),
        Method::Certificate if has_certificate(shared, user, output.stream()) => return Ok(()),
        Method::Certificate | Method::Reject => {
            let what = format!("certificate authentication failed for user \"{user}\"");
            return Err(Unknown::Told(SqlError::new(SqlState::INVALID_AUTHORIZATION, what)));
        }
        Method::Password => {}
    }
    let tls = shared.tls.as_ref().filter(|_| matches!(output.stream(), Stream::Tls(_)));
    let end_point = tls.and_then(|tls| tls.end_point.as_deref());
    let offered = if end_point.is_some() { &[MECHANISM_PLUS, MECHANISM][..] } else { &[MECHANISM] };
    backend::authentication_sasl(output.bytes(), offered);
    output.flush().await?;
    let first = password(input, output.stream()).await?;
    let mut reader = Reader::new(&first);
    let mechanism = reader.text()?;
    let first = reader.value()?.unwrap_or_default();
    reader.end()?;
    let channel = match end_point {
        Some(end_point) if mechanism == MECHANISM_PLUS.as_bytes() => Channel::Bound(end_point),
        Some(_) if mechanism == MECHANISM.as_bytes() => Channel::Offered,
        None if mechanism == MECHANISM.as_bytes() => Channel::None,
        _ => return Err(Malformed("this mechanism of SASL was not offered").into()),
    };
    let failed = |failure| match failure {
        Failure::Malformed(what) => Unknown::from(Malformed(what)),
        Failure::Refused => {
            let what = format!("password authentication failed for user \"{user}\"");
            Unknown::Told(SqlError::new(SqlState::INVALID_PASSWORD, what))
        }
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("SCRAM is not UTF-8"));
    let (exchange, reply) =
        Exchange::begin(&text(first)?, user, users.verifier(user), users.secret(), channel).map_err(failed)?;
    backend::authentication_sasl_continue(output.bytes(), &reply);
    output.flush().await?;
    let last = password(input, output.stream()).await?;
    let reply = exchange.finish(&text(&last)?).map_err(failed)?;
    backend::authentication_sasl_final(output.bytes(), &reply);
    Ok(())
}

/// Reads the next message, which has to be one of authentication.
async fn password(input: &mut Input, stream: &mut Stream) -> Result<Vec<u8>, Unknown> {
    const LIMITS: LengthLimits = LengthLimits { long: 0, short: startup::LENGTH_MAX };
    loop {
        match Header::peek(input.bytes(), LIMITS)? {
            Some(header) if header.length <= input.bytes().len() => {
                let Message::Password(data) = header.decode(input.bytes())? else {
                    return Err(Malformed("a message of authentication was expected").into());
                };
                let data = data.to_vec();
                input.consume(header.length);
                return Ok(data);
            }
            _ => {}
        }
        if input.fill(stream).await.map_err(io::Error::from)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

/// Returns the initial settings of a session: parameters, and those in `options`, as `-c name=value`.
pub fn settings(startup: &Startup) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (name, value) in &startup.parameters {
        match &**name {
            "user" | "database" | "replication" => {}
            "options" => settings.extend(options(value)),
            _ => settings.push((name.clone(), value.clone())),
        }
    }
    settings
}

fn options(text: &str) -> Vec<(String, String)> {
    let (mut words, mut word, mut characters) = (Vec::new(), String::new(), text.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.extend(characters.next()),
            character if character.is_whitespace() => words.push(std::mem::take(&mut word)),
            character => word.push(character),
        }
    }
    words.push(word);
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("-c") {
            Some("") => words.next().unwrap_or_default(),
            Some(assignment) => assignment.to_owned(),
            None => word.strip_prefix("--").unwrap_or_default().to_owned(),
        };
        if let Some((name, value)) = assignment.split_once('=') {
            settings.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let of = |text| options(text).into_iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>();
        assert_eq!(of("-c a=b  -cc=d --statement-timeout=5s"), ["a:b", "c:d", "statement_timeout:5s"]);
        assert_eq!(of(r"-c search_path=a,\ b -x"), ["search_path:a, b"]);
        assert_eq!(of("-c"), [""; 0]);
    }
}
