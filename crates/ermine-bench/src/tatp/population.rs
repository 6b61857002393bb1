//! The initial rows of a subscriber.

use ermine::Transaction;

use super::tables::{AccessInfo, CallForwarding, SpecialFacility, Subscriber, Tables, sub_nbr};
use crate::{fixed::Text, random::Random};

/// The hours at which a call forwarding may begin.
pub const START_TIMES: [u8; 3] = [0, 8, 16];
/// The types of access data, and of special facilities.
const TYPES: [u8; 4] = [1, 2, 3, 4];

/// All rows of a subscriber.
pub struct Profile {
    pub number: u32,
    pub subscriber: Subscriber,
    /// One to four, by type.
    pub access_info: Vec<(u8, AccessInfo)>,
    /// One to four, by type.
    pub special_facilities: Vec<(u8, SpecialFacility)>,
    /// At most three for each special facility, by its type and the first hour.
    pub call_forwardings: Vec<(u8, u8, CallForwarding)>,
}

impl Profile {
    /// Draws the rows of a subscriber.
    pub fn of(seed: u64, number: u32) -> Self {
        let mut random = Random::new(seed, 1 << 63 | u64::from(number));
        let random = &mut random;
        let subscriber = Subscriber {
            msc_location: random.bits() as u32,
            vlr_location: random.bits() as u32,
            sub_nbr: Text(sub_nbr(number)),
            bits: Text(std::array::from_fn(|_| random.below(2) as u8)),
            hexes: Text(std::array::from_fn(|_| random.below(16) as u8)),
            bytes: Text(std::array::from_fn(|_| random.below(256) as u8)),
            unused: Text([0; 3]),
        };
        let types = some_of(TYPES, 1, random);
        let access_info = types.into_iter().map(|kind| (kind, access_info(random))).collect();
        let types = some_of(TYPES, 1, random);
        let special_facilities: Vec<_> = types.into_iter().map(|kind| (kind, special_facility(random))).collect();
        let mut call_forwardings = Vec::new();
        for &(kind, _) in &special_facilities {
            for start in some_of(START_TIMES, 0, random) {
                let end_time = start + random.uniform(1..=8) as u8;
                call_forwardings.push((kind, start, CallForwarding { end_time, numberx: digits(random) }));
            }
        }
        Self { number, subscriber, access_info, special_facilities, call_forwardings }
    }

    /// Inserts all rows.
    pub fn insert(&self, txn: &Transaction<'_>, tables: &Tables) -> ermine::Result<()> {
        let Self { number, subscriber, access_info, special_facilities, call_forwardings } = self;
        txn.insert(&tables.subscriber, number, subscriber)?;
        access_info.iter().try_for_each(|(kind, row)| txn.insert(&tables.access_info, &(*number, *kind), row))?;
        special_facilities
            .iter()
            .try_for_each(|(kind, row)| txn.insert(&tables.special_facility, &(*number, *kind), row))?;
        call_forwardings
            .iter()
            .try_for_each(|(kind, start, row)| txn.insert(&tables.call_forwarding, &(*number, *kind, *start), row))
    }
}

/// Draws at least this many of the items, without repetition; each number is as likely as another.
fn some_of<const N: usize>(mut items: [u8; N], least: u64, random: &mut Random) -> Vec<u8> {
    random.shuffle(&mut items);
    let count = random.uniform(least..=N as u64) as usize;
    items[..count].to_vec()
}

fn access_info(random: &mut Random) -> AccessInfo {
    let (data1, data2) = (random.below(256) as u8, random.below(256) as u8);
    AccessInfo { data1, data2, data3: letters(random), data4: letters(random) }
}

/// Draws a special facility, which is active in 85 of 100 cases.
fn special_facility(random: &mut Random) -> SpecialFacility {
    let is_active = u8::from(random.percent(85));
    let (error_cntrl, data_a) = (random.below(256) as u8, random.below(256) as u8);
    SpecialFacility { is_active, error_cntrl, data_a, data_b: letters(random) }
}

fn letters<const N: usize>(random: &mut Random) -> Text<N> {
    Text(std::array::from_fn(|_| b'A' + random.below(26) as u8))
}

/// Draws digits.
pub fn digits<const N: usize>(random: &mut Random) -> Text<N> {
    Text(std::array::from_fn(|_| b'0' + random.below(10) as u8))
}
