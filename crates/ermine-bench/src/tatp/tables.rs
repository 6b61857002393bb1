//! The four tables, and the index by telephone number.

use ermine::{Database, SecondaryIndex, Table, Uniqueness};

use crate::fixed::{Text, row};

row!(
    /// A subscriber, without its number, which is the key.
    Subscriber, 56 {
        msc_location: u32,
        vlr_location: u32,
        /// The telephone number.
        sub_nbr: Text<15>,
        bits: Text<10>,
        /// 0 to 15 each.
        hexes: Text<10>,
        bytes: Text<10>,
        unused: Text<3>,
    }
);

row!(
    /// Access data.
    AccessInfo, 10 {
        data1: u8,
        data2: u8,
        data3: Text<3>,
        data4: Text<5>,
    }
);

row!(
    /// A special facility.
    SpecialFacility, 8 {
        is_active: u8,
        error_cntrl: u8,
        data_a: u8,
        data_b: Text<5>,
    }
);

row!(
    /// A destination of calls.
    CallForwarding, 16 {
        end_time: u8,
        numberx: Text<15>,
    }
);

/// Handles of the tables and of the index.
pub struct Tables {
    /// By number, from 1.
    pub subscriber: Table<u32, Subscriber>,
    pub subscriber_by_number: SecondaryIndex<[u8; 15], u32, Subscriber>,
    /// By subscriber and type, 1 to 4.
    pub access_info: Table<(u32, u8), AccessInfo>,
    /// By subscriber and type, 1 to 4.
    pub special_facility: Table<(u32, u8), SpecialFacility>,
    /// By subscriber, type of the special facility, and first hour.
    pub call_forwarding: Table<(u32, u8, u8), CallForwarding>,
}

impl Tables {
    /// Creates the tables.
    pub fn open(db: &Database) -> ermine::Result<Self> {
        let subscriber = db.table("subscriber")?;
        Ok(Self {
            subscriber_by_number: db.index(
                &subscriber,
                "subscriber_by_number",
                Uniqueness::Unique,
                |_, row: &Subscriber| row.sub_nbr.0,
            )?,
            subscriber,
            access_info: db.table("access_info")?,
            special_facility: db.table("special_facility")?,
            call_forwarding: db.table("call_forwarding")?,
        })
    }
}

/// Returns the telephone number of a subscriber: its number with 15 digits.
pub fn sub_nbr(subscriber: u32) -> [u8; 15] {
    let (mut digits, mut rest) = ([b'0'; 15], subscriber);
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    digits
}
