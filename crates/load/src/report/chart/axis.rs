//! The ticks of an axis: round numbers whose labels fit beside each other.

use super::svg::width;
use crate::text::{digits, whole};

/// A scale from left to right that encloses all its values.
pub(super) struct Ticks {
    first: f64,
    step: f64,
    /// How many steps there are.
    steps: usize,
    /// Where the first and the last tick are.
    ends: [f64; 2],
}

impl Ticks {
    /// As many ticks as have room for their labels on a chart of this width, nine at most.
    pub(super) fn of(values: impl Iterator<Item = f64> + Clone, chart_width: f64) -> Self {
        let (least, most) =
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
        let mut parts = PARTS_MAX;
        loop {
            let mut ticks = Self::in_parts(least, most, parts);
            let edge = |value: f64| (width(&ticks.label(value)) / 2.0).max(MARGIN);
            let last = ticks.first + ticks.steps as f64 * ticks.step;
            ticks.ends = [edge(ticks.first), chart_width - edge(last)];
            if parts == 1 || ticks.labels().len() > ticks.steps {
                return ticks;
            }
            parts -= 1;
        }
    }

    /// Round numbers that enclose both values, in about so many parts.
    fn in_parts(least: f64, most: f64, parts: u32) -> Self {
        if !least.is_finite() || !most.is_finite() {
            return Self { first: 0.0, step: 1.0, steps: 1, ends: [0.0, 1.0] };
        }
        let span = (most - least).max(most.abs() * 0.02).max(1e-3);
        let rough = span / f64::from(parts);
        let magnitude = 10_f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].map(|factor| factor * magnitude).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(magnitude * 10.0);
        let first = (least / step).floor();
        let last = (most / step).ceil().max(first + 1.0);
        Self { first: first * step, step, steps: (last - first).round() as usize, ends: [0.0, 1.0] }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        (0..=self.steps).map(|index| self.first + index as f64 * self.step)
    }

    /// The ticks whose labels do not run into each other.
    pub(super) fn labels(&self) -> Vec<(f64, String)> {
        let all: Vec<_> = self.values().map(|value| (value, self.label(value))).collect();
        let places: Vec<_> = all.iter().map(|(value, _)| self.place(*value)).collect();
        let widths: Vec<_> = all.iter().map(|(_, label)| width(label)).collect();
        fitting(&places, &widths).into_iter().map(|index| all[index].clone()).collect()
    }

    /// With the decimals that tell it from the next one.
    fn label(&self, value: f64) -> String {
        let decimals = (-self.step.log10() - 1e-9).ceil().max(0.0) as usize;
        if decimals == 0 && value >= 0.0 { whole(value) } else { format!("{value:.decimals$}") }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let [left, right] = self.ends;
        left + (value - self.first) / (self.steps as f64 * self.step) * (right - left)
    }
}

/// Round numbers that enclose both values, in about so many parts.
pub(super) fn round_values(least: f64, most: f64, parts: u32) -> Vec<f64> {
    Ticks::in_parts(least, most, parts).values().collect()
}

/// The indices of labels that do not run into each other, of those that are centred at `places` by rising place. The first and
/// the last are among them.
pub(super) fn fitting(places: &[f64], widths: &[f64]) -> Vec<usize> {
    let edges = |index: usize| [places[index] - widths[index] / 2.0, places[index] + widths[index] / 2.0];
    let Some(last) = places.len().checked_sub(1) else { return Vec::new() };
    let mut chosen = vec![0];
    for index in 1..last {
        let [left, right] = edges(index);
        let before = edges(chosen[chosen.len() - 1])[1];
        if before + LABEL_GAP <= left && right + LABEL_GAP <= edges(last)[0] {
            chosen.push(index);
        }
    }
    if last > 0 && edges(0)[1] + LABEL_GAP <= edges(last)[0] {
        chosen.push(last);
    }
    chosen
}

/// A power of ten, with as many digits as it takes: `0.001`, `1,000`.
///
/// ```
/// use anywire_load::report::chart::power;
///
/// assert_eq!([0.01, 1.0, 1e6].map(power), ["0.01", "1", "1,000,000"]);
/// ```
pub fn power(value: f64) -> String {
    match value {
        1.0.. => whole(value),
        0.000_001..1.0 => format!("{value}"),
        _ => digits(value),
    }
}

const PARTS_MAX: u32 = 6;
const MARGIN: f64 = 20.0;
/// Between two labels.
const LABEL_GAP: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        let of = |least, most| -> Vec<String> {
            Ticks::of([least, most].into_iter(), 480.0).labels().into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(of(5.3, 6.9), ["5.0", "5.5", "6.0", "6.5", "7.0"]);
        assert_eq!(of(1.0, 10.3), ["0", "2", "4", "6", "8", "10", "12"]);
        // Labels that are equal would say nothing.
        assert_eq!(of(12.3, 12.4), ["12.30", "12.35", "12.40"]);
        assert_eq!(of(f64::INFINITY, f64::NEG_INFINITY), ["0", "1"]);
        for (least, most) in
            [(0.0, 0.0), (1.0, 1.0), (0.001, 90_000.0), (5.31, 5.32), (1.0, 3e15), (1e15, 1e15 + 1.0)]
        {
            let ticks = Ticks::of([least, most].into_iter(), 480.0);
            let values = ticks.labels();
            assert!((2..=9).contains(&values.len()), "{values:?}");
            let slack = most * 1e-12;
            assert!(values[0].0 <= least + slack, "{values:?}");
            assert!(values[values.len() - 1].0 >= most - slack, "{values:?}");
            let mut right = 0.0;
            for (value, label) in values {
                let half = width(&label) / 2.0;
                assert!(ticks.place(value) - half >= right, "{label} at {}", ticks.place(value));
                right = ticks.place(value) + half;
            }
            assert!(right <= 480.0, "{right}");
        }
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        assert_eq!(fitting(&[], &[]), Vec::<usize>::new());
        assert_eq!(fitting(&[10.0], &[20.0]), [0]);
        assert_eq!(fitting(&[10.0, 40.0, 70.0], &[20.0; 3]), [0, 1, 2]);
        assert_eq!(fitting(&[10.0, 20.0, 45.0, 60.0, 75.0], &[20.0; 5]), [0, 2, 4]);
        // The last one counts more than those before it.
        assert_eq!(fitting(&[10.0, 50.0, 60.0], &[20.0; 3]), [0, 2]);
        assert_eq!(fitting(&[10.0, 20.0], &[20.0; 2]), [0]);
    }
}
