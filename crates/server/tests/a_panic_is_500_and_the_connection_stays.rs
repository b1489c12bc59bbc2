//! A handler that panics, at once or later, answers 500; its connection, its loop and all others go on.

mod support;

use anywire_server::Router;

#[test]
fn a_panic_is_500_and_the_connection_stays() {
    support::on_each_wire(panics);
}

fn panics(scene: &support::Scene) {
    let router = Router::new()
        .get("/at-once", async || -> &'static str { panic!("on purpose") })
        .get("/later", async || -> &'static str {
            tokio::task::yield_now().await;
            panic!("on purpose")
        })
        .get("/", async || "ok");
    let served = scene.serve(router);
    let mut peer = served.connect();
    for path in ["/at-once", "/later"] {
        peer.send(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(peer.answer(false).status, 500);
    }
    peer.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "ok");
    assert_eq!(served.running.counters().panics, 2);
}
