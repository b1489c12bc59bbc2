//! A state is given once: handlers on loops take their clone of it, functions on a pool the value itself.

use std::sync::Arc;

use anywire_loops::PoolLimits;
use anywire_server::{Blocking, RouteError, Router, Server, State};

use crate::support::Scene;

#[derive(Clone)]
struct Word(&'static str);

fn routes() -> Router {
    let on_loop = async |State(word): State<Word>| word.0;
    let on_pool = |word: Arc<Word>| word.0;
    Router::new()
        .get("/loop", on_loop)
        .get("/pool", on_pool.on_pool("cpu"))
        .get("/both", async |word: State<Word>, shared: Arc<Word>| format!("{} {}", word.0.0, shared.0))
}

#[test]
fn of_the_router_that_has_it_or_the_one_around_that() {
    let inner = routes().state(Word("inner"));
    let own_arc = routes().state(Word("value")).state(Arc::new(Word("arc")));
    let router =
        routes().state(Word("outer")).nest("/in", inner).nest("/own", own_arc).nest("/none", routes());
    let served = Scene::tcp().serve_by(Server::new(router).pool("cpu", PoolLimits::default()));
    for (path, on_loop, on_pool) in [
        ("", "outer", "outer"),
        ("/in", "inner", "inner"),
        ("/own", "value", "arc"),
        ("/none", "outer", "outer"),
    ] {
        assert_eq!(served.get(&format!("{path}/loop")).text, on_loop, "{path}");
        assert_eq!(served.get(&format!("{path}/pool")).text, on_pool, "{path}");
        assert_eq!(served.get(&format!("{path}/both")).text, format!("{on_loop} {on_pool}"), "{path}");
    }
}

#[test]
fn what_nobody_gave_is_missing_at_the_start() {
    let missing = |router: Router| match router.describe() {
        Err(RouteError::State { type_name, .. }) => type_name.to_owned(),
        other => panic!("{other:?}"),
    };
    let shared = || Router::new().get("/", (|word: Arc<Word>| word.0).on_pool("cpu"));
    assert!(missing(shared()).starts_with("alloc::sync::Arc<"));
    assert!(shared().state(Word("here")).describe().is_ok());
    // The value is not to be had out of an `Arc`.
    let own = Router::new().get("/", async |word: State<Word>| word.0.0).state(Arc::new(Word("here")));
    assert!(missing(own).ends_with("::Word"));
}
