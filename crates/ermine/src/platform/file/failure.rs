//! Errors of files that name the operation and the path.

use std::{error::Error, fmt, io};

/// An error of the system with the operation and the path it belongs to. The kind of the [`io::Error`] around it is
/// that of its source.
#[derive(Debug)]
struct Failure {
    operation: &'static str,
    path: String,
    source: io::Error,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path, self.source)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// For `map_err`: puts the operation and the path in front of the system's message.
pub(super) fn during(operation: &'static str, path: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |source| io::Error::new(source.kind(), Failure { operation, path: path.to_string(), source })
}

/// Rejects strings that are not the name of a file in a flat directory.
pub(super) fn check_name(name: &str) -> io::Result<()> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_kind_and_the_words_of_the_system() {
        let system = io::Error::from_raw_os_error(28);
        let (kind, words) = (system.kind(), system.to_string());
        let error = during("write", "/data/log.1")(system);
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string(), format!("cannot write /data/log.1: {words}"));
        let source = error.get_ref().unwrap().source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(source.raw_os_error(), Some(28));
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        assert!(["", ".", "..", "a/b", "/a", "a\0"].into_iter().all(|name| check_name(name).is_err()));
        assert!(["log.1", "..a", "LOCK"].into_iter().all(|name| check_name(name).is_ok()));
    }
}
