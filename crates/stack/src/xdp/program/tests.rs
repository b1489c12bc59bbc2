//! The program as the kernel runs it, beside the table of its documentation written in Rust.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;

const OURS_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const SHARED_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);
const OURS_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const SHARED_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3);
const PORT_OF_OURS: u16 = 8080;

/// Drops what it would redirect to the first socket of the queue, and sends back what it would to the second: there is none. `None` if this user may not load it, which is a failure under `CI`.
fn program() -> Option<&'static Program> {
    static PROGRAM: OnceLock<Option<(Program, Maps)>> = OnceLock::new();
    let loaded = PROGRAM.get_or_init(|| {
        let maps = match Maps::new(1) {
            Ok(maps) => maps,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "BPF is needed: {error}");
                let _ = writeln!(io::stderr(), "skipped the tests of the XDP program: {error}");
                return None;
            }
        };
        for (address, whole) in [
            (OURS_V4.into(), true),
            (OURS_V6.into(), true),
            (SHARED_V4.into(), false),
            (SHARED_V6.into(), false),
        ] {
            maps.add_address(address, whole).expect("there is room");
        }
        for address in [IpAddr::from(SHARED_V4), SHARED_V6.into()] {
            maps.add_port(SocketAddr::new(address, PORT_OF_OURS)).expect("there is room");
        }
        let program = load(&maps, [Verdict::Drop, Verdict::SendBack])
            .unwrap_or_else(|error| panic!("{error}: {}", error.source));
        Some((program, maps))
    });
    loaded.as_ref().map(|(program, _)| program)
}

/// What the table of the module's documentation says.
fn is_for_the_stack(frame: &[u8]) -> bool {
    let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let v4 = |at: usize| Some(Ipv4Addr::from(*frame.get(at..)?.first_chunk::<4>()?));
    let v6 = |at: usize| Some(Ipv6Addr::from(*frame.get(at..)?.first_chunk::<16>()?));
    let look = || -> Option<bool> {
        frame.get(33)?;
        match half(12)? {
            0x0800 => {
                let to = v4(30)?;
                let tcp_at = 14 + 4 * usize::from(frame[14] & 15);
                let is_first = half(20)? & 0x1fff == 0;
                let port = || half(tcp_at + 2);
                Some(
                    to == OURS_V4
                        || (to == SHARED_V4 && frame[23] == 6 && is_first && port() == Some(PORT_OF_OURS)),
                )
            }
            0x86dd => {
                frame.get(53)?;
                let to = v6(38)?;
                let is_neighbour = frame[20] == 58 && frame.len() >= 78 && [135, 136].contains(&frame[54]);
                Some(
                    to == OURS_V6
                        || (is_neighbour && v6(62) == Some(OURS_V6))
                        || (to == SHARED_V6 && frame[20] == 6 && half(56) == Some(PORT_OF_OURS)),
                )
            }
            0x0806 => {
                frame.get(41)?;
                let is_ipv4 = half(16) == Some(0x0800) && half(18) == Some(0x0604);
                Some(is_ipv4 && [v4(28), v4(38)].contains(&Some(OURS_V4)))
            }
            _ => None,
        }
    };
    look().unwrap_or(false)
}

/// What the second table says.
fn class_of(frame: &[u8]) -> Class {
    let (protocol, tcp_at, is_whole) = if frame[12] == 8 {
        let is_whole = u16::from_be_bytes([frame[20], frame[21]]) & 0x3fff == 0;
        (frame[23], 14 + 4 * usize::from(frame[14] & 15), is_whole)
    } else {
        (frame[20], 54, true)
    };
    let is_ip = matches!([frame[12], frame[13]], [0x08, 0x00] | [0x86, 0xdd]);
    match frame.get(tcp_at + 13) {
        Some(flags) if is_ip && protocol == 6 && is_whole && flags & 0x16 == 0x10 => Class::Priority,
        _ => Class::BestEffort,
    }
}

fn expected(frame: &[u8]) -> Verdict {
    if !is_for_the_stack(frame) {
        return Verdict::Pass;
    }
    match class_of(frame) {
        Class::Priority => Verdict::Drop,
        Class::BestEffort => Verdict::SendBack,
    }
}

fn verdict_is_right(program: &Program, frame: &[u8]) -> Result<(), TestCaseError> {
    let verdict = program.run(frame).expect("frames are neither too short nor too long");
    prop_assert_eq!(verdict, expected(frame) as u32, "{:02x?}", frame);
    Ok(())
}

fn ipv4(header_words: u8, protocol: u8, fragment: u16, to: Ipv4Addr, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x40 | header_words, 0, 0, 0, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 1]);
    frame.extend(to.octets());
    frame.extend(rest);
    frame
}

fn ipv6(protocol: u8, to: Ipv6Addr, rest: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 255]);
    frame.extend(Ipv6Addr::LOCALHOST.octets());
    frame.extend(to.octets());
    frame.extend(rest);
    frame
}

fn arp(sender: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
    frame.extend(sender.octets());
    frame.extend([0; 6]);
    frame.extend(target.octets());
    frame
}

fn neighbour(kind: u8, to: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    ipv6(58, to, &message)
}

/// A TCP header, as far as anybody looks.
fn tcp(port: u16) -> Vec<u8> {
    tcp_with(port, 2)
}

fn tcp_with(port: u16, flags: u8) -> Vec<u8> {
    let [a, b] = port.to_be_bytes();
    vec![200, 1, a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]
}

#[test]
fn packets_go_where_the_table_says() {
    let Some(program) = program() else { return };
    let others = Ipv4Addr::new(10, 0, 0, 9);
    let group: Ipv6Addr = "ff02::1:ff00:2".parse().expect("it is an address");
    let stack = [
        ipv4(5, 6, 0, OURS_V4, &tcp(1)),
        ipv4(5, 17, 0, OURS_V4, &[]),
        ipv4(5, 1, 0, OURS_V4, &[8]),
        ipv4(5, 6, 100, OURS_V4, &[]),
        ipv4(5, 6, 0, SHARED_V4, &tcp(PORT_OF_OURS)),
        ipv4(5, 6, 0x4000, SHARED_V4, &tcp(PORT_OF_OURS)),
        ipv4(7, 6, 0, SHARED_V4, &[&[1; 8], &tcp(PORT_OF_OURS)[..]].concat()),
        ipv6(6, OURS_V6, &tcp(1)),
        ipv6(58, OURS_V6, &[128]),
        ipv6(6, SHARED_V6, &tcp(PORT_OF_OURS)),
        neighbour(135, group, OURS_V6),
        neighbour(136, "ff02::1".parse().expect("it is an address"), OURS_V6),
        arp(others, OURS_V4),
        arp(OURS_V4, others),
    ];
    for frame in stack {
        assert!(is_for_the_stack(&frame), "the model itself: {frame:02x?}");
        assert_eq!(program.run(&frame).expect("it runs"), Verdict::SendBack as u32, "{frame:02x?}");
    }
    let mut tagged = ipv4(5, 6, 0, OURS_V4, &tcp(1));
    tagged.splice(12..12, [0x81, 0, 0, 7]);
    let kernel = [
        tagged,
        ipv4(5, 6, 0, others, &tcp(PORT_OF_OURS)),
        ipv4(5, 6, 0, SHARED_V4, &tcp(81)),
        ipv4(5, 17, 0, SHARED_V4, &tcp(PORT_OF_OURS)),
        ipv4(5, 6, 100, SHARED_V4, &tcp(PORT_OF_OURS)),
        ipv4(5, 6, 0, SHARED_V4, &[200, 1, 0x1f]),
        ipv6(17, SHARED_V6, &tcp(PORT_OF_OURS)),
        neighbour(135, group, SHARED_V6),
        neighbour(134, group, OURS_V6),
        arp(others, SHARED_V4),
        arp(others, others),
        vec![0xff; 14],
    ];
    for frame in kernel {
        assert_eq!(program.run(&frame).expect("it runs"), Verdict::Pass as u32, "{frame:02x?}");
    }
}

#[test]
fn segments_of_connections_go_to_the_first_socket() {
    let Some(program) = program() else { return };
    let run = |frame: &[u8]| program.run(frame).expect("it runs");
    for (flags, verdict) in [
        ([0x10, 0x18, 0x11, 0xd0], Verdict::Drop),
        // SYN, SYN and ACK, RST, RST and ACK; then nothing, FIN, PSH, URG.
        ([0x02, 0x12, 0x04, 0x14], Verdict::SendBack),
        ([0x00, 0x01, 0x08, 0x20], Verdict::SendBack),
    ] {
        for flags in flags {
            let segment = tcp_with(PORT_OF_OURS, flags);
            for (to_v4, to_v6) in [(OURS_V4, OURS_V6), (SHARED_V4, SHARED_V6)] {
                let options = ipv4(7, 6, 0x4000, to_v4, &[&[1; 8], &segment[..]].concat());
                for frame in [ipv4(5, 6, 0x4000, to_v4, &segment), options, ipv6(6, to_v6, &segment)] {
                    assert_eq!(run(&frame), verdict as u32, "{frame:02x?}");
                }
                let first_fragment = ipv4(5, 6, 0x2000, to_v4, &segment);
                assert_eq!(run(&first_fragment), Verdict::SendBack as u32);
            }
        }
    }
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let v4 = prop::sample::select(vec![OURS_V4, SHARED_V4, Ipv4Addr::new(10, 0, 0, 9)]);
    let v6 =
        prop::sample::select(vec![OURS_V6, SHARED_V6, "ff02::1:ff00:2".parse().expect("it is an address")]);
    let port = prop::sample::select(vec![PORT_OF_OURS, 81, 0x901f]);
    let protocol = prop::sample::select(vec![6_u8, 17, 1, 58]);
    let flags = prop::sample::select(vec![0_u8, 0x02, 0x04, 0x10, 0x12, 0x14, 0x18, 0xd1]);
    let fragment = prop::sample::select(vec![0_u16, 0x4000, 0x2000, 1, 0x1fff]);
    let whole = prop_oneof![
        (4_u8..16, protocol.clone(), fragment, v4.clone(), port.clone(), flags.clone(), 0_usize..60)
            .prop_map(|(words, protocol, fragment, to, port, flags, options)| {
                ipv4(
                    words,
                    protocol,
                    fragment,
                    to,
                    &[vec![1; options / 4 * 4], tcp_with(port, flags)].concat(),
                )
            }),
        (protocol, v6.clone(), port, flags).prop_map(|(protocol, to, port, flags)| ipv6(
            protocol,
            to,
            &tcp_with(port, flags)
        )),
        (130_u8..140, v6.clone(), v6).prop_map(|(kind, to, target)| neighbour(kind, to, target)),
        (v4.clone(), v4).prop_map(|(sender, target)| arp(sender, target)),
        prop::collection::vec(any::<u8>(), 14..100),
    ];
    // Some are cut, and some have a byte changed.
    (whole, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>(), 0_u8..4).prop_map(
        |(mut frame, cut, at, byte, change)| {
            if change == 0 {
                frame.truncate(14 + cut.index(frame.len() - 13));
            }
            if change == 1 {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            frame
        },
    )
}

proptest! {
    #[test]
    fn any_frame_goes_where_the_table_says(frames in prop::collection::vec(any_frame(), 1..20)) {
        if let Some(program) = program() {
            for frame in frames {
                verdict_is_right(program, &frame)?;
            }
        }
    }
}
