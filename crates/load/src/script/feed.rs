//! What one loop sends next: it draws sequences, counts requests, hands out rows, and writes each request.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use anywire_http::Headers;
use bytes::Bytes;
use fastrand::Rng;

use super::compile::{Compiled, CompiledRequest};
use super::jar::{CookieFigures, CookieSite};
use super::table::{Order, Rows};
use super::users::{Sent, User, Users};
use super::value::{Place, Source};

/// The source of one loop's requests. Two runs with the same script, seed and loops send the same, as long as the answers come in
/// the same order.
#[derive(Debug)]
pub(crate) struct Feed {
    compiled: Arc<Compiled>,
    random: Rng,
    part: Stride,
    /// Sequences drawn so far.
    drawn: u64,
    /// Requests so far.
    requests: u64,
    /// Rows taken of each table so far.
    rows: Vec<u64>,
    /// What became of the cookies that answers set.
    cookies: CookieFigures,
    /// The text of a body before its length is known, or of a path.
    scratch: Vec<u8>,
}

/// Which part of all that generate load this is, so that no two count the same number or take the same row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    /// From 0.
    pub(crate) index: u64,
    pub(crate) of: u64,
}

impl Stride {
    /// The number that this part counts after `done` others of its own.
    fn number(self, done: u64) -> u64 {
        done.wrapping_mul(self.of).wrapping_add(self.index)
    }
}

/// The head of a request as HTTP/2 needs it.
pub(crate) struct StreamHead<'f> {
    pub(crate) request: &'f CompiledRequest,
    pub(crate) path: &'f str,
    pub(crate) headers: Cow<'f, Headers>,
}

impl Feed {
    /// The source of one part; the seed is that of the whole run.
    pub(crate) fn new(compiled: Arc<Compiled>, seed: u64, part: Stride) -> Self {
        // Parts must not draw the same.
        let own = seed.wrapping_add(part.index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            random: Rng::with_seed(own),
            part,
            drawn: 0,
            requests: 0,
            rows: vec![0; compiled.tables.len()],
            cookies: CookieFigures::default(),
            scratch: Vec::new(),
            compiled,
        }
    }

    /// What it sends of.
    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The request that is sent.
    pub(crate) fn request(&self, sent: Sent) -> &CompiledRequest {
        &self.compiled.requests[sent.request]
    }

    /// By what a cookie is taken, and where it is counted.
    pub(super) fn cookies(&mut self) -> (&Compiled, &mut CookieFigures) {
        (&self.compiled, &mut self.cookies)
    }

    /// What became of the cookies that answers set; `None` if no sequence keeps any.
    pub(crate) fn cookie_figures(&self) -> Option<CookieFigures> {
        self.compiled.requests.iter().any(|request| request.cookies.is_some()).then_some(self.cookies)
    }

    /// The number of the next request, over all parts.
    pub(super) fn next_number(&mut self) -> u64 {
        self.requests += 1;
        self.part.number(self.requests - 1)
    }

    /// Draws a sequence for a user, whose first request has this number.
    pub(super) fn begin(&mut self, user: &mut User, number: u64) {
        user.sequence = self.draw();
        user.step = 0;
        user.jar.clear();
        let Self { compiled, random, part, rows, .. } = self;
        let sequence = &compiled.sequences[user.sequence];
        if !sequence.tables.is_empty() {
            user.rows.resize(compiled.tables.len(), 0);
            for &table in &sequence.tables {
                user.rows[table] = row(&compiled.tables[table], random, *part, &mut rows[table]);
            }
        }
        user.variables.iter_mut().for_each(Vec::clear);
        user.variables.resize(sequence.variables, Vec::new());
        for (variable, filling) in sequence.set.iter().enumerate() {
            let mut text = std::mem::take(&mut user.variables[variable]);
            filling.fill(&mut source(random, &compiled.tables, user, number), Place::Body, &mut text);
            user.variables[variable] = text;
        }
    }

    /// The sequence that comes next.
    fn draw(&mut self) -> usize {
        let compiled = &self.compiled;
        let count = compiled.sequences.len();
        match compiled.order {
            _ if count == 1 => 0,
            Order::InTurn => {
                // Parts begin at places that are far apart, so that all of them together send each as often.
                let begin = count as u64 * self.part.index / self.part.of.max(1);
                self.drawn += 1;
                ((begin + self.drawn - 1) % count as u64) as usize
            }
            Order::Random => {
                let sum = compiled.sums.last().copied().unwrap_or(1).max(1);
                let at = self.random.u64(..sum);
                compiled.sums.partition_point(|sum| *sum <= at).min(count - 1)
            }
        }
    }

    /// Appends a request of HTTP/1.
    pub(crate) fn write_h1(&mut self, users: &mut Users, sent: Sent, out: &mut Vec<u8>) {
        let Self { compiled, random, scratch: body, .. } = self;
        let request = &compiled.requests[sent.request];
        if let Some(whole) = &request.whole {
            return out.extend_from_slice(whole);
        }
        let user = users.user(sent);
        let mut source = source(random, &compiled.tables, user, sent.number);
        body.clear();
        request.body.fill(&mut source, Place::Body, body);
        out.extend_from_slice(request.method.as_str().as_bytes());
        out.push(b' ');
        let target = out.len();
        request.target.fill(&mut source, Place::Target, out);
        let target = target..out.len();
        out.extend_from_slice(&request.middle);
        for (name, value) in &request.filled {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            value.fill(&mut source, Place::Field, out);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(site) = &request.cookies {
            let field = out.len();
            out.extend_from_slice(b"cookie: ");
            let value = out.len();
            own_cookies(site, &mut source, out);
            let target = out[target].to_vec();
            user.jar.send(site, &target, SystemTime::now(), value, out);
            if out.len() > value {
                out.extend_from_slice(b"\r\n");
            } else {
                out.truncate(field);
            }
        }
        if !body.is_empty() {
            out.extend_from_slice(b"content-length: ");
            out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(body);
    }

    /// The body of a request of HTTP/2; before its head.
    pub(crate) fn body(&mut self, users: &mut Users, sent: Sent) -> Bytes {
        let Self { compiled, random, .. } = self;
        let request = &compiled.requests[sent.request];
        if let Some(fixed) = &request.fixed_body {
            return fixed.clone();
        }
        let mut body = Vec::new();
        let mut source = source(random, &compiled.tables, users.user(sent), sent.number);
        request.body.fill(&mut source, Place::Body, &mut body);
        Bytes::from(body)
    }

    /// The head of a request of HTTP/2.
    pub(crate) fn head(&mut self, users: &mut Users, sent: Sent) -> StreamHead<'_> {
        let Self { compiled, random, scratch: path, .. } = self;
        let request = &compiled.requests[sent.request];
        let user = users.user(sent);
        let mut source = source(random, &compiled.tables, user, sent.number);
        path.clear();
        request.target.fill(&mut source, Place::Target, path);
        let mut headers = Cow::Borrowed(&request.fields);
        for (name, value) in &request.filled {
            let mut text = Vec::new();
            value.fill(&mut source, Place::Field, &mut text);
            // It was checked with a sample, and what is filled in has no control characters.
            let _ = headers.to_mut().append(name, &text);
        }
        if let Some(site) = &request.cookies {
            let mut text = Vec::new();
            own_cookies(site, &mut source, &mut text);
            user.jar.send(site, path, SystemTime::now(), 0, &mut text);
            if !text.is_empty() {
                // Nor has a cookie that a jar has taken.
                let _ = headers.to_mut().append("cookie", &text);
            }
        }
        // Its literals were checked, and what is filled in is percent-encoded beyond ASCII.
        let path = std::str::from_utf8(path).unwrap_or("/");
        StreamHead { request, path, headers }
    }
}

/// Appends the cookies that a request has itself.
fn own_cookies(site: &CookieSite, source: &mut Source<'_>, out: &mut Vec<u8>) {
    for (number, own) in site.own.iter().enumerate() {
        if number > 0 {
            out.extend_from_slice(b"; ");
        }
        own.fill(source, Place::Field, out);
    }
}

/// The row that comes next.
fn row(rows: &Rows, random: &mut Rng, part: Stride, taken: &mut u64) -> usize {
    match rows.order {
        Order::Random => random.usize(..rows.count()),
        Order::InTurn => {
            *taken += 1;
            (part.number(*taken - 1) % rows.count() as u64) as usize
        }
    }
}

fn source<'s>(random: &'s mut Rng, tables: &'s [Rows], user: &'s User, number: u64) -> Source<'s> {
    Source { number, random, tables, rows: &user.rows, variables: &user.variables }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::expect::Expect;
    use crate::limits::Limits;
    use crate::script::compile::Common;
    use crate::script::{Keep, Origin, Script, ScriptError, Sequence, Step, Table, Text, Variable};

    pub(super) fn compiled(script: &Script) -> Result<Compiled, ScriptError> {
        let mut headers = Headers::new();
        headers.append("x-plan", "p").unwrap();
        let (expect, limits) = (Expect::default(), Limits::default());
        Compiled::new(
            script,
            &Common { host: "h", is_https: false, headers: &headers, expect: &expect, limits: &limits },
        )
    }

    fn feed(script: &Script, index: u64, of: u64) -> Feed {
        Feed::new(Arc::new(compiled(script).unwrap()), 1, Stride { index, of })
    }

    fn of(sequences: Vec<Sequence>) -> Script {
        Script { sequences, ..Script::default() }
    }

    /// The target and the body of so many requests of one user after the other, each answered at once.
    fn sent(feed: &mut Feed, count: usize) -> Vec<(String, String)> {
        let mut users = Users::new(1);
        let now = Instant::now();
        let requests = (0..count).map(|_| {
            let sent = users.next(feed).unwrap();
            let mut out = Vec::new();
            feed.write_h1(&mut users, sent, &mut out);
            users.answered(sent, Some(Vec::new()), feed, now);
            let text = String::from_utf8(out).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().to_owned(), body.to_owned())
        });
        requests.collect()
    }

    #[test]
    fn a_request_of_both_versions_says_the_same() {
        let step = Step {
            method: anywire_http::Method::PUT,
            headers: vec![
                ("x-id".to_owned(), Text::template("<{{n}}>")),
                ("x-plan".to_owned(), "own".into()),
            ],
            body: Text::template("body {{n}}"),
            ..Step::get(Text::template("/a/{{n}}"))
        };
        let mut feed = feed(&of(vec![Sequence::one(step)]), 0, 1);
        let mut users = Users::new(1);
        let sent = users.next(&mut feed).unwrap();
        let mut out = Vec::new();
        feed.write_h1(&mut users, sent, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "PUT /a/1 HTTP/1.1\r\nhost: h\r\nx-plan: own\r\nx-id: <1>\r\ncontent-length: 6\r\n\r\nbody 1"
        );
        assert_eq!(&feed.body(&mut users, sent)[..], b"body 1");
        let head = feed.head(&mut users, sent);
        assert_eq!(
            (head.path, head.headers.get("x-id"), head.headers.get("x-plan")),
            ("/a/1", Some("<1>"), Some("own"))
        );
    }

    #[test]
    fn sequences_are_drawn_by_their_weights_and_by_the_seed() {
        let weighted = |target: &str, weight| Sequence { weight, ..Sequence::one(Step::get(target)) };
        let script = of(vec![weighted("/a", 7), weighted("/b", 0), weighted("/c", 3)]);
        let drawn = |index| sent(&mut feed(&script, index, 2), 2000);
        let first = drawn(0);
        let of_a = first.iter().filter(|(target, _)| target == "/a").count();
        assert!((1300..1500).contains(&of_a), "{of_a} of 2000");
        assert!(first.iter().all(|(target, _)| target != "/b"));
        assert_eq!(first, drawn(0));
        assert_ne!(first, drawn(1));
        let in_turn = Script { order: Order::InTurn, ..script };
        let targets: Vec<String> =
            sent(&mut feed(&in_turn, 1, 2), 4).into_iter().map(|(target, _)| target).collect();
        assert_eq!(targets, ["/b", "/c", "/a", "/b"]);
    }

    #[test]
    fn parts_count_no_number_and_take_no_row_twice() {
        let script = Script {
            tables: vec![Table::new("t", "v\na\nb\nc\nd\n")],
            ..of(vec![Sequence::one(Step::get(Text::template("/{{n}}/{{t.v}}")))])
        };
        let targets = |index| {
            sent(&mut feed(&script, index, 2), 3).into_iter().map(|(target, _)| target).collect::<Vec<_>>()
        };
        assert_eq!(targets(0), ["/1/a", "/3/c", "/5/a"]);
        assert_eq!(targets(1), ["/2/b", "/4/d", "/6/b"]);
    }

    #[test]
    fn a_sequence_keeps_its_row_and_its_variables() {
        let keep = vec![Keep { variable: "token".to_owned(), from: Origin::Json("/t".to_owned()) }];
        let steps = vec![
            Step { keep, ..Step::get(Text::template("/{{t.v}}/{{id}}")) },
            Step { body: Text::template("{{t.v}} {{id}} {{token}}"), ..Step::get("/b") },
        ];
        let script = Script {
            tables: vec![Table::new("t", "v\na\nb\n")],
            ..of(vec![Sequence {
                variables: vec![Variable { name: "id".to_owned(), text: Text::template("{{n}}-{{n}}") }],
                steps,
                ..Sequence::one(Step::get("/"))
            }])
        };
        let mut feed = feed(&script, 0, 1);
        let mut users = Users::new(1);
        let now = Instant::now();
        let mut text = |users: &mut Users, value: Option<&str>| {
            let sent = users.next(&mut feed).unwrap();
            let mut out = Vec::new();
            feed.write_h1(users, sent, &mut out);
            let values = value.map(|value| vec![(1, value.as_bytes().to_vec())]);
            users.answered(sent, values, &feed, now);
            String::from_utf8(out).unwrap()
        };
        assert!(text(&mut users, Some("secret")).starts_with("GET /a/1-1 "));
        assert!(text(&mut users, Some("")).ends_with("\r\n\r\na 1-1 secret"));
        // A value is missing: the next request begins anew, with another row.
        assert!(text(&mut users, None).starts_with("GET /b/3-3 "));
        assert!(text(&mut users, Some("x")).starts_with("GET /a/4-4 "));
    }

    #[test]
    fn a_user_that_thinks_sends_nothing_meanwhile() {
        let think = Duration::from_millis(50);
        let step = Step { think, ..Step::get("/") };
        let mut feed = feed(&of(vec![Sequence::one(step)]), 0, 1);
        let mut users = Users::new(2);
        let now = Instant::now();
        assert_eq!(users.ready(now), 2);
        let first = users.next(&mut feed).unwrap();
        users.answered(first, Some(Vec::new()), &feed, now);
        assert_eq!((users.ready(now), users.next_ready()), (1, Some(now + think)));
        let second = users.next(&mut feed).unwrap();
        assert!(users.next(&mut feed).is_none());
        users.lost(second);
        assert_eq!((users.ready(now + think), users.next_ready()), (2, None));
    }

    #[test]
    fn what_cannot_be_sent_is_said_with_its_place() {
        let step = || Step::get("/");
        let said = |script: Script| anywire_advice::Chain(&compiled(&script).unwrap_err()).to_string();
        let one = |step: Step| said(of(vec![Sequence::one(step)]));
        assert!(said(Script::default()).contains("no request to send"));
        assert!(
            said(of(vec![Sequence { weight: 0, ..Sequence::one(step()) }])).contains("no request to send")
        );
        let text = one(Step { name: "buy".to_owned(), body: Text::template("a\n{{x}}"), ..step() });
        assert!(text.contains("the body of \"buy\": line 2, column 1: no value is named \"x\""), "{text}");
        let text = one(Step { headers: vec![("host".to_owned(), Text::template("{{n}}"))], ..step() });
        assert!(text.contains("header host") && text.contains("column 1: no value can stand here"), "{text}");
        assert!(
            one(Step { headers: vec![("a b".to_owned(), "".into())], ..step() })
                .contains("the header \"a b\"")
        );
        assert!(one(Step::get("/a b")).contains("cannot be written"));
        assert!(one(Step { method: anywire_http::Method::CONNECT, ..step() }).contains("CONNECT"));
        let tables = vec![Table::new("uuid", "a\n1\n")];
        assert!(
            said(Script { tables, ..of(vec![Sequence::one(step())]) })
                .contains("\"uuid\" cannot be the name")
        );
        let tables = vec![Table::new("t", "a\n")];
        assert!(said(Script { tables, ..of(vec![Sequence::one(step())]) }).contains("no row below"));
        // A value is known behind the request that brings it, and not in it.
        let keep = vec![Keep { variable: "v".to_owned(), from: Origin::Regex("x".to_owned()) }];
        assert!(
            one(Step { keep, ..Step::get(Text::template("/{{v}}")) }).contains("no value is named \"v\"")
        );
    }

    #[test]
    fn a_script_over_its_limits_is_refused() {
        let script = of((0..=10_000).map(|_| Sequence::one(Step::get("/"))).collect());
        let text = compiled(&script).unwrap_err().to_string();
        assert!(text.contains("10001 requests") && text.contains("at most 10000"), "{text}");
    }
}
