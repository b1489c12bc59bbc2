//! What a router would have to decide in silence is an error at start that names both places.

use anywire_http::Method;
use anywire_server::{
    FromRequest, Handler, Needs, Next, OptionalFromRequest, Path, PathFault, Rejection, Request, Response,
    RouteError, Router, Server, ServerError, State,
};
use bytes::Bytes;

/// Why a server does not start with these routes.
fn refused(router: Router) -> RouteError {
    match Server::new(router).loops(1).listen("memory:mistakes-of-routes").start() {
        Err(ServerError::Route(error)) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("the server started"),
    }
}

/// That a server starts with these routes, on an address of its own.
fn accepted(name: &str, router: Router) {
    drop(Server::new(router).loops(1).listen(format!("memory:{name}")).start().expect("right routes"));
}

#[derive(Clone)]
struct Store;

async fn nothing() {}

#[test]
fn two_states_of_one_type() {
    let (one, other) = (line!() + 1, line!() + 2);
    let router = Router::new().state(Store);
    let router = router.state(Store);
    let error = refused(router);
    let RouteError::StateTwice { first, second, type_name } = error else { panic!("another error: {error}") };
    assert_eq!((first.line(), second.line()), (one, other));
    assert!(type_name.ends_with("::Store") && first.file().ends_with("mistakes_of_routes_stop_the_start.rs"));
    let text = error.to_string();
    assert!(text.contains(&first.to_string()) && text.contains(&second.to_string()), "{text}");
}

#[test]
fn two_states_of_one_type_in_a_nested_router() {
    let (one, other) = (line!() + 1, line!() + 2);
    let inner = Router::new().state(1_u32);
    let inner = inner.state(2_u32);
    let error = refused(Router::new().state(3_u32).nest("/inner", inner));
    let RouteError::StateTwice { first, second, .. } = error else { panic!("another error: {error}") };
    assert_eq!((first.line(), second.line()), (one, other));
    // Each of two routers may have one.
    let inner = Router::new().get("/", async |_: State<u32>, _: State<u64>| ()).state(1_u32);
    accepted("states-of-each", Router::new().state(2_u64).state(3_u32).nest("/inner", inner));
}

#[test]
fn a_state_that_only_a_nested_router_has() {
    let inner = Router::new().state(Store).get("/", async |_: State<Store>| ());
    let line = line!() + 1;
    let router = Router::new().nest("/inner", inner).get("/outer", async |_: State<Store>| ());
    let error = refused(router);
    let RouteError::State { route, place, type_name } = &error else { panic!("another error: {error}") };
    assert_eq!((route.as_str(), place.line()), ("GET /outer", line));
    assert!(type_name.ends_with("::Store"), "{type_name}");
}

/// An extractor that uses another one, and passes its needs on.
struct Checked;

impl FromRequest for Checked {
    type Rejection = <Bytes as FromRequest>::Rejection;

    async fn from_request(request: Request) -> Result<Self, Self::Rejection> {
        Bytes::from_request(request).await.map(|_| Self)
    }

    fn needs(needs: &mut Needs) {
        needs.state::<Store>();
    }
}

impl OptionalFromRequest for Checked {
    fn is_absent(request: &Request) -> bool {
        Bytes::is_absent(request)
    }
}

#[test]
fn needs_of_extractors_from_elsewhere_count() {
    let lacks_a_state = |router: Router| {
        let lacking = refused(router);
        assert!(matches!(&lacking, RouteError::State { route, .. } if route == "PUT /"), "{lacking}");
    };
    lacks_a_state(Router::new().put("/", async |_: Checked| ()));
    lacks_a_state(Router::new().put("/", async |_: Option<Checked>| ()));
    lacks_a_state(Router::new().put("/", async |_: Result<Checked, Rejection>| ()));
    lacks_a_state(Router::new().put("/", async |_: Result<State<Store>, Rejection>, _: Request| ()));
}

#[test]
fn parameters_that_the_path_does_not_have() {
    let takes = async |_: Path<u32>| ();
    let lacks = |router: Router, whose: &str| {
        let error = refused(router);
        assert!(matches!(&error, RouteError::Parameters { route, .. } if route == whose), "{error}");
        assert!(error.to_string().contains("takes path parameters, and its path has none"), "{error}");
    };
    lacks(Router::new().get("/a", takes), "GET /a");
    lacks(Router::new().any("/a", takes), "* /a");
    lacks(Router::new().get("/a", async |_: Result<Path<u32>, Rejection>| ()), "GET /a");
    lacks(Router::new().get("/a", async |_: Path<u32>, _: Option<Path<u32>>| ()), "GET /a");
    lacks(Router::new().nest("/a", Router::new().fallback(takes)), "* /a/(the fallback)");
    accepted("of-a-prefix", Router::new().nest("/{id}", Router::new().get("/", takes)));
    accepted("one-that-may-be-absent", Router::new().get("/a", async |_: Option<Path<u32>>| ()));
}

#[test]
fn two_handlers_and_two_fallbacks() {
    let error = refused(Router::new().get("/a", nothing).post("/a", nothing).get("/a", nothing));
    let RouteError::Twice { method, path, first, second, .. } = &error else {
        panic!("another error: {error}")
    };
    assert_eq!((method.as_ref(), path.as_str()), (Some(&Method::GET), "/a"));
    assert!(first.column() < second.column());
    assert!(error.to_string().contains(&second.to_string()), "{error}");
    let error = refused(Router::new().any("/a", nothing).get("/a", nothing).any("/a", nothing));
    assert!(error.to_string().starts_with("any method of /a has two handlers, "), "{error}");
    let error = refused(Router::new().fallback(nothing).fallback(nothing));
    let RouteError::FallbackTwice { first, second, .. } = &error else { panic!("another error: {error}") };
    assert!(first.column() < second.column());
    assert!(error.to_string().starts_with("the router has two fallbacks, "), "{error}");
}

#[test]
fn equivalent_paths_are_one() {
    for (one, other) in
        [("/\u{e4}", "/%C3%A4"), ("/%c3%a4/{x}", "/\u{e4}/{x}"), ("/a%2fb", "/%61%2Fb"), ("/{{", "/%7B")]
    {
        let error = refused(Router::new().get(one, nothing).get(other, nothing));
        let RouteError::Twice { path, other_path, .. } = &error else { panic!("another error: {error}") };
        assert_eq!((path.as_str(), other_path.as_str()), (one, other));
        let text = error.to_string();
        assert!(text.contains(one) && text.contains(other), "{text}");
    }
    let fallback = || Router::new().fallback(nothing);
    let error = refused(Router::new().nest("/\u{e4}", fallback()).nest("/%C3%a4", fallback()));
    assert!(matches!(error, RouteError::FallbackTwice { .. }), "{error}");
    accepted("a-slash-and-its-code", Router::new().get("/a/b", nothing).get("/a%2Fb", nothing));
}

/// Both places of a conflict stand in its message.
fn assert_conflict(router: Router, path: &str, other: &str) {
    let error = refused(router);
    let RouteError::Conflict { path: second, place, other: first, other_place } = &error else {
        panic!("another error: {error}")
    };
    assert_eq!((second.as_str(), first.as_str()), (path, other));
    assert!(place.file().ends_with("mistakes_of_routes_stop_the_start.rs"));
    assert!((place.line(), place.column()) > (other_place.line(), other_place.column()), "{error}");
    let text = error.to_string();
    for shown in [path, other, &place.to_string(), &other_place.to_string()] {
        assert!(text.contains(shown), "{shown} in {text}");
    }
}

#[test]
fn paths_that_conflict_are_named_with_their_places() {
    let router = || Router::new().get("/other", nothing);
    assert_conflict(router().get("/{a}", nothing).post("/{b}", nothing), "/{b}", "/{a}");
    assert_conflict(router().get("/x/{*rest}", nothing).get("/x/{b}", nothing), "/x/{b}", "/x/{*rest}");
    assert_conflict(router().get("/a-{b}", nothing).get("/{c}-d", nothing), "/{c}-d", "/a-{b}");
    // The tree keeps these in another spelling.
    assert_conflict(
        router().get("/\u{e4}/{{{a}", nothing).get("/%c3%a4/{{{b}", nothing),
        "/%c3%a4/{{{b}",
        "/\u{e4}/{{{a}",
    );
    let outer = router().get("/n/{a}", nothing);
    assert_conflict(outer.nest("/n", Router::new().get("/{b}", nothing)), "/n/{b}", "/n/{a}");
}

#[test]
fn malformed_parameters_say_what_is_wrong() {
    let many: String = (0..26).map(|number| format!("/{{p{number}}}")).collect();
    for (path, fault, message) in [
        ("/{", PathFault::Braces, "a brace"),
        ("/a}", PathFault::Braces, "a brace"),
        ("/{}", PathFault::Braces, "{name}"),
        ("/{a}{b}", PathFault::TwoInOneSegment, "two parameters in one segment"),
        ("/{*rest}/x", PathFault::RestNotLast, "takes the rest"),
        (many.as_str(), PathFault::TooManyParameters, "25"),
    ] {
        let line = line!() + 1;
        let error = refused(Router::new().get(path, nothing));
        let RouteError::Path { path: shown, place, fault: found } = &error else {
            panic!("another error: {error}")
        };
        assert_eq!((shown.as_str(), place.line(), *found), (path, line, fault));
        let text = error.to_string();
        assert!(text.contains(message) && text.contains(&place.to_string()), "{text}");
    }
}

#[test]
fn a_path_without_its_slash_in_a_nested_router() {
    let inner = Router::new().get("b", nothing);
    let line = line!() - 1;
    let error = refused(Router::new().nest("/a", inner));
    let RouteError::Relative { path, place } = &error else { panic!("another error: {error}") };
    assert_eq!((path.as_str(), place.line()), ("b", line));
    // The prefix is at fault, so the place is that of `nest`.
    for path in ["/b", "/"] {
        let inner = Router::new().get(path, nothing);
        let line = line!() + 1;
        let error = refused(Router::new().nest("a", inner));
        let RouteError::Relative { path, place } = &error else { panic!("another error: {error}") };
        assert_eq!((path.as_str(), place.line()), ("a", line));
        assert!(error.to_string().contains(&place.to_string()), "{error}");
    }
}

#[test]
fn the_fallback_of_a_nested_router_is_checked() {
    let inner = || Router::new().get("/", nothing).fallback(async |_: State<Store>| ());
    let error = refused(Router::new().nest("/a", inner()));
    assert!(matches!(&error, RouteError::State { route, .. } if route == "* /a/(the fallback)"), "{error}");
    accepted("nested-fallback", Router::new().nest("/a", inner().state(Store)).fallback(nothing));
    let fallback = || Router::new().fallback(nothing);
    let error = refused(Router::new().nest("/a", fallback()).nest("/a/", fallback()));
    assert!(matches!(error, RouteError::FallbackTwice { .. }), "{error}");
    let error = refused(fallback().merge(fallback()));
    assert!(matches!(error, RouteError::FallbackTwice { .. }), "{error}");
    let error = refused(Router::new().nest("a", fallback()));
    assert!(matches!(&error, RouteError::Relative { path, .. } if path == "a"), "{error}");
    let error = refused(Router::new().nest("/{a}", fallback()).nest("/{b}", fallback()));
    assert!(matches!(&error, RouteError::Conflict { path, .. } if path == "/{b}"), "{error}");
}

#[test]
fn variables_in_the_syntax_of_other_frameworks() {
    for (given, wrong, right) in [
        ("/x/:id", ":id", "{id}"),
        ("/x/:id/y", ":id", "{id}"),
        ("/x/*rest", "*rest", "{*rest}"),
        ("/x/*", "*", "{*rest}"),
        ("/x/<id>", "<id>", "{id}"),
        ("/x/{id:[0-9]+}", "{id:[0-9]+}", "{id}"),
        ("/x/{rest...}", "{rest...}", "{*rest}"),
    ] {
        let error = refused(Router::new().get(given, nothing));
        let RouteError::Syntax { path, segment, instead, place } = &error else {
            panic!("another error: {error}")
        };
        assert_eq!((path.as_str(), segment.as_str(), instead.as_str()), (given, wrong, right));
        assert!(error.to_string().contains(&place.to_string()), "{error}");
    }
    let error = refused(Router::new().nest("/x/:id", Router::new().get("/y", nothing)));
    assert!(error.to_string().contains("write \"{id}\""), "{error}");
    accepted("literal-colons", Router::new().get("/x:y/a*/<b", nothing).get("/{{:literal}}", nothing));
}

#[test]
fn nesting_at_the_root_changes_nothing() {
    for prefix in ["", "/"] {
        let inner = Router::new().get("/", nothing).get("/{id}", async |_: Path<u32>| ());
        accepted("nested-at-root", Router::new().nest(prefix, inner));
    }
}

#[test]
fn a_path_with_a_query() {
    for path in ["/x?y", "/x/{y?}", "/x#y"] {
        let error = refused(Router::new().get(path, nothing));
        assert!(matches!(&error, RouteError::Query { path: shown, .. } if shown == path), "{error}");
    }
    let error = refused(Router::new().nest("/x?", Router::new().fallback(nothing)));
    assert!(error.to_string().contains("`Query`"), "{error}");
}

#[test]
fn parameters_of_one_name() {
    let line = line!() + 1;
    let inner = Router::new().get("/orders/{id}", nothing);
    let error = refused(Router::new().nest("/users/{id}", inner));
    let RouteError::Path { path, place, fault } = error else { panic!("another error: {error}") };
    assert_eq!(
        (path.as_str(), fault, place.line()),
        ("/users/{id}/orders/{id}", PathFault::ParameterTwice, line)
    );
    assert!(matches!(refused(Router::new().get("/{a}/{*a}", nothing)), RouteError::Path { .. }));
    // That of a fallback is no parameter.
    let inner = Router::new().get("/", nothing).fallback(nothing);
    accepted("a-prefix-of-the-name-rest", Router::new().nest("/{rest}", inner));
}

#[test]
fn parameters_that_do_not_fit_the_path() {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "it is not read")]
    struct User {
        user: u32,
    }
    async fn layer(_: Path<(u8, u8)>, request: Request, next: Next) -> Response {
        next.run(request).await
    }
    let unfit = |router: Router| match refused(router) {
        RouteError::ParametersUnfit { route, place, fault } => (route, place.line(), fault),
        other => panic!("another error: {other}"),
    };
    let two = async |_: Path<(u32, String)>| ();
    let line = line!() + 1;
    let found = unfit(Router::new().get("/a/{id}", two));
    assert_eq!(found, ("GET /a/{id}".into(), line, "the route has 1 parameters, the handler takes 2".into()));
    let one = async |_: Path<u32>| ();
    assert_eq!(unfit(Router::new().nest("/{a}", Router::new().get("/{b}", one))).0, "GET /{a}/{b}");
    let user = async |_: Path<User>| ();
    assert_eq!(unfit(Router::new().get("/{id}", user)).2, "the route has no parameter \"user\"");
    unfit(Router::new().get("/{id}", async |_: Option<Path<(u8, u8)>>| ()));
    unfit(Router::new().get("/{id}", async |_: Result<Path<(u8, u8)>, Rejection>| ()));
    let error = refused(Router::new().get("/{id}", nothing.layer(layer)));
    assert!(matches!(&error, RouteError::Layer { .. }), "{error}");
    let right = Router::new()
        .get("/{user}/{b}", user)
        .get("/{user}/{b}/c", two)
        .get("/d", async |_: Option<Path<(u8, u8)>>| ())
        .get("/{a}/{b}/e", nothing.layer(layer));
    accepted("parameters-that-fit", right);
}
