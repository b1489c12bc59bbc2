//! `NO_PROXY`: the hosts that no proxy is asked for.

use std::net::IpAddr;

/// A list of hosts, as the variable `NO_PROXY` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NoProxy {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    /// None: all ports.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    /// The name and what ends with a dot and the name.
    Name(String),
    /// The addresses that begin with so many bits of this one.
    Network(IpAddr, u8),
}

impl NoProxy {
    /// Reads entries with commas or white space between them. An entry that is none matches no host.
    pub(crate) fn parse(list: &str) -> Self {
        let entries = list.split([',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty());
        Self { entries: entries.map(Entry::parse).collect() }
    }

    /// Whether a host is on it: a name, or an IP address without brackets.
    pub(crate) fn covers(&self, host: &str, port: u16) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let ip = host.parse().ok().map(|ip: IpAddr| ip.to_canonical());
        self.entries.iter().any(|entry| {
            entry.port.is_none_or(|only| only == port)
                && match &entry.hosts {
                    Hosts::All => true,
                    Hosts::Name(name) => ip.is_none() && is_within(&host, name),
                    Hosts::Network(network, bits) => ip.is_some_and(|ip| begins_alike(ip, *network, *bits)),
                }
        })
    }
}

impl Entry {
    fn parse(text: &str) -> Self {
        if text == "*" {
            return Self { hosts: Hosts::All, port: None };
        }
        if let Some(hosts) = network(text) {
            return Self { hosts, port: None };
        }
        let (host, port) =
            match text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?))) {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            };
        let hosts = match network(host.trim_start_matches('[').trim_end_matches(']')) {
            _ if host == "*" => Hosts::All,
            Some(hosts) => hosts,
            None => {
                let name = host.strip_prefix('*').unwrap_or(host).trim_matches('.');
                Hosts::Name(name.to_ascii_lowercase())
            }
        };
        Self { hosts, port }
    }
}

/// An IP address, or a network in the notation of CIDR (RFC 4632 section 3.1).
fn network(text: &str) -> Option<Hosts> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let ip: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(longest);
    (bits <= longest).then(|| match ip.to_canonical() {
        // An IPv4 address as IPv6 has 96 bits before it.
        v4 if v4.is_ipv4() && ip.is_ipv6() => Hosts::Network(v4, bits.saturating_sub(96)),
        ip => Hosts::Network(ip, bits),
    })
}

fn begins_alike(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let alike = |one: u128, other: u128, size: u32| {
        // Behind `bits` nothing counts; a shift by the whole size would be none.
        (one ^ other).checked_shr(size - u32::from(bits)).unwrap_or(0) == 0
    };
    match (ip, network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => alike(u32::from(ip).into(), u32::from(network).into(), 32),
        (IpAddr::V6(ip), IpAddr::V6(network)) => alike(ip.into(), network.into(), 128),
        _ => false,
    }
}

fn is_within(host: &str, name: &str) -> bool {
    !name.is_empty()
        && host.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(list: &str, covered: &[(&str, u16)], others: &[(&str, u16)]) {
        let list = NoProxy::parse(list);
        for (host, port) in covered {
            assert!(list.covers(host, *port), "{host}:{port} is on {list:?}");
        }
        for (host, port) in others {
            assert!(!list.covers(host, *port), "{host}:{port} is not on {list:?}");
        }
    }

    #[test]
    fn names_cover_what_is_below_them() {
        for list in [
            "example.com",
            ".example.com",
            "*.example.com",
            "EXAMPLE.com.",
            "x, example.com ,y",
            "x example.com",
        ] {
            check(
                list,
                &[("example.com", 80), ("a.example.com", 443), ("A.B.Example.Com.", 1)],
                &[("badexample.com", 80), ("example.com.org", 80), ("com", 80), ("10.0.0.1", 80)],
            );
        }
        check("", &[], &[("", 80), ("h", 80)]);
        check(".", &[], &[("h", 80)]);
        check("*", &[("h", 80), ("::1", 1)], &[]);
        // A name is none of an address, whatever it ends with.
        check("0.1", &[], &[("10.0.0.1", 80)]);
    }

    #[test]
    fn ports_narrow_an_entry_down() {
        check("h:8080", &[("h", 8080), ("a.h", 8080)], &[("h", 80)]);
        check(
            "[::1]:81,10.0.0.1:82,*:83",
            &[("::1", 81), ("10.0.0.1", 82), ("any", 83)],
            &[("::1", 80), ("10.0.0.1", 81)],
        );
        check("h:none", &[], &[("h", 80), ("none", 80)]);
    }

    #[test]
    fn networks_cover_addresses_and_no_names() {
        check(
            "10.0.0.0/8",
            &[("10.1.2.3", 80), ("::ffff:10.1.2.3", 80)],
            &[("11.0.0.1", 80), ("10.example", 80), ("::a", 80)],
        );
        check("10.1.2.3/31", &[("10.1.2.2", 80)], &[("10.1.2.4", 80)]);
        check("0.0.0.0/0", &[("1.2.3.4", 80)], &[("::1", 80), ("h", 80)]);
        check("fd00::/8", &[("fdff::1", 80)], &[("fe00::1", 80)]);
        check("::/0", &[("fe00::1", 80)], &[("1.2.3.4", 80)]);
        check("[fd00::]/8 ::1", &[("fd00::1", 80), ("::1", 80)], &[("::2", 80)]);
        check("::ffff:10.0.0.0/104", &[("10.1.2.3", 80)], &[("11.0.0.1", 80)]);
        for wrong in ["10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "fd00::/129"] {
            check(wrong, &[], &[("10.0.0.0", 80), ("fd00::", 80)]);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(list in "[a-z0-9.:/*\\[\\], -]{0,40}", host in "[a-z0-9.:-]{0,20}", port: u16) {
            let _ = NoProxy::parse(&list).covers(&host, port);
        }

        #[test]
        fn an_address_is_in_its_own_networks(ip: u32, bits in 0u8..=32, other: u32) {
            let text = |ip: u32| std::net::Ipv4Addr::from(ip).to_string();
            let list = NoProxy::parse(&format!("{}/{bits}", text(ip)));
            prop_assert!(list.covers(&text(ip), 80));
            let mask = (u64::MAX << (32 - bits)) as u32;
            prop_assert_eq!(list.covers(&text(other), 80), ip & mask == other & mask);
        }
    }
}
