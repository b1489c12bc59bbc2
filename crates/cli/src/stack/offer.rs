//! The socket by which operators reach a service: a file that only its user may open.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anywire::Loops;
use anywire::server::{Limits, Server, ServerHandle, stack};
use anywire::wire::Address;
use rustix::process::geteuid;

/// The socket of this process, for as long as this is held.
pub(crate) struct Offer {
    _serving: ServerHandle,
}

impl Offer {
    /// Offers it if one of these addresses is on a device. A service runs without it if it cannot be had, and says so.
    pub(crate) fn of<'a>(addresses: impl Iterator<Item = &'a Address>, loops: &Loops) -> Option<Self> {
        let mut on_devices = addresses.filter(|address| is_on_device(address));
        on_devices.next()?;
        match Self::start(loops) {
            Ok(offer) => Some(offer),
            Err(why) => {
                tracing::warn!("'anywire stack' will not find this service: {why}");
                None
            }
        }
    }

    fn start(loops: &Loops) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = folder();
        prepare(&folder)?;
        let path = socket(&folder, std::process::id());
        let limits = Limits { connections: Some(CONNECTIONS), ..Limits::default() };
        let server = Server::new(stack::routes()).on(loops).limits(limits);
        let serving = server.listen(format!("unix:{}?mode=600", path.display()).as_str()).start()?;
        Ok(Self { _serving: serving })
    }
}

fn is_on_device(address: &Address) -> bool {
    let text = address.to_string();
    let location = text.split_once("stack:").map(|(_, location)| location);
    location.is_some_and(|location| !location.starts_with("switch/"))
}

/// Where the sockets of a user are: under `XDG_RUNTIME_DIR`, in `/run/anywire` if the user is root, else in `/tmp`.
pub(super) fn folder() -> PathBuf {
    let user = geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("anywire"),
        _ if user.is_root() => PathBuf::from("/run/anywire"),
        _ => PathBuf::from(format!("/tmp/anywire-{}", user.as_raw())),
    }
}

/// The socket of a process.
pub(super) fn socket(folder: &Path, pid: u32) -> PathBuf {
    folder.join(format!("{pid}.sock"))
}

/// Makes the folder, or checks that nobody else can put sockets there.
fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(io::Error::new(
                error.kind(),
                format!("making the folder {}: {error}", folder.display()),
            ));
        }
        _ => {}
    }
    check(folder)
}

/// Checks that a folder is this user's alone: in `/tmp` anybody could have made it.
pub(super) fn check(folder: &Path) -> io::Result<()> {
    let made = folder.symlink_metadata()?;
    if made.is_dir() && made.uid() == geteuid().as_raw() && made.mode() & 0o022 == 0 {
        return Ok(());
    }
    let why = format!("{} is no folder that only this user writes to", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Operators at a time.
const CONNECTIONS: usize = 16;
