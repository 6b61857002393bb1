//! Shared parts of the crash tests, those of SQL in `ermine-sql` among them: how many points they check, what a crash
//! may leave, and what is printed when a test fails.

use std::{fs, path::PathBuf};

use ermine::files::{Directory, Open};
use ermine_testing::faulty::{FaultyDirectory, Keep};
use fastrand::Rng;

/// Crash points that the main tests check in the short form.
pub const POINTS: usize = 150;

/// Returns how many crash points a test checks that checks `otherwise` in the short form.
pub fn points(otherwise: usize) -> usize {
    let asked = std::env::var("ERMINE_TEST_POINTS").map(|points| points.parse().expect("a number of points"));
    asked.map_or(otherwise, |asked: usize| (asked * otherwise).div_ceil(POINTS))
}

/// Returns the seed of a workload: `ERMINE_TEST_SEED`, or a new one.
pub fn seed() -> u64 {
    let seed = std::env::var("ERMINE_TEST_SEED").map(|seed| seed.parse().expect("a number"));
    seed.unwrap_or_else(|_| fastrand::u64(..1 << 48))
}

/// Returns what a crash may leave behind; every point is tried with each.
pub fn keeps(rng: &mut Rng) -> [Keep; 6] {
    let random = [(); 3].map(|()| Keep::Random(rng.u64(..1 << 32)));
    [Keep::Nothing, Keep::Everything, Keep::Last, random[0], random[1], random[2]]
}

/// When a test fails, prints what was being checked, and saves the files as they were found.
pub struct Case {
    seed: u64,
    what: String,
    /// A copy of the directory, before anything was done there.
    files: FaultyDirectory,
}

impl Case {
    pub fn new(seed: u64, what: String, directory: &FaultyDirectory) -> Self {
        let trace = directory.trace();
        Self { seed, what, files: trace.crash(trace.operations(), Keep::Everything) }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let to = std::env::temp_dir().join(format!("ermine-crash-{}-{}", self.seed, std::process::id()));
            // The innermost case is dropped first.
            if !to.exists() {
                let left =
                    leave(&self.files, &to).map_or_else(|error| error.to_string(), |()| to.display().to_string());
                eprintln!("again with ERMINE_TEST_SEED={}; the files are in {left}", self.seed);
            }
            eprintln!("{}", self.what);
        }
    }
}

/// Copies files to a real directory.
fn leave(files: &FaultyDirectory, to: &PathBuf) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for name in files.list()? {
        let file = files.open(&name, Open::Read)?;
        let mut bytes = vec![0; file.length()? as usize];
        file.read_at(0, &mut bytes)?;
        fs::write(to.join(name), bytes)?;
    }
    Ok(())
}
