//! Judges histories in which the versions that transactions read and wrote are known.
//!
//! ```text
//!   collect    keys become numbers; the writers of each row and of each index entry
//!   versions   the versions of each row in order             entries, events   births and deaths of index entries
//!   draw       a walk over what committed: edges of rows; range: the edges of ranges
//!   ../cycles  what the graph means                          explain           the same in words
//! ```
//!
//! See docs/design/check.md for the rules by which edges are drawn.

mod collect;
mod draw;
mod entries;
mod events;
mod explain;
mod keys;
mod range;
mod sightings;
mod versions;

pub(crate) use explain::printed_key;

use self::{collect::collect, draw::draw, entries::Entries, explain::Explainer, versions::Versions};
use crate::{
    cycles::cycles,
    history::History,
    progress::Progress,
    report::{Counts, Report},
};

/// Judges a history.
pub fn judge(history: &History, progress: &mut dyn FnMut(Progress)) -> Report {
    judge_with(history, Settings::default(), progress)
}

/// Settings that only tests change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// A range with more births after it, or deaths before it, shares auxiliary nodes with others.
    pub(crate) direct_edges_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        // About as many edges as a range takes over auxiliary nodes, without the nodes.
        Self { direct_edges_max: 32 }
    }
}

pub(crate) fn judge_with(history: &History, settings: Settings, progress: &mut dyn FnMut(Progress)) -> Report {
    let mut collected = collect(history, progress);
    progress(Progress::new("ordering versions", 0, 1));
    let versions = Versions::new(collected.keys.len(), std::mem::take(&mut collected.versions));
    let entries = Entries::new(&collected, &versions);
    let drawn = draw(history, &collected, &versions, &entries, settings, progress);
    let found = cycles(&drawn.graph, progress);
    let explainer = Explainer { history, collected: &collected, versions: &versions, entries: &entries };
    let mut anomalies = explainer.sightings(&drawn.sightings);
    anomalies.extend(found.found.iter().map(|(kind, cycle)| explainer.cycle(*kind, cycle)));
    anomalies.sort_by_key(|anomaly| anomaly.kind);
    let judge_bytes = collected.bytes() + versions.bytes() + entries.bytes() + drawn.bytes;
    let counts = Counts {
        committed: history.committed() as u64,
        aborted: (history.len() - history.committed()) as u64,
        indeterminate: 0,
        operations: history.operations(),
        ranges: collected.ranges,
        keys: collected.keys.len() as u64,
        sample: history.sample(),
        edges: drawn.graph.edge_count() as u64,
        auxiliary_nodes: (drawn.graph.nodes() - history.committed()) as u64,
        entangled: found.entangled,
        unordered: drawn.unordered,
        history_bytes: history.bytes(),
        judge_bytes,
    };
    Report::new("ermine history", counts, anomalies, drawn.told)
}

#[cfg(test)]
mod tests;
