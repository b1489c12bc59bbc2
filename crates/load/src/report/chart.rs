//! The charts, drawn by `plotters` into SVG text: bars, the spread of rounds, the percentile curve.
//!
//! A chart is 480 units wide, so that its text is still legible on a phone, where it is scaled to about 340 pixels. Names
//! stand above their bars, not beside them: a long name then takes no room from the bars.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::histogram::CurvePoint;
use crate::report::palette::{Colour, FAINT, GRID, INK, PAPER};
use crate::text::digits;

/// A chart could not be drawn: a fault of ours or of the drawing crate, never of the figures.
#[derive(Debug, thiserror::Error)]
#[error("drawing the chart {chart:?} failed: {reason}; the text and JSON forms of the result need no charts")]
pub struct ChartError {
    /// The chart.
    pub chart: &'static str,
    /// What the drawing crate said.
    pub reason: String,
}

/// Several bars under one name.
pub(crate) struct Group {
    pub(crate) name: String,
    /// Value, its text, its colour.
    pub(crate) bars: Vec<(f64, String, Colour)>,
}

/// Values of the rounds under one name.
pub(crate) struct Strip {
    pub(crate) name: String,
    pub(crate) values: Vec<f64>,
    pub(crate) median: f64,
}

/// Bars of all groups on one scale from zero.
pub(crate) fn bars(title: &'static str, groups: &[Group]) -> Result<String, ChartError> {
    let height = |group: &Group| NAME_HEIGHT + group.bars.len() as i32 * BAR_STEP + GROUP_GAP;
    let total: i32 = groups.iter().map(height).sum();
    let most = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.0).fold(0.0, f64::max);
    draw(title, total.max(NAME_HEIGHT), |area| {
        let mut top = 0;
        for group in groups {
            let name = shortened(&group.name);
            let name = if group.bars.is_empty() { format!("{name}: unknown") } else { name };
            text(area, &name, (0, top + NAME_HEIGHT / 2), INK, HPos::Left)?;
            let mut bar_top = top + NAME_HEIGHT;
            for (value, label, colour) in &group.bars {
                let share = if most > 0.0 { value / most } else { 0.0 };
                let end = (share * f64::from(WIDTH - VALUE_WIDTH)).round() as i32;
                let corners = [(0, bar_top), (end.max(1), bar_top + BAR_HEIGHT)];
                area.draw(&Rectangle::new(corners, colour.rgb().filled()))?;
                text(area, label, (end.max(1) + 6, bar_top + BAR_HEIGHT / 2), INK, HPos::Left)?;
                bar_top += BAR_STEP;
            }
            top += height(group);
        }
        Ok(())
    })
}

/// A dot a round, a line from the least to the most, a stroke at the median, on a scale that fits the values.
pub(crate) fn strips(title: &'static str, strips: &[Strip], colour: Colour) -> Result<String, ChartError> {
    let all = || strips.iter().flat_map(|strip| strip.values.iter().copied());
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let ticks = ticks(least, most);
    let (first, last) = (ticks[0], ticks[ticks.len() - 1]);
    let x = |value: f64| {
        MARGIN + ((value - first) / (last - first) * f64::from(WIDTH - 2 * MARGIN)).round() as i32
    };
    let bottom = strips.len() as i32 * (NAME_HEIGHT + STRIP_HEIGHT);
    draw(title, bottom + AXIS_HEIGHT, |area| {
        for &tick in &ticks {
            area.draw(&PathElement::new([(x(tick), 0), (x(tick), bottom + 4)], GRID.rgb()))?;
            text(area, &digits(tick), (x(tick), bottom + 4 + AXIS_HEIGHT / 2), FAINT, HPos::Center)?;
        }
        for (index, strip) in strips.iter().enumerate() {
            let top = index as i32 * (NAME_HEIGHT + STRIP_HEIGHT);
            // Behind the name, so that no line of the grid runs through it.
            let name = shortened(&strip.name);
            let behind = [(0, top + 3), ((name.chars().count() * 8) as i32, top + NAME_HEIGHT - 3)];
            area.draw(&Rectangle::new(behind, PAPER.rgb().filled()))?;
            text(area, &name, (0, top + NAME_HEIGHT / 2), INK, HPos::Left)?;
            let middle = top + NAME_HEIGHT + STRIP_HEIGHT / 2 - 4;
            let ends = strip.values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| {
                (low.min(value), high.max(value))
            });
            area.draw(&PathElement::new(
                [(x(ends.0), middle), (x(ends.1), middle)],
                colour.rgb().stroke_width(2),
            ))?;
            for &value in &strip.values {
                area.draw(&Circle::new((x(value), middle), 4, colour.rgb().mix(0.6).filled()))?;
            }
            let stroke = [(x(strip.median), middle - 9), (x(strip.median), middle + 9)];
            area.draw(&PathElement::new(stroke, INK.rgb().stroke_width(2)))?;
        }
        Ok(())
    })
}

/// Latency over percentile: each step to the right is a tenth of the remaining requests, each step up a tenfold latency.
pub(crate) fn curve(
    title: &'static str,
    points: &[CurvePoint],
    count: u64,
    colour: Colour,
) -> Result<String, ChartError> {
    // As many nines as there are answers to tell them apart, and room for one at least.
    let nines = (count.max(10) as f64).log10().ceil().min(NINES_MAX);
    let x = |share: f64| if share < 1.0 { (-(1.0 - share).log10()).min(nines) } else { nines };
    let least = points.iter().map(|point| point.us).fold(f64::INFINITY, f64::min).max(0.01);
    let most = points.iter().map(|point| point.us).fold(least, f64::max);
    let (low, high) = (decade_below(least), decade_above(most));
    draw(title, CURVE_HEIGHT, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin_top(12)
            .margin_right(34)
            .x_label_area_size(28)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..nines, (low..high).log_scale())?;
        let style = |colour: Colour| ("sans-serif", FONT).into_font().color(&colour.rgb());
        chart
            .configure_mesh()
            .bold_line_style(GRID.rgb())
            .light_line_style(TRANSPARENT)
            .axis_style(GRID.rgb())
            .x_labels(nines as usize + 1)
            .x_label_formatter(&|nines| percentile(*nines))
            .y_label_formatter(&|us| decade(*us))
            .label_style(style(FAINT))
            .draw()?;
        let line = points.iter().map(|point| (x(point.share), point.us.max(low)));
        chart.draw_series(LineSeries::new(line, colour.rgb().stroke_width(3)))?;
        Ok(())
    })
}

/// `nines` nines as a percentage: 0 is the shortest, 1 is 90 %, 2 is 99 %.
fn percentile(nines: f64) -> String {
    if (nines - nines.round()).abs() > 1e-6 {
        return String::new();
    }
    match nines.round() as usize {
        0 => "0%".to_owned(),
        1 => "90%".to_owned(),
        2 => "99%".to_owned(),
        more => format!("99.{}%", "9".repeat(more - 2)),
    }
}

fn decade_below(us: f64) -> f64 {
    10_f64.powf(us.log10().floor())
}

fn decade_above(us: f64) -> f64 {
    10_f64.powf((us * 1.001).log10().ceil())
}

/// A power of ten in its unit, without decimals; empty for all other values.
fn decade(us: f64) -> String {
    let exponent = us.log10();
    if (exponent - exponent.round()).abs() > 1e-6 {
        return String::new();
    }
    match exponent.round() as i32 {
        below @ ..0 => format!("{} ns", 10_u64.pow((3 + below).max(0) as u32)),
        us @ 0..3 => format!("{} us", 10_u64.pow(us as u32)),
        ms @ 3..6 => format!("{} ms", 10_u64.pow(ms as u32 - 3)),
        seconds => format!("{} s", 10_u64.pow(seconds as u32 - 6)),
    }
}

/// Round numbers, nine at most, that enclose both.
fn ticks(least: f64, most: f64) -> Vec<f64> {
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

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws on a new area and returns the SVG, with a title for screen readers.
fn draw(
    title: &'static str,
    height: i32,
    paint: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    let painted = {
        let area = SVGBackend::with_string(&mut svg, (WIDTH as u32, height as u32)).into_drawing_area();
        paint(&area).and_then(|()| Ok(area.present()?))
    };
    painted.map_err(|error| ChartError { chart: title, reason: error.to_string() })?;
    Ok(svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{title}\" "), 1))
}

fn text(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    colour: Colour,
    horizontal: HPos,
) -> Result<(), Box<dyn Error>> {
    let style = ("sans-serif", FONT).into_font().color(&colour.rgb()).pos(Pos::new(horizontal, VPos::Center));
    Ok(area.draw(&Text::new(text.to_owned(), at, style))?)
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARACTERS_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_CHARACTERS_MAX - 1).chain(['\u{2026}']).collect()
}

const WIDTH: i32 = 480;
const CURVE_HEIGHT: i32 = 280;
/// `plotters` divides by 1.24: 14 pixels.
const FONT: f64 = 14.0 * 1.24;
const NAME_HEIGHT: i32 = 26;
const NAME_CHARACTERS_MAX: usize = 54;
const BAR_HEIGHT: i32 = 16;
const BAR_STEP: i32 = 20;
const GROUP_GAP: i32 = 8;
/// Room for the figure behind the longest bar.
const VALUE_WIDTH: i32 = 110;
const STRIP_HEIGHT: i32 = 26;
const AXIS_HEIGHT: i32 = 26;
const MARGIN: i32 = 20;
/// More labels would run into each other.
const NINES_MAX: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        assert_eq!(ticks(5.3, 6.9), [5.0, 5.5, 6.0, 6.5, 7.0]);
        assert_eq!(ticks(1.0, 10.3), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        for (least, most) in [(0.0, 0.0), (1.0, 1.0), (0.001, 90_000.0), (5.31, 5.32)] {
            let ticks = ticks(least, most);
            assert!((2..=9).contains(&ticks.len()), "{ticks:?}");
            assert!(ticks[0] <= least && *ticks.last().unwrap() >= most, "{ticks:?}");
        }
    }

    #[test]
    fn nines_are_written_as_percentages() {
        assert_eq!([0.0, 1.0, 2.0, 3.0, 5.0].map(percentile), ["0%", "90%", "99%", "99.9%", "99.999%"]);
        assert_eq!(percentile(0.5), "");
    }

    #[test]
    fn decades_have_a_unit_and_no_decimals() {
        let labels = [0.01, 1.0, 100.0, 1e3, 1e5, 1e6, 1e7].map(decade);
        assert_eq!(labels, ["10 ns", "1 us", "100 us", "1 ms", "100 ms", "1 s", "10 s"]);
        assert_eq!(decade(2.0), "");
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let bars = bars("t", &[Group { name: "<a&\"b".to_owned(), bars: vec![] }]).unwrap();
        assert!(bars.contains("&lt;a&amp;&quot;b") && !bars.contains("<a&"), "{bars}");
    }
}
