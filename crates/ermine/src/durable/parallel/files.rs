//! Classifies the files of a database, and distinguishes the two families of databases.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
};

use super::{
    super::{
        recovery::{check_finished, said_of},
        store::storage,
    },
    image::Manifest,
};
use crate::{
    error::{Error, Result},
    log::{
        identity::Said,
        parallel::{
            file::{FileName, Records},
            pepoch::{self, Persistent},
        },
    },
    options::{Options, Scheme},
    platform::file::{Directory, real::RealDirectory, sync_guard::SyncGuardedDirectory},
};

/// The directories of a database: its own, and one per device (which may be the same).
pub(crate) struct Places {
    pub(crate) directory: Arc<dyn Directory>,
    pub(crate) devices: Vec<Arc<dyn Directory>>,
    /// Contents of the identity file; `None`: the database is new, or an earlier program's.
    pub(crate) said: Option<Said>,
}

impl Places {
    pub(crate) fn open(directory: &Arc<dyn Directory>, options: &Options) -> Result<Self> {
        Self::with(directory, options, |path| RealDirectory::create(path))
    }

    /// Like [`open`](Self::open), for reading only: no directory is created.
    pub(crate) fn open_to_look(directory: &Arc<dyn Directory>, options: &Options) -> Result<Self> {
        Self::with(directory, options, |path| RealDirectory::open(path))
    }

    fn with(
        directory: &Arc<dyn Directory>,
        options: &Options,
        real: impl Fn(&Path) -> io::Result<RealDirectory>,
    ) -> Result<Self> {
        let guarded =
            |directory: Arc<dyn Directory>| -> Arc<dyn Directory> { Arc::new(SyncGuardedDirectory::new(directory)) };
        let directory = guarded(directory.clone());
        let mut devices: Vec<_> = options.log_directories_in.iter().cloned().map(guarded).collect();
        for path in &options.log_directories {
            devices.push(guarded(Arc::new(real(path).map_err(storage)?)));
        }
        if devices.is_empty() {
            devices.push(directory.clone());
        }
        let said = said_of(&*directory)?;
        Ok(Self { directory, devices, said })
    }
}

/// A family of databases, by the kind of their rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    Versions,
    InPlace,
}

impl Family {
    fn of_file(name: &str) -> Option<Self> {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if begins(&["log-", "checkpoint-", "marker-", "cold-", "blob-"]) {
            Some(Self::Versions)
        } else if begins(&["redo-", "pepoch-", "rows-", "manifest-"]) {
            Some(Self::InPlace)
        } else {
            None
        }
    }

    fn of_scheme(scheme: Scheme) -> Self {
        if scheme.has_versions() { Self::Versions } else { Self::InPlace }
    }
}

/// Fails when a directory holds a database that the scheme cannot open.
pub(crate) fn check_family(directory: &dyn Directory, names: &[String], scheme: Scheme) -> Result<()> {
    let family = Family::of_scheme(scheme);
    let Some(found) = names.iter().filter_map(|name| Family::of_file(name)).find(|found| *found != family) else {
        return Ok(());
    };
    let fitting = Scheme::ALL.into_iter().filter(|fitting| Family::of_scheme(*fitting) == found);
    let fitting: Vec<_> = fitting.map(Scheme::name).collect();
    let (path, rows) = (directory.path(), if found == Family::Versions { "several versions" } else { "one version" });
    Err(Error::Storage(format!(
        "{path} holds a database whose rows have {rows}: it cannot be opened under {scheme}, only under {}",
        fitting.join(", ")
    )))
}

/// The role of a checkpoint's file, by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Rows of the checkpoint that began in this epoch; the number of the file.
    Rows(u64, u32),
    Manifest(u64),
    /// A manifest that does not count yet.
    Unfinished(u64),
}

impl Role {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Rows(epoch, number) => format!("rows-{epoch:016x}-{number:04x}"),
            Self::Manifest(epoch) => format!("manifest-{epoch:016x}"),
            Self::Unfinished(epoch) => format!("manifest-{epoch:016x}.part"),
        }
    }

    pub(in crate::durable) fn parse(name: &str) -> Option<Self> {
        let epoch = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let role = if let Some((of, number)) = name.strip_prefix("rows-").and_then(|rest| rest.split_once('-')) {
            Self::Rows(epoch(of)?, u32::from_str_radix(number, 16).ok()?)
        } else {
            let rest = name.strip_prefix("manifest-")?;
            rest.strip_suffix(".part")
                .map_or_else(|| epoch(rest).map(Self::Manifest), |of| epoch(of).map(Self::Unfinished))?
        };
        (role.name() == name).then_some(role)
    }
}

/// Returns a scheme that can read the rows in a directory with these files: `scheme`, if it can.
pub(crate) fn readable_under(names: &[String], scheme: Scheme) -> Scheme {
    let found = names.iter().find_map(|name| Family::of_file(name));
    let can_read = |scheme: &Scheme| found.is_none_or(|found| Family::of_scheme(*scheme) == found);
    std::iter::once(scheme).chain(Scheme::ALL).find(can_read).unwrap_or(scheme)
}

/// Whether a directory with these files holds a database of a single-version scheme.
pub(crate) fn is_in_place(names: &[String]) -> bool {
    names.iter().any(|name| Family::of_file(name) == Some(Family::InPlace))
}

/// Fails for a directory that only single-version schemes can use.
pub(crate) fn refuse_in_place(directory: &dyn Directory, names: &[String]) -> Result<()> {
    if is_in_place(names) {
        let path = directory.path();
        return Err(Error::Storage(format!(
            "{path} holds a database whose rows have one version: that is not supported for such databases"
        )));
    }
    Ok(())
}

/// A file of the log that is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Redo {
    pub(super) device: usize,
    pub(super) name: FileName,
    /// The offset up to which it must be whole.
    pub(super) whole: u64,
    /// The greatest epoch that counts.
    pub(super) limit: u64,
}

/// The files of a database.
#[derive(Default)]
pub(super) struct Found {
    /// The files of the log that count, newest first.
    pub(super) redo: Vec<Redo>,
    /// The newest checkpoint.
    pub(super) manifest: Option<Manifest>,
    /// The persistent epochs of generations that have one.
    pub(super) persistent: BTreeMap<u32, Persistent>,
    /// The highest number of a generation, and the highest epoch that was persistent.
    pub(super) generation: u32,
    pub(super) epoch: u64,
    /// Files that do not count, with their device; `None`: in the database's own directory.
    pub(super) leftovers: Vec<(Option<usize>, String)>,
}

/// Classifies all files by their names.
pub(super) fn find(places: &Places, scheme: Scheme) -> Result<Found> {
    let names = places.directory.list().map_err(storage)?;
    check_family(&*places.directory, &names, scheme)?;
    check_finished(&*places.directory, &names)?;
    let roles = |names: &[String]| names.iter().filter_map(|name| Role::parse(name)).collect::<Vec<_>>();
    let mut found = Found { manifest: newest_manifest(&*places.directory, &names, places.said)?, ..Found::default() };
    let counts = found.manifest.as_ref().map(|manifest| manifest.epoch);
    for role in roles(&names) {
        if !matches!(role, Role::Rows(..)) && Some(role) != counts.map(Role::Manifest) {
            found.leftovers.push((None, role.name()));
        }
    }
    found.generation = found.manifest.as_ref().map_or(0, |manifest| manifest.generation);
    let mut unread = Vec::new();
    for generation in names.iter().filter_map(|name| pepoch::generation_of(name)) {
        found.generation = found.generation.max(generation);
        match pepoch::read(&*places.directory, generation, places.said).map_err(storage)? {
            Some(persistent) => drop(found.persistent.insert(generation, persistent)),
            None => unread.push(generation),
        }
    }
    let last = found.manifest.as_ref().map_or(0, |manifest| manifest.last_epoch);
    found.epoch = found.persistent.values().map(|persistent| persistent.epoch).fold(last, u64::max);
    let mut used = Vec::new();
    for (device, directory) in places.devices.iter().enumerate() {
        let names = directory.list().map_err(storage)?;
        check_family(&**directory, &names, scheme)?;
        let is_older = |role: &Role| matches!(role, Role::Rows(epoch, _) if Some(*epoch) != counts);
        found.leftovers.extend(roles(&names).into_iter().filter(is_older).map(|role| (Some(device), role.name())));
        for name in names.iter().filter_map(|name| FileName::parse(name)) {
            found.generation = found.generation.max(name.generation);
            if found.manifest.as_ref().is_some_and(|manifest| !manifest.needs(device, name)) {
                found.leftovers.push((Some(device), name.to_string()));
                continue;
            }
            used.push(name.generation);
            match found.persistent.get(&name.generation) {
                Some(persistent) => {
                    let (whole, limit) = (whole_to(places, device, name, persistent)?, persistent.epoch);
                    found.redo.push(Redo { device, name, whole, limit });
                }
                None => {
                    return Err(Error::Corrupt {
                        file: pepoch::name_of(name.generation),
                        offset: 0,
                        what: format!("it does not say what of {name} counts"),
                    });
                }
            }
        }
    }
    // The file of the newest generation stays until there is a later one: otherwise `check_newest` would report it
    // missing.
    let is_unused = |generation: &&u32| !used.contains(*generation) && Some(**generation) != newest_noted(places);
    for generation in found.persistent.keys().chain(&unread).filter(is_unused) {
        found.leftovers.push((None, pepoch::name_of(*generation)));
    }
    check_newest(places, &found)?;
    check_complete(places, &found)?;
    found.redo.sort_by_key(|redo| std::cmp::Reverse(redo.name));
    Ok(found)
}

/// The checkpoint that counts.
pub(crate) fn newest_manifest(
    directory: &dyn Directory,
    names: &[String],
    said: Option<Said>,
) -> Result<Option<Manifest>> {
    let epochs = names.iter().filter_map(|name| match Role::parse(name)? {
        Role::Manifest(epoch) => Some(epoch),
        _ => None,
    });
    epochs.max().map(|epoch| Manifest::read(directory, epoch, said)).transpose()
}

/// The offset up to which a file of the log must be whole. For the newest file, the file with its generation's
/// persistent epoch records it; for any other file, the file after it does. If that file is damaged or missing, the
/// check of that file reports it.
pub(crate) fn whole_to(places: &Places, device: usize, name: FileName, persistent: &Persistent) -> Result<u64> {
    let reach = persistent.reach.get(device).copied().unwrap_or_default();
    if name.sequence >= reach.sequence {
        return Ok(if name.sequence == reach.sequence { reach.bytes } else { 0 });
    }
    let next = FileName { sequence: name.sequence + 1, ..name };
    match Records::open(&*places.devices[device], next, places.said) {
        Ok((head, _)) => Ok(head.map_or(0, |head| head.before)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(storage(error)),
    }
}

/// The generation that was noted as the newest one with an acknowledged commit.
fn newest_noted(places: &Places) -> Option<u32> {
    u32::try_from(places.said?.newest.checked_sub(1)?).ok()
}

/// Fails if the generation that was noted as the newest is missing, unless a checkpoint of a later generation covers
/// all of it.
fn check_newest(places: &Places, found: &Found) -> Result<()> {
    let newest = newest_noted(places).filter(|newest| !found.persistent.contains_key(newest));
    let Some(newest) = newest else { return Ok(()) };
    if found.manifest.as_ref().is_some_and(|manifest| manifest.generation > newest) {
        return Ok(());
    }
    Err(Error::Corrupt { file: pepoch::name_of(newest), offset: 0, what: "it is missing, or was cut".into() })
}

/// Fails if a file that was whole is missing, from the first needed file on.
fn check_complete(places: &Places, found: &Found) -> Result<()> {
    let (generation, first) =
        found.manifest.as_ref().map_or((0, &[][..]), |manifest| (manifest.generation, &manifest.first));
    let there: BTreeSet<_> = found.redo.iter().map(|redo| (redo.device, redo.name)).collect();
    for (of, persistent) in found.persistent.range(generation..) {
        for (device, reach) in persistent.reach.iter().enumerate().filter(|(_, reach)| reach.sequence > 0) {
            let begin = if *of == generation { first.get(device).copied().unwrap_or(1).max(1) } else { 1 };
            for sequence in begin..=reach.sequence {
                let name = FileName { generation: *of, sequence };
                if !there.contains(&(device, name)) {
                    let is_named = device < places.devices.len();
                    let missing = if is_named { "it is missing" } else { "its log directory was not named" };
                    return Err(Error::Corrupt { file: name.to_string(), offset: 0, what: missing.into() });
                }
            }
        }
    }
    Ok(())
}

/// Removes files that do not count. Files of the log are removed before the files that say that they count.
pub(super) fn remove(places: &Places, leftovers: &[(Option<usize>, String)]) -> Result<()> {
    let of_devices = leftovers.iter().filter_map(|(device, name)| Some((&places.devices[(*device)?], name)));
    let own = leftovers.iter().filter(|(device, _)| device.is_none()).map(|(_, name)| (&places.directory, name));
    for files in [of_devices.collect::<Vec<_>>(), own.collect()] {
        for (directory, name) in &files {
            match directory.remove(name) {
                // Already used up: an unfinished manifest.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.map_err(storage)?,
            }
        }
        let mut synced: Vec<*const ()> = Vec::new();
        for (directory, _) in files {
            let address = Arc::as_ptr(directory).cast();
            if !synced.contains(&address) {
                synced.push(address);
                directory.sync().map_err(storage)?;
            }
        }
    }
    Ok(())
}
