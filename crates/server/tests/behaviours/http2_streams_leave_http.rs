//! A stream of HTTP/2 goes on in another protocol by an extended CONNECT (RFC 8441), by the same handler that answers an upgrade
//! over HTTP/1. Its connection goes on with HTTP.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use anywire_http::h2::{Code, Limits as Http2, Refused, StreamId};
use anywire_server::{Limits, Request, Router, State, Upgrade, Upgraded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc};

use crate::support::h2::{Came, H2};
use crate::support::{HANG, Scene, Served, on_each_wire};

/// The toy protocol: each byte is answered by the next one of the alphabet, until `!`.
async fn toy(mut stream: Upgraded) {
    let mut buffer = [0; 1000];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let bytes = &mut buffer[..read];
        assert!(!bytes.contains(&b'?'), "the protocol has no questions");
        if bytes.ends_with(b"!") {
            return;
        }
        bytes.iter_mut().for_each(|byte| *byte += 1);
        if stream.write_all(bytes).await.is_err() || stream.flush().await.is_err() {
            return;
        }
    }
}

/// What continuations have met.
type Met = mpsc::UnboundedSender<String>;

fn router(met: &Met) -> Router {
    Router::new()
        .state(met.clone())
        .state(Arc::new(Notify::new()))
        .get("/", async || "ok")
        .get("/late", async |never: State<Arc<Notify>>| never.notified().await)
        .get("/toy", async |upgrade: Upgrade| upgrade.accept("toy", toy))
        .get("/either", async |upgrade: Option<Upgrade>| match upgrade {
            Some(upgrade) => upgrade.accept("toy", toy),
            None => anywire_http::IntoResponse::into_response("no toys"),
        })
        .get("/tells", async |met: State<Met>, upgrade: Upgrade| {
            upgrade.accept("toy", async move |mut stream| {
                let read = stream.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
                let wrote = stream.write_all(b"x").await.map_err(|error| error.kind());
                let _ = met.send(format!("{read:?} {wrote:?}"));
            })
        })
        // The server's direction ends first, and what comes then is read on.
        .get("/ends-first", async |met: State<Met>, upgrade: Upgrade| {
            upgrade.accept("toy", async move |stream| reads_on(stream, &met).await)
        })
        .get("/moves", async |met: State<Met>, upgrade: Upgrade| {
            upgrade.accept("toy", async move |stream| {
                drop(anywire_loops::spawn(async move { reads_on(stream, &met).await }));
            })
        })
        .get("/stops", async |upgrade: Upgrade, request: Request| {
            let stopping = request.stopping();
            upgrade.accept("toy", async move |mut stream| {
                stopping.await;
                let _ = stream.write_all(b"goodbye").await;
            })
        })
}

async fn reads_on(mut stream: Upgraded, met: &Met) {
    let wrote = stream.write_all(b"x").await.and(stream.shutdown().await).map_err(|error| error.kind());
    let read = stream.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
    let _ = met.send(format!("{wrote:?} {read:?}"));
}

fn serve(scene: &Scene, limits: &Limits) -> (Served, mpsc::UnboundedReceiver<String>) {
    let (met, meets) = mpsc::unbounded_channel();
    let http2 = Http2 { extended_connect: true, ..limits.http2 };
    (scene.serve_with(router(&met), Limits { http2, ..limits.clone() }), meets)
}

/// A connection that knows what the server allows.
fn connect(served: &Served) -> H2 {
    let mut peer = H2::connect(served);
    assert_eq!(peer.ask("/").text(), "ok");
    peer
}

/// A stream that has left HTTP.
#[track_caller]
fn leave(peer: &mut H2, path: &str) -> StreamId {
    let id = peer.extended_connect("toy", path).expect("the server allows it");
    match peer.next() {
        Came::Head(of, head, false) if of == id => assert_eq!(head.status(), 200),
        other => panic!("{other:?}"),
    }
    id
}

/// What comes of a stream next.
#[track_caller]
fn read(peer: &mut H2, id: StreamId, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        match peer.next() {
            Came::Data(of, data, false) if of == id => all.extend(data),
            other => panic!("{other:?} behind {} bytes", all.len()),
        }
    }
    all
}

#[test]
fn one_handler_serves_both_versions() {
    on_each_wire(|scene| {
        let (served, _meets) = serve(scene, &Limits::default());
        let mut old = served.connect();
        old.send("GET /toy HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: toy\r\n\r\nabc");
        assert_eq!(old.head().status, 101);
        assert_eq!(old.read_exactly(3), b"bcd");
        let mut peer = connect(&served);
        let id = leave(&mut peer, "/toy");
        peer.body(id, b"abc", false);
        assert_eq!(read(&mut peer, id, 3), b"bcd");
        // The connection goes on, and so does the stream beside others.
        assert_eq!(peer.ask("/").text(), "ok");
        assert_eq!(peer.ask("/either").text(), "no toys");
        let other = leave(&mut peer, "/either");
        peer.body(other, b"x", false);
        assert_eq!(read(&mut peer, other, 1), b"y");
        peer.body(id, b"!", false);
        assert!(matches!(peer.next(), Came::Data(of, data, true) if of == id && data.is_empty()));
        assert_eq!(served.running.counters().upgrades, 3);
    });
}

#[test]
fn either_end_may_end_first() {
    let (served, mut meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    let id = leave(&mut peer, "/tells");
    peer.body(id, b"abc", true);
    assert!(matches!(peer.next(), Came::Data(of, data, _) if of == id && data == b"x"));
    assert_eq!(meets.blocking_recv().as_deref(), Some("Ok(3) Ok(())"));
    let id = leave(&mut peer, "/tells");
    peer.engine.reset(id, Code::CANCEL, &mut peer.out);
    assert_eq!(peer.ask("/").text(), "ok");
    // It goes with its stream, and has nothing to tell.
    served.await_count("streams", |counters| counters.abandoned, 1);
    // The connection's end is that of each stream.
    let id = leave(&mut peer, "/tells");
    peer.body(id, b"ab", false);
    peer.half_close();
    let met = meets.blocking_recv().expect("it has met the end");
    assert_eq!(met, format!("Err({:?}) Ok(())", ErrorKind::ConnectionReset));
}

/// As over HTTP/1, where the handler has the whole connection.
#[test]
fn the_server_may_end_its_direction_and_read_on() {
    let (served, mut meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    for path in ["/ends-first", "/moves"] {
        let id = leave(&mut peer, path);
        let mut came = Vec::new();
        loop {
            match peer.next() {
                Came::Data(of, data, end) if of == id => {
                    came.extend(data);
                    if end {
                        break;
                    }
                }
                other => panic!("{path}: {other:?}"),
            }
        }
        assert_eq!(came, b"x", "{path}");
        peer.body(id, b"ab", false);
        assert_eq!(peer.ask("/").text(), "ok");
        peer.body(id, b"c", true);
        assert_eq!(meets.blocking_recv().as_deref(), Some("Ok(()) Ok(3)"), "{path}");
    }
}

#[test]
fn bytes_of_any_number_go_both_ways() {
    let (served, _meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    let id = leave(&mut peer, "/toy");
    let sent: Vec<u8> = (0..1 << 20).map(|at| b'a' + (at % 25) as u8).collect();
    let mut came = Vec::new();
    for part in sent.chunks(100_000) {
        peer.body(id, part, false);
        came.extend(read(&mut peer, id, part.len()));
    }
    assert!(came.len() == sent.len() && came.iter().zip(&sent).all(|(came, sent)| *came == sent + 1));
}

#[test]
fn what_no_handler_accepts_is_refused() {
    let (served, _meets) = serve(&Scene::tcp(), &Limits::default());
    for (protocol, path, status) in [
        ("chess", "/toy", 501),
        // A 200 of its own would promise the protocol.
        ("toy", "/", 501),
        ("toy", "/nowhere", 404),
        ("TOY", "/toy", 200),
    ] {
        let mut peer = connect(&served);
        let id = peer.extended_connect(protocol, path).expect("the server allows it");
        match peer.next() {
            Came::Head(of, head, _) if of == id => assert_eq!(head.status(), status, "{protocol} {path}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn it_is_allowed_only_by_a_limit() {
    let served = Scene::tcp().serve(router(&mpsc::unbounded_channel().0));
    let mut peer = connect(&served);
    assert_eq!(peer.extended_connect("toy", "/toy"), Err(Refused::ExtendedConnect));
}

#[test]
fn a_panic_costs_its_stream_alone() {
    let (served, _meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    let id = leave(&mut peer, "/toy");
    peer.body(id, b"?", false);
    assert_eq!(peer.reset_of(id), Code::INTERNAL_ERROR);
    assert_eq!(peer.ask("/").text(), "ok");
    assert_eq!(served.running.counters().panics, 1);
}

#[test]
fn the_deadlines_of_http_end_with_it() {
    let short = Duration::from_millis(50);
    let limits = Limits { handler_timeout: short, body_timeout: short, ..Limits::default() };
    let (served, _meets) = serve(&Scene::tcp(), &limits);
    let mut peer = connect(&served);
    let id = leave(&mut peer, "/toy");
    // Two deadlines of other streams pass meanwhile.
    for _ in 0..2 {
        assert_eq!(peer.ask("/late").status(), 503);
    }
    peer.body(id, b"abc", false);
    assert_eq!(read(&mut peer, id, 3), b"bcd");
}

#[test]
fn a_shutdown_waits_for_it_and_cuts_it_at_the_deadline() {
    let (served, _meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    let id = leave(&mut peer, "/stops");
    let stopping = served.running.shutdown(HANG);
    let mut heard = Vec::new();
    loop {
        match peer.next() {
            Came::Data(of, data, end) if of == id => {
                heard.extend(data);
                if end {
                    break;
                }
            }
            Came::GoAway(..) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, b"goodbye");
    assert_eq!(peer.end(), Some(Code::NO_ERROR));
    drop(peer);
    assert_eq!(stopping.wait().connections_cut, 0);
    let (served, _meets) = serve(&Scene::tcp(), &Limits::default());
    let mut peer = connect(&served);
    leave(&mut peer, "/toy");
    assert_eq!(served.running.shutdown(Duration::from_millis(100)).wait().connections_cut, 1);
}
