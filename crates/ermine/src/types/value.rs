//! Values: bytes as they are stored, and what a read makes of them.
//!
//! A value is stored without framing: the version knows its length. Three families differ in what a read costs:
//! bytes and strings are borrowed, fixed structs are borrowed as references into the version ([`crate::fixed_value`]),
//! and serde types are decoded ([`crate::serde_value`]).
//!
//! The engine keeps every payload at an address divisible by eight ([`PAYLOAD_ALIGN`]), which a reference to a fixed
//! struct relies on; a payload elsewhere is answered with an error, not with undefined behaviour.

use serde::{Serialize, de::DeserializeOwned};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use crate::error::{Error, Result};

/// What the address of a stored value is divisible by.
pub const PAYLOAD_ALIGN: usize = 8;

/// A form of value `V`, owned or borrowed: `str` for a `String`, `[u8]` for a `Vec<u8>`.
pub trait AsValue<V: Value> {
    /// The encoded bytes: the value's own memory where that is possible, else written into `scratch`, which is empty.
    fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]>;
}

/// A value type.
pub trait Value: AsValue<Self> + Sized + Send + Sync + 'static {
    /// What a read hands out without copying: a reference into the version for bytes and fixed structs.
    type View<'a>;
    /// Looks at stored bytes.
    fn view(bytes: &[u8]) -> Result<Self::View<'_>>;
    /// An owned value from stored bytes.
    fn decode(bytes: &[u8]) -> Result<Self>;
}

impl<V: Value, Q: AsValue<V> + ?Sized> AsValue<V> for &Q {
    fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        (**self).encode(scratch)
    }
}

impl AsValue<Vec<u8>> for [u8] {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(self)
    }
}

impl AsValue<Vec<u8>> for Vec<u8> {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(self)
    }
}

impl<const N: usize> AsValue<Vec<u8>> for [u8; N] {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(self)
    }
}

impl Value for Vec<u8> {
    type View<'a> = &'a [u8];

    fn view(bytes: &[u8]) -> Result<&[u8]> {
        Ok(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(bytes.to_vec())
    }
}

impl AsValue<String> for str {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(self.as_bytes())
    }
}

impl AsValue<String> for String {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(self.as_bytes())
    }
}

impl Value for String {
    type View<'a> = &'a str;

    fn view(bytes: &[u8]) -> Result<&str> {
        std::str::from_utf8(bytes).map_err(|_| Error::Decode { expected: "string" })
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        Self::view(bytes).map(str::to_owned)
    }
}

impl AsValue<()> for () {
    fn encode<'a>(&'a self, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(&[])
    }
}

impl Value for () {
    type View<'a> = ();

    fn view(bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() { Ok(()) } else { Err(Error::Decode { expected: "unit" }) }
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        Self::view(bytes)
    }
}

macro_rules! integer_value {
    ($($integer:ident)+) => {$(
        impl AsValue<$integer> for $integer {
            fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
                scratch.extend_from_slice(&self.to_le_bytes());
                Ok(scratch)
            }
        }

        impl Value for $integer {
            type View<'a> = $integer;

            fn view(bytes: &[u8]) -> Result<$integer> {
                let bytes = bytes.try_into().map_err(|_| Error::Decode { expected: stringify!($integer) })?;
                Ok($integer::from_le_bytes(bytes))
            }

            fn decode(bytes: &[u8]) -> Result<Self> {
                Self::view(bytes)
            }
        }
    )+};
}

integer_value!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128);

/// Makes structs of a fixed layout values that are stored as they lie in memory and read without copying.
///
/// The type derives `TryFromBytes` (or `FromBytes`), `IntoBytes`, `KnownLayout` and `Immutable` of [`crate::zerocopy`],
/// which refuse padding and pointers, and needs an alignment of at most eight. [`crate::Transaction::view`] hands out a
/// reference to the struct inside the version.
///
/// ```
/// use ermine::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[zerocopy(crate = "ermine::zerocopy")]
/// #[repr(C)]
/// struct Account { balance_cents: i64, opened: u32, flags: u32 }
///
/// ermine::fixed_value!(Account);
/// ```
///
/// An alignment above eight does not compile:
///
/// ```compile_fail,E0080
/// use ermine::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[zerocopy(crate = "ermine::zerocopy")]
/// #[repr(C, align(16))]
/// struct Wide([u8; 16]);
///
/// ermine::fixed_value!(Wide);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! fixed_value {
    ($($type:ty),+ $(,)?) => {$(
        const _: () = assert!(
            ::core::mem::align_of::<$type>() <= $crate::PAYLOAD_ALIGN,
            "a fixed value needs an alignment of at most eight",
        );

        impl $crate::AsValue<$type> for $type {
            fn encode<'a>(&'a self, _: &'a mut ::std::vec::Vec<u8>) -> $crate::Result<&'a [u8]> {
                ::core::result::Result::Ok($crate::__private::encode_fixed(self))
            }
        }

        impl $crate::Value for $type {
            type View<'a> = &'a $type;

            fn view(bytes: &[u8]) -> $crate::Result<&$type> {
                $crate::__private::view_fixed(bytes, ::core::stringify!($type))
            }

            fn decode(bytes: &[u8]) -> $crate::Result<Self> {
                $crate::__private::decode_fixed(bytes, ::core::stringify!($type))
            }
        }
    )+};
}

/// Makes serde types values, stored in the postcard format: compact, and decoded at every read.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Customer { name: String, tags: Vec<String> }
///
/// ermine::serde_value!(Customer);
/// ```
#[macro_export]
macro_rules! serde_value {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::AsValue<$type> for $type {
            fn encode<'a>(&'a self, scratch: &'a mut ::std::vec::Vec<u8>) -> $crate::Result<&'a [u8]> {
                $crate::__private::encode_serde(self, scratch)
            }
        }

        impl $crate::Value for $type {
            type View<'a> = $type;

            fn view(bytes: &[u8]) -> $crate::Result<$type> {
                $crate::__private::decode_serde(bytes, ::core::stringify!($type))
            }

            fn decode(bytes: &[u8]) -> $crate::Result<Self> {
                $crate::__private::decode_serde(bytes, ::core::stringify!($type))
            }
        }
    )+};
}

/// The bytes of a fixed struct.
#[inline]
pub fn encode_fixed<T: IntoBytes + Immutable>(value: &T) -> &[u8] {
    value.as_bytes()
}

/// A reference into stored bytes; fails on a wrong length, a wrong address or a bit pattern the type forbids.
#[inline]
pub fn view_fixed<'a, T>(bytes: &'a [u8], expected: &'static str) -> Result<&'a T>
where
    T: TryFromBytes + KnownLayout + Immutable,
{
    T::try_ref_from_bytes(bytes).map_err(|_| Error::Decode { expected })
}

/// A copy of a fixed struct.
#[inline]
pub fn decode_fixed<T: TryFromBytes>(bytes: &[u8], expected: &'static str) -> Result<T> {
    T::try_read_from_bytes(bytes).map_err(|_| Error::Decode { expected })
}

/// Writes a serde type in the postcard format.
pub fn encode_serde<'a>(value: &impl Serialize, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    *scratch = postcard::to_extend(value, std::mem::take(scratch)).map_err(|error| Error::Encode(error.to_string()))?;
    Ok(scratch)
}

/// Reads a serde type in the postcard format; bytes left over are an error.
pub fn decode_serde<T: DeserializeOwned>(bytes: &[u8], expected: &'static str) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Error::Decode { expected }),
    }
}
