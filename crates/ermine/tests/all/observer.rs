//! Events that an observer receives: small transactions one after the other, and their actions in words.

use std::sync::{Arc, Mutex};

use ermine::{
    Database, Options, Result, Scheme, TxnOptions, Uniqueness,
    observer::{Action, Digest, Observed, Observer, Outcome, ReadVersion},
};

/// Keeps the events that it receives, stamps as "when the n-th commit was made".
#[derive(Default)]
struct Words(Mutex<Vec<String>>);

impl Observer for Words {
    fn ended(&self, transaction: &Observed<'_>) {
        let mut told = self.0.lock().unwrap();
        told.extend(transaction.actions().map(|action| words(&action)));
        told.push(match transaction.outcome {
            Outcome::Committed(stamp) => format!("committed {stamp}"),
            Outcome::Aborted => "aborted".into(),
        });
    }
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().unwrap())
}

fn words(action: &Action<'_>) -> String {
    let value = |value: Option<Digest>| match value {
        None => "nothing".to_owned(),
        Some(digest) => match (0..10_u64).find(|value| Digest::of(&value.to_le_bytes()) == digest) {
            Some(value) => value.to_string(),
            None => "another value".into(),
        },
    };
    match *action {
        Action::Read { key, version, value: read, .. } => {
            let version = match version {
                ReadVersion::At(stamp) => format!("of {stamp}"),
                ReadVersion::Own => "of its own".into(),
                ReadVersion::Missing(at) => format!("before {at}"),
            };
            format!("read {} = {} {version}", number(key), value(read))
        }
        Action::Range { index, lower, upper, at } => {
            let upper = upper.map_or("end".into(), |upper| format!("{:?}", &upper[7..]));
            format!("range {} of {}..{upper} at {at}", index.ordinal, number(lower))
        }
        Action::Write { key, value: written, .. } => format!("write {} = {}", number(key), value(written)),
        Action::Entry { index, entry, present } => {
            let what = if present { "has" } else { "loses" };
            format!("{} {what} entry {} of {}", number(&entry[8..]), number(entry), index.ordinal)
        }
    }
}

/// Returns the events of `body`, line by line.
fn told(scheme: Scheme, body: impl FnOnce(&Database) -> Result<()>) -> Vec<String> {
    let words = Arc::new(Words::default());
    let db = Database::open_in_memory(Options::default().scheme(scheme).observer(words.clone())).unwrap();
    body(&db).unwrap();
    drop(db);
    let told = words.0.lock().unwrap();
    told.clone()
}

fn commits(told: &[String]) -> Vec<&str> {
    told.iter().filter_map(|line| line.strip_prefix("committed ")).collect()
}

#[test]
fn reads_writes_and_misses_are_told_with_their_versions() {
    for scheme in Scheme::ALL {
        let told = told(scheme, |db| {
            let t = db.table::<u64, u64>("t")?;
            db.run(|txn| txn.insert(&t, &1, &7))?;
            db.run(|txn| {
                assert_eq!(txn.get(&t, &1)?, Some(7));
                assert_eq!(txn.get(&t, &2)?, None);
                txn.put(&t, &1, &8)?;
                txn.get(&t, &1).map(|own| assert_eq!(own, Some(8)))
            })?;
            db.run(|txn| txn.delete(&t, &1).map(drop))?;
            let reader = db.begin(TxnOptions::default())?;
            assert_eq!(reader.get(&t, &1)?, None);
            drop(reader);
            Ok(())
        });
        let stamps = commits(&told);
        let [first, second, third] = stamps[..] else { panic!("{told:?}") };
        // Rows with one version have no version before: finding a row to delete is a read.
        let before_deletion = (!scheme.has_versions()).then(|| format!("read 1 = 8 of {second}"));
        let mut expected = vec![
            "write 1 = 7".into(),
            format!("committed {first}"),
            format!("read 1 = 7 of {first}"),
            format!("read 2 = nothing before {second}"),
            "write 1 = 8".into(),
            "read 1 = 8 of its own".into(),
            format!("committed {second}"),
            "write 1 = nothing".into(),
            format!("committed {third}"),
            format!("read 1 = nothing of {third}"),
            "aborted".into(),
        ];
        expected.splice(7..7, before_deletion);
        assert_eq!(told, expected, "{scheme}");
    }
}

#[test]
fn ranges_say_how_far_they_went() {
    for scheme in Scheme::ALL {
        let told = told(scheme, |db| {
            let t = db.table::<u64, u64>("t")?;
            let by_value = db.index(&t, "by value", Uniqueness::NonUnique, |_, value: u64| value)?;
            db.run(|txn| (1..=3).try_for_each(|key| txn.insert(&t, &key, &(key + 4))))?;
            db.run(|txn| txn.put(&t, &2, &5))?;
            db.run(|txn| {
                assert_eq!(txn.scan(&t, 2..).limit(1).collect()?, [(2, 5)]);
                assert_eq!(txn.scan_by(&by_value, 5..6).collect()?.len(), 2);
                Ok::<_, ermine::Error>(())
            })
        });
        let expected = [
            "write 1 = 5",
            "1 has entry 5 of 1",
            "write 2 = 6",
            "2 has entry 6 of 1",
            "write 3 = 7",
            "3 has entry 7 of 1",
        ];
        assert_eq!(
            told[..7],
            expected
                .into_iter()
                .map(String::from)
                .chain([format!("committed {}", commits(&told)[0])])
                .collect::<Vec<_>>(),
            "{scheme}"
        );
        assert_eq!(told[7..10], ["write 2 = 5", "2 loses entry 6 of 1", "2 has entry 5 of 1"], "{scheme}");
        let ranges: Vec<_> = told.iter().filter(|line| line.starts_with("range")).collect();
        let at =
            told.iter().find_map(|line| line.strip_prefix("range 0 of 2..[2, 0] at ")).expect("a broken-off range");
        assert_eq!(*ranges[1], format!("range 1 of 5..[6] at {at}"), "{scheme}");
        let of_the_index = told.iter().filter(|line| line.starts_with("read 1 = 5")).count();
        assert_eq!(of_the_index, 1, "{told:?}");
    }
}

#[test]
fn a_key_that_came_after_the_snapshot_is_missing_from_before_it() {
    let told = told(Scheme::SiSsn, |db| {
        let t = db.table::<u64, u64>("t")?;
        let old = db.begin(TxnOptions::default())?;
        assert_eq!(old.get(&t, &5)?, None);
        db.run(|txn| txn.insert(&t, &1, &7))?;
        assert_eq!(old.get(&t, &1)?, None);
        drop(old);
        Ok(())
    });
    let first = commits(&told)[0];
    assert_eq!(told.iter().filter(|line| **line == format!("read 1 = nothing before {first}")).count(), 1, "{told:?}");
}
