//! Where the time of a call went, as a small chart (`--trace`): each attempt, and each of its phases.

use std::fmt::Write as _;
use std::time::Duration;

use anywire::load::text;
use clap::builder::styling::{AnsiColor, Style};

/// A part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// What it was about.
    pub(super) name: String,
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// A line for each part, each bar where its time lies in that of the call.
pub(super) fn chart(spans: &[Span], total: Duration, coloured: bool) -> String {
    let style = if coloured { AnsiColor::Green.on_default() } else { Style::new() };
    let all = Span { name: "all".to_owned(), from: Duration::ZERO, until: total };
    let lines = spans.iter().chain([&all]);
    let widest = lines.clone().map(|span| span.name.chars().count()).max().unwrap_or(0).min(NAME_WIDTH);
    let mut chart = String::new();
    for Span { name, from, until } in lines {
        let share = |time: Duration| time.as_secs_f64() / total.as_secs_f64().max(1e-9);
        let name: String = match name.chars().count() {
            0..=NAME_WIDTH => name.clone(),
            // The end of a path tells more than its begin.
            count => "..".chars().chain(name.chars().skip(count - NAME_WIDTH + 2)).collect(),
        };
        // Casting saturates, and so it stays on the chart.
        let before = ((share(*from) * BAR_WIDTH as f64) as usize).min(BAR_WIDTH - 1);
        let length = until.saturating_sub(*from);
        let bar = match text::bar(share(length).min(1.0 - before as f64 / BAR_WIDTH as f64), BAR_WIDTH) {
            bar if bar.is_empty() => "\u{258f}".to_owned(),
            bar => bar,
        };
        let after = BAR_WIDTH.saturating_sub(before + bar.chars().count());
        let time = text::time(length.as_secs_f64() * 1e6);
        // Writing to a string does not fail.
        let _ =
            writeln!(chart, "{name:<widest$}  {:before$}{style}{bar}{style:#}{:after$}  {time:>9}", "", "");
    }
    chart
}

const NAME_WIDTH: usize = 44;
const BAR_WIDTH: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_lies_where_its_time_was() {
        let ms = Duration::from_millis;
        let span = |name: &str, from, until| Span { name: name.to_owned(), from: ms(from), until: ms(until) };
        let spans =
            [span("GET /old: 302", 0, 10), span("GET /new: 200", 10, 30), span("body of 7 bytes", 30, 30)];
        let shown = chart(&spans, ms(40), false);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines[0],
            format!("GET /old: 302    {}{}    10.0 ms", "\u{2588}".repeat(9), " ".repeat(27))
        );
        assert_eq!(
            lines[1],
            format!(
                "GET /new: 200    {}{}{}    20.0 ms",
                " ".repeat(9),
                "\u{2588}".repeat(18),
                " ".repeat(9)
            )
        );
        assert_eq!(
            lines[2],
            format!("body of 7 bytes  {}\u{258f}{}    0.00 us", " ".repeat(27), " ".repeat(8))
        );
        assert_eq!(lines[3], format!("all              {}    40.0 ms", "\u{2588}".repeat(36)));
        // Whatever the times are.
        let long = span(&"x".repeat(100), 50, 90);
        let shown = chart(&[long, span("none", 90, 50)], ms(0), true);
        assert!(shown.lines().all(|line| line.chars().count() < 120), "{shown}");
    }
}
