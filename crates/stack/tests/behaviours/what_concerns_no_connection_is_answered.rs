//! Echo requests, datagrams and segments that belong to no connection are answered once for each address of ours, by whatever queue they
//! come, though another loop has the address.

use anywire_packet::{Checks, Flags, Packet, Parsed, general};

use crate::hosts::run;
use crate::queues::{Loops, OURS, Queue, THEIRS, a_while, syn};

const PEER: [u8; 4] = [10, 0, 0, 1];

/// The packet of this protocol for an address of ours.
fn packet(to: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header.extend(PEER);
    header.extend(to);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&OURS.bytes()[..], &THEIRS.bytes(), &[8, 0], &header, payload].concat()
}

fn checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// A datagram without a checksum, for a port that nobody has.
fn datagram(to: [u8; 4]) -> Vec<u8> {
    packet(to, 17, &[0x30, 0x39, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4])
}

fn echo_request(to: [u8; 4]) -> Vec<u8> {
    let mut message = [8, 0, 0, 0, 0, 1, 0, 1];
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    packet(to, 1, &message)
}

/// To a port that nobody listens at.
fn to_closed_port(to: [u8; 4]) -> Vec<u8> {
    syn(12_345, to, 81)
}

/// From which address the peer got an answer, each time it did.
fn answered(queue: &Queue) -> Vec<[u8; 4]> {
    let mut answers = Vec::new();
    for frame in queue.sent() {
        let from: [u8; 4] = frame[26..30].try_into().expect("four bytes");
        match general(&frame, Checks::ALL, &mut Parsed::default()) {
            Ok(Packet::Icmp(_)) => answers.push(from),
            Ok(_) if frame[23] == 6 => {
                assert!(Flags(frame[47]).has(Flags::RST), "the port is closed");
                answers.push(from);
            }
            _ => {}
        }
    }
    answers
}

#[test]
fn by_a_loop_that_has_the_address() {
    run(async || {
        let loops = Loops::new(2);
        let [both, first, second] = [[10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 0, 4]];
        loops.join(both, &[0, 1]).await;
        loops.join(first, &[0]).await;
        loops.join(second, &[1]).await;
        // Both loops know the way to the peer.
        for (queue, address) in loops.queues.iter().zip([first, second]) {
            queue.asks(address);
        }
        loops.settle().await;
        for (what, frame) in [
            ("an echo request", echo_request as fn(_) -> _),
            ("a datagram", datagram),
            ("a SYN", to_closed_port),
        ] {
            for queue in &loops.queues {
                [both, first, second, [10, 0, 0, 9]]
                    .into_iter()
                    .for_each(|address| queue.brings(frame(address)));
                a_while().await;
                let mut all: Vec<_> = loops.queues.iter().flat_map(answered).collect();
                all.sort_unstable();
                assert_eq!(all, [both, first, second], "one answer to {what} for each address of ours");
            }
        }
    });
}

/// The other loop is stuck, which has the address as well.
#[test]
fn by_the_loop_that_receives_it_if_that_can() {
    run(async || {
        let loops = Loops::new(2);
        let both = [10, 0, 0, 2];
        loops.join(both, &[0, 1]).await;
        loops.queues.iter().for_each(|queue| queue.asks(both));
        loops.settle().await;
        for (stuck, other) in [(0, 1), (1, 0)] {
            loops.brakes[stuck].set(true);
            for frame in [echo_request(both), datagram(both), to_closed_port(both)] {
                loops.queues[other].brings(frame);
            }
            a_while().await;
            assert_eq!(answered(&loops.queues[other]), [both; 3], "loop {stuck} is stuck");
            loops.brakes[stuck].set(false);
            a_while().await;
            assert_eq!(answered(&loops.queues[stuck]), [[0; 4]; 0], "they were answered");
        }
    });
}
