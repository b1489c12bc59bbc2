//! A process that the namespace of the listener does not show has a user and a group, and no number.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::mpsc;

use anywire_wire::Address;

#[test]
fn a_peer_of_another_namespace_has_no_process() {
    if crate::again::is_inner() {
        let path = std::env::var(PATH).expect("the outer one says where");
        let address: Address = format!("unix:{path}").parse().expect("an address");
        let loops = crate::support::loops(1);
        let (known, knowing) = mpsc::channel();
        let _listening = crate::support::bind(&loops, &address, &crate::support::listening())
            .serve(move |connection| known.send(connection.credentials()).expect("the test waits"));
        println!("listening");
        std::io::stdout().flush().expect("the outer one reads");
        let peer = knowing.recv_timeout(crate::support::HANG).expect("somebody comes");
        assert_eq!(peer.expect("a Unix socket knows its peer").pid, None);
        return;
    }
    let test = "a_peer_of_another_namespace_has_no_process::a_peer_of_another_namespace_has_no_process";
    let Some(mut inner) = crate::again::within(&["--pid", "--fork"], test) else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("app.sock");
    let mut inner = inner.env(PATH, &path).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(inner.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    lines.by_ref().find(|line| line.contains("listening")).expect("it listens");
    let stream = UnixStream::connect(&path).expect("it listens");
    lines.for_each(|line| println!("{line}"));
    assert!(inner.wait().expect("it ends").success());
    drop(stream);
}

const PATH: &str = "ANYWIRE_TEST_PATH";
