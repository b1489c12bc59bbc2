//! The matrix: rows of transfers over lines of all kinds, in both roles, over both versions of IP, and with each congestion control of
//! the kernel's.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::field::{Field, LineEnd, Plan, Version};
use crate::impairment::Impairment;
use crate::transfer::{Manner, Outcome, Transfer};

/// A row of the matrix.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// The line.
    pub impairment: Impairment,
    /// What is transferred.
    pub transfer: Transfer,
}

/// How much is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// A few seconds: tests.
    Short,
    /// Everything.
    Long,
}

/// What came of a matrix.
#[derive(Debug)]
pub struct Matrix {
    rows: Vec<Row>,
    controls: Vec<String>,
    /// By row, congestion control and column: seconds, or what was wrong.
    cells: Vec<Vec<Vec<Result<f64, String>>>>,
}

/// The rows of this extent.
pub fn rows(extent: Extent) -> Vec<Row> {
    let is_long = extent == Extent::Long;
    let perfect = Impairment::default();
    let far = Impairment { round_trip_ms: if is_long { 50 } else { 10 }, ..perfect };
    let row = |name: &str, impairment, transfer| Row { name: name.to_owned(), impairment, transfer };
    let mut rows = Vec::new();
    let lengths: &[(&str, u64)] = if is_long {
        &[
            ("1 B", 1),
            ("1,448 B", 1448),
            ("64 KiB", 64 << 10),
            ("1 MiB", 1 << 20),
            ("64 MiB", 64 << 20),
            ("1 GB", 1_000_000_000),
        ]
    } else {
        &[("1 B", 1), ("1 MiB", 1 << 20)]
    };
    for &(name, bytes) in lengths {
        rows.push(row(&format!("{name} each way"), perfect, Transfer::of(Manner::Echo, bytes)));
    }
    rows.push(row("half-close: the answer after the end", perfect, Transfer::of(Manner::InTurns, 1 << 20)));
    rows.push(row("the caller resets", perfect, Transfer::of(Manner::CallerAborts, 100_000)));
    rows.push(row("the listener resets", perfect, Transfer::of(Manner::ListenerAborts, 100_000)));
    let (late, idle) = if is_long { (2500, 4500) } else { (900, 1300) };
    rows.push(row(
        "windows that close",
        perfect,
        Transfer::of(Manner::LateReaders(late), if is_long { 12 << 20 } else { 6 << 20 }),
    ));
    rows.push(row("idle, with keep-alive", perfect, Transfer::of(Manner::IdleBefore(idle), 1000)));
    let counts: &[(&str, usize)] =
        if is_long { &[("100", 100), ("1,000", 1000), ("10,000", 10_000)] } else { &[("300", 300)] };
    for &(name, connections) in counts {
        let transfer = Transfer::of(Manner::InTurns, 2000).over(connections);
        rows.push(row(&format!("{name} connections, 2,000 B"), perfect, transfer));
    }
    let bytes = if is_long { 1 << 20 } else { 100_000 };
    let mut bad = |name: &str, impairment| {
        let transfer = Transfer::of(Manner::InTurns, bytes);
        rows.push(row(&format!("{} KiB, {name}", bytes >> 10), impairment, transfer));
    };
    bad("no loss, far", far);
    let losses: &[(&str, f64)] =
        if is_long { &[("0.1 %", 0.001), ("1 %", 0.01), ("5 %", 0.05)] } else { &[("2 %", 0.02)] };
    for &(name, loss) in losses {
        bad(&format!("{name} lost, far"), Impairment { loss, ..far });
    }
    bad("5 % overtaken", Impairment { reorder: 0.05, ..perfect });
    bad("2 % twice", Impairment { duplicate: 0.02, ..perfect });
    bad("1 % damaged", Impairment { corrupt: 0.01, ..perfect });
    if is_long {
        bad(
            "all of it, far",
            Impairment { loss: 0.01, reorder: 0.02, duplicate: 0.01, corrupt: 0.005, ..far },
        );
    }
    rows
}

/// Runs these rows, and tells each that is done. The program is one that [serves roles](crate::serve_role).
///
/// # Errors
/// The system lacks what a field needs. What goes wrong in a transfer is a cell instead.
pub fn run(program: &Path, rows: Vec<Row>, controls: &[&str], mut told: impl FnMut(&str)) -> Result<Matrix> {
    let mut cells = vec![vec![Vec::new(); controls.len()]; rows.len()];
    let mut done = vec![false; rows.len()];
    // Rows with the same line share a field.
    while let Some(first) = done.iter().position(|done| !done) {
        let impairment = rows[first].impairment;
        let plan = plan(program.to_owned(), impairment);
        let mut field = Field::set_up(&plan)?;
        for at in (first..rows.len()).filter(|&at| rows[at].impairment == impairment) {
            done[at] = true;
            for (number, control) in controls.iter().enumerate() {
                field.set_congestion_control(control);
                for column in &COLUMNS {
                    let cell = column.transfer(&mut field, &rows[at]).map_err(|fault| format!("{fault:#}"));
                    if let Err(fault) = &cell {
                        told(&format!("{}, {control}, {}: {fault}", rows[at].name, column.name));
                        // What is left of it must not be taken for the next one's.
                        field = Field::set_up(&plan)?;
                        field.set_congestion_control(control);
                    }
                    cells[at][number].push(cell);
                }
            }
            told(&format!("{}: {}", rows[at].name, in_a_line(&cells[at])));
        }
    }
    Ok(Matrix { rows, controls: controls.iter().map(|&name| name.to_owned()).collect(), cells })
}

fn plan(program: PathBuf, impairment: Impairment) -> Plan {
    Plan { program, impairment, window_bytes: 256 << 10, cores: [None; 3] }
}

fn in_a_line(cells: &[Vec<Result<f64, String>>]) -> String {
    let texts: Vec<_> = cells.iter().flatten().map(cell_text).collect();
    texts.join(" ")
}

/// Who calls whom.
struct Column {
    name: &'static str,
    caller: LineEnd,
    listener: LineEnd,
    version: Version,
}

const COLUMNS: [Column; 5] = [
    Column { name: "we call, IPv4", caller: LineEnd::Engine, listener: LineEnd::Right, version: Version::V4 },
    Column { name: "we call, IPv6", caller: LineEnd::Engine, listener: LineEnd::Right, version: Version::V6 },
    Column {
        name: "Linux calls, IPv4",
        caller: LineEnd::Right,
        listener: LineEnd::Engine,
        version: Version::V4,
    },
    Column {
        name: "Linux calls, IPv6",
        caller: LineEnd::Right,
        listener: LineEnd::Engine,
        version: Version::V6,
    },
    Column {
        name: "Linux calls Linux",
        caller: LineEnd::Left,
        listener: LineEnd::Right,
        version: Version::V4,
    },
];

impl Column {
    /// Seconds of the transfer.
    fn transfer(&self, field: &mut Field, row: &Row) -> Result<f64> {
        let mut transfer = row.transfer;
        let mut outcomes = field.transfer(self.caller, self.listener, self.version, transfer)?;
        // On a busy machine a reader may begin before its peer has filled the window and asked for more.
        for _ in 0..2 {
            let Manner::LateReaders(pause_ms) = transfer.manner else { break };
            if outcomes.iter().all(has_probed) {
                break;
            }
            transfer.manner = Manner::LateReaders(4 * pause_ms);
            outcomes = field.transfer(self.caller, self.listener, self.version, transfer)?;
        }
        let each = row.transfer.bytes * row.transfer.connections as u64;
        for (outcome, read) in outcomes.iter().zip(bytes_read(row.transfer.manner, each)) {
            ensure!(outcome.read_bytes == read, "{} bytes were read of {read}", outcome.read_bytes);
            self.check(row, outcome)?;
        }
        Ok(outcomes[0].seconds)
    }

    /// Looks at what the kernel and the engine say.
    fn check(&self, row: &Row, outcome: &Outcome) -> Result<()> {
        if let Some(kernel) = &outcome.kernel {
            ensure!(kernel.timestamps && kernel.sack, "options are missing: {kernel:?}");
            ensure!(kernel.window_scales.is_some(), "windows are not scaled: {kernel:?}");
            let segment_bytes = if self.version == Version::V4 { 1448 } else { 1428 };
            ensure!(kernel.segment_bytes_out == segment_bytes, "segments: {kernel:?}");
        }
        if matches!(row.transfer.manner, Manner::LateReaders(_)) {
            ensure!(has_probed(outcome), "no window was closed, or none was probed: {outcome:?}");
        }
        let Some(engine) = &outcome.engine else { return Ok(()) };
        if matches!(row.transfer.manner, Manner::IdleBefore(_)) {
            ensure!(engine.keep_alives > 0, "no keep-alive: {engine:?}");
        }
        let is_damaged = row.impairment.corrupt > 0.0;
        ensure!(is_damaged || engine.malformed == 0, "damaged frames: {engine:?}");
        Ok(())
    }
}

/// Whether the window of this end's peer has closed, and was probed if the end is the engine.
fn has_probed(outcome: &Outcome) -> bool {
    outcome.kernel.as_ref().is_none_or(|kernel| kernel.window_limited_us > 0)
        && outcome.engine.as_ref().is_none_or(|engine| engine.window_probes > 0)
}

/// Bytes that the caller and the listener read, if one of them sends so many.
fn bytes_read(manner: Manner, each: u64) -> [u64; 2] {
    match manner {
        Manner::CallerAborts | Manner::ListenerAborts => [0, each / 2],
        _ => [each, each],
    }
}

impl Matrix {
    /// Whether each cell is as it must be.
    pub fn is_right(&self) -> bool {
        self.cells.iter().flatten().flatten().all(Result::is_ok)
    }

    /// What is not as it must be.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (row, by_control) in self.rows.iter().zip(&self.cells) {
            for (control, cells) in self.controls.iter().zip(by_control) {
                for (column, cell) in COLUMNS.iter().zip(cells) {
                    faults.extend(
                        cell.as_ref()
                            .err()
                            .map(|fault| format!("{}, {control}, {}: {fault}", row.name, column.name)),
                    );
                }
            }
        }
        faults
    }

    /// A table for each congestion control of the kernel's.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        let cells: usize = self.cells.iter().flatten().map(Vec::len).sum();
        let faults = self.faults();
        let _ = writeln!(text, "Of {cells} transfers {} are as they must be.", cells - faults.len());
        for (number, control) in self.controls.iter().enumerate() {
            let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
            let _ = writeln!(text, "\n| the kernel's is {control} | {} |", names.join(" | "));
            let _ = writeln!(text, "| --- |{}", " --- |".repeat(names.len()));
            for (row, by_control) in self.rows.iter().zip(&self.cells) {
                let cells: Vec<_> = by_control[number].iter().map(cell_text).collect();
                let _ = writeln!(text, "| {} | {} |", row.name, cells.join(" | "));
            }
        }
        for fault in faults {
            let _ = write!(text, "\n- {fault}");
        }
        text.trim_end().to_owned()
    }
}

fn cell_text(cell: &Result<f64, String>) -> String {
    match cell {
        Ok(seconds) if *seconds < 0.1 => format!("{:.1} ms", seconds * 1e3),
        Ok(seconds) => format!("{seconds:.2} s"),
        Err(_) => "**wrong**".to_owned(),
    }
}

/// Puts tables into a page, between the two lines that mark their place.
///
/// # Errors
/// The page cannot be read or written, or has no such lines.
pub fn write_into(page: &Path, tables: &str) -> Result<()> {
    let text = std::fs::read_to_string(page).with_context(|| page.display().to_string())?;
    let split = text.split_once(START).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, behind) = split.with_context(|| format!("{} has no place for tables", page.display()))?;
    std::fs::write(page, format!("{before}{START}\n{tables}\n\n{END}{behind}"))?;
    Ok(())
}

const START: &str = "<!-- interop -->\n";
const END: &str = "<!-- end of interop -->";
