//! The picture of a run: what is known in figures, then as much over time as the terminal has room for.
//!
//! Below [`FULL`] there are no frames and no charts: a line for each figure, and the rate over time in what is left. Colours only repeat
//! what the text says, so that nothing is lost without them.

use std::time::Duration;

use anywire::load::text::{self, grouped, time, whole};
use anywire::load::{Amount, RunPhase, Snapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect, Size};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, LineGauge, Paragraph, Sparkline};

use super::history::{BANDS, History};
use crate::watch::{self, Facts};

/// Draws the whole run.
pub(super) fn run(
    frame: &mut Frame<'_>,
    facts: &Facts,
    history: &History,
    now: &Snapshot,
    is_coloured: bool,
) {
    let area = frame.area();
    let picture = Picture { facts, history, now, paint: Paint { is_coloured } };
    if area.width < FULL.width || area.height < FULL.height {
        return picture.small(frame, area);
    }
    picture.full(frame, area);
}

/// All that is drawn.
struct Picture<'a> {
    facts: &'a Facts,
    history: &'a History,
    now: &'a Snapshot,
    paint: Paint,
}

impl Picture<'_> {
    fn full(&self, frame: &mut Frame<'_>, area: Rect) {
        let low = if area.height < 24 { 5 } else { 8 };
        let [title, progress, charts, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(low),
        ])
        .areas(area);
        frame.render_widget(self.title(), title);
        self.progress(frame, progress);
        let halves = [Constraint::Fill(1), Constraint::Fill(1)];
        // Side by side each has the height for its shape.
        let is_wide = area.width >= 2 * FULL.width;
        let [rate, latency] =
            if is_wide { Layout::horizontal(halves) } else { Layout::vertical(halves) }.areas(charts);
        self.rate_chart(frame, rate);
        self.latency_chart(frame, latency);
        let [left, right] = Layout::horizontal(halves).areas(foot);
        let counts = Block::bordered().title(" connections and errors ");
        frame.render_widget(Paragraph::new(self.counts()).block(counts), left);
        self.loops(frame, right);
    }

    fn small(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut lines = vec![self.title()];
        let (_, text) = self.how_far();
        lines.push(Line::from(text));
        lines.push(self.rate());
        // One figure a line if they do not fit into one.
        let bands = self.bands();
        match bands.width() <= usize::from(area.width) {
            true => lines.push(bands),
            false => lines.extend(bands.spans.into_iter().map(Line::from)),
        }
        lines.extend(self.counts());
        lines.push(Line::from(self.balance()));
        let rows = (lines.len() as u16).min(area.height);
        let [figures, rest] = Layout::vertical([Constraint::Length(rows), Constraint::Min(0)]).areas(area);
        frame.render_widget(Paragraph::new(lines), figures);
        let rates = self.history.points().map(|point| point.rate as u64);
        // The latest ones, if there is no room for all.
        let skipped = rates.clone().count().saturating_sub(usize::from(rest.width));
        let rates: Vec<u64> = rates.skip(skipped).collect();
        frame.render_widget(Sparkline::default().data(rates).style(self.paint.of(Color::Cyan)), rest);
    }

    fn title(&self) -> Line<'static> {
        Line::styled(self.facts.line(), Style::new().add_modifier(Modifier::BOLD))
    }

    fn progress(&self, frame: &mut Frame<'_>, area: Rect) {
        let (share, text) = self.how_far();
        let gauge = LineGauge::default().ratio(share).label(text).filled_style(self.paint.of(Color::Green));
        frame.render_widget(gauge.filled_symbol("━").unfilled_symbol("─"), area);
    }

    /// The share of the run that is done, and what it is at.
    fn how_far(&self) -> (f64, String) {
        let phase = watch::phase(self.now.phase);
        let counts = self.now.counts();
        let measured = match (self.now.phase, self.now.measured()) {
            (RunPhase::Measuring, Some(measured)) => measured,
            (RunPhase::Ended, _) => return (1.0, phase.to_owned()),
            _ => {
                let open = grouped(counts.connections_open);
                return (0.0, format!("{phase}: {open} of {} open", grouped(self.facts.connections as u64)));
            }
        };
        let (share, of, left) = match self.facts.amount {
            Amount::Duration(time) => {
                let share = measured.as_secs_f64() / time.as_secs_f64();
                (share, format!("{} of {}", span(measured), span(time)), time.checked_sub(measured))
            }
            Amount::Requests(requests) => {
                let share = counts.answered as f64 / requests as f64;
                // As fast as it was so far.
                let left = measured.as_secs_f64() * (1.0 / share - 1.0);
                let left = Duration::try_from_secs_f64(left).ok();
                (share, format!("{} of {}", grouped(counts.answered), grouped(requests)), left)
            }
        };
        let left = left.map_or_else(String::new, |left| format!(", {} left", span(left)));
        (share.clamp(0.0, 1.0), format!("{of}{left}"))
    }

    /// The rate in figures.
    fn rate(&self) -> Line<'static> {
        let now = self.history.last().map_or_else(|| "-".to_owned(), |point| whole(point.rate));
        let mut spans = vec![Span::styled(format!("{now} answers/s"), self.paint.of(Color::Cyan))];
        if let Some(rate) = self.facts.rate {
            spans.push(Span::raw(format!(", target {}", whole(rate))));
        }
        let (measured, answered) = (self.now.measured(), self.now.counts().answered);
        if let Some(measured) = measured.filter(|measured| !measured.is_zero()) {
            spans.push(Span::raw(format!(", mean {}", whole(answered as f64 / measured.as_secs_f64()))));
        }
        Line::from(spans)
    }

    /// The latencies of the last half second in figures, each a span.
    fn bands(&self) -> Line<'static> {
        let known = self.history.last().and_then(|point| point.latency);
        let spans = BANDS.iter().enumerate().map(|(index, (name, _))| {
            let latency = known.map_or_else(|| "-".to_owned(), |known| time(known[index]));
            Span::styled(format!("{name} {latency}  "), self.paint.of(COLOURS[index]))
        });
        Line::from_iter(spans)
    }

    fn rate_chart(&self, frame: &mut Frame<'_>, area: Rect) {
        let points: Vec<_> = self.history.points().map(|point| (point.seconds, point.rate)).collect();
        let (begin, end) = self.times();
        let target: Vec<_> = self.facts.rate.iter().flat_map(|rate| [(begin, *rate), (end, *rate)]).collect();
        let top = self.history.rate_max().max(self.facts.rate.unwrap_or(0.0)).max(1.0) * 1.1;
        let sets = vec![line(&target, Style::new()), line(&points, self.paint.of(Color::Cyan))];
        let labels = [String::from("0"), whole(top / 2.0), whole(top)];
        let rate = Axis::default().bounds([0.0, top]).labels(labels);
        let mut title = self.rate();
        title.spans.insert(0, Span::raw(" "));
        title.spans.push(Span::raw(" "));
        let chart = Chart::new(sets).x_axis(self.time_axis()).y_axis(rate);
        frame.render_widget(chart.block(Block::bordered().title(title)), area);
    }

    /// The latencies over time, of which each tenfold has the same height.
    fn latency_chart(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut bands: [Vec<(f64, f64)>; BANDS.len()] = Default::default();
        for point in self.history.points() {
            for (band, latency) in bands.iter_mut().zip(point.latency.into_iter().flatten()) {
                band.push((point.seconds, latency.max(LEAST_US).log10()));
            }
        }
        let (least, most) = self.history.latency_range().unwrap_or((100.0, 1000.0));
        let bottom = least.max(LEAST_US).log10().floor();
        let top = most.max(LEAST_US).log10().ceil().max(bottom + 1.0);
        let decades = (0..=(top - bottom) as i32).map(|decade| time(10_f64.powi(bottom as i32 + decade)));
        // Of many decades there is room for some.
        let all: Vec<String> = decades.collect();
        let step = all.len().div_ceil(usize::from(area.height.saturating_sub(3)).max(1)).max(1);
        let labels = if step == 1 { all } else { [&all[0], &all[all.len() - 1]].map(Clone::clone).to_vec() };
        let latency = Axis::default().bounds([bottom, top]).labels(labels);
        let styles = COLOURS.map(|colour| self.paint.of(colour));
        let sets = bands.iter().zip(styles).map(|(band, style)| line(band, style)).collect();
        let mut title = self.bands();
        title.spans.insert(0, Span::raw(format!(" latency from {}: ", self.facts.latency_from)));
        let chart = Chart::new(sets).x_axis(self.time_axis()).y_axis(latency);
        frame.render_widget(chart.block(Block::bordered().title(title)), area);
    }

    /// From when to when the charts show, in seconds since the begin.
    fn times(&self) -> (f64, f64) {
        let end = self.history.last().map_or(0.0, |point| point.seconds);
        let begin = self.history.points().next().map_or(0.0, |point| point.seconds);
        (begin, end.max(begin + 1.0))
    }

    fn time_axis(&self) -> Axis<'static> {
        let (begin, end) = self.times();
        let label = |seconds: f64| span(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        Axis::default().bounds([begin, end]).labels([label(begin), label(end)])
    }

    /// Connections, and errors by kind with the first of each in words.
    fn counts(&self) -> Vec<Line<'static>> {
        let counts = self.now.counts();
        let (open, of) = (grouped(counts.connections_open), grouped(self.facts.connections as u64));
        let lost = grouped(counts.connections_lost);
        let mut lines = vec![Line::from(format!("connections: {open} of {of}, {lost} lost"))];
        let style = if counts.errors.total() > 0 { self.paint.of(Color::Red) } else { Style::new() };
        let recent = self.history.last().map_or(0, |point| point.errors);
        let recent = if recent > 0 { format!(" (+{})", grouped(recent)) } else { String::new() };
        lines.push(Line::styled(format!("errors: {}{recent}", counts.errors.line()), style));
        lines.extend(self.now.error_samples.iter().map(|sample| Line::from(sample.to_string())));
        lines
    }

    /// How even the loops' parts were in the last half second.
    fn balance(&self) -> String {
        let of = self.history.last().map_or(&[][..], |point| &point.answered_by_loop);
        let (most, sum) = (of.iter().max().copied().unwrap_or(0), of.iter().sum::<u64>());
        let parts = text::counted(self.now.loops.len() as u64, self.facts.part);
        if sum == 0 || of.len() < 2 {
            return parts;
        }
        format!("{parts}: the busiest has {:.2} of the mean", most as f64 * of.len() as f64 / sum as f64)
    }

    /// The answers of each loop in the last half second: a bar a line, or a column each if there are many.
    fn loops(&self, frame: &mut Frame<'_>, area: Rect) {
        let block = Block::bordered().title(format!(" {} ", self.balance()));
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let Some(point) = self.history.last() else { return };
        let of = &point.answered_by_loop;
        if of.len() > usize::from(inner.height) {
            let columns = Sparkline::default().data(of.iter().copied()).style(self.paint.of(Color::Cyan));
            return frame.render_widget(columns, inner);
        }
        let (most, sum) = (of.iter().max().copied().unwrap_or(0).max(1), of.iter().sum::<u64>().max(1));
        let width = usize::from(inner.width).saturating_sub(12);
        let bars = of.iter().enumerate().map(|(number, answered)| {
            let bar = text::bar(*answered as f64 / most as f64, width);
            let share = 100.0 * *answered as f64 / sum as f64;
            Line::from(vec![
                Span::raw(format!("{number:>3} {share:>3.0} % ")),
                Span::styled(bar, self.paint.of(Color::Cyan)),
            ])
        });
        frame.render_widget(Paragraph::new(Vec::from_iter(bars)), inner);
    }
}

/// Colours, unless none are wanted.
struct Paint {
    is_coloured: bool,
}

impl Paint {
    fn of(&self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }
}

fn line<'a>(points: &'a [(f64, f64)], style: Style) -> Dataset<'a> {
    Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points)
}

/// A length of time in the two units that matter.
fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{:.1} s", time.as_secs_f64()),
        120..7200 => format!("{} m {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} m", seconds / 3600, seconds / 60 % 60),
    }
}

/// From this size up there are charts.
const FULL: Size = Size { width: 76, height: 16 };
/// Those of [`BANDS`].
const COLOURS: [Color; BANDS.len()] = [Color::Green, Color::Cyan, Color::Yellow, Color::Red];
/// What is shorter stands here: a logarithm has no zero.
const LEAST_US: f64 = 0.01;

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::history::tests::{history, snapshot};
    use super::*;

    fn facts() -> Facts {
        Facts {
            target: "http://localhost:8080/".to_owned(),
            connections: 64,
            depth: ("depth", 1),
            amount: Amount::Duration(Duration::from_secs(100)),
            warm_up: Duration::from_secs(1),
            rate: None,
            part: "loop",
            latency_from: "send",
        }
    }

    /// What a terminal of this size shows after 30 half seconds with 2 x 1000 answers each.
    fn shown(width: u16, height: u16, facts: &Facts, is_coloured: bool) -> (String, bool) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("it is memory");
        let (history, now) = (history(30, 1000), snapshot(30, 1000));
        terminal.draw(|frame| run(frame, facts, &history, &now, is_coloured)).expect("it is memory");
        let buffer = terminal.backend().buffer().clone();
        let has_colour =
            buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        (terminal.backend().to_string(), has_colour)
    }

    #[test]
    fn the_figures_are_there_in_any_size_that_has_room_for_them() {
        for (width, height) in [(40, 12), (60, 16), (80, 24), (100, 30), (240, 80)] {
            let (text, _) = shown(width, height, &facts(), true);
            for figure in ["4,000 answers/s", "p50 1.00 ms", "p99 1.00 ms", "max 40", "errors: none"] {
                assert!(text.contains(figure), "{figure:?} at {width} x {height}:\n{text}");
            }
            for figure in ["15.0 s of 100.0 s, 85.0 s left", "connections: 64 of 64", "2 loops"] {
                assert!(text.contains(figure), "{figure:?} at {width} x {height}:\n{text}");
            }
        }
    }

    #[test]
    fn no_size_is_too_small_or_too_large_to_draw() {
        for width in [1, 2, 10, 40, 75, 76, 151, 152, 200] {
            for height in [1, 2, 3, 8, 15, 16, 23, 24, 60] {
                shown(width, height, &facts(), false);
            }
        }
    }

    #[test]
    fn without_colours_nothing_is_coloured() {
        for (width, height) in [(40, 12), (100, 30)] {
            let (with, coloured) = shown(width, height, &facts(), true);
            let (without, plain) = shown(width, height, &facts(), false);
            assert_eq!((coloured, plain), (true, false));
            assert_eq!(with, without, "colours only repeat what the text says");
        }
    }

    #[test]
    fn charts_have_a_line_for_the_target_and_a_curve_for_each_band() {
        let (text, _) = shown(100, 40, &Facts { rate: Some(8000.0), ..facts() }, false);
        assert!(text.contains("target 8,000") && text.contains("8,800"), "{text}");
        assert!(text.contains("10.0 ms") && text.contains("100 ms"), "decades are labelled: {text}");
        let curves =
            text.lines().filter(|line| line.chars().any(|letter| ('⠀'..='⣿').contains(&letter))).count();
        assert!(curves >= 4, "{text}");
    }

    #[test]
    fn before_the_first_answer_all_is_unknown() {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("it is memory");
        let now = Snapshot { phase: RunPhase::Connecting, ..snapshot(0, 1000) };
        let history = history(0, 1000);
        terminal.draw(|frame| run(frame, &facts(), &history, &now, true)).expect("it is memory");
        let text = terminal.backend().to_string();
        assert!(text.contains("connecting: 64 of 64 open") && text.contains("p50 -"), "{text}");
    }

    #[test]
    fn lengths_of_time_have_two_units() {
        for (seconds, text) in [(0, "0.0 s"), (119, "119.0 s"), (125, "2 m 05 s"), (7260, "2 h 01 m")] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
