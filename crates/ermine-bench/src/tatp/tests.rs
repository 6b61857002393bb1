//! The transactions by themselves, how often they succeed, the draws, and conditions that are broken.

use ermine::Scheme;
use indicatif::ProgressBar;

use super::{
    check::check,
    handset::{NAMES, SHARES},
    population::START_TIMES,
    tables::{CallForwarding, sub_nbr},
    transactions::{Call, Request},
    *,
};
use crate::{failure::Failure, fixed::Text, random::Random};

const SEED: u64 = 7;
const OPTIONS: Tatp = Tatp { subscribers: 2_000, uniform: false };

fn register(scheme: Scheme) -> (Database, Register) {
    let db = Database::open_in_memory(ermine::Options::default().scheme(scheme)).unwrap();
    let register = OPTIONS.load(&db, &LoadPlan { seed: SEED, threads: 2, progress: &ProgressBar::hidden() }).unwrap();
    (db, register)
}

/// Returns the call forwardings added, or none if the transaction fails by the rules.
fn call(db: &Database, tables: &Tables, request: Request) -> Option<i64> {
    match db.run_job(&mut Call { tables, request }) {
        Err(Failure::RolledBack) => None,
        done => Some(done.unwrap()),
    }
}

/// The conditions that do not hold.
fn failed(db: &Database, tables: &Tables, added: i64) -> Vec<&'static str> {
    let verdicts = check(db, tables, OPTIONS.subscribers, SEED, added).unwrap();
    verdicts.into_iter().filter(|(verdict, _)| !verdict.holds()).map(|(verdict, _)| verdict.condition).collect()
}

#[test]
fn updates_and_forwardings_do_what_the_rules_say() {
    for scheme in Scheme::ALL {
        let (db, Register { tables, .. }) = register(scheme);
        let of = |subscriber| Profile::of(SEED, subscriber);
        let number = (1..).find(|&number| of(number).special_facilities.len() == 3).unwrap();
        let facility = of(number).special_facilities[0].0;
        let missing = (1..=4).find(|kind| of(number).special_facilities.iter().all(|(own, _)| own != kind)).unwrap();
        let row = || db.run(|txn| txn.get(&tables.subscriber, &number)).unwrap().unwrap();
        let bit = 1 - row().bits.0[0];
        let update = |facility| Request::UpdateSubscriberData { subscriber: number, bit, facility, data_a: 9 };
        assert_eq!(call(&db, &tables, update(missing)), None);
        assert_eq!(row().bits.0[0], 1 - bit, "{scheme}: what fails changes nothing");
        assert_eq!(call(&db, &tables, update(facility)), Some(0));
        let data_a = db.run(|txn| txn.get(&tables.special_facility, &(number, facility))).unwrap().unwrap().data_a;
        assert_eq!((row().bits.0[0], data_a), (bit, 9));
        call(&db, &tables, Request::UpdateLocation { number: sub_nbr(number), vlr_location: 77 }).unwrap();
        assert_eq!((row().vlr_location, row().bits.0[0]), (77, bit));

        let number = sub_nbr(number);
        let delete = Request::DeleteCallForwarding { number, facility, start_time: 8 };
        let insert = |facility| {
            let numberx = Text([b'1'; 15]);
            Request::InsertCallForwarding { number, facility, start_time: 8, end_time: 20, numberx }
        };
        let before = call(&db, &tables, delete).unwrap_or(0);
        assert_eq!(call(&db, &tables, delete), None);
        assert_eq!(call(&db, &tables, insert(missing)), None);
        assert_eq!(call(&db, &tables, insert(facility)), Some(1));
        assert_eq!(call(&db, &tables, insert(facility)), None, "{scheme}: it exists");
        assert_eq!(failed(&db, &tables, before + 1), [""; 0], "{scheme}");
    }
}

#[test]
fn transactions_succeed_as_often_as_the_population_lets_them() {
    let (db, register) = register(Scheme::SiSsn);
    let mut handset = Handset::new(&OPTIONS, &register.tables, Scheme::SiSsn, Random::new(5, 1));
    let (mut drawn, mut done, mut added) = ([0u32; 7], [0u32; 7], 0);
    for _ in 0..60_000 {
        let (kind, request) = handset.draw();
        drawn[kind] += 1;
        if let Some(forwardings) = call(&db, &register.tables, request) {
            done[kind] += 1;
            added += forwardings;
        }
    }
    for kind in 0..NAMES.len() {
        assert!(drawn[kind].abs_diff(600 * SHARES[kind]) < 600, "{drawn:?}");
    }
    // In tenths of a percent, of the initial data; inserts and deletes change them slowly.
    let wanted = [1_000, 148, 625, 625, 1_000, 313, 313];
    for (kind, wanted) in wanted.into_iter().enumerate() {
        let share = 1_000 * done[kind] / drawn[kind];
        assert!(share.abs_diff(wanted) < 60, "{}: {share} of {wanted}", NAMES[kind]);
    }
    assert_eq!(failed(&db, &register.tables, added), [""; 0]);
}

#[test]
fn subscribers_are_drawn_non_uniformly_or_uniformly() {
    let mut random = Random::new(1, 0);
    let options = Tatp { subscribers: 100_000, uniform: false };
    // The function prefers numbers with many bits set: fewer of them are low.
    let low = |options: &Tatp, random: &mut Random| {
        let drawn: Vec<_> = (0..20_000).map(|_| options.subscriber(random)).collect();
        assert!(drawn.iter().all(|number| (1..=100_000).contains(number)));
        drawn.into_iter().filter(|&number| number <= 32_768).count()
    };
    let skewed = low(&options, &mut random);
    let uniform = low(&Tatp { uniform: true, ..options }, &mut random);
    assert!((6_200..6_900).contains(&uniform), "{uniform}");
    assert!(skewed.abs_diff(uniform) > 500, "{skewed} and {uniform}");
}

#[test]
fn broken_conditions_are_found() {
    let (db, Register { tables, .. }) = register(Scheme::SiSsn);
    assert_eq!(failed(&db, &tables, 0), [""; 0]);
    assert_eq!(failed(&db, &tables, 1), ["count"]);
    let number = (1..).find(|&number| Profile::of(SEED, number).special_facilities.len() == 1).unwrap();
    let missing = Profile::of(SEED, number).special_facilities[0].0 % 4 + 1;
    let row = CallForwarding { end_time: 9, numberx: Text([b'1'; 15]) };
    let orphan = (number, missing, START_TIMES[1]);
    db.run(|txn| txn.insert(&tables.call_forwarding, &orphan, &row)).unwrap();
    assert_eq!(failed(&db, &tables, 1), ["parents"]);
    db.run(|txn| txn.delete(&tables.call_forwarding, &orphan)).unwrap();
    let access = (number, Profile::of(SEED, number).access_info[0].0);
    let before = db.run(|txn| txn.get(&tables.access_info, &access)).unwrap().unwrap();
    db.run(|txn| txn.delete(&tables.access_info, &access)).unwrap();
    assert_eq!(failed(&db, &tables, 0), ["rows"]);
    db.run(|txn| txn.insert(&tables.access_info, &access, &before)).unwrap();
    assert_eq!(failed(&db, &tables, 0), [""; 0]);
    let change = |row: &mut tables::Subscriber| {
        row.sub_nbr = Text(sub_nbr(5_000));
        Ok(())
    };
    db.run(|txn| txn.modify(&tables.subscriber, &number, change)).unwrap();
    assert_eq!(failed(&db, &tables, 0), ["rows", "index"]);
}

#[test]
fn options_that_cannot_work_are_refused() {
    OPTIONS.check().unwrap();
    assert!(Tatp { subscribers: 0, ..OPTIONS }.check().is_err());
    assert!(Tatp { subscribers: Tatp::SUBSCRIBERS_MAX + 1, ..OPTIONS }.check().is_err());
}
