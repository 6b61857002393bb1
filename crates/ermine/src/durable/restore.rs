//! A database as of a moment: a backup, the archived log behind it, and a cut.
//!
//! The order of commits is the order of the log, so a state is a place in it: everything whose block begins at or below the cut
//! has happened, and nothing else. The cut is made in the copy, for good: the segment ends there with a skip, and no later one is
//! there.
//!
//! Invariants
//! 1. *Not inside the checkpoint.* A checkpoint is fuzzy: it has some of what was committed while its walk went on. So the cut
//!    must keep everything below the end of the walk, which the checkpoint tells.
//! 2. *Nothing is skipped.* Segments follow by their sequence numbers, and one that is there in part is the last one. What is
//!    missing before the cut is an error that names it.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use super::{
    archive::archived_span,
    copy::{Filling, Progress},
    parallel::{self, files::is_in_place},
    recovery::{damage, find},
    store::storage,
};
use crate::{
    error::{Error, Result},
    log::{
        block::{BlockKind, HEADER_BYTES, Header},
        scan::{Found, Scan},
        segment::name_of,
        space::Span,
    },
    platform::file::{Directory, Open, real::RealDirectory},
};

/// Up to where a database is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// Everything that there is.
    End,
    /// The transactions that committed at this place of the log or before ([`crate::Stamp::as_u64`] of a commit). Of a database of a
    /// single-version scheme, those of the whole epoch of that stamp and of earlier ones.
    Lsn(u64),
    /// What had been committed at that moment. The log notes the time some hundred times a second while transactions commit, and behind
    /// the last of them: what was committed in the last hundredth of a second may be missing. Of a process that was killed, what
    /// came behind its last note has no time.
    Time(SystemTime),
}

/// What was restored.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Where the restored log ends; of a database of a single-version scheme, the first stamp behind the last epoch.
    pub lsn: u64,
    /// The last moment that it notes.
    pub moment: Option<SystemTime>,
    /// Segments of the log, or files of the parallel log, and how many of them came from the archive.
    pub segments: u64,
    /// See `segments`.
    pub archived_segments: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Makes a database in the empty directory `target`, as it was at some moment, from a backup ([`crate::Database::backup`]) and
/// the archived log of the same database ([`crate::Options::archive`]). It is then opened as any other. Without an archive it
/// goes as far as the backup does.
///
/// What is committed in it belongs to another history from then on: it needs an archive of its own.
pub fn restore(
    backup: impl AsRef<Path>,
    archive: Option<&Path>,
    target: impl AsRef<Path>,
    until: Until,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreReport> {
    let open = |path: &Path| RealDirectory::open(path).map(|directory| Arc::new(directory) as Arc<dyn Directory>);
    let backup = open(backup.as_ref()).map_err(storage)?;
    let archive = archive.map(open).transpose().map_err(storage)?;
    let target = RealDirectory::create(target.as_ref()).map_err(storage)?;
    restore_in(&backup, archive.as_ref(), &target, until, progress)
}

/// As [`restore`], for any implementation of a directory.
#[doc(hidden)]
pub fn restore_in(
    backup: &Arc<dyn Directory>,
    archive: Option<&Arc<dyn Directory>>,
    target: &dyn Directory,
    until: Until,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreReport> {
    if is_in_place(&backup.list().map_err(storage)?) {
        return parallel::restore::restore(backup, archive, target, until, progress);
    }
    let began = Instant::now();
    let found = find(&**backup)?;
    let base = Base::of(&found);
    let chain = Chain::new(backup, &found.segments, first_needed(&found), archive)?;
    let cut = chain.cut(&base, until, progress)?;
    let watch = &mut |copied| {
        progress(copied);
        Ok(())
    };
    let mut filling = Filling::begin(target, watch)?;
    if let Some(image) = &found.image {
        filling.copy_checkpoint(&**backup, image).map_err(storage)?;
    }
    for from in [Some(backup), archive].into_iter().flatten() {
        filling.copy_blobs(&**from).map_err(storage)?;
    }
    let kept = chain.links.iter().take_while(|link| link.span.start < cut.at);
    let kept: Vec<_> = kept.collect();
    filling.expect(kept.iter().map(|link| cut.at.min(link.span.end) - link.span.start).sum());
    for link in &kept {
        filling.copy_segment(&*link.directory, &link.name, &link.span, cut.at).map_err(storage)?;
    }
    let bytes = filling.bytes;
    filling.finish(found.image.as_ref().map(|image| image.marker)).map_err(storage)?;
    Ok(RestoreReport {
        lsn: cut.lsn,
        moment: cut.moment,
        segments: kept.len() as u64,
        archived_segments: kept.iter().filter(|link| link.archived).count() as u64,
        bytes,
        took: began.elapsed(),
    })
}

fn first_needed(found: &super::recovery::Found) -> u64 {
    found.image.as_ref().map_or(0, |image| image.head.log_sequence)
}

/// The checkpoint of a backup.
#[derive(Default)]
struct Base {
    /// The log is replayed from here on.
    begin: u64,
    /// Where the log was when the walk ended.
    walked: u64,
    /// When it began; `None`: there is none, and the log begins with the database.
    moment: Option<SystemTime>,
}

impl Base {
    fn of(found: &super::recovery::Found) -> Self {
        found.image.as_ref().map_or(Self::default(), |image| Self {
            begin: image.head.begin,
            walked: image.walked,
            moment: UNIX_EPOCH.checked_add(Duration::from_micros(image.head.micros)),
        })
    }

    /// Whether what the checkpoint has, and nothing of the log behind it, is what was asked for.
    fn is_alone(&self, until: Until) -> bool {
        match until {
            Until::End => true,
            Until::Lsn(lsn) => lsn >= self.begin,
            Until::Time(time) => self.moment.is_none_or(|moment| moment <= time),
        }
    }
}

/// A copy of a segment.
struct Link {
    span: Span,
    directory: Arc<dyn Directory>,
    name: String,
    archived: bool,
    /// All of it is there.
    whole: bool,
}

/// The segments of a log, one behind the other.
struct Chain {
    links: Vec<Link>,
    /// The segment that should come next, where there are later ones.
    missing: Option<u64>,
    /// Where to look for it.
    place: String,
}

/// Where the log is cut.
struct Cut {
    /// Behind the last block that is kept.
    at: u64,
    /// The same, of those that say something.
    lsn: u64,
    /// The last moment below.
    moment: Option<SystemTime>,
}

impl Chain {
    fn new(
        backup: &Arc<dyn Directory>,
        segments: &[Span],
        first: u64,
        archive: Option<&Arc<dyn Directory>>,
    ) -> Result<Self> {
        let mut copies: BTreeMap<u64, Vec<Link>> = BTreeMap::new();
        for (at, span) in segments.iter().enumerate() {
            // The last one was cut off when the backup was made.
            let whole = at + 1 < segments.len();
            let link = Link { span: *span, directory: backup.clone(), name: name_of(span), archived: false, whole };
            copies.entry(span.sequence).or_default().push(link);
        }
        if let Some(archive) = archive {
            for name in archive.list().map_err(storage)? {
                let Some((span, whole)) = archived_span(&name).filter(|(span, _)| span.sequence >= first) else {
                    continue;
                };
                let link = Link { span, directory: archive.clone(), name, archived: true, whole };
                copies.entry(span.sequence).or_default().push(link);
            }
        }
        let mut chain = Self { links: Vec::new(), missing: None, place: String::new() };
        chain.place = archive.unwrap_or(backup).path();
        let mut next = first;
        while let Some(of) = copies.remove(&next) {
            let link = best(of)?;
            next += u64::from(link.whole);
            let whole = link.whole;
            chain.links.push(link);
            if !whole {
                break;
            }
        }
        copies.retain(|sequence, _| *sequence > next);
        chain.missing = (!copies.is_empty()).then_some(next);
        Ok(chain)
    }

    /// Where the log is to be cut.
    fn cut(&self, base: &Base, until: Until, progress: &mut dyn FnMut(Progress)) -> Result<Cut> {
        let Base { begin, walked, .. } = *base;
        let mut cut = Cut { at: begin, lsn: begin, moment: None };
        // The first block that is not kept, and the first place that can be restored to, with a moment.
        let (mut excluded, mut earliest) = (None, base.moment.filter(|_| begin == walked));
        let (mut end, mut moment) = (begin, None);
        let total = self.links.iter().map(|link| link.span.end - link.span.start).sum();
        let mut done = 0;
        'log: for (number, link) in self.links.iter().enumerate() {
            let file = link.directory.open(&link.name, Open::Read).map_err(storage)?;
            let from = begin.max(link.span.start);
            let mut scan = Scan::new(&*file, link.span.into(), from.min(link.span.end));
            loop {
                let at = scan.at();
                let header = match scan.next().map_err(storage)? {
                    Found::Block(header, block) => {
                        moment = moment_of(&header, block).or(moment);
                        header
                    }
                    Found::Invalid(_) if number + 1 == self.links.len() && !link.whole => break 'log,
                    Found::Invalid(invalid) => return Err(damage(&link.span, at, invalid)),
                    Found::End => break,
                };
                let is_moment = header.kind == BlockKind::Clock;
                if is_moment && header.end() >= walked && earliest.is_none() {
                    earliest = moment;
                }
                // What closes a segment says nothing.
                if header.kind != BlockKind::Skip {
                    end = header.end();
                }
                let is_kept = match until {
                    Until::End => true,
                    Until::Lsn(lsn) => header.lsn.offset() <= lsn,
                    Until::Time(time) => is_moment && moment.is_some_and(|moment| moment <= time),
                };
                if is_kept {
                    (cut, excluded) = (Cut { at: header.end(), lsn: end, moment }, None);
                } else if excluded.is_none() {
                    excluded = Some(header.lsn.offset());
                }
                if matches!(until, Until::Lsn(_)) && !is_kept {
                    break 'log;
                }
            }
            done += link.span.end - link.span.start;
            progress(Progress { step: "looking for the place", done, total });
        }
        self.check_reached(until, excluded, end, moment)?;
        let is_inside = excluded.unwrap_or(cut.at) < walked;
        if is_inside || cut.at == begin && !base.is_alone(until) {
            return Err(Error::TooEarly { lsn: walked, moment: earliest });
        }
        Ok(cut)
    }

    /// Fails where the log ends before the place that was asked for.
    fn check_reached(&self, until: Until, excluded: Option<u64>, end: u64, moment: Option<SystemTime>) -> Result<()> {
        let is_reached = match until {
            Until::End => false,
            Until::Lsn(_) => excluded.is_some(),
            Until::Time(time) => moment.is_some_and(|moment| moment > time),
        };
        if is_reached {
            return Ok(());
        }
        if let Some(missing) = self.missing {
            let place = &self.place;
            return Err(Error::Storage(format!(
                "segment {missing:016x} of the log is missing in {place}, or is there in part only, and there are later ones"
            )));
        }
        match until {
            Until::Lsn(lsn) if lsn >= end => Err(Error::Storage(format!(
                "the log in backup and archive ends at LSN {end}, before LSN {lsn}: bring the segments behind it"
            ))),
            _ => Ok(()),
        }
    }
}

/// The copy of a segment that has most.
fn best(mut copies: Vec<Link>) -> Result<Link> {
    let span = copies[0].span;
    if let Some(other) = copies.iter().find(|link| link.span != span) {
        return Err(Error::Storage(format!(
            "{} and {} of {} are of different databases, or of one that was restored in between",
            name_of(&span),
            other.name,
            other.directory.path()
        )));
    }
    if let Some(at) = copies.iter().position(|link| link.whole) {
        return Ok(copies.swap_remove(at));
    }
    let mut best: Option<(u64, Link)> = None;
    for link in copies {
        let end = content_end(&link)?;
        if best.as_ref().is_none_or(|(longest, _)| end > *longest) {
            best = Some((end, link));
        }
    }
    Ok(best.expect("there is a copy").1)
}

/// Where the last block is that says something.
fn content_end(link: &Link) -> Result<u64> {
    let file = link.directory.open(&link.name, Open::Read).map_err(storage)?;
    let mut scan = Scan::new(&*file, link.span.into(), link.span.start);
    let mut end = link.span.start;
    while let Found::Block(header, _) = scan.next().map_err(storage)? {
        if header.kind != BlockKind::Skip {
            end = header.end();
        }
    }
    Ok(end)
}

/// The moment that a block notes.
fn moment_of(header: &Header, block: &[u8]) -> Option<SystemTime> {
    if header.kind != BlockKind::Clock {
        return None;
    }
    let micros = block[HEADER_BYTES + header.descriptors as usize..].first_chunk()?;
    UNIX_EPOCH.checked_add(Duration::from_micros(u64::from_le_bytes(*micros)))
}
