//! What was read, and what nobody will read, goes back to the peer: whatever ends a stream, whatever others leave unread, and in
//! whichever order. The engine itself looks at its windows after each step; here a peer counts them by the frames alone.

use std::collections::BTreeMap;

use anywire_http::h2::{Code, Engine, Limits, Rate, RequestParts, ResponseParts, StreamId};
use anywire_http::{Headers, Method, StatusCode};
use proptest::prelude::*;

use crate::support::h2::*;
use crate::support::windows::Windows;

const STREAM_WINDOW: u32 = 65_535;

/// Far more than a peer in order needs, so that no flood ends a test.
const ENDLESS: Rate = Rate { burst: u32::MAX, per_second: 0 };

/// An end, and a peer that sends it bodies.
struct Scene {
    end: End,
    is_server: bool,
    /// What the peer may send, and what the end may.
    incoming: Windows,
    outgoing: Windows,
    /// The streams that the end knows.
    open: BTreeMap<u32, Open>,
    next: u32,
}

#[derive(Clone, Copy)]
struct Open {
    id: StreamId,
    /// What has come of it, and was not read.
    unread: usize,
    /// The peer has said that nothing follows.
    ended: bool,
}

impl Scene {
    fn new(is_server: bool, limits: Limits) -> Self {
        let limits = Limits { resets: ENDLESS, idle_frames: ENDLESS, ..limits };
        let end = if is_server { End::server(limits) } else { End::client(limits) };
        let (mut incoming, outgoing) = (Windows::new(), Windows::new());
        incoming.hear(SETTINGS, 0, 0, &initial_window(limits.stream_window_bytes));
        incoming.connection = i64::from(limits.connection_window_bytes);
        Self { end, is_server, incoming, outgoing, open: BTreeMap::new(), next: 1 }
    }

    /// A stream on which the peer sends a body, of this length if it states one.
    fn open(&mut self, length: Option<usize>) -> u32 {
        let length = length.map(|length| length.to_string());
        let stated = length.as_ref().map(|length| ("content-length", &**length));
        let stream = self.next;
        let head: Vec<_> = if self.is_server {
            [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")].into()
        } else {
            let fields = Headers::new();
            let parts = RequestParts {
                method: &Method::POST,
                scheme: "http",
                authority: "a",
                path: "/",
                protocol: None,
                headers: &fields,
                length: None,
            };
            self.end.engine.open_parts(&parts, false, &mut self.end.out).expect("a slot");
            [(":status", "200")].into()
        };
        let head: Vec<_> = head.into_iter().chain(stated).collect();
        self.next += 2;
        self.give(&frame(HEADERS, END_HEADERS, stream, &literals(&head)));
        let id = self.end.newest.expect("just begun");
        self.open.insert(stream, Open { id, unread: 0, ended: false });
        stream
    }

    /// The end takes these frames.
    fn give(&mut self, bytes: &[u8]) {
        for (kind, flags, stream, payload) in frames(bytes) {
            match kind {
                DATA => self.incoming.spend(stream, payload.len()),
                _ => self.outgoing.hear(kind, flags, stream, &payload),
            }
            if let (DATA | HEADERS, Some(open)) = (kind, self.open.get_mut(&stream)) {
                open.ended |= flags & END_STREAM > 0;
            }
        }
        let mut came = Vec::new();
        let taken = self.end.take(bytes, |end, event| {
            let (_, what) = event.split_once(' ').expect("a stream, and what it is");
            let stream = end.newest.map_or(0, StreamId::get);
            let is_data = what.starts_with('x');
            let data = what.bytes().filter(|byte| is_data && *byte == b'x').count();
            came.push((stream, what.starts_with("reset"), data));
        });
        taken.expect("the peer keeps to the windows");
        for (stream, is_reset, bytes) in came {
            if is_reset {
                self.open.remove(&stream);
            } else if let Some(open) = self.open.get_mut(&stream) {
                open.unread += bytes;
            }
        }
        self.hear();
    }

    /// The peer takes what the end has sent.
    fn hear(&mut self) {
        let out = std::mem::take(&mut self.end.out);
        for (kind, flags, stream, payload) in frames(&out) {
            if kind == DATA {
                self.outgoing.spend(stream, payload.len());
                assert!(payload.is_empty() || self.outgoing.room(stream) >= 0, "{:?}", self.outgoing);
            }
            self.incoming.hear(kind, flags, stream, &payload);
        }
    }

    /// Sends a body as far as the windows allow. Returns how much of it that was.
    fn data(&mut self, stream: u32, bytes: usize) -> usize {
        let mut sent = 0;
        while sent < bytes {
            let now = self.incoming.room(stream).min(16_384).min((bytes - sent) as i64) as usize;
            if now == 0 {
                break;
            }
            self.give(&frame(DATA, 0, stream, &vec![b'x'; now]));
            sent += now;
        }
        sent
    }

    /// The engine, if it has this stream, and its number.
    fn calls(&mut self, stream: u32, call: impl FnOnce(&mut Engine, StreamId, usize, &mut Vec<u8>)) {
        if let Some(open) = self.open.get(&stream) {
            call(&mut self.end.engine, open.id, open.unread, &mut self.end.out);
            self.hear();
        }
    }

    /// Whether the peer may send more on this stream.
    fn speaks(&self, stream: u32) -> bool {
        self.open.get(&stream).is_some_and(|open| !open.ended)
    }

    /// The reader takes so much of what has come.
    fn read(&mut self, stream: u32, bytes: usize) {
        self.calls(stream, |engine, id, unread, out| engine.consumed(id, bytes.min(unread), out));
        if let Some(open) = self.open.get_mut(&stream) {
            open.unread -= bytes.min(open.unread);
        }
    }

    /// Sends a body, of which each byte is read at once, as far as the windows allow.
    fn read_through(&mut self, stream: u32, bytes: usize) -> usize {
        let mut sent = 0;
        while sent < bytes {
            let now = self.data(stream, (bytes - sent).min(16_384));
            if now == 0 {
                break;
            }
            self.read(stream, now);
            sent += now;
        }
        sent
    }

    /// Streams that nobody reads, until the connection's window has so much left.
    fn hold(&mut self, left: usize) -> Vec<u32> {
        let mut held = Vec::new();
        while self.incoming.connection > left as i64 {
            let bytes = (self.incoming.connection as usize - left).min(STREAM_WINDOW as usize);
            let stream = self.open(Some(bytes));
            assert_eq!(self.data(stream, bytes), bytes);
            held.push(stream);
        }
        held
    }
}

/// A setting, as a frame carries it.
fn initial_window(bytes: u32) -> Vec<u8> {
    [&[0, 4][..], &bytes.to_be_bytes()].concat()
}

fn one_mebibyte() -> Limits {
    Limits { connection_window_bytes: 1 << 20, ..Limits::default() }
}

#[test]
fn a_body_that_is_read_goes_on_beside_any_number_that_is_not() {
    for is_server in [true, false] {
        for left in [1024, 1500, 16_384, 65_535, 400_000, 600_000, 1_000_000] {
            let mut scene = Scene::new(is_server, one_mebibyte());
            scene.hold(left);
            assert!(!scene.end.engine.keeps_peer_waiting());
            let stream = scene.open(None);
            // As much as shows that it does not end: with a small window, each KiB costs a frame.
            let bytes = (100 * left).min(2 << 20);
            assert_eq!(scene.read_through(stream, bytes), bytes, "server: {is_server}, {left} left");
        }
    }
}

/// Where the others leave next to nothing, it waits for them, and the engine says so.
#[test]
fn a_body_waits_for_others_that_have_the_whole_window() {
    for is_server in [true, false] {
        for left in [0, 1, 100, 1023] {
            let mut scene = Scene::new(is_server, one_mebibyte());
            let held = scene.hold(left);
            assert!(scene.end.engine.keeps_peer_waiting());
            let stream = scene.open(None);
            assert_eq!(scene.read_through(stream, 10_000), left);
            scene.read(held[0], usize::MAX);
            assert!(!scene.end.engine.keeps_peer_waiting());
            assert_eq!(scene.read_through(stream, 10_000), 10_000);
        }
    }
}

/// The others can have the window of each stream that there may be, with the limits that hold by default.
#[test]
fn the_last_of_all_streams_has_its_own_window() {
    for is_server in [true, false] {
        let limits = Limits::default();
        let mut scene = Scene::new(is_server, limits);
        for _ in 1..limits.streams {
            let stream = scene.open(None);
            assert_eq!(scene.data(stream, 1 << 20), STREAM_WINDOW as usize);
        }
        let stream = scene.open(None);
        assert!(scene.incoming.connection >= i64::from(STREAM_WINDOW));
        assert_eq!(scene.read_through(stream, 1 << 20), 1 << 20);
    }
}

/// What was read and was not worth a frame goes back as well, once the peer may send no more than that.
#[test]
fn others_can_have_all_that_was_read() {
    for is_server in [true, false] {
        let mut scene = Scene::new(is_server, one_mebibyte());
        let stream = scene.open(None);
        assert_eq!(scene.read_through(stream, 300_000), 300_000);
        scene.hold(0);
        let unread: usize = scene.open.values().map(|open| open.unread).sum();
        // But for what is not worth a frame.
        assert!(unread > (1 << 20) - 1024, "server: {is_server}, {unread} unread");
    }
}

/// Whatever ends a stream gives back what it held of the connection's window.
#[test]
fn each_end_of_a_stream_gives_back_what_it_held() {
    type Ends = fn(&mut Scene, u32);
    let ends: [(&str, Ends); 13] = [
        ("the peer resets it", |scene, stream| {
            scene.give(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }),
        ("an increment of nothing", |scene, stream| {
            scene.give(&frame(WINDOW_UPDATE, 0, stream, &0_u32.to_be_bytes()));
        }),
        ("a window that is too large", |scene, stream| {
            scene.give(&frame(WINDOW_UPDATE, 0, stream, &0x7fff_ffff_u32.to_be_bytes()));
        }),
        ("PRIORITY of a wrong size", |scene, stream| scene.give(&frame(PRIORITY, 0, stream, &[0; 4]))),
        ("trailers with a pseudo-header field", |scene, stream| {
            let block = literals(&[(":path", "/")]);
            scene.give(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        }),
        ("trailers that do not end it", |scene, stream| {
            scene.give(&frame(HEADERS, END_HEADERS, stream, &literals(&[("x", "1")])));
        }),
        ("an end before its length", |scene, stream| {
            let length = 2;
            let end = scene.open(Some(length));
            scene.give(&frame(DATA, END_STREAM, end, &[]));
            scene.give(&frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }),
        ("DATA behind its end", |scene, stream| {
            scene.give(&frame(DATA, END_STREAM, stream, &[]));
            scene.give(&frame(DATA, 0, stream, &[]));
        }),
        ("HEADERS behind its end", |scene, stream| {
            scene.give(&frame(DATA, END_STREAM, stream, &[]));
            scene.give(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &literals(&[("x", "1")])));
        }),
        ("we reset it", |scene, stream| {
            scene.calls(stream, |engine, id, _, out| engine.reset(id, Code::CANCEL, out));
        }),
        ("we reset it behind its end", |scene, stream| {
            scene.give(&frame(DATA, END_STREAM, stream, &[]));
            scene.calls(stream, |engine, id, _, out| engine.reset(id, Code::NO_ERROR, out));
        }),
        ("its bytes are thrown away", |scene, stream| {
            scene.calls(stream, |engine, id, unread, out| engine.discarded(id, unread, out));
        }),
        ("its bytes are read behind its end", |scene, stream| {
            scene.give(&frame(DATA, END_STREAM, stream, &[]));
            scene.read(stream, usize::MAX);
        }),
    ];
    for is_server in [true, false] {
        for (name, ends) in &ends {
            let mut scene = Scene::new(is_server, one_mebibyte());
            let held = scene.hold(0);
            assert_eq!((held.len(), scene.incoming.connection), (17, 0));
            let mut free = 0;
            for stream in held {
                free += i64::from(STREAM_WINDOW).min((1 << 20) - free);
                ends(&mut scene, stream);
                // What is not worth a frame is less than that.
                let open = scene.incoming.connection;
                assert!(open > free / 2, "server: {is_server}, {name}: {open} of {free}");
            }
        }
        // A body that is longer by a byte than its head has stated.
        let mut scene = Scene::new(is_server, one_mebibyte());
        let held = scene.hold(17);
        for stream in held {
            scene.give(&frame(DATA, 0, stream, b"x"));
        }
        assert!(scene.incoming.connection > 1 << 19, "{}", scene.incoming.connection);
    }
    // A client whose server goes, and leaves all streams behind the first unprocessed.
    let mut scene = Scene::new(false, one_mebibyte());
    scene.hold(0);
    scene.give(&frame(GOAWAY, 0, 0, &[1_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat()));
    let free = (1 << 20) - i64::from(STREAM_WINDOW);
    assert!(scene.incoming.connection > free / 2, "{}", scene.incoming.connection);
}

#[test]
fn padding_alone_uses_up_no_window() {
    for is_server in [true, false] {
        for bytes in [1_usize, 2, 256] {
            let mut scene = Scene::new(is_server, Limits::default());
            let stream = scene.open(None);
            let padded = [&[(bytes - 1) as u8][..], &vec![0; bytes - 1]].concat();
            // Twice the window.
            for _ in 0..2 * STREAM_WINDOW as usize / bytes {
                scene.give(&frame(DATA, PADDED, stream, &padded));
            }
            assert!(scene.incoming.room(stream) > 30_000, "{:?}", scene.incoming);
        }
    }
}

/// A small window holds once the peer knows it. What was read before that opens it then.
#[test]
fn a_small_window_that_is_known_late_opens() {
    for (sent, read) in [(32_000_usize, 32_000), (65_535, 65_535), (65_535, 65_500), (40_000, 39_901)] {
        let limits = Limits { stream_window_bytes: 100, idle_frames: ENDLESS, ..Limits::default() };
        let (now, mut out) = (clock(), Vec::new());
        let engine = Engine::server(limits, now, &mut out);
        let mut end = End { engine, input: anywire_http::Buffer::new(), out, now, newest: None, why: None };
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &request(1, false)].concat();
        end.take(&begin, |_, _| {}).expect("a good start");
        let mut windows = Windows::new();
        for at in (0..sent).step_by(16_384) {
            let now = (sent - at).min(16_384);
            windows.spend(1, now);
            end.take(&frame(DATA, 0, 1, &vec![b'x'; now]), |_, _| {}).expect("the first window");
        }
        let id = end.newest.expect("just begun");
        end.engine.consumed(id, read, &mut end.out);
        end.take(&frame(SETTINGS, ACK, 0, &[]), |_, _| {}).expect("good");
        for (kind, flags, stream, payload) in frames(&end.out) {
            windows.hear(kind, flags, stream, &payload);
        }
        let (open, unread) = (*windows.of(1), (sent - read) as i64);
        assert!(open >= (100 - unread) / 2 && open <= 100 - unread, "{sent} sent, {read} read: {open}");
    }
}

/// Without a window no body could ever come.
#[test]
fn a_window_of_nothing_is_a_byte() {
    let limits = Limits { stream_window_bytes: 0, ..Limits::default() };
    for begin in [Engine::server, Engine::client] {
        let mut out = Vec::new();
        begin(limits, clock(), &mut out);
        // In its SETTINGS.
        assert!(out.windows(6).any(|setting| *setting == [0, 4, 0, 0, 0, 1]), "{out:?}");
    }
}

/// What the two ends may do, on one of the first streams.
#[derive(Clone, Copy, Debug)]
enum Act {
    Open { length: Option<usize> },
    Data { which: u32, bytes: usize, padding: Option<u8>, end: bool },
    Trailers { which: u32, are_good: bool },
    Reset { which: u32 },
    Grant { which: u32, bytes: u32 },
    Setting { bytes: u32 },
    Read { which: u32, bytes: usize },
    Discard { which: u32 },
    Leave { which: u32 },
    Speak { which: u32 },
    Send { frames: usize, bytes: usize },
}

fn acts() -> impl Strategy<Value = Act> {
    // Of the newest streams, counted back.
    let which = || 0..6_u32;
    let sizes = || prop_oneof![0..300_usize, 0..16_384_usize];
    prop_oneof![
        2 => prop::option::of(0..40_000_usize).prop_map(|length| Act::Open { length }),
        12 => (which(), sizes(), prop::option::of(any::<u8>()), prop::bool::weighted(0.1))
            .prop_map(|(which, bytes, padding, end)| Act::Data { which, bytes, padding, end }),
        1 => (which(), any::<bool>()).prop_map(|(which, are_good)| Act::Trailers { which, are_good }),
        1 => which().prop_map(|which| Act::Reset { which }),
        2 => (which(), 0..70_000_u32).prop_map(|(which, bytes)| Act::Grant { which, bytes }),
        1 => (0..100_000_u32).prop_map(|bytes| Act::Setting { bytes }),
        8 => (which(), sizes()).prop_map(|(which, bytes)| Act::Read { which, bytes }),
        1 => which().prop_map(|which| Act::Discard { which }),
        1 => which().prop_map(|which| Act::Leave { which }),
        2 => which().prop_map(|which| Act::Speak { which }),
        4 => (1..5_usize, sizes()).prop_map(|(frames, bytes)| Act::Send { frames, bytes }),
    ]
}

impl Scene {
    fn act(&mut self, act: Act) {
        // Stream 0 means the connection, where that makes sense.
        let next = self.next;
        let stream = |which: u32| (next - 2).saturating_sub(2 * which) | 1;
        match act {
            Act::Open { length } if self.open.len() < 50 => _ = self.open(length),
            Act::Open { .. } => {}
            _ if self.next == 1 => {}
            Act::Data { which, bytes, padding, end } => {
                let stream = stream(which);
                if !self.speaks(stream) {
                    return;
                }
                let padded = padding.map(|padding| usize::from(padding) + 1).unwrap_or_default();
                let room = self.incoming.room(stream).clamp(0, 16_384) as usize;
                let Some(bytes) = room.checked_sub(padded).map(|room| room.min(bytes)) else { return };
                let length = padding.map(|padding| vec![padding]).unwrap_or_default();
                let payload = [&length[..], &vec![b'x'; bytes], &vec![0; padded.saturating_sub(1)]].concat();
                let flags = if end { END_STREAM } else { 0 } | if padding.is_some() { PADDED } else { 0 };
                self.give(&frame(DATA, flags, stream, &payload));
            }
            Act::Trailers { which, are_good } => {
                let stream = stream(which);
                if self.speaks(stream) {
                    let block = literals(&[(if are_good { "x" } else { ":path" }, "/")]);
                    self.give(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
                }
            }
            Act::Reset { which } => self.give(&frame(RST_STREAM, 0, stream(which), &8_u32.to_be_bytes())),
            Act::Grant { which, bytes } => {
                let stream = if which == 0 { 0 } else { stream(which) };
                // Nothing is too large, and nothing for the connection is a fault of it.
                self.give(&frame(WINDOW_UPDATE, 0, stream, &bytes.max(u32::from(stream == 0)).to_be_bytes()));
            }
            Act::Setting { bytes } => self.give(&frame(SETTINGS, 0, 0, &initial_window(bytes))),
            Act::Read { which, bytes } => self.read(stream(which), bytes),
            Act::Discard { which } => {
                let stream = stream(which);
                self.calls(stream, |engine, id, unread, out| engine.discarded(id, unread, out));
                if let Some(open) = self.open.get_mut(&stream) {
                    open.unread = 0;
                }
            }
            Act::Leave { which } => {
                let stream = stream(which);
                self.calls(stream, |engine, id, _, out| engine.reset(id, Code::CANCEL, out));
                self.open.remove(&stream);
            }
            Act::Speak { which } => {
                let is_server = self.is_server;
                self.calls(stream(which), |engine, id, _, out| {
                    let fields = Headers::new();
                    let parts = ResponseParts::new(StatusCode::OK, &fields);
                    if is_server {
                        let _ = engine.respond(id, &parts, false, out);
                    }
                    engine.wants_to_send(id, true);
                });
            }
            Act::Send { frames, bytes } => {
                for _ in 0..frames {
                    let End { engine, out, .. } = &mut self.end;
                    let Some((id, room)) = engine.next_to_send() else { break };
                    assert!(room > 0, "a turn without room for a byte");
                    let length = room.min(bytes);
                    engine.data_head(id, length, false, out);
                    out.resize(out.len() + length, b'x');
                    self.hear();
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happens_the_windows_open_again(
        is_server in any::<bool>(),
        windows in (prop_oneof![1..300_u32, 1..70_000_u32], 65_535..200_000_u32),
        acts in prop::collection::vec(acts(), 1..200),
    ) {
        let limits = Limits {
            stream_window_bytes: windows.0,
            connection_window_bytes: windows.1,
            ..Limits::default()
        };
        let mut scene = Scene::new(is_server, limits);
        for act in acts {
            scene.act(act);
        }
        // All is read, and on a new stream the peer may send whatever it likes.
        let streams: Vec<_> = scene.open.keys().copied().collect();
        for stream in streams {
            scene.read(stream, usize::MAX);
        }
        prop_assert!(scene.incoming.connection > i64::from(windows.1) / 2 - 1, "{:?}", scene.incoming);
        let (stream, bytes) = (scene.open(None), 300_000.min(1000 * windows.0 as usize));
        prop_assert_eq!(scene.read_through(stream, bytes), bytes);
        // What is read no more is a window, but for what is not worth a frame, and no further.
        let (sent, whole) = (scene.data(stream, 1 << 20), windows.0.min(windows.1) as usize);
        prop_assert!(sent <= whole && sent > whole - (whole / 2).clamp(1, 1024), "{} of {}", sent, whole);
        if scene.incoming.connection > 0 {
            scene.give(&frame(DATA, 0, stream, b"x"));
            prop_assert!(!scene.open.contains_key(&stream), "a byte more than its window");
        }
    }
}
