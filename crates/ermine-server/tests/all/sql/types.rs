//! Types that statements create, over the protocol.

use super::{Directory, Serving};
use crate::raw::{Raw, bind, describe, execute, message, parse, sync};

#[test]
fn enumerations_are_parameters_and_results() {
    let directory = Directory::new("types");
    let serving = Serving::start(&directory.0, &[]);
    // The one session has begun before the other one creates the type.
    let (mut raw, mut other) = (Raw::connect(serving.address), Raw::connect(serving.address));
    other.query("CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (m mood); INSERT INTO t VALUES ('ok')");
    let oid = &raw.query("SELECT 'mood'::regtype::oid")[1];
    let oid: u32 = oid.rsplit("\\x05").next().and_then(|digits| digits.parse().ok()).expect("five digits");
    raw.send(&[parse("", "SELECT m FROM t WHERE m = $1"), describe('S', ""), bind("", "", &["ok"])]);
    raw.send(&[execute("", 0), sync()]);
    let parameters = format!("parameters [{oid}]");
    let row = "row \\x00\\x00\\x00\\x02ok";
    assert_eq!(raw.until_ready(), ["parsed", &parameters, "columns m", "bound", row, "SELECT 1", "ready Idle"]);
    // By number, in the binary format, with a label that is newer than the session's last statement.
    raw.query("SELECT 1 WHERE false");
    other.query("ALTER TYPE mood ADD VALUE 'new'");
    let by_number = |oid: u32| message(b'P', &[b"\0SELECT $1\0\0\x01", &oid.to_be_bytes()[..]].concat());
    let binary = message(b'B', b"\0\0\0\x01\0\x01\0\x01\0\0\0\x03new\0\x01\0\x01");
    raw.send(&[by_number(oid), binary, execute("", 0), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "bound", "row \\x00\\x00\\x00\\x03new", "SELECT 1", "ready Idle"]);
    raw.send(&[by_number(oid + 1), bind("", "", &["{new,sad}"]), execute("", 0), sync()]);
    assert_eq!(raw.until_ready()[2], "row \\x00\\x00\\x00\\t{new,sad}");
    raw.send(&[by_number(oid + 1000), sync()]);
    assert_eq!(raw.until_ready(), ["ERROR 42704", "ready Idle"]);
    raw.send(&[by_number(oid), bind("", "", &["none"]), sync()]);
    assert_eq!(raw.until_ready(), ["parsed", "ERROR 22P02", "ready Idle"]);
}

#[test]
fn the_char_in_quotes_is_one_byte() {
    let directory = Directory::new("internal-char");
    let serving = Serving::start(&directory.0, &[]);
    let mut raw = Raw::connect(serving.address);
    let binary = message(b'B', b"\0\0\0\0\0\0\0\x01\0\x01");
    raw.send(&[parse("", r#"SELECT 'r'::"char", ''::"char", 'é'::"char""#), binary, execute("", 0), sync()]);
    let row = "row \\x00\\x00\\x00\\x01r\\x00\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x01\\xc3";
    assert_eq!(raw.until_ready(), ["parsed", "bound", row, "SELECT 1", "ready Idle"]);
}
