//! The past of a database, and whether a recovered one agrees with it.

use std::{
    collections::{BTreeMap, HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
};

use ermine::{Database, Result, Stamp};
use ermine_testing::faulty::FaultyDirectory;

use super::workload::{Opened, group_of, mark_of};

/// A table, and a key in it.
pub type RowKey = (usize, u64);

/// A transaction that committed.
#[derive(Clone, Debug)]
pub struct Commit {
    pub stamp: Stamp,
    pub number: u64,
    /// The value under each key afterwards.
    pub effects: Vec<(RowKey, Option<Vec<u8>>)>,
}

/// A table with its indexes that was opened or created.
#[derive(Clone, Debug)]
pub struct Creation {
    pub table: usize,
    pub number: u64,
    /// Stamps of the same client's commits before and after it.
    pub after: Option<Stamp>,
    pub before: Option<Stamp>,
}

/// Rows by table and key.
type Rows = BTreeMap<RowKey, Vec<u8>>;

/// Everything that happened, in order.
#[derive(Clone, Debug, Default)]
pub struct Past {
    commits: Vec<Commit>,
    /// The first creation of each table.
    creations: Vec<Creation>,
    /// By number of commits: the sum of the hashes of all rows after them.
    sums: Vec<u64>,
    /// The place of each commit, by its number.
    places: HashMap<u64, usize>,
}

fn sum_of(row: &RowKey, value: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (row, value).hash(&mut hasher);
    hasher.finish()
}

/// The part of the past that a recovered database was found to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Number of commits found, from the first one on.
    pub commits: usize,
    pub tables: usize,
}

impl Past {
    pub fn highest_number(&self) -> u64 {
        let commits = self.commits.iter().map(|commit| commit.number);
        commits.chain(self.creations.iter().map(|creation| creation.number)).max().unwrap_or(0)
    }

    /// Returns the stamp of the last commit.
    pub fn settled(&self) -> Option<Stamp> {
        self.commits.last().map(|commit| commit.stamp)
    }

    pub fn tables(&self) -> usize {
        self.creations.len()
    }

    pub fn commits(&self) -> usize {
        self.commits.len()
    }

    /// Returns what is found in a database that has all of the past.
    pub fn whole(&self) -> Found {
        Found { commits: self.commits.len(), tables: self.creations.len() }
    }

    /// Returns the past, followed by what has happened since.
    pub fn and(mut self, commits: Vec<Commit>, creations: Vec<Creation>) -> Self {
        self.commits.extend(commits);
        self.commits.sort_by_key(|commit| commit.stamp);
        for creation in creations {
            if creation.table == self.creations.len() {
                self.creations.push(creation);
            }
        }
        self.places = self.commits.iter().enumerate().map(|(at, commit)| (commit.number, at)).collect();
        let mut rows = Rows::new();
        let mut sum = 0u64;
        self.sums = vec![0];
        for commit in &self.commits {
            for (row, value) in &commit.effects {
                let before = match value {
                    Some(value) => rows.insert(*row, value.clone()),
                    None => rows.remove(row),
                };
                sum = sum.wrapping_sub(before.map_or(0, |before| sum_of(row, &before)));
                sum = sum.wrapping_add(value.as_ref().map_or(0, |value| sum_of(row, value)));
            }
            self.sums.push(sum);
        }
        self
    }

    /// Returns the past as it is after a crash that left the part found. From now on all of that part must stay.
    pub fn cut(&self, found: Found, directory: &FaultyDirectory) -> Self {
        let mut past = Self { commits: self.commits.clone(), creations: self.creations.clone(), ..Self::default() };
        past.commits.truncate(found.commits);
        past.creations.truncate(found.tables);
        past.commits.iter().for_each(|commit| directory.mark(commit.number));
        past.creations.iter().for_each(|creation| directory.mark(creation.number));
        past.and(Vec::new(), Vec::new())
    }

    /// Returns the rows after the first `commits` commits.
    fn rows_after(&self, commits: usize) -> Rows {
        let mut rows = Rows::new();
        for (row, value) in self.commits[..commits].iter().flat_map(|commit| &commit.effects) {
            match value {
                Some(value) => rows.insert(*row, value.clone()),
                None => rows.remove(row),
            };
        }
        rows
    }

    /// Reads everything that a database holds: it must be the state after some first commits, with those among them
    /// that are marked as acknowledged, and the indexes must agree with the rows. Fails if something could not be read.
    pub fn judge(&self, db: &Database, marks: &[u64]) -> Result<Found> {
        let tables = db.recovery().tables as usize;
        let mut rows = Rows::new();
        for table in 0..tables {
            let opened = Opened::open(db, table)?;
            for (key, value) in check_table(db, &opened)? {
                rows.insert((table, key), value);
            }
        }
        assert_eq!(db.recovery().rows, rows.len() as u64, "rows that recovery counted");
        let sum = rows.iter().fold(0u64, |sum, (row, value)| sum.wrapping_add(sum_of(row, value)));
        let Some(commits) = self.sums.iter().position(|after| *after == sum) else {
            panic!("the rows are those after no first so many commits: {}", self.nearest(&rows));
        };
        for mark in marks {
            if let Some(place) = self.places.get(mark) {
                let stamp = self.commits[*place].stamp;
                assert!(*place < commits, "transaction {mark} at {stamp} was acknowledged, and is lost");
            }
        }
        let last = self.commits[..commits].last().map(|commit| commit.stamp);
        for (at, creation) in self.creations.iter().enumerate() {
            let exists = at < tables;
            assert!(exists || !marks.contains(&creation.number), "table {at} was acknowledged, and is lost");
            assert!(
                exists || creation.before.is_none() || last < creation.before,
                "table {at} is lost, and what came after it is not"
            );
            assert!(!exists || last >= creation.after, "table {at} is there, and what came before it is not");
        }
        assert!(tables <= self.creations.len(), "there are {tables} tables");
        Ok(Found { commits, tables })
    }

    /// Describes how rows differ from the state that is most like them.
    fn nearest(&self, rows: &Rows) -> String {
        let differences = |commits: usize| -> Vec<_> {
            let expected = self.rows_after(commits);
            let keys: std::collections::BTreeSet<_> = expected.keys().chain(rows.keys()).copied().collect();
            let different = keys.into_iter().filter(|key| expected.get(key) != rows.get(key));
            different.map(|key| (key, expected.get(&key).map(Vec::len), rows.get(&key).map(Vec::len))).collect()
        };
        let all = (0..=self.commits.len()).map(|commits| (commits, differences(commits)));
        let (commits, different) = all.min_by_key(|(_, different)| different.len()).unwrap();
        let last = commits.checked_sub(1).map(|last| self.commits[last].stamp);
        format!(
            "of {} commits, after {commits} (the last at {last:?}) these are different, (table, key) with bytes \
             expected and found: {different:?}",
            self.commits.len()
        )
    }
}

/// Returns the rows of a table, if its indexes agree about them.
pub fn check_table(db: &Database, table: &Opened) -> Result<Vec<(u64, Vec<u8>)>> {
    let rows = db.run(|txn| txn.scan(&table.rows, ..).collect())?;
    assert!(rows.windows(2).all(|pair| pair[0].0 < pair[1].0), "keys in order");
    let keys: Vec<u64> = rows.iter().map(|(key, _)| *key).collect();
    let found = db.run(|txn| txn.get_many(&table.rows, &keys))?;
    assert!(found.iter().zip(&rows).all(|(found, (_, value))| found.as_ref() == Some(value)), "each under its key");
    let check = |index: &Option<_>, of: fn(&[u8]) -> u64| -> Result<()> {
        let Some(index) = index else { return Ok(()) };
        let found = db.run(|txn| txn.scan_by(index, ..).collect())?;
        let mut expected = rows.clone();
        expected.sort_by_key(|(key, value)| (of(value), *key));
        assert!(found == expected, "{} rows, and an index with {}", rows.len(), found.len());
        Ok(())
    };
    check(&table.by_group, group_of)?;
    check(&table.by_mark, mark_of)?;
    let mut marks: Vec<u64> =
        rows.iter().filter(|_| table.by_mark.is_some()).map(|(_, value)| mark_of(value)).collect();
    marks.sort_unstable();
    assert!(marks.windows(2).all(|pair| pair[0] < pair[1]), "unique keys are unique");
    Ok(rows)
}
