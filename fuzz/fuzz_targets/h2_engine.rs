//! No frames make the HTTP/2 engine panic, spin, keep more than its limits, lose a byte of a window, send more than the windows
//! of its peer allow, or give other events if they are cut otherwise; in both roles, while it also sends.

#![no_main]

#[path = "support/frames.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod frames;
#[path = "../../crates/http/tests/behaviours/support/windows.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod windows;

use std::time::{Duration, Instant};

use anywire_http::h2::{
    Code, Engine, EngineLimits, Event, Limits, Rate, RequestParts, ResponseParts, StreamId, Unsent,
};
use anywire_http::{Buffer, HeadLimits, Headers, Method, StatusCode};
use frames::{Choices, PREFACE};
use libfuzzer_sys::fuzz_target;
use windows::Windows;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let (is_server, small, raw, pieces) =
        (choices.flag(), choices.flag(), choices.flag(), usize::from(choices.byte()) + 1);
    let mut received = if is_server { PREFACE.to_vec() } else { Vec::new() };
    if raw {
        received.extend_from_slice(choices.0);
    } else {
        received.extend(frames::frame(4, 0, 0, &[]));
        while !choices.is_over() {
            received.extend(frames::next_frame(&mut choices, is_server));
        }
    }
    let limits = if small { SMALL } else { EngineLimits::default() };
    let whole = End::new(is_server, limits, false).events(received.chunks(received.len().max(1)));
    let cut = End::new(is_server, limits, false).events(received.chunks(pieces));
    assert_eq!(whole, cut);
    End::new(is_server, limits, true).events(received.chunks(pieces));
});

struct End {
    engine: Engine,
    is_server: bool,
    limits: EngineLimits,
    /// It answers, and sends bodies. The events then depend on its speed.
    sends: bool,
    now: Instant,
    out: Vec<u8>,
    /// What has come and was not read.
    unread: Vec<(StreamId, usize)>,
    /// What it may send, by the frames that it got.
    windows: Windows,
    /// What it got, and how much of its frames was looked at.
    received: Vec<u8>,
    heard: usize,
}

impl End {
    fn new(is_server: bool, limits: EngineLimits, sends: bool) -> Self {
        let now = Instant::now();
        let mut out = Vec::new();
        let engine = if is_server {
            Engine::server(limits, now, &mut out)
        } else {
            Engine::client(limits, now, &mut out)
        };
        let (windows, received) = (Windows::new(), Vec::new());
        let unread = Vec::new();
        let mut end =
            Self { engine, is_server, limits, sends, now, out, unread, windows, received, heard: 0 };
        if !is_server {
            for method in [Method::GET, Method::HEAD, Method::POST, Method::GET] {
                let fields = Headers::new();
                let parts = RequestParts {
                    method: &method,
                    scheme: "http",
                    authority: "a",
                    path: "/",
                    protocol: None,
                    headers: &fields,
                    length: None,
                };
                let has_body = method == Method::POST;
                let id = end.engine.open_parts(&parts, !has_body, &mut end.out).expect("a slot");
                end.engine.wants_to_send(id, has_body);
            }
        }
        end
    }

    /// The events of these pieces as text. Neighbouring data is joined.
    fn events<'b>(&mut self, pieces: impl Iterator<Item = &'b [u8]>) -> Vec<String> {
        let mut input = Buffer::new();
        let mut events: Vec<String> = Vec::new();
        for mut piece in pieces {
            while !piece.is_empty() {
                let copied = input.fill_from(piece);
                assert!(copied > 0, "a full buffer stands without an error");
                self.received.extend(&piece[..copied]);
                piece = &piece[copied..];
                if !self.take(&mut input, &mut events) {
                    return events;
                }
            }
            if self.sends {
                self.hear_windows();
                self.send();
            }
        }
        events
    }

    /// Takes all events. Whether the connection goes on.
    fn take(&mut self, input: &mut Buffer, events: &mut Vec<String>) -> bool {
        loop {
            let before = self.out.len();
            let event = match self.engine.receive(self.now, input, &mut self.out) {
                Err(error) => {
                    let again = self.engine.receive(self.now, input, &mut self.out).map(|_| ());
                    assert_eq!(again, Err(error));
                    assert_eq!(self.engine.next_deadline(), None);
                    assert_eq!(self.engine.next_to_send(), None);
                    events.push(format!("{error:?}"));
                    return false;
                }
                Ok(None) => {
                    assert!(!self.is_server || self.engine.open_streams() <= self.limits.connection.streams);
                    return true;
                }
                Ok(Some(event)) => event,
            };
            // One answer at most to what made an event, and to the frames before it.
            assert!(self.out.len() - before < 100_000, "{} bytes are sent at once", self.out.len() - before);
            let text = format!("{event:?}");
            match event {
                Event::Data { id, data, end } => {
                    let count = data.len();
                    let start = format!("{} data ", id.get());
                    let text: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                    match events.last_mut().filter(|last| last.starts_with(&start) && !last.ends_with("end"))
                    {
                        Some(last) => last.push_str(&text),
                        None => events.push(start + &text),
                    }
                    if end {
                        events.last_mut().expect("just added").push_str(" end");
                    }
                    if self.sends {
                        self.unread.push((id, count));
                    } else {
                        self.engine.consumed(id, count, &mut self.out);
                    }
                }
                Event::Request { id, .. } if self.sends => self.respond(id),
                _ => events.push(text),
            }
        }
    }

    fn respond(&mut self, id: StreamId) {
        let fields = Headers::new();
        let parts = ResponseParts::new(StatusCode::OK, &fields);
        match self.engine.respond(id, &parts, false, &mut self.out) {
            Ok(()) => self.engine.wants_to_send(id, true),
            // It takes no head at all.
            Err(Unsent::TooLarge { limit, .. }) => assert!(limit < 42),
            Err(error) => panic!("{error}: it was just asked"),
        }
    }

    /// A few frames of bodies, what readers do, and the passing of time.
    fn send(&mut self) {
        // Some is read late, some never.
        for (id, count) in self.unread.split_off(self.unread.len() / 2) {
            match count % 8 {
                0 => self.engine.discarded(id, count, &mut self.out),
                1 => self.engine.reset(id, Code::CANCEL, &mut self.out),
                _ => self.engine.consumed(id, count, &mut self.out),
            }
        }
        for turn in 0..4_usize {
            let Some((id, room)) = self.engine.next_to_send() else { break };
            assert!(room > 0 && room <= 16_384);
            let length = room.min(1000);
            self.engine.data_head(id, length, turn == 3, &mut self.out);
            self.out.resize(self.out.len() + length, b'x');
        }
        self.heed_windows();
        self.now += Duration::from_millis(1);
        if self.engine.next_deadline().is_some_and(|deadline| deadline <= self.now) {
            // A peer that is silent has ended the connection, which the next frame shows.
            let _ = self.engine.advance(self.now, &mut self.out);
        }
    }
}

impl End {
    /// Takes what the frames that it got say of windows.
    fn hear_windows(&mut self) {
        let start = if self.is_server { PREFACE.len() } else { 0 };
        let rest = self.received.get(start..).unwrap_or_default();
        let whole = frames::heads(&rest[self.heard..]);
        self.heard += whole.iter().map(|(.., payload)| 9 + payload.len()).sum::<usize>();
        for (kind, flags, stream, payload) in whole {
            self.windows.hear(kind, flags, stream & 0x7fff_ffff, &payload);
        }
    }

    /// What it has sent stays within the windows.
    fn heed_windows(&mut self) {
        for (kind, _, stream, payload) in frames::heads(&std::mem::take(&mut self.out)) {
            if kind == 0 {
                self.windows.spend(stream, payload.len());
                assert!(payload.is_empty() || self.windows.room(stream) >= 0, "{:?}", self.windows);
            }
        }
    }
}

/// So that they are reached.
const SMALL: EngineLimits = EngineLimits {
    head: HeadLimits { bytes: 200, target_bytes: 24, fields: 3, trailer_bytes: 10, trailer_fields: 1 },
    connection: Limits {
        streams: 2,
        stream_window_bytes: 100,
        connection_window_bytes: 65_535,
        continuations: 1,
        resets: Rate { burst: 3, per_second: 1 },
        idle_frames: Rate { burst: 5, per_second: 1 },
        settings_deadline: Duration::from_millis(5),
        ping_interval: Some(Duration::from_millis(3)),
        ping_deadline: Duration::from_millis(3),
        extended_connect: true,
    },
};
