//! Clients of the Java world: RestClient, and the client of the Java runtime. Their program is in `bench/java`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::{Bursts, Client, Cores, Plan, Protocol, Tally};
use crate::servers::BODY;
use crate::versions;

pub(super) const RESTCLIENT: Client = Client {
    name: "restclient",
    version: || "1.0.1".to_owned(),
    settings: "both cores, pool of 512, 2,048 may wait, else its defaults; Java with its defaults",
    protocols: &[Protocol::Http1],
    warm_up: WARM_UP,
    cores: Cores::All,
    call: |plan| call("restclient", plan),
    bursts: Some(|plan| bursts("restclient", plan)),
};

pub(super) const JAVA: Client = Client {
    name: "java",
    version: versions::java,
    settings: "java.net.http, HTTP/1.1 alone, both cores, else its defaults",
    protocols: &[Protocol::Http1],
    warm_up: WARM_UP,
    cores: Cores::All,
    call: |plan| call("java", plan),
    bursts: Some(|plan| bursts("java", plan)),
};

fn call(name: &str, plan: &Plan) -> Result<Tally> {
    let url = format!("http://{}/", plan.address);
    let in_flight = plan.in_flight.to_string();
    let mut tallies = run(name, "in-flight", &url, BODY.len(), plan.warm_up, plan.duration, &in_flight)?;
    tallies.pop().context("it printed no result")
}

fn bursts(name: &str, plan: &Bursts) -> Result<Vec<Tally>> {
    let url = format!("http://{}/", plan.address);
    let counts: Vec<_> = plan.counts.iter().map(usize::to_string).collect();
    run(name, "bursts", &url, Bursts::ANSWER.len(), plan.warm_up, plan.duration, &counts.join(","))
}

fn run(
    name: &str,
    load: &str,
    url: &str,
    length: usize,
    warm_up: Duration,
    duration: Duration,
    calls: &str,
) -> Result<Vec<Tally>> {
    let output = Command::new("java")
        .args(["-cp", &class_path()?, "bench.Main", name, load, url, &length.to_string()])
        .args([warm_up.as_secs_f64().to_string(), duration.as_secs_f64().to_string(), calls.to_owned()])
        .stdin(Stdio::null())
        .output()
        .context("starting java failed (Debian: default-jre-headless)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "java failed: {}", said.trim());
    // RestClient writes its log there, too.
    said.lines().filter(|line| line.starts_with("the first request")).for_each(|line| eprintln!("{line}"));
    let lines = String::from_utf8_lossy(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("java said: {line}")))
        .collect()
}

/// The program and what it needs, built by Maven the first time.
fn class_path() -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("java");
    let archive = folder.join("target/java-clients-1.jar");
    if !archive.exists() {
        let built = Command::new("mvn")
            .args(["--quiet", "package", "dependency:copy-dependencies"])
            .current_dir(&folder)
            .output()
            .context("starting mvn failed (Debian: maven, default-jdk-headless)")?;
        if !built.status.success() {
            bail!("mvn failed: {}", String::from_utf8_lossy(&built.stdout).trim());
        }
    }
    Ok(format!("{}:{}/target/dependency/*", archive.display(), folder.display()))
}

/// A virtual machine compiles what is often run.
const WARM_UP: Duration = Duration::from_secs(30);
