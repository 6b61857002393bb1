//! Rows as fixed structs that are read in place, and keys as tuples of numbers.
//!
//! Strings have their full size of the rules and are padded with zeros. The rules define no key for HISTORY: here the
//! writer generates a unique key, under the district where the payment was made.

pub use crate::fixed::Text;
use crate::fixed::row;

row! {
    /// A warehouse.
    Warehouse, 96 {
        /// Payments received, in cents.
        ytd: i64,
        /// Sales tax in hundredths of a percent.
        tax: u32,
        /// Name.
        name: Text<10>,
        /// Address.
        street_1: Text<20>,
        /// Address.
        street_2: Text<20>,
        /// Address.
        city: Text<20>,
        /// Address.
        state: Text<2>,
        /// Address.
        zip: Text<9>,
        /// Zero.
        padding: [u8; 3],
    }
}

row! {
    /// A district of a warehouse.
    District, 104 {
        /// Payments received, in cents.
        ytd: i64,
        /// Sales tax in hundredths of a percent.
        tax: u32,
        /// The number of the next order.
        next_o_id: u32,
        /// Name.
        name: Text<10>,
        /// Address.
        street_1: Text<20>,
        /// Address.
        street_2: Text<20>,
        /// Address.
        city: Text<20>,
        /// Address.
        state: Text<2>,
        /// Address.
        zip: Text<9>,
        /// Zero.
        padding: [u8; 7],
    }
}

row! {
    /// A customer of a district.
    Customer, 672 {
        /// Balance that the customer owes, in cents.
        balance: i64,
        /// Sum that the customer has paid, in cents.
        ytd_payment: i64,
        /// Limit of the credit, in cents.
        credit_lim: i64,
        /// When the customer was registered.
        since: u64,
        /// Discount in hundredths of a percent.
        discount: u32,
        /// Number of payments.
        payment_cnt: u32,
        /// Number of deliveries.
        delivery_cnt: u32,
        /// Bytes of `data` in use.
        data_len: u16,
        /// "GC" for good credit, "BC" for bad.
        credit: Text<2>,
        /// First name.
        first: Text<16>,
        /// Last name.
        last: Text<16>,
        /// "OE".
        middle: Text<2>,
        /// Address.
        street_1: Text<20>,
        /// Address.
        street_2: Text<20>,
        /// Address.
        city: Text<20>,
        /// Address.
        state: Text<2>,
        /// Address.
        zip: Text<9>,
        /// Telephone number.
        phone: Text<16>,
        /// Notes; under bad credit the latest payments.
        data: Text<500>,
        /// Zero.
        padding: [u8; 3],
    }
}

row! {
    /// A payment.
    History, 56 {
        /// Amount in cents.
        amount: i64,
        /// Time of the payment.
        date: u64,
        /// The customer's warehouse.
        c_w_id: u32,
        /// The customer.
        c_id: u32,
        /// The customer's district.
        c_d_id: u8,
        /// Names of the warehouse and the district that received it.
        data: Text<24>,
        /// Zero.
        padding: [u8; 7],
    }
}

row! {
    /// An order.
    Order, 16 {
        /// Time of entry.
        entry_d: u64,
        /// The customer.
        c_id: u32,
        /// The carrier that delivered it; 0 for NULL.
        carrier_id: u8,
        /// Number of its lines.
        ol_cnt: u8,
        /// 1 if all its stock is in the home warehouse.
        all_local: u8,
        /// The number, modulo 256, of the credit check whose status it was accepted under; 0 without credit checks.
        credit_check: u8,
    }
}

row! {
    /// A line of an order.
    OrderLine, 56 {
        /// Time of delivery; 0 for NULL.
        delivery_d: u64,
        /// Amount in cents.
        amount: i64,
        /// The item.
        i_id: u32,
        /// The warehouse whose stock it comes from.
        supply_w_id: u32,
        /// Quantity.
        quantity: u8,
        /// The stock's note for the district.
        dist_info: Text<24>,
        /// Zero.
        padding: [u8; 7],
    }
}

row! {
    /// A line of an order without the stock's note, as in Silo's benchmark.
    ShortLine, 32 {
        /// Time of delivery; 0 for NULL.
        delivery_d: u64,
        /// Amount in cents.
        amount: i64,
        /// The item.
        i_id: u32,
        /// The warehouse whose stock it comes from.
        supply_w_id: u32,
        /// Quantity.
        quantity: u8,
        /// Zero.
        padding: [u8; 7],
    }
}

row! {
    /// An item for sale; never changed.
    Item, 88 {
        /// Price in cents.
        price: i64,
        /// Its picture.
        im_id: u32,
        /// Bytes of `data` in use.
        data_len: u8,
        /// Name.
        name: Text<24>,
        /// Brand.
        data: Text<50>,
        /// Zero.
        padding: u8,
    }
}

row! {
    /// A warehouse's stock of an item.
    Stock, 312 {
        /// Quantity sold so far.
        ytd: u32,
        /// Quantity in stock.
        quantity: i32,
        /// Orders it was part of.
        order_cnt: u32,
        /// Orders among them that came from another warehouse.
        remote_cnt: u32,
        /// Bytes of `data` in use.
        data_len: u8,
        /// A note for each district.
        dist: [Text<24>; 10],
        /// Brand.
        data: Text<50>,
        /// Zero.
        padding: [u8; 5],
    }
}

row! {
    /// A warehouse's stock of an item without its notes, as in Silo's benchmark.
    StockCounts, 16 {
        /// Quantity sold so far.
        ytd: u32,
        /// Quantity in stock.
        quantity: i32,
        /// Orders it was part of.
        order_cnt: u32,
        /// Orders among them that came from another warehouse.
        remote_cnt: u32,
    }
}

row! {
    /// The notes on a stock, as in Silo's benchmark; never read.
    StockNotes, 296 {
        /// Bytes of `data` in use.
        data_len: u8,
        /// A note for each district.
        dist: [Text<24>; 10],
        /// Brand.
        data: Text<50>,
        /// Zero.
        padding: [u8; 5],
    }
}

row! {
    /// Result of the last credit check.
    Credit, 8 {
        /// Number of checks so far.
        checks: u32,
        /// "GC" for good credit, "BC" for bad.
        status: Text<2>,
        /// Zero.
        padding: [u8; 2],
    }
}

row! {
    /// A credit check.
    CreditCheckRow, 16 {
        /// Sum of the orders that it found not delivered, in cents.
        outstanding: i64,
        /// The newest order of the customer that it saw, delivered or not.
        newest_o_id: u32,
        /// Result of the check.
        status: Text<2>,
        /// Zero.
        padding: [u8; 2],
    }
}

/// Key of a district: warehouse, district.
pub type DistrictKey = (u32, u8);
/// Key of a customer: warehouse, district, customer.
pub type CustomerKey = (u32, u8, u32);
/// Key of a customer by name: warehouse, district, last name, first name.
pub type NameKey = (u32, u8, [u8; 16], [u8; 16]);
/// Key of a payment: warehouse, district, unique number.
pub type HistoryKey = (u32, u8, u64);
/// Key of an order: warehouse, district, order.
pub type OrderKey = (u32, u8, u32);
/// Key of an order line: warehouse, district, order, line.
pub type LineKey = (u32, u8, u32, u8);
/// Key of a stock row: warehouse, item.
pub type StockKey = (u32, u32);

/// Key of a credit check: warehouse, district, customer, number.
pub type CreditCheckKey = (u32, u8, u32, u32);
