//! HTTP over TCP: servers and clients beside their peers.

use serde_json::Value;

use super::markdown::{code, figure, median, spread, table};
use super::{Results, find, items};

/// The servers in one table: the CPU time of a request under each load, and idle connections.
pub(super) fn summary(results: &Results) -> String {
    const SERVERS: [&str; 9] =
        ["limit", "anywire", "may_minihttp", "hyper", "axum", "actix-web", "nginx", "h2o", "nghttpd"];
    let [http1, http2, tls] = ["http-server", "http-server-h2", "tls"].map(|name| results.of(name));
    let rows = [
        ("HTTP/1.1, 64 connections", rows(http1, "depth-1"), "cpu_us_per_request"),
        ("HTTP/1.1, 64 connections, 16 requests pipelined", rows(http1, "depth-16"), "cpu_us_per_request"),
        ("HTTP/1.1, 10,000 connections", rows(http1, "connections-10000"), "cpu_us_per_request"),
        ("HTTP/1.1, JSON both ways, three layers", rows(http1, "api"), "cpu_us_per_request"),
        ("HTTP/2, 64 connections, 1 stream", rows(http2, "h2-64x1"), "cpu_us_per_request"),
        ("HTTP/2, 64 connections, 16 streams", rows(http2, "h2-64x16"), "cpu_us_per_request"),
        ("HTTP/2, 1 connection, 100 streams", rows(http2, "h2-1x100"), "cpu_us_per_request"),
        ("HTTP/2, 1 connection, 8 streams of 1 MiB", rows(http2, "h2-large"), "cpu_us_per_request"),
        ("HTTP/1.1 over TLS, 64 connections", rows(tls, "keep-alive"), "figure"),
        ("a TLS 1.3 handshake and one request", rows(tls, "full"), "figure"),
        ("bytes of an idle connection", &http1["idle"]["rows"], "anonymous_bytes_per_connection"),
        ("bytes of an idle connection with TLS", rows(tls, "idle"), "figure"),
    ];
    let headings: Vec<_> = ["load"].into_iter().chain(SERVERS).collect();
    let rows = rows.into_iter().map(|(load, rows, key)| {
        let figures = SERVERS.map(|server| figure(median(&find(rows, "name", server)[key])));
        [load.to_owned()].into_iter().chain(figures).collect()
    });
    table(&headings, rows)
}

/// Servers over HTTP/1.1.
pub(super) fn servers(results: &Results) -> String {
    let result = results.of("http-server");
    let [one, sixteen, many] =
        ["depth-1", "depth-16", "connections-10000"].map(|scenario| rows(result, scenario));
    let headings = [
        "server",
        "64 connections",
        "x limit",
        "calls",
        "16 pipelined",
        "x limit",
        "10,000 connections",
        "x limit",
        "idle, bytes",
    ];
    let rows = items(one).map(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        let of = |rows| find(rows, "name", name);
        let idle = of(&result["idle"]["rows"]);
        let mut cells = vec![code(&row["name"])];
        for (rows, has_calls) in [(one, true), (sixteen, false), (many, false)] {
            cells.push(spread(&of(rows)["cpu_us_per_request"]));
            cells.push(figure(median(&of(rows)["ratio_to_limit"])));
            if has_calls {
                cells.push(figure(of(rows)["system_calls_per_request"].as_f64()));
            }
        }
        cells.push(figure(median(&idle["anonymous_bytes_per_connection"])));
        cells
    });
    table(&headings, rows)
}

/// Servers over HTTP/2.
pub(super) fn servers_of_http2(results: &Results) -> String {
    let result = results.of("http-server-h2");
    let scenarios = [
        ("h2-64x16", "64 connections, 16 streams"),
        ("h2-1x100", "1 connection, 100 streams"),
        ("h2-64x1", "64 connections, 1 stream"),
        ("h2-large", "1 connection, 8 streams of 1 MiB"),
    ];
    let measured = scenarios.map(|(name, text)| (rows(result, name), text));
    let idle = items(&result["idle"]["rows"])
        .map(|row| vec![code(&row["name"]), figure(median(&row["anonymous_bytes_per_connection"]))]);
    let headings = ["server", "an idle connection, after 100 requests of a browser: bytes"];
    format!("{}\n{}", beside_anywire("server", "cpu_us_per_request", &measured), table(&headings, idle))
}

/// Clients over both versions.
pub(super) fn clients(results: &Results) -> String {
    let [http1, http2] = ["http-client", "http-client-h2"].map(|name| results.of(name));
    let scenarios = [
        (rows(http1, "64 in flight"), "HTTP/1.1, 64 connections"),
        (rows(http2, "h2-1x100"), "HTTP/2, 1 connection, 100 streams"),
        (rows(http2, "h2-4x16"), "HTTP/2, 4 connections, 16 streams"),
    ];
    beside_anywire("client", "cpu_us_per_request", &scenarios)
}

/// Servers with TLS.
pub(super) fn tls(results: &Results) -> String {
    let result = results.of("tls");
    let scenarios = [
        ("keep-alive", "64 connections, us a request"),
        ("full", "full handshake, us"),
        ("resumed", "resumed handshake, us"),
        ("idle", "idle, bytes"),
        ("h2-idle", "idle over HTTP/2, bytes"),
    ];
    let measured = scenarios.map(|(name, text)| (rows(result, name), text));
    let measured: Vec<_> = measured.into_iter().filter(|(rows, _)| !rows.is_null()).collect();
    beside_anywire("server with TLS", "figure", &measured)
}

/// A table with a figure of each candidate in each scenario, and anywire's figure over it.
fn beside_anywire(first: &str, key: &str, scenarios: &[(&Value, &str)]) -> String {
    let headings: Vec<_> =
        [first].into_iter().chain(scenarios.iter().flat_map(|(_, text)| [*text, "anywire / this"])).collect();
    let mut names: Vec<&str> = Vec::new();
    for row in scenarios.iter().flat_map(|(rows, _)| items(rows)) {
        let name = row["name"].as_str().unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let rows = names.into_iter().map(|name| {
        let cells = scenarios.iter().flat_map(|(rows, _)| {
            let row = find(rows, "name", name);
            let ratio =
                if name == "anywire" { String::new() } else { figure(median(&row["anywire_to_this"])) };
            [spread(&row[key]), ratio]
        });
        [format!("`{name}`")].into_iter().chain(cells).collect()
    });
    table(&headings, rows)
}

/// The rows of a scenario.
fn rows<'r>(result: &'r Value, scenario: &str) -> &'r Value {
    &find(&result["scenarios"], "name", scenario)["rows"]
}
