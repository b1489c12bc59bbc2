//! Documents of OpenAPI as requests: what is sent, with which values, and why the rest is not.

use anywire_advice::Chain;
use proptest::prelude::*;
use serde_json::json;

use super::super::set::Step;
use super::*;

fn read(document: &Value) -> OpenApi {
    read_with(document, &OpenApiOptions::default())
}

fn read_with(document: &Value, options: &OpenApiOptions) -> OpenApi {
    read_openapi(document.to_string().as_bytes(), options).unwrap_or_else(|error| panic!("{}", Chain(&error)))
}

fn fault(document: &Value, options: &OpenApiOptions) -> String {
    Chain(&read_openapi(document.to_string().as_bytes(), options).unwrap_err()).to_string()
}

/// A document with these paths.
fn of_paths(paths: &Value) -> Value {
    json!({ "openapi": "3.1.0", "paths": paths })
}

/// All methods that may have a body.
fn writing() -> OpenApiOptions {
    OpenApiOptions { methods: [Method::GET, Method::POST, Method::PUT].into(), ..OpenApiOptions::default() }
}

fn steps(read: &OpenApi) -> Vec<&Step> {
    read.script.sequences.iter().flat_map(|sequence| &sequence.steps).collect()
}

fn text(text: &Text) -> String {
    String::from_utf8_lossy(text.as_bytes()).into_owned()
}

/// The target of the one request of a path with these parameters.
fn target(path: &str, parameters: &Value) -> String {
    let read = read(&of_paths(&json!({ path: { "parameters": parameters, "get": {} } })));
    assert_eq!(read.left_out, []);
    text(&steps(&read)[0].target)
}

/// The body of the one request with this media type and schema.
fn body(schema: &Value) -> String {
    let content = json!({ "application/json": { "schema": schema } });
    let post = json!({ "/a": { "post": { "requestBody": { "required": true, "content": content } } } });
    let read = read_with(&of_paths(&post), &writing());
    match (&steps(&read)[..], &read.left_out[..]) {
        ([step], []) => text(&step.body),
        (_, left_out) => panic!("{left_out:?}"),
    }
}

/// Why the one operation is not sent.
fn reason(operation: &Value, options: &OpenApiOptions) -> String {
    let read = read_with(&of_paths(&json!({ "/": { "get": {} }, "/a/{b}": operation })), options);
    let [left_out] = &read.left_out[..] else { panic!("{read:?}") };
    left_out.to_string()
}

#[test]
fn only_operations_of_get_are_sent_unless_others_are_asked_for() {
    let document = of_paths(&json!({
        "/a": { "get": {}, "put": {}, "delete": {}, "x-other-methods": { "COPY": {}, "*": {} } },
        "x-path": 7,
    }));
    let found = read(&document);
    assert_eq!(steps(&found).iter().map(|step| &*step.name).collect::<Vec<_>>(), ["GET /a"]);
    let left_out: Vec<_> = found.left_out.iter().map(|one| &*one.operation).collect();
    assert_eq!(left_out, ["PUT /a", "DELETE /a", "* /a", "COPY /a"]);
    assert_eq!(
        found.left_out[0].to_string(),
        "PUT /a: operations of PUT are not sent; if they may be, write --openapi-methods PUT"
    );
    let methods = vec![Method::DELETE, "COPY".parse().unwrap()];
    let found = read_with(&document, &OpenApiOptions { methods, ..OpenApiOptions::default() });
    assert_eq!(steps(&found).iter().map(|step| &*step.name).collect::<Vec<_>>(), ["DELETE /a", "COPY /a"]);
}

#[test]
fn a_parameter_has_the_best_value_that_there_is() {
    let with = |more: Value| {
        let mut parameter = json!({ "name": "q", "in": "query", "required": true });
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        target("/a", &json!([parameter]))
    };
    let schema = json!({ "const": 1, "example": 2, "default": 4, "enum": [5] });
    assert_eq!(with(json!({ "example": "x y", "schema": schema })), "/a?q=x%20y");
    assert_eq!(
        with(
            json!({ "examples": { "a": { "externalValue": "/e" }, "b": { "value": 7 } }, "schema": schema })
        ),
        "/a?q=7"
    );
    assert_eq!(with(json!({ "schema": schema })), "/a?q=1");
    assert_eq!(with(json!({ "schema": { "examples": [3], "default": 4 } })), "/a?q=3");
    assert_eq!(with(json!({ "schema": { "default": 4, "enum": [5] } })), "/a?q=4");
    assert_eq!(with(json!({ "schema": { "enum": [null, "only"] } })), "/a?q=only");
    assert_eq!(with(json!({ "schema": { "type": ["null", "boolean"] } })), "/a?q=true");
    assert_eq!(
        with(json!({ "content": { "application/json": { "example": { "a": 1 } } } })),
        "/a?q=%7B%22a%22%3A1%7D"
    );
    // What need not be there is sent only if the document offers a value.
    for (schema, sent) in [
        (json!({ "default": 2 }), "/a?q=2"),
        (json!({ "enum": [2] }), "/a"),
        (json!({ "$ref": "#/x" }), "/a"),
    ] {
        assert_eq!(target("/a", &json!([{ "name": "q", "in": "query", "schema": schema }])), sent);
    }
}

#[test]
fn parameters_stand_where_they_belong() {
    let document = of_paths(&json!({ "/a b/{id}/{list}": {
        "parameters": [
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" } },
            { "name": "list", "in": "path", "required": true, "style": "label", "explode": true, "example": [1, 2] },
            { "name": "q", "in": "query", "example": { "b": 1, "a": "&" }, "style": "deepObject" },
        ],
        "get": { "parameters": [
            { "name": "id", "in": "path", "required": true, "example": "x/y" },
            { "name": "x-tenant", "in": "header", "required": true, "example": "t 1" },
            { "name": "authorization", "in": "header", "required": true },
            { "name": "sid", "in": "cookie", "example": "s;1" },
            { "name": "lang", "in": "cookie", "example": "de" },
        ] },
    } }));
    let found = read(&document);
    let step = steps(&found)[0];
    assert_eq!(text(&step.target), "/a%20b/x%2Fy/.1.2?q%5Ba%5D=%26&q%5Bb%5D=1");
    let headers: Vec<_> = step.headers.iter().map(|(name, value)| (&**name, text(value))).collect();
    assert_eq!(headers, [("x-tenant", "t 1".to_owned()), ("cookie", "sid=s%3B1; lang=de".to_owned())]);
}

#[test]
fn values_of_the_user_go_first_and_may_be_templates() {
    let document = of_paths(&json!({ "/{id}": { "get": { "parameters": [
        { "name": "id", "in": "path", "required": true, "example": 1 },
        { "name": "q", "in": "query" },
        { "name": "x-id", "in": "header" },
    ] } } }));
    let values = vec![
        ("id".to_owned(), Text::template("a b{{int 1 5}}")),
        ("q".to_owned(), Text::from("{{n}}")),
        ("x-id".to_owned(), Text::template("{{n}} %")),
    ];
    let found = read_with(
        &document,
        &OpenApiOptions { values, base_path: "/v1".to_owned(), ..OpenApiOptions::default() },
    );
    let step = steps(&found)[0];
    assert_eq!(step.target, Text::template("/v1/a%20b{{int 1 5}}?q=%7B%7Bn%7D%7D"));
    assert_eq!(step.headers, [("x-id".to_owned(), Text::template("{{n}} %"))]);
    found.script.check().unwrap();

    let values = vec![("idd".to_owned(), Text::from("1"))];
    let said = fault(&document, &OpenApiOptions { values, ..OpenApiOptions::default() });
    assert!(said.contains("there is no parameter \"idd\" in it; there are id, q, x-id"), "{said}");
}

#[test]
fn weights_are_given_or_stand_in_the_document() {
    let document = of_paths(&json!({
        "/a": { "get": { "x-weight": 3, "operationId": "all" } }, "/b": { "get": {} }, "/c": { "get": { "x-weight": 2 } }
    }));
    let weights = |weights: &[(&str, u32)]| {
        let weights = weights.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect();
        let found = read_with(&document, &OpenApiOptions { weights, ..OpenApiOptions::default() });
        assert_eq!(found.script.order, Order::Random);
        found.script.sequences.iter().map(|sequence| sequence.weight).collect::<Vec<_>>()
    };
    assert_eq!(weights(&[]), [3, 1, 2]);
    assert_eq!(weights(&[("all", 7), ("GET /c", 0)]), [7, 1, 0]);
    assert_eq!(read(&of_paths(&json!({ "/a": { "get": {} } }))).script.order, Order::InTurn);
    let weights = vec![("GET /d".to_owned(), 1)];
    let said = fault(&document, &OpenApiOptions { weights, ..OpenApiOptions::default() });
    assert!(said.contains("no operation \"GET /d\" in it; there are GET /a, GET /b, GET /c"), "{said}");
    let said = fault(&of_paths(&json!({ "/a": { "get": { "x-weight": -1 } } })), &OpenApiOptions::default());
    assert!(said.contains("the x-weight of GET /a is no whole number"), "{said}");
}

#[test]
fn a_body_is_the_example_or_what_the_schema_asks_for() {
    assert_eq!(body(&json!({ "example": { "a": 1 }, "required": ["b"] })), r#"{"a":1}"#);
    let customer = json!({
        "type": "object",
        "required": ["name", "id", "born", "tags", "other"],
        "properties": {
            "id": { "type": "integer", "readOnly": true },
            "name": { "type": "string", "minLength": 5 },
            "born": { "type": "string", "format": "date" },
            "mail": { "type": "string" },
            "size": { "type": "number", "example": 2.5 },
            "tags": { "type": "array", "items": { "enum": ["new"] } },
        },
    });
    assert_eq!(
        body(&customer),
        r#"{"born":"2026-01-31","name":"textt","other":"text","size":2.5,"tags":["new"]}"#
    );
    let joined = json!({ "allOf": [
        { "properties": { "a": { "type": "integer" } }, "required": ["a"], "example": { "a": 9 } },
        { "properties": { "b": { "type": "boolean" } }, "required": ["b"] },
    ] });
    assert_eq!(body(&joined), r#"{"a":1,"b":true}"#);
    let either = json!({ "type": "object", "oneOf": [
        { "type": "null" },
        { "properties": { "a": { "pattern": "(?=a)" } }, "required": ["a"] },
        { "properties": { "b": { "const": 5 } }, "required": ["b"] },
    ] });
    assert_eq!(body(&either), r#"{"b":5}"#);
    assert_eq!(body(&json!({ "prefixItems": [{ "const": 1 }, { "const": 2 }], "items": false })), "[1,2]");
    assert_eq!(body(&json!({ "type": "array", "minItems": 3, "items": { "type": "integer" } })), "[1,1,1]");
}

#[test]
fn references_within_the_document_are_followed() {
    let document = json!({
        "openapi": "3.0.3",
        "servers": [{ "url": "https://{region}.shop.test/{version}/", "variables": { "version": { "default": "v3" } } }],
        "paths": { "/items/{id}": { "$ref": "#/components/pathItems/item%20path" } },
        "components": {
            "pathItems": { "item path": { "put": {
                "parameters": [{ "$ref": "#/components/parameters/a~1b" }],
                "requestBody": { "$ref": "#/components/requestBodies/item" },
            } } },
            "parameters": { "a/b": { "name": "id", "in": "path", "required": true, "schema": { "$ref": "#/components/schemas/Id" } } },
            "requestBodies": { "item": { "required": true, "content": { "application/merge-patch+json": { "schema": { "$ref": "#/components/schemas/Tree" } } } } },
            "schemas": {
                "Id": { "type": "integer", "minimum": 10 },
                "Tree": { "type": "object", "required": ["id", "inner"], "properties": {
                    "id": { "$ref": "#/components/schemas/Id" },
                    "inner": { "type": "array", "items": { "$ref": "#/components/schemas/Tree" } },
                } },
            },
        },
    });
    let found = read_with(&document, &writing());
    assert_eq!(found.left_out, []);
    let step = steps(&found)[0];
    assert_eq!((&*step.name, &*text(&step.target)), ("PUT /items/{id}", "/items/10"));
    // A list may be empty, so a type within itself ends.
    assert_eq!(text(&step.body), r#"{"id":10,"inner":[]}"#);
    assert_eq!(step.headers, [("content-type".to_owned(), Text::from("application/merge-patch+json"))]);
    assert_eq!(found.server_path.as_deref(), Some("/v3"));
}

#[test]
fn bodies_of_other_media_types_are_made_too() {
    let of = |content: Value| {
        let post = json!({ "/": { "get": {} }, "/a": { "post": { "requestBody": { "required": true, "content": content } } } });
        let found = read_with(&of_paths(&post), &writing());
        match &steps(&found)[..] {
            [_, step] => format!("{} {}", text(&step.headers[0].1), text(&step.body)),
            _ => found.left_out[0].to_string(),
        }
    };
    let form = json!({ "example": { "a b": "c&d", "list": [1, 2] } });
    assert_eq!(
        of(json!({ "application/x-www-form-urlencoded": form })),
        "application/x-www-form-urlencoded a+b=c%26d&list=1&list=2"
    );
    assert_eq!(of(json!({ "text/*": { "schema": { "type": "integer" } } })), "text/plain 1");
    assert_eq!(
        of(json!({ "application/xml": { "example": "<a/>" }, "*/*": { "schema": {} } })),
        "application/json \"text\""
    );
    assert_eq!(of(json!({ "application/xml": { "example": "<a/>" } })), "application/xml <a/>");
    assert_eq!(of(json!({ "application/json": { "example": "{\"a\": 1}" } })), "application/json {\"a\": 1}");
    let said = of(json!({ "multipart/form-data": { "schema": { "type": "object" } } }));
    assert!(said.contains("POST /a: its body cannot be made: bodies of multipart/form-data"), "{said}");
}

#[test]
fn credentials_have_to_be_given() {
    let schemes = json!({
        "token": { "type": "http", "scheme": "bearer" },
        "key": { "type": "apiKey", "in": "query", "name": "k" },
        "name": { "type": "http", "scheme": "basic" },
    });
    let with = |security: Value, options: &OpenApiOptions| {
        let paths = json!({ "/": { "get": { "security": [] } }, "/a": { "get": { "security": security } } });
        let document = json!({ "openapi": "3.1.0", "security": [{ "name": [] }], "paths": paths, "components": { "securitySchemes": schemes } });
        let found = read_with(&document, options);
        found.left_out.first().map_or_else(|| text(&steps(&found)[1].target), ToString::to_string)
    };
    let nobody = OpenApiOptions::default();
    let known = OpenApiOptions { fields: vec!["Authorization".to_owned()], ..nobody.clone() };
    let keyed = OpenApiOptions { values: vec![("k".to_owned(), Text::from("s"))], ..nobody.clone() };
    assert_eq!(
        with(json!([{ "token": [] }]), &nobody),
        "GET /a: it takes credentials (token); give them by -H 'authorization: Bearer TOKEN'"
    );
    assert_eq!(with(json!([{ "token": [] }]), &known), "/a");
    assert!(with(Value::Null, &known) == "/a");
    let said = with(json!([{ "key": [] }, { "token": [] }]), &nobody);
    assert!(said.contains("(key); give them by --openapi-value 'k=KEY'"), "{said}");
    assert_eq!(with(json!([{ "key": [] }, { "token": [] }]), &keyed), "/a?k=s");
    assert_eq!(with(json!([{ "key": [] }, {}]), &nobody), "/a");
}

#[test]
fn what_cannot_be_sent_is_named_with_its_reason() {
    let get = |parameter: Value| json!({ "get": { "parameters": [parameter] } });
    let path = |more: Value| {
        let mut parameter = json!({ "name": "b", "in": "path" });
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        get(parameter)
    };
    for (operation, found) in [
        (
            json!({ "get": {} }),
            "the path parameter \"b\" has no value: nothing describes it; give it by --openapi-value 'b=VALUE'",
        ),
        (path(json!({})), "nothing describes it"),
        (
            path(json!({ "schema": { "$ref": "other.json#/a" } })),
            "its reference \"other.json#/a\" leads to another document",
        ),
        (path(json!({ "schema": { "$ref": "#/a" } })), "its reference \"#/a\" leads to nothing"),
        (
            path(json!({ "schema": { "pattern": "^x{9}$" } })),
            "no text that was tried has the pattern \"^x{9}$\"",
        ),
        (path(json!({ "schema": { "type": "integer", "minimum": 2, "maximum": 1 } })), "within its bounds"),
        (path(json!({ "schema": false })), "no value fits its schema"),
        (path(json!({ "schema": { "type": "file" } })), "its type \"file\" is unknown"),
        (
            path(json!({ "examples": { "a": { "externalValue": "/e" } } })),
            "its example stands elsewhere, at \"/e\"",
        ),
        (
            path(json!({ "schema": { "type": "string", "minLength": 9_000_000 } })),
            "it takes more than 1048576 bytes",
        ),
        (get(json!({ "name": "x y", "in": "header", "example": "1" })), "it cannot stand in a header field"),
        (get(json!({ "name": "b" })), "its description cannot be read"),
        (json!({ "$ref": "#/paths/~1a~1{b}" }), "all of /a/{b}: its description cannot be read: it"),
    ] {
        let said = reason(&operation, &OpenApiOptions::default());
        assert!(said.contains(found), "{found}\n{said}");
    }
    let schema = json!({ "properties": { "a": { "properties": { "b": { "type": "set" } }, "required": ["b"] } }, "required": ["a"] });
    let post = json!({ "post": { "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
        "parameters": [{ "name": "b", "in": "path", "example": 1 }] } });
    let said = reason(&post, &writing());
    assert!(
        said.starts_with("POST /a/{b}: its body cannot be made: at a/b, its type \"set\" is unknown; write"),
        "{said}"
    );
}

#[test]
fn what_is_no_document_is_said() {
    let usual = OpenApiOptions::default();
    for (document, found) in [
        (json!([]), "it is no object"),
        (json!({}), "it has no key openapi"),
        (json!({ "swagger": "2.0" }), "it is one of Swagger \"2.0\""),
        (json!({ "openapi": "4.0.0" }), "its version is \"4.0.0\""),
        (json!({ "openapi": "3.0.0", "paths": 1 }), "its paths are no object"),
        (json!({ "openapi": "3.1.0", "webhooks": {} }), "none of its operations can be sent: it has none"),
        (
            of_paths(&json!({ "/a": { "put": {} }, "/b": { "put": {} } })),
            "PUT /a: operations of PUT are not sent",
        ),
    ] {
        let said = fault(&document, &usual);
        assert!(said.contains(found), "{found}\n{said}");
    }
    let said = Chain(&read_openapi(&b"{\n\"openapi\": }"[..], &usual).unwrap_err()).to_string();
    assert!(said.starts_with("line 2, column 12: it is no JSON"), "{said}");
    read_openapi(&b"\xef\xbb\xbf{\"openapi\": 3.0, \"paths\": {\"/\": {\"get\": {}}}}"[..], &usual).unwrap();
}

#[test]
fn limits_are_said() {
    let over = |document: &Value, limits: OpenApiLimits| {
        fault(document, &OpenApiOptions { limits, ..OpenApiOptions::default() })
    };
    let usual = OpenApiLimits::default;
    let document = of_paths(&json!({ "/a": { "get": {}, "put": {} } }));
    let bytes = over(&document, OpenApiLimits { file_bytes: 10, ..usual() });
    assert!(bytes.contains("it has more than 10 bytes; load"), "{bytes}");
    assert!(over(&document, OpenApiLimits { operations: 1, ..usual() }).contains("more than 1 operations"));
    assert!(
        over(&document, OpenApiLimits { held_bytes: 3, ..usual() }).contains("more than 3 bytes of requests")
    );
    // Of each schema the limits are those of one operation, which alone is left out.
    let mut nested = json!({ "const": 1 });
    for _ in 0..10 {
        nested = json!({ "properties": { "a": nested }, "required": ["a"] });
    }
    let parameter = json!([{ "name": "q", "in": "query", "required": true, "schema": nested }]);
    let document = of_paths(&json!({ "/": { "get": {} }, "/a": { "parameters": parameter, "get": {} } }));
    let with = |limits| read_with(&document, &OpenApiOptions { limits, ..OpenApiOptions::default() });
    assert_eq!(with(usual()).left_out, []);
    let said = with(OpenApiLimits { depth: 5, ..usual() }).left_out[0].to_string();
    assert!(said.contains("its schema is more than 5 deep"), "{said}");
    let said = with(OpenApiLimits { value_bytes: 20, ..usual() }).left_out[0].to_string();
    assert!(said.contains("it takes more than 20 bytes"), "{said}");
    // What takes long for each of many is not looked at for all of them.
    let said = over(&document, OpenApiLimits { held_bytes: 20, ..usual() });
    assert!(said.contains("more than 20 bytes of requests"), "{said}");
}

#[test]
fn types_within_each_other_end() {
    let schemas = json!({
        "A": { "allOf": [{ "$ref": "#/components/schemas/B" }], "required": ["b"], "properties": { "b": { "$ref": "#/components/schemas/B" } } },
        "B": { "anyOf": [{ "$ref": "#/components/schemas/A" }, { "$ref": "#/components/schemas/B" }] },
        "Self": { "$ref": "#/components/schemas/Self" },
        "Wide": { "type": "array", "minItems": 1_000_000, "items": { "$ref": "#/components/schemas/Self" } },
    });
    for name in ["A", "B", "Self", "Wide"] {
        let parameter = json!([{ "name": "q", "in": "query", "required": true, "schema": { "$ref": format!("#/components/schemas/{name}") } }]);
        let paths = json!({ "/": { "get": {} }, "/a": { "parameters": parameter, "get": {} } });
        // It ends, whatever comes of it.
        read(&json!({ "openapi": "3.1.0", "paths": paths, "components": { "schemas": schemas } }));
    }
}

#[cfg(feature = "yaml")]
mod yaml {
    use super::*;

    fn of(text: &str) -> Result<OpenApi, OpenApiError> {
        read_openapi(text.as_bytes(), &OpenApiOptions::default())
    }

    #[test]
    fn yaml_is_read_as_the_json_that_it_would_be() {
        let text = r#"
# A comment.
openapi: 3.0.3
paths:
  /a/{id}:
    parameters: &both
      - { name: id, in: path, required: true, example: "07" }
      - name: day
        in: query
        example: 2026-01-02
    get:
      responses:
        200: { description: fine }
  /b/{id}:
    get: { parameters: *both }
"#;
        let found = of(text).unwrap_or_else(|error| panic!("{}", Chain(&error)));
        let targets: Vec<_> = steps(&found).iter().map(|step| super::text(&step.target)).collect();
        assert_eq!(targets, ["/a/07?day=2026-01-02", "/b/07?day=2026-01-02"]);
    }

    #[test]
    fn what_is_no_yaml_is_said_with_its_place() {
        for (text, found) in [
            ("openapi: 3.1.0\npaths:\n  - a\n b: [", "line 4, column "),
            ("<html>", "it is no document of OpenAPI: it is no object"),
            ("openapi: \"3", "line 1, column "),
        ] {
            let said = Chain(&of(text).unwrap_err()).to_string();
            assert!(said.contains(found), "{text}\n{said}");
        }
        let said =
            Chain(&read_openapi(&b"a: b\nc: \xff"[..], &OpenApiOptions::default()).unwrap_err()).to_string();
        assert!(said.contains("line 2, column 4: it is no YAML: it is no text in UTF-8"), "{said}");
    }

    #[test]
    fn anchors_make_no_tree_without_an_end() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..30 {
            let before = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", [&*before; 10].join(", "));
        }
        let said = Chain(&of(&text).unwrap_err()).to_string();
        assert!(said.contains("it is no YAML"), "{said}");
        let deep = format!("openapi: {}", "[".repeat(10_000));
        assert!(Chain(&of(&deep).unwrap_err()).to_string().contains("it is no YAML"));
    }
}

/// Any small value of JSON, with keys and references that mean something.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({ "$ref": "#/components/schemas/A" })),
        Just(json!({ "$ref": "#/components/schemas/B" })),
        any::<i64>().prop_map(|bound| json!({ "type": "integer", "minimum": bound })),
        "[a-z]{0,3}".prop_map(|kind| json!({ "type": kind })),
        (0..50_u64).prop_map(|least| json!({ "type": "string", "minLength": least })),
        ".{0,4}".prop_map(|value| json!({ "example": value })),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|parts| json!({ "allOf": parts })),
            prop::collection::vec(inner.clone(), 0..3).prop_map(|parts| json!({ "oneOf": parts })),
            (inner.clone(), 0..4_u64).prop_map(|(items, least)| json!({ "items": items, "minItems": least })),
            prop::collection::btree_map("[ab]", inner, 0..3).prop_map(|properties| {
                json!({ "required": properties.keys().collect::<Vec<_>>(), "properties": properties })
            }),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_read_can_be_sent(
        path in "(/|\\{|\\}|a|\\?|%|#| |\u{e4}){1,8}",
        schemas in [any_schema(), any_schema(), any_schema()],
        place in "(path|query|header|cookie)",
        style in "(simple|label|matrix|form|deepObject|pipeDelimited)",
        explode: bool,
    ) {
        let [one, a, b] = schemas;
        let parameter = json!({ "name": "a", "in": place, "required": true, "schema": one, "style": style, "explode": explode });
        let content = json!({ "application/json": { "schema": one } });
        let operation = json!({ "parameters": [parameter], "requestBody": { "content": content, "required": true } });
        let paths = json!({ "/": { "get": {} }, format!("/{path}"): { "get": operation, "post": operation } });
        let document = json!({ "openapi": "3.1.0", "paths": paths, "components": { "schemas": { "A": a, "B": b } } });
        let limits = OpenApiLimits { value_bytes: 4096, ..OpenApiLimits::default() };
        let found = read_with(&document, &OpenApiOptions { limits, ..writing() });
        found.script.check().unwrap();
        prop_assert_eq!(found.script.requests() + found.left_out.len(), 3);
    }

    #[test]
    fn no_text_panics(text in "(\\{|\\}|\\[|\\]|\"openapi\":|\"3.1.0\"|\"paths\":|\"/a\":|\"get\":|,|1){0,25}") {
        let _ = read_openapi(text.as_bytes(), &OpenApiOptions::default());
    }
}
