//! What drips, over each version.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anywire_client::{Call, Phase};
use anywire_http::Body;
use tokio::time::sleep;

use crate::support::bytes_of_http2::*;
use crate::support::simulated::Line;

/// What a peer does with its connection.
pub(super) type Script = fn(Line) -> Pin<Box<dyn Future<Output = ()>>>;

/// A call, what its peer does, and the deadline that ends it.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) peer: Script,
    pub(super) call: fn(Call) -> Call,
    pub(super) phase: Phase,
    pub(super) seconds: u64,
}

pub(super) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Reads the head of a request, and says this.
pub(super) async fn answer(line: &mut Line, said: &str) {
    line.head().await;
    line.say(said).await;
}

fn large(call: Call) -> Call {
    call.body(vec![b'x'; 1 << 20])
}

/// Reads one byte each `pace`.
async fn sip(line: &mut Line, pace: Duration) {
    while line.connection.read(&mut [0]).await.is_ok_and(|count| count > 0) {
        sleep(pace).await;
    }
}

pub(super) const HTTP1: &[Case] = &[
    Case {
        name: "no answer",
        peer: |mut line| Box::pin(async move { line.wait_for_end().await }),
        call: |call| call,
        phase: Phase::Read,
        seconds: 30,
    },
    Case {
        name: "a head",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\nx: ").await;
                line.trickle("x", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a head, too slowly",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\nx: ").await;
                line.trickle("x", seconds(31)).await;
            })
        },
        call: |call| call,
        phase: Phase::Read,
        seconds: 30,
    },
    Case {
        name: "interim responses",
        peer: |mut line| {
            Box::pin(async move {
                line.head().await;
                line.trickle("HTTP/1.1 103 Early Hints\r\n\r\n", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a body of known length",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
                line.trickle("x", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a body, too slowly",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await;
                line.trickle("x", seconds(31)).await;
            })
        },
        call: |call| call,
        phase: Phase::Body,
        seconds: 30,
    },
    Case {
        name: "the extension of a chunk",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x=").await;
                line.trickle("x", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "trailers",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ").await;
                line.trickle("x", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a body until the end",
        peer: |mut line| {
            Box::pin(async move {
                answer(&mut line, "HTTP/1.0 200 OK\r\n\r\n").await;
                line.trickle("x", seconds(29)).await;
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a request that is taken",
        peer: |mut line| Box::pin(async move { sip(&mut line, seconds(9)).await }),
        call: large,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a request that is taken, too slowly",
        peer: |mut line| Box::pin(async move { sip(&mut line, seconds(11)).await }),
        call: large,
        phase: Phase::Write,
        seconds: 10,
    },
    Case {
        name: "interim responses to a request that is not taken",
        peer: |mut line| {
            Box::pin(async move {
                for byte in b"HTTP/1.1 103 Early Hints\r\n\r\n".iter().cycle() {
                    sleep(seconds(1)).await;
                    if !line.say([*byte]).await {
                        return;
                    }
                }
            })
        },
        call: large,
        phase: Phase::Write,
        seconds: 10,
    },
    Case {
        name: "a body that its caller gives",
        peer: |mut line| Box::pin(async move { line.wait_for_end().await }),
        call: slow_upload,
        phase: Phase::Total,
        seconds: 60,
    },
];

pub(super) const HTTP2: &[Case] = &[
    Case {
        name: "no answer but pings",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                line.request().await;
                line.trickle(frame(PING, 0, 0, &[0; 8]), seconds(1)).await;
            })
        },
        call: |call| call,
        phase: Phase::Read,
        seconds: 30,
    },
    Case {
        // Whose head it is is known once it is whole.
        name: "a head in pieces",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(HEADERS, 0, stream, b"\x88").await;
                line.trickle(frame(CONTINUATION, 0, stream, b""), seconds(5)).await;
            })
        },
        call: |call| call,
        phase: Phase::Read,
        seconds: 30,
    },
    Case {
        name: "interim responses",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                let interim = frame(HEADERS, END_HEADERS, stream, &literals(&[(":status", "103")]));
                while line.say(&interim).await {
                    sleep(seconds(29)).await;
                }
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a body",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
                while line.frame(DATA, 0, stream, b"x").await {
                    sleep(seconds(29)).await;
                }
            })
        },
        call: |call| call,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a body, too slowly",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
                while line.frame(DATA, 0, stream, b"x").await {
                    sleep(seconds(31)).await;
                }
            })
        },
        call: |call| call,
        phase: Phase::Body,
        seconds: 30,
    },
    Case {
        // They move nothing.
        name: "empty pieces of a body",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(HEADERS, END_HEADERS, stream, b"\x88").await;
                while line.frame(DATA, 0, stream, b"").await {
                    sleep(seconds(1)).await;
                }
            })
        },
        call: |call| call,
        phase: Phase::Body,
        seconds: 30,
    },
    Case {
        name: "a window",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(WINDOW_UPDATE, 0, 0, &[0, 16, 0, 0]).await;
                while line.frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]).await {
                    sleep(seconds(9)).await;
                }
            })
        },
        call: large,
        phase: Phase::Total,
        seconds: 60,
    },
    Case {
        name: "a window, too slowly",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                let Some(stream) = line.request().await else { return };
                line.frame(WINDOW_UPDATE, 0, 0, &[0, 16, 0, 0]).await;
                while line.frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1]).await {
                    sleep(seconds(11)).await;
                }
            })
        },
        call: large,
        phase: Phase::Write,
        seconds: 10,
    },
    Case {
        name: "a request that is taken, too slowly",
        peer: |mut line| {
            Box::pin(async move {
                line.frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 255, 255, 255]).await;
                line.frame(SETTINGS, ACK, 0, &[]).await;
                line.frame(WINDOW_UPDATE, 0, 0, &[0x40, 0, 0, 0]).await;
                sip(&mut line, seconds(11)).await;
            })
        },
        call: large,
        phase: Phase::Write,
        seconds: 10,
    },
    Case {
        name: "a body that its caller gives",
        peer: |mut line| {
            Box::pin(async move {
                line.greet(&[]).await;
                while line.next().await.is_some() {}
            })
        },
        call: slow_upload,
        phase: Phase::Total,
        seconds: 60,
    },
];

/// A byte each ten seconds.
fn slow_upload(call: Call) -> Call {
    let (mut sender, body) = Body::channel(16);
    drop(anywire_loops::spawn(async move {
        while sender.ready().await.is_ok() && sender.try_send("x").is_ok() {
            sleep(seconds(10)).await;
        }
    }));
    call.body(body)
}
