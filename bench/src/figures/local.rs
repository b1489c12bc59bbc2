//! What stays on one machine: messages, HTTP on each wire, datagrams.

use serde_json::Value;

use super::markdown::{code, count, figure, median, millions, spread, table};
use super::{Results, items};

/// Messages of 100 bytes by each way.
pub(super) fn messages(results: &Results) -> String {
    let messages = &results.of("ipc")["messages"];
    let of = |pattern: &str, way: &Value| {
        items(messages).find(|row| row["pattern"] == pattern && row["way"] == *way).map(|row| &row["figure"])
    };
    let ways = items(messages).filter(|row| row["pattern"] == "ping-pong");
    let rows = ways.map(|row| {
        let stream = of("stream", &row["way"]).and_then(median);
        let waits = row["waits"].as_str().unwrap_or_default();
        vec![code(&row["way"]), waits.to_owned(), spread(&row["figure"]), millions(stream)]
    });
    table(&["way", "an end that waits", "round trip, us", "messages/s"], rows)
}

/// HTTP on the wires between two processes.
pub(super) fn http(results: &Results) -> String {
    let rows = items(&results.of("ipc")["http"]).map(|row| {
        let requests = count(&row["requests_per_second"]["median"]);
        vec![code(&row["wire"]), spread(&row["cpu_us_per_request"]), requests]
    });
    table(&["wire", "server CPU, us a request", "requests/s"], rows)
}

/// The echo of datagrams beside a bare loop.
pub(super) fn echo(results: &Results) -> String {
    let rows = items(&results.of("udp")["echo"]).map(|row| {
        let flows = count(&row["flows"]);
        vec![code(&row["name"]), flows, spread(&row["cpu_us_per_datagram"]), spread(&row["to_limit"])]
    });
    table(&["server", "flows", "CPU, us a datagram", "x limit"], rows)
}

/// A rate of datagrams that is to be stood without a loss.
pub(super) fn rate(results: &Results) -> String {
    let udp = results.of("udp");
    let rows = items(&udp["steady"]).map(|row| {
        let cpu: Vec<_> = items(&row["cpu_by_loop"]).map(|share| figure(share.as_f64())).collect();
        let name = row["name"].as_str().unwrap_or_default().to_owned();
        vec![name, count(&row["rate"]), count(&row["sent"]), count(&row["lost"]), cpu.join(", ")]
    });
    let joined = &udp["joined"];
    let gain = format!(
        "\nDatagrams for each CPU second, of both ends: {} one a call, {} joined by the kernel ({} times).\n",
        millions(median(&joined["one_a_call"])),
        millions(median(&joined["joined"])),
        figure(median(&joined["gain"]))
    );
    table(&["service", "datagrams/s", "sent", "lost", "cores that its loops used"], rows) + &gain
}
