//! Reads the durable log of an open database, piece by piece.
//!
//! Invariant: *large values first.* A piece carries the large values that its blocks refer to.

use std::{ops::ControlFlow, time::Duration};

use super::{
    Content, LargeValue, LogPiece,
    blocks::{DurableBlocks, LogFiles, Reach, Stretch},
};
use crate::{
    durable::store::Store,
    error::{Error, Result},
    log::{
        Log,
        block::{BlockKind, HEADER_BYTES, Header},
        identity::Identity,
        record::diverted,
    },
};

/// A skip that is longer than this ends its piece: its bytes need not be carried.
const LONG_SKIP_BYTES: u64 = 4096;

/// Reads the log of an open database, for a [`LogReceiver`](crate::LogReceiver) elsewhere. See
/// [`Database::log_reader`](crate::Database::log_reader).
pub struct LogReader<'db> {
    blocks: DurableBlocks<'db>,
    identity: Identity,
}

/// Holds the commits of a database until they are elsewhere as well: the synchronous replication of other databases.
///
/// A hold that is dropped, and was not ended, breaks the log: commits that nothing releases are not to wait forever.
pub struct CommitHold<'db> {
    log: &'db Log,
    has_ended: bool,
}

impl CommitHold<'_> {
    /// Reports the commits below a position as durable: all of the log below it is where it has to be.
    pub fn release_to(&self, position: u64) {
        self.log.hold_beyond(position);
    }

    /// Ends the hold: commits are durable when they are on this machine.
    pub fn end(mut self) {
        self.has_ended = true;
        self.log.hold_beyond(u64::MAX);
    }

    /// Breaks the log: whether the commits that are held happened is unknown here ([`Error::Poisoned`]), and no
    /// transaction commits any more until the database is opened again. For a primary that has been replaced, or hands
    /// over.
    pub fn fail(mut self, why: &str) {
        self.has_ended = true;
        self.log.refuse(why);
    }
}

impl Drop for CommitHold<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.log.fail("the carrier of the log, for which commits are held, has ended");
        }
    }
}

impl<'db> LogReader<'db> {
    /// Reads from `from` on, or from the durable end of the log on.
    pub(crate) fn new(log: &'db Log, store: &'db Store, from: Option<u64>) -> Result<Self> {
        let identity = store.segment_files().identity().map(|identity| identity.identity());
        let identity = identity.expect("an open database has an identity");
        Ok(Self { blocks: DurableBlocks::new(log, store, from, Reach::Durable)?, identity })
    }

    /// Holds commits from now on: they are reported as durable only after [`CommitHold::release_to`] has come to them,
    /// and so do transactions that have read of them.
    ///
    /// ```
    /// use ermine::{Database, LogReceiver, Options};
    /// # let path = std::env::temp_dir().join(format!("ermine-doc-hold-{}", std::process::id()));
    /// # std::fs::create_dir(&path).unwrap();
    /// let db = Database::open(path.join("original"), Options::default().keep_log(1 << 30))?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.backup(path.join("standby"))?;
    /// let mut standby = LogReceiver::open(path.join("standby"))?;
    ///
    /// let mut reader = db.log_reader(Some(standby.position()))?;
    /// let hold = reader.hold_commits(standby.position());
    /// let ((), receipt) = db.run_async(|txn| txn.put(&accounts, &7, &100))?;
    /// assert!(!receipt.is_durable());
    /// while !receipt.is_durable() {
    ///     reader.wait(std::time::Duration::from_secs(1))?;
    ///     while let Some(piece) = reader.next(1 << 20)? {
    ///         standby.receive(&piece)?;
    ///         hold.release_to(piece.to);
    ///     }
    /// }
    /// hold.end();
    /// # drop((reader, receipt));
    /// # drop(db);
    /// # std::fs::remove_dir_all(&path).unwrap();
    /// # Ok::<_, ermine::Error>(())
    /// ```
    pub fn hold_commits(&self, beyond: u64) -> CommitHold<'db> {
        let log = self.blocks.log();
        log.hold_beyond(beyond);
        CommitHold { log, has_ended: false }
    }

    /// Returns the identity of the database, which its standbys have, too.
    pub fn identity(&self) -> [u8; 16] {
        self.identity.bytes()
    }

    /// Returns the end of what has been read.
    pub fn position(&self) -> u64 {
        self.blocks.position()
    }

    /// Waits until there is more to read, at most for `timeout`; returns whether there is.
    pub fn wait(&self, timeout: Duration) -> Result<bool> {
        self.blocks.wait(timeout)
    }

    /// Returns the next piece, of about `bytes` bytes, and more where one block or the large values of one are longer;
    /// `None`: everything that is durable has been read.
    ///
    /// Fails with [`Error::LogRemoved`] if the reader was left behind.
    pub fn next(&mut self, bytes: usize) -> Result<Option<LogPiece>> {
        let from = self.blocks.position();
        let files = self.blocks.files();
        let (mut blocks, mut values, mut taken) = (Vec::new(), Vec::new(), 0);
        let stretch = self.blocks.read(&mut |header, block| {
            let is_long = header.kind == BlockKind::Skip && header.size > LONG_SKIP_BYTES;
            // Of a skip, only the header is shown.
            let filled = blocks.len() + if is_long { block.len() } else { header.size as usize };
            let read = large_values(files, header, block)?;
            taken += header.size as usize + read.iter().map(|value| value.bytes.len()).sum::<usize>();
            values.extend(read);
            blocks.extend_from_slice(block);
            blocks.resize(filled, 0);
            Ok(if is_long || taken >= bytes { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(stretch.map(|Stretch { span, at, to }| {
            let content = Content { identity: self.identity, span, at, values, blocks: &blocks };
            LogPiece { from, to, body: content.encode() }
        }))
    }
}

/// Reads the large values that a block refers to.
fn large_values(files: LogFiles<'_>, header: &Header, block: &[u8]) -> Result<Vec<LargeValue<'static>>> {
    let mut values = Vec::new();
    let (descriptors, payloads) = block[HEADER_BYTES..].split_at(header.descriptors as usize);
    for (owner, reference) in diverted(descriptors, payloads) {
        match files.large_value(header, owner, reference) {
            Ok((blob, bytes)) => values.push(LargeValue { blob, owner, bytes: bytes.into() }),
            // Of a transaction that was rolled back.
            Err(Error::LogRemoved { .. }) if header.kind == BlockKind::Overflow => {}
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}
