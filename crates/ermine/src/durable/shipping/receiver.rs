//! Appends pieces of another database's log to the files of a standby.
//!
//! Invariants
//! 1. *A prefix of the original.* The standby holds the log of the original up to its position, and nothing behind it:
//!    what a crash left there is removed before more is received. So a block that says how far the log was durable when
//!    it was written does not make recovery look for something that never arrived.
//! 2. *Durable when received.* When [`LogReceiver::receive`] returns, no crash of the machine loses any of the piece.
//! 3. *Not opened by mistake.* A directory with the file [`STANDBY`] is opened by no program; promotion removes it.
//! 4. *Once failed, opened again.* After an error of the device the state of the files is unknown: nothing is received
//!    any more until the standby is opened again, which writes and syncs again what nothing proves to be durable.

use std::{io, path::Path, sync::Arc};

use super::{Content, LogPiece};
use crate::{
    durable::{
        blobs,
        recovery::{check_finished, find_copy, open_identity},
        store::storage,
    },
    error::{Error, Result},
    log::{
        block::{BlockKind, HEADER_BYTES, Header},
        heads,
        identity::{Identity, Label},
        lsn::Lsn,
        record::{BlobRef, diverted},
        scan::{Found, Scan},
        segment::{SegmentFiles, name_of, span_of},
        space::Span,
    },
    platform::file::{
        Directory, File, Open,
        real::{Lock, RealDirectory},
        write_again,
    },
};

/// The file that marks a directory as a standby.
pub(crate) const STANDBY: &str = "STANDBY";

/// A standby: the directory of a backup, to which pieces of the original's log are appended.
///
/// A reader from the end of the backup on has what the receiver needs, as long as the original keeps its log
/// ([`Options::keep_log`](crate::Options::keep_log)):
///
/// ```
/// use ermine::{Database, LogReceiver, Options};
/// # let path = std::env::temp_dir().join(format!("ermine-doc-standby-{}", std::process::id()));
/// # std::fs::create_dir(&path).unwrap();
/// let db = Database::open(path.join("original"), Options::default().keep_log(1 << 30))?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// db.backup(path.join("standby"))?;
/// let mut standby = LogReceiver::open(path.join("standby"))?; // on another machine, once the backup is there
///
/// db.run(|txn| txn.put(&accounts, &7, &100))?;
/// let mut reader = db.log_reader(Some(standby.position()))?;
/// while let Some(piece) = reader.next(1 << 20)? {
///     standby.receive(&piece)?; // durable when this returns
/// }
/// # drop(reader);
/// drop(db); // lost
///
/// standby.promote()?;
/// let db = Database::open(path.join("standby"), Options::default())?;
/// let accounts = db.table::<u64, i64>("accounts")?;
/// assert_eq!(db.run(|txn| txn.get(&accounts, &7))?, Some(100));
/// # drop(db);
/// # std::fs::remove_dir_all(&path).unwrap();
/// # Ok::<_, ermine::Error>(())
/// ```
pub struct LogReceiver {
    directory: Arc<dyn Directory>,
    files: Arc<SegmentFiles>,
    identity: Identity,
    position: u64,
    /// The newest segment and its file; `None`: there is none.
    newest: Option<(Span, Arc<dyn File>)>,
    /// The number of the segment that comes next.
    next: u64,
    /// The newest segment's label says that it was cut at the position.
    is_cut: bool,
    has_failed: bool,
    _lock: Option<Lock>,
}

impl LogReceiver {
    /// Opens a standby, or makes one of a backup of a database whose scheme keeps versions: the directory of the backup
    /// is the standby's from now on. No other program can use it meanwhile.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let directory = RealDirectory::open(path.as_ref()).map_err(storage)?;
        let lock = directory.lock().map_err(storage)?;
        Ok(Self { _lock: Some(lock), ..Self::open_in(Arc::new(directory))? })
    }

    /// Works as [`LogReceiver::open`] for any implementation of a directory, which has no other user meanwhile.
    #[doc(hidden)]
    pub fn open_in(directory: Arc<dyn Directory>) -> Result<Self> {
        let names = directory.list().map_err(storage)?;
        check_finished(&*directory, &names)?;
        let mut found = find_copy(&*directory)?;
        found.check_labels(&*directory)?;
        let Some(said) = found.said else {
            return Err(Error::Storage(format!("{} is no backup of a database with an identity", directory.path())));
        };
        if let Some(unborn) = found.unborn() {
            directory.remove(unborn).and_then(|()| directory.sync()).map_err(storage)?;
        }
        if !names.iter().any(|name| name == STANDBY) {
            directory.open(STANDBY, Open::Create).and_then(|file| file.sync()).map_err(storage)?;
        }
        // The process before may have made names that are not durable.
        directory.sync().map_err(storage)?;
        let files = Arc::new(SegmentFiles::new(directory.clone()));
        let identity_file = Arc::new(open_identity(&*directory)?);
        files.label(identity_file.clone());
        let (begin, first) = (found.begin(), found.first_segment());
        if let Some(span) = found.segments.last().copied()
            && end_of_blocks(&*files.get(&span).map_err(storage)?, &span, span.start).map_err(storage)? == span.start
        {
            // As if it had never existed: another one may come.
            found.segments.pop();
            let before = found.segments.last().map_or((0, 0), |before| (before.sequence + 1, before.end));
            identity_file.note(before.0, before.1).map_err(storage)?;
            files.remove(&span).and_then(|()| directory.sync()).map_err(storage)?;
        }
        let newest = found.segments.last().map(|span| Ok((*span, files.get(span)?)));
        let newest: Option<(Span, Arc<dyn File>)> = newest.transpose().map_err(storage)?;
        let (mut position, mut is_cut) = (begin.max(said.durable), false);
        if let Some((span, file)) = &newest {
            let label = Label::read(&**file, span).map_err(storage)?;
            let cut = label.map(|label| label.whole).filter(|whole| *whole > span.start && *whole < span.end);
            is_cut = cut.is_some();
            if heads::remove(&*directory, span).map_err(storage)? {
                directory.sync().map_err(storage)?;
            }
            // Blocks that nothing proves to be durable are written again.
            let known = position.clamp(span.start, span.end);
            position = cut.map_or_else(|| end_of_blocks(&**file, span, known), Ok).map_err(storage)?;
            let settled = write_again(&**file, span.position(known.min(position)), span.position(position));
            let settled = settled.and_then(|()| clear(&**file, span.position(position), span.position(span.end)));
            let settled = settled.and_then(|()| label.map_or(Ok(()), |label| label.write(&**file)));
            settled.and_then(|()| file.sync()).map_err(storage)?;
            // The process before may have ended before it noted the segment.
            if said.newest <= span.sequence {
                identity_file.note(span.sequence + 1, span.start).map_err(storage)?;
            }
        }
        let next = newest.as_ref().map_or(first, |(span, _)| span.sequence + 1);
        let identity = said.identity;
        Ok(Self { directory, files, identity, position, newest, next, is_cut, has_failed: false, _lock: None })
    }

    /// Returns the identity of the original.
    pub fn identity(&self) -> [u8; 16] {
        self.identity.bytes()
    }

    /// Returns the position up to which the standby has the log: the next piece begins there or before.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the directory, which no other program has open.
    pub(crate) fn directory(&self) -> &Arc<dyn Directory> {
        &self.directory
    }

    /// Returns the files of the log, which have it up to the position.
    pub(crate) fn files(&self) -> &Arc<SegmentFiles> {
        &self.files
    }

    /// Appends a piece, durably. A piece that was received before changes nothing.
    ///
    /// Fails if there is a gap before the piece, and if it is damaged or another database's; the standby is as it was
    /// then. After an error of the device, open the standby again.
    pub fn receive(&mut self, piece: &LogPiece) -> Result<()> {
        self.check_failed()?;
        if piece.to <= self.position {
            return Ok(());
        }
        let content = Content::decode(&piece.body).ok_or_else(|| self.refused(piece, "it is damaged"))?;
        self.check(piece, &content).map_err(|why| self.refused(piece, &why))?;
        let appended = self.append(piece, &content);
        self.has_failed = appended.is_err();
        appended.map_err(storage)
    }

    /// Makes the standby a database of its own, which is opened like any other. Promote only one standby of a database,
    /// and only when the original does not run any more: two databases that both go on are different from then on.
    pub fn promote(self) -> Result<()> {
        self.check_failed()?;
        self.directory.remove(STANDBY).and_then(|()| self.directory.sync()).map_err(storage)
    }

    /// Fails after an error of the device (invariant 4).
    fn check_failed(&self) -> Result<()> {
        match self.has_failed {
            true => Err(Error::Storage(format!("{} has failed: open the standby again", self.directory.path()))),
            false => Ok(()),
        }
    }

    fn refused(&self, piece: &LogPiece, why: &str) -> Error {
        let path = self.directory.path();
        Error::Storage(format!("a piece of the log, from {} to {}, is refused for {path}: {why}", piece.from, piece.to))
    }

    /// Checks all that can be wrong with a piece.
    fn check(&self, piece: &LogPiece, content: &Content<'_>) -> Result<(), String> {
        let Content { identity, span, at, values, blocks } = content;
        if *identity != self.identity {
            return Err(format!("it is of database {identity}, and this is {}", self.identity));
        }
        // Invariant 1: the first block lies where the standby ends, or before.
        let is_next = match &self.newest {
            Some((newest, _)) if newest.sequence == span.sequence => newest == span && *at <= self.position,
            Some((newest, _)) => {
                let is_full = newest.end.saturating_sub(self.position) < HEADER_BYTES as u64;
                span.sequence == self.next && span.start >= newest.end && is_full && *at == span.start
            }
            None => span.sequence == self.next && *at == span.start,
        };
        if span_of(&name_of(span)).is_none() || !is_next {
            let position = self.position;
            return Err(format!("the standby ends at {position}, and it begins at {at} in {}", name_of(span)));
        }
        let mut known = Vec::new();
        let (mut next, mut rest) = (*at, *blocks);
        let is_inside = (span.start..span.end).contains(at);
        while is_inside && next < span.end && !rest.is_empty() {
            let Some(header) = rest.first_chunk::<HEADER_BYTES>() else { break };
            let Ok(header) = Header::read(header, Lsn::new(next, span.number())) else { break };
            let is_skip = header.kind == BlockKind::Skip;
            let length = if is_skip { header.size.min(rest.len() as u64) } else { header.size };
            let Some((block, behind)) = rest.split_at_checked(length as usize) else { break };
            if !header.verify(block) || !is_skip && !header.verify_payload(block) {
                break;
            }
            let (descriptors, payloads) = block[HEADER_BYTES..].split_at(header.descriptors as usize);
            for (owner, reference) in diverted(descriptors, payloads) {
                let Some(of) = BlobRef::from_bytes(reference) else { return Err("a reference is damaged".into()) };
                // Those of a transaction that was rolled back are not there.
                if header.kind != BlockKind::Overflow && !values.iter().any(|value| value.blob == of.blob) {
                    return Err(format!("large value {} is not in it", of.blob));
                }
                known.push((of.blob, owner, of.length, of.checksum));
            }
            (next, rest) = (header.end(), behind);
        }
        if !is_inside || !rest.is_empty() || next != piece.to || next > span.end {
            return Err(format!("its blocks are damaged at {next}"));
        }
        let is_right = |value: &super::LargeValue<'_>| {
            let there = (value.blob, value.owner, value.bytes.len() as u64, crc32c::crc32c(&value.bytes));
            known.contains(&there)
        };
        if values.iter().all(is_right) { Ok(()) } else { Err("a large value in it is damaged".into()) }
    }

    fn append(&mut self, piece: &LogPiece, content: &Content<'_>) -> io::Result<()> {
        for value in &content.values {
            self.put_value(&blobs::name_of(value.blob, value.owner), &value.bytes)?;
        }
        if !content.values.is_empty() {
            self.directory.sync()?;
        }
        let span = content.span;
        let file = match &self.newest {
            Some((newest, file)) if *newest == span => file.clone(),
            _ => {
                let file = self.files.create(&span)?;
                self.newest = Some((span, file.clone()));
                (self.next, self.is_cut) = (span.sequence + 1, false);
                file
            }
        };
        file.write_at(span.position(content.at), content.blocks)?;
        file.sync()?;
        if self.is_cut {
            Label { identity: self.identity, span, whole: span.start }.write(&*file)?;
            file.sync()?;
            self.is_cut = false;
        }
        self.position = piece.to;
        Ok(())
    }

    /// Writes a large value durably, except for its name.
    fn put_value(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let file = match self.directory.open(name, Open::Create) {
            // Received before, perhaps in part.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.directory.open(name, Open::Write)?,
            file => file?,
        };
        file.write_at(0, bytes)?;
        file.sync()
    }
}

/// Returns where the blocks of a segment end, from a place on where one begins or would begin.
fn end_of_blocks(file: &dyn File, span: &Span, from: u64) -> io::Result<u64> {
    let mut scan = Scan::new(file, (*span).into(), from);
    loop {
        match scan.next()? {
            Found::Block(..) => {}
            Found::End | Found::Invalid(_) => return Ok(scan.at()),
        }
    }
}

/// Fills a part of a file with zeros, where it has others.
fn clear(file: &dyn File, mut from: u64, end: u64) -> io::Result<()> {
    const BYTES: u64 = 1 << 20;
    let zeros = vec![0; BYTES as usize];
    let mut bytes = zeros.clone();
    while from < end {
        let wanted = BYTES.min(end - from) as usize;
        let read = file.read_at(from, &mut bytes[..wanted])?;
        if read == 0 {
            break;
        }
        if bytes[..read] != zeros[..read] {
            file.write_at(from, &zeros[..read])?;
        }
        from += read as u64;
    }
    Ok(())
}
