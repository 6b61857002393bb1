//! Names of anomalies, and the levels of isolation that forbid them (Adya 1999, chapter 4; Berenson et al. 1995; the
//! names of cycles as in Elle, Kingsbury and Alvaro 2020).

use std::fmt;

use serde::Serialize;

/// A kind of anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum AnomalyKind {
    /// A cycle of overwritten writes.
    #[serde(rename = "G0")]
    G0,
    /// A committed transaction read a version that an aborted one wrote.
    #[serde(rename = "G1a")]
    G1a,
    /// A committed transaction read a value that its writer replaced before it committed.
    #[serde(rename = "G1b")]
    G1b,
    /// A cycle of overwritten writes and reads of other transactions' writes.
    #[serde(rename = "G1c")]
    G1c,
    /// A committed write overwrote an aborted one, and kept its effect.
    #[serde(rename = "dirty update")]
    DirtyUpdate,
    /// A transaction overwrote a row that had changed since it read it.
    #[serde(rename = "lost update")]
    LostUpdate,
    /// A transaction read two states of one key, neither of them its own write.
    #[serde(rename = "non-repeatable read")]
    NonRepeatableRead,
    /// A cycle with exactly one anti-dependency, such as read skew.
    #[serde(rename = "G-single")]
    GSingle,
    /// A cycle with several anti-dependencies, no two of them next to each other, all between rows.
    #[serde(rename = "G-nonadjacent-item")]
    GNonadjacentItem,
    /// A cycle with several anti-dependencies, no two of them next to each other, one of them through a range.
    #[serde(rename = "G-nonadjacent")]
    GNonadjacent,
    /// A cycle with two anti-dependencies next to each other, all of them on rows that were read, such as write skew.
    #[serde(rename = "G2-item")]
    G2Item,
    /// A cycle with two anti-dependencies next to each other, one of them a row that entered a range.
    #[serde(rename = "G2")]
    G2,
    /// [`G0`](Self::G0) with an edge of the order of a process.
    #[serde(rename = "G0-process")]
    G0Process,
    /// [`G1c`](Self::G1c) with an edge of the order of a process.
    #[serde(rename = "G1c-process")]
    G1cProcess,
    /// [`GSingle`](Self::GSingle) with an edge of the order of a process.
    #[serde(rename = "G-single-process")]
    GSingleProcess,
    /// [`GNonadjacentItem`](Self::GNonadjacentItem) with an edge of the order of a process.
    #[serde(rename = "G-nonadjacent-item-process")]
    GNonadjacentItemProcess,
    /// [`GNonadjacent`](Self::GNonadjacent) with an edge of the order of a process.
    #[serde(rename = "G-nonadjacent-process")]
    GNonadjacentProcess,
    /// [`G2Item`](Self::G2Item) with an edge of the order of a process.
    #[serde(rename = "G2-item-process")]
    G2ItemProcess,
    /// [`G2`](Self::G2) with an edge of the order of a process.
    #[serde(rename = "G2-process")]
    G2Process,
    /// [`G0`](Self::G0) with an edge of real-time order.
    #[serde(rename = "G0-realtime")]
    G0Realtime,
    /// [`G1c`](Self::G1c) with an edge of real-time order.
    #[serde(rename = "G1c-realtime")]
    G1cRealtime,
    /// [`GSingle`](Self::GSingle) with an edge of real-time order.
    #[serde(rename = "G-single-realtime")]
    GSingleRealtime,
    /// [`GNonadjacentItem`](Self::GNonadjacentItem) with an edge of real-time order.
    #[serde(rename = "G-nonadjacent-item-realtime")]
    GNonadjacentItemRealtime,
    /// [`GNonadjacent`](Self::GNonadjacent) with an edge of real-time order.
    #[serde(rename = "G-nonadjacent-realtime")]
    GNonadjacentRealtime,
    /// [`G2Item`](Self::G2Item) with an edge of real-time order.
    #[serde(rename = "G2-item-realtime")]
    G2ItemRealtime,
    /// [`G2`](Self::G2) with an edge of real-time order.
    #[serde(rename = "G2-realtime")]
    G2Realtime,
    /// Interference: a transaction saw, or overwrote, a version that was committed after its snapshot was taken (Adya
    /// 1999, 4.3).
    #[serde(rename = "G-SIa")]
    GSIa,
    /// A transaction read an older version than its snapshot has: a missed effect (Adya 1999, 4.3).
    #[serde(rename = "G-SIb")]
    GSIb,
    /// A range, or a lookup, did not show a row that its snapshot has.
    #[serde(rename = "missed row")]
    MissedRow,
    /// A transaction did not see its own write.
    #[serde(rename = "internal")]
    Internal,
    /// A read of a value that no transaction wrote.
    #[serde(rename = "corrupt read")]
    CorruptRead,
    /// Reads of one key that cannot all be true: no order of its versions explains them.
    #[serde(rename = "incompatible order")]
    IncompatibleOrder,
    /// A value that was written once exists twice.
    #[serde(rename = "duplicate")]
    Duplicate,
}

/// The order of transactions in addition to their dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum CycleOrder {
    /// None.
    Dependencies,
    /// The order of the transactions of each process.
    Process,
    /// Real time: a transaction that had ended before another began precedes it.
    Realtime,
}

impl CycleOrder {
    pub(crate) const ALL: [Self; 3] = [Self::Dependencies, Self::Process, Self::Realtime];
}

impl AnomalyKind {
    /// The kinds of cycles. Rows: by their dependencies; columns: by the additional order, as in [`CycleOrder`].
    const CYCLES: [[Self; 3]; 7] = [
        [Self::G0, Self::G0Process, Self::G0Realtime],
        [Self::G1c, Self::G1cProcess, Self::G1cRealtime],
        [Self::GSingle, Self::GSingleProcess, Self::GSingleRealtime],
        [Self::GNonadjacentItem, Self::GNonadjacentItemProcess, Self::GNonadjacentItemRealtime],
        [Self::GNonadjacent, Self::GNonadjacentProcess, Self::GNonadjacentRealtime],
        [Self::G2Item, Self::G2ItemProcess, Self::G2ItemRealtime],
        [Self::G2, Self::G2Process, Self::G2Realtime],
    ];

    /// The kind of a cycle whose dependencies make it `self`, with edges of an order.
    pub(crate) fn with(self, order: CycleOrder) -> Self {
        let row = Self::CYCLES.iter().find(|row| row[0] == self).expect("only cycles have an order");
        row[order as usize]
    }

    /// The kind by dependencies alone, and the order.
    pub(crate) fn split(self) -> (Self, CycleOrder) {
        let found = Self::CYCLES.iter().find_map(|row| {
            let column = row.iter().position(|&kind| kind == self)?;
            Some((row[0], CycleOrder::ALL[column]))
        });
        found.unwrap_or((self, CycleOrder::Dependencies))
    }

    /// The name in reports: Elle's name if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::G0 => "G0",
            Self::G1a => "G1a",
            Self::G1b => "G1b",
            Self::G1c => "G1c",
            Self::DirtyUpdate => "dirty update",
            Self::LostUpdate => "lost update",
            Self::NonRepeatableRead => "non-repeatable read",
            Self::GSingle => "G-single",
            Self::GNonadjacentItem => "G-nonadjacent-item",
            Self::GNonadjacent => "G-nonadjacent",
            Self::G2Item => "G2-item",
            Self::G2 => "G2",
            Self::G0Process => "G0-process",
            Self::G1cProcess => "G1c-process",
            Self::GSingleProcess => "G-single-process",
            Self::GNonadjacentItemProcess => "G-nonadjacent-item-process",
            Self::GNonadjacentProcess => "G-nonadjacent-process",
            Self::G2ItemProcess => "G2-item-process",
            Self::G2Process => "G2-process",
            Self::G0Realtime => "G0-realtime",
            Self::G1cRealtime => "G1c-realtime",
            Self::GSingleRealtime => "G-single-realtime",
            Self::GNonadjacentItemRealtime => "G-nonadjacent-item-realtime",
            Self::GNonadjacentRealtime => "G-nonadjacent-realtime",
            Self::G2ItemRealtime => "G2-item-realtime",
            Self::G2Realtime => "G2-realtime",
            Self::GSIa => "G-SIa",
            Self::GSIb => "G-SIb",
            Self::MissedRow => "missed row",
            Self::Internal => "internal",
            Self::CorruptRead => "corrupt read",
            Self::IncompatibleOrder => "incompatible order",
            Self::Duplicate => "duplicate",
        }
    }

    /// Its meaning, in a line.
    pub fn meaning(self) -> String {
        let (kind, order) = self.split();
        let order = match order {
            CycleOrder::Dependencies => "",
            CycleOrder::Process => "; an edge is the order of one process",
            CycleOrder::Realtime => "; an edge is real-time order",
        };
        format!("{}{order}", kind.dependencies_mean())
    }

    fn dependencies_mean(self) -> &'static str {
        match self {
            Self::G0 => "dirty write: transactions overwrote each other's writes in a circle",
            Self::G1a => "aborted read: a committed transaction read what an aborted one wrote",
            Self::G1b => "intermediate read: a committed transaction read what its writer then replaced",
            Self::G1c => "circular information flow: transactions saw each other's writes",
            Self::DirtyUpdate => "a committed write was built on an aborted one",
            Self::LostUpdate => "a row that changed after it was read was overwritten",
            Self::NonRepeatableRead => "a transaction read two states of one key",
            Self::GSingle => "a cycle with exactly one anti-dependency",
            Self::GNonadjacentItem => "a cycle with several anti-dependencies, none next to another, all between rows",
            Self::GNonadjacent => {
                "a cycle with several anti-dependencies, none next to another, of which one is a phantom"
            }
            Self::G2Item => "a cycle with several anti-dependencies, all between rows",
            Self::G2 => "a cycle with several anti-dependencies, of which one is a phantom",
            Self::GSIa => "a transaction saw or overwrote what was committed after its snapshot",
            Self::GSIb => "a transaction read an older version than its snapshot has",
            Self::MissedRow => "a row was not shown that was there by the transaction's own snapshot",
            Self::Internal => "a transaction did not see its own write",
            Self::CorruptRead => "a read returned what no transaction wrote",
            Self::IncompatibleOrder => "no order of the versions of a key explains all reads of it",
            Self::Duplicate => "a value that was written once was read twice",
            _ => unreachable!("cycles with an order were split"),
        }
    }

    /// Whether a level forbids it.
    pub fn is_forbidden_by(self, level: Level) -> bool {
        let (kind, order) = self.split();
        let from = match order {
            CycleOrder::Dependencies => Level::ReadCommitted,
            CycleOrder::Process => Level::StrongSessionSerializable,
            CycleOrder::Realtime => Level::StrictSerializable,
        };
        level >= from
            && match kind {
                Self::LostUpdate
                | Self::NonRepeatableRead
                | Self::GSingle
                | Self::GNonadjacentItem
                | Self::GNonadjacent => level >= Level::SnapshotIsolation,
                // On their own they are reads of another state: serializable, unless they close a cycle.
                Self::GSIa | Self::GSIb | Self::MissedRow => level == Level::SnapshotIsolation,
                Self::G2Item | Self::G2 => level >= Level::Serializable,
                _ => true,
            }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A level of isolation, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Level {
    /// PL-2: neither G0 nor G1.
    #[serde(rename = "rc")]
    ReadCommitted,
    /// PL-SI: nor G-single or G-nonadjacent; if a history says which snapshot a transaction read, the reads must agree
    /// with it.
    #[serde(rename = "si")]
    SnapshotIsolation,
    /// PL-3: no cycle at all.
    #[serde(rename = "serializable")]
    Serializable,
    /// Serializable in an order that agrees with that of every process (Daudjee and Salem 2004).
    #[serde(rename = "strong-session-serializable")]
    StrongSessionSerializable,
    /// PL-SS: serializable in an order that agrees with real time.
    #[serde(rename = "strict-serializable")]
    StrictSerializable,
}

impl Level {
    /// All levels, weakest first.
    pub const ALL: [Self; 5] = [
        Self::ReadCommitted,
        Self::SnapshotIsolation,
        Self::Serializable,
        Self::StrongSessionSerializable,
        Self::StrictSerializable,
    ];

    /// Its full name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadCommitted => "read committed",
            Self::SnapshotIsolation => "snapshot isolation",
            Self::Serializable => "serializable",
            Self::StrongSessionSerializable => "strong session serializable",
            Self::StrictSerializable => "strict serializable",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
