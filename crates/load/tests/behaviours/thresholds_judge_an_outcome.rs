//! A threshold holds or breaks by the figure that the JSON has at its path; what is unknown breaks it and says why, and a run
//! that shows nothing is not judged.

use std::time::Duration;

use anywire_load::figures::{COLUMNS, FIGURES, STATISTICS};
use anywire_load::{Latency, Outcome, RequestFigures, Threshold, Verdict, judge};
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

/// A request whose latencies are those of 1 us to so many.
fn request(name: &str, answered: u64, bad: u64) -> RequestFigures {
    let mut latency = Latency::new();
    (1..=answered).for_each(|us| latency.record(Duration::from_micros(us)));
    let statuses = [(200, answered - bad), (503, bad)].into();
    RequestFigures { name: name.to_owned(), answered, bad, statuses, latency: latency.summary() }
}

#[test]
fn by_any_percentile() {
    let mut outcome = sample::outcome();
    let found = judged("p95<1s", &outcome);
    assert_eq!((found.verdict, &*found.figure), (Verdict::Held, "latency.send.p95"));
    let (p90, p99) = outcome.latency.send.as_ref().map(|send| (send.p90, send.p99)).unwrap();
    assert!(found.found.is_some_and(|p95| p90 <= p95 && p95 <= p99), "{found:?}");
    assert_eq!(judged("p99.95<1us", &outcome).verdict, Verdict::Broken);
    // The histogram is what has it.
    outcome.latency.send.as_mut().unwrap().hdr = None;
    assert!(
        judged("p95<1s", &outcome)
            .to_string()
            .ends_with("unknown, because the result has no histogram of it")
    );
    assert_eq!(judged("p99<1s", &outcome).verdict, Verdict::Held);
}

#[test]
fn by_the_figures_of_one_request() {
    let mut outcome = sample::outcome();
    assert!(judged("p99{a}<1s", &outcome).to_string().ends_with("because the run had one request alone"));
    outcome.requests =
        vec![request("GET /cart", 1000, 0), request("pay {id}", 100, 10), request("twice", 10, 0)];
    outcome.requests.push(request("twice", 30, 3));
    let json: Value = serde_json::from_str(&outcome.to_json()).expect("it is JSON");
    for (threshold, verdict, path) in [
        ("p99{GET /cart}<995us", Verdict::Held, "requests.0.latency.p99"),
        ("p99{GET /cart}<980us", Verdict::Broken, "requests.0.latency.p99"),
        ("p95{GET /cart}<=951us", Verdict::Held, "requests.0.latency.p95"),
        ("max{pay {id}}<200us", Verdict::Held, "requests.1.latency.max"),
        ("answered{pay {id}}=100", Verdict::Held, "requests.1.answered"),
        ("bad{pay {id}}<=10%", Verdict::Held, "requests.1.bad"),
        ("status.5xx{pay {id}}<10%", Verdict::Broken, "requests.1.statuses.5xx"),
        ("status.503{pay {id}}=10", Verdict::Held, "requests.1.statuses.503"),
        // Those of one name are one.
        ("answered{twice}=40", Verdict::Held, "requests"),
        ("bad{twice}<7%", Verdict::Broken, "requests"),
        ("max{twice}<31us", Verdict::Held, "requests"),
    ] {
        let found = judged(threshold, &outcome);
        assert_eq!((found.verdict, &*found.figure), (verdict, path), "{found}");
        if let Some(there) = json.pointer(&format!("/{}", path.replace('.', "/"))).and_then(Value::as_f64) {
            let found = if found.unit == "share" { there / 100.0 } else { there };
            assert_eq!(judged(threshold, &outcome).found, Some(found), "{threshold}");
        }
    }
    let unknown = judged("p99{GET /card}<1s", &outcome);
    assert_eq!(unknown.verdict, Verdict::Broken);
    assert!(unknown.to_string().contains("no request of the run is named \"GET /card\""), "{unknown}");
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
    outcome.requests = vec![request("GET /a", 1000, 0), request("GET /<b>", 500, 1)];
    let asked = ["p50<1us", "errors<5", "p95{GET /a}<1ms"].map(|one| one.parse().unwrap());
    outcome.thresholds = judge(&asked, &outcome);
    let (text, page) = (outcome.to_string(), anywire_load::report::outcome(&outcome));
    assert!(text.contains("p50<1us          broken  asked < 1.00 us, found"), "{text}");
    assert!(text.contains("errors<5         held    found 3"), "{text}");
    assert!(text.contains("p95{GET /a}<1ms  held    found 950 us"), "{text}");
    // The page has each request, as the text has.
    assert!(text.contains("499 x 200, 1 x 503"), "{text}");
    assert!(page.contains("GET /&lt;b&gt;") && page.contains("499 x 200, 1 x 503"));
    assert!(page.contains("p50&lt;1us") && page.contains("broken"));
    let read: Outcome = serde_json::from_str(&outcome.to_json()).expect("it is JSON");
    assert_eq!(read.thresholds, outcome.thresholds);
}
