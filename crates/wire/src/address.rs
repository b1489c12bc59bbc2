//! Addresses: `WIRE:WHERE`, such as `tcp:0.0.0.0:8080` or `unix:/run/app.sock`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use crate::wires::{DEFAULT, Wire, wires};

/// Where to listen or dial, and over which wire.
///
/// Parsing checks the form and gives one spelling to equal addresses; it does not resolve names and opens nothing.
///
/// ```
/// use anywire_wire::Address;
///
/// let address: Address = "tcp:LocalHost:8080".parse()?;
/// assert_eq!(address.to_string(), "tcp:localhost:8080");
/// assert_eq!((address.scheme(), address.location()), ("tcp", "localhost:8080"));
/// # Ok::<(), anywire_wire::AddressError>(())
/// ```
#[derive(Clone)]
pub struct Address {
    wire: &'static dyn Wire,
    location: Arc<str>,
}

/// Why a text is no address; whoever wrote it is at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no `WIRE:` in front.
    #[error("{text:?} is no address: it names no wire; write WIRE:WHERE, such as tcp:{text} ({})", known())]
    NoWire {
        /// What was parsed.
        text: String,
    },
    /// The wire is not one of those that this build has.
    #[error("{text:?} is no address: there is no wire {wire:?}; known are {}", known())]
    UnknownWire {
        /// What was parsed.
        text: String,
        /// What stood before the colon.
        wire: String,
    },
    /// What stands behind the colon is not what this wire expects.
    #[error("{text:?} is no address: {wrong}; expected {expected}")]
    Location {
        /// What was parsed.
        text: String,
        /// The part that is wrong, and how.
        wrong: String,
        /// The form that the wire expects.
        expected: &'static str,
    },
}

impl AddressError {
    /// What was parsed.
    pub fn text(&self) -> &str {
        match self {
            Self::NoWire { text } | Self::UnknownWire { text, .. } | Self::Location { text, .. } => text,
        }
    }
}

/// What functions accept as an address: an [`Address`], its text, or a [`SocketAddr`], which stands for kernel TCP.
pub trait ToAddress {
    /// The address.
    ///
    /// # Errors
    /// [`AddressError`] names the part of the text that is wrong.
    fn to_address(self) -> Result<Address, AddressError>;
}

impl Address {
    /// The wire's name: `tcp`, `unix`, `memory`.
    pub fn scheme(&self) -> &'static str {
        self.wire.scheme()
    }

    /// What stands behind the colon.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The IP address in its location (tcp, stack); `None` for host names and for wires without one.
    ///
    /// ```
    /// # use anywire_wire::Address;
    /// assert_eq!("tcp:[::1]:80".parse::<Address>()?.ip(), Some("::1".parse().unwrap()));
    /// assert_eq!("unix:/run/app.sock".parse::<Address>()?.ip(), None);
    /// # Ok::<(), anywire_wire::AddressError>(())
    /// ```
    pub fn ip(&self) -> Option<IpAddr> {
        self.wire.host_and_port(&self.location)?.0.parse().ok()
    }

    /// The port in its location (tcp, stack).
    pub fn port(&self) -> Option<u16> {
        self.wire.host_and_port(&self.location).map(|(_, port)| port)
    }

    /// Whether another process can reach what listens there.
    pub fn reaches_other_processes(&self) -> bool {
        self.wire.reaches_other_processes()
    }

    /// Where a URL without a wire of its own leads: this host and port over kernel TCP.
    ///
    /// # Errors
    /// [`AddressError::Location`] if the host is neither a name nor an IP address (without brackets).
    pub fn from_host(host: &str, port: u16) -> Result<Self, AddressError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let location = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Self::new(DEFAULT, &location)
    }

    pub(crate) fn wire(&self) -> &'static dyn Wire {
        self.wire
    }

    /// An address of a wire that checks `location` itself.
    pub(crate) fn new(wire: &'static dyn Wire, location: &str) -> Result<Self, AddressError> {
        match wire.normalise(location) {
            Ok(location) => Ok(Self { wire, location: location.into() }),
            Err(wrong) => Err(AddressError::Location {
                text: format!("{}:{location}", wire.scheme()),
                wrong,
                expected: wire.form(),
            }),
        }
    }

    /// An address whose location is known to be right: one that the system gave.
    pub(crate) fn known(wire: &'static dyn Wire, location: impl Into<Arc<str>>) -> Self {
        Self { wire, location: location.into() }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some((scheme, location)) = text.split_once(':') else {
            return Err(AddressError::NoWire { text: text.to_owned() });
        };
        let Some(wire) = wires().find(|wire| wire.scheme() == scheme) else {
            return Err(AddressError::UnknownWire { text: text.to_owned(), wire: scheme.to_owned() });
        };
        Self::new(wire, location)
    }
}

impl ToAddress for Address {
    fn to_address(self) -> Result<Address, AddressError> {
        Ok(self)
    }
}

impl ToAddress for &Address {
    fn to_address(self) -> Result<Address, AddressError> {
        Ok(self.clone())
    }
}

impl ToAddress for &str {
    fn to_address(self) -> Result<Address, AddressError> {
        self.parse()
    }
}

impl ToAddress for &String {
    fn to_address(self) -> Result<Address, AddressError> {
        self.parse()
    }
}

impl ToAddress for String {
    fn to_address(self) -> Result<Address, AddressError> {
        self.parse()
    }
}

impl ToAddress for SocketAddr {
    fn to_address(self) -> Result<Address, AddressError> {
        Ok(Address::known(DEFAULT, self.to_string()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme(), self.location)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.scheme() == other.scheme() && self.location == other.location
    }
}

impl Eq for Address {}

impl std::hash::Hash for Address {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.scheme().hash(state);
        self.location.hash(state);
    }
}

fn known() -> String {
    wires().map(|wire| format!("{}:", wire.scheme())).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn wrong(text: &str, part: &str) {
        let error = text.parse::<Address>().expect_err(text).to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn the_wrong_part_is_named() {
        wrong("8080", "names no wire");
        wrong("udp:1.2.3.4:5", "no wire \"udp\"");
        wrong("tcp:1.2.3.4", "port");
        wrong("tcp:1.2.3.4:99999", "\"99999\"");
        wrong("tcp:1.2.3.4:+80", "\"+80\"");
        wrong("tcp:1.2.3.4:", "\"\" is no port");
        wrong("tcp:::1:80", "brackets");
        wrong("tcp:[::1]80", "no port");
        wrong(&format!("tcp:{}:80", "x".repeat(254)), "no host name");
        wrong("tcp::80", "host");
        wrong("tcp:[::1:80", "\"[\"");
        wrong("tcp:[::g]:80", "\"::g\"");
        wrong("tcp:a b:80", "\"a b\"");
        wrong("unix:", "path is empty");
        wrong("unix:/a\0b", "NUL");
        wrong(&format!("unix:/{}", "x".repeat(107)), "108 bytes");
        wrong("unix:@", "name is empty");
        wrong("memory:", "name is empty");
        wrong(&format!("memory:{}", "x".repeat(256)), "256 bytes");
        wrong("", "names no wire");
        wrong("tcp:1.2.3.4", "such as 127.0.0.1:8080");
    }

    #[test]
    fn a_path_of_the_longest_length_is_taken() {
        assert!(format!("unix:/{}", "x".repeat(106)).parse::<Address>().is_ok());
    }

    #[test]
    fn equal_addresses_are_spelt_alike() {
        let spelt = |text: &str| text.parse::<Address>().expect(text).to_string();
        assert_eq!(spelt("tcp:[0:0:0:0:0:0:0:1]:80"), "tcp:[::1]:80");
        assert_eq!(spelt("tcp:EXAMPLE.com:080"), "tcp:example.com:80");
        assert_eq!(spelt("unix:@name"), "unix:@name");
        assert_eq!(Address::from_host("::1", 80).expect("an address").to_string(), "tcp:[::1]:80");
    }

    #[test]
    fn ip_and_port_are_told_where_there_are_some() {
        let told = |text: &str| {
            let address: Address = text.parse().expect(text);
            (address.ip().map(|ip| ip.to_string()), address.port())
        };
        assert_eq!(told("tcp:127.0.0.1:80"), (Some("127.0.0.1".to_owned()), Some(80)));
        assert_eq!(told("tcp:[fd00::1]:80"), (Some("fd00::1".to_owned()), Some(80)));
        assert_eq!(told("tcp:example.com:80"), (None, Some(80)));
        assert_eq!(told("stack:switch/10.0.0.2:80"), (Some("10.0.0.2".to_owned()), Some(80)));
        assert_eq!(told("unix:/run/10.0.0.2:80"), (None, None));
        assert_eq!(told("memory:127.0.0.1:80"), (None, None));
    }

    #[test]
    fn text_addresses_and_socket_addresses_name_one() {
        let address: Address = "tcp:127.0.0.1:80".parse().expect("an address");
        let socket = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(socket.to_address().as_ref(), Ok(&address));
        assert_eq!("tcp:127.0.0.1:80".to_address().as_ref(), Ok(&address));
        assert_eq!((&address).to_address().as_ref(), Ok(&address));
        assert_eq!(
            "tcp:127.0.0.1".to_address().map_err(|error| error.text().to_owned()),
            Err("tcp:127.0.0.1".to_owned())
        );
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "\\PC{0,120}") {
            let _ = text.parse::<Address>();
        }

        #[test]
        fn any_ip_address_and_port_is_one(ip: IpAddr, port: u16) {
            let expected = SocketAddr::new(ip, port).to_string();
            let address = Address::from_host(&ip.to_string(), port).expect("an address");
            prop_assert_eq!(address.location(), &expected);
            prop_assert_eq!(format!("tcp:{expected}").parse(), Ok(address));
        }

        #[test]
        fn a_name_is_spelt_in_small_letters(name in "[A-Za-z0-9_-]{1,20}(\\.[A-Za-z0-9-]{1,20}){0,3}", port: u16) {
            let address = Address::from_host(&name, port).expect("a host name");
            prop_assert_eq!(address.location(), format!("{}:{port}", name.to_ascii_lowercase()));
            prop_assert_eq!(Address::from_host(&name.to_ascii_uppercase(), port), Ok(address));
        }

        #[test]
        fn an_error_names_what_was_parsed(text in "[a-z]{0,8}:?[ -~]{0,30}") {
            if let Err(error) = text.parse::<Address>() {
                prop_assert!(error.to_string().contains(&format!("{text:?}")), "{}", error);
            }
        }

        #[test]
        fn what_is_shown_parses_to_the_same(location in "[a-z0-9./@\\[\\]:-]{0,30}") {
            for wire in wires() {
                if let Ok(address) = format!("{}:{location}", wire.scheme()).parse::<Address>() {
                    prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
                }
            }
        }
    }
}
