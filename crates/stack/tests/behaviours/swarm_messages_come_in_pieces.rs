//! However the network cuts a stream, a task reads whole messages: it waits for more than it saw, and never spins.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use crate::swarms::{Net, QUICK, address, settings};
use anywire_stack::swarm::{Conn, FrameError, Incoming, LengthPrefix, ReadError, sleep};

/// Sends these parts, each some milliseconds after the last, and ends.
async fn send_parts(mut conn: Conn, parts: Vec<Vec<u8>>) {
    for part in parts {
        conn.send(&part[..]).await;
        sleep(Duration::from_millis(5)).await;
    }
}

/// A server that does `serve` with a connection on which these parts come. Gives its polls.
fn run<F: Future<Output = ()>>(parts: &[&[u8]], mut serve: impl FnMut(Conn) -> F) -> u64 {
    let mut net = Net::new();
    let mut small = settings(1);
    small.receive_window = 16 << 10;
    let mut server = net.host_with(small, 1, 10, |incoming: Incoming| serve(incoming.conn));
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
    let mut client = net.host(2, 10, |incoming: Incoming| send_parts(incoming.conn, parts.clone()));
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(1000, &mut [&mut server, &mut client]);
    let counters = server.counters().tasks;
    assert_eq!((server.tasks(), counters.panicked, counters.finished), (0, 0, 1));
    counters.polls
}

#[test]
fn a_decoder_that_needs_more_is_shown_all_of_it() {
    let lines: RefCell<Vec<String>> = RefCell::default();
    let polls = run(&[b"one\ntw", b"o", b"", b"\nth", b"ree", b"\nfour\nfi", b"ve"], |mut conn| {
        let lines = &lines;
        async move {
            while conn.readable().await {
                conn.read(|bytes| match bytes.iter().position(|byte| *byte == b'\n') {
                    Some(end) => {
                        lines.borrow_mut().push(String::from_utf8_lossy(&bytes[..end]).into_owned());
                        end + 1
                    }
                    None => 0,
                });
            }
        }
    });
    assert_eq!(*lines.borrow(), ["one", "two", "three", "four"]);
    assert!(polls <= 12, "{polls} polls");
}

#[test]
fn a_decoder_that_is_never_content_ends_at_half_the_window() {
    let shown = Cell::new(0);
    run(&[&[7; 6000], &[7; 6000], &[7; 6000], &[7; 6000]], |mut conn| {
        let shown = &shown;
        async move {
            while conn.readable().await {
                conn.read(|bytes| {
                    shown.set(bytes.len());
                    0
                });
            }
            conn.abort();
        }
    });
    assert!((8 << 10..=16 << 10).contains(&shown.get()), "{}", shown.get());
}

#[test]
fn exact_reads_wait_and_take_all_or_nothing() {
    run(&[b"ab", b"cdef", b"ghi"], |mut conn| async move {
        let mut four = [0; 4];
        conn.read_exact(&mut four).await.expect("they come");
        assert_eq!(&four, b"abcd");
        conn.fill_to(4).await.expect("they come");
        assert_eq!(
            conn.read_exact(&mut [0; 9000]).await,
            Err(ReadError::TooLong { wanted: 9000, limit: 8192 })
        );
        assert_eq!(conn.read_exact(&mut [0; 6]).await, Err(ReadError::Ended { have: 5, wanted: 6 }));
        let mut five = [0; 5];
        conn.read_exact(&mut five).await.expect("they have come");
        assert_eq!(&five, b"efghi");
        assert!(!conn.readable().await);
    });
}

const MESSAGES: LengthPrefix = LengthPrefix::u16(5000);

#[test]
fn messages_with_their_length_in_front_come_whole() {
    let long = [9; 5000];
    let (head, cut) = ((5000_u16).to_be_bytes(), long.split_at(1700));
    let seen: RefCell<Vec<Vec<u8>>> = RefCell::default();
    let parts: [&[u8]; 7] =
        [b"\0", b"\x03abc\0\0\0", b"\x01", b"d", &head, cut.0, &[cut.1, &b"\0\x02ef"[..]].concat()];
    run(&parts, |mut conn| {
        let seen = &seen;
        async move {
            while let Some(message) =
                MESSAGES.recv(&mut conn, <[u8]>::to_vec).await.expect("none is too long")
            {
                seen.borrow_mut().push(message);
            }
        }
    });
    assert_eq!(*seen.borrow(), [b"abc".to_vec(), vec![], b"d".to_vec(), long.to_vec(), b"ef".to_vec()]);
}

#[test]
fn bad_messages_are_errors_that_say_whose() {
    run(&[b"\x13\x89and more"], |mut conn| async move {
        let error = MESSAGES.recv(&mut conn, <[u8]>::len).await.expect_err("5001 bytes");
        assert_eq!(error, FrameError::TooLong { length: 5001, largest: 5000 });
    });
    run(&[b"\0\x05four"], |mut conn| async move {
        let error = MESSAGES.recv(&mut conn, <[u8]>::len).await.expect_err("it ends early");
        assert_eq!(error, FrameError::Read(ReadError::Ended { have: 6, wanted: 7 }));
    });
    run(&[b"\0"], |mut conn| async move {
        let error = MESSAGES.recv(&mut conn, <[u8]>::len).await.expect_err("it ends early");
        assert_eq!(error, FrameError::Read(ReadError::Ended { have: 1, wanted: 2 }));
    });
    run(&[], |mut conn| async move {
        assert_eq!(MESSAGES.recv(&mut conn, <[u8]>::len).await, Ok(None));
        let too_long = MESSAGES.send(&mut conn, &[0; 5001]).await;
        assert_eq!(too_long, Err(FrameError::TooLong { length: 5001, largest: 5000 }));
        conn.shutdown();
        assert_eq!(MESSAGES.send(&mut conn, b"late").await, Err(FrameError::Unsent));
    });
}

#[test]
fn messages_go_there_and_back() {
    let mut net = Net::new();
    let mut server = net.host(1, 10, |mut incoming: Incoming| async move {
        while let Ok(Some(message)) = MESSAGES.recv(&mut incoming.conn, <[u8]>::to_vec).await {
            MESSAGES.send(&mut incoming.conn, &message).await.expect("it is open");
        }
    });
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let done = Cell::new(0);
    let mut client = net.host(2, 10, |mut incoming: Incoming| {
        let done = &done;
        async move {
            for length in [0, 1, 200, 1446, 1447, 3000, 5000] {
                MESSAGES.send(&mut incoming.conn, &vec![length as u8; length]).await.expect("it is open");
                let back = MESSAGES.recv(&mut incoming.conn, |message| message == vec![length as u8; length]);
                assert_eq!(back.await, Ok(Some(true)), "{length} bytes");
            }
            done.set(done.get() + 1);
        }
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(1000, &mut [&mut server, &mut client]);
    assert_eq!((done.get(), server.tasks()), (1, 0));
}
