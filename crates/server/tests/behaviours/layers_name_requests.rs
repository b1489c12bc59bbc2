//! Each request has a name, which its peer gives only if it is trusted to.

use anywire_server::layers::{RequestId, RequestIds};
use anywire_server::{Parts, Router};

use crate::support::serve;

async fn shown(id: RequestId) -> String {
    id.to_string()
}

#[test]
fn made_by_the_server() {
    let served = serve(Router::new().get("/", shown).layer(RequestIds::new()));
    let mut peer = served.connect();
    let mut names = Vec::new();
    for _ in 0..20 {
        peer.send("GET / HTTP/1.1\r\nhost: x\r\nx-request-id: mine\r\n\r\n");
        let answer = peer.answer(false);
        assert_eq!(answer.header("x-request-id"), Some(answer.text()));
        names.push(answer.text().to_owned());
    }
    // Another loop has other names.
    names.extend((0..20).map(|_| served.ask("GET / HTTP/1.1\r\nhost: x\r\n\r\n").text().to_owned()));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "no name is given twice");
    assert!(names.iter().all(|name| name.len() == 24), "{names:?}");
    assert!(served.ask("GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n").header("x-request-id").is_some());
}

#[test]
fn taken_from_a_peer_that_is_trusted() {
    let is_proxy = |request: &Parts| request.headers().contains("x-proxy");
    let served = serve(Router::new().get("/", shown).layer(RequestIds::new().field("x-id").trust(is_proxy)));
    let trusted = |id: &str| served.alike("GET /", &[("x-proxy", "1"), ("x-id", id)], "");
    let reply = trusted("a-B.7_:+/=@");
    assert_eq!((&*reply.text, reply.field("x-id")), ("a-B.7_:+/=@", Some("a-B.7_:+/=@")));
    // What would deface a log is not taken, even then.
    for id in ["a b", "\"quoted\"", "<b>", &"x".repeat(129)] {
        let request = format!("GET / HTTP/1.1\r\nhost: x\r\nx-proxy: 1\r\nx-id: {id}\r\n\r\n");
        let answer = served.ask(&request);
        assert_ne!(answer.text(), id);
        assert_eq!(answer.header("x-id"), Some(answer.text()));
    }
    let answer = served.ask("GET / HTTP/1.1\r\nhost: x\r\nx-id: forged\r\n\r\n");
    assert_ne!(answer.text(), "forged");
}

#[test]
fn without_the_layer_there_is_none() {
    assert_eq!(serve(Router::new().get("/", shown)).get("/").status, 500);
    let error =
        Router::new().layer(RequestIds::new().field("x id")).describe().expect_err("no field is named so");
    assert_eq!(error.to_string().matches(file!()).count(), 2, "{error}");
}
