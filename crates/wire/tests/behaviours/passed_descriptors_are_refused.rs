//! A peer cannot pass descriptors over a Unix socket: closing one could block a loop for as long as the peer likes.
#[allow(dead_code, reason = "a part of it is used here")]
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

use anywire_wire::ListenOptions;
use anywire_wire::udp::{Udp, UdpOptions};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

/// Sends a byte with a descriptor.
fn pass(socket: impl AsFd) -> Result<usize, Errno> {
    let file = File::open("/dev/null").expect("it is everywhere");
    let descriptors = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(socket, &[IoSlice::new(b"!")], &mut control, SendFlags::NOSIGNAL)
}

/// Whether this system can refuse them.
fn can_be_refused() -> bool {
    let (here, there) = UnixStream::pair().expect("descriptors are left");
    anywire_sys::descriptors::refuse_passed(&here);
    let refused = pass(&there) == Err(Errno::PERM);
    assert!(refused || std::env::var_os("CI").is_none(), "this system is older than Linux 6.16");
    refused
}

#[test]
fn by_those_who_listen_and_by_those_who_dial() {
    if !can_be_refused() {
        return println!("skipped: this system is older than Linux 6.16");
    }
    let loops = crate::support::loops(1);
    for scheme in ["unix", "shm"] {
        let wire = crate::support::wires().find(|wire| wire.scheme() == scheme).expect("it is in the build");
        let address = wire.scratch().expect("a path");
        let listening = crate::support::serve_echo(&loops, &address, &ListenOptions::default());
        assert_eq!(pass(crate::raw::connect(listening.local())), Err(Errno::PERM), "{scheme}");
        crate::support::play_on(&listening, async |mut peer| crate::support::ask_echo(&mut peer).await);
    }
    let shm = crate::support::wires().find(|wire| wire.scheme() == "shm").and_then(|wire| wire.scratch());
    let listening = crate::support::serve_echo(&loops, &shm.expect("a path"), &ListenOptions::default());
    let (socket, _memory) = crate::raw::set_up(listening.local());
    assert_eq!(pass(&socket), Err(Errno::PERM), "after the set-up, too");

    // Those who dial.
    let address =
        crate::support::wires().find(|wire| wire.scheme() == "unix").and_then(|wire| wire.scratch());
    let address = address.expect("a path");
    let listener = UnixListener::bind(address.location()).expect("a free path");
    let dialled = address.clone();
    let passed = loops.get(0).spawn(move || async move {
        let _dialled = crate::support::dial(&dialled).await;
        // It waits there already.
        pass(listener.accept().expect("it was dialled").0)
    });
    assert_eq!(passed.wait().expect("no panic"), Err(Errno::PERM));
    std::fs::remove_file(address.location()).expect("it is ours");
}

#[test]
fn by_those_who_receive_datagrams() {
    if !can_be_refused() {
        return println!("skipped: this system is older than Linux 6.16");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("service");
    let address = format!("unixgram:{}", path.display());
    let _bound = Udp::bind(&address, &UdpOptions::default(), 1).expect("a free path");
    let sender = UnixDatagram::unbound().expect("descriptors are left");
    sender.connect(&path).expect("it is there");
    assert_eq!(pass(&sender), Err(Errno::PERM));
    assert_eq!(sender.send(b"without").expect("it is received"), 7);
}
