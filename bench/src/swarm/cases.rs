//! What the swarm must reach. Each row of the table is a case: most are run by the command `anywire lab swarm`, and the model of
//! the same connections is measured just before.
//!
//! Each run of the command has a process of its own, so that its memory figure holds nothing of an earlier case.

mod list;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use self::list::{CASES, Case, Figure, Goal, Of, What};
use super::alone;
use super::model::{Model, Order, World};
use crate::table::{Table, figure};

/// How the cases are run.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "cases")]
pub struct Options {
    /// The command; build it with `cargo build --release --package anywire-cli --features swarm`.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/anywire"))]
    command: PathBuf,
    /// These cases alone, by their names.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// Divides numbers of connections and times: a look at whether all of it runs. Its figures mean nothing.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    divide_by: u32,
}

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
        "{} is not there: build it with `cargo build --release --package anywire-cli --features swarm`, or name another \
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
        let (rounds, arguments) = match self.run {
            What::Swarm(arguments) => (1, arguments),
            What::Rounds(rounds, arguments) => (rounds, arguments),
            What::Pair => return alone::pair(core, time).map(here),
            What::Bulk => return alone::bulk(core, time).map(here),
        };
        let arguments = divided(arguments, options.divide_by)?;
        let results: Vec<Value> =
            (0..rounds).map(|_| beside_model(options, &arguments, core, seconds)).collect::<Result<_>>()?;
        let result = median_round(results).context("no round was run")?;
        Ok(Outcome { case: self.name, arguments, result })
    }
}

/// The model, if there is one of these connections, and then the command.
fn beside_model(options: &Options, arguments: &[String], core: usize, seconds: u64) -> Result<Value> {
    // First the model, whose memory is given back before the command takes its own.
    let model = model_of(arguments)
        .map(|model| {
            alone::on_core(core, || World::of(model.connections)?.run(&model, Duration::from_secs(seconds)))
        })
        .transpose()?;
    let mut result = call(&options.command, arguments, core)?;
    if let Some(measured) = model {
        result["model_echoes_per_second"] = measured.echoes_per_second.into();
    }
    Ok(result)
}

/// The round whose part of the model is the median, with the parts of all rounds. Of a single round, that one as it is.
fn median_round(mut rounds: Vec<Value>) -> Option<Value> {
    let part = |result: &Value| {
        ratio(result["echoes_per_second"].as_f64(), result["model_echoes_per_second"].as_f64())
    };
    rounds.sort_by(|one, other| part(one).unwrap_or(0.0).total_cmp(&part(other).unwrap_or(0.0)));
    let parts: Vec<f64> = rounds.iter().filter_map(part).collect();
    let middle = rounds.len() / 2;
    let mut median = rounds.into_iter().nth(middle)?;
    if parts.len() > 1 {
        median["parts_of_model"] = parts.into();
    }
    Some(median)
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
            if let Some([least, .., most]) = outcome.result["parts_of_model"].as_array().map(Vec::as_slice) {
                let percent = |part: &Value| part.as_f64().unwrap_or(0.0) * 100.0;
                let (least, most) = (percent(least), percent(most));
                table.note(format!("{}: from {least:.0} to {most:.0} % of the model.", outcome.case));
            }
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
    fn the_round_with_the_median_part_of_the_model_counts() {
        let round =
            |rate: f64| serde_json::json!({ "echoes_per_second": rate, "model_echoes_per_second": 10.0 });
        let median = median_round([7.0, 1.0, 6.0].map(round).into()).unwrap();
        assert_eq!(median["echoes_per_second"], 6.0);
        assert_eq!(median["parts_of_model"], serde_json::json!([0.1, 0.6, 0.7]));
        assert_eq!(median_round(vec![round(5.0)]), Some(round(5.0)));
        assert_eq!(median_round(Vec::new()), None);
    }

    #[test]
    fn goals_are_judged_with_the_model() {
        assert_eq!(Goal::OfModel(0.65).is_met(Some(6.5), Some(10.0)), Some(true));
        assert_eq!(Goal::OfModel(0.65).is_met(Some(6.5), None), None);
        assert_eq!(Goal::AtMost(0.0).is_met(Some(1.0), None), Some(false));
        assert_eq!(Goal::None.is_met(Some(1.0), None), None);
    }
}
