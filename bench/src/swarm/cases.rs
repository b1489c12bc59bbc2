//! What the swarm must reach. Each row of the table is a case: most are run by the command `anywire swarm`, and the model of
//! the same connections is measured just before.
//!
//! Each run of the command has a process of its own, so that its memory figure holds nothing of an earlier case.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use super::alone;
use super::model::{Model, Order, World};
use crate::table::{Table, figure};

/// How the cases are run.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "cases")]
pub struct Options {
    /// The command; build it with `cargo build --release --package anywire-cli`.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/anywire"))]
    command: PathBuf,
    /// These cases alone, by their names.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Divides numbers of connections and times: a look at whether all of it runs. Its figures mean nothing.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    divide_by: u32,
}

/// What a figure must reach, and what would be good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// This part of the model's figure, measured in the same run.
    OfModel(f64),
    None,
}

/// A row of the table.
struct Case {
    name: &'static str,
    what: &'static str,
    anchor: &'static str,
    run: What,
    figures: &'static [Figure],
}

/// The command.
#[derive(Clone, Copy)]
enum What {
    /// `anywire swarm` with these options.
    Swarm(&'static [&'static str]),
    /// The switch alone, here.
    Switch,
    /// One connection with much to send, here.
    Bulk,
}

/// One figure of a case, and its goal.
struct Figure {
    unit: &'static str,
    of: Of,
    bar: Goal,
    aim: Goal,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
enum Of {
    /// The key of the result, divided by this.
    Key(&'static str, f64),
    /// The rate divided by that of the case of this name.
    RateTo(&'static str),
    /// Nanoseconds an echo divided by those of the case of this name.
    TimeTo(&'static str),
}

const MILLION: f64 = 1e6;

const fn at_least(unit: &'static str, of: Of, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of, bar: Goal::AtLeast(bar), aim }
}

const fn at_most(unit: &'static str, of: Of, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of, bar: Goal::AtMost(bar), aim }
}

const fn rate(unit: &'static str, bar: Goal, aim: Goal) -> Figure {
    Figure { unit, of: Of::Key("echoes_per_second", MILLION), bar, aim }
}

const fn of_rate(unit: &'static str, case: &'static str, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of: Of::RateTo(case), bar: Goal::AtLeast(bar), aim }
}

const EVERY_BYTE: Figure = at_most("corrupt payloads", Of::Key("corrupt", 1.0), 0.0, Goal::None);

/// The table, in its order.
const CASES: &[Case] = &[
    Case {
        name: "lawful",
        what: "6 M + 6 M, random, checksums, 3 segments",
        anchor: "2.3 M (4.3 M without any of that, sequential)",
        run: What::Swarm(&["-c", "6000000", "--duration", "60s"]),
        figures: &[
            rate("M echo/s", Goal::OfModel(0.70), Goal::OfModel(0.80)),
            at_most("bytes an endpoint", Of::Key("bytes_per_endpoint", 1.0), 200.0, Goal::AtMost(160.0)),
            at_most("starved", Of::Key("starved", 1.0), 0.0, Goal::None),
            at_most("longest gap, rounds", Of::Key("longest_gap_ratio", 1.0), 1.5, Goal::AtMost(1.1)),
            at_least("Jain", Of::Key("jain", 1.0), 0.999, Goal::None),
            EVERY_BYTE,
        ],
    },
    Case {
        name: "keep-alive",
        what: "lawful, with keep-alive at both ends",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--keep-alive", "15s"]),
        figures: &[of_rate("of the rate without", "lawful", 0.95, Goal::AtLeast(0.98)), EVERY_BYTE],
    },
    Case {
        name: "no-timestamps",
        what: "lawful, without timestamps",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--no-timestamps"]),
        figures: &[of_rate("of the rate with", "lawful", 0.95, Goal::AtLeast(0.98)), EVERY_BYTE],
    },
    Case {
        name: "kept",
        what: "6 M + 6 M with keep-alive and idle deadlines",
        anchor: "-",
        run: What::Swarm(&[
            "-c",
            "6000000",
            "--duration",
            "20s",
            "--keep-alive",
            "60s",
            "--idle-deadline",
            "5m",
        ]),
        figures: &[
            at_most("bytes an endpoint", Of::Key("bytes_per_endpoint", 1.0), 200.0, Goal::AtMost(160.0)),
            EVERY_BYTE,
        ],
    },
    Case {
        name: "two-segments",
        what: "the same, ACK rides on the next request",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--segments", "2"]),
        figures: &[rate("M echo/s", Goal::OfModel(0.70), Goal::OfModel(0.80)), EVERY_BYTE],
    },
    Case {
        name: "like-for-like",
        what: "sequential, no checksums, 2 segments",
        anchor: "4.3 M",
        run: What::Swarm(&[
            "-c",
            "6000000",
            "--duration",
            "20s",
            "--segments",
            "2",
            "--order",
            "sequential",
            "--no-checksum",
        ]),
        figures: &[rate("M echo/s", Goal::OfModel(0.55), Goal::OfModel(0.70)), EVERY_BYTE],
    },
    Case {
        name: "few",
        what: "256 connections",
        anchor: "5.0 M",
        run: What::Swarm(&["-c", "256", "--duration", "10s"]),
        figures: &[rate("M echo/s", Goal::OfModel(0.75), Goal::OfModel(0.90)), EVERY_BYTE],
    },
    Case {
        name: "push",
        what: "one server to 6 M connections",
        anchor: "4.5 M/s",
        run: What::Swarm(&["-c", "6000000", "--mode", "push", "--duration", "20s"]),
        figures: &[rate("M messages/s", Goal::AtLeast(4.5), Goal::AtLeast(8.0)), EVERY_BYTE],
    },
    Case {
        name: "push-1m",
        what: "one server to 1 M connections",
        anchor: "-",
        run: What::Swarm(&["-c", "1000000", "--mode", "push", "--duration", "20s"]),
        figures: &[rate("M messages/s", Goal::None, Goal::None), EVERY_BYTE],
    },
    Case {
        name: "group",
        what: "the same, posted to the group by another thread",
        anchor: "-",
        run: What::Swarm(&["-c", "1000000", "--mode", "group", "--duration", "20s"]),
        figures: &[of_rate("of the push from inside", "push-1m", 0.9, Goal::None), EVERY_BYTE],
    },
    Case {
        name: "short",
        what: "connect, echo, FIN; TIME-WAIT of 60 s",
        anchor: "1.4 M/s (1.8 M with RST), MSL 0",
        run: What::Swarm(&["-c", "1000", "--mode", "short", "--time-wait", "60s", "--duration", "20s"]),
        figures: &[rate("M connections/s", Goal::AtLeast(1.4), Goal::AtLeast(2.5)), EVERY_BYTE],
    },
    Case {
        name: "http",
        what: "HTTP keep-alive, 1 M connections",
        anchor: "2.5 M/s",
        run: What::Swarm(&["-c", "1000000", "--mode", "http", "--duration", "20s"]),
        figures: &[rate("M requests/s", Goal::AtLeast(2.0), Goal::AtLeast(3.5)), EVERY_BYTE],
    },
    Case {
        name: "switch",
        what: "switch alone, 64 B frames",
        anchor: "26-28 M/s",
        run: What::Switch,
        figures: &[at_least("M frames/s", Of::Key("frames_per_second", MILLION), 30.0, Goal::AtLeast(60.0))],
    },
    Case {
        name: "bulk",
        what: "bulk, one connection over the switch",
        anchor: "-",
        run: What::Bulk,
        figures: &[at_least("Gbit/s", Of::Key("bits_per_second", 1e9), 20.0, Goal::AtLeast(40.0))],
    },
    Case {
        name: "loss",
        what: "6 M + 6 M, 0.1 % loss",
        anchor: "never tested",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--loss", "0.001"]),
        figures: &[
            EVERY_BYTE,
            Figure {
                unit: "of the loss-free rate",
                of: Of::RateTo("lawful"),
                bar: Goal::None,
                aim: Goal::AtLeast(0.8),
            },
        ],
    },
    Case {
        name: "tasks",
        what: "tasks: 100 M in one process",
        anchor: "40 B, 80 M/s claimed (31 M shown)",
        run: What::Swarm(&["tasks", "--count", "100000000", "--duration", "10s"]),
        figures: &[
            at_most("bytes a task", Of::Key("bytes_per_task", 1.0), 40.0, Goal::None),
            at_least("M switches/s, sequential", Of::Key("switches_per_second", MILLION), 80.0, Goal::None),
            Figure {
                unit: "M switches/s, random",
                of: Of::Key("switches_per_second_random", MILLION),
                bar: Goal::None,
                aim: Goal::AtLeast(80.0),
            },
        ],
    },
    Case {
        name: "small",
        what: "10 k connections: 12 M cost at most so many times more an echo",
        anchor: "-",
        run: What::Swarm(&["-c", "10000", "--duration", "10s"]),
        figures: &[at_most("times", Of::TimeTo("lawful"), 3.0, Goal::AtMost(2.3))],
    },
];

/// A figure that was found, and how it stands.
#[derive(Serialize)]
pub struct Row {
    case: &'static str,
    what: &'static str,
    anchor: &'static str,
    unit: &'static str,
    value: Option<f64>,
    bar: Goal,
    aim: Goal,
    /// The model's figure in the same unit.
    model: Option<f64>,
    ratio_to_model: Option<f64>,
    met: Option<bool>,
    aim_met: Option<bool>,
    /// Why it was not measured.
    failure: Option<String>,
}

/// What a case gave.
#[derive(Serialize)]
pub struct Outcome {
    case: &'static str,
    /// The options of the command.
    arguments: Vec<String>,
    /// Its result, with the model's figure filled in.
    result: Value,
}

/// All that was found.
#[derive(Serialize)]
pub struct Results {
    /// By how much numbers and times were divided: 1 where figures mean something.
    divided_by: u32,
    rows: Vec<Row>,
    outcomes: Vec<Outcome>,
}

/// Runs the cases, and prints each of them as it is done. `core` does it all; this process must not be pinned
/// to it while others run there.
///
/// # Errors
/// The command is not there, or a case is named that there is none of.
pub fn run(options: &Options, core: usize, seconds: u64) -> Result<Results> {
    for name in &options.only {
        ensure!(
            CASES.iter().any(|case| case.name == name),
            "there is no case {name:?}; there are {}",
            CASES.iter().map(|case| case.name).collect::<Vec<_>>().join(", ")
        );
    }
    ensure!(
        options.command.exists(),
        "{} is not there: build it with `cargo build --release --package anywire-cli`, or name another \
         (--command)",
        options.command.display()
    );
    let mut results = Results { divided_by: options.divide_by, rows: Vec::new(), outcomes: Vec::new() };
    for case in CASES {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == case.name) {
            continue;
        }
        eprintln!("{}: {}", case.name, case.what);
        let outcome = case.outcome(options, core, seconds);
        let mut failure = None;
        match outcome {
            Ok(outcome) => results.outcomes.push(outcome),
            Err(error) => failure = Some(format!("{error:#}")),
        }
        for figure in case.figures {
            results.rows.push(row(case, figure, &results.outcomes, failure.clone()));
        }
    }
    Ok(results)
}

impl Case {
    fn outcome(&self, options: &Options, core: usize, seconds: u64) -> Result<Outcome> {
        let time = Duration::from_secs(seconds) / options.divide_by;
        let here = |result| Outcome { case: self.name, arguments: Vec::new(), result };
        let arguments = match self.run {
            What::Swarm(arguments) => divided(arguments, options.divide_by)?,
            What::Switch => return alone::switch(core, time).map(here),
            What::Bulk => return alone::bulk(core, time).map(here),
        };
        // First the model, whose memory is given back before the command takes its own.
        let model = model_of(&arguments)
            .map(|model| {
                alone::on_core(core, || {
                    World::of(model.connections)?.run(&model, Duration::from_secs(seconds))
                })
            })
            .transpose()?;
        let mut result = call(&options.command, &arguments, core)?;
        if let Some(measured) = model {
            result["model_echoes_per_second"] = measured.echoes_per_second.into();
        }
        Ok(Outcome { case: self.name, arguments, result })
    }
}

/// Runs the command to its end, and reads its result.
fn call(command: &Path, arguments: &[String], core: usize) -> Result<Value> {
    let output = Command::new(command)
        .arg("swarm")
        .args(arguments)
        .args(["--core", &core.to_string(), "--json", "-"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("starting {} failed", command.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| line.starts_with("error: ")).unwrap_or_default();
    // A corrupt payload fails the command, and is a figure as well: the result comes first.
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`swarm {}` gave no result: {last}", arguments.join(" ")))
}

/// The model of the same connections; `None` for a case without a model.
fn model_of(arguments: &[String]) -> Option<Model> {
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1).map(String::as_str)
    };
    if value("--mode").is_some() {
        return None;
    }
    let connections = value("-c")?.parse().ok()?;
    let segments = value("--segments").map_or(Some(3), |segments| segments.parse().ok())?;
    Some(Model {
        connections,
        order: if value("--order") == Some("sequential") { Order::Sequential } else { Order::Random },
        // So few have their next turn before the batch is over: the acknowledgment finds a ride.
        segments: if connections <= FEW { 2 } else { segments },
        checksum: !arguments.iter().any(|argument| argument == "--no-checksum"),
        ..Model::default()
    })
}

/// The options with smaller numbers.
fn divided(arguments: &[&str], by: u32) -> Result<Vec<String>> {
    let mut divided: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    if by > 1 {
        for place in 1..divided.len() {
            let value = &divided[place];
            divided[place] = match divided[place - 1].as_str() {
                "-c" | "--count" => (value.parse::<u32>()? / by).max(1).to_string(),
                "--duration" => format!("{}ms", 1000 * value.trim_end_matches('s').parse::<u32>()? / by),
                _ => continue,
            };
        }
    }
    Ok(divided)
}

fn row(case: &Case, figure: &Figure, outcomes: &[Outcome], failure: Option<String>) -> Row {
    let of = |name: &str| outcomes.iter().find(|outcome| outcome.case == name).map(|outcome| &outcome.result);
    let result = of(case.name);
    let number = |result: Option<&Value>, key: &str| result?.get(key)?.as_f64();
    let value = match figure.of {
        Of::Key(key, divisor) => number(result, key).map(|value| value / divisor),
        Of::RateTo(other) => {
            ratio(number(result, "echoes_per_second"), number(of(other), "echoes_per_second"))
        }
        Of::TimeTo(other) => ratio(number(of(other), "ns_per_echo"), number(result, "ns_per_echo")),
    };
    let model = match figure.of {
        Of::Key("echoes_per_second", divisor) => {
            number(result, "model_echoes_per_second").map(|value| value / divisor)
        }
        _ => None,
    };
    Row {
        case: case.name,
        what: case.what,
        anchor: case.anchor,
        unit: figure.unit,
        value,
        bar: figure.bar,
        aim: figure.aim,
        model,
        ratio_to_model: ratio(value, model),
        met: figure.bar.is_met(value, model),
        aim_met: figure.aim.is_met(value, model),
        failure,
    }
}

fn ratio(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    value.zip(to).map(|(value, to)| value / to)
}

impl Goal {
    /// Unknown without a goal or a value.
    fn is_met(self, value: Option<f64>, model: Option<f64>) -> Option<bool> {
        match self {
            Self::AtLeast(goal) => value.map(|value| value >= goal),
            Self::AtMost(goal) => value.map(|value| value <= goal),
            Self::OfModel(part) => ratio(value, model).map(|ratio| ratio >= part),
            Self::None => None,
        }
    }

    fn text(self, model: Option<f64>) -> String {
        match self {
            Self::AtLeast(goal) => format!(">= {goal}"),
            Self::AtMost(goal) => format!("<= {goal}"),
            Self::OfModel(part) => match model {
                Some(model) => format!(">= {:.2} ({:.0} %)", part * model, part * 100.0),
                None => format!(">= {:.0} % of the model", part * 100.0),
            },
            Self::None => "-".to_owned(),
        }
    }
}

impl Results {
    /// The table: figure, bar, aim, and the part of the model.
    pub fn table(&self) -> Table {
        let headings = ["must reach", "", "measured", "bar", "aim", "model", "of it", "", "anchor"];
        let mut table = Table::new(&headings);
        let mut last = "";
        for row in &self.rows {
            let is_first = row.case != last;
            last = row.case;
            let of_case = |text: &str| if is_first { text.to_owned() } else { String::new() };
            let verdict = match (row.met, row.aim_met) {
                _ if row.value.is_none() => "not measured",
                (Some(false), _) => "NOT MET",
                (_, Some(true)) => "aim met",
                (Some(true), _) => "met",
                (None, _) => "",
            };
            table.row([
                of_case(row.what),
                row.unit.to_owned(),
                figure(row.value, if row.unit == "Jain" { 5 } else { 2 }),
                row.bar.text(row.model),
                row.aim.text(row.model),
                figure(row.model, 2),
                row.ratio_to_model.map_or_else(|| "-".to_owned(), |ratio| format!("{:.0} %", ratio * 100.0)),
                verdict.to_owned(),
                of_case(row.anchor),
            ]);
        }
        for row in &self.rows {
            if let Some(failure) = &row.failure {
                table.note(format!("{}: {failure}", row.what));
            }
        }
        for outcome in &self.outcomes {
            let share = outcome.result["core_share"].as_f64();
            if share.is_some_and(|share| share < super::UNDISTURBED_SHARE) {
                table.note(format!(
                    "{} had to share its core with other programs: measure again.",
                    outcome.case
                ));
            }
        }
        if self.divided_by > 1 {
            table.note(format!(
                "Numbers and times were divided by {}: the figures mean nothing.",
                self.divided_by
            ));
        }
        table
    }
}

/// Connections that have another turn within a batch of requests and their answers.
const FEW: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_has_its_own_name_and_those_it_refers_to_come_before() {
        for (place, case) in CASES.iter().enumerate() {
            let before = &CASES[..place];
            assert!(before.iter().all(|other| other.name != case.name), "{} twice", case.name);
            for figure in case.figures {
                if let Of::RateTo(other) | Of::TimeTo(other) = figure.of {
                    assert!(
                        before.iter().any(|case| case.name == other),
                        "{other} is not before {}",
                        case.name
                    );
                }
            }
        }
    }

    #[test]
    fn a_case_is_divided_and_modelled_by_its_options() {
        let arguments = ["-c", "6000000", "--duration", "20s", "--segments", "2", "--no-checksum"];
        let arguments = divided(&arguments, 1000).unwrap();
        assert_eq!(arguments[..4], ["-c", "6000", "--duration", "20ms"]);
        let model = model_of(&arguments).unwrap();
        assert_eq!((model.connections, model.segments, model.checksum), (6000, 2, false));
        assert!(model_of(&["-c", "1", "--mode", "http"].map(str::to_owned)).is_none());
    }

    #[test]
    fn goals_are_judged_with_the_model() {
        assert_eq!(Goal::OfModel(0.65).is_met(Some(6.5), Some(10.0)), Some(true));
        assert_eq!(Goal::OfModel(0.65).is_met(Some(6.5), None), None);
        assert_eq!(Goal::AtMost(0.0).is_met(Some(1.0), None), Some(false));
        assert_eq!(Goal::None.is_met(Some(1.0), None), None);
    }
}
