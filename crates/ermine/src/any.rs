//! The one list of schemes, and the only enums over them.

use std::sync::Arc;

use crate::{
    access::{
        Access, Found, OwnRead, OwnWrite, Put, RowLock, ScanRange, Show, Visit,
        sealed::{Attempt, Operations},
    },
    begin::Begins,
    durable::recovery::Recovery,
    engine::Engine,
    error::{Abort, Result},
    ids::{DatabaseId, Stamp, TableId, Tid},
    inside,
    job::Job,
    log::Receipt,
    options::{Options, Scheme, TxnOptions},
    platform::file::Directory,
    run,
    savepoints::Savepoint,
    scheme::{
        Scheme as SchemeTrait,
        in_place::InPlace,
        occ::MvOcc,
        partitioned::Partitioned,
        serial::Serial,
        silo::Silo,
        snapshot::{ReadCommitted, SnapshotIsolation},
        ssi::SiSsi,
        ssn::{RcSsn, SiSsn},
        sto::{Narrow, Sto, Wide},
        tso::{Stamped, Tso, Validated},
        two_phase::{NoWait, TwoPhase, WaitDepthLimited, WaitDie},
        vll::Vll,
    },
    single,
    transaction::Transaction,
    txn::Txn,
    types::KeyList,
    work::Work,
};

impl<S: SchemeTrait> Operations for Txn<'_, S> {
    fn database(&self) -> &DatabaseId {
        Txn::database(self)
    }

    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        Txn::get(self, table, key)
    }

    fn read(&self, table: TableId, key: &[u8], visit: &mut Show<'_>) -> Result<bool> {
        Txn::read(self, table, key, visit)
    }

    fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()> {
        Txn::get_many(self, table, keys, found)
    }

    fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()> {
        Txn::prefetch(self, table, keys)
    }

    fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
        Txn::put(self, table, key, value, how)
    }

    fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
        Txn::delete(self, table, key)
    }

    fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        Txn::scan(self, range, visit)
    }

    fn hold_table(&self, table: TableId) -> Result<bool> {
        Txn::hold_table(self, table)
    }

    fn certify_reads(&self, wanted: bool) -> Result<bool> {
        Txn::certify_reads(self, wanted)
    }

    fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock> {
        Txn::row_lock(self, table, key)
    }

    fn sees_newest(&self, table: TableId, goes_on: &mut dyn FnMut() -> bool) -> Result<bool> {
        Txn::sees_newest(self, table, goes_on)
    }

    fn prepare(&self) -> Result<bool> {
        Txn::prepare(self)
    }

    fn reads(&self, each: &mut OwnRead<'_>) -> Result<()> {
        Txn::reads(self, each)
    }

    fn tid(&self) -> Result<Option<Tid>> {
        Txn::tid(self)
    }

    fn position(&self) -> Result<u64> {
        Txn::position(self)
    }

    fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
        Txn::writes(self, each)
    }

    fn work(&self) -> Result<Work> {
        Txn::work(self)
    }

    fn savepoint(&self) -> Result<Savepoint> {
        Txn::savepoint(self)
    }

    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        Txn::roll_back_to(self, savepoint)
    }

    fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        Txn::release(self, savepoint)
    }

    fn renew_snapshot(&mut self) -> Result<()> {
        Txn::renew_snapshot(self)
    }
}

impl<P: InPlace> Operations for single::Txn<'_, P> {
    fn database(&self) -> &DatabaseId {
        single::Txn::database(self)
    }

    fn get(&self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>> {
        single::Txn::get(self, table, key)
    }

    fn get_many<'a>(&'a self, table: TableId, keys: &KeyList, found: &mut Found<'_, 'a>) -> Result<()> {
        single::Txn::get_many(self, table, keys, found)
    }

    fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()> {
        single::Txn::prefetch(self, table, keys)
    }

    fn put(&self, table: TableId, key: &[u8], value: &[u8], how: Put) -> Result<bool> {
        single::Txn::put(self, table, key, value, how)
    }

    fn delete(&self, table: TableId, key: &[u8]) -> Result<bool> {
        single::Txn::delete(self, table, key)
    }

    fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
        single::Txn::scan(self, range, visit)
    }

    fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock> {
        single::Txn::row_lock(self, table, key)
    }

    fn sees_newest(&self, table: TableId, _: &mut dyn FnMut() -> bool) -> Result<bool> {
        single::Txn::sees_newest(self, table)
    }

    fn prepare(&self) -> Result<bool> {
        single::Txn::prepare(self)
    }

    fn reads(&self, _: &mut OwnRead<'_>) -> Result<()> {
        Ok(())
    }

    fn tid(&self) -> Result<Option<Tid>> {
        single::Txn::tid(self)
    }

    fn position(&self) -> Result<u64> {
        single::Txn::position(self)
    }

    fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
        single::Txn::writes(self, each)
    }

    fn work(&self) -> Result<Work> {
        single::Txn::work(self)
    }

    fn savepoint(&self) -> Result<Savepoint> {
        single::Txn::savepoint(self)
    }

    fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        single::Txn::roll_back_to(self, savepoint)
    }

    fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        single::Txn::release(self, savepoint)
    }

    fn renew_snapshot(&mut self) -> Result<()> {
        single::Txn::renew_snapshot(self)
    }
}

impl<'e, P: InPlace> Attempt for single::Txn<'e, P> {
    type Receipt = Receipt<'e>;

    fn commit_async(self) -> Result<Receipt<'e>> {
        single::Txn::commit_async(self)
    }

    fn commit_reads_async(self) -> Result<Receipt<'e>> {
        single::Txn::commit_reads_async(self)
    }

    #[inline]
    fn doomed(&self) -> Option<Box<Abort>> {
        single::Txn::doomed(self)
    }
}

impl<'e, S: SchemeTrait> Attempt for Txn<'e, S> {
    type Receipt = Receipt<'e>;

    fn commit_async(self) -> Result<Receipt<'e>> {
        Txn::commit_async(self)
    }

    fn commit_reads_async(self) -> Result<Receipt<'e>> {
        Txn::commit_reads_async(self)
    }

    // Called once per transaction.
    #[inline]
    fn doomed(&self) -> Option<Box<Abort>> {
        Txn::doomed(self)
    }
}

/// The body of a transaction, compiled once for all schemes. It stores its value or error in itself.
pub(crate) trait Body<'db> {
    /// Makes one attempt; returns whether it has succeeded.
    fn attempt(&mut self, txn: &Transaction<'db>) -> bool;

    /// Drops the result of an attempt that has lost a conflict, before the thread waits for anything.
    fn lost(&mut self, abort: &Abort);
}

/// A job that is being run.
struct JobRun<'j, J: Job> {
    job: &'j mut J,
    /// Result of the last attempt.
    result: Option<Result<J::Output, J::Error>>,
}

impl<J: Job> JobRun<'_, J> {
    fn attempt_as<A: Access>(&mut self, txn: &Transaction<'_, A>) -> bool {
        self.result.insert(self.job.run(txn)).is_ok()
    }
}

impl<'db, J: Job> Body<'db> for JobRun<'_, J> {
    fn attempt(&mut self, txn: &Transaction<'db>) -> bool {
        self.attempt_as(txn)
    }

    fn lost(&mut self, abort: &Abort) {
        self.result = None;
        self.job.lost(abort);
    }
}

macro_rules! schemes {
    ($($name:ident = $parts:ty),* $(,)?) => {
        /// An engine under the scheme that its database was opened with.
        pub(crate) enum AnyEngine {
            $(#[doc = stringify!($parts)] $name($parts),)*
        }

        enum AnyTxn<'db> {
            $($name(<$parts as Begins>::Txn<'db>),)*
        }

        /// A transaction under the scheme that its database was opened with.
        pub struct AnyAccess<'db>(AnyTxn<'db>);

        impl AnyEngine {
            pub(crate) fn in_memory(options: &Options) -> Self {
                match options.scheme {
                    $(Scheme::$name => Self::$name(<$parts>::new(options)),)*
                }
            }

            pub(crate) fn open(options: &Options, directory: &Arc<dyn Directory>) -> Result<(Self, Recovery)> {
                Ok(match options.scheme {
                    $(Scheme::$name => {
                        let (engine, recovery) = <$parts>::open(options, directory)?;
                        (Self::$name(engine), recovery)
                    })*
                })
            }

            pub(crate) fn scheme(&self) -> Scheme {
                match self {
                    $(Self::$name(_) => Scheme::$name,)*
                }
            }

            pub(crate) fn begin(&self, options: TxnOptions) -> Result<AnyAccess<'_>> {
                inside::check_begin()?;
                Ok(AnyAccess(match self {
                    $(Self::$name(engine) => AnyTxn::$name(engine.begin(&options, false)?),)*
                }))
            }

            /// Runs a transaction whose body is compiled once for all schemes. `retries`: until it ends, not only once.
            pub(crate) fn run<'db>(
                &'db self,
                options: TxnOptions,
                retries: bool,
                body: &mut (dyn Body<'db> + '_),
            ) -> Result<Receipt<'db>> {
                match self {
                    $(Self::$name(engine) => {
                        let lift = |txn| AnyAccess(AnyTxn::$name(txn));
                        run::run(engine, options, retries, lift, body, |body, txn| body.attempt(txn), Body::lost)
                    })*
                }
            }

            /// Runs a job. Under the schemes that it names, its body is compiled for the scheme's own transactions.
            pub(crate) fn run_job<J: Job>(
                &self,
                options: TxnOptions,
                job: &mut J,
                retries: bool,
            ) -> Result<(Result<J::Output, J::Error>, Receipt<'_>)> {
                let mut run = JobRun { job, result: None };
                let receipt = match self {
                    // A constant: the branches of other schemes are not compiled.
                    $(Self::$name(engine) if const { Scheme::$name.is_among(J::SCHEMES) } => {
                        run::run(engine, options, retries, |txn| txn, &mut run, JobRun::attempt_as, JobRun::lost)
                    })*
                    _ => self.run(options, retries, &mut run),
                }?;
                Ok((run.result.expect("the body has run"), receipt))
            }
        }

        /// Evaluates a generic expression on the engine under its own scheme.
        macro_rules! with_engine {
            ($any:expr, $engine:ident => $body:expr) => {
                match $any {
                    $($crate::any::AnyEngine::$name($engine) => $body,)*
                }
            };
        }

        impl Operations for AnyAccess<'_> {
            fn database(&self) -> &DatabaseId {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.database(),)*
                }
            }

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

            fn read(&self, table: TableId, key: &[u8], visit: &mut Show<'_>) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.read(table, key, visit),)*
                }
            }

            fn prefetch(&self, table: TableId, keys: &KeyList) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.prefetch(table, keys),)*
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

            fn scan(&self, range: ScanRange<'_>, visit: &mut Visit<'_>) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.scan(range, visit),)*
                }
            }

            fn hold_table(&self, table: TableId) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.hold_table(table),)*
                }
            }

            fn certify_reads(&self, wanted: bool) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.certify_reads(wanted),)*
                }
            }

            fn row_lock(&self, table: TableId, key: &[u8]) -> Result<RowLock> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.row_lock(table, key),)*
                }
            }

            fn sees_newest(&self, table: TableId, goes_on: &mut dyn FnMut() -> bool) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => Operations::sees_newest(txn, table, goes_on),)*
                }
            }

            fn prepare(&self) -> Result<bool> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.prepare(),)*
                }
            }

            fn reads(&self, each: &mut OwnRead<'_>) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => Operations::reads(txn, each),)*
                }
            }

            fn tid(&self) -> Result<Option<Tid>> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.tid(),)*
                }
            }

            fn position(&self) -> Result<u64> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.position(),)*
                }
            }

            fn writes(&self, each: &mut OwnWrite<'_>) -> Result<()> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.writes(each),)*
                }
            }

            fn work(&self) -> Result<Work> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.work(),)*
                }
            }

            fn savepoint(&self) -> Result<Savepoint> {
                match &self.0 {
                    $(AnyTxn::$name(txn) => txn.savepoint(),)*
                }
            }

            fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
                match &mut self.0 {
                    $(AnyTxn::$name(txn) => txn.roll_back_to(savepoint),)*
                }
            }

            fn release(&mut self, savepoint: Savepoint) -> Result<()> {
                match &mut self.0 {
                    $(AnyTxn::$name(txn) => txn.release(savepoint),)*
                }
            }

            fn renew_snapshot(&mut self) -> Result<()> {
                match &mut self.0 {
                    $(AnyTxn::$name(txn) => txn.renew_snapshot(),)*
                }
            }
        }

        impl AnyAccess<'_> {
            /// Commits, or returns the reason why it cannot; waits as the transaction's durability asks.
            pub(crate) fn commit(self) -> Result<Stamp> {
                match self.0 {
                    $(AnyTxn::$name(txn) => txn.commit(),)*
                }
            }

            /// Undoes the transaction's writes and commits its reads; waits as the transaction's durability asks.
            pub(crate) fn commit_reads(self) -> Result<Stamp> {
                match self.0 {
                    $(AnyTxn::$name(txn) => txn.commit_reads(),)*
                }
            }
        }

        impl<'db> Attempt for AnyAccess<'db> {
            type Receipt = Receipt<'db>;

            fn commit_async(self) -> Result<Receipt<'db>> {
                match self.0 {
                    $(AnyTxn::$name(txn) => txn.commit_async(),)*
                }
            }

            fn commit_reads_async(self) -> Result<Receipt<'db>> {
                match self.0 {
                    $(AnyTxn::$name(txn) => txn.commit_reads_async(),)*
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
    Rc = Engine<ReadCommitted>,
    Si = Engine<SnapshotIsolation>,
    RcSsn = Engine<RcSsn>,
    SiSsn = Engine<SiSsn>,
    SiSsi = Engine<SiSsi>,
    MvOcc = Engine<MvOcc>,
    Silo = single::Engine<Silo>,
    TwoPhaseNoWait = single::Engine<TwoPhase<NoWait>>,
    TwoPhaseWaitDie = single::Engine<TwoPhase<WaitDie>>,
    TwoPhaseWdl = single::Engine<TwoPhase<WaitDepthLimited>>,
    Serial = single::Engine<Serial>,
    Sto = single::Engine<Sto<Wide>>,
    Sto32 = single::Engine<Sto<Narrow>>,
    Tso = single::Engine<Tso<Stamped>>,
    TsoValidate = single::Engine<Tso<Validated>>,
    Vll = single::Engine<Vll>,
    Partitioned = single::Engine<Partitioned>,
}

#[expect(clippy::single_component_path_imports, reason = "gives the macro a path")]
pub(crate) use with_engine;
