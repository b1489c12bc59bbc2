//! Handlers take extensions, the address of the peer and its credentials, and their absence has a status.

use std::time::Duration;

use anywire_loops::PoolLimits;
use anywire_server::{
    Blocking, Extension, Handler, Next, PeerAddress, PeerGone, Rejection, Request, Response, RouteLimits,
    Router, Server,
};
use anywire_wire::Credentials;

use crate::support::{Scene, channel, serve};

#[derive(Clone)]
struct Tenant(u32);

async fn tenant(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Tenant(7));
    next.run(request).await
}

fn get(served: &crate::support::Served, path: &str) -> (u16, String) {
    let answer = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
    (answer.status, answer.text().to_owned())
}

#[test]
fn an_extension_is_what_a_layer_has_left() {
    let number = async |Extension(tenant): Extension<Tenant>| tenant.0.to_string();
    let maybe = async |tenant: Option<Extension<Tenant>>| tenant.map_or(0, |tenant| tenant.0.0).to_string();
    let result = async |tenant: Result<Extension<Tenant>, Rejection>| tenant.is_err().to_string();
    let routes = || Router::new().get("/number", number).get("/maybe", maybe).get("/result", result);
    let served = serve(routes().nest("/with", routes().layer(tenant)));
    assert_eq!(get(&served, "/with/number"), (200, "7".into()));
    assert_eq!(get(&served, "/with/maybe"), (200, "7".into()));
    assert_eq!(get(&served, "/with/result"), (200, "false".into()));
    let (status, text) = get(&served, "/number");
    assert_eq!(status, 500);
    assert!(!text.contains("Tenant"), "the names of types are for the log: {text}");
    assert_eq!(get(&served, "/maybe"), (200, "0".into()));
    assert_eq!(get(&served, "/result"), (200, "true".into()));
}

#[test]
fn the_peer_has_an_address() {
    let served = serve(Router::new().get("/", async |peer: PeerAddress| peer.to_string()));
    let (status, address) = get(&served, "/");
    assert_eq!(status, 200);
    assert!(address.starts_with("tcp:127.0.0.1:"), "{address}");
}

#[test]
fn work_elsewhere_can_ask_whether_anybody_waits() {
    let (told, heard) = channel();
    let waits = {
        let told = told.clone();
        async move |gone: PeerGone| -> String {
            let _ = told.send(gone);
            std::future::pending().await
        }
    };
    let done = move |gone: PeerGone| {
        let _ = told.send(gone);
        "done"
    };
    // Of this route alone: on a busy machine the other one may take as long.
    let limits = RouteLimits { handler_timeout: Some(Duration::from_millis(20)), ..Default::default() };
    let router = Router::new().get("/waits", waits.limits(limits)).get("/done", done.on_pool("cpu"));
    let served = Scene::tcp().serve_by(Server::new(router).pool("cpu", PoolLimits::default()));
    assert_eq!(get(&served, "/waits").0, 503);
    assert!(heard.next().is_gone(), "its handler was cancelled");
    assert_eq!(get(&served, "/done"), (200, "done".into()));
    assert!(!heard.next().is_gone(), "its peer has got the response");
}

#[test]
fn credentials_are_those_of_a_unix_socket() {
    let router = || {
        let user = async |credentials: Credentials| credentials.uid.to_string();
        let maybe = async |credentials: Option<Credentials>| credentials.is_some().to_string();
        Router::new().get("/user", user).get("/maybe", maybe)
    };
    let tcp = serve(router());
    assert_eq!(get(&tcp, "/user").0, 403);
    assert_eq!(get(&tcp, "/maybe"), (200, "false".into()));
    crate::support::on_each_wire(|scene: &Scene| {
        if scene.is("unix") {
            let unix = scene.serve(router());
            let own = rustix::process::getuid().as_raw().to_string();
            assert_eq!(get(&unix, "/user"), (200, own));
            assert_eq!(get(&unix, "/maybe"), (200, "true".into()));
        }
    });
}
