//! Which version of a chain a transaction sees.

use crate::{
    ids::{Stamp, Tid},
    mutant::Mutant,
    rows::chain::{CertifierStamps, Origin, VersionPtr},
    scheme::{Scheme, Shared, StampsOf},
    sync::Spin,
    txn::table::Inquiry,
};

/// What a transaction sees of a chain.
pub(crate) enum Seen<H> {
    /// Its own version.
    Own(VersionPtr<H>),
    /// A version committed at this stamp.
    At(VersionPtr<H>, Stamp),
    /// None: the row came after it.
    Nothing,
}

/// How a version stands to a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is its own.
    Own,
    /// Committed at this stamp.
    Committed(Stamp),
    /// Its writer is running, or has a stamp that it did not commit under yet.
    Unfinished(Tid),
    /// Its writer aborted, or replaced it.
    Void,
}

/// Finds out about a version. Waits for a writer that is committing below `wait_below`.
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
                // The writer may have replaced this version before it committed: then it says so by now.
                return match version.origin().load() {
                    Origin::At(Stamp::INFINITY) => Standing::Void,
                    _ => Standing::Committed(stamp),
                };
            }
        }
    }
}

/// The newest version that a transaction may see, from `head` on; `snapshot`: it reads one, whatever the scheme does. `passed` is told of
/// each version that is passed over.
///
/// Under a snapshot: the newest committed below `begin`. Under read committed: the newest committed one at all. In both
/// cases a writer that is committing below `begin` is waited for, it is about to end: what it overwrites may be freed
/// before the transaction ends (`snapshots`).
#[inline]
pub(crate) fn visible<S: Scheme>(
    shared: &Shared,
    begin: Stamp,
    snapshot: bool,
    tid: Option<Tid>,
    head: VersionPtr<StampsOf<S>>,
    mut passed: impl FnMut(),
) -> Seen<StampsOf<S>> {
    let snapshot = S::SNAPSHOT || snapshot;
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
                next = version.older();
            }
        }
    }
    Seen::Nothing
}
