//! Programs in the kernel, and the link that attaches one to a network interface.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::assembler::Code;
use super::call::{Command, bpf, name, open};

/// A program that the kernel has checked and taken.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
}

impl Program {
    /// Lets the kernel check and take a program for XDP; `called` is what tools show.
    ///
    /// # Errors
    ///
    /// [`LoadError`]: what `bpf(2)` said, and the verifier's log if it refused the program.
    #[allow(unsafe_code)]
    pub fn load_xdp(called: &str, code: &Code<'_>) -> Result<Self, LoadError> {
        let mut log: Vec<u8> = Vec::new();
        loop {
            let mut attributes = LoadProgram {
                kind: PROGRAM_XDP,
                instructions_count: code.instructions.len() as u32,
                instructions: code.instructions.as_ptr().expose_provenance() as u64,
                license: LICENSE.as_ptr().expose_provenance() as u64,
                log_level: u32::from(!log.is_empty()),
                log_bytes: log.len() as u32,
                log: if log.is_empty() { 0 } else { log.as_mut_ptr().expose_provenance() as u64 },
                name: name(called),
                attach_type: ATTACH_XDP,
                ..LoadProgram::default()
            };
            // SAFETY: the structure is that of this command. It points to as many instructions as it says, to a string that
            // ends with 0, and to nothing or to a log of the length that it says, which the kernel may write.
            match unsafe { open(Command::ProgramLoad, &mut attributes) } {
                Ok(descriptor) => return Ok(Self { descriptor }),
                // Asks for a log only after a refusal, because it costs time. The verifier refuses with other errors than EPERM.
                Err(error) if log.is_empty() && error.raw_os_error() != Some(libc::EPERM) => {
                    log = vec![0; LOG_BYTES];
                }
                Err(source) => {
                    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
                    let log = String::from_utf8_lossy(&log[..end]).trim_end().to_owned();
                    return Err(LoadError { source, log });
                }
            }
        }
    }

    /// Runs the program once on a frame of at least 14 bytes, as if it came from loopback's queue 0, and returns its verdict.
    /// The frame goes nowhere.
    ///
    /// # Errors
    ///
    /// What `bpf(2)` said: `InvalidInput` for a frame that is too short or longer than a page.
    #[allow(unsafe_code)]
    pub fn run(&self, frame: &[u8]) -> io::Result<u32> {
        let mut attributes = RunProgram {
            program: self.descriptor.as_raw_fd() as u32,
            data_in_bytes: frame.len() as u32,
            data_in: frame.as_ptr().expose_provenance() as u64,
            repeat: 1,
            ..RunProgram::default()
        };
        // SAFETY: the structure is that of this command. It points to the frame alone, which the kernel reads.
        unsafe { bpf(Command::ProgramRun, &mut attributes) }?;
        Ok(attributes.verdict)
    }

    /// Attaches the program to a network interface, by its index, until the link is dropped.
    ///
    /// # Errors
    ///
    /// What `bpf(2)` said: `EBUSY` (`ResourceBusy`) or `EEXIST` (`AlreadyExists`) if another program is attached, `ENODEV` if
    /// there is no such interface, `EOPNOTSUPP` (`Unsupported`) if the driver knows no XDP, and what else the driver says.
    #[allow(unsafe_code)]
    pub fn attach_xdp(&self, interface: u32, mode: AttachMode) -> io::Result<XdpLink> {
        let mut attributes = CreateLink {
            program: self.descriptor.as_raw_fd() as u32,
            interface,
            attach_type: ATTACH_XDP,
            flags: match mode {
                AttachMode::Native => XDP_FLAGS_DRV_MODE,
                AttachMode::Generic => XDP_FLAGS_SKB_MODE,
            },
        };
        // SAFETY: the structure is that of this command, and has no addresses.
        let descriptor = unsafe { open(Command::LinkCreate, &mut attributes) }?;
        Ok(XdpLink { descriptor })
    }
}

/// Where on the way of a packet an XDP program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, before the kernel makes a socket buffer of the packet. The driver has to know XDP.
    Native,
    /// In the kernel's receive path, with any driver: after the socket buffer was made, and after generic receive offload.
    Generic,
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Generic => "generic",
        })
    }
}

/// Keeps a program attached to an interface. Dropping it detaches the program, and so does the end of the process.
#[derive(Debug)]
pub struct XdpLink {
    descriptor: OwnedFd,
}

impl XdpLink {
    /// Whether the program is still attached: not if the interface has gone, or if somebody detached the link.
    ///
    /// # Errors
    ///
    /// The error of `bpf(2)`: `PermissionDenied` on older kernels, such as 5.15, for a process without capabilities, where
    /// `kernel.unprivileged_bpf_disabled` is set. The program may be attached then.
    #[allow(unsafe_code)]
    pub fn is_attached(&self) -> io::Result<bool> {
        let mut info = LinkInfo::default();
        let mut attributes = Info {
            descriptor: self.descriptor.as_raw_fd() as u32,
            info_bytes: size_of::<LinkInfo>() as u32,
            info: (&raw mut info).expose_provenance() as u64,
        };
        // SAFETY: the structure is that of this command. It points to memory of the length that it says, which the kernel
        // may write, and which holds only numbers.
        unsafe { bpf(Command::Info, &mut attributes) }?;
        Ok(info.interface != 0)
    }

    /// Takes the program from its interface, as `bpftool link detach` does. The link stays open, and attaches nothing any more.
    ///
    /// # Errors
    ///
    /// The error of `bpf(2)`. No cause is known.
    #[allow(unsafe_code)]
    pub fn detach(&self) -> io::Result<()> {
        let mut attributes = DetachLink { link: self.descriptor.as_raw_fd() as u32 };
        // SAFETY: the structure is that of this command, and has no addresses.
        unsafe { bpf(Command::LinkDetach, &mut attributes) }.map(drop)
    }
}

/// Why the kernel did not take a program.
#[derive(Debug, thiserror::Error)]
#[error("the kernel did not take a BPF program{}{log}", if log.is_empty() { "" } else { "; its verifier says: " })]
pub struct LoadError {
    /// What the system said.
    pub source: io::Error,
    /// The verifier's log; empty if the program was not looked at.
    pub log: String,
}

/// `union bpf_attr` for `BPF_PROG_LOAD`.
#[derive(Default)]
#[repr(C)]
struct LoadProgram {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// `union bpf_attr` for `BPF_PROG_TEST_RUN`.
#[derive(Default)]
#[repr(C)]
struct RunProgram {
    program: u32,
    verdict: u32,
    data_in_bytes: u32,
    data_out_bytes: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
}

/// `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// `union bpf_attr` for `BPF_LINK_DETACH`.
#[repr(C)]
struct DetachLink {
    link: u32,
}

/// `union bpf_attr` for `BPF_OBJ_GET_INFO_BY_FD`.
#[repr(C)]
struct Info {
    descriptor: u32,
    info_bytes: u32,
    info: u64,
}

/// The first part of `struct bpf_link_info`, of an XDP link.
#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    unused: u32,
    interface: u32,
    rest: u32,
}

const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// None of the helpers that programs here call is for GPL programs alone.
const LICENSE: &std::ffi::CStr = c"MIT OR Apache-2.0";
/// Bytes of the verifier's log: enough for programs of some hundred instructions.
const LOG_BYTES: usize = 256 * 1024;
