//! What committed transactions have read and overwritten, for the cycle test.
//!
//! Transactions are numbered in the order of their commits, versions in the order of their installation, after those
//! that were there from the beginning. Nothing here comes from a scheme.

use crate::table::VersionId;

/// No transaction: the creator of the first versions, the overwriter of the last ones.
pub(crate) const NONE: u32 = u32::MAX;

/// A history of committed transactions.
#[derive(Debug)]
pub(crate) struct History {
    /// The creator of each version.
    pub(crate) creators: Vec<u32>,
    /// The transaction that overwrote each version.
    pub(crate) overwriters: Vec<u32>,
    reads: Vec<VersionId>,
    /// For each transaction, the end of its reads.
    ends: Vec<u32>,
}

impl History {
    pub(crate) fn new(records: u32) -> Self {
        let versions = vec![NONE; records as usize];
        Self { creators: versions.clone(), overwriters: versions, reads: Vec::new(), ends: Vec::new() }
    }

    /// Adds a transaction.
    pub(crate) fn commit(&mut self, reads: &[VersionId]) -> &mut Self {
        self.reads.extend_from_slice(reads);
        self.ends.push(self.reads.len() as u32);
        self
    }

    /// Notes that the last transaction overwrote this version, with the next new one.
    pub(crate) fn overwrote(&mut self, version: VersionId) {
        let transaction = self.ends.len() as u32 - 1;
        let before = std::mem::replace(&mut self.overwriters[version.at()], transaction);
        assert_eq!(before, NONE, "a version is overwritten once");
        self.creators.push(transaction);
        self.overwriters.push(NONE);
    }

    /// Number of transactions.
    pub(crate) fn transactions(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The versions that a transaction has read.
    pub(crate) fn reads(&self, transaction: u32) -> &[VersionId] {
        let at = transaction as usize;
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.reads[start as usize..self.ends[at] as usize]
    }
}
