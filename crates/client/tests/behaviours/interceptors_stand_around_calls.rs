//! Interceptors: those of calls run once a call, those of attempts for each attempt, in the order of adding.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anywire_client::{CallRequest, Client, ClientBuilder, Error, Next, Response, Retries};
use anywire_http::StatusCode;

use crate::support::{OK, Peer, block_on, wire};

type Log = Arc<Mutex<Vec<String>>>;

/// Notes when it is entered and left.
fn noting(
    log: &Log,
    name: &'static str,
) -> impl Fn(CallRequest, Next) -> anywire_client::Calling + Send + Sync + use<> {
    let log = Arc::clone(log);
    move |request, next| {
        let log = Arc::clone(&log);
        Box::pin(async move {
            log.lock().expect("no panic").push(format!("{name} {}", request.url().path_and_query()));
            let response = next.call(request).await;
            let outcome = match &response {
                Ok(response) => response.status().as_str().to_owned(),
                Err(_) => "error".to_owned(),
            };
            log.lock().expect("no panic").push(format!("{name} {outcome}"));
            response
        })
    }
}

fn eager() -> Retries {
    Retries { first_pause: Duration::ZERO, ..Retries::default() }
}

#[test]
fn each_level_has_its_turns() {
    // The first connection is closed, then one is redirected.
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            match (talk.number, request.head.path()) {
                (0, _) => return,
                (_, "/") => talk.say("HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 0\r\n\r\n"),
                _ => talk.say(OK),
            }
        }
    });
    let log = Log::default();
    let client = Client::builder()
        .retries(eager())
        .intercept(noting(&log, "outer"))
        .intercept(noting(&log, "inner"))
        .intercept_attempts(noting(&log, "attempt"))
        .build();
    let response = block_on(client.get(peer.url("/")).send()).expect("an answer");
    assert_eq!((response.url().as_str(), response.history().len()), (&*peer.url("/next"), 1));
    let log = log.lock().expect("no panic");
    let expected = [
        "outer /",
        "inner /",
        "attempt /",
        "attempt error",
        "attempt /",
        "attempt 302",
        "attempt /next",
        "attempt 200",
        "inner 200",
        "outer 200",
    ];
    assert_eq!(*log, expected);
}

#[test]
fn one_may_change_the_request_and_the_next_sees_it() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    async fn tenant(mut request: CallRequest, next: Next) -> Result<Response, Error> {
        let Tenant(name) = request.extensions().get().cloned().unwrap_or(Tenant("none"));
        request.set_header("x-tenant", name)?;
        next.call(request).await
    }
    let peer = Peer::start(wire("tcp"), |mut talk| {
        while let Some(request) = talk.request() {
            let name = request.head.headers().get("x-tenant").unwrap_or_default().to_owned();
            talk.say(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{name}", name.len()));
        }
    });
    let levels: [fn(ClientBuilder) -> ClientBuilder; 2] =
        [|builder| builder.intercept(tenant), |builder| builder.intercept_attempts(tenant)];
    for level in levels {
        let client = level(Client::builder()).build();
        let call = client.get(peer.url("/")).header("x-tenant", "forged").extension(Tenant("blue"));
        assert_eq!(block_on(async { call.send().await?.text().await }).expect("an answer"), "blue");
    }
}

#[test]
fn one_may_not_write_what_ends_a_message() {
    async fn smuggle(mut request: CallRequest, next: Next) -> Result<Response, Error> {
        request.append_header("Content-Length", "0")?;
        next.call(request).await
    }
    let client = Client::builder().intercept(smuggle).build();
    let error = block_on(client.get("http://127.0.0.1:1/").send()).expect_err("it is reserved");
    assert!(matches!(error, Error::ReservedHeader { name: "content-length" }), "{error:?}");
}

#[test]
fn one_may_respond_itself_and_fail_by_itself() {
    async fn gate(request: CallRequest, next: Next) -> Result<Response, Error> {
        match request.url().path_and_query() {
            "/cached" => {
                let response = anywire_http::Response::new(StatusCode::OK).header("age", "7").body("kept");
                Ok(request.respond(response))
            }
            "/refused" => Err(Error::custom("not today")),
            _ => next.call(request).await,
        }
    }
    let client = Client::builder().intercept(gate).build();
    let response = block_on(client.get("http://nobody.invalid/cached").send()).expect("an answer");
    assert_eq!(
        (response.url().as_str(), response.headers().get("age")),
        ("http://nobody.invalid/cached", Some("7"))
    );
    assert_eq!(block_on(response.text()).expect("a body"), "kept");
    let error = block_on(client.get("http://nobody.invalid/refused").send()).expect_err("it refuses");
    assert!(matches!(error, Error::Custom(_)), "{error:?}");
    assert!(error.may_have_been_processed(), "nobody knows what an interceptor did before");
    let chain = anywire_advice::Chain(&error).to_string();
    assert!(chain.contains("not today"), "{chain}");
}

#[test]
fn one_may_send_a_request_twice() {
    async fn twice(request: CallRequest, next: Next) -> Result<Response, Error> {
        let again = request.try_clone();
        let first = next.clone().call(request).await?;
        match again {
            Some(again) if first.status() == 200 => next.call(again).await,
            _ => Ok(first),
        }
    }
    let peer = Peer::answering(wire("tcp"), OK);
    let client = Client::builder().intercept(twice).build();
    block_on(client.get(peer.url("/")).send()).expect("an answer");
    assert_eq!(client.counters().total().requests, 2);
}

#[test]
fn attempts_within_them_have_one_deadline_together() {
    async fn pass(request: CallRequest, next: Next) -> Result<Response, Error> {
        next.call(request).await
    }
    let peer = Peer::start(wire("tcp"), |mut talk| drop(talk.request()));
    let retries = Retries { max: u32::MAX, budget_percent: u32::MAX, ..eager() };
    let client = Client::builder().intercept_attempts(pass).retries(retries).build();
    let call = client.get(peer.url("/")).total_timeout(Duration::from_millis(200));
    // Without the deadline there would be no end.
    let error = block_on(call.send()).expect_err("no answer");
    assert!(error.attempts() > 1, "{error:?}");
}

/// Adds a key to each attempt.
async fn keyed(mut request: CallRequest, next: Next) -> Result<Response, Error> {
    request.append_header("x-key", "secret")?;
    next.call(request).await
}

/// A client with an interceptor of attempts, alone and beside a link of hops, which must make no difference.
fn with_keys() -> [Client; 2] {
    let retries = Retries { statuses: vec![StatusCode::SERVICE_UNAVAILABLE], ..eager() };
    let builder = || Client::builder().retries(retries.clone()).intercept_attempts(keyed);
    [builder().build(), builder().bearer("http://elsewhere.example", "token").build()]
}

/// Says this to its first request, and keeps the keys of all.
fn keeping(first: String) -> (Peer, Arc<Mutex<Vec<usize>>>) {
    let keys = Arc::<Mutex<Vec<usize>>>::default();
    let kept = Arc::clone(&keys);
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(request) = talk.request() {
            let mut kept = kept.lock().expect("no panic");
            kept.push(request.head.headers().get_all("x-key").count());
            talk.say(if kept.len() == 1 { &first } else { OK });
        }
    });
    (peer, keys)
}

#[test]
fn what_one_adds_to_an_attempt_is_not_for_the_next() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    for client in with_keys() {
        let (peer, keys) = keeping(unavailable.to_owned());
        let response = block_on(client.get(peer.url("/")).send()).expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(*keys.lock().expect("no panic"), [1, 1]);
    }
}

#[test]
fn what_one_adds_to_an_attempt_does_not_follow_a_redirect() {
    async fn only_first(request: CallRequest, next: Next) -> Result<Response, Error> {
        match request.url().path_and_query() {
            "/first" => keyed(request, next).await,
            _ => next.call(request).await,
        }
    }
    for jar in [false, true] {
        let (second, of_second) = keeping(OK.to_owned());
        let found =
            format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", second.url("/"));
        let (first, of_first) = keeping(found);
        let mut builder = Client::builder().intercept_attempts(only_first);
        if jar {
            builder = builder.bearer("http://elsewhere.example", "token");
        }
        let response = block_on(builder.build().get(first.url("/first")).send()).expect("an answer");
        assert_eq!(response.url().as_str(), second.url("/"));
        let (of_first, of_second) = (of_first.lock().expect("no panic"), of_second.lock().expect("no panic"));
        assert_eq!((&**of_first, &**of_second), (&[1][..], &[0][..]));
    }
}
