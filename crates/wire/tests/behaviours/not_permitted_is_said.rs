//! A missing permission is reported as such. The tests give up the privilege of their thread, so that they mean the
//! same for root.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anywire_wire::{Address, DialError, ListenError, Listener};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Makes this thread and its children subject to permissions.
fn give_up_privilege() {
    let mut sets = capabilities(None).expect("one's own can be asked");
    sets.effective = CapabilitySet::empty();
    set_capabilities(None, sets).expect("giving up needs no permission");
}

#[test]
fn a_folder_that_may_not_be_written_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).expect("it is ours");
    give_up_privilege();
    let address = format!("unix:{}/app.sock", folder.path().display());
    let error = Listener::bind(&address, &crate::support::listening(), &crate::support::loops(1)).err();
    assert!(matches!(error, Some(ListenError::Permission { .. })), "{error:?}");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn a_port_of_the_system() {
    let first_free = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if first_free.is_ok_and(|text| text.trim().parse::<u16>().is_ok_and(|first| first <= 1)) {
        crate::skipped::say("this machine gives every port to everybody");
        return;
    }
    give_up_privilege();
    let address = "tcp:127.0.0.1:1";
    let error = Listener::bind(address, &crate::support::listening(), &crate::support::loops(1)).err();
    assert!(matches!(error, Some(ListenError::Permission { .. })), "{error:?}");
}

#[test]
fn a_socket_file_that_may_not_be_used() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let address: Address =
        format!("unix:{}/app.sock?mode=000", folder.path().display()).parse().expect("an address");
    let loops = crate::support::loops(1);
    let _listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    give_up_privilege();
    let error = crate::support::try_dial(&address).expect_err("the mode forbids it");
    assert!(matches!(error, DialError::Permission { .. }), "{error:?}");
    // Whether a server lives there cannot be asked either, so it is not taken for dead.
    let error = Listener::bind(&address, &crate::support::listening(), &loops).err();
    assert!(matches!(error, Some(ListenError::Permission { .. })), "{error:?}");
}
