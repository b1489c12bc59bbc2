//! A router without a server, for tests.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use anywire_http::{Body, Method, Request, Response, StatusCode};
use anywire_loops::Work;

use crate::context::Peer;
use crate::dispatch::{Answer, Dispatch, Received};
use crate::limits::Limits;
use crate::request::{RequestKind, Ticket};
use crate::router::Router;

impl Router {
    /// Answers one request, without server, thread or name: for tests of a service. `Request::get("/path")` and its like
    /// of [`anywire_http`] build the request; the [`Request`](crate::Request) that a handler takes comes from a server.
    ///
    /// The response is that of a server with default [`Limits`], without deadlines. Each call checks the routes, clones
    /// the states, and makes anew what layers have on a loop. Any executor runs it; if a handler uses tokio's timers or sockets, use a tokio runtime.
    ///
    /// ```
    /// use anywire_http::{Request, StatusCode};
    /// use anywire_server::{Path, Router};
    ///
    /// fn app() -> Router {
    ///     Router::new().get("/square/{n}", async |Path(n): Path<u32>| (n * n).to_string())
    /// }
    ///
    /// # anywire_loops::block_on(async {
    /// let mut response = app().call(Request::get("/square/7")).await;
    /// assert_eq!(response.status, StatusCode::OK);
    /// assert_eq!(response.body.text(1024).await?, "49");
    ///
    /// let refused = app().call(Request::get("/square/seven")).await;
    /// assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the router has a mistake that [`Server::start`](crate::Server::start) would report, or if a field of the request
    /// cannot be sent.
    pub async fn call(&self, request: impl Into<Request>) -> Response {
        let request = request.into();
        if let Some(fault) = request.fault() {
            panic!("{fault}");
        }
        let table = self.build().unwrap_or_else(|mistake| panic!("{mistake}"));
        let dispatch = Rc::new(Dispatch::new(Arc::new(table), &Limits::default(), Arc::default()));
        let is_head = *request.head.method() == Method::HEAD;
        let peer = || Peer::at("memory:call".parse().expect("an address"));
        let mut response = run(&dispatch, request, peer).await.response;
        if is_head
            && !response.body.is_withheld()
            && let Some(length) = response.body.length()
        {
            response.body = Body::withheld(Some(length));
        }
        response
    }
}

/// Runs the handler of a request. `peer` says whose it is, unless a handler has passed it on.
pub(crate) async fn run(dispatch: &Rc<Dispatch>, request: Request, peer: impl FnOnce() -> Peer) -> Answer {
    let Request { head, body, .. } = request;
    let body = Some(body).filter(|body| !body.is_empty());
    let known = head.extensions().get::<Ticket>().map(|ticket| ticket.peer().clone());
    let peer = || known.unwrap_or_else(peer);
    let mut free_peer = None;
    let mut begins = Some((Received { kind: RequestKind::of(&head), head, body }, peer));
    let mut runs = None;
    let work = Work::here();
    poll_fn(|cx| {
        let outer = work.label();
        if let Some((request, peer)) = begins.take() {
            let mut answer = None;
            let answered = |Answer { response, endpoint, continuation }: Answer<&mut Response>| {
                let response = std::mem::replace(response, Response::new(StatusCode::OK));
                answer = Some(Answer { response, endpoint, continuation });
            };
            runs = dispatch.start(request, &mut free_peer, peer, answered, cx);
            // What a handler does behind its call is its own again.
            while runs.as_ref().and_then(|run| run.interim(cx)).is_some() {}
            work.begins(outer);
            return answer.map_or(Poll::Pending, Poll::Ready);
        }
        let polled = runs.as_mut().map_or(Poll::Pending, |run| run.poll(&mut free_peer, cx));
        // Whoever called takes one response.
        while runs.as_ref().and_then(|run| run.interim(cx)).is_some() {}
        work.begins(outer);
        polled
    })
    .await
}
