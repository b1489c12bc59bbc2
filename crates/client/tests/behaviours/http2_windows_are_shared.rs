//! Calls share the window of their connection, and none is taken for slow or silent because of what another one does. Each test
//! of a deadline has another call, begun later, that does meet it: by then that of the first one would have passed as well.

use std::sync::mpsc;
use std::time::Duration;

use anywire_client::{Client, Error, Limits, Phase, Response};
use anywire_http::{Body, h2};
use anywire_loops::Loops;

use crate::support::bytes_of_http2::{DATA, END_STREAM, HEADERS, PING, RST_STREAM, WINDOW_UPDATE};
use crate::support::{Frames, HANG, Peer, block_on, client_of_http2, poll_once, wire};

const WINDOW: usize = 65_535;

/// A client whose connections have a window of this size for each response, and the first one for all of them.
fn client_with(window: usize, read: Duration) -> (Loops, Client) {
    let limits = Limits::default();
    let http2 = h2::Limits {
        stream_window_bytes: window as u32,
        connection_window_bytes: WINDOW as u32,
        ..limits.http2
    };
    client_of_http2(|builder| builder.limits(Limits { http2, ..limits }).read_timeout(read))
}

fn number(payload: &[u8]) -> usize {
    u32::from_be_bytes(payload.try_into().expect("four bytes")) as usize
}

/// Waits until the windows of a stream and of the connection are open.
fn await_room(frames: &mut Frames, stream: u32, room: &mut [usize; 2]) {
    while room.contains(&0) {
        let Some(update) = frames.until(WINDOW_UPDATE) else { return };
        match update.stream {
            0 => room[0] += number(&update.payload),
            of if of == stream => room[1] += number(&update.payload),
            _ => {}
        }
    }
}

/// Sends a body, as far as the windows allow, and its end.
fn send(frames: &mut Frames, stream: u32, bytes: usize, mut room: [usize; 2]) {
    let mut left = bytes;
    while left > 0 {
        await_room(frames, stream, &mut room);
        let now = left.min(room[0]).min(room[1]).min(16 << 10);
        if now == 0 {
            return;
        }
        (left, room) = (left - now, [room[0] - now, room[1] - now]);
        frames.say(DATA, if left == 0 { END_STREAM } else { 0 }, stream, &vec![b'x'; now]);
    }
}

/// Begins with a response of so many bytes.
fn begin(frames: &mut Frames, bytes: usize) -> u32 {
    let stream = frames.request().expect("a request");
    frames.head(stream, false);
    for at in (0..bytes).step_by(16 << 10) {
        frames.say(DATA, 0, stream, &vec![b'x'; (bytes - at).min(16 << 10)]);
    }
    stream
}

/// Begins with a response, and uses up the connection's window but for so many bytes. What came with the head its caller has
/// got, and the client has given back.
fn fill(frames: &mut Frames, left: usize) {
    let stream = begin(frames, 0);
    let mut room = [WINDOW, WINDOW];
    while room[0] > left {
        let now = (room[0] - left).min(room[1]).min(16 << 10);
        frames.say(DATA, 0, stream, &vec![b'x'; now]);
        room = [room[0] - now, room[1] - now];
        frames.say(PING, 0, 0, b"received");
        loop {
            let Some(frame) = frames.next() else { return };
            match (frame.kind, frame.stream) {
                (PING, _) => break,
                (WINDOW_UPDATE, of) => room[usize::from(of > 0)] += number(&frame.payload),
                _ => {}
            }
        }
    }
}

fn get(client: &Client, peer: &Peer) -> Response {
    block_on(client.get(peer.url("/")).via(peer.via()).send()).expect("a head")
}

#[test]
fn a_response_that_is_read_goes_on_beside_one_that_is_not() {
    for left in [2000, 25_000, WINDOW - 1] {
        let (report, filled) = mpsc::channel();
        let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
            fill(&mut frames, left);
            let _ = report.send(());
            let stream = begin(&mut frames, 0);
            send(&mut frames, stream, 200_000, [left, WINDOW]);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_with(WINDOW, HANG);
        let unread = get(&client, &peer);
        // While it fills the window, the peer looks for no request.
        filled.recv_timeout(HANG).expect("it is filled in time");
        let bytes = block_on(get(&client, &peer).bytes()).expect("a body");
        assert_eq!(bytes.len(), 200_000, "{left} bytes left");
        drop(unread);
    }
}

#[test]
fn what_the_server_resets_gives_its_window_back() {
    let peer = Peer::of_http2(wire("tcp"), |mut frames, _| {
        let held = begin(&mut frames, WINDOW);
        let stream = begin(&mut frames, 0);
        frames.say(RST_STREAM, 0, held, &h2::Code::INTERNAL_ERROR.0.to_be_bytes());
        send(&mut frames, stream, 3, [0, WINDOW]);
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_with(WINDOW, HANG);
    let unread = get(&client, &peer);
    assert_eq!(block_on(get(&client, &peer).text()).expect("a body"), "xxx");
    drop(unread);
}

#[test]
fn what_is_dropped_unread_gives_its_window_back() {
    for is_late in [false, true] {
        let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
            let (at_once, mut room) = if is_late { (0, WINDOW) } else { (WINDOW, 0) };
            let dropped = begin(&mut frames, at_once);
            let stream = loop {
                let frame = frames.next().expect("the next request comes");
                match frame.kind {
                    HEADERS => break frame.stream,
                    WINDOW_UPDATE if frame.stream == 0 => room += number(&frame.payload),
                    // On its way when nobody wanted it any more.
                    RST_STREAM if is_late => {
                        room -= WINDOW;
                        for at in (0..WINDOW).step_by(16 << 10) {
                            frames.say(DATA, 0, dropped, &vec![b'x'; (WINDOW - at).min(16 << 10)]);
                        }
                    }
                    _ => {}
                }
            };
            frames.head(stream, false);
            send(&mut frames, stream, 3, [room, WINDOW]);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_with(WINDOW, HANG);
        drop(get(&client, &peer));
        assert_eq!(block_on(get(&client, &peer).text()).expect("a body"), "xxx", "late: {is_late}");
        assert_eq!(client.counters().total().dialed, 1, "it stays on its connection");
    }
}

#[test]
fn our_closed_window_is_not_the_servers_silence() {
    // All of the window, and all but what is next to nothing.
    for left in [0, 16] {
        let (report, filled) = mpsc::channel();
        let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
            fill(&mut frames, left);
            let _ = report.send(());
            let stream = begin(&mut frames, 0);
            // The third one gets no answer.
            let silent = frames.request().expect("a request");
            while frames.until(RST_STREAM).is_some_and(|reset| reset.stream != silent) {}
            send(&mut frames, stream, 100, [0, WINDOW]);
            frames.talk.wait_for_end();
        });
        let (_loops, client) = client_with(WINDOW, Duration::from_secs(1));
        let mut unread = get(&client, &peer);
        filled.recv_timeout(HANG).expect("it is filled in time");
        let mut waits = get(&client, &peer);
        {
            // It has asked.
            let mut chunk = Box::pin(waits.chunk());
            assert!(poll_once(&mut chunk).is_pending());
        }
        let body = std::thread::spawn(move || block_on(waits.bytes()));
        let silent = block_on(client.get(peer.url("/")).via(peer.via()).send());
        let error = silent.expect_err("the server is silent");
        assert!(matches!(error, Error::Timeout { phase: Phase::Read, .. }), "{error:?}");
        block_on(unread.chunk()).expect("a body").expect("a chunk");
        let body = body.join().expect("no panic").expect("a body");
        assert_eq!(body.len(), 100, "{left} bytes left");
    }
}

#[test]
fn an_upload_that_has_nothing_to_send_is_not_slow() {
    const WRITE: Duration = Duration::from_secs(1);
    let (report, told) = mpsc::channel();
    // Large windows for streams, 65,535 for the connection. It opens once the last call was given up.
    let peer = Peer::of_http2_with(wire("tcp"), &[0, 4, 0, 16, 0, 0], move |mut frames, _| {
        let (mut got, mut heads, mut last) = (0, 0, Vec::new());
        while let Some(frame) = frames.next() {
            match frame.kind {
                HEADERS => {
                    heads += 1;
                    // All but the first have their head.
                    if heads > 1 {
                        frames.head(frame.stream, false);
                    }
                }
                DATA if frame.stream == 1 => {
                    got += frame.payload.len();
                    if got == WINDOW {
                        let _ = report.send(());
                    }
                }
                DATA => {
                    last.extend_from_slice(&frame.payload);
                    if frame.ends_stream() {
                        frames.say(DATA, END_STREAM, frame.stream, &last);
                    }
                }
                RST_STREAM if frame.stream == 5 => {
                    frames.say(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes());
                }
                _ => {}
            }
        }
    });
    let (_loops, client) = client_of_http2(|builder| builder.read_timeout(HANG).write_timeout(WRITE));
    let post = |body: Body| client.post(peer.url("/")).via(peer.via()).body(body).send();
    let mut large = post(vec![b'x'; 200_000].into());
    assert!(poll_once(&mut large).is_pending());
    told.recv_timeout(HANG).expect("the window is used up");
    let (mut sender, body) = Body::channel(1000);
    let silent = block_on(post(body)).expect("a head");
    // This one has something to send. Its error says what was waited for, though its response has begun.
    let mut blocked = block_on(post("more".into())).expect("a head");
    let error = block_on(blocked.chunk()).expect_err("the server takes nothing");
    assert!(matches!(error, Error::Timeout { phase: Phase::Write, limit: WRITE, .. }), "{error:?}");
    sender.try_send("last word").expect("room");
    sender.finish();
    assert_eq!(block_on(silent.text()).expect("a body"), "last word");
    let error = block_on(large).expect_err("the server takes nothing");
    assert!(matches!(error, Error::Timeout { phase: Phase::Write, limit: WRITE, .. }), "{error:?}");
}

/// Frames that come one by one are joined while they wait for their caller.
#[test]
fn single_bytes_wait_in_pieces() {
    const BYTES: usize = 200;
    let (report, sent) = mpsc::channel();
    let peer = Peer::of_http2(wire("tcp"), move |mut frames, _| {
        let stream = begin(&mut frames, 0);
        for _ in 0..BYTES {
            frames.say(DATA, 0, stream, b"x");
            // The next one comes once this one was taken.
            frames.say(PING, 0, 0, b"received");
            frames.until(PING);
        }
        let _ = report.send(());
        frames.say(DATA, END_STREAM, stream, b"");
        frames.talk.wait_for_end();
    });
    let (_loops, client) = client_of_http2(|builder| builder.read_timeout(HANG));
    let mut answer = get(&client, &peer);
    let mut bytes = block_on(answer.chunk()).expect("a body").expect("a chunk").len();
    sent.recv_timeout(HANG).expect("all was sent");
    let mut chunks = 1;
    while let Some(chunk) = block_on(answer.chunk()).expect("a body") {
        bytes += chunk.len();
        chunks += 1;
    }
    assert_eq!(bytes, BYTES);
    // The first ones, and what waited behind them.
    assert!(chunks <= 4, "{chunks} chunks");
}
