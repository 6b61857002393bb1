//! Concurrency control over records that are changed in place: the single-version schemes.
//!
//! The path of a row ([`crate::single`]) is written once. Under every scheme, a transaction buffers its writes until it
//! commits, and then stores them while the records' words are locked, in the order of their addresses; so there is
//! nothing to undo, no uncommitted byte is ever in a record, and one commit path serves all schemes. A scheme decides
//! which transactions may read a record, which may write it, and what has to be checked before the writes are stored.

use std::time::Duration;

use crate::{
    error::{AbortKind, Dependency},
    ids::Stamp,
    rows::{
        copies::{Copied, Copies},
        in_place::{Control, RecordPtr, TidWord},
    },
    scheme::{Cause, Conflict, ConflictSite},
};

/// How a scheme handles keys that are inserted into ranges which a transaction has scanned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ranges {
    /// Leaves are validated at commit.
    AtCommit,
    /// A scan raises the gap stamp of a leaf; a transaction that inserts a key there later compares the stamp with its
    /// own.
    Stamped,
    /// No other transaction writes while the transaction runs.
    Excluded,
}

/// The part of a partitioned database that an operation reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// The rows in no partition, for reading.
    Common,
    /// One partition.
    Partition(u64),
    Everything,
}

/// The options of a database that schemes use.
pub(crate) struct Limits {
    /// The longest time that a transaction waits for others.
    pub(crate) wait_max: Duration,
    /// Number of timestamps in each round of them; `None`: as many as fit.
    pub(crate) timestamps_left: Option<u64>,
}

/// The rows that a transaction has declared to touch.
pub(crate) enum Declared<C> {
    Everything,
    /// These records; the transaction will write those with `true`.
    Records(Vec<(RecordPtr<C>, bool)>),
}

/// Whether a transaction has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    Running,
    /// There are no more timestamps: all records have to be reset before a transaction can begin.
    Exhausted,
}

/// Whether a transaction holds everything that it declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entering {
    Entered,
    /// A declared record left its table before it was counted: it no longer belongs to its key. The transaction's state
    /// is unchanged.
    Gone,
}

/// The result of a read: the record's word, and the payload if there is a row and a copy was requested.
pub(crate) type Read = (TidWord, Option<Copied>);

/// A single-version scheme.
///
/// Call order for a transaction: `begin`, `enter`; `read`, `claim`, `born` and `adopt` in any order; at commit, with
/// the words of all records locked that it writes, `certify`; at its end, committed or not, `end`.
pub(crate) trait InPlace: Sized + Send + Sync + 'static {
    /// The scheme's words in each record.
    type Control: Control;
    /// The state that all transactions of a database share.
    type Shared: Send + Sync;
    /// The scheme's state of one transaction.
    type State: Default + Send;

    const RANGES: Ranges;

    /// Whether a transaction has to declare what it will touch (`enter`, `is_declared`).
    const DECLARES: bool = false;

    /// Whether the scheme has to be told what an operation reaches (`reach`).
    const PARTITIONS: bool = false;

    fn shared(limits: &Limits) -> Self::Shared;

    /// Begins a transaction. `runs_through`: it needs no input from outside to end.
    fn begin(shared: &Self::Shared, state: &mut Self::State, runs_through: bool) -> Result<Begun, Conflict>;

    /// Called before the transaction reads or writes in a part of the database.
    fn reach(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _reach: Reach,
        _place: ConflictSite,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// Declares what a transaction that has begun will touch.
    fn enter(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _declared: Declared<Self::Control>,
    ) -> Result<Entering, Conflict> {
        Ok(Entering::Entered)
    }

    /// Whether the transaction has declared a record; `None`: a range, or a key that does not exist.
    fn is_declared(_state: &Self::State, _record: Option<RecordPtr<Self::Control>>, _writes: bool) -> bool {
        true
    }

    /// Reads a record; without `copies` only its word. A record that is gone need not be tracked.
    fn read(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        site: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict>;

    /// Number of reads that are kept to be validated at commit.
    fn tracked_reads(_state: &Self::State) -> usize {
        0
    }

    /// Approximate bytes that the scheme keeps for the transaction.
    fn kept_bytes(state: &Self::State) -> usize {
        Self::tracked_reads(state) * 2 * size_of::<ConflictSite>()
    }

    /// Called before the transaction writes a record, once per record.
    fn claim(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        site: ConflictSite,
    ) -> Result<(), Conflict>;

    /// Returns the words of a new record that the transaction is going to write, before other threads can reach it.
    fn born(_shared: &Self::Shared, _state: &mut Self::State) -> Self::Control {
        Self::Control::default()
    }

    /// Called when that record is in the table, at a key where other transactions had scanned with stamps up to `gap`.
    fn adopt(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        _gap: Stamp,
        site: ConflictSite,
    ) -> Result<(), Conflict> {
        Self::claim(shared, state, record, site)
    }

    /// Called when the transaction has inserted an index entry where other transactions had scanned with stamps up to
    /// `gap`.
    fn enter_gap(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _gap: Stamp,
        _place: ConflictSite,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// Called when the transaction reads a leaf from which a key was removed at `removed`; returns the stamp to leave
    /// there.
    fn look(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _removed: Stamp,
        _place: ConflictSite,
    ) -> Result<Stamp, Conflict> {
        Ok(Stamp::ZERO)
    }

    /// Decides whether the transaction may commit. `is_own`: it has locked this record.
    fn certify(
        shared: &Self::Shared,
        state: &mut Self::State,
        is_own: impl Fn(RecordPtr<Self::Control>) -> bool,
    ) -> Result<(), Conflict>;

    /// Whether a record without a row may be removed from its table; its word is locked.
    fn is_unclaimed(_shared: &Self::Shared, _record: RecordPtr<Self::Control>) -> bool {
        true
    }

    /// Returns the stamps that such a record leaves to its leaf: of its last reader, and of its last writer.
    fn last_looks(_shared: &Self::Shared, _record: RecordPtr<Self::Control>) -> (Stamp, Stamp) {
        (Stamp::ZERO, Stamp::ZERO)
    }

    /// The stamp of entries that the transaction removes.
    fn stamp(_state: &Self::State) -> Stamp {
        Stamp::ZERO
    }

    /// Ends the transaction. If it has committed, its writes are in the records.
    fn end(shared: &Self::Shared, state: &mut Self::State, committed: bool);

    /// Whether the transaction that a conflict named is running.
    fn is_running(_shared: &Self::Shared, _other: u64) -> bool {
        false
    }

    /// Whether there are no more timestamps.
    fn is_exhausted(_shared: &Self::Shared) -> bool {
        false
    }

    /// Resets a record, as timestamps begin anew; no transaction runs.
    fn set_back(_record: RecordPtr<Self::Control>) {}

    /// Begins a new round of timestamps, after all records have been reset.
    fn begin_round(_shared: &Self::Shared) {}
}

/// The conflict with a writer of a record that the transaction has read.
pub(crate) fn stale(site: ConflictSite) -> Conflict {
    Conflict::before(AbortKind::StaleRead, Cause::new(Stamp::INFINITY, Dependency::OverwrittenBy, site))
}

/// The conflict of a transaction that has waited for the longest time allowed.
pub(crate) fn patience_ends(site: Option<ConflictSite>) -> Conflict {
    Conflict::before(AbortKind::Timeout, Cause::new(Stamp::INFINITY, Dependency::BothWrite, site))
}
