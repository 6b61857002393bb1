//! Which user a request is made by.
//!
//! Invariants
//! 1. A client proves that it is a user by the user's password (HTTP's Basic scheme). Passwords are not taken from other
//!    machines: the connection is not encrypted.
//! 2. While no user has a password, and the server trusts its clients, those of this machine are the first superuser:
//!    but only under a name that no page of another site can have (`Host`), so that a browser does not lend it the user's
//!    rights, and not through a proxy that says that it is one.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ermine_sql::{Result, Session, SqlDatabase, verifier::Verifier};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, HOST},
};
use tokio::{task::spawn_blocking, time::sleep};

use crate::server::Control;

/// The name of the database and of the superuser where a client names none.
const NAME: &str = "postgres";
/// Headers that proxies add: then the client may be on another machine.
const FORWARDED: [&str; 5] = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];
/// How long a client with a wrong password waits for the answer.
const REFUSAL_DELAY: Duration = Duration::from_millis(500);

/// Decides by which user a request is made.
pub(super) struct Access {
    database: SqlDatabase,
    control: Control,
}

/// A user that a client has proved to be, or is trusted to be.
pub(super) struct User {
    name: String,
    has_proof: bool,
}

/// Why a request is refused.
#[derive(Debug)]
pub(super) enum Refused {
    /// The client has to prove that it is a user.
    Proof,
    Why(&'static str),
}

impl User {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Begins a session of the user.
    pub(super) fn session(&self, database: &SqlDatabase) -> Result<Session> {
        let mut session = database.login(&self.name, NAME, self.has_proof)?;
        session.set("application_name", "ermined http")?;
        session.set("statement_timeout", "5s")?;
        Ok(session)
    }
}

impl Access {
    pub(super) fn new(database: SqlDatabase, control: Control) -> Self {
        Self { database, control }
    }

    pub(super) async fn user(&self, headers: &HeaderMap, peer: SocketAddr) -> Result<User, Refused> {
        if !peer.ip().to_canonical().is_loopback() {
            return Err(Refused::Why(
                "this page is for clients of the server's machine: use a tunnel, or a proxy with TLS there",
            ));
        }
        if !self.database.has_passwords() {
            return match () {
                () if !self.control.trusts() => {
                    Err(Refused::Why("no user has a password: ALTER USER .. PASSWORD gives one"))
                }
                () if FORWARDED.iter().any(|name| headers.contains_key(*name)) => {
                    Err(Refused::Why("behind a proxy, a user needs a password: ALTER USER .. PASSWORD gives one"))
                }
                () if !is_own_name(headers) => {
                    Err(Refused::Why("open this page as localhost, or under the server's address"))
                }
                () => Ok(User { name: NAME.into(), has_proof: false }),
            };
        }
        let Some((name, password)) = credentials(headers) else { return Err(Refused::Proof) };
        let verifier = self.database.verifier(&name);
        let verifier = verifier.unwrap_or_else(|| Verifier::mock(&name, self.database.secret()));
        let is_right = spawn_blocking(move || verifier.accepts(&password)).await.unwrap_or(false);
        if !is_right {
            log::warn!("HTTP: a wrong password for user {name:?} from {peer}");
            sleep(REFUSAL_DELAY).await;
            return Err(Refused::Proof);
        }
        Ok(User { name, has_proof: true })
    }
}

/// Whether a request names this machine: by a number, or as `localhost`.
fn is_own_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|host| host.to_str().ok()) else { return false };
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

/// Returns the name and the password of a request.
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let both = String::from_utf8(BASE64.decode(encoded.trim()).ok()?).ok()?;
    let (name, password) = both.split_once(':')?;
    Some((name.into(), password.into()))
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn names_of_other_sites_are_not_this_machines() {
        for (host, is_own) in [
            ("localhost", true),
            ("localhost:8080", true),
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("evil.example:8080", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_own_name(&headers(HOST, host)), is_own, "{host}");
        }
        assert!(!is_own_name(&HeaderMap::new()));
    }

    #[test]
    fn credentials_are_a_name_and_a_password() {
        let of = |value| credentials(&headers(AUTHORIZATION, value));
        // eva:a:b
        assert_eq!(of("Basic ZXZhOmE6Yg=="), Some(("eva".into(), "a:b".into())));
        assert_eq!(of("basic  ZXZhOmE6Yg=="), Some(("eva".into(), "a:b".into())));
        for wrong in ["Bearer ZXZhOmE6Yg==", "Basic", "Basic x", "Basic ZXZh", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
