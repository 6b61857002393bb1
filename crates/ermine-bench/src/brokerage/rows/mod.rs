//! The rows of the 33 tables and of ASSETS_HISTORY, as fixed structs; columns of a key are not stored again.
//!
//! Money is integer cents, tax rates are hundred-thousandths, commission rates hundredths of a percent, days are
//! counted since 1970, times are microseconds since 1970. NULL is zero.

mod broker;
mod customer;
mod dimension;
mod market;

pub use self::{
    broker::{
        AssetsHistory, Broker, CashTransaction, CommissionRate, HoldingHistory, Settlement, Trade, TradeRequest,
        TradeType,
    },
    customer::{AccountPermission, Customer, CustomerAccount, Holding, Phone},
    dimension::{Address, StatusType, TaxRate, ZipCode},
    market::{Company, DailyMarket, Exchange, Financial, Industry, LastTrade, NewsHead, Sector, Security},
};

/// The symbol of a security.
pub type Symbol = [u8; 15];
/// The key of a status.
pub type StatusId = [u8; 4];
/// The key of a trade type.
pub type TradeTypeId = [u8; 3];
/// The key of a tax rate.
pub type TaxRateId = [u8; 4];
/// The key of a sector or of an industry.
pub type ShortId = [u8; 2];
/// The key of an exchange.
pub type ExchangeId = [u8; 6];
/// The tax number of a person.
pub type TaxNumber = [u8; 20];
