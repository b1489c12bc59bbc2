//! Why an interface could not be used, and what would help.

use std::io;

use anywire_advice::Advice;
use anywire_sys::bpf::LoadError;
use anywire_sys::xsk::{self, Step};
use rustix::io::Errno;

/// Why [`Attachment::attach`](super::Attachment::attach), [`claim`](super::Attachment::claim) or
/// [`Xdp::open`](super::Xdp::open) failed. The interface is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// This network namespace has no such interface.
    #[error(
        "there is no network interface {name:?}{}",
        Advice("`ip link` lists those of this network namespace")
    )]
    NoInterface {
        /// The name that was given.
        name: String,
    },
    /// It has no Ethernet address.
    #[error("the network interface {name} is no Ethernet{}", Advice("use one that has a MAC address"))]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// It is not set up.
    #[error("the network interface {name} is down{}", Advice(format_args!("`ip link set dev {name} up`")))]
    Down {
        /// The interface.
        name: String,
    },
    /// A queue was asked for that the interface does not have.
    #[error(
        "the network interface {name} has no receive queue {queue}, only {queues}{}",
        Advice(format_args!("use fewer loops, or give it more queues by `ethtool -L {name} combined N`"))
    )]
    NoQueue {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
        /// Receive queues that it has.
        queues: u32,
    },
    /// Another AF_XDP socket has the queue, of this process or another one.
    #[error(
        "queue {queue} of the network interface {name} is taken by another AF_XDP socket{}",
        Advice("end the program that has it, or use another interface")
    )]
    QueueTaken {
        /// The interface.
        name: String,
        /// The queue.
        queue: u32,
    },
    /// In native mode, veth takes an XDP program only if it has as many receive queues as its peer has transmit queues.
    #[error(
        "the network interface {name} takes no native XDP program: it has fewer receive queues than its peer has transmit queues{}",
        Advice("give both the same number of queues, or use the generic mode")
    )]
    QueueNumbersDiffer {
        /// The interface.
        name: String,
    },
    /// A frame of the interface might not fit into a chunk of the UMEM.
    #[error(
        "the MTU of the network interface {name} is {mtu}, and AF_XDP takes {mtu_max} at most{}",
        Advice(format_args!("`ip link set dev {name} mtu {mtu_max}`"))
    )]
    MtuTooLarge {
        /// The interface.
        name: String,
        /// Its MTU, in bytes.
        mtu: u32,
        /// The largest one that fits.
        mtu_max: u32,
    },
    /// The driver refuses XDP in native mode because of its MTU, or its peer's.
    #[error(
        "the driver of the network interface {name} takes no native XDP program at this MTU{}",
        Advice("lower its MTU (and of a veth its peer's, to 3,500 at most), or use the generic mode")
    )]
    MtuTooLargeForDriver {
        /// The interface.
        name: String,
    },
    /// This process may not do it.
    #[error(
        "{attempt}: not permitted{}",
        Advice(
            "run it as root, or give it CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF outside of user namespaces"
        )
    )]
    NotPermitted {
        /// What it may not do.
        attempt: &'static str,
    },
    /// The kernel has no AF_XDP, or no BPF.
    #[error(
        "this kernel has no AF_XDP{}",
        Advice(
            "use Linux 5.9 or later with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL, or the device tap:NAME"
        )
    )]
    NoAfXdp,
    /// Another XDP program is attached. It stays.
    #[error(
        "another XDP program is attached to the network interface {name}{}",
        Advice(format_args!(
            "end the program that attached it, or detach it by `ip link set dev {name} xdp off`; `ip link show dev {name}` tells its id"
        ))
    )]
    AnotherProgram {
        /// The interface.
        name: String,
    },
    /// The UMEM is more than this process may lock in memory.
    #[error(
        "the UMEM is more than this process may lock in memory{}",
        Advice("raise `ulimit -l`, give it CAP_IPC_LOCK, or use a smaller depth")
    )]
    MemoryLocked,
    /// Zero-copy was demanded, and the driver or this queue cannot do it.
    #[error(
        "the driver of the network interface {name} has no zero-copy{}",
        Advice("let the mode be any, or copy")
    )]
    NoZeroCopy {
        /// The interface.
        name: String,
    },
    /// The kernel's verifier did not take the program: a fault of ours.
    #[error(transparent)]
    Program(LoadError),
    /// Anything else that the system said.
    #[error("{attempt}")]
    System {
        /// What was being done.
        attempt: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl OpenError {
    /// Of a call whose only expected refusal is that it is not permitted.
    pub(super) fn system(attempt: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted { attempt },
            Some(Errno::NOSYS | Errno::AFNOSUPPORT) => Self::NoAfXdp,
            _ => Self::System { attempt, source },
        }
    }

    /// Of loading the program.
    pub(super) fn of_load(error: LoadError) -> Self {
        match Errno::from_io_error(&error.source) {
            Some(Errno::PERM) => Self::NotPermitted { attempt: "loading an XDP program" },
            _ => Self::Program(error),
        }
    }

    /// Of attaching the program.
    pub(super) fn of_attach(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::BUSY | Errno::EXIST) => Self::AnotherProgram { name },
            Some(Errno::NOSPC) => Self::QueueNumbersDiffer { name },
            Some(Errno::RANGE) => Self::MtuTooLargeForDriver { name },
            Some(Errno::NODEV) => Self::NoInterface { name },
            _ => Self::system("attaching an XDP program")(source),
        }
    }

    /// Of opening the sockets. `queues` is how many receive queues there are.
    pub(super) fn of_sockets(name: &str, queues: u32, error: xsk::Error) -> Self {
        let named = || name.to_owned();
        let code = Errno::from_io_error(&error.source);
        match (error.step, code) {
            (Step::Umem, Some(Errno::NOBUFS)) => Self::MemoryLocked,
            (Step::Bind { queue }, Some(Errno::BUSY)) => Self::QueueTaken { name: named(), queue },
            (Step::Bind { queue }, Some(Errno::INVAL)) if queue >= queues => {
                Self::NoQueue { name: named(), queue, queues }
            }
            (Step::Bind { .. }, Some(Errno::OPNOTSUPP)) => Self::NoZeroCopy { name: named() },
            (Step::Bind { .. }, Some(Errno::NETDOWN)) => Self::Down { name: named() },
            (Step::Bind { .. }, Some(Errno::NODEV)) => Self::NoInterface { name: named() },
            (Step::Bind { .. }, _) => Self::system("binding an AF_XDP socket")(error.source),
            (Step::Umem | Step::Memory, _) => Self::system("making memory for AF_XDP")(error.source),
            (Step::Rings, _) => Self::system("making the rings of an AF_XDP socket")(error.source),
            _ => Self::system("opening an AF_XDP socket")(error.source),
        }
    }
}
