//! The conflicts that the transactions of one thread lost: how many, of which kind, and which of them twice.
//!
//! A conflict is **repeated** when an attempt loses on the same rule, in the same table and at the same key as the
//! attempt of the same transaction before it. That may be a new opponent at a busy place, so those with the **same
//! opponent** are counted separately, if both attempts name one. SSN promises safe retry (section 3.2): the transaction
//! that an attempt lost against at certification has committed by then and cannot close the same cycle again; an
//! exclusion with the same opponent would break that promise. A write conflict with the same opponent only says that
//! the opponent had not ended when the transaction was run again.

use ermine::{Abort, AbortKind, Access, Job, Scheme, Session, Transaction, TxnOptions};

use crate::{
    abort_shapes::AbortShapes,
    report::{Grid, grouped},
};

/// Kinds of conflicts.
pub const KINDS: usize = AbortKind::ALL.len();

/// Counts of lost conflicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// Attempts that lost a conflict.
    pub aborted: u64,
    /// Attempts that lost the same conflict as the attempt before.
    pub repeated: u64,
    /// Repeated conflicts that were lost against the same transaction.
    pub same_opponent: u64,
    /// Counts by kind, in the order of [`AbortKind::ALL`].
    pub causes: [u64; KINDS],
}

impl Conflicts {
    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.aborted += other.aborted;
        self.repeated += other.repeated;
        self.same_opponent += other.same_opponent;
        self.causes.iter_mut().zip(other.causes).for_each(|(own, other)| *own += other);
    }

    /// The counts with the names of their kinds.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        AbortKind::ALL.iter().map(|kind| kind.name()).zip(self.causes).collect()
    }

    fn count(&mut self, abort: &Abort, previous: Option<&Abort>) {
        self.aborted += 1;
        if let Some(previous) = previous.filter(|previous| is_same_place(previous, abort)) {
            self.repeated += 1;
            self.same_opponent += u64::from(is_same_opponent(previous, abort));
        }
        let place = AbortKind::ALL.iter().position(|&kind| kind == abort.kind).expect("all kinds are listed");
        self.causes[place] += 1;
    }
}

/// An empty table of lost conflicts, a row per kind of transaction.
pub(crate) fn grid() -> Grid {
    let causes = AbortKind::ALL.map(AbortKind::name);
    Grid::new(&[&["aborted attempts"], &causes[..], &["all", "repeated", "same opponent"]].concat())
}

/// A row of that table: counts by cause, then those of all, repeated ones, and ones with the same opponent.
pub(crate) fn row(name: &str, causes: &[(&'static str, u64)], sums: [u64; 3]) -> impl Iterator<Item = String> {
    let counts = causes.iter().map(|&(_, count)| count).chain(sums);
    [name.to_owned()].into_iter().chain(counts.map(grouped))
}

/// Whether two attempts lost at the same place, whichever the opponent was.
fn is_same_place(one: &Abort, other: &Abort) -> bool {
    (one.kind, &one.table, &one.key) == (other.kind, &other.table, &other.key)
}

/// Whether both name the same opponent, as a transaction or by its commit.
fn is_same_opponent(one: &Abort, other: &Abort) -> bool {
    fn both<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
        one.is_some() && one == other
    }
    let successors = one.successor.as_ref().zip(other.successor.as_ref());
    both(one.other, other.other)
        || successors.is_some_and(|(one, other)| both(one.other, other.other) || both(one.stamp, other.stamp))
}

/// A job whose lost conflicts are counted. As long as no conflict is lost, this costs nothing.
pub struct Counted<'c, J> {
    job: J,
    conflicts: &'c mut Conflicts,
    /// Where shapes are collected, and the number of this transaction there.
    shapes: Option<(&'c mut AbortShapes, usize)>,
    /// The client's session, if transactions are ordered within sessions.
    session: Option<&'c Session>,
    previous: Option<Box<Abort>>,
}

impl<'c, J> Counted<'c, J> {
    /// Counts the conflicts that `job`, a transaction of kind `number`, loses.
    #[inline]
    pub fn new(
        job: J,
        number: usize,
        conflicts: &'c mut Conflicts,
        shapes: Option<&'c mut AbortShapes>,
        session: Option<&'c Session>,
    ) -> Self {
        Self { job, conflicts, shapes: shapes.map(|shapes| (shapes, number)), session, previous: None }
    }
}

impl<J: Job> Job for Counted<'_, J> {
    type Output = J::Output;
    type Error = J::Error;

    const SCHEMES: &'static [Scheme] = J::SCHEMES;

    #[inline]
    fn options(&self) -> TxnOptions {
        let options = self.job.options();
        match self.session {
            Some(session) => options.session(session),
            None => options,
        }
    }

    #[inline]
    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<J::Output, J::Error> {
        self.job.run(txn)
    }

    #[cold]
    fn lost(&mut self, abort: &Abort) {
        self.conflicts.count(abort, self.previous.as_deref());
        if let Some((shapes, number)) = &mut self.shapes {
            shapes.add(*number, abort);
        }
        self.previous = Some(Box::new(abort.clone()));
        self.job.lost(abort);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use ermine::{Error, Scheme};

    use super::*;

    /// An abort as the engine makes it.
    pub(crate) fn write_conflict() -> Abort {
        let db = ermine::Database::open_in_memory(ermine::Options::default().scheme(Scheme::Si)).unwrap();
        let table = db.table::<u32, u32>("stock").unwrap();
        let (first, second) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
        first.put(&table, &1, &1).unwrap();
        match second.put(&table, &1, &2) {
            Err(Error::Abort(abort)) => *abort,
            other => panic!("{other:?}"),
        }
    }

    fn abort(kind: AbortKind, key: u8) -> Abort {
        let mut abort = write_conflict();
        (abort.kind, abort.key, abort.other, abort.successor) = (kind, Some([key].into()), None, None);
        abort
    }

    #[test]
    fn the_same_place_twice_in_a_row_is_repeated() {
        let (first, second) = (abort(AbortKind::Exclusion, 1), abort(AbortKind::Exclusion, 2));
        let mut conflicts = Conflicts::default();
        conflicts.count(&first, None);
        conflicts.count(&second, Some(&first));
        conflicts.count(&second, Some(&second));
        conflicts.count(&abort(AbortKind::Phantom, 2), Some(&second));
        assert_eq!((conflicts.aborted, conflicts.repeated), (4, 1));
        assert_eq!(conflicts.named().iter().map(|(_, count)| count).sum::<u64>(), 4);
        assert!(conflicts.named().contains(&("exclusion", 3)));
    }

    #[test]
    fn the_same_opponent_is_one_that_both_name() {
        let (named, unnamed) = (write_conflict(), abort(AbortKind::WriteConflict, 1));
        assert!(named.other.is_some());
        let mut conflicts = Conflicts::default();
        conflicts.count(&named, Some(&named));
        conflicts.count(&unnamed, Some(&unnamed));
        assert_eq!((conflicts.repeated, conflicts.same_opponent), (2, 1));
    }
}
