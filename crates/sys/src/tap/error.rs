//! Why a TAP device cannot be opened.

use std::io;

use anywire_advice::Advice;

/// Why a TAP device cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// No interface can have this name. Choose another one.
    #[error(
        "cannot open the TAP device {0:?}: an interface has no such name{help}",
        help = Advice("a name has 1 to 15 bytes, without spaces, \"/\" and \":\"")
    )]
    Name(String),
    /// There is no interface of this name. Make it first.
    #[error(
        "cannot open the TAP device {name}: there is no interface of this name{help}",
        help = Advice(format_args!("make it as root: `ip tuntap add dev {name} mode tap user $USER`"))
    )]
    Missing {
        /// Its name.
        name: String,
    },
    /// There is no `/dev/net/tun`. Load the kernel's module, or give the container this device.
    #[error(
        "cannot open a TAP device: there is no /dev/net/tun{help}",
        help = Advice("load the module `tun`, or give the container the device /dev/net/tun")
    )]
    NoTun,
    /// This user may not. Run it with `CAP_NET_ADMIN`, or make the device for this user.
    #[error(
        "cannot open the TAP device {name}: it belongs to another user{help}",
        help = Advice(format_args!(
            "run this with CAP_NET_ADMIN, or make the device for this user as root: `ip tuntap add dev {name} mode tap user $USER`"
        ))
    )]
    Permission {
        /// Its name.
        name: String,
    },
    /// The interface is of another kind, such as TUN or veth. Choose another name.
    #[error(
        "cannot open the TAP device {name}: the interface is of another kind{help}",
        help = Advice("`ip tuntap list` shows the TAP devices that there are")
    )]
    OtherKind {
        /// Its name.
        name: String,
    },
    /// All of its queues are in use. End the program that has them, or make the device with more.
    #[error(
        "cannot open the TAP device {name}: another program has it, or this one has it already{help}",
        help = Advice(format_args!(
            "end that program, or make the device for several: `ip tuntap add dev {name} mode tap multi_queue`"
        ))
    )]
    Busy {
        /// Its name.
        name: String,
    },
    /// The system failed at something else.
    #[error("cannot open the TAP device {name}: {what} failed")]
    System {
        /// Its name.
        name: String,
        /// At what.
        what: &'static str,
        /// How.
        #[source]
        cause: io::Error,
    },
}

impl TapError {
    pub(super) fn system(name: &str, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::System { name: name.to_owned(), what, cause }
    }
}
