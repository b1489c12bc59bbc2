//! The backlogs of listening sockets, as the kernel tells them to `ss` (sock_diag(7)): `/proc/net/tcp` does not have them.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// How many connections may wait at each TCP socket that listens in the network namespace of this process, by inode. `None` if the
/// kernel does not say.
pub(super) fn backlogs() -> Option<BTreeMap<u64, u32>> {
    let mut backlogs = BTreeMap::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        dump(family, &mut backlogs)?;
    }
    Some(backlogs)
}

fn dump(family: u8, backlogs: &mut BTreeMap<u64, u32>) -> Option<()> {
    let (domain, kind) = (AddressFamily::NETLINK, SocketType::DGRAM);
    let socket = socket_with(domain, kind, SocketFlags::CLOEXEC, Some(netlink::SOCK_DIAG)).ok()?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIME)).ok()?;
    // Without an address it goes to the kernel (netlink(7)).
    send(&socket, &request(family), SendFlags::empty()).ok()?;
    let mut part = vec![0; PART_BYTES];
    for _ in 0..PARTS_MAX {
        let (_, length) = recv(&socket, &mut part[..], RecvFlags::empty()).ok()?;
        match take(part.get(..length)?, backlogs) {
            Part::More => {}
            Part::Last => return Some(()),
            Part::Refused => return None,
        }
    }
    None
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`, in the order of the machine.
fn request(family: u8) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    request[..4].copy_from_slice(&(REQUEST_BYTES as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16 | libc::NLM_F_DUMP as u16).to_ne_bytes());
    request[HEADER_BYTES] = family;
    request[HEADER_BYTES + 1] = libc::IPPROTO_TCP as u8;
    // The states that are wanted, a bit each.
    request[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
    request
}

/// What a part of the answer is.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    More,
    Last,
    Refused,
}

/// Takes the messages of one part.
fn take(mut bytes: &[u8], backlogs: &mut BTreeMap<u64, u32>) -> Part {
    while let Some(length) = number(bytes, 0).map(|length| length as usize) {
        let Some(message) = bytes.get(..length).filter(|_| length >= HEADER_BYTES) else {
            return Part::Refused;
        };
        match u16::from_ne_bytes([message[4], message[5]]) {
            DONE => return Part::Last,
            BY_FAMILY => {
                // `idiag_wqueue` of a socket that listens is its backlog.
                let backlog = number(message, HEADER_BYTES + WQUEUE);
                if let (Some(inode), Some(backlog)) = (number(message, HEADER_BYTES + INODE), backlog) {
                    backlogs.insert(inode.into(), backlog);
                }
            }
            _ => return Part::Refused,
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Part::More
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 56;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
const DONE: u16 = libc::NLMSG_DONE as u16;
/// `TCP_LISTEN`.
const LISTEN: u32 = 10;
/// Where these stand in `struct inet_diag_msg`.
const WQUEUE: usize = 60;
const INODE: usize = 68;
/// As much as the kernel sends at once.
const PART_BYTES: usize = 32 << 10;
/// More sockets than listen on any machine.
const PARTS_MAX: usize = 1000;
/// The kernel answers at once.
const ANSWER_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_backlog_is_what_the_socket_was_given() {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
        rustix::net::bind(&socket, &any).expect("a free port");
        rustix::net::listen(&socket, 7).expect("it may listen");
        let inode = rustix::fs::fstat(&socket).expect("it is open").st_ino;
        // In a container that forbids it there is nothing to compare.
        let Some(backlogs) = backlogs() else { return };
        assert_eq!(backlogs.get(&inode), Some(&7));
    }

    #[test]
    fn what_ends_a_dump_is_known() {
        let message = |kind: u16| [&16_u32.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        let mut none = BTreeMap::new();
        assert_eq!(take(&message(DONE), &mut none), Part::Last);
        assert_eq!(take(&message(libc::NLMSG_ERROR as u16), &mut none), Part::Refused);
        assert_eq!(take(&[], &mut none), Part::More);
        assert_eq!(take(&3_u32.to_ne_bytes(), &mut none), Part::Refused);
        assert!(none.is_empty());
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = take(&bytes, &mut BTreeMap::new());
        }
    }
}
