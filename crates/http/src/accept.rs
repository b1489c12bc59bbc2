//! Media types, and what a peer says of them in `Accept` (RFC 9110 sections 8.3.1 and 12.5.1).
//!
//! A [`MediaType`] is what a program offers or takes, and may be a range, such as `text/*`. An [`Accept`] is what a peer asks for: it
//! borrows from the fields of a head, and [`Accept::best`] chooses among offers.

mod media_type;
mod view;

pub use self::media_type::{InvalidMediaType, MediaType};

use self::view::{Specificity, View};
use crate::Headers;

/// The media types that a peer asks for, each with its weight: the value of the fields `Accept`.
///
/// Reading it never fails. Members that are malformed are ignored, and so are those behind the first
/// [`RANGES_MAX`](Self::RANGES_MAX). If nothing is left, such as without the field, every type is acceptable.
///
/// ```
/// use anywire_http::accept::{Accept, MediaType};
///
/// let offers = ["application/json", "text/html"].map(|text| MediaType::parse(text).expect("a media type"));
/// let best = |accept| Accept::parse(accept).best(&offers).map(MediaType::as_str);
/// assert_eq!(best("text/html, application/json;q=0.9"), Some("text/html"));
/// assert_eq!(best("*/*, text/html;q=0.1"), Some("application/json"));
/// assert_eq!(best("image/png"), None);
/// assert_eq!(best(""), Some("application/json"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Accept<'h> {
    ranges: Vec<Range<'h>>,
}

/// One member of the list.
#[derive(Debug, Clone, Copy)]
struct Range<'h> {
    view: View<'h>,
    /// In thousandths.
    weight: u16,
}

impl<'h> Accept<'h> {
    /// How many members of the list are taken. Browsers send less than ten.
    pub const RANGES_MAX: usize = 64;

    /// What the fields `Accept` of a head say.
    pub fn of(headers: &'h Headers) -> Self {
        let mut accept = Self::default();
        headers.get_all("accept").for_each(|list| accept.add(list));
        accept
    }

    /// What the value of one field says.
    pub fn parse(list: &'h str) -> Self {
        let mut accept = Self::default();
        accept.add(list.as_bytes());
        accept
    }

    fn add(&mut self, mut list: &'h [u8]) {
        while self.ranges.len() < Self::RANGES_MAX
            && let Some((member, rest)) = view::next_member(list)
        {
            self.ranges.extend(std::str::from_utf8(member).ok().and_then(Range::parse));
            list = rest;
        }
    }

    /// The offer that the peer likes best; `None` if each is refused.
    ///
    /// The weight of an offer is that of the most specific range that includes it: one with more parameters before one with
    /// fewer, `type/subtype` before `type/*` before `*/*`. A weight of 0 refuses. Of offers with the same weight, the one that a more specific
    /// range names is better (`text/html, */*` prefers `text/html`), then the one that stands first.
    pub fn best<'m>(&self, offers: impl IntoIterator<Item = &'m MediaType>) -> Option<&'m MediaType> {
        let mut offers = offers.into_iter();
        if self.ranges.is_empty() {
            return offers.next();
        }
        let mut best: Option<((u16, Specificity), &MediaType)> = None;
        for offer in offers {
            if let Some((specificity, weight)) = self.of_offer(offer)
                && weight > 0
                && best.is_none_or(|(so_far, _)| so_far < (weight, specificity))
            {
                best = Some(((weight, specificity), offer));
            }
        }
        best.map(|(_, offer)| offer)
    }

    /// Whether this type is not refused.
    pub fn accepts(&self, offer: &MediaType) -> bool {
        self.best([offer]).is_some()
    }

    /// The most specific range that includes this type, and the weight of that. Of two ranges that are alike the greater weight.
    fn of_offer(&self, offer: &MediaType) -> Option<(Specificity, u16)> {
        let offer = offer.view();
        let including = self.ranges.iter().filter(|range| range.view.includes(offer));
        including.map(|range| (range.view.specificity(), range.weight)).max()
    }
}

impl<'h> Range<'h> {
    fn parse(member: &'h str) -> Option<Self> {
        // The default of `HttpURLConnection` of Java ends in `*; q=.2, */*; q=.2`.
        let view = View::parse(member).ok()?;
        let weight = match view.param("q") {
            Some(weight) => thousandths(weight.raw())?,
            None => 1000,
        };
        Some(Self { view, weight })
    }
}

/// Reads a weight of at most 1 (RFC 9110 section 12.4.2). Some senders write more than three digits, or none before the point. What is
/// not 0 stays so.
fn thousandths(weight: &str) -> Option<u16> {
    let (whole, part) = weight.split_once('.').unwrap_or((weight, ""));
    let whole = match whole {
        "0" => 0,
        "1" => 1000,
        "" if !part.is_empty() => 0,
        _ => return None,
    };
    let mut digits = part.bytes().map(|byte| byte.is_ascii_digit().then(|| u16::from(byte - b'0')));
    let mut thousandths = whole;
    for worth in [100, 10, 1] {
        thousandths += digits.next().unwrap_or(Some(0))? * worth;
    }
    let mut is_more = false;
    for digit in digits {
        is_more |= digit? > 0;
    }
    if is_more {
        thousandths = if thousandths == 1000 { 1001 } else { thousandths.max(1) };
    }
    (thousandths <= 1000).then_some(thousandths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_at_most_1() {
        for (text, weight) in [
            ("0", 0),
            ("1", 1000),
            ("0.", 0),
            ("1.000", 1000),
            ("0.5", 500),
            ("0.123", 123),
            ("0.9999", 999),
            ("0.0001", 1),
            ("0.00000", 0),
            (".2", 200),
        ] {
            assert_eq!(thousandths(text), Some(weight), "{text}");
        }
        for text in ["", ".", "2", "1.001", "1.0001", "-1", "+1", "0.5x", "0,5", "1e0", "00", " 1", "0.1234x"]
        {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }
}
