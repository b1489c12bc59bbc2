//! A socket file has the mode of its address before a peer can connect.

use std::os::unix::fs::PermissionsExt;

use anywire_loops::Loops;
use anywire_wire::{Address, ListenOptions, Listener};

#[test]
fn socket_file_has_its_mode_before_anyone_connects() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.sock");
    let loops = Loops::start(1).expect("a loop starts");
    for mode in [0o600, 0o660, 0o666, 0o777] {
        let watched = path.clone();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        // A peer that connects finds the mode set.
        let watcher = std::thread::spawn(move || {
            let mut let_in = 0;
            while stopped.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                if std::os::unix::net::UnixStream::connect(&watched).is_ok() {
                    let found = std::fs::metadata(&watched).expect("it is there").permissions().mode();
                    assert_eq!(found & 0o777, mode);
                    let_in += 1;
                }
            }
            let_in
        });
        let address: Address = format!("unix:{}?mode={mode:o}", path.display()).parse().expect("an address");
        let listener = Listener::bind(&address, &ListenOptions::default(), &loops).expect("it is free");
        let found = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(found & 0o777, mode);
        drop(std::os::unix::net::UnixStream::connect(&path).expect("it answers"));
        drop(stop);
        watcher.join().expect("it found no other mode");
        drop(listener);
    }
}
