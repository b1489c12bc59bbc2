//! A generator that was busy all the time is perhaps the limit itself: table, page and JSON say so, and only then.

use crate::support::sample;
use anywire_load::{Generator, Outcome, report};

#[test]
fn the_limit_is_said_where_the_generator_was_busy() {
    let busy = sample::outcome();
    assert_eq!(busy.generator.limited_by.as_deref(), Some("generator"));
    let idle =
        Outcome { generator: Generator { limited_by: None, ..busy.generator.clone() }, ..busy.clone() };
    for (outcome, said) in [(&busy, true), (&idle, false)] {
        assert_eq!(outcome.to_string().contains("the generator was busy all the time"), said, "{outcome}");
        let page = report::outcome(outcome);
        assert_eq!(page.contains("The generator was busy all the time"), said);
        assert_eq!(outcome.to_json().contains(r#""limited_by": "generator""#), said);
    }
}

#[test]
fn connections_that_were_busy_are_another_limit() {
    let busy = sample::outcome();
    let limited_by = Some("connections".to_owned());
    let outcome = Outcome { generator: Generator { limited_by, ..busy.generator.clone() }, ..busy };
    for text in [outcome.to_string(), report::outcome(&outcome)] {
        assert!(text.contains("ll connections were busy") && !text.contains("generator was busy"), "{text}");
    }
}
