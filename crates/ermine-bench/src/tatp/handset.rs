//! A client: draws transactions and runs them.

use ermine::Scheme;

use super::{
    options::Tatp,
    population::{START_TIMES, digits},
    tables::{Tables, sub_nbr},
    transactions::{Call, Request},
};
use crate::{
    Result, failure,
    random::Random,
    trial::{Client, ClientContext},
};

/// The names of the kinds of transactions.
pub const NAMES: [&str; 7] = [
    "get-subscriber-data",
    "get-new-destination",
    "get-access-data",
    "update-subscriber-data",
    "update-location",
    "insert-call-forwarding",
    "delete-call-forwarding",
];

/// Their shares in percent.
pub const SHARES: [u32; 7] = [35, 10, 35, 2, 14, 2, 2];

/// A client thread.
pub struct Handset<'a> {
    options: &'a Tatp,
    tables: &'a Tables,
    scheme: Scheme,
    random: Random,
    /// Call forwardings that its transactions have added, less those that they have removed.
    pub forwardings: i64,
}

impl<'a> Handset<'a> {
    pub fn new(options: &'a Tatp, tables: &'a Tables, scheme: Scheme, random: Random) -> Self {
        Self { options, tables, scheme, random, forwardings: 0 }
    }

    /// Draws the kind of a transaction, and its inputs.
    pub fn draw(&mut self) -> (usize, Request) {
        let random = &mut self.random;
        let kind = random.weighted(&SHARES);
        let subscriber = self.options.subscriber(random);
        let number = sub_nbr(subscriber);
        let facility = random.uniform(1..=4) as u8;
        let start_time = START_TIMES[random.below(START_TIMES.len() as u64) as usize];
        let end_time = random.uniform(1..=24) as u8;
        let request = match NAMES[kind] {
            "get-subscriber-data" => Request::GetSubscriberData { subscriber },
            "get-new-destination" => Request::GetNewDestination { subscriber, facility, start_time, end_time },
            "get-access-data" => Request::GetAccessData { subscriber, kind: facility },
            "update-subscriber-data" => {
                let (bit, data_a) = (random.below(2) as u8, random.below(256) as u8);
                Request::UpdateSubscriberData { subscriber, bit, facility, data_a }
            }
            "update-location" => Request::UpdateLocation { number, vlr_location: random.bits() as u32 },
            "insert-call-forwarding" => {
                let numberx = digits(random);
                Request::InsertCallForwarding { number, facility, start_time, end_time, numberx }
            }
            _ => Request::DeleteCallForwarding { number, facility, start_time },
        };
        (kind, request)
    }
}

impl Client for Handset<'_> {
    fn step(&mut self, context: &mut ClientContext<'_>) -> Result<()> {
        let begin = context.last_reading();
        let (kind, request) = self.draw();
        let call = Call { tables: self.tables, request };
        self.forwardings += failure::run(context, self.scheme, kind, begin, call)?.unwrap_or(0);
        Ok(())
    }
}
