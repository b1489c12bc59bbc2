//! Without descriptors, dialling and listening fail with that reason, and not with a misspelt name or an address in
//! use. Alone in its file: the limit is the whole process's, and the resolver is to meet it before it has opened
//! anything.

#[path = "behaviours/support/mod.rs"]
mod support;

use std::fs::File;

use anywire_loops::Loops;
use anywire_wire::{Address, DialError, ListenError, Listener};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Takes every descriptor that this process may still have.
fn take_all() -> Vec<File> {
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).expect("it is lowered");
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn dial(loops: &Loops, address: &Address) -> Result<(), DialError> {
    let address = address.clone();
    let dialled = loops.get(0).spawn(move || async move { support::dialer().dial(&address).await.map(drop) });
    dialled.wait().expect("no panic")
}

fn listen(loops: &Loops, address: &Address) -> Result<(), ListenError> {
    Listener::bind(address, &support::listening(), loops).map(drop)
}

fn address(text: &str) -> Address {
    text.parse().expect("an address")
}

fn says_so(message: &str) {
    assert!(message.contains("out of file descriptors") && message.contains("raise its limit"), "{message}");
    assert!(!message.contains("spelling") && !message.contains("somebody"), "{message}");
}

#[test]
fn out_of_descriptors_is_said() {
    let loops = support::loops(1);
    let scratch: Vec<Address> = support::addresses().collect();
    // A file that a dead server has left: to find that out takes a socket.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stale = folder.path().join("stale.sock");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a free path"));
    let stale = address(&format!("unix:{}", stale.display()));
    let listening: Vec<_> = support::addresses()
        .map(|address| support::serve_echo(&loops, &address, &support::listening()))
        .collect();
    for one in &listening {
        dial(&loops, one.local()).expect("there are descriptors still");
    }
    support::eventually("those are closed", || listening.iter().all(|one| one.limit().open() == 0));
    let names = [address("tcp:localhost:1"), address("tcp:no-such-name.invalid:1")];

    let taken = take_all();
    for name in &names {
        let error = dial(&loops, name).expect_err("the resolver has no descriptor");
        assert!(matches!(error, DialError::Descriptors { .. }), "{error:?}");
        assert!(error.to_string().contains(&name.to_string()), "{error}");
        says_so(&error.to_string());
        let error = listen(&loops, name).expect_err("the resolver has no descriptor");
        assert!(matches!(error, ListenError::Descriptors { .. }), "{error:?}");
        says_so(&error.to_string());
    }
    for address in listening.iter().map(|one| one.local()) {
        match dial(&loops, address) {
            // Some wires need none.
            Ok(()) => assert!(!address.reaches_other_processes()),
            Err(error) => {
                assert!(matches!(error, DialError::Descriptors { .. }), "{error:?}");
                says_so(&error.to_string());
            }
        }
    }
    for address in scratch.iter().chain([&stale]) {
        match listen(&loops, address) {
            Ok(()) => assert!(!address.reaches_other_processes()),
            Err(error) => {
                assert!(matches!(error, ListenError::Descriptors { .. }), "{error:?}");
                says_so(&error.to_string());
            }
        }
    }
    drop(taken);
    for address in listening.iter().map(|one| one.local()) {
        dial(&loops, address).expect("there are descriptors again");
    }
    for address in scratch.iter().chain([&stale]) {
        listen(&loops, address).expect("there are descriptors again");
    }
    let error = dial(&loops, &names[1]).expect_err("it never resolves (RFC 6761 section 6.4)");
    assert!(matches!(error, DialError::Resolve { .. }), "{error:?}");
}
