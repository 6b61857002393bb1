//! The rules for which clients may connect, from where, and by which proof: a file in the form of PostgreSQL's
//! `pg_hba.conf`.
//!
//! ```text
//! # type   database   user    address        method
//! hostssl  all        +staff  10.0.0.0/8     cert
//! host     shop       app     10.1.2.0/24    scram-sha-256
//! host     all        all     samehost       trust
//! host     all        all     all            reject
//! ```
//!
//! The first line that fits a client decides; a client that none fits is refused. A line that is not understood is an
//! error when the file is read: no rule is left out.

use std::{fs, io, net::IpAddr, path::Path};

/// The rules of a file, in their order.
#[derive(Debug, Default)]
pub struct Rules(Vec<Rule>);

/// The proof that a client has to give.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// None.
    Trust,
    /// The client is refused.
    Reject,
    /// A password (SCRAM-SHA-256).
    Password,
    /// A certificate with the name of the user.
    Certificate,
}

/// A client, as far as rules depend on it.
#[derive(Clone, Copy)]
pub struct Client<'c> {
    /// Its address.
    pub address: Option<IpAddr>,
    /// The address of the server that it has connected to.
    pub server: Option<IpAddr>,
    /// Its user.
    pub user: &'c str,
    /// The database that it asks for.
    pub database: &'c str,
    /// Whether it has TLS.
    pub is_encrypted: bool,
}

#[derive(Debug)]
struct Rule {
    /// Whether the client has TLS; `None`: it does not matter.
    encrypted: Option<bool>,
    databases: Vec<Name>,
    users: Vec<Name>,
    addresses: Addresses,
    method: Method,
}

#[derive(Debug)]
enum Name {
    All,
    /// `sameuser`: the database has the name of the user.
    SameUser,
    /// `+role`: the user is a member of the role.
    MemberOf(String),
    Is(String),
}

#[derive(Debug)]
enum Addresses {
    All,
    /// Those of the machine.
    SameHost,
    /// Those with the same first bits.
    Network(IpAddr, u32),
}

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// With the place of the line that is not understood.
    pub fn read(path: &Path) -> io::Result<Self> {
        let place = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(|error| io::Error::new(error.kind(), place(&error)))?;
        Self::parse(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, place(&error)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let rule =
                fields(line).and_then(|fields| if fields.is_empty() { Ok(None) } else { rule(&fields).map(Some) });
            rules.extend(rule.map_err(|error| format!("line {}: {error}", number + 1))?);
        }
        Ok(Self(rules))
    }

    /// Whether some rule asks for a certificate.
    pub fn ask_for_certificates(&self) -> bool {
        self.0.iter().any(|rule| rule.method == Method::Certificate)
    }

    /// Returns the proof that a client has to give; `None`: no rule fits it. `is_member` tells whether the client's user
    /// is a member of a role.
    pub fn method(&self, client: &Client<'_>, is_member: &dyn Fn(&str) -> bool) -> Option<Method> {
        let fits = |name: &Name, own: &str| match name {
            Name::All => true,
            Name::SameUser => own == client.user,
            Name::MemberOf(role) => is_member(role),
            Name::Is(name) => name == own,
        };
        let found = self.0.iter().find(|rule| {
            rule.encrypted.is_none_or(|encrypted| encrypted == client.is_encrypted)
                && rule.databases.iter().any(|name| fits(name, client.database))
                && rule.users.iter().any(|name| fits(name, client.user))
                && rule.addresses.contain(client)
        });
        found.map(|rule| rule.method)
    }
}

impl Addresses {
    fn contain(&self, client: &Client<'_>) -> bool {
        let Some(address) = client.address.map(|address| address.to_canonical()) else {
            return matches!(self, Self::All);
        };
        match self {
            Self::All => true,
            Self::SameHost => {
                address.is_loopback() || client.server.is_some_and(|server| server.to_canonical() == address)
            }
            Self::Network(network, length) => match (network, address) {
                (IpAddr::V4(network), IpAddr::V4(address)) => {
                    first_bits(u128::from(network.to_bits()) ^ u128::from(address.to_bits()), 32, *length)
                }
                (IpAddr::V6(network), IpAddr::V6(address)) => {
                    first_bits(network.to_bits() ^ address.to_bits(), 128, *length)
                }
                _ => false,
            },
        }
    }
}

/// Whether the first `length` of `width` bits are zero.
fn first_bits(difference: u128, width: u32, length: u32) -> bool {
    difference.checked_shr(width - length).unwrap_or(0) == 0
}

/// A word of a line, and whether it was in quotes.
type Word = (String, bool);

/// Returns the fields of a line, each a list of words with commas between them.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, String> {
    let (mut fields, mut continues): (Vec<Vec<Word>>, bool) = (Vec::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(&next) = characters.peek() {
        match next {
            '#' => break,
            ',' => {
                characters.next();
                continues = true;
            }
            blank if blank.is_whitespace() => _ = characters.next(),
            first => {
                let (mut word, is_quoted) = (String::new(), first == '"');
                if is_quoted {
                    characters.next();
                }
                loop {
                    match characters.peek() {
                        Some('"') if is_quoted => {
                            characters.next();
                            break;
                        }
                        None if is_quoted => return Err("a quote has no end".into()),
                        None => break,
                        Some(end) if !is_quoted && (end.is_whitespace() || matches!(end, ',' | '#')) => break,
                        Some(_) => word.extend(characters.next()),
                    }
                }
                match fields.last_mut().filter(|_| continues) {
                    Some(field) => field.push((word, is_quoted)),
                    None => fields.push(vec![(word, is_quoted)]),
                }
                continues = characters.next_if_eq(&',').is_some();
            }
        }
    }
    Ok(fields)
}

fn rule(fields: &[Vec<Word>]) -> Result<Rule, String> {
    let one = |at: usize, what: &str| match fields.get(at).map(Vec::as_slice) {
        Some([(word, _)]) => Ok(word.as_str()),
        Some(_) => Err(format!("several {what}s")),
        None => Err(format!("the {what} is missing")),
    };
    let encrypted = match one(0, "type")? {
        "host" => None,
        "hostssl" => Some(true),
        "hostnossl" => Some(false),
        "local" => return Err("there are no sockets of the file system; remove the line".into()),
        other => return Err(format!("the type {other} is unknown: host, hostssl or hostnossl")),
    };
    let names = |at: usize, what: &str, is_database: bool| -> Result<Vec<Name>, String> {
        let words = fields.get(at).ok_or_else(|| format!("the {what} is missing"))?;
        words.iter().map(|(word, is_quoted)| name(word, *is_quoted, is_database)).collect()
    };
    let (databases, users) = (names(1, "database", true)?, names(2, "user", false)?);
    let address = one(3, "address")?;
    // A netmask may follow an address in a field of its own.
    let mask = one(4, "method").ok().filter(|_| address.parse::<IpAddr>().is_ok());
    let mask = mask.and_then(|word| word.parse::<IpAddr>().ok());
    let addresses = addresses(address, mask)?;
    let at = if mask.is_some() { 5 } else { 4 };
    let method = match one(at, "method")? {
        "trust" => Method::Trust,
        "reject" => Method::Reject,
        // PostgreSQL, too, means SCRAM by `md5` where the stored password is one of SCRAM.
        "scram-sha-256" | "md5" => Method::Password,
        "cert" if encrypted == Some(true) => Method::Certificate,
        "cert" => return Err("cert needs the type hostssl".into()),
        other => return Err(format!("the method {other} is unknown: trust, reject, scram-sha-256 or cert")),
    };
    match fields.get(at + 1).and_then(|field| field.first()) {
        None => Ok(Rule { encrypted, databases, users, addresses, method }),
        Some((option, _)) => Err(format!("the option {option} is not supported")),
    }
}

fn name(word: &str, is_quoted: bool, is_database: bool) -> Result<Name, String> {
    if is_quoted {
        return Ok(Name::Is(word.to_owned()));
    }
    if word.starts_with(['@', '/']) {
        return Err(format!("names from files, and expressions, are not supported: {word}"));
    }
    match (word, is_database) {
        ("all", _) => Ok(Name::All),
        ("sameuser", true) => Ok(Name::SameUser),
        ("samerole" | "samegroup", true) => Err(format!("{word} is not supported")),
        _ => Ok(match word.strip_prefix('+').filter(|_| !is_database) {
            Some(role) => Name::MemberOf(role.to_owned()),
            None => Name::Is(word.to_owned()),
        }),
    }
}

fn addresses(word: &str, mask: Option<IpAddr>) -> Result<Addresses, String> {
    match word {
        "all" => return Ok(Addresses::All),
        "samehost" => return Ok(Addresses::SameHost),
        "samenet" => return Err("samenet is not supported; write the network".into()),
        _ => {}
    }
    let (address, length) = word.split_once('/').map_or((word, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.parse().map_err(|_| format!("{address} is no address; names are not supported"))?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length = match (length, mask) {
        (Some(length), _) => length.parse().ok().filter(|length| *length <= width),
        (None, Some(IpAddr::V4(mask))) if address.is_ipv4() => {
            Some(mask.to_bits().leading_ones()).filter(|length| mask.to_bits().count_ones() == *length)
        }
        (None, Some(IpAddr::V6(mask))) if address.is_ipv6() => {
            Some(mask.to_bits().leading_ones()).filter(|length| mask.to_bits().count_ones() == *length)
        }
        (None, Some(_)) => None,
        (None, None) => {
            return Err(format!("the length or the mask of the network {word} is missing, such as /{width}"));
        }
    };
    let length = length.ok_or_else(|| format!("the length or the mask of the network {word} is none"))?;
    Ok(Addresses::Network(address, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client<'c>(address: &str, user: &'c str, database: &'c str, is_encrypted: bool) -> Client<'c> {
        Client { address: Some(address.parse().unwrap()), server: None, user, database, is_encrypted }
    }

    #[test]
    fn the_first_line_that_fits_decides() {
        let text = "
            # a comment
            hostssl all +staff 10.0.0.0/8 cert
            host shop,\"all\" app, web 10.1.2.0 255.255.255.0 scram-sha-256   # and one more
            hostnossl all root 2001:db8::/32 reject
            host sameuser all 10.9.0.0/16 md5
            host all all samehost trust";
        let rules = Rules::parse(text).unwrap();
        let is_member = |role: &str| role == "staff";
        let of = |address, user, database, is_encrypted| {
            rules.method(&client(address, user, database, is_encrypted), &|role| user == "eva" && is_member(role))
        };
        assert!(rules.ask_for_certificates());
        assert_eq!(of("10.255.0.1", "eva", "x", true), Some(Method::Certificate));
        assert_eq!(of("11.0.0.1", "eva", "x", true), None);
        assert_eq!(of("10.1.2.255", "web", "shop", false), Some(Method::Password));
        assert_eq!(of("::ffff:10.1.2.255", "app", "all", true), Some(Method::Password));
        assert_eq!(of("10.1.3.0", "web", "shop", false), None);
        assert_eq!(of("10.1.2.3", "web", "other", false), None);
        assert_eq!(of("2001:db8:1::1", "root", "x", false), Some(Method::Reject));
        assert_eq!(of("2001:db8:1::1", "root", "x", true), None);
        assert_eq!(of("2001:db9::1", "root", "x", false), None);
        assert_eq!(of("10.9.1.1", "ann", "ann", false), Some(Method::Password));
        assert_eq!(of("10.9.1.1", "ann", "bob", false), None);
        assert_eq!(of("127.0.0.1", "ann", "bob", false), Some(Method::Trust));
        assert_eq!(of("::1", "ann", "bob", true), Some(Method::Trust));
        let own = Client { server: Some("10.2.2.2".parse().unwrap()), ..client("10.2.2.2", "ann", "x", false) };
        assert_eq!(rules.method(&own, &|_| false), Some(Method::Trust));
    }

    #[test]
    fn lengths_are_bits() {
        for (network, inside, outside) in [
            ("0.0.0.0/0", Some("255.1.2.3"), None),
            ("10.0.0.1/32", Some("10.0.0.1"), Some("10.0.0.0")),
            ("10.0.0.128/25", Some("10.0.0.200"), Some("10.0.0.127")),
            ("::/0", Some("ffff::"), Some("1.2.3.4")),
            ("fe80::1/128", Some("fe80::1"), Some("fe80::2")),
        ] {
            let rules = Rules::parse(&format!("host all all {network} trust")).unwrap();
            let fits = |address| rules.method(&client(address, "a", "a", false), &|_| false).is_some();
            assert!(inside.is_none_or(fits) && !outside.is_some_and(fits), "{network}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_is_an_error() {
        for line in [
            "local all all trust",
            "host all all",
            "host all all all",
            "host all all all ident",
            "host all all all cert",
            "host all all all trust map=x",
            "host all all example.org trust",
            "host all all 10.0.0.1 trust",
            "host all all 10.0.0.1/33 trust",
            "host all all 10.0.0.0 255.0.255.0 trust",
            "host all all 10.0.0.0 ffff:: trust",
            "host all all all 255.0.0.0 trust",
            "host all all samehost 255.0.0.0 trust",
            "host all all 10.0.0.0 255.0.0.0,255.255.0.0 trust",
            "host all all samenet trust",
            "host samerole all all trust",
            "host all @users all trust",
            "host all \"all all trust",
            "host,hostssl all all all trust",
        ] {
            let error = Rules::parse(&format!("\n{line}")).unwrap_err();
            assert!(error.starts_with("line 2: "), "{line}: {error}");
        }
        assert!(Rules::parse(" \n# nothing\n").unwrap().0.is_empty());
    }
}
