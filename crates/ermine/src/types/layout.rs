//! Descriptions of stored values: field names and types in the order of their bytes.
//!
//! The catalog keeps the description of each table's values. When a program opens the table, the engine compares it
//! with the program's own: two fields that were swapped, or an `i64` that became two `u32`, then cause an error instead
//! of wrong data.
//!
//! A serde type is described by deserializing it from nothing: a deserializer notes the type that is requested at each
//! place and answers with a dummy value. An enum takes one pass for each variant.
//!
//! Covered: names and order of fields and variants, types of fields, also inside `Option`, sequences, maps, tuples and
//! enums. Names of structs and enums are omitted: they change nothing in the bytes, and the older version of a type has
//! another name. Not covered: the meaning of a field; the order of fields without names; the fields behind a place
//! whose type refuses the dummy value (a string that must be a date): the rest of that struct is described by its field
//! names alone.

use std::{any::type_name as full_type_name, fmt, marker::PhantomData};

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor, value::U32Deserializer,
};

use super::Value;

/// Returns the name of a type without paths.
pub(crate) fn type_name<T: ?Sized>() -> String {
    let mut name = String::new();
    let mut word = String::new();
    for character in full_type_name::<T>().chars() {
        match character {
            ':' => word.clear(),
            _ if character.is_alphanumeric() || character == '_' => word.push(character),
            _ => {
                name.push_str(&std::mem::take(&mut word));
                name.push(character);
            }
        }
    }
    name + &word
}

/// A field of a fixed struct.
pub struct FixedField {
    /// The field's name.
    pub name: &'static str,
    /// The offset of the field's first byte.
    pub offset: usize,
    /// The description of the field's type.
    pub layout: String,
}

/// Describes a fixed struct of `bytes` bytes.
pub fn fixed_layout(bytes: usize, mut fields: Vec<FixedField>) -> String {
    fields.sort_by_key(|field| field.offset);
    let fields: Vec<_> =
        fields.into_iter().map(|FixedField { name, offset, layout }| format!("{name}: {layout} at {offset}")).collect();
    format!("{{{}}} of {bytes} bytes", fields.join(", "))
}

/// Describes the type of a field: a [`Value`] by its own layout, any other type by name and size. Called as
/// `(&&FieldType::<T>::NEW).layout()`, where method resolution prefers the former.
pub struct FieldType<T>(PhantomData<T>);

impl<T> FieldType<T> {
    /// The descriptor of the type `T`.
    pub const NEW: Self = Self(PhantomData);
}

/// The layout of a field that is a [`Value`].
pub trait ValueField {
    /// Returns the description.
    fn layout(&self) -> String;
}

/// The layout of any other field.
pub trait OtherField {
    /// Returns the description.
    fn layout(&self) -> String;
}

impl<T: Value> ValueField for &FieldType<T> {
    fn layout(&self) -> String {
        T::layout(T::VERSION).unwrap_or_else(type_name::<T>)
    }
}

impl<T> OtherField for FieldType<T> {
    fn layout(&self) -> String {
        format!("{} of {} bytes", type_name::<T>(), size_of::<T>())
    }
}

/// Describes a serde type.
pub fn serde_layout<T: DeserializeOwned>() -> String {
    /// More passes than any type of a program needs for its choices.
    const PASSES_MAX: usize = 10_000;
    let mut root = Node::Unknown;
    for _ in 0..PASSES_MAX {
        let mut pass = Pass { inside: Vec::new(), learned: false };
        // A value, or the refusal of a dummy: either way the nodes hold the findings of the pass.
        let _ = T::deserialize(Tracer { pass: &mut pass, node: &mut root });
        if !pass.learned {
            break;
        }
    }
    root.to_string()
}

/// The findings about the type at one place.
#[derive(Clone, PartialEq, Debug)]
enum Node {
    /// Not reached yet.
    Unknown,
    /// A struct or enum inside itself.
    Recursive,
    Plain(&'static str),
    /// `Option` or a sequence, by its word. The flag: a value inside was refused, so there is none from then on.
    Holder(&'static str, Box<Node>, bool),
    Map(Box<[Node; 2]>, bool),
    Tuple(Vec<Node>),
    Struct(Vec<(&'static str, Node)>),
    Enum(Vec<Variant>),
}

#[derive(Clone, PartialEq, Debug)]
struct Variant {
    name: &'static str,
    content: Node,
    state: VariantState,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum VariantState {
    New,
    Visited,
    Refused,
}

impl Node {
    /// Returns whether another pass could learn more here.
    fn is_open(&self) -> bool {
        match self {
            Self::Unknown | Self::Recursive | Self::Plain(_) => false,
            Self::Holder(_, inner, _) => inner.is_open(),
            Self::Map(entry, _) => entry.iter().any(Self::is_open),
            Self::Tuple(nodes) => nodes.iter().any(Self::is_open),
            Self::Struct(fields) => fields.iter().any(|(_, node)| node.is_open()),
            Self::Enum(variants) => variants.iter().any(Variant::is_open),
        }
    }
}

impl Variant {
    fn is_open(&self) -> bool {
        match self.state {
            VariantState::New => true,
            VariantState::Visited => self.content.is_open(),
            VariantState::Refused => false,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, items: &mut dyn Iterator<Item = String>| {
            f.write_str(&items.collect::<Vec<_>>().join(", "))
        };
        match self {
            Self::Unknown => f.write_str("?"),
            Self::Recursive => f.write_str(".."),
            Self::Plain(name) => f.write_str(name),
            Self::Holder(word, inner, _) => write!(f, "{word}<{inner}>"),
            Self::Map(entry, _) => write!(f, "map<{}, {}>", entry[0], entry[1]),
            Self::Tuple(nodes) => match nodes.split_first() {
                Some((first, rest)) if rest.len() > 1 && rest.iter().all(|node| node == first) => {
                    write!(f, "[{first}; {}]", nodes.len())
                }
                _ => {
                    f.write_str("(")?;
                    list(f, &mut nodes.iter().map(Node::to_string))?;
                    f.write_str(")")
                }
            },
            Self::Struct(fields) => {
                f.write_str("{")?;
                list(f, &mut fields.iter().map(|(name, node)| format!("{name}: {node}")))?;
                f.write_str("}")
            }
            Self::Enum(variants) => {
                f.write_str("enum {")?;
                list(f, &mut variants.iter().map(|Variant { name, content, .. }| format!("{name}: {content}")))?;
                f.write_str("}")
            }
        }
    }
}

/// One deserialization.
struct Pass {
    /// The structs and enums that are being described: the address and length of the list of their field or variant
    /// names, and their own name.
    inside: Vec<(usize, usize, &'static str)>,
    learned: bool,
}

impl Pass {
    /// Records, if `now`, that passes must leave a place without a value from now on.
    fn refuse(&mut self, refused: &mut bool, now: bool) {
        self.learned |= now && !*refused;
        *refused |= now;
    }
}

/// The deserializer of one place.
struct Tracer<'p> {
    pass: &'p mut Pass,
    node: &'p mut Node,
}

/// The reason why a pass ends early: a dummy value was refused, or a type contains itself.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a dummy value was refused")
    }
}

impl std::error::Error for Refused {}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'p> Tracer<'p> {
    fn learn(&mut self, node: impl FnOnce() -> Node) {
        if *self.node == Node::Unknown {
            *self.node = node();
            self.pass.learned = true;
        }
    }

    fn plain<T>(mut self, name: &'static str, value: Result<T, Refused>) -> Result<T, Refused> {
        self.learn(|| Node::Plain(name));
        value
    }

    /// Enters a struct or enum, unless it is inside it already.
    fn within<T>(
        mut self,
        name: &'static str,
        parts: &'static [&'static str],
        go: impl FnOnce(Tracer<'_>) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let key = (parts.as_ptr().addr(), parts.len(), name);
        if self.pass.inside.contains(&key) {
            self.learn(|| Node::Recursive);
            return Err(Refused);
        }
        self.pass.inside.push(key);
        let result = go(Tracer { pass: &mut *self.pass, node: &mut *self.node });
        self.pass.inside.pop();
        result
    }

    fn tuple<'de, V: Visitor<'de>>(mut self, length: usize, visitor: V) -> Result<V::Value, Refused> {
        self.learn(|| Node::Tuple(vec![Node::Unknown; length]));
        match &mut *self.node {
            Node::Tuple(nodes) => visitor.visit_seq(Places { pass: self.pass, nodes: &mut nodes.iter_mut() }),
            _ => Err(Refused),
        }
    }

    fn fields<'de, V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.learn(|| Node::Struct(fields.iter().map(|&name| (name, Node::Unknown)).collect()));
        match &mut *self.node {
            Node::Struct(fields) => {
                visitor.visit_seq(Places { pass: self.pass, nodes: &mut fields.iter_mut().map(|(_, node)| node) })
            }
            _ => Err(Refused),
        }
    }
}

/// The places of a tuple, struct, sequence or map, one after the other.
struct Places<'p, I> {
    pass: &'p mut Pass,
    nodes: &'p mut I,
}

impl<'de, 'n, I: Iterator<Item = &'n mut Node>> SeqAccess<'de> for Places<'_, I> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        let node = self.nodes.next();
        node.map(|node| seed.deserialize(Tracer { pass: &mut *self.pass, node })).transpose()
    }
}

impl<'de, 'n, I: Iterator<Item = &'n mut Node>> MapAccess<'de> for Places<'_, I> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        self.next_element_seed(seed)?.ok_or(Refused)
    }
}

/// The variant that a pass takes.
struct Chosen<'p> {
    tracer: Tracer<'p>,
    number: u32,
}

impl<'de, 'p> EnumAccess<'de> for Chosen<'p> {
    type Error = Refused;
    type Variant = Tracer<'p>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Tracer<'p>), Refused> {
        let number: U32Deserializer<Refused> = self.number.into_deserializer();
        Ok((seed.deserialize(number)?, self.tracer))
    }
}

impl<'de> VariantAccess<'de> for Tracer<'_> {
    type Error = Refused;

    fn unit_variant(mut self) -> Result<(), Refused> {
        self.learn(|| Node::Plain("()"));
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refused> {
        self.tuple(length, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        self.fields(fields, visitor)
    }
}

macro_rules! plain {
    ($($method:ident $visit:ident $name:literal $dummy:expr;)+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.plain($name, visitor.$visit($dummy))
        }
    )+};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Refused;

    // Dummy numbers are 1: types refuse 0 more often.
    plain! {
        deserialize_bool visit_bool "bool" false;
        deserialize_i8 visit_i8 "i8" 1;
        deserialize_i16 visit_i16 "i16" 1;
        deserialize_i32 visit_i32 "i32" 1;
        deserialize_i64 visit_i64 "i64" 1;
        deserialize_i128 visit_i128 "i128" 1;
        deserialize_u8 visit_u8 "u8" 1;
        deserialize_u16 visit_u16 "u16" 1;
        deserialize_u32 visit_u32 "u32" 1;
        deserialize_u64 visit_u64 "u64" 1;
        deserialize_u128 visit_u128 "u128" 1;
        deserialize_f32 visit_f32 "f32" 1.0;
        deserialize_f64 visit_f64 "f64" 1.0;
        deserialize_char visit_char "char" 'a';
        deserialize_str visit_str "string" "";
        deserialize_string visit_str "string" "";
        deserialize_bytes visit_bytes "bytes" &[];
        deserialize_byte_buf visit_bytes "bytes" &[];
    }

    fn is_human_readable(&self) -> bool {
        // As in the stored format.
        false
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.plain("()", visitor.visit_unit())
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.learn(|| Node::Holder("option", Box::new(Node::Unknown), false));
        let Node::Holder(_, inner, refused) = &mut *self.node else { return Err(Refused) };
        if *refused {
            return visitor.visit_none();
        }
        let result = visitor.visit_some(Tracer { pass: &mut *self.pass, node: &mut *inner });
        self.pass.refuse(refused, result.is_err() && !inner.is_open());
        result
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.learn(|| Node::Holder("list", Box::new(Node::Unknown), false));
        let Node::Holder(_, inner, refused) = &mut *self.node else { return Err(Refused) };
        let mut nodes = Some(&mut **inner).filter(|_| !*refused).into_iter();
        let result = visitor.visit_seq(Places { pass: &mut *self.pass, nodes: &mut nodes });
        self.pass.refuse(refused, result.is_err() && !inner.is_open());
        result
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        self.learn(|| Node::Map(Box::new([Node::Unknown, Node::Unknown]), false));
        let Node::Map(entry, refused) = &mut *self.node else { return Err(Refused) };
        let skipped = if *refused { entry.len() } else { 0 };
        let mut nodes = entry.iter_mut().skip(skipped);
        let result = visitor.visit_map(Places { pass: &mut *self.pass, nodes: &mut nodes });
        self.pass.refuse(refused, result.is_err() && !entry.iter().any(Node::is_open));
        result
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, Refused> {
        self.tuple(length, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.tuple(length, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.within(name, fields, |tracer| tracer.fields(fields, visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.within(name, variants, |mut tracer| {
            tracer.learn(|| {
                let new = |&name| Variant { name, content: Node::Unknown, state: VariantState::New };
                Node::Enum(variants.iter().map(new).collect())
            });
            let Node::Enum(known) = &mut *tracer.node else { return Err(Refused) };
            let open = known.iter().position(Variant::is_open);
            let whole = || known.iter().position(|variant| variant.state == VariantState::Visited);
            let number = open.or_else(whole).ok_or(Refused)?;
            let Variant { content, state, .. } = &mut known[number];
            let chosen = Chosen { tracer: Tracer { pass: &mut *tracer.pass, node: content }, number: number as u32 };
            let result = visitor.visit_enum(chosen);
            let now = match result {
                Ok(_) => VariantState::Visited,
                // Another pass gets further.
                Err(_) if content.is_open() => *state,
                Err(_) => VariantState::Refused,
            };
            tracer.pass.learned |= *state != now;
            *state = now;
            result
        })
    }

    fn deserialize_any<V: Visitor<'de>>(mut self, _: V) -> Result<V::Value, Refused> {
        // The stored format does not describe itself either: no value of such a type can be read.
        self.learn(|| Node::Plain("any"));
        Err(Refused)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::{
        collections::{BTreeMap, HashSet},
        num::NonZeroU16,
    };

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code)]
    struct Address {
        street: String,
        numbers: Vec<NonZeroU16>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code)]
    enum Contact {
        Nobody,
        Phone(u64),
        Post { address: Address, until: Option<i32> },
        Both(String, Box<Contact>),
        One(Box<Contact>),
    }

    #[derive(Deserialize)]
    #[expect(dead_code)]
    struct Customer {
        name: String,
        contacts: Vec<Contact>,
        parent: Option<Box<Customer>>,
        tags: BTreeMap<u8, HashSet<char>>,
        key: [u8; 16],
        pair: (f64, ()),
        last: bool,
    }

    #[test]
    fn a_type_is_described_by_fields_variants_and_types() {
        let address = "{street: string, numbers: list<u16>}";
        let contact = format!(
            "enum {{Nobody: (), Phone: u64, Post: {{address: {address}, until: option<i32>}}, Both: (string, ..), One: \
             ..}}"
        );
        let expected = format!(
            "{{name: string, contacts: list<{contact}>, parent: option<..>, tags: map<u8, list<char>>, key: [u8; 16], \
             pair: (f64, ()), last: bool}}"
        );
        assert_eq!(serde_layout::<Customer>(), expected);
        assert_eq!(serde_layout::<Contact>(), contact);
        assert_eq!(serde_layout::<Vec<u32>>(), "list<u32>");
    }

    /// A type that refuses every text that is not a date.
    struct Date;

    impl<'de> Deserialize<'de> for Date {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let text = String::deserialize(deserializer)?;
            if text.len() == 10 { Ok(Self) } else { Err(serde::de::Error::custom("no date")) }
        }
    }

    #[test]
    fn behind_a_refused_value_are_names_and_in_front_of_it_types() {
        #[derive(Deserialize)]
        #[expect(dead_code)]
        struct Visit {
            place: String,
            planned: Option<Date>,
            notes: Vec<(Date, u8)>,
            day: Date,
            price: i64,
        }
        assert_eq!(
            serde_layout::<Visit>(),
            "{place: string, planned: option<string>, notes: list<(string, ?)>, day: string, price: ?}"
        );
    }

    #[test]
    fn names_of_types_have_no_paths() {
        assert_eq!(type_name::<u64>(), "u64");
        assert_eq!(type_name::<(u32, String)>(), "(u32, String)");
        assert_eq!(type_name::<Vec<Option<Node>>>(), "Vec<Option<Node>>");
        assert_eq!(type_name::<[u8; 16]>(), "[u8; 16]");
    }
}
