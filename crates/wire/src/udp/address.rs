//! Addresses of datagram sockets: `udp:127.0.0.1:53`, `unixgram:/run/app.sock`, `unixgram:@name`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::address::{AddressError, escape, unescape};
use crate::place;
use crate::tcp::Tcp;
use crate::unix::Unix;
use crate::wires::Wire;

/// Where datagrams are received or sent to. Parsing checks the form and gives equal addresses one spelling; it resolves no
/// name and opens nothing.
///
/// ```
/// use anywire_wire::udp::DatagramAddress;
///
/// let address: DatagramAddress = "udp:LocalHost:53".parse()?;
/// assert_eq!((address.to_string().as_str(), address.port()), ("udp:localhost:53", Some(53)));
/// assert!("tcp:127.0.0.1:53".parse::<DatagramAddress>().is_err());
/// # Ok::<(), anywire_wire::AddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DatagramAddress {
    kind: Kind,
    location: Arc<str>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Ip,
    Unix,
}

/// What functions accept as an address for datagrams: a [`DatagramAddress`], its text, or a [`SocketAddr`].
pub trait ToDatagramAddress {
    /// The address.
    ///
    /// # Errors
    /// [`AddressError`] names the part of the text that is wrong.
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError>;
}

impl DatagramAddress {
    /// `udp` or `unixgram`.
    pub fn scheme(&self) -> &'static str {
        match self.kind {
            Kind::Ip => "udp",
            Kind::Unix => "unixgram",
        }
    }

    /// The part behind the scheme.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The IP address; `None` for names and Unix sockets.
    pub fn ip(&self) -> Option<IpAddr> {
        self.host_and_port()?.0.parse().ok()
    }

    /// The port; `None` for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        self.host_and_port().map(|(_, port)| port)
    }

    /// IP address and port, if there is no name to resolve, nor one of an interface.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        self.location.parse().ok().filter(|_| self.kind == Kind::Ip)
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The file of a Unix socket that has one.
    pub(super) fn file(&self) -> Option<&Path> {
        (self.kind == Kind::Unix && !self.location.starts_with('@')).then(|| Path::new(&*self.location))
    }

    /// The name of a Unix socket as the system wants it: an abstract one begins with NUL.
    pub(super) fn system_name(&self) -> PathBuf {
        match self.location.strip_prefix('@') {
            Some(name) => format!("\0{name}").into(),
            None => (&*self.location).into(),
        }
    }

    fn host_and_port(&self) -> Option<(&str, u16)> {
        if self.kind == Kind::Ip { place::host_and_port(&self.location) } else { None }
    }
}

impl FromStr for DatagramAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let unknown = || AddressError::NoDatagrams { text: text.to_owned() };
        let (scheme, location) = text.split_once(':').ok_or_else(unknown)?;
        let (kind, form): (_, &'static dyn Wire) = match scheme {
            "udp" => (Kind::Ip, &Tcp),
            "unixgram" => (Kind::Unix, &Unix),
            _ => return Err(unknown()),
        };
        // The zone of an IP address, as addresses of streams and URLs have it.
        let location = if kind == Kind::Ip { unescape(location) } else { location.into() };
        match form.normalise(&location) {
            Ok(location) => Ok(Self { kind, location: location.into() }),
            Err(wrong) => {
                let expected = match kind {
                    Kind::Ip => "udp:HOST:PORT, such as udp:127.0.0.1:53 or udp:[::1]:53",
                    Kind::Unix => {
                        "a path of at most 107 bytes such as unixgram:/run/app.sock, or unixgram:@name"
                    }
                };
                Err(AddressError::Location { text: text.to_owned(), wrong, expected })
            }
        }
    }
}

impl From<SocketAddr> for DatagramAddress {
    fn from(address: SocketAddr) -> Self {
        Self { kind: Kind::Ip, location: address.to_string().into() }
    }
}

impl fmt::Display for DatagramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = if self.kind == Kind::Ip { escape(&self.location) } else { (&*self.location).into() };
        write!(f, "{}:{location}", self.scheme())
    }
}

impl fmt::Debug for DatagramAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatagramAddress({self})")
    }
}

impl ToDatagramAddress for DatagramAddress {
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError> {
        Ok(self)
    }
}

impl ToDatagramAddress for &DatagramAddress {
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError> {
        Ok(self.clone())
    }
}

impl ToDatagramAddress for SocketAddr {
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError> {
        Ok(self.into())
    }
}

impl ToDatagramAddress for &str {
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError> {
        self.parse()
    }
}

impl ToDatagramAddress for &String {
    fn to_datagram_address(self) -> Result<DatagramAddress, AddressError> {
        self.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wrong_part_is_named() {
        for (text, part) in [
            ("127.0.0.1:53", "no address for datagrams"),
            ("tcp:127.0.0.1:53", "no address for datagrams"),
            ("udp", "udp:HOST:PORT"),
            ("udp:127.0.0.1", "there is no port"),
            ("udp:127.0.0.1:66000", "\"66000\" is no port"),
            ("udp:::1:53", "brackets"),
            ("unixgram:", "path is empty"),
            ("unixgram:@", "name is empty"),
        ] {
            let said = text.parse::<DatagramAddress>().expect_err(text).to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn equal_addresses_are_spelt_alike() {
        let parse = |text: &str| text.parse::<DatagramAddress>().expect(text);
        assert_eq!(parse("udp:[0:0::1]:053").to_string(), "udp:[::1]:53");
        assert_eq!(
            parse("udp:[::1]:53"),
            DatagramAddress::from("[::1]:53".parse::<SocketAddr>().expect("v6"))
        );
        assert_eq!(parse("udp:1.2.3.4:5").socket_addr(), Some("1.2.3.4:5".parse().expect("v4")));
        assert_eq!(parse("udp:a.name:5").socket_addr(), None);
        let zoned = DatagramAddress::from("[fe80::1%25]:53".parse::<SocketAddr>().expect("v6"));
        assert_eq!((zoned.to_string().parse().as_ref(), zoned.ip().is_some()), (Ok(&zoned), true));
        assert_eq!(parse("udp:[fe80::1%25eth0]:53").to_string(), "udp:[fe80::1%eth0]:53");
        assert_eq!(parse("unixgram:/a%25").to_string(), "unixgram:/a%25");
        assert_eq!(parse("unixgram:@a").file(), None);
        assert_eq!((parse("unixgram:/a").port(), parse("unixgram:/a:5").port()), (None, None));
    }
}
