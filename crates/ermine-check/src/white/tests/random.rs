//! Random histories over one table with a secondary index, correct except for the faults that their shape permits.

use fastrand::Rng;

use crate::{Builder, Digest, History, Index, Operation, Outcome, ReadVersion, Stamp, Table};

/// The faults that a history may have.
pub(super) struct Shape {
    /// Reads may see any moment, ranges any moment up to their transaction's end; otherwise that of its beginning.
    any_moment: bool,
    /// A transaction begins when the one before it has committed.
    serial: bool,
    /// One row in this many is overlooked by ranges; 0: none.
    overlook: u32,
}

impl Shape {
    pub(super) fn wild() -> Self {
        Self { any_moment: true, serial: false, overlook: 40 }
    }

    pub(super) fn serial() -> Self {
        Self { any_moment: false, serial: true, overlook: 0 }
    }
}

const TABLE: Table = Table(0);
const KEYS: usize = 5;
const GROUPS: u8 = 3;
const INITIAL: Stamp = Stamp(1);

/// An operation that owns its keys.
enum Owned {
    Read(usize, ReadVersion, Option<Digest>),
    Range(Index, Vec<u8>, Option<Vec<u8>>, Stamp),
    Write(usize, Option<Digest>),
    Entry(Vec<u8>, bool),
}

/// A value is a group and a number.
type Value = Option<(u8, u64)>;

fn digest(value: Value) -> Option<Digest> {
    value.map(|(group, number)| Digest(u64::from(group) << 32 | number))
}

fn key(row: usize) -> Vec<u8> {
    vec![b'a' + row as u8]
}

fn entry(row: usize, value: Value) -> Option<Vec<u8>> {
    value.map(|(group, _)| vec![b'0' + group, b'a' + row as u8])
}

/// The committed versions of each row, oldest first.
struct World {
    versions: Vec<Vec<(Stamp, Value)>>,
    numbers: u64,
}

impl World {
    fn at(&self, row: usize, at: Stamp) -> Option<(Stamp, Value)> {
        self.versions[row].iter().rev().find(|(stamp, _)| *stamp < at).copied()
    }

    fn value_at(&self, row: usize, at: Stamp) -> Value {
        self.at(row, at).and_then(|(_, value)| value)
    }

    fn new_value(&mut self, rng: &mut Rng) -> Value {
        self.numbers += 1;
        Some((rng.u8(..GROUPS), self.numbers))
    }
}

/// A random history.
pub(super) fn history(rng: &mut Rng, shape: &Shape) -> History {
    let mut world = World { versions: vec![Vec::new(); KEYS], numbers: 0 };
    for row in 0..KEYS {
        if rng.bool() {
            let value = world.new_value(rng);
            world.versions[row].push((INITIAL, value));
        }
    }
    let transactions = rng.u64(2..=7);
    let mut plans = Vec::new();
    for number in 1..=transactions {
        let stamp = Stamp(number * 10);
        let begin = if shape.serial { Stamp(number * 10 - 5) } else { Stamp(rng.u64(5..number * 10)) };
        let rows: Vec<_> = (0..KEYS).filter(|_| rng.u8(..4) == 0).collect();
        let writes = rows.into_iter().map(|row| (row, writes(rng, &mut world, row, stamp))).collect::<Vec<_>>();
        for (row, values) in &writes {
            world.versions[*row].push((stamp, *values.last().unwrap()));
        }
        plans.push((begin, stamp, writes));
    }
    let mut builder = Builder::new();
    for (begin, stamp, writes) in plans {
        let operations = operations(rng, shape, &world, begin, stamp, &writes);
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        let operations = operations.iter().map(|operation| match *operation {
            Owned::Read(row, version, value) => Operation::Read { table: TABLE, key: &keys[row], version, value },
            Owned::Range(index, ref lower, ref upper, at) => {
                Operation::Range { index, lower, upper: upper.as_deref(), at }
            }
            Owned::Write(row, value) => Operation::Write { table: TABLE, key: &keys[row], value },
            Owned::Entry(ref entry, present) => {
                Operation::Entry { index: Index { table: TABLE, ordinal: 1 }, entry, present }
            }
        });
        builder.push(begin, Outcome::Committed(stamp), operations);
    }
    builder.finish(1)
}

/// One or two values that a transaction writes to a row in turn; nothing is deleted twice.
fn writes(rng: &mut Rng, world: &mut World, row: usize, stamp: Stamp) -> Vec<Value> {
    let mut values = Vec::new();
    let mut before = world.value_at(row, stamp);
    for _ in 0..rng.usize(1..=2) {
        let value = if before.is_some() && rng.u8(..3) == 0 { None } else { world.new_value(rng) };
        values.push(value);
        before = value;
    }
    values
}

fn operations(
    rng: &mut Rng,
    shape: &Shape,
    world: &World,
    begin: Stamp,
    stamp: Stamp,
    writes: &[(usize, Vec<Value>)],
) -> Vec<Owned> {
    let mut operations = Vec::new();
    let mut own: Vec<Option<Value>> = vec![None; KEYS];
    let writes_row = |row: usize| writes.iter().any(|(own, _)| *own == row);
    // The future is seen by mistake, but not the transaction's own later writes.
    let latest = stamp.0 + if rng.u8(..4) == 0 { 20 } else { 0 };
    let mut left: Vec<_> = writes.iter().flat_map(|(row, values)| values.iter().map(|&value| (*row, value))).collect();
    loop {
        let moment = |rng: &mut Rng| if shape.any_moment && rng.bool() { Stamp(rng.u64(5..=latest)) } else { begin };
        match rng.u8(..6) {
            0 if left.is_empty() => return operations,
            0 | 1 if !left.is_empty() => {
                let (row, value) = left.remove(0);
                let before = own[row].unwrap_or_else(|| world.value_at(row, stamp));
                operations.push(Owned::Write(row, digest(value)));
                let (old, new) = (entry(row, before), entry(row, value));
                if old != new {
                    operations.extend(old.map(|old| Owned::Entry(old, false)));
                    operations.extend(new.map(|new| Owned::Entry(new, true)));
                }
                own[row] = Some(value);
            }
            2 | 3 => {
                let (row, at) = (rng.usize(..KEYS), moment(rng));
                let at = if writes_row(row) { at.min(stamp) } else { at };
                operations.push(read(world, &own, row, at));
            }
            _ => {
                let at = moment(rng).min(stamp);
                range(rng, shape, world, &own, at, stamp, &mut operations);
            }
        }
    }
}

fn read(world: &World, own: &[Option<Value>], row: usize, at: Stamp) -> Owned {
    match (own[row], world.at(row, at)) {
        (Some(value), _) => Owned::Read(row, ReadVersion::Own, digest(value)),
        (None, Some((stamp, value))) => Owned::Read(row, ReadVersion::At(stamp), digest(value)),
        (None, None) => Owned::Read(row, ReadVersion::Missing(at), None),
    }
}

/// A range with the reads before it. Some of these are younger than the range, or older, as is possible without a
/// snapshot.
fn range(
    rng: &mut Rng,
    shape: &Shape,
    world: &World,
    own: &[Option<Value>],
    at: Stamp,
    end: Stamp,
    into: &mut Vec<Owned>,
) {
    let primary = rng.bool();
    let mut bound = || match primary {
        true => key(rng.usize(..=KEYS)),
        false => {
            [vec![b'0' + rng.u8(..=GROUPS)], if rng.bool() { key(rng.usize(..KEYS)) } else { Vec::new() }].concat()
        }
    };
    let (one, other) = (bound(), bound());
    let (lower, upper) = (one.clone().min(other.clone()), one.max(other));
    let upper = (rng.u8(..4) > 0).then_some(upper);
    let inside = |entry: &[u8]| entry >= &lower[..] && upper.as_deref().is_none_or(|upper| entry < upper);
    for row in 0..KEYS {
        let entry_at = |at| match primary {
            true => world.value_at(row, at).map(|_| key(row)),
            false => entry(row, world.value_at(row, at)),
        };
        let there = entry_at(at).is_some_and(|entry| inside(&entry));
        let later = Stamp(if shape.any_moment { rng.u64(at.0..=end.0.max(at.0)) } else { at.0 });
        let came = later > at && entry_at(later).is_some_and(|entry| inside(&entry));
        let earlier = Stamp(if shape.any_moment { rng.u64(2..=at.0) } else { at.0 });
        let was = earlier < at && entry_at(earlier).is_some_and(|entry| inside(&entry));
        if was && rng.u8(..6) == 0 {
            into.push(read(world, own, row, earlier));
            continue;
        }
        let overlooked = shape.overlook > 0 && rng.u32(..shape.overlook) == 0;
        if (there || came) && !overlooked {
            let moment = if came && rng.bool() || !there { later } else { at };
            into.push(read(world, own, row, moment));
        }
    }
    let index = Index { table: TABLE, ordinal: u16::from(!primary) };
    into.push(Owned::Range(index, lower, upper, at));
}
