//! The charts, as SVG: bars, the spread of rounds, the percentile curve, lines on scales of powers.
//!
//! Each function takes the title that screen readers say. Text is escaped.
//!
//! A chart is 480 units wide, so that its text is still legible on a phone, where it is scaled to about 340 pixels. Names
//! stand above their bars, not beside them: a long name then takes no room from the bars.

use crate::histogram::CurvePoint;
use crate::report::page::escaped;
use crate::report::palette::{Colour, FAINT, GRID, INK, PAPER};
use crate::text::digits;

/// Several bars under one name.
#[derive(Debug, Clone)]
pub struct Group {
    /// The name; a long one is cut.
    pub name: String,
    /// The bars. Without one, the name says that its figures are unknown.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Its length, from zero up, in the unit of the chart.
    pub value: f64,
    /// The text behind it.
    pub label: String,
    /// Its colour.
    pub colour: Colour,
}

/// Values of the rounds under one name.
#[derive(Debug, Clone)]
pub struct Strip {
    /// The name.
    pub name: String,
    /// A dot each.
    pub values: Vec<f64>,
    /// Where the stroke is.
    pub median: f64,
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its points (x, y), both above zero, by rising x.
    pub points: Vec<(f64, f64)>,
    /// Its colour; the legend of the chart names it.
    pub colour: Colour,
}

/// Bars of all groups on one scale from zero.
pub fn bars(title: &str, groups: &[Group]) -> String {
    let most = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(0.0, f64::max);
    let mut svg = Svg::new();
    let mut top = 0.0;
    for group in groups {
        let name = shortened(&group.name);
        let name = if group.bars.is_empty() { format!("{name}: unknown") } else { name };
        svg.text(&name, (0.0, top + NAME_HEIGHT / 2.0), INK, "start");
        top += NAME_HEIGHT;
        for Bar { value, label, colour } in &group.bars {
            let share = if most > 0.0 { value / most } else { 0.0 };
            let length = (share * (WIDTH - VALUE_WIDTH)).max(1.0);
            svg.rectangle((0.0, top), (length, BAR_HEIGHT), *colour);
            svg.text(label, (length + 6.0, top + BAR_HEIGHT / 2.0), INK, "start");
            top += BAR_STEP;
        }
        top += GROUP_GAP;
    }
    svg.finish(title, top.max(NAME_HEIGHT))
}

/// A dot a round, a line from the least to the most, a stroke at the median, on a scale that fits the values.
pub fn strips(title: &str, strips: &[Strip], colour: Colour) -> String {
    let ticks = ticks(strips.iter().flat_map(|strip| strip.values.iter().copied()));
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let x = |value: f64| MARGIN + (value - first) / (last - first) * (WIDTH - 2.0 * MARGIN);
    let bottom = strips.len() as f64 * (NAME_HEIGHT + STRIP_HEIGHT);
    let mut svg = Svg::new();
    for &tick in &ticks {
        svg.line(&[(x(tick), 0.0), (x(tick), bottom + 4.0)], 1, GRID);
        svg.text(&digits(tick), (x(tick), bottom + 4.0 + AXIS_HEIGHT / 2.0), FAINT, "middle");
    }
    let mut top = 0.0;
    for Strip { name, values, median } in strips {
        // Behind the name, so that no line of the grid runs through it.
        let name = shortened(name);
        svg.rectangle((0.0, top + 3.0), (name.chars().count() as f64 * 8.0, NAME_HEIGHT - 6.0), PAPER);
        svg.text(&name, (0.0, top + NAME_HEIGHT / 2.0), INK, "start");
        let middle = top + NAME_HEIGHT + STRIP_HEIGHT / 2.0 - 4.0;
        let least_to_most: Vec<_> = values.iter().map(|value| (x(*value), middle)).collect();
        svg.line(&least_to_most, 2, colour);
        for (x, y) in least_to_most {
            svg.dot((x, y), colour);
        }
        svg.line(&[(x(*median), middle - 9.0), (x(*median), middle + 9.0)], 2, INK);
        top += NAME_HEIGHT + STRIP_HEIGHT;
    }
    svg.finish(title, bottom + AXIS_HEIGHT)
}

/// Latency over percentile: each step to the right is a tenth of the remaining requests, each step up a tenfold latency.
pub fn curve(title: &str, points: &[CurvePoint], count: u64, colour: Colour) -> String {
    // As many nines as there are answers to tell them apart, and room for one at least.
    let nines = (count.max(10) as f64).log10().ceil().min(NINES_MAX);
    let least = points.iter().map(|point| point.us).fold(f64::INFINITY, f64::min).max(0.01);
    let most = points.iter().map(|point| point.us).fold(least, f64::max);
    let (low, high) = (least.log10().floor(), (most * 1.001).log10().ceil());
    let [left, right, top, bottom] = [64.0, WIDTH - 34.0, 12.0, CURVE_HEIGHT - AXIS_HEIGHT];
    let x = |nine: f64| left + nine.min(nines) / nines * (right - left);
    let y = |exponent: f64| bottom - (exponent - low) / (high - low) * (bottom - top);
    let mut svg = Svg::new();
    for nine in 0..=nines as usize {
        let x = x(nine as f64);
        svg.line(&[(x, top), (x, bottom)], 1, GRID);
        svg.text(&percentile(nine), (x, bottom + AXIS_HEIGHT / 2.0), FAINT, "middle");
    }
    for exponent in low as i32..=high as i32 {
        let y = y(exponent.into());
        svg.line(&[(left, y), (right, y)], 1, GRID);
        svg.text(&decade(exponent), (left - 8.0, y), FAINT, "end");
    }
    let place = |point: &CurvePoint| (x(-(1.0 - point.share).log10()), y(point.us.max(least).log10()));
    svg.line(&points.iter().map(place).collect::<Vec<_>>(), 3, colour);
    svg.finish(title, CURVE_HEIGHT)
}

/// Lines over steps of `x`, with both scales in powers: for figures that span several sizes, such as latencies by the
/// length of a message. `name_x` and `name_y` write the labels; each `x` that a point has gets one, and each power of ten
/// of `y`.
///
/// ```
/// use anywire_load::report::chart::{Line, lines};
/// use anywire_load::report::palette::SERIES;
/// use anywire_load::text::time;
///
/// let line = Line { points: vec![(64.0, 2.1), (4096.0, 5.0), (65_536.0, 35.0)], colour: SERIES[0] };
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
        svg.text("unknown", (0.0, NAME_HEIGHT / 2.0), INK, "start");
        return svg.finish(title, NAME_HEIGHT);
    };
    let (least, most) =
        points().fold((f64::INFINITY, 0.0_f64), |(least, most), (_, y)| (least.min(*y), most.max(*y)));
    let low = least.log10().floor();
    let high = most.log10().ceil().max(low + 1.0);
    let [left, right, top, bottom] = [74.0, WIDTH - 34.0, 12.0, CURVE_HEIGHT - AXIS_HEIGHT];
    let span = (last / first).ln();
    let x = |value: f64| {
        left + if span > 0.0 { (value / first).ln() / span * (right - left) } else { (right - left) / 2.0 }
    };
    let y = |value: f64| bottom - (value.log10() - low) / (high - low) * (bottom - top);
    let mut svg = Svg::new();
    for step in steps {
        svg.line(&[(x(step), top), (x(step), bottom)], 1, GRID);
        svg.text(&name_x(step), (x(step), bottom + AXIS_HEIGHT / 2.0), FAINT, "middle");
    }
    for exponent in low as i32..=high as i32 {
        let value = 10_f64.powi(exponent);
        svg.line(&[(left, y(value)), (right, y(value))], 1, GRID);
        svg.text(&name_y(value), (left - 8.0, y(value)), FAINT, "end");
    }
    for Line { points, colour } in lines {
        let places: Vec<_> = points
            .iter()
            .filter(|(x, y)| *x > 0.0 && *y > 0.0)
            .map(|point| (x(point.0), y(point.1)))
            .collect();
        svg.line(&places, 3, *colour);
        places.into_iter().for_each(|place| svg.dot(place, *colour));
    }
    svg.finish(title, CURVE_HEIGHT)
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
fn decade(exponent: i32) -> String {
    match exponent {
        below @ ..0 => format!("{} ns", 10_u64.pow((3 + below).max(0) as u32)),
        us @ 0..3 => format!("{} us", 10_u64.pow(us as u32)),
        ms @ 3..6 => format!("{} ms", 10_u64.pow(ms as u32 - 3)),
        seconds => format!("{} s", 10_u64.pow(seconds as u32 - 6)),
    }
}

/// Round numbers, nine at most, that enclose all values.
fn ticks(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let (least, most) =
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    if !least.is_finite() || !most.is_finite() {
        return vec![0.0, 1.0];
    }
    let span = (most - least).max(most.abs() * 0.02).max(1e-3);
    let rough = span / 6.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(magnitude * 10.0);
    let first = (least / step).floor();
    let last = (most / step).ceil().max(first + 1.0);
    let count = (last - first).round() as usize;
    (0..=count).map(|index| (first + index as f64) * step).collect()
}

/// A chart under construction.
struct Svg(String);

impl Svg {
    fn new() -> Self {
        Self(String::new())
    }

    fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        let paint = colour.paint();
        self.0 += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" style=\"fill:{paint}\"/>\n"
        );
    }

    fn dot(&mut self, (x, y): (f64, f64), colour: Colour) {
        let paint = colour.paint();
        self.0 += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" opacity=\"0.6\" style=\"fill:{paint}\"/>\n"
        );
    }

    fn line(&mut self, points: &[(f64, f64)], width: u32, colour: Colour) {
        let points: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        self.0 += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke-width=\"{width}\" style=\"stroke:{}\"/>\n",
            points.trim_end(),
            colour.paint()
        );
    }

    /// `anchor` is the part of the text that is at the point: `start`, `middle` or `end`.
    fn text(&mut self, text: &str, (x, y): (f64, f64), colour: Colour, anchor: &str) {
        self.0 += &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" dominant-baseline=\"central\" font-size=\"14\" \
             style=\"fill:{}\">{}</text>\n",
            colour.paint(),
            escaped(text)
        );
    }

    /// The whole, with a title for screen readers.
    fn finish(self, title: &str, height: f64) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>",
            escaped(title),
            self.0
        )
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARACTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARACTERS_MAX - 1).chain(['\u{2026}']).collect()
}

const WIDTH: f64 = 480.0;
const CURVE_HEIGHT: f64 = 280.0;
const NAME_HEIGHT: f64 = 26.0;
const NAME_CHARACTERS_MAX: usize = 54;
const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 20.0;
const GROUP_GAP: f64 = 8.0;
/// Room for the figure behind the longest bar.
const VALUE_WIDTH: f64 = 110.0;
const STRIP_HEIGHT: f64 = 26.0;
const AXIS_HEIGHT: f64 = 26.0;
const MARGIN: f64 = 20.0;
/// More labels would run into each other.
const NINES_MAX: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        let of = |least, most| ticks([least, most].into_iter());
        assert_eq!(of(5.3, 6.9), [5.0, 5.5, 6.0, 6.5, 7.0]);
        assert_eq!(of(1.0, 10.3), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        for (least, most) in [(0.0, 0.0), (1.0, 1.0), (0.001, 90_000.0), (5.31, 5.32)] {
            let ticks = of(least, most);
            assert!((2..=9).contains(&ticks.len()), "{ticks:?}");
            assert!(ticks[0] <= least && *ticks.last().unwrap() >= most, "{ticks:?}");
        }
    }

    #[test]
    fn nines_are_written_as_percentages() {
        assert_eq!([0, 1, 2, 3, 5].map(percentile), ["0%", "90%", "99%", "99.9%", "99.999%"]);
    }

    #[test]
    fn decades_have_a_unit_and_no_decimals() {
        let labels = [-2, 0, 2, 3, 5, 6, 7].map(decade);
        assert_eq!(labels, ["10 ns", "1 us", "100 us", "1 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn lines_need_a_point_and_one_is_enough() {
        let of = |points: &[(f64, f64)]| {
            let line = Line { points: points.to_vec(), colour: INK };
            lines("t", &[line], |x| format!("x{x}"), |y| format!("y{y}"))
        };
        for svg in [of(&[]), of(&[(0.0, 1.0), (1.0, 0.0)])] {
            assert!(svg.contains("unknown"), "{svg}");
        }
        for svg in [of(&[(1.0, 1.0)]), of(&[(1.0, 3.0), (10.0, 300.0)])] {
            assert!(svg.contains("x1<") && svg.contains("y10<") && !svg.contains("NaN"), "{svg}");
        }
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let bars = bars("t", &[Group { name: "<a&\"b".to_owned(), bars: vec![] }]);
        assert!(bars.contains("&lt;a&amp;&quot;b") && !bars.contains("<a&"), "{bars}");
    }
}
