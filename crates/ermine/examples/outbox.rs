//! An outbox: messages to another system, written in the transaction that they tell about, and sent afterwards.
//!
//! A message is sent at least once, and in the order of its stream: the sender deletes it when the other system has
//! confirmed it. The receiver drops what it has got before by the message's number.
//!
//! `cargo run -p ermine --example outbox`

use std::collections::BTreeSet;

use ermine::{Database, Error, Options, Result, Table, Transaction};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Message {
    topic: String,
    text: String,
}
ermine::serde_value!(Message);

struct Shop {
    db: Database,
    orders: Table<u64, String>,
    outbox: Table<u64, Message>,
    /// The number of the last message.
    last: Table<(), u64>,
}

impl Shop {
    fn open(db: Database) -> Result<Self> {
        let (orders, outbox, last) = (db.table("orders")?, db.table("outbox")?, db.table("last message")?);
        Ok(Self { db, orders, outbox, last })
    }

    // ANCHOR: write
    /// Takes an order; its message exists exactly if the order does.
    fn order(&self, number: u64, what: &str) -> Result<()> {
        self.db.run(|txn| {
            txn.insert(&self.orders, &number, what)?;
            self.tell(txn, "orders", &format!("order {number}: {what}"))
        })
    }

    /// Adds a message behind all others.
    fn tell(&self, txn: &Transaction<'_>, topic: &str, text: &str) -> Result<()> {
        let number = txn.get(&self.last, &())?.unwrap_or(0) + 1;
        txn.put(&self.last, &(), &number)?;
        txn.insert(&self.outbox, &number, &Message { topic: topic.into(), text: text.into() })
    }
    // ANCHOR_END: write

    // ANCHOR: send
    /// Sends what is in the outbox, oldest first, and removes what the other system has confirmed.
    fn send(&self, mut deliver: impl FnMut(u64, &Message) -> bool) -> Result<usize> {
        let waiting = self.db.run(|txn| txn.scan(&self.outbox, ..).limit(100).collect())?;
        // Outside of a transaction: it would be run again after a lost conflict, and send again.
        let sent: Vec<u64> = waiting
            .iter()
            .take_while(|(number, message)| deliver(*number, message))
            .map(|(number, _)| *number)
            .collect();
        self.db.run(|txn| {
            for number in &sent {
                txn.delete(&self.outbox, number)?;
            }
            Ok(sent.len())
        })
    }
    // ANCHOR_END: send
}

fn main() -> Result<(), Error> {
    let shop = Shop::open(Database::open_in_memory(Options::default())?)?;
    for (number, what) in [(1, "tea"), (2, "cups"), (3, "a pot")] {
        shop.order(number, what)?;
    }
    assert!(matches!(shop.order(2, "twice"), Err(Error::KeyExists { .. })), "no order, and no message");

    let (mut received, mut numbers) = (Vec::new(), BTreeSet::new());
    let mut receive = |number: u64, message: &Message| {
        if numbers.insert(number) {
            println!("{}: {}", message.topic, message.text);
            received.push(message.text.clone());
        }
        true
    };
    assert_eq!(shop.send(|number, message| number != 2 && receive(number, message))?, 1, "the second is not confirmed");
    assert_eq!(shop.send(&mut receive)?, 2);
    shop.order(4, "sugar")?;
    shop.send(&mut receive)?;
    assert_eq!(received, ["order 1: tea", "order 2: cups", "order 3: a pot", "order 4: sugar"]);
    Ok(())
}
