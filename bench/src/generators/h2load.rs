//! h2load, one thread: nghttp2's load generator. It says when its warm-up ends and when its measured part does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use anywire_load::Protocol;

use super::{Load, Outcome, Window, count_connections};
use crate::measure::Family;

pub(super) fn run(load: &Load, server: Family, window: &mut dyn Window) -> Result<Outcome> {
    let before = server.sockets()?;
    let delay = load.warm_up + load.duration / 2;
    let url = format!("http://{}{}", load.address, load.path);
    let mut command = command(load.connections, load.depth, load.warm_up, load.duration, &url);
    if load.http == Protocol::Http1 {
        command.arg("--h1");
    }
    let (report, connections_open) =
        count_connections(server, before, delay, || run_to_end(&mut command, window))?;
    let seconds = load.duration.as_secs_f64();
    let requests = report.requests - report.errors;
    Ok(Outcome {
        requests,
        errors: report.errors,
        seconds,
        requests_in_window: requests as f64,
        connections_open,
        p50_us: None,
        p99_us: None,
    })
}

/// An h2load of one thread.
pub(crate) fn command(
    connections: usize,
    streams: usize,
    warm_up: Duration,
    duration: Duration,
    url: &str,
) -> Command {
    let mut command = Command::new("h2load");
    // It takes whole seconds only.
    let whole = |time: Duration| time.as_secs().max(1).to_string();
    command.arg("-t1").arg(format!("-c{connections}")).arg(format!("-m{streams}"));
    command.arg("-D").arg(whole(duration)).arg(format!("--warm-up-time={}", whole(warm_up))).arg(url);
    command
}

/// Runs it, opens and closes the window as it says, and reads its result.
///
/// # Errors
/// It is not installed, failed, or printed something else.
pub(crate) fn run_to_end(command: &mut Command, window: &mut dyn Window) -> Result<Report> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting `h2load` failed; Debian's package is named nghttp2-client")?;
    let stdout = BufReader::new(child.stdout.take().context("h2load has no standard output")?);
    let read = read(stdout, window);
    if read.is_err() {
        // It had its time, or says what nobody understands.
        let _ = child.kill();
    }
    let status = child.wait()?;
    let report = read?;
    ensure!(status.success(), "h2load failed: {status}");
    Ok(report)
}

fn read(output: impl Read, window: &mut dyn Window) -> Result<Report> {
    let (mut opened, mut closed) = (false, false);
    let mut text = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading h2load's output failed")?;
        if line.starts_with("Main benchmark duration is started") {
            opened = true;
            window.open()?;
        } else if line.starts_with("Main benchmark duration is over") {
            closed = true;
            window.close()?;
        } else if let Some(counts) = line.strip_prefix("requests: ") {
            ensure!(opened && closed, "h2load did not say when it measured");
            return Report::read(counts).with_context(|| format!("h2load printed: {line}"));
        }
        text.push_str(&line);
        text.push('\n');
    }
    bail!("h2load printed no result: {}", text.trim())
}

/// What h2load counted in its measured part.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
}

impl Report {
    /// Reads `9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 0 timeout`.
    pub(crate) fn read(counts: &str) -> Result<Self> {
        let count = |name: &str| {
            let part = counts.split(", ").find_map(|part| part.strip_suffix(name));
            part.and_then(|number| number.trim().parse::<u64>().ok()).with_context(|| format!("no {name}"))
        };
        Ok(Self { requests: count("done")?, errors: count("failed")? + count("timeout")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Calls(Vec<&'static str>);

    impl Window for Calls {
        fn open(&mut self) -> Result<()> {
            self.0.push("open");
            Ok(())
        }

        fn close(&mut self) -> Result<()> {
            self.0.push("close");
            Ok(())
        }
    }

    #[test]
    fn the_window_follows_what_it_says() {
        let text = "Warm-up started for thread #0.\nWarm-up phase is over for thread #0.\n\
            Main benchmark duration is started for thread #0.\nMain benchmark duration is over for thread #0. Stopping.\n\
            finished in 4.01s\nrequests: 10 total, 10 started, 9 done, 8 succeeded, 1 failed, 1 errored, 0 timeout\n";
        let mut calls = Calls::default();
        assert_eq!(read(text.as_bytes(), &mut calls).unwrap(), Report { requests: 9, errors: 1 });
        assert_eq!(calls.0, ["open", "close"]);
        assert!(read(&b"unable to connect\n"[..], &mut calls).is_err());
    }
}
