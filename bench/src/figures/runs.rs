//! Where, how long and in which order each result was measured.

use serde_json::Value;

use super::markdown::{count, figure, table};
use super::{NULL, Results};

/// A row for each result.
pub(super) fn all(results: &Results) -> String {
    let rows = results.0.iter().map(|(name, result)| {
        // Some results keep their plan apart.
        let of = |key: &str| [&result["plan"][key], &result[key]].into_iter().find(|value| !value.is_null());
        let seconds = match (of("duration_seconds").or_else(|| of("seconds")), of("milliseconds")) {
            (Some(seconds), Some(milliseconds)) => {
                format!("{} s, messages {} ms", plain(seconds), plain(milliseconds))
            }
            // Its cases differ.
            _ if name.starts_with("swarm") => "by case".to_owned(),
            (Some(seconds), None) => format!("{} s", plain(seconds)),
            _ => figure(None),
        };
        let machine = if result["machine"].is_null() { &result["host"] } else { &result["machine"] };
        let load = of("generator").and_then(Value::as_str).unwrap_or_default();
        vec![
            format!("[{name}](../bench/results/{name}.json)"),
            match machine {
                // Instructions are counted, and no time.
                Value::Null => "any".to_owned(),
                machine => format!("{}, {} cores", plain(&machine["cpu"]), plain(&machine["cores"])),
            },
            plain(&machine["kernel"]),
            count(of("rounds").unwrap_or(&NULL)),
            seconds,
            of("seed").map_or_else(|| figure(None), plain),
            load.to_owned(),
        ]
    });
    table(&["result", "machine", "kernel", "rounds", "each", "seed", "load by"], rows)
}

/// A value as it is, without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => figure(None),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
