//! The XDP program on an interface, shared by all loops of the process, and what it sends to them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anywire_packet::ndp::solicited_node;
use anywire_sys::bpf::{AttachMode, Program, XdpLink};
use anywire_sys::network_interface::NetworkInterface;
use rustix::io::Errno;

use super::error::OpenError;
use super::program::{Maps, Verdict, load};

/// Keeps our XDP program attached to an interface. The last clone of the `Arc`, a [`Claim`] or an [`Xdp`](super::Xdp) detaches it.
/// So does the end of the process, however it comes, because the kernel drops the program's link with its descriptor.
#[derive(Debug)]
pub struct Attachment {
    pub(super) interface: NetworkInterface,
    pub(super) maps: Maps,
    link: XdpLink,
    mode: AttachMode,
    /// Why it is not the native mode.
    native_refusal: Option<OpenError>,
    /// How often each is claimed.
    claims: Mutex<HashMap<Wanted, usize>>,
    /// The member of solicited-node groups, of the network namespace of the interface. Empty while the kernel has no IPv6 or
    /// no descriptor for it. Closing it leaves them all.
    groups: OnceLock<UdpSocket>,
    // Kept while it is attached, though the link alone would keep it.
    _program: Program,
}

impl Attachment {
    /// Attaches the program to an interface of this thread's network namespace. Until something is
    /// [claimed](Self::claim), all packets go to the kernel as before.
    ///
    /// # Errors
    ///
    /// Each [`OpenError`] says what would help: the interface is not there, is down or is no Ethernet, this process may not, the
    /// kernel has no AF_XDP, another program is attached, or the driver refuses the mode that was demanded.
    pub fn attach(name: &str, wanted: WantedMode) -> Result<Arc<Self>, OpenError> {
        let interface = find(name)?;
        let maps = Maps::new(interface.receive_queues).map_err(OpenError::system("making BPF maps"))?;
        let program = load(&maps, [Verdict::Pass; 2]).map_err(OpenError::of_load)?;
        let attach = |mode| {
            patiently(
                || {
                    program
                        .attach_xdp(interface.index, mode)
                        .map_err(|source| OpenError::of_attach(name, source))
                },
                |error| matches!(error, OpenError::AnotherProgram { .. }),
            )
        };
        let (link, mode, native_refusal) = match wanted {
            WantedMode::Native => (attach(AttachMode::Native)?, AttachMode::Native, None),
            WantedMode::Generic => (attach(AttachMode::Generic)?, AttachMode::Generic, None),
            WantedMode::Any => match attach(AttachMode::Native) {
                Ok(link) => (link, AttachMode::Native, None),
                Err(refusal @ (OpenError::AnotherProgram { .. } | OpenError::NotPermitted { .. })) => {
                    return Err(refusal);
                }
                Err(refusal) => (attach(AttachMode::Generic)?, AttachMode::Generic, Some(refusal)),
            },
        };
        Ok(Arc::new(Self {
            interface,
            maps,
            link,
            mode,
            native_refusal,
            claims: Mutex::default(),
            groups: UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
                .map_or_else(|_| OnceLock::new(), OnceLock::from),
            _program: program,
        }))
    }

    /// Sends packets to the stack from now on, until the claim is dropped. The same may be claimed several times.
    ///
    /// # Errors
    ///
    /// [`OpenError::System`] if the table is full, or if the solicited-node group of an IPv6 address cannot be joined.
    pub fn claim(self: &Arc<Self>, wanted: Wanted) -> Result<Claim, OpenError> {
        let mut claims = self.claims();
        let is_new = !claims.contains_key(&wanted);
        // Joined before the program hears of the address, and left after it: the kernel must not answer for it.
        if is_new && let Wanted::Address(IpAddr::V6(address)) = wanted {
            self.join_group(address).map_err(|source| OpenError::System {
                attempt: "joining the solicited-node group of an IPv6 address",
                source,
            })?;
        }
        *claims.entry(wanted).or_default() += 1;
        let told = self.tell(&claims, wanted);
        drop(claims);
        let claim = Claim { attachment: Arc::clone(self), wanted };
        match told {
            Ok(()) => Ok(claim),
            Err(source) => Err(OpenError::System { attempt: "telling an XDP program of an address", source }),
        }
    }

    /// The receive queues that loop `place` of `loops` serves. All queues are served, because what arrives by another one would
    /// go to the kernel.
    ///
    /// # Errors
    ///
    /// [`OpenError::NoQueue`] if there are fewer queues than loops.
    pub fn share(&self, place: u32, loops: u32) -> Result<Range<u32>, OpenError> {
        let queues = self.interface.receive_queues;
        if loops > queues || place >= loops {
            let queue = place.max(loops.saturating_sub(1));
            return Err(OpenError::NoQueue { name: self.interface.name.clone(), queue, queues });
        }
        let start = |place: u32| (u64::from(place) * u64::from(queues) / u64::from(loops)) as u32;
        Ok(start(place)..start(place + 1))
    }

    /// The interface as it was when the program was attached.
    pub fn interface(&self) -> &NetworkInterface {
        &self.interface
    }

    /// Where the program runs.
    pub fn mode(&self) -> AttachMode {
        self.mode
    }

    /// Why the program does not run in native mode, though any mode was wanted.
    pub fn native_refusal(&self) -> Option<&OpenError> {
        self.native_refusal.as_ref()
    }

    /// Whether the program is still attached: not if the interface has gone, or if somebody detached it.
    pub fn is_attached(&self) -> bool {
        is_attached(self.link.is_attached())
    }

    /// Whether somebody has detached the program though the interface is still there: `bpftool link detach`, or [`detach`](Self::detach).
    /// To be asked in the network namespace of the interface.
    pub fn was_detached(&self) -> bool {
        let is_there = || NetworkInterface::find(&self.interface.name);
        !self.is_attached() && is_there().is_ok_and(|found| found.index == self.interface.index)
    }

    /// Takes the program from the interface, for all that share the attachment: their devices [go](crate::device::LinkEvent::Gone), and all
    /// packets reach the kernel.
    ///
    /// # Errors
    ///
    /// [`OpenError::System`]. No cause is known.
    pub fn detach(&self) -> Result<(), OpenError> {
        self.link.detach().map_err(|source| OpenError::System { attempt: "detaching an XDP program", source })
    }

    /// Whether checksums may be partial: the sender may be this machine's kernel, or it may have checked and joined frames.
    pub(super) fn may_be_partial(&self) -> bool {
        self.may_be_joined() || self.interface.driver == "veth"
    }

    /// Whether a frame may be several that the kernel has joined, or super-frames that a local sender has not cut.
    pub(super) fn may_be_joined(&self) -> bool {
        self.mode == AttachMode::Generic
    }

    /// Brings the program's tables in line with what is claimed of an address.
    fn tell(&self, claims: &HashMap<Wanted, usize>, changed: Wanted) -> io::Result<()> {
        let address = changed.address();
        if let Wanted::Port(port) = changed {
            if claims.contains_key(&changed) {
                self.maps.add_port(port)?;
            } else {
                self.maps.remove_port(port)?;
            }
        }
        if claims.contains_key(&Wanted::Address(address)) {
            self.maps.add_address(address, true)
        } else if claims.keys().any(|wanted| wanted.address() == address) {
            self.maps.add_address(address, false)
        } else {
            self.maps.remove_address(address).map(drop)
        }
    }

    /// Joins the group to which others ask for the MAC of an address, so that the card and switches let it through.
    fn join_group(&self, address: Ipv6Addr) -> io::Result<()> {
        let socket = match self.groups.get() {
            Some(socket) => socket,
            // There may be a descriptor left by now.
            None => {
                let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
                self.groups.get_or_init(|| socket)
            }
        };
        match socket.join_multicast_v6(&solicited_node(address), self.interface.index) {
            // Of another address with the same end.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
            joined => joined,
        }
    }

    /// Leaves the group of an address, unless another one that is claimed has the same.
    fn leave_group(&self, claims: &HashMap<Wanted, usize>, address: Ipv6Addr) {
        let group = solicited_node(address);
        let is_needed = claims.keys().any(
            |wanted| matches!(wanted, Wanted::Address(IpAddr::V6(other)) if solicited_node(*other) == group),
        );
        if let Some(socket) = self.groups.get()
            && !is_needed
        {
            // The interface may have gone, and its groups with it.
            let _ = socket.leave_multicast_v6(&group, self.interface.index);
        }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Wanted, usize>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which mode an XDP program is to run in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WantedMode {
    /// In the driver if it can, else in the generic receive path.
    #[default]
    Any,
    /// In the driver, or not at all.
    Native,
    /// In the generic receive path.
    Generic,
}

/// What the stack wants of the packets that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// All that goes to this address, and ARP and neighbour messages about it. The kernel must not have the address itself.
    Address(IpAddr),
    /// TCP to this address and port. The address is the kernel's, which answers ARP, neighbour solicitations and all else.
    Port(SocketAddr),
}

impl Wanted {
    fn address(self) -> IpAddr {
        match self {
            Self::Address(address) => address,
            Self::Port(address) => address.ip(),
        }
    }
}

/// Sends packets to the stack until it is dropped.
#[derive(Debug)]
#[must_use = "the packets go to the kernel again when this is dropped"]
pub struct Claim {
    attachment: Arc<Attachment>,
    wanted: Wanted,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.attachment.claims();
        let Some(count) = claims.get_mut(&self.wanted) else { return };
        *count -= 1;
        if *count > 0 {
            return;
        }
        claims.remove(&self.wanted);
        // An open map takes each removal. If it did not, packets would go to a stack that refuses them.
        let _ = self.attachment.tell(&claims, self.wanted);
        if let Wanted::Address(IpAddr::V6(address)) = self.wanted {
            self.attachment.leave_group(&claims, address);
        }
    }
}

/// Tries again for 100 ms what somebody else has. The kernel takes a queue or a program from a closed descriptor a moment after the
/// close, and a process that is being started has all descriptors until it executes. So a program that is started anew waits for the
/// end of the one before.
pub(super) fn patiently<T>(
    attempt: impl Fn() -> Result<T, OpenError>,
    is_taken: impl Fn(&OpenError) -> bool,
) -> Result<T, OpenError> {
    for _ in 0..TRIES {
        match attempt() {
            Err(error) if is_taken(&error) => sleep(PAUSE),
            other => return other,
        }
    }
    attempt()
}

/// Whether a program is attached, after what the kernel said. An error says nothing of it: on older kernels, such as 5.15, a process that
/// has given up its capabilities may not ask where `kernel.unprivileged_bpf_disabled` is set.
fn is_attached(answer: io::Result<bool>) -> bool {
    answer.unwrap_or(true)
}

const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// An interface that is there, up, and an Ethernet.
fn find(name: &str) -> Result<NetworkInterface, OpenError> {
    let named = || name.to_owned();
    let interface = NetworkInterface::find(name).map_err(|source| match Errno::from_io_error(&source) {
        Some(Errno::NODEV) => OpenError::NoInterface { name: named() },
        _ => OpenError::System { attempt: "asking for a network interface", source },
    })?;
    if interface.mac.is_none() {
        return Err(OpenError::NotEthernet { name: named() });
    }
    if !interface.is_up {
        return Err(OpenError::Down { name: named() });
    }
    Ok(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_may_not_ask_takes_its_program_for_attached() {
        assert!(is_attached(Err(Errno::PERM.into())) && is_attached(Ok(true)));
        assert!(!is_attached(Ok(false)));
    }
}
