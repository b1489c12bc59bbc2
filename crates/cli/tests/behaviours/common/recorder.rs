//! A server that notes what it is asked, and answers by the path: JSON, files and their parts, statuses, and no good.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) line: String,
    /// In lower case, in order, without those in which the commands differ on purpose.
    pub(crate) fields: Vec<String>,
    pub(crate) body: Vec<u8>,
    /// Which of the connections it came on.
    pub(crate) connection: usize,
}

/// A server that notes what it is asked.
pub(crate) struct Recorder {
    pub(crate) authority: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("it is bound").to_string();
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let noted = requests.clone();
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                let (mut stream, noted) = (stream.expect("a connection"), noted.clone());
                std::thread::spawn(move || {
                    while let Some(request) = read(&mut stream) {
                        let mut noted = noted.lock().expect("no panic");
                        let before =
                            noted.iter().filter(|before: &&Request| before.line == request.line).count();
                        let response = response(&request, before);
                        noted.push(Request { connection, ..request });
                        drop(noted);
                        // The other end may have seen enough.
                        if stream.write_all(response.as_bytes()).is_err()
                            || response.contains("close")
                            || response.is_empty()
                        {
                            break;
                        }
                    }
                });
            }
        });
        Self { authority, requests }
    }

    /// What it was asked since the last time.
    pub(crate) fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.requests.lock().expect("no panic"))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority)
    }
}

/// The next request of a connection.
fn read(stream: &mut TcpStream) -> Option<Request> {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut part) {
            Ok(count @ 1..) => read.extend_from_slice(&part[..count]),
            _ => return None,
        }
    };
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let mut lines = head.lines().map(str::to_owned);
    let line = lines.next().unwrap_or_default();
    let mut fields: Vec<String> = lines.filter(|line| !line.is_empty()).collect();
    for field in &mut fields {
        let (name, value) = field.split_once(':').expect("a field");
        *field = format!("{}: {}", name.to_ascii_lowercase(), value.trim());
    }
    let field = |name: &str| fields.iter().find_map(|field| field.strip_prefix(name)).map(str::to_owned);
    let mut body = read.split_off(end);
    if field("transfer-encoding: ").is_some_and(|coding| coding == "chunked") {
        while !body.ends_with(b"0\r\n\r\n") {
            match stream.read(&mut part) {
                Ok(count @ 1..) => body.extend_from_slice(&part[..count]),
                _ => return None,
            }
        }
        body = unchunked(&body);
    } else {
        let length = field("content-length: ").map_or(0, |length| length.parse().expect("a number"));
        if field("expect: ").is_some() {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
        }
        while body.len() < length {
            match stream.read(&mut part) {
                Ok(count @ 1..) => body.extend_from_slice(&part[..count]),
                _ => return None,
            }
        }
    }
    let is_ours = [
        "proxy-connection: ",
        "user-agent: ",
        "accept: */*",
        "content-length: ",
        "transfer-encoding: ",
        "expect: ",
    ];
    fields.retain(|field| !is_ours.iter().any(|prefix| field.starts_with(prefix)));
    fields.sort();
    Some(Request { line, fields, body, connection: 0 })
}

fn unchunked(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n").expect("a chunk");
        let length = std::str::from_utf8(&chunks[..end])
            .ok()
            .and_then(|length| usize::from_str_radix(length, 16).ok());
        let length = length.expect("a length");
        if length == 0 {
            return body;
        }
        body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = &chunks[end + 4 + length..];
    }
}

/// What `/file.txt` has.
pub(crate) const FILE: &str = "0123456789";

/// The response to a request that has come so often before.
fn response(request: &Request, before: usize) -> String {
    let (method, target) = request.line.split_once(' ').expect("a request line");
    let path = target.split([' ', '?']).next().unwrap_or_default();
    let range = request.fields.iter().find_map(|field| field.strip_prefix("range: bytes="));
    if method == "CONNECT" {
        return "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned();
    }
    let (status, fields, body) = match (path, range) {
        ("/json", _) => {
            ("200 OK", "content-type: application/json\r\nx-say: hi\r\n".to_owned(), r#"{"a":1}"#)
        }
        ("/html", _) => ("200 OK", "content-type: application/json\r\n".to_owned(), "<p>no JSON</p>"),
        ("/binary", _) => ("200 OK", String::new(), "a\0b"),
        ("/tagged.txt", None) => ("200 OK", "etag: \"new\"\r\n".to_owned(), FILE),
        ("/tagged.txt", Some("10-" | "11-")) => {
            ("416 Range Not Satisfiable", "content-range: bytes */10\r\n".to_owned(), "no such part")
        }
        ("/tagged.txt", Some(_)) if request.fields.iter().any(|field| field == "if-range: \"old\"") => {
            ("200 OK", "etag: \"new\"\r\n".to_owned(), FILE)
        }
        ("/tagged.txt", Some(range)) => {
            let first = range.trim_end_matches('-').parse().expect("a number");
            let fields = format!("etag: \"new\"\r\ncontent-range: bytes {first}-9/10\r\n");
            ("206 Partial Content", fields, FILE.get(first..).expect("within it"))
        }
        ("/wrong.txt", Some(_)) => {
            ("206 Partial Content", "content-range: bytes 0-9/10\r\n".to_owned(), FILE)
        }
        ("/whole.txt", _) => ("200 OK", String::new(), FILE),
        ("/cut.txt", _) => {
            return "HTTP/1.1 200 OK\r\netag: \"old\"\r\ncontent-length: 9\r\nconnection: close\r\n\r\ncut"
                .to_owned();
        }
        ("/login", _) => ("200 OK", "set-cookie: id=7; Path=/; Max-Age=1000\r\n".to_owned(), "welcome"),
        ("/old", _) => ("302 Found", "location: /json\r\n".to_owned(), "old"),
        ("/moved", _) => ("307 Temporary Redirect", "location: json\r\n".to_owned(), ""),
        ("/away", _) => ("302 Found", "location: http://127.0.0.1:1/\r\n".to_owned(), ""),
        ("/circle", _) => ("302 Found", "location: /circle\r\n".to_owned(), ""),
        ("/busy", _) if before == 0 => ("503 Service Unavailable", "retry-after: 0\r\n".to_owned(), "busy"),
        (path, _) if let Some(number) = path.strip_prefix("/next/") => {
            let number: u32 = number.parse().expect("a number");
            ("302 Found", format!("location: /next/{}\r\n", number + 1), "")
        }
        ("/varied", _) => ("200 OK", "vary: a\r\nx-say: hi\r\nvary: b\r\n".to_owned(), "hi"),
        ("/missing", _) => ("404 Not Found", String::new(), "nothing here"),
        ("/empty", _) => return String::new(),
        ("/hints", _) => {
            let hints = "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n";
            return format!("{hints}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
        }
        ("/cut", _) => {
            return "HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\ncut".to_owned();
        }
        ("/file.txt", None) => ("200 OK", String::new(), FILE),
        ("/file.txt", Some(range)) => {
            let (first, last) = range.split_once('-').expect("a range");
            let first: usize = first.parse().expect("a number");
            let last: usize = last.parse().unwrap_or(FILE.len() - 1);
            (
                "206 Partial Content",
                format!("content-range: bytes {first}-{last}/10\r\n"),
                &FILE[first..=last],
            )
        }
        _ => ("200 OK", String::new(), "hi"),
    };
    let shown = if method == "HEAD" { "" } else { body };
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{fields}\r\n{shown}", body.len())
}
