//! Whether a datagram can have come from where it says.
//!
//! A sender may forge its source address. The reply then goes to a host that sent nothing, or to the service itself: Linux takes
//! 0.0.0.0 and `::` for this machine, and over IPv6 a host on the same link may forge an address of this machine. A service that
//! answers each datagram would then answer itself for ever. So datagrams from an address that no host has, or from the service
//! itself, are dropped when they are received (RFC 1122 3.2.1.3).

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anywire_sys::martian::is_nobody;
use socket2::{Domain, Socket, Type};

use super::address::DatagramAddress;

/// The addresses of one service, from which it hears nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnAddresses {
    ip: Vec<SocketAddr>,
    unix: Vec<Arc<str>>,
    /// Peers that have the service's port and are on other machines.
    elsewhere: RefCell<Elsewhere>,
}

impl OwnAddresses {
    /// Of a socket that hears everybody. One that is connected hears its peer alone, and needs none.
    pub(super) fn of(address: &DatagramAddress) -> Self {
        let mut own = Self::default();
        own.add(address);
        own
    }

    pub(super) fn add(&mut self, address: &DatagramAddress) {
        match address.socket_addr() {
            Some(address) => self.ip.push(address),
            None => self.unix.push(address.location().into()),
        }
    }

    /// Whether another socket can have sent from this address to that one (`None`: to the one that the socket is bound to).
    #[inline]
    pub(super) fn hear(&self, from: SocketAddr, to: Option<IpAddr>) -> bool {
        let is_somebody = from.port() != 0 && !is_nobody(from.ip()) && !self.is_disguised(from, to);
        is_somebody && !self.ip.iter().any(|own| own.port() == from.port() && self.is_at(*own, from))
    }

    /// Whether it has come by IPv6 from what would be an IPv4 address to this socket (RFC 4291 section 2.5.5.2). Over a network that is
    /// a lie, by which a stranger can claim to be 127.0.0.1.
    fn is_disguised(&self, from: SocketAddr, to: Option<IpAddr>) -> bool {
        let is_ipv4 = |ip: IpAddr| ip.to_canonical().is_ipv4();
        from.is_ipv6()
            && is_ipv4(from.ip())
            && to.or_else(|| self.ip.first().map(SocketAddr::ip)).is_some_and(|to| !is_ipv4(to))
    }

    /// The same of a Unix socket: in a name space of its own, anybody can have any name.
    pub(super) fn hear_name(&self, from: &str) -> bool {
        !self.unix.iter().any(|own| **own == *from)
    }

    /// Whether it is the address of a socket that is bound there. Out of line: hardly a peer has the service's own port.
    #[cold]
    #[inline(never)]
    fn is_at(&self, own: SocketAddr, from: SocketAddr) -> bool {
        let (own_ip, from_ip) = (own.ip().to_canonical(), from.ip().to_canonical());
        if !own_ip.is_unspecified() {
            return own_ip == from_ip && scope(own) == scope(from);
        }
        // `[::]` is bound to IPv4 as well.
        (own.is_ipv6() || from_ip.is_ipv4()) && !self.elsewhere.borrow_mut().has(from_ip, scope(from))
    }
}

fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

/// Addresses of other machines, so that the system need not be asked about each datagram.
#[derive(Debug, Clone, Default)]
struct Elsewhere {
    known: [Option<(IpAddr, u32)>; KNOWN_MAX],
    /// Looks until all is forgotten: this machine may be given another one's address.
    left: u32,
    /// How often the system was asked since then.
    asked: u32,
    since: Option<Instant>,
}

impl Elsewhere {
    fn has(&mut self, ip: IpAddr, scope: u32) -> bool {
        self.has_by(ip, scope, Instant::now, is_here)
    }

    fn has_by(
        &mut self,
        ip: IpAddr,
        scope: u32,
        now: impl Fn() -> Instant,
        is_here: impl FnOnce(IpAddr, u32) -> bool,
    ) -> bool {
        if self.left == 0 {
            self.begin_anew(now());
        }
        self.left -= 1;
        let last_byte = match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[15],
        };
        let place = usize::from(last_byte) % KNOWN_MAX;
        if self.known[place] == Some((ip, scope)) {
            return true;
        }
        if self.asked == ASKED_MAX {
            self.begin_anew(now());
        }
        if self.asked == ASKED_MAX {
            // Forged sources come in any number. A lost datagram does less harm than four system calls for each of them.
            return false;
        }
        self.asked += 1;
        let has = !is_here(ip, scope);
        if has {
            self.known[place] = Some((ip, scope));
        }
        has
    }

    /// Forgets all, at most once a second.
    fn begin_anew(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1)) {
            *self = Self { since: Some(now), ..Self::default() };
        }
        self.left = LOOKS_MAX;
    }
}

/// Whether an address is this machine's: the system then sends to it from this address itself. Sends nothing.
fn is_here(ip: IpAddr, scope: u32) -> bool {
    let to = match ip {
        IpAddr::V4(ip) => SocketAddr::from((ip, 1)),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, 1, 0, scope).into(),
    };
    // Without a descriptor nobody can tell. Then a lost datagram does less harm than one that is answered for ever.
    let Ok(socket) = Socket::new(Domain::for_address(to), Type::DGRAM, None) else { return true };
    let chosen = || socket.connect(&to.into()).and_then(|()| socket.local_addr());
    ip.is_loopback() || chosen().is_ok_and(|local| local.as_socket().is_some_and(|local| local.ip() == ip))
}

const KNOWN_MAX: usize = 16;
const LOOKS_MAX: u32 = 1024;
/// Questions to the system in a second. Each costs four system calls.
const ASKED_MAX: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn own(addresses: &[&str]) -> OwnAddresses {
        let mut own = OwnAddresses::default();
        addresses.iter().for_each(|one| own.add(&one.parse::<SocketAddr>().expect(one).into()));
        own
    }

    fn hears(own: &OwnAddresses, from: &str, to: Option<&str>) -> bool {
        own.hear(from.parse().expect(from), to.map(|to| to.parse().expect(to)))
    }

    #[test]
    fn nobody_has_sent_what_comes_from_nowhere() {
        for nowhere in ["0.0.0.0:1", "10.0.0.1:0", "224.0.0.1:1", "255.255.255.255:1"] {
            assert!(!hears(&own(&["0.0.0.0:9"]), nowhere, Some("10.0.0.2")), "{nowhere}");
        }
        for nowhere in ["[::]:1", "[fd00::1]:0", "[ff02::1]:1"] {
            assert!(!hears(&own(&["[::]:9"]), nowhere, Some("fd00::2")), "{nowhere}");
        }
        for nowhere in ["[::ffff:0.0.0.0]:1", "[::ffff:10.0.0.1]:0", "[::ffff:224.0.0.1]:1"] {
            assert!(!hears(&own(&["[::]:9"]), nowhere, Some("::ffff:10.0.0.2")), "{nowhere}");
        }
    }

    #[test]
    fn an_ipv4_address_does_not_come_by_ipv6() {
        let everywhere = own(&["[::]:9"]);
        for from in ["[::ffff:10.0.0.1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(hears(&everywhere, from, Some("::ffff:10.0.0.2")));
            assert!(hears(&everywhere, from, Some("10.0.0.2")));
            assert!(!hears(&everywhere, from, Some("fd00::2")));
            assert!(!hears(&own(&["[fd00::2]:9"]), from, None));
        }
        assert!(hears(&own(&["[fd00::2]:9"]), "[fd00::1]:1", None));
        assert!(hears(&own(&["10.0.0.2:9"]), "10.0.0.1:1", None));
    }

    #[test]
    fn a_socket_does_not_hear_itself() {
        for (at, from, is_heard) in [
            ("10.0.0.1:9", "10.0.0.1:9", false),
            ("10.0.0.1:9", "10.0.0.1:8", true),
            ("10.0.0.1:9", "10.0.0.2:9", true),
            ("0.0.0.0:9", "127.0.0.1:9", false),
            ("0.0.0.0:9", "127.7.7.7:9", false),
            ("0.0.0.0:9", "127.0.0.1:8", true),
            // Of networks for examples (RFC 5737, RFC 3849), which no machine is on.
            ("0.0.0.0:9", "192.0.2.1:9", true),
            ("[::]:9", "[::ffff:192.0.2.1]:9", true),
            ("[::]:9", "[2001:db8::1]:9", true),
            ("[::]:9", "[::ffff:127.0.0.1]:9", false),
            ("[::]:9", "[::1]:9", false),
            ("[::1]:9", "[::1]:9", false),
            ("[fe80::1%1]:9", "[fe80::1%1]:9", false),
            ("[fe80::1%1]:9", "[fe80::1%2]:9", true),
        ] {
            // As often as it is asked.
            let own = own(&[at]);
            let to = if from.contains("ffff") { "::ffff:127.0.0.1" } else { at.trim_end_matches(":9") };
            let to = to.trim_matches(['[', ']']).split('%').next();
            for _ in 0..3 {
                assert_eq!(hears(&own, from, to), is_heard, "{at} hears {from}");
            }
        }
    }

    #[test]
    fn the_sockets_of_a_service_do_not_hear_each_other() {
        let mut all = own(&["127.0.0.1:9", "0.0.0.0:10", "[::1]:11"]);
        // On an IPv6 socket of its own, another service may have the same port.
        let froms = [
            ("127.0.0.1:9", false),
            ("127.0.0.1:10", false),
            ("[::1]:11", false),
            ("127.0.0.1:11", true),
            ("[::1]:10", true),
        ];
        for (from, is_heard) in froms {
            assert_eq!(hears(&all, from, None), is_heard, "{from}");
        }
        all.add(&"unixgram:@one".parse().expect("an address"));
        assert!(!all.hear_name("@one") && all.hear_name("@other"));
    }

    #[test]
    fn what_is_elsewhere_is_asked_again_now_and_then() {
        let mut elsewhere = Elsewhere::default();
        let ip = IpAddr::from([192, 0, 2, 1]);
        elsewhere.known[1] = Some((IpAddr::from([127, 0, 0, 1]), 0));
        elsewhere.left = 2;
        assert!(elsewhere.has([127, 0, 0, 1].into(), 0), "it was so");
        assert!(elsewhere.has(ip, 0));
        assert!(!elsewhere.has([127, 0, 0, 1].into(), 0), "it has become this machine's");
        assert!(elsewhere.has(ip, 0));
    }

    /// Strangers that forge the service's own port cost bounded work, and keep nobody out who was heard before.
    #[test]
    fn the_system_is_asked_so_often_in_a_second() {
        let (start, asked) = (Instant::now(), std::cell::Cell::new(0));
        let mut elsewhere = Elsewhere::default();
        let mut has = |number: u32, second| {
            let now = || start + Duration::from_secs(second);
            let is_here = |_, _| {
                asked.set(asked.get() + 1);
                false
            };
            elsewhere.has_by(IpAddr::V4(number.into()), 0, now, is_here)
        };
        assert!(has(0, 0));
        for number in 0..100_000 {
            // Not in the place of the first one.
            has(number | 1, 0);
        }
        assert_eq!(asked.get(), ASKED_MAX);
        assert!(has(0, 0) && !has(2, 0), "known, and unknown");
        assert!(has(2, 1) && asked.get() == ASKED_MAX + 1, "a second later it is asked again");
    }
}
