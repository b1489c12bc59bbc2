//! After the end of the process, even by SIGKILL, the interface and its peer are as they were.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use anywire_stack::xdp::{Options, Wanted, WantedMode};

use crate::networks::frames::open;
use crate::networks::{Pair, eventually};

/// What `ip` shows of both ends, the program of XDP with it, and the groups of ours.
fn state(pair: &Pair) -> [String; 3] {
    [
        pair.ours.ip("-d link show near"),
        pair.theirs.ip("-d link show far"),
        pair.ours.ip("maddr show dev near"),
    ]
}

/// The state once the kernel has done at both ends what it does by itself when a link comes up: it makes an address of the link, whose
/// group it joins, and looks for others that have it.
fn settled_state(pair: &Pair) -> [String; 3] {
    for (end, name) in [(&pair.ours, "near"), (&pair.theirs, "far")] {
        eventually("a link that is up", || {
            let addresses = end.ip(&format!("addr show {name}"));
            let is_settled = addresses.contains("state UP") && addresses.contains("scope link");
            (is_settled && !addresses.contains("tentative")).then_some(())
        });
    }
    state(pair)
}

#[test]
fn a_device_that_is_dropped_leaves_nothing() {
    let Some(pair) = Pair::new() else { return };
    let before = settled_state(&pair);
    for mode in [WantedMode::Native, WantedMode::Generic] {
        let (device, claim) = open(&pair, mode, Options::default());
        let address = "fd77::2".parse().expect("it is an address");
        let v6 = device.attachment().claim(Wanted::Address(address)).expect("the group is joined");
        assert!(pair.ours.ip("link show near").contains("xdp"), "the program shows");
        assert_ne!(state(&pair)[2], before[2], "the group shows");
        drop((device, claim, v6));
        eventually("the state before", || (state(&pair) == before).then_some(()));
    }
}

#[test]
fn a_process_that_is_killed_leaves_nothing() {
    const CHILD: &str = "ANYWIRE_TEST_XDP_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return wait_to_be_killed();
    }
    let Some(pair) = Pair::new() else { return };
    let before = settled_state(&pair);
    let mut child = pair.ours.run(|| {
        Command::new(std::env::current_exe().expect("the test has a file"))
            .args(["--exact", "--nocapture"])
            .arg("xdp_leaves_the_interface_as_it_was::a_process_that_is_killed_leaves_nothing")
            .env(CHILD, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts")
    });
    let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
    let attached = lines.map_while(Result::ok).any(|line| line.contains("attached"));
    assert!(attached, "the child has attached its program");
    assert!(pair.ours.ip("link show near").contains("xdp"), "the program shows");
    child.kill().and_then(|()| child.wait()).expect("it is ours");
    eventually("the state before", || (state(&pair) == before).then_some(()));
}

/// The child: it has all there is to have, and ends only by a signal.
fn wait_to_be_killed() {
    use anywire_stack::xdp::{Attachment, Xdp};
    let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
    let _device = Xdp::open(&attachment, 0..1, Options::default()).expect("the queue is free");
    let address = "fd77::2".parse().expect("it is an address");
    let _claim = attachment.claim(Wanted::Address(address)).expect("the group is joined");
    println!("attached");
    // If the test dies, the pipe ends.
    let _ = std::io::stdin().read(&mut [0]);
}
