//! What a service does, as text: in the order and under the names of ss, nstat and ip.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use serde_json::Value;

use super::process::hosts;
use super::stat::text;

/// Addresses and neighbours.
pub(super) fn links(stat: &Value) -> String {
    let mut out = String::new();
    for host in hosts(stat) {
        let (device, number) = (text(&host["device"]), &host["loop"]);
        let _ = writeln!(out, "{device} loop {number}: mtu {} lladdr {}", host["mtu"], text(&host["lladdr"]));
        for address in list(&host["addresses"]) {
            let is_tentative = if address["ready"] == true { "" } else { " tentative" };
            let family = if text(&address["address"]).contains(':') { "inet6" } else { "inet" };
            let _ = writeln!(out, "    {family} {}{is_tentative}", text(&address["address"]));
        }
        for neighbour in list(&host["neighbours"]) {
            let lladdr = neighbour["lladdr"].as_str().map(|mac| format!("lladdr {mac} ")).unwrap_or_default();
            let (address, state) = (text(&neighbour["address"]), text(&neighbour["state"]));
            let _ = writeln!(out, "{address} dev {device} {lladdr}{state}");
        }
    }
    out
}

/// Listeners and connections, each with a second line of what is known of it.
pub(super) fn connections(stat: &Value) -> String {
    let all = services_once(stat);
    let width = |field| all.iter().map(|one| end(one, field).len()).max().unwrap_or(0);
    let (local, peer) = (width("local").max(18), width("peer").max(17));
    let mut out = String::new();
    let heads = ("Local Address:Port", "Peer Address:Port");
    let _ = writeln!(
        out,
        "{:<10} {:>6} {:>6} {:>local$} {:>peer$}",
        "State", "Recv-Q", "Send-Q", heads.0, heads.1
    );
    for one in &all {
        let (recv_q, send_q) = (one["recv_q"].to_string(), one["send_q"].to_string());
        let (here, there) = (end(one, "local"), end(one, "peer"));
        let _ = writeln!(
            out,
            "{:<10} {recv_q:>6} {send_q:>6} {here:>local$} {there:>peer$}",
            text(&one["state"])
        );
        if one["mss"].as_u64().is_some_and(|mss| mss > 0) {
            let _ = writeln!(out, "{}", details(one));
        }
    }
    let omitted: u64 = hosts(stat).filter_map(|host| host["connections_omitted"].as_u64()).sum();
    if omitted > 0 {
        let _ = writeln!(out, "and {omitted} more (--limit)");
    }
    out
}

/// All of them, and of the listeners that a service has on several loops the one with the fullest accept queue: it is the first to
/// drop what comes.
fn services_once(stat: &Value) -> Vec<&Value> {
    let (mut all, mut listeners) = (Vec::<&Value>::new(), HashMap::new());
    for (device, one) in
        hosts(stat).flat_map(|host| list(&host["connections"]).map(|one| (text(&host["device"]), one)))
    {
        if one["state"] != "LISTEN" {
            all.push(one);
            continue;
        }
        match listeners.entry((device, text(&one["local"]))) {
            Entry::Vacant(service) => {
                service.insert(all.len());
                all.push(one);
            }
            Entry::Occupied(service) => {
                let shown = &mut all[*service.get()];
                if one["recv_q"].as_u64() > shown["recv_q"].as_u64() {
                    *shown = one;
                }
            }
        }
    }
    all
}

/// As `ss -i` writes it, without what has nothing to say; in lines of less than 80 letters.
fn details(one: &Value) -> String {
    let mut words = Vec::new();
    for flag in ["orphan", "ts", "sack", "ecn"] {
        words.extend((one[flag] == true).then(|| flag.to_owned()));
    }
    words.push(text(&one["algorithm"]).to_owned());
    words.push(format!("wscale:{},{}", one["wscale"][0], one["wscale"][1]));
    words.push(format!("rto:{}", one["rto"]));
    words.extend((one["rtt"] != 0.0).then(|| format!("rtt:{}/{}", one["rtt"], one["rttvar"])));
    words.extend(["mss", "cwnd"].map(|name| format!("{name}:{}", one[name])));
    words.extend(one["ssthresh"].as_u64().map(|segments| format!("ssthresh:{segments}")));
    for name in [
        "bytes_sent",
        "bytes_retrans",
        "bytes_acked",
        "bytes_received",
        "notsent",
        "unacked",
        "sacked",
        "lost",
        "backoff",
    ] {
        words.extend(one[name].as_u64().filter(|count| *count > 0).map(|count| format!("{name}:{count}")));
    }
    words.extend(one["retrans"].as_u64().filter(|count| *count > 0).map(|count| format!("retrans:{count}")));
    words.extend(["snd_wnd", "rcv_wnd"].map(|name| format!("{name}:{}", one[name])));
    let mut lines = vec![INDENT.to_owned()];
    for word in words {
        if let Some(line) = lines.last_mut().filter(|line| line.len() + 1 + word.len() < WIDTH) {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(format!("{INDENT} {word}"));
        }
    }
    lines.join("\n")
}

/// The sum of each counter, and with `zeros` also those of each loop and those that are zero.
pub(super) fn counters(stat: &Value, zeros: bool) -> String {
    let mut sums = BTreeMap::new();
    let each = |host: &Value| -> Vec<(String, u64)> {
        let all = host["counters"].as_object().into_iter().flatten();
        all.map(|(name, value)| (name.clone(), value.as_u64().unwrap_or(0))).collect()
    };
    for (name, value) in hosts(stat).flat_map(each) {
        *sums.entry(name).or_insert(0_u64) += value;
    }
    let mut out = String::new();
    for gauge in ["inuse", "synrecv", "tw", "memory_bytes"] {
        let sum: u64 = hosts(stat).filter_map(|host| host[gauge].as_u64()).sum();
        let _ = writeln!(out, "{gauge:<30} {sum:>16}");
    }
    let several = zeros && hosts(stat).count() > 1;
    for (name, sum) in sums.into_iter().filter(|(_, sum)| zeros || *sum > 0) {
        let _ = write!(out, "{name:<30} {sum:>16}");
        if several {
            let parts = hosts(stat).map(|host| {
                format!("{}/{}:{}", text(&host["device"]), host["loop"], host["counters"][&name])
            });
            let _ = write!(out, "  {}", parts.collect::<Vec<_>>().join(" "));
        }
        out.push('\n');
    }
    out
}

/// An address and port as `ss` writes it: port 0 is any.
fn end<'v>(one: &'v Value, field: &str) -> std::borrow::Cow<'v, str> {
    let end = text(&one[field]);
    match end.strip_suffix(":0") {
        Some(address) => format!("{address}:*").into(),
        None => end.into(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

const INDENT: &str = "        ";
const WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_has_one_line_with_its_fullest_queue() {
        let listener = |local, waiting| json!({ "state": "LISTEN", "recv_q": waiting, "send_q": 8, "local": local, "peer": "0.0.0.0:0" });
        let host = |device, connections: [Value; 2]| json!({ "device": device, "connections": connections });
        let stat = json!({ "hosts": [
            host("tap0", [listener("10.0.0.2:80", 0), listener("10.0.0.2:81", 1)]),
            host("tap0", [listener("10.0.0.2:80", 3), listener("10.0.0.2:81", 0)]),
            host("tap1", [listener("10.0.0.2:80", 5), json!({ "state": "ESTAB", "local": "10.0.0.2:80" })]),
        ] });
        let said = connections(&stat);
        let lines: Vec<Vec<_>> =
            said.lines().skip(1).map(|line| line.split_whitespace().take(4).collect()).collect();
        let expected = [
            ["LISTEN", "3", "8", "10.0.0.2:80"],
            ["LISTEN", "1", "8", "10.0.0.2:81"],
            ["LISTEN", "5", "8", "10.0.0.2:80"],
        ];
        assert_eq!(lines[..3], expected, "{said}");
        assert!(lines.len() == 4 && lines[3][0] == "ESTAB", "{said}");
    }
}
