//! A capture of an interface begins and ends while it runs. It has the frames of both ways that the filter lets through, until its reader
//! goes; a reader that is too slow holds up no traffic.

use std::cell::RefCell;
use std::io::Write;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anywire_stack::capture::{Recording, Sink, SinkError, pcapng};
use anywire_stack::stream::Interface;

use crate::hosts::{CLIENT, Network, SERVER, address, bytes, echo, exchange, run};

/// What has come to a reader, who may have no room, or may have gone.
#[derive(Clone, Default)]
struct Reader(Rc<RefCell<Come>>);

#[derive(Default)]
struct Come {
    blocks: Vec<u8>,
    frames: u64,
    refused: u64,
    refusal: Option<SinkError>,
}

impl Sink for Reader {
    fn put(&mut self, blocks: Vec<u8>, frames: u64) -> Result<(), SinkError> {
        let mut come = self.0.borrow_mut();
        if let Some(refusal) = come.refusal {
            come.refused += frames;
            return Err(refusal);
        }
        come.blocks.extend(blocks);
        come.frames += frames;
        Ok(())
    }
}

/// A server that echoes on two ports, and its client.
fn hosts() -> (Interface, Interface) {
    let network = Network::new();
    let (client, server) = (network.host(CLIENT), network.host(SERVER));
    for port in [80, 81] {
        let mut listener = server.listen(address(SERVER, port), Default::default()).expect("it is free");
        tokio::task::spawn_local(async move {
            while let Ok(stream) = listener.accept().await {
                tokio::task::spawn_local(echo(stream));
            }
        });
    }
    (client, server)
}

async fn call(client: &Interface, port: u16) {
    let stream = client.connect(address(SERVER, port)).await.expect("it listens");
    assert!(exchange(stream, bytes(3, 20_000)).await.expect("it ends well") == bytes(3, 20_000));
}

#[test]
fn what_the_filter_lets_through_is_in_the_file() {
    let Some(seen) = run_and_read("tcp port 80", async |client| {
        call(client, 81).await;
        call(client, 80).await;
        call(client, 81).await;
    }) else {
        return;
    };
    let lines: Vec<Vec<&str>> = seen.lines().map(|line| line.split('\t').collect()).collect();
    assert!(lines.len() > 30, "{seen}");
    for line in &lines {
        let [from, to, wrong] = line[..] else { panic!("three fields: {line:?}") };
        assert!((from == "80") != (to == "80"), "{line:?}");
        assert_eq!(wrong, "", "nothing is malformed: {line:?}");
    }
    for end in [0, 1] {
        assert!(lines.iter().any(|line| line[end] == "80"), "both ways: {seen}");
    }
}

/// What tshark reads of a capture at the server: both ports of each frame, and what it finds wrong. `None` without tshark.
fn run_and_read(filter: &str, calls: impl AsyncFnOnce(&Interface)) -> Option<String> {
    let reader = Reader::default();
    run(async || {
        let (client, server) = hosts();
        let filter = Some(filter.parse().expect("it is right"));
        server.capture(Recording { filter, ..Default::default() }, reader.clone());
        calls(&client).await;
    });
    let mut file = Vec::new();
    pcapng::section_header(&mut file);
    pcapng::interface(&mut file, "tap0", 65_535);
    file.extend(&reader.0.borrow().blocks);
    pcapng::statistics(&mut file, 0, 1_700_000_000_000_000, 0);
    let tshark = Command::new("tshark")
        .args(["-r", "-", "-o", "tcp.check_checksum:TRUE", "-T", "fields"])
        .args(["-e", "tcp.srcport", "-e", "tcp.dstport", "-e", "_ws.malformed"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tshark) = tshark else {
        assert!(std::env::var_os("CI").is_none(), "CI needs tshark: install the package `tshark`");
        crate::skipped::say("no tshark is installed");
        return None;
    };
    let mut stdin = tshark.stdin.take().expect("it was asked for");
    let writing = std::thread::spawn(move || stdin.write_all(&file));
    let output = tshark.wait_with_output().expect("it ends");
    writing.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn a_reader_without_room_costs_records_and_one_that_has_gone_ends_it() {
    run(async || {
        let (client, server) = hosts();
        let reader = Reader::default();
        server.capture(Recording::default(), reader.clone());
        assert_eq!(server.captures(), 1);
        reader.0.borrow_mut().refusal = Some(SinkError::Full);
        call(&client, 80).await;
        let refused = reader.0.borrow().refused;
        assert!(refused > 30 && reader.0.borrow().frames == 0);
        reader.0.borrow_mut().refusal = None;
        call(&client, 80).await;
        assert!(reader.0.borrow().frames > 30, "it has gone on");
        reader.0.borrow_mut().refusal = Some(SinkError::Closed);
        call(&client, 80).await;
        assert_eq!((server.captures(), server.counters().link_downs), (0, 0));
        let asked = reader.0.borrow().refused;
        call(&client, 80).await;
        assert_eq!(reader.0.borrow().refused, asked, "nobody is asked any more");
    });
}

#[test]
fn frames_are_cut_to_what_was_asked_for() {
    run(async || {
        let (client, server) = hosts();
        let reader = Reader::default();
        server.capture(Recording { frame_bytes: 40, ..Default::default() }, reader.clone());
        call(&client, 80).await;
        let come = reader.0.borrow();
        let word = |at: usize| u32::from_ne_bytes(come.blocks[at..at + 4].try_into().expect("four"));
        let (mut at, mut longest) = (0, 0);
        while at < come.blocks.len() {
            assert_eq!((word(at), word(at + 20)), (6, 40), "a packet with so many bytes kept");
            longest = longest.max(word(at + 24));
            at += word(at + 4) as usize;
        }
        assert!(longest > 1000, "and its length is told: {longest}");
    });
}
