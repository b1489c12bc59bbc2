//! Running a test once more in namespaces of its own, where the system is as a test needs it.

#![allow(dead_code, reason = "each test uses a part")]

use std::process::Command;

/// This test once more, in these namespaces (options of `unshare`); the environment tells it that it is the inner one.
/// `None` if the system gives none, which is a failure on a build machine.
pub(crate) fn within(namespaces: &[&str], test: &str) -> Option<Command> {
    // Only root may make them without one for users.
    let user = (!rustix::process::geteuid().is_root()).then_some("--user");
    let options = || user.iter().chain(namespaces);
    let possible = Command::new("unshare").args(options()).arg("true").output();
    if !possible.as_ref().is_ok_and(|tried| tried.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "namespaces are needed: {possible:?}");
        crate::skipped::say("the system gives no namespaces");
        return None;
    }
    let this = std::env::current_exe().expect("the test has a file");
    let mut inner = Command::new("unshare");
    inner.args(options()).arg(this).args(["--exact", test, "--nocapture"]).env(INNER, "1");
    Some(inner)
}

/// Runs this test once more within these namespaces, and fails if it fails there or if there is no test of this name.
/// `test` is the name in full: with the module in a program of many.
pub(crate) fn passes_within(namespaces: &[&str], test: &str) {
    let Some(mut inner) = within(namespaces, test) else { return };
    let ended = inner.output().expect("it starts");
    let printed =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(ended.status.success() && printed.contains(" 1 passed"), "{test} within namespaces: {printed}");
}

/// The namespaces in which any user may call [`slow_loopback`].
pub(crate) const OWN_NETWORK: &[&str] = &["--map-root-user", "--net"];

/// Makes the loopback of this network namespace a line of this rate, such as `40mbit`: what a socket sends waits in its send
/// buffer, and fills it. `false` if the system cannot do that, which is a failure on a build machine.
pub(crate) fn slow_loopback(rate: &str) -> bool {
    queue_of_loopback(&format!("tbf rate {rate} burst 128kb limit 100mb"))
}

/// Gives the loopback of this network namespace a queue (options of `tc`). `false` if the system cannot do that, which is a failure on a
/// build machine.
pub(crate) fn queue_of_loopback(options: &str) -> bool {
    let queue = format!("qdisc replace dev lo root {options}");
    for (command, arguments) in [("ip", "link set lo up"), ("tc", queue.as_str())] {
        let done = Command::new(command).args(arguments.split(' ')).output();
        if !done.as_ref().is_ok_and(|done| done.status.success()) {
            assert!(std::env::var_os("CI").is_none(), "{command} {arguments}: {done:?}");
            crate::skipped::say(format_args!("{command} cannot slow down loopback"));
            return false;
        }
    }
    true
}

/// Leaves the system ten ports to choose from in this network namespace, 40000 to 40009, and lets none rest in TIME-WAIT. `false`
/// if it cannot be set, which is a failure on a build machine.
pub(crate) fn ten_local_ports() -> bool {
    let set = |name: &str, value: &str| std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
    let done = Command::new("ip").args(["link", "set", "lo", "up"]).output().map(drop);
    let done = done.and_then(|()| set("ip_local_port_range", "40000 40009"));
    let done = done.and_then(|()| set("tcp_max_tw_buckets", "0"));
    if let Err(cause) = &done {
        assert!(std::env::var_os("CI").is_none(), "the ports of a namespace cannot be set: {cause}");
        crate::skipped::say("the ports of a namespace cannot be set");
    }
    done.is_ok()
}

/// Whether this is the inner run.
pub(crate) fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

const INNER: &str = "ANYWIRE_TEST_INNER";
