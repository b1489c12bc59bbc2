//! `DEVICE/IP:PORT` and its options: which device, and where on it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;

use anywire_stack::mesh;
use anywire_stack::shards::{Cidr, Mac};
use anywire_stack::stream::Polling;
use anywire_sys::martian::is_martian;

use crate::address::Address;

/// What carries the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceName<'l> {
    /// The network between the loops of this process.
    Switch,
    /// A TAP device: an Ethernet interface whose other end is the kernel's.
    Tap(&'l str),
    /// An interface of the kernel's, of which AF_XDP hands some frames to us.
    Xdp(&'l str),
}

/// The parts of a location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location<'l> {
    pub(super) device: DeviceName<'l>,
    pub(super) address: SocketAddr,
}

impl<'l> Location<'l> {
    /// Reads a location; the error says which part is wrong.
    pub(super) fn parse(location: &'l str) -> Result<Self, String> {
        let Some((device, address)) = location.split_once('/') else {
            return Err("there is no \"/\" behind the device".to_owned());
        };
        let device = DeviceName::parse(device)?;
        if address.contains('%') {
            return Err(format!("{address:?} has a zone: leave it out, because the device says the link"));
        }
        let address: SocketAddr =
            address.parse().map_err(|_| format!("{address:?} is no IP address and port"))?;
        let ip = address.ip();
        if is_martian(ip) {
            return Err(format!("{ip} is not the address of one host"));
        }
        if device == DeviceName::Switch && mesh::is_of_endpoints(ip) {
            return Err(format!("{ip} is one of those that the switch gives to who dials"));
        }
        Ok(Self { device, address })
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.device, self.address)
    }
}

impl<'l> DeviceName<'l> {
    pub(super) fn parse(device: &'l str) -> Result<Self, String> {
        if device == SWITCH {
            return Ok(Self::Switch);
        }
        let (kind, name): (fn(&'l str) -> Self, _) = match device.split_once(':') {
            None | Some(("tap", _)) => (Self::Tap, device.strip_prefix("tap:").unwrap_or(device)),
            Some(("xdp", name)) => (Self::Xdp, name),
            Some((kind, _)) => {
                return Err(format!("there is no device of the kind {kind:?}, only \"tap\" and \"xdp\""));
            }
        };
        // As the kernel has it (`dev_valid_name`).
        let is_of_name = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':');
        if name.is_empty()
            || name.len() > NAME_BYTES
            || !name.bytes().all(is_of_name)
            || [".", ".."].contains(&name)
        {
            return Err(format!(
                "{name:?} is no name of an interface (1 to {NAME_BYTES} letters, such as tap0)"
            ));
        }
        Ok(kind(name))
    }
}

impl fmt::Display for DeviceName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str(SWITCH),
            Self::Tap(name) if *name == SWITCH => write!(f, "tap:{name}"),
            Self::Tap(name) => f.write_str(name),
            Self::Xdp(name) => write!(f, "xdp:{name}"),
        }
    }
}

/// The options of addresses on devices.
pub(super) const OPTIONS: &[&str] = &["from", "gateway", "mac", "poll", "prefix"];

/// What the options of an address say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    /// The own address to dial from.
    pub(super) from: Option<Cidr>,
    pub(super) gateway: Option<IpAddr>,
    pub(super) mac: Option<Mac>,
    pub(super) polling: Option<Polling>,
    /// The length of the prefix of the address to listen at.
    pub(super) prefix: Option<u8>,
}

impl Options {
    /// Those of an address whose port is at this IP address.
    pub(super) fn of(address: &Address, ip: IpAddr) -> io::Result<Self> {
        let read = |name| address.option(name);
        let wrong = |fault: String| io::Error::new(io::ErrorKind::InvalidInput, fault);
        Ok(Self {
            from: read("from").map(own_address).transpose().map_err(wrong)?,
            gateway: read("gateway").map(gateway).transpose().map_err(wrong)?,
            mac: read("mac").map(mac).transpose().map_err(wrong)?,
            polling: read("poll").map(polling).transpose().map_err(wrong)?,
            prefix: read("prefix").map(|text| prefix(text, ip)).transpose().map_err(wrong)?,
        })
    }
}

/// Checks an option of an address at this location, and gives the one spelling of its value.
pub(super) fn normalise_option(location: &str, name: &str, value: &str) -> Result<String, String> {
    let Location { device, address } = Location::parse(location)?;
    if device == DeviceName::Switch {
        return Err(format!("the switch has no option {name:?}: it knows all of its hosts"));
    }
    let of_family = |ip: IpAddr| match ip.is_ipv4() == address.is_ipv4() && !is_martian(ip) {
        true => Ok(ip),
        false => Err(format!("{name}={value}: {ip} is no host that can talk to {}", address.ip())),
    };
    match name {
        "from" => own_address(value).and_then(|own| of_family(own.address()).map(|_| own.to_string())),
        "gateway" => gateway(value).and_then(|ip| of_family(ip).map(|ip| ip.to_string())),
        "mac" => mac(value).map(|mac| mac.to_string()),
        "poll" => polling(value).map(|_| value.to_owned()),
        _ => prefix(value, address.ip()).map(|prefix| prefix.to_string()),
    }
}

fn gateway(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is no IP address of a gateway"))
}

fn mac(text: &str) -> Result<Mac, String> {
    let mac: Mac = text.parse().map_err(|_| format!("{text:?} is no address such as 02:00:00:00:00:01"))?;
    if mac.is_group() {
        return Err(format!("{mac} is the address of a group, and no interface's"));
    }
    if mac == Mac::new([0; 6]) {
        return Err(format!("{mac} is no interface's address"));
    }
    Ok(mac)
}

/// How a loop waits for the device.
fn polling(text: &str) -> Result<Polling, String> {
    match text {
        "adaptive" => Ok(Polling::Adaptive),
        "sleep" => Ok(Polling::Sleep),
        "spin" => Ok(Polling::Spin),
        _ => Err(format!("{text:?} is no way to wait, only \"adaptive\", \"sleep\" and \"spin\"")),
    }
}

/// `IP` or `IP/PREFIX`.
fn own_address(text: &str) -> Result<Cidr, String> {
    let (ip, length) = text.split_once('/').map_or((text, None), |(ip, length)| (ip, Some(length)));
    // In brackets as in front of a port.
    let bare = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).filter(|ip| ip.contains(':'));
    let ip: IpAddr = bare.unwrap_or(ip).parse().map_err(|_| format!("{ip:?} is no IP address"))?;
    let length = length.map_or(Ok(default_prefix(ip)), |length| prefix(length, ip))?;
    Cidr::new(ip, length).map_err(|wrong| wrong.to_string())
}

/// What a network has that nothing is said about.
pub(super) const fn default_prefix(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 24 } else { 64 }
}

fn prefix(text: &str, ip: IpAddr) -> Result<u8, String> {
    let bits = if ip.is_ipv4() { 32 } else { 128 };
    let length = text.parse::<NonZeroU8>().ok().map(NonZeroU8::get).filter(|length| *length <= bits);
    length
        .filter(|_| !text.starts_with('+'))
        .ok_or_else(|| format!("{text:?} is no length of a prefix (1 to {bits})"))
}

/// The device that is no interface.
const SWITCH: &str = "switch";

/// The longest name of an interface (`IFNAMSIZ`, without the NUL).
const NAME_BYTES: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn wrong(location: &str, part: &str) {
        let said = Location::parse(location).expect_err(location);
        assert!(said.contains(part), "{said}");
    }

    #[test]
    fn the_wrong_part_is_named() {
        wrong("10.0.0.2:80", "\"/\"");
        wrong("eth:tap0/10.0.0.2:80", "\"eth\"");
        wrong("xdp:/10.0.0.2:80", "\"\"");
        wrong("tap:a:b/10.0.0.2:80", "\"a:b\"");
        wrong("sixteen-letters-/10.0.0.2:80", "\"sixteen-letters-\"");
        wrong("../10.0.0.2:80", "\"..\"");
        wrong("switch/10.0.0.2", "\"10.0.0.2\"");
        wrong("tap0/host:80", "\"host:80\"");
        wrong("switch/0.0.0.0:80", "0.0.0.0");
        wrong("tap0/127.0.0.1:80", "127.0.0.1");
        wrong("switch/[ff02::1]:80", "ff02::1");
        wrong("switch/10.255.0.1:80", "who dials");
        wrong("tap0/[fe80::2%3]:80", "zone");
        wrong("switch/[fe80::2%3]:80", "zone");
        wrong("tap0/[fe80::2%eth0]:80", "zone");
    }

    #[test]
    fn equal_locations_are_spelt_alike() {
        for (location, normal) in [
            ("switch/10.0.0.2:80", "switch/10.0.0.2:80"),
            ("switch/[fd00:0::0:2]:80", "switch/[fd00::2]:80"),
            ("tap:tap0/10.0.0.2:80", "tap0/10.0.0.2:80"),
            ("tap0/10.0.0.2:80", "tap0/10.0.0.2:80"),
            // Which the switch gives to nobody there.
            ("tap0/10.255.0.1:80", "tap0/10.255.0.1:80"),
            ("tap:switch/10.0.0.2:80", "tap:switch/10.0.0.2:80"),
            ("xdp:eth0/[2001:0db8::2]:443", "xdp:eth0/[2001:db8::2]:443"),
        ] {
            let spelt = Location::parse(location).map(|location| location.to_string());
            assert_eq!(spelt.as_deref(), Ok(normal));
            assert_eq!(Location::parse(normal).map(|location| location.to_string()).as_deref(), Ok(normal));
        }
    }

    #[test]
    fn options_are_of_devices_and_of_one_family() {
        let normal = |name, value| normalise_option("tap0/10.0.0.1:80", name, value);
        assert_eq!(normal("from", "10.0.0.2").as_deref(), Ok("10.0.0.2/24"));
        assert_eq!(normal("from", "10.0.0.2/016").as_deref(), Ok("10.0.0.2/16"));
        assert_eq!(normal("gateway", "10.0.0.254").as_deref(), Ok("10.0.0.254"));
        assert_eq!(normal("mac", "02-00-00-00-00-0A").as_deref(), Ok("02:00:00:00:00:0a"));
        assert_eq!(normal("prefix", "24").as_deref(), Ok("24"));
        assert_eq!(normal("poll", "spin").as_deref(), Ok("spin"));
        for (name, value, part) in [
            ("from", "10.0.0.2/33", "\"33\""),
            ("from", "fd00::2", "fd00::2"),
            ("from", "127.0.0.1", "127.0.0.1"),
            ("gateway", "router", "\"router\""),
            ("gateway", "fe80::1", "fe80::1"),
            ("mac", "10.0.0.1", "\"10.0.0.1\""),
            ("mac", "01:00:5e:00:00:01", "group"),
            ("mac", "00:00:00:00:00:00", "no interface"),
            ("from", "[10.0.0.2]", "[10.0.0.2]"),
            ("prefix", "0", "\"0\""),
            ("prefix", "+8", "\"+8\""),
            ("poll", "busy", "\"busy\""),
            ("poll", "", "\"\""),
        ] {
            let said = normal(name, value).expect_err(value);
            assert!(said.contains(part), "{said}");
        }
        let bracketed = normalise_option("tap0/[fd00::1]:80", "from", "[fd00::2]/64");
        assert_eq!(bracketed.as_deref(), Ok("fd00::2/64"));
        assert!(
            normalise_option("switch/10.0.0.1:80", "prefix", "24").is_err_and(|said| said.contains("switch"))
        );
    }
}
