//! Commands that start a server anew: run by a shell within a deadline, until the server takes connections.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anywire::advice::{Chain, Message};
use anywire::load::ab::Restart;
use anywire::load::{Amount, Handles, Limits, Plan, Stop};
use anywire::loops::Loops;
use anywire::loops::clock::after;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// The command as what `ab` calls before a round. The server is ready when it answers this plan.
pub(crate) fn restart(
    command: String,
    plan: Plan,
    handles: Handles,
    loops: Loops,
    deadline: Duration,
) -> Restart {
    Box::new(move || {
        let until = after(Instant::now(), deadline);
        run(&command, &handles.stop, until, deadline)?;
        wait_for(&plan, &handles, &loops, until).map_err(|found| {
            let found = format!("{command:?} was run, and {found} within {deadline:?}");
            Message::new(found).with_help("see the server's log; --restart-within waits longer").into()
        })
    })
}

/// Runs a command to its end. What it printed is shown if it fails.
fn run(command: &str, stop: &Stop, until: Instant, deadline: Duration) -> Result<(), Message> {
    let failed = |found: String, output: &str| {
        let printed = if output.is_empty() {
            "it printed nothing".to_owned()
        } else {
            format!("it printed:\n{output}")
        };
        Message::new(format!("{command:?} {found}; {printed}"))
            .with_help("run it by hand; a server that goes on must be put into the background with '&'")
    };
    // A file in memory, and no pipe: a server in the background would hold a pipe open for as long as it runs.
    let output = memfd_create("output", MemfdFlags::CLOEXEC)
        .map(File::from)
        .map_err(|errno| failed(format!("has no place for its output: {}", io::Error::from(errno)), ""))?;
    let copy = || output.try_clone().map(Stdio::from);
    let started = copy().and_then(|stdout| {
        Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(copy()?)
            // Of its own, so that at the deadline all of it is ended, and Ctrl-C does not end a server that it started.
            .process_group(0)
            .spawn()
    });
    let mut child = started.map_err(|cause| failed(format!("cannot be run by sh: {cause}"), ""))?;
    match end_of(&mut child, stop, until) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(failed(format!("ended with {status}"), &printed(output))),
        None => {
            end(&mut child);
            Err(failed(format!("did not end within {deadline:?}"), &printed(output)))
        }
    }
}

/// `None` at the deadline, or when all is to stop.
fn end_of(child: &mut Child, stop: &Stop, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until && !stop.is_stopped() => thread::sleep(LOOK_EVERY),
            _ => return None,
        }
    }
}

/// Ends a command with all that it has started and that is still of its group.
fn end(child: &mut Child) {
    // Neither can fail but for one that has ended already.
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// The end of what it printed.
fn printed(mut output: File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not shown.
    let length = output.seek(io::SeekFrom::End(0)).unwrap_or_default();
    let _ = output.seek(io::SeekFrom::Start(length.saturating_sub(OUTPUT_SHOWN_BYTES)));
    let _ = output.take(OUTPUT_SHOWN_BYTES).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

/// Until one request is answered, whatever the answer is.
fn wait_for(plan: &Plan, handles: &Handles, loops: &Loops, until: Instant) -> Result<(), String> {
    let mut found = "it was not asked for an answer".to_owned();
    while Instant::now() < until && !handles.stop.is_stopped() {
        let once = Plan {
            connections: 1,
            depth: 1,
            warm_up: Duration::ZERO,
            amount: Amount::Requests(1),
            limits: Limits { failures_in_a_row: 1, ..plan.limits.clone() },
            ..plan.clone()
        };
        match anywire::load::run(loops, once, handles.clone()) {
            Ok(outcome) if outcome.totals.measured.answered > 0 => return Ok(()),
            Ok(outcome) => {
                let why = outcome.no_good_answer().map(|why| why.found);
                found = why.unwrap_or_else(|| "no answer came".to_owned());
            }
            Err(error) => return Err(Chain(&error).to_string()),
        }
        thread::sleep(LOOK_EVERY);
    }
    Err(found)
}

/// Short against the start of any server.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// As much as a person reads.
const OUTPUT_SHOWN_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn run_within(command: &str, deadline: Duration) -> Result<(), String> {
        run(command, &Stop::new(), Instant::now() + deadline, deadline).map_err(|message| message.to_string())
    }

    #[test]
    fn what_a_command_that_fails_printed_is_shown() {
        let long = Duration::from_secs(60);
        assert_eq!(run_within("true", long), Ok(()));
        let said = run_within("echo one; echo two >&2; exit 7", long).expect_err("it fails");
        assert!(said.contains("exit status: 7") && said.contains("it printed:\none\ntwo"), "{said}");
        let said = run_within("exit 1", long).expect_err("it fails");
        assert!(said.contains("it printed nothing"), "{said}");
        let said = run_within("no-such-command-of-anybody", long).expect_err("it fails");
        assert!(said.contains("not found"), "{said}");
        // Only the end of much.
        let said = run_within("seq 100000; exit 1", long).expect_err("it fails");
        assert!(said.contains("100000") && said.len() < 5000, "{}", said.len());
    }

    /// A server in the background holds what it was given as its output.
    #[test]
    fn a_command_that_leaves_a_server_behind_has_ended() {
        assert_eq!(run_within("sleep 2 & exit 0", Duration::from_secs(60)), Ok(()));
    }

    #[test]
    fn at_the_deadline_a_command_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let pid = folder.path().join("pid");
        let command = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let said = run_within(&command, Duration::from_millis(300)).expect_err("it waits");
        assert!(said.contains("did not end within 300ms"), "{said}");
        // A slow machine may not have come so far.
        let Ok(child) = std::fs::read_to_string(pid) else { return };
        let Ok(child) = child.trim().parse::<i32>() else { return };
        let status = std::path::PathBuf::from(format!("/proc/{child}/status"));
        let is_gone = || std::fs::read_to_string(&status).map_or(true, |text| text.contains("State:\tZ"));
        let hang = Instant::now() + Duration::from_secs(60);
        while !is_gone() {
            assert!(Instant::now() < hang, "{child} still runs");
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::new();
        stop.stop();
        let deadline = Duration::from_secs(3600);
        let said = run("sleep 600", &stop, Instant::now() + deadline, deadline).expect_err("it is stopped");
        assert!(said.to_string().contains("did not end"), "{said}");
    }
}
