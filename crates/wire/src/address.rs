//! Addresses: `WIRE:WHERE`, such as `tcp:0.0.0.0:8080` or `unix:/run/app.sock?mode=660`.

mod error;

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

pub use self::error::AddressError;
use crate::wires::{DEFAULT, Wire, wires};

/// Where to listen or dial, and over which wire.
///
/// Parsing checks the form and gives equal addresses one spelling. It does not resolve names and opens nothing.
///
/// ```
/// use anywire_wire::Address;
///
/// let address: Address = "tcp:LocalHost:8080".parse()?;
/// assert_eq!(address.to_string(), "tcp:localhost:8080");
/// assert_eq!((address.scheme(), address.location()), ("tcp", "localhost:8080"));
/// # Ok::<(), anywire_wire::AddressError>(())
/// ```
///
/// # Zones
/// An IPv6 address of a link has the interface behind it, by name or number: `tcp:[fe80::1%eth0]:80`. The `%` may be written `%25`, as in
/// URLs. The interface is looked up when the address is listened on or dialled.
///
/// # Options
/// Behind a `?` stand options of the wire, `NAME=VALUE` with `&` between them:
///
/// | wire | option | means |
/// | --- | --- | --- |
/// | `unix`, `shm` | `mode=660` | mode of the socket file, in octal; set before anybody can connect (without it: by the umask) |
/// | `shm` | `ring=64k` | dialling: the size of each ring (64k); listening: the largest that is accepted (1m) |
/// | `shm` | `spin=20us` | how long a loop looks at its rings before it sleeps, up to 1ms (not at all) |
/// | `stack` on a device | `prefix=24` | listening: how many bits of the address name its network (24; with IPv6 64) |
/// | `stack` on a device | `from=10.0.0.2/24` | dialling: the address of this end, and its network (one that the loop listens at) |
/// | `stack` on a device | `gateway=10.0.0.1` | who takes packets for other networks (nobody) |
/// | `stack` on a device | `mac=02:00:00:00:00:01` | the address of this end's interface (the interface's; on TAP one made from the kernel's) |
///
/// Options that concern one end are ignored by the other one, so that both can be configured with the same text. A literal `?`
/// of a location is written `%3F`, and a `%` in front of `3F` or `25` is written `%25`.
///
/// ```
/// # use anywire_wire::Address;
/// let address: Address = "unix:/run/app.sock?mode=0660".parse()?;
/// assert_eq!((address.location(), address.option("mode")), ("/run/app.sock", Some("660")));
/// assert_eq!("unix:/run/why%3F".parse::<Address>()?.location(), "/run/why?");
/// # Ok::<(), anywire_wire::AddressError>(())
/// ```
#[derive(Clone)]
pub struct Address {
    wire: &'static dyn Wire,
    location: Arc<str>,
    /// As they are shown, sorted by name.
    options: Option<Arc<str>>,
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
    /// An address on this wire: how a wire of your own is named, since no text can name it. `location` is the part
    /// behind the colon, with options if the wire has some.
    ///
    /// # Errors
    /// [`AddressError::Location`] and [`AddressError::Option`] name the part that is wrong.
    pub fn on(wire: &'static dyn Wire, location: &str) -> Result<Self, AddressError> {
        let text = || format!("{}:{location}", wire.scheme());
        let (place, options) = match location.split_once('?') {
            Some((place, options)) => (place, Some(options)),
            None => (location, None),
        };
        let mut address = Self::at(wire, &unescape(place), text)?;
        if let Some(options) = options {
            let normal = normal_options(wire, &address.location, options);
            address.options =
                Some(normal.map_err(|wrong| AddressError::Option { text: text(), wrong })?.into());
        }
        Ok(address)
    }

    /// For wires: an address whose location comes from the wire itself, in its normal spelling and without options.
    pub fn from_wire(wire: &'static dyn Wire, location: impl Into<Arc<str>>) -> Self {
        Self { wire, location: location.into(), options: None }
    }

    /// The address of a URL that names no wire: this host and port over kernel TCP.
    ///
    /// # Errors
    /// [`AddressError::Location`] if the host is neither a name nor an IP address (without brackets). One of IPv6 may have a zone,
    /// as it is or as URLs have it: `fe80::1%eth0`, `fe80::1%25eth0`.
    pub fn from_host(host: &str, port: u16) -> Result<Self, AddressError> {
        let host = unescape(host.trim_start_matches('[').trim_end_matches(']'));
        let location = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Self::at(DEFAULT, &location, || format!("{}:{location}", DEFAULT.scheme()))
    }

    /// The same place on another wire, which has the same locations and options.
    #[cfg(feature = "tls")]
    pub(crate) fn with_wire(&self, wire: &'static dyn Wire) -> Self {
        Self { wire, ..self.clone() }
    }

    fn at(wire: &'static dyn Wire, location: &str, text: impl Fn() -> String) -> Result<Self, AddressError> {
        match wire.normalise(location) {
            Ok(location) => Ok(Self::from_wire(wire, location)),
            Err(wrong) => Err(AddressError::Location { text: text(), wrong, expected: wire.form() }),
        }
    }

    /// The same place with TLS around its wire, such as `tls:example.com:443` for `tcp:example.com:443`; itself if it has TLS
    /// already. `None` if this build has no TLS, or none around that wire.
    pub fn with_tls(&self) -> Option<Self> {
        if self.has_tls() {
            return Some(self.clone());
        }
        #[cfg(feature = "tls")]
        return crate::tls::Tls::of(self.wire).map(|tls| self.with_wire(tls));
        #[cfg(not(feature = "tls"))]
        return None;
    }

    /// Whether TLS is spoken there.
    pub fn has_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        return (self.wire as &dyn Any).is::<crate::tls::Tls>();
        #[cfg(not(feature = "tls"))]
        return false;
    }

    /// The wire.
    pub fn wire(&self) -> &'static dyn Wire {
        self.wire
    }

    /// The wire's name: `tcp`, `unix`, `memory`.
    pub fn scheme(&self) -> &'static str {
        self.wire.scheme()
    }

    /// The part behind the colon, without options and with `%3F` decoded.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// The value of an option.
    pub fn option(&self, name: &str) -> Option<&str> {
        let pairs = self.options.as_deref()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// The IP address in its location (tcp, stack), without a zone; `None` for host names and for wires without one.
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
        !self.wire.is_within_process(&self.location)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // `0.0.0.0:8080` and `localhost:8080` name a host where the wire should be.
        let is_host = |scheme: &str| scheme.contains(['.', '[']) || scheme == "localhost";
        let Some((scheme, location)) = text.split_once(':').filter(|(scheme, _)| !is_host(scheme)) else {
            return Err(AddressError::NoWire { text: text.to_owned() });
        };
        let Some(wire) = wires().find(|wire| wire.scheme() == scheme) else {
            return Err(AddressError::of_unknown(text, scheme));
        };
        Self::on(wire, location)
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
        Ok(Address::from_wire(DEFAULT, self.to_string()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme(), escape(&self.location))?;
        self.options.iter().try_for_each(|options| write!(f, "?{options}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        // By type, too: nothing keeps a wire of a user's own from having the name of another one.
        let wires = [self.wire, other.wire].map(|wire| (wire as &dyn Any).type_id());
        wires[0] == wires[1]
            && self.scheme() == other.scheme()
            && self.location == other.location
            && self.options == other.options
    }
}

impl Eq for Address {}

impl std::hash::Hash for Address {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.scheme().hash(state);
        self.location.hash(state);
    }
}

/// Checks options and sorts them by name; the error says which one is wrong.
fn normal_options(wire: &dyn Wire, location: &str, options: &str) -> Result<String, String> {
    let mut normal = BTreeMap::new();
    for option in options.split('&') {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !wire.options().contains(&name) {
            let known = match wire.options() {
                [] => "there are none for this wire".to_owned(),
                known => format!("known are {}", known.join(", ")),
            };
            return Err(format!("there is no option {name:?} ({known})"));
        }
        if normal.insert(name, wire.normalise_option(location, name, value)?).is_some() {
            return Err(format!("the option {name:?} stands twice"));
        }
    }
    let pairs: Vec<_> = normal.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    Ok(pairs.join("&"))
}

pub(crate) fn escape(location: &str) -> Cow<'_, str> {
    if !location.contains(['%', '?']) {
        return location.into();
    }
    let percents = location.replace("%25", "%2525").replace("%3F", "%253F").replace("%3f", "%253f");
    percents.replace('?', "%3F").into()
}

pub(crate) fn unescape(location: &str) -> Cow<'_, str> {
    if !location.contains('%') {
        return location.into();
    }
    location.replace("%3F", "?").replace("%3f", "?").replace("%25", "%").into()
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
    fn a_zone_is_kept_in_each_spelling() {
        let parse = |text: &str| text.parse::<Address>().expect(text);
        let address = parse("tcp:[fe80::1%25eth0]:80");
        assert_eq!(address, parse("tcp:[fe80::1%eth0]:80"));
        assert_eq!((address.location(), address.port()), ("[fe80::1%eth0]:80", Some(80)));
        assert_eq!(address.ip(), Some("fe80::1".parse().expect("an address")));
        for host in ["fe80::1%eth0", "fe80::1%25eth0", "[fe80::1%eth0]"] {
            assert_eq!(Address::from_host(host, 80).as_ref(), Ok(&address));
        }
        // Whatever its number is, what is shown can be read.
        for index in [1, 2, 25, 2525] {
            let shown = std::net::SocketAddrV6::new([0xfe80, 0, 0, 0, 0, 0, 0, 1].into(), 80, 0, index);
            let address = SocketAddr::from(shown).to_address().expect("an address");
            assert_eq!(parse(&address.to_string()), address);
            assert!(address.ip().is_some());
        }
    }

    #[test]
    fn the_wrong_part_is_named() {
        wrong("8080", "names no wire");
        wrong("localhost:80", "such as tcp:localhost:80");
        wrong("[::1]:80", "such as tcp:[::1]:80");
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
        wrong("tcp:[fe80::1%25]:80", "%2525");
        wrong("tcp:[fe80::1%a b]:80", "\"a b\"");
        wrong("tcp:a b:80", "\"a b\"");
        wrong("unix:", "path is empty");
        wrong("unix:/a\0b", "NUL");
        wrong(&format!("unix:/{}", "x".repeat(107)), "108 bytes");
        wrong("unix:@", "name is empty");
        wrong("unix:/a?mod=660", "no option \"mod\" (known are mode)");
        wrong("unix:/a?mode=660&mode=600", "stands twice");
        wrong("unix:/a?mode=rw", "\"rw\"");
        wrong("unix:/a?mode", "\"\" is no mode");
        wrong("unix:/a?mode=10000", "\"10000\"");
        wrong("unix:/a?mode=+660", "\"+660\"");
        wrong("unix:@a?mode=660", "has no file");
        wrong("unix:/a?", "no option \"\"");
        wrong("tcp:1.2.3.4:80?mode=660", "none for this wire");
        wrong("memory:why?", "%3F");
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
        assert_eq!(spelt("unix:/a?mode=0660"), "unix:/a?mode=660");
        assert_eq!(spelt("unix:/a%3fb%25c%253Fd"), "unix:/a%3Fb%c%253Fd");
        for host in ["::1", "[::1]"] {
            assert_eq!(Address::from_host(host, 80).expect("an address").to_string(), "tcp:[::1]:80");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn an_address_keeps_its_place_with_tls() {
        let with_tls = |text: &str| {
            let address: Address = text.parse().expect(text);
            address.with_tls().map(|address| (address.has_tls(), address.to_string()))
        };
        let tls = |text: &str| Some((true, text.to_owned()));
        assert_eq!(with_tls("tcp:localhost:80"), tls("tls:localhost:80"));
        assert_eq!(with_tls("unix:/a?mode=600"), tls("tls+unix:/a?mode=600"));
        assert_eq!(with_tls("tls+memory:a"), tls("tls+memory:a"));
        assert!(!"tcp:localhost:80".parse::<Address>().expect("an address").has_tls());
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
        #[cfg(feature = "stack")]
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

    /// Has the name of another wire, and no more.
    struct Impostor(&'static str);

    impl Wire for Impostor {
        fn scheme(&self) -> &'static str {
            self.0
        }
        fn summary(&self) -> &'static str {
            "another one"
        }
        fn form(&self) -> &'static str {
            "anything"
        }
        fn normalise(&self, location: &str) -> Result<String, String> {
            Ok(location.to_owned())
        }
        fn bind(
            &'static self,
            address: &Address,
            _: &crate::ListenOptions,
            _: usize,
        ) -> Result<crate::Bound, crate::ListenError> {
            Err(crate::ListenError::InUse { address: address.clone() })
        }
        fn dial<'a>(&'static self, address: &'a Address, _: &'a crate::DialOptions) -> crate::Dialing<'a> {
            Box::pin(async { Err(crate::DialError::Refused { address: address.clone() }) })
        }
        fn scratch(&'static self) -> Option<Address> {
            None
        }
    }

    #[test]
    fn options_are_part_of_what_is_compared() {
        let address = |text: &str| text.parse::<Address>().expect(text);
        assert_ne!(address("unix:/a?mode=600"), address("unix:/a?mode=660"));
        assert_ne!(address("unix:/a?mode=600"), address("unix:/a"));
    }

    #[test]
    fn a_wire_of_ones_own_is_no_other_wire() {
        let own = Address::on(&Impostor("memory"), "name").expect("anything will do");
        assert_eq!(own.to_string(), "memory:name");
        assert_eq!(Address::on(&Impostor("memory"), "name").as_ref(), Ok(&own));
        assert_ne!("memory:name".parse().as_ref(), Ok(&own));
        // A type may make several wires.
        assert_ne!(Address::on(&Impostor("other"), "name").as_ref(), Ok(&own));
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
        fn what_is_shown_parses_to_the_same(location in "([a-z0-9./@\\[\\]:?-]|%|%25|%3F|%3f){0,30}(\\?mode=[0-7]{1,3})?") {
            for wire in wires() {
                if let Ok(address) = format!("{}:{location}", wire.scheme()).parse::<Address>() {
                    prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
                }
            }
        }
    }
}
