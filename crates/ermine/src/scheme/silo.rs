//! Silo's optimistic concurrency control (SiloR, section 2; Tu et al., SOSP 2013).
//!
//! A read notes the record's word. At commit, after all writes are locked and the epoch has been read, every record
//! that was read must have the word it had, and be locked by no other transaction. The moment between is the
//! transaction's place in the serial order: its reads were the newest then, and its writes cannot be read before they
//! are stored.
//!
//! Nothing is shared outside of records: reading writes nothing, and there is no counter of transactions.

use super::{
    Conflict, ConflictSite,
    in_place::{Begun, InPlace, Limits, Ranges, Read, stale},
};
use crate::{
    mutant::Mutant,
    rows::{
        copies::Copies,
        in_place::{RecordPtr, TidWord},
    },
    sync::total_order,
};

/// `silo`.
pub(crate) struct Silo;

/// Reads for which memory is kept for the next transaction.
const READS_KEPT: usize = 1 << 14;

/// The read set.
#[derive(Default)]
pub(crate) struct Reads(Vec<(RecordPtr<()>, TidWord, ConflictSite)>);

impl InPlace for Silo {
    type Control = ();
    type Shared = ();
    type State = Reads;

    const RANGES: Ranges = Ranges::AtCommit;

    fn shared(_: &Limits) {}

    #[inline]
    fn begin((): &(), _: &mut Reads, _: bool) -> Result<Begun, Conflict> {
        Ok(Begun::Running)
    }

    #[inline]
    fn read(
        (): &(),
        reads: &mut Reads,
        record: RecordPtr<()>,
        site: ConflictSite,
        copies: Option<&mut Copies>,
    ) -> Result<Read, Conflict> {
        let (word, copied) = record.read(copies);
        if !word.is_gone() {
            reads.0.push((record, word, site));
        }
        Ok((word, copied))
    }

    fn tracked_reads(reads: &Reads) -> usize {
        reads.0.len()
    }

    #[inline]
    fn claim((): &(), _: &mut Reads, _: RecordPtr<()>, _: ConflictSite) -> Result<(), Conflict> {
        Ok(())
    }

    fn certify((): &(), reads: &mut Reads, is_own: impl Fn(RecordPtr<()>) -> bool) -> Result<(), Conflict> {
        if Mutant::NoTest.is_on() {
            return Ok(());
        }
        // Before the loads of words, after the epoch has been read (`single::commit`).
        total_order();
        for &(record, seen, site) in &reads.0 {
            let word = record.word();
            if !word.says_same_as(seen) || word.is_locked() && !is_own(record) {
                return Err(stale(site));
            }
        }
        Ok(())
    }

    #[inline]
    fn end((): &(), reads: &mut Reads, _: bool) {
        if reads.0.capacity() > READS_KEPT {
            reads.0 = Vec::new();
        }
        reads.0.clear();
    }
}
