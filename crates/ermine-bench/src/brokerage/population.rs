//! The numbers of rows, and everything about a row that follows from its number: tiers, accounts, securities, times.
//!
//! A run draws its inputs from the same functions as the loader, so that it asks for rows that exist.

use std::ops::RangeInclusive;

use super::rows::Symbol;
use crate::random::Random;

/// Numbers that do not depend on the number of customers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Scale {
    /// Customers of a unit; tiers and access skew repeat in each.
    pub unit: u64,
    /// Trading days of DAILY_MARKET, five a week.
    pub market_days: u32,
    /// Fewest and most symbols of a watch list.
    pub watched: (u64, u64),
    /// Places in ZIP_CODE.
    pub zip_codes: u64,
    /// Fewest and most bytes of a news item.
    pub news_bytes: (u64, u64),
}

impl Scale {
    /// The numbers of the rules; news are shorter, so that they are not most of the memory.
    pub const FULL: Self =
        Self { unit: 1_000, market_days: 1_305, watched: (50, 150), zip_codes: 14_741, news_bytes: (1_000, 20_000) };
    /// A market that loads in tens of milliseconds, for tests.
    pub const SMALL: Self =
        Self { unit: 100, market_days: 60, watched: (5, 15), zip_codes: 100, news_bytes: (10, 200) };
}

/// Most accounts of a customer.
pub(super) const ACCOUNTS_MAX: u64 = 10;
/// Most securities of an account.
const SECURITIES_MAX: u64 = 18;
/// Customers of a broker.
pub(super) const CUSTOMERS_OF_BROKER: u64 = 100;
/// Spreads the ranks of a unit over its customers; has no divisor in common with the size of a unit.
const SPREAD: u64 = 389;

/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;
/// Trading time of a day.
const TRADING_US: u64 = 8 * 3_600_000_000;
/// When a trading day begins.
const OPENING_US: u64 = 9 * 3_600_000_000;
/// Trading time from one initial trade of a customer to the next: that of scale factor 500.
const SPACING_US: u64 = 500_000_000;
/// The first day of the initial trades, a Monday, in days since 1970.
pub(super) const FIRST_DAY: u32 = 19_723;

/// The class of a customer, from 1 to 3.
pub type Tier = u8;

/// The size of a database.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// Customers, a multiple of the unit.
    pub customers: u64,
    /// Initial trades of a customer, including those that were aborted and have left a gap in the numbers.
    pub trades: u64,
    /// All other numbers.
    pub scale: Scale,
    /// Seed of the data.
    pub seed: u64,
}

impl Population {
    /// Companies.
    pub fn companies(&self) -> u64 {
        self.customers / 2
    }

    /// Companies of a unit.
    fn unit_companies(&self) -> u64 {
        self.scale.unit / 2
    }

    /// Securities of a unit.
    fn unit_securities(&self) -> u64 {
        self.scale.unit * 685 / 1_000
    }

    /// Securities.
    pub fn securities(&self) -> u64 {
        self.customers / self.scale.unit * self.unit_securities()
    }

    /// Brokers.
    pub fn brokers(&self) -> u64 {
        self.customers / CUSTOMERS_OF_BROKER
    }

    /// The company, from 1, of the security with a number from 0, and the number of its issue: 0 is the common stock.
    pub fn company_of(&self, security: u64) -> (u64, u64) {
        let (unit, place) = (security / self.unit_securities(), security % self.unit_securities());
        let companies = self.unit_companies();
        let (company, issue) = match place.checked_sub(companies) {
            None => (place, 0),
            // Every fifth company has issued preferred stock.
            Some(extra) => (extra % (companies / 5) * 5, 1 + extra / (companies / 5)),
        };
        (unit * companies + company + 1, issue)
    }

    /// The symbol of a security: its number in letters.
    pub fn symbol(&self, security: u64) -> Symbol {
        let (company, issue) = self.company_of(security);
        let mut symbol = [0; 15];
        let mut rest = company;
        for place in (0..6).rev() {
            symbol[place] = b'A' + (rest % 26) as u8;
            rest /= 26;
        }
        if issue > 0 {
            symbol[6..8].copy_from_slice(&[b'.', b'0' + issue as u8]);
        }
        symbol
    }

    /// The customers of the rank `rank`, below the size of the unit, of any unit.
    pub(super) fn customer_at(&self, unit: u64, rank: u64) -> u64 {
        unit * self.scale.unit + rank * SPREAD % self.scale.unit + 1
    }

    /// The rank of a customer in its unit.
    fn rank(&self, customer: u64) -> u64 {
        let place = (customer - 1) % self.scale.unit;
        (0..self.scale.unit).find(|rank| rank * SPREAD % self.scale.unit == place).expect("the ranks are spread 1:1")
    }

    /// The tier of a customer: a fifth of each unit in the first, a fifth in the third.
    pub fn tier(&self, customer: u64) -> Tier {
        let rank = self.rank(customer) * 5 / self.scale.unit;
        match rank {
            0 => 1,
            4 => 3,
            _ => 2,
        }
    }

    /// The accounts of a customer of a tier: five on average.
    pub fn accounts_of(&self, customer: u64, tier: Tier) -> RangeInclusive<u64> {
        let draw = self.row(Draw::Accounts, customer).bits();
        let count = match tier {
            1 => 1 + draw % 4,
            3 => 5 + draw % 6,
            _ => 2 + draw % 7,
        };
        let first = (customer - 1) * ACCOUNTS_MAX + 1;
        first..=first + count - 1
    }

    /// The customer of an account.
    pub fn owner(account: u64) -> u64 {
        (account - 1) / ACCOUNTS_MAX + 1
    }

    /// The broker of a customer.
    pub fn broker_of(customer: u64) -> u64 {
        (customer - 1) / CUSTOMERS_OF_BROKER + 1
    }

    /// The numbers of the securities that an account trades: 2 to 18, all different.
    pub fn securities_of(&self, account: u64) -> impl Iterator<Item = u64> {
        let all = self.securities();
        let mut random = self.row(Draw::Securities, account);
        let (count, first) = (random.uniform(2..=SECURITIES_MAX), random.below(all));
        let step = random.uniform(1..=(all / SECURITIES_MAX).max(1));
        (0..count).map(move |number| (first + number * step) % all)
    }

    /// The balance with which an account was opened: positive for four in five.
    pub fn opening_balance(&self, account: u64) -> i64 {
        let mut random = self.row(Draw::Balance, account);
        let cents = random.uniform(0..=100_000_000) as i64;
        if random.percent(80) { cents } else { -cents }
    }

    /// Numbers of initial trades, from 1; those that were aborted are among them.
    pub fn initial_trades(&self) -> u64 {
        self.customers * self.trades
    }

    /// Whether an initial trade was aborted, so that its number is not used.
    pub fn was_aborted(trade: u64) -> bool {
        trade.is_multiple_of(101)
    }

    /// The time of an initial trade; the first number after them stands for the end of their period.
    pub fn trade_time(&self, trade: u64) -> u64 {
        let spacing = SPACING_US / self.customers;
        let at = (trade - 1) * spacing;
        trading_day(i64::try_from(at / TRADING_US).expect("some trading days")) * DAY_US + OPENING_US + at % TRADING_US
    }

    /// When a run begins.
    pub fn end_of_initial_trades(&self) -> u64 {
        self.trade_time(self.initial_trades() + 1)
    }

    /// The day with a number below `market_days` in DAILY_MARKET.
    pub fn market_day(&self, number: u32) -> u32 {
        trading_day(i64::from(number) - i64::from(self.scale.market_days)) as u32
    }

    /// A stream of random numbers that belongs to one row.
    pub(super) fn row(&self, draw: Draw, number: u64) -> Random {
        Random::new(self.seed, (draw as u64) << 56 | number)
    }
}

/// The draws that rows have streams of their own for; a run's streams lie above.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    Accounts,
    Permissions,
    Securities,
    Balance,
    Customer,
    Trades,
    Company,
    Security,
    News,
    Client = 0x80,
}

/// The trading day with a number, in days since 1970: no trade on weekends.
fn trading_day(number: i64) -> u64 {
    (i64::from(FIRST_DAY) + number.div_euclid(5) * 7 + number.rem_euclid(5)) as u64
}

/// The day of a time.
pub(super) fn day_of(time: u64) -> u32 {
    (time / DAY_US) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const FULL: Population = Population { customers: 2_000, trades: 576, scale: Scale::FULL, seed: 1 };

    #[test]
    fn tiers_and_accounts_have_the_shares_of_the_rules() {
        let (mut tiers, mut accounts) = ([0; 4], 0);
        for customer in 1..=FULL.customers {
            let tier = FULL.tier(customer);
            tiers[usize::from(tier)] += 1;
            let own = FULL.accounts_of(customer, tier);
            assert!(own.clone().all(|account| Population::owner(account) == customer));
            accounts += own.count();
        }
        assert_eq!(tiers, [0, 400, 1_200, 400]);
        assert!((9_600..10_400).contains(&accounts), "{accounts}");
    }

    #[test]
    fn symbols_and_issues_are_unique() {
        for population in [FULL, Population { customers: 300, scale: Scale::SMALL, ..FULL }] {
            let securities = 0..population.securities();
            let symbols: HashSet<_> = securities.clone().map(|number| population.symbol(number)).collect();
            let issues: HashSet<_> = securities.clone().map(|number| population.company_of(number)).collect();
            assert_eq!((symbols.len(), issues.len()), (securities.clone().count(), securities.count()));
            assert!(issues.iter().all(|&(company, _)| (1..=population.companies()).contains(&company)));
        }
    }

    #[test]
    fn an_account_trades_different_securities() {
        let small = Population { customers: 100, scale: Scale::SMALL, ..FULL };
        for population in [FULL, small] {
            for account in 1..500 {
                let all: Vec<_> = population.securities_of(account).collect();
                assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
                assert!((2..=18).contains(&all.len()));
            }
        }
    }

    #[test]
    fn times_ascend_and_avoid_weekends() {
        let mut last = 0;
        for trade in (1..=FULL.initial_trades() + 1).step_by(10_007) {
            let time = FULL.trade_time(trade);
            assert!(time > last);
            last = time;
            assert!((day_of(time) - FIRST_DAY) % 7 < 5, "a working day");
        }
        // 576 trades at one in 500 s are ten days of eight hours.
        assert_eq!(day_of(FULL.end_of_initial_trades()), FIRST_DAY + 14);
        assert_eq!(FULL.market_day(FULL.scale.market_days - 1), FIRST_DAY - 3, "the Friday before");
    }
}
