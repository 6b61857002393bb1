//! The steps of a trace that transactions of both families share.

use crate::{
    access::{ScanRange, Visit},
    error::Result,
    ids::Stamp,
    observer::{Action, IndexId, Observed, Observer, Outcome, Trace},
    options::Isolation,
    table::{Family, TableParts},
    types::KeyBuffer,
};

/// Records the index entries that a write takes from a row, and those that it adds.
pub(crate) fn trace_entries<F: Family>(
    trace: &mut Trace,
    table: &TableParts<F>,
    key: &[u8],
    before: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<()> {
    table.changed_entries(key, before, value, |ordinal, old, new| {
        let index = IndexId { table: table.id, ordinal: ordinal.0 };
        for (entry, present) in [(old, false), (new, true)] {
            entry.into_iter().for_each(|entry| trace.record(Action::Entry { index, entry, present }));
        }
    })
}

/// Scans, and then reports the part of the range that was examined, if there is any.
pub(crate) fn watch_scan(
    range: ScanRange<'_>,
    scan: impl FnOnce(&mut Visit<'_>) -> Result<()>,
    visit: &mut Visit<'_>,
    tell: impl FnOnce(&[u8], Option<&[u8]>),
) -> Result<()> {
    let (mut shown, mut last, mut broke) = (0, KeyBuffer::new(), false);
    let result = scan(&mut |key, value| {
        shown += 1;
        last = KeyBuffer::from_slice(key);
        let flow = visit(key, value);
        broke = !matches!(&flow, Ok(flow) if flow.is_continue());
        flow
    });
    if let Some((lower, upper)) = range.looked_through(shown, &mut last, broke) {
        tell(lower, upper);
    }
    result
}

/// Shows the observer the actions of a transaction, and then forgets them.
pub(crate) fn show(observer: &dyn Observer, begin: Stamp, outcome: Outcome, isolation: Isolation, trace: &mut Trace) {
    observer.ended(&Observed::new(begin, outcome, isolation, trace));
    trace.clear();
}
