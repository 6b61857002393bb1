//! Brokers, trades, and what follows from trades.

use crate::fixed::{Text, row};

row! {
    /// A broker.
    Broker {
        commission_total: i64,
        trades: u32,
        status: Text<4>,
        name: Text<49>,
        padding: [u8; 7],
    }
}

row! {
    /// A payment to or from an account.
    CashTransaction {
        dts: u64,
        amount: i64,
        name: Text<100>,
        padding: [u8; 4],
    }
}

row! {
    /// A commission, for quantities from that in the key.
    CommissionRate {
        to_quantity: u32,
        rate: u32,
    }
}

row! {
    /// How a trade is paid.
    Settlement {
        amount: i64,
        due: u32,
        cash_type: Text<40>,
        padding: [u8; 4],
    }
}

row! {
    /// A trade. Its time moves with its status, and with it the entries in both indexes.
    Trade {
        dts: u64,
        account: u64,
        bid_price: i64,
        trade_price: i64,
        charge: i64,
        commission: i64,
        tax: i64,
        quantity: i32,
        is_cash: u8,
        is_lifo: u8,
        status: Text<4>,
        kind: Text<3>,
        symbol: Text<15>,
        executor: Text<49>,
        padding: [u8; 3],
    }
}

row! {
    /// A limit order that waits for its price.
    TradeRequest {
        bid_price: i64,
        broker: u64,
        quantity: i32,
        kind: Text<3>,
        symbol: Text<15>,
        padding: [u8; 2],
    }
}

row! {
    /// A kind of trade.
    TradeType {
        is_sell: u8,
        is_market: u8,
        name: Text<12>,
    }
}

row! {
    /// How a trade changed a holding.
    HoldingHistory {
        before: i32,
        after: i32,
    }
}

row! {
    /// The result of an Asset-Eval.
    AssetsHistory {
        first_account: u64,
        last_account: u64,
        total: i64,
    }
}
