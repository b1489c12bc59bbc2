//! A request that is passed on counts this proxy in `Max-Forwards`, if it is an `OPTIONS` or a `TRACE`. One that may go no further
//! is answered here, and no server hears of it (RFC 9110 section 7.6.2).

use crate::support::{OK, Peer, block_on, client, wire};
use anywire_http::{Method, Request, StatusCode, Version};

fn asks(method: Method, max: &str) -> Request {
    let request = Request::new(method, "/some?query").header("max-forwards", max);
    request.header("cookie", "secret").header("x-trace", "1")
}

#[test]
fn what_may_go_on_goes_with_one_less() {
    let (report, heard) = std::sync::mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let _ = report.send(request.head.headers().get("max-forwards").map(str::to_owned));
            talk.say(OK);
        }
    });
    let (_loops, client) = client(1, |builder| builder);
    for (method, max, left) in [
        (Method::OPTIONS, "1", "0"),
        (Method::TRACE, "8", "7"),
        (Method::GET, "0", "0"),
        (Method::POST, "3", "3"),
    ] {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let mut request = asks(method.clone(), max);
            request.head.set_version(version);
            let call = client.forward(request, peer.url("/")).via(peer.via());
            assert_eq!(block_on(call.send()).expect("an answer").status(), StatusCode::OK);
            assert_eq!(heard.recv().expect("the peer heard it").as_deref(), Some(left), "{method}");
        }
    }
}

#[test]
fn what_may_go_no_further_is_answered() {
    let peer = Peer::start(wire("tcp"), |_| panic!("nothing is sent"));
    let (_loops, client) = client(1, |builder| builder);
    let answer = |method| {
        let call = client.forward(asks(method, "0"), peer.url("/base/")).via(peer.via());
        block_on(call.send()).expect("an answer")
    };
    let options = answer(Method::OPTIONS);
    assert_eq!(
        (options.status(), options.url().as_str()),
        (StatusCode::NO_CONTENT, &*peer.url("/base/some?query"))
    );
    let trace = answer(Method::TRACE);
    assert_eq!((trace.status(), trace.headers().get("content-type")), (StatusCode::OK, Some("message/http")));
    let echo = block_on(trace.text()).expect("a body");
    assert_eq!(echo, "TRACE /some?query HTTP/1.1\r\nmax-forwards: 0\r\nx-trace: 1\r\n\r\n");
    assert_eq!(peer.accepted(), 0);
}
