//! Sessions that expire: found by their token, ended by a sweep over an index of their expiry.
//!
//! `cargo run -p ermine --example sessions`

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ermine::{Database, Durability, Error, Options, Result, SecondaryIndex, Table, TxnOptions, Uniqueness};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Session {
    user: String,
    /// Seconds after 1970.
    expires: u64,
}
ermine::serde_value!(Session);

struct Sessions {
    db: Database,
    by_token: Table<[u8; 16], Session>,
    by_expiry: SecondaryIndex<u64, [u8; 16], Session>,
}

impl Sessions {
    const LIFE_SECONDS: u64 = 3600;
    /// Sessions that one transaction of the sweep ends.
    const SWEPT_MAX: usize = 100;

    fn open(db: Database) -> Result<Self> {
        let by_token = db.table("sessions")?;
        // ANCHOR: index
        let by_expiry =
            db.index(&by_token, "sessions by expiry", Uniqueness::NonUnique, |_, session: Session| session.expires)?;
        // ANCHOR_END: index
        Ok(Self { db, by_token, by_expiry })
    }

    /// Begins a session. A crash of the machine may lose the newest ones: their users log in again.
    fn begin(&self, token: [u8; 16], user: &str, now: u64) -> Result<()> {
        let session = Session { user: user.into(), expires: now + Self::LIFE_SECONDS };
        let options = TxnOptions::default().durability(Durability::Async);
        self.db.run_with(options, |txn| txn.insert(&self.by_token, &token, &session))
    }

    /// Returns the user of a session that has not expired, and prolongs it when half of its life is over.
    fn user(&self, token: &[u8; 16], now: u64) -> Result<Option<String>> {
        self.db.run(|txn| {
            let Some(mut session) = txn.get(&self.by_token, token)?.filter(|session| session.expires > now) else {
                return Ok(None);
            };
            if session.expires < now + Self::LIFE_SECONDS / 2 {
                session.expires = now + Self::LIFE_SECONDS;
                txn.update(&self.by_token, token, &session)?;
            }
            Ok(Some(session.user))
        })
    }

    // ANCHOR: sweep
    /// Deletes the sessions that have expired, some at a time; returns how many.
    fn sweep(&self, now: u64) -> Result<usize> {
        let mut ended = 0;
        loop {
            let swept = self.db.run(|txn| {
                let expired = txn.scan_by(&self.by_expiry, ..=now).limit(Self::SWEPT_MAX).collect()?;
                for (token, _) in &expired {
                    txn.delete(&self.by_token, token)?;
                }
                Ok::<_, Error>(expired.len())
            })?;
            ended += swept;
            if swept < Self::SWEPT_MAX {
                return Ok(ended);
            }
        }
    }
    // ANCHOR_END: sweep
}

fn main() -> Result<(), Error> {
    let sessions = Sessions::open(Database::open_in_memory(Options::default())?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    for n in 0..250u128 {
        sessions.begin(n.to_be_bytes(), "ann", now + n as u64)?;
    }
    let token = 0u128.to_be_bytes();
    assert_eq!(sessions.user(&token, now + 3000)?.as_deref(), Some("ann"), "it is prolonged");
    let later = now + 3700;
    assert_eq!(sessions.user(&1u128.to_be_bytes(), later)?, None, "it has expired, though it is still there");
    assert_eq!(sessions.sweep(later)?, 100, "of the sessions 0 to 100, the first was prolonged");
    assert_eq!(sessions.user(&token, later)?.as_deref(), Some("ann"));
    assert_eq!(sessions.db.run(|txn| txn.scan(&sessions.by_token, ..).count())?, 150);
    println!("100 sessions have expired, 150 are left");
    Ok(())
}
