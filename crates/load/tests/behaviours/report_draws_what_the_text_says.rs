//! The chart of a page is of the figures that stand first in its text.

use crate::support::sample;

#[test]
fn round_trips_of_datagrams_count_from_the_intended_time() {
    let outcome = sample::udp();
    let html = anywire_load::report::udp(&outcome);
    let (legend, chart) = html.split_once("</figcaption>").expect("a chart with a legend");
    let names = ["from the intended time", "from the send"];
    let at = names.map(|name| legend.find(name).unwrap_or_else(|| panic!("{name} is not in {legend}")));
    assert!(at[0] < at[1], "{legend}");
    let (chart, _) = chart.split_once("</svg>").expect("an element ends");
    // Lines of the grid are thinner.
    let curves: Vec<_> = chart.lines().filter(|line| line.contains("stroke-width=\"3\"")).collect();
    let [intended, sent] = curves[..] else { panic!("{curves:?}") };
    assert!(!intended.contains("dasharray") && sent.contains("dasharray"), "{curves:?}");
    let lowest = |curve: &str| -> f64 {
        let points = curve.split('"').nth(1).expect("points");
        points
            .split(' ')
            .map(|point| point.split_once(',').expect("x and y").1.parse().expect("a number"))
            .fold(0.0, f64::max)
    };
    assert!(lowest(intended) < lowest(sent), "longer stands higher: {curves:?}");
    // The text has both, and the same first.
    let text = outcome.to_string();
    assert!(text.find("intended time") < text.find("\n  send "), "{text}");

    let mut unanswered = outcome;
    (unanswered.latency.intended, unanswered.latency.sent) = (None, None);
    assert!(!anywire_load::report::udp(&unanswered).contains("Round trip by percentile"));
}
