//! The 33 tables, ASSETS_HISTORY of the hybrid mix, and their secondary indexes.

use ermine::{Database, SecondaryIndex, Table, Uniqueness};

use super::rows::{
    AccountPermission, Address, AssetsHistory, Broker, CashTransaction, CommissionRate, Company, Customer,
    CustomerAccount, DailyMarket, Exchange, ExchangeId, Financial, Holding, HoldingHistory, Industry, LastTrade,
    Sector, Security, Settlement, ShortId, StatusId, StatusType, Symbol, TaxNumber, TaxRate, TaxRateId, Trade,
    TradeRequest, TradeType, TradeTypeId, ZipCode,
};

/// Handles of all tables and indexes.
#[derive(Clone)]
pub struct Tables {
    // Customers.
    pub account_permission: Table<(u64, TaxNumber), AccountPermission>,
    pub customer: Table<u64, Customer>,
    pub customer_by_tax_number: SecondaryIndex<TaxNumber, u64, Customer>,
    pub customer_account: Table<u64, CustomerAccount>,
    pub account_by_customer: SecondaryIndex<u64, u64, CustomerAccount>,
    pub customer_taxrate: Table<(u64, TaxRateId), ()>,
    pub holding: Table<u64, Holding>,
    /// By account, symbol and time.
    pub holding_by_account: SecondaryIndex<(u64, Symbol, u64), u64, Holding>,
    /// By the trade that opened the holding, then the trade that changed it.
    pub holding_history: Table<(u64, u64), HoldingHistory>,
    pub holding_history_by_trade: SecondaryIndex<u64, (u64, u64), HoldingHistory>,
    /// Quantities.
    pub holding_summary: Table<(u64, Symbol), i32>,
    pub watch_item: Table<(u64, Symbol), ()>,
    /// The customer of each list.
    pub watch_list: Table<u64, u64>,
    pub watch_list_by_customer: SecondaryIndex<u64, u64, u64>,
    // Brokers and trades.
    pub broker: Table<u64, Broker>,
    pub broker_by_name: SecondaryIndex<[u8; 49], u64, Broker>,
    pub cash_transaction: Table<u64, CashTransaction>,
    /// Cents by trade type and tier.
    pub charge: Table<(TradeTypeId, u8), i64>,
    /// By tier, trade type, exchange, and the lowest quantity.
    pub commission_rate: Table<(u8, TradeTypeId, ExchangeId, u32), CommissionRate>,
    pub settlement: Table<u64, Settlement>,
    pub trade: Table<u64, Trade>,
    pub trade_by_account: SecondaryIndex<(u64, u64), u64, Trade>,
    pub trade_by_symbol: SecondaryIndex<(Symbol, u64), u64, Trade>,
    /// Times by trade and status.
    pub trade_history: Table<(u64, StatusId), u64>,
    pub trade_request: Table<u64, TradeRequest>,
    pub trade_request_by_symbol: SecondaryIndex<(Symbol, u64), u64, TradeRequest>,
    pub trade_type: Table<TradeTypeId, TradeType>,
    // The market.
    pub company: Table<u64, Company>,
    pub company_by_name: SecondaryIndex<[u8; 60], u64, Company>,
    pub company_by_industry: SecondaryIndex<ShortId, u64, Company>,
    pub company_competitor: Table<(u64, u64, ShortId), ()>,
    pub daily_market: Table<(Symbol, u32), DailyMarket>,
    pub exchange: Table<ExchangeId, Exchange>,
    /// By company, year and quarter.
    pub financial: Table<(u64, u16, u8), Financial>,
    pub industry: Table<ShortId, Industry>,
    pub industry_by_name: SecondaryIndex<[u8; 50], ShortId, Industry>,
    pub industry_by_sector: SecondaryIndex<ShortId, ShortId, Industry>,
    pub last_trade: Table<Symbol, LastTrade>,
    /// A `NewsHead` and the item.
    pub news_item: Table<u64, Vec<u8>>,
    /// By company, then news item.
    pub news_xref: Table<(u64, u64), ()>,
    pub sector: Table<ShortId, Sector>,
    pub sector_by_name: SecondaryIndex<[u8; 30], ShortId, Sector>,
    pub security: Table<Symbol, Security>,
    /// By company and issue.
    pub security_by_company: SecondaryIndex<(u64, [u8; 6]), Symbol, Security>,
    // Dimensions.
    pub address: Table<u64, Address>,
    pub status_type: Table<StatusId, StatusType>,
    pub taxrate: Table<TaxRateId, TaxRate>,
    pub zip_code: Table<[u8; 12], ZipCode>,
    // The hybrid mix.
    pub assets_history: Table<u64, AssetsHistory>,
}

impl Tables {
    /// Opens the tables of a database; creates them if they do not exist.
    pub fn open(db: &Database) -> ermine::Result<Self> {
        use Uniqueness::{NonUnique, Unique};
        let customer = db.table("customer")?;
        let customer_account = db.table("customer_account")?;
        let holding = db.table("holding")?;
        let holding_history = db.table("holding_history")?;
        let watch_list = db.table("watch_list")?;
        let broker = db.table("broker")?;
        let trade = db.table("trade")?;
        let trade_request = db.table("trade_request")?;
        let company = db.table("company")?;
        let industry = db.table("industry")?;
        let sector = db.table("sector")?;
        let security = db.table("security")?;
        Ok(Self {
            account_permission: db.table("account_permission")?,
            customer_by_tax_number: db
                .index(&customer, "customer_by_tax_number", Unique, |_, row: &Customer| row.tax_number.0)?,
            customer,
            account_by_customer: db.index(
                &customer_account,
                "account_by_customer",
                NonUnique,
                |_, row: &CustomerAccount| row.customer,
            )?,
            customer_account,
            customer_taxrate: db.table("customer_taxrate")?,
            holding_by_account: db.index(&holding, "holding_by_account", NonUnique, |_, row: &Holding| {
                (row.account, row.symbol.0, row.dts)
            })?,
            holding,
            holding_history_by_trade: db.index(
                &holding_history,
                "holding_history_by_trade",
                NonUnique,
                |&(_, trade): &(u64, u64), _: &HoldingHistory| trade,
            )?,
            holding_history,
            holding_summary: db.table("holding_summary")?,
            watch_item: db.table("watch_item")?,
            watch_list_by_customer: db
                .index(&watch_list, "watch_list_by_customer", NonUnique, |_, customer| customer)?,
            watch_list,
            broker_by_name: db.index(&broker, "broker_by_name", NonUnique, |_, row: &Broker| row.name.0)?,
            broker,
            cash_transaction: db.table("cash_transaction")?,
            charge: db.table("charge")?,
            commission_rate: db.table("commission_rate")?,
            settlement: db.table("settlement")?,
            trade_by_account: db
                .index(&trade, "trade_by_account", NonUnique, |_, row: &Trade| (row.account, row.dts))?,
            trade_by_symbol: db
                .index(&trade, "trade_by_symbol", NonUnique, |_, row: &Trade| (row.symbol.0, row.dts))?,
            trade,
            trade_history: db.table("trade_history")?,
            trade_request_by_symbol: db.index(
                &trade_request,
                "trade_request_by_symbol",
                NonUnique,
                |_, row: &TradeRequest| (row.symbol.0, row.broker),
            )?,
            trade_request,
            trade_type: db.table("trade_type")?,
            company_by_name: db.index(&company, "company_by_name", NonUnique, |_, row: &Company| row.name.0)?,
            company_by_industry: db
                .index(&company, "company_by_industry", NonUnique, |_, row: &Company| row.industry.0)?,
            company,
            company_competitor: db.table("company_competitor")?,
            daily_market: db.table("daily_market")?,
            exchange: db.table("exchange")?,
            financial: db.table("financial")?,
            industry_by_name: db.index(&industry, "industry_by_name", NonUnique, |_, row: &Industry| row.name.0)?,
            industry_by_sector: db
                .index(&industry, "industry_by_sector", NonUnique, |_, row: &Industry| row.sector.0)?,
            industry,
            last_trade: db.table("last_trade")?,
            news_item: db.table("news_item")?,
            news_xref: db.table("news_xref")?,
            sector_by_name: db.index(&sector, "sector_by_name", NonUnique, |_, row: &Sector| row.name.0)?,
            sector,
            security_by_company: db
                .index(&security, "security_by_company", Unique, |_, row: &Security| (row.company, row.issue.0))?,
            security,
            address: db.table("address")?,
            status_type: db.table("status_type")?,
            taxrate: db.table("taxrate")?,
            zip_code: db.table("zip_code")?,
            assets_history: db.table("assets_history")?,
        })
    }
}
