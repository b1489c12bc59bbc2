//! The W3C's trace context: which trace a request belongs to, and within what.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

/// What a field `traceparent` says ([W3C Trace Context](https://www.w3.org/TR/trace-context/)): the trace, the span within it, and whether
/// it is recorded.
///
/// ```
/// use anywire_client::TraceContext;
///
/// let context: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse()?;
/// assert!(context.is_sampled);
/// assert_eq!(context.child().trace_id, context.trace_id);
/// # Ok::<(), anywire_client::InvalidTraceContext>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// All spans of a trace have the same.
    pub trace_id: NonZeroU128,
    /// The span that sends it.
    pub span_id: NonZeroU64,
    /// Whether who sends it may have recorded it.
    pub is_sampled: bool,
}

/// A text is no trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a trace context is 00-, 32 digits, -, 16 digits, -, 2 digits: lower-case, and neither id 0")]
pub struct InvalidTraceContext;

impl TraceContext {
    /// The begin of a trace. Its ids are random, and no secret.
    pub fn new(is_sampled: bool) -> Self {
        let high = u128::from(random().get());
        let trace_id = NonZeroU128::from(random()) | (high << 64);
        Self { trace_id, span_id: random(), is_sampled }
    }

    /// A span within this one.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { span_id: random(), ..*self }
    }
}

fn random() -> NonZeroU64 {
    // Keys of a hasher are the standard library's randomness, and good enough to tell spans apart.
    NonZeroU64::new(RandomState::new().build_hasher().finish()).unwrap_or(NonZeroU64::MIN)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace_id, span_id, is_sampled } = self;
        write!(f, "00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(*is_sampled))
    }
}

impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    fn from_str(text: &str) -> Result<Self, InvalidTraceContext> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let mut parts = text.split('-');
        let mut part = |length| parts.next().filter(|part| is_hex(part, length)).ok_or(InvalidTraceContext);
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        // What later versions add stands behind (section 4.3 of its "Versioning").
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(InvalidTraceContext);
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().and_then(NonZeroU128::new);
        let span_id = u64::from_str_radix(span, 16).ok().and_then(NonZeroU64::new);
        let flags = u8::from_str_radix(flags, 16).map_err(|_| InvalidTraceContext)?;
        let (trace_id, span_id) = trace_id.zip(span_id).ok_or(InvalidTraceContext)?;
        Ok(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_none_are_refused() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(good.parse::<TraceContext>().expect("it is one").to_string(), good);
        let later = good.replacen("00", "cc", 1) + "-what-comes";
        assert_eq!(later.parse::<TraceContext>().expect("of a later version").to_string(), good);
        let with = |old: &str, new: &str| good.replacen(old, new, 1);
        let bad = [
            String::new(),
            with("00-", "ff-"),
            with("4bf", "4BF"),
            with("4bf", "bf"),
            with("-01", ""),
            with("-01", "-01-00"),
            with("-01", "-1"),
            with("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            with("00f067aa0ba902b7", &"0".repeat(16)),
            with("4bf", "+bf"),
        ];
        for text in bad {
            assert_eq!(text.parse::<TraceContext>(), Err(InvalidTraceContext), "{text}");
        }
    }

    #[test]
    fn ids_differ() {
        let (one, other) = (TraceContext::new(true), TraceContext::new(true));
        assert!(one.trace_id != other.trace_id && one.span_id != other.span_id);
        assert!(one.trace_id.get() >> 64 != 0 && one.child().span_id != one.span_id);
    }
}
