//! Network interfaces: what one is, and when it changes.
//!
//! [`NetworkInterface::find`] asks by `ioctl(2)`, which knows the network namespace of the thread; files under `/sys` do not.
//! [`InterfaceWatch`] hears from rtnetlink, and [`NeighbourMessages`] what other hosts on its link say of themselves.

#![allow(unsafe_code)]

mod neighbour_messages;
mod watch;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

pub use self::neighbour_messages::NeighbourMessages;
pub use self::watch::{InterfaceChange, InterfaceWatch};

/// What the kernel says of a network interface at this moment.
///
/// ```
/// use anywire_sys::network_interface::NetworkInterface;
///
/// let loopback = NetworkInterface::find("lo")?;
/// assert_eq!((loopback.index, loopback.mac), (1, None));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkInterface {
    /// Its name.
    pub name: String,
    /// Its index, which other calls take.
    pub index: u32,
    /// The longest IP packet, in bytes.
    pub mtu: u32,
    /// Its Ethernet address, if it is an Ethernet.
    pub mac: Option<[u8; 6]>,
    /// It was set up (`IFF_UP`).
    pub is_up: bool,
    /// It is up, and has a carrier (`IFF_RUNNING`).
    pub is_running: bool,
    /// Receive queues in use: at least 1.
    pub receive_queues: u32,
    /// Transmit queues in use: at least 1.
    pub transmit_queues: u32,
    /// The name of its driver, such as `veth`; empty if it does not tell.
    pub driver: String,
    /// It takes the VLAN tag out of a frame that it receives and notes it beside (`rx-vlan-offload`), where XDP does not see it.
    pub takes_out_vlan_tags: bool,
}

impl NetworkInterface {
    /// Finds an interface of this thread's network namespace by its name.
    ///
    /// # Errors
    ///
    /// `ENODEV` if there is none of this name. No other cause is known.
    pub fn find(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let index = netdevice::name_to_index(&socket, name)?;
        let asked = Asked { socket, name };
        // SAFETY: each request fills the field of the union that is read.
        let (mtu, flags, hardware) = unsafe {
            (
                asked.by(libc::SIOCGIFMTU)?.ifru_mtu,
                i32::from(asked.by(libc::SIOCGIFFLAGS)?.ifru_flags),
                asked.by(libc::SIOCGIFHWADDR)?.ifru_hwaddr,
            )
        };
        let mac = (hardware.sa_family == libc::ARPHRD_ETHER).then(|| {
            let bytes = hardware.sa_data.map(|byte| byte as u8);
            [bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]
        });
        let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
        // Drivers of one queue know no such request.
        if asked.ethtool(&mut channels).is_err() {
            channels = Channels { receive: 1, transmit: 1, ..Channels::default() };
        }
        let mut driver = Driver { command: ETHTOOL_GDRVINFO, name: [0; 32], rest: [0; 160] };
        let driver = match asked.ethtool(&mut driver) {
            Ok(()) => {
                driver.name.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect()
            }
            Err(_) => String::new(),
        };
        let mut flags_of_offloads = Value { command: ETHTOOL_GFLAGS, value: 0 };
        // A driver without ethtool has no offloads.
        let takes_out_vlan_tags =
            asked.ethtool(&mut flags_of_offloads).is_ok() && flags_of_offloads.value & ETH_FLAG_RXVLAN != 0;
        Ok(Self {
            name: name.to_owned(),
            index,
            mtu: mtu.max(0) as u32,
            mac,
            is_up: flags & libc::IFF_UP != 0,
            is_running: flags & libc::IFF_UP != 0 && flags & libc::IFF_RUNNING != 0,
            receive_queues: (channels.receive + channels.combined).max(1),
            transmit_queues: (channels.transmit + channels.combined).max(1),
            driver,
            takes_out_vlan_tags,
        })
    }
}

/// Asks about one interface.
struct Asked<'n> {
    socket: OwnedFd,
    /// Shorter than `IFNAMSIZ`.
    name: &'n str,
}

impl Asked<'_> {
    fn request(&self, data: libc::__c_anonymous_ifr_ifru) -> libc::ifreq {
        let mut name = [0; libc::IFNAMSIZ];
        for (place, byte) in name.iter_mut().zip(self.name.bytes()) {
            *place = byte as libc::c_char;
        }
        libc::ifreq { ifr_name: name, ifr_ifru: data }
    }

    /// One of the requests that point to nothing and fill the union.
    fn by(&self, request: libc::c_ulong) -> io::Result<libc::__c_anonymous_ifr_ifru> {
        // SAFETY: all zeroes are a value of each field of the union.
        let mut asked = self.request(unsafe { std::mem::zeroed() });
        self.call(request, &mut asked)?;
        Ok(asked.ifr_ifru)
    }

    fn ethtool<C: EthtoolCommand>(&self, command: &mut C) -> io::Result<()> {
        let data = libc::__c_anonymous_ifr_ifru { ifru_data: std::ptr::from_mut(command).cast() };
        self.call(libc::SIOCETHTOOL, &mut self.request(data))
    }

    fn call(&self, request: libc::c_ulong, asked: &mut libc::ifreq) -> io::Result<()> {
        // SAFETY: the socket is open, and these requests read and write an `ifreq`. The one for ethtool points to a command,
        // which is borrowed by the caller and is as long as the kernel takes commands of its number to be.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), request as _, std::ptr::from_mut(asked)) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// What the kernel fills for a command: its number is the first field.
trait EthtoolCommand {}

/// `struct ethtool_channels`.
#[derive(Default)]
#[repr(C)]
struct Channels {
    command: u32,
    /// The largest numbers of each.
    max: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

impl EthtoolCommand for Channels {}

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct Driver {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

impl EthtoolCommand for Driver {}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    value: u32,
}

impl EthtoolCommand for Value {}

const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETH_FLAG_RXVLAN: u32 = 1 << 8;
const _: () = assert!(size_of::<Channels>() == 36 && size_of::<Driver>() == 196 && size_of::<Value>() == 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known() {
        let loopback = NetworkInterface::find("lo").expect("each machine has it");
        assert_eq!((loopback.index, loopback.mac, loopback.receive_queues), (1, None, 1));
        assert!(loopback.mtu >= 1280 && !loopback.takes_out_vlan_tags, "{loopback:?}");
    }

    #[test]
    fn an_interface_that_is_not_there_is_enodev() {
        for name in ["no-such-0", "", "a-name-that-is-far-too-long", "lo\0"] {
            let error = NetworkInterface::find(name).expect_err("there is none");
            assert_eq!(error.raw_os_error(), Some(libc::ENODEV), "{name:?}");
        }
    }
}
