//! Which path parameters a type takes, found without a request: it is deserialized from nothing, and what it asks for is noted.

use std::fmt::{self, Display};

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::fields::{FieldError, Reason};

/// Refuses a type that no request of a route with these parameters would fit. It says nothing of the values.
pub(super) fn check<T: DeserializeOwned>(params: &[Box<str>]) -> Result<(), String> {
    let asked = T::deserialize(Nothing).err().unwrap_or(Asked::Other);
    match asked {
        Asked::Values(taken) if taken != params.len() => {
            let found = params.len();
            Err(FieldError::from(Reason::Parameters { found, taken }).to_string())
        }
        Asked::Field(field) if params.iter().all(|param| **param != *field) => {
            Err(format!("the route has no parameter {field:?}"))
        }
        _ => Ok(()),
    }
}

/// What a type has asked for.
#[derive(Debug)]
enum Asked {
    /// So many values.
    Values(usize),
    /// A field of a struct that has no default.
    Field(String),
    /// What fits any number of parameters, or cannot be known.
    Other,
}

impl Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl std::error::Error for Asked {}

impl de::Error for Asked {
    fn custom<T: Display>(_: T) -> Self {
        Self::Other
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Field(field.to_owned())
    }
}

/// No parameters at all, as `Parameters` of a route.
struct Nothing;

macro_rules! single {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
            Err(Asked::Values(1))
        }
    )*};
}

macro_rules! other {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
            Err(Asked::Other)
        }
    )*};
}

impl<'de> Deserializer<'de> for Nothing {
    type Error = Asked;

    single! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_identifier
    }

    other! { deserialize_unit deserialize_seq deserialize_map deserialize_ignored_any }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Other)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Asked> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Values(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::Values(len))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Asked> {
        visitor.visit_map(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked::Values(1))
    }
}

/// No fields, so that a struct names the first one that it needs.
impl<'de> MapAccess<'de> for Nothing {
    type Error = Asked;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, _: K) -> Result<Option<K::Value>, Asked> {
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, _: V) -> Result<V::Value, Asked> {
        Err(Asked::Other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it is not read")]
    struct Fields {
        #[serde(default)]
        user: String,
        note: Option<String>,
        order: u64,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "it is not read")]
    struct Wrapped((String, u64));

    #[derive(Deserialize)]
    enum Colour {
        Red,
    }

    #[test]
    fn what_fits_is_known_from_the_type() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect::<Vec<Box<str>>>();
        let (one, two) = (names(&["order"]), names(&["user", "order"]));
        assert!(check::<u64>(&one).is_ok() && check::<u64>(&two).is_err());
        assert!(check::<Option<char>>(&one).is_ok() && check::<String>(&two).is_err());
        assert!(check::<Colour>(&one).is_ok() && check::<Colour>(&two).is_err());
        assert!(check::<(u8, u8)>(&two).is_ok() && check::<(u8, u8)>(&one).is_err());
        assert!(check::<Wrapped>(&two).is_ok() && check::<Wrapped>(&one).is_err());
        assert!(check::<Vec<u8>>(&one).is_ok() && check::<BTreeMap<String, u8>>(&two).is_ok());
        assert!(check::<()>(&two).is_ok());
        assert!(check::<Fields>(&one).is_ok() && check::<Fields>(&two).is_ok());
        let Err(fault) = check::<Fields>(&names(&["id"])) else { panic!("it has no order") };
        assert_eq!(fault, "the route has no parameter \"order\"");
        let _ = Colour::Red;
    }
}
