//! The reverse proxy of the examples passes messages on without hop-by-hop fields, answers for a failed upstream, and takes
//! constant memory.

#[path = "../examples/reverse_proxy.rs"]
#[allow(dead_code, reason = "the test starts the proxy in ways of its own")]
mod reverse_proxy;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use anywire::client::Response;
use anywire::http::{BodyError, Headers, StatusCode};
use anywire::loops::{Loops, block_on};
use anywire::server::ServerHandle;
use anywire::{Body, Client, Request, Router, Server};
use bytes::Bytes;
use futures_core::Stream;

/// The address of a server as a URL's authority.
fn authority(running: &ServerHandle) -> String {
    running.addresses().next().expect("one address").location().to_owned()
}

fn serve(router: Router) -> ServerHandle {
    Server::new(router).loops(1).listen("tcp:127.0.0.1:0").start().expect("a free port")
}

/// A proxy before `upstream`, and the URL of a path at it.
fn proxy(upstream: &str) -> (ServerHandle, String) {
    let loops = Loops::start(1).expect("loops start");
    let running = reverse_proxy::start(upstream.into(), "tcp:127.0.0.1:0", &loops).expect("a free port");
    let url = format!("http://{}", authority(&running));
    (running, url)
}

#[test]
fn method_path_query_and_fields_arrive_without_those_of_the_connection() {
    let show = async |request: Request| {
        let mut text = format!("{} {}\n", request.method(), request.target());
        for (name, value) in request.headers().iter() {
            text += &format!("{name}: {}\n", String::from_utf8_lossy(value));
        }
        text
    };
    let backend = serve(Router::new().fallback(show));
    let (_proxy, url) = proxy(&format!("http://{}/base/", authority(&backend)));
    let client = Client::new();
    let call = client.put(format!("{url}/a?b=%2e"));
    let call = call.header("connection", "x-hop").header("x-hop", "1").header("x-end", "2").body("body");
    let response = block_on(call.send()).expect("an answer");
    let text = block_on(response.text()).expect("a text");
    assert!(text.starts_with("PUT /base/a?b=%2e\n"), "{text}");
    let host = format!("host: {}\n", authority(&backend));
    for line in [host.as_str(), "x-end: 2\n", "via: 1.1 anywire\n", "content-length: 4\n"] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("x-hop") && !text.contains("connection"), "{text}");
    // A path that a client wrote in an odd way is the upstream's to read.
    let (host, mut odd) = (&url["http://".len()..], String::new());
    let mut peer = TcpStream::connect(host).expect("it listens");
    write!(peer, "GET /a/../b HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").expect("it reads");
    peer.read_to_string(&mut odd).expect("it answers");
    assert!(odd.contains("\r\n\r\nGET /base/a/../b\n") || odd.contains("\nGET /base/a/../b\n"), "{odd}");
}

#[test]
fn trailers_go_both_ways() {
    let with_trailers = async |mut body: Body| {
        let bytes = body.bytes(1000).await?;
        let (mut sender, answer) = Body::channel(1000);
        sender.send(bytes).await.map_err(BodyError::failed)?;
        sender.trailers(body.trailers().cloned().unwrap_or_default());
        sender.finish();
        Ok::<_, anywire::server::Error>(answer)
    };
    let backend = serve(Router::new().post("/", with_trailers));
    let (_proxy, url) = proxy(&format!("http://{}", authority(&backend)));
    let (mut sender, body) = Body::channel(1000);
    block_on(sender.send(Bytes::from_static(b"text"))).expect("room");
    let mut trailers = Headers::new();
    trailers.append("x-sum", "7").expect("a good trailer");
    sender.trailers(trailers);
    sender.finish();
    let mut response = block_on(Client::new().post(url).body(body).send()).expect("an answer");
    while block_on(response.chunk()).expect("a good body").is_some() {}
    assert_eq!(response.trailers().and_then(|fields| fields.get("x-sum")), Some("7"));
}

/// The answer of a proxy whose upstream, a script on a plain socket, does this with a connection.
fn through(upstream: impl Fn(TcpStream) + Send + 'static) -> Response {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || listener.incoming().for_each(|peer| upstream(peer.expect("an arrival"))));
    let loops = Loops::start(1).expect("loops start");
    let client = Client::builder().on(&loops).read_timeout(Duration::from_millis(200)).build();
    let forward =
        async move |request: Request| client.forward(request, format!("http://{address}")).send().await;
    let running = Server::new(Router::new().fallback(forward)).on(&loops).listen("tcp:127.0.0.1:0").start();
    let running = running.expect("a free port");
    let call = Client::new().post(format!("http://{}", authority(&running))).body("x").send();
    block_on(call).expect("an answer")
}

/// Reads a request, and sends this.
fn answering(answer: &'static str) -> impl Fn(TcpStream) + Send {
    move |mut peer| {
        let mut request = [0; 1000];
        assert!(peer.read(&mut request).expect("a request") > 0);
        peer.write_all(answer.as_bytes()).expect("it is read");
    }
}

#[test]
fn the_fields_of_the_upstreams_connection_end_at_the_proxy() {
    let response = through(answering(
        "HTTP/1.1 200 OK\r\nconnection: x-drop, close\r\nx-drop: 1\r\nkeep-alive: timeout=5\r\nx-keep: 2\r\n\
         content-length: 2\r\n\r\nok",
    ));
    let headers = response.headers();
    assert_eq!((headers.get("x-keep"), headers.get("content-length")), (Some("2"), Some("2")));
    for name in ["connection", "x-drop", "keep-alive"] {
        assert!(!headers.contains(name), "{headers:?}");
    }
    assert_eq!(block_on(response.text()).expect("a text"), "ok");
}

#[test]
fn an_upstream_that_fails_is_502_and_one_that_is_silent_504() {
    assert_eq!(through(drop).status(), StatusCode::BAD_GATEWAY);
    assert_eq!(through(answering("what?\r\n\r\n")).status(), StatusCode::BAD_GATEWAY);
    let silent = |peer: TcpStream| {
        // Held until the proxy closes.
        drop(BufReader::new(peer).read_to_end(&mut Vec::new()));
    };
    assert_eq!(through(silent).status(), StatusCode::GATEWAY_TIMEOUT);
}

const PIECE: usize = 1 << 20;
const PIECES: usize = 256;

/// 256 MiB that are made as they are asked for.
struct Zeros(usize);

impl Stream for Zeros {
    type Item = Result<Bytes, BodyError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        static ZEROS: [u8; PIECE] = [0; PIECE];
        self.0 += 1;
        Poll::Ready((self.0 <= PIECES).then_some(Ok(Bytes::from_static(&ZEROS))))
    }
}

/// Not a test: the proxy in a process of its own, before the upstream that the environment names.
#[test]
#[ignore = "the process that another test starts"]
fn proxy_process() {
    let Ok(upstream) = std::env::var("UPSTREAM") else { return };
    let (_proxy, url) = proxy(&upstream);
    println!("\nproxy at {url}");
    // Until the test closes its end.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}

/// The most memory that a process has held.
fn peak_bytes(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("the kernel says");
    let kib: usize = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number");
    kib << 10
}

#[test]
#[cfg(target_os = "linux")]
fn far_more_than_it_may_hold_goes_up_and_down() {
    let backend = serve(Router::new().post("/", async |body: Body| body));
    let mut process = Command::new(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "proxy_process", "--nocapture"])
        .env("UPSTREAM", format!("http://{}", authority(&backend)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test runs once more");
    let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    let url = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("proxy at ").map(str::to_owned))
        .expect("the proxy says where it is");
    let before = peak_bytes(process.id());
    let client = Client::new();
    let call = client.post(url).body(Body::stream(Zeros(0)));
    let mut response = block_on(call.send()).expect("an answer");
    let mut count = 0;
    while let Some(chunk) = block_on(response.chunk()).expect("a good body") {
        count += chunk.len();
    }
    assert_eq!(count, PIECE * PIECES);
    let grown = peak_bytes(process.id()) - before;
    assert!(grown < 32 << 20, "the proxy holds {grown} bytes more than before");
    drop(process.stdin.take());
    process.wait().expect("it ends");
}
