//! The tables of measured figures in the documents, made from the results under `bench/results`: no figure is typed by hand.
//!
//! A page marks where a table belongs, by `<!-- figures:NAME -->` before it and `<!-- figures:end -->` behind it. [`filled`]
//! writes what stands between them. `bench figures` does so for all [`PAGES`], and a test of this repository compares: it
//! compiles this folder as well, which is why nothing here knows the rest of the bench.

mod bars;
mod callers;
mod generators;
mod handlers;
mod http;
mod ladder;
mod local;
mod markdown;
mod pools;
mod runs;
mod stack;
mod swarm;

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;

/// The pages that have such tables, relative to the root of the repository.
pub(crate) const PAGES: [&str; 4] = ["README.md", "docs/FIGURES.md", "docs/ladder.md", "docs/stack.md"];

/// The results, by the names of their files without `.json`.
pub(crate) struct Results(BTreeMap<String, Value>);

impl Results {
    /// All results in a folder.
    ///
    /// # Errors
    /// The folder or a file in it cannot be read, or a file is not JSON.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut results = BTreeMap::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".json")) else {
                continue;
            };
            results.insert(name.to_owned(), serde_json::from_slice(&fs::read(&path)?)?);
        }
        Ok(Self(results))
    }

    /// The result of this name. What is missing is null, and so is all that is looked up in it.
    fn of(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&NULL)
    }
}

/// The page with each of its tables as the results have it.
///
/// # Errors
/// A table has no name that is known here, or no end.
pub(crate) fn filled(page: &str, results: &Results) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->\n").ok_or("a table's mark does not end")?;
        let (_, after) = after.split_once(END).ok_or_else(|| format!("`{name}` has no `{END}`"))?;
        let table = table(name, results).ok_or_else(|| format!("there is no table `{name}`"))?;
        text += &format!("{before}{BEGIN}{name} -->\n{table}{END}");
        rest = after;
    }
    Ok(text + rest)
}

fn table(name: &str, results: &Results) -> Option<String> {
    Some(match name {
        "servers" => http::summary(results),
        "http-server" => http::servers(results),
        "http-server-h2" => http::servers_of_http2(results),
        "http-client" => http::clients(results),
        "bursts" => callers::bursts(results),
        "pipelined" => callers::pipelined(results),
        "tls" => http::tls(results),
        "messages" => local::messages(results),
        "http-on-wires" => local::http(results),
        "datagram-echo" => local::echo(results),
        "datagram-rate" => local::rate(results),
        "generators" => generators::costs(results),
        "generators-steady" => generators::steady(results),
        "generators-stopped" => generators::stopped(results),
        "instructions" => handlers::instructions(results),
        "extractors" => handlers::extractors(results),
        "layers" => handlers::layers(results),
        "routes" => handlers::routes(results),
        "pool-hand-over" => pools::hand_over(results),
        "pool-overload" => pools::overload(results),
        "ladder" => ladder::rungs(results),
        "ladder-memory" => ladder::memory(results),
        "hand-over" => ladder::hand_overs(results),
        "swarm" => swarm::cases(results),
        "stack-worth" => stack::worth(results),
        "stack-throughput" => stack::throughput(results),
        "stack-bulk" => stack::bulk(results),
        "stack-http" => stack::http(results),
        "stack-floods" => stack::floods(results),
        "bars" => bars::all(results),
        "runs" => runs::all(results),
        _ => return None,
    })
}

/// The item of a list that has this under that key.
fn find<'v>(list: &'v Value, key: &str, wanted: &str) -> &'v Value {
    items(list).find(|item| item[key] == wanted).unwrap_or(&NULL)
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

static NULL: Value = Value::Null;
const BEGIN: &str = "<!-- figures:";
const END: &str = "<!-- figures:end -->";

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Results {
        Results(BTreeMap::new())
    }

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_the_rest_stays() {
        let page = "a\n<!-- figures:runs -->\nold\n<!-- figures:end -->\nb\n";
        let filled = filled(page, &nothing()).expect("both marks are there");
        assert!(
            filled.starts_with("a\n<!-- figures:runs -->\n| ") && filled.ends_with("-->\nb\n"),
            "{filled}"
        );
        assert!(!filled.contains("old"));
    }

    #[test]
    fn a_table_that_is_unknown_or_does_not_end_is_an_error() {
        assert!(filled("<!-- figures:none -->\n<!-- figures:end -->", &nothing()).is_err());
        assert!(filled("<!-- figures:runs -->\n", &nothing()).is_err());
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let table = table("servers", &nothing()).expect("there is such a table");
        assert!(table.contains("| – |"), "{table}");
    }
}
