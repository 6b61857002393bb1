//! The server to connect to: a connection string or URL, and the environment for parts that it leaves out, as in libpq.

use std::{
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

use tokio_postgres::config::{Config, Host, SslMode};

use super::stream::Stream;
use crate::statements::Failure;

/// A server, a database and a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Hosts and ports, tried one after the other.
    hosts: Vec<(String, u16)>,
    pub(super) user: String,
    pub(super) password: Option<Vec<u8>>,
    pub(super) database: String,
    pub(super) options: Option<String>,
    pub(super) application: Option<String>,
    tls: SslMode,
    /// A file of certificates, one of which must have signed the server's.
    roots: Option<String>,
    patience: Option<Duration>,
}

const PORT: u16 = 5432;

impl Target {
    /// Parses a connection string or URL, which may be empty, and variables of the environment.
    pub fn new(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let config: Config =
            text.parse().map_err(|error: tokio_postgres::Error| match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            })?;
        let port = |text: Option<String>| match text {
            Some(text) => text.parse().map_err(|_| format!("PGPORT is no port: \"{text}\"")),
            None => Ok(PORT),
        };
        let ports = match config.get_ports() {
            [] => vec![port(variable("PGPORT"))?],
            ports => ports.to_vec(),
        };
        let hosts = match (config.get_hostaddrs(), config.get_hosts()) {
            ([], []) => vec![variable("PGHOST").unwrap_or_else(|| "127.0.0.1".to_owned())],
            ([], hosts) => hosts.iter().map(host).collect::<Result<_, _>>()?,
            (addresses, _) => addresses.iter().map(ToString::to_string).collect(),
        };
        let port_of = |at: usize| ports.get(at).or(ports.last()).copied().unwrap_or(PORT);
        let hosts: Vec<_> = hosts.into_iter().enumerate().map(|(at, host)| (host, port_of(at))).collect();
        let own = |text: Option<&str>| text.map(str::to_owned);
        let user = own(config.get_user()).or_else(|| variable("PGUSER")).or_else(|| variable("USER"));
        let user = user.ok_or("no user is named, neither there nor in PGUSER or USER")?;
        let password = config.get_password().map(<[u8]>::to_vec);
        let roots = variable("PGSSLROOTCERT");
        let tls = match (config.get_ssl_mode(), variable("PGSSLMODE").as_deref()) {
            (SslMode::Prefer, None | Some("prefer" | "allow")) => SslMode::Prefer,
            (SslMode::Prefer, Some("disable")) => SslMode::Disable,
            (SslMode::Prefer, Some("require")) => SslMode::Require,
            (SslMode::Prefer, Some("verify-ca" | "verify-full")) if roots.is_some() => SslMode::Require,
            (SslMode::Prefer, Some("verify-ca" | "verify-full")) => {
                return Err("to verify the server, PGSSLROOTCERT has to name a file of certificates".to_owned());
            }
            (SslMode::Prefer, Some(other)) => return Err(format!("PGSSLMODE is not known: \"{other}\"")),
            (said, _) => said,
        };
        let seconds = variable("PGCONNECT_TIMEOUT").and_then(|text| text.parse().ok()).map(Duration::from_secs);
        Ok(Self {
            hosts,
            database: own(config.get_dbname()).or_else(|| variable("PGDATABASE")).unwrap_or_else(|| user.clone()),
            password: password.or_else(|| variable("PGPASSWORD").map(String::into_bytes)),
            options: own(config.get_options()).or_else(|| variable("PGOPTIONS")),
            application: own(config.get_application_name()).or_else(|| variable("PGAPPNAME")),
            user,
            tls,
            roots,
            patience: config.get_connect_timeout().copied().or(seconds).filter(|patience| !patience.is_zero()),
        })
    }

    /// Returns the target with a name of the application, unless it has one.
    #[must_use]
    pub fn for_application(mut self, name: &str) -> Self {
        self.application.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Connects to the first host that can be reached, and returns its name.
    pub(super) fn stream(&self) -> Result<(Stream, String), Box<Failure>> {
        let mut failures = Vec::new();
        for (host, port) in &self.hosts {
            match self.stream_to(host, *port) {
                Ok(stream) => return Ok((stream, format!("{host}:{port}"))),
                Err(error) => failures.push(format!("connecting to {host}:{port} failed: {error}")),
            }
        }
        Err(Failure::of_shell(failures.join("\n")))
    }

    fn stream_to(&self, host: &str, port: u16) -> std::io::Result<Stream> {
        let mut connected = Err(std::io::Error::other("the name has no address"));
        for address in (host, port).to_socket_addrs()? {
            connected = match self.patience {
                Some(patience) => TcpStream::connect_timeout(&address, patience),
                None => TcpStream::connect(address),
            };
            if connected.is_ok() {
                break;
            }
        }
        let stream = connected?;
        stream.set_nodelay(true)?;
        let stream = match self.tls {
            SslMode::Disable => Stream::Plain(stream),
            _ => Stream::secure(stream, host, self.roots.as_deref())?,
        };
        if matches!(self.tls, SslMode::Require) && !stream.is_secure() {
            return Err(std::io::Error::other("the server has no TLS, and sslmode wants it"));
        }
        Ok(stream)
    }
}

fn host(host: &Host) -> Result<String, String> {
    match host {
        Host::Tcp(name) => Ok(name.clone()),
        Host::Unix(path) => Err(format!("sockets of files are not supported: {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str, variables: &[(&str, &str)]) -> Result<Target, String> {
        let find =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Target::new(text, find)
    }

    #[test]
    fn urls_and_the_environment_say_which_server() {
        let all = target("postgres://ann:p%40ss@there:77/shop?sslmode=require&connect_timeout=3", &[("PGUSER", "eva")]);
        let all = all.unwrap();
        assert_eq!(all.hosts, [("there".to_owned(), 77)]);
        assert_eq!((&*all.user, all.password.as_deref(), &*all.database), ("ann", Some(&b"p@ss"[..]), "shop"));
        assert_eq!((all.tls, all.patience), (SslMode::Require, Some(Duration::from_secs(3))));
        let variables =
            [("PGHOST", "here"), ("PGPORT", "78"), ("PGPASSWORD", "x"), ("USER", "bob"), ("PGSSLMODE", "disable")];
        let rest = target("", &variables).unwrap();
        assert_eq!(rest.hosts, [("here".to_owned(), 78)]);
        assert_eq!((&*rest.user, rest.password.as_deref(), &*rest.database), ("bob", Some(&b"x"[..]), "bob"));
        assert_eq!(rest.tls, SslMode::Disable);
        let words = target("host=a,b port=1,2 user=ann dbname=shop", &variables).unwrap();
        assert_eq!(words.hosts, [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!((&*words.user, &*words.database), ("ann", "shop"));
        for (text, variables, wanted) in [
            ("user=ann", &[][..], "ermined shell"),
            ("user=ann", &[("PGAPPNAME", "nightly")], "nightly"),
            ("user=ann application_name=mine", &[("PGAPPNAME", "nightly")], "mine"),
        ] {
            let named = target(text, variables).unwrap().for_application("ermined shell");
            assert_eq!(named.application.as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, variables, wanted) in [
            ("postgres://h/d", &[][..], "no user"),
            ("postgres://ann@h:port/d", &[], "invalid"),
            ("host=h unknown=1", &[], "unknown"),
            ("user=ann host=/tmp", &[], "sockets of files"),
            ("user=ann", &[("PGPORT", "many")], "PGPORT"),
            ("user=ann", &[("PGSSLMODE", "maybe")], "PGSSLMODE"),
            ("user=ann", &[("PGSSLMODE", "verify-full")], "PGSSLROOTCERT"),
        ] {
            let error = target(text, variables).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
