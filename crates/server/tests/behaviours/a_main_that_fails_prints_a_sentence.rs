//! `fn main() -> Result<(), ServerError>` prints the error's `Debug` form: it is the sentence and its remedy.

use anywire_server::{Router, Server, ServerError, State};

fn printed(server: Server) -> String {
    let error = server.start().err().expect("a mistake");
    format!("{error:?}")
}

#[test]
fn a_mistake_of_routes() {
    let state = Router::new().get("/", async |_: State<u8>| ());
    let text = printed(Server::new(state));
    assert!(text.starts_with("the handler of GET /") && text.contains("; add .state(..)"), "{text}");
    let clash = Router::new().get("/{a}", async || ()).get("/{b}", async || ());
    let text = printed(Server::new(clash));
    assert!(
        text.starts_with("the path \"/{b}\", given at ") && text.contains("; name their parameters alike"),
        "{text}"
    );
}

#[test]
fn a_mistake_of_addresses() {
    assert_eq!(
        printed(Server::new(Router::new())),
        "the server has nowhere to listen; add .listen(\"tcp:127.0.0.1:8080\")"
    );
    let text = printed(Server::new(Router::new()).listen("carrier-pigeon:coop"));
    assert!(text.contains("carrier-pigeon") && !text.contains('{'), "{text}");
}

#[test]
fn signals_with_their_cause() {
    let error = ServerError::Signals(std::io::Error::other("the loops have ended"));
    assert_eq!(format!("{error:?}"), "receiving SIGTERM and SIGINT failed: the loops have ended");
}
