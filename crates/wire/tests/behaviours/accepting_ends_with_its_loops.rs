//! A listener that was not stopped does not hold up the shutdown of its loops. Its handle then removes the socket file,
//! and no file of another listener.

use std::cell::RefCell;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Barrier, mpsc};
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::{Address, Connection, ConnectionLimit, ListenError, ListenOptions, Listener};

/// A deadline that no test could wait for.
const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn shutdown_does_not_wait_for_it() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        crate::support::play_on(&listening, |mut connection| async move {
            crate::support::ask_echo(&mut connection).await;
        });
        let ended = loops.shutdown(NEVER).expect("this is no loop");
        assert!(ended.is_clean(), "{ended:?}");
        let address = listening.local().clone();
        drop(listening);
        drop(crate::support::bind(&crate::support::loops(1), &address, &crate::support::listening()));
    }
}

/// Also while the handle is kept, which cannot accept any more.
#[test]
fn the_address_is_free_after_it_and_after_a_loop_that_has_died() {
    // The example of a wire of one's own leaves that to the handle.
    for address in crate::support::addresses().filter(|address| address.scheme() != "pipe") {
        let mut address = address;
        for has_died in [false, true] {
            let loops = crate::support::loops(1);
            let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
            address = listening.local().clone();
            if has_died {
                crate::support::kill(&loops, 0);
            } else {
                loops.shutdown(NEVER).expect("this is no loop");
            }
            let successors = crate::support::loops(1);
            let successor = crate::support::serve_echo(&successors, &address, &crate::support::listening());
            crate::support::play_on(&successor, async |mut connection| {
                crate::support::ask_echo(&mut connection).await
            });
            drop(listening);
            crate::support::play_on(&successor, async |mut connection| {
                crate::support::ask_echo(&mut connection).await
            });
        }
    }
}

#[test]
fn nor_for_a_connection_that_waits_for_its_turn() {
    for address in crate::support::addresses_without_handshake() {
        let (loops, dialling) = (crate::support::loops(1), crate::support::loops(1));
        let (served, serving) = mpsc::channel();
        let listening = crate::support::bind(&loops, &address, &crate::support::listening())
            .limited_by(&ConnectionLimit::new(1))
            .serve(move |connection| {
                // Lives as long as the loop, and in no task.
                anywire_loops::local(Kept::default).0.borrow_mut().push(connection);
                served.send(()).expect("the test waits");
            });
        let address = listening.local().clone();
        let both = dialling.get(0).spawn(move || async move {
            for _ in 0..2 {
                let connection = crate::support::dial(&address).await;
                anywire_loops::local(Kept::default).0.borrow_mut().push(connection);
            }
        });
        both.wait().expect("the system takes both in");
        serving.recv_timeout(crate::support::HANG).expect("one of them is served");
        crate::support::eventually("the other one waits", || listening.limit().pauses() == 1);
        let ended = loops.shutdown(NEVER).expect("this is no loop");
        assert!(ended.is_clean(), "{ended:?}");
        assert_eq!(listening.limit().open(), 0);
    }
}

/// Who dials is turned away at once, as many as the accept queue takes and more, also while the handle is held.
#[test]
fn nobody_is_kept_waiting_after_it() {
    for address in crate::support::addresses() {
        for dials_before in [true, false] {
            let (loops, dialling) = (crate::support::loops(1), crate::support::loops(1));
            let options = ListenOptions { backlog: 2, ..crate::support::listening() };
            let listening = crate::support::bind(&loops, &address, &options)
                .limited_by(&ConnectionLimit::new(1))
                .serve(|connection| anywire_loops::local(Kept::default).0.borrow_mut().push(connection));
            let address = listening.local().clone();
            let mut dials = Vec::new();
            let mut dial = || {
                let address = address.clone();
                dials.push(dialling.get(0).spawn(move || async move {
                    let dial = crate::support::dialer();
                    let Ok(mut connection) = dial.dial(&address).await else { return };
                    // An end or a reset.
                    while connection.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
                }));
            };
            if dials_before {
                (0..8).for_each(|_| dial());
                crate::support::eventually("accepting pauses", || listening.limit().pauses() > 0);
            }
            loops.shutdown(NEVER).expect("this is no loop");
            (0..8).for_each(|_| dial());
            let all = dialling.get(0).spawn(move || async move {
                for dial in dials {
                    tokio::time::timeout(crate::support::HANG, dial)
                        .await
                        .expect("it ends")
                        .expect("no panic");
                }
            });
            all.wait().unwrap_or_else(|_| panic!("{address} keeps a dial waiting"));
        }
    }
}

#[derive(Default)]
struct Kept(RefCell<Vec<Connection>>);

#[test]
fn the_file_of_a_successor_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let address = format!("unix:{}", path.display()).parse().expect("an address");
    let loops = crate::support::loops(1);
    let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
    // Its socket is closed then, so that the next file may be given the same inode.
    loops.shutdown(NEVER).expect("this is no loop");
    std::fs::remove_file(&path).expect("it is ours");
    let _successor = UnixListener::bind(&path).expect("the name is free");
    drop(listening);
    drop(UnixStream::connect(&path).expect("the successor is still there"));
}

#[test]
fn the_file_of_a_successor_that_starts_at_the_same_moment_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let successors = crate::support::loops(1);
    for round in 0..600 {
        let path = folder.path().join(format!("app-{round}.sock"));
        let address = format!("unix:{}", path.display()).parse().expect("an address");
        let loops = crate::support::loops(1);
        let listening = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        // The socket is closed with its loop; the file is the handle's.
        loops.shutdown(NEVER).expect("this is no loop");
        let start = Barrier::new(2);
        let successor = std::thread::scope(|scope| {
            let dropping = scope.spawn(|| {
                start.wait();
                drop(listening);
            });
            start.wait();
            let successor = successor_at(&address, &successors);
            dropping.join().expect("no panic");
            successor
        });
        drop(UnixStream::connect(&path).expect("the file is the successor's"));
        drop(successor);
    }
}

/// Binds as soon as nobody answers there. A program that another test starts at this moment has copies of all sockets of this process
/// until it runs: with them the earlier server is there for that long.
fn successor_at(address: &Address, loops: &Loops) -> Listener {
    loop {
        match Listener::bind(address, &crate::support::listening(), loops) {
            Ok(listener) => return listener,
            Err(ListenError::InUse { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}
