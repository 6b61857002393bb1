//! Bytes of clients, right and wrong, through the decoder alone, more of them than a socket takes. `ERMINE_TEST_SEED=n`
//! decodes those of a failure again, `ERMINE_TEST_ROUNDS=n` runs n rounds.

use super::{
    decoder::check,
    raw::{bind, execute, message, parse, query, startup, sync},
};

/// Neighbouring seeds begin with neighbouring numbers; multiplied by this, they do not.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Returns a `Bind` of values that have the forms of types.
fn values(random: &mut fastrand::Rng) -> Vec<u8> {
    let forms: [&[u8]; 8] = [
        // An array of two integers, one of them NULL; a numeric; a jsonb; an interval.
        b"\0\0\0\x01\0\0\0\x01\0\0\0\x17\0\0\0\x02\0\0\0\x01\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff",
        b"\0\x02\0\x01\x40\0\0\x03\0\x0c\x0d\x80",
        b"\x01{\"a\": [1, null, \"x\"]}",
        b"\0\0\0\0\0\0\x03\xe8\0\0\0\x01\0\0\0\x02",
        b"{1,NULL,\"a b\"}",
        b"2026-02-28 12:30:00.5+02",
        b"1 year 2 mons -3 days 04:05:06",
        b"\\x00ff",
    ];
    let form = forms[random.usize(..forms.len())];
    let mut body: Vec<u8> = [b"p\0s\0\0\x01\0".as_slice(), &[random.u8(..2)], b"\0\x01"].concat();
    body.extend((form.len() as u32).to_be_bytes());
    body.extend(form);
    body.extend(b"\0\0");
    message(b'B', &body)
}

#[test]
fn random_messages_are_decoded_or_refused() {
    let rounds =
        if variable("ERMINE_TEST_SEED").is_some() { 1 } else { variable("ERMINE_TEST_ROUNDS").unwrap_or(30_000) };
    let first = variable("ERMINE_TEST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    for seed in first..first + rounds {
        println!("ERMINE_TEST_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(SPREAD));
        let mut bytes = Vec::new();
        for _ in 0..random.usize(1..4) {
            bytes.extend(match random.u8(..8) {
                0 => startup(0, &[("user", "eva"), ("options", "-c a=b")]),
                1 => query("SELECT 1"),
                2 => parse("s", "SELECT $1"),
                3 => bind("p", "s", &["7", ""]),
                4 => [execute("p", 7), sync()].concat(),
                5 => (0..random.usize(..20)).map(|_| random.u8(..)).collect(),
                _ => values(&mut random),
            });
        }
        for _ in 0..random.usize(..5) {
            if bytes.is_empty() {
                break;
            }
            let at = random.usize(..bytes.len());
            match random.u8(..4) {
                0 => bytes.truncate(at),
                1 => bytes[at] = random.u8(..),
                2 => bytes[at] ^= 1 << random.u32(..8),
                _ => bytes.insert(at, random.u8(..)),
            }
        }
        check(&bytes);
    }
}
