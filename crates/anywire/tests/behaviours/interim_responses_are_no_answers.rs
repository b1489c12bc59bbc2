//! A caller gets the final response, whatever a server of ours sends before it, in each version of HTTP.

use anywire::client::{Error, Limits};
use anywire::http::StatusCode;
use anywire::server::Informational;
use anywire::{Bytes, Router};

use crate::support::{Served, block_on, client, client_of_http2, on_each_wire};

async fn hinted(mut hints: Informational, body: Bytes) -> String {
    for status in [StatusCode::EARLY_HINTS, StatusCode::PROCESSING, StatusCode::EARLY_HINTS] {
        let sent = hints.send(status, [("link", "</style.css>; rel=preload"), ("x-step", "1")]).await;
        sent.expect("the limit is higher");
    }
    format!("{} bytes", body.len())
}

#[test]
fn they_are_passed_over() {
    on_each_wire(|wire| {
        let served = Served::start(wire, Router::new().post("/", hinted));
        for (_loops, client) in [client(|builder| builder), client_of_http2(|builder| builder)] {
            for length in [0, 100_000] {
                let call = served.post(&client, "/").body(vec![b'x'; length]).send();
                let answer = block_on(call).expect("an answer");
                assert_eq!((answer.status(), answer.headers().get("x-step")), (StatusCode::OK, None));
                assert_eq!(block_on(answer.text()).expect("a text"), format!("{length} bytes"));
            }
            assert_eq!(client.counters().total().dialed, 1);
        }
    });
}

#[test]
fn too_many_are_an_error() {
    on_each_wire(|wire| {
        let served = Served::start(wire, Router::new().post("/", hinted));
        let limits = || Limits { interim_responses: 2, ..Limits::default() };
        let few =
            [client(|builder| builder.limits(limits())), client_of_http2(|builder| builder.limits(limits()))];
        for (_loops, client) in few {
            let error = block_on(served.post(&client, "/").send()).expect_err("one too many");
            assert!(matches!(error, Error::Interim { count: 3, .. }), "{error}");
        }
    });
}
