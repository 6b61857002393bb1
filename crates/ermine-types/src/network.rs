//! Addresses of hosts and networks: `inet` and `cidr`, whose values differ only in what they allow; and `macaddr`.
//!
//! Networks are ordered before the addresses in them: by family, by the network's address, by the length of the netmask,
//! and then by the whole address. Keys encode the same four parts.

use std::{
    fmt::{self, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    error::{Result, SqlError, SqlState},
    space::is_space,
};

/// An address with the length of its netmask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inet {
    /// The address.
    pub address: IpAddr,
    /// The number of bits of the network, at most those of the address.
    pub prefix: u8,
    /// Whether it is a `cidr`: all other bits are zero.
    pub is_network: bool,
}

/// Returns the error for a text that is not a value of its type.
fn invalid(ty: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("invalid input syntax for type {ty}: \"{text}\""))
}

/// The length in bits of addresses of each family.
const BITS_V4: u8 = 32;
const BITS_V6: u8 = 128;

/// The families in binary forms: those of PostgreSQL.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

impl Inet {
    /// Returns a value of `inet`; `None`: the netmask is longer than the address.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let inet = Self { address, prefix, is_network: false };
        (prefix <= inet.bits()).then_some(inet)
    }

    /// Returns the number of bits of the address.
    pub fn bits(&self) -> u8 {
        if self.address.is_ipv4() { BITS_V4 } else { BITS_V6 }
    }

    /// Returns the address as a number; of IPv4, in the last 32 bits.
    pub fn number(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// Returns the same kind of value with another address, of which only the last bits of the family count.
    #[must_use]
    pub fn with_number(self, number: u128) -> Self {
        let address = match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
        };
        Self { address, ..self }
    }

    /// Returns the bits of hosts, which are not those of the network.
    pub fn host_bits(&self) -> u128 {
        let width = self.bits() - self.prefix;
        if width == BITS_V6 { u128::MAX } else { (1 << width) - 1 }
    }

    /// Returns the bits of the network.
    pub fn network_bits(&self) -> u128 {
        let all = if self.address.is_ipv4() { u32::MAX.into() } else { u128::MAX };
        all & !self.host_bits()
    }

    /// Returns the network, as a `cidr`.
    #[must_use]
    pub fn network(self) -> Self {
        Self { is_network: true, ..self.with_number(self.number() & self.network_bits()) }
    }

    /// Whether another address belongs to the network of this one, or is a smaller network of it.
    pub fn contains(&self, other: &Self) -> bool {
        self.address.is_ipv4() == other.address.is_ipv4()
            && self.prefix <= other.prefix
            && (self.number() ^ other.number()) & self.network_bits() == 0
    }

    /// Returns the parts by which values are ordered.
    pub fn order(&self) -> (bool, u128, u8, u128) {
        (self.address.is_ipv6(), self.number() & self.network_bits(), self.prefix, self.number())
    }

    /// Returns the bytes of the address, the first ones of the array, and their number.
    fn bytes(&self) -> ([u8; 16], usize) {
        match self.address {
            IpAddr::V4(address) => {
                let mut all = [0; 16];
                all[..4].copy_from_slice(&address.octets());
                (all, 4)
            }
            IpAddr::V6(address) => (address.octets(), 16),
        }
    }

    /// Appends the length of the netmask and the address, as rows have them.
    pub(crate) fn write_stored(&self, out: &mut Vec<u8>) {
        let (bytes, length) = self.bytes();
        out.push(self.prefix);
        out.extend_from_slice(&bytes[..length]);
    }

    /// Reads the same; `None`: it is damaged.
    pub(crate) fn read_stored(bytes: &[u8], is_network: bool) -> Option<Self> {
        let (prefix, address) = bytes.split_first()?;
        let address = match address.len() {
            4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
            _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        };
        Some(Self { is_network, ..Self::new(address, *prefix)? })
    }

    /// Appends the binary form of the protocol.
    pub(crate) fn write_binary(&self, out: &mut Vec<u8>) {
        let (bytes, length) = self.bytes();
        let family = if self.address.is_ipv4() { FAMILY_V4 } else { FAMILY_V6 };
        out.extend_from_slice(&[family, self.prefix, u8::from(self.is_network), length as u8]);
        out.extend_from_slice(&bytes[..length]);
    }

    /// Reads the binary form of the protocol.
    pub(crate) fn read_binary(bytes: &[u8], is_network: bool) -> Result<Self> {
        let ty = if is_network { "cidr" } else { "inet" };
        let refused = |what: &str| {
            SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, format!("invalid {what} in external \"{ty}\" value"))
        };
        let [family, prefix, _, length, address @ ..] = bytes else { return Err(refused("length")) };
        let bits = match *family {
            FAMILY_V4 => BITS_V4,
            FAMILY_V6 => BITS_V6,
            _ => return Err(refused("address family")),
        };
        if *prefix > bits {
            return Err(refused("bits"));
        }
        if *length != bits / 8 || address.len() != usize::from(*length) {
            return Err(refused("length"));
        }
        let stored: Vec<u8> = std::iter::once(*prefix).chain(address.iter().copied()).collect();
        let inet = Self::read_stored(&stored, is_network).ok_or_else(|| refused("length"))?;
        if is_network && inet.number() & inet.host_bits() != 0 {
            let message = "invalid external \"cidr\" value";
            return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
                .detail("Value has bits set to right of mask."));
        }
        Ok(inet)
    }

    /// Reads a text.
    pub fn parse(text: &str, is_network: bool) -> Result<Self> {
        let ty = if is_network { "cidr" } else { "inet" };
        let inet = match text.contains(':') {
            true => parse_v6(text),
            false => parse_v4(text, is_network),
        };
        let inet = Self { is_network, ..inet.ok_or_else(|| invalid(ty, text))? };
        if is_network && inet.number() & inet.host_bits() != 0 {
            return Err(SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid cidr value: \"{text}\""),
            )
            .detail("Value has bits set to right of mask."));
        }
        Ok(inet)
    }

    /// Writes the text; the length of the netmask is left out of an `inet` that is one host.
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        match !self.is_network && self.prefix == self.bits() {
            true => self.write_host(out),
            false => self.write_whole(out),
        }
    }

    /// Writes the text with the length of the netmask.
    pub(crate) fn write_whole(&self, out: &mut impl Write) -> fmt::Result {
        self.write_host(out)?;
        write!(out, "/{}", self.prefix)
    }

    /// Writes the address alone.
    pub(crate) fn write_host(&self, out: &mut impl Write) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => write!(out, "{address}"),
            IpAddr::V6(address) => write_v6(&address, out),
        }
    }

    /// Writes a `cidr` without the bytes of IPv4 that are zero behind the netmask; the address of an `inet` is whole.
    pub(crate) fn write_abbreviated(&self, out: &mut impl Write) -> fmt::Result {
        match self.address {
            _ if !self.is_network => self.write(out),
            IpAddr::V4(address) => {
                let count = usize::from(self.prefix.div_ceil(8)).max(1);
                for (at, byte) in address.octets()[..count].iter().enumerate() {
                    write!(out, "{}{byte}", if at == 0 { "" } else { "." })?;
                }
                write!(out, "/{}", self.prefix)
            }
            IpAddr::V6(_) => self.write_whole(out),
        }
    }
}

/// Splits the length of the netmask off a text.
fn split_prefix(text: &str, bits: u8) -> Option<(&str, Option<u8>)> {
    let Some((address, prefix)) = text.split_once('/') else { return Some((text, None)) };
    if prefix.is_empty() || prefix.len() > 3 || !prefix.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let prefix: u16 = prefix.parse().ok()?;
    Some((address, Some(u8::try_from(prefix).ok().filter(|prefix| *prefix <= bits)?)))
}

/// Reads an address of IPv4. With a netmask it may have fewer than four parts; that of a network without one is the
/// netmask of its class.
fn parse_v4(text: &str, is_network: bool) -> Option<Inet> {
    let (address, prefix) = split_prefix(text, BITS_V4)?;
    let (mut bytes, mut count) = ([0; 4], 0);
    for part in address.split('.') {
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *bytes.get_mut(count)? = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        count += 1;
    }
    let given = 8 * count as u8;
    let prefix = match prefix {
        Some(prefix) => prefix,
        None if count == 4 => BITS_V4,
        None if !is_network => return None,
        None => {
            let of_class = match bytes[0] {
                240.. => 32,
                224.. => 8,
                192.. => 24,
                128.. => 16,
                _ => 8,
            };
            let prefix = given.max(of_class);
            if prefix == 8 && bytes[0] == 224 { 4 } else { prefix }
        }
    };
    if !is_network && prefix / 8 > count as u8 {
        return None;
    }
    Inet::new(IpAddr::from(bytes), prefix)
}

fn parse_v6(text: &str) -> Option<Inet> {
    let (address, prefix) = split_prefix(text, BITS_V6)?;
    Inet::new(IpAddr::V6(address.parse().ok()?), prefix.unwrap_or(BITS_V6))
}

/// Writes an address of IPv6 as PostgreSQL does: `::` stands for the first of the longest runs of zeros, and the last
/// two words may be those of IPv4.
fn write_v6(address: &Ipv6Addr, out: &mut impl Write) -> fmt::Result {
    let words = address.segments();
    let (mut start, mut length) = (8, 0);
    let mut at = 0;
    while at < 8 {
        let zeros = words[at..].iter().take_while(|word| **word == 0).count();
        if zeros > length && zeros > 1 {
            (start, length) = (at, zeros);
        }
        at += zeros.max(1);
    }
    let is_v4 = start == 0 && (length == 6 || length == 5 && words[5] == 0xffff);
    let end = if is_v4 { 6 } else { 8 };
    let mut at = 0;
    while at < end {
        if at == start {
            out.write_str("::")?;
            at += length;
            continue;
        }
        if at > 0 && at != start + length {
            out.write_char(':')?;
        }
        write!(out, "{:x}", words[at])?;
        at += 1;
    }
    if !is_v4 {
        return Ok(());
    }
    if length == 5 {
        out.write_char(':')?;
    }
    let [high_a, low_a] = words[6].to_be_bytes();
    let [high_b, low_b] = words[7].to_be_bytes();
    write!(out, "{high_a}.{low_a}.{high_b}.{low_b}")
}

/// Reads the address of a network interface: twelve digits, with a separator after every two, every four or every six,
/// or none.
pub(crate) fn parse_macaddr(text: &str) -> Result<[u8; 6]> {
    let trimmed = text.trim_matches(is_space);
    let (separator, group) = match trimmed.find([':', '-', '.']) {
        None => (None, 12),
        Some(at) => (trimmed[at..].chars().next(), at),
    };
    let parts: Vec<&str> = separator.map_or(vec![trimmed], |separator| trimmed.split(separator).collect());
    let is_hex = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits: String = match (separator, group) {
        // Of six parts each may have one digit.
        (Some(':' | '-'), ..=2) if parts.len() == 6 && parts.iter().all(|part| is_hex(part) && part.len() <= 2) => {
            parts.iter().map(|part| format!("{part:0>2}")).collect()
        }
        (Some('.'), 4) if parts.len() == 3 && parts.iter().all(|part| part.len() == 4) => parts.concat(),
        (Some('-'), 4) if parts.len() == 3 && parts.iter().all(|part| part.len() == 4) => parts.concat(),
        (Some(':' | '-'), 6) if parts.len() == 2 && parts.iter().all(|part| part.len() == 6) => parts.concat(),
        (None, _) => trimmed.to_owned(),
        _ => return Err(invalid("macaddr", text)),
    };
    if digits.len() != 12 || !is_hex(&&*digits) {
        return Err(invalid("macaddr", text));
    }
    let mut address = [0; 6];
    for (at, byte) in address.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).map_err(|_| invalid("macaddr", text))?;
    }
    Ok(address)
}

/// Reads a `macaddr8`: eight pairs of digits, or six, between which FF and FE are put; behind each pair there may be a
/// separator, always the same.
pub(crate) fn parse_macaddr8(text: &str) -> Result<[u8; 8]> {
    let mut rest = text.trim_start_matches(is_space).as_bytes();
    let (mut bytes, mut separator) = (Vec::new(), None);
    while let [high, low, behind @ ..] = rest {
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or_else(|| invalid("macaddr8", text));
        bytes.push((digit(*high)? << 4 | digit(*low)?) as u8);
        rest = behind;
        if let [next @ (b':' | b'-' | b'.'), behind @ ..] = rest {
            if *separator.get_or_insert(*next) != *next {
                return Err(invalid("macaddr8", text));
            }
            rest = behind;
        }
        if matches!(bytes.len(), 6 | 8) && rest.iter().all(|byte| is_space(*byte as char)) {
            rest = &[];
        }
    }
    match *bytes {
        [a, b, c, d, e, f] => Ok([a, b, c, 0xff, 0xfe, d, e, f]),
        [a, b, c, d, e, f, g, h] => Ok([a, b, c, d, e, f, g, h]),
        _ => Err(invalid("macaddr8", text)),
    }
}

/// Returns the `macaddr` that a `macaddr8` has been made from.
pub(crate) fn macaddr_of(address: [u8; 8]) -> Result<[u8; 6]> {
    match address {
        [a, b, c, 0xff, 0xfe, d, e, f] => Ok([a, b, c, d, e, f]),
        _ => {
            Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "macaddr8 data out of range to convert to macaddr")
                .hint(
                    "Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, for example \
             xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
                ))
        }
    }
}

/// Writes the address of a network interface.
pub(crate) fn write_macaddr(address: &[u8], out: &mut impl Write) -> fmt::Result {
    for (at, byte) in address.iter().enumerate() {
        write!(out, "{}{byte:02x}", if at == 0 { "" } else { ":" })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str, is_network: bool) -> String {
        let mut out = String::new();
        match Inet::parse(text, is_network) {
            Ok(inet) => inet.write(&mut out).unwrap(),
            Err(error) => out = error.report().message.clone(),
        }
        out
    }

    #[test]
    fn addresses_have_postgresqls_texts() {
        for (text, expected) in [
            ("10.0.0.1", "10.0.0.1"),
            ("10.0.0.1/32", "10.0.0.1"),
            ("10.0.0.1/8", "10.0.0.1/8"),
            ("10.1/16", "10.1.0.0/16"),
            ("::", "::"),
            ("::1", "::1"),
            ("::1.2.3.4", "::1.2.3.4"),
            ("::ffff:1.2.3.4/120", "::ffff:1.2.3.4/120"),
            ("2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
            ("1:0:0:0:0:0:0:0/64", "1::/64"),
            ("10.1", "invalid input syntax for type inet: \"10.1\""),
            ("1.2.3.256", "invalid input syntax for type inet: \"1.2.3.256\""),
            ("1.2.3.4/33", "invalid input syntax for type inet: \"1.2.3.4/33\""),
        ] {
            assert_eq!(round(text, false), expected, "{text}");
        }
        for (text, expected) in [
            ("10", "10.0.0.0/8"),
            ("192.168.1", "192.168.1.0/24"),
            ("128.1", "128.1.0.0/16"),
            ("224", "224.0.0.0/4"),
            ("10.0.0.1", "10.0.0.1/32"),
            ("10.0.0.1/8", "invalid cidr value: \"10.0.0.1/8\""),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(round(text, true), expected, "{text}");
        }
    }

    #[test]
    fn interfaces_have_many_forms() {
        for text in [
            "08:00:2b:01:02:03",
            "08-00-2b-01-02-03",
            "08002b:010203",
            "08002b-010203",
            "0800.2b01.0203",
            "0800-2b01-0203",
            "08002b010203",
            "8:0:2b:1:2:3",
        ] {
            assert_eq!(parse_macaddr(text).unwrap(), [8, 0, 0x2b, 1, 2, 3], "{text}");
        }
        assert!(parse_macaddr("08:00:2b:01:02").is_err());
        assert!(parse_macaddr("08:00:2b:01:02:0g").is_err());
    }
}
