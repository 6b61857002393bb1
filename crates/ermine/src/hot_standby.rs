//! A standby that is open for reading: the received log is replayed into an image of the original, in memory.
//!
//! ```text
//!   piece -> LogReceiver: the files of the standby, durable        -> promotion opens them
//!              | the committed transactions in them, in order: perhaps while the next piece is received
//!              v
//!            image: a database in memory, opened from the files as they were then; nothing writes to it
//!                   but the replay                                 -> read-only transactions
//! ```
//!
//! The image is a database of its own: it reads the files of the standby through an overlay, which keeps all that
//! opening changes in memory, and it has no log. The replay writes each transaction of the original as a transaction of
//! the image, by keys. So readers of the image are readers of an ordinary database with snapshots: they wait for
//! nothing, and the replay waits for none of them. What it costs is memory: the versions that an old snapshot sees stay.
//!
//! Invariants
//! 1. *A prefix.* A snapshot of the image shows the original as it was at one position: transactions are replayed whole,
//!    one after the other, in the order of their commits.
//! 2. *Durable first.* What a reader sees is in the files of the standby: a standby that is opened again, or promoted,
//!    has it.
//! 3. *No guess.* An insert finds no row, an update and a delete find one; otherwise image and original are different,
//!    and replaying ends with an error.
//! 4. *Below `replayed`, all.* A transaction that begins after a position was published as replayed sees every commit
//!    below it.
//!
//! Serializable? A snapshot of a prefix need not be one that a serial order of the original contains (the read-only
//! anomaly: Fekete, O'Neil and O'Neil, 2004), so the image is one under snapshot isolation, and says so
//! ([`Database::scheme`]). But the original can mark prefixes that are ([`Database::mark_safe_snapshot`]): a
//! transaction that asks for a safe snapshot ([`Database::snapshot`]) reads the newest of them.

use std::{
    ops::ControlFlow,
    panic::resume_unwind,
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use smallvec::SmallVec;

use crate::{
    access::{Put, sealed::Attempt as _, sealed::Operations as _},
    any::{AnyAccess, with_engine},
    catalog::TableEntry,
    database::Database,
    durable::shipping::{
        LogPiece,
        changes::{Change, CommittedTransaction, RowChange, RowWrite, Rows},
        received::{Received, ReceivedLog},
        receiver::LogReceiver,
    },
    error::{Error, Result},
    ids::TableId,
    options::{Isolation, Options, Replayed, TxnOptions},
    types::KeyList,
};

/// A standby that answers read-only transactions while it receives the log of another database. See
/// [`LogReceiver`] for one that only receives.
///
/// The original has to log keys ([`Options::log_keys`]).
///
/// ```
/// use ermine::{Database, HotStandby, Options};
/// # let path = std::env::temp_dir().join(format!("ermine-doc-hot-standby-{}", std::process::id()));
/// # std::fs::create_dir(&path).unwrap();
/// let db = Database::open(path.join("original"), Options::default().keep_log(1 << 30).log_keys(true))?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// db.backup(path.join("standby"))?;
/// let mut standby = HotStandby::open(path.join("standby"), Options::default())?;
/// let image = standby.database().clone();
/// let there = image.table::<u64, i64>("accounts")?;
///
/// db.run(|txn| txn.put(&accounts, &7, &100))?;
/// let mut reader = db.log_reader(Some(standby.position()))?;
/// while let Some(piece) = reader.next(1 << 20)? {
///     standby.receive(&piece)?; // durable, and readable, when this returns
/// }
/// assert_eq!(image.run(|txn| txn.get(&there, &7))?, Some(100));
/// assert!(image.run(|txn| txn.put(&there, &7, &0)).is_err());
/// # drop(reader);
/// # drop((db, image, standby));
/// # std::fs::remove_dir_all(&path).unwrap();
/// # Ok::<_, ermine::Error>(())
/// ```
pub struct HotStandby {
    receiver: LogReceiver,
    image: Image,
}

/// What is read: the state of the original at a position.
struct Image {
    database: Arc<Database>,
    log: ReceivedLog,
    replayed: Arc<Replayed>,
    safe: Option<Safe>,
    /// A transaction has been applied to the image, and what had to follow has failed.
    is_broken: bool,
}

/// What was read of the log, and is to be replayed.
struct Part {
    /// What blocks say, each with the position behind it.
    received: Vec<(u64, Received)>,
    /// The position behind the part.
    end: u64,
    /// Why no more can be read.
    ended: Result<()>,
}

/// The safe snapshot of the image.
struct Safe {
    /// When it was marked, by the clock of the original.
    time: SystemTime,
    /// Nothing has been committed since.
    is_newest: bool,
}

impl Safe {
    /// Beyond this age, a transaction had better wait for the next one: the original marks none at present.
    const AGE_MAX: Duration = Duration::from_secs(1);

    fn is_old(&self, now: SystemTime) -> bool {
        // The clock may have been set back, or be that of another machine.
        let age = now.duration_since(self.time).unwrap_or_else(|ahead| ahead.duration());
        !self.is_newest && age > Self::AGE_MAX
    }
}

/// Shows a transaction in the image; called once.
pub type Apply<'a> = dyn FnMut() -> Result<()> + 'a;

/// Gets each transaction, and the function that shows it.
type Replay<'a> = dyn FnMut(&CommittedTransaction, &mut Apply<'_>) -> Result<()> + 'a;

impl HotStandby {
    /// Opens a standby, or makes one of a backup ([`LogReceiver::open`]), and its image. The options of the original that
    /// say how rows are kept in memory apply to the image ([`Options::memory_limit`]); those for files and for the
    /// isolation of transactions do not.
    ///
    /// Opening takes as long as the recovery of a database with these files.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::of(LogReceiver::open(path)?, options).map_err(|failed| failed.1)
    }

    /// Opens the image of a standby that receives. A failure gives the receiver back, which goes on without an image.
    pub fn of(receiver: LogReceiver, options: Options) -> Result<Self, Box<(LogReceiver, Error)>> {
        let replayed = Arc::new(Replayed::new(receiver.position()));
        let database = match Database::open_image(receiver.directory(), options, replayed.clone()) {
            Ok(database) => database,
            Err(error) => return Err(Box::new((receiver, error))),
        };
        let log = ReceivedLog::new(receiver.files().clone(), receiver.position());
        let safe = ReceivedLog::safe_end(&receiver).map(|time| Safe { time, is_newest: true });
        if safe.is_some() {
            with_engine!(&*database.engine, engine => engine.adopt_safe_snapshot(receiver.position()));
        }
        let image = Image { database: Arc::new(database), log, replayed, safe, is_broken: false };
        Ok(Self { receiver, image })
    }

    /// Returns the image. All of its transactions are read-only, under snapshot isolation: a write, the creation of a
    /// table and other changes fail with [`Error::Standby`]. [`Database::snapshot`] is serializable with the original's
    /// transactions: it reads the newest state that the original has marked ([`Database::mark_safe_snapshot`]), and
    /// fails with [`Error::NoSnapshot`] where there is none. To read by a secondary index, open it before the table's
    /// next rows are received: as in any database, a table is written only when all its indexes are open.
    ///
    /// The image is a copy of its own in memory. Drop it before a promoted standby is opened.
    pub fn database(&self) -> &Arc<Database> {
        &self.image.database
    }

    /// Returns the identity of the original.
    pub fn identity(&self) -> [u8; 16] {
        self.receiver.identity()
    }

    /// Returns the position up to which the standby has the log: the next piece begins there or before.
    pub fn position(&self) -> u64 {
        self.receiver.position()
    }

    /// Appends a piece, durably ([`LogReceiver::receive`]), and replays it.
    ///
    /// When the replay fails, the piece has been received. The next call replays what is missing: after
    /// [`Error::OutOfMemory`] when memory is free again, after [`Error::Schema`] for an index that was not open when it
    /// is. After a transaction that was logged without keys ([`Error::Options`]), and after an index that the original has
    /// built over rows, the standby has to be opened again. A transaction is in memory as a whole while it is replayed,
    /// which [`Options::memory_limit`] does not count.
    pub fn receive(&mut self, piece: &LogPiece) -> Result<()> {
        self.receive_with(piece, &mut |_, apply| apply())
    }

    /// Works as [`HotStandby::receive`]. `replay` gets each transaction, and makes it visible in the image by calling the
    /// function that comes with it: its rows are written by then, so that this takes no longer for many.
    pub fn receive_with(&mut self, piece: &LogPiece, replay: &mut Replay<'_>) -> Result<()> {
        self.receiver.receive(piece)?;
        self.image.replay(self.receiver.position(), replay)
    }

    /// Appends pieces, durably, and replays them, as [`HotStandby::receive`] does one after the other; but another
    /// thread takes, writes and reads the next ones, while this thread replays those before: 4 MiB of log are in memory
    /// then, or four transactions, if these are longer. `pieces` are taken as long as there are any and nothing fails;
    /// those that were taken when the replay fails have been received.
    pub fn receive_all(&mut self, pieces: impl Iterator<Item = Result<LogPiece>> + Send) -> Result<()> {
        self.receive_all_with(pieces, &mut |_, apply| apply())
    }

    /// Works as [`HotStandby::receive_all`], with `replay` as [`HotStandby::receive_with`] has it.
    pub fn receive_all_with(
        &mut self,
        mut pieces: impl Iterator<Item = Result<LogPiece>> + Send,
        replay: &mut Replay<'_>,
    ) -> Result<()> {
        /// Parts that wait for the replay, beside the one that is read.
        const AHEAD: usize = 2;
        if let Some(first) = pieces.next() {
            self.receiver.receive(&first?)?;
        }
        let mut taken = pieces.next();
        if taken.is_none() {
            return self.image.replay(self.receiver.position(), replay);
        }
        let Self { receiver, image } = self;
        let mut log = image.log.clone();
        thread::scope(|scope| {
            let (parts, received) = mpsc::sync_channel(AHEAD);
            let receiving = thread::Builder::new().name("ermine-receiver".into()).spawn_scoped(scope, move || {
                loop {
                    let part = Part::read(&mut log, receiver.position());
                    let is_last = part.ended.is_err();
                    // The channel ends with the replay when it fails.
                    if parts.send(part).is_err() || is_last {
                        return taken.map_or(Ok(()), |piece| receiver.receive(&piece?));
                    }
                    if log.position() >= receiver.position() {
                        let Some(piece) = taken.take().or_else(|| pieces.next()) else { return Ok(()) };
                        receiver.receive(&piece?)?;
                    }
                }
            });
            let receiving = receiving.map_err(|_| Error::Limit("threads: a receiver could not start"))?;
            let replayed = received.into_iter().try_for_each(|part| image.replay_part(part, replay));
            let received = receiving.join().unwrap_or_else(|panic| resume_unwind(panic));
            received.and(replayed)
        })
    }

    /// Makes the standby a database of its own ([`LogReceiver::promote`]). Drop the image before it is opened.
    pub fn promote(self) -> Result<()> {
        self.receiver.promote()
    }

    /// Returns the standby without its image.
    pub fn into_receiver(self) -> LogReceiver {
        self.receiver
    }
}

impl Part {
    /// Reads on up to `end`, or less.
    fn read(log: &mut ReceivedLog, end: u64) -> Self {
        /// Bytes of log, or of what was read of it, with which a part is long enough.
        const ENOUGH: u64 = 1 << 20;
        let (from, mut received, mut bytes) = (log.position(), Vec::new(), 0);
        let ended = log.read(end, &mut |behind, one| {
            bytes += one.bytes();
            received.push((behind, one));
            let is_long = behind - from >= ENOUGH || bytes >= ENOUGH;
            Ok(if is_long { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        Self { received, end: log.position(), ended }
    }
}

impl Image {
    /// Replays what was received up to this position and has not been replayed.
    fn replay(&mut self, to: u64, replay: &mut Replay<'_>) -> Result<()> {
        let mut log = self.log.clone();
        log.read(to, &mut |behind, received| self.show(behind, received, replay).map(|()| ControlFlow::Continue(())))?;
        self.log = log;
        self.reached(to);
        Ok(())
    }

    /// Replays a part of the log, the next one.
    fn replay_part(&mut self, part: Part, replay: &mut Replay<'_>) -> Result<()> {
        part.received.into_iter().try_for_each(|(behind, received)| self.show(behind, received, replay))?;
        self.reached(part.end);
        part.ended
    }

    /// Replays what a block says, behind which is this position.
    fn show(&mut self, behind: u64, received: Received, replay: &mut Replay<'_>) -> Result<()> {
        let Self { database, safe, .. } = self;
        if self.is_broken {
            let what = "the image of the standby has failed after a transaction was applied: open the standby again";
            return Err(Error::Storage(what.into()));
        }
        match received {
            Received::Committed(rows) => self.apply(rows, replay)?,
            Received::SafeSnapshot(position, time) => {
                *safe = Some(Safe { time, is_newest: true });
                with_engine!(&*database.engine, engine => engine.adopt_safe_snapshot(position));
            }
            Received::Moment(time) => {
                if safe.as_ref().is_some_and(|safe| safe.is_old(time)) {
                    *safe = None;
                    database.forget_safe_snapshot();
                }
            }
        }
        self.log.pass(behind);
        Ok(())
    }

    /// Applies a transaction, when `replay` says so.
    fn apply(&mut self, rows: Rows, replay: &mut Replay<'_>) -> Result<()> {
        let Self { database, replayed, safe, is_broken, .. } = self;
        let tables = rows.tables()?;
        let committed =
            rows.transaction(|table| with_engine!(&*database.engine, engine => engine.tables.name_of(table)));
        let at = committed.stamp.as_u64();
        let (mut written, mut is_applied) = (write(database, &tables, &committed)?, false);
        let mut apply = || {
            // Release: pairs with `Database::shown_below`, for a transaction that sees this one.
            replayed.begun_to.store(at + 1, Ordering::Release);
            if let Some(txn) = written.take() {
                drop(txn.commit_async()?);
            }
            is_applied = true;
            drop_tables(database, &committed)?;
            // Release: pairs with `Database::replayed`. The stamp is where the transaction's block begins: all that
            // committed up to there has been applied.
            replayed.to.store(at + 1, Ordering::Release);
            Ok(())
        };
        let shown = replay(&committed, &mut apply);
        if shown.is_ok() && !is_applied {
            return Err(Error::Options("a transaction of the log was not applied: call the function".into()));
        }
        *is_broken |= shown.is_err() && is_applied;
        safe.iter_mut().for_each(|safe| safe.is_newest &= !is_applied);
        shown
    }

    /// Everything below this position has been replayed.
    fn reached(&mut self, position: u64) {
        let Self { database, log, replayed, safe, .. } = self;
        log.pass(position);
        // Release: pairs with `Database::replayed`.
        replayed.to.store(position, Ordering::Release);
        if safe.as_ref().is_some_and(|safe| safe.is_newest) {
            // Nothing has been committed behind its mark.
            with_engine!(&*database.engine, engine => engine.adopt_safe_snapshot(position));
        }
    }
}

/// Writes a transaction of the original to the image, in one transaction, which is returned; `None`: it has no rows.
fn write<'i>(
    image: &'i Database,
    tables: &[TableEntry],
    committed: &CommittedTransaction,
) -> Result<Option<AnyAccess<'i>>> {
    for entry in tables {
        with_engine!(&*image.engine, engine => engine.tables.replay(entry))?;
    }
    let rows = || {
        committed.changes.iter().filter_map(|change| match change {
            // Without a name: of a table that has been dropped since.
            Change::Row(row) if row.table_name.is_some() => Some(row),
            _ => None,
        })
    };
    match write_rows(image, rows()) {
        // A unique key that one row has given up was taken by an earlier row of the same transaction.
        Err(Error::KeyExists { .. }) => {
            let of = |write: RowWrite| move |row: &RowChange| RowChange { write: write.clone(), ..row.clone() };
            let given_up: Vec<_> = rows().filter(|row| !is_insert(row)).map(of(RowWrite::Delete)).collect();
            let written = rows().filter_map(|row| match &row.write {
                RowWrite::Insert(value) | RowWrite::Update(value) => {
                    Some(RowChange { write: RowWrite::Insert(value.clone()), ..row.clone() })
                }
                RowWrite::Delete => None,
            });
            let written: Vec<_> = written.collect();
            write_rows(image, given_up.iter().chain(&written))
        }
        written => written,
    }
}

/// Drops the tables that a transaction of the original has dropped.
fn drop_tables(image: &Database, committed: &CommittedTransaction) -> Result<()> {
    for change in &committed.changes {
        if let Change::TableDropped { name, .. } = change {
            with_engine!(&*image.engine, engine => engine.tables.drop_table(name, false, |_, _| Ok(())))?;
        }
    }
    Ok(())
}

fn is_insert(row: &RowChange) -> bool {
    matches!(row.write, RowWrite::Insert(_))
}

/// Writes rows in one transaction.
fn write_rows<'i, 'r>(
    image: &'i Database,
    rows: impl Iterator<Item = &'r RowChange> + Clone,
) -> Result<Option<AnyAccess<'i>>> {
    /// Rows that are loaded ahead at a time.
    const AHEAD: usize = 64;
    if rows.clone().next().is_none() {
        return Ok(None);
    }
    let options = TxnOptions { replays: true, isolation: Isolation::Snapshot, ..TxnOptions::default() };
    let txn = image.engine.begin(options)?;
    let (mut ahead, mut rows) = (rows.clone(), rows.peekable());
    while rows.peek().is_some() {
        load_ahead(&txn, ahead.by_ref().take(AHEAD))?;
        for RowChange { table, key, write, .. } in rows.by_ref().take(AHEAD) {
            let is_as_said = match write {
                RowWrite::Insert(value) => txn.put(*table, key, value, Put::Insert)?,
                RowWrite::Update(value) => txn.put(*table, key, value, Put::Update)?,
                RowWrite::Delete => txn.delete(*table, key)?,
            };
            if !is_as_said {
                return Err(not_there(image, *table));
            }
        }
    }
    Ok(Some(txn))
}

/// Starts loading the rows that are there: their waits for memory overlap.
fn load_ahead<'r>(txn: &AnyAccess<'_>, rows: impl Iterator<Item = &'r RowChange>) -> Result<()> {
    /// A few rows are found faster than they are loaded ahead.
    const ROWS_MIN: usize = 3;
    let mut keys: SmallVec<[(TableId, KeyList); 4]> = SmallVec::new();
    for row in rows.filter(|row| !is_insert(row)) {
        let at = keys.iter().position(|(table, _)| *table == row.table).unwrap_or_else(|| {
            keys.push((row.table, KeyList::default()));
            keys.len() - 1
        });
        keys[at].1.push_encoded(&row.key);
    }
    let mut many = keys.iter().filter(|(_, keys)| keys.len() >= ROWS_MIN);
    many.try_for_each(|(table, keys)| txn.prefetch(*table, keys))
}

fn not_there(image: &Database, table: TableId) -> Error {
    let name = with_engine!(&*image.engine, engine => engine.tables.name_of(table));
    Error::Storage(format!(
        "the original has changed a row of table {} that the standby does not have: make the standby again, from a \
         new backup",
        name.as_deref().unwrap_or_default()
    ))
}
