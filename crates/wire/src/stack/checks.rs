//! What must hold of a device and an address before anything listens or dials there.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anywire_advice::Message;
use anywire_loops::{LoopHandle, LoopId};
use anywire_stack::device::Device;
use anywire_stack::ip::{Probing, who_has};
use anywire_stack::shards::{Cidr, Mac, Shards};
use anywire_stack::xdp::Wanted;
use anywire_sys::martian::is_directed_broadcast;
use anywire_sys::network_interface::NetworkInterface;

use super::host::{DeviceHost, mac_of_engine};
use super::location::DeviceName;
use super::{inspect, registry};

/// Checks an address on a device that no loop has yet: packets fit, the kernel does not have it, and nobody on the link answers to it.
/// The last takes 0.2 to 0.3 s, and happens once for an address. On a device that runs already, the loop that has it asks.
pub(super) fn ask_parked(device: &DeviceName<'_>, address: IpAddr) -> io::Result<()> {
    let name = device.to_string();
    registry::check_address(&name, address)?;
    registry::with_parked(device, |shards, queues| {
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

/// Has a loop that runs on a device take an address there, so that a fault in it is told at once: the present one if it has the device, or
/// else another one. Does nothing if no loop has it, or if those that have it wait here themselves: the listener finds out then.
///
/// # Errors
/// Those of [`DeviceHost::join`]; `TimedOut` if a loop is held up for two seconds.
pub(super) fn ask_running(device: &str, own: Cidr, gateway: Option<IpAddr>) -> io::Result<()> {
    // Two loops that asked each other would wait for each other.
    if let Some(host) = DeviceHost::running(device) {
        return host.join_blocking(own, gateway, PATIENCE);
    }
    let waiting = Waiting::begin();
    for other in inspect::loops(Some(device)) {
        if waiting.would_be_for_ever(&other.on) {
            continue;
        }
        let (tell, told) = mpsc::channel();
        let (waits, named) = (Arc::new(()), device.to_owned());
        let is_waited_for = Arc::downgrade(&waits);
        drop(other.on.spawn(move || async move {
            // The address of a listener that has failed meanwhile is nobody's.
            if let Some(host) = DeviceHost::running(&named)
                && is_waited_for.strong_count() > 0
            {
                // An error: nobody waits any longer.
                let _ = tell.send(host.join(own, gateway).await);
            }
        }));
        match told.recv_timeout(PATIENCE) {
            Ok(taken) => return taken,
            Err(RecvTimeoutError::Timeout) => return Err(held_up(device, other.on.id())),
            // It has ended meanwhile, and another one may run.
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }
    Ok(())
}

/// The loops that wait for another one, which take no jobs meanwhile.
static WAITING: Mutex<Vec<LoopHandle>> = Mutex::new(Vec::new());

/// The present loop, if one calls, is among those that wait until this is dropped.
struct Waiting(Option<LoopHandle>);

impl Waiting {
    fn begin() -> Self {
        let current = anywire_loops::current();
        all_waiting().extend(current.clone());
        Self(current)
    }

    /// Whether a loop waits as well, for us perhaps, or for one that does. Of loops that wait in a circle, the last to begin sees that the
    /// next one waits. No loop waits for a thread that is none.
    fn would_be_for_ever(&self, other: &LoopHandle) -> bool {
        self.0.is_some() && all_waiting().iter().any(|waiting| waiting.same_as(other))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = all_waiting();
        let own = self.0.as_ref().and_then(|own| all.iter().position(|other| other.same_as(own)));
        own.into_iter().for_each(|own| _ = all.swap_remove(own));
    }
}

fn all_waiting() -> MutexGuard<'static, Vec<LoopHandle>> {
    // Nothing panics while the lock is held.
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The loop that was to take an address has not said whether it could.
fn held_up(device: &str, by: LoopId) -> io::Error {
    let what = format!(
        "loop {by}, which has {device}, has not said within {PATIENCE:?} whether the address is free"
    );
    let help = "try again; if it lasts, look for what holds the loop up: `anywire stack stat`";
    io::Error::new(io::ErrorKind::TimedOut, Message::new(what).with_help(help))
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

/// Checks that a host can have this address in its network, and reach others by this gateway.
pub(super) fn can_be_ours(own: Cidr, gateway: Option<IpAddr>) -> io::Result<()> {
    let (ip, network) = (own.address(), own.network());
    let wrong = |what: String, help: &str| {
        let message = Message::new(what).with_help(help);
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    };
    if let IpAddr::V4(address) = ip
        && own.prefix() <= 30
    {
        let help = "choose another address, or give the length of the prefix";
        if network.address() == ip {
            return wrong(
                format!("{ip} is the address of the network {network} itself, and no host's"),
                help,
            );
        }
        if is_directed_broadcast(address.to_bits(), own.prefix()) {
            return wrong(
                format!("{ip} is the broadcast address of the network {network}, and no host's"),
                help,
            );
        }
    }
    let Some(gateway) = gateway else { return Ok(()) };
    if gateway == ip {
        return wrong(format!("the gateway {gateway} is the own address"), "name the router of the network");
    }
    // A network of one address has its gateway elsewhere, as some clouds have it.
    let is_alone = own == Cidr::host(ip);
    if !is_alone && !network.contains(gateway) {
        let what =
            format!("the gateway {gateway} is outside of the network {network}, and cannot be reached");
        return wrong(what, "name a router within it, or give the length of the prefix");
    }
    Ok(())
}

/// Checks that the interface of a device was set up: nothing comes and nothing leaves before. AF_XDP says so itself.
pub(super) fn is_up(device: &DeviceName<'_>) -> io::Result<()> {
    let DeviceName::Tap(name) = device else { return Ok(()) };
    match NetworkInterface::find(name) {
        Ok(interface) if !interface.is_up => {
            let message = Message::new(format!("the network interface {name} is down"));
            let message = message.with_help(format!("`ip link set {name} up`"));
            Err(io::Error::new(io::ErrorKind::NetworkDown, message))
        }
        // If it is not there, opening it says so.
        _ => Ok(()),
    }
}

/// Checks that an address for the engines on an interface that the kernel uses as well is the interface's: the card would take frames for
/// another one for those of other hosts, and nothing would arrive.
pub(super) fn is_mac_of(interface: &NetworkInterface, asked: Option<Mac>) -> io::Result<()> {
    let (Some(asked), Some(own)) = (asked, interface.mac.map(Mac::new)) else { return Ok(()) };
    // One end of a veth gets whatever the other one sends.
    if asked == own || interface.driver == "veth" {
        return Ok(());
    }
    let name = &interface.name;
    let message =
        Message::new(format!("{name} receives frames for its own address {own} alone, not for mac={asked}"));
    let help = format!(
        "leave mac= out, or give the interface this address (`ip link set dev {name} address {asked}`)"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message.with_help(help)))
}

/// What to say of an interface that hides VLAN tags from XDP: frames of other VLANs to our addresses would count as untagged.
pub(super) fn hidden_vlans(interface: &NetworkInterface) -> Option<Message> {
    if !interface.takes_out_vlan_tags {
        return None;
    }
    let name = &interface.name;
    let message = format!(
        "{name} takes VLAN tags out of frames before XDP sees them, so frames of any VLAN to our addresses come here"
    );
    let peer =
        if interface.driver == "veth" { ", and `ethtool -K PEER txvlan off` for its peer" } else { "" };
    let help = format!("if VLANs reach this interface, `ethtool -K {name} rxvlan off`{peer}");
    Some(Message::new(message).with_help(help))
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

/// How long a loop has to find out whether somebody has an address, which takes it 0.3 s.
const PATIENCE: Duration = Duration::from_secs(2);

/// What each host on IPv4 can receive (RFC 1122 3.3.3). Less on a link means segments of a few bytes.
const MTU_LEAST_V4: usize = 576;
/// RFC 8200 section 5.
const MTU_LEAST_V6: usize = 1280;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_gateways_are_those_of_hosts() {
        let check = |own: &str, gateway: &str| {
            let (ip, prefix) = own.split_once('/').expect("a prefix");
            let own = Cidr::new(ip.parse().expect("an address"), prefix.parse().expect("a number"));
            can_be_ours(own.expect("a prefix of its family"), gateway.parse().ok())
        };
        for (own, gateway) in [
            ("10.0.0.1/24", ""),
            ("10.0.0.0/31", ""),
            ("10.0.0.1/31", "10.0.0.0"),
            ("10.0.0.255/23", "10.0.1.1"),
            ("10.0.0.5/32", "10.9.0.1"),
            ("fd00::/64", "fd00::1"),
        ] {
            assert!(check(own, gateway).is_ok(), "{own} {gateway}");
        }
        for (own, gateway, part) in [
            ("10.0.0.0/24", "", "of the network 10.0.0.0/24 itself"),
            ("10.0.0.255/24", "", "broadcast"),
            ("10.0.0.5/24", "10.0.0.5", "own address"),
            ("10.0.0.5/24", "10.0.1.1", "outside of the network 10.0.0.0/24"),
            ("fd00::5/64", "fd01::1", "outside"),
        ] {
            let said = check(own, gateway).expect_err(own).to_string();
            assert!(said.contains(part), "{said}");
        }
    }

    /// An interface of the kernel, as it is found.
    fn interface() -> NetworkInterface {
        let mut interface = NetworkInterface::find("lo").expect("each machine has it");
        (interface.name, interface.mac) = ("eth0".into(), Some([2, 0, 0, 0, 0, 1]));
        interface
    }

    #[test]
    fn a_card_receives_for_its_own_mac_alone() {
        let [own, other] = [1, 9].map(|last| Mac::new([2, 0, 0, 0, 0, last]));
        for asked in [None, Some(own)] {
            is_mac_of(&interface(), asked).expect("it is the interface's");
        }
        let refused = is_mac_of(&interface(), Some(other)).expect_err("nothing would arrive");
        let said = refused.to_string();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        assert!(said.contains("eth0") && said.contains("02:00:00:00:00:09"), "{said}");
        let veth = NetworkInterface { driver: "veth".into(), ..interface() };
        is_mac_of(&veth, Some(other)).expect("it takes all that its other end sends");
    }

    #[test]
    fn a_card_that_hides_vlans_is_told_of() {
        let mut card = interface();
        assert!(hidden_vlans(&card).is_none());
        card.takes_out_vlan_tags = true;
        let said = hidden_vlans(&card).expect("it hides them").to_string();
        assert!(said.contains("`ethtool -K eth0 rxvlan off`") && !said.contains("txvlan"), "{said}");
        card.driver = "veth".into();
        let said = hidden_vlans(&card).expect("it hides them").to_string();
        assert!(said.contains("`ethtool -K PEER txvlan off`"), "{said}");
    }

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
