//! Names with values as one value: what queries, forms and path parameters have in common.
//!
//! A field is text, so that it is parsed as the type that `T` asks for. What does not fit names its field.

mod error;
mod urlencoded;
mod value;

use std::borrow::Cow;
use std::vec;

use serde::de::value::MapDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

pub use self::error::FieldError;
pub(super) use self::error::Reason;
pub(crate) use self::urlencoded::{Plus, decoded, each};
pub(super) use self::value::Value;

/// Reads a query or a form of at most so many fields.
pub(super) fn from_urlencoded<T: DeserializeOwned>(text: &str, fields_max: usize) -> Result<T, FieldError> {
    T::deserialize(Fields(urlencoded::pairs(text, fields_max)?))
}

/// All fields in their order.
struct Fields<'q>(Vec<Pair<'q>>);

/// Name and value, decoded.
type Pair<'q> = (Cow<'q, str>, Cow<'q, str>);

impl<'de> Deserializer<'de> for Fields<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, FieldError> {
        if has_repeated(&self.0) {
            // Fields of one name stand together then, in their order. The order of names has no meaning to a struct or a map.
            self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        visitor.visit_map(Groups { pairs: self.0.into_iter(), begun: None })
    }

    /// Pairs in the order in which they came.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let pairs = self.0.into_iter().map(|(name, value)| (Value(name), Value(value)));
        visitor.visit_seq(MapDeserializer::new(pairs))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf tuple tuple_struct map struct
        enum identifier ignored_any
    }
}

/// Whether several may have one name. To compare all with all is cheaper than to sort them, as long as they are few.
fn has_repeated(pairs: &[Pair<'_>]) -> bool {
    let mut rest = pairs;
    while let [(name, _), behind @ ..] = rest {
        rest = behind;
        if pairs.len() > FEW || behind.iter().any(|(other, _)| other == name) {
            return true;
        }
    }
    false
}

const FEW: usize = 16;

/// The fields by name.
struct Groups<'q> {
    /// Those of one name stand together.
    pairs: vec::IntoIter<Pair<'q>>,
    /// The first of a name, which was read.
    begun: Option<Pair<'q>>,
}

impl<'de> MapAccess<'de> for Groups<'de> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let Some(pair) = self.pairs.next() else { return Ok(None) };
        let (name, _) = self.begun.insert(pair);
        let key = seed.deserialize(Value(name.clone()));
        key.map(Some).map_err(|error| error.of(name))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let (name, value) = self.begun.take().unwrap_or_default();
        let group = Group { name: &name, first: Some(value), rest: &mut self.pairs };
        seed.deserialize(group).map_err(|error| error.of(&name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.pairs.len())
    }
}

/// The values of one name.
struct Group<'g, 'q> {
    name: &'g str,
    first: Option<Cow<'q, str>>,
    rest: &'g mut vec::IntoIter<Pair<'q>>,
}

impl<'q> Group<'_, 'q> {
    fn next(&mut self) -> Option<Cow<'q, str>> {
        match self.first.take() {
            Some(first) => Some(first),
            None if self.is_last() => None,
            None => self.rest.next().map(|(_, value)| value),
        }
    }

    /// Whether none of the name comes behind.
    fn is_last(&self) -> bool {
        self.rest.as_slice().first().is_none_or(|(name, _)| name != self.name)
    }

    /// The only value.
    fn single(self) -> Result<Value<'q>, FieldError> {
        match self.is_last() {
            true => Ok(Value(self.first.unwrap_or_default())),
            false => Err(Reason::Repeated.into()),
        }
    }
}

macro_rules! single {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            self.single()?.$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Group<'_, 'de> {
    type Error = FieldError;

    single! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8
        deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf deserialize_identifier
        deserialize_unit deserialize_map
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.is_last() {
            true => self.single()?.deserialize_any(visitor),
            false => visitor.visit_seq(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(self)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_seq(self)
    }

    /// A browser sends each field of a form, also those that were left empty.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.is_last() && self.first.as_ref().is_none_or(|value| value.is_empty()) {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.single()?.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.single()?.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.single()?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, FieldError> {
        while self.next().is_some() {}
        visitor.visit_unit()
    }
}

impl<'de> SeqAccess<'de> for Group<'_, 'de> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        self.next().map(|value| seed.deserialize(Value(value))).transpose()
    }
}

#[cfg(test)]
mod tests;
