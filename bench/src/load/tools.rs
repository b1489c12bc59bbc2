//! The load generators: how each is started with its best documented settings, and how its report is read.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_load::Protocol;
use serde::Deserialize;

use super::ours;
use crate::generators::{h2load, wrk};
use crate::versions;

/// What every generator of a scenario does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) address: SocketAddr,
    pub(super) http: Protocol,
    pub(super) connections: usize,
    /// Requests in flight on each connection.
    pub(super) depth: usize,
    pub(super) duration: Duration,
}

impl Case {
    pub(super) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn seconds(&self) -> String {
        self.duration.as_secs().to_string()
    }
}

/// A load generator.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) version: fn() -> String,
    pub(super) settings: &'static str,
    /// Which server of the bench answers its HTTP/1.
    pub(super) server: &'static str,
    /// The command of a case; a file for what it has to read lies at the path.
    pub(super) command: fn(&Case, &Path) -> Result<Command>,
    /// Reads what it printed.
    pub(super) read: fn(&str) -> Result<Report>,
}

/// What a generator says of its run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Report {
    pub(super) requests: u64,
    pub(super) errors: u64,
}

/// All of them, ours first.
pub(super) static TOOLS: &[Tool] = &[ours::TOOL, WRK, H2LOAD, AB, HEY, OHA];

const WRK: Tool = Tool {
    name: "wrk",
    version: versions::wrk,
    settings: "-t1; a script that joins the requests where they are pipelined",
    server: "limit",
    command: |case, script| {
        let mut command = wrk::command(case.connections, case.duration, &case.url());
        if case.depth > 1 {
            std::fs::write(script, wrk::pipelined(case.depth)).context("writing wrk's script failed")?;
            command.arg("-s").arg(script);
        }
        Ok(command)
    },
    read: |text| {
        let report = wrk::Report::read(text)?;
        Ok(Report { requests: report.requests, errors: report.errors })
    },
};

const H2LOAD: Tool = Tool {
    name: "h2load",
    version: versions::h2load,
    settings: "-t1, no warm-up, windows of 2^30 bytes",
    server: "limit",
    command: |case, _| {
        let mut command = Command::new("h2load");
        command.arg("-t1").arg(format!("-c{}", case.connections)).arg(format!("-m{}", case.depth));
        command.arg("-D").arg(case.seconds());
        if case.http == Protocol::Http2 {
            command.args(["-w30", "-W30"]);
        } else {
            command.arg("--h1");
        }
        command.arg(case.url());
        Ok(command)
    },
    read: |text| {
        let counts = text.lines().find_map(|line| line.strip_prefix("requests: ")).context("no requests")?;
        let report = h2load::Report::read(counts)?;
        Ok(Report { requests: report.requests, errors: report.errors })
    },
};

const AB: Tool = Tool {
    name: "ab",
    version: versions::ab,
    settings: "-k, anywire's server",
    // It speaks HTTP/1.0, whose connections stay open only if the answer says so, and the bare loop says nothing.
    server: "anywire",
    command: |case, _| {
        let mut command = Command::new("ab");
        // The time ends it; it keeps a place for each request that it may make.
        command.args(["-q", "-k", "-c", &case.connections.to_string(), "-t", &case.seconds()]);
        command.args(["-n", "5000000", &case.url()]);
        Ok(command)
    },
    read: |text| {
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|count| count.trim().parse().ok()).with_context(|| format!("no {name}"))
        };
        Ok(Report { requests: count("Complete requests:")?, errors: count("Failed requests:")? })
    },
};

const HEY: Tool = Tool {
    name: "hey",
    version: || versions::of_package("hey"),
    settings: "-cpus 1",
    server: "limit",
    command: |case, _| {
        let mut command = Command::new("hey");
        command.args(["-cpus", "1", "-z", &format!("{}s", case.seconds()), "-c"]);
        command.args([&case.connections.to_string(), &case.url()]);
        Ok(command)
    },
    read: |text| {
        let statuses = text.lines().filter_map(|line| {
            let (status, rest) = line.trim().strip_prefix('[')?.split_once(']')?;
            let count = rest.trim().strip_suffix(" responses")?.parse().ok()?;
            Some((status.to_owned(), count))
        });
        Report::of_statuses(statuses)
    },
};

const OHA: Tool = Tool {
    name: "oha",
    version: versions::oha,
    settings: "--no-tui",
    server: "limit",
    command: |case, _| {
        let mut command = Command::new("oha");
        command.args(["--no-tui", "--output-format", "json", "-z", &format!("{}s", case.seconds())]);
        command.args(["-c", &case.connections.to_string()]);
        if case.http == Protocol::Http2 {
            command.args(["--http2", "-p", &case.depth.to_string()]);
        }
        command.arg(case.url());
        Ok(command)
    },
    read: |text| {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Said {
            status_code_distribution: std::collections::BTreeMap<String, u64>,
        }
        let said: Said = serde_json::from_str(text)?;
        Report::of_statuses(said.status_code_distribution.into_iter())
    },
};

impl Report {
    /// All answers; those of another status than 200 are errors.
    fn of_statuses(statuses: impl Iterator<Item = (String, u64)>) -> Result<Self> {
        let mut report = Self { requests: 0, errors: 0 };
        for (status, count) in statuses {
            report.requests += count;
            report.errors += if status == "200" { 0 } else { count };
        }
        anyhow::ensure!(report.requests > 0, "no answers");
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_report_is_read() {
        let ab = "Complete requests:      1234\nFailed requests:        2\n";
        assert_eq!((AB.read)(ab).unwrap(), Report { requests: 1234, errors: 2 });
        let hey = "Status code distribution:\n  [200]\t99 responses\n  [500]\t1 responses\n";
        assert_eq!((HEY.read)(hey).unwrap(), Report { requests: 100, errors: 1 });
        let oha = r#"{"statusCodeDistribution": {"200": 7, "404": 1}, "errorDistribution": {}}"#;
        assert_eq!((OHA.read)(oha).unwrap(), Report { requests: 8, errors: 1 });
        let h2load =
            "finished\nrequests: 9 total, 9 started, 9 done, 8 succeeded, 1 failed, 0 errored, 0 timeout\n";
        assert_eq!((H2LOAD.read)(h2load).unwrap(), Report { requests: 9, errors: 1 });
    }

    #[test]
    fn a_report_without_answers_is_an_error() {
        for tool in TOOLS {
            assert!((tool.read)("nothing was said").is_err(), "{}", tool.name);
        }
    }
}
