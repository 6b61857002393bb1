//! The stored form of a password (RFC 5802, section 3), which is not enough to log in with. It is written as in
//! PostgreSQL's `pg_authid`, so that each system can read the other's: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`.

use std::{fmt, num::NonZeroU32, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom, SystemRandom},
};
use serde::{Deserialize, Serialize};

/// The length of a key in bytes.
pub const KEY_LENGTH: usize = 32;

const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).unwrap();
const SALT_LENGTH: usize = 16;
const NAME: &str = "SCRAM-SHA-256";

/// The stored form of a password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verifier {
    /// The number of times that the password was hashed.
    pub iterations: NonZeroU32,
    /// The salt of the hash.
    pub salt: Vec<u8>,
    /// The hash of the key by which clients prove that they know it.
    pub stored_key: [u8; KEY_LENGTH],
    /// The key by which the server proves the same.
    pub server_key: [u8; KEY_LENGTH],
}

impl Verifier {
    /// Derives the verifier of a password, with a new salt.
    pub fn of(password: &str) -> Self {
        let mut salt = vec![0; SALT_LENGTH];
        SystemRandom::new().fill(&mut salt).expect("the system has random bytes");
        Self::with_salt(password, salt, ITERATIONS)
    }

    fn with_salt(password: &str, salt: Vec<u8>, iterations: NonZeroU32) -> Self {
        // As PostgreSQL: a password that cannot be prepared is used as it is.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; KEY_LENGTH];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, prepared.as_bytes(), &mut salted);
        let client_key = sign(&salted, b"Client Key");
        Self { iterations, salt, stored_key: hash(&client_key), server_key: sign(&salted, b"Server Key") }
    }

    /// Whether this is the verifier of a password. Takes as long as [`Verifier::of`], some milliseconds.
    pub fn accepts(&self, password: &str) -> bool {
        let other = Self::with_salt(password, self.salt.clone(), self.iterations);
        // Keys that are equal up to some byte tell nothing of the password.
        other.stored_key == self.stored_key
    }

    /// Returns a verifier for a user that does not exist: the same name always has the same salt, and no password is
    /// known for the keys.
    pub fn mock(user: &str, secret: &[u8]) -> Self {
        let keyed = |purpose: &str| sign(secret, format!("{purpose} {user}").as_bytes());
        Self {
            iterations: ITERATIONS,
            salt: keyed("salt")[..SALT_LENGTH].to_vec(),
            stored_key: keyed("stored"),
            server_key: keyed("server"),
        }
    }
}

/// HMAC-SHA-256.
pub fn sign(key: &[u8], data: &[u8]) -> [u8; KEY_LENGTH] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), data);
    tag.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

/// SHA-256.
pub fn hash(data: &[u8]) -> [u8; KEY_LENGTH] {
    digest::digest(&digest::SHA256, data).as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { iterations, salt, stored_key, server_key } = self;
        let [salt, stored, server] = [&salt[..], stored_key, server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{NAME}${iterations}:{salt}${stored}:{server}")
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier(..)")
    }
}

impl FromStr for Verifier {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = || {
            let (salted, keys) = text.strip_prefix(NAME)?.strip_prefix('$')?.split_once('$')?;
            let ((iterations, salt), (stored, server)) = (salted.split_once(':')?, keys.split_once(':')?);
            Some(Self {
                iterations: iterations.parse().ok()?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: BASE64.decode(stored).ok()?.try_into().ok()?,
                server_key: BASE64.decode(server).ok()?.try_into().ok()?,
            })
        };
        parsed().ok_or("this is no verifier of SCRAM-SHA-256")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let verifier = Verifier::of("pencil");
        assert_eq!(verifier.to_string().parse(), Ok(verifier.clone()));
        assert!("SCRAM-SHA-256$0:AA==$AA==:AA==".parse::<Verifier>().is_err());
        assert!("md5abc".parse::<Verifier>().is_err());
        assert_ne!(verifier, Verifier::of("pencil"), "salts differ");
    }

    #[test]
    fn the_example_of_the_standard() {
        // RFC 7677, section 3.
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", salt, ITERATIONS);
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let signature = BASE64.encode(sign(&verifier.server_key, message.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }
}
