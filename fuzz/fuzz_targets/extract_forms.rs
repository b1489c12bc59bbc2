//! Forms of any bytes: they are read alike from a query and from a body, and what is read, written again, reads the same.

#![no_main]

use std::collections::BTreeMap;

use anywire_http::Request;
use anywire_server::{Form, FromRequest, Rejection, Request as Asked};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Each way in which a field can be asked for.
#[derive(Debug, PartialEq, Deserialize)]
struct Fields {
    a: Option<i8>,
    #[serde(default)]
    b: Vec<Option<u16>>,
    #[serde(default)]
    c: (Kind, bool),
    d: Option<f32>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
enum Kind {
    #[default]
    One,
    Other,
}

type Pairs = Vec<(String, String)>;

fuzz_target!(|data: &[u8]| {
    let body = of_body::<Pairs>(data);
    if let Ok(pairs) = &body {
        let again = of_body::<Pairs>(written(pairs).as_bytes());
        assert_eq!(again.ok().as_ref(), Some(pairs));
    }
    // Not all of it may be a query.
    if let Some(query) = of_query::<Pairs>(data) {
        match (query, body) {
            (Ok(query), Ok(body)) => assert_eq!(query, body),
            (Err(query), Err(body)) => {
                assert!(query.status().is_client_error() && body.status().is_client_error());
                assert_eq!(query.field(), body.field());
            }
            (query, body) => panic!("{query:?}, but {body:?}"),
        }
    }
    let _ = of_body::<Fields>(data);
    let _ = of_body::<BTreeMap<String, Vec<String>>>(data);
    let _ = of_body::<BTreeMap<String, String>>(data);
});

fn of_query<T: DeserializeOwned>(query: &[u8]) -> Option<Result<T, Rejection>> {
    let query = str::from_utf8(query).ok()?;
    let request = Asked::try_from(Request::get(&format!("/?{query}"))).ok()?;
    // The target is normalized: other text is another query.
    (request.query() == Some(query)).then(|| read(request))
}

fn of_body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Rejection> {
    let request = Request::post("/").header("content-type", "application/x-www-form-urlencoded");
    read(Asked::try_from(request.body(body.to_vec())).expect("a request"))
}

fn read<T: DeserializeOwned>(request: Asked) -> Result<T, Rejection> {
    let form = anywire_loops::block_on(async { Form::<T>::from_request(request).await });
    form.map(|Form(value)| value)
}

/// The pairs with all bytes encoded.
fn written(pairs: &Pairs) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let pair = |(name, value): &(String, String)| format!("{}={}", encoded(name), encoded(value));
    pairs.iter().map(pair).collect::<Vec<_>>().join("&")
}
