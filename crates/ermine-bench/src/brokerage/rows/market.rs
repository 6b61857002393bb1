//! Companies, their securities, and the market.

use crate::fixed::{Text, row};

row! {
    /// A company.
    Company {
        address: u64,
        opened: u32,
        status: Text<4>,
        industry: Text<2>,
        rating: Text<4>,
        name: Text<60>,
        chief: Text<46>,
        description: Text<150>,
        padding: [u8; 2],
    }
}

row! {
    /// Prices and volume of a security on a day.
    DailyMarket {
        close: i64,
        high: i64,
        low: i64,
        volume: i64,
    }
}

row! {
    /// An exchange; opening times as hours times 100 plus minutes.
    Exchange {
        address: u64,
        securities: u32,
        opens: u16,
        closes: u16,
        name: Text<100>,
        description: Text<150>,
        padding: [u8; 6],
    }
}

row! {
    /// The results of a company in a quarter.
    Financial {
        revenue: i64,
        earnings: i64,
        basic_per_share: i64,
        diluted_per_share: i64,
        /// In hundredths of a percent.
        margin: i64,
        inventory: i64,
        assets: i64,
        liabilities: i64,
        shares_basic: i64,
        shares_diluted: i64,
        start: u32,
        padding: [u8; 4],
    }
}

row! {
    /// An industry.
    Industry {
        name: Text<50>,
        sector: Text<2>,
    }
}

row! {
    /// A sector of industries.
    Sector {
        name: Text<30>,
    }
}

row! {
    /// The state of a security on the ticker.
    LastTrade {
        dts: u64,
        price: i64,
        open_price: i64,
        volume: i64,
    }
}

row! {
    /// The front of a news item; the item itself follows it in the stored bytes.
    NewsHead {
        dts: u64,
        headline: Text<80>,
        summary: Text<255>,
        source: Text<30>,
        author: Text<30>,
        padding: [u8; 5],
    }
}

row! {
    /// A security.
    Security {
        company: u64,
        shares: i64,
        dividend: i64,
        year_high: i64,
        year_low: i64,
        /// In hundredths.
        price_earnings: u32,
        /// In hundredths of a percent.
        yields: u32,
        start: u32,
        exchange_start: u32,
        year_high_day: u32,
        year_low_day: u32,
        issue: Text<6>,
        status: Text<4>,
        exchange: Text<6>,
        name: Text<70>,
        padding: [u8; 2],
    }
}
