//! The replication slot of a stream, and where the stream goes on.
//!
//! A slot's name ends with a random number, so a slot that was made anew has another name than the one before. The mark
//! of each message has the name: by it a server finds, also after a crash, that the changes between the last message
//! and the slot's position are missing.

use ermine_replication::feed::Last;
use ermine_sql::{
    RowSet, Session, SqlDatabase, SqlError, SqlState,
    logical::{ChangeStream, parse_lsn},
};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::message::{Mark, Place};

/// The slot of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    pub name: String,
    /// Everything below is confirmed.
    pub confirmed: u64,
    /// Whether it was made just now.
    pub is_new: bool,
    /// The end of the log.
    pub log_end: u64,
}

/// How a stream goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// With the changes from a place on.
    At(Place),
    /// With the changes from a place on, if the slot can be moved back to it ([`Slot::rewind`]); otherwise those up to
    /// the slot's position are missing.
    Behind(Place),
    /// The changes from there up to the slot's position are missing.
    Gap { from: u64 },
}

impl Slot {
    /// Finds the slot of a publication, or makes it if there is none, or it is lost.
    pub fn find_or_create(database: &SqlDatabase, publication: &str) -> Result<Self, SqlError> {
        let mut session = session(database);
        let log_end = session.log_position()?;
        for row in all(&mut session, publication)? {
            if let [name, confirmed, status] = &row[..] {
                if status == "lost" {
                    log::warn!("the slot \"{name}\" of the JSON stream is lost, and made anew");
                    session.drop_slot(name, false)?;
                    continue;
                }
                let confirmed = parse_lsn(confirmed).unwrap_or_default();
                return Ok(Self { name: name.clone(), confirmed, is_new: false, log_end });
            }
        }
        let mut found = RowSet::default();
        let _ = session
            .simple_query(&format!("SELECT 1 FROM pg_publication WHERE pubname = '{publication}'"), &mut found)?;
        if found.rows.is_empty() {
            let message = format!("publication \"{publication}\" does not exist");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        let mut number = [0; 4];
        let filled = SystemRandom::new().fill(&mut number);
        filled.map_err(|_| SqlError::new(SqlState::INTERNAL_ERROR, "the system has no random bytes"))?;
        let name = format!("json_{publication}_{:08x}", u32::from_be_bytes(number));
        let confirmed = session.create_slot(&name, "pgoutput", false)?;
        Ok(Self { name, confirmed, is_new: true, log_end: log_end.max(confirmed) })
    }

    /// Removes the slot of a publication, if there is one.
    pub fn remove(database: &SqlDatabase, publication: &str) -> Result<(), SqlError> {
        let mut session = session(database);
        for row in all(&mut session, publication)? {
            session.drop_slot(&row[0], false)?;
        }
        Ok(())
    }

    /// Moves the slot back; returns whether it is there.
    pub fn rewind(&self, database: &SqlDatabase, to: Place) -> Result<bool, SqlError> {
        session(database).rewind_slot(&self.name, to.commit)
    }

    /// Begins to read the slot; transactions that commit below `from` are not shown.
    pub fn read(&self, database: &SqlDatabase, from: u64, publication: &str) -> Result<ChangeStream, SqlError> {
        session(database).stream(&self.name, from, vec![publication.to_owned()])
    }

    /// Returns how the stream goes on behind its last message; `has_lost`: it has lost messages that it had
    /// acknowledged. A gap that is none does no harm, so one is said where the place of the last message is not known.
    ///
    /// A message of another slot whose place is not below this slot's position was followed by this slot, too: a
    /// database that is the primary of its cluster again. A place behind the end of the log is of a history that this
    /// database does not have: it was restored to an earlier moment, if the message is its own, or the slot is new.
    /// Otherwise another server is ahead, whose messages this one does not repeat.
    ///
    /// A place below the slot's position is one of this log if the message is the slot's own, or `is_replicated`: all
    /// nodes of a cluster have one history. A database that is alone may have been restored.
    pub fn follow(&self, last: &Last, database: u64, has_lost: bool, is_replicated: bool) -> Result<Begin, String> {
        let confirmed = Place::from(self.confirmed);
        let mark = match last {
            Last::None if !has_lost => return Ok(Begin::At(confirmed)),
            Last::None | Last::Removed => return Ok(Begin::Gap { from: 0 }),
            Last::Message(mark) => mark.as_deref().and_then(Mark::parse),
        };
        let Some(Mark { next, slot, .. }) = mark.filter(|mark| mark.database == database) else {
            return Err("its last message is not one of this database: remove the stream from JetStream, or publish \
                another publication"
                .into());
        };
        let (is_other, is_ahead) = (slot != self.name, next.commit > self.log_end);
        if is_ahead && is_other && !self.is_new {
            return Err(format!(
                "another server publishes to this stream, and is ahead: let one of the two publish; if this database \
                 was restored to an earlier moment, drop its slot \"{}\", and readers are told of a gap",
                self.name
            ));
        }
        let lacks = (is_other || has_lost) && next < confirmed;
        Ok(match self.is_new || is_ahead || lacks {
            true if lacks && (is_replicated || !is_other) => Begin::Behind(next),
            true => Begin::Gap { from: next.commit },
            false => Begin::At(next.max(confirmed)),
        })
    }
}

/// Begins a session with all rights, as the server itself.
fn session(database: &SqlDatabase) -> Session {
    let mut session = database.session("", "");
    // The server's process reads the slot.
    session.connect(std::process::id() as i32, None, Box::new(|| {}));
    session
}

/// Returns the names, confirmed positions and states of the slots of a publication: there is one at most.
fn all(session: &mut Session, publication: &str) -> Result<Vec<Vec<String>>, SqlError> {
    let mut found = RowSet::default();
    let query = format!(
        "SELECT slot_name, confirmed_flush_lsn, wal_status FROM pg_replication_slots \
         WHERE slot_name ~ '^json_{publication}_[0-9a-f]{{8}}$'"
    );
    let _ = session.simple_query(&query, &mut found)?;
    Ok(found.texts())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_on_where_it_was_or_says_what_is_missing() {
        let slot = Slot { name: "json_p_1".into(), confirmed: 0x100, is_new: false, log_end: 0x900 };
        let new = Slot { is_new: true, ..slot.clone() };
        let last = |database, slot: &str, commit, index| {
            Last::Message(Some(Mark { database, slot: slot.into(), next: Place { commit, index } }.text()))
        };
        let at = |commit, index| Ok(Begin::At(Place { commit, index }));
        let gap = |from| Ok(Begin::Gap { from });
        let behind = Ok(Begin::Behind(Place { commit: 0x80, index: 3 }));
        assert_eq!(slot.follow(&Last::None, 1, false, false), at(0x100, 0));
        assert_eq!(new.follow(&Last::None, 1, false, false), at(0x100, 0));
        for slot in [&slot, &new] {
            assert_eq!(slot.follow(&Last::None, 1, true, false), gap(0));
            // Also a slot that is not new any more may have been made after the message was removed.
            assert_eq!(slot.follow(&Last::Removed, 1, false, false), gap(0));
            assert_eq!(slot.follow(&Last::Removed, 1, true, false), gap(0));
        }
        // Its own messages.
        assert_eq!(slot.follow(&last(1, "json_p_1", 0x200, 3), 1, false, false), at(0x200, 3));
        assert_eq!(slot.follow(&last(1, "json_p_1", 0x80, 3), 1, false, false), at(0x100, 0));
        assert_eq!(slot.follow(&last(1, "json_p_1", 0x80, 3), 1, true, false), behind);
        assert_eq!(slot.follow(&last(1, "json_p_1", 0x200, 3), 1, true, false), at(0x200, 3));
        // Those of another slot.
        assert_eq!(slot.follow(&last(1, "json_p_2", 0x200, 3), 1, false, false), at(0x200, 3));
        assert_eq!(slot.follow(&last(1, "json_p_2", 0x100, 0), 1, false, false), at(0x100, 0));
        assert_eq!(slot.follow(&last(1, "json_p_2", 0x80, 3), 1, false, false), gap(0x80));
        assert_eq!(new.follow(&last(1, "json_p_2", 0x200, 3), 1, false, false), gap(0x200));
        for slot in [&slot, &new] {
            assert_eq!(slot.follow(&last(1, "json_p_2", 0x80, 3), 1, false, true), behind);
        }
        assert_eq!(slot.follow(&last(1, "json_p_2", 0x200, 3), 1, false, true), at(0x200, 3));
        // Of a history that is gone.
        assert_eq!(slot.follow(&last(1, "json_p_1", 0x990, 1), 1, false, false), gap(0x990));
        assert_eq!(new.follow(&last(1, "json_p_2", 0x990, 1), 1, false, false), gap(0x990));
        // Of another server, which is ahead.
        for has_lost in [false, true] {
            let refused = slot.follow(&last(1, "json_p_2", 0x990, 1), 1, has_lost, false).unwrap_err();
            assert!(refused.contains("is ahead") && refused.contains("\"json_p_1\""), "{refused}");
        }
        // Of another database, or another program.
        for last in [last(2, "json_p_1", 0x200, 3), Last::Message(None), Last::Message(Some("x".into()))] {
            assert!(slot.follow(&last, 1, false, false).is_err());
        }
    }
}
