//! What must hold of a device and an address before anything listens or dials there.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;

use anywire_advice::Message;
use anywire_stack::device::Device;
use anywire_stack::ip::{Probing, who_has};
use anywire_stack::shards::{Mac, Shards};
use anywire_stack::xdp::Wanted;

use super::devices;
use super::host::mac_of_engine;
use super::location::DeviceName;

/// Checks an address on a device that no loop has yet: packets fit, the kernel does not have it, and nobody on the link answers to it.
/// The last takes 0.2 to 0.3 s, and happens once for an address. On a device that runs already, the loop that has it asks.
pub(super) fn before_start(device: &DeviceName<'_>, address: IpAddr) -> io::Result<()> {
    let name = device.to_string();
    devices::check_address(&name, address)?;
    devices::with_parked(device, |shards, queues| {
        fits(&name, shards.capabilities().mtu, address)?;
        if shards.is_free(address) {
            return Ok(());
        }
        if let Some(by) = ask(&name, shards, queues, address)? {
            return Err(taken(&name, address, by));
        }
        shards.note_free(address);
        Ok(())
    })
}

fn ask(
    name: &str,
    shards: &Shards,
    queues: &mut [Box<dyn Device + Send>],
    address: IpAddr,
) -> io::Result<Option<Mac>> {
    // Answers come to us for as long as this is held.
    let claim = shards.attachment().map(|attachment| attachment.claim(Wanted::Address(address)));
    let _claim = claim.transpose().map_err(io::Error::other)?;
    let mac = mac_of_engine(name, None, shards.capabilities());
    let seed = RandomState::new().hash_one(name);
    who_has(queues, mac, address, Probing::LOCAL, seed)
}

/// Checks that the least packet that every host must be able to send fits through a device.
pub(super) fn fits(device: &str, mtu: usize, address: IpAddr) -> io::Result<()> {
    let (least, family) = if address.is_ipv4() { (MTU_LEAST_V4, "IPv4") } else { (MTU_LEAST_V6, "IPv6") };
    if mtu >= least {
        return Ok(());
    }
    let message = Message::new(format!("the MTU of {device} is {mtu}, and {family} needs {least} here"));
    let name = device.strip_prefix("xdp:").or(device.strip_prefix("tap:")).unwrap_or(device);
    let message = message.with_help(format!("`ip link set dev {name} mtu {}`", 1500));
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Somebody on the link has the address.
pub(super) fn taken(device: &str, address: IpAddr, by: Mac) -> io::Error {
    let message = Message::new(format!("{by} has the address {address} on {device}"));
    io::Error::new(io::ErrorKind::AddrInUse, message.with_help("choose one that is free"))
}

/// What each host on IPv4 can receive (RFC 1122 3.3.3). Less on a link means segments of a few bytes.
const MTU_LEAST_V4: usize = 576;
/// RFC 8200 section 5.
const MTU_LEAST_V6: usize = 1280;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_mtu_is_that_of_the_family() {
        let [v4, v6]: [IpAddr; 2] = [[10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into()];
        for (mtu, address, fit) in [(575, v4, false), (576, v4, true), (1279, v6, false), (1280, v6, true)] {
            assert_eq!(fits("tap0", mtu, address).is_ok(), fit, "{mtu} {address}");
        }
        let said = fits("xdp:eth0", 68, v6).expect_err("it is less").to_string();
        assert!(said.contains("xdp:eth0 is 68, and IPv6 needs 1280"), "{said}");
    }
}
