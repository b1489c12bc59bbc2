//! Maps: tables in the kernel that a program reads, and that this process changes while the program runs.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::call::{Command, bpf, name, open};

/// A hash table with keys of `K` bytes and values of `V` bytes. Open descriptors keep it, so programs that use it may outlive it.
#[derive(Debug)]
pub struct Map<const K: usize, const V: usize> {
    descriptor: OwnedFd,
}

impl<const K: usize, const V: usize> Map<K, V> {
    /// An empty table for at most `entries_max` entries; `called` is what tools show.
    ///
    /// # Errors
    ///
    /// What `bpf(2)` said: `PermissionDenied` without `CAP_BPF`, or on kernels before 5.11 if `RLIMIT_MEMLOCK` is too low;
    /// `ENOSYS` if the kernel has no BPF.
    #[allow(unsafe_code)]
    pub fn hash(called: &str, entries_max: u32) -> io::Result<Self> {
        let mut attributes = CreateMap {
            kind: MAP_HASH,
            key_bytes: K as u32,
            value_bytes: V as u32,
            entries_max,
            name: name(called),
            ..CreateMap::default()
        };
        // SAFETY: the structure is that of this command, and has no addresses.
        let descriptor = unsafe { open(Command::MapCreate, &mut attributes) }?;
        Ok(Self { descriptor })
    }

    /// Adds an entry, or changes its value.
    ///
    /// # Errors
    ///
    /// `E2BIG` (`ArgumentListTooLong`) if the table is full.
    pub fn insert(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        update(&self.descriptor, key, value)
    }

    /// Removes an entry; whether there was one.
    ///
    /// # Errors
    ///
    /// The error of `bpf(2)`. No cause is known on an open map.
    #[allow(unsafe_code)]
    pub fn remove(&self, key: &[u8; K]) -> io::Result<bool> {
        let mut attributes = Element { map: raw(&self.descriptor), key: address(key), ..Element::default() };
        // SAFETY: the structure is that of this command. The key has as many bytes as the map was made for.
        match unsafe { bpf(Command::MapDelete, &mut attributes) } {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<const K: usize, const V: usize> AsFd for Map<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The AF_XDP socket of each receive queue (`BPF_MAP_TYPE_XSKMAP`). A program redirects a packet to one of them.
///
/// A socket that is closed leaves the map by itself.
#[derive(Debug)]
pub struct SocketMap {
    descriptor: OwnedFd,
}

impl SocketMap {
    /// An empty map for queues 0 to `queues - 1`; `called` is what tools show.
    ///
    /// # Errors
    ///
    /// As for [`Map::hash`]; `InvalidInput` also if the kernel has no AF_XDP.
    #[allow(unsafe_code)]
    pub fn new(called: &str, queues: u32) -> io::Result<Self> {
        let mut attributes = CreateMap {
            kind: MAP_XSK,
            key_bytes: size_of::<u32>() as u32,
            value_bytes: size_of::<u32>() as u32,
            entries_max: queues,
            name: name(called),
            ..CreateMap::default()
        };
        // SAFETY: the structure is that of this command, and has no addresses.
        let descriptor = unsafe { open(Command::MapCreate, &mut attributes) }?;
        Ok(Self { descriptor })
    }

    /// Lets packets of this queue go to this socket from now on.
    ///
    /// # Errors
    ///
    /// `E2BIG` (`ArgumentListTooLong`) if there is no such queue in the map; `Unsupported` if it is no AF_XDP socket.
    pub fn insert(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd();
        update(&self.descriptor, &queue.to_ne_bytes(), &socket.as_raw_fd().to_ne_bytes())
    }
}

impl AsFd for SocketMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Callers pass a key and a value of the lengths that the map was made for.
#[allow(unsafe_code)]
fn update(map: &OwnedFd, key: &[u8], value: &[u8]) -> io::Result<()> {
    let mut attributes =
        Element { map: raw(map), key: address(key), value: address(value), ..Element::default() };
    // SAFETY: the structure is that of this command. Key and value are as long as the map was made for, by their types.
    unsafe { bpf(Command::MapUpdate, &mut attributes) }.map(drop)
}

fn raw(descriptor: &OwnedFd) -> u32 {
    descriptor.as_raw_fd() as u32
}

fn address(bytes: &[u8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

/// `union bpf_attr` for `BPF_MAP_CREATE`.
#[derive(Default)]
#[repr(C)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner_map: u32,
    node: u32,
    name: [u8; 16],
}

/// `union bpf_attr` for commands on an element.
#[derive(Default)]
#[repr(C)]
struct Element {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

const MAP_HASH: u32 = 1;
const MAP_XSK: u32 = 17;
