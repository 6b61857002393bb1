//! Small schedules with known outcomes under each scheme.

use super::*;
use crate::control::{Dirty, Ended, Hardware, Private, Rc, Rcl, Safe, Si, Ssi, Ssn, Timestamps, TwoPhase, Validated};

type RcSsn = Ssn<Rc>;
type RclSsn = Ssn<Rcl>;
type SiSsn = Ssn<Si>;
type Silo = Validated<Private>;
type MvOcc = Validated<Si>;
type Sto = Timestamps<Dirty>;
type Tso = Timestamps<Ended>;
type TsoSafe = Timestamps<Safe>;

#[track_caller]
fn expect<C: Control>(schedule: &str, ends: &str, components: u64) {
    let played = play::<C>(schedule);
    assert_eq!(played.ends, ends, "{schedule}");
    assert_eq!(played.cycles.components, components, "{schedule}: {:?}", played.cycles);
    assert!(played.cycles.failures >= played.cycles.components, "each component has a failure");
}

#[test]
fn write_skew() {
    let schedule = "r1A r1B r2A r2B w1A w2B c1 c2";
    expect::<Si>(schedule, "c1 c2", 1);
    expect::<Rc>(schedule, "c1 c2", 1);
    expect::<Rcl>(schedule, "c1 c2", 1);
    expect::<Ssi>(schedule, "c1 x2", 0);
    expect::<SiSsn>(schedule, "c1 x2", 0);
    expect::<RcSsn>(schedule, "c1 x2", 0);
    expect::<RclSsn>(schedule, "c1 x2", 0);
    // Transaction 1 waits for the read lock of 2, which then would wait for that of 1.
    expect::<TwoPhase>(schedule, "w2 c1", 0);
}

#[test]
fn lost_update() {
    let schedule = "r1A r2A w1A w2A c1 c2";
    // Transaction 2 waits, then overwrites the version of 1, which it has not read.
    expect::<Rc>(schedule, "c1 c2", 1);
    expect::<Rcl>(schedule, "c1 c2", 1);
    expect::<Si>(schedule, "c1 t2", 0);
    expect::<Ssi>(schedule, "c1 t2", 0);
    expect::<SiSsn>(schedule, "c1 t2", 0);
    expect::<RcSsn>(schedule, "c1 x2", 0);
    expect::<RclSsn>(schedule, "c1 x2", 0);
    expect::<TwoPhase>(schedule, "w2 c1", 0);
}

#[test]
fn a_write_after_an_abort_is_no_conflict() {
    // Transaction 1 aborts when it would wait for 2, which waits for 3.
    expect::<Si>("w3C w1A w4A w2B w2C w1B c3 c2 c4", "w1 c3 t2 c4", 0);
}

#[test]
fn non_repeatable_read() {
    let schedule = "r1A w2A c2 r1A c1";
    expect::<Rc>(schedule, "c2 c1", 1);
    expect::<RcSsn>(schedule, "c2 x1", 0);
    expect::<RclSsn>(schedule, "c2 x1", 0);
    expect::<Si>(schedule, "c2 c1", 0);
    expect::<Ssi>(schedule, "c2 c1", 0);
    expect::<SiSsn>(schedule, "c2 c1", 0);
    expect::<TwoPhase>(schedule, "c1 c2", 0);
}

/// Fekete, O'Neil, O'Neil: A read-only transaction anomaly under snapshot isolation (2004).
#[test]
fn read_only_anomaly() {
    let schedule = "r2A r2B r1B w1B c1 r3A r3B c3 w2A c2";
    expect::<Si>(schedule, "c1 c3 c2", 1);
    expect::<Rc>(schedule, "c1 c3 c2", 1);
    expect::<Ssi>(schedule, "c1 c3 x2", 0);
    expect::<SiSsn>(schedule, "c1 c3 x2", 0);
    expect::<RcSsn>(schedule, "c1 c3 x2", 0);
    // Without the report there is no anomaly: 2 precedes 1.
    expect::<SiSsn>("r2A r2B r1B w1B c1 w2A c2", "c1 c2", 0);
    // A report as of a moment before 1 precedes 2 and 1.
    expect::<SiSsn>("r2A r2B b3 r1B w1B c1 r3A r3B c3 w2A c2", "c1 c3 c2", 0);
    expect::<Ssi>("r2A r2B b3 r1B w1B c1 r3A r3B c3 w2A c2", "c1 c3 c2", 0);
    // In a safe snapshot taken after 1, the report reads without a trace; 2 still aborts.
    let in_snapshot = "r2A r2B r1B w1B c1 s q3 r3A r3B c3 w2A c2";
    expect::<Ssi>(in_snapshot, "c1 c3 s2", 0);
    expect::<SiSsn>(in_snapshot, "c1 c3 s2", 0);
    expect::<RcSsn>(in_snapshot, "c1 c3 s2", 0);
}

/// Figure 3: "SSN allows all schedules that do not have peaks, and also peaks where no predecessor violates the
/// exclusion window."
#[test]
fn shapes_of_figure_3() {
    // Forward edges only.
    let forward = "w1A c1 r2A w2B c2 r3B c3";
    // One back edge: 1 must precede 2, which committed first.
    let back = "r1A w2A c2 w1B c1";
    for schedule in [forward, back] {
        let ends = if schedule == forward { "c1 c2 c3" } else { "c2 c1" };
        expect::<Ssi>(schedule, ends, 0);
        expect::<SiSsn>(schedule, ends, 0);
        expect::<RcSsn>(schedule, ends, 0);
    }
    expect::<TwoPhase>(forward, "c1 c2 c3", 0);
    // Transaction 2 must wait for the read lock: the back edge becomes a forward edge.
    expect::<TwoPhase>(back, "c1 c2", 0);
    // Two back edges, one after the other: the dangerous structure.
    let descent = "r1A r2B w3B c3 w2A c2 w1C c1";
    expect::<SiSsn>(descent, "c3 c2 c1", 0);
    expect::<RcSsn>(descent, "c3 c2 c1", 0);
    expect::<Ssi>(descent, "c3 c2 x1", 0);
    // A peak whose predecessor committed before pi(T).
    let early_peak = "r3A w1C c1 w2A c2 r3C w3D c3";
    expect::<RcSsn>(early_peak, "c1 c2 c3", 0);
    // A peak whose predecessor committed after pi(T): a false positive.
    let late_peak = "r3A w2A c2 r1C c1 w3C c3";
    expect::<RcSsn>(late_peak, "c2 c1 x3", 0);
    expect::<SiSsn>(late_peak, "c2 c1 x3", 0);
    expect::<Rc>(late_peak, "c2 c1 c3", 0);
}

/// Figure 4 and its discussion in 3.4.
#[test]
fn schedule_of_figure_4() {
    let third_last = "r1B w2B r3A r3B w3C w1A c2 c1 c3";
    expect::<SiSsn>(third_last, "c2 c1 c3", 0);
    expect::<Ssi>(third_last, "c2 c1 x3", 0);
    let first_last = "r1B w2B r3A r3B w3C w1A c2 c3 c1";
    expect::<SiSsn>(first_last, "c2 c3 x1", 0);
    expect::<Si>(first_last, "c2 c3 c1", 0);
    // Under RC, transaction 3 reads the version that 2 wrote.
    let read_committed = "r1B w2B r3A c2 r3B w1A c1 w3C c3";
    expect::<Rc>(read_committed, "c2 c1 c3", 1);
    expect::<RcSsn>(read_committed, "c2 c1 x3", 0);
    // Transaction 3 would wait for 2, which waits for 1.
    expect::<TwoPhase>(third_last, "w3 c1 c2", 0);
}

#[test]
fn readers_wait_under_locks_only() {
    let schedule = "w1A r2A c1 c2";
    // With a version of before 1, transaction 2 could commit first as well.
    expect::<Rcl>(schedule, "c1 c2", 0);
    expect::<TwoPhase>(schedule, "c1 c2", 0);
    for ends in [play::<Rc>("w1A r2A c2 c1"), play::<Si>("w1A r2A c2 c1")] {
        assert_eq!(ends.ends, "c2 c1");
    }
    assert_eq!(play::<Rcl>("w1A r2A c2 c1").ends, "c1 c2");
    // Under RCL, read locks do not outlast the read.
    assert_eq!(play::<Rcl>("r1A w2A c2 c1").ends, "c2 c1");
    assert_eq!(play::<TwoPhase>("r1A w2A c2 c1").ends, "c1 c2");
}

#[test]
fn waiting_is_one_deep() {
    // 3 would wait for 2, which waits for 1; 4 waits for 2 when 2 no longer waits.
    assert_eq!(play::<Rc>("w1A w2B w2A w3B c3 c1 w4B c2 c4").ends, "w3 c1 c2 c4");
    // A write in front of which another one waits.
    assert_eq!(play::<Rc>("w1A w2A w3A c1 c2").ends, "w3 c1 c2");
}

#[test]
fn own_writes_are_no_dependencies() {
    for schedule in ["w1A r1A w1A c1", "r1A w1A r1A c1"] {
        expect::<RcSsn>(schedule, "c1", 0);
        expect::<Ssi>(schedule, "c1", 0);
        expect::<TwoPhase>(schedule, "c1", 0);
    }
}

#[test]
fn reads_are_validated_at_commit() {
    for schedule in ["r1A r1B r2A r2B w1A w2B c1 c2", "r1A r2A w1A w2A c1 c2"] {
        expect::<Silo>(schedule, "c1 x2", 0);
    }
    expect::<MvOcc>("r1A r1B r2A r2B w1A w2B c1 c2", "c1 x2", 0);
    // Silo reads the newest version, and validates a transaction without writes, too; MVOCC reads a snapshot.
    let reader = "r1A w2A w2B c2 r1B c1";
    expect::<Silo>(reader, "c2 x1", 0);
    expect::<MvOcc>(reader, "c2 c1", 0);
    // Blind writes do not conflict.
    expect::<Silo>("w1A w2A c2 c1", "c2 c1", 0);
}

#[test]
fn timestamps_order_accesses() {
    // Transaction 1 would overwrite what 2 has read.
    for skew in ["b1 r1A r2A w1A w2B c2 c1", "r1A r1B r2A r2B w1A w2B c2"] {
        expect::<Sto>(skew, "o1 c2", 0);
        expect::<Tso>(skew, "o1 c2", 0);
        expect::<TsoSafe>(skew, "o1 c2", 0);
    }
    // Transaction 2 meets a write of 1, which has not ended.
    let dirty = "w1A r2A c1 c2";
    expect::<Sto>(dirty, "c1 c2", 0);
    expect::<Tso>(dirty, "o2 c1", 0);
    expect::<TsoSafe>(dirty, "o2 c1", 0);
    // Transaction 1 has ended, but had not when 2 began; then it had.
    let ended = "w1A b2 c1 r2A c2 r3A c3";
    expect::<Tso>(ended, "c1 c2 c3", 0);
    expect::<TsoSafe>(ended, "c1 o2 c3", 0);
}

#[test]
fn a_hardware_transaction_loses_its_lines() {
    // The one that asks for a record has it; the other one aborts at its next step.
    expect::<Hardware>("r1A w2A c1 c2", "o1 c2", 0);
    expect::<Hardware>("w1A r2A c1 c2", "o1 c2", 0);
    expect::<Hardware>("r1A r2A c1 c2", "c1 c2", 0);
}
