//! Concurrency control over records that are changed in place: the single-version schemes.
//!
//! The path of a row ([`crate::single`]) is written once. Whatever the scheme, writes are kept by the transaction until it
//! commits, and then put in while the records' words are locked, in the order of their addresses; so there is nothing to undo, no
//! uncommitted byte is ever in a record, and one commit serves all schemes. A scheme says who may look at a record, who may
//! write it, and what has to be checked before the writes go in.

use std::time::Duration;

use crate::{
    error::{AbortKind, Dependency},
    ids::Stamp,
    rows::{
        copies::{Copied, Copies},
        in_place::{Control, RecordPtr, TidWord},
    },
    scheme::{Cause, Conflict, Place},
};

/// What a scheme does about keys that come into ranges which a transaction has looked through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ranges {
    /// Leaves are looked at again at commit.
    AtCommit,
    /// A leaf's gap stamp is raised when it is looked at; who puts a key there later compares it with its own.
    Stamped,
    /// Nobody else writes while the transaction runs.
    Excluded,
}

/// How far an operation reaches, where a database has partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// What is in no partition, to read it.
    Common,
    /// One partition.
    Partition(u64),
    Everything,
}

/// What schemes take from the options of a database.
pub(crate) struct Limits {
    /// For how long a transaction waits for others.
    pub(crate) wait_max: Duration,
    /// Timestamps that are left at the beginning of each round of them; `None`: as many as there are.
    pub(crate) timestamps_left: Option<u64>,
}

/// What a transaction has declared that it will touch.
pub(crate) enum Declared<C> {
    Everything,
    /// These records; those with `true` it will write.
    Records(Vec<(RecordPtr<C>, bool)>),
}

/// Whether a transaction has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    Running,
    /// There are no more timestamps: all records have to be set back before anybody can begin.
    Exhausted,
}

/// What a read found: the record's word, and the payload where there is a row and a copy was asked for.
pub(crate) type Read = (TidWord, Option<Copied>);

/// A single-version scheme.
///
/// Call order for a transaction: `begin`, `enter`; `read`, `claim`, `born` and `adopt` in any order; at commit, with the words of all
/// records locked that it writes, `certify`; at its end, committed or not, `end`.
pub(crate) trait InPlace: Sized + Send + Sync + 'static {
    /// Its words in each record.
    type Control: Control;
    /// What all transactions of a database share.
    type Shared: Send + Sync;
    /// What it keeps of one transaction.
    type State: Default + Send;

    const RANGES: Ranges;

    /// Whether a transaction has to say what it will touch (`enter`, `is_declared`).
    const DECLARES: bool = false;

    /// Whether it has to know what an operation reaches (`reach`).
    const PARTITIONS: bool = false;

    fn shared(limits: &Limits) -> Self::Shared;

    /// A transaction begins. `runs_through`: it ends by itself.
    fn begin(shared: &Self::Shared, state: &mut Self::State, runs_through: bool) -> Result<Begun, Conflict>;

    /// The transaction is about to look at, or write, what is in a part of the database.
    fn reach(_shared: &Self::Shared, _state: &mut Self::State, _reach: Reach, _place: Place) -> Result<(), Conflict> {
        Ok(())
    }

    /// A transaction that has begun says what it will touch.
    fn enter(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _declared: Declared<Self::Control>,
    ) -> Result<(), Conflict> {
        Ok(())
    }

    /// Whether the transaction has declared a record; `None`: a range, or a key that nobody has.
    fn is_declared(_state: &Self::State, _record: Option<RecordPtr<Self::Control>>, _writes: bool) -> bool {
        true
    }

    /// Reads a record; without `copies` only its word. One that is gone is left alone.
    fn read(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        place: Place,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict>;

    /// How many reads are kept of the transaction, to be looked at again at commit.
    fn tracked_reads(_state: &Self::State) -> usize {
        0
    }

    /// Bytes that are kept of the transaction, about.
    fn kept_bytes(state: &Self::State) -> usize {
        Self::tracked_reads(state) * 2 * size_of::<Place>()
    }

    /// The transaction is going to write a record. Once a record.
    fn claim(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        place: Place,
    ) -> Result<(), Conflict>;

    /// The words of a record that nobody else knows yet and that the transaction is going to write.
    fn born(_shared: &Self::Shared, _state: &mut Self::State) -> Self::Control {
        Self::Control::default()
    }

    /// That record is in the table now, at a key where others had looked at up to `gap`.
    fn adopt(
        shared: &Self::Shared,
        state: &mut Self::State,
        record: RecordPtr<Self::Control>,
        _gap: Stamp,
        place: Place,
    ) -> Result<(), Conflict> {
        Self::claim(shared, state, record, place)
    }

    /// An index entry that the transaction put in lies where others had looked at up to `gap`.
    fn enter_gap(_shared: &Self::Shared, _state: &mut Self::State, _gap: Stamp, _place: Place) -> Result<(), Conflict> {
        Ok(())
    }

    /// The transaction looks at a leaf from which a key was taken at `removed`; gives the stamp to leave there.
    fn look(
        _shared: &Self::Shared,
        _state: &mut Self::State,
        _removed: Stamp,
        _place: Place,
    ) -> Result<Stamp, Conflict> {
        Ok(Stamp::ZERO)
    }

    /// Whether the transaction may commit. `is_own`: it has locked this record.
    fn certify(
        shared: &Self::Shared,
        state: &mut Self::State,
        is_own: impl Fn(RecordPtr<Self::Control>) -> bool,
    ) -> Result<(), Conflict>;

    /// Whether a record without a row may be taken out of its table; its word is locked.
    fn is_unclaimed(_shared: &Self::Shared, _record: RecordPtr<Self::Control>) -> bool {
        true
    }

    /// The stamps that such a record leaves to its leaf: of the last who looked, and of the last who wrote.
    fn last_looks(_shared: &Self::Shared, _record: RecordPtr<Self::Control>) -> (Stamp, Stamp) {
        (Stamp::ZERO, Stamp::ZERO)
    }

    /// The stamp of entries that the transaction takes out.
    fn stamp(_state: &Self::State) -> Stamp {
        Stamp::ZERO
    }

    /// The transaction is over. What it has written, if it has committed, is in the records.
    fn end(shared: &Self::Shared, state: &mut Self::State, committed: bool);

    /// Whether the transaction that a conflict named is on its way.
    fn is_running(_shared: &Self::Shared, _other: u64) -> bool {
        false
    }

    /// Whether there are no more timestamps.
    fn is_exhausted(_shared: &Self::Shared) -> bool {
        false
    }

    /// Sets a record back: timestamps begin anew, and no transaction runs.
    fn set_back(_record: RecordPtr<Self::Control>) {}

    /// All records have been set back.
    fn begin_round(_shared: &Self::Shared) {}
}

/// A record was written, or is being written, that a transaction has read.
pub(crate) fn stale(place: Place) -> Conflict {
    Conflict::before(AbortKind::StaleRead, Cause::new(Stamp::INFINITY, Dependency::OverwrittenBy, place))
}

/// A transaction has waited for as long as it may.
pub(crate) fn patience_ends(place: Option<Place>) -> Conflict {
    Conflict::before(AbortKind::Timeout, Cause::new(Stamp::INFINITY, Dependency::BothWrite, place))
}
