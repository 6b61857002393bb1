//! Storing rights, and the attributes of roles.
//!
//! Neither has a latch. An object's row under the key `8 class object` has the number of what is stored of it. A change
//! reads the row, which has to have the number that the transaction's catalog has, and writes another one. So of two
//! changes at the same time one loses (40001), as does one that comes before the first is published. A role that is
//! dropped is not named by any such row: the transaction that drops it reads them all.

use std::collections::BTreeSet;

use ermine::{KeyBuffer, OwnedTransaction};

use super::{
    BY_NUMBER, Catalog, CatalogStore, RIGHTS,
    comments::{PG_AUTHID, PG_DEFAULT_ACL},
    definition::{ObjectId, RoleDef},
    key_of, not_shown,
};
use crate::{
    error::Result,
    failure::EngineResult as _,
    storage::{RawKey, RawRange},
};

/// The key of an object's rights.
fn key_of_rights(class: u32, object: ObjectId) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(&[RIGHTS]);
    key.extend_from_slice(&class.to_be_bytes());
    key.extend_from_slice(&object.to_be_bytes());
    key
}

impl CatalogStore {
    /// Replaces the stored rights of an object, or the attributes of a role: `known` is the number of those that the
    /// transaction knows, `new` that of the new ones.
    pub(crate) fn take_rights(
        &self,
        txn: &OwnedTransaction,
        (class, object): (u32, ObjectId),
        known: Option<ObjectId>,
        new: Option<ObjectId>,
    ) -> Result<()> {
        let key = key_of_rights(class, object);
        let stored = txn.get(&self.rows, &key[..]).sql()?;
        let stored = stored.and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
        if stored != known {
            return Err(not_shown("rights"));
        }
        match new {
            Some(new) => txn.put(&self.rows, &key[..], &new.to_be_bytes()[..]).sql(),
            None => txn.delete(&self.rows, &key[..]).map(drop).sql(),
        }
    }

    /// Makes sure that a role that gets rights stays: reads the role's row where reads count, and otherwise writes it
    /// back.
    pub(crate) fn use_role(&self, txn: &OwnedTransaction, role: &RoleDef, reads_count: bool) -> Result<()> {
        let key = key_of(role.row);
        match txn.get(&self.rows, &key[..]).sql()? {
            None => Err(not_shown(&role.name)),
            Some(_) if reads_count => Ok(()),
            Some(bytes) => txn.update(&self.rows, &key[..], &bytes[..]).map(drop).sql(),
        }
    }

    /// Checks that a role to be dropped gets no rights that are not published yet. No other transaction may give it any
    /// meanwhile.
    pub(crate) fn watch_rights(&self, txn: &OwnedTransaction, known: &Catalog) -> Result<()> {
        let rights = known.rights.iter().map(|((class, object), rights)| (key_of_rights(*class, *object), rights.id));
        let traits = known.traits.iter().map(|(role, traits)| (key_of_rights(PG_AUTHID, *role), traits.id));
        let defaults = known.default_rights.iter();
        let defaults = defaults.map(|(role, rights)| (key_of_rights(PG_DEFAULT_ACL, *role), rights.id));
        let known: BTreeSet<(Vec<u8>, u32)> =
            rights.chain(traits).chain(defaults).map(|(key, id)| (key.to_vec(), id)).collect();
        let prefix = RawRange::prefix(KeyBuffer::from_slice(&[RIGHTS]));
        let stored = txn.scan(&self.rows, prefix).collect().sql()?;
        debug_assert_ne!(RIGHTS, BY_NUMBER);
        let is_known = |(RawKey(key), bytes): &(RawKey, Vec<u8>)| {
            let number = <[u8; 4]>::try_from(&bytes[..]).map(u32::from_be_bytes);
            number.is_ok_and(|number| known.contains(&(key.to_vec(), number)))
        };
        match stored.iter().all(is_known) {
            true => Ok(()),
            false => Err(not_shown("rights")),
        }
    }
}
