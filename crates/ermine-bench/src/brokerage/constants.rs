//! The tables of fixed content: kinds of trades, statuses, exchanges, charges, commissions, taxes, industries, places.

use super::{
    population::{Population, Scale, Tier},
    rows::{
        Address, CommissionRate, Exchange, ExchangeId, Industry, Sector, ShortId, StatusId, StatusType, TaxRate,
        TaxRateId, TradeType, TradeTypeId, ZipCode,
    },
};
use crate::fixed::Text;

/// The statuses.
pub mod status {
    use crate::brokerage::rows::StatusId;

    pub const COMPLETED: StatusId = *b"CPLT";
    pub const ACTIVE: StatusId = *b"ACTV";
    pub const SUBMITTED: StatusId = *b"SUBM";
    pub const PENDING: StatusId = *b"PEND";
    pub const CANCELED: StatusId = *b"CANC";
}

/// The kinds of trades.
pub mod kind {
    use crate::brokerage::rows::TradeTypeId;

    pub const MARKET_BUY: TradeTypeId = *b"MBY";
    pub const MARKET_SELL: TradeTypeId = *b"MSL";
    pub const LIMIT_BUY: TradeTypeId = *b"LBY";
    pub const LIMIT_SELL: TradeTypeId = *b"LSL";
    pub const STOP_LOSS: TradeTypeId = *b"STP";

    pub const ALL: [TradeTypeId; 5] = [MARKET_BUY, MARKET_SELL, LIMIT_BUY, LIMIT_SELL, STOP_LOSS];
}

pub fn statuses() -> [(StatusId, StatusType); 5] {
    [
        (status::COMPLETED, "Completed"),
        (status::ACTIVE, "Active"),
        (status::SUBMITTED, "Submitted"),
        (status::PENDING, "Pending"),
        (status::CANCELED, "Canceled"),
    ]
    .map(|(id, name)| (id, StatusType { name: Text::new(name.as_bytes()) }))
}

pub fn trade_types() -> [(TradeTypeId, TradeType); 5] {
    let row =
        |id, name: &str, is_sell, is_market| (id, TradeType { is_sell, is_market, name: Text::new(name.as_bytes()) });
    [
        row(kind::MARKET_BUY, "Market buy", 0, 1),
        row(kind::MARKET_SELL, "Market sell", 1, 1),
        row(kind::LIMIT_BUY, "Limit buy", 0, 0),
        row(kind::LIMIT_SELL, "Limit sell", 1, 0),
        row(kind::STOP_LOSS, "Stop loss", 1, 0),
    ]
}

/// The names of the exchanges.
pub const EXCHANGES: [ExchangeId; 4] = [*b"AURORA", *b"BOREAL", *b"CORAL\0", *b"DELTA\0"];

/// The exchanges, whose addresses are the first.
pub fn exchanges(population: &Population) -> impl Iterator<Item = (ExchangeId, Exchange)> {
    let count = population.securities();
    EXCHANGES.into_iter().zip(0..).map(move |(id, number)| {
        let name = String::from_utf8_lossy(Text(id).as_bytes()).into_owned();
        let row = Exchange {
            address: number + 1,
            securities: (count / 4 + u64::from(number < count % 4)) as u32,
            opens: 900,
            closes: 1_700,
            name: Text::new(format!("Exchange of {name}").as_bytes()),
            description: Text::new(format!("Trades the securities whose number leaves {number} of 4").as_bytes()),
            padding: [0; 6],
        };
        (id, row)
    })
}

/// The exchange of a security.
pub fn exchange_of(security: u64) -> ExchangeId {
    EXCHANGES[(security % 4) as usize]
}

/// Lowest and highest quantities of the four commissions of each tier, kind and exchange.
const BANDS: [(u32, u32); 4] = [(1, 150), (151, 300), (301, 600), (601, 1_000_000)];

/// The charge of a kind of trade, in cents.
pub fn charge(kind: usize, tier: Tier) -> i64 {
    1_100 - 200 * i64::from(tier) + 50 * kind as i64
}

/// The commission rates, with their lowest quantities.
pub fn commission_rates() -> impl Iterator<Item = ((Tier, TradeTypeId, ExchangeId, u32), CommissionRate)> {
    let kinds = || kind::ALL.into_iter().enumerate();
    (1..=3).flat_map(move |tier| {
        kinds().flat_map(move |(number, kind)| {
            EXCHANGES.into_iter().enumerate().flat_map(move |(place, exchange)| {
                BANDS.into_iter().enumerate().map(move |(band, (from, to_quantity))| {
                    let rate = 90 - 15 * u32::from(tier) - 6 * band as u32 + 2 * number as u32 + place as u32;
                    ((tier, kind, exchange, from), CommissionRate { to_quantity, rate })
                })
            })
        })
    })
}

/// The commission rate of a trade, in hundredths of a percent.
pub fn commission_rate(tier: Tier, kind: TradeTypeId, exchange: ExchangeId, quantity: i32) -> u32 {
    let mut rates = commission_rates();
    let fits = |from: u32, to: u32| (from..=to).contains(&(quantity as u32));
    let found =
        rates.find(|(key, rate)| (key.0, key.1, key.2) == (tier, kind, exchange) && fits(key.3, rate.to_quantity));
    found.expect("the bands cover every quantity").1.rate
}

/// National tax rates.
pub const NATIONAL: u64 = 60;
/// Regional tax rates.
pub const REGIONAL: u64 = 260;

/// The key of a national tax rate with a number below [`NATIONAL`].
pub fn national(number: u64) -> TaxRateId {
    numbered(b'N', number)
}

/// The key of a regional tax rate with a number below [`REGIONAL`].
pub fn regional(number: u64) -> TaxRateId {
    numbered(b'R', number)
}

fn numbered(letter: u8, number: u64) -> TaxRateId {
    let digit = |power: u64| b'0' + (number / power % 10) as u8;
    [letter, digit(100), digit(10), digit(1)]
}

/// The tax rate that follows another of its sort, in a circle.
pub fn next_rate(id: TaxRateId) -> TaxRateId {
    let number = id[1..].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')) + 1;
    match id[0] {
        b'N' => national(number % NATIONAL),
        _ => regional(number % REGIONAL),
    }
}

/// A tax rate in hundred-thousandths: 10 to 34 % of the nation, 2 to 7 % of the region.
pub fn rate_of(id: TaxRateId) -> u32 {
    let number = id[1..].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    match id[0] {
        b'N' => 10_000 + number * 400,
        _ => 2_000 + number * 20,
    }
}

pub fn tax_rates() -> impl Iterator<Item = (TaxRateId, TaxRate)> {
    (0..NATIONAL).map(national).chain((0..REGIONAL).map(regional)).map(|id| {
        let sort = if id[0] == b'N' { "National" } else { "Regional" };
        let name = format!("{sort} Tax, Bracket {}", String::from_utf8_lossy(&id[1..]));
        (id, TaxRate { rate: rate_of(id), name: Text::new(name.as_bytes()), padding: [0; 2] })
    })
}

const SECTORS: [&str; 12] = [
    "Food",
    "Metals",
    "Transport",
    "Software",
    "Health",
    "Chemistry",
    "Energy",
    "Retail",
    "Media",
    "Housing",
    "Finance",
    "Machines",
];
const BRANCHES: [&str; 17] = [
    "Northern",
    "Southern",
    "Coastal",
    "Alpine",
    "Urban",
    "Rural",
    "Marine",
    "Mobile",
    "Modular",
    "Organic",
    "Digital",
    "Thermal",
    "Solar",
    "Precision",
    "Bulk",
    "Custom",
    "Public",
];
const TRADES: [&str; 6] = ["Supply", "Works", "Services", "Tools", "Systems", "Storage"];

/// Number of sectors.
pub const SECTOR_COUNT: u64 = SECTORS.len() as u64;
/// Number of industries.
pub const INDUSTRY_COUNT: u64 = (BRANCHES.len() * TRADES.len()) as u64;

/// The key of a sector or an industry.
pub fn short_id(number: u64) -> ShortId {
    [b'A' + (number / 26) as u8, b'A' + (number % 26) as u8]
}

/// The name of a sector.
pub fn sector_name(number: u64) -> [u8; 30] {
    Text::new(SECTORS[number as usize].as_bytes()).0
}

pub fn sectors() -> impl Iterator<Item = (ShortId, Sector)> {
    (0..SECTOR_COUNT).map(|number| (short_id(number), Sector { name: Text(sector_name(number)) }))
}

/// The name of an industry.
pub fn industry_name(number: u64) -> [u8; 50] {
    let (branch, trade) = (BRANCHES[number as usize / TRADES.len()], TRADES[number as usize % TRADES.len()]);
    Text::new(format!("{branch} {trade}").as_bytes()).0
}

pub fn industries() -> impl Iterator<Item = (ShortId, Industry)> {
    (0..INDUSTRY_COUNT).map(|number| {
        let row = Industry { name: Text(industry_name(number)), sector: Text(short_id(number % SECTOR_COUNT)) };
        (short_id(number), row)
    })
}

/// The key of a place.
pub fn zip_code(number: u64) -> [u8; 12] {
    Text::new(format!("{:05}", 10_000 + number).as_bytes()).0
}

pub fn zip_codes(scale: Scale) -> impl Iterator<Item = ([u8; 12], ZipCode)> {
    (0..scale.zip_codes).map(|number| {
        let town =
            format!("{} {}", BRANCHES[(number % 17) as usize], ["Ford", "Hill", "Mill", "Bay"][number as usize % 4]);
        let division = format!("Division {}", number % 50);
        (zip_code(number), ZipCode { town: Text::new(town.as_bytes()), division: Text::new(division.as_bytes()) })
    })
}

/// The address with a number from 1.
pub fn address(number: u64, scale: Scale) -> Address {
    let flat = if number.is_multiple_of(3) { format!("Flat {}", number % 90) } else { String::new() };
    Address {
        line_1: Text::new(format!("{} {} Street", number % 999 + 1, TRADES[(number % 6) as usize]).as_bytes()),
        line_2: Text::new(flat.as_bytes()),
        zip: Text(zip_code(number % scale.zip_codes)),
        country: Text::new(b"Ermineland"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn fixed_tables_have_the_rows_of_the_rules() {
        assert_eq!((commission_rates().count(), tax_rates().count()), (240, 320));
        assert_eq!((sectors().count(), industries().count()), (12, 102));
        assert_eq!(zip_codes(Scale::FULL).map(|(key, _)| key).collect::<HashSet<_>>().len(), 14_741);
        let names: HashSet<_> = industries().map(|(_, row)| row.name.0).collect();
        assert_eq!(names.len(), 102);
    }

    #[test]
    fn rates_and_charges_are_positive() {
        assert!(commission_rates().all(|(_, row)| (1..=100).contains(&row.rate)));
        assert!((1..=3).all(|tier| (0..5).all(|kind| charge(kind, tier) > 0)));
        assert_eq!(commission_rate(3, kind::STOP_LOSS, EXCHANGES[3], 800), 90 - 45 - 18 + 8 + 3);
        assert!(tax_rates().all(|(_, row)| (2_000..35_000).contains(&row.rate)));
    }

    #[test]
    fn brackets_go_round() {
        assert_eq!((next_rate(*b"N007"), next_rate(*b"N059")), (*b"N008", *b"N000"));
        assert_eq!((next_rate(*b"R099"), next_rate(*b"R259")), (*b"R100", *b"R000"));
    }
}
