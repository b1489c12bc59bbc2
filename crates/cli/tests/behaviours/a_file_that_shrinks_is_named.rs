//! A file that becomes shorter while it is sent ends the body, and the error says which file, and how long it was and is.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::common::{Served, anywire, assert_refused, eventually, text};
use crate::peer::{Peer, WINDOW_UPDATE, frame, say, wait_for_end};

/// A file that no buffers of sockets hold. It takes no room.
fn large_file() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory for the file");
    let path = dir.path().join("large");
    File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("room for its name");
    (dir, path)
}

fn shorten(path: &PathBuf) {
    File::options().write(true).open(path).and_then(|file| file.set_len(1000)).expect("it may be written");
}

#[test]
fn data_of_a_call() {
    let (_dir, path) = large_file();
    let says = format!(
        "the data could not be sent: {} became shorter while it was sent: it had 67108864 bytes, and has 1000 now",
        text(&path)
    );
    let data = format!("@{}", text(&path));
    let (of_http1, of_http2) = (path.clone(), path.clone());
    let peers = [
        (
            "--http1",
            Peer::of_http1(move |stream| {
                shorten(&of_http1);
                wait_for_end(stream);
            }),
        ),
        (
            "--http2",
            Peer::of_http2(move |stream| {
                shorten(&of_http2);
                for id in [0, 1] {
                    say(stream, frame(WINDOW_UPDATE, 0, id, &[0x10, 0, 0, 0]));
                }
                wait_for_end(stream);
            }),
        ),
    ];
    for (version, peer) in peers {
        File::options().write(true).open(&path).and_then(|file| file.set_len(64 << 20)).expect("as before");
        assert_refused(&anywire(&["post", version, &peer.url(), "-d", &data]), 26, &says);
    }
}

#[test]
fn a_file_of_a_service() {
    let (dir, path) = large_file();
    let log = dir.path().join("log");
    let to = File::create(&log).expect("a place for the log");
    let served = Served::logging(&["tcp:127.0.0.1:0"], &["--dir", text(dir.path())], to);
    let mut peer = TcpStream::connect(served.authority()).expect("it listens");
    peer.write_all(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n").expect("it reads");
    peer.read_exact(&mut [0; 1000]).expect("it answers");
    shorten(&path);
    peer.read_to_end(&mut Vec::new()).expect("it closes");
    let says = "/large became shorter while it was sent: it had 67108864 bytes, and has 1000 now";
    eventually("the log says why", || fs::read_to_string(&log).is_ok_and(|log| log.contains(says)));
}
