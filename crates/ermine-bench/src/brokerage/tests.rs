//! The workload on the engine.
//!
//! Goal: the loader writes data that fulfils every condition, each condition can fail, a run of many threads leaves all
//! of them intact under every scheme, and the transactions answer and write what the rules say. Method: a market of
//! reduced scale. For each condition one value is corrupted in a transaction, and exactly the conditions that this
//! implies must fail. A transaction alone is compared with a computation over whole tables.

use std::{collections::HashMap, time::Duration};

use ermine::{Database, Scheme, Transaction, TxnOptions};
use indicatif::ProgressBar;

use super::{
    asset_eval::{AssetEval, AssetEvalInput},
    broker_volume::{BrokerVolume, BrokerVolumeInput},
    check::{Committed, check},
    constants::{kind, status},
    data_maintenance::{DataMaintenance, DataMaintenanceInput},
    driver::drive,
    emulator::TickerEntry,
    load::load,
    market_feed::MarketFeed,
    mix::{Kind, Mix},
    options::Options,
    population::{Population, Scale},
    tables::Tables,
    trade_cleanup::TradeCleanup,
    trade_lookup::{TradeLookup, TradeLookupInput},
    trade_order::{TradeOrder, TradeOrderInput},
    trade_result::TradeResult,
    trade_update::{TradeUpdate, TradeUpdateInput},
};
use crate::{
    random::Random,
    report::Setting,
    rounds::{Comparison, SchemeSummary},
    trial::{Retry, RunOptions},
};

const SMALL: Population = Population { customers: 200, trades: 12, scale: Scale::SMALL, seed: 7 };

fn loaded(scheme: Scheme, threads: usize) -> (Database, Tables) {
    let db = Database::open_in_memory(ermine::Options::default().scheme(scheme)).unwrap();
    let tables = Tables::open(&db).unwrap();
    load(&db, &tables, &SMALL, threads, &ProgressBar::hidden()).unwrap();
    (db, tables)
}

fn failed(db: &Database, tables: &Tables) -> Vec<&'static str> {
    let checks = check(db, tables, &SMALL, &Committed::none(&SMALL)).unwrap();
    checks.iter().filter(|check| !check.verdict.holds()).map(|check| check.verdict.condition).collect()
}

#[test]
fn the_load_is_consistent_under_every_scheme() {
    for scheme in Scheme::ALL {
        let (db, tables) = loaded(scheme, 2);
        assert_eq!(failed(&db, &tables), [""; 0], "{scheme}");
    }
}

#[test]
fn the_load_depends_on_the_seed_alone() {
    let trades = |threads| {
        let (db, tables) = loaded(Scheme::Si, threads);
        let txn = db.begin(ermine::TxnOptions::read_only()).unwrap();
        (txn.scan(&tables.trade, ..).collect().unwrap(), txn.scan(&tables.holding, ..).collect().unwrap())
    };
    assert!(trades(1) == trades(3));
}

/// Corrupts something after a load, one thing after the other, each in a database of its own; returns the conditions
/// that fail.
fn after(corrupt: impl Fn(&Transaction<'_>, &Tables) -> ermine::Result<()>) -> Vec<&'static str> {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    db.run(|txn| corrupt(txn, &tables)).unwrap();
    failed(&db, &tables)
}

/// Changes the first row of a table.
macro_rules! change {
    ($table:ident, |$row:ident| $change:expr) => {
        after(|txn, tables| {
            let (key, mut $row) = txn.scan(&tables.$table, ..).first()?.expect("there are rows");
            $change;
            assert!(txn.update(&tables.$table, &key, &$row)?);
            Ok(())
        })
    };
}

/// Removes the first row of a table.
macro_rules! remove {
    ($table:ident) => {
        after(|txn, tables| {
            let (key, _) = txn.scan(&tables.$table, ..).first()?.expect("there are rows");
            assert!(txn.delete(&tables.$table, &key)?);
            Ok(())
        })
    };
}

#[test]
fn every_condition_notices_its_fault() {
    assert_eq!(change!(holding, |row| row.quantity += 1), ["holdings", "chains", "assets"]);
    assert_eq!(change!(holding_summary, |row| row += 1), ["holdings", "assets"]);
    assert_eq!(change!(holding_history, |row| row.before += 1), ["chains"]);
    assert_eq!(change!(last_trade, |row| row.volume += 1), ["ticker"]);
    assert_eq!(change!(broker, |row| row.trades += 1), ["brokers"]);
    assert_eq!(change!(broker, |row| row.commission_total += 1), ["brokers"]);
    assert_eq!(change!(customer_account, |row| row.balance += 1), ["balances"]);
    assert_eq!(change!(cash_transaction, |row| row.amount += 1), ["balances"]);
    assert_eq!(change!(trade, |row| row.commission += 1), ["brokers"]);
    assert_eq!(remove!(settlement), ["settled"]);
    assert_eq!(remove!(cash_transaction), ["balances", "settled"]);
    assert_eq!(remove!(trade_history), ["history"]);
    assert_eq!(remove!(daily_market), ["rows"]);
    assert_eq!(remove!(zip_code), ["rows"]);
    let request = |txn: &Transaction<'_>, tables: &Tables| {
        let (number, trade) = txn.scan(&tables.trade, ..).first()?.expect("there are trades");
        let (kind, symbol, broker) = (trade.kind, trade.symbol, 1);
        let row = super::rows::TradeRequest { bid_price: 1, broker, quantity: 100, kind, symbol, padding: [0; 2] };
        txn.insert(&tables.trade_request, &number, &super::rows::TradeRequest { quantity: trade.quantity, ..row })
    };
    assert_eq!(after(request), ["requests"]);
    let evaluation = |txn: &Transaction<'_>, tables: &Tables| {
        let row = super::rows::AssetsHistory { first_account: 1, last_account: 1, total: 0 };
        txn.insert(&tables.assets_history, &1, &row)
    };
    assert_eq!(after(evaluation), ["evaluations"]);
}

fn options(schemes: &[Scheme], mix: Mix, retry: Retry) -> Options {
    let (warmup, measured) = (Duration::ZERO, Duration::from_millis(10));
    // The time is too short: the number of transactions decides.
    let run_options = RunOptions { warmup, measured, least: 1_500, retry, seed: 7, ..RunOptions::default() };
    let (customers, initial_trades) = (SMALL.customers, SMALL.trades);
    Options {
        schemes: schemes.to_vec(),
        threads: 3,
        customers,
        initial_trades,
        scale: Scale::SMALL,
        mix,
        group_percent: 20.0,
        rounds: 2,
        run_options,
    }
}

fn driven(options: &Options) -> Comparison<Options> {
    drive(options, Setting::uncalibrated(), &ProgressBar::hidden(), &mut |_| {}).unwrap()
}

#[test]
fn every_condition_holds_after_a_run_under_every_scheme() {
    for mix in [Mix::Standard, Mix::Hybrid] {
        let summary = driven(&options(&Scheme::ALL, mix, Retry::Yes));
        assert!(summary.holds(), "{summary}");
        for scheme in &summary.points[0].schemes {
            for kind in &scheme.kinds {
                let expected = mix == Mix::Hybrid || kind.name != Kind::AssetEval.name();
                assert_eq!(kind.committed > 0, expected, "{} {}: {kind:?}", scheme.scheme, kind.name);
            }
        }
        let orders = |scheme: &SchemeSummary| scheme.kinds[Kind::TradeOrder as usize].rolled_back;
        assert!(summary.points[0].schemes.iter().map(orders).sum::<u64>() > 0, "one order in a hundred is rolled back");
    }
}

#[test]
fn every_condition_holds_where_losers_are_dropped() {
    let schemes = [Scheme::Si, Scheme::SiSsn, Scheme::MvOcc, Scheme::Silo];
    let summary = driven(&options(&schemes, Mix::Hybrid, Retry::No));
    assert!(summary.holds(), "{summary}");
}

#[test]
fn options_that_cannot_work_are_refused() {
    let good = options(&[Scheme::Si], Mix::Hybrid, Retry::Yes);
    good.check().unwrap();
    for bad in [
        Options { threads: 0, ..good.clone() },
        Options { customers: 150, ..good.clone() },
        Options { customers: 0, ..good.clone() },
        Options { initial_trades: 0, ..good.clone() },
        Options { group_percent: 0.0, ..good.clone() },
        Options { group_percent: 100.5, ..good.clone() },
        Options { group_percent: f64::NAN, ..good.clone() },
        Options { schemes: vec![], ..good.clone() },
    ] {
        assert!(bad.check().is_err(), "{bad}");
    }
}

/// Draws orders until one is of a kind, and is not rolled back; places it.
fn place(db: &Database, tables: &Tables, trade: u64, now: u64, kind: [u8; 3]) -> super::emulator::Order {
    let mut random = Random::new(trade, 0);
    for _ in 0..1_000 {
        let input = TradeOrderInput::draw(&SMALL, trade, now, &mut random);
        if input.kind() == kind
            && let Ok(order) = db.run_job(&mut TradeOrder { tables, input })
        {
            return order;
        }
    }
    panic!("a thousand orders have every kind");
}

#[test]
fn a_limit_order_waits_is_submitted_by_the_ticker_and_is_settled() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let (first, now) = (SMALL.initial_trades() + 1, SMALL.end_of_initial_trades());
    let order = place(&db, &tables, first, now, kind::LIMIT_BUY);
    let status = |trade| db.run(|txn| txn.get(&tables.trade, &trade)).unwrap().unwrap().status.0;
    let feed = |price, now| {
        let entries = [TickerEntry { security: order.security, price, quantity: 375 }];
        db.run_job(&mut MarketFeed { tables: &tables, population: &SMALL, entries: &entries, now }).unwrap()
    };
    assert_eq!(status(first), status::PENDING);
    assert!(feed(order.bid_price + 1, now + 1).is_empty());
    assert_eq!(status(first), status::PENDING);
    let submitted = feed(order.bid_price, now + 2);
    assert_eq!((submitted.len(), submitted[0].trade, status(first)), (1, first, status::SUBMITTED));
    assert!(feed(order.bid_price, now + 3).is_empty(), "it is submitted once");
    db.run_job(&mut TradeResult { tables: &tables, trade: first, price: order.bid_price, now: now + 4 }).unwrap();
    assert_eq!(status(first), status::COMPLETED);
    let mut committed = Committed::none(&SMALL);
    committed.volumes[order.security as usize] = 3 * 375;
    let checks = check(&db, &tables, &SMALL, &committed).unwrap();
    assert!(checks.iter().all(|check| check.verdict.holds()), "{checks:?}");
}

#[test]
fn a_cleanup_cancels_what_a_market_has_left() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let (first, now) = (SMALL.initial_trades() + 1, SMALL.end_of_initial_trades());
    place(&db, &tables, first, now, kind::STOP_LOSS);
    place(&db, &tables, first + 1, now, kind::MARKET_SELL);
    let rest = db.run_job(&mut TradeCleanup { tables: &tables, from: first, now: now + 1 }).unwrap();
    assert_eq!(rest, None);
    for trade in [first, first + 1] {
        let row = db.run(|txn| txn.get(&tables.trade, &trade)).unwrap().unwrap();
        assert_eq!((row.status.0, row.dts), (status::CANCELED, now + 1));
    }
    assert_eq!(failed(&db, &tables), [""; 0]);
}

#[test]
fn asset_evaluations_are_those_of_the_lots() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let (lots, prices): (Vec<_>, HashMap<_, _>) = db
        .run(|txn| {
            let prices = txn.scan(&tables.last_trade, ..).collect()?;
            let prices = prices.into_iter().map(|(symbol, row)| (symbol, row.price)).collect();
            Ok::<_, ermine::Error>((txn.scan(&tables.holding, ..).collect()?, prices))
        })
        .unwrap();
    let mut random = Random::new(1, 0);
    for (number, percent) in [(1, 100.0), (2, 20.0), (3, 1.0)] {
        let input = AssetEvalInput::draw(&SMALL, percent, number, &mut random);
        let total = db.run_job(&mut AssetEval { tables: &tables, input }).unwrap();
        let row = db.run(|txn| txn.get(&tables.assets_history, &number)).unwrap().unwrap();
        let accounts = row.first_account..=row.last_account;
        let own = lots.iter().filter(|(_, lot)| accounts.contains(&lot.account));
        let wanted: i64 = own.map(|(_, lot)| i64::from(lot.quantity) * prices[&lot.symbol.0]).sum();
        assert_eq!((total, row.total), (wanted, wanted), "{percent} %");
        assert_eq!(accounts.count() as f64, 2_000.0 * percent / 100.0);
    }
}

#[test]
fn broker_volumes_are_those_of_the_pending_orders() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let (first, now) = (SMALL.initial_trades() + 1, SMALL.end_of_initial_trades());
    let orders: Vec<_> = (first..first + 40).map(|trade| place(&db, &tables, trade, now, kind::LIMIT_SELL)).collect();
    let all: i64 = orders.iter().map(|order| i64::from(order.quantity) * order.bid_price).sum();
    // There are fewer brokers than are asked for, so that each sector shows all of its own.
    let found: i64 = (0..12)
        .map(|sector| {
            let input = BrokerVolumeInput::of_sector(&SMALL, sector);
            let volumes = db.run_job(&mut BrokerVolume { tables: &tables, input }).unwrap();
            assert!(volumes.is_sorted_by(|one, other| one.1 >= other.1));
            volumes.into_iter().map(|(_, volume)| volume).sum::<i64>()
        })
        .sum();
    assert_eq!(found, all);
}

#[test]
fn an_update_is_undone_by_the_next_and_shows_what_a_lookup_shows() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let all = || {
        let txn = db.begin(TxnOptions::read_only()).unwrap();
        let trades = txn.scan(&tables.trade, ..).collect().unwrap();
        (
            trades,
            txn.scan(&tables.settlement, ..).collect().unwrap(),
            txn.scan(&tables.cash_transaction, ..).collect().unwrap(),
        )
    };
    let mut random = Random::new(3, 0);
    for _ in 0..30 {
        let input = TradeUpdateInput::draw(&SMALL, &mut random);
        let before = all();
        let details = db.run_job(&mut TradeUpdate { tables: &tables, input: &input }).unwrap();
        assert_eq!(details.is_empty(), before == all());
        let lookup = TradeLookupInput::Trades(input.selection().clone());
        let found = db.run_job(&mut TradeLookup { tables: &tables, input: &lookup }).unwrap();
        assert_eq!(found.trades.into_iter().map(|(_, detail)| detail).collect::<Vec<_>>(), details);
        db.run_job(&mut TradeUpdate { tables: &tables, input: &input }).unwrap();
        assert!(before == all());
    }
}

#[test]
fn maintenance_keeps_every_condition() {
    let (db, tables) = loaded(Scheme::SiSsn, 1);
    let mut random = Random::new(5, 0);
    for turn in 0..60 {
        let input = DataMaintenanceInput::draw(&SMALL, turn, 1, &mut random);
        db.run_job(&mut DataMaintenance { tables: &tables, input }).unwrap();
    }
    assert_eq!(failed(&db, &tables), [""; 0]);
}
