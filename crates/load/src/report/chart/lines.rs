//! The percentile curve, and lines on scales of powers.

use super::axis::fitting;
use super::bars::{AXIS_HEIGHT, LABEL_DOWN, NAME_HEIGHT};
use super::svg::{Anchor, Svg, WIDTH, width};
use crate::histogram::{CurvePoint, LatencySummary};
use crate::report::palette::{FAINT, GRID, INK, Style};

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its points (x, y), both above zero, by rising x.
    pub points: Vec<(f64, f64)>,
    /// How it is drawn; the legend of the chart names it.
    pub style: Style,
}

/// Latency over percentile: each step to the right is a tenth of the remaining requests, each step up a tenfold latency.
pub fn curve(title: &str, latencies: &[(&LatencySummary, Style)]) -> String {
    // As many nines as there are answers to tell them apart, and room for one at least.
    let count = latencies.iter().map(|(latency, _)| latency.count).max().unwrap_or(0);
    let nines = (count.max(10) as f64).log10().ceil().min(NINES_MAX);
    let all = || latencies.iter().flat_map(|(latency, _)| &latency.curve).map(|point| point.us);
    let least = all().fold(f64::INFINITY, f64::min);
    let least = if least.is_finite() { least.max(0.01) } else { 1.0 };
    let most = all().fold(least, f64::max);
    let scale = Decades::of(least, most * 1.001, decade);
    let (left, right) = (scale.left, WIDTH - width(&percentile(nines as usize)) / 2.0);
    let x = |nine: f64| left + nine.min(nines) / nines * (right - left);
    let mut svg = Svg::new();
    for nine in 0..=nines as usize {
        let x = x(nine as f64);
        svg.line(&[(x, TOP), (x, BOTTOM)], 1, GRID);
        svg.text(&percentile(nine), (x, BOTTOM + LABEL_DOWN), FAINT, Anchor::Middle);
    }
    scale.draw(&mut svg, right);
    let place = |point: &CurvePoint| (x(-(1.0 - point.share).log10()), scale.place(point.us.max(least)));
    for (latency, style) in latencies {
        svg.styled(&latency.curve.iter().map(place).collect::<Vec<_>>(), 3, *style);
    }
    svg.finish(title, HEIGHT)
}

/// Lines over steps of `x`, with both scales in powers: for figures that span several sizes, such as latencies by the
/// length of a message. `name_x` and `name_y` write the labels; each `x` that a point has gets one where it has room, and each
/// power of ten of `y`.
///
/// ```
/// use anywire_load::report::chart::{Line, lines};
/// use anywire_load::report::palette::style;
/// use anywire_load::text::time;
///
/// let line = Line { points: vec![(64.0, 2.1), (4096.0, 5.0), (65_536.0, 35.0)], style: style(0) };
/// let svg = lines("Latency by size", &[line], |bytes| format!("{bytes}"), time);
/// assert!(svg.contains(">4096</text>") && svg.contains(">10.0 us</text>"));
/// ```
pub fn lines(
    title: &str,
    lines: &[Line],
    name_x: impl Fn(f64) -> String,
    name_y: impl Fn(f64) -> String,
) -> String {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(x, y)| *x > 0.0 && *y > 0.0);
    let mut steps: Vec<f64> = points().map(|point| point.0).collect();
    steps.sort_by(f64::total_cmp);
    steps.dedup();
    let (Some(&first), Some(&last)) = (steps.first(), steps.last()) else {
        let mut svg = Svg::new();
        svg.text("unknown", (0.0, NAME_HEIGHT / 2.0), INK, Anchor::Start);
        return svg.finish(title, NAME_HEIGHT);
    };
    let (least, most) =
        points().fold((f64::INFINITY, 0.0_f64), |(least, most), (_, y)| (least.min(*y), most.max(*y)));
    let scale = Decades::of(least, most, name_y);
    let labels: Vec<String> = steps.iter().map(|step| name_x(*step)).collect();
    let widths: Vec<f64> = labels.iter().map(|label| width(label)).collect();
    let half = |width: f64| width / 2.0 + POINT_ROOM;
    let left = scale.left.max(half(widths[0]));
    let right = WIDTH - half(widths[widths.len() - 1]);
    let span = (last / first).ln();
    let x = |value: f64| {
        left + if span > 0.0 { (value / first).ln() / span * (right - left) } else { (right - left) / 2.0 }
    };
    let mut svg = Svg::new();
    let places: Vec<f64> = steps.iter().map(|step| x(*step)).collect();
    for x in &places {
        svg.line(&[(*x, TOP), (*x, BOTTOM)], 1, GRID);
    }
    for index in fitting(&places, &widths) {
        let place = (places[index], BOTTOM + LABEL_DOWN);
        svg.text(&labels[index], place, FAINT, Anchor::Middle);
    }
    scale.draw(&mut svg, right);
    for Line { points, style } in lines {
        let places: Vec<_> = points
            .iter()
            .filter(|(x, y)| *x > 0.0 && *y > 0.0)
            .map(|point| (x(point.0), scale.place(point.1)))
            .collect();
        svg.styled(&places, 3, *style);
    }
    svg.finish(title, HEIGHT)
}

/// The scale at the left, in powers of ten.
pub(super) struct Decades {
    low: i32,
    high: i32,
    /// Between two labels.
    step: usize,
    /// By rising power.
    labels: Vec<String>,
    /// Where the labels end, and the chart begins.
    pub(super) left: f64,
}

impl Decades {
    /// The powers that enclose both values.
    pub(super) fn of(least: f64, most: f64, name: impl Fn(f64) -> String) -> Self {
        let low = least.log10().floor() as i32;
        let high = (most.log10().ceil() as i32).max(low + 1);
        let most_labels = (BOTTOM - TOP) / LABEL_HEIGHT;
        let step = (f64::from(high - low) / most_labels).ceil().max(1.0) as usize;
        let labels: Vec<_> = (low..=high).step_by(step).map(|exponent| name(10_f64.powi(exponent))).collect();
        let left = labels.iter().map(|label| width(label)).fold(0.0, f64::max) + LABEL_GAP;
        Self { low, high, step, labels, left }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        BOTTOM - share * (BOTTOM - TOP)
    }

    pub(super) fn draw(&self, svg: &mut Svg, right: f64) {
        for (exponent, label) in (self.low..=self.high).step_by(self.step).zip(&self.labels) {
            let y = self.place(10_f64.powi(exponent));
            svg.line(&[(self.left, y), (right, y)], 1, GRID);
            svg.text(label, (self.left - LABEL_GAP, y), FAINT, Anchor::End);
        }
    }
}

/// So many nines as a percentage: 0 is the shortest, 1 is 90 %, 2 is 99 %.
fn percentile(nines: usize) -> String {
    match nines {
        0 => "0%".to_owned(),
        1 => "90%".to_owned(),
        2 => "99%".to_owned(),
        more => format!("99.{}%", "9".repeat(more - 2)),
    }
}

/// A power of ten of microseconds in its unit, without decimals.
pub(super) fn decade(us: f64) -> String {
    match us.log10().round() as i32 {
        below @ ..0 => format!("{} ns", 10_u64.pow((3 + below).max(0) as u32)),
        us @ 0..3 => format!("{} us", 10_u64.pow(us as u32)),
        ms @ 3..6 => format!("{} ms", 10_u64.pow(ms as u32 - 3)),
        seconds => format!("{} s", 10_u64.pow(seconds as u32 - 6)),
    }
}

const HEIGHT: f64 = 280.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = HEIGHT - AXIS_HEIGHT;
/// Between a label and the scale.
const LABEL_GAP: f64 = 8.0;
const LABEL_HEIGHT: f64 = 18.0;
/// Half of a marker, at the edges of the chart.
const POINT_ROOM: f64 = 7.0;
/// More labels would run into each other.
const NINES_MAX: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::palette::style;

    #[test]
    fn nines_are_written_as_percentages() {
        assert_eq!([0, 1, 2, 3, 5].map(percentile), ["0%", "90%", "99%", "99.9%", "99.999%"]);
    }

    #[test]
    fn decades_have_a_unit_and_no_decimals() {
        let labels = [0.01, 1.0, 1e2, 1e3, 1e5, 1e6, 1e7].map(decade);
        assert_eq!(labels, ["10 ns", "1 us", "100 us", "1 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn lines_need_a_point_and_one_is_enough() {
        let of = |points: &[(f64, f64)]| {
            let line = Line { points: points.to_vec(), style: style(0) };
            lines("t", &[line], |x| format!("x{x}"), |y| format!("y{y}"))
        };
        for svg in [of(&[]), of(&[(0.0, 1.0), (1.0, 0.0)])] {
            assert!(svg.contains("unknown"), "{svg}");
        }
        for svg in [of(&[(1.0, 1.0)]), of(&[(1.0, 3.0), (10.0, 300.0)])] {
            assert!(svg.contains("x1<") && svg.contains("y10<") && !svg.contains("NaN"), "{svg}");
        }
        // Thirty powers of ten are named in steps.
        let svg = of(&[(1.0, 1.0), (2.0, 1e30)]);
        assert!(svg.contains("y1<") && !svg.contains("y10<") && svg.contains("y1000<"), "{svg}");
    }
}
