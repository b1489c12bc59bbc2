//! What `load` calls a server: the host of its URL in the head and in the TLS handshake, whichever address it has, unless
//! an option names another one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use anywire::server::{Request, ServerHandle};
use anywire::wire::tls::{Identity, ServerTls, ServerTlsOptions};
use anywire::{Router, Server, StatusCode};

use crate::common::{anywire, stderr};

/// The name in the handshake, and all `Host` fields of the head.
type Called = (Option<String>, Vec<String>);

/// A server over TLS that notes what it is called.
struct Named {
    running: ServerHandle,
    called: Arc<Mutex<Vec<Called>>>,
}

impl Named {
    fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a good name");
        let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = Identity::from_pem(chain.as_bytes(), key.as_bytes()).expect("they fit");
        let options = ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() };
        let tls = ServerTls::new(options).expect("a certificate");
        let called = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&called);
        let router = Router::new().get("/", move |request: Request| {
            let name = request.negotiated().and_then(|negotiated| negotiated.server_name.clone());
            let hosts = request.headers().get_all("host");
            let hosts = hosts.map(|host| String::from_utf8_lossy(host).into_owned()).collect();
            noted.lock().expect("no panic").push((name, hosts));
            async { StatusCode::OK }
        });
        let running = Server::new(router).tls(&tls).listen("tls:127.0.0.1:0").loops(1).start();
        Self { running: running.expect("a free port"), called }
    }

    /// What one request with these arguments calls it by this host.
    fn called(&self, host: &str, args: &[&str]) -> Called {
        let url = format!("https://{host}:{}/", self.port());
        let one = ["load", &url, "-k", "-n", "1", "-c", "1", "--loops", "1", "--warm-up", "0"];
        let output = anywire(&[&one[..], args].concat());
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        let mut called = std::mem::take(&mut *self.called.lock().expect("no panic"));
        assert_eq!(called.len(), 1, "{args:?}: {called:?}");
        called.remove(0)
    }

    fn port(&self) -> u16 {
        self.running.addresses().next().and_then(|address| address.port()).expect("TCP has ports")
    }
}

#[test]
fn in_the_handshake_and_in_the_head() {
    let server = Named::start();
    let port = server.port();
    let name = |name: &str| Some(name.to_owned());
    let own = vec![format!("localhost:{port}")];
    assert_eq!(server.called("localhost", &[]), (name("localhost"), own.clone()));
    let host = ["-H", "Host: a.test"];
    assert_eq!(server.called("localhost", &host), (name("localhost"), vec!["a.test".to_owned()]));
    assert_eq!(server.called("localhost", &["--servername", "a.test"]), (name("a.test"), own));
    // An address is no name (RFC 6066 section 3).
    assert_eq!(server.called("127.0.0.1", &[]), (None, vec![format!("127.0.0.1:{port}")]));
}

/// A name has addresses of both families, of which only one may have a server.
#[test]
fn over_either_family() {
    for (address, hosts) in [("127.0.0.1:0", ["localhost", "127.0.0.1"]), ("[::1]:0", ["localhost", "[::1]"])]
    {
        for host in hosts {
            let Ok(listener) = TcpListener::bind(address) else {
                crate::skipped::say(format_args!("this machine has no {address}"));
                continue;
            };
            let authority = format!("{host}:{}", listener.local_addr().expect("it is bound").port());
            let heads = heads_of(listener, 2);
            let url = format!("http://{authority}/");
            let output = anywire(&[
                "load",
                &url,
                "-n",
                "6",
                "-c",
                "2",
                "--loops",
                "1",
                "--warm-up",
                "0",
                "--json",
                "-",
            ]);
            assert!(output.status.success(), "{authority}: {}", stderr(&output));
            let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
            let measured = &outcome["totals"];
            assert_eq!(measured["answered"], 6, "{measured}");
            let errors = measured["errors"].as_object().expect("by kind");
            assert!(errors.values().all(|count| count == 0), "{authority}: {measured}");
            let heads = heads.lock().expect("no panic");
            assert_eq!(heads.len(), 6, "{heads:?}");
            let field = format!("\r\nhost: {authority}\r\n");
            assert!(heads.iter().all(|head| head.to_ascii_lowercase().contains(&field)), "{heads:?}");
        }
    }
}

/// The heads that so many connections of this listener bring, each of which is answered.
fn heads_of(listener: TcpListener, connections: usize) -> Arc<Mutex<Vec<String>>> {
    let heads = Arc::<Mutex<Vec<_>>>::default();
    let noted = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let (mut stream, noted) = (stream.expect("a connection"), Arc::clone(&noted));
            std::thread::spawn(move || {
                let mut head = [0; 4096];
                // At depth 1 a request comes alone, and it is short.
                while let Ok(count @ 1..) = stream.read(&mut head) {
                    noted
                        .lock()
                        .expect("no panic")
                        .push(String::from_utf8_lossy(&head[..count]).into_owned());
                    if stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                        return;
                    }
                }
            });
        }
    });
    heads
}
