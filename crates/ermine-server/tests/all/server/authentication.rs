//! Passwords and TLS.

use std::sync::Arc;

use ermine_server::tls;
use ermine_sql::verifier::Verifier;
use tokio_postgres::{NoTls, error::SqlState};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer},
};

use super::{
    fake::Fake,
    raw::{Raw, message, packet, startup},
    support::{Running, options, start_secured},
};

fn with_users() -> Fake {
    Fake { users: [("eva".into(), Verifier::of("pencil"))].into(), ..Fake::default() }
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
    let acceptor = tls::acceptor(&certificate, &key).unwrap();
    assert!(tls::acceptor(&key, &key).is_err() && tls::acceptor(&certificate, &certificate).is_err());
    std::fs::remove_dir_all(directory).unwrap();

    let mut required = options();
    required.tls_required = true;
    let server = start_secured(with_users(), required, Some(acceptor));
    let Err(error) = server.config().password("pencil").connect(NoTls).await else { panic!() };
    assert_eq!(error.code(), Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certified.cert.der().to_vec())).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut socket = tokio::net::TcpStream::connect(server.address).await.unwrap();
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    socket.write_all(&packet(&[4, 210, 22, 47])).await.unwrap();
    assert_eq!(socket.read_u8().await.unwrap(), b'S');
    let stream = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), socket).await.unwrap();
    let (client, connection) = server.config().password("pencil").connect_raw(stream, NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_eq!(client.query("ROWS 5000", &[]).await.unwrap().len(), 5000);

    // Bytes sent before encryption began must not count as encrypted.
    let mut raw = Raw::open(server.address);
    raw.send(&[packet(&[4, 210, 22, 47]), startup(0, &[("user", "eva")])]);
    assert_eq!(raw.until_closed(), ["FATAL 08P01"]);
}
