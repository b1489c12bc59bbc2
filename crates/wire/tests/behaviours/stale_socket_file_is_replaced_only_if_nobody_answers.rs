//! A socket file that a dead server left behind does not keep the next one from starting; anything else that has its
//! name does.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use anywire_wire::{Address, ListenError, Listener};

fn address_of(path: &Path) -> Address {
    format!("unix:{}", path.display()).parse().expect("a short path")
}

fn refused(address: &Address) -> ListenError {
    Listener::bind(address, &crate::support::listening(), &crate::support::loops(1))
        .err()
        .expect("it is not free")
}

#[test]
fn a_file_that_nobody_answers_at_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    // Dropped without unlinking, as by a process that was killed.
    drop(UnixListener::bind(&path).expect("a free path"));
    assert!(path.exists());
    let address = address_of(&path);
    assert!(crate::support::try_dial(&address).is_err_and(|error| error.is_refused()));
    let loops = crate::support::loops(1);
    let _listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    crate::support::on_a_loop(move || async move {
        crate::support::ask_echo(&mut crate::support::dial(&address).await).await
    });
}

#[test]
fn a_file_that_somebody_answers_at_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let other = UnixListener::bind(&path).expect("a free path");
    let error = refused(&address_of(&path));
    assert!(matches!(error, ListenError::InUse { .. }), "{error:?}");
    other.set_nonblocking(true).expect("a socket");
    other.accept().expect("it was asked whether it is alive");
    std::os::unix::net::UnixStream::connect(&path).expect("and still answers");
}

#[test]
fn a_server_too_busy_to_answer_is_alive() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let hung = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
    let name = socket2::SockAddr::unix(&path).expect("a short path");
    hung.bind(&name).expect("a free path");
    hung.listen(0).expect("a bound socket");
    // Fill its backlog, so that a plain connect would wait for ever.
    let mut waiting = Vec::new();
    loop {
        let peer =
            socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).expect("a socket");
        peer.set_nonblocking(true).expect("a socket");
        if peer.connect(&name).is_err() {
            break;
        }
        waiting.push(peer);
    }
    let error = refused(&address_of(&path));
    assert!(matches!(error, ListenError::InUse { .. }), "{error:?}");
    assert!(path.exists());
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("precious");
    fs::write(&path, "data").expect("a free path");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("a free path");
    for taken in [path.as_path(), link.as_path(), folder.path()] {
        let error = refused(&address_of(taken));
        assert!(matches!(error, ListenError::NotASocket { .. }), "{error:?}");
        assert!(error.to_string().contains("move it away"), "{error}");
    }
    assert_eq!(fs::read_to_string(&path).expect("it is still there"), "data");
}

#[test]
fn a_missing_folder_is_said() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = refused(&address_of(&folder.path().join("missing/app.sock")));
    assert!(matches!(error, ListenError::NoFolder { .. }), "{error:?}");
}
