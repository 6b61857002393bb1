//! The one list of schemes, and the only enums over them.

use crate::{
    access::{
        Access, Found, Put, ScanRange, Visit,
        sealed::{Attempt, Sealed},
    },
    engine::Engine,
    error::{Abort, Error, Result},
    ids::{Stamp, TableId},
    job::Job,
    options::{Options, Scheme, TxnOptions},
    run,
    scheme::{
        Scheme as SchemeTrait,
        occ::MvOcc,
        snapshot::{ReadCommitted, SnapshotIsolation},
        ssi::SiSsi,
        ssn::{RcSsn, SiSsn},
    },
    transaction::Transaction,
    txn::Txn,
    types::KeyList,
};

impl<S: SchemeTrait> Sealed for Txn<'_, S> {}

impl<S: SchemeTrait> Access for Txn<'_, S> {
    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        Txn::get(self, table, key)
    }

    fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()> {
        Txn::get_many(self, table, keys, found)
    }

    fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
        Txn::put(self, table, key, value, how)
    }

    fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
        Txn::delete(self, table, key)
    }

    fn scan<'a>(&'a self, range: ScanRange<'_>, visit: &mut Visit<'_, 'a>) -> Result<()> {
        Txn::scan(self, range, visit)
    }
}

impl<S: SchemeTrait> Attempt for Txn<'_, S> {
    fn commit(self) -> Result<Stamp> {
        Txn::commit(self)
    }

    // Asked for once a transaction.
    #[inline]
    fn doomed(&self) -> Option<Box<Abort>> {
        Txn::doomed(self)
    }
}

macro_rules! schemes {
    ($($name:ident = $scheme:ty),* $(,)?) => {
        /// An engine under the scheme that its database was opened with.
        pub(crate) enum AnyEngine {
            $(#[doc = stringify!($scheme)] $name(Engine<$scheme>),)*
        }

        enum AnyTxn<'db> {
            $($name(Txn<'db, $scheme>),)*
        }

        /// A transaction under the scheme that its database was opened with.
        pub struct AnyAccess<'db>(AnyTxn<'db>);

        impl AnyEngine {
            pub(crate) fn open(options: &Options) -> Self {
                match options.scheme {
                    $(Scheme::$name => Self::$name(Engine::new(options)),)*
                }
            }

            pub(crate) fn scheme(&self) -> Scheme {
                match self {
                    $(Self::$name(_) => Scheme::$name,)*
                }
            }

            pub(crate) fn begin(&self, options: TxnOptions) -> Result<AnyAccess<'_>> {
                Ok(AnyAccess(match self {
                    $(Self::$name(engine) => AnyTxn::$name(Txn::begin(engine, options, false)?),)*
                }))
            }

            pub(crate) fn run<'db, T, E: From<Error>>(
                &'db self,
                mut body: impl FnMut(&Transaction<'db>) -> Result<T, E>,
            ) -> Result<T, E> {
                match self {
                    $(Self::$name(engine) => {
                        run::run(engine, |txn| AnyAccess(AnyTxn::$name(txn)), &mut body, |body, txn| body(txn), |_, _| {})
                    })*
                }
            }

            pub(crate) fn run_job<J: Job>(&self, job: &mut J, retry: bool) -> Result<J::Output, J::Error> {
                match self {
                    $(Self::$name(engine) => match retry {
                        true => run::run(engine, |txn| txn, job, |job, txn| job.run(txn), J::lost),
                        false => run::run_once(engine, |txn| txn, job, |job, txn| job.run(txn), J::lost),
                    },)*
                }
            }
        }

        /// Calls a generic expression on the engine under its own scheme.
        macro_rules! with_engine {
            ($any:expr, $engine:ident => $body:expr) => {
                match $any {
                    $($crate::any::AnyEngine::$name($engine) => $body,)*
                }
            };
        }

        impl Sealed for AnyAccess<'_> {}

        impl Access for AnyAccess<'_> {
            fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.get(table, key),)*
                }
            }

            fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.get_many(table, keys, found),)*
                }
            }

            fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.put(table, key, value, how),)*
                }
            }

            fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.delete(table, key),)*
                }
            }

            fn scan<'a>(&'a self, range: ScanRange<'_>, visit: &mut Visit<'_, 'a>) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.scan(range, visit),)*
                }
            }
        }

        impl Attempt for AnyAccess<'_> {
            fn commit(self) -> Result<Stamp> {
                match self.0 {
                    $(AnyTxn::$name(txn) => txn.commit(),)*
                }
            }

            fn doomed(&self) -> Option<Box<Abort>> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.doomed(),)*
                }
            }
        }
    };
}

schemes! {
    Rc = ReadCommitted,
    Si = SnapshotIsolation,
    RcSsn = RcSsn,
    SiSsn = SiSsn,
    SiSsi = SiSsi,
    MvOcc = MvOcc,
}

#[expect(clippy::single_component_path_imports, reason = "gives the macro a path")]
pub(crate) use with_engine;
