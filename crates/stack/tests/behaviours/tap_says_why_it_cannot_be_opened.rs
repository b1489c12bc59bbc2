//! A TAP device that cannot be opened, or an address that cannot be used on it, gives an error that says what to do.

use std::process::Command;

use anywire_advice::Help;
use anywire_stack::tap::{AddressError, Options, Tap, TapError};

use crate::again;
use crate::kernel::{in_own_network, open, shell};

fn error(name: &str) -> TapError {
    Tap::open(name, Options::default()).expect_err("it cannot be opened")
}

#[test]
fn by_its_name() {
    in_own_network("tap_says_why_it_cannot_be_opened::by_its_name", || {
        for name in ["", "a name", "much-too-long-a-name"] {
            assert!(matches!(error(name), TapError::Name(_)), "{name}");
        }
        let missing = error("tap7");
        assert!(matches!(missing, TapError::Missing { .. }), "{missing}");
        let advice = missing.help().expect("there is advice");
        assert!(advice.contains("ip tuntap add dev tap7 mode tap"), "{advice}");
        // It was not made by asking.
        assert!(matches!(error("tap7"), TapError::Missing { .. }));
    });
}

#[test]
fn of_another_kind_or_in_use() {
    in_own_network("tap_says_why_it_cannot_be_opened::of_another_kind_or_in_use", || {
        shell("ip tuntap add dev tun0 mode tun");
        for name in ["tun0", "lo"] {
            let other = error(name);
            assert!(matches!(other, TapError::OtherKind { .. }), "{name}: {other}");
        }
        let first = open(Options::default());
        let busy = error("tap0");
        assert!(matches!(busy, TapError::Busy { .. }), "{busy}");
        assert!(busy.help().expect("there is advice").contains("multi_queue"));
        drop(first);
        Tap::open("tap0", Options::default()).expect("it is free again");
        // With several queues it may be opened as often.
        shell("ip tuntap add dev tap1 mode tap multi_queue");
        let queues: Vec<_> =
            (0..4).map(|_| Tap::open("tap1", Options::default()).expect("another queue")).collect();
        assert!(queues.iter().all(|queue| queue.kernel_mac() == queues[0].kernel_mac()));
    });
}

#[test]
fn with_an_address_of_the_kernel() {
    in_own_network("tap_says_why_it_cannot_be_opened::with_an_address_of_the_kernel", || {
        let tap = open(Options::default());
        shell("ip link set lo up; ip addr add 192.0.2.7/32 dev lo");
        for (address, interface) in [("10.0.0.1", "tap0"), ("fd00::1", "tap0"), ("192.0.2.7", "lo")] {
            let error =
                tap.check_address(address.parse().expect("an address")).expect_err("the kernel has it");
            let AddressError::KernelHasIt { interface: found, .. } = &error else { panic!("{error}") };
            assert_eq!(found, interface);
            let advice = error.help().expect("there is advice");
            assert!(advice.contains(&format!("ip addr del {address} dev {interface}")), "{advice}");
        }
        tap.check_address("10.0.0.2".parse().expect("an address")).expect("nobody has it");
    });
}

/// The innermost run is that of somebody who may not.
#[test]
fn without_permission() {
    let name = "tap_says_why_it_cannot_be_opened::without_permission";
    if std::env::var_os(WITHOUT_CAPABILITY).is_some() {
        let denied = error("tap0");
        assert!(matches!(denied, TapError::Permission { .. }), "{denied}");
        let advice = denied.help().expect("there is advice");
        assert!(advice.contains("CAP_NET_ADMIN"), "{advice}");
        assert!(advice.contains("ip tuntap add dev tap0 mode tap user"), "{advice}");
        return;
    }
    if !again::is_inner() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "root is needed to make a device of another user");
            return crate::skipped::say("only root makes a device of another user");
        }
        return again::passes_within(&["--net"], name);
    }
    shell("ip tuntap add dev tap0 mode tap user 4321");
    let this = std::env::current_exe().expect("the test has a file");
    let mut without = Command::new("setpriv");
    without.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]).arg(this);
    let ended = without.args(["--exact", name, "--nocapture"]).env(WITHOUT_CAPABILITY, "1").output();
    let ended = ended.expect("util-linux is here: it has made the namespace");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

const WITHOUT_CAPABILITY: &str = "ANYWIRE_TEST_WITHOUT_CAPABILITY";
