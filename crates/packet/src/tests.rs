//! Frames written and read back, damaged, and made of any bytes.

use proptest::prelude::*;

use super::arbitrary::{checks, segment};
use super::icmp::IcmpError;
use super::icmp::emit_echo_reply;
use super::plain::V4_TIMESTAMPS;
use super::*;
use crate::seq::Seq;

/// A segment and the way it goes.
#[derive(Debug, Clone)]
struct Case {
    addresses: Addresses,
    segment: Outgoing,
    options: Owned,
    payload: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Owned {
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: Option<(u32, u32)>,
    sack: Vec<(Seq, Seq)>,
}

impl Owned {
    fn out(&self) -> OptionsOut<'_> {
        let &Self { mss, window_scale, sack_permitted, timestamps, .. } = self;
        OptionsOut { mss, window_scale, sack_permitted, timestamps, sack: &self.sack }
    }
}

const SOURCE: Mac = Mac::new([2, 0, 0, 0, 0, 1]);
const LINK: Link = Link::new(Mac::new([2, 0, 0, 0, 0, 2]), SOURCE);

impl Case {
    fn write(&self, out: &mut [u8], checks: Checks) -> usize {
        emit(out, &LINK, &self.addresses, &self.segment, &self.options.out(), &self.payload, checks)
    }

    fn frame(&self, checks: Checks) -> Vec<u8> {
        let mut out = vec![0xee; 4096];
        let len = self.write(&mut out, checks);
        assert_eq!(len, headers_len(&self.addresses, &self.options.out()) + self.payload.len());
        out.truncate(len);
        out
    }
}

/// What a frame holds, and the segment in it.
fn read(frame: &[u8], checks: Checks) -> Result<(Packet, Parsed), Refusal> {
    let mut place = Parsed::default();
    let Some((plain, payload)) = Plain::<V4_TIMESTAMPS>::of(frame) else {
        return Ok((general(frame, checks, &mut place)?, place));
    };
    plain.verify(payload, checks)?;
    if plain.is_between_hosts() { Ok((Packet::Tcp, plain.parsed())) } else { Err(Refusal::Address) }
}

fn packet(frame: &[u8], checks: Checks) -> Result<Packet, Refusal> {
    read(frame, checks).map(|(packet, _)| packet)
}

fn addresses() -> impl Strategy<Value = Addresses> {
    // No martians.
    let v4 = prop_oneof![0x0100_0000u32..0x7f00_0000, 0x8000_0000u32..0xe000_0000];
    let v6 = 1u128 << 64..0xff << 120;
    prop_oneof![
        (v4.clone(), v4).prop_map(|(local, remote)| Addresses::V4 { local, remote }),
        (v6.clone(), v6).prop_map(|(local, remote)| Addresses::V6 { local, remote }),
    ]
}

fn options() -> impl Strategy<Value = Owned> {
    let blocks = prop::collection::vec(any::<(u32, u32)>(), 0..2);
    let mixed =
        (any::<Option<u16>>(), any::<Option<u8>>(), any::<bool>(), any::<Option<(u32, u32)>>(), blocks);
    let mixed = mixed.prop_map(|(mss, window_scale, sack_permitted, timestamps, sack)| Owned {
        mss,
        window_scale,
        sack_permitted,
        timestamps,
        sack: sack.into_iter().map(|(left, right)| (Seq(left), Seq(right))).collect(),
    });
    let plain = any::<(u32, u32)>().prop_map(|timestamps| Owned {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: Some(timestamps),
        sack: Vec::new(),
    });
    prop_oneof![mixed, plain]
}

fn case() -> impl Strategy<Value = Case> {
    let payload = prop::collection::vec(any::<u8>(), 0..300);
    (addresses(), segment(), options(), payload).prop_map(|(addresses, segment, options, payload)| Case {
        addresses,
        segment,
        options,
        payload,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(case in case(), padding in 0usize..20, checks in checks()) {
        let mut frame = case.frame(checks);
        frame.resize(frame.len() + padding, 0x55);
        let (packet, parsed) = read(&frame, checks).expect("it is whole");
        prop_assert_eq!(packet, Packet::Tcp);
        let here = match parsed.addresses(&frame) {
            Addresses::V4 { local, remote } => Addresses::V4 { local: remote, remote: local },
            Addresses::V6 { local, remote } => Addresses::V6 { local: remote, remote: local },
        };
        prop_assert_eq!(here, case.addresses);
        let fields = Outgoing {
            local_port: parsed.remote_port(),
            remote_port: parsed.local_port(),
            seq: parsed.seq,
            ack: parsed.ack,
            flags: parsed.flags,
            window: parsed.window,
            traffic_class: parsed.traffic_class,
            fragment_id: None,
        };
        prop_assert_eq!(fields, case.segment);
        prop_assert_eq!(payload_of(&parsed, &frame), &case.payload);
        prop_assert_eq!(usize::from(parsed.payload_len), case.payload.len());
        prop_assert_eq!(parsed.timestamps(), case.options.timestamps);
        let options = parsed.options(&frame);
        prop_assert_eq!((options.mss, options.window_scale), (case.options.mss, case.options.window_scale));
        prop_assert_eq!((options.sack_permitted, options.fault), (case.options.sack_permitted, None));
        prop_assert_eq!(options.timestamps, case.options.timestamps);
        prop_assert_eq!(options.sack(), &case.options.sack[..options.sack().len()]);
        prop_assert_eq!(parsed.has_other_options, !options.are_timestamps_at_most());
    }

    #[test]
    fn a_flipped_bit_is_refused(case in case(), at: prop::sample::Index, bit in 0u8..8) {
        let mut frame = case.frame(Checks::ALL);
        let at = 14 + at.index(frame.len() - 14);
        // Of IPv6, no checksum takes in traffic class, flow label and hop limit.
        prop_assume!(matches!(case.addresses, Addresses::V4 { .. }) || !(14..18).contains(&at) && at != 21);
        frame[at] ^= 1 << bit;
        prop_assert!(packet(&frame, Checks::ALL).is_err());
    }

    #[test]
    fn a_cut_frame_is_refused(case in case(), at: prop::sample::Index) {
        let frame = case.frame(Checks::ALL);
        prop_assert_eq!(packet(&frame[..at.index(frame.len())], Checks::ALL), Err(Refusal::Short));
    }

    #[test]
    fn checksums_left_out_are_zero_and_refused_by_who_wants_them(case in case()) {
        let frame = case.frame(Checks::NONE);
        prop_assert!(packet(&frame, Checks::NONE).is_ok());
        // Zero is right by chance once in 65,536 times.
        prop_assume!(case.frame(Checks::ALL) != frame);
        prop_assert!(packet(&frame, Checks::ALL).is_err());
    }

    #[test]
    fn no_room_writes_nothing(case in case(), short in 1usize..100) {
        let len = headers_len(&case.addresses, &case.options.out()) + case.payload.len();
        let mut out = vec![0; len.saturating_sub(short)];
        prop_assert_eq!(case.write(&mut out, Checks::ALL), 0);
    }

    #[test]
    fn any_bytes_are_parsed(frame: Vec<u8>, front: bool, version: bool, checks in checks()) {
        let mut frame = frame;
        if front && frame.len() > 54 {
            // So that they get further than the type of the frame.
            frame[..15].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45]);
            let len = (frame.len() - 14) as u16;
            frame[16..18].copy_from_slice(&len.to_be_bytes());
            if version {
                frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
                frame[18..20].copy_from_slice(&(len - 40).to_be_bytes());
            }
            let tail = [[0, 0, 64, 6], [44, 1, 6, 1]][usize::from(frame[53] & 1)];
            frame[20..24].copy_from_slice(&tail);
        }
        if let Ok((Packet::Tcp, parsed)) = read(&frame, checks) {
            prop_assert_eq!(payload_of(&parsed, &frame).len(), usize::from(parsed.payload_len));
            parsed.options(&frame);
            parsed.addresses(&frame);
        }
    }

    #[test]
    fn an_echo_is_answered_with_what_came(addresses in addresses(), data: Vec<u8>, sequence: u32) {
        let request = echo_request(addresses, sequence, &data);
        prop_assert_eq!(packet(&request, Checks::ALL), Ok(Packet::Icmp(Icmp::EchoRequest(back(addresses)))));
        let mut out = vec![0; request.len()];
        prop_assert_eq!(emit_echo_reply(&mut out, &request), request.len());
        let kind = if addresses.is_v4() { 0 } else { 129 };
        prop_assert_eq!(out[out.len() - data.len() - 8], kind);
        prop_assert_eq!(packet(&out, Checks::ALL), Ok(Packet::Icmp(Icmp::Other)));
        prop_assert!(out.ends_with(&data) && out[..6] == SOURCE.bytes());
        prop_assert_eq!(emit_echo_reply(&mut vec![0; request.len() - 1], &request), 0);
    }

    #[test]
    fn an_error_tells_which_segment_it_is_about(case in case(), quoted in 8usize..600) {
        let reporter = match case.addresses {
            Addresses::V4 { .. } => V4,
            Addresses::V6 { .. } => V6,
        };
        let frame = case.frame(Checks::ALL);
        let (kind, headers) = if matches!(reporter, Addresses::V6 { .. }) { (2, 40) } else { (3, 20) };
        let quote = &frame[14..frame.len().min(14 + headers + quoted)];
        let code = if kind == 3 { 4 } else { 0 };
        let error = icmp_frame(reporter, [kind, code, 0, 0, 0, 0, 0x05, 0x14], quote);
        let wanted = IcmpError {
            kind: ErrorKind::TooBig { mtu: 1300 },
            addresses: case.addresses,
            local_port: case.segment.local_port,
            remote_port: case.segment.remote_port,
            seq: case.segment.seq,
        };
        prop_assert_eq!(packet(&error, Checks::ALL), Ok(Packet::Icmp(Icmp::Error(wanted))));
    }
}

/// A frame of a small segment between two hosts.
fn small(addresses: Addresses) -> Vec<u8> {
    let options =
        Owned { mss: None, window_scale: None, sack_permitted: false, timestamps: None, sack: vec![] };
    Case { addresses, segment: Outgoing::default(), options, payload: b"anywire".to_vec() }.frame(Checks::ALL)
}

const V4: Addresses = Addresses::V4 { local: 0x0a00_0001, remote: 0x0a00_0002 };
const V6: Addresses = Addresses::V6 { local: 0x20 << 120 | 1, remote: 0x20 << 120 | 2 };

/// The frame with `options` in its IPv4 header.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut frame = small(V4);
    let len = frame.len() - 14 + options.len();
    frame.splice(34..34, options.iter().copied());
    frame[14] = 0x45 + options.len() as u8 / 4;
    frame[16..18].copy_from_slice(&(len as u16).to_be_bytes());
    seal(&mut frame);
    frame
}

/// Makes the checksum of the IPv4 header right.
fn seal(frame: &mut [u8]) {
    let end = 14 + usize::from(frame[14] & 15) * 4;
    frame[24..26].fill(0);
    let checksum = checksum::header(0, checksum::sum(&frame[14..end], 0));
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// The frame with `headers` between IPv6 and TCP, the first of them being of kind `first`.
fn with_extensions(first: u8, headers: &[u8]) -> Vec<u8> {
    let mut frame = small(V6);
    let len = frame.len() - 54 + headers.len();
    frame.splice(54..54, headers.iter().copied());
    frame[20] = first;
    frame[18..20].copy_from_slice(&(len as u16).to_be_bytes());
    frame
}

#[test]
fn options_of_ipv4_are_passed_over_and_source_routes_are_not() {
    let record_route = [7, 7, 4, 0, 0, 0, 0, 0];
    for options in [&[1, 1, 1, 0][..], &[68, 4, 5, 0], &record_route] {
        let frame = with_options(options);
        let (packet, parsed) = read(&frame, Checks::ALL).expect("it is whole");
        assert_eq!((packet, payload_of(&parsed, &frame)), (Packet::Tcp, &b"anywire"[..]));
    }
    assert_eq!(packet(&with_options(&[131, 7, 4, 1, 2, 3, 4, 0]), Checks::ALL), Err(Refusal::SourceRoute));
    assert_eq!(packet(&with_options(&[1, 137, 3, 4]), Checks::ALL), Err(Refusal::SourceRoute));
    assert_eq!(packet(&with_options(&[7, 0, 0, 0]), Checks::ALL), Err(Refusal::HeaderLength));
    assert_eq!(packet(&with_options(&[1, 1, 7, 3]), Checks::ALL), Err(Refusal::HeaderLength));
}

#[test]
fn fragments_of_ipv4_are_refused() {
    for fragment in [0x2000u16, 0x0001, 0x1fff] {
        let mut frame = small(V4);
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        seal(&mut frame);
        assert_eq!(packet(&frame, Checks::ALL), Err(Refusal::Fragment));
    }
}

#[test]
fn extension_headers_are_passed_over_where_a_host_may() {
    let options = [60, 0, 5, 2, 0, 0, 1, 0];
    let long = [&[6, 1, 1, 4][..], &[0; 12]].concat();
    let routed = [6, 2, 0, 0];
    let atomic = [6, 0, 0, 0, 1, 2, 3, 4];
    for (first, headers) in [
        (0, [&options[..], &long].concat()),
        (60, long.clone()),
        (43, [&routed[..], &[9; 20]].concat()),
        (44, atomic.to_vec()),
        (60, [[60, 0, 1, 4, 0, 0, 0, 0].repeat(7), long.clone()].concat()),
    ] {
        let frame = with_extensions(first, &headers);
        let (packet, parsed) = read(&frame, Checks::ALL).expect("it is whole");
        assert_eq!((packet, payload_of(&parsed, &frame)), (Packet::Tcp, &b"anywire"[..]));
        assert_eq!(parsed.addresses(&frame), back(V6));
    }
}

#[test]
fn extension_headers_that_a_host_must_not_pass_over_are_refused() {
    let plain = [6, 0, 1, 4, 0, 0, 0, 0];
    let hop_by_hop_later = [[0, 0, 1, 4, 0, 0, 0, 0], plain].concat();
    for (first, headers, wanted) in [
        (0, vec![6, 0, 0xc2, 4, 0, 1, 0, 0], Refusal::Extension),
        (60, vec![6, 0, 1, 5, 0, 0, 0, 0], Refusal::Extension),
        (60, hop_by_hop_later, Refusal::Extension),
        (60, [60, 0, 1, 4, 0, 0, 0, 0].repeat(9), Refusal::Extension),
        (60, vec![6, 200, 1, 4, 0, 0, 0, 0], Refusal::Short),
        (43, vec![6, 0, 0, 1, 0, 0, 0, 0], Refusal::SourceRoute),
        (44, vec![6, 0, 0, 1, 0, 0, 0, 0], Refusal::Fragment),
        (44, vec![6, 0, 1, 0, 0, 0, 0, 0], Refusal::Fragment),
        (59, vec![], Refusal::Protocol),
        (17, vec![], Refusal::Protocol),
    ] {
        assert_eq!(
            packet(&with_extensions(first, &headers), Checks::ALL),
            Err(wanted),
            "{first}: {headers:?}"
        );
    }
}

#[test]
fn what_is_not_between_two_hosts_is_refused() {
    for (local, remote) in
        [(0, 1 << 24), (1 << 24, 0xffff_ffff), (0xe000_0001, 1 << 24), (1 << 24, 0x7f00_0001)]
    {
        assert_eq!(packet(&small(Addresses::V4 { local, remote }), Checks::ALL), Err(Refusal::Address));
    }
    for (local, remote) in [(0, 0xfd << 120), (0xfd << 120, 0xff02 << 112 | 1), (0xfd << 120, 1)] {
        assert_eq!(packet(&small(Addresses::V6 { local, remote }), Checks::ALL), Err(Refusal::Address));
    }
    for frame in [small(V4), small(V6), echo_request(V4, 1, b""), echo_request(V6, 1, b"")] {
        for end in [0, 6] {
            let mut of_all = frame.clone();
            of_all[end..end + 6].copy_from_slice(&Mac::BROADCAST.bytes());
            assert_eq!(packet(&of_all, Checks::ALL), Err(Refusal::Address));
        }
    }
}

#[test]
fn the_longest_frames_are_written_and_read_and_longer_ones_are_not() {
    let options = Owned {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: Some((1, 2)),
        sack: vec![],
    };
    for (addresses, headers) in [(V4, 66), (V6, 86)] {
        let mut case = Case {
            addresses,
            segment: Outgoing::default(),
            options: options.clone(),
            payload: vec![7; 65_535],
        };
        let mut out = vec![0; 70_000];
        assert_eq!(case.write(&mut out, Checks::ALL), 0);
        case.payload.truncate(65_535 - headers);
        assert_eq!(case.write(&mut out, Checks::ALL), 65_535);
        let (_, parsed) = read(&out, Checks::ALL).expect("it is whole");
        assert_eq!(payload_of(&parsed, &out), &case.payload);
    }
    let mut long = small(V4);
    long.resize(65_549, 0);
    long[16..18].copy_from_slice(&[0xff, 0xff]);
    seal(&mut long);
    assert_eq!(packet(&long, Checks::ALL), Err(Refusal::Long));
}

#[test]
fn what_is_not_for_us_is_named() {
    let mut frame = small(V4);
    frame[12..14].copy_from_slice(&0x0806_u16.to_be_bytes());
    assert_eq!(packet(&frame, Checks::ALL), Ok(Packet::Other));
    let solicitation = icmp_frame(V6, [135, 0, 0, 0, 0, 0, 0, 0], &[0; 16]);
    assert_eq!(packet(&solicitation, Checks::ALL), Ok(Packet::Icmp(Icmp::Other)));
    let about_udp = [&ip_header(V4, 17, 8)[..], &[0; 8]].concat();
    let error = icmp_frame(V4, [3, 3, 0, 0, 0, 0, 0, 0], &about_udp);
    assert_eq!(packet(&error, Checks::ALL), Ok(Packet::Icmp(Icmp::Other)));
}

#[test]
fn a_hop_that_tells_no_mtu_takes_the_next_lower_plateau() {
    let mut frame = small(V4);
    for (len, mtu) in [(1500u16, 1492), (1492, 1006), (65_535, 32_000), (60, 68)] {
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        let found = packet(&icmp_frame(V4, [3, 4, 0, 0, 0, 0, 0, 0], &frame[14..42]), Checks::ALL);
        let Ok(Packet::Icmp(Icmp::Error(error))) = found else { panic!("{found:?}") };
        assert_eq!(error.kind, ErrorKind::TooBig { mtu });
    }
}

fn back(addresses: Addresses) -> Addresses {
    match addresses {
        Addresses::V4 { local, remote } => Addresses::V4 { local: remote, remote: local },
        Addresses::V6 { local, remote } => Addresses::V6 { local: remote, remote: local },
    }
}

/// A frame with an ICMP message from local to remote.
fn icmp_frame(addresses: Addresses, head: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut message = [&head[..], body].concat();
    let len = message.len();
    let protocol = if addresses.is_v4() { ip::ICMP } else { ip::ICMP_V6 };
    let pseudo = if addresses.is_v4() { 0 } else { addresses.pseudo(protocol, len) };
    let checksum = checksum::header(pseudo, checksum::sum(&message, 0));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    [&LINK.header(addresses.ether_type())[..], &ip_header(addresses, protocol, len), &message].concat()
}

/// The IP header of `payload` bytes from local to remote.
fn ip_header(addresses: Addresses, protocol: u8, payload: usize) -> Vec<u8> {
    let mut header = vec![0xee; addresses.header_len()];
    assert_eq!(ip::write(&mut header, &addresses, protocol, 0, payload, None), Some(header.len()));
    header
}

/// The payload of a segment in its frame.
fn payload_of<'a>(segment: &Parsed, frame: &'a [u8]) -> &'a [u8] {
    &frame[segment.payload_at.into()..][..segment.payload_len.into()]
}

fn echo_request(addresses: Addresses, sequence: u32, data: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = sequence.to_be_bytes();
    let kind = if matches!(addresses, Addresses::V6 { .. }) { 128 } else { 8 };
    icmp_frame(addresses, [kind, 0, 0, 0, a, b, c, d], data)
}
