//! From a stream to a session: parameters, and passwords in the ways that servers ask for them.

use std::io;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    },
    message::{
        backend::{AuthenticationSaslBody, Message},
        frontend,
    },
};

use super::{Target, Wire, failure};
use crate::statements::Failure;

/// Logs in, and returns the key by which statements are cancelled, if the server has one. A password that the user is
/// asked for becomes a part of the target.
pub(super) fn login(
    wire: &mut Wire,
    target: &mut Target,
    host: &str,
    may_ask: bool,
) -> Result<Option<(i32, i32)>, Box<Failure>> {
    let lost = |error: io::Error| Failure::of_shell(format!("logging in at {host} failed: {error}"));
    let mut login = Login { wire, target, may_ask, scram: None };
    login.begin().map_err(lost)?;
    let mut key = None;
    loop {
        match login.wire.message().map_err(lost)? {
            Message::BackendKeyData(body) => key = Some((body.process_id(), body.secret_key())),
            Message::ReadyForQuery(_) => return Ok(key),
            Message::ErrorResponse(body) => return Err(failure(body.fields()).map_err(lost)?),
            message => login.step(message).map_err(lost)?,
        }
    }
}

struct Login<'l> {
    wire: &'l mut Wire,
    target: &'l mut Target,
    may_ask: bool,
    scram: Option<ScramSha256>,
}

impl Login<'_> {
    fn begin(&mut self) -> io::Result<()> {
        let Target { user, database, options, application, .. } = &*self.target;
        let fixed = [("client_encoding", "UTF8"), ("user", user), ("database", database)];
        let more = [("application_name", application), ("options", options)];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let mut message = BytesMut::new();
        frontend::startup_message(fixed.into_iter().chain(more), &mut message)?;
        self.wire.send(&message)
    }

    /// Answers a request of the server.
    fn step(&mut self, message: Message) -> io::Result<()> {
        let mut answer = BytesMut::new();
        match message {
            Message::AuthenticationCleartextPassword => {
                frontend::password_message(&self.password()?, &mut answer)?;
            }
            Message::AuthenticationMd5Password(body) => {
                let password = self.password()?;
                let hash = md5_hash(self.target.user.as_bytes(), &password, body.salt());
                frontend::password_message(hash.as_bytes(), &mut answer)?;
            }
            Message::AuthenticationSasl(body) => {
                if !offers_scram(&body)? {
                    return Err(unknown());
                }
                let scram = ScramSha256::new(&self.password()?, ChannelBinding::unsupported());
                frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), &mut answer)?;
                self.scram = Some(scram);
            }
            Message::AuthenticationSaslContinue(body) => {
                let scram = self.scram.as_mut().ok_or_else(unknown)?;
                scram.update(body.data())?;
                frontend::sasl_response(scram.message(), &mut answer)?;
            }
            Message::AuthenticationSaslFinal(body) => {
                // The server has proved that it knows the password, too.
                return self.scram.as_mut().ok_or_else(unknown)?.finish(body.data());
            }
            Message::AuthenticationOk | Message::ParameterStatus(_) | Message::NoticeResponse(_) => return Ok(()),
            _ => return Err(unknown()),
        }
        self.wire.send(&answer)
    }

    fn password(&mut self) -> io::Result<Vec<u8>> {
        match &self.target.password {
            Some(password) => Ok(password.clone()),
            None if self.may_ask => {
                let password = rpassword::prompt_password(format!("Password of {}: ", self.target.user))?;
                Ok(self.target.password.insert(password.into_bytes()).clone())
            }
            None => Err(io::Error::other("a password is wanted: PGPASSWORD may have it")),
        }
    }
}

fn offers_scram(body: &AuthenticationSaslBody) -> io::Result<bool> {
    body.mechanisms().any(|mechanism| Ok(mechanism == SCRAM_SHA_256))
}

fn unknown() -> io::Error {
    io::Error::other("the server wants to know its clients in a way that is not supported")
}
