//! A map behind a reader-writer lock: what a program has without an engine. No versions, no rollback.

use std::{collections::BTreeMap, ops::Range, sync::RwLock};

use super::{Body, Engine, Lost, Place, Session, Transaction};

type Rows = BTreeMap<u64, Box<[u8]>>;

#[derive(Default)]
pub struct Locked(RwLock<Rows>);

impl Locked {
    pub fn open(place: &Place) -> Self {
        place.assert_in_memory();
        Self::default()
    }
}

impl Engine for Locked {
    fn session(&self) -> Box<dyn Session + '_> {
        Box::new(self)
    }
}

impl Session for &Locked {
    fn get(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) {
        look(&self.0.read().expect("no thread panicked")[&key]);
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) {
        let rows = self.0.read().expect("no thread panicked");
        rows.range(keys).take(limit).for_each(|(key, value)| visit(*key, value));
    }

    fn transact(&mut self, body: &mut Body<'_>) -> u64 {
        let mut rows = self.0.write().expect("no thread panicked");
        assert!(body(&mut *rows).is_ok(), "the only writer loses no conflict");
        0
    }
}

impl Transaction for Rows {
    fn read(&mut self, key: u64, look: &mut dyn FnMut(&[u8])) -> Result<(), Lost> {
        look(&self[&key]);
        Ok(())
    }

    fn write(&mut self, key: u64, value: &[u8]) -> Result<(), Lost> {
        match self.get_mut(&key) {
            // In place, as a program would.
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            _ => drop(self.insert(key, value.into())),
        }
        Ok(())
    }

    fn scan(&mut self, keys: Range<u64>, limit: usize, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        self.range(keys).take(limit).for_each(|(key, value)| visit(*key, value));
        Ok(())
    }
}
