//! The pages of a load of datagrams and of a search.

use crate::report::chart::{self, Bar, Group};
use crate::report::page::{Chart, Page};
use crate::report::palette::{CLIENT, Colour, SERVER, TAIL, USUAL};
use crate::text::{digits, grouped, known, time, whole};
use crate::udp::{SearchOutcome, UdpOutcome};

/// A page with the round trips, the losses by layer and the parts of the loops.
pub fn udp(outcome: &UdpOutcome) -> String {
    let mut page = Page::new(&format!("anywire udp load: {}", outcome.target));
    fill(&mut page, outcome);
    page.finish(&outcome.to_json())
}

/// The page of a search: its runs, and the whole account of the best one.
pub fn udp_search(search: &SearchOutcome) -> String {
    let mut page = Page::new(&format!("anywire udp load: the highest rate of {}", search.outcome.target));
    let loss = digits(search.loss_max * 100.0);
    page.paragraph(&match search.highest_rate {
        Some(rate) => format!("Highest rate with at most {loss} % lost: {} datagrams a second.", whole(rate)),
        None => format!("No rate was found with at most {loss} % lost."),
    });
    if search.interrupted {
        page.warning("The search was ended early, so higher rates may hold.");
    }
    if search.limited_by_sender {
        page.warning("This end could send no faster, so the service may stand more.");
    }
    let row = |trial: &crate::udp::Trial| {
        let ([held, kept], rate) = (trial.shown(), whole(trial.datagrams_per_second));
        vec![rate, grouped(trial.sent), grouped(trial.lost), held, kept]
    };
    let rows: Vec<_> = search.trials.iter().map(row).collect();
    page.table("Runs", &["datagrams/s", "sent", "lost", "held", "rate kept"], &rows);
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
    if let Some(latency) = &outcome.latency.sent {
        charts.push(Chart {
            title: "Round trip by percentile".to_owned(),
            legend: vec![(USUAL, "from send".to_owned())],
            svg: chart::curve("Round trip by percentile", &latency.curve, latency.count, USUAL),
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
        legend: vec![(TAIL, "lost".to_owned())],
        svg: chart::bars("Lost datagrams by layer", &lost),
    });
    let part = |share: &crate::udp::UdpLoopShare| Group {
        name: format!("loop {}", share.id),
        bars: vec![bar(share.sent, CLIENT), bar(share.received, SERVER)],
    };
    charts.push(Chart {
        title: "Datagrams by loop".to_owned(),
        legend: vec![(CLIENT, "sent".to_owned()), (SERVER, "received".to_owned())],
        svg: chart::bars("Datagrams by loop", &outcome.loops.iter().map(part).collect::<Vec<_>>()),
    });
    page.charts(charts);
    let latencies = [("intended time", &outcome.latency.intended), ("send", &outcome.latency.sent)];
    let rows: Vec<_> = latencies
        .iter()
        .map(|(name, latency)| {
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
