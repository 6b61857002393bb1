//! Values: their stored bytes, and the views and owned values that reads make of them.
//!
//! Three families differ in the cost of a read: bytes and strings are borrowed, fixed structs are borrowed as
//! references into the version ([`crate::fixed_value`]), and serde types are decoded ([`crate::serde_value`]).
//!
//! A value is stored without its length, which the row's version records. A value of a type that has versions is
//! followed by one byte, the number of the type's version under which it was written: so rows of older versions stay
//! readable beside new ones. The table's [`Framing`], in the catalog, says whether its values have that byte. The
//! catalog has the layout of each version, too ([`Value::layout`]).
//!
//! The engine keeps every payload at an address divisible by eight ([`PAYLOAD_ALIGN`]), which a reference to a fixed
//! struct relies on; a payload at another address causes an error, not undefined behaviour.

use serde::{Serialize, de::DeserializeOwned};
use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

use super::type_name;
use crate::error::{Error, Result};

/// The alignment of a stored value's address.
pub const PAYLOAD_ALIGN: usize = 8;

/// A form of value `V`, owned or borrowed: `str` for a `String`, `[u8]` for a `Vec<u8>`.
pub trait AsValue<V: Value> {
    /// Returns the encoded bytes: the value's own memory where that is possible, else written into `scratch`, which is
    /// empty.
    fn encode<'a>(&'a self, scratch: &'a mut Vec<u8>) -> Result<&'a [u8]>;
}

/// A value type.
pub trait Value: AsValue<Self> + Sized + Send + Sync + 'static {
    /// The type that a read returns without copying: a reference into the version for bytes and fixed structs.
    type View<'a>;

    /// The version of the type that is written. Zero: the type has only one version, and stored values do not name it.
    const VERSION: u8 = 0;

    /// Returns a view of stored bytes of the newest version.
    fn view(bytes: &[u8]) -> Result<Self::View<'_>>;

    /// Decodes an owned value from stored bytes of the newest version.
    fn decode(bytes: &[u8]) -> Result<Self>;

    /// Returns the name of the type in the catalog.
    fn name() -> String {
        type_name::<Self>()
    }

    /// Describes the bytes of one version: names and types of fields, in their order. Returns `None` if the type does
    /// not read that version.
    fn layout(version: u8) -> Option<String> {
        (version == Self::VERSION).then(type_name::<Self>)
    }

    /// Works as [`Value::view`], for bytes that were written under `version`.
    fn view_version(version: u8, bytes: &[u8]) -> Result<Self::View<'_>> {
        if version == Self::VERSION { Self::view(bytes) } else { Err(no_such_version::<Self>(version)) }
    }

    /// Works as [`Value::decode`], for bytes that were written under `version`.
    fn decode_version(version: u8, bytes: &[u8]) -> Result<Self> {
        if version == Self::VERSION { Self::decode(bytes) } else { Err(no_such_version::<Self>(version)) }
    }
}

/// Returns the error for a row that was written under a version that `V` does not read.
#[cold]
pub fn no_such_version<V: Value>(version: u8) -> Error {
    let (name, newest) = (V::name(), V::VERSION);
    Error::Schema(format!(
        "a value of {name} was written under version {version}, which this program does not read (it writes version \
         {newest})"
    ))
}

/// Whether the values of a table end with the number of their version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Framing {
    /// The values have no version number: all have the same layout.
    Bare,
    /// The values end with a version number, each in one byte.
    Versioned,
}

impl Framing {
    fn is_bare<V: Value>(self) -> bool {
        // The constant comes first: for a type without versions the whole test is optimized away.
        V::VERSION == 0 || self == Self::Bare
    }

    /// Returns a view of a stored value.
    #[inline]
    pub(crate) fn view<V: Value>(self, stored: &[u8]) -> Result<V::View<'_>> {
        if self.is_bare::<V>() {
            return V::view(stored);
        }
        let (version, bytes) = split_version(stored)?;
        V::view_version(version, bytes)
    }

    /// Decodes an owned value from a stored one.
    #[inline]
    pub(crate) fn decode<V: Value>(self, stored: &[u8]) -> Result<V> {
        if self.is_bare::<V>() {
            return V::decode(stored);
        }
        let (version, bytes) = split_version(stored)?;
        V::decode_version(version, bytes)
    }

    /// Returns the bytes to store for a value. Both buffers are overwritten.
    #[inline]
    pub(crate) fn encode<'a, V: Value>(
        self,
        value: &'a (impl AsValue<V> + ?Sized),
        [bare, framed]: &'a mut [Vec<u8>; 2],
    ) -> Result<&'a [u8]> {
        bare.clear();
        let bytes = value.encode(bare)?;
        if self.is_bare::<V>() {
            return Ok(bytes);
        }
        framed.clear();
        framed.extend_from_slice(bytes);
        framed.push(V::VERSION);
        Ok(framed)
    }
}

fn split_version(stored: &[u8]) -> Result<(u8, &[u8])> {
    let (version, bytes) = stored.split_last().ok_or(Error::Decode { expected: "value with a version" })?;
    Ok((*version, bytes))
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

/// Makes a struct of a fixed layout a value that is stored as it is in memory and read without copying.
///
/// The type derives `TryFromBytes` (or `FromBytes`), `IntoBytes`, `KnownLayout` and `Immutable` of [`crate::zerocopy`],
/// which refuse padding and pointers, and needs an alignment of at most eight. [`crate::Transaction::view`] returns a
/// reference to the struct inside the version.
///
/// The fields are listed again, so that the catalog can keep them: [`crate::Database::table`] refuses rows that were
/// written with other fields.
///
/// ```
/// use ermine::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(Clone, FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[zerocopy(crate = "ermine::zerocopy")]
/// #[repr(C)]
/// struct Account { balance_cents: i64, opened: u32, flags: u32 }
///
/// ermine::fixed_value!(Account { balance_cents: i64, opened: u32, flags: u32 });
/// ```
///
/// A tuple struct is listed with its fields in parentheses, an enum with the numbers of its variants:
///
/// ```
/// # use ermine::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes};
/// #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[zerocopy(crate = "ermine::zerocopy")]
/// #[repr(C)]
/// struct Point(i32, i32);
///
/// #[derive(TryFromBytes, IntoBytes, KnownLayout, Immutable)]
/// #[zerocopy(crate = "ermine::zerocopy")]
/// #[repr(u8)]
/// enum State { Open = 1, Closed = 2 }
///
/// ermine::fixed_value!(Point(i32, i32));
/// ermine::fixed_value!(enum State { Open = 1, Closed = 2 });
/// ```
///
/// A changed struct is another type, as references into old rows would not fit it. To move the rows of a table, open it
/// with the old struct under its stored name (`fixed_value!(AccountV1 as "Account" { .. })`), copy them into a new
/// table, drop the old one ([`crate::Database::drop_table`]) and rename the new one
/// ([`crate::Database::rename_table`]).
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
/// ermine::fixed_value!(Wide([u8; 16]));
/// # fn main() {}
/// ```
///
/// A field that is missing or has another type does not compile, either:
///
/// ```compile_fail,E0027
/// # use ermine::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// # #[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
/// # #[zerocopy(crate = "ermine::zerocopy")]
/// # #[repr(C)]
/// # struct Account { balance_cents: i64, opened: u32, flags: u32 }
/// ermine::fixed_value!(Account { balance_cents: i64, opened: u32 });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! fixed_value {
    ($type:ident $(as $name:literal)? { $($field:ident: $of:ty),+ $(,)? }) => {
        const _: () = {
            // All fields, with their types.
            fn _fields($type { $($field),+ }: &$type) { $(let _: &$of = $field;)+ }
        };
        $crate::fixed_value!(@impl $type [$($name)?] {
            use $crate::__private::{OtherField as _, ValueField as _};
            $crate::__private::fixed_layout(::core::mem::size_of::<$type>(), ::std::vec![$(
                $crate::__private::FixedField {
                    name: ::core::stringify!($field),
                    offset: ::core::mem::offset_of!($type, $field),
                    layout: (&&$crate::__private::FieldType::<$of>::NEW).layout(),
                }
            ),+])
        });
    };
    ($type:ident $(as $name:literal)? ( $($of:ty),+ $(,)? )) => {
        // All fields, with their types.
        const _: fn($($of),+) -> $type = $type;
        $crate::fixed_value!(@impl $type [$($name)?] {
            use $crate::__private::{OtherField as _, ValueField as _};
            let fields = [$((&&$crate::__private::FieldType::<$of>::NEW).layout()),+];
            ::std::format!("({}) of {} bytes", fields.join(", "), ::core::mem::size_of::<$type>())
        });
    };
    (enum $type:ident $(as $name:literal)? { $($variant:ident = $number:expr),+ $(,)? }) => {
        const _: () = {
            // All variants, with their numbers.
            fn _variants(of: &$type) { match of { $($type::$variant => ()),+ } }
            $(assert!($type::$variant as i128 == $number, "a variant has another number");)+
        };
        $crate::fixed_value!(@impl $type [$($name)?] {
            let variants = [$(::std::format!("{} = {}", ::core::stringify!($variant), $number)),+];
            ::std::format!("enum {{{}}} of {} bytes", variants.join(", "), ::core::mem::size_of::<$type>())
        });
    };
    (@impl $type:ident [$($name:literal)?] $layout:block) => {
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

            $(fn name() -> ::std::string::String {
                ::std::string::String::from($name)
            })?

            fn layout(version: u8) -> ::core::option::Option<::std::string::String> {
                (version == Self::VERSION).then(|| $layout)
            }
        }
    };
}

/// Makes a serde type a value, stored in the postcard format: compact, and decoded at every read.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Customer { name: String, tags: Vec<String> }
///
/// ermine::serde_value!(Customer);
/// ```
///
/// The catalog keeps names, order and types of the fields, and [`crate::Database::table`] refuses rows that were
/// written with others. A type that has changed gets a new version, which is made from the previous one. Rows of both
/// versions are then readable side by side; a row gets the new version when it is next written:
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct CustomerV1 { name: String, tags: Vec<String> }
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Customer { name: String, city: Option<String>, tags: Vec<String> }
///
/// impl From<CustomerV1> for Customer {
///     fn from(CustomerV1 { name, tags }: CustomerV1) -> Self { Self { name, city: None, tags } }
/// }
///
/// ermine::serde_value!(CustomerV1);
/// ermine::serde_value!(Customer, version = 2, from = CustomerV1);
/// ```
///
/// The versions of a type are numbered from 1, which is also the default, to 255. The table is known by the name of the
/// newest type; `serde_value!(Client as "Customer")` keeps the stored name of a type that was renamed.
#[macro_export]
macro_rules! serde_value {
    ($type:ident $(as $name:literal)?, version = $version:literal, from = $older:ty $(,)?) => {
        const _: () = assert!(
            <$older as $crate::Value>::VERSION < $version && <$older as $crate::Value>::VERSION > 0,
            "a version is made from an earlier one",
        );
        $crate::serde_value!(@impl $type [$($name)?] $version version bytes {
            <$older as $crate::Value>::layout(version)
        } {
            <$older as $crate::Value>::decode_version(version, bytes).map(::core::convert::From::from)
        });
    };
    ($type:ident $(as $name:literal)?, version = $version:literal $(,)?) => {
        const _: () = assert!($version > 0, "versions are numbered from 1");
        $crate::serde_value!(@impl $type [$($name)?] $version version bytes { ::core::option::Option::None } {
            ::core::result::Result::Err($crate::__private::no_such_version::<Self>(version))
        });
    };
    ($type:ident $(as $name:literal)? $(,)?) => {
        $crate::serde_value!($type $(as $name)?, version = 1);
    };
    (@impl $type:ident [$($name:literal)?] $newest:literal $version:ident $bytes:ident $layout:block $decode:block) => {
        impl $crate::AsValue<$type> for $type {
            fn encode<'a>(&'a self, scratch: &'a mut ::std::vec::Vec<u8>) -> $crate::Result<&'a [u8]> {
                $crate::__private::encode_serde(self, scratch)
            }
        }

        impl $crate::Value for $type {
            type View<'a> = $type;

            const VERSION: u8 = $newest;

            fn view(bytes: &[u8]) -> $crate::Result<$type> {
                $crate::__private::decode_serde(bytes, ::core::stringify!($type))
            }

            fn decode(bytes: &[u8]) -> $crate::Result<Self> {
                $crate::__private::decode_serde(bytes, ::core::stringify!($type))
            }

            $(fn name() -> ::std::string::String {
                ::std::string::String::from($name)
            })?

            fn layout($version: u8) -> ::core::option::Option<::std::string::String> {
                if $version == Self::VERSION {
                    return ::core::option::Option::Some($crate::__private::serde_layout::<$type>());
                }
                $layout
            }

            fn view_version(version: u8, bytes: &[u8]) -> $crate::Result<$type> {
                <Self as $crate::Value>::decode_version(version, bytes)
            }

            fn decode_version($version: u8, $bytes: &[u8]) -> $crate::Result<Self> {
                if $version == Self::VERSION {
                    return <Self as $crate::Value>::decode($bytes);
                }
                $decode
            }
        }
    };
}

/// Returns the bytes of a fixed struct.
#[inline]
pub fn encode_fixed<T: IntoBytes + Immutable>(value: &T) -> &[u8] {
    value.as_bytes()
}

/// Returns a reference into stored bytes; fails on a wrong length, a wrong address or a bit pattern that the type
/// forbids.
#[inline]
pub fn view_fixed<'a, T>(bytes: &'a [u8], expected: &'static str) -> Result<&'a T>
where
    T: TryFromBytes + KnownLayout + Immutable,
{
    T::try_ref_from_bytes(bytes).map_err(|_| Error::Decode { expected })
}

/// Returns a copy of a fixed struct.
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
