//! The seven transactions. They are compiled for no scheme by themselves: an operation costs the same dispatch under
//! all of them.

use std::{hint::black_box, ops::ControlFlow};

use ermine::{Access, Error, Job, Scheme, Transaction, prefix};

use super::tables::{CallForwarding, SpecialFacility, Subscriber, Tables};
use crate::{
    failure::{Failure, found},
    fixed::Text,
};

/// A telephone number.
pub type Number = [u8; 15];

/// A transaction and its inputs; subscribers are named by their number or their telephone number.
#[derive(Clone, Copy, Debug)]
pub enum Request {
    GetSubscriberData { subscriber: u32 },
    GetNewDestination { subscriber: u32, facility: u8, start_time: u8, end_time: u8 },
    GetAccessData { subscriber: u32, kind: u8 },
    UpdateSubscriberData { subscriber: u32, bit: u8, facility: u8, data_a: u8 },
    UpdateLocation { number: Number, vlr_location: u32 },
    InsertCallForwarding { number: Number, facility: u8, start_time: u8, end_time: u8, numberx: Text<15> },
    DeleteCallForwarding { number: Number, facility: u8, start_time: u8 },
}

/// A transaction.
pub struct Call<'a> {
    pub tables: &'a Tables,
    pub request: Request,
}

impl Job for Call<'_> {
    /// Call forwardings added, less those removed.
    type Output = i64;
    type Error = Failure;

    const SCHEMES: &'static [Scheme] = &[];

    fn run<A: Access>(&mut self, txn: &Transaction<'_, A>) -> Result<i64, Failure> {
        let line = Line { tables: self.tables, txn };
        match self.request {
            Request::GetSubscriberData { subscriber } => line.subscriber_data(subscriber).map(|()| 0),
            Request::GetNewDestination { subscriber, facility, start_time, end_time } => {
                line.new_destination((subscriber, facility), start_time, end_time).map(|()| 0)
            }
            Request::GetAccessData { subscriber, kind } => line.access_data((subscriber, kind)).map(|()| 0),
            Request::UpdateSubscriberData { subscriber, bit, facility, data_a } => {
                line.update_subscriber_data((subscriber, facility), bit, data_a).map(|()| 0)
            }
            Request::UpdateLocation { number, vlr_location } => line.update_location(&number, vlr_location).map(|()| 0),
            Request::InsertCallForwarding { number, facility, start_time, end_time, numberx } => {
                let row = CallForwarding { end_time, numberx };
                line.insert_call_forwarding(&number, facility, start_time, &row).map(|()| 1)
            }
            Request::DeleteCallForwarding { number, facility, start_time } => {
                line.delete_call_forwarding(&number, facility, start_time).map(|()| -1)
            }
        }
    }
}

/// Unwraps a row without which a transaction fails by the rules.
fn wanted<T>(row: Option<T>) -> Result<T, Failure> {
    row.ok_or(Failure::RolledBack)
}

/// The tables in a transaction.
struct Line<'a, 't, A: Access> {
    tables: &'a Tables,
    txn: &'a Transaction<'t, A>,
}

impl<A: Access> Line<'_, '_, A> {
    fn by_number(&self, number: &Number) -> Result<(u32, Subscriber), Failure> {
        found(self.txn.find_by(&self.tables.subscriber_by_number, number)?, "a telephone number")
    }

    fn subscriber_data(&self, subscriber: u32) -> Result<(), Failure> {
        black_box(found(self.txn.get(&self.tables.subscriber, &subscriber)?, "a subscriber")?);
        Ok(())
    }

    /// Reads the numbers to which calls of a special facility are forwarded from `start_time` on, until after
    /// `end_time`.
    fn new_destination(&self, facility: (u32, u8), start_time: u8, end_time: u8) -> Result<(), Failure> {
        let row = wanted(self.txn.get(&self.tables.special_facility, &facility)?)?;
        if row.is_active == 0 {
            return Err(Failure::RolledBack);
        }
        let (subscriber, kind) = facility;
        let (first, last) = ((subscriber, kind, 0), (subscriber, kind, start_time));
        let mut destination = None;
        self.txn.scan(&self.tables.call_forwarding, first..=last).for_each(|_, row| {
            if row.end_time > end_time {
                destination = Some(row.numberx);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        black_box(wanted(destination)?);
        Ok(())
    }

    fn access_data(&self, key: (u32, u8)) -> Result<(), Failure> {
        black_box(wanted(self.txn.get(&self.tables.access_info, &key)?)?);
        Ok(())
    }

    fn update_subscriber_data(&self, facility: (u32, u8), bit: u8, data_a: u8) -> Result<(), Failure> {
        let Tables { subscriber, special_facility, .. } = self.tables;
        let set_bit = |row: &mut Subscriber| {
            row.bits.0[0] = bit;
            Ok(())
        };
        found(self.txn.modify(subscriber, &facility.0, set_bit)?, "a subscriber")?;
        let set_data = |row: &mut SpecialFacility| {
            row.data_a = data_a;
            Ok(())
        };
        wanted(self.txn.modify(special_facility, &facility, set_data)?)
    }

    fn update_location(&self, number: &Number, vlr_location: u32) -> Result<(), Failure> {
        let (subscriber, row) = self.by_number(number)?;
        let row = Subscriber { vlr_location, ..row };
        found(self.txn.update(&self.tables.subscriber, &subscriber, &row)?.then_some(()), "a subscriber")
    }

    /// Adds a call forwarding; fails if the subscriber has no such special facility, or forwards calls at that time
    /// already.
    fn insert_call_forwarding(
        &self,
        number: &Number,
        facility: u8,
        start_time: u8,
        row: &CallForwarding,
    ) -> Result<(), Failure> {
        let (subscriber, _) = self.by_number(number)?;
        let mut exists = false;
        self.txn.scan(&self.tables.special_facility, prefix((subscriber,))).for_each(|(_, kind), _| {
            exists |= kind == facility;
            Ok(ControlFlow::Continue(()))
        })?;
        wanted(exists.then_some(()))?;
        match self.txn.insert(&self.tables.call_forwarding, &(subscriber, facility, start_time), row) {
            Err(Error::KeyExists { .. }) => Err(Failure::RolledBack),
            done => Ok(done?),
        }
    }

    fn delete_call_forwarding(&self, number: &Number, facility: u8, start_time: u8) -> Result<(), Failure> {
        let (subscriber, _) = self.by_number(number)?;
        wanted(self.txn.delete(&self.tables.call_forwarding, &(subscriber, facility, start_time))?.then_some(()))
    }
}
