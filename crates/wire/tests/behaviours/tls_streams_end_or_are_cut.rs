//! After the handshake: only the peer can end a stream, altered records are refused, and clear text gets an answer.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::tls::{ServerTls, ServerTlsOptions};
use anywire_wire::{Address, Connection, Dialer, ListenOptions, ListenerHandle};

fn listen(loops: &Loops, address: &str, options: &ListenOptions) -> anywire_wire::Listener {
    crate::support::bind(loops, &address.parse().expect("an address"), options)
}

fn tcp_of(listening: &ListenerHandle) -> Address {
    let port = listening.local().port().expect("TCP has ports");
    format!("tcp:127.0.0.1:{port}").parse().expect("an address")
}

/// What happens to the bytes on their way.
#[derive(Clone, Copy)]
enum Path {
    /// The server's bytes end behind so many, without an end of the stream.
    CutBehind(usize),
    /// One bit of the byte at this place of the server's bytes is another.
    Altered(usize),
    /// All bytes come one by one, the client's, too.
    OneByOne,
}

/// Carries bytes between a client and the server, and does to the server's what the path says.
async fn carry(mut client: Connection, server: Address, path: Path) {
    let mut server = crate::support::dial(&server).await;
    let mut place = 0;
    let (mut from_client, mut from_server) = ([0; 4096], [0; 4096]);
    loop {
        tokio::select! {
            biased;
            read = client.read(&mut from_client) => {
                let Ok(read @ 1..) = read else { return };
                for piece in from_client[..read].chunks(if let Path::OneByOne = path { 1 } else { read }) {
                    if server.write_all(piece).await.is_err() { return }
                    tokio::task::yield_now().await;
                }
            }
            read = server.read(&mut from_server) => match read {
                Ok(read @ 1..) => {
                    let mut bytes = from_server[..read].to_vec();
                    match path {
                        Path::CutBehind(end) => bytes.truncate(end.saturating_sub(place)),
                        Path::Altered(at) => if let Some(byte) = bytes.get_mut(at.wrapping_sub(place)) { *byte ^= 1 },
                        Path::OneByOne => {}
                    }
                    for piece in bytes.chunks(if let Path::OneByOne = path { 1 } else { bytes.len().max(1) }) {
                        if client.write_all(piece).await.is_err() { return }
                        tokio::task::yield_now().await;
                    }
                    place += read;
                    if matches!(path, Path::CutBehind(end) if place >= end) { return }
                }
                _ => { let _ = client.half_close().await; }
            },
        }
    }
}

/// What a client hears of a server that greets and ends, over such a path. The server knows whom the client has asked for.
fn heard_over(path: Path) -> Result<Vec<u8>, String> {
    let loops = crate::support::loops(1);
    let server = listen(&loops, "tls:127.0.0.1:0", &crate::support::listening()).serve(|mut connection| {
        let asked = connection.negotiated().and_then(|agreed| agreed.server_name.clone());
        let greeting = if asked.as_deref() == Some("localhost") { GREETING } else { b"who?" };
        drop(anywire_loops::spawn(async move { connection.write_all(greeting).await }));
    });
    let behind = tcp_of(&server);
    let between = listen(&loops, "tcp:127.0.0.1:0", &ListenOptions::default())
        .serve(move |client| drop(anywire_loops::spawn(carry(client, behind.clone(), path))));
    let address: Address =
        format!("tls:127.0.0.1:{}", tcp_of(&between).port().expect("a port")).parse().expect("an address");
    crate::support::on_a_loop(move || async move {
        let dialled = crate::support::dialer().dial(&address).await;
        let mut connection = dialled.map_err(|error| format!("handshake: {error}"))?;
        let mut all = Vec::new();
        let mut buffer = [0; 100];
        loop {
            match connection.read(&mut buffer).await {
                Ok(0) => return Ok(all),
                Ok(read) => all.extend_from_slice(&buffer[..read]),
                Err(error) => return Err(format!("{:?} behind {}: {error}", error.kind(), all.len())),
            }
        }
    })
}

const GREETING: &[u8] = b"a message that has an end";

#[test]
fn bytes_may_come_one_by_one() {
    assert_eq!(heard_over(Path::OneByOne).as_deref(), Ok(GREETING));
}

#[test]
fn wherever_it_is_cut_a_stream_has_no_end() {
    let whole = (0..).step_by(97).find(|&end| heard_over(Path::CutBehind(end)).is_ok());
    let whole = whole.expect("it is whole in the end");
    for end in (0..whole).step_by(131).chain(whole.saturating_sub(200)..whole) {
        match heard_over(Path::CutBehind(end)) {
            Err(said) => {
                assert!(
                    said.starts_with("handshake") || said.contains("UnexpectedEof") || said.contains("Reset"),
                    "{said}"
                );
            }
            // The last bytes of all are the end itself.
            Ok(heard) => assert_eq!(heard, GREETING),
        }
    }
}

#[test]
fn no_byte_can_be_altered() {
    for at in (0..1500).step_by(53) {
        match heard_over(Path::Altered(at)) {
            Ok(heard) => assert_eq!(heard, GREETING, "at {at}"),
            Err(said) => {
                assert!(!said.contains("behind 25"), "the whole message was believed at {at}: {said}")
            }
        }
    }
}

#[test]
fn a_listener_hears_where_a_stream_was_cut() {
    let ends = Arc::new(Mutex::new(Vec::new()));
    let loops = crate::support::loops(1);
    let listening = listen(&loops, "tls:127.0.0.1:0", &crate::support::listening()).serve({
        let ends = Arc::clone(&ends);
        move |mut connection| {
            let ends = Arc::clone(&ends);
            drop(anywire_loops::spawn(async move {
                let end = crate::support::read_to_end(&mut connection).await.map_err(|error| error.kind());
                ends.lock().expect("no panic").push(end);
            }));
        }
    });
    crate::support::play_on(&listening, async |mut connection| {
        connection.write_all(b"whole").await.expect("it is open");
        connection.half_close().await.expect("it is open");
        assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an orderly end"), b"");
    });
    crate::support::play_on(&listening, async |mut connection| {
        connection.write_all(b"cut").await.expect("it is open");
        connection.abort();
    });
    crate::support::eventually("both have ended", || ends.lock().expect("no panic").len() == 2);
    let ends = ends.lock().expect("no panic");
    assert_eq!(ends[0], Ok(b"whole".to_vec()));
    assert!(matches!(ends[1], Err(ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)), "{ends:?}");
}

#[test]
fn a_bad_record_behind_the_end_of_ours_is_an_error_as_any() {
    /// Carries bytes, and ends the client's, once the server has ended, with a record that nobody sealed.
    async fn carry(mut client: Connection, server: Address) {
        let mut server = crate::support::dial(&server).await;
        let (mut from_client, mut from_server) = ([0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                read = client.read(&mut from_client) => match read {
                    Ok(read @ 1..) => server.write_all(&from_client[..read]).await.expect("it is open"),
                    _ => return,
                },
                read = server.read(&mut from_server) => match read {
                    Ok(read @ 1..) => client.write_all(&from_server[..read]).await.expect("it is open"),
                    _ => break,
                },
            }
        }
        let bad = [&[23, 3, 3, 0, 32][..], &[7; 32]].concat();
        server.write_all(&bad).await.expect("it reads");
        let _ = crate::support::read_to_end(&mut server).await;
    }

    let ends = Arc::new(Mutex::new(Vec::new()));
    let loops = crate::support::loops(1);
    let listening = listen(&loops, "tls:127.0.0.1:0", &crate::support::listening()).serve({
        let ends = Arc::clone(&ends);
        move |mut connection| {
            let ends = Arc::clone(&ends);
            drop(anywire_loops::spawn(async move {
                connection.half_close().await.expect("it is open");
                let end = crate::support::read_to_end(&mut connection).await.map_err(|error| error.kind());
                ends.lock().expect("no panic").push(end);
            }));
        }
    });
    let behind = tcp_of(&listening);
    let between = listen(&loops, "tcp:127.0.0.1:0", &ListenOptions::default())
        .serve(move |client| drop(anywire_loops::spawn(carry(client, behind.clone()))));
    let address = format!("tls:127.0.0.1:{}", tcp_of(&between).port().expect("a port"));
    crate::support::on_a_loop(move || async move {
        let mut connection = crate::support::dialer().dial(address.as_str()).await.expect("a handshake");
        // The tickets have to be read, and then there is the end.
        let _ = crate::support::read_to_end(&mut connection).await;
    });
    crate::support::eventually("it has ended", || !ends.lock().expect("no panic").is_empty());
    assert!(ends.lock().expect("no panic")[0].is_err());
}

/// Sends bytes that are no TLS, and hears the answer.
fn say_in_clear_text(listening: &ListenerHandle, bytes: &'static [u8]) -> Result<Vec<u8>, ErrorKind> {
    let address = tcp_of(listening);
    crate::support::on_a_loop(move || async move {
        let mut connection = Dialer::default().dial(&address).await.expect("somebody listens there");
        connection.write_all(bytes).await.map_err(|error| error.kind())?;
        crate::support::read_to_end(&mut connection).await.map_err(|error| error.kind())
    })
}

fn shows(change: impl FnOnce(&mut ServerTlsOptions)) -> ListenOptions {
    let mut tls = ServerTlsOptions {
        identities: vec![crate::support::trial::identity()],
        ..ServerTlsOptions::default()
    };
    change(&mut tls);
    ListenOptions { tls: Some(ServerTls::new(tls).expect("a good certificate")), ..ListenOptions::default() }
}

#[test]
fn clear_text_is_answered_in_its_own_language_and_refused() {
    let loops = crate::support::loops(1);
    let answer = |first: &[u8]| [&first[..1], b": speak TLS"].concat();
    let options = ListenOptions { answer_to_clear_text: Some(answer), ..crate::support::listening() };
    let listening =
        crate::support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    // More than the wire holds: a reset would end its writer before that reads the answer.
    static REQUEST: [u8; 1_000_000] = [b'G'; 1_000_000];
    assert_eq!(say_in_clear_text(&listening, b"GET / HTTP/1.1\r\n\r\n"), Ok(b"G: speak TLS".to_vec()));
    assert_eq!(say_in_clear_text(&listening, &REQUEST), Ok(b"G: speak TLS".to_vec()));
    crate::support::eventually("they are counted", || listening.counters().failed_handshakes == 2);
    crate::support::play_on(&listening, async |mut connection| {
        crate::support::ask_echo(&mut connection).await
    });
}

#[test]
fn clear_text_is_served_on_the_same_port_if_that_is_wanted() {
    let loops = crate::support::loops(1);
    let options = shows(|tls| tls.takes_clear_text = true);
    let listening =
        crate::support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    let plain = tcp_of(&listening);
    crate::support::on_a_loop(move || async move {
        let mut connection = Dialer::default().dial(&plain).await.expect("somebody listens there");
        crate::support::ask_echo(&mut connection).await;
        crate::support::ask_echo(&mut connection).await;
        connection.half_close().await.expect("it is open");
        assert_eq!(crate::support::read_to_end(&mut connection).await.expect("an orderly end"), b"");
    });
    crate::support::play_on(&listening, async |mut connection| {
        crate::support::ask_echo(&mut connection).await
    });
}

/// The wire below, at the same place.
fn below(outer: &Address) -> Address {
    let text = outer.to_string();
    let (scheme, rest) = text.split_once(':').expect("WIRE:WHERE");
    format!("{}:{rest}", scheme.strip_prefix("tls+").unwrap_or("tcp")).parse().expect("an address")
}

#[test]
fn clear_text_that_was_not_read_makes_the_close_a_reset_on_every_wire() {
    const SAID: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    for scratch in crate::support::addresses().filter(crate::support::has_tls) {
        for read_before in [0, 1, SAID.len()] {
            let options = shows(|tls| tls.takes_clear_text = true);
            let loops = crate::support::loops(1);
            let listening = crate::support::bind(&loops, &scratch, &options).serve(move |mut connection| {
                drop(anywire_loops::spawn(async move {
                    let mut buffer = [0; SAID.len()];
                    let mut read = 0;
                    while read < read_before {
                        let room = &mut buffer[read..read_before];
                        read += connection.read(room).await.expect("the peer waits for an end");
                    }
                }));
            });
            let plain = below(listening.local());
            let end = crate::support::on_a_loop(move || async move {
                let mut connection = crate::support::dial(&plain).await;
                connection.write_all(SAID).await.expect("the peer is there");
                crate::support::read_to_end(&mut connection).await.map_err(|error| error.kind())
            });
            let expected =
                if read_before < SAID.len() { Err(ErrorKind::ConnectionReset) } else { Ok(Vec::new()) };
            assert_eq!(end, expected, "on {scratch}, {read_before} bytes were read");
        }
    }
}

#[test]
fn bytes_that_are_no_handshake_get_an_alert() {
    let loops = crate::support::loops(1);
    let listening = crate::support::serve_echo(
        &loops,
        &"tls:127.0.0.1:0".parse().expect("an address"),
        &crate::support::listening(),
    );
    // A handshake that begins with its end: `server_hello_done`.
    let heard = say_in_clear_text(&listening, b"\x16\x03\x01\x00\x04\x0e\0\0\0").expect("an orderly end");
    // An alert record, fatal: unexpected_message (RFC 8446 section 6).
    assert_eq!((heard.first(), &heard[5..]), (Some(&21), &[2, 10][..]), "{heard:?}");
    crate::support::eventually("it is counted", || listening.counters().failed_handshakes == 1);
}

#[test]
fn half_a_handshake_is_ended_by_its_deadline_though_each_byte_comes_in_time() {
    let loops = crate::support::loops(1);
    let options =
        ListenOptions { handshake_timeout: Duration::from_millis(200), ..crate::support::listening() };
    let listening =
        crate::support::serve_echo(&loops, &"tls:127.0.0.1:0".parse().expect("an address"), &options);
    let address = tcp_of(&listening);
    crate::support::on_a_loop(move || async move {
        let mut connection = Dialer::default().dial(&address).await.expect("somebody listens there");
        connection.write_all(b"\x16\x03\x01\x40\x00\x01").await.expect("it is open");
        loop {
            if connection.write_all(b"\0").await.is_err() {
                return;
            }
            let read = tokio::time::timeout(Duration::from_millis(10), connection.read(&mut [0; 10])).await;
            if read.is_ok() {
                return;
            }
        }
    });
    crate::support::eventually("it is counted", || listening.counters().handshake_timeouts == 1);
}

#[test]
fn what_is_held_back_counts_until_it_has_left() {
    // A peer that never reads.
    crate::support::on_each_wire(
        async |mut accepted| {
            let _ = accepted.read(&mut [0; 1]).await;
        },
        async |mut dialled| {
            if !dialled.is_buffered() {
                return;
            }
            let room = vec![0; 1000];
            let written = poll_fn(|cx| dialled.poll_write(cx, &room)).await.expect("it is open");
            let held = dialled.held_back();
            assert!(held > written, "{held}: sealed bytes are more than plain ones");
            poll_fn(|cx| dialled.poll_flush(cx)).await.expect("the wire has room");
            assert_eq!(dialled.held_back(), 0);
        },
    );
}

#[test]
fn a_reader_takes_no_wake_of_a_writer() {
    const MANY: usize = 8 << 20;
    crate::support::on_each_wire(
        async |mut accepted| {
            // The dialled end waits for room by now, and reads meanwhile.
            for _ in 0..100 {
                accepted.write_all(b"more").await.expect("the peer reads");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (mut left, mut buffer) = (MANY, vec![0; 64 << 10]);
            while left > 0 {
                left -= accepted.read(&mut buffer).await.expect("the peer writes");
            }
        },
        async |dialled| {
            let (mut reader, mut writer) = tokio::io::split(dialled);
            let reading = anywire_loops::spawn(async move {
                let mut buffer = [0; 4096];
                while tokio::io::AsyncReadExt::read(&mut reader, &mut buffer).await.is_ok_and(|read| read > 0)
                {
                }
            });
            let writing = async {
                tokio::io::AsyncWriteExt::write_all(&mut writer, &vec![0; MANY]).await?;
                tokio::io::AsyncWriteExt::flush(&mut writer).await
            };
            let in_time = tokio::time::timeout(crate::support::HANG, writing).await;
            in_time.expect("the writer is woken").expect("the peer reads");
            reading.abort();
        },
    );
}
