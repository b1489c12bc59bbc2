//! Two network namespaces with a veth pair between them, which nobody outside sees and which end with the test.

pub(crate) mod frames;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `ours`, where the stack is, and `theirs`, where the kernel of another machine is played.
///
/// | end | interface | addresses of the kernel's |
/// | --- | --- | --- |
/// | ours | `near`, MAC 02:00:00:00:00:01 | 10.77.0.3, fd77::3 |
/// | theirs | `far`, MAC 02:00:00:00:00:02 | 10.77.0.1, fd77::1 |
///
/// 10.77.0.2 and fd77::2 are for the stack. Their kernel knows the MAC of both.
pub(crate) struct Pair {
    pub(crate) ours: Namespace,
    pub(crate) theirs: Namespace,
}

impl Pair {
    /// With one queue at each end.
    pub(crate) fn new() -> Option<Self> {
        Self::with("")
    }

    /// With options of `ip link add` for both ends, such as numbers of queues. `None` if this user may not make namespaces and use
    /// BPF, which is a failure under `CI`.
    pub(crate) fn with(options: &str) -> Option<Self> {
        let possible = rustix::process::geteuid().is_root()
            && Command::new("unshare")
                .args(["--net", "ip", "link"])
                .output()
                .is_ok_and(|ip| ip.status.success());
        if !possible {
            assert!(std::env::var_os("CI").is_none(), "root, unshare and ip are needed");
            crate::skipped::say("this needs root, and unshare and ip");
            return None;
        }
        let pair = Self { ours: Namespace::new(), theirs: Namespace::new() };
        pair.ours.ip(&format!(
            "link add near address 02:00:00:00:00:01 {options} type veth \
             peer name far address 02:00:00:00:00:02 {options} netns {}",
            pair.theirs.holder.id()
        ));
        for (end, name, host) in [(&pair.ours, "near", 3), (&pair.theirs, "far", 1)] {
            end.ip(&format!("addr add 10.77.0.{host}/24 dev {name}"));
            end.ip(&format!("addr add fd77::{host}/64 dev {name} nodad"));
            end.ip(&format!("link set {name} up"));
            end.ip("link set lo up");
        }
        pair.theirs.ip("neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev far");
        pair.theirs.ip("neigh add fd77::2 lladdr 02:00:00:00:00:01 dev far");
        // The carrier comes a moment after both ends are up.
        eventually("the carrier", || pair.ours.ip("link show near").contains("state UP").then_some(()));
        Some(pair)
    }
}

/// A network namespace, which lives as long as this.
pub(crate) struct Namespace {
    /// Waits for the end of its input. If the test dies, that comes too.
    holder: Child,
    file: File,
}

impl Namespace {
    fn new() -> Self {
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was found before");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it says so");
        let file = File::open(format!("/proc/{}/ns/net", holder.id())).expect("it lives");
        Self { holder, file }
    }

    /// Runs this on a thread within the namespace. Sockets and processes that it makes stay there.
    pub(crate) fn run<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may");
                run()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs many commands of `ip`, one a line.
    pub(crate) fn ip_batch(&self, lines: &str) {
        let mut ip = self.run(|| {
            let mut ip = Command::new("ip");
            ip.args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("there is ip")
        });
        ip.stdin.take().expect("it is a pipe").write_all(lines.as_bytes()).expect("it reads");
        assert!(ip.wait().expect("it ends").success());
    }

    /// What `ip` prints, with these arguments.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.run(|| {
            let done = Command::new("ip").args(arguments.split_whitespace()).output().expect("there is ip");
            assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8_lossy(&done.stdout).into_owned()
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

/// Waits for an event that comes in its own time.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{what} does not come");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Far longer than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
