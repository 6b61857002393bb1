//! The state that schemes see and change: the table, the transactions in flight, the order of commits.

use std::ops::{Index, IndexMut};

use crate::{
    outcome::Cause,
    table::{Slot, Stamp, Table},
    transaction::Transaction,
};

/// What schemes see of a database.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) table: Table,
    transactions: Vec<Transaction>,
    /// The stamp of the last commit.
    pub(crate) clock: Stamp,
    /// The stamp of the last safe snapshot; zero if there was none.
    pub(crate) safe_snapshot: Stamp,
    /// The transactions for which an access that was refused, or the retry of its transaction, has to wait.
    predecessors: Vec<Slot>,
}

impl Database {
    pub(crate) fn new(records: u32) -> Self {
        Self {
            table: Table::new(records),
            transactions: Vec::new(),
            clock: Stamp::ZERO,
            safe_snapshot: Stamp::ZERO,
            predecessors: Vec::new(),
        }
    }

    /// Makes room for one more transaction in flight.
    pub(crate) fn add_slot(&mut self) -> Slot {
        self.transactions.push(Transaction::default());
        Slot(self.transactions.len() as u32 - 1)
    }

    /// Refuses an access until this transaction has ended, too.
    pub(crate) fn wait_for(&mut self, predecessor: Slot) -> Refusal {
        self.predecessors.push(predecessor);
        Refusal::Wait
    }

    /// Refuses an access for good; a retry of the transaction would be in vain until the opponent has ended, too.
    pub(crate) fn lose_to(&mut self, opponent: Slot, cause: Cause) -> Refusal {
        self.predecessors.push(opponent);
        Refusal::Abort(cause)
    }

    /// Takes the transactions for which the refused access, or the retry, has to wait.
    pub(crate) fn take_predecessors(&mut self) -> Vec<Slot> {
        std::mem::take(&mut self.predecessors)
    }

    /// Returns the memory of a list that was taken.
    pub(crate) fn keep_memory(&mut self, mut predecessors: Vec<Slot>) {
        predecessors.clear();
        self.predecessors = predecessors;
    }
}

/// An access that cannot take place now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It waits for the transactions named to [`Database::wait_for`].
    Wait,
    /// The transaction aborts.
    Abort(Cause),
}

impl Index<Slot> for Database {
    type Output = Transaction;

    fn index(&self, slot: Slot) -> &Transaction {
        &self.transactions[slot.at()]
    }
}

impl IndexMut<Slot> for Database {
    fn index_mut(&mut self, slot: Slot) -> &mut Transaction {
        &mut self.transactions[slot.at()]
    }
}
