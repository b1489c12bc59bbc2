//! Sockets that listen: how many connections wait to be accepted, and how many were turned away because a queue was full.

mod diag;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A TCP socket that listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListeningSocket {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its inode, by which `ss` and `/proc/PID/fd` name it.
    pub inode: u64,
    /// Connections that are made and not accepted yet.
    pub accept_queue: u32,
    /// How many may wait: the backlog of `listen(2)`, within `net.core.somaxconn`. `None` if it was not asked for, or the socket is in another
    /// network namespace than this process.
    pub backlog: Option<u32>,
    /// Whether the process that was asked for holds it. `None` if its descriptors cannot be read.
    pub is_own: Option<bool>,
}

/// Connections that the system has turned away, in the whole network namespace since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenDrops {
    /// Because the accept queue of a listening socket was full (`ListenOverflows`).
    pub overflows: u64,
    /// For that or any other reason (`ListenDrops`).
    pub drops: u64,
}

/// The sockets that listen on a port in the network namespace of a process, those of other processes as well. `holders` are the
/// processes whose own sockets are to be known.
///
/// `None` if the system does not show them.
pub fn on_port(pid: i32, port: u16, holders: &BTreeSet<i32>) -> Option<Vec<ListeningSocket>> {
    let (own, backlogs) = (inodes_of(holders), diag::backlogs().unwrap_or_default());
    let sockets = queues_on_port(pid, port)?.into_iter().map(|socket| ListeningSocket {
        backlog: backlogs.get(&socket.inode).copied(),
        is_own: own.as_ref().map(|own| own.contains(&socket.inode)),
        ..socket
    });
    Some(sockets.collect())
}

/// The same, without looking whose they are: quick enough to be asked again and again.
///
/// `None` if the system does not show them.
pub fn queues_on_port(pid: i32, port: u16) -> Option<Vec<ListeningSocket>> {
    let table = |name: &str| fs::File::open(format!("/proc/{pid}/net/{name}")).ok().map(BufReader::new);
    let mut sockets = listening_in(table("tcp")?);
    // Without IPv6 there is no second table.
    sockets.extend(table("tcp6").map(listening_in).unwrap_or_default());
    sockets.retain(|socket| socket.address.port() == port);
    Some(sockets)
}

/// The sockets of a table that listen. The kernel writes them first, and a table of a million connections is not read to its end for them.
fn listening_in(table: impl BufRead) -> Vec<ListeningSocket> {
    let rows = table.lines().map_while(Result::ok).take_while(|row| state_in(row) != Some(ESTABLISHED));
    rows.filter_map(|row| socket_in(&row)).collect()
}

fn state_in(row: &str) -> Option<&str> {
    row.split_ascii_whitespace().nth(3)
}

/// What was turned away in the network namespace of a process. `None` if the system does not show it.
pub fn drops_around(pid: i32) -> Option<ListenDrops> {
    drops_in(&fs::read_to_string(format!("/proc/{pid}/net/netstat")).ok()?)
}

/// The inodes of the sockets of these processes. `None` if none of them lets us look.
fn inodes_of(pids: &BTreeSet<i32>) -> Option<BTreeSet<u64>> {
    let readable = pids.iter().filter_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).ok());
    let mut inodes = None;
    for entries in readable {
        let inodes = inodes.get_or_insert_with(BTreeSet::new);
        for entry in entries.flatten() {
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let inode = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
            inodes.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
        }
    }
    inodes
}

/// A row of `/proc/net/tcp` or `tcp6` whose state is LISTEN. Its `rx_queue` is the accept queue.
fn socket_in(row: &str) -> Option<ListeningSocket> {
    let fields: Vec<_> = row.split_ascii_whitespace().collect();
    let &[_, local, _, LISTEN, queues, _, _, _, _, inode, ..] = &fields[..] else { return None };
    let (host, port) = local.split_once(':')?;
    let address = SocketAddr::new(ip_in(host)?, u16::from_str_radix(port, 16).ok()?);
    let (_, accept_queue) = queues.split_once(':')?;
    let accept_queue = u32::from_str_radix(accept_queue, 16).ok()?;
    Some(ListeningSocket { address, inode: inode.parse().ok()?, accept_queue, backlog: None, is_own: None })
}

/// Words of four bytes in the order of the machine, each in hexadecimal.
fn ip_in(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets: [u8; 16] = words.as_flattened().try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}

/// `TcpExt:` and names in one line, `TcpExt:` and their values in the next.
fn drops_in(netstat: &str) -> Option<ListenDrops> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |wanted: &str| {
        let mut pairs = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        pairs.find(|(name, _)| *name == wanted)?.1.parse().ok()
    };
    Some(ListenDrops { overflows: of("ListenOverflows")?, drops: of("ListenDrops")? })
}

/// States in `/proc/net/tcp`.
const LISTEN: &str = "0A";
const ESTABLISHED: &str = "01";

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_listener_shows_who_waits_to_be_accepted() {
        let pid = std::process::id() as i32;
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let address = listener.local_addr().expect("it is bound");
            let waiting: Vec<_> = (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
            let sockets = on_port(pid, address.port(), &BTreeSet::from([pid])).expect("our own namespace");
            let found = sockets.iter().find(|socket| socket.address == address).expect("it listens");
            assert_eq!((found.accept_queue, found.is_own), (waiting.len() as u32, Some(true)), "{found:?}");
        }
        assert!(drops_around(pid).is_some());
    }

    #[test]
    fn odd_tables_are_unknown() {
        assert_eq!(
            drops_in("TcpExt: A ListenOverflows ListenDrops\nTcpExt: 1 2 3\nIpExt: 9\n"),
            Some(ListenDrops { overflows: 2, drops: 3 })
        );
        for odd in ["", "TcpExt: ListenOverflows\n", "TcpExt: ListenOverflows ListenDrops\nTcpExt: 1\n"] {
            assert_eq!(drops_in(odd), None, "{odd}");
        }
        for odd in [
            "",
            "0: 0100007F:1F90 00000000:0000 01 0:0 0 0 0 0 0",
            "0: 01:1 0:0 0A 0:0 0 0 0 0 0 5",
            "0: ZZ00007F:1F90 0:0 0A 0:0 0 0 0 0 5",
        ] {
            assert_eq!(socket_in(odd), None, "{odd}");
        }
        // The same size as four words in hexadecimal, and no digits.
        assert_eq!(ip_in(&"é".repeat(16)), None);
    }
    /// A row as the kernel writes it.
    fn row(local: SocketAddr, state: &str, waiting: u32, inode: u64) -> String {
        let host = match local.ip() {
            IpAddr::V4(ip) => format!("{:08X}", u32::from_ne_bytes(ip.octets())),
            IpAddr::V6(ip) => {
                let octets = ip.octets();
                let word =
                    |at: usize| u32::from_ne_bytes(octets[4 * at..4 * at + 4].try_into().expect("four"));
                (0..4).map(|at| format!("{:08X}", word(at))).collect()
            }
        };
        format!(
            "   7: {host}:{:04X} 00000000:0000 {state} 00000000:{waiting:08X} 00:00000000 00000000  1000  0 {inode} 1 0",
            local.port()
        )
    }

    #[test]
    fn a_table_is_read_as_far_as_sockets_listen() {
        let of = |port, state| row(([127, 0, 0, 1], port).into(), state, 1, port.into());
        let table = [
            "  sl  local_address rem_address   st",
            &of(1, LISTEN),
            &of(2, LISTEN),
            &of(3, ESTABLISHED),
            &of(4, LISTEN),
        ];
        let ports: Vec<_> =
            listening_in(table.join("\n").as_bytes()).iter().map(|socket| socket.address.port()).collect();
        assert_eq!(ports, [1, 2]);
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read(
            ip: IpAddr, port: u16, waiting: u32, inode: u64, state in "0[1-9AB]",
        ) {
            let address = SocketAddr::new(ip, port);
            let read = socket_in(&row(address, &state, waiting, inode));
            let expected = ListeningSocket { address, inode, accept_queue: waiting, backlog: None, is_own: None };
            prop_assert_eq!(read, (state == LISTEN).then_some(expected));
        }

        #[test]
        fn any_text_is_read_or_left_out(
            text in "\\PC*|[0-9A-F]{1,9}:[0-9A-F]{1,5}",
            fields in prop::collection::vec("[0-9A-FG:é]{1,40}", 0..14),
            at in 0..14_usize,
        ) {
            let mut row: Vec<_> = row(([127, 0, 0, 1], 80).into(), LISTEN, 3, 9)
                .split_ascii_whitespace()
                .map(str::to_owned)
                .collect();
            // One field is another one, and then all of them are.
            if let (Some(field), Some(other)) = (row.get_mut(at), fields.first()) {
                other.clone_into(field);
            }
            let _ = (socket_in(&row.join(" ")), socket_in(&fields.join(" ")), socket_in(&text), ip_in(&text));
            let _ = (drops_in(&text), drops_in(&format!("TcpExt: {text}\nTcpExt: {}", fields.join(" "))));
        }
    }
}
