//! Filters against frames that are written by hand, and against any text and bytes.

use anywire_packet::arp::Arp;
use anywire_packet::{Addresses, Checks, Flags, Link, Mac, OptionsOut, Outgoing, emit};
use proptest::prelude::*;

use super::Filter;

const A: Mac = Mac::new([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac::new([2, 0, 0, 0, 0, 0xb]);

/// From 10.0.0.1:49152 to 10.0.0.2:80, or the same of IPv6.
fn tcp(is_v4: bool) -> Vec<u8> {
    let between = if is_v4 {
        Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 }
    } else {
        Addresses::V6 { local: 0xfd00 << 112 | 1, remote: 0xfd00 << 112 | 2 }
    };
    let segment = Outgoing { local_port: 49_152, remote_port: 80, flags: Flags::SYN, ..Outgoing::default() };
    let mut frame = [0; 200];
    let length =
        emit(&mut frame, &Link::new(B, A), &between, &segment, &OptionsOut::NONE, b"hello", Checks::ALL);
    frame[..length].to_vec()
}

fn arp() -> Vec<u8> {
    Arp::request(A, [10, 0, 0, 1].into(), [10, 0, 0, 2].into()).frame(Mac::BROADCAST, A).to_vec()
}

#[track_caller]
fn check(frame: &[u8], filters: &[(&str, bool)]) {
    for (text, passes) in filters {
        let filter: Filter = text.parse().unwrap_or_else(|wrong| panic!("{wrong}"));
        assert_eq!(filter.matches(frame), *passes, "{text}");
    }
}

#[test]
fn each_test_looks_at_its_part_of_the_frame() {
    check(
        &tcp(true),
        &[
            ("tcp", true),
            ("ip", true),
            ("udp", false),
            ("icmp", false),
            ("ip6", false),
            ("arp", false),
            ("port 80", true),
            ("src port 80", false),
            ("tcp dst port 80", true),
            ("udp port 80", false),
            ("portrange 79-81", true),
            ("portrange 81-90", false),
            ("host 10.0.0.2", true),
            ("src host 10.0.0.2", false),
            ("src 10.0.0.2", false),
            ("tcp dst 10.0.0.2 and 10.0.0.1", true),
            ("src or dst host 10.0.0.2", true),
            ("src or dst port 80", true),
            ("net 10.0.0.0/30", true),
            ("dst net 10.0.0.0/31", false),
            ("host 10.0.0.3", false),
            ("ether host 02:00:00:00:00:0b", true),
            ("ether host 02:00:00:00:00:0c", false),
            ("less 59", true),
            ("greater 60", false),
        ],
    );
    check(
        &tcp(false),
        &[("ip6 host fd00::2", true), ("tcp", true), ("net fd00::/64", true), ("port 80", true)],
    );
    check(&arp(), &[("arp", true), ("arp host 10.0.0.2", true), ("host 10.0.0.2", true), ("ip", false)]);
}

#[test]
fn and_binds_as_or_and_not_binds_closest() {
    check(
        &tcp(true),
        &[
            ("udp and tcp or port 80", true),
            // From the left, as tcpdump has it.
            ("port 80 or tcp and udp", false),
            ("port 80 or (tcp and udp)", true),
            ("not udp and tcp", true),
            ("not (udp or tcp)", false),
            ("! udp && !! tcp || arp", true),
            ("!(arp)and(tcp)", true),
            ("not not not tcp", false),
        ],
    );
}

#[test]
fn a_later_fragment_has_no_ports() {
    let mut frame = tcp(true);
    frame[14 + 7] = 1;
    check(&frame, &[("tcp", true), ("port 80", false), ("host 10.0.0.2", true)]);
}

#[test]
fn what_is_not_understood_is_refused_at_its_place() {
    for (text, at, part) in [
        ("", 0, "the end"),
        ("tcp and", 7, "the end"),
        ("tcp port 80 or 443", 15, "\"443\""),
        ("tcp port http", 9, "no name"),
        ("host example.com", 5, "no name"),
        ("port 65536", 5, "\"65536\""),
        ("tcp[13] & 2 != 0", 0, "\"tcp[13]\""),
        ("(tcp", 4, "`)`"),
        ("tcp)", 3, "`and`, `or` or the end"),
        ("icmp port 80", 0, "without ports"),
        ("ip6 host 10.0.0.1", 0, "without such addresses"),
        ("net 10.0.0.1/24", 4, "behind its prefix"),
        ("portrange 9-8", 10, "\"9-8\""),
        ("src tcp", 4, "\"tcp\""),
        ("src or host 10.0.0.2", 7, "`dst`"),
        ("ip6 10.0.0.1", 0, "without such addresses"),
        ("vlan 3", 0, "\"vlan\""),
        ("ether 3", 6, "`host`"),
        ("tcp less 3", 4, "\"less\""),
    ] {
        let wrong = text.parse::<Filter>().expect_err(text);
        assert_eq!(wrong.at, at, "{wrong}");
        assert!(wrong.to_string().contains(part), "{part}: {wrong}");
    }
    let deep = |depth| format!("{}tcp{}", "(".repeat(depth), ")".repeat(depth));
    assert!(deep(32).parse::<Filter>().is_ok_and(|filter| filter.matches(&tcp(true))));
    assert_eq!(deep(33).parse::<Filter>().map_err(|wrong| wrong.at), Err(32));
    assert!(format!("tcp{}", " ".repeat(1022)).parse::<Filter>().is_err());
}

/// Filters that are right, of all kinds.
fn right() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "tcp",
        "udp",
        "arp",
        "ip",
        "ip6",
        "port 80",
        "src port 49152",
        "host 10.0.0.1",
        "net 10.0.0.0/8",
        "greater 20",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(6, 40, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) and ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) or ({b})")),
            inner.prop_map(|a| format!("not ({a})")),
        ]
    })
}

proptest! {
    #[test]
    fn joined_filters_are_what_their_parts_are(a in right(), b in right(), v4 in any::<bool>()) {
        let frame = tcp(v4);
        let holds = |text: &str| text.parse::<Filter>().expect("it is right").matches(&frame);
        prop_assert_eq!(holds(&format!("({a}) and ({b})")), holds(&a) && holds(&b));
        prop_assert_eq!(holds(&format!("({a}) or not ({b})")), holds(&a) || !holds(&b));
    }

    #[test]
    fn any_text_is_read_or_refused_within_it(text in "[a-z0-9.:/() !&|-]{0,60}|.{0,40}", frame: Vec<u8>) {
        match text.parse::<Filter>() {
            Ok(filter) => {
                filter.matches(&frame);
            }
            Err(wrong) => prop_assert!(wrong.at <= text.len()),
        }
    }

    #[test]
    fn any_frame_is_seen(frame in prop::collection::vec(any::<u8>(), 0..120), at in 0_usize..60, byte: u8) {
        let filter: Filter = "tcp port 80 or udp or host 10.0.0.1 or arp or icmp6".parse().expect("it is right");
        filter.matches(&frame);
        let mut near = tcp(frame.len() % 2 == 0);
        let at = at % near.len();
        near[at] = byte;
        near.truncate(near.len() - frame.len() % 40);
        filter.matches(&near);
    }
}
