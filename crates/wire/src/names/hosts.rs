//! Static hosts: addresses that no resolver is asked for, and places that stand for others.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use anywire_advice::Advice;

use crate::place;

/// Addresses for some names, and other places for some places, as curl's `--resolve` and `--connect-to`. Only the dial changes:
/// the `host` of a request and the name that the peer has to prove stay the URL's.
///
/// ```
/// use anywire_wire::names::Hosts;
///
/// let mut hosts = Hosts::default().add("shop.internal", ["10.0.0.1:0".parse().unwrap()]);
/// hosts.add_resolve("example.com:443:127.0.0.1,[::1]")?;
/// hosts.add_connect_to("example.com:80:staging.example.com:8080")?;
/// # Ok::<(), anywire_wire::names::HostsError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    known: Vec<Known>,
    detours: Vec<Detour>,
}

/// The addresses of a place.
#[derive(Debug, Clone)]
struct Known {
    /// `None`: any.
    host: Option<Box<str>>,
    /// `None`: any.
    port: Option<u16>,
    addresses: Vec<SocketAddr>,
}

/// A place that stands for another one.
#[derive(Debug, Clone)]
struct Detour {
    host: Option<Box<str>>,
    port: Option<u16>,
    /// `None`: the same.
    to_host: Option<Box<str>>,
    to_port: Option<u16>,
}

impl Hosts {
    /// A name with these addresses. A port of 0 stands for the port that is dialled. What is added last counts.
    pub fn add(mut self, host: &str, addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        let addresses = addresses.into_iter().collect();
        self.known.push(Known { host: Some(lower(host)), port: None, addresses });
        self
    }

    /// A place and its addresses, as curl's `--resolve`: `HOST:PORT:ADDRESS[,ADDRESS]`. A host of `*` is any.
    ///
    /// # Errors
    /// [`HostsError`] names the text.
    pub fn add_resolve(&mut self, text: &str) -> Result<(), HostsError> {
        let wrong = || HostsError { text: text.to_owned(), form: "HOST:PORT:ADDRESS[,ADDRESS]" };
        // With "+" curl forgets such an entry in time, which this does not.
        let mut parts = Parts(text.strip_prefix('+').unwrap_or(text));
        let (host, port) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
        let port = port.parse().map_err(|_| wrong())?;
        let address = |text: &str| {
            let ip = text.trim().trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
            ip.map(|ip| SocketAddr::new(ip, 0))
        };
        let addresses: Vec<_> =
            parts.0.split(',').map(address).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let host = some(host).ok_or_else(wrong)?;
        let host = (host != "*").then(|| lower(host));
        self.known.push(Known { host, port: Some(port), addresses });
        Ok(())
    }

    /// A place that is dialled in place of another one, as curl's `--connect-to`: `HOST1:PORT1:HOST2:PORT2`. An empty first host or
    /// port is any, an empty second one is the same.
    ///
    /// # Errors
    /// [`HostsError`] names the text.
    pub fn add_connect_to(&mut self, text: &str) -> Result<(), HostsError> {
        let wrong = || HostsError { text: text.to_owned(), form: "HOST1:PORT1:HOST2:PORT2" };
        let mut parts = Parts(text);
        let (host, port) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
        let (to_host, to_port) = (parts.next().ok_or_else(wrong)?, parts.0);
        let number = |text| some(text).map(|text: &str| text.parse().map_err(|_| wrong())).transpose();
        let detour = Detour {
            host: some(host).map(lower),
            port: number(port)?,
            to_host: some(to_host).map(lower),
            to_port: number(to_port)?,
        };
        // What it leads to has to be a place, whatever port comes with it.
        if let Some(host) = &detour.to_host {
            place::normalise(&place_of(host, 1)).map_err(|_| wrong())?;
        }
        self.detours.push(detour);
        Ok(())
    }

    /// The place to dial instead of this one, which was normalised.
    pub(crate) fn detour<'p>(&self, place: &'p str) -> Cow<'p, str> {
        if self.detours.is_empty() {
            return place.into();
        }
        let Some((host, port)) = place::host_and_port(place) else { return place.into() };
        // As with curl, the first one counts.
        let mut fitting = self.detours.iter().filter(|detour| fits(&detour.host, detour.port, host, port));
        let Some(detour) = fitting.next() else { return place.into() };
        match (&detour.to_host, detour.to_port) {
            (None, None) => place.into(),
            (to_host, to_port) => {
                place_of(to_host.as_deref().unwrap_or(host), to_port.unwrap_or(port)).into()
            }
        }
    }

    /// The addresses of a place, if they are known here.
    pub(crate) fn addresses_of(&self, host: &str, port: u16) -> Option<&[SocketAddr]> {
        let mut fitting = self.known.iter().rev().filter(|known| fits(&known.host, known.port, host, port));
        fitting.next().map(|known| known.addresses.as_slice())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.detours.is_empty()
    }
}

/// A text that names no static host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no static host{help}", help = Advice(format_args!("its form is {form}")))]
pub struct HostsError {
    text: String,
    form: &'static str,
}

/// What stands between the colons, save those in brackets.
struct Parts<'a>(&'a str);

impl<'a> Parts<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let end = match self.0.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => self.0.find(':')?,
        };
        let (part, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.strip_prefix(':')?;
        Some(part.strip_prefix('[').and_then(|part| part.strip_suffix(']')).unwrap_or(part))
    }
}

fn fits(of_host: &Option<Box<str>>, of_port: Option<u16>, host: &str, port: u16) -> bool {
    of_host.as_ref().is_none_or(|one| **one == *host) && of_port.is_none_or(|one| one == port)
}

fn place_of(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn lower(host: &str) -> Box<str> {
    host.to_ascii_lowercase().into()
}

fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        SocketAddr::new(text.parse().expect(text), 0)
    }

    #[test]
    fn addresses_are_of_a_host_and_its_port() {
        let mut hosts = Hosts::default().add("Shop", [address("10.0.0.1")]);
        hosts.add_resolve("a:443:127.0.0.1,[::1],::2").expect("its form");
        hosts.add_resolve("[::9]:80:10.0.0.2").expect("its form");
        assert_eq!(hosts.addresses_of("shop", 1), Some(&[address("10.0.0.1")][..]));
        let of_a = ["127.0.0.1", "::1", "::2"].map(address);
        assert_eq!(hosts.addresses_of("a", 443), Some(&of_a[..]));
        assert_eq!(hosts.addresses_of("a", 80), None);
        assert_eq!(hosts.addresses_of("::9", 80), Some(&[address("10.0.0.2")][..]));
        hosts.add_resolve("+*:443:10.0.0.3").expect("its form");
        assert_eq!(hosts.addresses_of("a", 443), Some(&[address("10.0.0.3")][..]), "the last one counts");
    }

    #[test]
    fn a_place_stands_for_another_one() {
        let mut hosts = Hosts::default();
        for text in ["a:80:b:8080", "[::1]:1:[::2]:", ":7::9", "c::d:"] {
            hosts.add_connect_to(text).expect(text);
        }
        for (place, detour) in
            [("a:80", "b:8080"), ("a:81", "a:81"), ("[::1]:1", "[::2]:1"), ("x:7", "x:9"), ("c:5", "d:5")]
        {
            assert_eq!(hosts.detour(place), detour);
        }
    }

    #[test]
    fn what_is_none_is_said_with_its_form() {
        for text in ["", "a", "a:80", "a:80:", "a:80:b", "a:x:1.2.3.4", "[::1:80:1.2.3.4", ":80:1.2.3.4"] {
            let error = Hosts::default().add_resolve(text).expect_err(text).to_string();
            assert!(error.contains("HOST:PORT:ADDRESS"), "{error}");
        }
        for text in ["", "a:80", "a:80:b", "a:x:b:1", "a:80:b:x", "a:80:b c:1"] {
            let error = Hosts::default().add_connect_to(text).expect_err(text).to_string();
            assert!(error.contains("HOST1:PORT1"), "{error}");
        }
    }
}
