//! A Unix socket says who is at the other end; a wire that does not know says so.

use anywire_wire::{Address, Connection, Credentials};

fn own() -> Credentials {
    Credentials {
        pid: Some(rustix::process::getpid().as_raw_pid()),
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

fn knows_own(connection: &Connection) -> bool {
    connection.credentials() == Some(own())
}

#[test]
fn by_path_and_by_abstract_name_both_ends_know() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = format!("unix:{}/app.sock", folder.path().display());
    let name = format!("unix:@peer-credentials-are-told-{}", std::process::id());
    let ring = cfg!(feature = "shm").then(|| format!("shm:{}/app.ring", folder.path().display()));
    for address in [path, name].into_iter().chain(ring) {
        let address: Address = address.parse().expect("an address");
        crate::support::play(
            &address,
            async |accepted| assert!(knows_own(&accepted), "{:?}", accepted.credentials()),
            async |dialled| assert!(knows_own(&dialled), "{:?}", dialled.credentials()),
        );
    }
}

#[test]
fn no_wire_tells_anything_wrong() {
    crate::support::on_each_wire(
        async |accepted| assert!(accepted.credentials().is_none() || knows_own(&accepted)),
        async |dialled| assert!(dialled.credentials().is_none() || knows_own(&dialled)),
    );
}
