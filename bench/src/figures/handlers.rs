//! What stands between the wire and a handler, in instructions.

use super::markdown::{count, figure, table};
use super::{Results, items};

/// A request in the server, and a call in the client.
pub(super) fn instructions(results: &Results) -> String {
    let rows = items(&results.of("instructions")["rows"])
        .map(|row| vec![row["what"].as_str().unwrap_or_default().to_owned(), count(&row["instructions"])]);
    table(&["a request in the", "instructions"], rows)
}

/// Extractors beside axum's.
pub(super) fn extractors(results: &Results) -> String {
    let rows = items(&results.of("extractors")["extractors"]).map(|row| {
        let [ours, peers] = ["anywire", "axum"].map(|key| count(&row[key]));
        vec![
            row["extractor"].as_str().unwrap_or_default().to_owned(),
            ours,
            peers,
            figure(row["ratio"].as_f64()),
        ]
    });
    table(&["extractor", "anywire", "axum", "anywire / axum"], rows)
}

/// Layers and services of the tower crates beside axum's.
pub(super) fn layers(results: &Results) -> String {
    let rows = items(&results.of("layers")["layers"]).map(|row| {
        let [ours, peers] = ["anywire", "axum"].map(|key| count(&row[key]));
        vec![row["layer"].as_str().unwrap_or_default().to_owned(), ours, peers, figure(row["ratio"].as_f64())]
    });
    table(&["around a route", "anywire", "axum", "anywire / axum"], rows)
}

/// Few and many routes.
pub(super) fn routes(results: &Results) -> String {
    let rows = items(&results.of("extractors")["routes"]).map(|row| {
        let [few, many] = ["of_10", "of_1000"].map(|key| count(&row[key]));
        let ratio = row["ratio"].as_f64().map_or_else(|| figure(None), |ratio| format!("{ratio:.3}"));
        vec![row["route"].as_str().unwrap_or_default().to_owned(), few, many, ratio]
    });
    table(&["route", "10 services", "1,000 services", "1,000 / 10"], rows)
}
