//! A certificate and its key, from files in PEM; and what binds a password to the certificate.

use std::{io, path::Path, sync::Arc};

use crate::certificate::end_point;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    },
};

/// The server's side of TLS.
#[derive(Clone)]
pub struct Tls {
    /// Begins it on a connection.
    pub acceptor: TlsAcceptor,
    /// The data of the channel binding `tls-server-end-point` (RFC 5929, section 4): the hash of the certificate. `None`
    /// where the way in which the certificate is signed determines none.
    pub end_point: Option<Arc<[u8]>>,
}

/// Reads a certificate, optionally with those it is signed by, and its key; and the certificates by which those of
/// clients are signed, if clients may have any.
pub fn tls(certificate: &Path, key: &Path, of_clients: Option<&Path>) -> io::Result<Tls> {
    let at = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let certificates = |path: &Path| {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        match read {
            Ok(all) if all.is_empty() => Err(at(path, &"no certificate is in it")),
            Ok(all) => Ok(all),
            Err(error) => Err(at(path, &error)),
        }
    };
    let chain = certificates(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
    let end_point = end_point(&chain[0]);
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?;
    let config = match of_clients {
        None => config.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| at(path, &error))?;
            }
            // Whether a client needs one is decided when its user is known.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.allow_unauthenticated().build().map_err(|error| at(path, &error))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let config = config.with_single_cert(chain, secret).map_err(|error| at(certificate, &error))?;
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
}
