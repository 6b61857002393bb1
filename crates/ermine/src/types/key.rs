//! The order-preserving, self-delimiting encoding of keys.
//!
//! | type | encoding |
//! |---|---|
//! | `u8` .. `u128`, `char` | big-endian |
//! | `i8` .. `i128` | big-endian, sign bit flipped |
//! | `bool` | one byte, 0 or 1 |
//! | `[u8; N]` | the bytes |
//! | `String`, `Vec<u8>` | the bytes, 00 as 01 01 and 01 as 01 02, then 00 |
//! | `Option` | 00 for `None`; 01 and the key for `Some` |
//! | tuple | its fields, one after the other |
//! | `()` | nothing |
//!
//! Strings end with the one byte that cannot occur inside, which is also the lowest, so that a string sorts before its
//! extensions. Because two byte values are escaped instead of one, the end takes one byte: with 00 alone escaped (as 00
//! FF), the end would need two, and each ordinary string would be a byte longer.

use smallvec::SmallVec;

use super::for_each_tuple_split;
use crate::error::{Error, Result};

/// Bytes of an encoded key; keys of up to 64 bytes need no heap.
pub type KeyBuffer = SmallVec<[u8; 64]>;

/// Several encoded keys, one after the other.
#[derive(Default)]
pub struct KeyList {
    bytes: KeyBuffer,
    ends: SmallVec<[usize; 16]>,
}

impl KeyList {
    /// Encodes a key and appends it to the others.
    pub fn push<K: Key>(&mut self, key: &(impl AsKey<K> + ?Sized)) {
        key.encode(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    /// Appends a key that is encoded.
    pub(crate) fn push_encoded(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns one of the keys.
    #[inline]
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
}

/// A form of key `K`, owned or borrowed: `str` for a table keyed by `String`, `(u32, &str)` for one keyed by
/// `(u32, String)`.
///
/// ```no_run
/// # fn example(txn: &ermine::Transaction, by_id: &ermine::Table<u64, String>,
/// #     by_name: &ermine::Table<(u32, String), u64>, by_bytes: &ermine::Table<Vec<u8>, u64>) -> ermine::Result<()> {
/// txn.put(by_id, &1, "ermine")?;
/// txn.get(by_name, &(7, "stoat"))?;
/// txn.get(by_bytes, b"weasel")?;
/// # Ok(())
/// # }
/// ```
pub trait AsKey<K: Key> {
    /// Bytes of every encoding, if all are of the same length: tuples of such keys are encoded at once.
    #[doc(hidden)]
    const WIDTH: Option<usize> = None;

    /// Appends the order-preserving, self-delimiting encoding.
    fn encode(&self, out: &mut KeyBuffer);

    /// Writes the encoding to `out`, which has [`AsKey::WIDTH`] bytes.
    #[doc(hidden)]
    fn encode_to(&self, _out: &mut [u8]) {
        unreachable!("the width of this key is not known")
    }
}

/// A key type: its encodings compare as its values do.
///
/// A type of the application's own becomes a key by encoding itself as one of the built-in key types:
///
/// ```
/// use ermine::{AsKey, Key, KeyBuffer};
///
/// #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
/// struct Account { branch: u16, number: u32 }
///
/// impl AsKey<Account> for Account {
///     fn encode(&self, out: &mut KeyBuffer) {
///         (self.branch, self.number).encode(out)
///     }
/// }
///
/// impl Key for Account {
///     fn decode(input: &mut &[u8]) -> ermine::Result<Self> {
///         let (branch, number) = Key::decode(input)?;
///         Ok(Self { branch, number })
///     }
/// }
/// ```
pub trait Key: AsKey<Self> + Sized + Send + Sync + 'static {
    /// Reads one key off the front of `input`.
    fn decode(input: &mut &[u8]) -> Result<Self>;

    /// Skips one key at the front of `input` without building it.
    fn skip(input: &mut &[u8]) -> Result<()> {
        Self::decode(input).map(drop)
    }
}

impl<K: Key, Q: AsKey<K> + ?Sized> AsKey<K> for &Q {
    const WIDTH: Option<usize> = Q::WIDTH;

    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        (**self).encode(out);
    }

    #[inline]
    fn encode_to(&self, out: &mut [u8]) {
        (**self).encode_to(out);
    }
}

/// Appends bytes whose number the compiler knows, in a few instructions: `extend_from_slice` is a call, and makes
/// another call to copy.
#[inline(always)]
fn append(out: &mut KeyBuffer, bytes: &[u8]) {
    let length = out.len();
    out.reserve(bytes.len());
    // SAFETY: there is room for these bytes, and they are written before the length includes them.
    unsafe {
        out.as_mut_ptr().add(length).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        out.set_len(length + bytes.len());
    }
}

/// The longest tuple of keys of known widths that is encoded at once.
const WIDTH_MAX: usize = 40;

/// Returns the sum of widths, if all of them are known.
const fn sum_of_widths(widths: &[Option<usize>]) -> Option<usize> {
    let (mut sum, mut at) = (0, 0);
    while at < widths.len() {
        match widths[at] {
            Some(width) => sum += width,
            None => return None,
        }
        at += 1;
    }
    Some(sum)
}

/// Cuts `N` bytes off the front of `input`.
#[inline]
fn take<const N: usize>(input: &mut &[u8], expected: &'static str) -> Result<[u8; N]> {
    let (taken, rest) = input.split_first_chunk().ok_or_else(|| Error::Decode { expected })?;
    *input = rest;
    Ok(*taken)
}

/// Integers as big-endian bytes; `$flip` is the sign bit.
macro_rules! integer_key {
    ($($integer:ident $flip:expr;)+) => {$(
        impl AsKey<$integer> for $integer {
            const WIDTH: Option<usize> = Some(size_of::<$integer>());

            #[inline]
            fn encode(&self, out: &mut KeyBuffer) {
                append(out, &(*self ^ $flip).to_be_bytes());
            }

            #[inline]
            fn encode_to(&self, out: &mut [u8]) {
                out.copy_from_slice(&(*self ^ $flip).to_be_bytes());
            }
        }

        impl Key for $integer {
            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self> {
                Ok($integer::from_be_bytes(take(input, concat!(stringify!($integer), " key"))?) ^ $flip)
            }
        }
    )+};
}

integer_key! {
    u8 0; u16 0; u32 0; u64 0; u128 0;
    i8 i8::MIN; i16 i16::MIN; i32 i32::MIN; i64 i64::MIN; i128 i128::MIN;
}

impl AsKey<bool> for bool {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        out.push(u8::from(*self));
    }
}

impl Key for bool {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        match take(input, "bool key")? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::Decode { expected: "bool key" }),
        }
    }
}

impl AsKey<char> for char {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        u32::from(*self).encode(out);
    }
}

impl Key for char {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        Self::from_u32(u32::decode(input)?).ok_or_else(|| Error::Decode { expected: "char key" })
    }
}

impl<const N: usize> AsKey<[u8; N]> for [u8; N] {
    const WIDTH: Option<usize> = Some(N);

    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        append(out, self);
    }

    #[inline]
    fn encode_to(&self, out: &mut [u8]) {
        out.copy_from_slice(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        take(input, "byte array key")
    }
}

/// Ends a string of bytes.
const END: u8 = 0;
/// Announces an escaped byte: the byte after it is the original plus one. Bytes up to this one are escaped.
const ESCAPE: u8 = 1;

fn encode_bytes(mut bytes: &[u8], out: &mut KeyBuffer) {
    // The usual case: nothing is escaped. The test does not search for a position, so it processes several bytes at a
    // time.
    if !bytes.iter().fold(false, |escapes, &byte| escapes | (byte <= ESCAPE)) {
        out.extend_from_slice(bytes);
        out.push(END);
        return;
    }
    while let Some(position) = bytes.iter().position(|&byte| byte <= ESCAPE) {
        out.extend_from_slice(&bytes[..position]);
        out.extend_from_slice(&[ESCAPE, bytes[position] + 1]);
        bytes = &bytes[position + 1..];
    }
    out.extend_from_slice(bytes);
    out.push(END);
}

/// Cuts a string's escaped bytes off the front of `input`, without their end marker.
fn take_escaped<'a>(input: &mut &'a [u8], expected: &'static str) -> Result<&'a [u8]> {
    let end = input.iter().position(|&byte| byte == END).ok_or_else(|| Error::Decode { expected })?;
    let escaped = &input[..end];
    *input = &input[end + 1..];
    Ok(escaped)
}

fn decode_bytes(input: &mut &[u8], expected: &'static str) -> Result<Vec<u8>> {
    let mut escaped = take_escaped(input, expected)?;
    let mut bytes = Vec::with_capacity(escaped.len());
    while let Some(position) = escaped.iter().position(|&byte| byte == ESCAPE) {
        bytes.extend_from_slice(&escaped[..position]);
        match escaped.get(position + 1) {
            Some(&code @ 1..=2) => bytes.push(code - 1),
            _ => return Err(Error::Decode { expected }),
        }
        escaped = &escaped[position + 2..];
    }
    bytes.extend_from_slice(escaped);
    Ok(bytes)
}

impl AsKey<Vec<u8>> for [u8] {
    fn encode(&self, out: &mut KeyBuffer) {
        encode_bytes(self, out);
    }
}

impl AsKey<Vec<u8>> for Vec<u8> {
    fn encode(&self, out: &mut KeyBuffer) {
        encode_bytes(self, out);
    }
}

impl<const N: usize> AsKey<Vec<u8>> for [u8; N] {
    fn encode(&self, out: &mut KeyBuffer) {
        encode_bytes(self, out);
    }
}

impl Key for Vec<u8> {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        decode_bytes(input, "bytes key")
    }

    fn skip(input: &mut &[u8]) -> Result<()> {
        take_escaped(input, "bytes key").map(drop)
    }
}

impl AsKey<String> for str {
    fn encode(&self, out: &mut KeyBuffer) {
        encode_bytes(self.as_bytes(), out);
    }
}

impl AsKey<String> for String {
    fn encode(&self, out: &mut KeyBuffer) {
        encode_bytes(self.as_bytes(), out);
    }
}

impl Key for String {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        let bytes = decode_bytes(input, "string key")?;
        Self::from_utf8(bytes).map_err(|_| Error::Decode { expected: "string key" })
    }

    fn skip(input: &mut &[u8]) -> Result<()> {
        take_escaped(input, "string key").map(drop)
    }
}

impl<K: Key, Q: AsKey<K>> AsKey<Option<K>> for Option<Q> {
    #[inline]
    fn encode(&self, out: &mut KeyBuffer) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(out);
        }
    }
}

/// Reads the byte that distinguishes `Some` from `None`.
fn take_is_some(input: &mut &[u8]) -> Result<bool> {
    bool::decode(input).map_err(|_| Error::Decode { expected: "optional key" })
}

impl<K: Key> Key for Option<K> {
    fn decode(input: &mut &[u8]) -> Result<Self> {
        take_is_some(input)?.then(|| K::decode(input)).transpose()
    }

    fn skip(input: &mut &[u8]) -> Result<()> {
        if take_is_some(input)? { K::skip(input) } else { Ok(()) }
    }
}

impl AsKey<()> for () {
    fn encode(&self, _: &mut KeyBuffer) {}
}

impl Key for () {
    fn decode(_: &mut &[u8]) -> Result<Self> {
        Ok(())
    }
}

/// Tuples as keys: the splits whose rest is empty are the whole tuples.
macro_rules! tuple_key {
    ([$($key:ident $form:ident $field:tt)+] []) => {
        impl<$($key: Key, $form: AsKey<$key>),+> AsKey<($($key,)+)> for ($($form,)+) {
            const WIDTH: Option<usize> = sum_of_widths(&[$($form::WIDTH),+]);

            #[inline]
            fn encode(&self, out: &mut KeyBuffer) {
                match Self::WIDTH {
                    Some(width @ ..=WIDTH_MAX) => {
                        let mut bytes = [0; WIDTH_MAX];
                        self.encode_to(&mut bytes[..width]);
                        append(out, &bytes[..width]);
                    }
                    _ => {
                        $(self.$field.encode(out);)+
                    }
                }
            }

            #[inline]
            fn encode_to(&self, mut out: &mut [u8]) {
                $(
                    let (field, rest) = out.split_at_mut($form::WIDTH.unwrap_or_default());
                    self.$field.encode_to(field);
                    out = rest;
                )+
                debug_assert!(out.is_empty());
            }
        }

        impl<$($key: Key),+> Key for ($($key,)+) {
            #[inline]
            fn decode(input: &mut &[u8]) -> Result<Self> {
                Ok(($($key::decode(input)?,)+))
            }

            #[inline]
            fn skip(input: &mut &[u8]) -> Result<()> {
                $($key::skip(input)?;)+
                Ok(())
            }
        }
    };
    ([$($taken:tt)+] [$($rest:tt)+]) => {};
}

for_each_tuple_split!(tuple_key);
