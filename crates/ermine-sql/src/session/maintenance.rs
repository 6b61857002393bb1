//! BACKUP and CHECKPOINT: statements about the files of the database.
//!
//! The work runs on a separate thread. Meanwhile the session's thread lets other sessions run, and stops a backup at
//! the client's request or at a time limit. Losing the connection stops neither: a backup that its client has not
//! waited for is as good as any other.

use std::{
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ermine::BackupReport;
use sqlparser::{
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{Completion, Session, SqlDatabase, State};
use crate::{
    catalog::roles::CHECKPOINT,
    error::{Result, SqlError, SqlState},
    failure::sql_error,
    result::{Column, RowSink},
    types::{SqlType, Value},
};

/// A BACKUP or CHECKPOINT statement.
#[derive(Clone, Debug)]
pub(crate) enum Maintenance {
    /// BACKUP TO a directory of the server.
    Backup(String),
    Checkpoint,
}

impl Maintenance {
    /// Parses such a statement, if one comes next. Neither begins with a word that the parser knows.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let next = match &parser.peek_token_ref().token {
            Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
            _ => return Ok(None),
        };
        Ok(match &*next {
            "checkpoint" => {
                parser.next_token();
                Some(Self::Checkpoint)
            }
            "backup" => {
                parser.next_token();
                parser.expect_keyword(Keyword::TO)?;
                Some(Self::Backup(parser.parse_literal_string()?))
            }
            _ => None,
        })
    }

    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Backup(_) => "BACKUP",
            Self::Checkpoint => "CHECKPOINT",
        }
    }

    /// Returns the columns of the statement's result.
    pub(super) fn columns(&self) -> Option<Vec<Column>> {
        let column = |name: &str, ty| Column::new(name, ty);
        let numbers = ["from_lsn", "to_lsn", "files", "bytes"].map(|name| column(name, SqlType::INT8));
        match self {
            Self::Backup(_) => Some([vec![column("directory", SqlType::TEXT)], numbers.to_vec()].concat()),
            Self::Checkpoint => None,
        }
    }
}

impl SqlDatabase {
    /// Sets, once, where BACKUP may write: below this directory of the server, or nowhere. Without this call it may
    /// write wherever the process may.
    pub fn confine_backups(&self, directory: Option<PathBuf>) {
        // The first call counts.
        let _ = self.0.backups.set(directory);
    }
}

impl Session {
    pub(super) fn maintain(
        &mut self,
        what: &Maintenance,
        columns: Option<&[Column]>,
        rows: &mut dyn RowSink,
    ) -> Result<Completion> {
        if !matches!(self.state, State::Idle) {
            let message = format!("{} cannot run inside a transaction block", what.words());
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        let (catalog, role) = (self.seen_catalog()?.0, self.environment.role);
        let may_checkpoint = matches!(what, Maintenance::Checkpoint) && catalog.has_role(role, CHECKPOINT.1);
        if !catalog.is_superuser(role) && !may_checkpoint {
            let message = match what {
                Maintenance::Checkpoint => "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
                Maintenance::Backup(_) => "must be superuser to do BACKUP",
            };
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        match what {
            Maintenance::Checkpoint => {
                let database = &self.shared.database;
                self.aside(&AtomicBool::new(false), || database.checkpoint())?;
            }
            Maintenance::Backup(path) => {
                let directory = self.backup_directory(path)?;
                let report = self.back_up(&directory)?;
                let number = |number: u64| Value::Int8(number as i64);
                let numbers = [report.from_lsn, report.to_lsn, report.files, report.bytes].map(number);
                rows.columns(columns.unwrap_or_default())?;
                rows.row(&[vec![directory.display().to_string().into()], numbers.to_vec()].concat())?;
            }
        }
        rows.complete(what.words())?;
        Ok(Completion::default())
    }

    fn back_up(&self, directory: &Path) -> Result<BackupReport> {
        let (database, presence) = (&self.shared.database, &self.registered.presence);
        let stop = AtomicBool::new(false);
        let made = self.aside(&stop, || {
            database.backup_with(directory, &mut |progress| {
                presence.change(|doing| doing.backup = Some(progress));
                match stop.load(Ordering::Relaxed) {
                    true => Err(ermine::Error::other("the backup was canceled")),
                    false => Ok(()),
                }
            })
        });
        presence.change(|doing| doing.backup = None);
        made
    }

    /// Returns the directory that `path` names, if BACKUP may write there.
    fn backup_directory(&self, path: &str) -> Result<PathBuf> {
        if path.is_empty() {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "BACKUP TO needs the name of a directory"));
        }
        let path = Path::new(path);
        let Some(confined) = self.shared.backups.get() else { return Ok(path.into()) };
        let denied = |message: String| SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message);
        let Some(within) = confined else {
            return Err(denied("permission denied: this server makes no backups".into())
                .hint("Start it with --backup-dir: backups may be made below that directory."));
        };
        let inner = path.strip_prefix(within).unwrap_or(path);
        let is_below = inner.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below || inner.as_os_str().is_empty() {
            let (path, within) = (path.display(), within.display());
            return Err(denied(format!("permission denied: {path} is not below {within}"))
                .hint("Name a new directory there; a relative name is taken from there."));
        }
        Ok(within.join(inner))
    }

    /// Runs `work` on a separate thread, and sets `stop` when the client or a time limit asks it to end.
    fn aside<T: Send>(&self, stop: &AtomicBool, work: impl FnOnce() -> ermine::Result<T> + Send) -> Result<T> {
        const LONGEST: Duration = Duration::from_millis(20);
        // A request made before the statement began counts, too.
        self.environment.check()?;
        thread::scope(|scope| {
            let thread = scope.spawn(work);
            let (mut asked, mut pause) = (Ok(()), Duration::from_micros(200));
            while !thread.is_finished() {
                thread::sleep(pause);
                pause = (2 * pause).min(LONGEST);
                if asked.is_ok() {
                    asked = self.environment.check();
                    stop.store(asked.is_err(), Ordering::Relaxed);
                }
            }
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.map_err(|error| match error {
                ermine::Error::Application(_) => asked.err().unwrap_or_else(|| SqlError::canceled("user request")),
                error => sql_error(error),
            })
        })
    }
}
