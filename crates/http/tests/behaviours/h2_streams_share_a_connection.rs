//! Two engines of HTTP/2 with a wire between them that cuts the bytes anywhere: every request arrives as it was sent, every
//! body byte for byte in both directions, whatever the windows and the order.

use std::collections::HashMap;
use std::time::Instant;

use crate::support::h2::clock;
use anywire_http::h2::{Engine, Event, Limits, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, Method, RequestHead, StatusCode};
use proptest::prelude::*;

/// One end: its engine, what it has to send, and what has come.
struct End {
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    /// What is left of each body that it sends, with trailers behind it or not.
    bodies: HashMap<StreamId, (Vec<u8>, bool)>,
    heads: HashMap<StreamId, (String, u16)>,
    received: HashMap<StreamId, Vec<u8>>,
    ended: HashMap<StreamId, Option<String>>,
    /// Bytes that have come and are not read yet.
    unread: Vec<(StreamId, usize)>,
}

impl End {
    fn new(engine: Engine, out: Vec<u8>) -> Self {
        Self {
            engine,
            input: Buffer::new(),
            out,
            bodies: HashMap::new(),
            heads: HashMap::new(),
            received: HashMap::new(),
            ended: HashMap::new(),
            unread: Vec::new(),
        }
    }

    /// Takes all events that are there.
    fn receive(&mut self, now: Instant, mut answer: impl FnMut(&str) -> Vec<u8>) {
        while let Some(event) = self.engine.receive(now, &mut self.input, &mut self.out).expect("a good peer")
        {
            match event {
                Event::Request { id, head, end, .. } => {
                    self.heads.insert(id, (head.path_and_query().to_owned(), 0));
                    if end {
                        self.ended.insert(id, None);
                    }
                    let body = answer(head.path());
                    let headers = Headers::new();
                    let parts =
                        ResponseParts { length: None, ..ResponseParts::new(StatusCode::OK, &headers) };
                    self.engine.respond(id, &parts, false, &mut self.out).expect("open");
                    self.send(id, body, head.path().len() % 2 == 0);
                }
                Event::Response { id, head, end, .. } => {
                    self.heads.insert(id, (String::new(), head.status().as_u16()));
                    if end {
                        self.ended.insert(id, None);
                    }
                }
                Event::Data { id, data, end } => {
                    self.received.entry(id).or_default().extend_from_slice(data);
                    self.unread.push((id, data.len()));
                    if end {
                        self.ended.insert(id, None);
                    }
                }
                Event::Trailers { id, fields } => {
                    let sum = fields.get("sum").expect("sent").to_owned();
                    self.ended.insert(id, Some(sum));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn send(&mut self, id: StreamId, body: Vec<u8>, trailers: bool) {
        self.bodies.insert(id, (body, trailers));
        self.engine.wants_to_send(id, true);
    }

    /// Sends what the windows allow.
    fn transmit(&mut self) {
        while let Some((id, room)) = self.engine.next_to_send() {
            let (body, trailers) = self.bodies.get_mut(&id).expect("it has something to send");
            let rest = body.split_off(room.min(body.len()));
            let piece = std::mem::replace(body, rest);
            let (ends, trailers) = (body.is_empty(), *trailers);
            self.engine.data_head(id, piece.len(), ends && !trailers, &mut self.out);
            self.out.extend_from_slice(&piece);
            if ends && trailers {
                let mut fields = Headers::new();
                fields.append("sum", "42").expect("a field");
                self.engine.send_trailers(id, &fields, &mut self.out).expect("open");
            }
        }
    }

    fn read(&mut self) {
        for (id, bytes) in self.unread.drain(..) {
            self.engine.consumed(id, bytes, &mut self.out);
        }
    }
}

fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 7) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn bodies_arrive_in_both_directions(
        requests in prop::collection::vec((0..60_000_usize, 0..60_000_usize), 1..12),
        windows in (1..70_000_u32, 65_535..200_000_u32),
        cuts in prop::collection::vec(1..5_000_usize, 1..50),
        reads_late in any::<bool>(),
    ) {
        let now = clock();
        let limits = Limits { stream_window_bytes: windows.0, connection_window_bytes: windows.1, ..Limits::default() };
        let limits = Limits { idle_frames: anywire_http::h2::Rate { burst: u32::MAX, per_second: 0 }, ..limits };
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let client = Engine::client(limits, now, &mut to_server);
        let server = Engine::server(limits, now, &mut to_client);
        let (mut client, mut server) = (End::new(client, to_server), End::new(server, to_client));
        let mut asked = Vec::new();
        for (index, (up, _)) in requests.iter().enumerate() {
            let mut head = RequestHead::new(Method::POST, &format!("/{index}")).expect("a target");
            head.set_origin("http", "localhost").expect("an origin");
            let id = client.engine.open(&head, Some(*up as u64), *up == 0, &mut client.out).expect("a slot");
            if *up > 0 {
                client.send(id, pattern(index, *up), false);
            }
            asked.push(id);
        }
        let answer = |path: &str| {
            let index: usize = path[1..].parse().expect("a number");
            pattern(index + 100, requests[index].1)
        };
        let mut cuts = cuts.iter().cycle();
        for turn in 0.. {
            prop_assert!(turn < 200_000, "it goes on for ever");
            client.transmit();
            server.transmit();
            let cut = *cuts.next().expect("endless");
            let mut moved = false;
            for (from, to) in [(&mut client.out, &mut server.input), (&mut server.out, &mut client.input)] {
                let taken = to.fill_from(&from[..cut.min(from.len())]);
                from.drain(..taken);
                moved |= taken > 0;
            }
            server.receive(now, answer);
            client.receive(now, |_| Vec::new());
            if !reads_late || !moved {
                server.read();
                client.read();
            }
            if !moved && client.out.is_empty() && server.out.is_empty() {
                break;
            }
        }
        for (index, id) in asked.iter().enumerate() {
            let (up, down) = requests[index];
            prop_assert_eq!(&server.heads[id].0, &format!("/{}", index));
            prop_assert_eq!(client.heads[id].1, 200);
            prop_assert!(server.received.get(id).map_or(0, Vec::len) == up);
            prop_assert!(up == 0 || server.received[id] == pattern(index, up));
            prop_assert!(client.received.get(id).map_or(0, Vec::len) == down);
            prop_assert!(down == 0 || client.received[id] == pattern(index + 100, down));
            let has_trailers = format!("/{index}").len() % 2 == 0;
            prop_assert_eq!(&client.ended[id], &has_trailers.then(|| String::from("42")));
            prop_assert!(server.ended.contains_key(id));
        }
        prop_assert!(client.engine.is_idle() && server.engine.is_idle());
        prop_assert_eq!((client.engine.open_streams(), server.engine.open_streams()), (0, 0));
    }
}
