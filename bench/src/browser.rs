//! A browser on HTTP/2: requests with its many fields, which fill the tables of HPACK, one after the other on a blocking stream.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail, ensure};

/// One connection.
pub struct Browser<S> {
    stream: S,
    /// The next stream of HTTP/2.
    next: u32,
}

impl<S: Read + Write> Browser<S> {
    /// Greets the server.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn open(mut stream: S) -> Result<Self> {
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
        stream.write_all(&preface).context("sending failed")?;
        Ok(Self { stream, next: 1 })
    }

    /// Asks for `/`, and takes the answer to its end.
    ///
    /// # Errors
    /// The server refuses, or is gone.
    pub fn ask(&mut self) -> Result<()> {
        let id = self.next;
        self.next += 2;
        let head = frame(HEADERS, END_STREAM | END_HEADERS, id, &block(id == 1));
        self.stream.write_all(&head).context("sending failed")?;
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).context("no answer")?;
            let [l2, l1, l0, kind, flags, s3, s2, s1, s0] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, l2, l1, l0]) as usize];
            self.stream.read_exact(&mut payload).context("no answer")?;
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let answer = if kind == PING { &payload[..] } else { &[] };
                    self.stream.write_all(&frame(kind, ACK, 0, answer)).context("sending failed")?;
                }
                RST_STREAM | GOAWAY => bail!("the server ends the stream or the connection: {payload:?}"),
                HEADERS | DATA => {
                    ensure!(
                        u32::from_be_bytes([s3, s2, s1, s0]) == id,
                        "an answer came that nobody asked for"
                    );
                    if flags & END_STREAM != 0 {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }
}

/// The fields of a request. The first one puts them into the server's table, as browsers do with all but the path; from then
/// on each is a byte (RFC 7541 section 6).
fn block(is_first: bool) -> Vec<u8> {
    // :method GET, :scheme https, :path /.
    let mut block = vec![0x82, 0x87, 0x84];
    for (place, (name, value)) in FIELDS.iter().enumerate() {
        if !is_first {
            // The newest entry stands behind the 61 of the static table.
            block.push(0x80 | (61 + FIELDS.len() - place) as u8);
            continue;
        }
        block.push(0x40);
        for text in [name, value] {
            // Texts of 127 bytes and more have a length of two bytes.
            match text.len().checked_sub(127) {
                None => block.push(text.len() as u8),
                Some(more) => block.extend([127, more as u8]),
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l2, l1, l0] = (payload.len() as u32).to_be_bytes();
    [&[l2, l1, l0, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Bytes that the fields take in a table, as RFC 7541 section 4.1 counts them.
pub fn table_bytes() -> usize {
    FIELDS.iter().map(|(name, value)| name.len() + value.len() + 32).sum()
}

/// What Chrome sends to a site that it knows.
const FIELDS: [(&str, &str); 14] = [
    (":authority", "localhost"),
    ("cache-control", "max-age=0"),
    ("sec-ch-ua", "\"Chromium\";v=\"140\", \"Not=A?Brand\";v=\"24\", \"Google Chrome\";v=\"140\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("upgrade-insecure-requests", "1"),
    (
        "user-agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
    ),
    (
        "accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    ),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
    ("accept-encoding", "gzip, deflate, br, zstd"),
    ("accept-language", "en-GB,en;q=0.9,de;q=0.8"),
    ("cookie", "session=0b2f7a2e9c4d41f3a5b6c7d8e9f00112"),
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use anywire_http::Buffer;
    use anywire_http::h2::{Engine, Event, Limits};

    use super::*;

    #[test]
    fn the_fields_are_read_as_they_are_meant() {
        assert!(table_bytes() < 4096, "none is evicted");
        let (now, mut out) = (Instant::now(), Vec::new());
        let mut engine = Engine::server(Limits::default(), now, &mut out);
        let mut input = Buffer::new();
        input.fill_from(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        input.fill_from(&frame(SETTINGS, 0, 0, &[]));
        for id in [1, 3] {
            input.fill_from(&frame(HEADERS, END_STREAM | END_HEADERS, id, &block(id == 1)));
            let event = engine.receive(now, &mut input, &mut out).expect("good frames");
            let Some(Event::Request { head, .. }) = event else { panic!("no request") };
            assert_eq!((head.path(), head.authority()), ("/", Some("localhost")));
            for (name, value) in &FIELDS[1..] {
                assert_eq!(head.headers().get(name), Some(*value), "{name}");
            }
        }
    }
}
