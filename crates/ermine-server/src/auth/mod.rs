//! Who clients are: SCRAM-SHA-256 against what is stored of passwords, which is not enough to log in with.

pub mod scram;
pub mod users;
pub mod verifier;

pub use self::{
    users::{UserFile, UserStore},
    verifier::Verifier,
};
