//! What a browser recorded (HAR 1.2), as a sequence of requests in the order in which it made them.
//!
//! The file is read as a stream: answers, which are nearly all of it, are skipped without being held. What is held is a step for
//! each request that is sent again.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use anywire_advice::Advice;
use anywire_http::{Headers, Method, Url};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::fields::is_of_connection;
use super::form::form_encoded;
use super::set::{Script, Sequence, Step, Text};

/// How a recording is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HarOptions {
    /// Whether the user waits between two requests as long as the recorded one did (no).
    pub think: bool,
    /// Whether each user keeps the cookies of its answers, and sends these in place of the recorded ones (no).
    pub cookies: bool,
    /// The host whose requests are sent (`None`: that of the first one).
    pub host: Option<String>,
    /// Limits.
    pub limits: HarLimits,
}

/// Limits on a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarLimits {
    /// The file, in bytes (256 MiB: beyond it, the recording is of more than a visit).
    pub file_bytes: u64,
    /// What is held of the requests, in bytes (64 MiB: they stay in memory for the whole run). One text of the file may be larger
    /// while it is read.
    pub held_bytes: usize,
    /// Requests that are sent (10,000).
    pub requests: usize,
}

impl Default for HarLimits {
    fn default() -> Self {
        Self { file_bytes: 256 << 20, held_bytes: 64 << 20, requests: 10_000 }
    }
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Har {
    /// One sequence.
    pub script: Script,
    /// Scheme and host of most of its requests.
    pub origin: String,
    /// What is not sent.
    pub left_out: LeftOut,
}

/// Requests of a recording that are not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Requests to each other host.
    pub other_hosts: BTreeMap<String, u64>,
    /// Those that are no requests of HTTP, such as `ws:`, `data:` and `blob:`, or that open a tunnel.
    pub not_http: u64,
    /// Those that cannot be written: their method or a header field is none.
    pub unsendable: u64,
}

impl LeftOut {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.other_hosts.values().sum::<u64>() + self.not_http + self.unsendable
    }
}

/// `12 requests to cdn.test, 3 that are not HTTP`
impl fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self
            .other_hosts
            .iter()
            .take(HOSTS_SHOWN)
            .map(|(host, count)| format!("{count} to {host}"))
            .collect();
        let rest: u64 = self.other_hosts.values().skip(HOSTS_SHOWN).sum();
        let others = [
            (rest, "to more hosts"),
            (self.not_http, "that are not HTTP"),
            (self.unsendable, "that cannot be written"),
        ];
        parts.extend(
            others.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")),
        );
        formatter.write_str(&parts.join(", "))
    }
}

/// A recording that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarError {
    /// It cannot be read to its end.
    #[error("it cannot be read")]
    Read(#[source] io::Error),
    /// It is no HAR.
    #[error(
        "line {line}, column {column}: it is no HAR: {found}{}",
        Advice("save it anew: in the browser's network panel, 'Save all as HAR'")
    )]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The byte in the line, from 1.
        column: usize,
        /// What is wrong there.
        found: String,
    },
    /// No request of it can be sent.
    #[error(
        "none of its requests can be sent{}{}",
        LeftOutOf(left_out),
        Advice("record the pages to load, or name their host with --har-host")
    )]
    Nothing {
        /// What was left out.
        left_out: LeftOut,
    },
    /// It is over a limit.
    #[error("it has more than {most} {what}{}", Advice("record a shorter visit"))]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        most: u64,
    },
}

struct LeftOutOf<'l>(&'l LeftOut);

impl fmt::Display for LeftOutOf<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.total() == 0 { Ok(()) } else { write!(formatter, ": {}", self.0) }
    }
}

/// Reads a recording.
///
/// Fields that are of the recorded connection are left out, since each version of HTTP writes its own: pseudo-header fields, `host`,
/// `content-length`, `connection` and its like. `{{` means nothing in a recording.
///
/// # Errors
///
/// It is no HAR, over a limit, or has no request that can be sent.
pub fn read_har(file: impl Read, options: &HarOptions) -> Result<Har, HarError> {
    let limited = Limited { file, left: options.limits.file_bytes };
    let mut collector = Collector::new(options);
    let mut file = BufReader::with_capacity(READ_BYTES, limited);
    // Some tools begin with a byte order mark.
    let too_large = || HarError::Limit { what: "bytes", most: options.limits.file_bytes };
    let read = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => too_large(),
        _ => HarError::Read(error),
    };
    if file.fill_buf().map_err(read)?.starts_with(BYTE_ORDER_MARK) {
        file.consume(BYTE_ORDER_MARK.len());
    }
    let mut json = serde_json::Deserializer::from_reader(file);
    let done = Within { key: "log", inner: Within { key: "entries", inner: Entries(&mut collector) } }
        .deserialize(&mut json);
    if let Some(fault) = collector.fault {
        return Err(fault);
    }
    match done.and_then(|()| json.end()) {
        Err(error) if error.is_io() => Err(read(error.into())),
        Err(error) => {
            Err(HarError::Syntax { line: error.line(), column: error.column(), found: error.to_string() })
        }
        Ok(()) => collector.finish(),
    }
}

/// A file of at most so many bytes.
struct Limited<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

/// The steps so far.
struct Collector<'o> {
    options: &'o HarOptions,
    host: Option<String>,
    origins: BTreeMap<String, u64>,
    steps: Vec<Step>,
    held_bytes: usize,
    left_out: LeftOut,
    /// When the last request had its answer.
    ended: Option<OffsetDateTime>,
    fault: Option<HarError>,
}

impl<'o> Collector<'o> {
    fn new(options: &'o HarOptions) -> Self {
        let host = options.host.clone();
        Self {
            options,
            host,
            origins: BTreeMap::new(),
            steps: Vec::new(),
            held_bytes: 0,
            left_out: LeftOut::default(),
            ended: None,
            fault: None,
        }
    }

    fn take(&mut self, entry: Entry) -> Result<(), HarError> {
        let Entry { started_date_time, time, request } = entry;
        let is_http = ["http://", "https://"].iter().any(|scheme| request.url.starts_with(scheme));
        let (Ok(url), true) = (Url::parse(&request.url), is_http && request.method != "CONNECT") else {
            self.left_out.not_http += 1;
            return Ok(());
        };
        let host = self.host.get_or_insert_with(|| url.host().to_owned());
        if !host.eq_ignore_ascii_case(url.host()) {
            *self.left_out.other_hosts.entry(url.host().to_owned()).or_default() += 1;
            return Ok(());
        }
        let Some(step) = request.step(&url, self.options) else {
            self.left_out.unsendable += 1;
            return Ok(());
        };
        self.held_bytes += step.target.as_bytes().len() + step.body.as_bytes().len();
        self.held_bytes +=
            step.headers.iter().map(|(name, value)| name.len() + value.as_bytes().len()).sum::<usize>();
        let HarLimits { held_bytes, requests, .. } = self.options.limits;
        if self.held_bytes > held_bytes {
            return Err(HarError::Limit { what: "bytes of requests", most: held_bytes as u64 });
        }
        if self.steps.len() == requests {
            return Err(HarError::Limit { what: "requests", most: requests as u64 });
        }
        if self.options.think {
            let started = started_date_time.and_then(|text| OffsetDateTime::parse(&text, &Rfc3339).ok());
            if let (Some(ended), Some(started), Some(before)) = (self.ended, started, self.steps.last_mut()) {
                // Browsers make several at a time: then there is no wait.
                before.think = Duration::try_from(started - ended).unwrap_or_default();
            }
            let took = Duration::try_from_secs_f64(time.unwrap_or_default() / 1000.0).unwrap_or_default();
            let ended = started.and_then(|started| started.checked_add(took.try_into().ok()?));
            self.ended = self.ended.max(ended);
        }
        *self.origins.entry(url.origin().to_owned()).or_default() += 1;
        self.steps.push(step);
        Ok(())
    }

    fn finish(self) -> Result<Har, HarError> {
        let most = self.origins.into_iter().max_by_key(|(_, count)| *count);
        let Some((origin, _)) = most else { return Err(HarError::Nothing { left_out: self.left_out }) };
        let sequence = Sequence {
            name: "recorded".to_owned(),
            weight: 1,
            cookies: self.options.cookies,
            variables: Vec::new(),
            steps: self.steps,
        };
        let script = Script { sequences: vec![sequence], ..Script::default() };
        Ok(Har { script, origin, left_out: self.left_out })
    }
}

/// One exchange; its answer is skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(default)]
    started_date_time: Option<String>,
    /// How long it took, in milliseconds.
    #[serde(default)]
    time: Option<f64>,
    request: Recorded,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(default)]
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    params: Option<Vec<Pair>>,
    /// `base64`, where a tool writes bytes so.
    #[serde(default, alias = "_encoding")]
    encoding: Option<String>,
}

impl Recorded {
    /// The request as it is sent again; `None` if it cannot be written.
    fn step(self, url: &Url, options: &HarOptions) -> Option<Step> {
        let method: Method = self.method.parse().ok()?;
        let mut headers = Vec::new();
        for Pair { name, value } in self.headers {
            let is_replaced = options.cookies && name.eq_ignore_ascii_case("cookie");
            if is_of_connection(&name) || is_replaced || name.starts_with(':') {
                continue;
            }
            Headers::new().append(&name, &value).ok()?;
            headers.push((name, Text::from(value)));
        }
        let body = match self.post_data {
            Some(data) => data.body()?,
            None => Bytes::new(),
        };
        Some(Step { method, headers, body: Text::plain(body), ..Step::get(url.path_and_query()) })
    }
}

impl PostData {
    fn body(self) -> Option<Bytes> {
        match (self.text, self.params) {
            (Some(text), _) if self.encoding.as_deref() == Some("base64") => {
                BASE64.decode(text).ok().map(Bytes::from)
            }
            (Some(text), None) => Some(Bytes::from(text)),
            (Some(text), Some(params)) if !text.is_empty() || params.is_empty() => Some(Bytes::from(text)),
            (_, Some(params)) => {
                let pairs = params
                    .iter()
                    .map(|pair| format!("{}={}", form_encoded(&pair.name), form_encoded(&pair.value)));
                Some(Bytes::from(pairs.collect::<Vec<_>>().join("&")))
            }
            (None, None) => Some(Bytes::new()),
        }
    }
}

/// The value of one key of an object; the others are skipped. An object without it is no HAR.
struct Within<S> {
    key: &'static str,
    inner: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for Within<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> Visitor<'de> for Within<S> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with the key {:?}", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut inner = Some(self.inner);
        while let Some(key) = map.next_key::<String>()? {
            match inner.take_if(|_| key == self.key) {
                Some(inner) => map.next_value_seed(inner)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if inner.is_some() { Err(A::Error::missing_field(self.key)) } else { Ok(()) }
    }
}

/// The exchanges, each of which is taken as soon as it is read.
struct Entries<'c, 'o>(&'c mut Collector<'o>);

impl<'de> DeserializeSeed<'de> for Entries<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of exchanges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(entry) = list.next_element::<Entry>()? {
            if let Err(fault) = self.0.take(entry) {
                self.0.fault = Some(fault);
                return Err(A::Error::custom("a limit is reached"));
            }
        }
        Ok(())
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const READ_BYTES: usize = 64 * 1024;
const HOSTS_SHOWN: usize = 5;

#[cfg(test)]
mod tests {
    use anywire_advice::Chain;
    use proptest::prelude::*;

    use super::*;

    fn entry(method: &str, url: &str, rest: &str) -> String {
        format!(
            "{{\"request\":{{\"method\":{method:?},\"url\":{url:?}{rest}}},\"response\":{{\"content\":{{\"text\":\"x\"}}}}}}"
        )
    }

    fn har(entries: &[String]) -> String {
        format!("{{\"log\":{{\"version\":\"1.2\",\"pages\":[{{}}],\"entries\":[{}]}}}}", entries.join(","))
    }

    fn read(text: &str) -> Har {
        read_har(text.as_bytes(), &HarOptions::default()).unwrap_or_else(|error| panic!("{}", Chain(&error)))
    }

    fn fault(text: &str, options: &HarOptions) -> String {
        Chain(&read_har(text.as_bytes(), options).unwrap_err()).to_string()
    }

    #[test]
    fn requests_come_in_their_order_without_the_fields_of_the_connection() {
        let headers = ",\"headers\":[{\"name\":\":authority\",\"value\":\"h\"},{\"name\":\"Connection\",\"value\":\"close\"},\
                       {\"name\":\"content-length\",\"value\":\"3\"},{\"name\":\"Cookie\",\"value\":\"a=b\"}]";
        let post = format!("{headers},\"postData\":{{\"mimeType\":\"a/b\",\"text\":\"{{{{n}}\"}}");
        let found = read(&har(&[
            entry("GET", "https://h.test/a?b=c#d", headers),
            entry("POST", "https://h.test/x", &post),
        ]));
        assert_eq!((found.origin.as_str(), found.left_out.total()), ("https://h.test", 0));
        let [sequence] = &found.script.sequences[..] else { panic!("{found:?}") };
        let steps = &sequence.steps;
        assert_eq!((steps[0].target.as_bytes(), &steps[1].method), (&b"/a?b=c"[..], &Method::POST));
        assert_eq!(steps[0].headers, [("Cookie".to_owned(), Text::from("a=b"))]);
        assert_eq!(steps[1].body, Text::from("{{n}"));
    }

    #[test]
    fn a_form_and_bytes_are_sent_as_they_were() {
        let with =
            |data: &str| read(&har(&[entry("POST", "http://h/", &format!(",\"postData\":{data}"))])).script;
        let body = |script: Script| script.sequences[0].steps[0].body.as_bytes().to_vec();
        let form = "{\"params\":[{\"name\":\"a b\",\"value\":\"c&d\"},{\"name\":\"e\"}]}";
        assert_eq!(body(with(form)), b"a+b=c%26d&e=");
        assert_eq!(body(with("{\"text\":\"/w==\",\"encoding\":\"base64\"}")), [0xff]);
    }

    #[test]
    fn what_cannot_be_sent_is_counted() {
        let found = read(&har(&[
            entry("GET", "http://a/", ""),
            entry("GET", "http://b/", ""),
            entry("GET", "http://b/2", ""),
            entry("GET", "ws://a/", ""),
            entry("GET", "data:text/plain,x", ""),
            entry("CONNECT", "http://a/", ""),
            entry("G T", "http://a/", ""),
        ]));
        assert_eq!(found.script.requests(), 1);
        assert_eq!(found.left_out.to_string(), "2 to b, 3 that are not HTTP, 1 that cannot be written");
        let options = HarOptions { host: Some("c".to_owned()), ..HarOptions::default() };
        let said = fault(&har(&[entry("GET", "http://a/", "")]), &options);
        assert!(
            said.contains("none of its requests can be sent: 1 to a") && said.contains("--har-host"),
            "{said}"
        );
    }

    #[test]
    fn a_wait_is_from_the_end_of_what_went_before() {
        let at = |second: &str, ms: u32| {
            let rest = entry("GET", "http://h/", "");
            format!("{{\"startedDateTime\":\"2026-01-02T03:04:{second}+01:00\",\"time\":{ms},{}", &rest[1..])
        };
        let text = har(&[at("05.100", 200), at("05.150", 400), at("06.000", 1), at("05.000", 1)]);
        let waits = |think| {
            let found = read_har(text.as_bytes(), &HarOptions { think, ..HarOptions::default() }).unwrap();
            found.script.sequences[0].steps.iter().map(|step| step.think.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(waits(true), [0, 450, 0, 0]);
        assert_eq!(waits(false), [0, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_har_is_said_with_its_place() {
        for (text, found) in [
            ("", "line 1, column 0"),
            ("{\n\"log\": {}}", "missing field `entries`"),
            ("{}", "missing field `log`"),
            ("[1]", "an object with the key \"log\""),
            ("{\"log\":{\"entries\":[{}]}}", "missing field `request`"),
            ("{\"log\":{\"entries\":[]}}", "none of its requests"),
            ("{\"log\":{\"entries\":[", "line 1"),
        ] {
            let said = fault(text, &HarOptions::default());
            assert!(said.contains(found), "{text}: {said}");
        }
    }

    #[test]
    fn limits_are_said() {
        let text = har(&[entry("GET", "http://h/1", ""), entry("GET", "http://h/2", "")]);
        let over = |limits| fault(&text, &HarOptions { limits, ..HarOptions::default() });
        let usual = HarLimits::default;
        assert!(over(HarLimits { file_bytes: 10, ..usual() }).contains("more than 10 bytes;"));
        assert!(over(HarLimits { held_bytes: 3, ..usual() }).contains("more than 3 bytes of requests"));
        assert!(over(HarLimits { requests: 1, ..usual() }).contains("more than 1 requests"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\{|\\}|\\[|\\]|\"log\":|\"entries\":|\"request\":|\"url\":\"http://h/\"|\"method\":\"GET\"|,|1){0,25}") {
            let _ = read_har(text.as_bytes(), &HarOptions::default());
        }
    }
}
