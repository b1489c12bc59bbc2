//! Bars, and the spread of rounds.

use super::axis::Ticks;
use super::svg::{Anchor, Svg, WIDTH, shortened, width};
use crate::report::palette::{Colour, FAINT, GRID, INK, PAPER};

/// Several bars under one name.
#[derive(Debug, Clone)]
pub struct Group {
    /// The name; the middle of a long one is left out.
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

/// Bars of all groups on one scale from zero.
pub fn bars(title: &str, groups: &[Group]) -> String {
    let all = || groups.iter().flat_map(|group| &group.bars);
    let most = all().map(|bar| bar.value).fold(0.0, f64::max);
    let room = all().map(|bar| width(&bar.label)).fold(0.0, f64::max) + LABEL_GAP;
    let mut svg = Svg::new();
    let mut top = 0.0;
    for group in groups {
        let unknown = if group.bars.is_empty() { ": unknown" } else { "" };
        let name = shortened(&group.name, WIDTH - width(unknown)) + unknown;
        svg.text(&name, (0.0, top + NAME_HEIGHT / 2.0), INK, Anchor::Start);
        top += NAME_HEIGHT;
        for Bar { value, label, colour } in &group.bars {
            let share = if most > 0.0 { value / most } else { 0.0 };
            let length = (share * (WIDTH - room)).max(1.0);
            svg.rectangle((0.0, top), (length, BAR_HEIGHT), *colour);
            svg.text(label, (length + LABEL_GAP, top + BAR_HEIGHT / 2.0), INK, Anchor::Start);
            top += BAR_STEP;
        }
        top += GROUP_GAP;
    }
    svg.finish(title, top.max(NAME_HEIGHT))
}

/// A dot a round, a line from the least to the most, a stroke at the median, on a scale that fits the values.
pub fn strips(title: &str, strips: &[Strip], colour: Colour) -> String {
    let ticks = Ticks::of(strips.iter().flat_map(|strip| strip.values.iter().copied()), WIDTH);
    let x = |value: f64| ticks.place(value);
    let bottom = strips.len() as f64 * (NAME_HEIGHT + STRIP_HEIGHT);
    let mut svg = Svg::new();
    for value in ticks.values() {
        svg.line(&[(x(value), 0.0), (x(value), bottom + 4.0)], 1, GRID);
    }
    for (value, label) in ticks.labels() {
        svg.text(&label, (x(value), bottom + LABEL_DOWN), FAINT, Anchor::Middle);
    }
    let mut top = 0.0;
    for Strip { name, values, median } in strips {
        // Behind the name, so that no line of the grid runs through it.
        let name = shortened(name, WIDTH);
        svg.rectangle((0.0, top + 3.0), (width(&name), NAME_HEIGHT - 6.0), PAPER);
        svg.text(&name, (0.0, top + NAME_HEIGHT / 2.0), INK, Anchor::Start);
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

pub(super) const NAME_HEIGHT: f64 = 26.0;
pub(super) const AXIS_HEIGHT: f64 = 28.0;
/// From the end of a chart down to the middle of its labels.
pub(super) const LABEL_DOWN: f64 = 18.0;
const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 20.0;
const GROUP_GAP: f64 = 8.0;
/// Between a bar and its figure.
const LABEL_GAP: f64 = 6.0;
const STRIP_HEIGHT: f64 = 26.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_escaped() {
        let bars = bars("t", &[Group { name: "<a&\"b".to_owned(), bars: vec![] }]);
        assert!(bars.contains("&lt;a&amp;&quot;b") && !bars.contains("<a&"), "{bars}");
    }
}
