//! What an extractor or a layer costs: the instructions of a request to a route with it, less those to the same route without it. And what
//! it costs a request that there are 1,000 routes in place of 10.
//!
//! ```sh
//! cargo run --release --manifest-path docs/peers/Cargo.toml --bin extractors -- --json bench/results/extractors.json
//! cargo run --release --manifest-path docs/peers/Cargo.toml --bin extractors -- --layers --json bench/results/layers.json
//! ```
//!
//! Without the file it prints alone.
//!
//! axum decodes the parameters of a path before it knows whether the handler takes them, so that the route without the extractor of
//! paths has no parameters either. Needs valgrind, whose callgrind counts. Client and server run in one process, over memory. A cost is a difference of two
//! routes and of two numbers of requests, so that the client, the start and the HTTP engine are no part of it.

mod layers;
mod ours;
mod peers;

use std::fmt::Write;
use std::fs;
use std::process::{Command, ExitCode};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What is extracted: the name of the row, and the request.
const ROWS: [(&str, &str); 6] = [
    ("path", "GET /path/ada/4711 HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("query", "GET /query?page=7&size=100&tag=green+tea HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("header", "GET /header HTTP/1.1\r\nhost: x\r\naccept: */*\r\nx-tenant: 4711\r\n\r\n"),
    (
        "form",
        "POST /form HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 30\r\n\r\n\
         page=7&size=100&tag=green+tea1",
    ),
    (
        "json",
        "POST /json HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 43\r\n\r\n\
         {\"page\": 7, \"size\": 100, \"tag\": \"greentea\"}",
    ),
    (
        "cookies",
        "GET /cookies HTTP/1.1\r\nhost: x\r\ncookie: theme=dark; session=4711abcdef; lang=en\r\n\r\n",
    ),
];

/// A route among many: what it is, and the request. Their numbers are those of services, of which there are 10 or 1,000.
const ROUTES: [(&str, &str); 2] = [
    ("with a variable", "GET /service5/items/7 HTTP/1.1\r\nhost: x\r\n\r\n"),
    ("literal", "GET /literal9/items HTTP/1.1\r\nhost: x\r\n\r\n"),
];

/// The field that the extractors of headers take.
pub(crate) const FIELD: &str = "x-tenant";

/// What queries, forms and JSON become.
#[derive(serde::Deserialize)]
pub(crate) struct Search {
    pub(crate) page: u32,
    pub(crate) size: u32,
    pub(crate) tag: String,
}

impl Search {
    pub(crate) fn sum(&self) -> u32 {
        self.page + self.size + self.tag.len() as u32
    }
}

/// The end of each response, by which the client knows it. An answer that is wrong ends otherwise, and the client waits in vain.
pub(crate) const DONE: &str = "done\n";

pub(crate) fn done(value: impl Copy) -> &'static str {
    std::hint::black_box(value);
    DONE
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => drop(table()),
        ["--json", file] => return written(file, &table()),
        ["--layers"] => drop(layers::table()),
        ["--layers", "--json", file] => return written(file, &layers::table()),
        [library, row, route, count] => run(library, row, route, count),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// Prints the costs of all rows, and returns them as the result file has them.
fn table() -> String {
    let (mut extractors, mut routes, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    println!("| extractor | anywire | axum | anywire / axum |\n| --- | --- | --- | --- |");
    for (row, _) in ROWS {
        let [ours, peers] = ["anywire", "axum"]
            .map(|library| cost(library, row, "with", 1000) - cost(library, row, "plain", 1000));
        let ratio = ours / peers;
        println!("| {row} | {ours:.0} | {peers:.0} | {ratio:.2} |");
        extractors.push(format!(
            r#"{{"extractor": "{row}", "anywire": {ours:.0}, "axum": {peers:.0}, "ratio": {ratio:.3}}}"#
        ));
        bars.push(bar(&format!("extractor, {row}: anywire / axum, instructions"), 1.0, ratio));
    }
    println!("\n| route | of 10 services | of 1,000 | 1,000 / 10 |\n| --- | --- | --- | --- |");
    for (row, _) in ROUTES {
        // More requests: the start with so many routes differs from run to run.
        let [few, many] = ["10", "1000"].map(|services| cost("anywire", row, services, 10_000));
        let ratio = many / few;
        println!("| {row} | {few:.0} | {many:.0} | {ratio:.3} |");
        routes.push(format!(
            r#"{{"route": "{row}", "of_10": {few:.0}, "of_1000": {many:.0}, "ratio": {ratio:.3}}}"#
        ));
        bars.push(bar(&format!("route {row}, 1,000 services / 10, instructions"), 1.05, ratio));
    }
    result("extractors", [("extractors", extractors), ("routes", routes), ("bars", bars)])
}

/// A result file of these lists.
fn result<const N: usize>(bench: &str, lists: [(&str, Vec<String>); N]) -> String {
    let mut text = format!("{{\n  \"schema\": \"anywire.bench/1\",\n  \"bench\": \"{bench}\"");
    for (key, rows) in lists {
        let _ = write!(text, ",\n  \"{key}\": [\n    {}\n  ]", rows.join(",\n    "));
    }
    text + "\n}\n"
}

fn bar(what: &str, at_most: f64, value: f64) -> String {
    let met = value <= at_most;
    format!(r#"{{"what": "{what}", "bar": "<= {at_most:.2}", "value": {value:.3}, "met": {met}}}"#)
}

fn written(file: &str, result: &str) -> ExitCode {
    match fs::write(file, result) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{file}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Instructions of a request, from so many.
fn cost(library: &str, row: &str, route: &str, requests: u32) -> f64 {
    let [few, many] =
        [500, 500 + requests].map(|count| instructions(library, row, route, &count.to_string()));
    (many - few) / f64::from(requests)
}

/// The fewest of three runs: on a machine that is busy, threads that watch others now and then have more to do.
fn instructions(library: &str, row: &str, route: &str, count: &str) -> f64 {
    let runs = (0..3).map(|_| instructions_once(library, row, route, count));
    runs.fold(f64::INFINITY, f64::min)
}

fn instructions_once(library: &str, row: &str, route: &str, count: &str) -> f64 {
    let program = std::env::current_exe().expect("a program has a path");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args([library, row, route, count]);
    // Where valgrind places the vDSO, a look at it sometimes fails: another run places it elsewhere.
    let mut attempts = (0..5).map(|_| valgrind.output().expect("valgrind is installed"));
    let output = attempts.find(|output| output.status.success()).expect("one of five runs succeeds");
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    collected.and_then(|(_, count)| count.trim().parse().ok()).expect("callgrind says what it collected")
}

fn run(library: &str, row: &str, route: &str, count: &str) {
    let count: u32 = count.parse().expect("a number");
    if route == layers::ROUTE {
        return layers::run(library, row, count);
    }
    let (_, request) = ROWS.iter().chain(&ROUTES).find(|(name, _)| *name == row).expect("a row");
    match (library, route) {
        ("anywire", "10") => ours::run(ours::services(10), request, count),
        ("anywire", "1000") => ours::run(ours::services(1000), request, count),
        ("anywire", "plain") => ours::run(ours::plain(), request, count),
        ("anywire", _) => ours::run(ours::extracting(), request, count),
        (_, "plain") => peers::run(peers::plain(), request, count),
        _ => peers::run(peers::extracting(), request, count),
    }
}

/// Sends so many requests, one after the other.
pub(crate) async fn ask(mut connection: impl AsyncRead + AsyncWrite + Unpin, request: &str, count: u32) {
    let mut answer = Vec::with_capacity(1024);
    for _ in 0..count {
        connection.write_all(request.as_bytes()).await.expect("the server reads");
        connection.flush().await.expect("the server reads");
        answer.clear();
        while !answer.ends_with(DONE.as_bytes()) {
            let read = connection.read_buf(&mut answer).await.expect("the server answers");
            assert!(read > 0 && answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        }
    }
}
