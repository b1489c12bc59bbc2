//! Where datagrams were lost: the counters of this machine, before and after.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use anywire_wire::udp::DatagramAddress;
use serde::{Deserialize, Serialize};

/// Losses by the layer that counted them. Each is the difference of a counter between the start and the end of the run, and at most
/// what the layers before it left of the lost ones: together with the unexplained they are all. A layer that could not be read is
/// `null`, and named in `unread`; what it lost is then among the unexplained.
///
/// The counters of namespace, devices and queues are everybody's: other traffic of the machine counts, too. So the unexplained
/// ones can be fewer than they were, and never more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossByLayer {
    /// Dropped at the sockets of both ends, mostly because a receive buffer was full (`drops` of `/proc/net/udp`, SO_MEMINFO).
    pub socket: Option<u64>,
    /// Dropped at the sockets of this end alone.
    pub socket_here: u64,
    /// Dropped at the sockets of the target; `null` if they are not on this machine and in this namespace.
    pub socket_there: Option<u64>,
    /// Errors of the namespace's UDP beyond those of the sockets: checksums, memory (`InErrors` of `/proc/net/snmp`, `snmp6`).
    pub namespace: Option<u64>,
    /// Dropped by network devices, and by the queues of the cores between them and the protocols (`/proc/net/dev`, which counts
    /// both).
    pub device: Option<u64>,
    /// Dropped by the queue of a device before it sent them (`SndbufErrors` of `/proc/net/snmp`, `snmp6`). Sends that found no room
    /// in a send buffer count there as well: those of this end, which sends again, are left out; those of a service are not.
    #[serde(default)]
    pub send_queue: Option<u64>,
    /// Lost datagrams that none of these counters explains.
    pub unexplained: u64,
    /// The layers that could not be read, and why.
    pub unread: Vec<String>,
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// What each socket at the target's address has dropped, by its inode.
    there: Option<BTreeMap<u64, u64>>,
    in_errors: Option<u64>,
    device: Option<u64>,
    send_queue: Option<u64>,
}

impl Counters {
    /// Reads them for a target.
    pub(crate) fn read(target: &DatagramAddress) -> Self {
        let Some(port) = target.port() else {
            // Unix datagrams pass none of these layers.
            return Self::default();
        };
        let text = |path: &str| fs::read_to_string(path).ok();
        // Else a service of this machine that has the same port, on all addresses, would be taken for the target.
        let is_elsewhere = target.ip().is_some_and(|ip| UdpSocket::bind((ip, 0)).is_err());
        let mut rows = BTreeMap::new();
        if !is_elsewhere {
            // The kernel gives a table in parts, and leaves rows out if other sockets come or go meanwhile.
            for table in ["/proc/net/udp", "/proc/net/udp6"].repeat(TABLE_READS).into_iter().filter_map(text)
            {
                rows.extend(drops_of(&table, target.ip(), port));
            }
        }
        // Without IPv6 there is no second file.
        let (v4, v6) = (text("/proc/net/snmp"), text("/proc/net/snmp6").unwrap_or_default());
        let both = |name| Some(of_udp_v4(v4.as_deref()?, name)? + of_udp_v6(&v6, name).unwrap_or(0));
        Self {
            there: (!rows.is_empty()).then_some(rows),
            in_errors: both("InErrors"),
            // A datagram that finds the queue of a core full counts as one that its device dropped.
            device: text("/proc/net/dev").and_then(|devices| device_drops(&devices)),
            send_queue: both("SndbufErrors"),
        }
    }

    /// What was counted since an earlier moment, whether it was lost or not ([`LossByLayer::of`]). `here` is what the sockets of
    /// this end dropped, and `no_room` how often one of its sends was made again.
    pub(crate) fn since(
        &self,
        before: &Self,
        here: u64,
        no_room: u64,
        target: &DatagramAddress,
    ) -> LossByLayer {
        let difference = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let there = self.there.as_ref().zip(before.there.as_ref()).map(|(now, then)| {
            let dropped = |(inode, drops): (&u64, &u64)| {
                drops.saturating_sub(then.get(inode).copied().unwrap_or_default())
            };
            now.iter().map(dropped).sum()
        });
        let errors = difference(self.in_errors, before.in_errors);
        // A socket that drops counts an error of the namespace, too.
        let namespace = errors.map(|errors| errors.saturating_sub(here + there.unwrap_or(0)));
        let device = difference(self.device, before.device);
        let send_queue = difference(self.send_queue, before.send_queue);
        let send_queue = send_queue.map(|errors| errors.saturating_sub(no_room));
        let mut unread = Vec::new();
        if there.is_none() {
            unread.push(format!("socket: that of {target} is not on this machine, or in another namespace"));
        }
        if namespace.is_none() {
            unread.push("namespace: /proc/net/snmp does not tell".to_owned());
        }
        if device.is_none() {
            unread.push("device: /proc/net/dev does not tell".to_owned());
        }
        if send_queue.is_none() {
            unread.push("send_queue: /proc/net/snmp does not tell".to_owned());
        }
        LossByLayer {
            socket_here: here,
            socket_there: there,
            namespace,
            device,
            send_queue,
            unread,
            ..LossByLayer::default()
        }
    }
}

impl LossByLayer {
    /// The losses that these counts explain: no layer more than is left. What a counter has beyond that was none of these
    /// datagrams.
    pub(crate) fn of(self, lost: u64) -> Self {
        let mut left = lost;
        let mut explained = |count: u64| {
            let count = count.min(left);
            left -= count;
            count
        };
        let socket_here = explained(self.socket_here);
        let [socket_there, namespace, device, send_queue] =
            [self.socket_there, self.namespace, self.device, self.send_queue]
                .map(|count| count.map(&mut explained));
        Self {
            socket: socket_there.map(|there| socket_here + there),
            socket_here,
            socket_there,
            namespace,
            device,
            send_queue,
            unexplained: left,
            unread: self.unread,
        }
    }
}

/// The columns `inode` and `drops` of the sockets that receive at this address.
fn drops_of(table: &str, ip: Option<IpAddr>, port: u16) -> Vec<(u64, u64)> {
    let rows = table.lines().skip(1).filter_map(|row| {
        let mut columns = row.split_ascii_whitespace();
        let (address, inode, drops) = (columns.nth(1)?, columns.nth(7)?, columns.next_back()?);
        let (host, found_port) = address.split_once(':')?;
        if u16::from_str_radix(found_port, 16).ok()? != port {
            return None;
        }
        let host = host_of(host)?;
        let is_there = host.is_unspecified() || ip.is_none_or(|ip| ip.to_canonical() == host.to_canonical());
        if is_there { Some((inode.parse().ok()?, drops.parse().ok()?)) } else { None }
    });
    rows.collect()
}

/// How often a table of sockets is read.
const TABLE_READS: usize = 3;

/// Words of 32 bits in the machine's byte order, each as eight hexadecimal digits.
fn host_of(digits: &str) -> Option<IpAddr> {
    let word =
        |at: usize| u32::from_str_radix(digits.get(at * 8..at * 8 + 8)?, 16).ok().map(u32::to_ne_bytes);
    match digits.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).into())
        }
        _ => None,
    }
}

fn of_udp_v4(snmp: &str, name: &str) -> Option<u64> {
    // A line of names, and one of values.
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let at = lines.next()?.split(' ').position(|found| found == name)?;
    lines.next()?.split(' ').nth(at)?.parse().ok()
}

fn of_udp_v6(snmp: &str, name: &str) -> Option<u64> {
    let of_name = |line: &str| line.strip_prefix("Udp6")?.strip_prefix(name)?.trim().parse().ok();
    snmp.lines().find_map(of_name)
}

/// Dropped on reception and on transmission, over all devices.
fn device_drops(devices: &str) -> Option<u64> {
    let drops = devices.lines().skip(2).map(|line| {
        let columns: Vec<u64> = line
            .split_once(':')?
            .1
            .split_ascii_whitespace()
            .map(|text| text.parse().ok())
            .collect::<Option<_>>()?;
        Some(columns.get(3)? + columns.get(11)?)
    });
    drops.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
        \x20 49: 0100007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7 2 0000000000000000 17\n\
        \x20 50: 00000000:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 8 2 0000000000000000 3\n\
        \x20 51: 0200007F:1F90 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 100\n\
        \x20 52: 0100007F:1F91 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 10 2 0000000000000000 100\n";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_sockets_of_the_target_are_found() {
        assert_eq!(drops_of(UDP, Some(Ipv4Addr::LOCALHOST.into()), 8080), [(7, 17), (8, 3)]);
        assert_eq!(drops_of(UDP, Some(Ipv4Addr::LOCALHOST.into()), 8082), []);
        assert_eq!(host_of("00000000000000000000000001000000"), Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(
            host_of("0000000000000000FFFF00000100007F").map(|host| host.to_canonical()),
            Some(Ipv4Addr::LOCALHOST.into())
        );
        assert_eq!(host_of("0100"), None);
    }

    #[test]
    fn a_service_here_is_not_taken_for_one_elsewhere() {
        let here = UdpSocket::bind("0.0.0.0:0").expect("a free port");
        let port = here.local_addr().expect("bound").port();
        let rows =
            |host: &str| Counters::read(&format!("udp:{host}:{port}").parse().expect("an address")).there;
        let found: Vec<_> = rows("127.0.0.1").expect("it is here").into_values().collect();
        assert_eq!(found, [0]);
        assert_eq!(rows("192.0.2.1"), None);
    }

    #[test]
    fn counters_are_read_by_their_names() {
        let snmp = "Ip: A\nIp: 1\nUdp: InDatagrams InErrors SndbufErrors\nUdp: 1 3 4\nUdpLite: InErrors\nUdpLite: 9\n";
        assert_eq!((of_udp_v4(snmp, "InErrors"), of_udp_v4(snmp, "SndbufErrors")), (Some(3), Some(4)));
        let snmp6 = "Udp6InDatagrams\t7\nUdp6InErrors    \t5\nUdp6SndbufErrors\t6\n";
        assert_eq!((of_udp_v6(snmp6, "InErrors"), of_udp_v6(snmp6, "SndbufErrors")), (Some(5), Some(6)));
        let devices = "Inter-|\n face |\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\neth0:1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(device_drops(devices), Some(4 + 12 + 2));
        for nonsense in ["", "Udp: InErrors\n", "a\nb\nc: x\n"] {
            assert_eq!((of_udp_v4(nonsense, "InErrors"), of_udp_v6(nonsense, "InErrors")), (None, None));
        }
        assert_eq!(device_drops("a\nb\nc: x\n"), None);
    }

    #[test]
    fn layers_that_were_not_read_are_named() {
        let target = "udp:192.0.2.1:9".parse().expect("an address");
        let loss = Counters::default().since(&Counters::default(), 2, 3, &target).of(10);
        assert_eq!((loss.socket, loss.socket_here, loss.unexplained), (None, 2, 8));
        assert_eq!(loss.unread.len(), 4, "{loss:?}");
        // One socket was closed meanwhile, and one opened.
        let counters = |there: [(u64, u64); 3], in_errors, device, send_queue| Counters {
            there: Some(there.into()),
            in_errors: Some(in_errors),
            device: Some(device),
            send_queue: Some(send_queue),
        };
        let before = counters([(7, 1), (8, 1), (9, 5)], 5, 1, 10);
        let after = counters([(7, 3), (8, 1), (10, 2)], 12, 2, 14);
        let loss = after.since(&before, 2, 3, &target).of(10);
        assert_eq!(
            (loss.socket, loss.namespace, loss.device, loss.send_queue, loss.unexplained),
            (Some(6), Some(1), Some(1), Some(1), 1)
        );
        assert!(loss.unread.is_empty());
        // No layer explains what was not lost: of 7, the sockets have 6 and the namespace 1; of 3 the sockets here have 2.
        for (lost, parts) in [(7, [2, 4, 1, 0, 0]), (3, [2, 1, 0, 0, 0]), (0, [0; 5]), (20, [2, 4, 1, 1, 1])]
        {
            let loss = after.since(&before, 2, 3, &target).of(lost);
            let layers =
                [Some(loss.socket_here), loss.socket_there, loss.namespace, loss.device, loss.send_queue];
            assert_eq!(layers, parts.map(Some), "{lost} lost");
            assert_eq!(parts.iter().sum::<u64>() + loss.unexplained, lost);
        }
    }
}
