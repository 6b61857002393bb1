//! Addresses, and the tables of constants.

use crate::fixed::{Text, row};

row! {
    /// An address.
    Address {
        line_1: Text<80>,
        line_2: Text<80>,
        zip: Text<12>,
        country: Text<80>,
    }
}

row! {
    /// A status of trades, customers and companies.
    StatusType {
        name: Text<10>,
    }
}

row! {
    /// A tax rate.
    TaxRate {
        rate: u32,
        name: Text<50>,
        padding: [u8; 2],
    }
}

row! {
    /// A place.
    ZipCode {
        town: Text<80>,
        division: Text<80>,
    }
}
