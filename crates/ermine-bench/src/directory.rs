//! Directories that a run fills.

use std::{fs, io, path::Path};

use crate::error::{Error, Result};

/// Fails if a directory is not empty.
pub(crate) fn check_empty(directory: &Path) -> Result<()> {
    let path = directory.display();
    match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Error::Usage(format!("{path} is not empty: name a directory that is, or that is not there yet")))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::Usage(format!("{path}: {error}"))),
    }
}

/// Creates a directory, and its parents.
pub(crate) fn create(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(|source| Error::File { path: directory.into(), source })
}
