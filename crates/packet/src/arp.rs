//! ARP for IPv4 over Ethernet (RFC 826): who has this address, and who says so.

use std::net::Ipv4Addr;

use crate::ethernet::{EtherType, FRAME_MIN, HEADER, Link, Mac};
use crate::fields::two;

/// A message of ARP.
///
/// ```
/// use anywire_packet::Mac;
/// use anywire_packet::arp::{Arp, Operation};
///
/// let ours = Mac::new([2, 0, 0, 0, 0, 1]);
/// let frame = Arp::request(ours, [10, 0, 0, 1].into(), [10, 0, 0, 2].into()).frame(Mac::BROADCAST, ours);
/// let read = Arp::parse(&frame[14..]).expect("a whole message");
/// assert_eq!((read.operation, read.target), (Operation::Request, [10, 0, 0, 2].into()));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arp {
    /// What it is.
    pub operation: Operation,
    /// The interface of the sender.
    pub sender_mac: Mac,
    /// The address of the sender. Unspecified in a probe (RFC 5227 2.1.1).
    pub sender: Ipv4Addr,
    /// Of a request, all zeros.
    pub target_mac: Mac,
    /// The address that is asked for, or that of the receiver.
    pub target: Ipv4Addr,
}

/// The kinds of messages that hosts use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Who has the target's address?
    Request,
    /// The sender has its address.
    Reply,
}

impl Arp {
    /// Asks for an address. With the sender's own address as the target it is an announcement, and with an unspecified sender a
    /// probe (RFC 5227 1.1).
    pub const fn request(sender_mac: Mac, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        let target_mac = Mac::new([0; 6]);
        Self { operation: Operation::Request, sender_mac, sender, target_mac, target }
    }

    /// The answer to a request, from the interface that has the target's address.
    #[must_use]
    pub const fn reply(&self, mac: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender_mac: mac,
            sender: self.target,
            target_mac: self.sender_mac,
            target: self.sender,
        }
    }

    /// The message in the payload of a frame. None if it is of other kinds of networks, another operation, or cut off.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let head = packet.first_chunk::<LEN>()?;
        let mac = |at: usize| head[at..].first_chunk().map(|bytes| Mac::new(*bytes));
        let address = |at: usize| head[at..].first_chunk::<4>().map(|bytes| Ipv4Addr::from_octets(*bytes));
        if head[..6] != KIND {
            return None;
        }
        let operation = match two(head, 6) {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return None,
        };
        Some(Self {
            operation,
            sender_mac: mac(8)?,
            sender: address(14)?,
            target_mac: mac(18)?,
            target: address(24)?,
        })
    }

    /// A frame with the message, padded.
    pub fn frame(&self, destination: Mac, source: Mac) -> [u8; FRAME_MIN] {
        let mut frame = [0; FRAME_MIN];
        Link::new(destination, source).write(EtherType::ARP, &mut frame);
        let operation = match self.operation {
            Operation::Request => 1,
            Operation::Reply => 2,
        };
        let body = &mut frame[HEADER..];
        body[..6].copy_from_slice(&KIND);
        body[7] = operation;
        body[8..14].copy_from_slice(&self.sender_mac.bytes());
        body[14..18].copy_from_slice(&self.sender.octets());
        body[18..24].copy_from_slice(&self.target_mac.bytes());
        body[24..28].copy_from_slice(&self.target.octets());
        frame
    }
}

/// Ethernet and IPv4, and how long their addresses are.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

/// Bytes of a message.
const LEN: usize = 28;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message() -> impl Strategy<Value = Arp> {
        any::<(bool, [u8; 6], [u8; 4], [u8; 6], [u8; 4])>().prop_map(
            |(asks, sender_mac, sender, target_mac, target)| Arp {
                operation: if asks { Operation::Request } else { Operation::Reply },
                sender_mac: Mac::new(sender_mac),
                sender: sender.into(),
                target_mac: Mac::new(target_mac),
                target: target.into(),
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(message in message(), cut in 0usize..LEN) {
            let frame = message.frame(Mac::BROADCAST, message.sender_mac);
            prop_assert_eq!(&frame[..6], &[0xff; 6]);
            prop_assert_eq!(Arp::parse(&frame[HEADER..]), Some(message));
            prop_assert_eq!(Arp::parse(&frame[HEADER..][..cut]), None);
            prop_assert!(frame[HEADER + LEN..].iter().all(|byte| *byte == 0), "padding tells nothing");
        }

        #[test]
        fn any_bytes_are_parsed(bytes: Vec<u8>, is_of_this_kind: bool) {
            let mut bytes = bytes;
            if is_of_this_kind && bytes.len() >= 8 {
                bytes[..6].copy_from_slice(&KIND);
            }
            let _ = Arp::parse(&bytes);
        }
    }

    #[test]
    fn other_networks_and_operations_are_not_ours() {
        let frame = Arp::request(Mac::default(), [1, 2, 3, 4].into(), [5, 6, 7, 8].into())
            .frame(Mac::BROADCAST, Mac::default());
        for (at, value) in [(1, 6), (2, 0x86), (4, 8), (5, 16), (7, 3), (6, 1)] {
            let mut message = frame[HEADER..].to_vec();
            message[at] = value;
            assert_eq!(Arp::parse(&message), None, "byte {at}");
        }
    }
}
