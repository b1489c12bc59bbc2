//! One run of a load generator as a process of its own: what it printed, its CPU time, and the most memory it held.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// What a process printed and used.
pub(super) struct Ran {
    pub(super) text: String,
    pub(super) user_us: f64,
    pub(super) system_us: f64,
    pub(super) resident_bytes: u64,
}

/// Runs it to its end, on the core of this thread. CPU time is its own, from its start to its end.
///
/// # Errors
/// It is not there, failed, or did not end in time, and was ended.
pub(super) fn run(mut command: Command, longest: Duration) -> Result<Ran> {
    let name = command.get_program().to_string_lossy().into_owned();
    // Files take any amount without a reader.
    let (out, err) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
    command.stdin(Stdio::null()).stdout(File::create(out.path())?).stderr(File::create(err.path())?);
    let before = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let begun = Instant::now();
    let mut child = command.spawn().with_context(|| format!("starting `{name}` failed"))?;
    let mut resident_bytes = 0;
    let status = loop {
        // The last look before its end; it holds its connections for the whole time.
        resident_bytes = resident(child.id()).unwrap_or(resident_bytes);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > longest {
            // It had its time.
            let _ = child.kill();
            child.wait()?;
            bail!("`{name}` did not end in {} s", longest.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    };
    let after = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let text = fs::read_to_string(out.path())?;
    if !status.success() {
        bail!("`{name}` failed ({status}): {} {}", text.trim(), fs::read_to_string(err.path())?.trim());
    }
    let used = |time: fn(&Usage) -> i64| (time(&after) - time(&before)) as f64;
    Ok(Ran {
        text,
        user_us: used(|usage| usage.user_time().num_microseconds()),
        system_us: used(|usage| usage.system_time().num_microseconds()),
        resident_bytes,
    })
}

/// The most memory that was resident so far.
fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_prints_and_holds_is_known() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.2; echo done"]);
        let ran = run(command, Duration::from_secs(30)).unwrap();
        assert_eq!(ran.text, "done\n");
        assert!(ran.resident_bytes > 0);
    }

    #[test]
    fn one_that_fails_or_never_ends_says_so() {
        let of = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run(command, Duration::from_millis(300)).map(|ran| ran.text).unwrap_err().to_string()
        };
        assert!(of("echo why >&2; exit 3").contains("why"));
        assert!(of("exec sleep 60").contains("did not end"));
    }
}
