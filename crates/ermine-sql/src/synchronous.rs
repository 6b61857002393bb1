//! `synchronous_commit`: what a client waits for before it is told of a commit.

use ermine::OwnedReceipt;

/// A value of `synchronous_commit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Synchronous {
    /// Nothing.
    Off,
    /// The device of this machine.
    Local,
    /// All that the database asks for: the device, and other machines where its log is replicated.
    On,
}

impl Synchronous {
    /// Returns the value of a name in its normal form.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "off" => Self::Off,
            "local" => Self::Local,
            _ => Self::On,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Local => "local",
            Self::On => "on",
        }
    }

    /// Returns the receipt to wait for, of the one that a commit has returned.
    pub(crate) fn waits_for(self, receipt: Option<OwnedReceipt>) -> Option<OwnedReceipt> {
        match self {
            Self::Off => None,
            Self::Local => receipt.map(OwnedReceipt::locally),
            Self::On => receipt,
        }
    }
}
