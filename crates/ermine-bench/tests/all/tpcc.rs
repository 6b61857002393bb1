//! The TPC-C-like workload on the engine.
//!
//! Goal: the loader writes the data that the rules ask for, a run of many threads leaves every consistency condition
//! intact, and each condition can fail. Method: warehouses of reduced scale; for each condition one value is corrupted
//! in a transaction, and exactly the conditions that this implies must fail.

use std::{sync::LazyLock, time::Duration};

use ermine::{Database, Scheme, Transaction};
use ermine_bench::{
    pause::Pause,
    report::Setting,
    tpcc::{
        CreditCheckRow, Home, Kind, Mix, Moment, Options, RowChoice, Scale, SiloRows, Tables, Text, Verdict, all_hold,
        check, drive, load, run,
    },
    trial::{Retry, RunOptions},
};
use indicatif::ProgressBar;

const SEED: u64 = 20_240_229;

/// Measured once: it takes a second.
fn setting() -> Setting {
    static SETTING: LazyLock<Setting> = LazyLock::new(Setting::here);
    SETTING.clone()
}

fn loaded(scheme: Scheme, warehouses: u32, threads: usize) -> (Database, Tables) {
    let db = Database::open_in_memory(ermine::Options::default().scheme(scheme)).unwrap();
    let tables: Tables = Tables::open(&db).unwrap();
    load(&db, &tables, warehouses, Scale::SMALL, SEED, threads, &ProgressBar::hidden()).unwrap();
    (db, tables)
}

fn verdicts(db: &Database, tables: &Tables, warehouses: u32, moment: Moment) -> Vec<Verdict> {
    check(db, tables, warehouses, Scale::SMALL, moment).unwrap()
}

fn failed(verdicts: &[Verdict]) -> Vec<&'static str> {
    verdicts.iter().filter(|verdict| !verdict.holds()).map(|verdict| verdict.condition).collect()
}

fn options(scheme: Scheme) -> Options {
    Options {
        scheme,
        threads: 4,
        warehouses: 2,
        remote_percent: 10,
        home: Home::Random,
        scale: Scale::SMALL,
        rows: RowChoice::Standard,
        mix: Mix::Standard,
        credit_pause: Pause::NONE,
        acknowledge: None,
        expect: None,
        run_options: run_options(Retry::Yes, SEED),
    }
}

fn run_options(retry: Retry, seed: u64) -> RunOptions {
    let (warmup, measured) = (Duration::from_millis(100), Duration::from_millis(900));
    // On a busy machine the time is too short.
    RunOptions { warmup, measured, least: 1_000, retry, seed, ..RunOptions::default() }
}

#[test]
fn the_load_is_consistent_under_every_scheme() {
    for scheme in Scheme::ALL {
        let (db, tables) = loaded(scheme, 2, 3);
        let verdicts = verdicts(&db, &tables, 2, Moment::AfterLoad);
        assert_eq!(failed(&verdicts), [""; 0], "{scheme}");
        assert_eq!(verdicts.len(), 14);
    }
}

#[test]
fn the_load_depends_on_the_seed_alone() {
    let stock = |threads| {
        let (db, tables) = loaded(Scheme::Si, 1, threads);
        let txn = db.begin(ermine::TxnOptions::read_only()).unwrap();
        txn.scan(&tables.stock, ..).collect().unwrap()
    };
    assert!(stock(1) == stock(4));
}

/// Corrupts something in a fresh business and returns the conditions that fail.
fn after(corrupt: impl Fn(&Transaction<'_>, &Tables) -> ermine::Result<()>) -> Vec<&'static str> {
    let (db, tables) = loaded(Scheme::SiSsn, 1, 1);
    db.run(|txn| corrupt(txn, &tables)).unwrap();
    failed(&verdicts(&db, &tables, 1, Moment::AfterLoad))
}

/// The last order of district 3, which is not delivered.
const NEW: (u32, u8, u32) = (1, 3, Scale::SMALL.customers);
/// The oldest order of district 3 that is not delivered.
const OLDEST_NEW: (u32, u8, u32) = (1, 3, Scale::SMALL.customers - Scale::SMALL.new_orders + 1);

/// Changes one row.
macro_rules! change {
    ($txn:ident, $table:expr, $key:expr, |$row:ident| $change:expr) => {{
        let mut $row = $txn.get($table, $key)?.expect("the row is there");
        $change;
        assert!($txn.update($table, $key, &$row)?);
    }};
}

#[test]
fn conditions_1_8_and_9_notice_sums() {
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.warehouse, &1, |row| row.ytd += 1);
            Ok(())
        }),
        ["1", "8"]
    );
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.district, &(1, 3), |row| row.ytd += 1);
            Ok(())
        }),
        ["1", "9"]
    );
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.history, &(1, 3, 1), |row| row.amount += 1);
            Ok(())
        }),
        ["8", "9", "10"]
    );
    // A payment booked in another district of the same warehouse.
    assert_eq!(
        after(|txn, tables| {
            let row = txn.get(&tables.history, &(1, 3, 1))?.expect("the row is there");
            assert!(txn.delete(&tables.history, &(1, 3, 1))?);
            txn.insert(&tables.history, &(1, 4, 1 << 50), &row)
        }),
        ["9"]
    );
}

#[test]
fn conditions_2_3_and_11_notice_order_numbers() {
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.district, &(1, 3), |row| row.next_o_id += 1);
            Ok(())
        }),
        ["2"]
    );
    assert_eq!(
        after(|txn, tables| {
            assert!(txn.delete(&tables.new_order, &(NEW.0, NEW.1, NEW.2 - 1))?);
            Ok(())
        }),
        ["3", "5", "11"]
    );
    assert_eq!(
        after(|txn, tables| {
            assert!(txn.delete(&tables.new_order, &OLDEST_NEW)?);
            Ok(())
        }),
        ["5", "11"]
    );
}

#[test]
fn conditions_4_and_6_notice_lines() {
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.order, &NEW, |row| row.ol_cnt += 1);
            Ok(())
        }),
        ["4", "6"]
    );
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.order, &NEW, |row| row.ol_cnt += 1);
            change!(txn, &tables.order, &(1, 3, 1), |row| row.ol_cnt -= 1);
            Ok(())
        }),
        ["6"]
    );
    assert_eq!(
        after(|txn, tables| {
            assert!(txn.delete(&tables.order_line, &(NEW.0, NEW.1, NEW.2, 1))?);
            Ok(())
        }),
        ["4", "6"]
    );
}

#[test]
fn conditions_5_and_7_notice_deliveries() {
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.order, &NEW, |row| row.carrier_id = 1);
            Ok(())
        }),
        ["5", "7"]
    );
    // A delivered line also counts for its customer.
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.order_line, &(NEW.0, NEW.1, NEW.2, 1), |row| row.delivery_d = 1);
            Ok(())
        }),
        ["7", "10", "12"]
    );
    // A line that was free does not.
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.order_line, &(1, 3, 1, 1), |row| row.delivery_d = 0);
            Ok(())
        }),
        ["7"]
    );
}

#[test]
fn conditions_10_and_12_notice_balances() {
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.customer, &(1, 3, 1), |row| row.balance += 1);
            Ok(())
        }),
        ["10", "12"]
    );
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.customer, &(1, 3, 1), |row| row.ytd_payment += 1);
            Ok(())
        }),
        ["12"]
    );
    assert_eq!(
        after(|txn, tables| {
            change!(txn, &tables.customer, &(1, 3, 1), |row| {
                row.balance += 1;
                row.ytd_payment -= 1;
            });
            Ok(())
        }),
        ["10"]
    );
}

#[test]
fn lost_rows_are_noticed() {
    assert_eq!(
        after(|txn, tables| {
            assert!(txn.delete(&tables.item, &7)? && txn.delete(&tables.stock, &(1, 9))?);
            Ok(())
        }),
        ["rows"]
    );
}

#[test]
fn every_condition_holds_after_a_run() {
    for scheme in [Scheme::Si, Scheme::SiSsn] {
        for retry in [Retry::Yes, Retry::No] {
            let options = Options { run_options: run_options(retry, SEED), ..options(scheme) };
            let (db, tables) = loaded(scheme, options.warehouses, 2);
            let outcome = run(&options, &db, &tables, &mut |_| {}).unwrap();
            let verdicts = verdicts(&db, &tables, options.warehouses, Moment::AfterRun);
            assert_eq!(failed(&verdicts), [""; 0], "{scheme}, retry {retry:?}");
            assert_eq!(verdicts.len(), 13, "condition 11 is not asked after a run");
            let committed = outcome.counts.total().committed;
            assert!(committed > 100, "{scheme}, retry {retry:?}: {committed}");
        }
    }
}

#[test]
fn a_hundredth_of_new_orders_is_rolled_back_and_leaves_nothing() {
    let options = Options { threads: 2, remote_percent: 1, home: Home::Fixed, ..options(Scheme::SiSsn) };
    let progress = ProgressBar::hidden();
    let summary = drive(&options, setting(), &progress, &mut |_| {}).unwrap();
    assert!(summary.holds() && all_hold(&summary.after_run));
    let new_orders = &summary.kinds[Kind::NewOrder as usize];
    let share = new_orders.rolled_back as f64 / (new_orders.rolled_back + new_orders.committed) as f64;
    assert!((0.0..0.03).contains(&share) && new_orders.rolled_back > 0, "{share}");
    assert!(summary.kinds.iter().skip(1).all(|kind| kind.rolled_back == 0));
    // Nothing of the report is lost in its conversion to JSON.
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["options"]["scheme"], "si-ssn");
    assert_eq!(json["after_run"].as_array().unwrap().len(), 13);
}

#[test]
fn the_rows_of_silo_keep_every_condition() {
    for scheme in [Scheme::SiSsn, Scheme::Silo, Scheme::MvOcc, Scheme::Tso] {
        let options = Options { rows: RowChoice::Silo, ..options(scheme) };
        let summary = drive(&options, setting(), &ProgressBar::hidden(), &mut |_| {}).unwrap();
        assert!(all_hold(&summary.after_load) && all_hold(&summary.after_run), "{scheme}: {summary}");
        assert!(summary.kinds.iter().all(|kind| kind.committed > 0 && kind.rolled_back == 0), "{scheme}: {summary}");
        if scheme.has_snapshots() && scheme.has_versions() {
            let read_only = [Kind::OrderStatus, Kind::StockLevel].map(|kind| summary.kinds[kind as usize].aborted);
            assert_eq!(read_only, [0, 0], "{scheme}: a snapshot loses no conflict");
        }
    }
}

#[test]
fn lost_notes_are_noticed() {
    let db = Database::open_in_memory(ermine::Options::default()).unwrap();
    let tables = Tables::<SiloRows>::open(&db).unwrap();
    load(&db, &tables, 1, Scale::SMALL, SEED, 1, &ProgressBar::hidden()).unwrap();
    let failing = || failed(&check(&db, &tables, 1, Scale::SMALL, Moment::AfterLoad).unwrap());
    assert_eq!(failing(), [""; 0]);
    assert!(db.run(|txn| txn.delete(tables.stock_notes.as_ref().unwrap(), &(1, 9))).unwrap());
    assert_eq!(failing(), ["rows"]);
}

#[test]
fn read_committed_runs_to_its_end() {
    let options = Options { threads: 2, home: Home::Fixed, ..options(Scheme::Rc) };
    let progress = ProgressBar::hidden();
    let summary = drive(&options, setting(), &progress, &mut |_| {}).unwrap();
    assert!(all_hold(&summary.after_load) && summary.holds());
    assert!(summary.total.committed > 100);
}

/// Options of a business in which credit checks and new orders of the same customer meet.
fn with_credit_checks(scheme: Scheme) -> Options {
    Options { mix: Mix::CreditCheck, credit_pause: Pause::Yield, warehouses: 1, ..options(scheme) }
}

#[test]
fn credit_checks_hold_under_serializable_schemes() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_serializable()) {
        let options = with_credit_checks(scheme);
        let progress = ProgressBar::hidden();
        let summary = drive(&options, setting(), &progress, &mut |_| {}).unwrap();
        assert_eq!((failed(&summary.after_load), failed(&summary.after_run)), (vec![], vec![]), "{scheme}");
        let credit = summary.after_run.iter().find(|verdict| verdict.condition == "credit").unwrap();
        assert!(credit.compared > 1_000, "{scheme}: {}", credit.compared);
        assert!(summary.kinds.iter().any(|kind| kind.name == "credit-check" && kind.committed > 0), "{scheme}");
    }
}

#[test]
fn snapshot_isolation_lets_a_credit_check_miss_an_order() {
    // An anomaly is a matter of chance in each run: several runs are tried.
    let progress = ProgressBar::hidden();
    let missed = (0..20).any(|seed| {
        let run_options = run_options(Retry::Yes, seed);
        let options = Options { run_options, ..with_credit_checks(Scheme::Si) };
        let summary = drive(&options, setting(), &progress, &mut |_| {}).unwrap();
        assert!(summary.holds(), "snapshot isolation permits nothing else");
        failed(&summary.after_run) == ["credit"]
    });
    assert!(missed);
}

#[test]
fn the_condition_on_credit_checks_notices_a_missed_order() {
    let db = Database::open_in_memory(ermine::Options::default().scheme(Scheme::SiSsn)).unwrap();
    let tables: Tables = Tables::open_for(&db, Mix::CreditCheck).unwrap();
    load(&db, &tables, 1, Scale::SMALL, SEED, 1, &ProgressBar::hidden()).unwrap();
    let credit = tables.credit.as_ref().unwrap();
    let order = db.run(|txn| txn.get(&tables.order, &NEW)).unwrap().unwrap();
    let check = |newest_o_id| CreditCheckRow { outstanding: 0, newest_o_id, status: Text(*b"GC"), padding: [0; 2] };
    let put = |newest_o_id| {
        db.run(|txn| txn.put(&credit.checks, &(NEW.0, NEW.1, order.c_id, 1), &check(newest_o_id))).unwrap();
        failed(&verdicts(&db, &tables, 1, Moment::AfterLoad))
    };
    assert_eq!(put(NEW.2), [""; 0]);
    // The check saw nothing, but the order was accepted under none.
    assert_eq!(put(0), ["credit"]);
}
