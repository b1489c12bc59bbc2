//! Each thing that keeps an interface from being used has its own error, which says what would help, and changes nothing.

use std::error::Error;
use std::process::Command;

use anywire_stack::xdp::{Attachment, CopyMode, OpenError, Options, Wanted, WantedMode, Xdp};

use crate::networks::Pair;

/// The message of an error, which has a remedy in it.
#[track_caller]
fn message(error: &OpenError, remedy: &str) -> String {
    let text = error.to_string();
    assert!(text.contains("; ") && text.contains(remedy), "{text}");
    text
}

#[test]
fn an_interface_that_cannot_be_used_is_named() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let refused = |name| Attachment::attach(name, WantedMode::Any).expect_err("it cannot be used");
        let error = refused("no-such-0");
        assert!(matches!(error, OpenError::NoInterface { .. }), "{error:?}");
        assert!(message(&error, "ip link").contains("\"no-such-0\""));
        let error = refused("lo");
        assert!(matches!(error, OpenError::NotEthernet { .. }), "{error:?}");
        pair.ours.ip("link set near down");
        let error = refused("near");
        assert!(matches!(error, OpenError::Down { .. }), "{error:?}");
        message(&error, "ip link set dev near up");
    });
}

/// Tags that a card or a veth pair carries beside the frame are seen by no XDP program.
#[test]
fn vlan_tags_that_are_taken_out_are_told() {
    let Some(pair) = Pair::new() else { return };
    let attachment =
        pair.ours.run(|| Attachment::attach("near", WantedMode::Any)).expect("nothing is in the way");
    assert!(attachment.interface().takes_out_vlan_tags, "a veth pair does, unless it is told not to");
}

#[test]
fn a_queue_that_cannot_be_had_is_named() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
        let open = |queues| Xdp::open(&attachment, queues, Options::default());
        let error = open(1..2).expect_err("there is one queue");
        assert!(matches!(error, OpenError::NoQueue { queue: 1, queues: 1, .. }), "{error:?}");
        message(&error, "fewer loops");
        assert!(matches!(attachment.share(0, 2), Err(OpenError::NoQueue { queues: 1, .. })));
        let device = open(0..1).expect("it is free");
        let error = open(0..1).expect_err("it is taken");
        assert!(matches!(error, OpenError::QueueTaken { queue: 0, .. }), "{error:?}");
        message(&error, "end the program that has it");
        drop(device);
        open(0..1).expect("it is free again");
    });
}

#[test]
fn another_program_stays() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let first = Attachment::attach("near", WantedMode::Native).expect("nothing is in the way");
        let before = pair.ours.ip("link show near");
        for mode in [WantedMode::Any, WantedMode::Native, WantedMode::Generic] {
            let error = Attachment::attach("near", mode).expect_err("there is a program");
            assert!(matches!(error, OpenError::AnotherProgram { .. }), "{error:?}");
            message(&error, "xdp off");
        }
        assert_eq!(pair.ours.ip("link show near"), before, "the program of the first is still there");
        assert!(first.is_attached());
    });
}

#[test]
fn queue_numbers_that_differ_are_told() {
    let Some(pair) = Pair::new() else { return };
    // Their end sends by more queues than ours receives by.
    pair.ours
        .ip("link add few numrxqueues 1 numtxqueues 1 type veth peer name many numrxqueues 4 numtxqueues 4");
    pair.ours.ip("link set few up");
    pair.ours.ip("link set many up");
    pair.ours.run(|| {
        let error = Attachment::attach("few", WantedMode::Native).expect_err("veth refuses");
        assert!(matches!(error, OpenError::QueueNumbersDiffer { .. }), "{error:?}");
        message(&error, "the same number of queues");
        let generic = Attachment::attach("few", WantedMode::Any).expect("the generic mode takes it");
        assert!(matches!(generic.native_refusal(), Some(OpenError::QueueNumbersDiffer { .. })));
    });
}

#[test]
fn an_mtu_that_fits_no_chunk_is_told() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.ip("link set near mtu 9000");
    pair.theirs.ip("link set far mtu 9000");
    pair.ours.run(|| {
        let error = Attachment::attach("near", WantedMode::Native).expect_err("veth refuses");
        assert!(matches!(error, OpenError::MtuTooLargeForDriver { .. }), "{error:?}");
        let attachment = Attachment::attach("near", WantedMode::Any).expect("the generic mode takes it");
        let error = Xdp::open(&attachment, 0..1, Options::default()).expect_err("a frame fits no chunk");
        assert!(matches!(error, OpenError::MtuTooLarge { mtu: 9000, mtu_max: 3826, .. }), "{error:?}");
        message(&error, "ip link set dev near mtu 3826");
        // With the help that the message gives.
        pair.ours.ip("link set near mtu 3826");
        drop(attachment);
        let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
        Xdp::open(&attachment, 0..1, Options::default()).expect("a frame fits a chunk of 4 KiB");
    });
}

#[test]
fn zero_copy_is_refused_where_there_is_none() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
        let options = |copy| Options { copy, ..Options::default() };
        let error = Xdp::open(&attachment, 0..1, options(CopyMode::ZeroCopy)).expect_err("veth has none");
        assert!(matches!(error, OpenError::NoZeroCopy { .. }), "{error:?}");
        message(&error, "mode");
        for copy in [CopyMode::Any, CopyMode::Copy] {
            let device = Xdp::open(&attachment, 0..1, options(copy)).expect("the kernel copies");
            assert!(!device.is_zero_copy());
        }
    });
}

#[test]
fn a_depth_that_cannot_be_is_refused() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
        for depth in [0, 3, 65_536] {
            let error = Xdp::open(&attachment, 0..1, Options { depth: Some(depth), ..Options::default() })
                .expect_err("no ring");
            assert!(
                error.source().is_some_and(|cause| cause.to_string().contains("power of two")),
                "{error:?}"
            );
        }
    });
}

/// In a user namespace root is nobody for BPF.
#[test]
fn a_user_who_may_not_is_told_so() {
    const CHILD: &str = "ANYWIRE_TEST_XDP_NOBODY";
    if std::env::var_os(CHILD).is_some() {
        let error = Attachment::attach("near", WantedMode::Any).expect_err("it is not permitted");
        assert!(matches!(error, OpenError::NotPermitted { .. }), "{error:?}");
        message(&error, "CAP_NET_ADMIN");
        return;
    }
    let Some(pair) = Pair::new() else { return };
    let ended = pair.ours.run(|| {
        Command::new("unshare")
            .args(["--user", "--map-root-user"])
            .arg(std::env::current_exe().expect("the test has a file"))
            .args(["--exact", "--nocapture", "xdp_says_what_is_in_the_way::a_user_who_may_not_is_told_so"])
            .env(CHILD, "1")
            .output()
            .expect("there is unshare")
    });
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && printed.contains(" 1 passed"), "{printed}");
}

#[test]
fn a_table_that_is_full_refuses() {
    let Some(pair) = Pair::new() else { return };
    pair.ours.run(|| {
        let attachment = Attachment::attach("near", WantedMode::Any).expect("nothing is in the way");
        let claim = |number: u32| attachment.claim(Wanted::Address(std::net::Ipv4Addr::from(number).into()));
        let claims: Vec<_> = (1..=1024).map(|number| claim(number).expect("there is room")).collect();
        let error = claim(5000).expect_err("there is none");
        assert!(matches!(error, OpenError::System { .. }), "{error:?}");
        drop(claims);
        let _ = claim(5000).expect("there is room again");
    });
}
