//! What must hold of the register after the run.

use std::{collections::BTreeMap, ops::ControlFlow};

use ermine::{Database, TxnOptions};

use super::{
    population::{Profile, START_TIMES},
    tables::{Tables, sub_nbr},
};
use crate::{
    Result,
    verdict::{Promise, Verdict},
};

/// Compares the register with the initial data, and with the call forwardings that committed transactions have added.
pub fn check(
    db: &Database,
    tables: &Tables,
    subscribers: u32,
    seed: u64,
    added: i64,
) -> Result<Vec<(Verdict, Promise)>> {
    let mut rows =
        Verdict::new("rows", "every subscriber has its access data and its special facilities, and no other");
    let mut index = Verdict::new("index", "every telephone number leads to its subscriber");
    let mut parents =
        Verdict::new("parents", "every call forwarding is of a special facility, at a time that there is");
    let mut count = Verdict::new("count", "there are as many call forwardings as were loaded and added less removed");
    let txn = db.begin(TxnOptions::read_only())?;
    let access: BTreeMap<_, _> = txn.scan(&tables.access_info, ..).collect()?.into_iter().collect();
    let facilities: BTreeMap<_, _> = txn.scan(&tables.special_facility, ..).collect()?.into_iter().collect();
    let found = txn.scan(&tables.subscriber, ..).count()?;
    rows.compare(found == subscribers as usize, || format!("found {found} subscribers of {subscribers}"));
    let (mut access_rows, mut facility_rows, mut loaded) = (0, 0, 0);
    for number in 1..=subscribers {
        let profile = Profile::of(seed, number);
        let row = txn.get(&tables.subscriber, &number)?;
        let whole = row.is_some_and(|row| row.sub_nbr == profile.subscriber.sub_nbr)
            && profile.access_info.iter().all(|(kind, row)| access.get(&(number, *kind)) == Some(row))
            && profile.special_facilities.iter().all(|(kind, row)| {
                // Only data_a is ever updated.
                let found = facilities.get(&(number, *kind));
                found.is_some_and(|found| (found.is_active, found.data_b) == (row.is_active, row.data_b))
            });
        rows.compare(whole, || format!("subscriber {number}: {row:?}, or one of its rows"));
        let by_number = txn.find_by(&tables.subscriber_by_number, &sub_nbr(number))?.map(|(number, _)| number);
        index.compare(by_number == Some(number), || format!("subscriber {number}: found {by_number:?}"));
        access_rows += profile.access_info.len();
        facility_rows += profile.special_facilities.len();
        loaded += profile.call_forwardings.len() as i64;
    }
    rows.compare((access.len(), facilities.len()) == (access_rows, facility_rows), || {
        let (access, facilities) = (access.len(), facilities.len());
        format!("found {access} access data of {access_rows}, {facilities} special facilities of {facility_rows}")
    });
    let mut forwardings = 0;
    txn.scan(&tables.call_forwarding, ..).for_each(|key, row| {
        forwardings += 1;
        let (subscriber, kind, start) = key;
        let sound = facilities.contains_key(&(subscriber, kind)) && START_TIMES.contains(&start);
        parents.compare(sound && (1..=24).contains(&row.end_time), || format!("{key:?}: until {}", row.end_time));
        Ok(ControlFlow::Continue(()))
    })?;
    txn.commit()?;
    count.compare(forwardings == loaded + added, || format!("found {forwardings}, loaded {loaded}, added {added}"));
    // An empty table refers to nothing.
    parents.compare(true, String::new);
    Ok([rows, index, parents, count].map(|verdict| (verdict, Promise::Always)).into())
}
