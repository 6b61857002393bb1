//! Transactions and receipts that keep their database open: for sessions, which live as long as their clients want.
//!
//! Invariants
//! 1. The borrow of the database ends before the database may be closed: the borrowing field is declared first, and so
//!    dropped first.
//! 2. No reference that is handed out outlives the borrow of the owner: the views that a transaction returns borrow the
//!    transaction.

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
    /// Works as [`Database::begin`], for a transaction that is stored in a structure, possibly for long.
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
        // SAFETY: invariants 1 and 2: the `Arc` beside the transaction keeps the database in its place until the
        // transaction has been dropped, and the lifetime appears in no value that a borrowed transaction returns.
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
    /// Works as [`Transaction::commit`].
    pub fn commit(self) -> Result<Stamp> {
        self.transaction.commit()
    }

    /// Works as [`Transaction::commit_async`].
    pub fn commit_async(self) -> Result<OwnedReceipt> {
        let Self { transaction, database } = self;
        Ok(OwnedReceipt { receipt: transaction.commit_async()?, _database: database })
    }

    /// Works as [`Transaction::commit_reads`].
    pub fn commit_reads(self) -> Result<Stamp> {
        self.transaction.commit_reads()
    }

    /// Works as [`Transaction::roll_back_to`].
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.roll_back_to(savepoint)
    }

    /// Works as [`Transaction::release`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.transaction.release(savepoint)
    }

    /// Works as [`Transaction::renew_snapshot`].
    pub fn renew_snapshot(&mut self) -> Result<()> {
        self.transaction.renew_snapshot()
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn rollback(self) {}

    /// Returns the database that the transaction belongs to.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }
}

impl OwnedReceipt {
    /// Works as [`Receipt::stamp`].
    pub fn stamp(&self) -> Stamp {
        self.receipt.stamp()
    }

    /// Works as [`Receipt::locally`].
    pub fn locally(self) -> Self {
        Self { receipt: self.receipt.locally(), ..self }
    }

    /// Works as [`Receipt::and`].
    pub fn and(self, other: Self) -> Self {
        Self { receipt: self.receipt.and(other.receipt), ..self }
    }

    /// Works as [`Receipt::is_durable`].
    pub fn is_durable(&self) -> bool {
        self.receipt.is_durable()
    }

    /// Works as [`Receipt::wait`].
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
