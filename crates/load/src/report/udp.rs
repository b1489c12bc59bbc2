//! The pages of a load of datagrams and of a search.

use crate::report::chart::{self, Bar, Group};
use crate::report::page::{Chart, Page};
use crate::report::palette::{CLIENT, Colour, SERVER, Style, TAIL, USUAL};
use crate::text::{digits, grouped, known, time, whole};
use crate::udp::{SearchOutcome, TRIAL_HEADINGS, Trial, UdpOutcome};

/// A page with the round trips, the losses by layer and the parts of the loops.
pub fn udp(outcome: &UdpOutcome) -> String {
    let mut page = Page::new(&format!("anywire lab udp-load: {}", outcome.target));
    fill(&mut page, outcome);
    page.finish(&outcome.to_json())
}

/// The page of a search: its runs, and the whole account of the best one.
pub fn udp_search(search: &SearchOutcome) -> String {
    let mut page = Page::new(&format!("anywire lab udp-load: the highest rate of {}", search.outcome.target));
    let loss = digits(search.loss_max * 100.0);
    page.paragraph(&match search.highest_rate {
        Some(rate) => {
            let confirmed = if search.confirmed { ", confirmed by a longer run" } else { "" };
            format!("Highest rate with at most {loss} % lost: {} datagrams a second{confirmed}.", whole(rate))
        }
        None => format!("No rate was found with at most {loss} % lost."),
    });
    if search.interrupted {
        page.warning("The search was ended early: higher rates may hold.");
    }
    if search.limited_by_sender {
        page.warning("This end could send no faster, so the service may stand more.");
    }
    let rows: Vec<_> = search.trials.iter().map(Trial::cells).collect();
    page.table("Runs", &TRIAL_HEADINGS, &rows);
    fill(&mut page, &search.outcome);
    page.finish(
        &serde_json::to_string_pretty(search).expect("a search holds only strings and finite numbers"),
    )
}

fn fill(page: &mut Page, outcome: &UdpOutcome) {
    outcome.remarks().iter().for_each(|remark| page.warning(remark));
    let plan = &outcome.plan;
    page.paragraph(&format!(
        "{} datagrams a second of {} bytes for {} s, in {} flows over {} sockets; each may take {} s to come back.",
        whole(plan.datagrams_per_second),
        plan.bytes,
        digits(plan.duration_seconds),
        plan.flows,
        plan.sockets,
        digits(plan.wait_seconds),
    ));
    page.paragraph(&format!("{}.", outcome.host.line()));
    let mut charts = Vec::new();
    let latencies = [
        (INTENDED, &outcome.latency.intended, Style::solid(USUAL)),
        (SENT, &outcome.latency.sent, Style::dashed(CLIENT)),
    ];
    let known_ones =
        || latencies.iter().filter_map(|(name, latency, style)| Some((*name, latency.as_ref()?, *style)));
    let lines: Vec<_> = known_ones().map(|(_, latency, style)| (latency, style)).collect();
    if !lines.is_empty() {
        charts.push(Chart {
            title: "Round trip by percentile".to_owned(),
            legend: known_ones().map(|(name, _, style)| (style.into(), format!("from {name}"))).collect(),
            svg: chart::curve("Round trip by percentile", &lines),
        });
    }
    let layers = &outcome.loss_by_layer;
    let layer = |name: &str, count: Option<u64>| Group {
        name: name.to_owned(),
        bars: count.map(|count| bar(count, TAIL)).into_iter().collect(),
    };
    let lost = [
        layer("sockets here", Some(layers.socket_here)),
        layer("sockets there", layers.socket_there),
        layer("namespace", layers.namespace),
        layer("devices", layers.device),
        layer("queues to send", layers.send_queue),
        layer("unexplained", Some(layers.unexplained)),
    ];
    charts.push(Chart {
        title: "Lost datagrams by layer".to_owned(),
        legend: vec![(TAIL.into(), "lost".to_owned())],
        svg: chart::bars("Lost datagrams by layer", &lost),
    });
    let part = |share: &crate::udp::UdpLoopShare| Group {
        name: format!("loop {}", share.id),
        bars: vec![bar(share.sent, CLIENT), bar(share.received, SERVER)],
    };
    charts.push(Chart {
        title: "Datagrams by loop".to_owned(),
        legend: vec![(CLIENT.into(), "sent".to_owned()), (SERVER.into(), "received".to_owned())],
        svg: chart::bars("Datagrams by loop", &outcome.loops.iter().map(part).collect::<Vec<_>>()),
    });
    page.charts(charts);
    let rows: Vec<_> = latencies
        .iter()
        .map(|(name, latency, _)| {
            let of = |figure: fn(&crate::LatencySummary) -> f64| known(latency.as_ref().map(figure), time);
            let figures = [
                of(|one| one.p50),
                of(|one| one.p90),
                of(|one| one.p99),
                of(|one| one.p99_9),
                of(|one| one.max),
            ];
            std::iter::once((*name).to_owned()).chain(figures).collect()
        })
        .collect();
    page.table("Round trips", &["from", "p50", "p90", "p99", "p99.9", "max"], &rows);
    page.table("Counts", &["what", "how many"], &outcome.counts());
}

fn bar(count: u64, colour: Colour) -> Bar {
    Bar { value: count as f64, label: grouped(count), colour }
}

/// From when a round trip counts. The first is what a caller waits who does not know that the sender is behind, so it is drawn
/// and listed first.
const INTENDED: &str = "the intended time";
const SENT: &str = "the send";
