//! An order book: buyers and sellers of one thing, matched by price, then by time.
//!
//! The key of an order is its place in the queue, so the best offer is the first row of a scan.
//!
//! `cargo run -p ermine --example order_book`

use std::thread;

use ermine::{Database, Error, Options, Result, Table, Transaction};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Buy,
    Sell,
}

#[derive(Serialize, Deserialize)]
struct Order {
    trader: String,
    amount: u64,
}
ermine::serde_value!(Order);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Trade {
    buyer: String,
    seller: String,
    price: i64,
    amount: u64,
}
ermine::serde_value!(Trade);

// ANCHOR: keys
struct Book {
    db: Database,
    /// Sellers by (price, number of the order); buyers by (-price, number): the best offer is the first row.
    sellers: Table<(i64, u64), Order>,
    buyers: Table<(i64, u64), Order>,
    trades: Table<(u64, u64), Trade>,
}
// ANCHOR_END: keys

impl Book {
    fn open(db: Database) -> Result<Self> {
        let (sellers, buyers, trades) = (db.table("sellers")?, db.table("buyers")?, db.table("trades")?);
        Ok(Self { db, sellers, buyers, trades })
    }

    // ANCHOR: place
    /// Matches an order with the other side as far as the prices allow, and keeps the rest in the book; returns the
    /// amount that was traded.
    fn place(&self, number: u64, side: Side, trader: &str, price: i64, amount: u64) -> Result<u64> {
        let (own, others, sign) = match side {
            Side::Buy => (&self.buyers, &self.sellers, 1),
            Side::Sell => (&self.sellers, &self.buyers, -1),
        };
        self.db.run(|txn| {
            let mut left = amount;
            while left > 0 {
                // The first row of the other side, if its price is as good as the one that is asked for.
                let Some((key, mut best)) = txn.scan(others, ..=(sign * price, u64::MAX)).first()? else { break };
                let traded = left.min(best.amount);
                self.trade(txn, number, side, trader, &best.trader, sign * key.0, traded)?;
                (left, best.amount) = (left - traded, best.amount - traded);
                if best.amount == 0 {
                    txn.delete(others, &key)?
                } else {
                    txn.update(others, &key, &best)?
                };
            }
            if left > 0 {
                txn.insert(own, &(-sign * price, number), &Order { trader: trader.into(), amount: left })?;
            }
            Ok(amount - left)
        })
    }
    // ANCHOR_END: place

    #[allow(clippy::too_many_arguments)]
    fn trade(
        &self,
        txn: &Transaction<'_>,
        number: u64,
        side: Side,
        trader: &str,
        other: &str,
        price: i64,
        amount: u64,
    ) -> Result<()> {
        let (buyer, seller) = if side == Side::Buy { (trader, other) } else { (other, trader) };
        let part = txn.scan(&self.trades, ermine::prefix((number,))).count()? as u64;
        let trade = Trade { buyer: buyer.into(), seller: seller.into(), price, amount };
        txn.insert(&self.trades, &(number, part), &trade)
    }
}

fn main() -> Result<(), Error> {
    let book = Book::open(Database::open_in_memory(Options::default())?)?;
    book.place(1, Side::Sell, "ann", 103, 5)?;
    book.place(2, Side::Sell, "bob", 101, 5)?;
    book.place(3, Side::Buy, "eve", 99, 5)?;
    assert_eq!(book.place(4, Side::Buy, "dan", 103, 8)?, 8, "five of bob's at 101, three of ann's at 103");
    let trades = book.db.run(|txn| txn.scan(&book.trades, ..).collect())?;
    for (_, Trade { buyer, seller, price, amount }) in &trades {
        println!("{buyer} buys {amount} from {seller} at {price}");
    }
    assert_eq!(trades[0].1, Trade { buyer: "dan".into(), seller: "bob".into(), price: 101, amount: 5 });
    assert_eq!((trades.len(), trades[1].1.price, trades[1].1.amount), (2, 103, 3));

    // What is bought is sold, and no two open orders could trade, however the threads run.
    thread::scope(|scope| {
        for client in 1..=4u64 {
            let book = &book;
            scope.spawn(move || {
                for n in 0..50 {
                    let (side, price) =
                        (if n % 2 == 0 { Side::Buy } else { Side::Sell }, 95 + (client + n) as i64 % 10);
                    book.place(1000 * client + n, side, "crowd", price, 1 + n % 3).unwrap();
                }
            });
        }
    });
    let snapshot = book.db.snapshot()?;
    let best = (snapshot.scan(&book.buyers, ..).first()?, snapshot.scan(&book.sellers, ..).first()?);
    if let (Some((bid, _)), Some((offer, _))) = best {
        assert!(-bid.0 < offer.0, "the book is crossed: {} and {}", -bid.0, offer.0);
    }
    println!("{} trades, and the book is not crossed", snapshot.scan(&book.trades, ..).count()?);
    Ok(())
}
