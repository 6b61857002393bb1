//! Facts about a transaction in addition to its operations: when it ran, in which process, and what it was promised.

pub use ermine::observer::Moment;

/// A session: its transactions run one after the other. A thread, a connection, a process of Jepsen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process(pub u32);

/// The transactions that a transaction is promised to come after, in addition to those that it depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Order {
    /// None.
    None,
    /// Those of its process that had ended before it began.
    Process,
    /// All that had ended before it began.
    #[default]
    Realtime,
}

/// Facts about a transaction in addition to its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionContext {
    /// The process that it belongs to.
    pub process: Option<Process>,
    /// It had not begun before this moment; `None`: not known.
    pub began: Option<Moment>,
    /// It had ended by this moment; `None`: not known, or it never ended.
    pub ended: Option<Moment>,
    /// The order that it was promised.
    pub order: Order,
    /// It was promised the snapshot of its begin stamp: the newest versions that were committed below.
    pub snapshot: bool,
}
