//! A handler that takes matrix parameters gets them, and its path matches without them. For others they are a part of the segment.

use std::collections::HashMap;

use anywire_http::Request;
use anywire_loops::block_on;
use anywire_server::{Matrix, Path, Router};

#[derive(serde::Deserialize)]
struct Choice {
    colour: String,
    #[serde(default)]
    year: u32,
}

fn routes() -> Router {
    let choice = async |Matrix(choice): Matrix<Choice>| format!("{} {}", choice.colour, choice.year);
    let pairs = async |Path((id, part)): Path<(String, String)>,
                       Matrix(all): Matrix<Vec<(String, String)>>| {
        format!("{id} {part} {all:?}")
    };
    let optional = async |all: Option<Matrix<HashMap<String, String>>>| format!("{}", all.is_some());
    Router::new()
        .get("/cars", choice)
        .get("/cars/{id}/{part}", pairs)
        .get("/optional", optional)
        .get("/plain/{id}", async |Path(id): Path<String>| id)
        .get("/plain", async || "plain")
        .get("/own;x=1", async || "own")
        .get("/rest/{*rest}", async |Path(rest): Path<String>, _: Matrix<HashMap<String, String>>| rest)
        .get("/{other}", async |Path(other): Path<String>| format!("other {other}"))
}

fn get(target: &str) -> (u16, String) {
    let mut response = block_on(routes().call(Request::get(target)));
    let body = block_on(response.body.text(1000)).expect("a whole body");
    (response.status.as_u16(), body)
}

#[test]
fn they_are_taken_from_all_segments() {
    for (target, expected) in [
        ("/cars;colour=red", "red 0"),
        ("/cars;year=2012;colour=d%61rk%3Bred?colour=blue", "dark;red 2012"),
        ("/c%61rs;colour=a+b&c", "a+b&c 0"),
        ("/cars;a/7;b=1/wheel;b=2;;c", r#"7 wheel [("a", ""), ("b", "1"), ("b", "2"), ("c", "")]"#),
        ("/cars/7/wh%2Feel", "7 wh/eel []"),
        ("/cars/%c3%a4;x=%C3%A4/b", "\u{e4} b [(\"x\", \"\u{e4}\")]"),
        ("/optional;a", "true"),
        ("/optional", "false"),
        ("/rest;a/b;c/d;e", "b;c/d"),
    ] {
        assert_eq!(get(target), (200, expected.to_owned()), "{target}");
    }
}

#[test]
fn those_that_do_not_fit_are_refused() {
    for target in [
        "/cars",
        "/cars;color=red",
        "/cars;colour=red;year=x",
        "/cars;colour=red;colour=blue",
        "/cars;colour=%ff",
    ] {
        let (status, text) = get(target);
        assert_eq!(status, 400, "{target}");
        assert!(text.starts_with("the matrix parameters do not fit"), "{text}");
    }
}

#[test]
fn they_are_limited() {
    assert_eq!(get(&format!("/optional{}", ";a=1".repeat(1001))).0, 414);
}

#[test]
fn other_routes_have_them_in_their_segments() {
    assert_eq!(get("/plain/7;a=1"), (200, "7;a=1".to_owned()));
    assert_eq!(get("/plain;a=1"), (200, "other plain;a=1".to_owned()));
    assert_eq!(get("/own;x=1"), (200, "own".to_owned()));
    assert_eq!(get("/plain;a/7"), (404, "nothing is here".to_owned()));
    assert_eq!(get("/cars%3Bcolour=red"), (200, "other cars;colour=red".to_owned()));
}

#[test]
fn one_handler_of_a_path_takes_them_for_all() {
    let taken = async |Matrix(all): Matrix<Vec<(String, String)>>| all.len().to_string();
    let router = Router::new().get("/cars", async || "plain").post("/cars", taken);
    for (request, expected) in [(Request::get("/cars;a=1"), "plain"), (Request::post("/cars;a=1;b=2"), "2")] {
        let mut response = block_on(router.call(request));
        assert_eq!(block_on(response.body.text(1000)).expect("a whole body"), expected);
    }
}

#[test]
fn a_route_with_a_semicolon_of_its_own_comes_first() {
    let matrix = async |Path(id): Path<String>, Matrix(all): Matrix<Vec<(String, String)>>| {
        format!("matrix {id} {}", all.len())
    };
    let own = async |Path(id): Path<String>| format!("own {id}");
    // More literals than are compared before the tree is searched.
    let router =
        (0..20).fold(Router::new(), |router, index| router.get(&format!("/literal/{index}"), async || ""));
    let router = router
        .get("/{id}", matrix)
        .get("/a;b", async || "literal")
        .get("/x/{id}", matrix)
        .get("/x;y/{id}", own)
        .get("/v-{id};z", own);
    let get = |target: &str| {
        let mut response = block_on(router.call(Request::get(target)));
        (response.status.as_u16(), block_on(response.body.text(1000)).expect("a whole body"))
    };
    for (target, expected) in [
        ("/a;b", "literal"),
        ("/%61;%62", "literal"),
        ("/a;c", "matrix a 1"),
        ("/x;y/1", "own 1"),
        ("/x;z/1;y", "matrix 1 2"),
        ("/v-1;z", "own 1"),
    ] {
        assert_eq!(get(target), (200, expected.to_owned()), "{target}");
    }
    // A segment of parameters alone is empty.
    assert_eq!(get("/;a=1").0, 404);
    assert_eq!(get("/x/;a=1").0, 404);
}

#[test]
fn the_fallback_of_a_nested_router_comes_before_a_variable_in_place_of_its_prefix() {
    let nested = Router::new().get("/known", async || "known").fallback(async || "fallback");
    let any = async |Path(_): Path<(String, String)>, _: Matrix<Vec<(String, String)>>| "any";
    let router = Router::new().nest("/nested", nested).get("/{a}/{b}", any);
    let get = |target: &str| {
        let mut response = block_on(router.call(Request::get(target)));
        block_on(response.body.text(1000)).expect("a whole body")
    };
    assert_eq!((get("/nested/unknown"), get("/nested/unknown;a=1")), ("fallback".into(), "fallback".into()));
    assert_eq!(get("/other/unknown;a=1"), "any");
}
