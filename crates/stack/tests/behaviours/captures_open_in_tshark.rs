//! A capture holds each frame and its time, keeps its limits, and never stands in the way of the traffic.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use anywire_stack::capture::{Capture, Limits, Stopped};
use anywire_stack::device::Device;
use anywire_stack::pair::{Endpoint, Settings as PairSettings};
use anywire_tcp::{Frames, Instant};

use crate::support::{batch, ipv4, mac, received_at};

const LATER: Instant = Instant::from_micros(7_250_000);

fn pair() -> [Endpoint; 2] {
    Endpoint::pair(PairSettings::default())
}

/// A datagram from port 9 to port 9. No checksum, as UDP over IPv4 allows.
fn datagram(number: u8) -> Vec<u8> {
    let udp = [0, 9, 0, 9, 0, 12, 0, 0, number, 1, 2, 3];
    ipv4(mac(1), mac(2), [10, 0, 0, 1], [10, 0, 0, 2], 64, &udp)
}

fn sample() -> Vec<u8> {
    let [one, mut two] = pair();
    let start = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut one = Capture::new(one, Vec::new(), Limits::default()).starting_at(start);
    one.transmit(LATER, &mut batch((0..10).map(datagram)));
    assert_eq!(received_at(&mut two, LATER).len(), 10);
    two.transmit(
        LATER,
        &mut batch([ipv4(mac(2), mac(1), [10, 0, 0, 2], [10, 0, 0, 1], 64, &[0, 9, 0, 9, 0, 8, 0, 0])]),
    );
    assert_eq!(received_at(&mut one, LATER).len(), 1);
    let counters = one.capture_counters();
    assert_eq!((counters.frames_written, counters.frames_missed, one.stopped()), (11, 0, None));
    let (_, file) = one.into_parts();
    assert_eq!(file.len() as u64, counters.bytes_written);
    file
}

#[test]
fn the_file_reads_back() {
    let file = sample();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(4), word(20)), (0xa1b2_c3d4, 0x0004_0002, 1));
    let (mut at, mut frames) = (24, Vec::new());
    while at < file.len() {
        assert_eq!((word(at), word(at + 4)), (1_700_000_007, 250_000));
        let length = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, length);
        frames.push(file[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    assert!(frames[..10].iter().cloned().eq((0..10).map(datagram)));
    assert_eq!(frames.len(), 11);
}

#[test]
fn tshark_sees_nothing_malformed() {
    let tshark = |arguments: &[&str]| {
        Command::new("tshark")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    };
    // The fields that a frame of the sample must have, and none that says that something is wrong.
    let fields = [
        "-r",
        "-",
        "-T",
        "fields",
        "-e",
        "frame.time_epoch",
        "-e",
        "ip.ttl",
        "-e",
        "udp.length",
        "-e",
        "_ws.expert",
    ];
    let Ok(mut running) = tshark(&fields) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "no tshark is installed, and CI is set: install the package `tshark`"
        );
        crate::skipped::say("no tshark is installed");
        return;
    };
    running.stdin.take().unwrap().write_all(&sample()).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 11);
    for line in &lines[..10] {
        assert_eq!(line.trim_end(), "1700000007.250000000\t64\t12");
    }
}

#[test]
fn both_limits_hold() {
    let [one, mut two] = pair();
    let limits = Limits { frame_bytes: 20, file_bytes: 24 + 3 * 36 + 35 };
    let mut one = Capture::new(one, Vec::new(), limits);
    one.transmit(LATER, &mut batch((0..5).map(datagram)));
    one.transmit(LATER, &mut batch((0..5).map(datagram)));
    assert_eq!(received_at(&mut two, LATER).len(), 10, "the traffic goes on");
    let counters = one.capture_counters();
    assert_eq!((counters.frames_written, counters.frames_missed), (3, 7));
    assert_eq!(one.stopped(), Some(Stopped::Limit));
    assert_eq!(one.into_parts().1.len(), 24 + 3 * 36);
}

#[test]
fn a_writer_that_fails_ends_the_capture_alone() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }
    let [one, mut two] = pair();
    let mut one = Capture::new(one, Full(100), Limits::default());
    let mut frames = Frames::new();
    for _ in 0..3 {
        assert!(frames.push(&datagram(1)), "room");
        assert_eq!(one.transmit(LATER, &mut frames), 1);
    }
    assert_eq!(received_at(&mut two, LATER).len(), 3);
    assert_eq!(one.stopped(), Some(Stopped::Failed(io::ErrorKind::StorageFull)));
    assert_eq!((one.capture_counters().frames_written, one.capture_counters().frames_missed), (1, 2));
}
