//! The parts of an X.509 certificate that authentication uses, read from its DER form (RFC 5280).
//!
//! Whether a certificate is valid is rustls's concern; here its parts are only found.

use std::sync::Arc;

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

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

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The version of a certificate, which it may lack.
const VERSION: u8 = 0xa0;
/// The object identifier of a common name.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// UTF8String, PrintableString, IA5String.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];

/// Returns the data of the channel binding `tls-server-end-point` (RFC 5929, section 4): the hash of the certificate.
/// `None` where the way in which the certificate is signed determines none.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Arc<[u8]>> {
    // A certificate is its content, the algorithm of the signature, and the signature.
    let (certified, _) = element(certificate, SEQUENCE)?;
    let (_, behind) = element(certified, SEQUENCE)?;
    let (algorithm, _) = element(behind, SEQUENCE)?;
    let (identifier, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (_, hash) = SIGNATURES.iter().find(|(known, _)| *known == identifier)?;
    Some(digest(hash, certificate).as_ref().into())
}

/// Returns the common name of the certificate's subject, if it has exactly one, without zero bytes.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let (certified, _) = element(certificate, SEQUENCE)?;
    let (mut content, _) = element(certified, SEQUENCE)?;
    if let Some((_, behind)) = element(content, VERSION) {
        content = behind;
    }
    // The serial number, the signature's algorithm, the issuer, the time of validity.
    for _ in 0..4 {
        content = any_element(content)?.2;
    }
    let (mut subject, _) = element(content, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut names, behind) = element(subject, SET)?;
        subject = behind;
        while !names.is_empty() {
            let (name, behind) = element(names, SEQUENCE)?;
            names = behind;
            let (identifier, value) = element(name, OBJECT_IDENTIFIER)?;
            if identifier != COMMON_NAME {
                continue;
            }
            let (tag, text, _) = any_element(value)?;
            let text = std::str::from_utf8(text).ok().filter(|text| STRINGS.contains(&tag) && !text.contains('\0'))?;
            if found.replace(text.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

/// Splits the content of a DER element of this type from what is behind the element.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (own, content, behind) = any_element(bytes)?;
    (own == tag).then_some((content, behind))
}

/// Splits a DER element into its type and its content, and what is behind it.
fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match *first {
        short @ ..=0x7f => (usize::from(short), rest),
        // The length of the length; 0x80 stands for one that is not known, which DER does not have.
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
            (length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte)), rest)
        }
        0x80 | 0x85.. => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((*tag, content, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(name: &str) -> Vec<u8> {
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        parameters.distinguished_name.push(rcgen::DnType::OrganizationName, "shop");
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_found_and_nothing_else() {
        assert_eq!(common_name(&certificate("ann")).as_deref(), Some("ann"));
        assert_eq!(common_name(&certificate("änn b")).as_deref(), Some("änn b"));
        assert_eq!(common_name(&certificate("ann\0root")), None);
    }

    #[test]
    fn no_bytes_panic() {
        let whole = certificate("ann");
        for length in 0..whole.len() {
            assert_eq!(common_name(&whole[..length]), None);
            assert_eq!(end_point(&whole[..length]), None);
        }
        for at in 0..whole.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = whole.clone();
                other[at] ^= flip;
                let _ = (common_name(&other), end_point(&other));
            }
        }
    }
}
