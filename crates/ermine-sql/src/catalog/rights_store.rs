//! Storing rights, and the attributes of roles.
//!
//! Neither has a latch. An object's row under the key `8 class object` has the number of what is stored of it. A change
//! reads the row, which has to have the number that the transaction's catalog has, and writes another one. So of two
//! changes at the same time one loses (40001), as does one that comes before the first is published. A role that is
//! dropped is not named by any such row: the transaction that drops it reads them all.

use std::{collections::BTreeSet, sync::Arc};

use ermine::{KeyBuffer, OwnedTransaction};

use super::{
    Catalog, CatalogStore, MAIN_DATABASE, OF_DATABASE, RIGHTS,
    comments::{PG_AUTHID, PG_DEFAULT_ACL},
    definition::{ObjectId, RoleDef, is_shared_class},
    key_of, key_of_database, not_shown,
};
use crate::{
    error::Result,
    failure::EngineResult as _,
    storage::{RawKey, RawRange},
};

/// The key of the rights of an object of a database.
fn key_of_rights(database: ObjectId, class: u32, object: ObjectId) -> KeyBuffer {
    let mut key = key_of_database(if is_shared_class(class) { MAIN_DATABASE } else { database }, RIGHTS);
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
        let key = key_of_rights(self.number, class, object);
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

    /// Checks that a role to be dropped gets no rights that are not published yet, in the databases with these catalogs,
    /// which are all. No other transaction may give it any meanwhile.
    pub(crate) fn watch_rights(&self, txn: &OwnedTransaction, known: &[Arc<Catalog>]) -> Result<()> {
        let mut all: BTreeSet<(Vec<u8>, u32)> = BTreeSet::new();
        for known in known {
            let key = |class, object| key_of_rights(known.number, class, object).to_vec();
            all.extend(known.rights.iter().map(|((class, object), rights)| (key(*class, *object), rights.id)));
            all.extend(known.traits.iter().map(|(role, traits)| (key(PG_AUTHID, *role), traits.id)));
            all.extend(known.default_rights.iter().map(|(role, rights)| (key(PG_DEFAULT_ACL, *role), rights.id)));
        }
        let mut stored = Vec::new();
        for kind in [RIGHTS, RIGHTS | OF_DATABASE] {
            stored.extend(txn.scan(&self.rows, RawRange::prefix(KeyBuffer::from_slice(&[kind]))).collect().sql()?);
        }
        let is_known = |(RawKey(key), bytes): &(RawKey, Vec<u8>)| {
            let number = <[u8; 4]>::try_from(&bytes[..]).map(u32::from_be_bytes);
            number.is_ok_and(|number| all.contains(&(key.to_vec(), number)))
        };
        match stored.iter().all(is_known) {
            true => Ok(()),
            false => Err(not_shown("rights")),
        }
    }
}
