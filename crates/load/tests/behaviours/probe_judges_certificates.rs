//! A probe says how long a certificate still holds, and whether sessions are resumed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, SystemTime};

use anywire_load::probe::{Class, Outcome, Plan, ProbeError, Severity, run};
use anywire_loops::Loops;
use anywire_wire::tls::{ClientTls, ClientTlsOptions, Identity, Roots, ServerTls, ServerTlsOptions};
use anywire_wire::{Connection, ListenOptions, Listener, ListenerHandle};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use crate::support::faulty::answers;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server whose certificate holds for ninety days, of which so many are left.
struct Served {
    port: u16,
    certificate: String,
    _loops: Loops,
    _listeners: Vec<ListenerHandle>,
}

impl Served {
    fn with_days_left(days: i32) -> Self {
        Self::of_processes(days, 1)
    }

    /// Several processes with one certificate behind a balancer: each connection goes to the next one, which does not know the keys of
    /// the others' tickets.
    fn of_processes(days: i32, count: usize) -> Self {
        let (certificate, key) = certificate(days);
        let loops = Loops::start(1).expect("a loop");
        let (mut listeners, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).expect("they fit");
            let tls = ServerTlsOptions { identities: vec![identity], ..ServerTlsOptions::default() };
            let options = ListenOptions {
                tls: Some(ServerTls::new(tls).expect("a good certificate")),
                protocols: vec!["http/1.1".to_owned()],
                ..ListenOptions::default()
            };
            let listener = Listener::bind("tls:127.0.0.1:0", &options, &loops).expect("a free port");
            ports.push(listener.local().port().expect("TCP has ports"));
            listeners.push(listener.serve(|connection| {
                anywire_loops::spawn(serve(connection));
            }));
        }
        let port = if count == 1 { ports[0] } else { balanced(ports) };
        Self { port, certificate, _loops: loops, _listeners: listeners }
    }

    fn probe(&self, options: ClientTlsOptions) -> Result<Outcome, ProbeError> {
        let tls = ClientTls::new(options).expect("good roots");
        let long = Duration::from_secs(60);
        let url = format!("https://localhost:{}/", self.port);
        let via = Some(format!("tcp:127.0.0.1:{}", self.port).parse().expect("an address"));
        let plan =
            Plan { tls: Some(tls), via, timeout: long, pattern_time: long, requests: 20, ..Plan::new(url) };
        run(&Loops::start(1).expect("a loop"), plan)
    }

    fn trusting(&self) -> ClientTlsOptions {
        let roots = Roots::only_pem(self.certificate.as_bytes()).expect("a certificate");
        ClientTlsOptions { roots, ..ClientTlsOptions::default() }
    }
}

/// A certificate that began a hundred days ago, and its key.
fn certificate(days_left: i32) -> (String, String) {
    let epoch = date_time_ymd(1970, 1, 1);
    let now = epoch + SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970");
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let (left, before) = (DAY * days_left.unsigned_abs(), DAY * 100);
    params.not_after = if days_left < 0 { now - left } else { now + left };
    params.not_before = now - before;
    let key = KeyPair::generate().expect("randomness");
    (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
}

/// The port of a balancer in front of these.
fn balanced(ports: Vec<u16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for (client, backend) in listener.incoming().flatten().zip(ports.into_iter().cycle()) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", backend)) else { continue };
            for (mut from, mut to) in [(&client, &server), (&server, &client)].map(|(from, to)| {
                let both = (from.try_clone(), to.try_clone());
                (both.0.expect("a descriptor"), both.1.expect("a descriptor"))
            }) {
                to.set_nodelay(true).expect("a socket");
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    port
}

/// Answers all requests that have come by one write.
async fn serve(mut connection: Connection) {
    let mut part = [0; 16 << 10];
    while let Ok(count @ 1..) = connection.read(&mut part).await {
        if connection.write_all(&answers(&part[..count], "hi")).await.is_err() {
            return;
        }
    }
}

fn verdicts(outcome: &Outcome) -> Vec<(Class, Severity)> {
    outcome.verdicts.iter().map(|verdict| (verdict.class, verdict.severity)).collect()
}

#[test]
fn one_that_holds_for_a_month_is_no_verdict() {
    let served = Served::with_days_left(31);
    let outcome = served.probe(served.trusting()).expect("there are answers");
    assert_eq!(verdicts(&outcome), [(Class::Clean, Severity::None)], "{outcome}");
    let tls = outcome.tls.as_ref().expect("it is TLS");
    assert!(tls.days_left.is_some_and(|days| (30.9..31.1).contains(&days)), "{tls:?}");
    assert!(tls.resumed > 0 && tls.version.as_deref() == Some("TLSv1.3"), "{tls:?}");
    assert_eq!(tls.versions.as_deref(), Some(&["TLSv1.2".to_owned(), "TLSv1.3".to_owned()][..]), "{tls:?}");
    // The bytes that TLS adds are among those that are expected.
    assert_eq!(outcome.segments.expect("it is TCP below").per_response, 1.0, "{outcome}");
    assert!(outcome.missing.iter().any(|missing| missing.what == "http2"), "{outcome}");
}

/// What agrees to TLS 1.1 before it hands on what it does not know.
fn in_front_of_old_tls(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut first = [0; 16 << 10];
                let count = client.read(&mut first).expect("a client says something");
                // The version in a ClientHello.
                if first.get(9..11) == Some(&[3, 2]) {
                    let hello = [&[2, 0, 0, 38, 3, 2][..], &[7; 32], &[0, 0xc0, 0x14, 0]].concat();
                    let record = [&[22, 3, 2, 0, hello.len() as u8][..], &hello].concat();
                    return client.write_all(&record).expect("the client is there");
                }
                let mut server = TcpStream::connect(("127.0.0.1", server)).expect("it listens");
                for stream in [&client, &server] {
                    stream.set_nodelay(true).expect("a socket");
                }
                server.write_all(&first[..count]).expect("it takes what comes");
                let (mut from, mut to) =
                    (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
                let upwards = thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
                let _ = std::io::copy(&mut server, &mut client);
                let _ = client.shutdown(Shutdown::Write);
                upwards.join().expect("it does not panic");
            });
        }
    });
    port
}

#[test]
fn versions_that_are_out_of_use_are_a_warning() {
    let mut served = Served::with_days_left(60);
    served.port = in_front_of_old_tls(served.port);
    let outcome = served.probe(served.trusting()).expect("there are answers");
    assert_eq!(verdicts(&outcome), [(Class::OldTls, Severity::Warning)], "{outcome}");
    let versions = outcome.tls.as_ref().expect("it is TLS").versions.as_ref().expect("it was asked");
    assert_eq!(versions[..], ["TLSv1.1", "TLSv1.2", "TLSv1.3"], "{outcome}");
}

#[test]
fn one_that_ends_soon_is_a_warning() {
    let served = Served::with_days_left(3);
    let outcome = served.probe(served.trusting()).expect("there are answers");
    assert_eq!(verdicts(&outcome), [(Class::CertificateEnds, Severity::Warning)], "{outcome}");
}

#[test]
fn one_that_has_ended_ends_the_probe_unless_any_is_accepted() {
    let served = Served::with_days_left(-3);
    let error = served.probe(served.trusting()).expect_err("it has ended");
    assert!(matches!(error, ProbeError::Dial(_)), "{error:?}");
    let any = ClientTlsOptions { dangerously_accept_any_certificate: true, ..ClientTlsOptions::default() };
    let outcome = served.probe(any).expect("there are answers");
    assert_eq!(verdicts(&outcome), [(Class::CertificateEnds, Severity::Problem)], "{outcome}");
}

#[test]
fn processes_that_do_not_share_their_keys_resume_nothing() {
    let served = Served::of_processes(60, 16);
    let outcome = served.probe(served.trusting()).expect("there are answers");
    assert_eq!(verdicts(&outcome), [(Class::NoResumption, Severity::Note)], "{outcome}");
    let tls = outcome.tls.as_ref().expect("it is TLS");
    assert_eq!((tls.offered, tls.resumed), (3, 0), "{tls:?}");
}
