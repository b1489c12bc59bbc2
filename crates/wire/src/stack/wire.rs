//! The wire itself: how its addresses are spelt, and which device each of them is for.

use std::sync::atomic::{AtomicU16, Ordering};

use super::location::{self, DeviceName, Location};
use super::{device, switch};
use crate::address::Address;
use crate::dialer::DialOptions;
use crate::error::ListenError;
use crate::listener::ListenOptions;
use crate::wires::{Bound, Dialing, Wire};

/// TCP of our own.
pub(crate) struct Stack;

impl Wire for Stack {
    fn scheme(&self) -> &'static str {
        "stack"
    }

    fn summary(&self) -> &'static str {
        "TCP of our own, on a TAP device, by AF_XDP, or within one process"
    }

    fn form(&self) -> &'static str {
        "DEVICE/IP:PORT, such as stack:tap0/10.0.0.2:80, stack:xdp:eth0/[2001:db8::2]:80 or stack:switch/10.0.0.2:80"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        Location::parse(location).map(|location| location.to_string())
    }

    fn options(&self) -> &'static [&'static str] {
        location::OPTIONS
    }

    fn normalise_option(&self, location: &str, name: &str, value: &str) -> Result<String, String> {
        location::normalise_option(location, name, value)
    }

    fn host_and_port<'a>(&self, location: &'a str) -> Option<(&'a str, u16)> {
        crate::place::host_and_port(location.split_once('/')?.1)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let location = location_of(address);
        match location.device {
            DeviceName::Switch => switch::bind(self, address, location.address, options, loops),
            _ => device::bind(self, address, &location, options, loops),
        }
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        let location = location_of(address);
        match location.device {
            DeviceName::Switch => Box::pin(switch::dial(address, location.address, options)),
            _ => Box::pin(device::dial(address, location, options)),
        }
    }

    fn scratch(&'static self) -> Option<Address> {
        // Few addresses and many ports: a host keeps each address that it has listened at.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let port = 1024 + u16::from_be_bytes([0, low]);
        let scratch = Location { device: DeviceName::Switch, address: ([10, 254, 0, high], port).into() };
        Some(Address::from_wire(self, scratch.to_string()))
    }

    fn is_within_process(&self, location: &str) -> bool {
        Location::parse(location).is_ok_and(|location| location.device == DeviceName::Switch)
    }
}

/// Of an address that was normalised.
fn location_of(address: &Address) -> Location<'_> {
    Location::parse(address.location()).expect("an address of this wire is DEVICE/IP:PORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_stands_for_a_free_one() {
        let address = "stack:switch/10.1.0.1:0".parse::<Address>().expect("an address");
        let bound = Stack.bind(&address, &ListenOptions::default(), 1).expect("nobody listens there");
        assert!(location_of(&bound.local).address.port() >= 49_152, "{}", bound.local);
    }
}
