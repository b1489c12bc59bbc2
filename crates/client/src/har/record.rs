//! Recording calls: what of them is written, and what is struck out.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anywire_http::{Headers, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::format::{Content, Creator, Empty, Entry, File, Log, Pair, PostData, Request, Response, Timings};
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Next};

/// Records each attempt that has a response, if it is added by
/// [`intercept_attempts`](crate::ClientBuilder::intercept_attempts). A clone is the same recorder.
///
/// The body of each response is collected, so that a stream without end cannot be recorded. Bodies are recorded as they are: what is secret in
/// them stays.
#[derive(Clone)]
pub struct Recorder {
    secrets: Secrets,
    entries: Arc<Mutex<Vec<Entry>>>,
}

/// What is struck out.
#[derive(Debug, Clone)]
pub(super) struct Secrets {
    fields: Vec<String>,
    parameters: Vec<String>,
}

impl Default for Recorder {
    fn default() -> Self {
        let fields = ["authorization", "proxy-authorization", "cookie", "set-cookie"];
        let secrets = Secrets { fields: fields.map(str::to_owned).into(), parameters: Vec::new() };
        Self { secrets, entries: Arc::default() }
    }
}

impl Recorder {
    /// A recorder that has recorded nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Strikes out the values of these fields, too.
    #[must_use]
    pub fn secret_fields<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.secrets.fields.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// Strikes out the values of these parameters of queries: of the URL, and of those in `location`, `content-location` and `referer`.
    #[must_use]
    pub fn secret_parameters<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.secrets.parameters.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// The number of attempts that are recorded.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is recorded, as HAR 1.2.
    pub fn to_json(&self) -> String {
        let creator = Creator { name: "anywire".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let log = Log { version: "1.2".to_owned(), creator, entries: self.lock().clone() };
        serde_json::to_string_pretty(&File { log }).expect("texts and numbers are JSON")
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interceptor for Recorder {
    fn intercept(&self, request: CallRequest, next: Next) -> Calling {
        let this = self.clone();
        Box::pin(async move {
            let (started, begin) = (SystemTime::now(), Instant::now());
            let mut recorded = this.secrets.request(&request);
            let mut response = next.call(request).await?;
            let wait = begin.elapsed();
            let body = response.hold().await?;
            let all = begin.elapsed();
            let milliseconds = |span: std::time::Duration| span.as_secs_f64() * 1000.0;
            recorded.http_version = version(response.version());
            let entry = Entry {
                started_date_time: iso_8601(started),
                time: milliseconds(all),
                request: recorded,
                response: this.secrets.response(&response, &body),
                cache: Empty {},
                timings: Timings { send: 0.0, wait: milliseconds(wait), receive: milliseconds(all - wait) },
            };
            this.lock().push(entry);
            Ok(response)
        })
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("secrets", &self.secrets).field("entries", &self.len()).finish()
    }
}

impl Secrets {
    fn request(&self, request: &CallRequest) -> Request {
        let body = request.body().as_full().filter(|bytes| !bytes.is_empty());
        let mime_type = request.headers().get("content-type").unwrap_or_default().to_owned();
        let url = request.url().as_str();
        let parameters = url.split_once('?').map_or("", |(_, query)| query).split('&');
        let pair = |(name, value): (&str, &str)| Pair { name: name.to_owned(), value: value.to_owned() };
        Request {
            method: request.method().as_str().to_owned(),
            url: self.url(url),
            http_version: String::new(),
            cookies: Vec::new(),
            headers: self.fields(request.headers()),
            query_string: parameters
                .filter(|parameter| !parameter.is_empty())
                .map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")))
                .map(|(name, value)| pair((name, if self.is_parameter(name) { STRUCK_OUT } else { value })))
                .collect(),
            post_data: body
                .map(|bytes| PostData { mime_type, text: String::from_utf8_lossy(bytes).into_owned() }),
            headers_size: -1,
            body_size: request.body().length().and_then(|length| i64::try_from(length).ok()).unwrap_or(-1),
        }
    }

    fn response(&self, response: &crate::Response, body: &Bytes) -> Response {
        let headers = response.headers();
        let size = i64::try_from(body.len()).unwrap_or(-1);
        let (text, encoding) = match str::from_utf8(body) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (STANDARD.encode(body), Some("base64".to_owned())),
        };
        let mime_type = headers.get("content-type").unwrap_or_default().to_owned();
        Response {
            status: response.status().as_u16(),
            status_text: response.head().reason().to_owned(),
            http_version: version(response.version()),
            cookies: Vec::new(),
            headers: self.fields(headers),
            content: Content { size, mime_type, text: Some(text), encoding },
            redirect_url: match self.is_field("location") {
                true => STRUCK_OUT.to_owned(),
                false => self.url(headers.get("location").unwrap_or_default()),
            },
            headers_size: -1,
            body_size: size,
        }
    }

    fn fields(&self, headers: &Headers) -> Vec<Pair> {
        let is_url = |name: &str| URLS.iter().any(|url| url.eq_ignore_ascii_case(name));
        let shown = |name: &str, value: &[u8]| match String::from_utf8_lossy(value) {
            _ if self.is_field(name) => STRUCK_OUT.to_owned(),
            value if is_url(name) => self.url(&value),
            value => value.into_owned(),
        };
        let pair = |(name, value): (&str, &[u8])| Pair { name: name.to_owned(), value: shown(name, value) };
        headers.iter().map(pair).collect()
    }

    fn is_field(&self, name: &str) -> bool {
        self.fields.iter().any(|secret| secret.eq_ignore_ascii_case(name))
    }

    fn is_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|secret| secret == name)
    }

    /// The URL without values that are secret.
    fn url(&self, url: &str) -> String {
        let Some((before, query)) = url.split_once('?') else { return url.to_owned() };
        let strike = |parameter: &str| match parameter.split_once('=') {
            Some((name, _)) if self.is_parameter(name) => format!("{name}={STRUCK_OUT}"),
            _ => parameter.to_owned(),
        };
        let query: Vec<_> = query.split('&').map(strike).collect();
        format!("{before}?{}", query.join("&"))
    }
}

fn version(version: Version) -> String {
    match version {
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
    .to_owned()
}

/// A time as HAR has it: `2026-01-31T23:59:59.999Z`.
fn iso_8601(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since the first of March of the year 0, in periods of 400 years.
    let days = days + 719_468;
    let (period, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let year = year + 400 * period;
    format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// Fields whose values are URLs, which may have secret parameters.
const URLS: [&str; 3] = ["location", "content-location", "referer"];

/// Stands where a secret was.
pub(super) const STRUCK_OUT: &str = "STRUCK-OUT";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_written_by_the_calendar() {
        for (millisecond, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (784_111_777_001, "1994-11-06T08:49:37.001Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (4_102_444_799_000, "2099-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso_8601(UNIX_EPOCH + Duration::from_millis(millisecond)), text);
        }
    }
}
