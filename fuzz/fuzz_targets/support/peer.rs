//! The `h2` crate as an end of a connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::said::{End, Fields, Message, Said};

/// Both directions of a connection in memory, as the peer sees them.
#[derive(Clone, Default)]
pub(crate) struct Pipe(Rc<RefCell<(VecDeque<u8>, Vec<u8>)>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        if pipe.0.is_empty() {
            return Poll::Pending;
        }
        let count = pipe.0.len().min(buffer.remaining());
        buffer.put_slice(&pipe.0.drain(..count).collect::<Vec<u8>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Pipe {
    pub(crate) fn give(&self, bytes: &[u8]) {
        self.0.borrow_mut().0.extend(bytes);
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().1)
    }
}

pub(crate) type Task = Pin<Box<dyn Future<Output = ()>>>;
pub(crate) type Tasks = Rc<RefCell<Vec<Task>>>;
type Heard = Rc<RefCell<Vec<Message>>>;

/// Polls all tasks until nothing changes any more, without a runtime.
pub(crate) fn poll_all(tasks: &Tasks) {
    for _ in 0..8 {
        let mut running = std::mem::take(&mut *tasks.borrow_mut());
        running.retain_mut(|task| task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Tasks that were started meanwhile go behind the others.
        let started = std::mem::replace(&mut *tasks.borrow_mut(), running);
        tasks.borrow_mut().extend(started);
    }
}

/// The `h2` crate as either end.
pub(crate) struct Theirs {
    pipe: Pipe,
    tasks: Tasks,
    heard: Heard,
}

impl Theirs {
    pub(crate) fn new(is_server: bool, said: &[Said]) -> Self {
        let pipe = Pipe::default();
        let tasks = Tasks::default();
        let heard: Heard = Rc::new(RefCell::new(vec![Message::default(); said.len()]));
        let main: Task = if is_server {
            Box::pin(serve(pipe.clone(), tasks.clone(), said.to_vec(), heard.clone()))
        } else {
            Box::pin(call(pipe.clone(), tasks.clone(), said.to_vec(), heard.clone()))
        };
        tasks.borrow_mut().push(main);
        Self { pipe, tasks, heard }
    }
}

impl Drop for Theirs {
    /// Tasks that start others hold their list.
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        drop(tasks);
    }
}

impl End for Theirs {
    fn turn(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pipe.give(bytes);
        poll_all(&self.tasks);
        self.pipe.take()
    }

    fn heard(&self) -> Vec<Message> {
        self.heard.borrow().clone()
    }
}

async fn serve(pipe: Pipe, tasks: Tasks, said: Vec<Said>, heard: Heard) {
    let mut connection = h2::server::handshake(pipe).await.expect("a good preface");
    while let Some(accepted) = connection.accept().await {
        let (request, mut respond) = accepted.expect("both keep the rules");
        let place = (respond.stream_id().as_u32() as usize - 1) / 2;
        let (response, heard) = (said[place].response.clone(), heard.clone());
        tasks.borrow_mut().push(Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let path = head.uri.path_and_query().map_or("*", |path| path.as_str());
            let mut message = Message {
                start: format!("{} {path}", head.method),
                fields: of(&head.headers),
                ..Message::default()
            };
            hear(&mut message, &mut body).await;
            heard.borrow_mut()[place] = message;
            let mut head = Response::new(());
            *head.status_mut() = response.start.parse().expect("a status");
            *head.headers_mut() = map(&response.fields);
            let is_whole = response.body.is_empty() && response.trailers.is_empty();
            let mut stream = respond.send_response(head, is_whole).expect("a stream");
            if !is_whole {
                say(&mut stream, &response).await;
            }
        }));
    }
}

async fn call(pipe: Pipe, tasks: Tasks, said: Vec<Said>, heard: Heard) {
    let (mut sender, connection) = h2::client::handshake(pipe).await.expect("a connection");
    tasks.borrow_mut().push(Box::pin(async move { connection.await.expect("both keep the rules") }));
    for (place, said) in said.into_iter().enumerate() {
        sender = sender.ready().await.expect("a slot");
        let (method, path) = said.request.start.split_once(' ').expect("drawn so");
        let mut request = Request::new(());
        *request.method_mut() = method.parse().expect("a method");
        *request.uri_mut() = format!("http://localhost:1{path}").parse().expect("a URI");
        *request.headers_mut() = map(&said.request.fields);
        let is_whole = said.request.body.is_empty() && said.request.trailers.is_empty();
        let (response, mut stream) = sender.send_request(request, is_whole).expect("a stream");
        let message = said.request.clone();
        if !is_whole {
            tasks.borrow_mut().push(Box::pin(async move { say(&mut stream, &message).await }));
        }
        let heard = heard.clone();
        tasks.borrow_mut().push(Box::pin(async move {
            let (head, mut body) = response.await.expect("a response").into_parts();
            let mut message = Message {
                start: head.status.as_str().to_owned(),
                fields: of(&head.headers),
                ..Message::default()
            };
            hear(&mut message, &mut body).await;
            heard.borrow_mut()[place] = message;
        }));
    }
    // Dropping the last sender would end the connection.
    std::future::pending::<()>().await;
}

async fn hear(message: &mut Message, body: &mut RecvStream) {
    while let Some(data) = body.data().await {
        let data = data.expect("a good body");
        message.body.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).expect("it was taken");
    }
    message.trailers =
        body.trailers().await.expect("a good body").map_or(Fields::new(), |fields| of(&fields));
    message.is_whole = true;
}

async fn say(stream: &mut SendStream<Bytes>, message: &Message) {
    let mut rest = Bytes::from(message.body.clone());
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = poll_fn(|cx| stream.poll_capacity(cx)).await.expect("a stream").expect("a window");
        let piece = rest.split_to(room.min(rest.len()));
        let ends = rest.is_empty() && message.trailers.is_empty();
        stream.send_data(piece, ends).expect("room for it");
    }
    if !message.trailers.is_empty() {
        stream.send_trailers(map(&message.trailers)).expect("a body");
    }
}

fn map(fields: &Fields) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("drawn so");
        map.append(name, HeaderValue::from_bytes(value).expect("drawn so"));
    }
    map
}

pub(crate) fn of(map: &HeaderMap) -> Fields {
    let lines = map.iter().filter(|(name, _)| *name != "content-length");
    let mut fields: Fields =
        lines.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields
}
