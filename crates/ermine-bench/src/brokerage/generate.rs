//! The rows of a customer, a company and a security, from their numbers.

use ermine::zerocopy::{FromZeros, IntoBytes};

use super::{
    constants::{self, INDUSTRY_COUNT, NATIONAL, REGIONAL, status},
    names::{ISSUES, broker_name, company_name, first_name, last_name, sentence, words},
    population::{Draw, FIRST_DAY, Population, Tier},
    rows::{
        AccountPermission, Broker, Company, Customer, CustomerAccount, DailyMarket, Financial, NewsHead, Phone,
        Security, TaxNumber, TaxRateId,
    },
};
use crate::{fixed::Text, random::Random};

/// Lowest and highest prices, in cents.
pub const PRICES: std::ops::RangeInclusive<u64> = 2_000..=3_000;
/// Years of results of a company, and the first of them.
pub const YEARS: std::ops::Range<u16> = 2_019..2_024;

/// A person: tax number, first and last name.
#[derive(Clone, Debug)]
pub struct Person {
    pub tax_number: TaxNumber,
    pub first: &'static str,
    pub last: String,
}

impl Person {
    /// The name that a trade is executed under.
    pub fn full_name(&self) -> Text<49> {
        Text::new(format!("{} {}", self.first, self.last).as_bytes())
    }
}

/// The tax number of a customer.
pub fn tax_number(customer: u64) -> TaxNumber {
    Text::new(format!("{:03}EL{customer:08}", customer * 7 % 1_000).as_bytes()).0
}

/// A customer, with its rows of other tables.
pub struct GeneratedCustomer {
    pub person: Person,
    pub row: Customer,
    pub tax_rates: [TaxRateId; 2],
}

/// The person of a customer.
pub fn person(population: &Population, customer: u64) -> Person {
    let random = &mut population.row(Draw::Customer, customer);
    Person { tax_number: tax_number(customer), first: first_name(random), last: last_name(random) }
}

pub fn customer(population: &Population, number: u64, tier: Tier) -> GeneratedCustomer {
    let random = &mut population.row(Draw::Customer, number);
    let person = Person { tax_number: tax_number(number), first: first_name(random), last: last_name(random) };
    let email = |host: &str| Text::new(format!("{}.{}@{host}.example", person.first, person.last).as_bytes());
    let row = Customer {
        address: 4 + population.companies() + number,
        born: random.uniform(0..=12_000) as u32,
        tier,
        middle: b'A' + random.below(26) as u8,
        gender: if random.percent(49) { b'M' } else { b'F' },
        status: Text(status::ACTIVE),
        tax_number: Text(person.tax_number),
        last: Text::new(person.last.as_bytes()),
        first: Text::new(person.first.as_bytes()),
        phones: std::array::from_fn(|_| phone(random)),
        emails: [email("post"), email("mail")],
        padding: [0; 1],
    };
    let tax_rates = [constants::national(random.below(NATIONAL)), constants::regional(random.below(REGIONAL))];
    GeneratedCustomer { person, row, tax_rates }
}

fn phone(random: &mut Random) -> Phone {
    Phone {
        country: Text::new(b"011"),
        area: Text::new(format!("{}", random.uniform(100..=999)).as_bytes()),
        local: Text::new(format!("{}", random.uniform(1_000_000..=9_999_999)).as_bytes()),
        extension: Text::new(if random.percent(25) { b"12" } else { b"" }),
    }
}

/// An account, before any trade.
pub fn account(population: &Population, number: u64, person: &Person) -> CustomerAccount {
    let customer = Population::owner(number);
    let draw = population.row(Draw::Balance, number).bits() % 10;
    CustomerAccount {
        broker: Population::broker_of(customer),
        customer,
        balance: population.opening_balance(number),
        tax_status: [0, 0, 1, 1, 1, 1, 1, 2, 2, 2][draw as usize],
        name: Text::new(format!("{} {} account {}", person.first, person.last, number % 10).as_bytes()),
        padding: [0; 5],
    }
}

/// The persons besides the owner that may trade for an account: none for three accounts in five, else one or two.
pub fn others(population: &Population, account: u64) -> Vec<Person> {
    let random = &mut population.row(Draw::Permissions, account);
    let count = match random.below(100) {
        0..60 => 0,
        60..98 => 1,
        _ => 2,
    };
    let (first, owner) = (random.below(population.customers), Population::owner(account));
    let others = (0..).map(|place| (first + place) % population.customers + 1).filter(|&other| other != owner);
    others.take(count).map(|other| person(population, other)).collect()
}

/// The permissions of an account.
pub fn permissions(population: &Population, account: u64, owner: &Person) -> Vec<(TaxNumber, AccountPermission)> {
    let others = others(population, account);
    let row = |person: &Person, acl| {
        let (first, last) = (Text::new(person.first.as_bytes()), Text::new(person.last.as_bytes()));
        (person.tax_number, AccountPermission { acl: Text(acl), last, first })
    };
    let mut rows = vec![row(owner, *b"0000")];
    rows.extend(others.iter().map(|other| row(other, *b"0001")));
    rows
}

/// A broker with the results of its trades.
pub fn broker(number: u64, trades: u32, commission_total: i64) -> Broker {
    let name = Text(broker_name(number));
    Broker { commission_total, trades, status: Text(status::ACTIVE), name, padding: [0; 7] }
}

/// A company with a number from 1, and its industry.
pub fn company(population: &Population, number: u64) -> Company {
    let random = &mut population.row(Draw::Company, number);
    Company {
        address: 4 + number,
        opened: random.uniform(0..=15_000) as u32,
        status: Text(status::ACTIVE),
        industry: Text(industry_of(number)),
        rating: Text::new([&b"AAA"[..], b"AA", b"A", b"BBB", b"BB", b"B"][random.below(6) as usize]),
        name: Text(company_name(number)),
        chief: Text::new(format!("{} {}", first_name(random), last_name(random)).as_bytes()),
        description: sentence(random),
        padding: [0; 2],
    }
}

/// The industry of a company.
pub fn industry_of(company: u64) -> [u8; 2] {
    constants::short_id(company % INDUSTRY_COUNT)
}

/// The competitors of a company: three others.
pub fn competitors(population: &Population, company: u64) -> impl Iterator<Item = (u64, [u8; 2])> {
    let all = population.companies();
    [1, 17, 34].into_iter().map(move |step| (company - 1 + step) % all + 1).map(|other| (other, industry_of(other)))
}

/// The results of a company in each quarter of five years.
pub fn financials(population: &Population, company: u64) -> impl Iterator<Item = ((u16, u8), Financial)> {
    let mut random = population.row(Draw::Company, 1 << 40 | company);
    YEARS.flat_map(|year| (1..=4).map(move |quarter| (year, quarter))).map(move |(year, quarter)| {
        let mut draw = |from: u64, to: u64| random.uniform(from..=to) as i64;
        let (revenue, earnings) = (draw(100_000_000, 9_000_000_000), draw(10_000_000, 90_000_000));
        let (shares_basic, more) = (draw(1_000_000, 9_000_000), draw(0, 900_000));
        let shares_diluted = shares_basic + more;
        let row = Financial {
            revenue,
            earnings,
            basic_per_share: earnings / shares_basic,
            diluted_per_share: earnings / shares_diluted,
            margin: earnings * 10_000 / revenue,
            inventory: draw(1, 900_000_000),
            assets: draw(1, 9_000_000_000),
            liabilities: draw(1, 5_000_000_000),
            shares_basic,
            shares_diluted,
            start: FIRST_DAY - 365 * u32::from(YEARS.end - year) + 91 * u32::from(quarter - 1),
            padding: [0; 4],
        };
        ((year, quarter), row)
    })
}

/// A news item as it is stored: the head, then the item.
pub fn news(population: &Population, number: u64) -> Vec<u8> {
    let random = &mut population.row(Draw::News, number);
    let (least, most) = population.scale.news_bytes;
    let head = NewsHead {
        dts: population.trade_time(1) - random.below(30 * 86_400) * 1_000_000,
        headline: sentence(random),
        summary: sentence(random),
        source: Text::new(b"Ermine Wire"),
        author: Text::new(last_name(random).as_bytes()),
        padding: [0; 5],
    };
    let length = random.uniform(least..=most) as usize;
    [head.as_bytes(), &words(random, length)].concat()
}

/// The security with a number from 0.
pub fn security(population: &Population, number: u64) -> Security {
    let random = &mut population.row(Draw::Security, number);
    let (company, issue) = population.company_of(number);
    let issue = Text(ISSUES[issue as usize]);
    let name = String::from_utf8_lossy(Text(company_name(company)).as_bytes()).into_owned();
    let (high, low) = (random.uniform(2_500..=3_000) as i64, random.uniform(2_000..=2_500) as i64);
    Security {
        company,
        shares: random.uniform(1_000_000..=90_000_000) as i64,
        dividend: random.uniform(0..=200) as i64,
        year_high: high,
        year_low: low,
        price_earnings: random.uniform(100..=12_000) as u32,
        yields: random.uniform(0..=1_000) as u32,
        start: random.uniform(0..=15_000) as u32,
        exchange_start: random.uniform(15_000..=17_000) as u32,
        year_high_day: FIRST_DAY - random.uniform(1..=365) as u32,
        year_low_day: FIRST_DAY - random.uniform(1..=365) as u32,
        issue,
        status: Text(status::ACTIVE),
        exchange: Text(constants::exchange_of(number)),
        name: Text::new(format!("{} of {name}", String::from_utf8_lossy(&issue.0)).as_bytes()),
        ..Security::new_zeroed()
    }
}

/// The market in a security on each day, in order.
pub fn daily_market(population: &Population, security: u64) -> impl Iterator<Item = (u32, DailyMarket)> {
    let population = *population;
    let mut random = population.row(Draw::Security, 1 << 40 | security);
    (0..population.scale.market_days).map(move |day| {
        let close = random.uniform(PRICES) as i64;
        let (high, low) = (close + random.below(100) as i64, close - random.below(100) as i64);
        let volume = random.uniform(1_000..=10_000) as i64;
        (population.market_day(day), DailyMarket { close, high, low, volume })
    })
}
