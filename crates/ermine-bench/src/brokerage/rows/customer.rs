//! Customers, their accounts, and what the accounts hold. Tables without a struct here store a number or nothing.

use crate::fixed::{Text, row};

row! {
    /// The right of a person to trade for an account.
    AccountPermission {
        acl: Text<4>,
        last: Text<25>,
        first: Text<20>,
    }
}

row! {
    /// A telephone number.
    Phone {
        country: Text<3>,
        area: Text<3>,
        local: Text<10>,
        extension: Text<5>,
    }
}

row! {
    /// A customer.
    Customer {
        address: u64,
        born: u32,
        tier: u8,
        middle: u8,
        gender: u8,
        status: Text<4>,
        tax_number: Text<20>,
        last: Text<25>,
        first: Text<20>,
        phones: [Phone; 3],
        emails: [Text<50>; 2],
        padding: [u8; 1],
    }
}

row! {
    /// An account of a customer.
    CustomerAccount {
        broker: u64,
        customer: u64,
        balance: i64,
        /// 0: profits are not taxed; 1: the tax is withheld; 2: it is not.
        tax_status: u8,
        name: Text<50>,
        padding: [u8; 5],
    }
}

row! {
    /// Shares that an account bought by one trade, or, with a negative quantity, that it sold without having them.
    Holding {
        account: u64,
        dts: u64,
        price: i64,
        quantity: i32,
        symbol: Text<15>,
        padding: [u8; 5],
    }
}
