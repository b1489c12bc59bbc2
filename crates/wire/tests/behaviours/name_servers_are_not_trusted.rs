//! Name servers that lie, guess, send garbage, fail or are silent: an address comes from an answer to the question, or there is none.

use std::net::SocketAddr;
use std::time::Duration;

use anywire_wire::names::{DnsResolver, Names, ResolveError};
use anywire_wire::{DialError, DialOptions, Dialer};

use crate::support::dns::{A, AAAA, NameServer, Question, SRV, srv};

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 6, 6, 6];

fn script(question: &Question) -> Vec<Vec<u8>> {
    let good = || match question.kind {
        A => question.answer(&[(60, HERE.to_vec())]),
        _ => question.answer(&[]),
    };
    let bad = [(60, ELSEWHERE.to_vec())];
    match question.name.as_str() {
        "good.test" => vec![good()],
        "guessed.test" if question.kind == A => {
            (0..20).map(|_| question.guessed(&bad)).chain([good()]).collect()
        }
        // Of a stranger, who does not know the number of the query.
        "garbage.test" => (0..50)
            .filter(|byte| [*byte; 2] != question.id)
            .map(|byte| vec![byte; usize::from(byte) * 7])
            .chain([good()])
            .collect(),
        // Of the server itself: nobody else knows the number.
        "broken.test" => vec![[&question.id[..], &[7; 40]].concat()],
        "guessed.test" => vec![good()],
        "failing.test" => vec![question.failed()],
        "silent.test" => Vec::new(),
        "_http._tcp.shop.test" if question.kind == SRV => {
            vec![question.answer(&[(60, srv(2, 2, "none.test")), (30, srv(1, 8080, "good.test"))])]
        }
        _ => vec![question.no_such_name()],
    }
}

fn addresses(names: &Names, host: &'static str) -> Result<Vec<SocketAddr>, ResolveError> {
    let names = names.clone();
    crate::support::on_a_loop(move || async move { names.addresses(host, 80).await })
}

#[test]
fn what_is_no_answer_is_not_believed() {
    let server = NameServer::start(script);
    let names = Names::new(DnsResolver::with_servers([server.address]));
    let here = SocketAddr::from((HERE, 80));
    for host in ["good.test", "guessed.test", "garbage.test"] {
        assert_eq!(addresses(&names, host).unwrap_or_else(|error| panic!("{host}: {error}")), [here]);
    }
    // Each loop of this test has ended, and the answers are known.
    assert_eq!(addresses(&names, "good.test").expect("an address"), [here]);
    assert_eq!((server.asked("good.test", A), server.asked("good.test", AAAA)), (1, 1));
}

#[test]
fn a_service_says_its_hosts_and_ports() {
    let server = NameServer::start(script);
    let names = Names::new(DnsResolver::with_servers([server.address]));
    let found = addresses(&names, "_http._tcp.shop.test").expect("an address");
    assert_eq!(found, [SocketAddr::from((HERE, 8080))]);
}

#[test]
fn no_name_is_not_the_same_as_no_answer() {
    let server = NameServer::start(script);
    let names = Names::new(DnsResolver::with_servers([server.address]));
    assert!(matches!(addresses(&names, "no.test"), Err(ResolveError::NotFound)));
    let failed = addresses(&names, "failing.test").expect_err("the server fails");
    assert!(matches!(failed, ResolveError::Failed(_)), "{failed:?}");
    let broken = addresses(&names, "broken.test").expect_err("its answer cannot be read");
    assert!(matches!(broken, ResolveError::Failed(_)), "{broken:?}");
    let resolve_timeout = Duration::from_millis(50);
    let dialer = Dialer::new(DialOptions { names, resolve_timeout, ..DialOptions::default() });
    let silent =
        crate::support::on_a_loop(move || async move { dialer.dial("tcp:silent.test:80").await.map(drop) });
    let silent = silent.expect_err("nobody answers");
    assert!(silent.is_timeout() && matches!(silent, DialError::Resolve { .. }), "{silent:?}");
}
