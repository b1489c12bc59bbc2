//! Hears from the kernel, over rtnetlink, what happens to an interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Tells when an interface goes up, goes down or goes away. Its descriptor is readable when there may be something to tell.
#[derive(Debug)]
pub struct InterfaceWatch {
    socket: OwnedFd,
    index: u32,
    last: Option<InterfaceChange>,
}

/// What has happened to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterfaceChange {
    /// It is set up and has a carrier.
    Up,
    /// It was set down, or has no carrier.
    Down,
    /// It was removed, or moved to another network namespace.
    Gone,
}

impl InterfaceWatch {
    /// Watches an interface of this thread's network namespace, by its index.
    ///
    /// # Errors
    ///
    /// What `socket(2)` or `bind(2)` said: no descriptor is left, or the kernel has no rtnetlink.
    pub fn new(index: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // No protocol is number 0, which is rtnetlink.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, RTMGRP_LINK))?;
        Ok(Self { socket, index, last: None })
    }

    /// The state that the interface has changed to since the last call, if it has. What it went through in between is left out.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if the kernel had more to tell than it may keep: ask for the state anew. No other cause is known.
    pub fn change(&mut self) -> io::Result<Option<InterfaceChange>> {
        let mut buffer = [0_u8; BUFFER_BYTES];
        let before = self.last;
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((filled, _)) => self.last = last_change(&buffer[..filled], self.index).or(self.last),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(self.last.filter(|_| self.last != before))
    }
}

impl AsFd for InterfaceWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The last state of an interface that messages of rtnetlink tell. Messages that make no sense end the search.
fn last_change(mut messages: &[u8], index: u32) -> Option<InterfaceChange> {
    let mut last = None;
    // `struct nlmsghdr`: the length with the header, the kind, and ten bytes more.
    while let Some(&length) = messages.first_chunk() {
        let length = u32::from_ne_bytes(length) as usize;
        let Some(message) = messages.get(..length).filter(|message| message.len() >= HEADER_BYTES) else {
            break;
        };
        let kind = u16::from_ne_bytes([message[4], message[5]]);
        // `struct ifinfomsg`: four bytes, the index, the flags, and what has changed.
        if let Some(&[_, _, _, _, a, b, c, d, e, f, g, h, ..]) = message.get(HEADER_BYTES..)
            && u32::from_ne_bytes([a, b, c, d]) == index
        {
            let flags = u32::from_ne_bytes([e, f, g, h]);
            match kind {
                libc::RTM_DELLINK => last = Some(InterfaceChange::Gone),
                libc::RTM_NEWLINK if flags & UP_AND_RUNNING == UP_AND_RUNNING => {
                    last = Some(InterfaceChange::Up)
                }
                libc::RTM_NEWLINK => last = Some(InterfaceChange::Down),
                _ => {}
            }
        }
        // Messages are aligned to four bytes.
        messages = messages.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    last
}

const RTMGRP_LINK: u32 = 1;
const UP_AND_RUNNING: u32 = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
const HEADER_BYTES: usize = 16;
/// As much as the kernel puts into one message at most (`NLMSG_GOODSIZE`).
const BUFFER_BYTES: usize = 8192;

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_last_state_of_the_interface_counts() {
        let (up, down) = (UP_AND_RUNNING, libc::IFF_UP as u32);
        let messages = |each: &[(u16, u32, u32)]| -> Vec<u8> {
            each.iter().flat_map(|&(kind, index, flags)| message(kind, index, flags)).collect()
        };
        let new = libc::RTM_NEWLINK;
        let last = |each: &[_]| last_change(&messages(each), 7);
        assert_eq!(last(&[(new, 7, down), (new, 7, up)]), Some(InterfaceChange::Up));
        assert_eq!(last(&[(new, 7, up), (new, 7, down), (new, 8, up)]), Some(InterfaceChange::Down));
        assert_eq!(last(&[(new, 7, up), (libc::RTM_DELLINK, 7, up)]), Some(InterfaceChange::Gone));
        assert_eq!(last(&[(libc::RTM_DELLINK, 8, up), (99, 7, up)]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            last_change(&bytes, 7);
        }
    }

    #[test]
    fn a_message_of_no_length_ends_the_search() {
        assert_eq!(last_change(&[0; 64], 0), None);
    }
}
