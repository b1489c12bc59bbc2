//! Path parameters as a value: one, a tuple in the order of the route, or a struct by name.

use percent_encoding::percent_decode_str;
use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::borrow::Cow;
use std::fmt::Display;

use super::{FromRequestParts, Needs, OptionalFromRequestParts, Rejection};
use crate::request::Parts;

/// The path parameters of the route, percent-decoded after the path was split: `%2F` never splits.
///
/// A single value takes the only parameter. A tuple takes all of them in order, those of a nested router's prefix first. A
/// struct or a map takes them by name. A value that does not parse is a 400. A handler that takes other parameters than
/// its route has is a 500; the log explains it. On a route without any it is an error at start, unless the handler takes an
/// `Option`.
///
/// ```
/// use anywire_server::{Path, Router};
///
/// let router = Router::new()
///     .get("/bytes/{n}", async |Path(n): Path<usize>| vec![b'x'; n.min(100)])
///     .get("/users/{user}/orders/{order}", async |Path((user, order)): Path<(String, u64)>| format!("{user} {order}"));
/// # drop(router);
/// ```
#[derive(Debug, Clone)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts for Path<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        decode(parts).map(Self).map_err(|wrong| match wrong {
            Wrong::Value(text) => Rejection::Path(text),
            Wrong::Route(text) => Rejection::Parameters(text),
        })
    }

    fn needs(needs: &mut Needs) {
        needs.params();
    }
}

/// For a handler that also serves a route without parameters.
impl<T: DeserializeOwned> OptionalFromRequestParts for Path<T> {
    fn is_absent(parts: &Parts) -> bool {
        parts.params().next().is_none()
    }
}

fn decode<T: DeserializeOwned>(parts: &Parts) -> Result<T, Wrong> {
    let values: Result<Vec<_>, Wrong> =
        parts.params().map(|(name, value)| Ok((name, Value::new(value)?))).collect();
    T::deserialize(Parameters(values?))
}

/// Why the parameters do not fit the handler.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Wrong {
    /// The value does not fit: the peer's fault.
    #[error("{0}")]
    Value(String),
    /// The names or the number of the parameters do not fit: the handler's fault.
    #[error("{0}")]
    Route(String),
}

impl Wrong {
    fn parameters(found: usize, taken: usize) -> Self {
        Self::Route(format!("the route has {found} parameters, the handler takes {taken}"))
    }
}

impl serde::de::Error for Wrong {
    fn custom<T: Display>(message: T) -> Self {
        Self::Value(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Route(format!("the route has no parameter {field:?}, which the handler takes"))
    }

    fn unknown_field(field: &str, _: &'static [&'static str]) -> Self {
        Self::Route(format!("the handler does not take the parameter {field:?} of the route"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::Route(format!("the route has two parameters {field:?}"))
    }
}

/// All parameters of one match.
struct Parameters<'r>(Vec<(&'r str, Value<'r>)>);

impl<'r> Parameters<'r> {
    fn single(self) -> Result<Value<'r>, Wrong> {
        let found = self.0.len();
        let mut values = self.0.into_iter().map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(Wrong::Route("the route has no parameter".to_owned())),
            (Some(_), Some(_)) => Err(Wrong::parameters(found, 1)),
        }
    }
}

macro_rules! single {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            self.single()?.$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for Parameters<'de> {
    type Error = Wrong;

    single! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_identifier
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter().map(|(_, value)| value)))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Wrong> {
        if self.0.len() != len {
            return Err(Wrong::parameters(self.0.len(), len));
        }
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_map(MapDeserializer::new(self.0.into_iter()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.single()?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }
}

/// One parameter, percent-decoded.
struct Value<'r>(Cow<'r, str>);

impl<'r> Value<'r> {
    fn new(encoded: &'r str) -> Result<Self, Wrong> {
        let decoded = percent_decode_str(encoded).decode_utf8();
        decoded.map(Self).map_err(|_| wrong(format_args!("{encoded:?} is not UTF-8 after percent-decoding")))
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            let value: Result<$type, _> = self.0.parse();
            let value = value.map_err(|_| wrong(format_args!("{:?} is no {}", self.0, stringify!($type))))?;
            visitor.$visit(value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'de> {
    type Error = Wrong;

    parsed! {
        deserialize_bool visit_bool bool;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_f32 visit_f32 f32;
        deserialize_f64 visit_f64 f64;
        deserialize_char visit_char char;
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.0 {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    forward_to_deserialize_any! {
        str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Wrong> for Value<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

fn wrong(message: impl Display) -> Wrong {
    serde::de::Error::custom(message)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    fn parse<T: DeserializeOwned>(pairs: &[(&str, &str)]) -> Result<T, String> {
        let values =
            pairs.iter().map(|(name, value)| (*name, Value::new(value).expect("valid in this test")));
        T::deserialize(Parameters(values.collect())).map_err(|wrong: Wrong| wrong.to_string())
    }

    #[test]
    fn one_tuple_struct_map_and_enum() {
        #[derive(Deserialize, PartialEq, Debug)]
        struct Both {
            user: String,
            order: u64,
        }
        #[derive(Deserialize, PartialEq, Debug)]
        #[serde(rename_all = "lowercase")]
        enum Colour {
            Red,
        }
        let pairs = [("user", "a%2Fb"), ("order", "7")];
        assert_eq!(parse::<u64>(&pairs[1..]), Ok(7));
        assert_eq!(parse::<(String, u64)>(&pairs), Ok(("a/b".into(), 7)));
        assert_eq!(parse::<Both>(&pairs), Ok(Both { user: "a/b".into(), order: 7 }));
        assert_eq!(parse::<Vec<String>>(&pairs), Ok(vec!["a/b".into(), "7".into()]));
        assert_eq!(parse::<BTreeMap<String, String>>(&pairs).map(|map| map.len()), Ok(2));
        assert_eq!(parse::<Colour>(&[("c", "red")]), Ok(Colour::Red));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert_eq!(parse::<u8>(&[("n", "300")]), Err("\"300\" is no u8".into()));
        assert_eq!(
            parse::<(u8, u8)>(&[("n", "3")]),
            Err("the route has 1 parameters, the handler takes 2".into())
        );
        assert_eq!(
            parse::<u8>(&[("a", "1"), ("b", "2")]),
            Err("the route has 2 parameters, the handler takes 1".into())
        );
        assert!(Value::new("%FF").is_err());
    }
}
