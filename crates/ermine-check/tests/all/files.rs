//! History files: a written history is read back, and a malformed line is refused with its number.

use ermine_check::{
    Builder, Digest, History, Index, Moment, Operation, Order, Outcome, Process, ReadVersion, Stamp, Table,
    TransactionContext,
    file::{read, write},
};

fn parsed(text: &str) -> Result<History, String> {
    read(&mut text.as_bytes(), &mut |_| ()).map_err(|error| error.to_string())
}

fn lines(history: &History) -> Vec<String> {
    let transactions = history.transactions();
    let line = |it: ermine_check::Transaction<'_>| {
        format!("{} {:?} {:?} {:?}", it.begin(), it.outcome(), it.context(), it.operations().collect::<Vec<_>>())
    };
    transactions.map(line).collect()
}

#[test]
fn what_is_written_is_read_back() {
    let (table, value) = (Table(3), Some(Digest(u64::MAX)));
    let by_name = Index { table, ordinal: 2 };
    let mut builder = Builder::new();
    builder.push(
        Stamp(7),
        Outcome::Committed(Stamp(1 << 62)),
        [
            Operation::Read { table, key: b"\0\xff", version: ReadVersion::At(Stamp(5)), value },
            Operation::Read { table, key: b"", version: ReadVersion::Missing(Stamp(6)), value: None },
            Operation::Write { table, key: b"k", value },
            Operation::Entry { index: by_name, entry: b"n\0k", present: true },
            Operation::Read { table, key: b"k", version: ReadVersion::Own, value },
            Operation::Range { index: by_name, lower: b"a", upper: None, at: Stamp(7) },
            Operation::Range { index: Index::primary(table), lower: b"", upper: Some(b"z"), at: Stamp(7) },
        ],
    );
    builder.push(Stamp(8), Outcome::Aborted, [Operation::Write { table, key: b"k", value: None }]);
    for order in [Order::None, Order::Process, Order::Realtime] {
        let (began, ended) = (Some(Moment(3)), Some(Moment(4)));
        let context =
            TransactionContext { process: Some(Process(7)), began, ended, order, snapshot: order == Order::None };
        let write = Operation::Write { table, key: b"k", value: None };
        builder.push_with(context, Stamp(9), Outcome::Committed(Stamp(10 + order as u64)), [write]);
    }
    let history = builder.finish_named([(table, "people \"quoted\"")]);
    let mut text = Vec::new();
    write(&history, &mut text).unwrap();
    let again = parsed(std::str::from_utf8(&text).unwrap()).unwrap();
    assert_eq!(lines(&again), lines(&history));
    assert_eq!(again.table_name(table), Some("people \"quoted\""));
}

const HEADER: &str = "{\"format\": \"ermine-history\", \"version\": 1}\n";

#[test]
fn a_header_is_enough() {
    assert!(parsed(HEADER).unwrap().is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    for (text, error) in [
        ("", "the file is empty"),
        ("\n\nno JSON", "line 3: expected ident"),
        ("{\"format\": \"elle\", \"version\": 1}", "line 1: the format is \"elle\", not \"ermine-history\""),
        (
            "{\"format\": \"ermine-history\", \"version\": 9}",
            "line 1: version 9 of the format; this program knows versions 1 to 2",
        ),
        ("{\"format\": \"ermine-history\", \"version\": 1, \"sample\": 0}", "line 1: one row in 0 cannot be recorded"),
    ] {
        let refused = parsed(text).unwrap_err();
        assert!(refused.starts_with(error), "{refused}");
    }
    for (line, error) in [
        ("{}", "line 3: missing field `begin`"),
        ("{\"begin\": 5, \"ops\": [{\"op\": \"jump\"}]}", "line 3: unknown variant `jump`"),
        ("{\"begin\": 5, \"ops\": [{\"op\": \"write\", \"table\": 1, \"key\": \"abc\"}]}", "line 3: \"abc\" is no key"),
        ("{\"begin\": 5, \"ops\": [{\"op\": \"write\", \"table\": 1, \"key\": \"é\"}]}", "line 3: \"é\" is no key"),
        (
            "{\"begin\": 5, \"ops\": [{\"op\": \"write\", \"table\": 1, \"key\": \"ab\", \"value\": \"xyz\"}]}",
            "line 3: \"xyz\" is no digest",
        ),
        (
            "{\"begin\": 5, \"began\": 2, \"ended\": 1, \"ops\": []}",
            "line 3: it ended at moment 1, before it began at 2",
        ),
        ("{\"begin\": 5, \"commit\": -1, \"ops\": []}", "line 3: invalid value: integer `-1`"),
        ("{\"begin\": 18446744073709551615, \"ops\": []}", "line 3: 18446744073709551615 is no stamp"),
        (
            "{\"begin\": 5, \"commit\": 4, \"ops\": [{\"op\": \"write\", \"table\": 1, \"key\": \"ab\"}]}",
            "line 3: it commits at 4, before it begins at 5",
        ),
        (
            "{\"begin\": 5, \"ops\": [{\"op\": \"entry\", \"table\": 1, \"index\": 1, \"entry\": \"ab\", \"present\": \
             true}]}",
            "line 3: entry ab does not end with the key of the write before it",
        ),
        ("{\"begin\": 5, \"ops\": [", "line 3: EOF while parsing"),
    ] {
        let refused = parsed(&format!("{HEADER}\n{line}\n")).unwrap_err();
        assert!(refused.starts_with(error), "{refused}");
    }
}

#[test]
fn random_damage_never_panics() {
    let seed = fastrand::u64(..1 << 40);
    eprintln!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let sound = format!(
        "{HEADER}{}\n{}\n",
        r#"{"begin":5,"commit":9,"ops":[{"op":"read","table":0,"key":"61","version":{"at":1},"value":"a"},{"op":"write","table":0,"key":"61","value":"b"},{"op":"entry","table":0,"index":1,"entry":"6261","present":true}]}"#,
        r#"{"begin":5,"commit":8,"ops":[{"op":"read","table":0,"key":"61","version":"own"},{"op":"range","table":0,"index":1,"lower":"","upper":"ff","at":7},{"op":"write","table":0,"key":"61"}]}"#
    );
    assert!(parsed(&sound).is_ok());
    for _ in 0..20_000 {
        let mut bytes = sound.clone().into_bytes();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(HEADER.len()..bytes.len());
            bytes[at] = *rng.choice(b"0123456789abf\"{}[],:-".iter()).unwrap();
        }
        if let Ok(history) = read(&mut &bytes[..], &mut |_| ()) {
            let _ = ermine_check::judge(&history, &mut |_| ()).to_string();
        }
        let _ = std::str::from_utf8(&bytes).map(|text| ermine_check::elle::read(text, None, &mut |_| ()).map(drop));
    }
}
