//! A directory whose names are no longer trusted once a sync of them has failed.
//!
//! Several threads create files at the same time, and each syncs the names when its own exists. A sync that fails may
//! lose all names, also those of other threads, and no later sync restores them. So after the first failure every sync
//! fails: a thread that has created a file whose name may be lost is informed of that.

use std::{
    io,
    sync::{Arc, Mutex},
};

use super::{Directory, File, Open};

/// A directory that remembers a failed sync.
#[derive(Debug)]
pub(crate) struct SyncGuardedDirectory {
    inner: Arc<dyn Directory>,
    /// Why names could not be synced. Locked during syncs, so that no thread's sync succeeds after one that fails.
    failure: Mutex<Option<(io::ErrorKind, String)>>,
}

impl SyncGuardedDirectory {
    /// Wraps `inner`, whose names are trusted until a sync fails.
    pub(crate) fn new(inner: Arc<dyn Directory>) -> Self {
        Self { inner, failure: Mutex::new(None) }
    }
}

impl Directory for SyncGuardedDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        self.inner.open(name, how)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        let mut failure = self.failure.lock().expect("no code panics while it syncs names");
        if let Some((kind, why)) = &*failure {
            return Err(io::Error::new(*kind, format!("{why} (before: nothing in the directory is sure since then)")));
        }
        let synced = self.inner.sync();
        *failure = synced.as_ref().err().map(|error| (error.kind(), error.to_string()));
        synced
    }

    fn path(&self) -> String {
        self.inner.path()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{
        super::faulty::{Fault, FaultyDirectory},
        *,
    };

    #[test]
    fn after_a_failure_no_sync_succeeds() {
        let inner = FaultyDirectory::new();
        inner.fail_at(2, Fault::Broken);
        let directory = SyncGuardedDirectory::new(Arc::new(inner.clone()));
        directory.open("a", Open::Create).unwrap();
        directory.sync().unwrap();
        assert!(directory.sync().is_err());
        assert!(inner.sync().is_ok());
        let again = directory.sync().unwrap_err().to_string();
        assert!(again.contains("(memory)") && again.contains("nothing in the directory is sure"), "{again}");
    }
}
