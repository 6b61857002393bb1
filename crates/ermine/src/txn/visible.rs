//! Determines the version of a chain that a transaction sees.

use crate::{
    ids::{Stamp, Tid},
    mutant::Mutant,
    rows::{
        chain::{CertifierStamps, Origin, VersionPtr},
        snapshots::Needs,
    },
    scheme::{Scheme, Shared, StampsOf},
    sync::Spin,
    txn::table::Inquiry,
};

/// The version of a chain that a transaction sees.
pub(crate) enum Seen<H> {
    /// The transaction's own version.
    Own(VersionPtr<H>),
    /// A version committed at this stamp.
    At(VersionPtr<H>, Stamp),
    /// No version: the row was inserted after the transaction's snapshot.
    Nothing,
}

/// The state of a version relative to a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The transaction's own version.
    Own,
    /// Committed at this stamp.
    Committed(Stamp),
    /// The writer is running, or has a stamp under which it has not committed yet.
    Unfinished(Tid),
    /// The writer aborted, or replaced the version.
    Void,
}

/// Determines the standing of a version. Waits for a writer that is committing below `wait_below`.
pub(crate) fn standing<H: CertifierStamps>(
    shared: &Shared,
    tid: Option<Tid>,
    wait_below: Stamp,
    version: VersionPtr<H>,
) -> Standing {
    let mut spin = Spin::default();
    loop {
        let writer = match version.origin().load() {
            Origin::At(Stamp::INFINITY) => return Standing::Void,
            Origin::At(stamp) => return Standing::Committed(stamp),
            Origin::By(writer) if Some(writer) == tid => return Standing::Own,
            Origin::By(writer) => writer,
        };
        match shared.tids.inquire(writer) {
            Inquiry::InFlight => return Standing::Unfinished(writer),
            Inquiry::Aborted => return Standing::Void,
            Inquiry::Committing(Some(stamp)) if stamp >= wait_below => return Standing::Unfinished(writer),
            Inquiry::Committing(_) | Inquiry::Stale => spin.wait(),
            Inquiry::Committed { stamp, .. } => {
                // The writer may have replaced this version before it committed: then the version is marked void by
                // now.
                return match version.origin().load() {
                    Origin::At(Stamp::INFINITY) => Standing::Void,
                    _ => Standing::Committed(stamp),
                };
            }
        }
    }
}

/// Returns the newest version that a transaction may see, from `head` on. `needs`: [`Needs::Newer`] if it reads a snapshot
/// only where the scheme does. `passed` is called for each version that is skipped.
///
/// Under a snapshot: the newest version committed below `begin`. Under read committed: the newest committed version. In
/// both cases the function waits for a writer that is committing below `begin`, as it is about to end: the version that
/// it overwrites may be freed before the transaction ends (`snapshots`).
#[inline]
pub(crate) fn visible<S: Scheme>(
    shared: &Shared,
    begin: Stamp,
    needs: Needs,
    tid: Option<Tid>,
    head: VersionPtr<StampsOf<S>>,
    mut passed: impl FnMut(),
) -> Seen<StampsOf<S>> {
    let snapshot = S::SNAPSHOT || needs != Needs::Newer;
    // The usual case: committed long ago.
    if let Origin::At(stamp) = head.origin().load()
        && (stamp < begin || !snapshot && stamp != Stamp::INFINITY)
    {
        return Seen::At(head, stamp);
    }
    let mut next = Some(head);
    while let Some(version) = next {
        match standing(shared, tid, begin, version) {
            Standing::Own => return Seen::Own(version),
            Standing::Unfinished(_) if Mutant::DirtyRead.is_on() => return Seen::At(version, Stamp::ZERO),
            Standing::Committed(stamp) if stamp < begin || !snapshot => return Seen::At(version, stamp),
            _ => {
                passed();
                next = match needs {
                    // The absence is gone, if only passive snapshots are below it.
                    Needs::Versions => version.older(),
                    Needs::Newer | Needs::Traces => version.below().next(),
                };
            }
        }
    }
    Seen::Nothing
}
