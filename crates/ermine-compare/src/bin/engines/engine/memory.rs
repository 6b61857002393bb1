//! Where an engine keeps its data, and the memory that it may take.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The place of an engine's data.
#[derive(Clone)]
pub struct Place {
    /// The directory that keeps it; without, it is in memory, and engines that need files have them there.
    pub directory: Option<PathBuf>,
    /// The bytes of memory that all of the engine may take, the system's cache of its files included.
    pub memory: Option<u64>,
}

impl Place {
    /// The bytes of an engine's own cache: half of its memory. With three quarters of 128 MiB, RocksDB, redb and fjall
    /// were killed by the group (2026-11-30): they take more than their caches.
    #[cfg(any(feature = "rocksdb", feature = "redb", feature = "fjall", feature = "sqlite"))]
    pub fn cache(&self) -> Option<u64> {
        self.memory.map(|bytes| bytes / 2)
    }

    /// The directory for an engine that needs one.
    pub fn home(&self) -> Home {
        let home = match &self.directory {
            Some(directory) => Home { path: directory.clone(), temporary: false },
            None => {
                // In memory, where the system has a place for that: no page is ever written back.
                let memory = PathBuf::from("/dev/shm");
                let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
                Home { path: parent.join(format!("ermine-compare-{}", std::process::id())), temporary: true }
            }
        };
        fs::create_dir_all(&home.path).expect("the directory of the engine can be made");
        home
    }

    /// Refuses a directory, for engines that keep everything in memory.
    pub fn assert_in_memory(&self) {
        assert!(self.directory.is_none(), "this engine has no files: leave it out with --dir");
    }
}

/// The directory of an open engine. It is the last field of an engine, so that the files are closed before.
pub struct Home {
    path: PathBuf,
    temporary: bool,
}

impl Home {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the files end with this process, so that nothing needs to reach them.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.temporary {
            // A leftover in the directory for temporary files is no failure.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A control group, made and limited before this program runs; of version 1 or 2.
pub struct Group<'a>(pub &'a Path);

impl Group<'_> {
    /// Makes the calling process a member; all the memory that it takes from now on is the group's.
    pub fn join(&self) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), "0")
    }

    /// Empties the system's cache of the files that the group's last member used, so that all begin alike. A group of
    /// another kind than those known keeps its cache.
    pub fn empty(&self) {
        for (file, all) in [("memory.force_empty", "0"), ("memory.reclaim", "1T")] {
            let file = self.0.join(file);
            if file.exists() {
                // Version 2 reports that less was found than asked for.
                let _ = fs::write(file, all);
            }
        }
    }
}
