//! Segments that are lost on the way are a verdict on the way, and on nothing else.
//!
//! The way is the loopback of a network namespace, whose packet filter drops every fifth segment with a request, and every fifth with an
//! answer.

use std::process::Command;
use std::time::Duration;

use anywire_load::probe::{Class, Plan, run};
use anywire_loops::Loops;

use crate::support::faulty::{Fault, url};
use crate::support::{again, skipped};

#[test]
fn a_way_that_loses_segments() {
    if !again::is_inner() {
        let possible =
            Command::new("unshare").args(["--user", "--map-root-user", "--net", "sh", "-c", LOSSY]).output();
        match possible {
            Ok(tried) if tried.status.success() => {}
            tried => {
                assert!(std::env::var_os("CI").is_none(), "unshare, ip and nft are needed: {tried:?}");
                return skipped::say(format_args!("no network of its own that loses segments: {tried:?}"));
            }
        }
        let name = "probe_sees_losses_on_the_way::a_way_that_loses_segments";
        return again::passes_within(again::OWN_NETWORK, name);
    }
    let made = Command::new("sh").args(["-c", LOSSY]).output().expect("there is a shell");
    assert!(made.status.success(), "{made:?}");

    // All requests are made, however slow the machine is.
    let long = Duration::from_secs(60);
    let plan = Plan {
        requests: 60,
        connections: 1,
        timeout: long,
        pattern_time: long,
        ..Plan::new(url(Fault::None))
    };
    let outcome = run(&Loops::start(1).expect("a loop"), plan).expect("what is lost is sent again");
    let found: Vec<_> = outcome.verdicts.iter().map(|verdict| verdict.class).collect();
    assert_eq!(found, [Class::Retransmits], "{outcome}");
    let tcp = outcome.tcp.expect("it is TCP");
    // Of sixty requests every fifth is lost, and so is every fifth of those that are sent again.
    assert!((12..=60).contains(&tcp.retransmits), "{tcp:?}");
    assert!(outcome.verdicts[0].evidence.contains("segments were sent again"), "{outcome}");
    assert_eq!(outcome.repeated, ["single"]);
    // Each answer came, and in one segment.
    assert_eq!(outcome.latency.expect("there are answers").spread.count, 59);
    assert_eq!(outcome.segments.expect("it is TCP").p50, 1.0);
}

/// By the first letter, of GET and of HTTP: a handshake that is lost would cost a second. The least time after which a segment is sent
/// again is 5 ms instead of 200.
const LOSSY: &str = "set -e
    ip link set lo up
    ip route replace table local local 127.0.0.1 dev lo proto kernel scope host src 127.0.0.1 rto_min 5ms
    nft 'add table ip t
         add chain ip t c { type filter hook input priority 0; }
         add rule ip t c @ih,0,8 0x47 numgen inc mod 5 == 0 drop
         add rule ip t c @ih,0,8 0x48 numgen inc mod 5 == 0 drop'";
