//! The socket by which operators reach a service: a file that only its user may open.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
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
        remove_dead(&folder);
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

/// Where the sockets of a user are: under `XDG_RUNTIME_DIR`, in `/run/anywire` if `/run` is the user's, who is root then, else in `/tmp`.
pub(super) fn folder() -> PathBuf {
    let user = geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("anywire"),
        // Root of a user namespace is not root there.
        _ if owner(Path::new("/run")) == Some(user.as_raw()) => PathBuf::from("/run/anywire"),
        _ => PathBuf::from(format!("/tmp/anywire-{}", user.as_raw())),
    }
}

fn owner(path: &Path) -> Option<u32> {
    path.metadata().ok().map(|found| found.uid())
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

/// Removes what processes have left that were killed.
fn remove_dead(folder: &Path) {
    for path in sockets(folder) {
        // One that listens, even if it has no time, refuses nobody.
        if UnixStream::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            // Another process may have removed it meanwhile.
            let _ = fs::remove_file(path);
        }
    }
}

/// The sockets of a folder that is [this user's alone](check), of services that run or were killed.
pub(super) fn sockets(folder: &Path) -> Vec<PathBuf> {
    if check(folder).is_err() {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut sockets: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
    sockets.sort();
    sockets
}

/// Checks that a folder is this user's alone: in `/tmp` anybody could have made it.
fn check(folder: &Path) -> io::Result<()> {
    let made = folder.symlink_metadata()?;
    if made.is_dir() && made.uid() == geteuid().as_raw() && made.mode() & 0o022 == 0 {
        return Ok(());
    }
    let why = format!("{} is no folder that only this user writes to", folder.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Operators at a time.
const CONNECTIONS: usize = 16;

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn sockets_of_the_dead_are_removed() {
        let folder = tempfile::tempdir().expect("a directory");
        let (lives, died) = (socket(folder.path(), 1), socket(folder.path(), 2));
        let _listener = UnixListener::bind(&lives).expect("it is bound");
        drop(UnixListener::bind(&died).expect("it is bound"));
        remove_dead(folder.path());
        assert_eq!(sockets(folder.path()), [lives]);
    }
}
