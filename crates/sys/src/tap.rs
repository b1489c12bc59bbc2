//! The far end of a TAP interface: Ethernet frames that the kernel sends to it come here, and frames from here arrive there.
//!
//! To the kernel a TAP is a network interface like any other, with a cable that ends in this process. Each read and each write is one
//! frame, behind a [`Header`] of virtio (`IFF_VNET_HDR`). If [asked to](Tap::open), the kernel leaves checksums unfinished and hands over
//! *super-frames* of up to 64 KiB, and takes both: one system call then moves some forty segments of TCP.
//!
//! The device itself is made and removed by `ip tuntap`. It may have several queues, each held by one [`Tap`].

mod error;
mod header;

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::io::Errno;

pub use self::error::TapError;
pub use self::header::{Header, Segmentation};

/// One queue of a TAP device. Dropping it detaches from the device, which stays.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
    has_queues: bool,
}

impl Tap {
    /// Attaches to the TAP device of this name, in the network namespace of this thread. Reads and writes never block.
    ///
    /// With `offloads` the kernel may leave out the checksum of what it sends, and may send several segments as one frame.
    ///
    /// # Errors
    ///
    /// See [`TapError`]: each variant says what to do.
    pub fn open(name: &str, offloads: bool) -> Result<Self, TapError> {
        if !is_name(name) {
            return Err(TapError::Name(name.to_owned()));
        }
        // The kernel would make a device of this name, which nobody had configured.
        if !exists(name).map_err(TapError::system(name, "asking for it"))? {
            return Err(TapError::Missing { name: name.to_owned() });
        }
        let opened =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(CLONE_DEVICE);
        let file = opened.map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => TapError::NoTun,
            io::ErrorKind::PermissionDenied => TapError::Permission { name: name.to_owned() },
            // The node is there, but the module is not.
            _ if cause.raw_os_error() == Some(libc::ENODEV) || cause.raw_os_error() == Some(libc::ENXIO) => {
                TapError::NoTun
            }
            _ => TapError::System { name: name.to_owned(), what: "opening /dev/net/tun", cause },
        })?;
        let mut tap = Self { file, name: name.to_owned(), has_queues: true };
        tap.attach()?;
        let header_bytes = libc::c_int::from(Header::BYTES as u8);
        set(&tap.file, libc::TUNSETVNETHDRSZ, &header_bytes)
            .map_err(TapError::system(name, "setting its header"))?;
        tap.set_offloads(offloads).map_err(TapError::system(name, "setting its offloads"))?;
        Ok(tap)
    }

    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the device has several queues, and so may be opened several times.
    pub const fn has_queues(&self) -> bool {
        self.has_queues
    }

    /// Reads the next frame that the kernel has sent: its header, and how many bytes of `frame` it takes. None if there is none. A
    /// frame that is longer than `frame` is cut off.
    ///
    /// # Errors
    ///
    /// [Gone](is_gone) if the device was removed.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<Option<(Header, usize)>> {
        let mut header = [0; Header::BYTES];
        let room = frame.len();
        let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(frame)];
        match rustix::io::readv(&self.file, parts) {
            // The length of all of it, also of what was cut off.
            Ok(count) => Ok(Some((Header::of(&header), count.saturating_sub(Header::BYTES).min(room)))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a frame, which arrives in the kernel before this returns. Its first part is a [`Header`]; the others are the frame, in at
    /// most [`PARTS_MAX`] parts in all. False if there is no room.
    ///
    /// # Errors
    ///
    /// [Gone](is_gone) if the device was removed, [down](is_down) if it was switched off; `InvalidInput` if header and frame do not
    /// agree.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<bool> {
        match rustix::io::writev(&self.file, parts) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The MTU of the interface: the longest IP packet that the kernel sends to it in one piece.
    ///
    /// # Errors
    ///
    /// What `ioctl(2)` said: the device was removed.
    pub fn mtu(&self) -> io::Result<usize> {
        let request = self.ask(libc::SIOCGIFMTU)?;
        let [a, b, c, d, ..] = request.value;
        Ok(usize::try_from(i32::from_ne_bytes([a, b, c, d])).unwrap_or(0))
    }

    /// The Ethernet address of the kernel's end.
    ///
    /// # Errors
    ///
    /// What `ioctl(2)` said: the device was removed.
    pub fn mac(&self) -> io::Result<[u8; 6]> {
        let request = self.ask(libc::SIOCGIFHWADDR)?;
        // Behind the family of a `sockaddr`.
        let [_, _, a, b, c, d, e, f, ..] = request.value;
        Ok([a, b, c, d, e, f])
    }

    /// Frames that the kernel had for this end and dropped, since they were not read in time, since the device was made.
    ///
    /// # Errors
    ///
    /// What reading `/proc` said; `NotFound` if the device was removed.
    pub fn dropped(&self) -> io::Result<u64> {
        // That of the thread: another thread may be in another network namespace.
        let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
        dropped_in(&table, &self.name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Has the kernel leave checksums unfinished and send several segments as one frame, or do neither.
    fn set_offloads(&self, offloads: bool) -> io::Result<()> {
        let flags = if offloads { TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN } else { 0 };
        set_by_value(&self.file, libc::TUNSETOFFLOAD, flags)
    }

    /// Makes the file a queue of the device.
    fn attach(&mut self) -> Result<(), TapError> {
        let name = self.name.clone();
        let base = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let mut result = set(&self.file, libc::TUNSETIFF, &Request::of(&name, base | libc::IFF_MULTI_QUEUE));
        if code_of(&result) == Some(libc::EINVAL) {
            // The device has one queue.
            self.has_queues = false;
            result = set(&self.file, libc::TUNSETIFF, &Request::of(&name, base));
        }
        result.map_err(|cause| match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => TapError::Permission { name },
            Some(libc::EINVAL) => TapError::OtherKind { name },
            Some(libc::EBUSY | libc::E2BIG) => TapError::Busy { name },
            _ => TapError::System { name, what: "attaching to it", cause },
        })
    }

    /// What the kernel says of the interface.
    #[allow(unsafe_code)]
    fn ask(&self, code: libc::Ioctl) -> io::Result<Request> {
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
        let mut request = Request::of(&self.name, 0);
        // SAFETY: the socket is open for the call; `request` is laid out as `struct ifreq`, of which the kernel reads the name and
        // writes the value, and keeps no pointer.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), code, &raw mut request) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Whether an error says that the device was removed.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EBADFD)
}

/// Whether an error says that the interface is switched off (`ip link set NAME down`).
pub fn is_down(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EIO)
}

/// `struct ifreq`: the name of an interface, and a value whose kind depends on the question.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    value: [u8; 24],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());

impl Request {
    /// With these flags as its value. The name is one that [`is_name`] accepts.
    fn of(name: &str, flags: libc::c_int) -> Self {
        let mut request = Self { name: [0; NAME_BYTES], value: [0; 24] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        request.value[..2].copy_from_slice(&(flags as u16).to_ne_bytes());
        request
    }
}

/// What an interface has dropped of what the kernel sent to it, from the table `/proc/net/dev`.
fn dropped_in(table: &str, name: &str) -> Option<u64> {
    let of_name = |line: &str| {
        let (its, counts) = line.split_once(':')?;
        // Eight of what was received; then bytes, packets, errors, drops.
        if its.trim_start() == name { counts.split_ascii_whitespace().nth(11)?.parse().ok() } else { None }
    };
    table.lines().find_map(of_name)
}

/// Whether the kernel would have an interface of this name (`dev_valid_name`).
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte != b'/' && byte != b':' && byte != 0 && !byte.is_ascii_whitespace();
    (1..NAME_BYTES).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_allowed)
}

#[allow(unsafe_code)]
fn exists(name: &str) -> io::Result<bool> {
    let name = CString::new(name)?;
    // SAFETY: `name` ends with a zero and lives through the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index > 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
        error => Err(error),
    }
}

#[allow(unsafe_code)]
fn set<T>(file: &File, code: libc::Ioctl, value: &T) -> io::Result<()> {
    // SAFETY: the file is open for the call. The codes that this is called with read one `T` from `value` at most (`struct ifreq` or
    // an int), and TUNSETIFF writes the name of the device back into a `Request`, which is not used afterwards.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), code, std::ptr::from_ref(value)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[allow(unsafe_code)]
fn set_by_value(file: &File, code: libc::Ioctl, value: libc::c_uint) -> io::Result<()> {
    // SAFETY: the file is open for the call; the code that this is called with takes a number, and no pointer.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), code, libc::c_ulong::from(value)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn code_of(result: &io::Result<()>) -> Option<i32> {
    result.as_ref().err().and_then(io::Error::raw_os_error)
}

/// Parts that [`Tap::send`] takes at most (`UIO_MAXIOV`).
pub const PARTS_MAX: usize = 1024;

const CLONE_DEVICE: &str = "/dev/net/tun";

/// `IFNAMSIZ`, with the zero behind the name.
const NAME_BYTES: usize = libc::IFNAMSIZ;

// What the owner of a TAP is able to take (`linux/if_tun.h`).
const TUN_F_CSUM: libc::c_uint = 1;
const TUN_F_TSO4: libc::c_uint = 2;
const TUN_F_TSO6: libc::c_uint = 4;
const TUN_F_TSO_ECN: libc::c_uint = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_has() {
        for good in ["t", "tap0", "a-name_of.15b", "fifteen-letters"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "a:1", "sixteen-letters!", "a\0b", "tab\t"] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_table_of_interfaces_is_read() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes ..\n\
            \x20   lo:  1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  tap0:1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!((dropped_in(table, "lo"), dropped_in(table, "tap0")), (Some(12), Some(77)));
        assert_eq!((dropped_in(table, "tap"), dropped_in("tap:1 2", "tap")), (None, None));
    }

    #[test]
    fn what_is_not_there_is_not_made() {
        let error = Tap::open("anywire-absent", true).expect_err("there is no such device");
        assert!(matches!(error, TapError::Missing { .. }), "{error}");
        let error = Tap::open("a name with spaces", true).expect_err("no such name");
        assert!(matches!(error, TapError::Name(_)), "{error}");
    }
}
