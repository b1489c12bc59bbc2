//! A peer that does all that peers may do, over both versions, and notes which requests it has taken.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_http::h2::{Code, Engine, Event, Limits, Rate, ResponseParts, StreamId};
use anywire_http::{Buffer, Headers, StatusCode};
use anywire_loops::clock::precise;
use tokio::time::{Instant, sleep, sleep_until};

use super::roads::HELLO;
use crate::support::Dice;
use crate::support::simulated::Line;

/// How long a calm request waits for its response.
pub(super) const CALM: Duration = Duration::from_secs(1);

/// The body of a request with this name, and of its response: the name again and again. Some are larger than what a wire holds.
pub(super) fn body_of(name: &str) -> String {
    let times = if name.ends_with('7') { 30_000 } else { 1 + name.len() * 40 };
    format!("{name};").repeat(times)
}

/// How often a request was taken that may be taken once.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<HashMap<String, u32>>>);

impl Seen {
    fn note(&self, method: &str, path: &str) {
        if method == "POST" {
            *self.0.lock().expect("no panic").entry(path.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn check(&self) {
        let seen = self.0.lock().expect("no panic");
        let twice: Vec<_> = seen.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty() && seen.len() > 100, "of {}, sent twice: {twice:?}", seen.len());
    }
}

/// What the peer does with a request that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Answer,
    AnswerInPieces,
    AnswerWithTrailers,
    AnswerAndClose,
    Inform,
    Busy,
    Redirect,
    CutBody,
    Close,
    Refuse,
    Silence,
}

fn deed(dice: &Dice, hop: u64) -> Deed {
    match dice.roll(16) {
        0 => Deed::Close,
        1 => Deed::CutBody,
        2 => Deed::Busy,
        3 | 4 if hop < 3 => Deed::Redirect,
        5 => Deed::Inform,
        6 | 7 => Deed::AnswerWithTrailers,
        8 | 9 => Deed::AnswerInPieces,
        10 => Deed::AnswerAndClose,
        11 => Deed::Refuse,
        12 if dice.once_in(4) => Deed::Silence,
        _ => Deed::Answer,
    }
}

/// Name and hop of a path such as `/1-2/0`.
fn parts(path: &str) -> (String, u64) {
    let (name, hop) = path.trim_start_matches('/').split_once('/').expect("a path of these tests");
    (name.to_owned(), hop.parse().expect("a number"))
}

pub(super) async fn serve(mut line: Line, is_http2: bool, seed: u64, seen: Seen) {
    let dice = Dice::new((seed << 50) + line.number as u64);
    if line.bytes(HELLO.len()).await.is_none_or(|hello| hello != HELLO) {
        return;
    }
    dice.rest(10).await;
    if dice.once_in(20) || !line.say(HELLO).await {
        return;
    }
    match is_http2 {
        false => while http1(&mut line, &dice, &seen).await.is_some() {},
        true => Http2::new(dice, seen).serve(&mut line).await,
    }
}

/// Takes a request of HTTP/1, and does something. None if the connection ends.
async fn http1(line: &mut Line, dice: &Dice, seen: &Seen) -> Option<()> {
    let head = line.head().await?;
    let mut words = head.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let (name, hop) = parts(path);
    let field = |name: &str| {
        let line = head.lines().find(|line| line.starts_with(name))?;
        Some(line[name.len()..].trim_start_matches(": ").to_owned())
    };
    seen.note(method, path);
    if name == "calm" {
        sleep(CALM).await;
    } else {
        dice.rest(8).await;
    }
    if field("expect").is_some() {
        match dice.roll(3) {
            0 => {
                line.say(ok(&name, "connection: close\r\n")).await;
                return None;
            }
            1 => drop(line.say("HTTP/1.1 100 Continue\r\n\r\n").await),
            _ => {}
        }
    }
    let body = if let Some(length) = field("content-length") {
        let length: usize = length.parse().expect("a length");
        slow_bytes(line, length, dice).await?
    } else if field("transfer-encoding").is_some() {
        chunks(line, dice).await?
    } else {
        Vec::new()
    };
    assert!(body.is_empty() || body == body_of(&name).as_bytes(), "{name}: a body of another call");
    dice.rest(8).await;
    let whole = body_of(&name);
    let deed = if name == "calm" { Deed::Answer } else { deed(dice, hop) };
    match deed {
        Deed::Answer => drop(line.say(ok(&name, "")).await),
        Deed::Inform => {
            line.say("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n").await;
            dice.rest(8).await;
            line.say(ok(&name, "")).await;
        }
        Deed::AnswerInPieces => {
            for piece in ok(&name, "").as_bytes().chunks(2000) {
                line.say(piece).await;
                dice.rest(4).await;
            }
        }
        Deed::AnswerWithTrailers => {
            line.say(format!("HTTP/1.1 200 OK\r\nx-name: {name}\r\ntransfer-encoding: chunked\r\n\r\n"))
                .await;
            for piece in whole.as_bytes().chunks(5000) {
                dice.rest(4).await;
                line.say([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).await;
            }
            dice.rest(8).await;
            line.say(format!("0\r\nx-name: {name}\r\n\r\n")).await;
        }
        Deed::AnswerAndClose => {
            line.say(ok(&name, "connection: close\r\n")).await;
            return None;
        }
        Deed::Busy => {
            let fields = format!("x-name: {name}\r\nretry-after: 1\r\ncontent-length: {}", whole.len());
            line.say(format!("HTTP/1.1 503 Busy\r\n{fields}\r\n\r\n{whole}")).await;
        }
        Deed::Redirect => {
            let status = [302, 303, 307][dice.roll(3) as usize];
            let fields = format!("location: /{name}/{}\r\ncontent-length: 4", hop + 1);
            line.say(format!("HTTP/1.1 {status} Elsewhere\r\n{fields}\r\n\r\n")).await;
            dice.rest(8).await;
            line.say("away").await;
        }
        Deed::CutBody => {
            line.say(&ok(&name, "")[..90 + whole.len() / 2]).await;
            return None;
        }
        Deed::Close | Deed::Refuse => return None,
        Deed::Silence => {
            line.wait_for_end().await;
            return None;
        }
    }
    Some(())
}

fn ok(name: &str, more: &str) -> String {
    let whole = body_of(name);
    format!("HTTP/1.1 200 OK\r\nx-name: {name}\r\n{more}content-length: {}\r\n\r\n{whole}", whole.len())
}

async fn slow_bytes(line: &mut Line, mut left: usize, dice: &Dice) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while left > 0 {
        let piece = line.bytes(left.min(20_000)).await?;
        left -= piece.len();
        body.extend(piece);
        dice.rest(4).await;
    }
    Some(body)
}

/// A body in chunks, with its trailers.
async fn chunks(line: &mut Line, dice: &Dice) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = crlf(line).await?;
        let size = usize::from_str_radix(&size, 16).expect("a size");
        if size == 0 {
            while !crlf(line).await?.is_empty() {}
            return Some(body);
        }
        body.extend(slow_bytes(line, size, dice).await?);
        assert_eq!(line.bytes(2).await?, b"\r\n");
    }
}

async fn crlf(line: &mut Line) -> Option<String> {
    let mut text = String::new();
    while !text.ends_with("\r\n") {
        text.push(line.byte().await?.into());
    }
    Some(text.trim_end().to_owned())
}

/// The peer's end of HTTP/2.
struct Http2 {
    dice: Dice,
    seen: Seen,
    engine: Engine,
    input: Buffer,
    out: Vec<u8>,
    requests: HashMap<StreamId, Request>,
    /// Bodies on their way, and whether trailers follow.
    bodies: HashMap<StreamId, (Vec<u8>, bool, String)>,
    /// What is to be done, and when.
    steps: BTreeMap<(Instant, usize), Step>,
    planned: usize,
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
}

enum Step {
    Continue(StreamId),
    Consume(StreamId, usize),
    Do(StreamId, Deed),
    /// Ends the connection.
    Leave,
}

impl Http2 {
    fn new(dice: Dice, seen: Seen) -> Self {
        let endless = Rate { burst: u32::MAX, per_second: u32::MAX };
        let limits = Limits { resets: endless, idle_frames: endless, ..Limits::default() };
        let mut out = Vec::new();
        let engine = Engine::server(limits, precise(), &mut out);
        Self {
            dice,
            seen,
            engine,
            input: Buffer::new(),
            out,
            requests: HashMap::new(),
            bodies: HashMap::new(),
            steps: BTreeMap::new(),
            planned: 0,
        }
    }

    async fn serve(&mut self, line: &mut Line) {
        loop {
            self.receive();
            let now = Instant::now();
            while let Some(entry) = self.steps.first_entry().filter(|entry| entry.key().0 <= now) {
                let step = entry.remove();
                if self.make(&step).is_none() {
                    line.say(&self.out).await;
                    return;
                }
            }
            self.send_bodies();
            if !line.say(std::mem::take(&mut self.out)).await {
                return;
            }
            let next = self.steps.first_key_value().map(|((at, _), _)| *at);
            let due = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                read = line.connection.read(self.input.spare()) => match read {
                    Ok(count @ 1..) => self.input.filled(count),
                    _ => return,
                },
                () = due => {}
            }
        }
    }

    /// In a while.
    fn plan(&mut self, milliseconds: u64, step: Step) {
        let after = Duration::from_millis(self.dice.roll(milliseconds));
        self.planned += 1;
        self.steps.insert((Instant::now() + after, self.planned), step);
    }

    fn receive(&mut self) {
        loop {
            let event = self.engine.receive(precise(), &mut self.input, &mut self.out);
            let ended = match event.expect("the client keeps to the rules") {
                None => return,
                Some(Event::Request { id, head, end, .. }) => {
                    let (method, path) = (head.method().to_string(), head.path().to_owned());
                    let expects = head.headers().contains("expect");
                    self.requests.insert(id, Request { method, path, body: Vec::new() });
                    if expects && self.dice.once_in(2) {
                        self.plan(8, Step::Continue(id));
                    } else if expects && self.dice.once_in(2) {
                        self.plan(8, Step::Do(id, Deed::Answer));
                    }
                    end.then_some(id)
                }
                Some(Event::Data { id, data, end }) => {
                    let length = data.len();
                    if let Some(request) = self.requests.get_mut(&id) {
                        request.body.extend_from_slice(data);
                    }
                    self.plan(8, Step::Consume(id, length));
                    end.then_some(id)
                }
                Some(Event::Trailers { id, .. }) => Some(id),
                Some(Event::Reset { id, .. }) => {
                    self.requests.remove(&id);
                    self.bodies.remove(&id);
                    None
                }
                Some(_) => None,
            };
            if let Some(id) = ended {
                self.take(id);
            }
        }
    }

    /// A request is here whole.
    fn take(&mut self, id: StreamId) {
        let Some(request) = self.requests.get(&id) else { return };
        let (name, hop) = parts(&request.path);
        let is_own = request.body.is_empty() || request.body == body_of(&name).as_bytes();
        assert!(is_own, "{name}: a body of another call");
        if name == "calm" {
            self.planned += 1;
            self.steps.insert((Instant::now() + CALM, self.planned), Step::Do(id, Deed::Answer));
            return;
        }
        let deed = deed(&self.dice, hop);
        self.plan(12, Step::Do(id, deed));
    }

    /// None if the connection ends.
    fn make(&mut self, step: &Step) -> Option<()> {
        match *step {
            Step::Leave => return None,
            Step::Consume(id, length) => self.engine.consumed(id, length, &mut self.out),
            Step::Continue(id) => {
                let _ = self.engine.inform(id, StatusCode::CONTINUE, &Headers::new(), &mut self.out);
            }
            Step::Do(id, deed) => {
                let Some(request) = self.requests.remove(&id) else { return Some(()) };
                if deed == Deed::Refuse {
                    self.engine.reset(id, Code::REFUSED_STREAM, &mut self.out);
                    return Some(());
                }
                self.seen.note(&request.method, &request.path);
                let (name, hop) = parts(&request.path);
                self.carry_out(id, deed, &name, hop)?;
            }
        }
        Some(())
    }

    fn carry_out(&mut self, id: StreamId, deed: Deed, name: &str, hop: u64) -> Option<()> {
        let mut fields = Headers::new();
        fields.append("x-name", name).expect("a good field");
        let mut status = StatusCode::OK;
        let mut body = body_of(name).into_bytes();
        match deed {
            Deed::Close => return None,
            Deed::Silence => return Some(()),
            Deed::Refuse | Deed::Answer | Deed::AnswerInPieces | Deed::AnswerWithTrailers => {}
            Deed::Inform => {
                let _ = self.engine.inform(id, StatusCode::EARLY_HINTS, &fields, &mut self.out);
            }
            Deed::Busy => {
                status = StatusCode::SERVICE_UNAVAILABLE;
                fields.append("retry-after", "1").expect("a good field");
            }
            Deed::Redirect => {
                let code = [302, 303, 307][self.dice.roll(3) as usize];
                status = StatusCode::from_u16(code).expect("a status");
                fields.append("location", format!("/{name}/{}", hop + 1)).expect("a good field");
            }
            Deed::AnswerAndClose => {
                // What was taken is still answered.
                self.engine.go_away(&mut self.out);
                self.plan(40, Step::Leave);
            }
            Deed::CutBody => {
                body.truncate(body.len() / 2);
            }
        }
        let parts = ResponseParts::new(status, &fields);
        self.engine.respond(id, &parts, false, &mut self.out).ok()?;
        if deed == Deed::CutBody {
            self.engine.reset(id, Code::INTERNAL_ERROR, &mut self.out);
            return Some(());
        }
        self.bodies.insert(id, (body, deed == Deed::AnswerWithTrailers, name.to_owned()));
        self.engine.wants_to_send(id, true);
        Some(())
    }

    fn send_bodies(&mut self) {
        while let Some((id, room)) = self.engine.next_to_send() {
            let Some((body, with_trailers, name)) = self.bodies.get_mut(&id) else {
                self.engine.wants_to_send(id, false);
                continue;
            };
            let now = room.min(body.len()).min(3000);
            let piece: Vec<_> = body.drain(..now).collect();
            let (is_over, with_trailers, name) = (body.is_empty(), *with_trailers, name.clone());
            self.engine.data_head(id, now, is_over && !with_trailers, &mut self.out);
            self.out.extend(piece);
            self.engine.wants_to_send(id, !is_over);
            if is_over {
                self.bodies.remove(&id);
                if with_trailers {
                    let mut fields = Headers::new();
                    fields.append("x-name", name).expect("a good field");
                    let _ = self.engine.send_trailers(id, &fields, &mut self.out);
                }
            }
        }
    }
}
