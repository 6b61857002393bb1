//! The log's interface to workers and checkpoints.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicBool},
    task::Waker,
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    epoch::EpochClock,
    file::FileName,
    logger::Leader,
    pepoch::Reach,
    worker_slots::{WorkerSlot, WorkerSlots},
};
use crate::{
    error::{Error, Result},
    latency::{Latencies, LatencyRecorder},
    log::{identity::IdentityFile, room::Room, waiters::Waiters},
    platform::file::Directory,
    sync::{AtomicU64, Mutex, Ordering},
};

/// The log of a database.
pub(crate) struct ParallelLog {
    pub(super) slots: WorkerSlots,
    pub(super) epochs: Arc<EpochClock>,
    /// Waiters for epochs; epochs below the number in it are durable.
    pub(crate) waiters: Waiters,
    pub(super) directory: Arc<dyn Directory>,
    pub(crate) room: Room,
    pub(super) devices: Vec<Arc<dyn Directory>>,
    pub(super) generation: u32,
    pub(super) file_bytes: u64,
    pub(super) interval: Duration,
    pub(super) identity: Arc<IdentityFile>,
    pub(super) stop: AtomicBool,
    /// Files of this generation, oldest first.
    files: Mutex<Vec<LogFile>>,
    /// The greatest epoch in which an index entry that belonged to a committed row was removed.
    gap_epoch: AtomicU64,
    bytes: AtomicU64,
    flushes: LatencyRecorder,
    failure: OnceLock<Arc<str>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The state from which a log continues.
pub(crate) struct Start {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) devices: Vec<Arc<dyn Directory>>,
    /// The number of a new generation.
    pub(crate) generation: u32,
    pub(crate) file_bytes: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) interval: Duration,
    /// The identity of the database that the files belong to.
    pub(crate) identity: Arc<IdentityFile>,
}

/// A file of the log.
struct LogFile {
    device: u32,
    name: FileName,
    /// The greatest epoch of a record in it.
    last_epoch: u64,
}

impl ParallelLog {
    /// Starts a log whose first epoch is the current one, with its loggers.
    pub(crate) fn start(epochs: Arc<EpochClock>, start: Start) -> Result<Arc<Self>> {
        let Start { directory, devices, generation, file_bytes, buffer_bytes, interval, identity } = start;
        let log = Arc::new(Self {
            slots: WorkerSlots::new(devices.len(), buffer_bytes),
            waiters: Waiters::new(epochs.current()),
            epochs,
            room: Room::new(directory.clone(), file_bytes),
            directory,
            devices,
            generation,
            file_bytes,
            interval,
            identity,
            stop: AtomicBool::new(false),
            files: Mutex::new(Vec::new()),
            gap_epoch: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            flushes: LatencyRecorder::new(),
            failure: OnceLock::new(),
            thread: Mutex::new(None),
        });
        let no_thread = |_| Error::Limit("threads: a logger could not start");
        let leader = Leader::new(log.clone()).map_err(no_thread)?;
        let thread = thread::Builder::new().name("ermine-log".into()).spawn(move || leader.run());
        *log.thread.lock().expect("no code panics while it holds the thread") = Some(thread.map_err(no_thread)?);
        Ok(log)
    }

    /// Makes everything durable and ends the loggers. No transaction commits any more.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake_logger();
        let thread = self.thread.lock().expect("no code panics while it holds the thread").take();
        if let Some(thread) = thread {
            // A panic has been printed already; there is nothing to save.
            let _ = thread.join();
        }
    }

    /// Returns a slot for a new worker.
    pub(crate) fn join(&self) -> Arc<WorkerSlot> {
        self.slots.join()
    }

    /// Makes room for a record of `bytes` bytes; waits while the devices are behind. The caller holds nothing.
    pub(crate) fn make_room(&self, slot: &WorkerSlot, bytes: usize) -> Result<()> {
        self.check()?;
        while !self.slots.make_room(slot, bytes) {
            self.wake_logger();
            thread::sleep(Duration::from_micros(50));
            self.check()?;
            self.room.check_waiting()?;
        }
        Ok(())
    }

    /// Keeps room in reserve for the next file and the one after it, each with the bytes that may have to be written
    /// before a file is seen to be full.
    pub(crate) fn keep_room(&self) {
        let bytes = self.file_bytes + self.slots.limit();
        self.room.keep(bytes, bytes, bytes);
    }

    /// Whether the log is being stopped: then nothing waits for room.
    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Returns the size of a file in bytes.
    #[cfg(not(shuttle))]
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// As [`ParallelLog::wait`], but fails while the log waits for room on the device: the caller may free some.
    pub(crate) fn wait_or_fail(&self, epoch: u64) -> Result<()> {
        if !self.is_durable(epoch) {
            // The loggers end the epoch sooner where a thread waits.
            self.waiters.enlist(epoch, Waker::noop().clone());
        }
        while !self.is_durable(epoch) {
            self.check()?;
            self.room.check_waiting()?;
            self.wake_logger();
            thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Announces that the worker of that slot is about to commit.
    pub(crate) fn announce(&self, slot: &WorkerSlot) {
        slot.announce(&self.epochs);
    }

    /// Notes that an index entry that belonged to a row as of `epoch` is about to be removed. A transaction that does
    /// not find the entry depends on that.
    pub(crate) fn entry_leaves(&self, epoch: u64) {
        // SeqCst: before the change of the leaf, after which `gap_epoch` is read.
        if self.gap_epoch.load(Ordering::SeqCst) < epoch {
            self.gap_epoch.fetch_max(epoch, Ordering::SeqCst);
        }
    }

    /// Returns an epoch such that no entry that a transaction may have missed was removed in a later one.
    pub(crate) fn gap_epoch(&self) -> u64 {
        self.gap_epoch.load(Ordering::SeqCst)
    }

    /// Whether everything up to an epoch is durable.
    pub(crate) fn is_durable(&self, epoch: u64) -> bool {
        epoch < self.waiters.durable()
    }

    /// Waits until everything up to an epoch is durable.
    pub(crate) fn wait(&self, epoch: u64) -> Result<()> {
        if !self.is_durable(epoch) {
            let mut is_listed = false;
            self.waiters.block(epoch, || {
                let done = self.is_durable(epoch) || self.failure.get().is_some();
                if !done && is_listed {
                    self.wake_logger();
                }
                // After the first call the thread is in the list.
                is_listed = true;
                done
            });
        }
        if self.is_durable(epoch) { Ok(()) } else { Err(self.broken()) }
    }

    /// Waits until everything that has been committed is durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.wait(self.epochs.current())
    }

    /// Makes the leading logger check for waiters.
    pub(crate) fn wake_logger(&self) {
        if self.waiters.is_flusher_resting() || self.stop.load(Ordering::SeqCst) {
            let thread = self.thread.lock().expect("no code panics while it holds the thread");
            thread.iter().for_each(|thread| thread.thread().unpark());
        }
    }

    /// Fails when the log is broken.
    pub(crate) fn check(&self) -> Result<()> {
        if self.failure.get().is_some() { Err(self.broken()) } else { Ok(()) }
    }

    fn broken(&self) -> Error {
        Error::Poisoned(self.failure.get().cloned().unwrap_or_else(|| "it was closed".into()))
    }

    /// Marks the log as permanently broken.
    pub(super) fn fail(&self, why: &str) {
        if self.failure.set(why.into()).is_ok() {
            ::log::error!(
                "the log is broken, and nothing can be committed any more until the database is opened again: {why}"
            );
        }
        self.waiters.wake_all();
    }

    /// Returns the generation that is being written.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Notes that a device has synced records up to `last_epoch`.
    pub(super) fn note_file(&self, device: u32, reach: Reach, last_epoch: u64) {
        let name = FileName { generation: self.generation, sequence: reach.sequence };
        let mut files = self.files.lock().expect("no code panics while it holds the list");
        match files.iter_mut().find(|file| (file.device, file.name) == (device, name)) {
            Some(file) => file.last_epoch = file.last_epoch.max(last_epoch),
            None => files.push(LogFile { device, name, last_epoch }),
        }
    }

    /// Returns, by device, the first file of this generation that has a record of `epoch` or later, or may get one.
    pub(crate) fn first_needed(&self, epoch: u64) -> Vec<u32> {
        let files = self.files.lock().expect("no code panics while it holds the list");
        let of = |device| files.iter().filter(move |file| file.device == device);
        let first = |device| {
            let newest = of(device).map(|file| file.name.sequence).max().unwrap_or(1);
            of(device).filter(|file| file.last_epoch >= epoch).map(|file| file.name.sequence).fold(newest, u32::min)
        };
        (0..self.devices.len() as u32).map(first).collect()
    }

    /// Forgets the files before these, by device: they are removed.
    pub(crate) fn forget_before(&self, first: &[u32]) {
        let mut files = self.files.lock().expect("no code panics while it holds the list");
        files.retain(|file| file.name.sequence >= first[file.device as usize]);
    }

    /// Whether a committed record is in no file yet.
    pub(crate) fn seats_have_records(&self) -> bool {
        self.slots.has_records()
    }

    pub(super) fn count_bytes(&self, bytes: u64) {
        // Relaxed: a statistic.
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a round that took `took`, to the write of the persistent epoch.
    pub(super) fn count_flush(&self, took: Duration) {
        self.flushes.record(took);
    }

    /// Returns the number of bytes written so far, and the times of the rounds that ended with a write of the
    /// persistent epoch.
    pub(crate) fn written(&self) -> (u64, Latencies) {
        (self.bytes.load(Ordering::Relaxed), self.flushes.read())
    }
}
