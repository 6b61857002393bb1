//! Changes of lists of rights: GRANT, REVOKE, and new owners. The rules are those of PostgreSQL's `aclupdate`.
//!
//! Of each pair of receiver and grantor a list has at most one entry, which is not empty. A right that a role has
//! granted depends on its own option to grant it: when that is lost, so are the rights that it has granted.

use super::{
    definition::{Grant, ObjectId},
    rights::{EVERYONE, Rights},
};
use crate::error::{Result, SqlError, SqlState};

/// Rights that are granted or revoked.
#[derive(Clone, Copy)]
pub(crate) struct Delta {
    pub(crate) role: ObjectId,
    pub(crate) grantor: ObjectId,
    pub(crate) rights: Rights,
    pub(crate) options: Rights,
}

/// A list that is changed, and the owner of its object.
pub(crate) struct Granting<'l> {
    pub(crate) list: &'l mut Vec<Grant>,
    pub(crate) owner: ObjectId,
    /// Whether rights that depend on revoked ones are revoked, too (CASCADE).
    pub(crate) cascades: bool,
}

impl Granting<'_> {
    /// Grants rights.
    pub(crate) fn grant(&mut self, delta: Delta) -> Result<()> {
        if !delta.options.is_empty() && delta.role != self.owner {
            self.check_circle(delta)?;
        }
        let entry = self.entry(delta);
        entry.rights = entry.rights | delta.rights;
        entry.options = entry.options | delta.options;
        self.tidy();
        Ok(())
    }

    /// Revokes rights, and the options to grant them.
    pub(crate) fn revoke(&mut self, delta: Delta) -> Result<()> {
        let entry = self.entry(delta);
        let lost = entry.options & delta.options;
        entry.rights = entry.rights.without(delta.rights);
        entry.options = entry.options.without(delta.options);
        self.tidy();
        if lost.is_empty() { Ok(()) } else { self.revoke_dependent(delta.role, lost) }
    }

    fn entry(&mut self, Delta { role, grantor, .. }: Delta) -> &mut Grant {
        let known = self.list.iter().position(|grant| (grant.role, grant.grantor) == (role, grantor));
        let at = known.unwrap_or_else(|| {
            self.list.push(Grant { role, grantor, rights: Rights::NONE, options: Rights::NONE });
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    fn tidy(&mut self) {
        self.list.retain(|grant| !(grant.rights | grant.options).is_empty());
    }

    /// Returns the rights that a role may grant, by the list alone.
    fn options_of(&self, role: ObjectId) -> Rights {
        if role == self.owner {
            return !Rights::NONE;
        }
        let own = self.list.iter().filter(|grant| grant.role == role || grant.role == EVERYONE);
        own.fold(Rights::NONE, |options, grant| options | grant.options)
    }

    /// Revokes what a role has granted and may not grant any more.
    fn revoke_dependent(&mut self, grantor: ObjectId, lost: Rights) -> Result<()> {
        let lost = lost.without(self.options_of(grantor));
        if lost.is_empty() || grantor == self.owner {
            return Ok(());
        }
        while let Some(dependent) =
            self.list.iter().find(|grant| grant.grantor == grantor && !(grant.rights & lost).is_empty()).copied()
        {
            if !self.cascades {
                return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, "dependent privileges exist")
                    .hint("Use CASCADE to revoke them too."));
            }
            self.revoke(Delta { role: dependent.role, grantor, rights: lost, options: lost })?;
        }
        Ok(())
    }

    /// Fails if a role would get the option to grant a right from a role that has it from that role.
    fn check_circle(&self, delta: Delta) -> Result<()> {
        if delta.grantor == self.owner {
            return Ok(());
        }
        let mut left: Vec<Grant> = self.list.clone();
        let mut rest = Granting { list: &mut left, owner: self.owner, cascades: true };
        // Without all that the receiver has, and has granted, the grantor must still be able to grant.
        while let Some(own) =
            rest.list.iter().find(|grant| grant.role == delta.role && !grant.options.is_empty()).copied()
        {
            let (role, grantor) = (own.role, own.grantor);
            rest.revoke(Delta { role, grantor, rights: own.options, options: own.options })?;
        }
        if rest.options_of(delta.grantor).has(delta.options) {
            return Ok(());
        }
        let message = "grant options cannot be granted back to your own grantor";
        Err(SqlError::new(SqlState("0LP01"), message))
    }
}

/// Makes a list that of another owner: it gets what the old one had, and has granted what that had granted.
pub(crate) fn change_owner(list: &mut Vec<Grant>, old: ObjectId, new: ObjectId) {
    let other = |role: ObjectId| if role == old { new } else { role };
    let before = std::mem::take(list);
    for grant in before {
        let grant = Grant { role: other(grant.role), grantor: other(grant.grantor), ..grant };
        match list.iter_mut().find(|known| (known.role, known.grantor) == (grant.role, grant.grantor)) {
            Some(known) => {
                known.rights = known.rights | grant.rights;
                known.options = known.options | grant.options;
            }
            None => list.push(grant),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: ObjectId = 1;

    fn delta(role: ObjectId, grantor: ObjectId, options: Rights) -> Delta {
        Delta { role, grantor, rights: Rights::SELECT, options }
    }

    #[test]
    fn a_lost_option_takes_what_depends_on_it() {
        let mut list = Vec::new();
        let mut granting = Granting { list: &mut list, owner: OWNER, cascades: false };
        granting.grant(delta(2, OWNER, Rights::SELECT)).unwrap();
        granting.grant(delta(3, 2, Rights::SELECT)).unwrap();
        granting.grant(delta(4, 3, Rights::NONE)).unwrap();
        let before = granting.list.clone();
        let refused = granting.revoke(delta(2, OWNER, Rights::SELECT)).unwrap_err();
        assert_eq!(refused.state(), SqlState::DEPENDENT_OBJECTS_STILL_EXIST);
        *granting.list = before;
        granting.cascades = true;
        granting.revoke(delta(2, OWNER, Rights::SELECT)).unwrap();
        assert!(list.is_empty());
    }

    #[test]
    fn what_comes_from_elsewhere_stays() {
        let mut list = Vec::new();
        let mut granting = Granting { list: &mut list, owner: OWNER, cascades: false };
        granting.grant(delta(2, OWNER, Rights::SELECT)).unwrap();
        granting.grant(delta(3, OWNER, Rights::SELECT)).unwrap();
        granting.grant(delta(2, 3, Rights::SELECT)).unwrap();
        granting.grant(delta(4, 2, Rights::NONE)).unwrap();
        granting.revoke(delta(2, OWNER, Rights::SELECT)).unwrap();
        assert!(list.iter().any(|grant| grant.role == 4));
    }

    #[test]
    fn options_do_not_go_in_circles() {
        let mut list = Vec::new();
        let mut granting = Granting { list: &mut list, owner: OWNER, cascades: false };
        granting.grant(delta(2, OWNER, Rights::SELECT)).unwrap();
        granting.grant(delta(3, 2, Rights::SELECT)).unwrap();
        assert_eq!(granting.grant(delta(2, 3, Rights::SELECT)).unwrap_err().state(), SqlState("0LP01"));
    }

    #[test]
    fn a_new_owner_has_what_the_old_one_had() {
        let mut list = Vec::new();
        let mut granting = Granting { list: &mut list, owner: OWNER, cascades: false };
        granting.grant(delta(OWNER, OWNER, Rights::NONE)).unwrap();
        granting.grant(delta(2, OWNER, Rights::SELECT)).unwrap();
        change_owner(&mut list, OWNER, 2);
        let grant = Grant { role: 2, grantor: 2, rights: Rights::SELECT, options: Rights::SELECT };
        assert_eq!(list, [grant]);
    }
}
