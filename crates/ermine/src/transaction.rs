//! A running transaction with typed operations, as applications use it.

use std::{cell::RefCell, marker::PhantomData, ops::Bound};

use crate::{
    access::{Access, Put, RowLock},
    any::AnyAccess,
    error::Result,
    handle::{SecondaryIndex, Table},
    ids::{IndexOrdinal, Tid},
    savepoints::Savepoint,
    scan::Scan,
    types::{AsKey, AsValue, Key, KeyBuffer, KeyList, KeyRange, Value},
    work::Work,
};

/// A running transaction.
///
/// Every operation sees the transaction's own writes. A view that was returned stays readable until the transaction
/// ends. The transaction may move to another thread between operations; dropping it rolls it back.
pub struct Transaction<'db, A: Access = AnyAccess<'db>> {
    access: A,
    /// Address of the database's identity, which the handles of its tables are compared with.
    database: usize,
    /// Buffers in which keys and values are encoded.
    scratch: RefCell<[Vec<u8>; 2]>,
    lifetime: PhantomData<&'db ()>,
}

impl<'db, A: Access> Transaction<'db, A> {
    pub(crate) fn new(access: A) -> Self {
        Self { database: access.database().address(), access, scratch: RefCell::default(), lifetime: PhantomData }
    }

    pub(crate) fn into_access(self) -> A {
        self.access
    }

    pub(crate) fn access(&self) -> &A {
        &self.access
    }

    /// Returns the address of the database's identity.
    pub(crate) fn database(&self) -> usize {
        self.database
    }

    /// Returns the value under `key`, copied out; `None` when there is none.
    pub fn get<K: Key, V: Value>(&self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Result<Option<V>> {
        self.bytes(table, key)?.map(|bytes| table.framing().decode(bytes)).transpose()
    }

    /// Returns the value under `key`, borrowed from the version itself for bytes and fixed structs.
    pub fn view<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<Option<V::View<'_>>> {
        self.bytes(table, key)?.map(|bytes| table.framing().view::<V>(bytes)).transpose()
    }

    /// Shows `visit` the value under `key` as [`view`](Self::view) returns it, for the length of the call; returns what
    /// `visit` returns, or `None` when there is no row.
    ///
    /// For a transaction that reads much: a row of `view` stays readable until the transaction ends, and so stays in
    /// memory.
    pub fn view_with<K: Key, V: Value, R>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        visit: impl FnOnce(V::View<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let (framing, mut visit, mut result) = (table.framing(), Some(visit), None);
        self.access.read(table.id_in(self.database)?, &encoded(key), &mut |bytes| {
            let visit = visit.take().expect("a row is shown once");
            result = Some(visit(framing.view::<V>(bytes)?)?);
            Ok(())
        })?;
        Ok(result)
    }

    /// Returns the values under several keys, in the order of the keys, copied out.
    ///
    /// Reads the same as one call of [`get`](Self::get) per key, in less time where rows are not in the processor's
    /// caches: the rows are loaded from memory in parallel. The device reads those that are only in files many at a
    /// time, where the system supports that.
    pub fn get_many<'k, K: Key, V: Value, Q: AsKey<K> + ?Sized + 'k>(
        &self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = &'k Q>,
    ) -> Result<Vec<Option<V>>> {
        self.many(table, keys, |bytes| table.framing().decode(bytes))
    }

    /// Works as [`get_many`](Self::get_many), with values borrowed as by [`view`](Self::view).
    pub fn view_many<'k, K: Key, V: Value, Q: AsKey<K> + ?Sized + 'k>(
        &self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = &'k Q>,
    ) -> Result<Vec<Option<V::View<'_>>>> {
        self.many(table, keys, |bytes| table.framing().view::<V>(bytes))
    }

    /// Starts loading the rows under several keys into the processor's caches, from memory, in parallel, and has the
    /// device begin to read those that are only in files, where the system supports that. A hint: it reads nothing that
    /// the transaction would depend on, and keys that are not there are no error.
    ///
    /// Useful before rows are read and written one after another. [`get_many`](Self::get_many) needs no hint;
    /// [`Database::run_many`](crate::Database::run_many) gives hints for many transactions.
    pub fn prefetch<'k, K: Key, V: Value, Q: AsKey<K> + ?Sized + 'k>(
        &self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = &'k Q>,
    ) -> Result<()> {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key));
        self.access.prefetch(table.id_in(self.database)?, &list)
    }

    /// Returns whether there is a row under `key`.
    pub fn contains<K: Key, V: Value>(&self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Result<bool> {
        Ok(self.bytes(table, key)?.is_some())
    }

    /// Inserts a row; fails with [`crate::Error::KeyExists`] when there is one, and the transaction goes on.
    pub fn insert<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.write(table, key, value, Put::Insert).map(drop)
    }

    /// Replaces the value of a row; returns whether there was one.
    pub fn update<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<bool> {
        self.write(table, key, value, Put::Update)
    }

    /// Reads a row, lets `change` edit its value, and writes it; returns what `change` returns, or `None` when there is
    /// no row. If `change` fails, nothing is written. Under [`crate::Scheme::Rc`], which promises no more, a value that
    /// another transaction writes between the two is overwritten, and a row that it deletes is `None`.
    ///
    /// ```
    /// # use ermine::{Database, Error, Options};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.run(|txn| txn.put(&accounts, &7, &100))?;
    /// let left = db.run(|txn| {
    ///     let left = txn.modify(&accounts, &7, |balance| {
    ///         *balance -= 30;
    ///         if *balance < 0 { Err(Error::other("the account is overdrawn")) } else { Ok(*balance) }
    ///     })?;
    ///     left.ok_or_else(|| Error::other("there is no account 7"))
    /// })?;
    /// assert_eq!(left, 70);
    /// # Ok::<_, Error>(())
    /// ```
    pub fn modify<K: Key, V: Value + AsValue<V>, R>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        change: impl FnOnce(&mut V) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some(mut value) = self.get(table, key)? else { return Ok(None) };
        let result = change(&mut value)?;
        Ok(self.update(table, key, &value)?.then_some(result))
    }

    /// Inserts or replaces a row.
    pub fn put<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> Result<()> {
        self.write(table, key, value, Put::Upsert).map(drop)
    }

    /// Deletes a row; returns whether there was one.
    pub fn delete<K: Key, V: Value>(&self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Result<bool> {
        self.access.delete(table.id_in(self.database)?, &encoded(key))
    }

    /// Certifies the reads from now on, until it is called with `false`, in a transaction that asked for
    /// [`crate::Isolation::Snapshot`]: for facts that its writes depend on, such as the row that a foreign key refers
    /// to, at any level. The transaction then commits only if no cycle of dependencies goes through one of these reads,
    /// and keeps its snapshot. All reads of other transactions of serializable schemes are certified anyway. Returns
    /// false under schemes that certify nothing (`rc`, `si`), and in a transaction that only reads: no write of it
    /// depends on them.
    ///
    /// A transaction with such reads is one of the serializable transactions to which only some of its reads count:
    /// the promise to the others (Adya 1999, section 5.5) and the theorem of the certifier hold for every subset of the
    /// reads.
    pub fn certify_reads(&self, wanted: bool) -> Result<bool> {
        self.access.certify_reads(wanted)
    }

    /// Counts as a read of all rows of a table, without reading them; `false`: they have to be read.
    #[doc(hidden)]
    pub fn hold_table<K: Key, V: Value>(&self, table: &Table<K, V>) -> Result<bool> {
        self.access.hold_table(table.id_in(self.database)?)
    }

    /// Scans the rows of a range of primary keys, in key order.
    pub fn scan<'t, K: Key, V: Value>(&'t self, table: &Table<K, V>, range: impl KeyRange<K>) -> Scan<'t, A, K, V> {
        Scan::new(self, table, IndexOrdinal::PRIMARY, range.encode(), None)
    }

    /// Scans the rows whose key in a secondary index lies in a range, in the order of that index, then of the primary
    /// key.
    pub fn scan_by<'t, S: Key, K: Key, V: Value>(
        &'t self,
        index: &SecondaryIndex<S, K, V>,
        range: impl KeyRange<S>,
    ) -> Scan<'t, A, K, V> {
        Scan::new(self, index.table(), index.ordinal(), range.encode(), Some(S::skip))
    }

    /// Returns the row whose key in a unique index is `key`, copied out; `None` when there is none. In an index that is
    /// not unique, the first such row in the order of the primary key.
    ///
    /// ```
    /// # use ermine::{Database, Options, Uniqueness};
    /// # let db = Database::open_in_memory(Options::default())?;
    /// let users = db.table::<u64, String>("users")?;
    /// let by_name = db.index(&users, "by name", Uniqueness::Unique, |_, name| name.to_owned())?;
    /// db.run(|txn| txn.insert(&users, &7, "ada"))?;
    /// assert_eq!(db.run(|txn| txn.find_by(&by_name, "ada"))?, Some((7, "ada".to_owned())));
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn find_by<S: Key, K: Key, V: Value>(
        &self,
        index: &SecondaryIndex<S, K, V>,
        key: &(impl AsKey<S> + ?Sized),
    ) -> Result<Option<(K, V)>> {
        self.scan_by(index, key..=key).first()
    }

    /// Returns the obstacle that a write of a row would meet at the moment, without losing a conflict: for programs
    /// that take any one of several rows, preferably one that no other transaction uses. A write that follows may still
    /// lose. Under single-version schemes, and where there is no row, [`RowLock::Free`].
    pub fn row_lock<K: Key, V: Value>(&self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Result<RowLock> {
        self.access.row_lock(table.id_in(self.database)?, &encoded(key))
    }

    /// Whether the transaction sees the newest committed versions of all rows of a table, so that none of its writes
    /// there can lose to one that has committed since it began. Under single-version schemes, always.
    ///
    /// Visits the newest version of each row. `goes_on` is asked now and then; when it returns false, the search ends
    /// and the result says nothing.
    pub fn sees_newest<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool> {
        self.access.sees_newest(table.id_in(self.database)?, &mut goes_on)
    }

    /// Prepares the transaction to commit. From then on the commit does not lose a conflict: until this transaction
    /// ends, another one that writes into its read set (rows, ranges, or tables where the read set is no more precise)
    /// loses instead, with [`crate::AbortKind::WriteConflict`]; readers go on. Returns `false` if its reads have been
    /// overwritten, or conflict with another prepared transaction; then nothing is held, and its commit may still
    /// succeed. For a transaction that asked for [`crate::Isolation::Snapshot`] no reads are held. Under single-version
    /// schemes the result is `false`. A prepared transaction must not read or write data that others may change, and
    /// its savepoints are gone. Where the device is full, its commit waits until there is room.
    pub fn prepare(&self) -> Result<bool> {
        self.access.prepare()
    }

    /// Shows `each` the reads of a prepared transaction: tables, and ranges of encoded keys.
    pub fn reads(&self, mut each: impl FnMut(&str, Bound<&[u8]>, Bound<&[u8]>) -> Result<()>) -> Result<()> {
        self.access.reads(&mut each)
    }

    /// Returns the number by which conflicts of other transactions name this one ([`crate::Abort::other`]): `None`
    /// before its first write, and under single-version schemes.
    pub fn tid(&self) -> Result<Option<Tid>> {
        self.access.tid()
    }

    /// Returns the position of the transaction's snapshot in the log: the snapshot has what committed below it, and
    /// nothing that committed at or above it. When [`crate::Database::sync`] has returned, changes can be read from
    /// there ([`crate::Database::changes`]): the rows of the snapshot and those changes together are everything, once.
    ///
    /// A transaction at READ COMMITTED reads more than its snapshot. Single-version schemes: [`crate::Error::Options`].
    pub fn position(&self) -> Result<u64> {
        self.access.position()
    }

    /// Shows `each` every row that the transaction has written: the table's name, the encoded key, and the value;
    /// `None` for a row that it deleted. A row that was written several times is shown once.
    pub fn writes(&self, mut each: impl FnMut(&str, &[u8], Option<&[u8]>) -> Result<()>) -> Result<()> {
        self.access.writes(&mut each)
    }

    /// Returns the work that the transaction has done so far. The call takes longer the more the transaction has
    /// written.
    ///
    /// ```
    /// # let db = ermine::Database::open_in_memory(ermine::Options::default())?;
    /// let stock = db.table::<u64, i64>("stock")?;
    /// let txn = db.begin(ermine::TxnOptions::default())?;
    /// txn.put(&stock, &1, &10)?;
    /// let before = txn.work()?;
    /// txn.get(&stock, &1)?;
    /// assert_eq!(txn.work()?.since(before).rows_read, 1);
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn work(&self) -> Result<Work> {
        self.access.work()
    }

    /// Marks a point to which the transaction can be rolled back. It costs a few words; while there is a savepoint, a
    /// value that the transaction wrote before and overwrites is kept until the end.
    ///
    /// ```
    /// # let db = ermine::Database::open_in_memory(ermine::Options::default())?;
    /// let stock = db.table::<u64, i64>("stock")?;
    /// let mut txn = db.begin(ermine::TxnOptions::default())?;
    /// txn.put(&stock, &1, &10)?;
    /// let before = txn.savepoint()?;
    /// txn.put(&stock, &1, &9)?;
    /// txn.put(&stock, &2, &1)?;
    /// txn.roll_back_to(before)?;
    /// assert_eq!((txn.get(&stock, &1)?, txn.get(&stock, &2)?), (Some(10), None));
    /// txn.commit()?;
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn savepoint(&self) -> Result<Savepoint> {
        self.access.savepoint()
    }

    /// Undoes all writes since a savepoint, which stays; later savepoints are gone. Reads stay in the read set.
    ///
    /// A transaction that has lost a conflict is over and fails again here; but one of [`crate::Isolation::Snapshot`]
    /// that had a savepoint then goes on from there, and may [renew its snapshot](Self::renew_snapshot) first. The
    /// rollback itself loses a conflict where a row would get back a unique key that another transaction gave to
    /// another row meanwhile. Fails with [`crate::Error::NoSuchSavepoint`] where the savepoint does not exist.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.access.roll_back_to(savepoint)
    }

    /// Forgets a savepoint and those after it. The writes since then stay.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.access.release(savepoint)
    }

    /// Takes a new snapshot and goes on with it, under [`crate::Isolation::Snapshot`]; done before each statement, this
    /// is read committed. Otherwise nothing changes.
    pub fn renew_snapshot(&mut self) -> Result<()> {
        self.access.renew_snapshot()
    }

    fn bytes<K: Key, V: Value>(&self, table: &Table<K, V>, key: &(impl AsKey<K> + ?Sized)) -> Result<Option<&[u8]>> {
        self.access.get(table.id_in(self.database)?, &encoded(key))
    }

    fn many<'t, 'k, K: Key, V, Q: AsKey<K> + ?Sized + 'k, T>(
        &'t self,
        table: &Table<K, V>,
        keys: impl IntoIterator<Item = &'k Q>,
        read: impl Fn(&'t [u8]) -> Result<T>,
    ) -> Result<Vec<Option<T>>> {
        let mut list = KeyList::default();
        keys.into_iter().for_each(|key| list.push(key));
        let mut values = Vec::with_capacity(list.len());
        self.access.get_many(table.id_in(self.database)?, &list, &mut |bytes| {
            values.push(bytes.map(&read).transpose()?);
            Ok(())
        })?;
        Ok(values)
    }

    fn write<K: Key, V: Value>(
        &self,
        table: &Table<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
        how: Put,
    ) -> Result<bool> {
        let mut scratch = self.scratch.borrow_mut();
        let value = table.framing().encode(value, &mut scratch)?;
        self.access.put(table.id_in(self.database)?, &encoded(key), value, how)
    }
}

fn encoded<K: Key>(key: &(impl AsKey<K> + ?Sized)) -> KeyBuffer {
    let mut out = KeyBuffer::new();
    key.encode(&mut out);
    out
}
