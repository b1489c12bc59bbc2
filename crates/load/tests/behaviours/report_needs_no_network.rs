//! A report is one file: no address in it is ever loaded, and all of the result is inside.

use crate::support::sample;
use anywire_load::Outcome;
use anywire_load::compare::Comparison;

#[test]
fn a_page_refers_to_nothing_outside() {
    let pages = [
        (anywire_load::report::comparison(&sample::comparison()), 4),
        (anywire_load::report::outcome(&sample::outcome()), 5),
    ];
    for (html, charts) in pages {
        assert_eq!(html.matches("<svg role=").count(), charts);
        for reference in [" src=", " href=", "url(", "@import", "<link", "<img", "<iframe", "fetch("] {
            assert!(!html.contains(reference), "{reference}");
        }
        // Names of the SVG vocabulary are not loaded; the loaded URL stands in a page only as text.
        let rest = html.replace("http://www.w3.org/2000/svg", "").replace("http://localhost:8080/", "");
        assert!(!rest.contains("http://") && !rest.contains("https://"));
    }
}

#[test]
fn the_whole_result_is_in_the_page() {
    let comparison = sample::comparison();
    let html = anywire_load::report::comparison(&comparison);
    let read: Comparison = serde_json::from_str(embedded(&html)).unwrap();
    assert_eq!(read.candidates.len(), comparison.candidates.len());
    assert!(embedded(&html).replace("\\u003c", "<") == comparison.to_json());

    let outcome = sample::outcome();
    let html = anywire_load::report::outcome(&outcome);
    let read: Outcome = serde_json::from_str(embedded(&html)).unwrap();
    assert_eq!(read.target, outcome.target);
    assert!(embedded(&html).replace("\\u003c", "<") == outcome.to_json());
}

#[test]
fn a_run_without_an_answer_has_a_page_too() {
    let mut outcome = sample::outcome();
    outcome.latency.send = None;
    outcome.loops.clear();
    outcome.balance = None;
    let html = anywire_load::report::outcome(&outcome);
    assert!(html.contains("unknown"));

    let mut comparison = sample::comparison();
    comparison.candidates.drain(..5);
    let html = anywire_load::report::comparison(&comparison);
    assert!(html.contains("unknown"));
    assert!(comparison.to_string().contains("broken"));
}

fn embedded(html: &str) -> &str {
    let start = html.find("id=\"result\">").unwrap() + "id=\"result\">".len();
    html[start..start + html[start..].find("</script>").unwrap()].trim()
}
