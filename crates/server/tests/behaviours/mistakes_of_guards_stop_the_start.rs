//! Conditions that no request could meet are an error at start, which names both places.

use anywire_http::accept::InvalidMediaType;
use anywire_server::guards::{GuardFault, header, host, param_matches, query};
use anywire_server::{Handler, MediaTypeFault, RouteError, Router};

async fn nothing() {}

fn refused(router: &Router) -> RouteError {
    router.describe().expect_err("a mistake")
}

#[test]
fn guards_that_contradict_each_other() {
    let line = line!() + 1;
    let handler = nothing.when(header("x-version").equals("1"));
    let handler = handler.when(header("X-Version").equals("2"));
    let error = refused(&Router::new().get("/a", handler));
    let RouteError::GuardsContradict { route, place, other_place, .. } = &error else { panic!("{error}") };
    assert_eq!((route.as_str(), other_place.line(), place.line()), ("GET /a", line, line + 1));
    let text = error.to_string();
    assert!(text.contains("header x-version = \"1\"") && text.contains("header x-version = \"2\""), "{text}");
    // On a handler and the router around it.
    let inner = Router::new().get("/", nothing.when(query("a").equals("1")));
    let error = refused(&Router::new().nest("/b", inner).when(query("a").equals("2")));
    assert!(matches!(&error, RouteError::GuardsContradict { route, .. } if route == "GET /b"), "{error}");
    let fallback = Router::new().fallback(nothing.when(host("a.test"))).when(host("*.b.test"));
    assert!(matches!(refused(&fallback), RouteError::GuardsContradict { .. }));
    let ports = nothing.when(host("a.test:80")).when(host("a.test:81"));
    assert!(matches!(refused(&Router::new().get("/", ports)), RouteError::GuardsContradict { .. }));
    // These may hold together.
    let port = nothing.when(host("a.test")).when(host("a.test:81")).when(host("*.test"));
    assert!(Router::new().get("/", port).describe().is_ok());
    let together = nothing.when(header("a")).when(header("a").equals("1")).when(query("a").equals("2"));
    assert!(Router::new().get("/", together).describe().is_ok());
}

#[test]
fn handlers_of_which_only_one_would_answer() {
    let (one, other) = (line!() + 1, line!() + 2);
    let router = Router::new().get("/a", nothing.when(query("a")).when(header("B")));
    let router = router.get("/%61", nothing.when(header("b")).when(query("a")));
    let error = refused(&router);
    let RouteError::Twice { first, second, .. } = &error else { panic!("{error}") };
    assert_eq!((first.line(), second.line()), (one, other));
    let twice = |router: Router| matches!(refused(&router), RouteError::Twice { .. });
    let json = || nothing.consumes("application/json");
    assert!(twice(Router::new().post("/a", json()).post("/a", json())));
    assert!(twice(Router::new().post("/a", nothing).when(query("a")).post("/a", nothing)));
    let guarded = || Router::new().fallback(nothing).when(query("a"));
    assert!(matches!(refused(&guarded().merge(guarded())), RouteError::FallbackTwice { .. }));
    assert!(Router::new().post("/a", json()).post("/a", nothing.consumes("text/plain")).describe().is_ok());
}

/// It has more guards, which say no more than the one of the other handler, and so it takes all requests of that.
#[test]
fn a_handler_that_another_one_always_comes_before() {
    let line = line!() + 1;
    let all = nothing.when(host("a.test")).when(host("*.test:80"));
    let router = Router::new().get("/a", nothing.when(host("a.test:80")));
    let error = refused(&router.get("/a", all));
    let RouteError::Twice { first, second, .. } = &error else { panic!("{error}") };
    assert_eq!((first.line(), second.line()), (line + 1, line + 2));
    let twice = |router: Router| matches!(refused(&router), RouteError::Twice { .. });
    let both = || nothing.when(query("a")).when(query("a").equals("1"));
    assert!(twice(Router::new().get("/a", both()).get("/a", nothing.when(query("a").equals("1")))));
    let fallbacks = Router::new().fallback(nothing.when(query("a").equals("1")));
    let fallbacks = Router::new().fallback(both()).merge(fallbacks);
    assert!(matches!(refused(&fallbacks), RouteError::FallbackTwice { .. }));
    let ranges = Router::new().post("/a", nothing.consumes("text/*"));
    let ranges = ranges.post("/a", nothing.consumes("*/*").when(query("a")));
    assert!(ranges.post("/a", nothing.when(query("b"))).describe().is_ok());
}

#[test]
fn parameters_that_the_path_does_not_have() {
    let (guard, route) = (line!() + 1, line!() + 2);
    let handler = nothing.when(param_matches("number", "[0-9]+"));
    let error = refused(&Router::new().get("/orders/{id}", handler));
    let RouteError::GuardParameter { name, route: named, place, route_place, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((name.as_str(), named.as_str()), ("number", "GET /orders/{id}"));
    assert_eq!((place.line(), route_place.line()), (guard, route));
    let number = || param_matches("number", "[0-9]+");
    let inner = Router::new().get("/", nothing).when(number());
    assert!(Router::new().nest("/of/{number}", inner).describe().is_ok());
    let inner = Router::new().fallback(nothing).when(number());
    assert!(matches!(refused(&Router::new().nest("/of/{number}", inner)), RouteError::GuardParameter { .. }));
}

#[test]
fn settings_of_guards_that_are_wrong() {
    let fault = |router: &Router| match refused(router) {
        RouteError::Guard { fault, .. } => fault,
        other => panic!("{other}"),
    };
    assert_eq!(fault(&Router::new().get("/", nothing.when(host("b\u{fc}cher.de")))), GuardFault::Host);
    assert_eq!(fault(&Router::new().get("/", nothing.when(header("x y")))), GuardFault::Name);
    // HTTP/2 has none of these fields: a handler with such a guard would answer over HTTP/1 alone.
    for name in
        ["host", "Host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]
    {
        assert_eq!(fault(&Router::new().get("/", nothing.when(header(name)))), GuardFault::Field, "{name}");
        let valued = nothing.when(header(name).equals("a.test"));
        assert_eq!(fault(&Router::new().get("/", valued)), GuardFault::Field, "{name}");
    }
    let text = refused(&Router::new().get("/", nothing.when(header("host")))).to_string();
    assert!(text.contains("guards::host"), "{text}");
    let expression = Router::new().get("/{a}", nothing.when(param_matches("a", "[0-9")));
    let error = refused(&expression);
    assert!(matches!(fault(&expression), GuardFault::Expression { .. }));
    assert!(error.to_string().contains("{a} matches \"[0-9\""), "{error}");
    // An expression cannot leave its group.
    assert!(matches!(
        fault(&Router::new().get("/{a}", nothing.when(param_matches("a", "x)|(?:y")))),
        GuardFault::Expression { .. }
    ));
}

#[test]
fn media_types_that_are_none() {
    let line = line!() + 1;
    let error = refused(&Router::new().post("/", nothing.consumes("json")));
    let RouteError::MediaType { text, place, fault } = &error else { panic!("{error}") };
    assert_eq!((text.as_str(), place.line()), ("json", line));
    assert!(matches!(fault, MediaTypeFault::Malformed(InvalidMediaType::Essence { .. })), "{fault}");
    let fault = |router: &Router| match refused(router) {
        RouteError::MediaType { fault, .. } => fault,
        other => panic!("{other}"),
    };
    assert_eq!(fault(&Router::new().get("/", nothing.produces("image/*"))), MediaTypeFault::Range);
    assert_eq!(fault(&Router::new().get("/", nothing.produces([""; 0]))), MediaTypeFault::None);
    assert_eq!(fault(&Router::new().get("/", nothing).consumes([""; 0])), MediaTypeFault::None);
}

#[test]
fn media_types_without_a_path() {
    for handler in [nothing.consumes("a/b"), nothing.produces("a/b")] {
        let fallback = line!() + 1;
        let error = refused(&Router::new().nest("/a", Router::new().fallback(handler)));
        let RouteError::MediaTypesWithoutPath { route, handler, place } = &error else { panic!("{error}") };
        assert_eq!((route.as_str(), handler.line()), ("* /a/(the fallback)", fallback));
        assert_eq!(place.line(), fallback - 2);
    }
    let tunnel = refused(&Router::new().connect(nothing.consumes("a/b")));
    assert!(
        matches!(&tunnel, RouteError::MediaTypesWithoutPath { route, .. } if route == "CONNECT *"),
        "{tunnel}"
    );
    // Those of a router are for its routes.
    let router = Router::new().get("/a", nothing).fallback(nothing).produces("text/plain").consumes("a/b");
    assert!(router.describe().is_ok());
}

#[test]
fn values_that_no_field_has() {
    for value in ["2 ", "\t2", "a\r\nb", "\0", "\u{7f}"] {
        let line = line!() + 1;
        let error = refused(&Router::new().get("/a", nothing.when(header("x-version").equals(value))));
        let RouteError::Guard { fault, place, .. } = &error else { panic!("{error}") };
        assert_eq!((fault, place.line()), (&GuardFault::Value, line), "{value:?}");
    }
    for value in ["", "2", "a b", "a\tb", "\u{e4}"] {
        let router = Router::new().get("/a", nothing.when(header("x-version").equals(value)));
        assert!(router.describe().is_ok(), "{value:?}");
    }
}
