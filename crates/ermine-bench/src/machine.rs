//! The machine that a result was measured on: processor, memory, commit, and the memory this process holds.

use std::{fmt, fs, os::unix::fs::MetadataExt as _, path::Path, thread};

use serde::Serialize;

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name for itself.
    pub processor: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The commit this was built from.
    pub commit: &'static str,
}

impl Machine {
    /// Describes this machine; what it does not report is "unknown" or zero.
    pub fn here() -> Self {
        let unknown = || "unknown".to_owned();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == "model name").then(|| value.trim().to_owned())
        });
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
        Self {
            processor: processor.unwrap_or_else(unknown),
            cores: cores(),
            memory_bytes: kilobytes(&meminfo, "MemTotal:").unwrap_or(0),
            kernel: kernel.unwrap_or_else(|_| unknown()),
            commit: env!("ERMINE_COMMIT"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory_bytes, kernel, commit } = self;
        let gib = *memory_bytes as f64 / f64::from(1 << 30);
        write!(f, "{processor}, {cores} cores, {gib:.1} GiB, kernel {kernel}, commit {commit}")
    }
}

/// Cores this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Resident memory of this process; zero if the system does not report it.
pub fn resident_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|status| kilobytes(&status, "VmRSS:")).unwrap_or(0)
}

/// What the files in a directory take on the device. Files that come and go meanwhile count or do not.
pub fn disk_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    // The system counts in blocks of 512 bytes, whatever those of the device are.
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// Processor time of all threads of this process, in seconds; zero if the system does not report it.
///
/// On a shared machine it shows how much of the wall-clock time the process worked at all.
pub fn processor_seconds() -> f64 {
    fs::read_to_string("/proc/self/stat").ok().and_then(|stat| ticks(&stat)).unwrap_or(0) as f64 / TICKS_PER_SECOND
}

/// Linux counts the times in `/proc` in hundredths of a second on every architecture it runs on today.
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system time, fields 14 and 15; the second field, a name in parentheses, may contain blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// A line of the form `Name:   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_user_and_system_time() {
        let stat = "7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 30 0 0 20 0 1 0";
        assert_eq!(ticks(stat), Some(280));
        assert_eq!(ticks("7 (a"), None);
    }

    #[test]
    fn reads_the_kernels_lines() {
        let text = "Name:\tx\nVmRSS:\t    1028 kB\nThreads:\t1\n";
        assert_eq!(kilobytes(text, "VmRSS:"), Some(1028 << 10));
        assert_eq!(kilobytes(text, "VmSwap:"), None);
    }
}
