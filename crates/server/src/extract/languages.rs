//! The languages that a peer reads.

use std::convert::Infallible;

use super::FromRequestParts;
use crate::request::Parts;

/// The languages that the peer reads, from the field `accept-language` (RFC 9110 section 12.5.4). Members of the list behind the first
/// [`RANGES_MAX`](Self::RANGES_MAX) are ignored.
///
/// ```
/// use anywire_server::{Languages, Router};
///
/// async fn hello(languages: Languages) -> &'static str {
///     match languages.best(&["en", "de"]) {
///         Some("de") => "Hallo!",
///         _ => "Hello!",
///     }
/// }
///
/// let router = Router::new().get("/", hello);
/// # anywire_loops::block_on(async {
/// let request = anywire_http::Request::get("/").header("accept-language", "fr, de-CH;q=0.9, en;q=0.8");
/// assert_eq!(router.call(request).await.body.text(100).await?, "Hallo!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Languages {
    field: String,
}

impl Languages {
    /// How many members of the list are taken. Browsers send less than ten, and each is compared with each language that is there.
    pub const RANGES_MAX: usize = 64;

    /// Those of a request.
    pub fn of(parts: &Parts) -> Self {
        let mut fields =
            parts.headers().get_all("accept-language").filter_map(|field| str::from_utf8(field).ok());
        let mut field = fields.next().unwrap_or_default().to_owned();
        for more in fields {
            field.push(',');
            field.push_str(more);
        }
        Self { field }
    }

    /// That of these which the peer likes best. A peer that asks for `de-CH` gets `de`, and one that asks for `*` the first. What it
    /// refuses by a weight of 0 is none of them; `en;q=0` refuses `en-US` as well, unless that is asked for. `None` if it asks for none of
    /// them, or says nothing.
    pub fn best<'t>(&self, available: &[&'t str]) -> Option<&'t str> {
        let ranges = self.field.split(',').filter_map(range);
        let mut ranges: Vec<(&str, u16)> = ranges.take(Self::RANGES_MAX).collect();
        // Stable: of those that the peer likes equally, the first.
        ranges.sort_by(|(_, one), (_, other)| other.cmp(one));
        // The longest range that includes a tag decides whether that is refused.
        let is_open = |tag: &&str| {
            let including = ranges.iter().filter(|(range, _)| matches(tag, range).is_some());
            including.map(|(range, weight)| (range.len(), *weight)).max().is_none_or(|(_, weight)| weight > 0)
        };
        let open: Vec<&str> = available.iter().copied().filter(is_open).collect();
        let mut wanted = ranges.iter().filter(|(_, weight)| *weight > 0);
        wanted.find_map(|(range, _)| match *range {
            "*" => open.first().copied(),
            range => {
                let answers = open.iter().filter_map(|tag| Some((matches(range, tag)?, *tag)));
                answers.max().map(|(_, tag)| tag)
            }
        })
    }
}

/// A language range, and its weight in thousandths.
fn range(item: &str) -> Option<(&str, u16)> {
    let mut parameters = item.split(';').map(str::trim_ascii);
    let range = parameters.next().filter(|range| !range.is_empty())?;
    let weight =
        parameters.find_map(|parameter| parameter.strip_prefix("q=").or(parameter.strip_prefix("Q=")));
    let weight = weight.map_or(Some(1.0), |weight| weight.parse::<f32>().ok());
    // A weight that is none counts as the least.
    let weight = weight.filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.001);
    Some((range, (weight * 1000.0) as u16))
}

/// How many characters of a range the tag answers: all of them, or those before a hyphen (RFC 4647 section 3.4).
fn matches(range: &str, tag: &str) -> Option<usize> {
    let (head, rest) = range.split_at_checked(tag.len())?;
    (head.eq_ignore_ascii_case(tag) && (rest.is_empty() || rest.starts_with('-'))).then_some(tag.len())
}

impl FromRequestParts for Languages {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(field: &str, available: &[&'static str]) -> Option<&'static str> {
        Languages { field: field.to_owned() }.best(available)
    }

    #[test]
    fn the_heaviest_range_that_is_there() {
        let there = ["en", "de", "de-CH"];
        for (field, expected) in [
            ("de", Some("de")),
            ("fr, en;q=0.5", Some("en")),
            ("en;q=0.5, DE-AT;q=0.7", Some("de")),
            ("de-ch-1996", Some("de-CH")),
            ("*", Some("en")),
            ("fr, *;q=0.1, en;q=0", Some("de")),
            ("en;q=0", None),
            ("*, en;q=0, de;q=0", None),
            ("de-CH-1996, de-CH;q=0", Some("de")),
            ("de-CH, de;q=0", Some("de-CH")),
            ("de-AT, de;q=0, en;q=0.1", Some("en")),
            ("de;q=0, de;q=0.5", Some("de")),
            ("english", None),
            ("en;q=9, de", Some("de")),
            ("", None),
            (",;q=1,", None),
        ] {
            assert_eq!(best(field, &there), expected, "{field}");
        }
    }

    #[test]
    fn so_many_ranges_are_taken_and_no_more() {
        let behind = |count: usize| best(&format!("{}de", "fr,".repeat(count)), &["en", "de"]);
        assert_eq!(behind(Languages::RANGES_MAX - 1), Some("de"));
        assert_eq!(behind(Languages::RANGES_MAX), None);
    }
}
