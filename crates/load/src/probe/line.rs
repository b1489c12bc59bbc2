//! A connection of either version of HTTP, as far as the patterns of both need it: a request, and what was seen of its answer.

use std::time::{Duration, Instant};

use anywire_loops::clock::precise;
use anywire_sys::tcp_info::TcpInfo;
use anywire_sys::tcp_options;
use anywire_wire::Connection;

use super::link::{Answer, Fault, Link, OnWire, on_wire};
use super::question::Question;
use super::session::Session;

/// The connection.
#[derive(Debug)]
pub(super) enum Line {
    Http1(Box<Link>),
    Http2(Box<Session>),
}

impl Line {
    /// Sends a request and receives its answer, until the deadline.
    pub(super) async fn exchange(&mut self, question: &Question, deadline: Instant) -> Result<Answer, Fault> {
        let before = self.tcp();
        let sent_at = self.send(question, deadline).await?;
        let mut answer = self.receive(question, sent_at, deadline).await?;
        answer.on_wire = before.zip(self.tcp()).map(|(before, after)| {
            let came = on_wire(&before, &after, answer.bytes);
            // A frame that only ends its stream may leave by itself, once the server knows that nothing more comes, as Node.js does.
            OnWire { expected: came.expected + u32::from(answer.ends_apart), ..came }
        });
        Ok(answer)
    }

    /// Sends a request. Gives when that began.
    pub(super) async fn send(&mut self, question: &Question, deadline: Instant) -> Result<Instant, Fault> {
        let sent_at = precise();
        match self {
            Self::Http1(link) => link.send(&question.bytes, deadline).await?,
            Self::Http2(session) => session.send(question, deadline).await?,
        }
        Ok(sent_at)
    }

    /// Receives the answer to a request that was sent then.
    pub(super) async fn receive(
        &mut self,
        question: &Question,
        sent_at: Instant,
        deadline: Instant,
    ) -> Result<Answer, Fault> {
        match self {
            Self::Http1(link) => link.receive(question.wanted(), sent_at, deadline).await,
            Self::Http2(session) => session.receive(sent_at, deadline).await,
        }
    }

    /// Answers so far.
    pub(super) fn answers(&self) -> usize {
        match self {
            Self::Http1(link) => link.answers,
            Self::Http2(session) => session.answers,
        }
    }

    /// Whether bytes have come that no answer has taken. Over HTTP/2 whatever comes belongs to a stream.
    pub(super) fn has_unread(&self) -> bool {
        match self {
            Self::Http1(link) => link.has_unread(),
            Self::Http2(_) => false,
        }
    }

    /// Whether more comes than was asked for, until the deadline. Over HTTP/2 whatever comes belongs to a stream that was asked for.
    pub(super) async fn says_more(&mut self, deadline: Instant) -> bool {
        match self {
            Self::Http1(link) => {
                link.has_unread() || matches!(link.wait_for_bytes(deadline).await, Ok((true, _)))
            }
            Self::Http2(_) => false,
        }
    }

    /// From now on this end acknowledges at once.
    pub(super) fn acknowledge_at_once(&mut self) {
        match self {
            Self::Http1(link) => link.acknowledges_at_once = true,
            Self::Http2(session) => session.acknowledges_at_once = true,
        }
    }

    /// What the kernel knows of the connection; `None` if it is none of TCP.
    pub(super) fn tcp(&self) -> Option<TcpInfo> {
        TcpInfo::of(self.connection().as_fd()?).ok()
    }

    pub(super) fn connection(&self) -> &Connection {
        match self {
            Self::Http1(link) => &link.connection,
            Self::Http2(session) => &session.connection,
        }
    }

    /// How long connecting took.
    pub(super) fn connect(&self) -> Duration {
        match self {
            Self::Http1(link) => link.connect,
            Self::Http2(session) => session.connect,
        }
    }

    /// How long the handshake of TLS took, if there was one.
    pub(super) fn tls(&self) -> Option<Duration> {
        match self {
            Self::Http1(link) => link.tls,
            Self::Http2(session) => session.tls,
        }
    }
}

/// Has the kernel acknowledge what has come. Another kind of socket has no acknowledgements that could be late.
pub(super) fn acknowledge(connection: &Connection) {
    if let Some(socket) = connection.as_fd() {
        let _ = tcp_options::acknowledge_at_once(socket);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use anywire_http::{Headers, Method};
    use anywire_loops::Loops;
    use anywire_loops::clock::after;
    use proptest::prelude::*;

    use super::*;
    use crate::probe::plan::Limits;
    use crate::probe::target::Dialled;

    static LOOPS: LazyLock<Loops> = LazyLock::new(|| Loops::start(1).expect("a loop"));

    fn question(method: Method) -> Question {
        let (path, host) = ("/".to_owned(), "test".to_owned());
        Question {
            method,
            path,
            headers: Headers::new(),
            host,
            scheme: "http",
            bytes: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        }
    }

    /// The answers to requests of a server that sends these pieces, whatever it is asked, and ends.
    fn answers(is_http2: bool, method: Method, pieces: Vec<Vec<u8>>) -> Vec<Answer> {
        let task = LOOPS.get(0).spawn(move || async move {
            let (here, mut there) = Connection::pair();
            let writer = anywire_loops::spawn(async move {
                for piece in pieces {
                    // The reader may have left.
                    let _ = there.write_all(&piece).await;
                    tokio::task::yield_now().await;
                }
            });
            let limits = Limits { body_bytes: 64, ..Limits::default() };
            let dialled = Dialled { connection: here, connect: Duration::ZERO, tls: None };
            let mut line = match is_http2 {
                false => Line::Http1(Box::new(Link::new(dialled, &limits))),
                true => Line::Http2(Box::new(Session::new(dialled, &limits))),
            };
            let (question, mut answers) = (question(method), Vec::new());
            let deadline = after(precise(), Duration::from_secs(60));
            while let Ok(answer) = line.exchange(&question, deadline).await {
                answers.push(answer);
            }
            drop(line);
            writer.await.expect("it does not panic");
            answers
        });
        task.wait().expect("no bytes make it panic")
    }

    fn checked(answers: &[Answer], pieces: &[Vec<u8>]) -> Result<(), TestCaseError> {
        let sent: usize = pieces.iter().map(Vec::len).sum();
        prop_assert!(answers.iter().map(|answer| answer.bytes).sum::<u64>() <= sent as u64);
        for answer in answers {
            prop_assert!(answer.body_bytes <= 64 && answer.ended_at >= answer.sent_at, "{answer:?}");
            prop_assert!(answer.pause.is_none() || answer.reads > 1, "{answer:?}");
        }
        Ok(())
    }

    /// Pieces of heads and bodies, in any order, and anything else.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let parts = prop::sample::select(vec![
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 404 Not Found\r\n",
            "HTTP/1.1 103 Early Hints\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n",
            "content-length: 5\r\n",
            "content-length: 70\r\n",
            "transfer-encoding: chunked\r\n",
            "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
            "server-timing: total;dur=1e300, x;dur=\"\r\n",
            "connection: close\r\n",
            "\r\n",
            "hello",
            "5\r\nhello\r\n0\r\n\r\n",
        ]);
        prop_oneof![
            4 => parts.prop_map(|part| part.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..20),
        ]
    }

    /// Frames of HTTP/2 with any content, of types and streams that occur.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let content = prop_oneof![
            // ":status: 200", by itself.
            Just(vec![0x88]),
            prop::collection::vec(any::<u8>(), 0..20),
        ];
        (0..10_u8, any::<u8>(), 0..8_u8, content).prop_map(|(kind, flags, stream, content)| {
            [&[0, 0, content.len() as u8, kind, flags, 0, 0, 0, stream], &content[..]].concat()
        })
    }

    proptest! {
        #[test]
        fn any_bytes_of_http1_are_answers_or_a_fault(
            pieces in prop::collection::vec(piece(), 0..12), is_head: bool,
        ) {
            let method = if is_head { Method::HEAD } else { Method::GET };
            checked(&answers(false, method, pieces.clone()), &pieces)?;
        }

        #[test]
        fn any_frames_of_http2_are_answers_or_a_fault(
            mut pieces in prop::collection::vec(frame(), 0..12), begins_well: bool, is_head: bool,
        ) {
            if begins_well {
                pieces.insert(0, vec![0, 0, 0, 4, 0, 0, 0, 0, 0]);
            }
            let method = if is_head { Method::HEAD } else { Method::GET };
            checked(&answers(true, method, pieces.clone()), &pieces)?;
        }
    }
}
