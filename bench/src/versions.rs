//! Which versions are compared: of crates from the lock file this program was built with, of tools by asking them.

use std::process::Command;

/// The version of a crate in `bench/Cargo.lock`; the highest if there are several.
pub fn locked(name: &str) -> String {
    let wanted = format!("name = \"{name}\"");
    let mut lines = LOCK.lines();
    let mut version = "not in Cargo.lock";
    while let Some(line) = lines.next() {
        if line == wanted {
            let next = lines.next().and_then(|line| line.strip_prefix("version = \""));
            version = next.and_then(|rest| rest.strip_suffix('"')).unwrap_or(version);
        }
    }
    version.to_owned()
}

/// The version of the nginx that is installed.
pub fn nginx() -> String {
    said_by("nginx")
        .and_then(|text| Some(text.split_once("nginx/")?.1.trim().to_owned()))
        .unwrap_or(NONE.into())
}

/// The version of the Java that is installed.
pub fn java() -> String {
    said("java", "-version").and_then(|text| Some(text.split('"').nth(1)?.to_owned())).unwrap_or(NONE.into())
}

/// The version of the wrk that is installed.
pub fn wrk() -> String {
    said_by("wrk").and_then(|text| Some(text.split_whitespace().nth(1)?.to_owned())).unwrap_or(NONE.into())
}

/// The version of the h2o that is installed.
pub fn h2o() -> String {
    said("h2o", "--version")
        .and_then(|text| Some(text.split_whitespace().nth(2)?.to_owned()))
        .unwrap_or(NONE.into())
}

/// The version of the nghttpd that is installed.
pub fn nghttpd() -> String {
    of_nghttp2("nghttpd")
}

/// The version of the h2load that is installed.
pub fn h2load() -> String {
    of_nghttp2("h2load")
}

/// The version of the ab that is installed.
pub fn ab() -> String {
    said("ab", "-V")
        .and_then(|text| Some(text.split_once("Version ")?.1.split_whitespace().next()?.to_owned()))
        .unwrap_or(NONE.into())
}

/// The version of the oha that is installed.
pub fn oha() -> String {
    said("oha", "--version")
        .and_then(|text| Some(text.split_whitespace().nth(1)?.to_owned()))
        .unwrap_or(NONE.into())
}

/// The version of Debian's package, for a tool that does not say its own.
pub fn of_package(name: &str) -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f", "${Version}", name]).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or(NONE.into(), |text| String::from_utf8_lossy(&text).into_owned())
}

fn of_nghttp2(tool: &str) -> String {
    said(tool, "--version")
        .and_then(|text| Some(text.split_once("nghttp2/")?.1.trim().to_owned()))
        .unwrap_or(NONE.into())
}

/// What the tool prints for `-v`, on either output (nginx uses standard error; wrk ends with an error status).
fn said_by(tool: &str) -> Option<String> {
    said(tool, "-v")
}

/// What the tool prints for this argument, on either output.
fn said(tool: &str, argument: &str) -> Option<String> {
    let output = Command::new(tool).arg(argument).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

const LOCK: &str = include_str!("../Cargo.lock");
const NONE: &str = "not installed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_of_the_lock_file_has_a_version_and_others_say_so() {
        assert!(locked("hyper").starts_with("1."));
        assert_eq!(locked("no-such-crate"), "not in Cargo.lock");
    }
}
