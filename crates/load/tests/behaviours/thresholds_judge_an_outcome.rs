//! A threshold holds or breaks by the figure that the JSON has at its path; what is unknown breaks it and says why, and a run
//! that shows nothing is not judged.

use anywire_load::figures::{COLUMNS, FIGURES, STATISTICS};
use anywire_load::{Outcome, Threshold, Verdict, judge};
use serde_json::Value;

use crate::support::sample;

fn judged(threshold: &str, outcome: &Outcome) -> Threshold {
    judge(&[threshold.parse().expect("a threshold")], outcome).remove(0)
}

#[test]
fn by_the_figures_of_its_result() {
    let outcome = sample::outcome();
    for (threshold, verdict) in [
        ("p50<1ms", Verdict::Held),
        ("send.p50<1us", Verdict::Broken),
        ("errors<5", Verdict::Held),
        ("errors<3", Verdict::Broken),
        ("errors<=3", Verdict::Held),
        ("errors=3", Verdict::Held),
        ("errors<0.1%", Verdict::Held),
        ("errors<0.001%", Verdict::Broken),
        ("errors.close>2", Verdict::Held),
        ("errors.timeout=0", Verdict::Held),
        ("status.4xx<1%", Verdict::Held),
        ("status.404<0.001%", Verdict::Broken),
        ("status.5xx=0", Verdict::Held),
        ("rate>=20k", Verdict::Held),
        ("rate>20k", Verdict::Broken),
        ("cpu/request<10us", Verdict::Held),
        ("balance<1.2", Verdict::Held),
        ("balance<1", Verdict::Broken),
    ] {
        let found = judged(threshold, &outcome);
        assert_eq!(found.verdict, verdict, "{found}");
        assert_eq!(found.reason.is_none(), verdict == Verdict::Held, "{found}");
    }
    assert_eq!(
        judged("errors<0.001%", &outcome).to_string(),
        "errors<0.001%: broken, asked < 0.00100 %, found 0.00150 %"
    );
    assert_eq!(
        judged("rate>20k", &outcome).to_string(),
        "rate>20k: broken, asked > 20,000/s, found 20,000/s"
    );
}

#[test]
fn what_is_unknown_keeps_to_nothing() {
    let mut outcome = sample::outcome();
    outcome.latency.send = None;
    outcome.generator.cpu_us_per_request = None;
    outcome.totals.measured.sent = 0;
    for (threshold, why) in [
        ("p99<5ms", "unknown, because no request was answered"),
        ("cpu/request<1s", "the CPU time of the loops could not be read"),
        ("errors<100%", "unknown, because there were no requests sent"),
    ] {
        let found = judged(threshold, &outcome);
        assert_eq!((found.verdict, found.found), (Verdict::Broken, None), "{found}");
        assert!(found.to_string().contains(why), "{found}");
    }
}

#[test]
fn an_interrupted_run_is_not_judged() {
    let mut outcome = sample::outcome();
    outcome.rate.interrupted = true;
    let found = judged("p50<1us", &outcome);
    assert_eq!((found.verdict, found.found.is_some()), (Verdict::NotJudged, true), "{found}");
    assert!(found.to_string().ends_with("not judged, the run was interrupted"), "{found}");
}

#[test]
fn a_figure_has_its_value_at_its_path() {
    let outcome = sample::outcome();
    let json: Value = serde_json::from_str(&outcome.to_json()).expect("it is JSON");
    let at = |path: &str| json.pointer(&format!("/{}", path.replace('.', "/")));
    for figure in FIGURES {
        let found = at(figure.path).unwrap_or_else(|| panic!("{} is not in the JSON", figure.path));
        // Errors stand by kind.
        let found = match found {
            Value::Object(parts) => Some(parts.values().filter_map(Value::as_f64).sum()),
            other => other.as_f64(),
        };
        assert_eq!(found, (figure.value)(&outcome), "{}", figure.path);
    }
    for column in COLUMNS {
        let is_there = at(column.path).is_some();
        // Of the classes of statuses only those that were seen.
        assert!(is_there || column.path.contains("by_status"), "{} is not in the JSON", column.path);
        let Some(summary) = (column.value)(&outcome) else { continue };
        for statistic in STATISTICS {
            let path = format!("{}.{}", column.path, statistic.field);
            assert_eq!(at(&path).and_then(Value::as_f64), Some((statistic.value)(summary)), "{path}");
        }
    }
    let found = judged("p99.9<1s", &outcome);
    assert_eq!(at(&found.figure).and_then(Value::as_f64), found.found);
}

#[test]
fn text_page_and_json_have_the_verdicts() {
    let mut outcome = sample::outcome();
    outcome.thresholds = judge(&["p50<1us".parse().unwrap(), "errors<5".parse().unwrap()], &outcome);
    let (text, page) = (outcome.to_string(), anywire_load::report::outcome(&outcome));
    assert!(text.contains("p50<1us   broken  asked < 1.00 us, found"), "{text}");
    assert!(text.contains("errors<5  held    found 3"), "{text}");
    assert!(page.contains("p50&lt;1us") && page.contains("broken"));
    let read: Outcome = serde_json::from_str(&outcome.to_json()).expect("it is JSON");
    assert_eq!(read.thresholds, outcome.thresholds);
}
