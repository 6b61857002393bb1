//! Which operations fail, and how.

use std::{collections::BTreeMap, fmt, io};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device is full (ENOSPC); nothing was done.
    NoSpace,
    /// The device became full: of a write, the first bytes, as many as given here, were written. As
    /// [`NoSpace`](Self::NoSpace) for all other operations.
    Short(usize),
    /// The device failed (EIO); nothing was done. After a sync that failed this way, the data that it was to make
    /// durable is still read from the running directory but may be missing after a crash, and no later sync changes
    /// that: the system takes the data for clean ("fsyncgate").
    Broken,
    /// The machine is gone: this and every later operation fails, reads too, and nothing more is recorded except marks.
    Gone,
}

/// An operation that is about to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt<'a> {
    /// A file of this name is created.
    Create(&'a str),
    /// Bytes are written.
    Write {
        /// The name of the file.
        name: &'a str,
        /// Position of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: usize,
    },
    /// A file is cut or extended.
    SetLength {
        /// The name of the file.
        name: &'a str,
        /// Its length afterwards.
        bytes: u64,
    },
    /// A file of this name is synced.
    Sync(&'a str),
    /// A file is renamed.
    Rename {
        /// The old name.
        from: &'a str,
        /// The new name.
        to: &'a str,
    },
    /// A file of this name is removed.
    Remove(&'a str),
    /// The directory is synced.
    SyncDirectory,
}

type Policy = Box<dyn FnMut(usize, Attempt<'_>) -> Option<Fault> + Send>;

/// The planned faults.
#[derive(Default)]
pub(super) struct Faults {
    planned: BTreeMap<usize, Fault>,
    policy: Option<Policy>,
    gone: bool,
    /// Reads fail.
    pub(super) unreadable: bool,
}

impl Faults {
    pub(super) fn plan(&mut self, operation: usize, fault: Fault) {
        self.planned.insert(operation, fault);
    }

    pub(super) fn ask(&mut self, policy: Policy) {
        self.policy = Some(policy);
    }

    /// Returns the fault of this operation, if any. The plan takes precedence over the policy.
    pub(super) fn strike(&mut self, operation: usize, attempt: Attempt<'_>) -> Option<Fault> {
        let fault = if self.gone {
            Some(Fault::Gone)
        } else {
            let planned = self.planned.remove(&operation);
            planned.or_else(|| self.policy.as_mut().and_then(|policy| policy(operation, attempt)))
        };
        self.gone = fault == Some(Fault::Gone);
        fault
    }

    /// Fails if reads do.
    pub(super) fn check_read(&self) -> io::Result<()> {
        if self.unreadable { Err(Fault::Broken.error()) } else { self.check_machine() }
    }

    /// Fails if the machine is gone.
    pub(super) fn check_machine(&self) -> io::Result<()> {
        if self.gone { Err(Fault::Gone.error()) } else { Ok(()) }
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.policy.is_some();
        f.debug_struct("Faults")
            .field("planned", &self.planned)
            .field("policy", &policy)
            .field("gone", &self.gone)
            .field("unreadable", &self.unreadable)
            .finish()
    }
}

impl Fault {
    /// Returns the error that the system would report.
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::NoSpace | Self::Short(_) => system::NO_SPACE.error(),
            Self::Broken | Self::Gone => system::IO.error(),
        }
    }
}

/// The numbers that every Unix has for these errors, so that messages read like those of a real system.
pub(super) mod system {
    use std::io;

    pub(in super::super) struct Number(i32);

    pub(in super::super) const NOT_FOUND: Number = Number(2);
    pub(in super::super) const IO: Number = Number(5);
    pub(in super::super) const BAD_FILE: Number = Number(9);
    pub(in super::super) const EXISTS: Number = Number(17);
    pub(in super::super) const INVALID: Number = Number(22);
    pub(in super::super) const NO_SPACE: Number = Number(28);

    impl Number {
        pub(in super::super) fn error(&self) -> io::Error {
            io::Error::from_raw_os_error(self.0)
        }
    }
}
