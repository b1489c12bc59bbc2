//! The requests of a connection as bytes, encoded once: they are sent in rounds.

use anywire::advice::Message;
use anywire::http::h1::{Framing, Limits, RequestDecoder, RequestEvent, encode};
use anywire::http::{HeadLimits, Headers, Method, Url};
use bytes::Bytes;

use crate::failure::{Code, Failure};
use crate::output;

/// Requests that follow each other, and begin anew behind the last one.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    bytes: Bytes,
    /// Where each ends in `bytes`.
    ends: Vec<usize>,
    methods: Vec<Method>,
    /// How many there are, but for repetitions.
    round: usize,
    /// The first that ends its connection: it says `Connection: close`, or is of HTTP/1.0.
    last: Option<usize>,
}

impl Requests {
    /// One request for a URL.
    pub(super) fn encode(
        url: &Url,
        method: Method,
        mut headers: Headers,
        body: &[u8],
    ) -> Result<Self, Failure> {
        let host = headers.get("host").unwrap_or(url.authority()).to_owned();
        headers.remove("host");
        let framing = if body.is_empty() { Framing::None } else { Framing::Length(body.len() as u64) };
        let mut bytes = Vec::new();
        encode::request_head(&mut bytes, &method, url.path_and_query(), &host, &headers, framing).map_err(
            |error| {
                Failure::of(Code::Usage, &error)
                    .help("correct the Host field of --header: HOST, or HOST:PORT")
            },
        )?;
        bytes.extend_from_slice(body);
        let all =
            Ends { ends: vec![bytes.len()], methods: vec![method], last: says_close(&headers).then_some(0) };
        Ok(Self::repeated(&bytes, &all))
    }

    /// The requests that these bytes are. Bytes that are none count as one.
    pub(super) fn raw(bytes: &[u8], head: HeadLimits) -> Self {
        match ends(bytes, head) {
            Ok(all) => Self::repeated(bytes, &all),
            Err(why) => {
                output::say(format_args!(
                    "warning: --raw: these are no requests of HTTP/1.1 ({why}), and count as one"
                ));
                let all = Ends { ends: vec![bytes.len()], methods: vec![Method::GET], last: None };
                Self::repeated(bytes, &all)
            }
        }
    }

    /// As many rounds as leave in one write.
    fn repeated(bytes: &[u8], all: &Ends) -> Self {
        let Ends { ends, methods, last } = all;
        let (round, length) = (ends.len(), bytes.len());
        let copies = (WRITE_BYTES / length).max(1);
        Self {
            bytes: bytes.repeat(copies).into(),
            ends: (0..copies).flat_map(|copy| ends.iter().map(move |end| end + copy * length)).collect(),
            methods: (0..copies).flat_map(|_| methods.iter().cloned()).collect(),
            round,
            last: *last,
        }
    }

    /// The number, from 1 on, of the first request behind which nothing may be sent on its connection (RFC 9112 section 9.6).
    pub(super) fn last(&self) -> Option<usize> {
        self.last.map(|index| index + 1)
    }

    /// How many there are.
    pub(super) fn in_a_round(&self) -> usize {
        self.round
    }

    /// The method of a request, by its number from 0 on.
    pub(super) fn method(&self, request: u64) -> &Method {
        &self.methods[(request % self.methods.len() as u64) as usize]
    }

    /// The bytes of so many requests.
    pub(super) fn bytes_of(&self, requests: u64) -> u64 {
        let (rounds, more) = (requests / self.ends.len() as u64, requests % self.ends.len() as u64);
        let of_more = if more == 0 { 0 } else { self.ends[more as usize - 1] };
        rounds * self.bytes.len() as u64 + of_more as u64
    }

    /// The next bytes behind these, up to there at most; none if there are none.
    pub(super) fn piece(&self, from: u64, to: u64) -> &[u8] {
        let begin = (from % self.bytes.len() as u64) as usize;
        let length = ((self.bytes.len() - begin) as u64).min(to.saturating_sub(from)) as usize;
        &self.bytes[begin..begin + length]
    }
}

/// Where each of some requests ends, its method, and which is the first that ends its connection.
struct Ends {
    ends: Vec<usize>,
    methods: Vec<Method>,
    last: Option<usize>,
}

fn says_close(headers: &Headers) -> bool {
    let options = headers.get_all("connection").flat_map(|value| value.split(|byte| *byte == b','));
    options.into_iter().any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Looks at each of some requests.
fn ends(bytes: &[u8], head: HeadLimits) -> Result<Ends, String> {
    let (mut rest, mut decoder) = (bytes, RequestDecoder::new(Limits::from(head)));
    let (mut ends, mut methods, mut last) = (Vec::new(), Vec::new(), None);
    loop {
        let ended = match decoder.decode(&mut rest).map_err(|error| Message::read(error).found)? {
            None => break,
            Some(RequestEvent::Head(head, info)) => {
                methods.push(head.method().clone());
                last = last.or((!info.keep_alive).then_some(methods.len() - 1));
                info.framing == Framing::None
            }
            Some(RequestEvent::End) => true,
            Some(_) => false,
        };
        if ended {
            ends.push(bytes.len() - rest.len());
        }
    }
    if ends.is_empty() || ends.len() < methods.len() || !rest.is_empty() {
        return Err(format!("the last of them is cut short, behind {} whole ones", ends.len()));
    }
    Ok(Ends { ends, methods, last })
}

/// What a socket takes in one write.
const WRITE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] =
        b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nxy";

    #[test]
    fn requests_go_round() {
        let requests = Requests::raw(TWO, HeadLimits::default());
        assert_eq!(requests.in_a_round(), 2);
        let mut sent = Vec::new();
        let to = requests.bytes_of(2001);
        while let piece = requests.piece(sent.len() as u64, to)
            && !piece.is_empty()
        {
            sent.extend_from_slice(piece);
        }
        assert_eq!(sent, [&TWO.repeat(1000)[..], &TWO[..28]].concat());
        assert_eq!((requests.method(0), requests.method(2001)), (&Method::GET, &Method::POST));
    }

    #[test]
    fn the_first_that_ends_its_connection_is_known() {
        let last = |bytes: &[u8]| Requests::raw(bytes, HeadLimits::default()).last();
        assert_eq!(last(TWO), None);
        assert_eq!(
            last(&[TWO, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: x, Close\r\n\r\n"].concat()),
            Some(3)
        );
        assert_eq!(last(b"GET / HTTP/1.0\r\nHost: h\r\n\r\n"), Some(1));
    }

    #[test]
    fn what_is_no_request_is_one() {
        for bytes in [&b"hello"[..], &TWO[..TWO.len() - 1], b"GET / HTTP/1.1\r\n\r\n"] {
            let requests = Requests::raw(bytes, HeadLimits::default());
            assert_eq!((requests.in_a_round(), requests.bytes_of(1)), (1, bytes.len() as u64));
        }
    }
}
