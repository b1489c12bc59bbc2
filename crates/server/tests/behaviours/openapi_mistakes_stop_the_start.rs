//! What cannot be described is an error at start, which says where.

use std::process::Command;

use anywire_server::openapi::{Info, OpenApiFault};
use anywire_server::{Handler, Json, Path, Query, RouteError, Router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

fn info() -> Info {
    Info::new("A service", "1.0.0")
}

fn fault(router: &Router) -> OpenApiFault {
    match router.describe() {
        Err(RouteError::OpenApi(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn two_operations_of_one_id() {
    let one = (async || "one").documented().operation_id("same");
    let other = (async || "other").documented().operation_id("same");
    let fault = fault(&Router::new().get("/one", one).post("/other", other).openapi("/openapi", info()));
    let text = fault.to_string();
    let OpenApiFault::OperationId { first, first_place, second, second_place, .. } = fault else {
        panic!("{text}")
    };
    assert_eq!((&*first, &*second), ("GET /one", "POST /other"));
    assert_eq!(second_place.line(), first_place.line() + 1);
    assert!(text.contains(&first_place.to_string()) && text.contains(&second_place.to_string()), "{text}");
}

#[test]
fn a_security_scheme_that_is_not_declared() {
    let router =
        Router::new().get("/", (async || "").documented().security("token")).openapi("/openapi", info());
    assert!(matches!(fault(&router), OpenApiFault::Scheme { name, .. } if name == "token"));
    let router = Router::new()
        .get("/", (async || "").documented().security("token"))
        .openapi("/openapi", info().bearer("token"));
    assert!(router.describe().is_ok());
    let twice = Router::new().openapi("/openapi", info().bearer("token").basic("token"));
    assert!(matches!(fault(&twice), OpenApiFault::SchemeTwice { .. }));
}

#[test]
fn parameters_that_have_no_end() {
    #[derive(Deserialize, JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "the schema is what counts")]
    enum Endless {
        Field { name: String },
        Again(Box<Endless>),
    }
    let router =
        Router::new().get("/", (async |_: Query<Endless>| "").documented()).openapi("/openapi", info());
    let fault = fault(&router);
    assert!(matches!(&fault, OpenApiFault::Cycle { name } if name.ends_with("Endless")), "{fault}");
}

/// Nothing can stop `schemars` there. So this runs in a process of its own.
#[test]
fn a_type_that_is_inlined_within_itself_is_named() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(inline)]
    #[expect(dead_code, reason = "the schema is what counts")]
    struct Endless {
        within: Vec<Endless>,
    }
    if std::env::var_os(ALONE).is_some() {
        let router = Router::new().post("/", (async |_: Json<Endless>| "").documented());
        assert!(router.openapi_document(&info()).is_err());
        return;
    }
    let own = std::env::current_exe().expect("this program");
    let name = "openapi_mistakes_stop_the_start::a_type_that_is_inlined_within_itself_is_named";
    let output =
        Command::new(own).args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(told.contains("Endless, which has no end if it is inlined within itself"), "{told}");
}

#[test]
fn two_types_that_are_one_to_the_schemas() {
    fn one() -> Router {
        #[derive(Serialize, JsonSchema)]
        struct Local {
            number: u8,
        }
        Router::new().get("/one", (async || Json(Local { number: 1 })).documented())
    }
    fn other() -> Router {
        #[derive(Serialize, JsonSchema)]
        struct Local {
            text: String,
        }
        Router::new().get("/other", (async || Json(Local { text: String::new() })).documented())
    }
    let fault = fault(&one().merge(other()).openapi("/openapi", info()));
    assert!(matches!(&fault, OpenApiFault::SameId { .. }), "{fault}");
}

#[test]
fn mistakes_of_routes_come_first() {
    let router = Router::new()
        .get("/a", (async |_: Path<u8>| "").documented().security("token"))
        .openapi("/openapi", info());
    assert!(matches!(router.describe(), Err(RouteError::Parameters { .. })));
    let taken = Router::new().get("/openapi", async || "mine").openapi("/openapi", info());
    assert!(matches!(taken.describe(), Err(RouteError::Twice { .. })));
    let relative = Router::new().openapi("openapi", info());
    assert!(matches!(relative.describe(), Err(RouteError::Relative { .. })));
}

/// Set in the process of its own.
const ALONE: &str = "ANYWIRE_TEST_ENDLESS_SCHEMA";
