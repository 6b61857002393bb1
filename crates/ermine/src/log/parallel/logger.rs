//! The loggers: one thread per device, the first of which also leads the rounds and maintains the persistent epoch.
//!
//! A round: advance to the next epoch -> collect the workers' buffers ([`super::worker_slots`]) -> every logger writes
//! the buffers of its device, and syncs -> write the persistent epoch, sync -> publish it and wake the waiters. So an
//! epoch lasts one round, which takes as long as the devices need and at least
//! [`Options::epoch_interval`](crate::Options::epoch_interval); while no thread waits, commits gather for some
//! milliseconds, and while no transaction commits there are no rounds.
//!
//! Invariants
//! 1. *Durable before published*: epochs up to e are published when every record of them has been synced on its device,
//!    and after that the persistent epoch e. If no record has been written since the last persistent epoch, there is
//!    nothing to write.
//! 2. *Once broken, always broken*: after an operation has failed, nothing is written and nothing becomes durable any
//!    more. The threads end, also with a panic of their own, and all waiters are notified.
//! 3. *Buffers are reused when they are written*, not when they are synced: a slow sync stops no worker as long as
//!    there are other buffers (SiloR 3.4).

use std::{
    io,
    sync::{Arc, atomic::Ordering, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    ParallelLog,
    file::{FileHead, FileName},
    pepoch::{Of, Persistent, PersistentFile, Reach},
    record::Note,
    worker_slots::Buffer,
};
use crate::platform::file::{Directory, File, Open};

/// How long commits gather while no thread waits for one.
const GATHER: Duration = Duration::from_millis(10);
/// Smaller buffers are written together.
const SMALL_BYTES: usize = 64 << 10;

/// The leading logger.
pub(super) struct Leader {
    log: Arc<ParallelLog>,
    first: Device,
    others: Vec<Helper>,
    file: Option<PersistentFile>,
    /// Whether the existence of this generation has been noted.
    is_noted: bool,
    /// The content of the file, or its next content before the file is created.
    said: Persistent,
    /// The greatest epoch of a record that was written.
    written: u64,
    last_round: Option<Instant>,
}

/// A logger of another device.
struct Helper {
    work: mpsc::Sender<(Vec<Buffer>, Option<Note>)>,
    done: mpsc::Receiver<io::Result<Reach>>,
    thread: Option<JoinHandle<()>>,
}

/// The device that a logger writes to.
pub(super) struct Device {
    log: Arc<ParallelLog>,
    directory: Arc<dyn Directory>,
    number: u32,
    file: Option<Arc<dyn File>>,
    reach: Reach,
    /// Small buffers, joined into one write.
    together: Vec<u8>,
}

/// Marks the log as broken when a logger panics, so that no thread waits for it.
struct BrokenByPanic(Arc<ParallelLog>);

impl Drop for BrokenByPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("a thread that writes it has panicked");
        }
    }
}

impl Leader {
    pub(super) fn new(log: Arc<ParallelLog>) -> io::Result<Self> {
        let mut devices = log.devices.iter().enumerate().map(|(number, directory)| Device {
            log: log.clone(),
            directory: directory.clone(),
            number: number as u32,
            file: None,
            reach: Reach::default(),
            together: Vec::new(),
        });
        let first = devices.next().expect("a database has a directory");
        let others = devices.map(Helper::start).collect::<io::Result<_>>()?;
        let epoch = log.waiters.durable() - 1;
        let said = Persistent { epoch, reach: vec![Reach::default(); log.devices.len()] };
        Ok(Self { log, first, others, file: None, is_noted: false, said, written: epoch, last_round: None })
    }

    /// Leads until told to stop, and then makes one more round for the rest.
    pub(super) fn run(mut self) {
        let broken = BrokenByPanic(self.log.clone());
        if let Err(error) = self.lead() {
            broken.0.fail(&error.to_string());
        }
    }

    fn lead(&mut self) -> io::Result<()> {
        while !self.log.stop.load(Ordering::SeqCst) {
            if self.log.slots.is_pressed() {
                self.round()?;
            } else if !self.log.waiters.is_empty() {
                let passed = self.last_round.map_or(Duration::MAX, |last| last.elapsed());
                match self.log.interval.checked_sub(passed) {
                    Some(left) if !left.is_zero() => Self::pause(left),
                    _ => self.round()?,
                }
            } else {
                self.rest()?;
            }
        }
        // No transaction commits any more.
        self.round()?;
        let said = self.said.clone();
        self.file.as_mut().map_or(Ok(()), |file| file.write(&said))
    }

    /// Waits until the epoch has lasted, or workers may wait for room. Not parked: each commit that begins to wait
    /// would wake it.
    fn pause(time: Duration) {
        const STEP: Duration = Duration::from_micros(500);
        thread::sleep(time.min(STEP));
    }

    /// Waits until there is a waiter, or the gathered commits are due.
    fn rest(&mut self) -> io::Result<()> {
        if self.log.waiters.begin_rest() && !self.log.stop.load(Ordering::SeqCst) {
            thread::park_timeout(GATHER);
        }
        self.log.waiters.end_rest();
        let is_due = self.log.waiters.is_empty() && (self.log.slots.has_records() || self.written > self.said.epoch);
        if is_due { self.round() } else { Ok(()) }
    }

    fn round(&mut self) -> io::Result<()> {
        let began = Instant::now();
        self.last_round = Some(began);
        self.log.epochs.advance();
        let (least, mut taken) = self.log.slots.collect(&self.log.epochs);
        // After the visit of the slots: epochs below `least` have ended.
        let note = Note::now(least - 1);
        if taken.iter().any(|buffers| !buffers.is_empty()) {
            self.make_file()?;
            let epochs = taken.iter().flatten().map(|buffer| buffer.last_epoch);
            self.written = epochs.fold(self.written, u64::max);
            // One of the devices that write in this round gets the note.
            let noted = taken.iter().position(|buffers| !buffers.is_empty());
            let note_of = |device| (noted == Some(device)).then_some(note);
            let others = taken.split_off(1).into_iter();
            for ((helper, buffers), device) in self.others.iter().zip(others).zip(1..) {
                helper.work.send((buffers, note_of(device))).map_err(|_| ended())?;
            }
            let own = taken.pop().expect("the first device's");
            let mut outcome = self.first.write(own, note_of(0)).map(|reach| self.said.reach[0] = reach);
            for (helper, reach) in self.others.iter().zip(&mut self.said.reach[1..]) {
                let done = helper.done.recv().map_err(|_| ended()).flatten();
                outcome = outcome.and(done.map(|done| *reach = done));
            }
            outcome?;
        }
        let persistent = least - 1;
        if self.written > self.said.epoch && persistent > self.said.epoch {
            self.said.epoch = persistent;
            self.file.as_mut().expect("there is one as soon as there are records").write(&self.said)?;
            if !self.is_noted {
                // From now on, missing files of this generation are detected.
                self.log.identity.note(u64::from(self.log.generation) + 1, persistent)?;
                self.is_noted = true;
            }
            self.log.count_flush(began.elapsed());
        }
        self.log.waiters.publish(persistent.max(self.log.waiters.durable() - 1) + 1);
        Ok(())
    }

    /// Creates the file of the persistent epoch, before the first record of the generation.
    fn make_file(&mut self) -> io::Result<()> {
        if self.file.is_none() {
            let (log, said) = (&self.log, &self.said);
            let of = Of { generation: log.generation, identity: Some(log.identity.identity()) };
            let file =
                log.room.until_there_is(|| log.is_stopping(), || PersistentFile::create(&*log.directory, of, said))?;
            self.file = Some(file);
        }
        Ok(())
    }
}

fn ended() -> io::Error {
    io::Error::other("a logger has ended")
}

impl Helper {
    fn start(mut device: Device) -> io::Result<Self> {
        let (work, to_do) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let name = format!("ermine-log-{}", device.number);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _broken = BrokenByPanic(device.log.clone());
            for (buffers, note) in to_do {
                if tell.send(device.write(buffers, note)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { work, done, thread: Some(thread) })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Its channel closes, which ends the thread.
        self.work = mpsc::channel().0;
        if let Some(thread) = self.thread.take() {
            // A panic has been printed, and the log is broken.
            let _ = thread.join();
        }
    }
}

impl Device {
    /// Writes buffers and a note of the time, and makes them durable; returns how far the log is whole then.
    fn write(&mut self, buffers: Vec<Buffer>, note: Option<Note>) -> io::Result<Reach> {
        if buffers.is_empty() {
            return Ok(self.reach);
        }
        if self.file.is_none() || self.reach.bytes >= self.log.file_bytes {
            self.next_file()?;
        }
        let last_epoch = buffers.iter().map(|buffer| buffer.last_epoch).max().unwrap_or(0);
        for buffer in buffers {
            if buffer.bytes.len() < SMALL_BYTES {
                self.together.extend_from_slice(&buffer.bytes);
            } else {
                self.write_together()?;
                self.put(&buffer.bytes)?;
            }
            self.log.slots.written(buffer);
            if self.together.len() >= SMALL_BYTES {
                self.write_together()?;
            }
        }
        note.iter().for_each(|note| note.write(&mut self.together));
        self.write_together()?;
        self.file()?.sync()?;
        self.log.note_file(self.number, self.reach, last_epoch);
        Ok(self.reach)
    }

    fn write_together(&mut self) -> io::Result<()> {
        let mut together = std::mem::take(&mut self.together);
        if !together.is_empty() {
            self.put(&together)?;
        }
        together.clear();
        self.together = together;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (file, log) = (self.file()?, &self.log);
        log.room.until_there_is(|| log.is_stopping(), || file.write_at(self.reach.bytes, bytes))?;
        self.reach.bytes += bytes.len() as u64;
        self.log.count_bytes(bytes.len() as u64);
        Ok(())
    }

    fn file(&self) -> io::Result<&Arc<dyn File>> {
        self.file.as_ref().ok_or_else(ended)
    }

    /// Continues in another file; the previous one is whole and synced.
    fn next_file(&mut self) -> io::Result<()> {
        let before = self.reach.bytes;
        let sequence = self.reach.sequence.checked_add(1);
        let sequence = sequence.ok_or_else(|| io::Error::other("no number is left for another file of the log"))?;
        let name = FileName { generation: self.log.generation, sequence };
        let (log, directory) = (&self.log, &*self.directory);
        let called = name.to_string();
        let file = log.room.until_there_is(
            || log.is_stopping(),
            || {
                let file = directory.open(&called, Open::Create)?;
                // The space is taken before commits need it.
                let taken = file.set_length(log.file_bytes);
                if taken.is_err() {
                    // If the file stayed, the next attempt would fail permanently.
                    let _ = directory.remove(&called);
                }
                taken.map(|()| file)
            },
        )?;
        self.directory.sync()?;
        if sequence > 1 {
            // At once: without it, no transaction that needs one more file may begin.
            self.log.keep_room();
        }
        self.file = Some(file);
        self.reach = Reach { sequence, bytes: 0 };
        let head = FileHead { name, device: self.number, before };
        self.together.splice(0..0, head.bytes(Some(self.log.identity.identity())));
        Ok(())
    }
}
