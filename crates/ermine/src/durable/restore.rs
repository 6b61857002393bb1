//! Restores a database as of a moment: a backup, the archived log after it, and a cut.
//!
//! The order of commits is the order of the log, so a state is a place in the log: everything whose block begins at or
//! below the cut has happened, and nothing else. The cut is made permanently in the copy: the segment ends there with a
//! skip, and there is no later segment.
//!
//! Invariants
//! 1. *Not inside the checkpoint.* A checkpoint is fuzzy: it has part of what was committed during its walk. So the cut
//!    must keep everything below the end of the walk, which the checkpoint records.
//! 2. *Nothing is skipped.* Segments follow each other by sequence number, and a partial one is the last. A part of the
//!    log that is missing before the cut is an error that names it; so is a segment that is shorter than its label
//!    says, or of another database.
//! 3. *Right before it counts.* The copy is verified; until then, and if something is wrong with it, no program opens
//!    it.

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
    recovery::{self, damage, find},
    store::storage,
    verify::verify_copy,
};
use crate::{
    error::{Error, Result},
    log::{
        block::BlockKind,
        identity::{Identity, Label, Said},
        moment::Moment,
        scan::{Found, Scan},
        segment::name_of,
        space::Span,
    },
    platform::file::{Directory, Open, real::RealDirectory},
};

/// The point up to which a database is restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The end of the log.
    End,
    /// The transactions that committed at this place of the log or before ([`crate::Stamp::as_u64`] of a commit). For a
    /// database of a single-version scheme, those of the whole epoch of that stamp and of earlier ones.
    Lsn(u64),
    /// The transactions that had committed by that moment. The log notes the time about a hundred times a second while
    /// transactions commit, and after the last of them: commits of the last hundredth of a second may be missing. If a
    /// process was killed, its commits after the last note have no time.
    Time(SystemTime),
}

/// Summary of a restore.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreReport {
    /// End of the restored log; for a database of a single-version scheme, the first stamp after the last epoch.
    pub lsn: u64,
    /// The last moment noted in the restored log.
    pub moment: Option<SystemTime>,
    /// Segments of the log, or files of the parallel log.
    pub segments: u64,
    /// How many of them came from the archive.
    pub archived_segments: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Duration of the restore.
    pub took: Duration,
}

/// Restores a database as of some moment into the empty directory `target`, from a backup ([`crate::Database::backup`])
/// and the archived log of the same database ([`crate::Options::archive`]). The result is opened like any other
/// database. Without an archive it can be restored only up to the end of the backup.
///
/// Transactions that commit in it belong to another history from then on: it needs an archive of its own.
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
    let target = Arc::new(RealDirectory::create(target.as_ref()).map_err(storage)?) as Arc<dyn Directory>;
    restore_in(&backup, archive.as_ref(), &target, until, progress)
}

/// Like [`restore`], for any implementation of a directory.
#[doc(hidden)]
pub fn restore_in(
    backup: &Arc<dyn Directory>,
    archive: Option<&Arc<dyn Directory>>,
    target: &Arc<dyn Directory>,
    until: Until,
    progress: &mut dyn FnMut(Progress),
) -> Result<RestoreReport> {
    if is_in_place(&backup.list().map_err(storage)?) {
        return parallel::restore::restore(backup, archive, &**target, until, progress);
    }
    let began = Instant::now();
    let found = find(&**backup)?;
    let base = Base::of(&found);
    let chain = Chain::new(backup, &found.segments, found.first_segment(), archive)?;
    let cut = chain.cut(&base, until, progress)?;
    let said = chain.said(&found, cut.at)?;
    let watch = &mut |copied| {
        progress(copied);
        Ok(())
    };
    let mut filling = Filling::begin(&**target, said, watch)?;
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
    let marker = found.image.as_ref().map(|image| image.marker);
    filling.finish(marker, || verify_copy(target))?;
    Ok(RestoreReport {
        lsn: cut.lsn,
        moment: cut.moment,
        segments: kept.len() as u64,
        archived_segments: kept.iter().filter(|link| link.archived).count() as u64,
        bytes,
        took: began.elapsed(),
    })
}

/// The checkpoint of a backup.
#[derive(Default)]
struct Base {
    /// The log is replayed from here on.
    begin: u64,
    /// Position of the log when the walk ended.
    walked: u64,
    /// When the walk began; `None`: there is no checkpoint, and the log begins with the database.
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

    /// Whether the checkpoint alone, without the log after it, satisfies the request.
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
    /// Whether the copy has all of the segment.
    whole: bool,
}

/// The consecutive segments of a log.
struct Chain {
    links: Vec<Link>,
    /// The segment that should come next, if there are later ones.
    missing: Option<u64>,
    /// Where that segment is expected.
    place: String,
}

/// The place where the log is cut.
struct Cut {
    /// End of the last block that is kept.
    at: u64,
    /// The same, without blocks that only close a segment.
    lsn: u64,
    /// The last moment noted below the cut.
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
            // The last segment was cut off when the backup was made.
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

    /// Finds the place where the log is to be cut.
    fn cut(&self, base: &Base, until: Until, progress: &mut dyn FnMut(Progress)) -> Result<Cut> {
        let Base { begin, walked, .. } = *base;
        let mut cut = Cut { at: begin, lsn: begin, moment: None };
        // The first block that is not kept, and the moment of the first place that can be restored to.
        let (mut excluded, mut earliest) = (None, base.moment.filter(|_| begin == walked));
        let (mut end, mut moment) = (begin, None);
        let total = self.links.iter().map(|link| link.span.end - link.span.start).sum();
        let mut done = 0;
        'log: for (number, link) in self.links.iter().enumerate() {
            let file = link.directory.open(&link.name, Open::Read).map_err(storage)?;
            let from = begin.max(link.span.start);
            let mut scan = Scan::new(&*file, link.span.into(), from.min(link.span.end));
            let whole = Label::read(&*file, &link.span).map_err(storage)?.map_or(begin, |label| label.whole);
            loop {
                let at = scan.at();
                if matches!(until, Until::Lsn(lsn) if at > lsn) {
                    excluded = excluded.or(Some(at));
                    break 'log;
                }
                let header = match scan.next().map_err(storage)? {
                    Found::Block(header, block) => {
                        moment = Moment::read(&header, block).and_then(|moment| moment.time()).or(moment);
                        header
                    }
                    Found::Invalid(_) if number + 1 == self.links.len() && !link.whole && at >= whole => break 'log,
                    Found::Invalid(invalid) => return Err(damage(&link.span, at, invalid)),
                    Found::End => break,
                };
                let is_moment = header.kind == BlockKind::Clock;
                if is_moment && header.end() >= walked && earliest.is_none() {
                    earliest = moment;
                }
                // A block that closes a segment has no content.
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

    /// Fails if the log ends before the requested place.
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
                "segment {missing:016x} of the log is missing in {place}, or is there in part only, and there are \
                 later ones"
            )));
        }
        let what = match until {
            Until::Lsn(lsn) if lsn >= end => format!("at LSN {end}, before LSN {lsn}"),
            Until::Time(time) if moment.is_none_or(|moment| moment < time) => {
                let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
                let last = moment
                    .map_or_else(|| "without a moment".into(), |moment| format!("{:.6} s after 1970", seconds(moment)));
                format!("{last}, before the moment that was asked for, {:.6} s after 1970", seconds(time))
            }
            _ => return Ok(()),
        };
        Err(Error::Storage(format!(
            "the log in backup and archive ends {what}: bring the segments behind it, or restore all that there is"
        )))
    }

    /// The identity and extent to be recorded in the copy of the log up to `at`, as the segments' labels and the backup
    /// have them.
    fn said(&self, found: &recovery::Found, at: u64) -> Result<Option<Said>> {
        let mut said = found.said;
        for link in self.links.iter().take_while(|link| link.span.start < at) {
            let file = link.directory.open(&link.name, Open::Read).map_err(storage)?;
            let Some(label) = Label::read(&*file, &link.span).map_err(storage)? else {
                // The segment is an earlier program's, or it was cut; then the missing part has been reported where it
                // is needed.
                continue;
            };
            let database = said.map_or(label.identity, |said| said.identity);
            let foreign = |is: String| {
                let (name, path) = (&link.name, link.directory.path());
                Error::Storage(format!("{name} in {path} {is}: bring the right file"))
            };
            if label.identity != database {
                let of: Identity = label.identity;
                return Err(foreign(format!("is a segment of database {of}, and the backup is of {database}")));
            }
            if label.span != link.span {
                return Err(foreign(format!("holds segment {}", name_of(&label.span))));
            }
            said = said.or(Some(Said { identity: database, unlabelled: 0, newest: 0, durable: 0 }));
        }
        Ok(said)
    }
}

/// The most complete copy of a segment.
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

/// End of the last block with content.
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
