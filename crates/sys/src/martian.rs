//! Martian addresses: those that no packet on a network can come from, and that nothing can be sent to as to one host.
//!
//! The one list of them, for every wire. [`is_martian`] is for who reads packets from a network itself: another host has none of
//! these addresses. [`is_nobody`] is for who has a socket of the kernel, which serves this host, too. Neither knows
//! the addresses and networks of a host: its own addresses are another question, and [`is_directed_broadcast`] asks about the
//! network of a route.

use std::net::IpAddr;

/// Whether no other host can have this address, which is a source that RFC 1122 3.2.1.3 has discarded.
///
/// ```
/// use anywire_sys::martian::is_martian;
///
/// let martians = ["0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1", "::ffff:10.0.0.1"];
/// assert!(martians.iter().all(|address| is_martian(address.parse().unwrap())));
/// assert!(!is_martian([10, 0, 0, 1].into()) && !is_martian("fe80::1".parse().unwrap()));
/// ```
pub const fn is_martian(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_martian_v4(address.to_bits()),
        IpAddr::V6(address) => is_martian_v6(address.to_bits()),
    }
}

/// The same of an IPv4 address as a number: "this network" (0/8), loopback (127/8), multicast (224/4), reserved and broadcast (240/4).
#[inline]
pub const fn is_martian_v4(address: u32) -> bool {
    const THIS_NETWORK_END: u32 = 0x0100_0000;
    const MULTICAST: u32 = 0xe000_0000;
    address.wrapping_sub(THIS_NETWORK_END) >= MULTICAST - THIS_NETWORK_END || address >> 24 == 127
}

/// The same of an IPv6 address as a number: unspecified, loopback, multicast (RFC 4291 2.5.2, 2.5.3, 2.7), and IPv4 in the form of
/// IPv6, which is for programs and not for packets (RFC 4291 2.5.5.2).
#[inline]
pub const fn is_martian_v6(address: u128) -> bool {
    let (high, low) = ((address >> 64) as u64, address as u64);
    if high == 0 { low <= 1 || low >> 32 == 0xffff } else { high >> 56 == 0xff }
}

/// Whether no socket has this address, on this host or elsewhere: unspecified, multicast or broadcast. A datagram that comes from there
/// was forged, and an answer would go to somebody who has not asked: Linux takes 0.0.0.0 and `::` for this host itself.
///
/// Loopback is somebody here, and so is an IPv4 address in the form of IPv6. 240/4 is left to the kernel, which routes it.
///
/// ```
/// use anywire_sys::martian::is_nobody;
///
/// assert!(["0.0.0.0", "::", "::ffff:0.0.0.0", "ff02::1"].iter().all(|ip| is_nobody(ip.parse().unwrap())));
/// assert!(!["127.0.0.1", "::1", "::ffff:10.0.0.1"].iter().any(|ip| is_nobody(ip.parse().unwrap())));
/// ```
pub const fn is_nobody(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.octets()[0] == 0 || address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unspecified() || address.is_multicast(),
    }
}

/// Whether an IPv4 address is the broadcast address of its network, whose prefix has so many bits. Networks of one or two addresses
/// have none (RFC 3021).
///
/// ```
/// use anywire_sys::martian::is_directed_broadcast;
///
/// assert!(is_directed_broadcast(0x0aff_ffff, 8) && !is_directed_broadcast(0x0aff_fffe, 8));
/// assert!(!is_directed_broadcast(0x0aff_ffff, 31));
/// ```
#[inline]
pub const fn is_directed_broadcast(address: u32, prefix: u8) -> bool {
    prefix <= 30 && !address << prefix == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each class of RFC 6890 at both of its edges, and the addresses beside them.
    const EDGES: &[(&str, Of)] = &[
        ("0.0.0.0", Of::Nobody),
        ("0.255.255.255", Of::Nobody),
        ("1.0.0.0", Of::Host),
        ("10.0.0.1", Of::Host),
        ("126.255.255.255", Of::Host),
        ("127.0.0.0", Of::ThisHost),
        ("127.255.255.255", Of::ThisHost),
        ("128.0.0.0", Of::Host),
        ("169.254.0.1", Of::Host),
        ("223.255.255.255", Of::Host),
        ("224.0.0.0", Of::Nobody),
        ("239.255.255.255", Of::Nobody),
        ("240.0.0.0", Of::ThisHost),
        ("255.255.255.254", Of::ThisHost),
        ("255.255.255.255", Of::Nobody),
        ("::", Of::Nobody),
        ("::1", Of::ThisHost),
        ("::2", Of::Host),
        ("::fffe:10.0.0.1", Of::Host),
        ("::ffff:10.0.0.1", Of::ThisHost),
        ("::ffff:0.0.0.0", Of::Nobody),
        ("::ffff:224.0.0.1", Of::Nobody),
        ("::1:0:0:1", Of::Host),
        ("64:ff9b::10.0.0.1", Of::Host),
        ("2001:db8::1", Of::Host),
        ("fe80::1", Of::Host),
        ("feff::", Of::Host),
        ("ff00::", Of::Nobody),
        ("ffff:ffff::", Of::Nobody),
    ];

    #[derive(PartialEq, Debug)]
    enum Of {
        /// Another one.
        Host,
        /// Nothing on a network, and to the kernel a socket.
        ThisHost,
        Nobody,
    }

    #[test]
    fn both_questions_know_every_class_to_its_edges() {
        for (address, of) in EDGES {
            let ip = address.parse().expect("an address");
            let told = match (is_martian(ip), is_nobody(ip)) {
                (false, false) => Of::Host,
                (true, false) => Of::ThisHost,
                (true, true) => Of::Nobody,
                (false, true) => panic!("{address} is of another host and of none"),
            };
            assert_eq!(told, *of, "{address}");
        }
    }

    #[test]
    fn a_network_has_one_broadcast_address() {
        for prefix in 0..=32 {
            let host = if prefix == 32 { 0 } else { u32::MAX >> prefix };
            let last = 0x0a00_0000 & !host | host;
            assert_eq!(is_directed_broadcast(last, prefix), prefix <= 30, "the last of /{prefix}");
            assert!(!is_directed_broadcast(last - 1, prefix), "the last but one of /{prefix}");
        }
    }
}
