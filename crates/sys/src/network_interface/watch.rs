//! Hears from the kernel, over rtnetlink, what happens to an interface.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::NetworkInterface;

/// Tells when an interface goes up, goes down, goes away, or has another Ethernet address or MTU, and when the kernel is given an address of IP.
/// Its descriptor is readable when there may be something to tell.
#[derive(Debug)]
pub struct InterfaceWatch {
    socket: OwnedFd,
    index: u32,
    heard: Heard,
    /// What was told of the link, and the Ethernet address and the MTU that the caller knows.
    told: (Option<InterfaceChange>, Option<[u8; 6]>, u32),
    /// The kernel had more to tell than it may keep.
    has_missed: bool,
}

/// What has happened to an interface, or to the kernel that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceChange {
    /// It is set up and has a carrier.
    Up,
    /// It was set down, or has no carrier.
    Down,
    /// It was removed, or moved to another network namespace.
    Gone,
    /// It has another Ethernet address.
    Mac([u8; 6]),
    /// Its longest IP packet has so many bytes now.
    Mtu(u32),
    /// The kernel may use this address from now on, on whichever of its interfaces.
    KernelAddress(IpAddr),
}

/// What messages of rtnetlink have said.
#[derive(Debug, Default)]
struct Heard {
    link: Option<InterfaceChange>,
    mac: Option<[u8; 6]>,
    mtu: u32,
    addresses: VecDeque<IpAddr>,
}

impl InterfaceWatch {
    /// Watches an interface of this thread's network namespace.
    ///
    /// # Errors
    ///
    /// What `socket(2)` or `bind(2)` said: no descriptor is left, or the kernel has no rtnetlink.
    pub fn new(interface: &NetworkInterface) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol is number 0, which is rtnetlink.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR))?;
        let heard = Heard { mac: interface.mac, mtu: interface.mtu, ..Heard::default() };
        let told = (None, interface.mac, interface.mtu);
        Ok(Self { socket, index: interface.index, heard, told, has_missed: false })
    }

    /// The next change since the last call; to be asked until there is none. Of the link, its Ethernet address and its MTU the last state
    /// counts: what they went through in between is left out. If the kernel had more to tell than it may keep, it is asked for their state,
    /// and tells each address that it has once more.
    ///
    /// # Errors
    ///
    /// `ENOMEM` or `ENOBUFS` if the kernel could not be asked. The next call tries again.
    pub fn change(&mut self) -> io::Result<Option<InterfaceChange>> {
        let mut buffer = [0_u8; BUFFER_BYTES];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((filled, _)) => self.heard.take_in(&buffer[..filled], self.index),
                // What it has kept comes first: there is no room for answers before.
                Err(Errno::AGAIN) if self.has_missed => {
                    self.ask()?;
                    self.has_missed = false;
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::NOBUFS) => self.has_missed = true,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        let Self { heard, told, .. } = self;
        if told.0 != heard.link {
            told.0 = heard.link;
            return Ok(heard.link);
        }
        if told.1 != heard.mac {
            told.1 = heard.mac;
            return Ok(heard.mac.map(InterfaceChange::Mac));
        }
        if told.2 != heard.mtu {
            told.2 = heard.mtu;
            return Ok(Some(InterfaceChange::Mtu(heard.mtu)));
        }
        Ok(heard.addresses.pop_front().map(InterfaceChange::KernelAddress))
    }

    /// Asks for what the lost messages have said. The answers look as they do.
    fn ask(&self) -> io::Result<()> {
        // `struct ifinfomsg` and `struct ifaddrmsg`: of this interface, and all of any family.
        let mut link = [0; 16];
        link[4..8].copy_from_slice(&self.index.to_ne_bytes());
        let requests = [
            (libc::RTM_GETLINK, libc::NLM_F_REQUEST, &link[..]),
            (libc::RTM_GETADDR, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, &[0; 8]),
        ];
        for (kind, flags, content) in requests {
            let mut request = Vec::from((MESSAGE.header_bytes as u32 + content.len() as u32).to_ne_bytes());
            request.extend_from_slice(&kind.to_ne_bytes());
            request.extend_from_slice(&(flags as u16).to_ne_bytes());
            request.extend_from_slice(&[0; 8]);
            request.extend_from_slice(content);
            send(&self.socket, &request, SendFlags::empty())?;
        }
        Ok(())
    }
}

impl AsFd for InterfaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Heard {
    /// Takes in messages. Those that make no sense end the search.
    fn take_in(&mut self, messages: &[u8], index: u32) {
        for (kind, message) in parts(messages, MESSAGE) {
            match kind {
                libc::RTM_NEWLINK | libc::RTM_DELLINK => self.take_in_link(kind, message, index),
                // The answer to a question for an interface that is no more.
                NLMSG_ERROR if message.starts_with(&(-libc::ENODEV).to_ne_bytes()) => {
                    self.link = Some(InterfaceChange::Gone);
                }
                libc::RTM_NEWADDR => self.addresses.extend(address_in(message)),
                _ => {}
            }
        }
    }

    fn take_in_link(&mut self, kind: u16, message: &[u8], index: u32) {
        // `struct ifinfomsg`: four bytes, the index, the flags, and what has changed.
        let Some((&[_, _, _, _, a, b, c, d, e, f, g, h, _, _, _, _], attributes)) =
            message.split_first_chunk()
        else {
            return;
        };
        if u32::from_ne_bytes([a, b, c, d]) != index {
            return;
        }
        let is_running = u32::from_ne_bytes([e, f, g, h]) & UP_AND_RUNNING == UP_AND_RUNNING;
        self.link = Some(match kind {
            libc::RTM_DELLINK => InterfaceChange::Gone,
            _ if is_running => InterfaceChange::Up,
            _ => InterfaceChange::Down,
        });
        for (kind, bytes) in parts(attributes, ATTRIBUTE) {
            match kind {
                libc::IFLA_ADDRESS => self.mac = bytes.try_into().ok().or(self.mac),
                libc::IFLA_MTU => self.mtu = bytes.try_into().map_or(self.mtu, u32::from_ne_bytes),
                _ => {}
            }
        }
    }
}

/// The address that a message says the kernel was given. None while duplicate address detection runs (RFC 4862 section 5.4), and if it has
/// failed.
fn address_in(message: &[u8]) -> Option<IpAddr> {
    // `struct ifaddrmsg`: the family, the prefix, flags, the scope, and the index of the interface.
    let (&[_, _, flags, _, _, _, _, _], attributes) = message.split_first_chunk()?;
    if u32::from(flags) & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) != 0 {
        return None;
    }
    let of = |wanted| parts(attributes, ATTRIBUTE).find(|(kind, _)| *kind == wanted);
    // With a peer on a point-to-point link, the other attribute is the address of the peer.
    let (_, bytes) = of(libc::IFA_LOCAL).or_else(|| of(libc::IFA_ADDRESS))?;
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// Messages (`struct nlmsghdr`) or attributes (`struct rtattr`) behind each other: the kind and the content of each.
fn parts(mut bytes: &[u8], layout: Layout) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let Layout { length_bytes, header_bytes } = layout;
        let length = match *bytes.get(..length_bytes)? {
            [a, b] => usize::from(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]) as usize,
            _ => return None,
        };
        let part = bytes.get(..length).filter(|part| part.len() >= header_bytes)?;
        let kind = u16::from_ne_bytes([part[length_bytes], part[length_bytes + 1]]);
        // Each is aligned to four bytes.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, &part[header_bytes..]))
    })
}

/// How long the length of a part is, which stands at its begin, and all that stands in front of its content.
#[derive(Clone, Copy)]
struct Layout {
    length_bytes: usize,
    header_bytes: usize,
}

/// The length, the kind, and ten bytes more.
const MESSAGE: Layout = Layout { length_bytes: 4, header_bytes: 16 };
/// The length and the kind.
const ATTRIBUTE: Layout = Layout { length_bytes: 2, header_bytes: 4 };

const NLMSG_ERROR: u16 = libc::NLMSG_ERROR as u16;
const RTMGRP_LINK: u32 = 1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
const UP_AND_RUNNING: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
/// As much as the kernel puts into one message at most (`NLMSG_GOODSIZE`).
const BUFFER_BYTES: usize = 8192;

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;

    use super::*;

    fn message(kind: u16, index: u32, flags: u32) -> Vec<u8> {
        let mut message = Vec::from(32_u32.to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&[0; 14]);
        for number in [index, flags, u32::MAX] {
            message.extend_from_slice(&number.to_ne_bytes());
        }
        message
    }

    /// A message with its header.
    fn whole(kind: u16, content: &[u8]) -> Vec<u8> {
        let mut message = Vec::from((16 + content.len() as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&[0; 10]);
        message.extend_from_slice(content);
        message
    }

    fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let length = 4 + content.len();
        let mut attribute = Vec::from((length as u16).to_ne_bytes());
        attribute.extend_from_slice(&kind.to_ne_bytes());
        attribute.extend_from_slice(content);
        attribute.resize(length.next_multiple_of(4), 0);
        attribute
    }

    #[test]
    fn another_ethernet_address_is_heard() {
        let mut heard = Heard { mac: Some([2, 0, 0, 0, 0, 1]), ..Heard::default() };
        let mut content = message(libc::RTM_NEWLINK, 7, UP_AND_RUNNING)[16..].to_vec();
        content.extend(attribute(libc::IFLA_IFNAME, b"eth0\0"));
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 7);
        assert_eq!(heard.mac, Some([2, 0, 0, 0, 0, 1]), "it is as it was");
        content.extend(attribute(libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 9]));
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 8);
        assert_eq!(heard.mac, Some([2, 0, 0, 0, 0, 1]), "that of another interface");
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 7);
        assert_eq!(heard.mac, Some([2, 0, 0, 0, 0, 9]));
    }

    #[test]
    fn another_mtu_is_heard() {
        let mut heard = Heard { mtu: 1500, ..Heard::default() };
        let mut content = message(libc::RTM_NEWLINK, 7, UP_AND_RUNNING)[16..].to_vec();
        content.extend(attribute(libc::IFLA_MTU, &[1, 2]));
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 7);
        assert_eq!(heard.mtu, 1500, "it is as it was");
        content.extend(attribute(libc::IFLA_MTU, &1000_u32.to_ne_bytes()));
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 8);
        assert_eq!(heard.mtu, 1500, "that of another interface");
        heard.take_in(&whole(libc::RTM_NEWLINK, &content), 7);
        assert_eq!(heard.mtu, 1000);
    }

    #[test]
    fn addresses_of_the_kernel_are_heard_once_it_uses_them() {
        let mut heard = Heard::default();
        let content = |flags: u32, attributes: &[(u16, &[u8])]| {
            let mut content = vec![2, 24, flags as u8, 0, 9, 0, 0, 0];
            attributes.iter().for_each(|(kind, bytes)| content.extend(attribute(*kind, bytes)));
            content
        };
        let (v4, v6) = ([10, 0, 0, 2], Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
        for (flags, attributes) in [
            // The other end of a tunnel is no address of the kernel.
            (0, &[(libc::IFA_ADDRESS, &[10, 0, 0, 1][..]), (libc::IFA_LOCAL, &v4[..])][..]),
            (libc::IFA_F_TENTATIVE, &[(libc::IFA_ADDRESS, &v6[..])]),
            (libc::IFA_F_DADFAILED, &[(libc::IFA_ADDRESS, &v6[..])]),
            (0, &[(libc::IFA_ADDRESS, &v6[..])]),
            (0, &[(libc::IFA_ADDRESS, &[1, 2, 3][..])]),
            (0, &[]),
        ] {
            heard.take_in(&whole(libc::RTM_NEWADDR, &content(flags, attributes)), 7);
        }
        assert_eq!(heard.addresses, [IpAddr::from(v4), IpAddr::from(v6)]);
    }

    #[test]
    fn the_last_state_of_the_interface_counts() {
        let (up, down) = (UP_AND_RUNNING, libc::IFF_UP as u32);
        let messages = |each: &[(u16, u32, u32)]| -> Vec<u8> {
            each.iter().flat_map(|&(kind, index, flags)| message(kind, index, flags)).collect()
        };
        let new = libc::RTM_NEWLINK;
        let last = |each: &[_]| {
            let mut heard = Heard::default();
            heard.take_in(&messages(each), 7);
            heard.link
        };
        assert_eq!(last(&[(new, 7, down), (new, 7, up)]), Some(InterfaceChange::Up));
        assert_eq!(last(&[(new, 7, up), (new, 7, down), (new, 8, up)]), Some(InterfaceChange::Down));
        assert_eq!(last(&[(new, 7, up), (libc::RTM_DELLINK, 7, up)]), Some(InterfaceChange::Gone));
        assert_eq!(last(&[(libc::RTM_DELLINK, 8, up), (99, 7, up)]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Heard::default().take_in(&bytes, 7);
        }

        #[test]
        fn any_attributes_are_read_to_an_end(kind in 16_u16..22, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Heard::default().take_in(&whole(kind, &bytes), 7);
        }
    }

    #[test]
    fn a_message_of_no_length_ends_the_search() {
        let mut heard = Heard::default();
        heard.take_in(&[0; 64], 0);
        assert_eq!(heard.link, None);
    }
}
