//! Path parameters as a value: one, a tuple in the order of the route, or a struct by name.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::fields::{self, FieldError, Plus, Reason, Value};
use super::{FromRequestParts, Needs, OptionalFromRequestParts, Rejection, shape};
use crate::request::Parts;

/// The path parameters of the route, percent-decoded after the path was split: `%2F` never splits.
///
/// A single value takes the only parameter. A tuple takes all of them in order, those of a nested router's prefix first. A
/// struct or a map takes them by name. A value that does not parse is a 400: numbers, `bool` and `char` are read by Rust's `FromStr`, so that an
/// `f64` may be `NaN` or `inf`, and is that if it is too large. A handler that takes other parameters than
/// its route has is an error at start, as far as its type tells: another number, or another name than the first that a struct needs. The
/// rest is a 500, which the log explains. On a route without any it is an error at start, unless the handler takes an `Option`.
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
        let parameters = Parameters { params: parts.params(), value: None };
        T::deserialize(parameters).map(Self).map_err(|error| match error.kind() {
            Reason::Value(_) | Reason::NotText => Rejection::Path(error),
            // The handler does not fit its route.
            Reason::Missing => Rejection::Parameters(format!(
                "the route has no parameter {:?}",
                error.field().unwrap_or_default()
            )),
            _ => Rejection::Parameters(error.to_string()),
        })
    }

    fn needs(needs: &mut Needs) {
        needs.params_that_fit(shape::check::<T>);
    }
}

/// For a handler that also serves a route without parameters.
impl<T: DeserializeOwned> OptionalFromRequestParts for Path<T> {
    fn is_absent(parts: &Parts) -> bool {
        parts.params().len() == 0
    }
}

/// All parameters of one match, still percent-encoded.
struct Parameters<'r, P> {
    params: P,
    /// The one whose name was read.
    value: Option<(&'r str, &'r str)>,
}

impl<'r, P: ExactSizeIterator<Item = (&'r str, &'r str)>> Parameters<'r, P> {
    fn single(mut self) -> Result<(&'r str, Value<'r>), FieldError> {
        let found = self.params.len();
        match self.params.next() {
            Some((name, encoded)) if found == 1 => Ok((name, decoded(name, encoded)?)),
            _ => Err(mismatch(found, 1)),
        }
    }
}

fn mismatch(found: usize, taken: usize) -> FieldError {
    Reason::Parameters { found, taken }.into()
}

/// The value of a parameter.
fn decoded<'r>(name: &str, encoded: &'r str) -> Result<Value<'r>, FieldError> {
    match fields::decoded(encoded, Plus::IsPlus) {
        Some(decoded) => Ok(Value(decoded)),
        None => Err(FieldError::from(Reason::NotText).of(name)),
    }
}

macro_rules! single {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            let (name, value) = self.single()?;
            value.$method(visitor).map_err(|error| error.of(name))
        }
    )*};
}

impl<'de, P: ExactSizeIterator<Item = (&'de str, &'de str)>> Deserializer<'de> for Parameters<'de, P> {
    type Error = FieldError;

    single! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_identifier
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

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_seq(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, FieldError> {
        let found = self.params.len();
        match found == len {
            true => visitor.visit_seq(self),
            false => Err(mismatch(found, len)),
        }
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_map(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_map(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        enumeration: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let (name, value) = self.single()?;
        value.deserialize_enum(enumeration, variants, visitor).map_err(|error| error.of(name))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_unit()
    }
}

impl<'de, P: Iterator<Item = (&'de str, &'de str)>> SeqAccess<'de> for Parameters<'de, P> {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, FieldError> {
        let Some((name, encoded)) = self.params.next() else { return Ok(None) };
        seed.deserialize(decoded(name, encoded)?).map(Some).map_err(|error| error.of(name))
    }
}

impl<'de, P: Iterator<Item = (&'de str, &'de str)>> MapAccess<'de> for Parameters<'de, P> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        self.value = self.params.next();
        self.value.map(|(name, _)| seed.deserialize(Value(Cow::Borrowed(name)))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let (name, encoded) = self.value.take().unwrap_or_default();
        seed.deserialize(decoded(name, encoded)?).map_err(|error| error.of(name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    fn parse<T: DeserializeOwned>(pairs: &[(&str, &str)]) -> Result<T, String> {
        let parameters = Parameters { params: pairs.iter().copied(), value: None };
        T::deserialize(parameters).map_err(|wrong| wrong.to_string())
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
        assert_eq!(parse::<u8>(&[("n", "300")]), Err("n: \"300\" is no u8".into()));
        assert_eq!(
            parse::<(u8, u8)>(&[("n", "3")]),
            Err("the route has 1 parameters, the handler takes 2".into())
        );
        assert_eq!(
            parse::<u8>(&[("a", "1"), ("b", "2")]),
            Err("the route has 2 parameters, the handler takes 1".into())
        );
        let no_text = parse::<(String, String)>(&[("a", "%20"), ("b", "%FF")]);
        assert_eq!(no_text, Err("b: it is not UTF-8 after percent-decoding".into()));
    }
}
