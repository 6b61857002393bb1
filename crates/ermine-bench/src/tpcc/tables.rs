//! The nine tables, two more of the mix with credit checks, and one more of Silo's rows.
//!
//! | table | key | secondary index |
//! |---|---|---|
//! | warehouse | w | |
//! | district | w, d | |
//! | customer | w, d, c | `by_name`: w, d, last, first |
//! | history | w, d, unique number | |
//! | new_order | w, d, o | |
//! | order | w, d, o | `by_customer`: w, d, c; within one customer by o |
//! | order_line | w, d, o, line | |
//! | item | i | |
//! | stock | w, i | |
//! | stock_notes (Silo's rows) | w, i | |
//! | customer_credit (credit checks) | w, d, c | |
//! | credit_check (credit checks) | w, d, c, number | |

use ermine::{Database, SecondaryIndex, Table, TableOptions, Uniqueness};

use super::{
    mix::Mix,
    rows::{RowChoice, Rows, StandardRows},
    schema::{
        Credit, CreditCheckKey, CreditCheckRow, Customer, CustomerKey, District, DistrictKey, History, HistoryKey,
        Item, LineKey, NameKey, Order, OrderKey, StockKey, StockNotes, Warehouse,
    },
};

/// Handles of the tables that credit checks need.
#[derive(Clone)]
pub struct CreditTables {
    /// The status of each customer: separate from CUSTOMER, so that checks and payments write different rows.
    pub status: Table<CustomerKey, Credit>,
    /// Every check, numbered from 1 for each customer.
    pub checks: Table<CreditCheckKey, CreditCheckRow>,
}

/// Handles of all tables and indexes.
#[derive(Clone)]
pub struct Tables<R: Rows = StandardRows> {
    /// WAREHOUSE.
    pub warehouse: Table<u32, Warehouse>,
    /// DISTRICT.
    pub district: Table<DistrictKey, District>,
    /// CUSTOMER.
    pub customer: Table<CustomerKey, Customer>,
    /// CUSTOMER by last, then first name.
    pub customer_by_name: SecondaryIndex<NameKey, CustomerKey, Customer>,
    /// HISTORY.
    pub history: Table<HistoryKey, History>,
    /// NEW_ORDER: orders that are not delivered.
    pub new_order: Table<OrderKey, ()>,
    /// ORDERS.
    pub order: Table<OrderKey, Order>,
    /// ORDERS by customer, then by number.
    pub order_by_customer: SecondaryIndex<CustomerKey, OrderKey, Order>,
    /// ORDER_LINE.
    pub order_line: Table<LineKey, R::Line>,
    /// ITEM.
    pub item: Table<u32, Item>,
    /// STOCK.
    pub stock: Table<StockKey, R::Stock>,
    /// The notes on STOCK, where they are rows of their own.
    pub stock_notes: Option<Table<StockKey, StockNotes>>,
    /// Set in the mix with credit checks.
    pub credit: Option<CreditTables>,
}

/// Each warehouse is a partition, with all that belongs to it; items are in none.
fn by_warehouse() -> TableOptions {
    TableOptions::default().partition_by(|&warehouse: &u32| warehouse.into())
}

impl<R: Rows> Tables<R> {
    /// Opens the tables of a database; creates them if they do not exist.
    pub fn open(db: &Database) -> ermine::Result<Self> {
        let customer = db.table_with("customer", by_warehouse())?;
        let customer_by_name = db.index(
            &customer,
            "customer_by_name",
            Uniqueness::NonUnique,
            |&(w, d, _): &CustomerKey, row: &Customer| (w, d, row.last.0, row.first.0),
        )?;
        let order = db.table_with("order", by_warehouse())?;
        let order_by_customer =
            db.index(&order, "order_by_customer", Uniqueness::NonUnique, |&(w, d, _): &OrderKey, row: &Order| {
                (w, d, row.c_id)
            })?;
        Ok(Self {
            warehouse: db.table_with("warehouse", by_warehouse())?,
            district: db.table_with("district", by_warehouse())?,
            customer,
            customer_by_name,
            history: db.table_with("history", by_warehouse())?,
            new_order: db.table_with("new_order", by_warehouse())?,
            order,
            order_by_customer,
            order_line: db.table_with("order_line", by_warehouse())?,
            item: db.table("item")?,
            stock: db.table_with("stock", by_warehouse())?,
            stock_notes: match R::CHOICE {
                RowChoice::Standard => None,
                RowChoice::Silo => Some(db.table_with("stock_notes", by_warehouse())?),
            },
            credit: None,
        })
    }

    /// Like [`Tables::open`], with the tables that a mix needs in addition to the nine.
    pub fn open_for(db: &Database, mix: Mix) -> ermine::Result<Self> {
        let tables = Self::open(db)?;
        Ok(match mix {
            Mix::Standard => tables,
            Mix::CreditCheck => {
                let status = db.table_with("customer_credit", by_warehouse())?;
                let credit = CreditTables { status, checks: db.table_with("credit_check", by_warehouse())? };
                Self { credit: Some(credit), ..tables }
            }
        })
    }
}
