//! Options of the engine that a run sets instead of the defaults; reports show them.

use std::{fmt, path::PathBuf, time::Duration};

use ermine::{CheckpointSyncs, Order, Scheme, Session};
use serde::Serialize;

use crate::{
    directory,
    error::{Error, Result},
    report::{listed, mib},
};

/// Options that are set override the engine's defaults.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tuning {
    /// Directories of the log, one per device; for several databases, their parent directories. Single-version schemes.
    pub log_directories: Vec<PathBuf>,
    /// Minimum length of an epoch. Single-version schemes.
    #[serde(serialize_with = "milliseconds", rename = "epoch_interval_ms")]
    pub epoch_interval: Option<Duration>,
    /// Bytes of log between checkpoints.
    pub checkpoint_after: Option<u64>,
    /// Bytes of memory that a database may take.
    pub memory_limit: Option<u64>,
    /// Whether checkpoints are compressed. Single-version schemes.
    pub compress_checkpoints: bool,
    /// When checkpoints sync. Single-version schemes.
    #[serde(serialize_with = "in_words")]
    pub checkpoint_syncs: Option<CheckpointSyncs>,
    /// How long a transaction waits for other transactions. Schemes that wait.
    #[serde(serialize_with = "milliseconds", rename = "wait_max_ms")]
    pub wait_max: Option<Duration>,
    /// The order of transactions that the database keeps; under `session`, each client is a session. Schemes that leave
    /// a choice.
    #[serde(serialize_with = "order_name")]
    pub order: Option<Order>,
}

fn order_name<S: serde::Serializer>(order: &Option<Order>, to: S) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&order.map(Order::name), to)
}

fn milliseconds<S: serde::Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&time.map(|time| time.as_secs_f64() * 1e3), to)
}

fn in_words<S: serde::Serializer>(syncs: &Option<CheckpointSyncs>, to: S) -> Result<S::Ok, S::Error> {
    Serialize::serialize(&syncs.map(|syncs| format!("{syncs:?}")), to)
}

impl Tuning {
    /// Fails if the options cannot work: each option that is set must have a meaning under one of the schemes.
    pub fn check(&self, schemes: &[Scheme], keep: bool) -> Result<()> {
        let needed = |is_said: bool, flag: &str, applies: fn(Scheme) -> bool| {
            if !is_said || schemes.iter().any(|scheme| applies(*scheme)) {
                return Ok(());
            }
            let fitting: Vec<_> = Scheme::ALL.into_iter().filter(|scheme| applies(*scheme)).collect();
            let (schemes, fitting) = (listed(schemes), listed(&fitting));
            Err(Error::Usage(format!("{flag} means nothing under {schemes}: it is for {fitting}")))
        };
        let is_single_version = |scheme: Scheme| !scheme.has_versions();
        needed(!self.log_directories.is_empty(), "--log-dir", is_single_version)?;
        needed(self.epoch_interval.is_some(), "--epoch-interval", is_single_version)?;
        needed(self.compress_checkpoints, "--compress-checkpoints", is_single_version)?;
        needed(self.checkpoint_syncs.is_some(), "--checkpoint-syncs", is_single_version)?;
        needed(self.wait_max.is_some(), "--wait-max", Scheme::waits)?;
        needed(self.order.is_some(), "--order", Scheme::has_orders)?;
        self.apply(ermine::Options::default()).check()?;
        if keep {
            return Ok(());
        }
        self.log_directories.iter().try_for_each(|path| directory::check_empty(path))
    }

    /// The same for a database in a subdirectory.
    pub fn beside(&self, name: &str) -> Self {
        let log_directories = self.log_directories.iter().map(|directory| directory.join(name)).collect();
        Self { log_directories, ..self.clone() }
    }

    /// The session that a client passes with each of its transactions.
    pub(crate) fn session(&self) -> Option<Session> {
        (self.order == Some(Order::Session)).then(Session::default)
    }

    /// Creates the directories of the log, and their parents.
    pub(crate) fn make_directories(&self) -> Result<()> {
        self.log_directories.iter().try_for_each(|path| directory::create(path))
    }

    /// Applies the options that are set.
    pub(crate) fn apply(&self, options: ermine::Options) -> ermine::Options {
        let mut options =
            options.log_directories(&self.log_directories).compress_checkpoints(self.compress_checkpoints);
        options.epoch_interval = self.epoch_interval.unwrap_or(options.epoch_interval);
        options.checkpoint_after = self.checkpoint_after.unwrap_or(options.checkpoint_after);
        options.memory_limit = self.memory_limit.or(options.memory_limit);
        options.checkpoint_syncs = self.checkpoint_syncs.unwrap_or(options.checkpoint_syncs);
        options.wait_max = self.wait_max.unwrap_or(options.wait_max);
        options.order = self.order.unwrap_or(options.order);
        options
    }
}

impl fmt::Display for Tuning {
    /// Formats the options as the end of a list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.log_directories.len() {
            0 => {}
            count => write!(f, ", {count} log directories")?,
        }
        if let Some(time) = self.epoch_interval {
            write!(f, ", epochs of {time:?}")?;
        }
        if let Some(bytes) = self.checkpoint_after {
            write!(f, ", a checkpoint after {} of log", mib(bytes))?;
        }
        if let Some(bytes) = self.memory_limit {
            write!(f, ", at most {} of memory", mib(bytes))?;
        }
        if self.compress_checkpoints {
            f.write_str(", compressed checkpoints")?;
        }
        if let Some(syncs) = self.checkpoint_syncs {
            write!(f, ", checkpoints synced: {syncs:?}")?;
        }
        if let Some(time) = self.wait_max {
            write!(f, ", waits of up to {time:?}")?;
        }
        if let Some(order) = self.order {
            write!(f, ", order {order}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_nothing_under_a_scheme_is_refused() {
        let time = Some(Duration::from_millis(3));
        let epochs = Tuning { epoch_interval: time, ..Tuning::default() };
        let waits = Tuning { wait_max: time, ..Tuning::default() };
        let ordered = Tuning { order: Some(Order::Session), ..Tuning::default() };
        let compressed = Tuning { compress_checkpoints: true, ..Tuning::default() };
        let log = Tuning { log_directories: vec!["nowhere".into()], ..Tuning::default() };
        for scheme in Scheme::ALL {
            Tuning { checkpoint_after: Some(1), ..Tuning::default() }.check(&[scheme], false).unwrap();
            for tuning in [&epochs, &log, &compressed] {
                assert_eq!(tuning.check(&[scheme], false).is_ok(), !scheme.has_versions(), "{scheme}");
            }
            assert_eq!(waits.check(&[scheme], false).is_ok(), scheme.waits(), "{scheme}");
            assert_eq!(ordered.check(&[scheme], false).is_ok(), scheme.has_orders(), "{scheme}");
        }
        let error = waits.check(&[Scheme::Silo, Scheme::Si], false).unwrap_err().to_string();
        assert!(
            error.contains("--wait-max means nothing under silo, si: it is for rc, rc-ssn, 2pl-waitdie"),
            "{error}"
        );
        epochs.check(&[Scheme::Si, Scheme::Silo], false).unwrap();
        let long = Tuning { epoch_interval: Some(Duration::from_secs(2)), ..Tuning::default() };
        assert!(long.check(&[Scheme::Silo], false).is_err());
        assert_eq!(log.beside("silo").log_directories, [std::path::Path::new("nowhere/silo")]);
        assert_eq!(format!("{epochs}{waits}{log}"), ", epochs of 3ms, waits of up to 3ms, 1 log directories");
        assert_eq!((format!("{ordered}"), ordered.session().is_some()), (", order session".into(), true));
    }
}
