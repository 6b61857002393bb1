//! Reading files that may never have data, like pipes, until Ctrl-C ends the wait.
//!
//! A thread waits for the file; one whose data is not wanted any more ends with the process, or when
//! data comes.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

/// Time between two looks at Ctrl-C.
const STEP: Duration = Duration::from_millis(50);
/// Bytes that are read in one call.
const PIECE: usize = 64 << 10;

/// A file whose reads fail as soon as Ctrl-C is pressed.
pub struct Interruptible {
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// The rest of the last piece.
    rest: io::Cursor<Vec<u8>>,
    interrupted: Arc<AtomicBool>,
}

/// Waits for a result, such as an opened file; fails as soon as Ctrl-C is pressed.
pub fn wait<T: Send + 'static>(
    interrupted: &AtomicBool,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (done, result) = sync_channel(1);
    thread::spawn(move || done.send(work()));
    next(&result, interrupted)?.unwrap_or_else(|| Err(io::Error::other("the thread has ended")))
}

/// Returns the next value of a channel; `None` at its end.
fn next<T>(values: &Receiver<T>, interrupted: &AtomicBool) -> io::Result<Option<T>> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(io::Error::other("canceled by user"));
        }
        match values.recv_timeout(STEP) {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl Interruptible {
    /// Reads a file from now on.
    pub fn new(mut file: impl Read + Send + 'static, interrupted: Arc<AtomicBool>) -> Self {
        let (read, pieces) = sync_channel(1);
        thread::spawn(move || {
            loop {
                let mut piece = vec![0; PIECE];
                let length = match file.read(&mut piece) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        let _ = read.send(Err(error));
                        break;
                    }
                };
                piece.truncate(length);
                if read.send(Ok(piece)).is_err() {
                    break;
                }
            }
        });
        Self { pieces, rest: io::Cursor::default(), interrupted }
    }
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.rest.read(buffer)?;
        if length > 0 || buffer.is_empty() {
            return Ok(length);
        }
        match next(&self.pieces, &self.interrupted)?.transpose()? {
            Some(piece) => {
                self.rest = io::Cursor::new(piece);
                self.rest.read(buffer)
            }
            // Ctrl-C does not end a copy as the end of the file does.
            None if self.interrupted.load(Ordering::Relaxed) => Err(io::Error::other("canceled by user")),
            None => Ok(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end() {
        let text = "line\n".repeat(PIECE);
        let mut read = String::new();
        Interruptible::new(io::Cursor::new(text.clone()), Arc::default()).read_to_string(&mut read).unwrap();
        assert!(read == text);
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let failure = Interruptible::new(Broken, Arc::default()).read(&mut [0; 9]).unwrap_err();
        assert_eq!(failure.to_string(), "broken");
    }

    #[test]
    fn who_waits_in_vain_is_interrupted() {
        let (mut end, mut file) = io::pipe().map(|(read, write)| (write, read)).unwrap();
        let interrupted = Arc::<AtomicBool>::default();
        let mut source = Interruptible::new(file.try_clone().unwrap(), interrupted.clone());
        io::Write::write_all(&mut end, b"a").unwrap();
        assert_eq!(source.read(&mut [0; 9]).unwrap(), 1);
        let waiting = thread::spawn(move || source.read(&mut [0; 9]).unwrap_err().to_string());
        interrupted.store(true, Ordering::Relaxed);
        assert_eq!(waiting.join().unwrap(), "canceled by user");
        let failure = wait(&interrupted, move || file.read(&mut [0; 9])).unwrap_err();
        assert_eq!(failure.to_string(), "canceled by user");
        assert_eq!(wait(&AtomicBool::new(false), || Ok(1)).unwrap(), 1);
    }
}
