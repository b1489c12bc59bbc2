//! Small servers of one fault each, on blocking sockets and threads of the standard library, so that every write is what it looks like.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// What is wrong with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: each answer leaves in one write.
    None,
    /// Head and body are two writes, each of which leaves at once.
    Splits,
    /// Head and body are two writes, and Nagle's algorithm holds the second one back.
    SplitsAndDelays,
    /// The first line is a write, and the rest is another one, which Nagle's algorithm holds back.
    SplitsHeadAndDelays,
    /// The head is a write, and the body is another one 50 ms later, for reasons of its own.
    BodyIsLate,
    /// Head, several chunks, the last chunk: a write each.
    FlushesEachChunk,
    /// All requests that came together are answered in the opposite order.
    AnswersBackwards,
    /// Each request is answered twice, in one write.
    AnswersTwice,
    /// Each answer says that the connection closes.
    ClosesEach,
    /// The tenth answer of a connection says that it closes.
    ClosesTenth,
    /// The connection is closed behind the tenth answer, which does not say so.
    LeavesBehindTenth,
    /// The connection is closed inside the tenth answer.
    CutsTenth,
    /// `Date` is an hour ahead.
    IsAheadByAnHour,
    /// `Server-Timing` says 2 ms, and an answer takes 40.
    SaysLessThanItTakes,
    /// HEAD is answered as GET is, body and all.
    SendsBodyToHead,
    /// The answer to HEAD states one byte more than GET has.
    MiscountsHead,
    /// The body is waited for, and nobody says so.
    IgnoresExpect,
    /// The answer is long, and cut if a HEAD comes before all of it has left: only while a reader pauses does anybody ask.
    CutsSlowReaders,
    /// What has come is read 4 KiB at a time, with a pause before each read.
    ReadsSlowly,
    /// The listening socket has a small receive buffer.
    TakesLittle,
    /// The accept queue is short, and emptied slowly.
    AcceptsSlowly,
    /// `/slow` takes a second, in the loop that serves all connections.
    BlocksItsLoop,
    /// `/slow` takes a second, in a thread of its own.
    IsSlowAlone,
}

/// The port of a server with this fault, which runs until the test program ends.
pub(crate) fn start(fault: Fault) -> u16 {
    let listener = listen(fault);
    let port = listener.local_addr().expect("it is bound").port();
    if fault == Fault::BlocksItsLoop {
        thread::spawn(move || serve_all_in_turn(&listener));
    } else {
        thread::spawn(move || {
            let heads = Arc::default();
            for stream in listener.incoming().flatten() {
                let heads = Arc::clone(&heads);
                thread::spawn(move || Connection::new(stream, fault, heads).serve());
                if fault == Fault::AcceptsSlowly {
                    thread::sleep(Duration::from_millis(30));
                }
            }
        });
    }
    port
}

/// The URL of a server with this fault.
pub(crate) fn url(fault: Fault) -> String {
    format!("http://127.0.0.1:{}/", start(fault))
}

/// A listening socket. The kernel takes the size of a receive buffer for accepted ones from there.
fn listen(fault: Fault) -> TcpListener {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    if fault == Fault::TakesLittle {
        socket.set_recv_buffer_size(2048).expect("a buffer may be small");
    }
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    if fault == Fault::ReadsSlowly {
        socket.set_recv_buffer_size(32 << 10).expect("a buffer may be small");
    }
    if fault == Fault::CutsSlowReaders {
        // So that the pause of a reader is noticed within a short answer.
        socket.set_send_buffer_size(64 << 10).expect("a buffer may be small");
    }
    socket.bind(&any.into()).expect("a free port");
    socket.listen(if fault == Fault::AcceptsSlowly { 1 } else { 1024 }).expect("it may listen");
    socket.into()
}

/// A request, as far as these servers care.
struct Asked {
    path: String,
    is_head: bool,
    /// Its body is still to come, and was waited for.
    expects: bool,
}

/// Takes the requests out of the bytes that have come.
fn requests_in(received: &mut Vec<u8>) -> Vec<Asked> {
    let mut requests = Vec::new();
    while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
        let mut words = head.split(' ');
        let is_head = words.next() == Some("head");
        let path = words.next().unwrap_or_default().to_owned();
        requests.push(Asked { path, is_head, expects: head.contains("expect: 100-continue") });
        received.drain(..end + 4);
    }
    requests
}

/// The answers to all requests whose heads are whole in these bytes, as a server without a fault has them: none with a body to HEAD.
pub(crate) fn answers(mut received: &[u8], body: &str) -> Vec<u8> {
    let mut answers = Vec::new();
    while let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
        let body_sent = if received.starts_with(b"HEAD ") { "" } else { body };
        answers
            .extend(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body_sent}", body.len()).bytes());
        received = &received[end + 4..];
    }
    answers
}

struct Connection {
    stream: TcpStream,
    fault: Fault,
    answers: usize,
    /// Requests by HEAD on all connections.
    heads: Arc<AtomicUsize>,
}

impl Connection {
    fn new(stream: TcpStream, fault: Fault, heads: Arc<AtomicUsize>) -> Self {
        let waits = matches!(fault, Fault::SplitsAndDelays | Fault::SplitsHeadAndDelays);
        stream.set_nodelay(!waits).expect("a socket");
        if fault == Fault::CutsSlowReaders {
            // So that it looks for a HEAD.
            stream.set_write_timeout(Some(Duration::from_millis(10))).expect("a socket");
        }
        Self { stream, fault, answers: 0, heads }
    }

    /// Until the peer leaves, or the fault says so.
    fn serve(mut self) {
        let (mut received, mut part) = (Vec::new(), [0; 16 << 10]);
        while let Ok(count @ 1..) = self.read(&mut part) {
            received.extend_from_slice(&part[..count]);
            let mut requests = requests_in(&mut received);
            if self.fault == Fault::AnswersBackwards {
                requests.reverse();
            }
            for asked in &requests {
                if asked.expects {
                    if self.fault != Fault::IgnoresExpect
                        && self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_err()
                    {
                        return;
                    }
                    while received.is_empty() {
                        let Ok(count @ 1..) = self.stream.read(&mut part) else { return };
                        received.extend_from_slice(&part[..count]);
                    }
                    received.remove(0);
                }
                if self.answer(asked).is_err() || self.is_over() {
                    return self.close();
                }
            }
        }
    }

    fn read(&mut self, part: &mut [u8]) -> std::io::Result<usize> {
        if self.fault != Fault::ReadsSlowly {
            return self.stream.read(part);
        }
        thread::sleep(Duration::from_millis(2));
        self.stream.read(&mut part[..4 << 10])
    }

    /// Whether the fault ends the connection here.
    fn is_over(&self) -> bool {
        match self.fault {
            Fault::ClosesEach => true,
            Fault::ClosesTenth | Fault::LeavesBehindTenth | Fault::CutsTenth => self.answers == 10,
            _ => false,
        }
    }

    /// Orderly: what the peer has sent is read, so that the end is no reset.
    fn close(mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let _ = self.stream.read_to_end(&mut Vec::new());
    }

    fn answer(&mut self, asked: &Asked) -> std::io::Result<()> {
        self.answers += 1;
        let heads = self.heads.load(Ordering::SeqCst);
        self.heads.fetch_add(usize::from(asked.is_head), Ordering::SeqCst);
        if asked.path == "/slow" {
            thread::sleep(SLOW);
        }
        let is_other = asked.path.contains("anywire-probe");
        let (status, body) =
            if is_other { ("404 Not Found", "no such path") } else { ("200 OK", "Hello, World!") };
        let long;
        let body = if self.fault == Fault::CutsSlowReaders {
            long = body.repeat(LONG / body.len());
            &*long
        } else {
            body
        };
        let length = body.len() + usize::from(asked.is_head && self.fault == Fault::MiscountsHead);
        let body = if asked.is_head && self.fault != Fault::SendsBodyToHead { "" } else { body };
        let fields = self.fields();
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{fields}\r\n");
        let stream = &mut self.stream;
        match self.fault {
            Fault::Splits | Fault::SplitsAndDelays => {
                stream.write_all(head.as_bytes())?;
                stream.write_all(body.as_bytes())
            }
            Fault::SplitsHeadAndDelays => {
                let (line, fields) = head.split_at(head.find('\n').map_or(0, |end| end + 1));
                stream.write_all(line.as_bytes())?;
                stream.write_all([fields.as_bytes(), body.as_bytes()].concat().as_slice())
            }
            Fault::BodyIsLate => {
                stream.write_all(head.as_bytes())?;
                thread::sleep(Duration::from_millis(50));
                stream.write_all(body.as_bytes())
            }
            Fault::FlushesEachChunk if !asked.is_head => {
                let head = format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n\r\n");
                stream.write_all(head.as_bytes())?;
                for piece in body.as_bytes().chunks(5) {
                    let text = String::from_utf8_lossy(piece);
                    stream.write_all(format!("{:x}\r\n{text}\r\n", piece.len()).as_bytes())?;
                }
                stream.write_all(b"0\r\n\r\n")
            }
            Fault::CutsSlowReaders if !asked.is_head => {
                let answer = [head.as_bytes(), body.as_bytes()].concat();
                let mut rest = &answer[..];
                while !rest.is_empty() {
                    match stream.write(&rest[..rest.len().min(16 << 10)]) {
                        Ok(count) => rest = &rest[count..],
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                    // Behind the first part: an answer that has not begun is not cut.
                    if !rest.is_empty() && self.heads.load(Ordering::SeqCst) != heads {
                        return Err(std::io::ErrorKind::TimedOut.into());
                    }
                }
                Ok(())
            }
            Fault::CutsTenth if self.answers == 10 => stream.write_all(head.as_bytes()),
            Fault::AnswersTwice => {
                stream.write_all([head.as_bytes(), body.as_bytes()].concat().repeat(2).as_slice())
            }
            _ => stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()),
        }
    }

    /// Fields that the fault adds.
    fn fields(&self) -> String {
        match self.fault {
            Fault::ClosesEach => "connection: close\r\n".to_owned(),
            Fault::ClosesTenth if self.answers == 10 => "connection: close\r\n".to_owned(),
            Fault::IsAheadByAnHour => {
                let mut line = anywire_http::date::DateLine::new();
                let ahead = std::time::SystemTime::now() + Duration::from_secs(3600);
                String::from_utf8_lossy(line.line(ahead)).into_owned()
            }
            Fault::SaysLessThanItTakes => {
                thread::sleep(Duration::from_millis(40));
                "server-timing: db;dur=1, total;dur=2\r\n".to_owned()
            }
            _ => String::new(),
        }
    }
}

/// One thread for all connections, as an event loop is: what one of them waits for, all wait for.
fn serve_all_in_turn(listener: &TcpListener) {
    listener.set_nonblocking(true).expect("a socket");
    let mut connections: Vec<(Connection, Vec<u8>)> = Vec::new();
    loop {
        let mut has_moved = false;
        while let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(true).expect("a socket");
            connections.push((Connection::new(stream, Fault::BlocksItsLoop, Arc::default()), Vec::new()));
            has_moved = true;
        }
        connections.retain_mut(|(connection, received)| {
            let mut part = [0; 16 << 10];
            match connection.stream.read(&mut part) {
                Ok(0) => false,
                Ok(count) => {
                    has_moved = true;
                    received.extend_from_slice(&part[..count]);
                    requests_in(received).iter().all(|asked| {
                        // What is waited for comes in the next turn, and is dropped there.
                        let continues = !asked.expects
                            || connection.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").is_ok();
                        continues && connection.answer(asked).is_ok()
                    })
                }
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            }
        });
        if !has_moved {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// A long answer: more than the buffers of both ends hold before it is read.
const LONG: usize = 1 << 20;
/// How long the slow path takes.
const SLOW: Duration = Duration::from_secs(1);

/// A server that sends these bytes to each connection once something has come, and then goes on as `then` says.
pub(crate) fn hostile(first: &'static [u8], then: Then) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let first = Arc::new(first);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let first = Arc::clone(&first);
            thread::spawn(move || {
                let mut part = [0; 16 << 10];
                if !matches!(stream.read(&mut part), Ok(1..)) || stream.write_all(&first).is_err() {
                    return;
                }
                match then {
                    Then::Ends => {
                        let _ = stream.shutdown(Shutdown::Write);
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                    Then::Waits => {
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                    Then::Repeats(bytes) => while stream.write_all(bytes).is_ok() {},
                    Then::Drips(byte) => {
                        while stream.write_all(&[byte]).is_ok() {
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                }
            });
        }
    });
    url
}

/// How a hostile server goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    /// Closes in order.
    Ends,
    /// Sends nothing more.
    Waits,
    /// Sends these bytes for ever.
    Repeats(&'static [u8]),
    /// Sends this byte for ever, one at a time.
    Drips(u8),
}
