//! The plan as data: how its parts that serde does not know are written and read.
//!
//! Text stays text, so that a person can read a plan: an address and a method as they are said, a status as its number, a
//! header as its name and value. Bytes that are not UTF-8 are `{"base64": ".."}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, as text where they are text.
#[derive(Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Octets {
    Text(String),
    Base64 { base64: String },
}

impl Octets {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64 { base64: BASE64.encode(bytes) },
        }
    }

    fn bytes<E: serde::de::Error>(self) -> Result<Vec<u8>, E> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Base64 { base64 } => BASE64.decode(base64).map_err(E::custom),
        }
    }
}

/// A value by its text: `Display` and `FromStr`.
pub(crate) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A value that may be absent, by its text.
pub(crate) mod optional_text {
    use std::fmt::Display;
    use std::str::FromStr;

    use super::*;

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse()).transpose().map_err(D::Error::custom)
    }
}

/// A status that may be absent, by its number.
pub(crate) mod status {
    use anywire_http::StatusCode;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Option<StatusCode>, to: S) -> Result<S::Ok, S::Error> {
        value.map(|status| status.as_u16()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StatusCode>, D::Error> {
        let number = Option::<u16>::deserialize(from)?;
        number.map(StatusCode::from_u16).transpose().map_err(D::Error::custom)
    }
}

/// Bytes.
pub(crate) mod bytes {
    use ::bytes::Bytes;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        Octets::of(value).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        Octets::deserialize(from)?.bytes().map(Bytes::from)
    }
}

/// Header fields, each a pair of its name and its value, in their order.
pub(crate) mod headers {
    use anywire_http::Headers;

    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Headers, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(value.iter().map(|(name, value)| (name, Octets::of(value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Headers, D::Error> {
        let mut headers = Headers::new();
        for (name, value) in Vec::<(String, Octets)>::deserialize(from)? {
            headers.append(name, value.bytes::<D::Error>()?).map_err(D::Error::custom)?;
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anywire_http::{Headers, Method, StatusCode};
    use proptest::prelude::*;

    use crate::{Amount, Expect, Plan, Protocol, Reuse, Schedule, Shape};

    fn through_json(plan: &Plan) -> Plan {
        let json = serde_json::to_string(plan).unwrap();
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    fn full() -> Plan {
        let mut headers = Headers::new();
        headers.append("x-text", "one").unwrap();
        headers.append("x-text", "two").unwrap();
        headers.append("x-bytes", [b'a', 0xff]).unwrap();
        Plan {
            via: Some("unix:/run/a b.sock".parse().unwrap()),
            server_name: Some("peer".to_owned()),
            protocol: Protocol::Http2,
            depth: 7,
            schedule: Some(Schedule::of(Shape::Steps { from: 0.1, to: 1e7 / 3.0, count: 7 })),
            deadline: Some(Duration::MAX),
            reuse: Reuse::Mru,
            amount: Amount::Requests(u64::MAX),
            warm_up: Duration::from_nanos(1),
            method: Method::from_bytes(b"PURGE").unwrap(),
            headers,
            body: vec![0, 0xff, 0xfe].into(),
            timeout: Duration::MAX,
            expect: Expect {
                status: Some(StatusCode::IM_A_TEAPOT),
                body_bytes: Some(u64::MAX),
                ..Expect::default()
            },
            ..Plan::new("https://h/a?b")
        }
    }

    #[test]
    fn a_plan_goes_through_json_unchanged() {
        for plan in [Plan::new("http://h/"), full()] {
            assert_eq!(through_json(&plan), plan);
        }
    }

    #[test]
    fn a_person_can_read_it() {
        let json = serde_json::to_value(full()).unwrap();
        assert_eq!(json["via"], "unix:/run/a b.sock");
        assert_eq!(json["method"], "PURGE");
        assert_eq!(json["protocol"], "http/2");
        assert_eq!(json["expect"]["status"], 418);
        assert_eq!(json["headers"][0], serde_json::json!(["x-text", "one"]));
        assert_eq!(json["headers"][2], serde_json::json!(["x-bytes", { "base64": "Yf8=" }]));
    }

    #[test]
    fn a_plan_that_is_none_is_an_error_and_no_panic() {
        let good = serde_json::to_value(full()).unwrap();
        for (field, wrong) in [
            ("via", serde_json::json!("nowhere:")),
            ("method", serde_json::json!("no method")),
            ("headers", serde_json::json!([["a b", "c"]])),
            ("headers", serde_json::json!([["a", "b\r\nc: d"]])),
            ("body", serde_json::json!({ "base64": "?" })),
            ("expect", serde_json::json!({ "status": 9999, "body_bytes": null })),
            ("protocol", serde_json::json!("http/9")),
            ("depth", serde_json::json!(-1)),
            ("of_a_later_version", serde_json::json!(1)),
        ] {
            let mut json = good.clone();
            json[field] = wrong;
            assert!(serde_json::from_value::<Plan>(json).is_err(), "{field}");
        }
    }

    proptest! {
        #[test]
        fn any_body_comes_back(body in prop::collection::vec(any::<u8>(), 0..100)) {
            let plan = Plan { body: body.into(), ..Plan::new("http://h/") };
            prop_assert_eq!(through_json(&plan), plan);
        }
    }
}
