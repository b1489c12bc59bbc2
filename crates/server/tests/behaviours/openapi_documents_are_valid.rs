//! The document of a service with each extractor and each result passes a validator that others have written.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anywire_loops::PoolLimits;
use anywire_server::layers::{self, BearerAuth, Csrf, same_secret};
use anywire_server::{Router, Server};
use serde_json::Value;

use crate::shop;
use crate::support::Scene;
use crate::tools;

fn document() -> Value {
    shop::router().openapi_document(&shop::info()).expect("the routes are right").as_value().clone()
}

#[test]
fn a_validator_takes_the_document_and_its_schemas() {
    let Some(python) = tools::python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("openapi.json");
    fs::write(&file, document().to_string()).expect("it is written");
    // Beyond the document: each schema is one of JSON Schema 2020-12.
    let check = "
import json, sys
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
document = json.load(open(sys.argv[1]))
problems = [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()]
for name, schema in document['components']['schemas'].items():
    try:
        Draft202012Validator.check_schema(schema)
    except Exception as problem:
        problems.append(f'{name}: {problem}')
print('\\n'.join(problems))
";
    let output = Command::new(python).args(["-c", check]).arg(&file).output().expect("python runs");
    let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success() && told.is_empty(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn types_of_one_name_have_schemas_of_their_own() {
    let document = document();
    let of = |path: &str, method: &str| {
        let body =
            &document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let name =
            body.as_str().and_then(|place| place.strip_prefix("#/components/schemas/")).expect("a name");
        document["components"]["schemas"][name].clone()
    };
    assert!(of("/orders", "post")["properties"]["lines"].is_object());
    assert!(of("/orders/{id}/old", "put")["properties"]["number"].is_object());
}

#[test]
fn a_type_that_is_written_in_another_shape_has_two_schemas() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    let properties =
        |name: &str| schemas[name]["properties"].as_object().map(|all| all.contains_key("password"));
    assert_eq!((properties("Order"), properties("Order.response")), (Some(true), Some(false)));
    let names: Vec<&String> = schemas.as_object().expect("schemas").keys().collect();
    // What is the same both ways stands once.
    assert_eq!(names.iter().filter(|name| name.starts_with("Line")).count(), 1, "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("Category")).count(), 1, "{names:?}");
}

#[test]
fn a_type_within_itself_is_a_reference() {
    let category = document()["components"]["schemas"]["Category"].clone();
    assert_eq!(category["properties"]["within"]["items"]["$ref"], "#/components/schemas/Category");
}

#[test]
fn handlers_of_one_path_are_one_operation() {
    let both = document()["paths"]["/both/{id}"]["get"].clone();
    assert_eq!(both["summary"], "The second version");
    let description = both["description"].as_str().expect("a description");
    let expected = "For requests with header x-version = \"2\": The second version.\n\nThe first version.\n\n\
         For requests with query as = \"page\".";
    assert_eq!(description, expected);
    let version =
        both["parameters"].as_array().expect("parameters").iter().find(|of| of["name"] == "x-version");
    let version = version.expect("the field of the guard");
    assert_eq!((version.get("required"), &version["schema"]["const"]), (None, &Value::from("2")));
    let content = both["responses"]["200"]["content"].clone();
    assert_eq!(content["application/json"]["schema"]["anyOf"].as_array().map(Vec::len), Some(2), "{content}");
    assert!(content["text/html"].is_object());
}

#[test]
fn what_stands_around_a_handler_is_told() {
    let document = document();
    let paths = &document["paths"];
    let full = &paths["/thumbnails/{id}/{size}"]["get"]["responses"]["503"];
    assert!(full["headers"]["retry-after"].is_object());
    assert!(paths["/orders"]["post"]["responses"]["503"].is_object(), "its concurrency is limited");
    assert_eq!(paths["/orders"]["get"]["security"], serde_json::json!([{ "bearer": [] }]));
    assert!(paths["/orders"]["get"]["responses"]["401"].is_object());
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    let formats = &paths["/formats"]["post"];
    let types = |content: &Value| content.as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
    let all = |names: [&str; 2]| Some(names.map(str::to_owned).to_vec());
    let taken = types(&formats["requestBody"]["content"]);
    assert_eq!(taken, all(["application/*+json", "application/json"]));
    assert_eq!(types(&formats["responses"]["200"]["content"]), all(["application/json", "text/csv"]));
    assert!(formats["responses"]["406"].is_object() && formats["responses"]["415"].is_object());
    assert_eq!(paths["/number/{id}"]["get"]["parameters"][0]["schema"]["pattern"], "^(?:[0-9]+)$");
    assert_eq!(paths["/admin"]["get"]["x-guards"], serde_json::json!(["host admin.shop.example"]));
}

#[test]
fn what_openapi_cannot_say_stands_beside_it() {
    let document = document();
    let paths = &document["paths"];
    assert!(paths["/search"].get("query").is_none());
    assert_eq!(paths["/search"]["x-other-methods"]["QUERY"]["summary"], "Orders that fit");
    assert!(paths["/any/{thing}"]["x-other-methods"]["*"].is_object());
    assert_eq!(paths["/files/{rest}"]["put"]["parameters"][0]["x-rest"], true);
    assert!(paths.get("/internal").is_none());
}

#[test]
fn names_of_functions_are_ids_if_they_are_the_only_ones() {
    let document = document();
    let id =
        |path: &str, method: &str| document["paths"][path][method]["operationId"].as_str().map(str::to_owned);
    assert_eq!(id("/orders", "post").as_deref(), Some("create"));
    assert_eq!(id("/sign-in", "post").as_deref(), Some("signIn"));
    // The function serves two routes.
    assert_eq!((id("/orders/{id}", "get"), id("/both/{id}", "get")), (None, None));
}

/// A layer of the whole server is one of each route, as the document of its page says.
#[test]
fn what_layers_answer_is_in_the_document() {
    let served = |layered: fn(Server) -> Server| {
        let router = Router::new()
            .get("/", async || "all")
            .post("/", async || "one")
            .openapi("/openapi", shop::info());
        let served = Scene::tcp().serve_by(layered(Server::new(router).loops(1)));
        let asked = "GET /openapi.json HTTP/1.1\r\nhost: x\r\nauthorization: Bearer secret\r\n\r\n";
        serde_json::from_str::<Value>(served.ask(asked).text()).expect("JSON")["paths"]["/"].clone()
    };
    let statuses = |operation: &Value| -> Vec<String> {
        operation["responses"].as_object().expect("responses").keys().cloned().collect()
    };
    let bearer =
        served(|server| server.layer(BearerAuth::new("staff", |_, token| same_secret(token, "secret"))));
    assert_eq!(bearer["get"]["security"], serde_json::json!([{ "bearer": [] }]));
    assert!(statuses(&bearer["get"]).contains(&"401".to_owned()), "{bearer:#}");
    let timeout = served(|server| server.layer(layers::Timeout::new(Duration::from_secs(1))));
    assert!(statuses(&timeout["get"]).contains(&"503".to_owned()), "{timeout:#}");
    // Pages of other origins may read what is safe.
    let csrf = served(|server| server.layer(Csrf::new()));
    let refuses = |method: &str| statuses(&csrf[method]).contains(&"403".to_owned());
    assert_eq!((refuses("get"), refuses("post")), (false, true), "{csrf:#}");
    let none = served(|server| server);
    assert!(
        none["get"]["security"].is_null() && !statuses(&none["post"]).contains(&"403".to_owned()),
        "{none:#}"
    );
}

/// A client that knows the document alone calls each operation, rightly and wrongly, and looks whether it is answered as the document
/// says.
#[test]
fn a_client_finds_what_the_document_says() {
    let Some(python) = tools::python() else { return };
    let router = shop::router().openapi("/openapi", shop::info());
    let server = Server::new(router)
        .pool("cpu", PoolLimits::default())
        .listen("tcp:127.0.0.1:0")
        .loops(1)
        .start()
        .expect("the routes are right");
    let address = server.addresses().next().expect("an address");
    let base = format!("http://127.0.0.1:{}", address.port().expect("TCP has ports"));
    let script = include_str!("shop/client.py");
    let output = Command::new(python).args(["-c", script, &base]).output().expect("python runs");
    let told = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}\n{log}");
    let called = log.rsplit(' ').next().and_then(|count| count.trim().parse().ok());
    assert!(called > Some(15), "{log}");
}
