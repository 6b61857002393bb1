//! Every anomaly is found under its name, and a history that differs from it by one step is clean.
//!
//! Method: histories of two to four transactions, written down by hand, each beside a variation that is clean.

use ermine_check::{
    AnomalyKind::{self, *},
    Builder, Digest, Index, Level, Moment, Operation, Order, Outcome, Process, ReadVersion, Report, Stamp, Table,
    TransactionContext, judge,
};

const T: Table = Table(0);
const PRIMARY: Index = Index { table: T, ordinal: 0 };
const BY_GROUP: Index = Index { table: T, ordinal: 1 };

fn read(key: &str, at: u64, value: u64) -> Operation<'_> {
    let (version, value) = (ReadVersion::At(Stamp(at)), Some(Digest(value)));
    Operation::Read { table: T, key: key.as_bytes(), version, value }
}

fn read_nothing(key: &str, at: u64) -> Operation<'_> {
    Operation::Read { table: T, key: key.as_bytes(), version: ReadVersion::At(Stamp(at)), value: None }
}

fn miss(key: &str, at: u64) -> Operation<'_> {
    Operation::Read { table: T, key: key.as_bytes(), version: ReadVersion::Missing(Stamp(at)), value: None }
}

fn read_own(key: &str, value: u64) -> Operation<'_> {
    Operation::Read { table: T, key: key.as_bytes(), version: ReadVersion::Own, value: Some(Digest(value)) }
}

fn write(key: &str, value: u64) -> Operation<'_> {
    Operation::Write { table: T, key: key.as_bytes(), value: Some(Digest(value)) }
}

fn delete(key: &str) -> Operation<'_> {
    Operation::Write { table: T, key: key.as_bytes(), value: None }
}

fn range<'a>(index: Index, lower: &'a str, upper: &'a str, at: u64) -> Operation<'a> {
    Operation::Range { index, lower: lower.as_bytes(), upper: Some(upper.as_bytes()), at: Stamp(at) }
}

fn entry(entry: &str, present: bool) -> Operation<'_> {
    Operation::Entry { index: BY_GROUP, entry: entry.as_bytes(), present }
}

/// Begin, commit stamp (0: aborted), operations.
type Line<'a> = (u64, u64, Vec<Operation<'a>>);

fn judged(lines: &[Line<'_>]) -> Report {
    let mut history = Builder::new();
    for (begin, stamp, operations) in lines {
        let outcome = if *stamp == 0 { Outcome::Aborted } else { Outcome::Committed(Stamp(*stamp)) };
        history.push(Stamp(*begin), outcome, operations.iter().copied());
    }
    let report = judge(&history.finish_named([(T, "rows")]), &mut |_| ());
    assert!(!report.to_string().contains("not found again"), "{report}");
    report
}

#[track_caller]
fn finds(lines: &[Line<'_>], kinds: &[AnomalyKind]) -> Report {
    let report = judged(lines);
    assert_eq!(report.kinds(), kinds, "{report}");
    report
}

#[track_caller]
fn clean(lines: &[Line<'_>]) {
    let report = finds(lines, &[]);
    assert!(report.holds(Level::Serializable));
}

/// Read committed, snapshot isolation, serializable.
fn holds(report: &Report) -> [bool; 3] {
    [Level::ReadCommitted, Level::SnapshotIsolation, Level::Serializable].map(|level| report.holds(level))
}

#[test]
fn one_after_the_other_is_clean() {
    clean(&[
        (5, 10, vec![write("a", 1), write("b", 1)]),
        (11, 20, vec![read("a", 10, 1), write("a", 2), read_own("a", 2)]),
        (21, 30, vec![read("a", 20, 2), delete("b")]),
        (31, 31, vec![read_nothing("b", 30), read("a", 20, 2)]),
        (32, 40, vec![write("b", 3)]),
        (41, 0, vec![read("b", 40, 3), write("b", 4)]),
    ]);
}

#[test]
fn aborted_read() {
    let report =
        finds(&[(5, 0, vec![write("a", 66)]), (5, 10, vec![write("a", 1)]), (11, 20, vec![read("a", 10, 66)])], &[G1a]);
    assert_eq!(holds(&report), [false; 3]);
    assert_eq!(report.anomaly(G1a).unwrap().transactions[1].outcome, "begun at 5, aborted");
}

#[test]
fn intermediate_read() {
    let writer = || (5, 10, vec![write("a", 1), write("a", 2)]);
    finds(&[writer(), (11, 20, vec![read("a", 10, 1)])], &[G1b]);
    clean(&[writer(), (11, 20, vec![read("a", 10, 2)])]);
}

#[test]
fn circular_information_flow() {
    let other = |begin| (begin, 11, vec![write("b", 2), read("a", 10, 1)]);
    let report = finds(&[(5, 10, vec![write("a", 1), read("b", 11, 2)]), other(5)], &[G1c]);
    assert_eq!(holds(&report), [false; 3]);
    clean(&[(5, 10, vec![write("a", 1)]), other(5)]);
}

#[test]
fn read_skew() {
    let writer = || (5, 10, vec![write("a", 2), write("b", 2)]);
    let report = finds(&[writer(), (5, 11, vec![read("a", 1, 1), read("b", 10, 2)])], &[GSingle]);
    assert_eq!(holds(&report), [true, false, false]);
    assert!(report.anomaly(GSingle).unwrap().note.starts_with("read skew"));
    clean(&[writer(), (5, 11, vec![read("a", 1, 1), read("b", 1, 1)])]);
    clean(&[writer(), (5, 11, vec![read("a", 10, 2), read("b", 10, 2)])]);
}

#[test]
fn lost_update() {
    let first = || (5, 10, vec![read("a", 1, 1), write("a", 2)]);
    let report = finds(&[first(), (5, 11, vec![read("a", 1, 1), write("a", 3)])], &[LostUpdate, GSingle]);
    assert_eq!(holds(&report), [true, false, false]);
    assert_eq!(report.anomaly(GSingle).unwrap().note, "lost update");
    clean(&[first(), (5, 11, vec![read("a", 10, 2), write("a", 3)])]);
}

#[test]
fn write_skew() {
    let first = || (5, 10, vec![read("a", 1, 1), read("b", 1, 1), write("a", 2)]);
    let report = finds(&[first(), (5, 11, vec![read("a", 1, 1), read("b", 1, 1), write("b", 2)])], &[G2Item]);
    assert_eq!(holds(&report), [true, true, false]);
    assert!(report.anomaly(G2Item).unwrap().note.starts_with("write skew"));
    clean(&[first(), (11, 12, vec![read("a", 10, 2), read("b", 1, 1), write("b", 2)])]);
}

#[test]
fn write_skew_by_misses() {
    finds(&[(5, 10, vec![miss("a", 5), write("b", 2)]), (5, 11, vec![miss("b", 5), write("a", 2)])], &[G2Item]);
    clean(&[(5, 10, vec![miss("a", 5), write("b", 2)]), (11, 12, vec![read("b", 10, 2), write("a", 2)])]);
}

#[test]
fn phantoms_through_the_primary_index() {
    let first = || (5, 10, vec![range(PRIMARY, "a", "c", 5), write("x", 1)]);
    let report = finds(&[first(), (5, 11, vec![range(PRIMARY, "x", "z", 5), write("b", 1)])], &[G2]);
    assert_eq!(holds(&report), [true, true, false]);
    // The insert is outside of the range, or its row was seen.
    clean(&[first(), (5, 11, vec![range(PRIMARY, "x", "z", 5), write("d", 1)])]);
    clean(&[first(), (5, 11, vec![range(PRIMARY, "y", "z", 5), write("b", 1)])]);
    clean(&[first(), (11, 12, vec![read("x", 10, 1), range(PRIMARY, "x", "z", 11), write("b", 1)])]);
}

#[test]
fn phantoms_through_a_secondary_index() {
    let first = || (5, 10, vec![range(BY_GROUP, "g1", "g2", 5), write("x", 1), entry("g3x", true)]);
    let second = |group: &'static str| (5, 11, vec![range(BY_GROUP, "g3", "g4", 5), write("b", 1), entry(group, true)]);
    finds(&[first(), second("g1b")], &[G2]);
    clean(&[first(), second("g2b")]);
}

#[test]
fn an_update_moves_a_row_into_a_range() {
    // The row exists all the time, but at the time of the scan its entry was in the other group.
    let mover = || (5, 11, vec![read("x", 1, 1), write("x", 2), entry("g1x", false), entry("g2x", true)]);
    let looker = |at| (5, 10, vec![range(BY_GROUP, "g2", "g3", at), write("y", 1)]);
    finds(&[looker(5), mover(), (12, 13, vec![read("x", 11, 2), miss("y", 5)])], &[G2]);
    clean(&[looker(5), mover(), (12, 13, vec![read("x", 11, 2), read("y", 10, 1)])]);
}

#[test]
fn deaths_precede_who_no_longer_sees_them() {
    // T2 comes after T1, whose deletion it has noticed only by not seeing the row, and before T1, which read b after
    // T2's write.
    let deleter = |seen| (5, 10, vec![delete("a"), seen]);
    let looker = |at| (9, 12, vec![range(PRIMARY, "a", "b", at), write("b", 2)]);
    finds(&[deleter(read("b", 12, 2)), looker(11)], &[G1c]);
    clean(&[deleter(read("b", 1, 1)), looker(11)]);
    // A range scanned before the deletion must have shown the row; as it did not, it saw the state before the row.
    let report = finds(&[deleter(read("b", 1, 1)), looker(9)], &[G2, MissedRow]);
    assert!(!report.holds(Level::Serializable));
}

#[test]
fn read_only_anomaly() {
    // Fekete, O'Neil and O'Neil 2004: a deposit, a withdrawal with a fee that did not see it, and a report in between.
    let deposit = || (5, 10, vec![read("savings", 1, 1), write("savings", 2)]);
    let withdrawal = || (5, 12, vec![read("savings", 1, 1), read("checking", 1, 1), write("checking", 2)]);
    let report =
        finds(&[deposit(), withdrawal(), (11, 10, vec![read("savings", 10, 2), read("checking", 1, 1)])], &[G2Item]);
    assert!(report.anomaly(G2Item).unwrap().note.starts_with("read-only anomaly"), "{report}");
    clean(&[deposit(), withdrawal(), (5, 4, vec![read("savings", 1, 1), read("checking", 1, 1)])]);
    clean(&[deposit(), withdrawal()]);
}

#[test]
fn cycles_without_adjacent_anti_dependencies() {
    // A long fork: two writers, and two readers that see them in different orders. No two of its rw edges are adjacent.
    let writer = |key: &'static str, stamp| (5, stamp, vec![write(key, 2)]);
    let readers =
        [(11, 20, vec![read("a", 10, 2), read("b", 1, 1)]), (11, 21, vec![read("a", 1, 1), read("b", 11, 2)])];
    let [first, second] = &readers;
    let report = finds(&[writer("a", 10), writer("b", 11), first.clone(), second.clone()], &[GNonadjacentItem]);
    assert_eq!(holds(&report), [true, false, false]);
    clean(&[writer("a", 10), writer("b", 11), first.clone()]);
    // The same, with one of the edges through a range.
    let looker = (11, 21, vec![range(PRIMARY, "c", "d", 5), read("b", 11, 2)]);
    let forked = [(5, 10, vec![write("a", 2), write("c", 1)]), writer("b", 11), first.clone(), looker];
    let report = finds(&forked, &[GNonadjacent]);
    assert_eq!(holds(&report), [true, false, false]);
}

/// A transaction of a process that began and ended at some moments.
type Timed<'a> = (u32, [u64; 2], Line<'a>);

fn judged_in_time(lines: &[Timed<'_>], context: TransactionContext) -> Report {
    let mut history = Builder::new();
    for (process, [began, ended], (begin, stamp, operations)) in lines {
        let (began, ended) = (Some(Moment(*began)), Some(Moment(*ended)));
        let context = TransactionContext { process: Some(Process(*process)), began, ended, ..context };
        history.push_with(context, Stamp(*begin), Outcome::Committed(Stamp(*stamp)), operations.iter().copied());
    }
    let report = judge(&history.finish_named([(T, "rows")]), &mut |_| ());
    assert!(!report.to_string().contains("not found again"), "{report}");
    report
}

fn holds_in_time(report: &Report) -> [bool; 3] {
    [Level::Serializable, Level::StrongSessionSerializable, Level::StrictSerializable].map(|level| report.holds(level))
}

#[test]
fn real_time_order() {
    let writer = (5, 10, vec![write("a", 2)]);
    let stale = (5, 9, vec![read("a", 1, 1)]);
    let lines = |process, reader| vec![(1, [0, 3], writer.clone()), (process, reader, stale.clone())];
    // The reader begins after the writer has ended, and does not see it.
    let report = judged_in_time(&lines(2, [4, 5]), TransactionContext::default());
    assert_eq!(report.kinds(), [GSingleRealtime], "{report}");
    assert_eq!(holds_in_time(&report), [true, true, false]);
    assert!(report.to_string().contains("T2 had ended (moment 3) before T1 began (moment 4)"), "{report}");
    // In the same process a session contradicts itself.
    let report = judged_in_time(&lines(1, [4, 5]), TransactionContext::default());
    assert_eq!(report.kinds(), [GSingleProcess], "{report}");
    assert_eq!(holds_in_time(&report), [true, false, false]);
    assert!(report.to_string().contains("in process 1, T2 had ended"), "{report}");
    // In parallel with the writer, or at the same moment, the reader may have come before.
    for reader in [[2, 5], [3, 3]] {
        assert_eq!(judged_in_time(&lines(2, reader), TransactionContext::default()).kinds(), []);
    }
    // If it was promised less than real-time order, a transaction may read an older state; but it must follow its own
    // process.
    let session = TransactionContext { order: Order::Process, ..TransactionContext::default() };
    let report = judged_in_time(&lines(2, [4, 5]), session);
    assert_eq!((report.kinds(), report.counts.unordered), (vec![], 2), "{report}");
    assert_eq!(judged_in_time(&lines(1, [4, 5]), session).kinds(), [GSingleProcess]);
    let nothing = TransactionContext { order: Order::None, ..TransactionContext::default() };
    assert_eq!(judged_in_time(&lines(1, [4, 5]), nothing).kinds(), []);
}

#[test]
fn cycles_in_real_time() {
    let judged = |lines: &[Timed<'_>]| judged_in_time(lines, TransactionContext::default()).kinds();
    // The writer with the higher stamp had ended before the other began.
    let overwritten = [(1, [5, 6], (5, 10, vec![write("a", 1)])), (2, [0, 1], (5, 11, vec![write("a", 2)]))];
    assert_eq!(judged(&overwritten), [G0Realtime]);
    // A read of a value that is written only later.
    let early = [(1, [5, 6], (5, 10, vec![write("a", 1)])), (2, [0, 1], (5, 11, vec![read("a", 10, 1)]))];
    assert_eq!(judged(&early), [G1cRealtime]);
    // A report that a later receipt contradicts: T1 reads the batch, T2 closes it, T3 reports, and then T1 commits a
    // receipt.
    let receipt = || (5, 12, vec![read("batch", 1, 1), write("receipt", 1)]);
    let closing = || (5, 10, vec![read("batch", 1, 1), write("batch", 2)]);
    let report = || (11, 10, vec![read("batch", 10, 2), miss("receipt", 11)]);
    assert_eq!(judged(&[(1, [0, 9], receipt()), (2, [1, 2], closing()), (3, [3, 4], report())]), [G2Item]);
    // If the report does not read the batch, only real-time order shows the anomaly.
    let blind = || (11, 10, vec![miss("receipt", 11)]);
    let lines = [(1, [0, 9], receipt()), (2, [1, 2], closing()), (3, [3, 4], blind())];
    assert_eq!(judged(&lines), [G2ItemRealtime]);
    let side_by_side = [(1, [0, 9], receipt()), (2, [1, 3], closing()), (3, [2, 4], blind())];
    assert_eq!(judged(&side_by_side), []);
}

#[test]
fn reads_are_held_against_the_snapshot() {
    let snapshot = TransactionContext { snapshot: true, ..TransactionContext::default() };
    let judged = |lines: &[Line<'_>]| {
        let mut history = Builder::new();
        for (begin, stamp, operations) in lines {
            history.push_with(snapshot, Stamp(*begin), Outcome::Committed(Stamp(*stamp)), operations.iter().copied());
        }
        judge(&history.finish_named([(T, "rows")]), &mut |_| ())
    };
    let writer = || (5, 10, vec![write("a", 2)]);
    let deleter = || (5, 10, vec![delete("a")]);
    let old = || (5, 6, vec![read("a", 1, 1)]);
    // An old version: no cycle, so serializable, but not the version in the snapshot.
    let report = judged(&[old(), writer(), (11, 10, vec![read("a", 1, 1)])]);
    assert_eq!((report.kinds(), holds(&report)), (vec![GSIb], [true, false, true]), "{report}");
    assert!(report.to_string().contains("T3 and T2 on rows \"a\""), "{report}");
    // A version that was committed after the snapshot was taken.
    let report = judged(&[writer(), (10, 12, vec![read("a", 10, 2)])]);
    assert_eq!((report.kinds(), holds(&report)), (vec![GSIa], [true, false, true]), "{report}");
    assert_eq!(judged(&[writer(), (10, 12, vec![write("a", 3)])]).kinds(), [GSIa]);
    assert_eq!(judged(&[old(), deleter(), (10, 12, vec![read_nothing("a", 10)])]).kinds(), [GSIa]);
    assert_eq!(judged(&[old(), deleter(), (11, 12, vec![read("a", 1, 1)])]).kinds(), [GSIb]);
    // The version in the snapshot, and its own writes.
    assert_eq!(judged(&[writer(), (11, 12, vec![read("a", 10, 2), write("a", 3), read_own("a", 3)])]).kinds(), []);
    assert_eq!(judged(&[old(), writer(), (10, 9, vec![read("a", 1, 1)])]).kinds(), []);
    assert_eq!(judged(&[old(), deleter(), (11, 10, vec![read_nothing("a", 10), miss("a", 11)])]).kinds(), []);
    assert_eq!(judged(&[writer(), (11, 12, vec![write("a", 3), write("a", 4)])]).kinds(), []);
}

#[test]
fn missed_rows() {
    let insert = || (5, 10, vec![write("a", 1), write("q", 1)]);
    let report = finds(&[insert(), (11, 12, vec![range(PRIMARY, "a", "b", 11)])], &[MissedRow]);
    assert_eq!(holds(&report), [true, false, true]);
    finds(&[insert(), (11, 12, vec![miss("a", 11)])], &[MissedRow]);
    // If it sees another row of the same writer, it sees half of a commit.
    finds(&[insert(), (11, 12, vec![read("q", 10, 1), range(PRIMARY, "a", "b", 11)])], &[GSingle, MissedRow]);
    clean(&[insert(), (11, 12, vec![read("a", 10, 1), range(PRIMARY, "a", "b", 11)])]);
    clean(&[insert(), (11, 12, vec![range(PRIMARY, "a", "b", 10)])]);
    clean(&[insert(), (11, 13, vec![delete("a")]), (14, 15, vec![range(PRIMARY, "a", "b", 14)])]);
}

#[test]
fn a_row_that_was_always_there_is_missed_too() {
    let reader = || (5, 6, vec![read("a", 1, 1)]);
    finds(&[reader(), (5, 7, vec![range(PRIMARY, "a", "b", 5)])], &[MissedRow]);
    clean(&[reader(), (5, 7, vec![read("a", 1, 1), range(PRIMARY, "a", "b", 5)])]);
}

#[test]
fn rows_that_came_while_a_range_was_read() {
    // Without a snapshot a scan may see rows that are younger than it.
    let insert = |stamp| (5, stamp, vec![write("b", 1), write("x", 1)]);
    clean(&[insert(10), (5, 20, vec![read("b", 10, 1), range(PRIMARY, "a", "c", 8), read("x", 10, 1)])]);
    finds(&[insert(10), (5, 20, vec![range(PRIMARY, "a", "c", 8), read("x", 10, 1)])], &[GSingle]);
}

#[test]
fn deletions_that_a_range_did_not_see_yet() {
    // Without a snapshot: the deletion took its stamp before the scan began, and was not visible yet when the scan
    // passed.
    let deleter = || (5, 10, vec![delete("a")]);
    clean(&[deleter(), (5, 20, vec![read("a", 1, 1), range(PRIMARY, "a", "c", 12)])]);
    // A read that another operation separates from the scan does not belong to the scan.
    finds(&[deleter(), (5, 20, vec![read("a", 1, 1), write("x", 1), range(PRIMARY, "a", "c", 12)])], &[GSingle]);
}

#[test]
fn corrupt_reads() {
    let writer = || (5, 10, vec![write("a", 1)]);
    let report = finds(&[writer(), (11, 20, vec![read("a", 10, 77)])], &[CorruptRead]);
    assert_eq!(holds(&report), [false; 3]);
    finds(&[writer(), (11, 20, vec![read("a", 9, 1)])], &[CorruptRead]);
    finds(&[writer(), (11, 20, vec![read("b", 10, 1)])], &[CorruptRead]);
    finds(&[writer(), (11, 20, vec![read("a", 0, 1)])], &[CorruptRead]);
    finds(&[writer(), (5, 20, vec![read("b", 1, 1), read("b", 1, 2)])], &[CorruptRead]);
    clean(&[writer(), (11, 20, vec![read("a", 10, 1), read("b", 3, 77)])]);
}

#[test]
fn transactions_see_their_own_writes() {
    finds(&[(5, 10, vec![write("a", 1), read_own("a", 2)])], &[Internal]);
    finds(&[(5, 10, vec![read_own("a", 1)])], &[Internal]);
    finds(&[(5, 10, vec![write("a", 1), read("a", 1, 5)])], &[Internal]);
    clean(&[(5, 10, vec![write("a", 1), write("a", 2), read_own("a", 2)])]);
}

#[test]
fn two_writers_cannot_share_a_stamp() {
    let report = judged(&[(5, 10, vec![write("a", 1)]), (5, 10, vec![write("a", 2)])]);
    assert!(report.kinds().contains(&Duplicate), "{report}");
}

#[test]
fn own_writes_and_ranges_do_not_meet() {
    // The scanner inserts into the range that it scanned, and so does a later transaction.
    clean(&[
        (5, 10, vec![range(PRIMARY, "a", "z", 5), write("b", 1)]),
        (11, 20, vec![read("b", 10, 1), range(PRIMARY, "a", "z", 11), write("c", 1), delete("b")]),
        (21, 30, vec![read("c", 20, 1), range(PRIMARY, "a", "z", 21)]),
    ]);
}

#[test]
fn a_report_says_who_did_what() {
    let text = judged(&[
        (5, 10, vec![read("a", 1, 1), range(PRIMARY, "b", "c", 5), write("a", 2)]),
        (5, 11, vec![read("a", 1, 1), write("b", 2)]),
    ])
    .to_string();
    for part in [
        "ermine history: 2 committed, 0 aborted; 5 operations, of these 1 ranges, on 2 keys",
        "serializable                BROKEN by G2",
        "T1 -rw (predicate)-> T2: T1 looked through rows from \"b\" to \"c\" at 5 and did not see rows \"b\", which T2 \
         put there",
        "T2 -rw-> T1: T2 read rows \"a\" before T1 wrote it",
        "T1, begun at 5, committed at 10:\n    read rows \"a\" = #1 of 1\n    looked through rows from \"b\"",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}
