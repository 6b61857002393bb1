//! The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding where the connection has TLS.
//!
//! Invariants
//! 1. A nonexistent user and a wrong password take the same steps, look the same, and fail at the same step.
//! 2. Keys are compared in constant time.
//! 3. A client that supports channel binding and was offered it uses it: otherwise the offer was taken out on the way.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ermine_sql::verifier::{KEY_LENGTH, Verifier, hash, sign};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq as _;

/// The mechanism's name.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The mechanism's name, with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// What binds the exchange to its connection.
#[derive(Clone, Copy)]
pub enum Channel<'c> {
    /// Nothing can.
    None,
    /// The client was offered channel binding, and has chosen the mechanism without.
    Offered,
    /// The data of `tls-server-end-point`.
    Bound(&'c [u8]),
}

const NONCE_LENGTH: usize = 18;

/// The reason why an exchange failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The client does not follow the protocol.
    Malformed(&'static str),
    /// The client does not know the password, or there is no such user.
    Refused,
}

/// An exchange whose first step is done.
pub struct Exchange {
    verifier: Verifier,
    is_known: bool,
    /// The beginning of the client's first message, and the data of the channel binding.
    binding: Vec<u8>,
    nonce: String,
    /// The messages that both sides sign, without the client's last one.
    transcript: String,
}

impl Exchange {
    /// Takes the client's first message and returns the server's. If `verifier` is `None`, there is no such user, and
    /// `secret` hides that.
    pub fn begin(
        first: &str,
        user: &str,
        verifier: Option<Verifier>,
        secret: &[u8],
        channel: Channel<'_>,
    ) -> Result<(Self, String), Failure> {
        let mut nonce = [0; NONCE_LENGTH];
        SystemRandom::new().fill(&mut nonce).expect("the system has random bytes");
        Self::begin_with(first, user, verifier, secret, (channel, &BASE64.encode(nonce)))
    }

    fn begin_with(
        first: &str,
        user: &str,
        verifier: Option<Verifier>,
        secret: &[u8],
        (channel, server_nonce): (Channel<'_>, &str),
    ) -> Result<(Self, String), Failure> {
        let malformed = Failure::Malformed("the first message of SCRAM is malformed");
        let mut parts = first.splitn(3, ',');
        let (binding, identity) = (parts.next().ok_or(malformed)?, parts.next().ok_or(malformed)?);
        let bare = parts.next().ok_or(malformed)?;
        let bound = match (binding, channel) {
            ("n", Channel::None | Channel::Offered) | ("y", Channel::None) => &[],
            ("y", Channel::Offered) => {
                return Err(Failure::Malformed("channel binding was offered, and the client has not seen the offer"));
            }
            ("p=tls-server-end-point", Channel::Bound(data)) => data,
            (_, Channel::Bound(_)) if binding.starts_with("p=") => {
                return Err(Failure::Malformed("this type of channel binding is not supported"));
            }
            _ if binding.starts_with("p=") => return Err(Failure::Malformed("channel binding was not offered")),
            _ => return Err(malformed),
        };
        if !identity.is_empty() {
            return Err(Failure::Malformed("an authorization identity is not supported"));
        }
        // The name in here is ignored, as in PostgreSQL: the client named its user at startup.
        let client_nonce = match bare.split(',').collect::<Vec<_>>()[..] {
            [name, nonce, ..] if name.starts_with("n=") => nonce.strip_prefix("r=").ok_or(malformed)?,
            _ => return Err(malformed),
        };
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
            return Err(malformed);
        }
        let is_known = verifier.is_some();
        let mock = Verifier::mock(user, secret);
        let verifier = verifier.unwrap_or(mock);
        let nonce = format!("{client_nonce}{server_nonce}");
        let reply = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let transcript = format!("{bare},{reply}");
        let binding = [binding.as_bytes(), b",,", bound].concat();
        Ok((Self { verifier, is_known, binding, nonce, transcript }, reply))
    }

    /// Takes the client's last message and returns the server's.
    pub fn finish(self, last: &str) -> Result<String, Failure> {
        let malformed = Failure::Malformed("the last message of SCRAM is malformed");
        let (signed, proof) = last.rsplit_once(",p=").ok_or(malformed)?;
        let mut attributes = signed.split(',');
        let binding = attributes.next().and_then(|part| part.strip_prefix("c=")).ok_or(malformed)?;
        let nonce = attributes.next().and_then(|part| part.strip_prefix("r=")).ok_or(malformed)?;
        if binding != BASE64.encode(&self.binding) {
            return Err(Failure::Malformed("the channel binding of SCRAM is another one than before"));
        }
        if nonce != self.nonce {
            return Err(Failure::Malformed("the nonce of SCRAM is another one than before"));
        }
        let proof: [u8; KEY_LENGTH] =
            BASE64.decode(proof).ok().and_then(|proof| proof.try_into().ok()).ok_or(malformed)?;
        let message = format!("{},{signed}", self.transcript);
        let signature = sign(&self.verifier.stored_key, message.as_bytes());
        let client_key: [u8; KEY_LENGTH] = std::array::from_fn(|index| proof[index] ^ signature[index]);
        let knows = bool::from(hash(&client_key).ct_eq(&self.verifier.stored_key));
        let reply = format!("v={}", BASE64.encode(sign(&self.verifier.server_key, message.as_bytes())));
        if knows & self.is_known { Ok(reply) } else { Err(Failure::Refused) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 7677, section 3.
    fn example() -> (Exchange, String) {
        let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                        wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
            .parse()
            .unwrap();
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        Exchange::begin_with("n,,n=user,r=rOprNGfwEbeRWgbNEkqO", "user", Some(verifier), b"", (Channel::None, nonce))
            .unwrap()
    }

    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    #[test]
    fn the_example_of_the_standard() {
        let (exchange, reply) = example();
        assert_eq!(reply, "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096");
        assert_eq!(exchange.finish(LAST).unwrap(), "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(example().0.finish(&LAST.replace("dHzb", "dHzc")), Err(Failure::Refused));
        for last in
            ["", "c=biws", &LAST.replace("biws", "eSws"), &LAST.replace("r=rO", "r=rP"), &LAST[..LAST.len() - 4]]
        {
            assert!(matches!(example().0.finish(last), Err(Failure::Malformed(_))), "{last}");
        }
        for first in
            ["", "n,,", "n,,r=a", "n,,n=a,r=", "p=tls-server-end-point,,n=a,r=b", "n,a=x,n=a,r=b", "x,,n=a,r=b"]
        {
            assert!(
                matches!(Exchange::begin(first, "a", None, b"", Channel::None), Err(Failure::Malformed(_))),
                "{first}"
            );
        }
    }

    #[test]
    fn an_offer_that_was_taken_out_is_noticed() {
        let begin =
            |first: &str, channel| Exchange::begin(first, "a", None, b"", channel).map(|(exchange, _)| exchange);
        assert!(begin("y,,n=,r=a", Channel::Offered).is_err() && begin("y,,n=,r=a", Channel::None).is_ok());
        assert!(begin("n,,n=,r=a", Channel::Offered).is_ok() && begin("n,,n=,r=a", Channel::Bound(b"x")).is_err());
        assert!(begin("p=tls-unique,,n=,r=a", Channel::Bound(b"x")).is_err());
        let bound = begin("p=tls-server-end-point,,n=,r=a", Channel::Bound(b"x")).unwrap();
        let last =
            |data: &str| format!("c={},r={},p={}", BASE64.encode(data), bound.nonce, BASE64.encode([7; KEY_LENGTH]));
        let (other, right) = (last("p=tls-server-end-point,,y"), last("p=tls-server-end-point,,x"));
        let again = || Exchange {
            verifier: bound.verifier.clone(),
            is_known: false,
            binding: bound.binding.clone(),
            nonce: bound.nonce.clone(),
            transcript: bound.transcript.clone(),
        };
        assert!(matches!(again().finish(&other), Err(Failure::Malformed(_))));
        assert_eq!(again().finish(&right), Err(Failure::Refused));
    }

    #[test]
    fn an_unknown_user_has_a_salt_that_stays() {
        let salt = || {
            let (exchange, reply) = Exchange::begin("n,,n=,r=abc", "nobody", None, b"secret", Channel::None).unwrap();
            let last = format!("c=biws,r={},p={}", exchange.nonce, BASE64.encode([7; KEY_LENGTH]));
            assert_eq!(exchange.finish(&last), Err(Failure::Refused));
            reply.split(',').nth(1).unwrap().to_owned()
        };
        assert_eq!(salt(), salt());
    }
}
