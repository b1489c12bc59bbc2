//! A request that is passed on names the version in which it came (RFC 9110 7.6.3), and has no deadline for the whole:
//! its caller waits for as long as the request's own peer does.

use std::time::Duration;

use crate::support::{OK, Peer, block_on, client, on_four_wires_at_a_time};
use anywire_http::{Request, Version};

#[test]
fn what_is_forwarded_says_by_what_version() {
    on_four_wires_at_a_time(|wire| {
        let (report, heard) = std::sync::mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while let Some(request) = talk.request() {
                let _ = report.send(request.head.headers().get("via").map(str::to_owned));
                // Longer than the client's deadline for a whole call.
                std::thread::sleep(Duration::from_millis(300));
                talk.say(OK);
            }
        });
        let (_loops, client) = client(1, |builder| builder.total_timeout(Duration::from_millis(1)));
        for (version, via) in [
            (Version::HTTP_10, "1.0 anywire"),
            (Version::HTTP_11, "1.1 anywire"),
            (Version::HTTP_2, "2 anywire"),
        ] {
            let mut request = Request::get("/");
            request.head.set_version(version);
            let call = client.forward(request, peer.url("/")).via(peer.via());
            assert_eq!(block_on(call.send()).expect("an answer").status(), 200);
            assert_eq!(heard.recv().expect("the peer heard it").as_deref(), Some(via));
        }
    });
}
