//! Passwords and TLS.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use ermine_server::{hba::Rules, tls};
use ermine_sql::verifier::Verifier;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_postgres::{
    NoTls,
    config::{ChannelBinding, SslMode},
    error::SqlState,
    tls::TlsConnect,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use super::{
    fake::Fake,
    raw::{Raw, message, packet, startup},
    support::{Running, options, start_secured},
};

fn with_users() -> Fake {
    Fake { users: [("eva".into(), Verifier::of("pencil"))].into(), ..Fake::default() }
}

/// TLS of a client that takes this for the hash of the server's certificate.
struct Bound {
    connector: TlsConnector,
    end_point: Vec<u8>,
}

struct BoundStream(tokio_rustls::client::TlsStream<TcpStream>, Vec<u8>);

impl TlsConnect<TcpStream> for Bound {
    type Stream = BoundStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<BoundStream>> + Send>>;

    fn connect(self, socket: TcpStream) -> Self::Future {
        let connecting = self.connector.connect("localhost".try_into().unwrap(), socket);
        Box::pin(async { Ok(BoundStream(connecting.await?, self.end_point)) })
    }
}

impl tokio_postgres::tls::TlsStream for BoundStream {
    fn channel_binding(&self) -> tokio_postgres::tls::ChannelBinding {
        tokio_postgres::tls::ChannelBinding::tls_server_end_point(self.1.clone())
    }
}

impl AsyncRead for BoundStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for BoundStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn secured() -> Running {
    start_secured(with_users(), options(), None)
}

#[tokio::test]
async fn only_the_right_password_lets_in() {
    let server = secured();
    let (client, connection) = server.config().password("pencil").connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client.query("SELECT 1", &[]).await.unwrap();
    let mut messages = Vec::new();
    for (user, password) in [("eva", "pencils"), ("adam", "pencil")] {
        let Err(error) = server.config().user(user).password(password).connect(NoTls).await else { panic!() };
        assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD), "{error:?}");
        messages.push(error.as_db_error().unwrap().message().replace(user, "?"));
    }
    assert_eq!(messages[0], messages[1], "an unknown user looks the same");
    assert!(server.config().connect(NoTls).await.is_err());
}

#[test]
fn what_is_no_authentication_is_refused() {
    let server = secured();
    let initial = |mechanism: &str, data: &str| {
        let mut body = [mechanism.as_bytes(), b"\0"].concat();
        body.extend((data.len() as u32).to_be_bytes());
        body.extend(data.bytes());
        message(b'p', &body)
    };
    for (sent, last) in [
        (message(b'Q', b"SELECT 1\0"), "FATAL 08P01"),
        (message(b'S', b""), "FATAL 08P01"),
        (message(b'p', b"pencil\0"), "FATAL 08P01"),
        (initial("SCRAM-SHA-256-PLUS", "n,,n=,r=a"), "FATAL 08P01"),
        (initial("SCRAM-SHA-256", "rubbish"), "FATAL 08P01"),
        (message(b'p', &[0; 20_000]), "FATAL 08P01"),
        ([initial("SCRAM-SHA-256", "n,,n=,r=a"), message(b'p', b"c=biws,r=a,p=")].concat(), "FATAL 08P01"),
    ] {
        let mut raw = Raw::open(server.address);
        raw.send(&[startup(0, &[("user", "eva")])]);
        raw.send(&[sent]);
        let seen = raw.until_closed();
        assert_eq!((&*seen[0], &**seen.last().unwrap()), ("SASL([\"SCRAM-SHA-256\"])", last));
    }
    assert_eq!(server.control.sessions(), 0);
}

#[tokio::test]
async fn tls() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let directory = std::env::temp_dir().join(format!("ermine-server-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (certificate, key) = (directory.join("certificate"), directory.join("key"));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let secured = tls::tls(&certificate, &key, None).unwrap();
    assert!(tls::tls(&key, &key, None).is_err() && tls::tls(&certificate, &certificate, None).is_err());
    std::fs::remove_dir_all(directory).unwrap();

    let mut required = options();
    required.tls_required = true;
    let server = start_secured(with_users(), required, Some(secured));
    let Err(error) = server.config().password("pencil").connect(NoTls).await else { panic!() };
    assert_eq!(error.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certified.cert.der().to_vec())).unwrap();
    let client_config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    socket.write_all(&packet(&[4, 210, 22, 47])).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'S');
    let stream = TlsConnector::from(Arc::new(client_config.clone()))
        .connect("localhost".try_into().unwrap(), socket)
        .await
        .unwrap();
    let (client, connection) = server.config().password("pencil").connect_raw(stream, NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.query("ROWS 5000", &[]).await.unwrap().len(), 5000);

    // A client that insists on channel binding finds it bound to this certificate, and to no other.
    let own = certified.cert.der().to_vec();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.der().to_vec();
    for (seen, fails) in [(own, None), (other, Some(SqlState::PROTOCOL_VIOLATION))] {
        let end_point = ::ring::digest::digest(&::ring::digest::SHA256, &seen).as_ref().to_vec();
        let bound = Bound { connector: TlsConnector::from(Arc::new(client_config.clone())), end_point };
        let mut config = server.config();
        config.password("pencil").ssl_mode(SslMode::Require).channel_binding(ChannelBinding::Require);
        let socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let connected = config.connect_raw(socket, bound).await;
        assert_eq!(connected.err().map(|error| error.code().cloned().unwrap()), fails);
    }

    // Bytes sent before encryption began must not count as encrypted.
    let mut raw = Raw::open(server.address);
    raw.send(&[packet(&[4, 210, 22, 47]), startup(0, &[("user", "eva")])]);
    assert_eq!(raw.until_closed(), ["FATAL 08P01"]);
}

/// A client's certificate, signed by a key of its own, or by another one.
fn certified(name: &str, issuer: &rcgen::Issuer<'_, rcgen::KeyPair>) -> (rcgen::Certificate, rcgen::KeyPair) {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = rcgen::KeyPair::generate().unwrap();
    (parameters.signed_by(&key, issuer).unwrap(), key)
}

fn authority() -> (rcgen::Certificate, rcgen::Issuer<'static, rcgen::KeyPair>) {
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    (certificate, rcgen::Issuer::new(parameters, key))
}

#[tokio::test]
async fn rules_decide_who_connects() {
    let directory = std::env::temp_dir().join(format!("ermine-server-rules-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let ((root, issuer), (_, other)) = (authority(), authority());
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (certificate, key) = (file("certificate", &own.cert.pem()), file("key", &own.signing_key.serialize_pem()));
    let tls = tls::tls(&certificate, &key, Some(&file("root", &root.pem()))).unwrap();
    let rules = "hostssl all eva samehost cert
        hostnossl \"closed\" all all reject
        hostnossl all eva 127.0.0.0/8 scram-sha-256
        host all ghost samehost trust";
    let mut ruled = options();
    ruled.rules = Some(Arc::new(Rules::read(&file("rules", rules)).unwrap()));
    let server = start_secured(with_users(), ruled, Some(tls));
    std::fs::remove_dir_all(&directory).unwrap();

    let plain = async |user: &str, database: &str, password: &str| {
        let mut config = server.config();
        config.user(user).dbname(database).password(password);
        let connected = config.connect(NoTls).await;
        connected.err().map(|error| (error.code().cloned().unwrap(), error.as_db_error().unwrap().message().to_owned()))
    };
    let refused = |what: &str, user: &str, database: &str| {
        let client = format!("host \"127.0.0.1\", user \"{user}\", database \"{database}\", no encryption");
        Some((SqlState::INVALID_AUTHORIZATION_SPECIFICATION, format!("{what} for {client}")))
    };
    assert_eq!(plain("eva", "shop", "pencil").await, None);
    assert_eq!(plain("eva", "shop", "pen").await.unwrap().0, SqlState::INVALID_PASSWORD);
    assert_eq!(plain("eva", "closed", "pencil").await, refused("pg_hba.conf rejects connection", "eva", "closed"));
    assert_eq!(plain("adam", "shop", "pencil").await, refused("no pg_hba.conf entry", "adam", "shop"));
    // Trust is for users that exist.
    assert_eq!(plain("ghost", "shop", "").await.unwrap().1, "role \"ghost\" does not exist");

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(own.cert.der().to_vec())).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let denied = Some(Some(SqlState::INVALID_AUTHORIZATION_SPECIFICATION));
    for (shown, expected) in [
        (Some(certified("eva", &issuer)), None),
        (Some(certified("adam", &issuer)), denied.clone()),
        // Not signed by the authority: the handshake fails.
        (Some(certified("eva", &other)), Some(None)),
        (None, denied),
    ] {
        let client_config = match shown {
            None => builder.clone().with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                builder.clone().with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        let bound = Bound { connector: TlsConnector::from(Arc::new(client_config)), end_point: Vec::new() };
        let mut config = server.config();
        config.user("eva").dbname("shop").ssl_mode(SslMode::Require);
        let socket = TcpStream::connect(server.address).await.unwrap();
        let connected = config.connect_raw(socket, bound).await;
        assert_eq!(connected.err().map(|error| error.code().cloned()), expected);
    }
}
