//! Handlers of one path and method are one operation of OpenAPI. It demands what each of them demands, and offers what any of them has.

use anywire_server::guards::query;
use anywire_server::layers::BearerAuth;
use anywire_server::openapi::Info;
use anywire_server::{Handler, Json, Path, Query, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
struct One {
    one: u32,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Other {
    other: u32,
}

async fn takes(_: Path<u64>, _: Query<One>, _: Json<Other>) -> Json<One> {
    Json(One { one: 1 })
}

async fn takes_little(_: Path<u64>) -> Json<Other> {
    Json(Other { other: 1 })
}

fn operation(router: &Router) -> Value {
    let document = router.openapi_document(&Info::new("Orders", "1.0.0")).expect("the routes are right");
    document.as_value()["paths"]["/{id}"]["post"].clone()
}

#[test]
fn what_only_one_of_them_takes_is_optional() {
    let guarded = || Router::new().post("/{id}", takes.documented().when(query("a")));
    let open = || Router::new().post("/{id}", takes.documented());
    for router in [
        guarded().post("/{id}", takes_little.documented()),
        open().post("/{id}", takes_little.documented().when(query("a"))),
    ] {
        let joined = operation(&router);
        assert!(joined["requestBody"]["content"]["application/json"].is_object(), "{joined}");
        assert_eq!(joined["requestBody"].get("required"), None, "{joined}");
        let required: Vec<_> = joined["parameters"].as_array().into_iter().flatten().collect();
        let required: Vec<_> = required.iter().filter(|of| of["required"] == true).collect();
        assert_eq!(required.len(), 1, "{joined}");
        assert_eq!((&required[0]["in"], &required[0]["name"]), (&json!("path"), &json!("id")));
    }
    let both = guarded().post("/{id}", takes.documented());
    assert_eq!(operation(&both)["requestBody"]["required"], true);
}

#[test]
fn it_is_deprecated_if_all_are() {
    let with = |is_deprecated: bool| {
        let open = takes_little.documented();
        let open = if is_deprecated { open.deprecated() } else { open };
        let router = Router::new().post("/{id}", takes.documented().deprecated().when(query("a")));
        operation(&router.post("/{id}", open))["deprecated"].clone()
    };
    assert_eq!(with(true), true);
    assert_eq!(with(false), Value::Null);
}

#[test]
fn what_several_have_is_told_once() {
    let asks = || BearerAuth::new("the shop", |_, _| true);
    let router = Router::new()
        .post("/{id}", takes.documented().layer(asks()).when(query("a")))
        .post("/{id}", takes_little.documented().when(query("b")))
        .post("/{id}", takes.documented().layer(asks()).when(query("c")));
    let joined = operation(&router);
    assert_eq!(joined["security"], json!([{ "bearer": [] }, {}]));
    let answered = &joined["responses"]["200"]["content"]["application/json"]["schema"]["anyOf"];
    assert_eq!(answered.as_array().map(Vec::len), Some(2), "{joined}");
}
