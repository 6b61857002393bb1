//! A directory in which a database can be opened for inspection, without changing the directory.
//!
//! Files are read where they are. All writes, creations, renames and removals stay in memory and are dropped with the
//! overlay. So a program that checks a database can recover and read it, and the files remain as they were.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use super::{Directory, File, Open, failure::check_name};

const PAGE_BYTES: u64 = 4096;

/// A directory in front of another one.
#[derive(Debug)]
pub struct OverlayDirectory {
    below: Arc<dyn Directory>,
    /// Differences to the directory below, by name; `None`: the file was removed.
    names: Mutex<BTreeMap<String, Option<Arc<OverlayFile>>>>,
}

/// A file that was opened for writing, or created.
#[derive(Debug)]
struct OverlayFile {
    content: Mutex<Content>,
}

#[derive(Debug)]
struct Content {
    /// The file below, and the length of its visible part.
    below: Option<(Arc<dyn File>, u64)>,
    /// Pages that were written, by their numbers.
    pages: HashMap<u64, Box<[u8]>>,
    length: u64,
}

impl OverlayDirectory {
    /// Creates an overlay over `below`, which stays unchanged.
    pub fn new(below: Arc<dyn Directory>) -> Self {
        Self { below, names: Mutex::default() }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Option<Arc<OverlayFile>>>> {
        self.names.lock().expect("no code panics while it holds the names")
    }

    /// Returns the file of a name, with a copy of its own from now on.
    fn own(&self, name: &str) -> io::Result<Arc<OverlayFile>> {
        match self.names().get(name) {
            Some(Some(file)) => return Ok(file.clone()),
            Some(None) => return Err(io::ErrorKind::NotFound.into()),
            None => {}
        }
        let file = self.below.open(name, Open::Read)?;
        let length = file.length()?;
        let own = Arc::new(OverlayFile::with(Some((file, length)), length));
        self.names().insert(name.into(), Some(own.clone()));
        Ok(own)
    }
}

impl Directory for OverlayDirectory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut listed = self.below.list()?;
        let names = self.names();
        listed.retain(|name| !names.contains_key(name));
        listed.extend(names.iter().filter(|(_, file)| file.is_some()).map(|(name, _)| name.clone()));
        Ok(listed)
    }

    fn open(&self, name: &str, how: Open) -> io::Result<Arc<dyn File>> {
        check_name(name)?;
        match how {
            Open::Read if !self.names().contains_key(name) => self.below.open(name, how),
            Open::Read | Open::Write => Ok(self.own(name)?),
            Open::Create if self.list()?.iter().any(|there| there == name) => Err(io::ErrorKind::AlreadyExists.into()),
            Open::Create => {
                let file = Arc::new(OverlayFile::with(None, 0));
                self.names().insert(name.into(), Some(file.clone()));
                Ok(file)
            }
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        check_name(to)?;
        let file = self.own(from)?;
        let mut names = self.names();
        names.insert(from.into(), None);
        names.insert(to.into(), Some(file));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if !self.list()?.iter().any(|there| there == name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.names().insert(name.into(), None);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn path(&self) -> String {
        self.below.path()
    }
}

impl OverlayFile {
    fn with(below: Option<(Arc<dyn File>, u64)>, length: u64) -> Self {
        Self { content: Mutex::new(Content { below, pages: HashMap::new(), length }) }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no code panics while it holds the content")
    }
}

impl Content {
    /// Returns a page of the visible part of the file below, with zeros behind that part.
    fn page_below(&self, page: u64) -> io::Result<Box<[u8]>> {
        let mut bytes = vec![0; PAGE_BYTES as usize].into_boxed_slice();
        if let Some((file, shown)) = &self.below {
            let shown = shown.saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES) as usize;
            file.read_at(page * PAGE_BYTES, &mut bytes[..shown])?;
        }
        Ok(bytes)
    }

    fn set_length(&mut self, length: u64) {
        if length < self.length {
            self.below.iter_mut().for_each(|(_, shown)| *shown = (*shown).min(length));
            self.pages.retain(|page, _| page * PAGE_BYTES < length);
            if let Some(page) = self.pages.get_mut(&(length / PAGE_BYTES)) {
                page[(length % PAGE_BYTES) as usize..].fill(0);
            }
        }
        self.length = length;
    }
}

/// Splits a range into pages: page number, the place in it, bytes.
fn pages(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + bytes as u64;
    let first = offset / PAGE_BYTES;
    (first..end.div_ceil(PAGE_BYTES)).map(move |page| {
        let from = offset.max(page * PAGE_BYTES);
        let to = end.min((page + 1) * PAGE_BYTES);
        (page, (from % PAGE_BYTES) as usize, (to - from) as usize)
    })
}

impl File for OverlayFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut content = self.content();
        let mut rest = bytes;
        for (page, at, count) in pages(offset, bytes.len()) {
            let (some, more) = rest.split_at(count);
            if !content.pages.contains_key(&page) {
                let below = content.page_below(page)?;
                content.pages.insert(page, below);
            }
            content.pages.get_mut(&page).expect("just put there")[at..at + count].copy_from_slice(some);
            rest = more;
        }
        content.length = content.length.max(offset + bytes.len() as u64);
        Ok(())
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let content = self.content();
        let bytes = content.length.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut done = 0;
        for (page, at, count) in pages(offset, bytes) {
            let into = &mut into[done..done + count];
            match content.pages.get(&page) {
                Some(page) => into.copy_from_slice(&page[at..at + count]),
                None => into.copy_from_slice(&content.page_below(page)?[at..at + count]),
            }
            done += count;
        }
        Ok(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.content().length)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.content().set_length(bytes);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::faulty::FaultyDirectory, *};

    fn content(file: &dyn File) -> Vec<u8> {
        let mut bytes = vec![9; file.length().unwrap() as usize + 10];
        let read = file.read_at(0, &mut bytes).unwrap();
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn it_behaves_as_a_directory_does_and_leaves_the_one_below_alone() {
        let below = FaultyDirectory::new();
        let model = FaultyDirectory::new();
        let mut random = fastrand::Rng::with_seed(11);
        for name in ["a", "b"] {
            let bytes: Vec<u8> = (0..10_000).map(|_| random.u8(..)).collect();
            [&below, &model].iter().for_each(|to| to.open(name, Open::Create).unwrap().write_at(0, &bytes).unwrap());
        }
        let before = below.operations();
        let overlay = OverlayDirectory::new(Arc::new(below.clone()));
        for _ in 0..2000 {
            let name = ["a", "b", "c", "d"][random.usize(..4)];
            let (one, other): (io::Result<Arc<dyn File>>, _) = match random.u8(..20) {
                0 => (overlay.open(name, Open::Create), model.open(name, Open::Create)),
                1 => {
                    assert_eq!(overlay.remove(name).is_ok(), model.remove(name).is_ok());
                    continue;
                }
                2 => {
                    assert_eq!(overlay.rename(name, "c").is_ok(), model.rename(name, "c").is_ok());
                    continue;
                }
                _ => (overlay.open(name, Open::Write), model.open(name, Open::Write)),
            };
            assert_eq!(one.is_ok(), other.is_ok());
            let (Ok(one), Ok(other)) = (one, other) else { continue };
            let (offset, bytes) = (random.u64(..15_000), vec![random.u8(..); random.usize(..6000)]);
            if random.u8(..4) == 0 {
                [&one, &other].iter().for_each(|file| file.set_length(offset).unwrap());
            } else {
                [&one, &other].iter().for_each(|file| file.write_at(offset, &bytes).unwrap());
            }
            assert!(content(&*one) == content(&*other));
            let (mut listed, mut expected) = (overlay.list().unwrap(), model.list().unwrap());
            listed.sort();
            expected.sort();
            assert_eq!(listed, expected);
        }
        assert_eq!(below.operations(), before);
    }
}
