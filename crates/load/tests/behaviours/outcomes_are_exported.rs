//! CSV is a table with one row a run, and metrics are in the text format of Prometheus: what is unknown is in neither as a zero.

use std::collections::{BTreeMap, BTreeSet};

use anywire_load::{Latencies, Outcome, export, judge};

use crate::support::sample;

/// The cells of a text of CSV (RFC 4180).
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut signs = text.chars().peekable();
    let mut quoted = false;
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.peek() == Some(&'"') => cell.extend(signs.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted => {
                assert_eq!(signs.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(row.is_empty() && cell.is_empty() && !quoted, "the last line ends");
    rows
}

fn csv(outcome: &Outcome) -> BTreeMap<String, String> {
    let rows = rows(&export::csv(outcome));
    let [headings, values] = &rows[..] else { panic!("two rows: {rows:?}") };
    assert_eq!(headings.len(), values.len());
    let cells: BTreeMap<_, _> = headings.iter().cloned().zip(values.iter().cloned()).collect();
    assert_eq!(cells.len(), headings.len(), "no heading is there twice");
    cells
}

#[test]
fn csv_has_one_row_of_the_same_columns_for_any_outcome() {
    let mut outcome = sample::outcome();
    outcome.target.url = "http://h/?a=\"1,2\"".to_owned();
    let cells = csv(&outcome);
    assert_eq!(cells["url"], outcome.target.url);
    assert_eq!(cells["rate.achieved"], "20000");
    assert_eq!(cells["totals.errors.close"], "3");
    assert_eq!(cells["totals.statuses.4xx"], "10");
    assert_eq!(cells["latency.send.p99_9_us"], outcome.latency.send.as_ref().unwrap().p99_9.to_string());
    assert_eq!(cells["generator.cpu_us_per_request"], "5.5");
    outcome.latency.send = None;
    outcome.rate.achieved = None;
    let unknown = csv(&outcome);
    assert_eq!((unknown["latency.send.p99_us"].as_str(), unknown["rate.achieved"].as_str()), ("", ""));
    assert!(unknown.keys().eq(cells.keys()));
}

/// The samples by name and labels, if the text keeps the rules of the format: each metric has its help and type before its samples,
/// once; names and labels are well formed; no sample is there twice; the text ends with a line feed.
fn samples(text: &str) -> BTreeMap<(String, Vec<(String, String)>), f64> {
    assert!(text.ends_with('\n'));
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let (mut helped, mut family, mut kind) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name and a text");
            assert!(!help.is_empty() && families.insert(name.to_owned()), "{line}");
            helped = name.to_owned();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').expect("a name and a type");
            assert!(name == helped && ["counter", "gauge", "summary"].contains(&of), "{line}");
            (family, kind) = (name.to_owned(), of.to_owned());
            assert_eq!(kind == "counter", family.ends_with("_total"), "{line}");
            continue;
        }
        let (name, rest) = line.split_once('{').expect("labels");
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        let own = match name.strip_prefix(&family).expect("a sample follows its type") {
            "" => true,
            "_sum" | "_count" => kind == "summary",
            _ => false,
        };
        assert!(is_name(name) && own, "{line}");
        let (labels, value) = labels(rest);
        assert!(labels.iter().all(|(name, _)| is_name(name)), "{line}");
        let value: f64 = value.strip_prefix(' ').expect("a space").parse().expect("a number");
        assert!(value.is_finite() && value >= 0.0, "{line}");
        assert!(samples.insert((name.to_owned(), labels), value).is_none(), "twice: {line}");
    }
    samples
}

/// The labels before the brace that ends them, and what follows.
fn labels(text: &str) -> (Vec<(String, String)>, &str) {
    let (mut all, mut rest) = (Vec::new(), text);
    loop {
        let (name, value) = rest.split_once("=\"").expect("a name and a value");
        let (mut read, mut signs) = (String::new(), value.char_indices());
        let end = loop {
            match signs.next().expect("a value ends") {
                (at, '"') => break at,
                (_, '\\') => match signs.next().expect("an escaped sign").1 {
                    'n' => read.push('\n'),
                    sign => {
                        assert!("\\\"".contains(sign));
                        read.push(sign);
                    }
                },
                (_, sign) => read.push(sign),
            }
        };
        all.push((name.to_owned(), read));
        match value[end + 1..].split_at(1) {
            (",", more) => rest = more,
            ("}", more) => return (all, more),
            (other, _) => panic!("{other:?} in {text}"),
        }
    }
}

#[test]
fn metrics_keep_the_rules_of_prometheus() {
    let mut outcome = sample::outcome();
    outcome.target.url = "http://h/a\\b\"c\nd".to_owned();
    outcome.thresholds = judge(&["p50<1us".parse().unwrap(), "errors<5".parse().unwrap()], &outcome);
    let found = samples(&export::prometheus(&outcome));
    let value = |name: &str, labels: &[(&str, &str)]| {
        let is_it = |(one, of): &&(String, Vec<(String, String)>)| {
            one == name
                && labels.iter().all(|(name, value)| of.iter().any(|(own, is)| own == name && is == value))
        };
        let mut all = found.keys().filter(is_it);
        let key = all.next().unwrap_or_else(|| panic!("no {name} {labels:?} in {found:?}"));
        assert!(all.next().is_none(), "{name} {labels:?} is there twice");
        found[key]
    };
    let url = outcome.target.url.as_str();
    assert_eq!(value("anywire_load_rate_achieved_per_second", &[("url", url)]), 20_000.0);
    assert_eq!(value("anywire_load_errors_total", &[("kind", "close")]), 3.0);
    assert_eq!(value("anywire_load_responses_total", &[("status", "404")]), 10.0);
    assert_eq!(value("anywire_load_cpu_seconds_per_request", &[]), 5.5e-6);
    let send = outcome.latency.send.as_ref().unwrap();
    let p99 = value("anywire_load_latency_seconds", &[("from", "send"), ("quantile", "0.99")]);
    assert_eq!(p99, send.p99 / 1e6);
    assert_eq!(value("anywire_load_latency_seconds_count", &[("from", "send")]), send.count as f64);
    assert_eq!(value("anywire_load_threshold_held", &[("threshold", "p50<1us")]), 0.0);
    assert_eq!(value("anywire_load_threshold_held", &[("threshold", "errors<5")]), 1.0);
    assert_eq!(value("anywire_load_in_bytes_total", &[]), 3e7);
    outcome.rate.achieved = None;
    outcome.latency = Latencies::default();
    let text = export::prometheus(&outcome);
    samples(&text);
    assert!(!text.contains("rate_achieved") && !text.contains("latency_seconds"));
}
