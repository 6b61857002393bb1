//! Each transaction by itself, the draws, and conditions that are broken.

use ermine::{Database, Scheme};
use indicatif::ProgressBar;

use super::{
    check::check,
    tables::{CUSTOMERS_MAX, Opening, name},
    teller::{NAMES, SHARES},
    transactions::{Added, Order, Request},
    *,
};
use crate::{failure::Failure, pause::Pause, random::Random};

const SEED: u64 = 7;

fn options() -> SmallBank {
    SmallBank { customers: 100, hot_customers: 10, hot_percent: 90, pause: Pause::NONE }
}

fn bank(scheme: Scheme) -> (Database, Bank) {
    let db = Database::open_in_memory(ermine::Options::default().scheme(scheme)).unwrap();
    let bank = options().load(&db, &LoadPlan { seed: SEED, threads: 2, progress: &ProgressBar::hidden() }).unwrap();
    (db, bank)
}

fn order(db: &Database, bank: &Bank, request: Request) -> Result<Added, Failure> {
    db.run_job(&mut Order { tables: &bank.tables, request, pause: Pause::NONE })
}

/// The savings and the checking account of a customer.
fn cents(db: &Database, bank: &Bank, customer: u32) -> (i64, i64) {
    let Tables { savings, checking, .. } = &bank.tables;
    db.run(|txn| {
        Ok::<_, ermine::Error>((txn.get(savings, &customer)?.unwrap(), txn.get(checking, &customer)?.unwrap()))
    })
    .unwrap()
}

/// The conditions that do not hold.
fn failed(db: &Database, bank: &Bank) -> Vec<&'static str> {
    let verdicts = check(db, &bank.tables, &bank.added, SEED).unwrap();
    verdicts.into_iter().filter(|(verdict, _)| !verdict.holds()).map(|(verdict, _)| verdict.condition).collect()
}

#[test]
fn each_transaction_does_what_the_rules_say() {
    for scheme in Scheme::ALL {
        let (db, mut bank) = bank(scheme);
        let Opening { savings, checking } = Opening::of(SEED, 3);
        let other = Opening::of(SEED, 4).checking;
        let (one, two) = (name(3), name(4));
        let now = |customer| cents(&db, &bank, customer);
        let run = |request| order(&db, &bank, request);
        assert_eq!(run(Request::Balance(one)).unwrap(), [(3, 0), (3, 0)]);
        run(Request::DepositChecking(one, 50)).unwrap();
        run(Request::TransactSavings(one, -20)).unwrap();
        assert_eq!(now(3), (savings - 20, checking + 50));
        assert!(matches!(run(Request::TransactSavings(one, -savings)), Err(Failure::RolledBack)));
        run(Request::SendPayment(one, two, checking)).unwrap();
        assert_eq!((now(3), now(4).1), ((savings - 20, 50), other + checking));
        assert!(matches!(run(Request::SendPayment(one, two, 51)), Err(Failure::RolledBack)));
        run(Request::WriteCheck(one, 60)).unwrap();
        assert_eq!(now(3), (savings - 20, -10));
        let all = savings - 30;
        assert_eq!(run(Request::Amalgamate(one, two)).unwrap(), [(3, -all), (4, all)]);
        assert_eq!((now(3), now(4).1), ((0, 0), other + checking + all));
        assert_eq!(run(Request::WriteCheck(one, 60)).unwrap()[0], (3, -160), "a penalty");
        bank.added[3] = -savings - checking - 160;
        bank.added[4] = checking + all;
        assert_eq!(failed(&db, &bank), [""; 0], "{scheme}");
    }
}

#[test]
fn broken_conditions_are_found() {
    let (db, mut bank) = bank(Scheme::SiSsn);
    assert_eq!(failed(&db, &bank), [""; 0]);
    bank.added[5] = 1;
    assert_eq!(failed(&db, &bank), ["money"], "an addition that is not there");
    bank.added[5] = -Opening::of(SEED, 5).savings - 1;
    db.run(|txn| txn.update(&bank.tables.savings, &5, &-1)).unwrap();
    assert_eq!(failed(&db, &bank), ["savings"]);
    bank.added[5] = 0;
    db.run(|txn| txn.delete(&bank.tables.savings, &5)).unwrap();
    assert_eq!(failed(&db, &bank), ["rows"]);
    db.run(|txn| txn.insert(&bank.tables.savings, &5, &Opening::of(SEED, 5).savings)).unwrap();
    db.run(|txn| txn.delete(&bank.tables.account, &name(7))).unwrap();
    assert_eq!(failed(&db, &bank), ["rows"]);
}

#[test]
fn draws_follow_the_shares_and_prefer_hot_customers() {
    let (_db, bank) = bank(Scheme::Si);
    let options = options();
    let mut teller = Teller::new(&options, &bank.tables, Scheme::Si, Random::new(1, 1));
    let (mut kinds, mut hot) = ([0u32; 6], 0);
    for _ in 0..20_000 {
        let (kind, request) = teller.draw();
        kinds[kind] += 1;
        let (first, second) = match request {
            Request::Balance(one) | Request::DepositChecking(one, _) => (one, None),
            Request::TransactSavings(one, _) | Request::WriteCheck(one, _) => (one, None),
            Request::Amalgamate(one, two) | Request::SendPayment(one, two, _) => (one, Some(two)),
        };
        assert_ne!(Some(first), second);
        hot += u32::from(first < name(10));
    }
    for kind in 0..NAMES.len() {
        assert!(kinds[kind].abs_diff(200 * SHARES[kind]) < 300, "{kinds:?}");
    }
    // 90 %, and a tenth of the others.
    assert!((17_900..18_500).contains(&hot), "{hot}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    options().check().unwrap();
    for bad in [
        SmallBank { customers: 1, ..options() },
        SmallBank { customers: CUSTOMERS_MAX + 1, ..options() },
        SmallBank { hot_customers: 1, ..options() },
        SmallBank { hot_customers: 101, ..options() },
        SmallBank { hot_percent: 101, ..options() },
    ] {
        assert!(bad.check().is_err(), "{bad}");
    }
}
