//! What must be so in any result, by the names of its figures: wholes and their parts, rates and times, shares, percentiles, and
//! `null` for what is unknown.

use std::collections::BTreeSet;

use serde_json::Value;

/// Checks results, and remembers which rules were of use.
#[derive(Default)]
pub(crate) struct Checker {
    used: BTreeSet<&'static str>,
    /// What does not hold, one line each.
    pub(crate) faults: Vec<String>,
}

impl Checker {
    /// Checks a result of this command line, at each of its depths.
    pub(crate) fn check(&mut self, args: &[&str], result: &Value) {
        self.walk(&args.join(" "), "", result);
    }

    /// That this holds, too, in a result of this command line.
    pub(crate) fn holds(&mut self, args: &[&str], result: &Value, rule: &str) {
        match judge(rule, result) {
            Some(Ok(())) => {}
            Some(Err(found)) => self.faults.push(format!("{}: {found}", args.join(" "))),
            None => self.faults.push(format!("{}: {rule:?} has figures that are not there", args.join(" "))),
        }
    }

    /// Rules that no result had figures for: they are misspelt, or a figure has another name by now. Not every system lets
    /// calls be counted.
    pub(crate) fn unused(&self) -> Vec<&'static str> {
        let is_unused = |rule: &&str| !self.used.contains(rule) && !rule.contains("syscalls");
        RULES.iter().chain(CLOSED).chain(EVEN).chain(KNOWN).copied().filter(is_unused).collect()
    }

    /// Adds what another one has found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.used.extend(other.used);
        self.faults.extend(other.faults);
    }

    fn walk(&mut self, command: &str, path: &str, value: &Value) {
        let mut fault = |found: String| self.faults.push(format!("{command}: in {path:?}: {found}"));
        match value {
            Value::Number(number) if number.as_f64().is_none_or(|number| number < 0.0) => {
                fault(format!("{number} is below 0"));
            }
            Value::Array(all) => {
                for (index, one) in all.iter().enumerate() {
                    self.walk(command, &format!("{path}/{index}"), one);
                }
            }
            Value::Object(parts) => {
                let judged = RULES.iter().map(|rule| (rule, judge(rule, value)));
                let judged =
                    judged.chain(by_mode(&value["plan"]).iter().map(|rule| (rule, judge(rule, value))));
                let by_steps = value["steps"].as_array().is_some_and(|steps| !steps.is_empty());
                let known = KNOWN.iter().filter(|rule| !(by_steps && **rule == OF_ONE_RATE));
                let judged = judged.chain(known.map(|rule| (rule, judge_known(rule, value))));
                for (rule, verdict) in judged.filter_map(|(rule, verdict)| Some((rule, verdict?))) {
                    self.used.insert(rule);
                    verdict.unwrap_or_else(&mut fault);
                }
                curve(value).unwrap_or_else(&mut fault);
                rounds(value).into_iter().for_each(fault);
                for (name, part) in parts {
                    self.walk(command, &format!("{path}/{name}"), part);
                }
            }
            _ => {}
        }
    }
}

/// Each is checked where all of its figures are known. `a.b` is the figure `b` of `a`, and `a.*` the sum over all of `a`.
/// `~` is about equal: histograms have three digits, and CPU times are whole ticks.
const RULES: &[&str] = &[
    // A whole and its parts.
    "sent = answered + timed_out + reset + unanswered_at_close + unanswered_at_end",
    "errors.timeout = timed_out",
    "opened = lost + finished + open_at_end",
    "totals.answered = totals.statuses.*",
    "totals.answered = loops.*.requests",
    "totals.connections.open_at_end = loops.*.connections",
    "plan.requests = totals.sent + totals.unsent",
    "generator.cpu_us_per_request * totals.answered = generator.cpu_user_us + generator.cpu_sys_us",
    "sent = received + late + lost + on_their_way + corrupt",
    "sent = loops.*.sent",
    "received = loops.*.received",
    "socket = socket_here + socket_there",
    "datagrams = loops.*.datagrams",
    "dropped_by_system = loops.*.dropped_by_system",
    "loops.*.share = 1",
    "server_cpu_us_per_request ~ server_user_cpu_us_per_request + server_system_cpu_us_per_request",
    "syscalls_per_request = syscalls_by_name.*",
    "syscalls_per_hand_over = syscalls_by_name.*",
    "rounds.*.errors = errors.*",
    "requests = matched + missing",
    "matched = statuses.*",
    "computed_bytes = blocks_bytes + table_bytes + segments_bytes + timers_bytes + others_bytes + tasks_bytes",
    "endpoints = 2 * connections",
    "endpoints * bytes_per_endpoint = memory.resident_bytes",
    "endpoints * memory.computed_bytes_per_endpoint = memory.computed_bytes",
    "connections * completions.mean = echoes",
    // What was recorded is what came.
    "latency.send.count = totals.answered + totals.timed_out",
    "latency.intended.count = received + late",
    "latency.sent.count = received + late",
    "latency.count = echoes",
    "2 * round_trip_us.count = messages",
    // A rate and its time make a count.
    "rate.achieved * rate.schedule_seconds <= totals.sent",
    "rate.sent * rate.seconds = sent",
    "matched_per_second * seconds = matched",
    "rate.received * rate.seconds = received",
    "loss * sent = lost",
    "calls.datagrams_per_send * calls.send = sent",
    "echoes_per_second * seconds = echoes",
    "ns_per_echo * echoes = 1e9 * seconds",
    "cpu_ns_per_echo * echoes = 1e9 * core_share * seconds",
    "segments_per_echo * echoes = frames_per_second * seconds",
    "messages_per_second * seconds = messages",
    "found.messages_per_second * size_bytes = found.bytes_per_second",
    // A part is not larger than its whole.
    "body_bytes_in <= bytes_in",
    "totals.connections.open_at_start <= plan.connections",
    "totals.connections.open_at_end <= plan.connections",
    "totals.connections.never_open <= plan.connections",
    "balance <= host.loops",
    "matched <= sent",
    "1 <= balance",
    "sent + refused <= intended",
    "rate.seconds <= rate.schedule_seconds",
    "totals.sent + totals.shed <= rate.intended",
    "rate.sent <= 1.1 * plan.datagrams_per_second",
    "lost = loss_by_layer.socket + loss_by_layer.namespace + loss_by_layer.device + loss_by_layer.send_queue + loss_by_layer.unexplained",
    "loss_by_layer.socket_here + loss_by_layer.unexplained <= lost",
    "replies + replies_dropped + replies_failed + cut + over_rate + forged <= datagrams",
    "huge_page_bytes <= resident_bytes",
    "starved <= connections + echoes",
    // Shares.
    "loss <= 1",
    "rate.kept <= 1",
    "share <= 1",
    "busy <= 1",
    "core_share <= 1",
    "jain <= 1",
    // No thread uses more than its core. Those of a server are sampled from outside, a moment early or late.
    "generator.cpu_user_us + generator.cpu_sys_us <= 1e6 * host.loops * rate.seconds",
    "client_cpu_us_per_request * requests_per_second <= 1e6",
    "server_cpu_us_per_request * requests_per_second <= 1.5e6 * threads",
    "cpu_us_per_hand_over * hand_overs_per_second <= 2e6",
    "here_cpu_us * messages_per_second <= 1e6 + 0 * round_trip_us.count",
    "there_cpu_us * messages_per_second <= 1e6 + 0 * round_trip_us.count",
    // Each place for a request has one at a time (Little's law); that of the begin may be as old as the oldest.
    "latency.send.mean * latency.send.count <= \
     1.01 * plan.connections * plan.depth * 1e6 * rate.seconds + 1.01 * plan.connections * plan.depth * latency.send.max",
    // Percentiles ascend.
    "min <= p50",
    "p50 <= p75",
    "p75 <= p90",
    "p90 <= p99",
    "p99 <= p99_9",
    "p99_9 <= p99_99",
    "p99_99 <= max",
    "min <= mean",
    "mean <= max",
    "min <= max",
    "min <= p0_01",
    "p0_01 <= max",
    "p50_us <= p99_us",
    "p99_us <= p9999_us",
    "p99_us <= max_us",
    "p9999_us <= max_us",
    "latency.sent.mean <= 1.01 * latency.intended.mean",
];

/// Checked only in the closed mode: by a schedule, answers still come after its time.
const CLOSED: &[&str] = &["rate.achieved * rate.seconds = totals.answered"];

/// Checked only of even gaps: how many come by Poisson, or of a rate that changes, is known on average alone.
const EVEN: &[&str] = &["rate.achieved <= 1.01 * rate.target"];

/// The first figure is known if the second is not 0, and `null` otherwise.
const KNOWN: &[&str] = &[
    "rate.achieved if rate.seconds",
    OF_ONE_RATE,
    "oldest_unanswered_us if unanswered_at_end",
    "generator.cpu_us_per_request if totals.answered",
    "generator.cpu_user_us if rate.seconds",
    "balance if totals.answered",
    "rate.sent if rate.seconds",
    "rate.schedule_seconds if rate.target * rate.seconds",
    "latency.intended if received + late",
    "latency.sent if received + late",
    "loss if sent",
    "calls.datagrams_per_send if calls.send",
    "calls.datagrams_per_receive if calls.receive",
    "balance.received_max_to_mean if received",
    "datagrams_per_receive if datagrams",
    "requests_per_second if answered",
    "p50_us if answered",
    "p50_us if hand_overs_per_second",
    "cpu_us_per_hand_over if hand_overs_per_second",
    "p50_us if echoes",
    "segments_per_echo if echoes",
    "longest_gap_ratio if echoes",
    "little if echoes",
];

/// Of a rate that changes only its steps have latencies: all together would be those of no rate.
const OF_ONE_RATE: &str = "latency.send if totals.answered + totals.timed_out";

/// The rules of the way in which the requests of a plan leave.
fn by_mode(plan: &Value) -> &'static [&'static str] {
    let schedule = &plan["schedule"];
    let is_even = schedule["gaps"] != "poisson" && !schedule["shape"]["constant"].is_null();
    match plan["mode"].as_str() {
        Some("closed") => CLOSED,
        Some("open") if is_even => EVEN,
        _ => &[],
    }
}

/// Whether a rule holds for this part of a result; `None` if it lacks a figure.
fn judge(rule: &str, part: &Value) -> Option<Result<(), String>> {
    let (sign, (left, right)) =
        [" = ", " ~ ", " <= "].into_iter().find_map(|sign| Some((sign, rule.split_once(sign)?)))?;
    let (left, right) = (sum(left, part)?, sum(right, part)?);
    let holds = match sign {
        " = " => is_near(left, right, 1e-6),
        " ~ " => is_near(left, right, 1e-2),
        _ => left <= right || is_near(left, right, 1e-9),
    };
    Some(if holds { Ok(()) } else { Err(format!("{rule}: {left} and {right}")) })
}

fn judge_known(rule: &str, part: &Value) -> Option<Result<(), String>> {
    let (figure, count) = rule.split_once(" if ")?;
    let found = figure.split('.').try_fold(part, |value, name| value.get(name))?;
    let count = sum(count, part)?;
    Some(if found.is_null() == (count == 0.0) { Ok(()) } else { Err(format!("{rule}: {found} for {count}")) })
}

fn is_near(left: f64, right: f64, tolerance: f64) -> bool {
    (left - right).abs() <= tolerance * left.abs().max(right.abs())
}

/// Terms with ` + ` between them, each of factors with ` * ` between them.
fn sum(text: &str, part: &Value) -> Option<f64> {
    let product = |term: &str| {
        term.split(" * ").try_fold(1.0, |product, factor| {
            let number = factor.trim().parse().ok();
            Some(product * number.or_else(|| figure(&factor.trim().split('.').collect::<Vec<_>>(), part))?)
        })
    };
    text.split(" + ").try_fold(0.0, |sum, term| Some(sum + product(term)?))
}

fn figure(path: &[&str], value: &Value) -> Option<f64> {
    let Some((first, rest)) = path.split_first() else { return value.as_f64() };
    if *first != "*" {
        return figure(rest, value.get(first)?);
    }
    let parts: Vec<&Value> = match value {
        Value::Array(all) => all.iter().collect(),
        Value::Object(all) => all.values().collect(),
        _ => return None,
    };
    parts.into_iter().try_fold(0.0, |sum, part| Some(sum + figure(rest, part)?))
}

/// A curve ascends to the longest, which all have stayed below.
fn curve(part: &Value) -> Result<(), String> {
    let Some(points) = part["curve"].as_array() else { return Ok(()) };
    let ascends = |name: &str| points.is_sorted_by_key(|point| point[name].as_f64());
    let last = points.last().map(|last| (&last["us"], last["share"].as_f64()));
    if ascends("us") && ascends("share") && last == Some((&part["max"], Some(1.0))) && points.len() <= 120 {
        return Ok(());
    }
    Err(format!("the curve of {} points ends with {last:?}, or descends", points.len()))
}

/// The figures of a row are the medians of its rounds, and their spread has the least and the most.
fn rounds(part: &Value) -> Vec<String> {
    let (Some(rounds), Some(spread)) = (part["rounds"].as_array(), part["spread"].as_object()) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    for (name, spread) in spread {
        let mut all: Vec<f64> = rounds.iter().filter_map(|round| round[name].as_f64()).collect();
        all.sort_by(f64::total_cmp);
        let middle = all.len() / 2;
        let expected = match (all.as_slice(), name.as_str()) {
            ([], _) => None,
            // A round finds memory that an earlier one has left: the most counts.
            ([.., last], "user_bytes_per_connection") => Some(*last),
            (all, _) if all.len().is_multiple_of(2) => Some(f64::midpoint(all[middle - 1], all[middle])),
            (all, _) => Some(all[middle]),
        };
        let are = [
            (part[name].as_f64(), expected),
            (spread["min"].as_f64(), all.first().copied()),
            (spread["max"].as_f64(), all.last().copied()),
        ];
        let is_so = |(found, expected): (Option<f64>, Option<f64>)| match (found, expected) {
            (Some(found), Some(expected)) => is_near(found, expected, 1e-6),
            _ => found == expected,
        };
        if !are.into_iter().all(is_so) {
            faults.push(format!("{name} is {} with {spread}, of {all:?}", part[name]));
        }
    }
    faults
}
