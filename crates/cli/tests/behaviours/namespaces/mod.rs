//! Network namespaces of a test's own, in which a script runs beside interfaces that are its own too.

use std::process::{Command, Output, Stdio};

use crate::common::has;

/// Runs a script with the device, in which `$0` is the command and `$1` a folder. `None` if the system has no such namespaces.
pub(crate) fn with_tap(script: &str) -> Option<Output> {
    if !has("unshare") || !has("ip") || !has("curl") {
        return None;
    }
    let of_its_own = ["--user", "--map-root-user", "--net"];
    let can = Command::new("unshare").args(of_its_own).args(["sh", "-c", DEVICE]).output();
    if !can.as_ref().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "a TAP device in a namespace is needed: {can:?}");
        crate::skipped::say("this user can make no TAP device in a namespace");
        return None;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let script = format!("{DEVICE}\n{script}");
    let mut command = Command::new("unshare");
    command.args(of_its_own).args(["sh", "-c", &script, env!("CARGO_BIN_EXE_anywire")]).arg(dir.path());
    Some(command.stdin(Stdio::null()).output().expect("it was found before"))
}

const DEVICE: &str = "
    set -e
    ip tuntap add dev tap0 mode tap
    ip addr add 10.0.0.1/24 dev tap0
    ip -6 addr add fd00::1/64 dev tap0 nodad
    ip link set lo up
    ip link set tap0 up
    set +e";

/// Runs a script in a namespace with `ours`, one end of a veth pair. The other end, `theirs`, has 10.0.0.1 and fd00::1 and is in a second
/// namespace, in which `there COMMAND` runs a command. AF_XDP is not for namespaces of users, so this needs root. `None`
/// without.
pub(crate) fn with_veth(script: &str) -> Option<Output> {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "AF_XDP needs root");
        crate::skipped::say("AF_XDP needs root");
        return None;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let script = format!("{VETH}\n{script}\nkill $peer; wait");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &script, env!("CARGO_BIN_EXE_anywire")]).arg(dir.path());
    Some(command.stdin(Stdio::null()).output().expect("util-linux has unshare"))
}

const VETH: &str = r#"
    unshare --net sleep 60 & peer=$!
    until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
    set -e
    ip link add ours type veth peer name theirs
    ip link set theirs netns "$peer"
    ip link set ours up
    there() { nsenter --net="/proc/$peer/ns/net" "$@"; }
    there ip addr add 10.0.0.1/24 dev theirs
    there ip -6 addr add fd00::1/64 dev theirs nodad
    there ip link set theirs up
    set +e"#;
