//! Histories of values: anomalies under their names, both notations, malformed files.
//!
//! Method: small histories as Jepsen writes them; and random histories of a serial engine, written and read back.

use std::collections::BTreeMap;

use ermine_check::{
    AnomalyKind::{self, *},
    Builder, Digest, Level, Operation, Outcome, ReadVersion, Report, Stamp, Table, TransactionContext,
    elle::{self, Answer, Datum, ElleHistory, ElleTransaction, Model, Step},
};

/// One line each: type and value. All are called before any is answered.
fn judged(lines: &[(&str, &str)]) -> Report {
    let mut text = String::new();
    for (process, (_, value)) in lines.iter().enumerate() {
        text += &format!("{{:type :invoke, :f :txn, :process {process}, :value {value}}}\n");
    }
    for (process, (kind, value)) in lines.iter().enumerate() {
        text += &format!("{{:type :{kind}, :f :txn, :process {process}, :value {value}}}\n");
    }
    elle::judge(&elle::read(&text, None, &mut |_| ()).unwrap(), &mut |_| ())
}

#[track_caller]
fn finds(lines: &[(&str, &str)], kinds: &[AnomalyKind]) -> Report {
    let report = judged(lines);
    assert_eq!(report.kinds(), kinds, "{report}");
    report
}

#[test]
fn lists_of_a_serial_history_are_clean() {
    finds(
        &[
            ("ok", "[[:append 1 1] [:r 1 [1]]]"),
            ("ok", "[[:r 1 [1]] [:append 1 2] [:r 1 [1 2]] [:append 2 1]]"),
            ("fail", "[[:append 1 9]]"),
            ("info", "[[:append 2 2]]"),
            ("ok", "[[:r 1 [1 2]] [:r 2 [1 2]] [:r 3 nil]]"),
        ],
        &[],
    );
}

#[test]
fn anomalies_of_lists() {
    let reader = ("ok", "[[:r x [1 2]] [:r y [2 1]]]");
    let report =
        finds(&[("ok", "[[:append x 1] [:append y 1]]"), ("ok", "[[:append x 2] [:append y 2]]"), reader], &[G0]);
    assert!(!report.holds(Level::ReadCommitted));
    assert!(report.to_string().contains("T2 wrote key x after T1"), "{report}");
    finds(&[("fail", "[[:append x 1]]"), ("ok", "[[:r x [1]]]")], &[G1a]);
    finds(&[("fail", "[[:append x 1]]"), ("ok", "[[:append x 2]]"), ("ok", "[[:r x [1 2]]]")], &[G1a, DirtyUpdate]);
    finds(&[("ok", "[[:append x 1] [:append x 2]]"), ("ok", "[[:r x [1]]]")], &[G1b, GSingle]);
    finds(&[("ok", "[[:append x 1] [:r y [1]]]"), ("ok", "[[:append y 1] [:r x [1]]]")], &[G1c]);
    finds(
        &[("ok", "[[:append x 1] [:append y 1]]"), ("ok", "[[:r x [1]] [:r y []]]"), ("ok", "[[:r y [1]]]")],
        &[GSingle],
    );
    let skew = ["[[:r x []] [:append y 1]]", "[[:r y []] [:append x 1]]", "[[:r x [1]] [:r y [1]]]"];
    let report = finds(&skew.map(|value| ("ok", value)), &[G2Item]);
    assert!(report.holds(Level::SnapshotIsolation) && !report.holds(Level::Serializable));
    finds(&[("ok", "[[:append x 1] [:r x []]]")], &[Internal]);
    finds(&[("ok", "[[:append x 1] [:append x 2]]"), ("ok", "[[:r x [1 2]] [:append x 3] [:r x [1 2]]]")], &[Internal]);
    finds(&[("ok", "[[:r x [7]]]")], &[CorruptRead]);
    finds(&[("ok", "[[:append x 1]]"), ("ok", "[[:r x [1 1]]]")], &[Duplicate]);
    let two = [("ok", "[[:append x 1]]"), ("ok", "[[:append x 2]]")];
    finds(&[two[0], two[1], ("ok", "[[:r x [1 2]]]"), ("ok", "[[:r x [2 1]]]")], &[IncompatibleOrder]);
}

#[test]
fn appends_that_nobody_saw_come_last() {
    // T1 and T2 each read the whole list and append: one of the appends comes after the other, neither was seen.
    finds(&[("ok", "[[:r x []] [:append x 1]]"), ("ok", "[[:r x []] [:append x 2]]")], &[G2Item]);
    finds(&[("ok", "[[:r x []] [:append x 1]]"), ("info", "[[:r x nil] [:append x 2]]")], &[]);
}

#[test]
fn anomalies_of_registers() {
    finds(&[("ok", "[[:w x 1]]"), ("ok", "[[:r x 1] [:w x 2]]"), ("ok", "[[:r x 2] [:r y nil]]")], &[]);
    finds(&[("fail", "[[:w x 1]]"), ("ok", "[[:r x 1]]")], &[G1a]);
    finds(&[("ok", "[[:w x 1] [:w x 2]]"), ("ok", "[[:r x 1]]")], &[G1b]);
    finds(&[("ok", "[[:w x 1] [:r y 1]]"), ("ok", "[[:w y 1] [:r x 1]]")], &[G1c]);
    finds(&[("ok", "[[:w x 1] [:w y 1]]"), ("ok", "[[:r x 1] [:r y nil]]")], &[GSingle]);
    finds(&[("ok", "[[:r x nil] [:w y 1]]"), ("ok", "[[:r y nil] [:w x 1]]")], &[G2Item]);
    finds(&[("ok", "[[:w x 1] [:r x 2]]")], &[Internal]);
    finds(&[("ok", "[[:r x 7]]")], &[CorruptRead]);
    finds(&[("ok", "[[:w x 1]]"), ("ok", "[[:w x 1]]")], &[Duplicate]);
    let update = |value| format!("[[:r x 1] [:w x {value}]]");
    let report = finds(&[("ok", "[[:w x 1]]"), ("ok", &update(2)), ("ok", &update(3))], &[LostUpdate, G2Item]);
    assert!(report.holds(Level::ReadCommitted) && !report.holds(Level::SnapshotIsolation));
    // Many of them: every transaction precedes every other one, over auxiliary nodes.
    let updates: Vec<_> = (2..9).map(update).collect();
    let lines: Vec<_> =
        [("ok", "[[:w x 1]]")].into_iter().chain(updates.iter().map(|value| ("ok", &**value))).collect();
    assert_eq!(finds(&lines, &[LostUpdate, G2Item]).counts.entangled, 7);
}

#[test]
fn indeterminate_writes_count_once_somebody_saw_them() {
    let reader = ("ok", "[[:r x 1] [:r y nil]]");
    finds(&[("info", "[[:w x 1] [:w y 1]]"), reader], &[GSingle]);
    finds(&[("info", "[[:w x 1] [:w y 1]]"), ("ok", "[[:r x nil] [:r y nil]]")], &[]);
}

#[test]
fn reads_that_differ_are_forbidden_from_snapshot_isolation_on() {
    // The writer is between the two reads: that is read committed.
    for (writer, reader) in [
        ("[[:append x 1]]", "[[:r x []] [:r x [1]]]"),
        ("[[:append x 1]]", "[[:r x []] [:append x 2] [:r x [1 2]]]"),
        ("[[:w x 1]]", "[[:r x nil] [:r x 1]]"),
    ] {
        let report = finds(&[("ok", writer), ("ok", reader)], &[NonRepeatableRead, GSingle]);
        assert!(report.holds(Level::ReadCommitted) && !report.holds(Level::SnapshotIsolation), "{report}");
    }
    // The value of the second read counts as that of the first.
    finds(&[("fail", "[[:append x 1]]"), ("ok", "[[:r x []] [:r x [1]]]")], &[G1a, NonRepeatableRead]);
    finds(&[("fail", "[[:w x 1]]"), ("ok", "[[:r x nil] [:r x 1]]")], &[G1a, NonRepeatableRead]);
}

/// One line each: process, type and value.
fn judged_in_order(lines: &[(u32, &str, &str)]) -> Report {
    let text: String = lines
        .iter()
        .map(|(process, kind, value)| format!("{{:type :{kind}, :process {process}, :value {value}}}\n"))
        .collect();
    elle::judge(&elle::read(&text, None, &mut |_| ()).unwrap(), &mut |_| ())
}

#[test]
fn calls_and_answers_are_real_time_order() {
    let write = [(0, "invoke", "[[:append x 1]]"), (0, "ok", "[[:append x 1]]")];
    let read = |process| [(process, "invoke", "[[:r x nil]]"), (process, "ok", "[[:r x nil]]")];
    let after = |process| judged_in_order(&[write, read(process)].concat());
    let (report, same) = (after(1), after(0));
    assert_eq!((report.kinds(), same.kinds()), (vec![GSingleRealtime], vec![GSingleProcess]), "{report}{same}");
    assert!(report.holds(Level::StrongSessionSerializable) && !report.holds(Level::StrictSerializable), "{report}");
    assert!(same.holds(Level::Serializable) && !same.holds(Level::StrongSessionSerializable), "{same}");
    assert!(report.to_string().contains("T1 was answered before T2 was called"), "{report}");
    // The read was called before the append was answered.
    let [called, answered] = read(1);
    assert_eq!(judged_in_order(&[called, write[0], write[1], answered]).kinds(), []);
    // A transaction that was not answered, or with :info, never ended; one that failed is in no order.
    for end in [&[][..], &[(0, "info", "[[:append x 1]]")], &[(0, "fail", "[[:append x 1]]")]] {
        assert_eq!(judged_in_order(&[&[write[0]], end, &read(1)].concat()).kinds(), []);
    }
    // An indeterminate transaction, too, began when it was called.
    let seen = [(0, "invoke", "[[:append x 1]]"), (0, "info", "[[:append x 1]]")];
    let early = [(1, "invoke", "[[:r x nil]]"), (1, "ok", "[[:r x [1]]]")];
    assert_eq!(judged_in_order(&[early, seen].concat()).kinds(), [G1cRealtime]);
}

#[test]
fn the_order_of_a_process_and_anti_dependencies_apart() {
    // A process does not see an append that another transaction saw, and that transaction did not see the process's
    // earlier append.
    let lines = [
        (0, "ok", "[[:r x nil] [:r z [1]]]"),
        (1, "ok", "[[:append x 1]]"),
        (1, "ok", "[[:r z nil]]"),
        (2, "ok", "[[:append z 1]]"),
    ];
    let (mut called, mut text) = (Vec::new(), Vec::new());
    for &(process, kind, value) in &lines {
        // All but those of process 1 run in parallel.
        match process {
            1 => text.extend([(process, "invoke", value), (process, kind, value)]),
            _ => called.push((process, "invoke", value)),
        }
    }
    let ends: Vec<_> = lines.iter().copied().filter(|(process, ..)| *process != 1).collect();
    let report = judged_in_order(&[called, text, ends].concat());
    assert_eq!(report.kinds(), [GNonadjacentItemProcess], "{report}");
}

/// Reads histories in the forms of Elle's repository and of elle-cli: `tests/elle/`.
#[test]
fn files_of_every_form_are_read() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/elle");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut judged = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let report = elle::judge(&elle::read(&text, None, &mut |_| ()).unwrap(), &mut |_| ());
        let kinds: Vec<_> = report.kinds().iter().map(|kind| kind.name()).collect();
        judged.push((file.file_name().unwrap().to_str().unwrap(), kinds.join(", ")));
    }
    let expected = [
        ("comments-and-blanks.edn", "G-nonadjacent-item"),
        ("no-process.edn", "G-single"),
        ("no-process.json", "G0"),
        ("records.edn", "G-single-realtime"),
        ("registers.edn", "G-single-process"),
        ("registers.json", "corrupt read"),
        ("vector.edn", "G2-item"),
    ];
    assert_eq!(judged, expected.map(|(file, kinds)| (file, kinds.to_owned())));
}

#[test]
fn json_is_read_too() {
    let lines = r#"{"type": "invoke", "process": 0, "f": "txn", "value": [["append", 1, 2], ["r", 1, null]]}
{"type": "ok", "process": 0, "f": "txn", "value": [["append", 1, 2], ["r", 1, [2]]], "index": 1}
{"type": "info", "process": "nemesis", "f": "start", "value": null}
"#;
    let array = format!("[{}]", lines.trim_end().replace("}\n", "},\n"));
    for text in [lines, &array] {
        let history = elle::read(text, None, &mut |_| ()).unwrap();
        assert_eq!((history.model, history.transactions.len()), (Model::ListAppend, 1));
        assert_eq!(elle::judge(&history, &mut |_| ()).kinds(), []);
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let op = "{:type :ok, :process 0, :value [[:append 1 1]]}\n";
    for (text, error) in [
        ("", "there are no operations in it"),
        ("7", "line 1: 7 is no operation: a map is expected"),
        ("{:process 1}", "line 1: an operation has no :type"),
        ("{:type :done, :process 1}", "line 1: \"done\" is none of invoke, ok, fail, info"),
        ("{:type :invoke, :process 1}", "line 1: a call has no :value"),
        ("{:type :ok, :process 1, :value 7}", "line 1: 7 is no transaction: a sequence is expected"),
        ("{:type :ok, :process 1, :value [[:r 1]]}", "line 1: [:r 1] is no step: [what key value] is expected"),
        ("{:type :ok, :process 1, :value [[:cas 1 2]]}", "line 1: \"cas\" is none of append, w, r"),
        (&format!("{op}{{:type :ok, :process 0, :value [[:w 1 1]]}}"), "line 2: \"w\" in a history of list-append"),
        (&format!("{op}{{:type :ok, :process 0, :value [[:r 1 1]]}}"), "line 2: 1 is no list"),
        (&format!("{op}{{:type :ok"), "line 2: what began here is not closed by '}'"),
        (
            "{:type :invoke, :process 1, :value []}\n{:type :invoke, :process 1, :value []}",
            "line 2: process 1 calls before its last call was answered",
        ),
        ("{\"type\": \"ok\"", "line 1: EOF while parsing an object at line 1 column 13"),
        ("[{\"type\": \"ok\"}]", "element 1: what is ok has a :value"),
    ] {
        assert_eq!(elle::read(text, None, &mut |_| ()).unwrap_err().to_string(), error, "{text}");
    }
}

/// A serial history: clean under any model.
fn random(model: Model, rng: &mut fastrand::Rng) -> ElleHistory {
    let mut history = ElleHistory::new(model);
    let mut state: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    let mut written = 0;
    for _ in 0..rng.usize(1..60) {
        let mut steps = Vec::new();
        let mut after = state.clone();
        for _ in 0..rng.usize(1..6) {
            let key_name = rng.i64(0..4);
            let key = history.number(Datum::Int(key_name));
            let values = after.entry(key_name).or_default();
            if rng.bool() {
                written += 1;
                let value = history.number(Datum::Int(written));
                values.push(value);
                steps.push(Step::Write { key, value });
            } else if model == Model::ListAppend {
                steps.push(Step::ReadList { key, list: Some(values.clone()) });
            } else {
                steps.push(Step::ReadValue { key, value: values.last().copied() });
            }
        }
        let answer = [Answer::Ok, Answer::Ok, Answer::Ok, Answer::Fail, Answer::Info][rng.usize(..5)];
        if answer == Answer::Ok || answer == Answer::Info && rng.bool() {
            state = after;
        }
        history.transactions.push(ElleTransaction { answer, steps, line: 0, context: TransactionContext::default() });
    }
    history
}

#[test]
fn written_and_read_back_it_is_the_same() {
    let seed = fastrand::u64(..1 << 40);
    eprintln!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for round in 0..300 {
        let model = [Model::ListAppend, Model::Register][round % 2];
        let history = random(model, &mut rng);
        assert_eq!(elle::judge(&history, &mut |_| ()).kinds(), [], "round {round}");
        let (mut edn, mut json) = (Vec::new(), Vec::new());
        elle::write_edn(&history, &mut edn).unwrap();
        elle::write_json(&history, &mut json).unwrap();
        for text in [edn, json] {
            let text = String::from_utf8(text).unwrap();
            let again = elle::read(&text, Some(model), &mut |_| ()).unwrap();
            let mut second = Vec::new();
            assert_eq!(again.transactions.len(), history.transactions.len());
            if text.contains(":type") {
                elle::write_edn(&again, &mut second).unwrap();
            } else {
                elle::write_json(&again, &mut second).unwrap();
            }
            // Keys of JSON histories are not converted to text anywhere.
            assert_eq!(String::from_utf8(second).unwrap(), text);
            assert_eq!(elle::judge(&again, &mut |_| ()).kinds(), []);
        }
    }
}

#[test]
fn what_is_exported_shows_the_same_anomalies() {
    let read = |key, at| Operation::Read {
        table: Table(0),
        key,
        version: ReadVersion::At(Stamp(at)),
        value: Some(Digest(at)),
    };
    let write = |key, value| Operation::Write { table: Table(0), key, value: Some(Digest(value)) };
    let judged = |lines: &[(u64, Vec<Operation<'_>>)]| {
        let mut history = Builder::new();
        for (stamp, operations) in lines {
            history.push(Stamp(5), Outcome::Committed(Stamp(*stamp)), operations.iter().copied());
        }
        history.push(Stamp(5), Outcome::Aborted, [write(b"a", 66)]);
        let (exported, _) = elle::export(&history.finish_named([(Table(0), "rows")]));
        elle::judge(&exported, &mut |_| ()).kinds()
    };
    let skew = [(10, vec![read(b"a", 1), write(b"b", 10)]), (11, vec![read(b"b", 1), write(b"a", 11)])];
    assert_eq!(judged(&skew), [G2Item]);
    let serial = [(10, vec![read(b"a", 1), write(b"b", 10)]), (11, vec![read(b"b", 10), write(b"a", 11)])];
    assert_eq!(judged(&serial), []);
    let half = [(10, vec![write(b"a", 10), write(b"b", 10)]), (11, vec![read(b"a", 10), read(b"b", 1)])];
    assert_eq!(judged(&half), [GSingle]);
}
