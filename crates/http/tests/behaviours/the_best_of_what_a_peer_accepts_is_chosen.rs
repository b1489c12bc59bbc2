//! Media types are read as RFC 9110 has them, and `Accept` chooses the best of what is offered. Nothing that a peer writes there is an
//! error.

use anywire_http::Headers;
use anywire_http::accept::{Accept, InvalidMediaType, MediaType};
use proptest::prelude::*;

fn types(texts: &[&str]) -> Vec<MediaType> {
    texts.iter().map(|text| MediaType::parse(text).expect("a media type")).collect()
}

fn best(accept: &str, offers: &[&str]) -> Option<String> {
    let offers = types(offers);
    Accept::parse(accept).best(&offers).map(MediaType::to_string)
}

#[test]
fn media_types_have_one_normal_form() {
    for (text, normal) in [
        ("text/plain", "text/plain"),
        (" Text/Plain\t", "text/plain"),
        ("TEXT/HTML ;\tCharset=UTF-8", "text/html; charset=UTF-8"),
        ("text/html;charset=\"utf-8\"", "text/html; charset=utf-8"),
        ("a/b;;x=1; ;y=2;", "a/b; x=1; y=2"),
        ("a/b;x=\"1,;2\"", "a/b; x=\"1,;2\""),
        ("a/b;x=\"\\\"\\\\\\c\"", "a/b; x=\"\\\"\\\\c\""),
        ("a/b;x=\"\"", "a/b; x=\"\""),
        ("application/*+json", "application/*+json"),
        ("*", "*/*"),
    ] {
        let read = MediaType::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read.as_str(), normal, "{text}");
        assert_eq!(MediaType::parse(normal), Ok(read), "{normal}");
    }
}

#[test]
fn what_is_no_media_type_says_why() {
    for text in ["", "text", "text/", "/plain", "*/json", "a/b/c", "te xt/a", "a/b c", "\u{e4}/b", "a;x=1"] {
        assert!(matches!(MediaType::parse(text), Err(InvalidMediaType::Essence { .. })), "{text}");
    }
    for text in
        ["a/b;x", "a/b;x=", "a/b;=1", "a/b;x = 1", "a/b;x=1 y=2", "a/b;x=\"1", "a/b;x=\"1\"2", "a/b;x=\u{e4}"]
    {
        assert!(matches!(MediaType::parse(text), Err(InvalidMediaType::Parameter { .. })), "{text}");
    }
    let twice = MediaType::parse("multipart/form-data; boundary=a; Boundary=b").expect_err("two boundaries");
    assert!(twice.to_string().contains("two parameters `boundary`"), "{twice}");
}

#[test]
fn media_types_are_limited() {
    let long = format!("a/{}", "b".repeat(InvalidMediaType::LENGTH_MAX));
    let length = long.len();
    assert_eq!(MediaType::parse(&long), Err(InvalidMediaType::TooLong { length }));
    assert!(MediaType::parse(&long[..InvalidMediaType::LENGTH_MAX]).is_ok());
    // Its normal form is longer.
    let full = format!("a/b;x=1;y={}", "1".repeat(InvalidMediaType::LENGTH_MAX - 10));
    let read = MediaType::parse(&full).expect("as long as may be");
    assert!(read.includes(&read) && read.as_str().len() > InvalidMediaType::LENGTH_MAX);
    let params = |count: usize| (0..count).map(|at| format!(";x{at}=1")).collect::<String>();
    let most = InvalidMediaType::PARAMETERS_MAX;
    assert!(MediaType::parse(&format!("a/b{}", params(most))).is_ok());
    let above = MediaType::parse(&format!("a/b{}", params(most + 1)));
    assert_eq!(above, Err(InvalidMediaType::TooManyParameters));
}

#[test]
fn parameters_have_no_order() {
    for (one, other) in [("a/b", "a/b;x=1"), ("a/b;x=1", "a/b;x=2"), ("a/b;x=1", "a/b;y=1"), ("a/b", "a/c")] {
        let (one, other) = (MediaType::parse(one), MediaType::parse(other));
        assert_ne!(one, other);
        assert_ne!(other, one);
    }
    let [one, other, fewer] =
        ["a/b; x=1; y=2", "a/b; y=2; x=1", "a/b; x=1"].map(|text| text.parse::<MediaType>());
    assert_eq!(one, other);
    assert_ne!(one, fewer);
}

#[test]
fn ranges_include_what_they_name() {
    for (range, inside) in [
        ("*/*", "text/plain"),
        ("text/*", "TEXT/plain"),
        ("application/*+json", "application/problem+json"),
        ("text/plain", "text/plain; charset=latin1"),
        ("text/plain; charset=UTF-8", "text/plain; charset=utf-8"),
        ("text/plain; charset=utf-8", "text/plain"),
        ("a/b; x=\"1\"", "a/b; x=1; y=2"),
        ("a/b; q=0.3", "a/b"),
    ] {
        let range = MediaType::parse(range).expect("a range");
        assert!(range.includes_text(inside), "{range} includes {inside}");
    }
    for (range, outside) in [
        ("text/*", "image/png"),
        ("application/*+json", "application/json"),
        ("application/*+json", "text/x+json"),
        ("text/plain", "text/html"),
        ("text/plain; charset=latin1", "text/plain"),
        ("text/plain; charset=utf-8", "text/plain; charset=latin1"),
        ("a/b; x=a", "a/b; x=A"),
        ("*/*", "nothing"),
    ] {
        let range = MediaType::parse(range).expect("a range");
        assert!(!range.includes_text(outside), "{range} includes {outside}");
    }
}

#[test]
fn the_most_specific_range_weighs() {
    // The example of RFC 9110 section 12.5.1, each type alone and then all.
    let accept =
        "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, */*;q=0.5";
    let all =
        ["text/html", "image/jpeg", "text/plain;format=fixed", "text/plain", "text/plain;format=flowed"];
    for count in 1..=all.len() {
        let expected = match count {
            1 => "text/html",
            2 | 3 => "image/jpeg",
            4 => "text/plain",
            _ => "text/plain; format=flowed",
        };
        assert_eq!(best(accept, &all[..count]).as_deref(), Some(expected));
    }
}

#[test]
fn a_weight_of_0_refuses() {
    assert_eq!(best("*/*, text/html;q=0", &["text/html"]), None);
    assert_eq!(best("text/*;q=0.0, text/html", &["text/plain", "text/html"]).as_deref(), Some("text/html"));
    assert_eq!(best("*/*;q=0", &["text/html"]), None);
}

#[test]
fn equal_weights_prefer_what_is_named_and_then_the_order_of_offers() {
    let offers = ["application/json", "text/html"];
    assert_eq!(best("text/html, */*", &offers).as_deref(), Some("text/html"));
    assert_eq!(best("text/html, application/json", &offers).as_deref(), Some("application/json"));
    assert_eq!(best("*/*", &offers).as_deref(), Some("application/json"));
    // Of Java.
    let java = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2";
    assert_eq!(best(java, &offers).as_deref(), Some("text/html"));
    assert_eq!(best(java, &["application/json"]).as_deref(), Some("application/json"));
}

#[test]
fn malformed_members_are_ignored() {
    for accept in
        ["text/html;q=2, json, application/json", ",,;,application/json,", "application/json, \"text/html"]
    {
        assert_eq!(
            best(accept, &["text/html", "application/json"]).as_deref(),
            Some("application/json"),
            "{accept}"
        );
    }
    assert_eq!(best("text/html;q=x, application/json", &["text/html"]), None);
    assert_eq!(
        best("a/b;x=\"1,2\", text/html;q=0", &["text/html"]),
        None,
        "a comma in quotes divides nothing"
    );
    assert_eq!(
        best("json", &["text/html"]).as_deref(),
        Some("text/html"),
        "nothing is left: all is acceptable"
    );
    let mut headers = Headers::new();
    headers.append("accept", b"text/\xff, text/html;q=0").expect("a value");
    headers.append("accept", "application/json").expect("a value");
    assert_eq!(Accept::of(&headers).best(&types(&["text/html"])), None);
    assert!(Accept::of(&headers).accepts(&types(&["application/json"])[0]), "several fields are one list");
}

#[test]
fn a_comma_in_quotes_is_a_part_of_its_member() {
    let offers = ["a/b; x=\"1,a/c,2\"", "a/c", "a/d"];
    assert_eq!(best("a/b;x=\"1,a/c,2\", a/d;q=0.5", &offers).as_deref(), Some(offers[0]));
    assert_eq!(best("a/b;x=\"1,a/c,2\", a/d;q=0.5", &offers[1..]).as_deref(), Some("a/d"));
    let escaped = "a/b;x=\"\\\",a/c,2\", a/d;q=0.5";
    assert_eq!(best(escaped, &offers[1..]).as_deref(), Some("a/d"), "an escaped quote ends nothing");
}

#[test]
fn a_weight_makes_no_range_more_specific() {
    let accept = "text/html, text/html;q=0.2, text/plain;q=0.5";
    assert_eq!(best(accept, &["text/plain", "text/html"]).as_deref(), Some("text/html"));
}

#[test]
fn members_are_limited() {
    let many = |count: usize| format!("{}text/html", "a/b,".repeat(count));
    assert!(best(&many(Accept::RANGES_MAX - 1), &["text/html"]).is_some());
    assert_eq!(best(&many(Accept::RANGES_MAX), &["text/html"]), None);
    let long = format!("a/{}, text/html;q=0", "b".repeat(InvalidMediaType::LENGTH_MAX));
    assert_eq!(best(&long, &["text/html"]), None, "one that is too long is ignored like a malformed one");
}

/// A type, a subtype and perhaps a parameter of each, few enough to meet.
type Simple = (usize, usize, Option<usize>);

const KINDS: [&str; 3] = ["*", "a", "b"];
const SUBTYPES: [&str; 3] = ["*", "c", "d"];

fn text(of: Simple) -> String {
    let param = of.2.map_or(String::new(), |value| format!(";p={value}"));
    format!("{}/{}{param}", KINDS[of.0], SUBTYPES[of.1])
}

/// As the RFC words it, for these types alone.
fn expected(ranges: &[(Simple, u16)], offers: &[Simple]) -> Option<usize> {
    if ranges.is_empty() {
        return Some(0);
    }
    let weight = |offer: &Simple| {
        let fits = |range: &Simple| {
            (range.0 == 0 || range.0 == offer.0)
                && (range.1 == 0 || range.1 == offer.1)
                && (range.2.is_none() || range.2 == offer.2)
        };
        let how = |range: &Simple| (usize::from(range.0 > 0) + usize::from(range.1 > 0), range.2.is_some());
        ranges.iter().filter(|(range, _)| fits(range)).map(|(range, weight)| (how(range), *weight)).max()
    };
    let mut best: Option<(u16, (usize, bool), usize)> = None;
    for (index, offer) in offers.iter().enumerate() {
        let Some((how, weight)) = weight(offer) else { continue };
        if weight > 0 && best.is_none_or(|(most, most_how, _)| (most, most_how) < (weight, how)) {
            best = Some((weight, how, index));
        }
    }
    best.map(|(.., index)| index)
}

fn simple(least: usize) -> impl Strategy<Value = Simple> {
    (least..3, least..3, proptest::option::of(0..2_usize))
        .prop_map(|(kind, subtype, param)| (kind, if kind == 0 { 0 } else { subtype }, param))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_choice_is_that_of_the_rfc(
        ranges in proptest::collection::vec((simple(0), 0..=1000_u16), 0..6),
        offers in proptest::collection::vec(simple(1), 1..5),
    ) {
        let weighed = |(range, weight): &(Simple, u16)| format!("{};q={}.{:03}", text(*range), weight / 1000, weight % 1000);
        let accept: Vec<_> = ranges.iter().map(weighed).collect();
        let accept = accept.join(" ,\t");
        let given: Vec<_> = offers.iter().map(|offer| text(*offer).parse::<MediaType>().expect("a type")).collect();
        let chosen = Accept::parse(&accept).best(&given);
        let expected = expected(&ranges, &offers).map(|index| &given[index]);
        prop_assert_eq!(chosen, expected, "{}", accept);
    }

    #[test]
    fn any_text_is_an_accept(list in "[a-c*/;,=q\"\\\\ .0-9]{0,60}") {
        let offers = types(&["a/b", "b/c; q=1"]);
        let accept = Accept::parse(&list);
        let chosen = accept.best(&offers);
        prop_assert!(chosen.is_none_or(|chosen| accept.accepts(chosen)));
        if let Ok(read) = MediaType::parse(&list) {
            prop_assert_eq!(&MediaType::parse(read.as_str()), &Ok(read.clone()));
            prop_assert!(read.includes(&read));
        }
    }
}
