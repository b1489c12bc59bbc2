//! The one system call of BPF.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Commands of `bpf(2)` that are used here.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Command {
    MapCreate = 0,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    ProgramRun = 10,
    Info = 15,
    LinkCreate = 28,
    LinkDetach = 34,
}

/// One call of `bpf(2)`.
///
/// # Safety
///
/// `attributes` is the kernel's structure for this command, without padding. Each address in it is 0 or is valid for the
/// length that the command takes it to have: for reads, and where the kernel writes, for writes.
#[allow(unsafe_code)]
pub(super) unsafe fn bpf<A>(command: Command, attributes: &mut A) -> io::Result<RawFd> {
    // SAFETY: the structure is borrowed for the call, and its size is told. The caller vouches for what it points to.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, command as libc::c_uint, std::ptr::from_mut(attributes), size_of::<A>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as RawFd) }
}

/// A call that opens a descriptor.
///
/// # Safety
///
/// As for [`bpf`]; and the command is one that returns a new descriptor.
#[allow(unsafe_code)]
pub(super) unsafe fn open<A>(command: Command, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: as the caller says.
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just opened it for us, with close-on-exec, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A name as the kernel keeps it for tools: at most 15 letters, digits, `_` and `.`; the rest is left out.
pub(super) fn name(name: &str) -> [u8; 16] {
    let mut kept = [0; 16];
    let allowed = name.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    for (place, byte) in kept[..15].iter_mut().zip(allowed) {
        *place = byte;
    }
    kept
}
