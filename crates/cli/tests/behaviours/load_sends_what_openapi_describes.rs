//! `load --openapi` sends what a document describes: that of a server of ours, and one that somebody wrote.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use anywire::server::openapi::Info;
use anywire::{Handler, Json, Path, Query, Router, Server};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::{anywire, assert_refused, stderr, stdout, text};
use crate::recorder::Recorder;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Item {
    name: String,
    #[schemars(range(min = 5))]
    price: u32,
    note: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Filter {
    /// At least two letters.
    #[schemars(length(min = 2))]
    name: String,
    #[serde(default)]
    page: u32,
}

async fn list(Query(filter): Query<Filter>) -> Json<Vec<Item>> {
    Json(vec![Item { name: filter.name, price: filter.page, note: None }])
}

async fn one(Path(id): Path<u64>) -> Option<Json<Item>> {
    (id > 0).then(|| Json(Item { name: "tea".to_owned(), price: 7, note: None }))
}

async fn create(Json(item): Json<Item>) -> Json<Item> {
    Json(item)
}

fn load(args: &[&str]) -> Output {
    anywire(&[&["load", "-c", "1", "--loops", "1", "--warm-up", "0"], args].concat())
}

fn file(name: &str, contents: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, contents).expect("the file is written");
    (folder, path)
}

/// A document by hand, whose host is nobody's business.
fn shop() -> String {
    let id = json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } });
    let body =
        json!({ "required": true, "content": { "application/json": { "example": { "pet": "dog" } } } });
    json!({
        "openapi": "3.0.3",
        "servers": [{ "url": "https://shop.invalid/api/v3" }],
        "paths": {
            "/pets": { "get": { "parameters": [{ "name": "limit", "in": "query", "example": 2 }] }, "post": { "requestBody": body } },
            "/pets/{id}": { "parameters": [id], "get": { "operationId": "one" }, "delete": {} },
            "/photo": { "get": { "parameters": [{ "name": "size", "in": "query", "required": true }] } },
        },
    })
    .to_string()
}

#[test]
fn the_document_of_our_own_server_is_loaded() {
    let routes = Router::new()
        .get("/items", list.documented())
        .get("/items/{id}", one.documented())
        .post("/items", create.documented())
        .openapi("/openapi", Info::new("Items", "1"));
    let server = Server::new(routes).listen("tcp:127.0.0.1:0").loops(1).start().expect("it starts");
    let port = server.addresses().next().and_then(|address| address.port()).expect("TCP has ports");
    let url = format!("http://127.0.0.1:{port}");
    let document = anywire(&["get", &format!("{url}/openapi.json")]);
    let (_folder, document) = file("openapi.json", &stdout(&document));

    let args =
        ["--openapi", text(&document), "--openapi-methods", "GET,POST", "-n", "9", &url, "--json", "-"];
    let output = load(&args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!stderr(&output).contains("not sent"), "{}", stderr(&output));
    let outcome: serde_json::Value =
        serde_json::from_str(&stdout(&output)).expect("the result is JSON alone");
    // Each of the three was answered as the handlers answer what fits their types.
    assert_eq!(outcome["totals"]["statuses"], json!({ "200": 9 }), "{outcome}");
    let names: Vec<_> =
        outcome["requests"].as_array().expect("several").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["GET /items", "POST /items", "GET /items/{id}"]);
}

#[test]
fn a_document_by_hand_goes_to_the_url_that_is_given() {
    let server = Recorder::start();
    let (_folder, shop) = file("shop.json", &shop());
    let output = load(&["--openapi", text(&shop), "-n", "2", &server.url("/api")]);
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = || server.take().iter().map(|one| one.line.clone()).collect::<Vec<_>>();
    assert_eq!(lines(), ["GET /api/pets?limit=2 HTTP/1.1", "GET /api/pets/1 HTTP/1.1"]);
    let said = stderr(&output);
    for part in [
        "3 of 5 operations of",
        "\n  POST /pets, DELETE /pets/{id}: of methods that may change something; if they may, add --openapi-methods DELETE,POST\n",
        "\n  GET /photo: the query parameter \"size\" has no value: nothing describes it; give it by --openapi-value 'size=VALUE'",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let args = [
        "--openapi",
        text(&shop),
        "--openapi-methods",
        "POST,GET",
        "--openapi-value",
        "size=s m",
        "--openapi-value",
        "id={{n 40}}",
        "--openapi-weight",
        "GET /pets=0",
        "--openapi-weight",
        "one=0",
        "--openapi-weight",
        "GET /photo=0",
        "-n",
        "1",
        &server.url("/"),
    ];
    let output = load(&args);
    let seen = server.take();
    assert_eq!((&*seen[0].line, &*seen[0].body), ("POST /pets HTTP/1.1", &b"{\"pet\":\"dog\"}"[..]));
    assert!(
        seen[0].fields.iter().any(|field| field.eq_ignore_ascii_case("content-type: application/json")),
        "{:?}",
        seen[0].fields
    );
    // Without a path of its own the URL may be meant to have the one of the document.
    assert!(
        stderr(&output).contains("below /api/v3 on its own server; if they are here, give the URL http://"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_is_wrong_with_a_document_is_said() {
    let (_folder, shop) = file("shop.json", &shop());
    let (_folder, broken) = file("broken.json", "{\n\"openapi\": 3");
    let (_folder, old) = file("old.json", "{\"swagger\": \"2.0\"}");
    let url = "http://127.0.0.1:9/";
    for (args, code, found) in [
        (&["--openapi", text(&shop), "http://127.0.0.1:9/?a=b"][..], 2, "a query stands in it"),
        (&[url, "--openapi", text(&broken)], 2, "broken.json: line 2, column 12: it is no JSON"),
        (&[url, "--openapi", text(&old)], 2, "it is one of Swagger \"2.0\""),
        (&[url, "--openapi", "/no/such/file"], 26, "reading the document of"),
        (&[url, "--openapi", text(&shop), "--openapi-value", "idd=1"], 2, "there is no parameter \"idd\""),
        (&[url, "--openapi", text(&shop), "--openapi-value", "id={{x}}"], 2, "no value is named \"x\""),
        (
            &[url, "--openapi", text(&shop), "--openapi-methods", "PUT"],
            2,
            "none of its operations can be sent: GET /pets: operations of GET",
        ),
    ] {
        assert_refused(&load(args), code, found);
    }
    // The document names a host, and nobody is asked to load it.
    for (args, missing) in [
        (&["--openapi", text(&shop)][..], "<URL>"),
        (&[url, "--openapi-methods", "PUT"], "--openapi <FILE>"),
        (&[url, "--openapi", text(&shop), "--openapi-value", "id"], "write it as NAME=VALUE"),
        (
            &[url, "--openapi", text(&shop), "--openapi-weight", "GET /pets"],
            "write one such as 'GET /items=8'",
        ),
    ] {
        let output = load(args);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(missing), "{missing}\n{}", stderr(&output));
    }
}
