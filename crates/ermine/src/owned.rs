//! Transactions and receipts that keep their database open: for sessions, which live as long as their clients want.
//!
//! Invariants
//! 1. The borrow of the database ends before the database may be closed: what borrows is declared, and so dropped, first.
//! 2. Nothing that is handed out outlives the borrow of the owner: what a transaction shows borrows the transaction.

use std::{
    future::Future,
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use crate::{
    database::Database, error::Result, ids::Stamp, log::Receipt, options::TxnOptions, savepoints::Savepoint,
    transaction::Transaction,
};

/// A [`Transaction`] that keeps its database open.
pub struct OwnedTransaction {
    transaction: Transaction<'static>,
    database: Arc<Database>,
}

/// A [`Receipt`] that keeps its database open.
#[must_use = "the commit may not be durable yet: wait for it, await it, or say by drop that it need not be"]
pub struct OwnedReceipt {
    receipt: Receipt<'static>,
    _database: Arc<Database>,
}

impl Database {
    /// As [`Database::begin`], for a transaction that is kept in a structure, be it for long.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ermine::{Database, Options, OwnedTransaction, TxnOptions};
    /// struct Session { transaction: OwnedTransaction }
    ///
    /// let db = Arc::new(Database::open_in_memory(Options::default())?);
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// let session = Session { transaction: db.begin_owned(TxnOptions::default())? };
    /// drop(db);
    /// session.transaction.put(&accounts, &7, &100)?;
    /// session.transaction.commit()?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn begin_owned(self: &Arc<Self>, options: TxnOptions) -> Result<OwnedTransaction> {
        let transaction = self.begin(options)?;
        // SAFETY: invariants 1 and 2: the `Arc` beside it keeps the database where it is until the transaction has been dropped, and
        // the lifetime shows up in nothing that a borrowed transaction gives.
        let transaction = unsafe { std::mem::transmute::<Transaction<'_>, Transaction<'static>>(transaction) };
        Ok(OwnedTransaction { transaction, database: self.clone() })
    }
}

impl Deref for OwnedTransaction {
    type Target = Transaction<'static>;

    fn deref(&self) -> &Self::Target {
        &self.transaction
    }
}

impl OwnedTransaction {
    /// As [`Transaction::commit`].
    pub fn commit(self) -> Result<Stamp> {
        self.transaction.commit()
    }

    /// As [`Transaction::commit_async`].
    pub fn commit_async(self) -> Result<OwnedReceipt> {
        let Self { transaction, database } = self;
        Ok(OwnedReceipt { receipt: transaction.commit_async()?, _database: database })
    }

    /// As [`Transaction::commit_reads`].
    pub fn commit_reads(self) -> Result<Stamp> {
        self.transaction.commit_reads()
    }

    /// As [`Transaction::roll_back_to`].
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.roll_back_to(savepoint)
    }

    /// As [`Transaction::release`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.release(savepoint)
    }

    /// As [`Transaction::renew_snapshot`].
    pub fn renew_snapshot(&mut self) -> Result<()> {
        self.transaction.renew_snapshot()
    }

    /// Rolls back, as dropping does.
    pub fn rollback(self) {}
}

impl OwnedReceipt {
    /// As [`Receipt::stamp`].
    pub fn stamp(&self) -> Stamp {
        self.receipt.stamp()
    }

    /// As [`Receipt::is_durable`].
    pub fn is_durable(&self) -> bool {
        self.receipt.is_durable()
    }

    /// As [`Receipt::wait`].
    pub fn wait(self) -> Result<Stamp> {
        let Self { receipt, _database } = self;
        receipt.wait()
    }
}

impl Future for OwnedReceipt {
    type Output = Result<Stamp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.receipt).poll(context)
    }
}
