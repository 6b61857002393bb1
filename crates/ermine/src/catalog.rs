//! Tables and their indexes as rows of a table: the catalog, which is logged and recovered like every other table.
//!
//! Key: the table's name. Value: version of the format, number, name, names of the key's and the value's types, the
//! known layouts of the values' bytes, kind of the primary index, and the secondary indexes in order of creation with
//! name, uniqueness, key type, version of the key function and kind. Numbers are varints, strings are preceded by their
//! length. Format 1 has neither layouts nor versions. Format 4, of tables with an index that was built over rows, says
//! of each index whether it was.
//!
//! Types are known by their names without paths (`Account`, `(u32, String)`): renaming a module changes nothing, and
//! renaming a type makes another schema of it, unless the type states the name under which it is stored.
//! [`ValueLayouts`] describes the bytes of a value type.

use std::{iter, ops::Range};

use crate::{
    error::{Error, Result},
    ids::TableId,
    index::IndexKind,
    log::record::{put_number, take_number},
    options::Uniqueness,
    types::{Framing, Value},
};

/// The catalog itself.
pub(crate) const CATALOG: TableId = TableId(0);

/// The catalog's name, which no other table has.
pub(crate) const CATALOG_NAME: &str = "ermine.catalog";

/// The key of the row that holds the numbers of dropped tables; no table has this name.
pub(crate) const DROPPED_NAME: &str = "ermine.dropped";
/// The table that records all sequences.
pub(crate) const SEQUENCES_NAME: &str = "ermine sequences";

/// The maximum number of tables in files that a database ever creates. A number is never reused, as the log may still
/// have rows of a dropped table.
pub(crate) const TABLES_MAX: u32 = TableId::UNLOGGED;

/// The format of a table's row, as it is written.
const FORMAT: u64 = 2;
/// The format of the row of dropped tables.
const FORMAT_OF_DROPPED: u64 = 3;
/// The format of the row of a table with an index that was built over rows.
const FORMAT_WITH_BUILT: u64 = 4;
/// The format from before layouts were kept: an entry in it gets its layouts when the table is opened.
const WITHOUT_LAYOUTS: u64 = 1;

/// The catalog's description of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) key_type: String,
    pub(crate) value_type: String,
    pub(crate) layouts: ValueLayouts,
    pub(crate) kind: IndexKind,
    pub(crate) indexes: Vec<IndexEntry>,
}

/// A secondary index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) name: String,
    pub(crate) uniqueness: Uniqueness,
    pub(crate) key_type: String,
    /// The version of the key function.
    pub(crate) version: u32,
    pub(crate) kind: IndexKind,
    /// Whether the index was built over rows: the log has no entries of those, and no checkpoint may have them yet.
    pub(crate) built: bool,
}

/// The known layouts of a table's values: their framing, and the layout of each version of the type under which values
/// were written, in ascending order. A table without layouts was written by an earlier format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValueLayouts {
    pub(crate) framing: Framing,
    known: Vec<(u8, String)>,
}

/// The value type with which a program opens a table.
#[derive(Clone)]
pub(crate) struct ValueType {
    name: String,
    version: u8,
    layout: fn(u8) -> Option<String>,
}

impl ValueType {
    /// Returns the description of the type `V`.
    pub(crate) fn of<V: Value>() -> Self {
        Self { name: V::name(), version: V::VERSION, layout: V::layout }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn written(&self) -> (u8, String) {
        (self.version, (self.layout)(self.version).unwrap_or_default())
    }
}

impl ValueLayouts {
    /// Returns the layouts of a new table.
    pub(crate) fn of(value: &ValueType) -> Self {
        let framing = if value.version == 0 { Framing::Bare } else { Framing::Versioned };
        Self { framing, known: vec![value.written()] }
    }

    /// Returns the layout of each version.
    pub(crate) fn known(&self) -> &[(u8, String)] {
        &self.known
    }

    /// Returns the layouts of a table from before layouts were kept.
    fn unknown() -> Self {
        Self { framing: Framing::Bare, known: Vec::new() }
    }

    /// Fails unless a program that opens `table` with the type `value` reads all its rows. Adds the layout that the
    /// program will write; returns whether that layout is new.
    pub(crate) fn admit(&mut self, table: &str, value: &ValueType) -> Result<bool> {
        let ValueType { name, version, layout } = value;
        let refused = |what: String| Err(Error::Schema(format!("table {table} with values of {name}: {what}")));
        for (known, written) in &self.known {
            match layout(*known) {
                Some(read) if read == *written => {}
                Some(read) if *known == 0 => {
                    return refused(format!(
                        "its rows were written as {written}, and the program has {read}. To change the type, open this \
                         table with the old one under its stored name ({name}), copy the rows to a new table, drop \
                         this one and rename the new one"
                    ));
                }
                Some(read) => {
                    return refused(format!(
                        "version {known} was written as {written}, and the program has {read}. Give the changed type a \
                         new version that is made from the old one: `serde_value!({name}, version = {}, from = ..)`",
                        version.max(known).saturating_add(1)
                    ));
                }
                None if known > version => {
                    return refused(format!(
                        "it may have rows of version {known}, and the program knows versions up to {version}: use a \
                         newer program"
                    ));
                }
                None => {
                    return refused(format!(
                        "it may have rows of version {known} ({written}), which the program does not read: make \
                         version {version} from that one (`from = ..`)"
                    ));
                }
            }
        }
        let newest = self.known.last().map(|(known, _)| *known);
        if newest == Some(*version) {
            return Ok(false);
        }
        if self.framing == Framing::Bare && (newest.is_some() || *version > 1) {
            return refused(format!(
                "its rows do not say under which version they were written, as an earlier release wrote the table, so \
                 version {version} cannot be told from them: open it with version 1, copy the rows to a new table, \
                 drop this one and rename the new one"
            ));
        }
        self.known.push(value.written());
        Ok(true)
    }
}

/// A row of the catalog.
pub(crate) enum CatalogRow {
    Table(TableEntry),
    Dropped(DroppedTables),
}

impl CatalogRow {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        match take_number(&mut &*bytes) {
            Some(FORMAT_OF_DROPPED) => DroppedTables::decode(bytes).map(Self::Dropped),
            _ => TableEntry::decode(bytes).map(Self::Table),
        }
    }

    /// Returns the row's key.
    pub(crate) fn key(&self) -> &str {
        match self {
            Self::Table(entry) => &entry.name,
            Self::Dropped(_) => DROPPED_NAME,
        }
    }
}

/// The content of all rows of a catalog.
#[derive(Default)]
pub(crate) struct Catalog {
    /// In ascending order of their numbers.
    pub(crate) tables: Vec<TableEntry>,
    pub(crate) dropped: DroppedTables,
}

impl Catalog {
    /// Assembles the catalog; fails where a number belongs neither to a table nor to a dropped one.
    pub(crate) fn of(rows: impl IntoIterator<Item = CatalogRow>) -> Result<Self> {
        let mut catalog = Self::default();
        for row in rows {
            match row {
                CatalogRow::Table(entry) => catalog.tables.push(entry),
                CatalogRow::Dropped(dropped) => catalog.dropped = dropped,
            }
        }
        catalog.tables.sort_unstable_by_key(|entry| entry.id);
        let mut numbers: Vec<u32> = catalog.tables.iter().map(|entry| entry.id.0).collect();
        numbers.extend(catalog.dropped.iter().map(|id| id.0));
        numbers.sort_unstable();
        let is_dense = numbers.iter().zip(1..).all(|(number, expected)| *number == expected);
        if is_dense { Ok(catalog) } else { Err(Error::Storage("the catalog has lost a table".into())) }
    }
}

/// The numbers of the dropped tables, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedTables(Vec<Range<u32>>);

impl DroppedTables {
    pub(crate) fn insert(&mut self, table: TableId) {
        let id = table.0;
        let at = self.0.partition_point(|stretch| stretch.end < id);
        match self.0.get_mut(at) {
            Some(stretch) if stretch.end == id => stretch.end += 1,
            Some(stretch) if stretch.start == id + 1 => stretch.start = id,
            _ => self.0.insert(at, id..id + 1),
        }
        if let Some([one, next]) = self.0.get(at..at + 2)
            && one.end == next.start
        {
            self.0[at].end = next.end;
            self.0.remove(at + 1);
        }
    }

    pub(crate) fn contains(&self, table: TableId) -> bool {
        self.0.iter().any(|stretch| stretch.contains(&table.0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = TableId> {
        self.0.iter().cloned().flatten().map(TableId)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, FORMAT_OF_DROPPED);
        for stretch in &self.0 {
            put_number(&mut out, stretch.start.into());
            put_number(&mut out, stretch.len() as u64);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Result<Self> {
        Self::read(&mut bytes).ok_or(Error::Decode { expected: "dropped tables of the catalog" })
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let mut stretches = Vec::new();
        let mut last = 0;
        take_number(input).filter(|&format| format == FORMAT_OF_DROPPED)?;
        while !input.is_empty() {
            let start = u32::try_from(take_number(input)?).ok()?;
            let length = u32::try_from(take_number(input)?).ok()?;
            let end = start.checked_add(length).filter(|&end| last < start && start < end && end <= TABLES_MAX)?;
            stretches.push(start..end);
            last = end;
        }
        Some(Self(stretches))
    }
}

impl TableEntry {
    /// Returns the entry that would describe the catalog itself.
    pub(crate) fn of_catalog() -> Self {
        let (key_type, value_type) = ("name".into(), "entry".into());
        Self {
            id: CATALOG,
            name: CATALOG_NAME.into(),
            key_type,
            value_type,
            layouts: ValueLayouts::unknown(),
            kind: IndexKind::BTree,
            indexes: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let says_built = self.indexes.iter().any(|index| index.built);
        put_number(&mut out, if says_built { FORMAT_WITH_BUILT } else { FORMAT });
        put_number(&mut out, self.id.0.into());
        put_text(&mut out, &self.name);
        put_text(&mut out, &self.key_type);
        put_text(&mut out, &self.value_type);
        put_number(&mut out, u64::from(self.layouts.framing == Framing::Versioned));
        put_number(&mut out, self.layouts.known.len() as u64);
        for (version, layout) in &self.layouts.known {
            put_number(&mut out, (*version).into());
            put_text(&mut out, layout);
        }
        put_number(&mut out, number_of(self.kind));
        put_number(&mut out, self.indexes.len() as u64);
        for index in &self.indexes {
            put_text(&mut out, &index.name);
            put_number(&mut out, index.uniqueness.is_unique().into());
            put_text(&mut out, &index.key_type);
            put_number(&mut out, index.version.into());
            put_number(&mut out, number_of(index.kind));
            if says_built {
                put_number(&mut out, index.built.into());
            }
        }
        out
    }

    /// Returns the kinds of the table's indexes, the primary one first.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = IndexKind> {
        iter::once(self.kind).chain(self.indexes.iter().map(|index| index.kind))
    }

    /// Returns the front of a row, whose key is `name`, with the parts that [`Self::number_and_name`] reads.
    pub(crate) fn front<'r>(row: &'r [u8], name: &[u8]) -> &'r [u8] {
        /// Format, number, and length of the name.
        const BEFORE_NAME: usize = 3 * 10;
        &row[..row.len().min(BEFORE_NAME + name.len())]
    }

    /// Returns the number and the name of a table from the front of its row; `None`: the row is not that of a table.
    pub(crate) fn number_and_name(mut front: &[u8]) -> Option<(TableId, String)> {
        let format = take_number(&mut front)?;
        let is_table = [FORMAT, FORMAT_WITH_BUILT, WITHOUT_LAYOUTS].contains(&format);
        let id = TableId(u32::try_from(take_number(&mut front)?).ok().filter(|_| is_table)?);
        Some((id, take_text(&mut front)?))
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self> {
        Self::read(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Error::Decode { expected: "row of the catalog" })
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let format = take_number(input)?;
        if ![FORMAT, FORMAT_WITH_BUILT, WITHOUT_LAYOUTS].contains(&format) {
            return None;
        }
        let id = TableId(u32::try_from(take_number(input)?).ok()?);
        let (name, key_type, value_type) = (take_text(input)?, take_text(input)?, take_text(input)?);
        if format == WITHOUT_LAYOUTS {
            return Self::read_old(input, id, [name, key_type, value_type]);
        }
        let framing = if take_number(input)? != 0 { Framing::Versioned } else { Framing::Bare };
        let count = take_number(input).filter(|&count| count <= 256)?;
        let known = (0..count).map(|_| Some((u8::try_from(take_number(input)?).ok()?, take_text(input)?)));
        let layouts = ValueLayouts { framing, known: known.collect::<Option<_>>()? };
        let kind = take_kind(input)?;
        let indexes = (0..take_count(input)?).map(|_| {
            Some(IndexEntry {
                name: take_text(input)?,
                uniqueness: take_uniqueness(input)?,
                key_type: take_text(input)?,
                version: u32::try_from(take_number(input)?).ok()?,
                kind: take_kind(input)?,
                built: format == FORMAT_WITH_BUILT && take_number(input)? != 0,
            })
        });
        let indexes = indexes.collect::<Option<_>>()?;
        Some(Self { id, name, key_type, value_type, layouts, kind, indexes })
    }

    /// Reads the part of an entry of format 1 that follows the names: indexes, and kinds only where at least one is not
    /// a B+-tree.
    fn read_old(input: &mut &[u8], id: TableId, [name, key_type, value_type]: [String; 3]) -> Option<Self> {
        let (layouts, kind) = (ValueLayouts::unknown(), IndexKind::BTree);
        let indexes = (0..take_count(input)?).map(|_| {
            let (name, uniqueness, key_type) = (take_text(input)?, take_uniqueness(input)?, take_text(input)?);
            Some(IndexEntry { name, uniqueness, key_type, version: FIRST_KEY_FUNCTION, kind, built: false })
        });
        let indexes = indexes.collect::<Option<_>>()?;
        let mut entry = Self { id, name, key_type, value_type, layouts, kind, indexes };
        if !input.is_empty() {
            entry.kind = take_kind(input)?;
            for index in &mut entry.indexes {
                index.kind = take_kind(input)?;
            }
        }
        Some(entry)
    }
}

/// The version of a key function for which none is stated.
pub(crate) const FIRST_KEY_FUNCTION: u32 = 1;

/// Reads the number of indexes that follow. Their ordinals begin with 1.
fn take_count(input: &mut &[u8]) -> Option<u64> {
    take_number(input).filter(|&count| count < u64::from(u16::MAX))
}

fn take_uniqueness(input: &mut &[u8]) -> Option<Uniqueness> {
    Some(if take_number(input)? != 0 { Uniqueness::Unique } else { Uniqueness::NonUnique })
}

fn number_of(kind: IndexKind) -> u64 {
    match kind {
        IndexKind::BTree => 0,
        IndexKind::Art => 1,
        IndexKind::Hash => 2,
    }
}

fn take_kind(input: &mut &[u8]) -> Option<IndexKind> {
    let number = take_number(input)?;
    [IndexKind::BTree, IndexKind::Art, IndexKind::Hash].into_iter().find(|&kind| number_of(kind) == number)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_text(input: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(input)?).ok()?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn entry(versioned: bool) -> TableEntry {
        let index = IndexEntry {
            name: "by name".into(),
            uniqueness: Uniqueness::Unique,
            key_type: "String".into(),
            version: 3,
            kind: IndexKind::Art,
            built: false,
        };
        let framing = if versioned { Framing::Versioned } else { Framing::Bare };
        let known = vec![(1, "{name: string}".into()), (2, "{name: string, city: string}".into())];
        TableEntry {
            id: TableId(70_000),
            name: "accounts".into(),
            key_type: "u64".into(),
            value_type: "Account".into(),
            layouts: ValueLayouts { framing, known },
            kind: IndexKind::Hash,
            indexes: vec![index.clone(), IndexEntry { uniqueness: Uniqueness::NonUnique, ..index }],
        }
    }

    #[test]
    fn an_entry_comes_back() {
        let mut built = entry(true);
        built.indexes[1].built = true;
        for entry in [entry(true), entry(false), built, TableEntry::of_catalog()] {
            let bytes = entry.encode();
            assert_eq!(TableEntry::decode(&bytes).unwrap(), entry);
            for cut in 0..bytes.len() {
                assert!(TableEntry::decode(&bytes[..cut]).is_err());
            }
            let front = TableEntry::front(&bytes, entry.name.as_bytes());
            assert_eq!(TableEntry::number_and_name(front), Some((entry.id, entry.name)));
        }
    }

    #[test]
    fn numbers_of_dropped_tables_come_back_in_stretches() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut dropped, mut expected) = (DroppedTables::default(), std::collections::BTreeSet::new());
        for _ in 0..300 {
            let table = TableId(random.u32(1..400));
            if expected.insert(table) {
                assert!(!dropped.contains(table));
                dropped.insert(table);
            }
            assert!(dropped.contains(table) && dropped.iter().eq(expected.iter().copied()));
            assert!(dropped.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            assert_eq!(DroppedTables::decode(&dropped.encode()).unwrap(), dropped);
        }
        assert!(matches!(CatalogRow::decode(&dropped.encode()).unwrap(), CatalogRow::Dropped(_)));
        assert_eq!(TableEntry::number_and_name(&dropped.encode()), None);
        let mut overlapping = Vec::new();
        [FORMAT_OF_DROPPED, 4, 3, 6, 1].iter().for_each(|&number| put_number(&mut overlapping, number));
        assert!(DroppedTables::decode(&overlapping).is_err());
    }

    #[test]
    fn a_catalog_has_every_number_or_knows_it_as_dropped() {
        let table = |id| CatalogRow::Table(TableEntry { id: TableId(id), ..entry(true) });
        let mut dropped = DroppedTables::default();
        dropped.insert(TableId(2));
        let catalog = Catalog::of([table(3), CatalogRow::Dropped(dropped.clone()), table(1)]).unwrap();
        assert_eq!(catalog.tables.iter().map(|entry| entry.id.0).collect::<Vec<_>>(), [1, 3]);
        assert!(Catalog::of([table(3), table(1)]).is_err(), "one is missing");
        assert!(Catalog::of([table(2), table(1), CatalogRow::Dropped(dropped)]).is_err(), "dropped and there");
    }

    #[test]
    fn an_entry_of_format_1_comes_back_without_layouts() {
        let mut old = Vec::new();
        put_number(&mut old, WITHOUT_LAYOUTS);
        put_number(&mut old, 7);
        ["people", "u64", "String"].iter().for_each(|text| put_text(&mut old, text));
        put_number(&mut old, 1);
        put_text(&mut old, "by name");
        put_number(&mut old, 1);
        put_text(&mut old, "String");
        let plain = TableEntry::decode(&old).unwrap();
        assert_eq!((plain.id, &*plain.name, plain.layouts), (TableId(7), "people", ValueLayouts::unknown()));
        assert_eq!((plain.indexes.len(), plain.indexes[0].version, plain.indexes[0].kind), (1, 1, IndexKind::BTree));
        [IndexKind::Art, IndexKind::Hash].iter().for_each(|&kind| put_number(&mut old, number_of(kind)));
        let of_kinds = TableEntry::decode(&old).unwrap();
        assert_eq!((of_kinds.kind, of_kinds.indexes[0].kind), (IndexKind::Art, IndexKind::Hash));
        assert!(TableEntry::decode(&old[..old.len() - 1]).is_err());
        old.pop();
        assert!(TableEntry::decode(&[&old[..], &[9]].concat()).is_err(), "no such kind");
    }

    #[test]
    fn a_table_is_opened_by_programs_that_read_all_its_versions() {
        fn layouts<const OLDEST: u8, const NEWEST: u8>(version: u8) -> Option<String> {
            (OLDEST..=NEWEST).contains(&version).then(|| format!("layout {version}"))
        }
        let program = |version, layout| ValueType { name: "T".into(), version, layout };
        let fails = |layouts: &ValueLayouts, program: &ValueType, with: &str| {
            let message = layouts.clone().admit("t", program).unwrap_err().to_string();
            assert!(message.contains(with) && message.contains("table t"), "{message}");
        };
        let (first, second) = (program(1, layouts::<1, 1>), program(2, layouts::<1, 2>));
        let mut known = ValueLayouts::of(&first);
        assert!(!known.admit("t", &first).unwrap());
        fails(&known, &program(2, layouts::<2, 2>), "does not read");
        fails(&known, &program(1, |_| Some("another".into())), "version = 2");
        assert!(known.admit("t", &second).unwrap() && !known.admit("t", &second).unwrap());
        fails(&known, &first, "newer program");
        let mut old = ValueLayouts::unknown();
        fails(&old, &second, "copy the rows");
        assert!(old.admit("t", &first).unwrap() && !old.admit("t", &first).unwrap());
        fails(&old, &second, "copy the rows");
        let fixed = ValueLayouts::of(&program(0, |_| Some("fixed".into())));
        fails(&fixed, &program(0, |_| Some("other".into())), "rename");
    }
}
