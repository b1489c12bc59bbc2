//! What is wrong with a layer is an error at start that names its places.

use std::panic::Location;
use std::rc::Rc;

use anywire_server::layers::ConcurrencyLimit;
use anywire_server::{
    Handler, Layer, LayerFault, MatchedPath, Next, Path, Request, Response, RouteError, Router, Server,
    ServerError, State,
};

async fn plain(request: Request, next: Next) -> Response {
    next.run(request).await
}

async fn needs(_: State<u32>, request: Request, next: Next) -> Response {
    next.run(request).await
}

async fn takes(_: Path<u32>, request: Request, next: Next) -> Response {
    next.run(request).await
}

async fn may_take(_: Option<Path<u32>>, _: Option<MatchedPath>, request: Request, next: Next) -> Response {
    next.run(request).await
}

async fn hello() -> &'static str {
    "hello"
}

/// Why a server does not start.
fn refused(server: Server) -> RouteError {
    match server.loops(1).listen("memory:mistakes-of-layers").start() {
        Err(ServerError::Route(error)) => error,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("the server started"),
    }
}

#[test]
fn a_layer_around_nothing() {
    let (given, joined) = (line!() + 1, line!() + 2);
    let empty = Router::new().layer(plain).state(7_u32);
    let router = Router::new().get("/", hello).merge(empty);
    let error = refused(Server::new(router));
    let text = error.to_string();
    let RouteError::LayerOnNothing { name, place, router } = error else { panic!("another error: {error}") };
    assert_eq!((name, place.line(), router.line()), ("plain", given, joined));
    assert!(text.contains(&place.to_string()) && text.contains(&router.to_string()), "{text}");
    let deep = Router::new().nest("/deep", Router::new().layer(plain));
    let error = refused(Server::new(Router::new().get("/", hello).nest("/outer", deep)));
    assert!(matches!(error, RouteError::LayerOnNothing { .. }), "{error}");
    // There is always something around which a server has layers, and an outermost router its 404.
    for router in [Router::new().layer(plain), Router::new()] {
        drop(
            Server::new(router)
                .loops(1)
                .layer(plain)
                .listen("memory:layers-of-nothing")
                .start()
                .expect("right"),
        );
    }
    let fallback = Router::new().fallback(hello).layer(plain);
    assert!(Router::new().nest("/a", Router::new().layer(plain).nest("/b", fallback)).describe().is_ok());
}

/// The error names what the layer is around by its place, beside that of the layer.
#[track_caller]
fn assert_around(error: &RouteError, around: &str) {
    let text = error.to_string();
    assert!(text.contains(around), "{text}");
    assert_eq!(text.matches(file!()).count(), 2, "{text}");
}

#[test]
fn a_state_that_is_missing() {
    let has = Router::new().get("/a", hello).state(7_u32);
    let line = line!() + 1;
    let router = Router::new().get("/", hello).layer(needs).merge(has);
    let error = refused(Server::new(router));
    let text = error.to_string();
    let RouteError::LayerState { name, place, type_name, .. } = error else {
        panic!("another error: {text}")
    };
    assert_eq!((name, place.line(), type_name), ("needs", line, "u32"));
    assert!(text.contains("that the outermost router does not have"), "{text}");
    let nested = || Router::new().get("/", hello).layer(needs);
    let (line, router) = (line!(), Router::new().nest("/inner", nested()));
    assert_around(&refused(Server::new(router)), &format!("the router added at {}:{line}:", file!()));
    let (line, router) = (line!(), Router::new().get("/one", hello.layer(needs)));
    assert_around(
        &refused(Server::new(router)),
        &format!("the handler of GET /one, given at {}:{line}:", file!()),
    );
    for server in [
        Server::new(Router::new().get("/", hello.layer(needs))),
        Server::new(Router::new().nest("/a", Router::new().get("/", hello).state(7_u32))).layer(needs),
    ] {
        let error = refused(server);
        assert!(matches!(error, RouteError::LayerState { .. }), "{error}");
    }
    let inner = Router::new().get("/", hello.layer(needs)).layer(needs);
    Router::new().nest("/inner", inner).state(7_u32).describe().expect("the outer router has it");
}

#[test]
fn path_parameters_where_there_are_none() {
    let line = line!() + 1;
    let error = refused(Server::new(Router::new().get("/{id}", hello).layer(takes)));
    let RouteError::LayerParameters { name, place, .. } = error else { panic!("another error: {error}") };
    assert_eq!((name, place.line()), ("takes", line));
    let nested = || Router::new().get("/", hello).layer(takes);
    let (line, router) = (line!(), Router::new().nest("/{id}", nested()));
    assert_around(&refused(Server::new(router)), &format!("the router added at {}:{line}:", file!()));
    let (line, router) = (line!(), Router::new().get("/one", hello.layer(takes)));
    assert_around(
        &refused(Server::new(router)),
        &format!("the handler of GET /one, given at {}:{line}:", file!()),
    );
    let error = refused(Server::new(Router::new().get("/{id}", hello)).layer(takes));
    assert!(matches!(error, RouteError::LayerParameters { .. }), "{error}");
    let error = refused(Server::new(Router::new().get("/", hello.layer(takes))));
    assert!(matches!(error, RouteError::LayerParameters { .. }), "{error}");
    let right =
        Router::new().get("/{id}", hello.layer(takes)).get("/", hello.layer(may_take)).layer(may_take);
    right.describe().expect("right routes");
}

/// A layer whose settings are wrong.
struct Wrong {
    one: &'static Location<'static>,
    other: &'static Location<'static>,
}

impl Layer for Wrong {
    type Local = ();

    fn local(&self) {}

    async fn call(_: Rc<()>, request: Request, next: Next) -> Response {
        next.run(request).await
    }

    fn fault(&self) -> Option<LayerFault> {
        Some(LayerFault::new("contradicts itself", "choose one").at(self.one).at(self.other))
    }
}

#[test]
fn settings_that_are_wrong() {
    let wrong = || Wrong { one: Location::caller(), other: Location::caller() };
    for server in [
        Server::new(Router::new().layer(wrong())),
        Server::new(Router::new().get("/", hello.layer(wrong()))),
        Server::new(Router::new()).layer(wrong()),
        Server::new(Router::new().nest("/inner", Router::new().get("/", hello).layer(wrong()))),
    ] {
        let error = refused(server);
        let text = error.to_string();
        let RouteError::Layer { name, place, fault } = error else { panic!("another error: {error}") };
        assert_eq!(name, "Wrong");
        assert!(text.contains(&place.to_string()) && text.contains(&fault.to_string()), "{text}");
        assert!(text.ends_with("; choose one"), "{text}");
    }
}

#[test]
fn a_number_that_lets_nothing_through() {
    let (line, none) = (line!(), ConcurrencyLimit::new(0));
    let text = refused(Server::new(Router::new().get("/", hello).layer(none))).to_string();
    let place = format!("mistakes_of_layers_stop_the_start.rs:{line}:");
    assert!(text.contains(&place) && text.contains("allows no request at once"), "{text}");
}

#[test]
fn names_are_those_of_functions_and_types() {
    fn name<L: Layer<Args>, Args>(layer: &L) -> &'static str {
        layer.name()
    }
    assert_eq!(name(&plain), "plain");
    assert_eq!(name(&async |request: Request, next: Next| next.run(request).await), "a closure");
    assert_eq!(name(&Wrong { one: Location::caller(), other: Location::caller() }), "Wrong");
}
