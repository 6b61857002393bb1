//! Write skew: each of a customer's two accounts may be overdrawn, but not both together.
//!
//! The constraint is x + y >= 0 for every pair (x, y). A withdrawal reads both, pauses, and takes money from one of
//! them if the constraint allows; a deposit reads both, pauses, and puts money on one of them. Two withdrawals from
//! different accounts of a pair write different rows: snapshot isolation sees no conflict between them, and together
//! they break the constraint that each of them has checked (Berenson et al. 1995, A5B).
//!
//! So that the run can go on, a deposit that finds a pair with a negative sum resets both accounts to their initial
//! balance and counts the violation in the row of x, in the same transaction. Violations are those mended and those
//! found at the end.

use std::fmt;

use ermine::{
    Access, Database, Error, Job, Scheme, Table, Transaction, TxnOptions, fixed_value,
    zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout},
};
use serde::Serialize;

use crate::{
    Result,
    pause::Pause,
    random::Random,
    report::{Setting, scheme_name},
    summary::Summary,
    threads::Tick,
    trial::{self, Client, ClientContext, RunOptions},
    verdict::{Check, Promise, Verdict},
};

/// Options of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Concurrency control.
    #[serde(serialize_with = "scheme_name")]
    pub scheme: Scheme,
    /// Threads; there may be more than cores.
    pub threads: usize,
    /// Pairs of accounts: the fewer, the more conflicts.
    pub pairs: u32,
    /// Pause between the reads and the write of a transaction.
    pub pause: Pause,
    /// Options that all workloads share.
    #[serde(flatten)]
    pub run_options: RunOptions,
}

impl Options {
    /// Fails if the options cannot work.
    pub fn check(&self) -> Result<()> {
        if self.threads == 0 || self.pairs == 0 {
            return Err(crate::Error::Usage("at least one thread and one pair are needed".into()));
        }
        self.run_options.check(&[self.scheme])
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, threads, pairs, pause, run_options } = self;
        write!(f, "scheme {scheme}, {threads} threads, {pairs} pairs, pause {pause}, {run_options}")
    }
}

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[zerocopy(crate = "ermine::zerocopy")]
#[repr(C)]
struct Account {
    balance: i64,
    /// Violations of its pair that were mended; stored in the first account of each pair.
    mended: u64,
}
fixed_value!(Account { balance: i64, mended: u64 });

/// Key: pair, then 0 for x and 1 for y.
type Accounts = Table<(u32, u8), Account>;

/// Initial balance of an account.
const OPENING: i64 = 100;
/// Maximum amount of a withdrawal or deposit.
const AMOUNT_MAX: u64 = 100;
/// Money is put only on pairs whose accounts have less than this in sum.
const WEALTH: i64 = 200;

/// The kinds of transactions.
#[derive(Clone, Copy)]
enum Kind {
    Withdraw,
    Deposit,
}

const NAMES: [&str; 2] = ["withdraw", "deposit"];

/// Loads, runs, and counts violations.
pub fn drive(options: &Options, setting: Setting, watch: &mut dyn FnMut(Tick)) -> Result<Summary<Options>> {
    options.check()?;
    let db = options.run_options.open(options.scheme)?;
    let accounts: Accounts = db.table("account")?;
    let account = Account { balance: OPENING, mended: 0 };
    trial::insert_rows(&db, u64::from(options.pairs), |txn, pair| {
        [0, 1].into_iter().try_for_each(|side| txn.insert(&accounts, &(pair as u32, side), &account))
    })?;
    let clients = (0..options.threads).map(|number| Customer::new(options, &accounts, number)).collect();
    let (clients, counts) = trial::run(&db, clients, NAMES.len(), &options.run_options, watch)?;
    let change = clients.iter().map(|client| client.change).sum();
    let (checks, violations) = check(options, &db, &accounts, change)?;
    let summary = Summary::new("write-skew", setting, options.clone(), &NAMES, &counts, checks);
    Ok(Summary { violations: Some(violations), ..summary })
}

/// Checks every pair; `change` is the sum of deposits less the sum of withdrawals.
fn check(options: &Options, db: &Database, accounts: &Accounts, change: i64) -> Result<(Vec<Check>, u64)> {
    let mut rows = Verdict::new("rows", "both accounts of every pair are there");
    let mut constraint = Verdict::new("skew", "x + y >= 0 for every pair, at the end and whenever a deposit looked");
    let mut sum = Verdict::new("sum", "all accounts together have what was put on them less what was taken");
    let (mut violations, mut total) = (0, 0);
    let txn = db.begin(TxnOptions::read_only())?;
    for pair in 0..options.pairs {
        let (x, y) = (txn.get(accounts, &(pair, 0))?, txn.get(accounts, &(pair, 1))?);
        rows.compare(x.is_some() && y.is_some(), || format!("pair {pair}: {x:?}, {y:?}"));
        let Some((x, y)) = x.zip(y) else { continue };
        let now = x.balance + y.balance;
        let broken = x.mended + u64::from(now < 0);
        constraint.compare(broken == 0, || format!("pair {pair}: {now} at the end, mended {} times", x.mended));
        violations += broken;
        total += now;
    }
    txn.commit()?;
    let wanted = 2 * OPENING * i64::from(options.pairs) + change;
    sum.compare(total == wanted, || format!("found {total}, expected {wanted}"));
    let check = |verdict, promise| Check { verdict, scheme: options.scheme, promise };
    let checks = vec![
        check(rows, Promise::Always),
        check(sum, Promise::NoLostUpdates),
        check(constraint, Promise::Serializable),
    ];
    Ok((checks, violations))
}

/// A client thread.
struct Customer<'a> {
    accounts: &'a Accounts,
    pairs: u32,
    pause: Pause,
    random: Random,
    /// Sum of its deposits less the sum of its withdrawals.
    change: i64,
}

impl<'a> Customer<'a> {
    fn new(options: &Options, accounts: &'a Accounts, number: usize) -> Self {
        let random = Random::new(options.run_options.seed, 1 + number as u64);
        Self { accounts, pairs: options.pairs, pause: options.pause, random, change: 0 }
    }
}

impl Client for Customer<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let random = &mut self.random;
        let pair = random.below(u64::from(self.pairs)) as u32;
        let side = random.below(2) as u8;
        let amount = random.uniform(1..=AMOUNT_MAX) as i64;
        let kind = if random.percent(50) { Kind::Withdraw } else { Kind::Deposit };
        let job = Move { accounts: self.accounts, pause: self.pause, kind, pair, side, amount };
        self.change += context.run(kind as usize, job)?.unwrap_or(0);
        Ok(())
    }
}

/// A withdrawal or a deposit.
struct Move<'a> {
    accounts: &'a Accounts,
    pause: Pause,
    kind: Kind,
    pair: u32,
    side: u8,
    amount: i64,
}

impl Job for Move<'_> {
    /// The change of the accounts' sum: positive for a deposit, negative for a withdrawal.
    type Output = i64;
    type Error = Error;

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> ermine::Result<i64> {
        let &mut Self { accounts, kind, pair, side, amount, .. } = self;
        let read = |side| -> ermine::Result<Account> {
            txn.get(accounts, &(pair, side))?.ok_or_else(|| Error::other("an account is missing"))
        };
        let both = [read(0)?, read(1)?];
        self.pause.wait();
        let wealth = both[0].balance + both[1].balance;
        let change = match kind {
            Kind::Withdraw if wealth >= amount => -amount,
            Kind::Deposit if (0..WEALTH).contains(&wealth) => amount,
            Kind::Deposit if wealth < 0 => {
                let mended = Account { balance: OPENING, mended: both[0].mended + 1 };
                txn.update(accounts, &(pair, 0), &mended)?;
                txn.update(accounts, &(pair, 1), &Account { balance: OPENING, ..both[1] })?;
                return Ok(2 * OPENING - wealth);
            }
            _ => return Ok(0),
        };
        let own = both[usize::from(side)];
        txn.update(accounts, &(pair, side), &Account { balance: own.balance + change, ..own })?;
        Ok(change)
    }
}
