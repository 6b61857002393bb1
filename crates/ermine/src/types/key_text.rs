//! Encoded keys as text, for errors: decoded by the name of their type, which the catalog keeps.
//!
//! Integers, characters, truth values, strings, bytes, options and tuples of them can be shown. A type of the
//! application's own cannot, since only its name is known here.

use super::key::Key;

/// Returns keys that follow one another in `key`, each of the type of that name, as text; `None` where the bytes are no
/// such keys, or a type is not known.
pub(crate) fn key_texts(type_names: &[&str], mut key: &[u8]) -> Option<String> {
    let mut texts = Vec::new();
    for name in type_names {
        let mut name = *name;
        texts.push(show(&mut name, &mut key)?);
        if !name.is_empty() {
            return None;
        }
    }
    key.is_empty().then(|| texts.join(", "))
}

/// Takes one type off the front of `name`, and a key of this type off the front of `input`.
fn show(name: &mut &str, input: &mut &[u8]) -> Option<String> {
    if eat(name, "(") {
        return show_tuple(name, input);
    }
    if eat(name, "Option<") {
        return match input.split_off_first()? {
            0 => skip(name).then(|| "None".into()),
            1 => show(name, input).filter(|_| eat(name, ">")).map(|text| format!("Some({text})")),
            _ => None,
        };
    }
    if eat(name, "Vec<u8>") {
        return Vec::<u8>::decode(input).ok().map(|bytes| format!("{:?}", bytes.escape_ascii().to_string()));
    }
    if eat(name, "[u8; ") {
        let (length, rest) = name.split_once(']')?;
        *name = rest;
        let bytes = input.split_off(..length.parse().ok()?)?;
        return Some(format!("{:?}", bytes.escape_ascii().to_string()));
    }
    show_plain(name, input)
}

fn show_tuple(name: &mut &str, input: &mut &[u8]) -> Option<String> {
    let mut fields = Vec::new();
    while !eat(name, ")") {
        fields.push(show(name, input)?);
        let _ = eat(name, ", ") || eat(name, ",");
    }
    Some(format!("({})", fields.join(", ")))
}

fn show_plain(name: &mut &str, input: &mut &[u8]) -> Option<String> {
    macro_rules! plain {
        ($word:expr, $($plain:ident)+) => {
            match $word {
                $(stringify!($plain) => $plain::decode(input).ok().map(|value| format!("{value:?}")),)+
                _ => None,
            }
        };
    }
    let end = name.find([',', ')', '>']).unwrap_or(name.len());
    let (word, rest) = name.split_at(end);
    *name = rest;
    plain!(word, u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 bool char String)
}

/// Takes `word` off the front of `name`, if it is there.
fn eat(name: &mut &str, word: &str) -> bool {
    name.strip_prefix(word).map(|rest| *name = rest).is_some()
}

/// Takes the rest of an option's type off the front of `name`.
fn skip(name: &mut &str) -> bool {
    let mut depth = 1;
    let end = name.find(|character| {
        depth += match character {
            '<' => 1,
            '>' => -1,
            _ => 0,
        };
        depth == 0
    });
    end.map(|end| *name = &name[end + 1..]).is_some()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::type_name, *};
    use crate::types::KeyBuffer;

    fn text<K: Key>(key: &K) -> Option<String> {
        let mut bytes = KeyBuffer::new();
        key.encode(&mut bytes);
        key_texts(&[&type_name::<K>()], &bytes)
    }

    #[test]
    fn keys_of_every_shape_are_shown_as_rust_writes_them() {
        assert_eq!(text::<u64>(&7).unwrap(), "7");
        assert_eq!(text::<i8>(&-7).unwrap(), "-7");
        assert_eq!(text::<bool>(&true).unwrap(), "true");
        assert_eq!(text::<char>(&'ä').unwrap(), "'ä'");
        assert_eq!(text::<String>(&"tea\"\0".to_owned()).unwrap(), r#""tea\"\0""#);
        assert_eq!(text::<Vec<u8>>(&b"a\xff".to_vec()).unwrap(), r#""a\\xff""#);
        assert_eq!(text::<[u8; 2]>(b"ab").unwrap(), r#""ab""#);
        assert_eq!(text::<(u32, String, i64)>(&(1, "a".to_owned(), -2)).unwrap(), r#"(1, "a", -2)"#);
        assert_eq!(text::<(u32,)>(&(1,)).unwrap(), "(1)");
        type Nested = (Option<(u8, Option<u8>)>, u16);
        assert_eq!(text::<Nested>(&(Some((1, None)), 2)).unwrap(), "(Some((1, None)), 2)");
        assert_eq!(text::<Nested>(&(None, 2)).unwrap(), "(None, 2)");
        assert_eq!(key_texts(&["u8", "u16"], &[1, 0, 2]).unwrap(), "1, 2");
    }

    #[test]
    fn bytes_of_another_type_and_unknown_types_have_no_text() {
        for (name, bytes) in [
            ("u64", &[0; 7][..]),
            ("u64", &[0; 9]),
            ("bool", &[2]),
            ("Option<u8>", &[2, 0]),
            ("Option<u8", &[0]),
            ("(u8, u8", &[1, 2]),
            ("[u8; 4]", &[1, 2]),
            ("[u8; x]", &[1, 2]),
            ("String", &[0xff, 0]),
            ("Account", &[1]),
            ("", &[]),
        ] {
            assert_eq!(key_texts(&[name], bytes), None, "{name}");
        }
    }
}
