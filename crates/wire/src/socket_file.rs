//! The file of a Unix socket: a stale one is replaced, its mode is set, and it goes with its server.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fchmod, open};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::claim::Claim;

/// Why there is no room for a socket file.
pub(crate) enum Blocked {
    NotASocket,
    /// `AddrInUse` if a server is there, `PermissionDenied` if this user may not ask.
    System(io::Error),
}

impl From<io::Error> for Blocked {
    fn from(cause: io::Error) -> Self {
        Self::System(cause)
    }
}

/// Removes a stale socket file: one where no server answers.
pub(crate) fn make_room(path: &Path, kind: Type) -> Result<(), Blocked> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(Blocked::NotASocket);
    }
    let socket = Socket::new(Domain::UNIX, kind, None)?;
    // A server whose backlog is full would block, and counts as present.
    socket.set_nonblocking(true)?;
    let knocked = socket.connect(&SockAddr::unix(path)?);
    match knocked.map_err(|error| error.kind()) {
        Err(io::ErrorKind::ConnectionRefused) => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        },
        Err(io::ErrorKind::NotFound) => Ok(()),
        // It may not be stale: this user is not permitted to ask.
        Err(denied @ io::ErrorKind::PermissionDenied) => Err(io::Error::from(denied).into()),
        _ => Err(io::Error::from(io::ErrorKind::AddrInUse).into()),
    }
}

/// Has the file that a socket makes when it is bound have no more than this mode. The system takes the umask off.
pub(crate) fn limit_mode(socket: &Socket, mode: u32) -> io::Result<()> {
    Ok(fchmod(socket, Mode::from_raw_mode(mode))?)
}

/// The file of a socket that listens.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Another server may have replaced the file meanwhile.
    identity: Identity,
}

/// Device and inode, and when it was made: the inode of a file that is gone may be given to the next one.
type Identity = (u64, u64, i64, i64);

impl SocketFile {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(&fs::symlink_metadata(path)?) })
    }

    /// Gives the file this mode, if the umask has taken a part of it off.
    ///
    /// Others may be able to write to the folder, and put a link to another file in its place. So the file is opened first, and
    /// looked at.
    pub(crate) fn set_mode(&self, mode: u32) -> io::Result<()> {
        let file = open(&self.path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let file = fs::File::from(file);
        let found = file.metadata()?;
        if !found.file_type().is_socket() || identity(&found) != self.identity {
            // Another server has it, or whoever put a file there.
            return Err(io::ErrorKind::AddrInUse.into());
        }
        if found.mode() & MODE_MAX == mode {
            return Ok(());
        }
        // A descriptor of this kind has no mode to set; the name that the system has for it stands for the file itself.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(name, fs::Permissions::from_mode(mode)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other("its mode cannot be set, because /proc is not mounted")
            }
            _ => error,
        })
    }

    /// Unlinks the file, unless another one has taken its place. The caller holds the claim to the folder.
    pub(crate) fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity) {
            // If it cannot be removed the next server finds it stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(found: &fs::Metadata) -> Identity {
    (found.dev(), found.ino(), found.mtime(), found.mtime_nsec())
}

/// Takes the file away with its listener.
pub(crate) struct Guard(pub(crate) SocketFile);

impl Drop for Guard {
    fn drop(&mut self) {
        // The socket may be closed already, and a successor about to replace the file.
        if let Ok(_claim) = Claim::of_folder_soon(&self.0.path) {
            self.0.remove();
        }
    }
}

/// Permissions, without what no socket needs.
pub(crate) const MODE_MAX: u32 = 0o777;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "").expect("it is ours");
        fs::set_permissions(at("secret"), fs::Permissions::from_mode(0o600)).expect("it is ours");
        let _socket = UnixListener::bind(at("app.sock")).expect("nobody is there");
        let file = SocketFile::of(&at("app.sock")).expect("it is there");
        file.set_mode(0o666).expect("it is ours");
        assert_eq!(at("app.sock").metadata().expect("it is there").mode() & 0o777, 0o666);
        // As another user of the folder might.
        fs::remove_file(at("app.sock")).expect("it is ours");
        symlink(at("secret"), at("app.sock")).expect("the name is free");
        let refused = file.set_mode(0o666).expect_err("it is another file");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(at("secret").metadata().expect("it is there").mode() & 0o777, 0o600);
        file.remove();
        assert!(at("app.sock").symlink_metadata().is_ok(), "it is not ours");
    }

    #[test]
    fn a_file_is_never_wider_than_its_mode() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for mode in [0o600, 0o640, 0o700] {
            let path = folder.path().join(format!("{mode:o}"));
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("the system has sockets");
            limit_mode(&socket, mode).expect("it is open");
            socket.bind(&SockAddr::unix(&path).expect("it is short")).expect("nobody is there");
            let found = path.metadata().expect("it is there").mode() & 0o777;
            assert_eq!(found & !mode, 0, "{found:o} for {mode:o}");
        }
    }
}
