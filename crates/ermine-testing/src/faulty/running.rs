//! The directory as the running process sees it, and the record of the operations that led to that state.
//!
//! 1. Every operation that may change something asks the faults first, and is recorded afterwards, also if it failed;
//!    refusals that need no device, such as a name that is taken, are not.
//! 2. The record, replayed over `start`, yields the content of `files` and `names`.

use std::io;

use super::{
    super::{Open, failure::check_name},
    content::Content,
    disk::{Disk, FileNumber, Names},
    fault::{Attempt, Fault, Faults, system},
    trace::{Marks, Operation},
};

/// Upper bound of a file's length; a device has a limited size.
const LENGTH_MAX: u64 = 1 << 32;

/// The directory as the running process sees it, and how it got there.
#[derive(Default)]
pub(super) struct State {
    /// By file number.
    pub(super) files: Vec<Running>,
    pub(super) names: Names,
    /// The disk before the first operation.
    start: Disk,
    operations: Vec<Operation>,
    marks: Marks,
    pub(super) faults: Faults,
}

/// One file as the running process sees it.
pub(super) struct Running {
    pub(super) content: Content,
    /// The file's current or last name: for messages and faults.
    pub(super) name: String,
}

impl State {
    /// Returns a state with these files, without a past.
    pub(super) fn with(names: Names, contents: Vec<Content>) -> Self {
        let unnamed = |content| Running { content, name: String::new() };
        let mut files: Vec<Running> = contents.into_iter().map(unnamed).collect();
        names.iter().for_each(|(name, file)| files[file.0].name.clone_from(name));
        let mut state = Self { files, names, ..Self::default() };
        state.settle();
        state
    }

    /// Returns the state that began as `start` says, after these operations.
    pub(super) fn resumed(start: Disk, operations: Vec<Operation>, marks: Marks) -> Self {
        let unnamed = |content| Running { content, name: String::new() };
        let mut files: Vec<Running> = start.files.iter().map(|file| unnamed(file.durable.clone())).collect();
        let mut names = start.names.clone();
        for operation in &operations {
            match operation {
                Operation::Create { .. } => files.push(unnamed(Content::default())),
                Operation::Write { file, .. } | Operation::SetLength { file, .. } => {
                    operation.change(&mut files[file.0].content);
                }
                _ => {}
            }
            operation.edit(&mut names);
        }
        names.iter().for_each(|(name, file)| files[file.0].name.clone_from(name));
        Self { files, names, start, operations, marks, ..Self::default() }
    }

    pub(super) fn operations(&self) -> usize {
        self.operations.len()
    }

    pub(super) fn mark(&mut self, what: u64) {
        self.marks.add(what, self.operations.len());
    }

    /// Returns the start, the operations and the marks.
    pub(super) fn record(&self) -> (Disk, Vec<Operation>, Marks) {
        (self.start.clone(), self.operations.clone(), self.marks.clone())
    }

    pub(super) fn settle(&mut self) {
        self.start = Disk::at_rest(self.files.iter().map(|file| &file.content), self.names.clone());
        self.operations.clear();
        self.marks = Marks::default();
    }

    pub(super) fn find(&self, name: &str) -> io::Result<FileNumber> {
        self.names.get(name).copied().ok_or_else(|| system::NOT_FOUND.error())
    }

    /// Records an operation that is about to change names, unless it is to fail.
    fn change_names(&mut self, attempt: Attempt<'_>, operation: Operation) -> io::Result<()> {
        if let Some(fault) = self.faults.strike(self.operations.len(), attempt) {
            return Err(self.refuse(fault));
        }
        operation.edit(&mut self.names);
        self.operations.push(operation);
        Ok(())
    }

    /// Records an operation that fails without having changed anything, and returns its error.
    fn refuse(&mut self, fault: Fault) -> io::Error {
        if fault != Fault::Gone {
            self.operations.push(Operation::Failed);
        }
        fault.error()
    }

    pub(super) fn open(&mut self, name: &str, how: Open) -> io::Result<FileNumber> {
        check_name(name)?;
        self.faults.check_machine()?;
        if how != Open::Create {
            return self.find(name);
        }
        if self.names.contains_key(name) {
            return Err(system::EXISTS.error());
        }
        let file = FileNumber(self.files.len());
        self.change_names(Attempt::Create(name), Operation::Create { name: name.into(), file })?;
        self.files.push(Running { content: Content::default(), name: name.into() });
        Ok(file)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.faults.check_machine()?;
        let file = self.find(from)?;
        self.change_names(Attempt::Rename { from, to }, Operation::Rename { from: from.into(), to: to.into(), file })?;
        self.files[file.0].name = to.into();
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        check_name(name)?;
        self.faults.check_machine()?;
        self.find(name)?;
        self.change_names(Attempt::Remove(name), Operation::Remove { name: name.into() })
    }

    pub(super) fn sync_directory(&mut self) -> io::Result<()> {
        let fault = self.faults.strike(self.operations.len(), Attempt::SyncDirectory);
        if fault != Some(Fault::Gone) {
            self.operations.push(Operation::SyncDirectory { succeeded: fault.is_none() });
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    pub(super) fn sync(&mut self, file: FileNumber) -> io::Result<()> {
        let fault = self.faults.strike(self.operations.len(), Attempt::Sync(&self.files[file.0].name));
        if fault != Some(Fault::Gone) {
            self.operations.push(Operation::Sync { file, succeeded: fault.is_none() });
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    pub(super) fn write(&mut self, file: FileNumber, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.faults.check_machine()?;
        if bytes.is_empty() {
            return Ok(());
        }
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > LENGTH_MAX) {
            return Err(system::NO_SPACE.error());
        }
        let running = &mut self.files[file.0];
        let attempt = Attempt::Write { name: &running.name, offset, bytes: bytes.len() };
        let fault = self.faults.strike(self.operations.len(), attempt);
        let written = match fault {
            None => bytes,
            Some(Fault::Short(first)) if first > 0 => &bytes[..first.min(bytes.len())],
            Some(fault) => return Err(self.refuse(fault)),
        };
        running.content.write(offset, written);
        self.operations.push(Operation::Write { file, offset, bytes: written.into() });
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    pub(super) fn set_length(&mut self, file: FileNumber, bytes: u64) -> io::Result<()> {
        self.faults.check_machine()?;
        if bytes > LENGTH_MAX {
            return Err(system::NO_SPACE.error());
        }
        let running = &mut self.files[file.0];
        let attempt = Attempt::SetLength { name: &running.name, bytes };
        if let Some(fault) = self.faults.strike(self.operations.len(), attempt) {
            return Err(self.refuse(fault));
        }
        running.content.set_length(bytes);
        self.operations.push(Operation::SetLength { file, bytes });
        Ok(())
    }
}
