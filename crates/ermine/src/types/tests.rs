//! Keys and values against their contract, over random values.
//!
//! Goal: the invariants of the parent module hold for every type, and ranges select the same keys as a filter over the
//! decoded keys. Method: values drawn from a seeded generator that prefers the borders (0, 1 and 255 as bytes, extremes
//! as integers, short strings, equal leading fields). The seed is printed; `ERMINE_SEED` sets it.

use std::{collections::BTreeMap, fmt::Debug, marker::PhantomData, ops::Bound};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::{AsKey, AsValue, EncodedRange, Key, KeyBuffer, KeyRange, Value, prefix};
use crate::error::{Error, Result};

/// Number of values that a property is tried on; Miri runs a thousand times slower.
const ROUNDS: usize = if cfg!(miri) { 20 } else { 2_000 };

/// Marsaglia's xorshift64*.
struct Random(u64);

impl Random {
    fn seeded() -> Self {
        let seed = match std::env::var("ERMINE_SEED") {
            Ok(seed) => seed.parse().expect("ERMINE_SEED is a number"),
            Err(_) => 0x45_72_6d_69_6e_65,
        };
        println!("ERMINE_SEED={seed}");
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        match self.below(6) {
            0 => 0,
            1 => 1,
            2 => 2,
            3 => 0xff,
            _ => self.next() as u8,
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..self.below(6)).map(|_| self.byte()).collect()
    }
}

/// Draws values of a key type.
trait Draw: Key + Ord + Clone + Debug {
    fn draw(random: &mut Random) -> Self;
}

macro_rules! draw_integer {
    ($($integer:ident)+) => {$(
        impl Draw for $integer {
            fn draw(random: &mut Random) -> Self {
                match random.below(6) {
                    0 => $integer::MIN,
                    1 => $integer::MAX,
                    2 => (random.below(5) as $integer).wrapping_sub(2),
                    _ => (u128::from(random.next()) << 64 | u128::from(random.next())) as $integer,
                }
            }
        }
    )+};
}

draw_integer!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

impl Draw for bool {
    fn draw(random: &mut Random) -> Self {
        random.below(2) == 1
    }
}

impl Draw for char {
    fn draw(random: &mut Random) -> Self {
        match random.below(3) {
            0 => char::from(random.byte()),
            1 => ['\0', '\u{d7ff}', '\u{e000}', char::MAX][random.below(4)],
            _ => char::from_u32(random.next() as u32 % 0x11_0000).unwrap_or('ß'),
        }
    }
}

impl<const N: usize> Draw for [u8; N] {
    fn draw(random: &mut Random) -> Self {
        std::array::from_fn(|_| random.byte())
    }
}

impl Draw for Vec<u8> {
    fn draw(random: &mut Random) -> Self {
        random.bytes()
    }
}

impl Draw for String {
    fn draw(random: &mut Random) -> Self {
        (0..random.below(5)).map(|_| char::draw(random)).collect()
    }
}

impl<K: Draw> Draw for Option<K> {
    fn draw(random: &mut Random) -> Self {
        bool::draw(random).then(|| K::draw(random))
    }
}

macro_rules! draw_tuple {
    ($($field:ident)+) => {
        impl<$($field: Draw),+> Draw for ($($field,)+) {
            fn draw(random: &mut Random) -> Self {
                ($($field::draw(random),)+)
            }
        }
    };
}

draw_tuple!(A);
draw_tuple!(A B);
draw_tuple!(A B C);
draw_tuple!(A B C D);
draw_tuple!(A B C D E);
draw_tuple!(A B C D E F);
draw_tuple!(A B C D E F G);
draw_tuple!(A B C D E F G H);

fn encoded<K: Key>(key: &(impl AsKey<K> + ?Sized)) -> KeyBuffer {
    let mut out = KeyBuffer::new();
    key.encode(&mut out);
    out
}

/// Checks invariants 1 to 3 for one type.
fn check_key<K: Draw>(random: &mut Random) {
    for _ in 0..ROUNDS {
        let (a, b) = (K::draw(random), K::draw(random));
        let (mut ab, b_bytes) = (encoded(&a), encoded(&b));
        assert_eq!(a.cmp(&b), ab.cmp(&b_bytes), "{a:?} {b:?}");
        assert!(a == b || !b_bytes.starts_with(&ab), "{a:?} is a prefix of {b:?}");

        ab.extend_from_slice(&b_bytes);
        let mut input = &ab[..];
        assert_eq!(K::decode(&mut input).unwrap(), a);
        assert_eq!(input, &b_bytes[..]);
        let mut skipped = &ab[..];
        K::skip(&mut skipped).unwrap();
        assert_eq!(skipped, input);
        assert_eq!(K::decode(&mut input).unwrap(), b);
        assert!(input.is_empty());

        let mut bad = b_bytes.to_vec();
        if let Some(last) = bad.len().checked_sub(1) {
            assert!(matches!(K::decode(&mut &bad[..last]), Err(Error::Decode { .. })), "{b:?} cut off");
            bad[random.below(last + 1)] = random.byte();
        }
        check_decode::<K>(&bad);
        check_decode::<K>(&random.bytes());
    }
}

/// Checks that bytes that decode at all encode to themselves, and that others return a decoding error.
fn check_decode<K: Draw>(bytes: &[u8]) {
    let mut input = bytes;
    match K::decode(&mut input) {
        Ok(key) => assert_eq!(&encoded(&key)[..], &bytes[..bytes.len() - input.len()]),
        Err(error) => assert!(matches!(error, Error::Decode { .. })),
    }
}

#[test]
fn keys_keep_their_order_and_come_back() {
    let random = &mut Random::seeded();
    macro_rules! check {
        ($($key:ty),+ $(,)?) => { $(check_key::<$key>(random);)+ };
    }
    check!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, bool, char, [u8; 0], [u8; 3], Vec<u8>, String);
    check!(Option<u16>, Option<String>, Option<Option<i8>>, Option<Vec<u8>>, (u8,), (bool, i8), (String, u8));
    check!((Vec<u8>, Vec<u8>), (Option<String>, u8), (u8, (bool, String), [u8; 2]), (bool, bool, bool, i16));
    // Of known widths: encoded at once up to 40 bytes.
    check!((u32, u8, i32, u8), (u64, (i16, [u8; 3])), ([u8; 32], u64), ([u8; 32], i64, u8));
    check!((bool, bool, bool, bool, String), (bool, bool, bool, bool, bool, Vec<u8>));
    check!((bool, bool, bool, bool, bool, u8, Option<i8>), (bool, bool, u8, bool, bool, String, bool, i8));
}

#[test]
fn forms_of_a_key_encode_alike() {
    fn same<K: Key>(key: K, form: &(impl AsKey<K> + ?Sized)) {
        assert_eq!(encoded(&key), encoded(form));
    }
    same(String::from("stoat"), "stoat");
    same(String::from("stoat"), &"stoat");
    same(vec![1, 0, 2], &[1, 0, 2]);
    same(vec![1, 0, 2], &[1, 0, 2][..]);
    same(vec![1, 0, 2], b"\x01\x00\x02");
    same((7_u32, String::from("stoat")), &(7, "stoat"));
    same((7_u32, String::from("stoat")), &(&7, &String::from("stoat")));
    same((Some(String::from("stoat")), -1_i64, vec![0]), &(Some("stoat"), -1, &[0]));
    same(Some(1_u8), &Some(1));
    same((7_u32, (-1_i16, 3_u8)), &(&7, (-1, &3)));
}

/// Compiles only when a literal takes the type of the table's key and value.
#[test]
fn literals_take_the_type_of_the_table() {
    struct Typed<K, V>(PhantomData<(K, V)>);
    fn put<K: Key, V: Value>(
        _: &Typed<K, V>,
        key: &(impl AsKey<K> + ?Sized),
        value: &(impl AsValue<V> + ?Sized),
    ) -> usize {
        encoded(key).len() + value.encode(&mut Vec::new()).unwrap().len()
    }
    fn scan<K: Key, V: Value>(_: &Typed<K, V>, range: impl KeyRange<K>) -> EncodedRange {
        range.encode()
    }

    let numbers = Typed::<u64, u32>(PhantomData);
    assert_eq!(put(&numbers, &1, &2), 12);
    assert_eq!(scan(&numbers, 1..2).lower.len(), 8);
    let names = Typed::<(u16, String), Vec<u8>>(PhantomData);
    assert_eq!(put(&names, &(1, "ab"), b"xyz"), 8);
    assert_eq!(scan(&names, (1, "ab")..).lower.len(), 5);
    assert_eq!(scan(&names, (Bound::Excluded((1, "ab")), Bound::Unbounded)).lower.len(), 5);
    assert_eq!(scan(&names, prefix((1,))).lower.len(), 2);
    assert_eq!(scan(&names, ..), EncodedRange::default());
}

#[test]
fn keys_of_64_bytes_stay_on_the_stack() {
    assert!(!encoded::<(u64, String, Option<u32>)>(&(1, "x".repeat(50), Some(2))).spilled());
    assert!(!encoded::<String>("x".repeat(63).as_str()).spilled());
    assert!(!prefix(("x".repeat(62),)).encode_for::<(String, u8)>().upper.unwrap().spilled());
}

/// Lets a test name the key type where no table does.
trait EncodeFor {
    fn encode_for<K: Key>(&self) -> EncodedRange
    where
        Self: KeyRange<K>,
    {
        self.encode()
    }
}

impl<R> EncodeFor for R {}

#[test]
fn ranges_select_what_a_filter_selects() {
    type Row = (u8, String, i16);
    let random = &mut Random::seeded();
    let keys: BTreeMap<Row, ()> =
        (0..ROUNDS / 4).map(|_| ((random.byte(), Draw::draw(random), Draw::draw(random)), ())).collect();
    // An index entry continues behind the key; a range must include all such entries.
    let entries: BTreeMap<Vec<u8>, Row> = keys
        .keys()
        .flat_map(|key| [&[][..], &[0], &[0xff, 0xff]].map(|tail| ([&encoded(key)[..], tail].concat(), key.clone())))
        .collect();

    let check = |range: EncodedRange, inside: &dyn Fn(&Row) -> bool| {
        let found = entries.iter().filter(|(bytes, _)| {
            bytes[..] >= range.lower[..] && range.upper.as_ref().is_none_or(|upper| bytes[..] < upper[..])
        });
        let expected = entries.iter().filter(|(_, key)| inside(key));
        assert!(found.eq(expected), "{range:?}");
    };
    for round in 0..ROUNDS / 8 {
        let mut draw = || match round % 2 {
            0 => keys.keys().nth(random.below(keys.len())).unwrap().clone(),
            _ => Row::draw(random),
        };
        let (a, b) = (draw(), draw());
        check((..).encode_for::<Row>(), &|_| true);
        check((a.clone()..b.clone()).encode_for::<Row>(), &|key| (&a..&b).contains(&key));
        check((a.clone()..=b.clone()).encode_for::<Row>(), &|key| (&a..=&b).contains(&key));
        check((a.clone()..).encode_for::<Row>(), &|key| *key >= a);
        check((..a.clone()).encode_for::<Row>(), &|key| *key < a);
        check((..=a.clone()).encode_for::<Row>(), &|key| *key <= a);
        let above = (Bound::Excluded(a.clone()), Bound::Included(b.clone()));
        check(above.encode_for::<Row>(), &|key| *key > a && *key <= b);
        check(prefix((a.0,)).encode_for::<Row>(), &|key| key.0 == a.0);
        check(prefix((a.0, a.1.as_str())).encode_for::<Row>(), &|key| key.0 == a.0 && key.1 == a.1);
        check(prefix((a.0, &a.1, a.2)).encode_for::<Row>(), &|key| *key == a);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Account {
    balance: i64,
    branch: u32,
    flags: [u8; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(u8)]
enum State {
    Open = 1,
    Closed = 2,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Customer {
    name: String,
    tags: Vec<Option<u32>>,
}

crate::fixed_value!(Account { balance: i64, branch: u32, flags: [u8; 4] });
crate::fixed_value!(
    enum State {
        Open = 1,
        Closed = 2,
    }
);
crate::serde_value!(Customer);

fn stored<V: Value>(value: &(impl AsValue<V> + ?Sized)) -> Vec<u8> {
    value.encode(&mut Vec::new()).unwrap().to_vec()
}

fn refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(Error::Decode { .. }))
}

#[test]
fn values_come_back() {
    assert_eq!(Vec::view(&stored(b"abc")).unwrap(), b"abc");
    assert_eq!(<Vec<u8> as Value>::decode(&stored::<Vec<u8>>(&vec![1, 2])).unwrap(), [1, 2]);
    assert_eq!(String::view(&stored("stoat")).unwrap(), "stoat");
    assert_eq!(stored::<()>(&()), b"");
    <() as Value>::decode(b"").unwrap();
    assert_eq!(stored::<i32>(&-2), [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(<u64 as Value>::decode(&stored::<u64>(&u64::MAX)).unwrap(), u64::MAX);
    let customer = Customer { name: "Ada".into(), tags: vec![None, Some(70_000)] };
    assert_eq!(Customer::view(&stored::<Customer>(&customer)).unwrap(), customer);
}

#[test]
fn a_fixed_value_is_read_in_place() {
    let account = Account { balance: -5, branch: 7, flags: [1, 2, 3, 4] };
    let words = [0_u64; 3];
    let mut payload = words;
    let bytes = payload.as_mut_bytes();
    bytes[..16].copy_from_slice(&stored::<Account>(&account));
    let view = Account::view(&bytes[..16]).unwrap();
    assert_eq!(*view, account);
    assert_eq!(std::ptr::from_ref(view).addr(), bytes.as_ptr().addr());
    assert_eq!(Account::decode(&bytes[..16]).unwrap(), account);
    assert!(refused(Account::view(&bytes[4..20])), "wrong address");
    for state in [State::Open, State::Closed] {
        assert_eq!(*State::view(&stored::<State>(&state)).unwrap(), state);
    }
}

#[test]
fn bad_values_are_refused() {
    assert!(refused(String::view(b"\xff")) && refused(<String as Value>::decode(b"\xff")));
    assert!(refused(<() as Value>::view(b"x")));
    assert!(refused(<u64 as Value>::view(b"1234567")) && refused(<u32 as Value>::decode(b"12345")));
    assert!(refused(Account::view(&[0; 15])) && refused(Account::decode(&[0; 17])));
    assert!(refused(State::view(&[3])) && refused(State::decode(&[0])));

    let random = &mut Random::seeded();
    let good = stored::<Customer>(&Customer { name: "Ada".into(), tags: vec![None, Some(70_000)] });
    assert!(refused(Customer::view(&[&good[..], &[0]].concat())), "bytes left over");
    for _ in 0..ROUNDS {
        let mut bad = good.clone();
        bad.truncate(random.below(bad.len()));
        assert!(refused(Customer::decode(&bad)));
        if let Some(last) = bad.len().checked_sub(1) {
            bad[random.below(last + 1)] = random.byte();
        }
        for bytes in [bad, random.bytes()] {
            if let Err(error) = Customer::decode(&bytes) {
                assert!(matches!(error, Error::Decode { .. }));
            }
        }
    }
}
