//! `localhost`, the names below it and static hosts are known without a question, and a place may stand for another one.

use std::net::SocketAddr;

use anywire_wire::names::{Hosts, Names};
use anywire_wire::{DialOptions, Dialer};

use crate::support::names::Book;

#[test]
fn nobody_is_asked() {
    let loops = crate::support::loops(1);
    let any = "tcp:127.0.0.1:0".parse().expect("an address");
    let listening = crate::support::serve_echo(&loops, &any, &crate::support::listening());
    let port = listening.local().port().expect("TCP has ports");
    let book = Book::new();
    let mut hosts = Hosts::default().add("shop.test", [SocketAddr::from(([127, 0, 0, 1], 0))]);
    hosts.add_resolve(&format!("one.test:{port}:127.0.0.1")).expect("its form");
    hosts.add_connect_to(&format!("two.test:1:shop.test:{port}")).expect("its form");
    hosts.add_connect_to(&format!("[::7]:1:127.0.0.1:{port}")).expect("its form");
    let names = Names::new(book.clone()).with_hosts(hosts);
    for place in [
        format!("localhost:{port}"),
        format!("app.LocalHost:{port}"),
        format!("a.b.localhost.:{port}"),
        format!("shop.test:{port}"),
        format!("one.test:{port}"),
        "two.test:1".to_owned(),
        "[::7]:1".to_owned(),
    ] {
        let dialer = Dialer::new(DialOptions { names: names.clone(), ..DialOptions::default() });
        let dialled = place.clone();
        crate::support::on_a_loop(
            move || async move { dialer.dial(format!("tcp:{dialled}")).await.map(drop) },
        )
        .unwrap_or_else(|error| panic!("{place}: {error}"));
    }
    assert_eq!(book.asked(), [""; 0]);
    // Other names of one of them are.
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(names.addresses("notlocalhost", 80)).expect_err("it is not in the book");
    assert_eq!(book.asked(), ["notlocalhost"]);
}

#[test]
fn the_system_knows_this_machine() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let found = runtime.block_on(Names::default().addresses("127.0.0.1", 80)).expect("an address");
    assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
}
