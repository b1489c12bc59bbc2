//! The age of an answer is compared with its limit, whatever the timer did: a loop that was blocked may find the answer before
//! it finds out that its time is over.
//!
//! Server and client share one loop, whose time is moved by hand. So nothing but the answer wakes the client.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crate::support::paused::beside_a_server;
use anywire::client::Phase;
use anywire::http::Body;
use anywire::server::Path;
use anywire::{Client, Router};

const LIMIT: Duration = Duration::from_millis(10);

/// Time passes while the caller blocks the loop.
fn block(ms: u64) {
    let passing = pin!(tokio::time::advance(Duration::from_millis(ms)));
    // Time has passed when it is polled, and then it gives the others a turn, which a handler that blocks does not.
    let _ = passing.poll(&mut Context::from_waker(Waker::noop()));
}

fn router() -> Router {
    Router::new()
        .get("/head/{ms}", async |Path(ms): Path<u64>| {
            block(ms);
            "an answer"
        })
        .get("/body/{ms}", async |Path(ms): Path<u64>| {
            let (mut sender, body) = Body::channel(99);
            drop(anywire::loops::spawn(async move {
                sender.send("an ").await.expect("a reader");
                // What was sent arrives first.
                crate::support::paused::settle().await;
                block(ms);
                sender.send("answer").await.expect("a reader");
                sender.finish();
            }));
            body
        })
}

#[test]
fn an_answer_that_comes_late_is_a_timeout() {
    for http2 in [false, true] {
        for path in ["head", "body"] {
            for (ms, is_late) in [(0, false), (9, false), (10, true), (50, true)] {
                beside_a_server(9, router(), move |loops, address| async move {
                    let builder = Client::builder().on(&loops);
                    let client = if http2 { builder.http2_prior_knowledge() } else { builder }.build();
                    let call = client.get(format!("http://peer.example/{path}/{ms}")).via(&*address);
                    let answer = async { call.total_timeout(LIMIT).send().await?.text().await }.await;
                    let shown = format!("{path}, {ms} ms, http2: {http2}: {answer:?}");
                    match answer {
                        Ok(text) => assert!(!is_late && text == "an answer", "{shown}"),
                        Err(error) => assert!(is_late && error.phase() == Some(Phase::Total), "{shown}"),
                    }
                    assert_eq!(client.counters().total().total_timeouts, u64::from(is_late), "{shown}");
                });
            }
        }
    }
}

/// What is there when a blocked loop comes to look was no silence of its peer.
#[test]
fn a_blocked_loop_is_no_silence_of_the_peer() {
    for http2 in [false, true] {
        for path in ["head", "body"] {
            beside_a_server(9, router(), move |loops, address| async move {
                let builder = Client::builder().on(&loops);
                let client = if http2 { builder.http2_prior_knowledge() } else { builder }.build();
                let call = client.get(format!("http://peer.example/{path}/50")).via(&*address);
                let answer = async { call.read_timeout(LIMIT).send().await?.text().await }.await;
                assert_eq!(answer.expect("an answer"), "an answer", "{path}, http2: {http2}");
            });
        }
    }
}

#[cfg(feature = "load")]
#[test]
fn an_answer_that_comes_late_is_none_to_the_load_generator() {
    use anywire::load::{Amount, Handles, Plan, Protocol, start};
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for (ms, is_late) in [(0, false), (9, false), (10, true), (50, true)] {
            for path in ["head", "body"] {
                beside_a_server(9, router(), move |loops, address| async move {
                    let plan = Plan {
                        via: Some(address.parse().expect("an address")),
                        protocol,
                        timeout: LIMIT,
                        connections: 1,
                        amount: Amount::Requests(4),
                        warm_up: Duration::ZERO,
                        ..Plan::new(format!("http://peer.example/{path}/{ms}"))
                    };
                    let outcome = start(&loops, plan, Handles::default())
                        .expect("a good plan")
                        .outcome()
                        .await
                        .expect("it ends");
                    let requests = &outcome.totals.measured;
                    let expected = if is_late { (0, 4) } else { (4, 0) };
                    assert_eq!(
                        (requests.answered, requests.timed_out),
                        expected,
                        "{path}, {ms} ms, {protocol:?}"
                    );
                });
            }
        }
    }
}

#[cfg(feature = "udp")]
#[test]
fn a_datagram_that_comes_late_is_none() {
    use anywire::client::udp::{Matching, UdpCallError, UdpClient, UdpClientOptions};
    for (ms, attempts, is_late) in
        [(0, 1, false), (9, 1, false), (10, 1, true), (29, 3, false), (30, 3, true)]
    {
        beside_a_server(1, router(), move |_, _| async move {
            // Time would pass by itself while the loop has yet to look at its sockets.
            drop(anywire::loops::spawn(async {
                for _ in 0..1000 {
                    tokio::task::yield_now().await;
                }
            }));
            let peer = tokio::net::UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
            let address = peer.local_addr().expect("bound");
            drop(anywire::loops::spawn(async move {
                let mut request = [0; 9];
                let (length, from) = peer.recv_from(&mut request).await.expect("a request");
                block(ms);
                peer.send_to(&request[..length], from).await.expect("over loopback");
                // Later attempts are not answered, and not refused.
                std::future::pending::<()>().await;
            }));
            let options = UdpClientOptions { timeout: LIMIT, attempts, ..UdpClientOptions::default() };
            let matching = Matching::Field { offset: 0, width: 1 };
            let client = UdpClient::connect(address, matching, options).await.expect("there is a way");
            let answer = client.call(b"x").await;
            let is_timeout = matches!(answer, Err(UdpCallError::Timeout { .. }));
            assert_eq!(is_timeout, is_late, "after {ms} ms with {attempts} attempts: {answer:?}");
            assert_eq!(client.counters().matched, u64::from(!is_late));
        });
    }
}
