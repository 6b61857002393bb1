//! The file by which scripts and supervisors find the process of a server (`--pid-file`).
//!
//! It has the first six lines of PostgreSQL's `postmaster.pid`: the process, the directory of the database, the second
//! since 1970 at which the server began, the port, the directory of a socket (none), and the address. The file of a
//! server that did not end by itself is stale, and replaced: the lock on the database, not this file, keeps a second
//! server from starting.

use std::{
    ffi::OsString,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

/// A file that was written, and is removed with this, unless another process has replaced it.
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file of this process. A reader finds the old content or the new one.
    pub fn write(path: &Path, dir: &Path, address: SocketAddr) -> io::Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let dir = std::path::absolute(dir)?;
        let (process, dir, port, ip) = (process::id(), dir.display(), address.port(), address.ip());
        let text = format!("{process}\n{dir}\n{since}\n{port}\n\n{ip}\n");
        let path = std::path::absolute(path)?;
        let mut new = OsString::from(&path);
        new.push(format!(".{process}"));
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("the pid file {} cannot be written: {error}", path.display()))
        };
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(|error| {
            let _ = fs::remove_file(&new);
            named(error)
        })?;
        Ok(Self(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let own = process::id().to_string();
        let is_own = fs::read_to_string(&self.0).is_ok_and(|text| text.lines().next() == Some(&own));
        if is_own && let Err(error) = fs::remove_file(&self.0) {
            log::warn!("the pid file {} stays: {error}", self.0.display());
        }
    }
}
