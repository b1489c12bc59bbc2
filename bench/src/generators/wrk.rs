//! wrk, one thread. It counts from its start to its end, so the window holds the opening of the connections too.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;

use super::{Load, Outcome, Window, count_connections};
use crate::measure::Family;

pub(super) fn run(load: &Load, server: Family, window: &mut dyn Window) -> Result<Outcome> {
    ensure!(load.http == Protocol::Http1, "wrk speaks no HTTP/2");
    let script = tempfile::NamedTempFile::new().context("no temporary file for wrk's script")?;
    fs::write(&script, pipelined(load.depth))?;
    let before = server.sockets()?;
    let (report, connections_open) = count_connections(server, before, load.duration.mul_f64(0.9), || {
        window.open()?;
        let mut command =
            command(load.connections, load.duration, &format!("http://{}{}", load.address, load.path));
        if load.depth > 1 {
            command.arg("-s").arg(script.path());
        }
        let report = run_to_end(&mut command)?;
        window.close()?;
        Ok(report)
    })?;
    Ok(Outcome {
        requests: report.requests,
        errors: report.errors,
        seconds: report.seconds,
        requests_in_window: report.requests as f64,
        connections_open,
        p50_us: report.p50_us,
        p99_us: report.p99_us,
    })
}

/// A wrk of one thread.
pub(crate) fn command(connections: usize, duration: Duration, url: &str) -> Command {
    let mut command = Command::new("wrk");
    // wrk takes whole seconds only.
    let seconds = duration.as_secs().max(1);
    command.arg("-t1").arg(format!("-c{connections}")).arg(format!("-d{seconds}s"));
    command.arg("--latency").arg("--timeout").arg("10s").arg(url);
    command
}

/// Runs it and reads its output.
///
/// # Errors
/// It is not installed, failed, or printed something else.
pub(crate) fn run_to_end(command: &mut Command) -> Result<Report> {
    let output = command.output().context("starting `wrk` failed; Debian's package is named wrk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("wrk failed: {}{}", text.trim(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Report::read(&text).with_context(|| format!("wrk printed something unexpected: {}", text.trim()))
}

/// What wrk printed.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

impl Report {
    pub(crate) fn read(text: &str) -> Result<Self> {
        let mut report = Self { requests: 0, errors: 0, seconds: 0.0, p50_us: None, p99_us: None };
        for line in text.lines().map(str::trim) {
            if let Some((requests, rest)) = line.split_once(" requests in ") {
                report.requests = requests.parse()?;
                let time = rest.split(',').next().unwrap_or_default();
                report.seconds = microseconds(time).context("no duration")? / 1e6;
            } else if let Some(errors) = line.strip_prefix("Socket errors: ") {
                for part in errors.split(", ") {
                    let count =
                        part.split_whitespace().nth(1).context("a kind of socket error without a count")?;
                    report.errors += count.parse::<u64>()?;
                }
            } else if let Some(count) = line.strip_prefix("Non-2xx or 3xx responses: ") {
                report.errors += count.parse::<u64>()?;
            } else if let Some(time) = line.strip_prefix("50%") {
                report.p50_us = microseconds(time.trim());
            } else if let Some(time) = line.strip_prefix("99%") {
                report.p99_us = microseconds(time.trim());
            }
        }
        ensure!(report.requests > 0 && report.seconds > 0.0, "no requests");
        Ok(report)
    }
}

/// The latencies that 50, 90 and 99 % stayed at or below, in microseconds.
///
/// # Errors
/// One of them is not there.
pub(crate) fn percentiles(text: &str) -> Result<[f64; 3]> {
    let mut found = [0.0; 3];
    for (us, name) in found.iter_mut().zip(["50%", "90%", "99%"]) {
        let time = text.lines().find_map(|line| line.trim().strip_prefix(name));
        *us = time
            .and_then(|time| microseconds(time.trim()))
            .with_context(|| format!("wrk tells no {name}"))?;
    }
    Ok(found)
}

/// A time as wrk prints it: `870.00us`, `1.23ms`, `3.00s`, `1.00m`.
fn microseconds(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    // A zero is what it prints where pipelining confuses its own correction.
    Some(digits.parse::<f64>().ok()? * factor).filter(|&time| time > 0.0)
}

/// A script that sends `depth` requests in one write; wrk counts each answer.
pub(crate) fn pipelined(depth: usize) -> String {
    format!(
        "init = function(args)\n  local all = {{}}\n  for i = 1, {depth} do all[i] = wrk.format() end\n  \
         requests = table.concat(all)\nend\nrequest = function() return requests end\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_with_errors_is_read() {
        let text = "Running 3s test @ http://127.0.0.1:1/\n  1 threads and 64 connections\n  Latency Distribution\n     \
                    50%  870.00us\n     99%    1.25ms\n  284123 requests in 3.10s, 41.2MB read\n  \
                    Socket errors: connect 1, read 2, write 0, timeout 4\n  Non-2xx or 3xx responses: 5\n";
        let wanted =
            Report { requests: 284_123, errors: 12, seconds: 3.1, p50_us: Some(870.0), p99_us: Some(1250.0) };
        assert_eq!(Report::read(text).unwrap(), wanted);
    }

    #[test]
    fn no_requests_is_an_error() {
        assert!(Report::read("unable to connect").is_err());
    }
}
