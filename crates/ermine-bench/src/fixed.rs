//! Rows as fixed structs that are read in place, with texts of their full size.

/// Implementations that `row!` derives.
pub(crate) use ermine::{
    fixed_value,
    zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout},
};

/// A string of at most `N` bytes, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[zerocopy(crate = "ermine::zerocopy")]
#[repr(transparent)]
pub struct Text<const N: usize>(pub [u8; N]);

impl<const N: usize> Text<N> {
    /// Pads a text, which must fit.
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text);
        Self(bytes)
    }

    /// The text without its padding.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        &self.0[..end]
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Declares a row: a struct without implicit padding that is stored as it lies in memory. Its size may be stated.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident $(, $bytes:literal)? { $($(#[$field_doc:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, $crate::fixed::FromBytes, $crate::fixed::IntoBytes,
            $crate::fixed::KnownLayout, $crate::fixed::Immutable,
        )]
        #[zerocopy(crate = "ermine::zerocopy")]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)+ }

        $crate::fixed::fixed_value!($name { $($field: $type),+ });
        $(const _: () = assert!(size_of::<$name>() == $bytes);)?
    };
}

pub(crate) use row;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_drops_its_padding() {
        let text = Text::<16>::new(b"BARBARBAR");
        assert_eq!(text.as_bytes(), b"BARBARBAR");
        assert_eq!(Text::<2>::new(b"").as_bytes(), b"");
        assert_eq!(format!("{text:?}"), "\"BARBARBAR\"");
    }

    #[test]
    fn padded_texts_sort_as_texts() {
        assert!(Text::<16>::new(b"ABLE") < Text::new(b"ABLEABLE"));
        assert!(Text::<16>::new(b"ABLEPRI") < Text::new(b"BAR"));
    }
}
