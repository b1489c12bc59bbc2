//! A socket file has the mode of its address, and is removed with its listener unless another file has taken its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use anywire_wire::Address;

fn address_of(path: &Path) -> Address {
    format!("unix:{}", path.display()).parse().expect("a short path")
}

#[test]
fn the_mode_is_the_one_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for mode in [0o600, 0o660, 0o666] {
        let path = folder.path().join("app.sock");
        let address = format!("{}?mode={mode:o}", address_of(&path)).parse().expect("a mode is an option");
        let loops = crate::support::loops(1);
        // Before anything is served.
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        assert_eq!(listener.local(), &address_of(&path), "the mode is no part of where it listens");
        let found = fs::metadata(&path).expect("the file is there").permissions().mode() & 0o777;
        assert_eq!(found, mode, "{found:o}");
        drop(listener);
        assert!(!path.exists());
    }
}

#[test]
fn it_is_gone_when_stop_returns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let loops = crate::support::loops(2);
    let listening = crate::support::serve_echo(&loops, &address_of(&path), &crate::support::listening());
    assert!(path.exists());
    listening.stop();
    assert!(!path.exists());
}

#[test]
fn a_file_that_has_taken_its_place_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let loops = crate::support::loops(1);
    let listening = crate::support::serve_echo(&loops, &address_of(&path), &crate::support::listening());
    fs::remove_file(&path).expect("it is there");
    let successor = UnixListener::bind(&path).expect("the path is free");
    listening.stop();
    assert!(path.exists());
    drop(successor);
}

#[test]
fn an_abstract_name_has_no_file_and_is_free_again_at_once() {
    let name = format!("unix:@socket-file-goes-{}", std::process::id());
    let address: Address = name.parse().expect("an address");
    let loops = crate::support::loops(1);
    for _ in 0..10 {
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        crate::support::try_dial(&address).expect("somebody listens");
        listening.stop();
    }
    assert!(crate::support::try_dial(&address).is_err_and(|error| error.is_refused()));
}
