//! docs/load-result.md has a line for each field of the JSON of a load, with its unit and meaning, and none for what is not there.

use std::collections::BTreeSet;

use anywire_load::figures::{COLUMNS, FIGURES};
use anywire_load::judge;
use serde_json::Value;

use crate::support::sample;

#[test]
fn in_the_page_of_the_schema() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/load-result.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let documented: BTreeSet<String> = page
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect();
    let mut outcome = sample::outcome();
    outcome.thresholds = judge(&["p99<1us".parse().unwrap()], &outcome);
    outcome.search = Some(sample::search());
    let json = serde_json::to_value(&outcome).expect("it is JSON");
    let mut fields = BTreeSet::new();
    collect("", &json, &mut fields);
    // Only in files of intervals.
    fields.insert("intervals[].latency.hdr".to_owned());
    // Classes of statuses are named together.
    fields
        .extend(COLUMNS.iter().filter(|one| !one.path.contains("by_status")).map(|one| one.path.to_owned()));
    let missing: Vec<_> = fields.difference(&documented).collect();
    assert!(missing.is_empty(), "fields without a line: {missing:#?}");
    let gone: Vec<_> = documented.difference(&fields).collect();
    assert!(gone.is_empty(), "lines without a field: {gone:#?}");
    // The lines of the described figures are made of their description.
    let mut wrong = Vec::new();
    for figure in FIGURES.iter().filter(|figure| figure.path != "totals.errors") {
        wrong.push(format!("| `{}` | {} | {} |", figure.path, figure.unit.name(), figure.meaning));
    }
    for column in COLUMNS.iter().filter(|one| !one.path.contains("by_status")) {
        wrong.push(format!("| `{}` | us | {} |", column.path, column.meaning));
    }
    wrong.retain(|line| !page.contains(&format!("\n{line}\n")));
    assert!(wrong.is_empty(), "lines that are not there as they are described:\n{}", wrong.join("\n"));
}

/// The places of all fields: `[]` is any entry of a list, `*` any key of a map.
fn collect(path: &str, value: &Value, fields: &mut BTreeSet<String>) {
    let named = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(parts) if MAPS.contains(&path) => {
            assert!(!parts.is_empty(), "{path} has no key to show its form");
            let key = if path == "latency.by_status" { "latency.*".to_owned() } else { named("*") };
            parts.values().for_each(|part| collect(&key, part, fields));
        }
        Value::Object(parts) => {
            for (name, part) in parts {
                // The sets of latencies are alike, and what of them is not there has no fields.
                let place = if path == "latency" && name != "by_status" {
                    "latency.*".to_owned()
                } else {
                    named(name)
                };
                if place != "latency.*" || !part.is_null() {
                    collect(&place, part, fields);
                }
            }
        }
        Value::Array(all) if all.iter().any(Value::is_object) => {
            all.iter().for_each(|one| collect(&format!("{path}[]"), one, fields));
        }
        _ => drop(fields.insert(path.to_owned())),
    }
}

/// Fields whose keys are no names of fields.
const MAPS: &[&str] = &[
    "totals.errors",
    "totals.addresses",
    "totals.statuses",
    "totals.warm_up.errors",
    "generator.syscalls_by_name",
    "latency.by_status",
];
