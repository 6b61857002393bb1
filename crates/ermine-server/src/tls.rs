//! A certificate and its key, from files in PEM; and what binds a password to the certificate.

use std::{io, path::Path, sync::Arc};

use ::ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
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

/// Reads a certificate, optionally with those it is signed by, and its key.
pub fn tls(certificate: &Path, key: &Path) -> io::Result<Tls> {
    let at = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(certificate, &error))?;
    if chain.is_empty() {
        return Err(at(certificate, &"no certificate is in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, &error))?;
    let end_point = end_point(&chain[0]);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| at(certificate, &error))?;
    Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), end_point })
}

/// Signatures, by the object identifiers of the algorithms, whose hash is the one of the channel binding. MD5 and SHA-1
/// are replaced by SHA-256.
const SIGNATURES: [(&[u8], &Algorithm); 8] = [
    // RSA with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b], &SHA256),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], &SHA384),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], &SHA512),
    // ECDSA with SHA-256, SHA-384, SHA-512.
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02], &SHA256),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03], &SHA384),
    (&[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04], &SHA512),
];

fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    // A certificate is its content, the algorithm of the signature, and the signature.
    let (certified, _) = element(certificate, SEQUENCE)?;
    let (_, behind) = element(certified, SEQUENCE)?;
    let (algorithm, _) = element(behind, SEQUENCE)?;
    let (identifier, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (_, hash) = SIGNATURES.iter().find(|(known, _)| *known == identifier)?;
    Some(digest(hash, certificate).as_ref().into())
}

/// Splits the content of a DER element of this type from what is behind the element.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [own, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match *first {
        short @ ..=0x7f => (usize::from(short), rest),
        // The length of the length; 0x80 stands for one that is not known, which DER does not have.
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
            (length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        0x80 | 0x85.. => return None,
    };
    rest.split_at_checked(length).filter(|_| *own == tag)
}
