//! `HOST:PORT` as text. The host is a name, an IPv4 address, or an IPv6 address in brackets, with the zone that one of a link
//! needs: `[fe80::1%eth0]:80` (RFC 4007 section 11).

use std::fmt;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// The one spelling that equal places share; the error says which part is wrong.
pub(crate) fn normalise(place: &str) -> Result<String, String> {
    let (host, port) = split(place)?;
    // Rust reads "+80" as a number, too.
    let number = port.parse().ok().filter(|_| !port.starts_with('+'));
    let port: u16 = number.ok_or_else(|| format!("{port:?} is no port (0 to 65535)"))?;
    Ok(match host {
        Host::V6 { ip, zone: None } => SocketAddr::from((ip, port)).to_string(),
        Host::V6 { ip, zone: Some(zone) } => match index(zone)? {
            Some(index) => SocketAddrV6::new(ip, port, 0, index).to_string(),
            None => format!("[{ip}%{zone}]:{port}"),
        },
        Host::Other(host) => format!("{}:{port}", host.to_ascii_lowercase()),
    })
}

/// Host and port of a place that was checked; an IPv6 address without its brackets and its zone, which is of this machine alone
/// (RFC 9844 section 4).
pub(crate) fn host_and_port(place: &str) -> Option<(&str, u16)> {
    let (host, port) = place.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = host.split_once('%').map_or(host, |(host, _)| host);
    Some((host, port.parse().ok()?))
}

/// IP address and port of a place that was checked, if it has no name to resolve. The interface of a zone is looked up, and has to
/// be there (`ENODEV`).
pub(crate) fn literal(place: &str) -> io::Result<Option<SocketAddr>> {
    let Some(zone) = zone(place) else { return Ok(place.parse().ok()) };
    // Interfaces are asked for by way of any socket.
    let asking = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let index = match index(zone) {
        Ok(Some(index)) => netdevice::index_to_name(&asking, index).map(|_| index)?,
        _ => netdevice::name_to_index(&asking, zone)?,
    };
    let found = host_and_port(place).and_then(|(host, port)| Some((host.parse().ok()?, port)));
    Ok(found.map(|(ip, port)| SocketAddrV6::new(ip, port, 0, index).into()))
}

/// Whether an error means that a zone names no interface, or that an address of a link has no zone.
pub(crate) fn is_of_zone(place: &str, error: &io::Error) -> bool {
    match Errno::from_io_error(error) {
        Some(Errno::NODEV) => zone(place).is_some(),
        Some(Errno::INVAL) => {
            let host = host_and_port(place).and_then(|(host, _)| host.parse::<Ipv6Addr>().ok());
            zone(place).is_none() && host.is_some_and(|ip| ip.is_unicast_link_local())
        }
        _ => false,
    }
}

/// What is wrong with the zone of a place.
pub(crate) struct BadZone<'a>(pub(crate) &'a str);

impl BadZone<'_> {
    /// What would help.
    pub(crate) const HELP: &'static str = "name one that `ip link` shows, as in [fe80::1%eth0]";
}

impl fmt::Display for BadZone<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match zone(self.0) {
            Some(zone) => write!(f, "this machine has no network interface {zone:?}"),
            None => f.write_str("the address is one of a link, and names no network interface"),
        }
    }
}

fn zone(place: &str) -> Option<&str> {
    place.strip_prefix('[')?.split_once(']')?.0.split_once('%').map(|(_, zone)| zone)
}

/// The number of an interface, if its zone is one. 0 is no interface.
fn index(zone: &str) -> Result<Option<u32>, String> {
    if !zone.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    match zone.parse() {
        Ok(index @ 1..) => Ok(Some(index)),
        _ => Err(format!("the zone {zone:?} is no number of an interface")),
    }
}

enum Host<'a> {
    V6 { ip: Ipv6Addr, zone: Option<&'a str> },
    Other(&'a str),
}

/// Splits `[v6]:port` or `host:port`; the error says which part is wrong.
fn split(place: &str) -> Result<(Host<'_>, &str), String> {
    if let Some(rest) = place.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else { return Err("\"[\" has no \"]\"".to_owned()) };
        let Some(port) = rest.strip_prefix(':') else {
            return Err("there is no port behind \"]\"".to_owned());
        };
        let (ip, zone) = match host.split_once('%') {
            Some((ip, zone)) => (ip, Some(zone)),
            None => (host, None),
        };
        let ip = ip.parse().map_err(|_| format!("{ip:?} is no IPv6 address"))?;
        return match zone {
            Some("") => Err("the zone behind \"%\" is empty (interface 25 is written %2525)".to_owned()),
            Some(zone) if !zone.bytes().all(is_of_zone_name) => {
                Err(format!("the zone {zone:?} is no name of an interface"))
            }
            zone => Ok((Host::V6 { ip, zone }, port)),
        };
    }
    let Some((host, port)) = place.rsplit_once(':') else { return Err("there is no port".to_owned()) };
    if host.is_empty() {
        return Err("there is no host".to_owned());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if host.len() > 253 || !host.bytes().all(is_name) {
        return Err(format!("{host:?} is no host name (an IPv6 address stands in brackets)"));
    }
    Ok((Host::Other(host), port))
}

/// What URLs hold without escapes (RFC 3986 section 2.3), and the system allows.
fn is_of_zone_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_kept_and_stays_out_of_the_host() {
        for (text, normal) in [
            ("[FE80:0::1%eth0.7]:080", "[fe80::1%eth0.7]:80"),
            ("[fe80::1%003]:80", "[fe80::1%3]:80"),
            ("[::1%lo]:80", "[::1%lo]:80"),
        ] {
            assert_eq!(normalise(text).as_deref(), Ok(normal));
            assert_eq!(normalise(normal).as_deref(), Ok(normal));
            assert!(host_and_port(normal).is_some_and(|(host, port)| !host.contains('%') && port == 80));
        }
        for (text, part) in [
            ("[fe80::1%]:80", "empty"),
            ("[fe80::1%a/b]:80", "\"a/b\""),
            ("[fe80::1%0]:80", "\"0\""),
            ("[fe80::1%4294967296]:80", "4294967296"),
            ("[1.2.3.4%lo]:80", "\"1.2.3.4\""),
            ("host%lo:80", "host name"),
        ] {
            let wrong = normalise(text).expect_err(text);
            assert!(wrong.contains(part), "{text}: {wrong}");
        }
    }

    #[test]
    fn the_interface_of_a_zone_is_looked_up() {
        let asked = |place: &str| literal(place);
        let Ok(Some(SocketAddr::V6(found))) = asked("[::1%lo]:80") else { panic!("no loopback interface") };
        assert_eq!((found.ip(), found.port()), (&Ipv6Addr::LOCALHOST, 80));
        // As the system numbers it.
        let by_number = asked(&found.to_string()).expect("an interface of that number");
        assert_eq!(by_number, Some(found.into()));
        for place in ["[fe80::1%no-such-name-0]:80", "[fe80::1%4294967295]:80"] {
            let error = asked(place).expect_err(place);
            assert!(is_of_zone(place, &error), "{error}");
        }
        assert!(matches!(asked("name:80"), Ok(None)));
        assert!(matches!(asked("1.2.3.4:80"), Ok(Some(_))));
    }
}
