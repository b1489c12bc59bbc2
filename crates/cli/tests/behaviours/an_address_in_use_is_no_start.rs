//! A service on a device does not start with an address that is in use on the link, nor on a link that is down or whose MTU is too
//! small.

use crate::common::{stderr, stdout};
use crate::namespaces::{with_tap, with_veth};

/// Another host on the link of the TAP device, with 10.0.0.2 and fd00::2.
const BRIDGE: &str = r#"
    unshare --net sleep 60 & other=$!
    until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
    set -e
    ip link add br0 type bridge
    ip link add ours type veth peer name theirs
    ip link set theirs netns "$other"
    for port in ours tap0; do ip link set "$port" master br0; ip link set "$port" up; done
    ip link set br0 up
    there() { nsenter --net="/proc/$other/ns/net" "$@"; }
    there ip addr add 10.0.0.2/24 dev theirs
    there ip -6 addr add fd00::2/64 dev theirs nodad
    there ip link set theirs up
    set +e
"#;

#[test]
fn of_a_tap_device() {
    let script = r#"
        there ip -o link show theirs | sed 's/.*ether \([^ ]*\).*/\1/'
        for address in 10.0.0.2 '[fd00::2]'; do
            timeout 20 "$0" serve --listen "stack:tap0/$address:8080"; echo "$?"
        done
        # Nothing of it has stayed.
        timeout --signal=INT 1 "$0" serve --listen stack:tap0/10.0.0.3:8080; echo "$?"
        kill $other; wait
    "#;
    let Some(output) = with_tap(&format!("{BRIDGE}{script}")) else { return };
    let (said, wrong) = (stdout(&output), stderr(&output));
    let (mac, rest) = said.split_once('\n').expect("a line");
    assert_eq!(rest, "1\n1\nlistening on stack:tap0/10.0.0.3:8080\n124\n", "{wrong}");
    for address in ["10.0.0.2", "fd00::2"] {
        let part = format!("{mac} has the address {address} on tap0\nhelp: choose one that is free");
        assert!(wrong.contains(&part), "{part}: {wrong}");
    }
}

#[test]
fn of_an_interface() {
    let script = r#"
        timeout 20 "$0" serve --listen stack:xdp:ours/10.0.0.1:8080; echo "$?"
        timeout 20 "$0" serve --listen 'stack:xdp:ours/[fd00::1]:8080'; echo "$?"
        ip -o link show ours | grep -c xdp
    "#;
    let Some(output) = with_veth(script) else { return };
    let wrong = stderr(&output);
    assert_eq!(stdout(&output), "1\n1\n0\n", "{wrong}");
    for address in ["10.0.0.1", "fd00::1"] {
        assert!(wrong.contains(&format!(" has the address {address} on xdp:ours")), "{wrong}");
    }
}

#[test]
fn nor_with_packets_that_are_too_short() {
    let script = r#"
        ip link set tap0 mtu 1279
        timeout 20 "$0" serve --listen 'stack:tap0/[fd00::2]:8080'; echo "$?"
        ip link set tap0 mtu 575
        timeout 20 "$0" serve --listen stack:tap0/10.0.0.2:8080; echo "$?"
        "$0" get http://10.0.0.1/ --via 'stack:tap0/10.0.0.1:80?from=10.0.0.2'; echo "$?"
    "#;
    let Some(output) = with_tap(script) else { return };
    let wrong = stderr(&output);
    assert_eq!(stdout(&output), "1\n1\n7\n", "{wrong}");
    assert!(wrong.contains("the MTU of tap0 is 1279, and IPv6 needs 1280"), "{wrong}");
    assert_eq!(wrong.matches("the MTU of tap0 is 575, and IPv4 needs 576").count(), 2, "{wrong}");
}

#[test]
fn nor_on_an_interface_that_is_down() {
    let script = r#"
        ip link set tap0 down
        timeout 20 "$0" serve --listen stack:tap0/10.0.0.2:8080; echo "$?"
        "$0" get http://10.0.0.1/ --via 'stack:tap0/10.0.0.1:80?from=10.0.0.2'; echo "$?"
    "#;
    let Some(output) = with_tap(script) else { return };
    let wrong = stderr(&output);
    assert_eq!(stdout(&output), "1\n7\n", "{wrong}");
    assert_eq!(
        wrong.matches("the network interface tap0 is down\nhelp: `ip link set tap0 up`").count(),
        2,
        "{wrong}"
    );
}
