//! Retries: which attempts may be repeated, and after which pause.

use std::cell::Cell;
use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anywire_http::date::parse_date;
use anywire_http::{Method, StatusCode};
use anywire_loops::clock::{after, precise, unix_time};
use anywire_wire::DialError;

use crate::call::request::CallRequest;
use crate::connection::io::random;
use crate::proxy::ProxyReason;
use crate::{Error, Phase, Response};

/// Which attempts of a call are repeated, how often, and after which pause.
///
/// | what happened | repeated |
/// | --- | --- |
/// | no connection could be made: refused, reset, unreachable, too slow, a name whose resolver failed, also by or of a proxy | any method, if the body is here or untouched |
/// | the peer ended the connection or the stream, and may have seen the request | only if that is [harmless](CallRequest::is_idempotent), and no byte of a response came |
/// | one of [`statuses`](Self::statuses) | only if that is harmless |
/// | a full queue, a name that does not exist, a handshake that failed, silence, a deadline of the whole call, a response that has begun | never |
///
/// A `POST` that the peer may have seen is never sent twice, unless the call is marked by
/// [`Call::idempotent`](crate::Call::idempotent) or has an `idempotency-key`.
///
/// Apart from this, a call whose reused connection turns out dead, or that an HTTP/2 peer says it has not processed, goes
/// out once more at once.
///
/// ```
/// use anywire_client::{Client, Retries};
/// use anywire_http::StatusCode;
///
/// let retries = Retries { max: 3, statuses: vec![StatusCode::SERVICE_UNAVAILABLE], ..Retries::default() };
/// let client = Client::builder().retries(retries).build();
/// let call = client.post("http://shop/orders").idempotent();
/// let once = client.get("http://shop/").retries(0);
/// ```
#[derive(Clone)]
pub struct Retries {
    /// Attempts beyond the first one. Default 2: what two more do not help is no passing trouble.
    pub max: u32,
    /// The first pause is a random part of this, and each one behind it of twice as much (full jitter). Default 50 ms: some round
    /// trips, and nothing that a person notices.
    pub first_pause: Duration,
    /// The most that a pause is a part of. Default 2 s: a restart, and far below the deadline of the whole call.
    pub pause_max: Duration,
    /// The longest `retry-after` (RFC 9110 section 10.2.3) that is waited for. With a longer one the response is the caller's.
    /// Default 10 s: a caller who waits longer wants to know.
    pub retry_after_max: Duration,
    /// Statuses that are tried again, such as 429 and 503. Default: none. A success (2xx) is never tried again.
    pub statuses: Vec<StatusCode>,
    /// Retries to one origin, in per cent of the calls there in the last 10 s, on each loop. Default 20, and 10 retries
    /// besides: the load of a fifth more is no flood, and an origin with few calls gets its repeats. More than that
    /// is [`Error::Retried`], or the response whose status was to be tried again: an origin in trouble gets no load on top.
    pub budget_percent: u32,
    /// If set, decides in the place of the table which harmless attempts are repeated. It is not asked about a success (2xx).
    pub when: Option<RetryHook>,
}

/// Decides about another attempt: [`Retries::when`].
pub type RetryHook = Arc<dyn Fn(&Failure<'_>) -> bool + Send + Sync>;

impl Default for Retries {
    fn default() -> Self {
        Self {
            max: 2,
            first_pause: Duration::from_millis(50),
            pause_max: Duration::from_secs(2),
            retry_after_max: Duration::from_secs(10),
            statuses: Vec::new(),
            budget_percent: 20,
            when: None,
        }
    }
}

/// As many; the rest is as the default.
impl From<u32> for Retries {
    fn from(max: u32) -> Self {
        Self { max, ..Self::default() }
    }
}

impl fmt::Debug for Retries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { max, first_pause, pause_max, retry_after_max, statuses, budget_percent, when } = self;
        f.debug_struct("Retries")
            .field("max", max)
            .field("first_pause", first_pause)
            .field("pause_max", pause_max)
            .field("retry_after_max", retry_after_max)
            .field("statuses", statuses)
            .field("budget_percent", budget_percent)
            .field("when", &when.is_some())
            .finish()
    }
}

/// An attempt that may be repeated without harm, for [`Retries::when`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Failure<'a> {
    /// The method of the request.
    pub method: &'a Method,
    /// Why there is no response.
    pub error: Option<&'a Error>,
    /// The response.
    pub response: Option<&'a Response>,
    /// Attempts so far.
    pub attempts: u32,
}

impl Retries {
    /// The pause until the next attempt, if an error may be tried again.
    pub(super) fn after_error(
        &self,
        request: &CallRequest,
        error: &Error,
        attempts: u32,
    ) -> Option<Duration> {
        if attempts > self.max || request.body.is_taken() || !is_worth_it(error) {
            return None;
        }
        let harmless = !error.may_have_been_processed() || request.is_idempotent();
        let failure = Failure { method: &request.method, error: Some(error), response: None, attempts };
        let wanted = match &self.when {
            Some(when) => when(&failure),
            None => is_repeated(error),
        };
        let pause = (harmless && wanted).then(|| self.pause(attempts))?;
        Some(pause).filter(|pause| is_in_time(request, *pause))
    }

    /// The pause until the next attempt, if a response may be tried again.
    pub(super) fn after_status(
        &self,
        request: &CallRequest,
        response: &Response,
        attempts: u32,
    ) -> Option<Duration> {
        if response.is_final() || attempts > self.max || request.body.is_taken() || !request.is_idempotent() {
            return None;
        }
        let failure = Failure { method: &request.method, error: None, response: Some(response), attempts };
        let wanted = match &self.when {
            Some(when) => when(&failure),
            None => self.statuses.contains(&response.status()),
        };
        let pause = match retry_after(response).filter(|_| wanted) {
            Some(wait) => Some(wait.max(self.pause(attempts))).filter(|_| wait <= self.retry_after_max)?,
            None => wanted.then(|| self.pause(attempts))?,
        };
        Some(pause).filter(|pause| is_in_time(request, *pause))
    }

    /// A random part of the pause behind so many attempts.
    fn pause(&self, attempts: u32) -> Duration {
        let doubled = self.first_pause.saturating_mul(1_u32.checked_shl(attempts - 1).unwrap_or(u32::MAX));
        let longest = doubled.min(self.pause_max);
        longest.mul_f64(random())
    }
}

/// Whether another attempt can end otherwise, and leaves the limits of this end alone.
fn is_worth_it(error: &Error) -> bool {
    !matches!(
        error,
        Error::QueueFull { .. }
            | Error::TooManyOrigins { .. }
            | Error::Timeout { phase: Phase::Acquire | Phase::Total, .. }
            | Error::Shutdown { .. }
            | Error::Loop { .. }
            | Error::RequestBody { .. }
            | Error::Retried { .. }
    )
}

/// The table of [`Retries`].
fn is_repeated(error: &Error) -> bool {
    match error {
        Error::Connect { source, .. } => may_pass(source),
        // A peer of TLS 1.3 refuses a certificate behind the handshake, and will again.
        #[cfg(feature = "tls")]
        Error::Io { .. } if error.handshake().is_some() => false,
        Error::Proxy { source, .. } => match source.reason() {
            ProxyReason::Dial(source) => may_pass(source),
            ProxyReason::TimedOut { .. } | ProxyReason::Closed | ProxyReason::Broken(_) => true,
            // Of the proxy, or because it cannot reach the origin.
            ProxyReason::Refused(status) => (502..=504).contains(&status.as_u16()),
            ProxyReason::Socks(reply) => (3..=6).contains(&reply.0),
            _ => false,
        },
        Error::ClosedByPeer { phase, .. } | Error::Io { phase, .. } | Error::GoAway { phase, .. } => {
            *phase != Phase::Body
        }
        Error::Stream { phase, why: None, .. } => *phase != Phase::Body,
        _ => false,
    }
}

/// Whether another dial can end otherwise.
fn may_pass(error: &DialError) -> bool {
    if let DialError::Resolve { cause, .. } = error {
        // That there is no such name is an answer, which is kept for some seconds.
        return cause.kind() != ErrorKind::NotFound;
    }
    matches!(
        error,
        DialError::Refused { .. }
            | DialError::Reset { .. }
            | DialError::Unreachable { .. }
            | DialError::Timeout { .. }
            | DialError::NoSuchFile { .. }
    )
}

/// Whether the pause ends before the deadline of the whole call.
fn is_in_time(request: &CallRequest, pause: Duration) -> bool {
    let now = precise();
    after(now, pause) < after(request.started.unwrap_or(now), request.options.total_timeout)
}

/// How long a response asks its client to wait.
fn retry_after(response: &Response) -> Option<Duration> {
    let headers = response.headers();
    wait_of(headers.get("retry-after")?, headers.get("date"), unix_time())
}

/// Seconds, or a date (RFC 9110 section 10.2.3). That counts from the `date` of the response if there is one, because the clocks of the two
/// ends differ.
fn wait_of(text: &str, date: Option<&str>, now: SystemTime) -> Option<Duration> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More than a number holds is longer than anybody waits.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = parse_date(text.as_bytes(), now)?;
    let since = date.and_then(|date| parse_date(date.as_bytes(), now)).unwrap_or(now);
    // An instant that has passed is no wait.
    Some(until.duration_since(since).unwrap_or_default())
}

/// The retries that one origin may get on one loop, by all its pools together.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// Calls of all time, and as many of them as count no more.
    calls: Cell<u64>,
    past: Cell<u64>,
    /// Since `since`.
    retries: Cell<u32>,
    since: Cell<Option<Instant>>,
}

impl Budget {
    /// Counts a call.
    #[inline]
    pub(crate) fn count(&self) {
        self.calls.set(self.calls.get().wrapping_add(1));
    }

    /// So many calls have gone elsewhere.
    pub(crate) fn forget(&self, calls: u64) {
        self.calls.set(self.calls.get().saturating_sub(calls));
        self.past.set(self.past.get().min(self.calls.get()));
    }

    /// Whether one more retry is within the budget.
    pub(crate) fn allows(&self, percent: u32, now: Instant) -> bool {
        let since = self.since.get().unwrap_or(now);
        let passed = now.saturating_duration_since(since);
        if self.since.get().is_none() || passed >= WINDOW {
            // Of calls over a longer time as many count as came in a window on average.
            let share = WINDOW.as_secs_f64() / passed.max(WINDOW).as_secs_f64();
            let counting = ((self.calls.get() - self.past.get()) as f64 * share) as u64;
            self.past.set(self.calls.get() - counting);
            self.retries.set(0);
            self.since.set(Some(now));
        }
        let allowed = FLOOR + (self.calls.get() - self.past.get()).saturating_mul(percent.into()) / 100;
        let allows = u64::from(self.retries.get()) < allowed;
        if allows {
            self.retries.set(self.retries.get() + 1);
        }
        allows
    }
}

/// The time over which calls and retries are compared.
const WINDOW: Duration = Duration::from_secs(10);

/// Retries in a window that an origin gets with however few calls.
const FLOOR: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_part_of_the_calls_and_a_few() {
        let (budget, now) = (Budget::default(), precise());
        (0..100).for_each(|_| budget.count());
        let allowed = (0..100).filter(|_| budget.allows(20, now)).count();
        assert_eq!(allowed, 30);
        // The next window begins with the calls of the one before.
        let allowed = (0..100).filter(|_| budget.allows(20, now + WINDOW)).count();
        assert_eq!(allowed, 30);
        // Calls over a long time count by their average.
        let allowed = (0..100).filter(|_| budget.allows(20, now + WINDOW * 101)).count();
        assert_eq!(allowed, 10);
    }

    #[test]
    fn a_wait_is_told_in_seconds_or_by_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let wait = |text, date| wait_of(text, date, now).map(|wait| wait.as_secs());
        assert_eq!(wait("120", None), Some(120));
        assert_eq!(wait("99999999999999999999", None), Some(u64::MAX));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT", None), Some(60));
        // A server whose clock is an hour behind.
        let date = Some("Sun, 06 Nov 1994 07:49:37 GMT");
        assert_eq!(wait("Sun, 06 Nov 1994 07:49:40 GMT", date), Some(3));
        assert_eq!(wait("Sunday, 06-Nov-94 07:49:40 GMT", date), Some(3));
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", None), Some(0));
        assert_eq!(wait("Fri, 06 Nov 1970 08:49:37 GMT", None), Some(0));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT", Some("yesterday")), Some(60));
        for none in ["", "-1", "1.5", "soon", "+5", "5 "] {
            assert_eq!(wait(none, None), None, "{none:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retries = Retries { pause_max: Duration::from_millis(300), ..Retries::default() };
        for (attempts, most) in [(1, 50), (2, 100), (3, 200), (4, 300), (40, 300)] {
            let longest = (0..200).map(|_| retries.pause(attempts)).max().expect("pauses");
            assert!(longest <= Duration::from_millis(most), "{attempts}: {longest:?}");
            assert!(longest > Duration::from_millis(most / 2), "{attempts}: {longest:?}");
        }
    }
}
