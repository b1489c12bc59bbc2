//! All that a client counts and measures, as the text that Prometheus scrapes.

use std::collections::BTreeMap;

use anywire_loops::metrics::{Kind, Text};

use crate::{AddressCounters, Client, ClientCounters, Counters, OriginCounters, Phase};

impl Client {
    /// All that the client counts and measures as the text that Prometheus scrapes (its format 0.0.4), whose content has the type
    /// `text/plain; version=0.0.4`: [`counters`](Self::counters) with the label `loop`, [`origins`](Self::origins) and
    /// [`latencies`](Self::latencies) with `origin`, [`address_counters`](Self::address_counters) with both `origin` and `address`. All loops are asked.
    ///
    /// ```no_run
    /// # async fn example(client: anywire_client::Client) {
    /// print!("{}", client.prometheus().await);
    /// # }
    /// ```
    /// prints for example:
    /// ```text
    /// # HELP anywire_client_requests_total Calls that reached a pool of this loop, the refused ones included.
    /// # TYPE anywire_client_requests_total counter
    /// anywire_client_requests_total{loop="0"} 51200
    /// ```
    pub async fn prometheus(&self) -> String {
        let mut text = Text::new("anywire_client_");
        loops(&mut text, &self.counters());
        origins(&mut text, &self.origins().await);
        addresses(&mut text, &self.address_counters().await);
        let latencies = self.latencies();
        let phases = latencies.into_iter().flat_map(|(origin, phases)| {
            phases.into_iter().map(move |(phase, durations)| {
                ([("origin", origin.clone()), ("phase", name(phase).to_owned())], durations)
            })
        });
        let help = "How long the phases of attempts took, by origin and phase; the phase total is the whole attempt.";
        text.histogram("phase_duration_seconds", help, phases);
        text.into_string()
    }
}

/// A metric with what it is, its name, its help, and its value.
type Family<T> = (Kind, &'static str, &'static str, fn(&T) -> u64);

fn loops(text: &mut Text, counters: &ClientCounters) {
    let per_loop: Vec<_> = counters.per_loop.iter().map(Counters::each).collect();
    for (at, (name, kind, help, _)) in Counters::default().each().into_iter().enumerate() {
        let name = if kind == Kind::Counter { format!("{name}_total") } else { name.to_owned() };
        let samples = per_loop.iter().enumerate().map(|(index, each)| {
            let (.., value) = each[at];
            ([("loop", index.to_string())], value as f64)
        });
        text.family(kind, &name, &plain(help), samples);
    }
    let help = "The busiest loop's requests divided by the mean: 1 is even.";
    text.family(Kind::Gauge, "loop_balance_ratio", help, [(NONE, counters.balance())]);
}

fn origins(text: &mut Text, origins: &BTreeMap<String, OriginCounters>) {
    let connections = origins.iter().flat_map(|(origin, one)| {
        let states = [("idle", one.idle), ("busy", one.busy), ("dialing", one.dialing)];
        states.map(|(state, count)| ([("origin", origin.as_str()), ("state", state)], count as f64))
    });
    text.family(Kind::Gauge, "origin_connections", "Connections now, by origin and state.", connections);
    let all: [Family<OriginCounters>; 5] = [
        (Kind::Gauge, "origin_waiting", "Calls that wait for a connection now.", |one| one.waiting as u64),
        (Kind::Counter, "origin_attempts_total", "Attempts of calls that reached a pool.", |one| {
            one.attempts
        }),
        (Kind::Counter, "origin_retries_total", "Attempts that repeated one before.", |one| one.retries),
        (Kind::Counter, "origin_received_bytes_total", "Bytes that came, without TLS.", |one| {
            one.received_bytes
        }),
        (Kind::Counter, "origin_sent_bytes_total", "Bytes that were sent, without TLS.", |one| {
            one.sent_bytes
        }),
    ];
    for (kind, name, help, of) in all {
        let samples = origins.iter().map(|(origin, one)| ([("origin", origin)], of(one) as f64));
        text.family(kind, name, help, samples);
    }
    let errors = origins.iter().flat_map(|(origin, one)| {
        let kinds = one.errors.iter();
        kinds.map(move |(kind, count)| ([("origin", origin.as_str()), ("kind", *kind)], *count as f64))
    });
    let help = "Attempts that failed and bodies that broke off, by kind.";
    text.family(Kind::Counter, "origin_errors_total", help, errors);
    let timeouts = origins.iter().flat_map(|(origin, one)| {
        let phases = one.timeouts.iter();
        phases.map(move |(phase, count)| {
            ([("origin", origin.as_str()), ("phase", name(*phase))], *count as f64)
        })
    });
    text.family(Kind::Counter, "origin_timeouts_total", "Deadlines that passed, by phase.", timeouts);
}

fn addresses(text: &mut Text, addresses: &[AddressCounters]) {
    let all: [Family<AddressCounters>; 5] = [
        (Kind::Counter, "address_calls_total", "Calls that went to an address of a balance.", |one| {
            one.calls
        }),
        (Kind::Counter, "address_failures_total", "Dials and calls that failed there.", |one| one.failures),
        (Kind::Counter, "address_ejected_total", "How often it was out, on each loop.", |one| one.ejected),
        (Kind::Gauge, "address_in_flight", "Calls on its connections, and those that wait.", |one| {
            one.in_flight
        }),
        (Kind::Gauge, "address_out_loops", "Loops on which it is out now.", |one| one.out),
    ];
    for (kind, name, help, of) in all {
        let samples = addresses.iter().map(|one| {
            ([("origin", one.origin.clone()), ("address", one.address.to_string())], of(one) as f64)
        });
        text.family(kind, name, help, samples);
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Acquire => "acquire",
        Phase::Resolve => "resolve",
        Phase::Connect => "connect",
        Phase::Handshake => "handshake",
        Phase::Write => "write",
        Phase::Read => "read",
        Phase::Body => "body",
        Phase::Total => "total",
    }
}

/// A sentence of the documentation without its links.
fn plain(doc: &str) -> String {
    let mut plain = String::with_capacity(doc.len());
    let mut rest = doc.trim();
    while let Some((before, link)) = rest.split_once('[') {
        let Some((shown, behind)) = link.split_once("](") else { break };
        let Some((_, after)) = behind.split_once(')') else { break };
        plain.push_str(before);
        plain.push_str(shown);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace('`', "")
}

const NONE: [(&str, &str); 0] = [];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_counter_has_a_name_and_a_sentence_of_its_own() {
        let counters = ClientCounters { per_loop: vec![Counters::default(); 2] };
        let mut text = Text::new("");
        loops(&mut text, &counters);
        let text = text.into_string();
        let helps: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
        assert_eq!(helps.len(), Counters::default().each().len() + 1);
        let names: HashSet<_> = helps.iter().filter_map(|help| help.split(' ').next()).collect();
        assert_eq!(names.len(), helps.len());
        for help in helps {
            assert!(help.ends_with(['.', '1']) || help.ends_with("even."), "{help}");
            assert!(!help.contains(['[', '`']) && !help.contains("of them"), "{help}");
        }
    }

    #[test]
    fn links_become_their_words() {
        assert_eq!(plain(" By [`Retries`](crate::Retries), and [`a::b`](c)."), "By Retries, and a::b.");
    }
}
