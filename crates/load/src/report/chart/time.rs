//! Charts over time: how latencies spread in each moment, and lines.

use super::axis::round_values;
use super::bars::{AXIS_HEIGHT, LABEL_DOWN, NAME_HEIGHT};
use super::lines::{Decades, Line, decade};
use super::svg::{Anchor, Svg, WIDTH, width};
use crate::histogram::Band;
use crate::report::palette::{Colour, FAINT, GRID, INK};

/// How latencies spread in a stretch of time.
#[derive(Debug, Clone)]
pub struct Moment<'b> {
    /// Its begin, in seconds.
    pub begun: f64,
    /// Its end, in seconds.
    pub ended: f64,
    /// The latencies in it.
    pub bands: &'b [Band],
}

/// A heat map: time to the right, latency up in powers of ten. A cell is the darker the larger its share of the responses of its
/// moment. `lines` are drawn above it, such as percentiles (seconds, microseconds).
pub fn heat_map(title: &str, moments: &[Moment<'_>], colour: Colour, lines: &[Line]) -> String {
    let bands = || moments.iter().flat_map(|moment| moment.bands).map(|band| band.up_to_us);
    let (least, most) =
        bands().fold((f64::INFINITY, 0.0_f64), |(least, most), us| (least.min(us), most.max(us)));
    if most <= 0.0 {
        return unknown(title);
    }
    let scale = Decades::of(least / BAND, most, decade);
    let end = moments.iter().map(|moment| moment.ended).fold(0.0, f64::max);
    let mut svg = Svg::new();
    let x = time_axis(&mut svg, scale.left, end);
    let mut levels: [String; LEVELS] = std::array::from_fn(|_| String::new());
    let all_cells: Vec<Cells> = moments.iter().map(|moment| cells(moment.bands)).collect();
    let share = |count: u64, all: u64| count as f64 / all.max(1) as f64;
    let largest = all_cells.iter().flat_map(|one| one.cells.iter().map(|(_, count)| share(*count, one.all)));
    let largest = largest.fold(f64::MIN_POSITIVE, f64::max);
    for (moment, Cells { cells, all }) in moments.iter().zip(&all_cells) {
        let (left, right) = (x(moment.begun), x(moment.ended));
        for (cell, count) in cells {
            let us = |cell: f64| (cell / CELLS_PER_DOUBLING).exp2();
            let (top, bottom) = (scale.place(us(*cell)), scale.place(us(cell - 1.0)));
            // By the root, so that the few of the tail are seen, too.
            let share = (share(*count, *all) / largest).sqrt();
            let level = ((share * LEVELS as f64) as usize).min(LEVELS - 1);
            levels[level] += &format!("M{left:.1} {top:.1}H{right:.1}V{bottom:.1}H{left:.1}z");
        }
    }
    for (level, path) in levels.iter().enumerate() {
        if !path.is_empty() {
            let opacity = 0.15 + 0.85 * level as f64 / (LEVELS - 1) as f64;
            svg.path(path, opacity, colour);
        }
    }
    scale.draw(&mut svg, x(end));
    for Line { points, style } in lines {
        let places: Vec<_> = points
            .iter()
            .filter(|(_, us)| *us > 0.0)
            .map(|(seconds, us)| (x(*seconds), scale.place(*us)))
            .collect();
        svg.styled(&places, 2, *style);
    }
    svg.finish(title, HEIGHT)
}

/// The cells of a moment.
struct Cells {
    /// The upper end of each, in steps of the scale, and how many responses it holds.
    cells: Vec<(f64, u64)>,
    all: u64,
}

/// Two bands are one cell: half as many cells, which still are lower than a line of text.
fn cells(bands: &[Band]) -> Cells {
    let mut cells: Vec<(f64, u64)> = Vec::new();
    for band in bands {
        let cell = (band.up_to_us.log2() * CELLS_PER_DOUBLING).ceil();
        match cells.last_mut() {
            Some((last, count)) if *last == cell => *count += band.count,
            _ => cells.push((cell, band.count)),
        }
    }
    let all = cells.iter().map(|(_, count)| count).sum();
    Cells { cells, all }
}

/// Lines over time from zero up: seconds to the right, and a scale in equal steps whose labels `name` writes.
///
/// ```
/// use anywire_load::report::chart::{Line, over_time};
/// use anywire_load::report::palette::{SERVER, Style};
/// use anywire_load::text::whole;
///
/// let line = Line { points: vec![(1.0, 950.0), (2.0, 1010.0)], style: Style::solid(SERVER) };
/// let svg = over_time("Responses a second", &[line], whole);
/// assert!(svg.contains(">1,000</text>") && svg.contains(">2 s</text>"));
/// ```
pub fn over_time(title: &str, lines: &[Line], name: impl Fn(f64) -> String) -> String {
    let points = || lines.iter().flat_map(|line| &line.points);
    let end = points().map(|(seconds, _)| *seconds).fold(0.0, f64::max);
    if points().next().is_none() {
        return unknown(title);
    }
    let most = points().map(|(_, value)| *value).fold(0.0, f64::max).max(1.0);
    let values = round_values(0.0, most, 5);
    let top_value = values.last().copied().unwrap_or(most);
    let labels: Vec<_> = values.iter().map(|value| name(*value)).collect();
    let left = labels.iter().map(|label| width(label)).fold(0.0, f64::max) + LABEL_GAP;
    let mut svg = Svg::new();
    let x = time_axis(&mut svg, left, end);
    let y = |value: f64| BOTTOM - value / top_value * (BOTTOM - TOP);
    for (value, label) in values.iter().zip(&labels) {
        svg.line(&[(left, y(*value)), (x(end), y(*value))], 1, GRID);
        svg.text(label, (left - LABEL_GAP, y(*value)), FAINT, Anchor::End);
    }
    for Line { points, style } in lines {
        let places: Vec<_> = points.iter().map(|(seconds, value)| (x(*seconds), y(*value))).collect();
        svg.styled(&places, 3, *style);
    }
    svg.finish(title, HEIGHT)
}

/// The scale of seconds below a chart. Gives the place of a second.
fn time_axis(svg: &mut Svg, left: f64, end: f64) -> impl Fn(f64) -> f64 + use<> {
    let values = round_values(0.0, end.max(1e-3), 5);
    let labels: Vec<_> = values.iter().map(|seconds| format!("{} s", plain(*seconds))).collect();
    let right = WIDTH - labels.iter().map(|label| width(label)).fold(0.0, f64::max) / 2.0;
    let left = left.max(labels.first().map_or(0.0, |label| width(label) / 2.0));
    let end = end.max(1e-3);
    let x = move |seconds: f64| left + seconds / end * (right - left);
    for (seconds, label) in values.iter().zip(&labels).filter(|(seconds, _)| **seconds <= end) {
        svg.line(&[(x(*seconds), TOP), (x(*seconds), BOTTOM)], 1, GRID);
        svg.text(label, (x(*seconds), BOTTOM + LABEL_DOWN), FAINT, Anchor::Middle);
    }
    x
}

/// Without the zeros of rounding.
fn plain(seconds: f64) -> String {
    format!("{}", (seconds * 1e6).round() / 1e6)
}

fn unknown(title: &str) -> String {
    let mut svg = Svg::new();
    svg.text("unknown", (0.0, NAME_HEIGHT / 2.0), INK, Anchor::Start);
    svg.finish(title, NAME_HEIGHT)
}

const HEIGHT: f64 = 280.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - AXIS_HEIGHT;
const LABEL_GAP: f64 = 8.0;
/// The ratio of the ends of a band.
const BAND: f64 = 1.090_507_732_665_257_7;
const CELLS_PER_DOUBLING: f64 = 4.0;
/// Shades of a heat map: more cannot be told apart.
const LEVELS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::palette::{SERVER, Style};

    #[test]
    fn a_cell_is_the_darker_the_more_of_its_moment_it_holds() {
        let bands = [Band { up_to_us: 100.0, count: 990 }, Band { up_to_us: 10_000.0, count: 10 }];
        let moment = |begun: f64| Moment { begun, ended: begun + 1.0, bands: &bands };
        let svg = heat_map("t", &[moment(0.0), moment(1.0)], SERVER, &[]);
        assert_eq!(svg.matches("<path").count(), 2, "{svg}");
        assert_eq!(svg.matches('M').count(), 4, "{svg}");
        let faint = svg.find("opacity=\"0.15\"").expect("the tail is faint");
        assert!(faint < svg.find("opacity=\"1.00\"").expect("the rest is dark"));
        assert!(svg.contains("10 ms<") && svg.contains("100 us<") && svg.contains("2 s<"), "{svg}");
    }

    #[test]
    fn without_a_figure_a_chart_says_so() {
        assert!(heat_map("t", &[], SERVER, &[]).contains("unknown"));
        assert!(over_time("t", &[], |_| String::new()).contains("unknown"));
        let one = Line { points: vec![(0.0, 0.0)], style: Style::solid(SERVER) };
        let svg = over_time("t", &[one], |value| value.to_string());
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
