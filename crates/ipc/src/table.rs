//! The outcome as text for a terminal, and as a page.

use std::fmt;

use anywire_load::report::chart::{self, Line};
use anywire_load::report::palette::style;
use anywire_load::report::{Chart, Page};
use anywire_load::text::{Columns, counted, digits, known, time, whole};

use crate::outcome::{Found, Outcome, Row};
use crate::plan::{Pattern, Way};

const HEADINGS: [&str; 10] = [
    "way",
    "waits",
    "size",
    "p50",
    "p99",
    "p99.9",
    "max",
    "messages/s",
    "MB/s",
    "CPU us a message, here/there",
];

impl Outcome {
    /// How it was measured, in sentences.
    fn remarks(&self) -> Vec<String> {
        let cores = match self.cores {
            Some([one, other]) => format!("the two ends are threads, pinned to the cores {one} and {other}"),
            None => "the two ends are threads, which the system places".to_owned(),
        };
        let mut remarks = vec![
            format!("{}.", self.host.line()),
            format!("Each row for {} s; {cores}.", digits(self.seconds_per_row)),
            "Latencies are those of the whole round trip. An end that spins takes its core whole.".to_owned(),
        ];
        if self.interrupted {
            remarks.push(match self.rows.len() as u64 {
                0 => "Interrupted before the first row had a message.".to_owned(),
                rows => format!("Interrupted: {}, the last of which may be cut short.", counted(rows, "row")),
            });
        }
        remarks
    }

    fn rows_of(&self, pattern: Pattern) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.pattern == pattern)
    }

    /// A page with charts, the tables and the whole result as JSON.
    pub fn page(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("it holds only strings and numbers");
        let mut page = Page::new("anywire lab ipc: what a message costs on one machine");
        self.remarks().iter().for_each(|remark| page.paragraph(remark));
        let round_trip = |found: &Found| found.round_trip_us.as_ref().map(|latency| latency.p50);
        let rate = |found: &Found| Some(found.bytes_per_second / 1e6);
        page.charts(vec![
            self.chart("Round trip by size, median (less is better)", Pattern::PingPong, round_trip, time),
            self.chart("Stream by size, MB/s (more is better)", Pattern::Stream, rate, chart::power),
        ]);
        for (pattern, caption) in CAPTIONS {
            let rows: Vec<_> = self.rows_of(pattern).map(cells).collect();
            if !rows.is_empty() {
                page.table(caption, &HEADINGS, &rows);
            }
        }
        page.finish(&json)
    }

    fn chart(
        &self,
        title: &str,
        pattern: Pattern,
        value: impl Fn(&Found) -> Option<f64>,
        name: impl Fn(f64) -> String,
    ) -> Chart {
        let mut ways: Vec<Way> = self.rows_of(pattern).map(|row| row.way).collect();
        ways.dedup();
        ways.retain(|way| *way != Way::Line);
        let (mut legend, mut lines) = (Vec::new(), Vec::new());
        for (index, way) in ways.into_iter().enumerate() {
            let style = style(index);
            legend.push((style.into(), format!("{} ({})", way.name(), way.waits())));
            let points = self
                .rows_of(pattern)
                .filter(|row| row.way == way)
                .filter_map(|row| Some((row.size_bytes as f64, value(row.found.as_ref()?)?)));
            lines.push(Line { points: points.collect(), style });
        }
        Chart { title: title.to_owned(), legend, svg: chart::lines(title, &lines, size, name) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.remarks().iter().try_for_each(|remark| writeln!(formatter, "{remark}"))?;
        for (pattern, caption) in CAPTIONS {
            let mut columns = Columns::new(2, &HEADINGS);
            let mut has_rows = false;
            for row in self.rows_of(pattern) {
                columns.row(cells(row));
                has_rows = true;
            }
            if has_rows {
                write!(formatter, "\n{caption}\n{}", columns.render())?;
            }
        }
        Ok(())
    }
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![row.way.name().to_owned(), row.waits.to_owned(), size(row.size_bytes as f64)];
    let Some(found) = &row.found else {
        cells.extend(row.why_not.clone());
        return cells;
    };
    let latency = found.round_trip_us.as_ref();
    for value in [
        latency.map(|latency| latency.p50),
        latency.map(|latency| latency.p99),
        latency.map(|latency| latency.p99_9),
        latency.map(|latency| latency.max),
    ] {
        cells.push(known(value, time));
    }
    cells.push(whole(found.messages_per_second));
    cells.push(digits(found.bytes_per_second / 1e6));
    cells.push(format!("{} / {}", digits(found.here_cpu_us), digits(found.there_cpu_us)));
    cells
}

/// A size as it is written on the command line.
fn size(bytes: f64) -> String {
    match bytes as usize {
        bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{}m", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{}k", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

const CAPTIONS: [(Pattern, &str); 2] = [
    (Pattern::PingPong, "Ping-pong: one message to and fro"),
    (Pattern::Stream, "Stream: messages in one direction"),
];
