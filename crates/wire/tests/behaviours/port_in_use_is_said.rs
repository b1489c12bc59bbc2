//! Listening twice on one address is refused on every wire, with a message that names a remedy.

use anywire_wire::{ListenError, Listener};

#[test]
fn a_second_listener_is_refused_and_the_first_goes_on() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let first = crate::support::serve_echo(&loops, &address, &crate::support::listening());
        // With the port that the system chose.
        let address = first.local().clone();
        let refused = Listener::bind(&address, &crate::support::listening(), &crate::support::loops(2)).err();
        let refused = refused.expect("the first one listens");
        assert!(
            matches!(&refused, ListenError::InUse { address: named } if *named == address),
            "{refused:?}"
        );
        let message = refused.to_string();
        assert!(message.contains(&address.to_string()), "{message}");
        assert!(message.contains("stop that one or choose another"), "{message}");
        crate::support::on_a_loop(move || async move {
            crate::support::ask_echo(&mut crate::support::dial(&address).await).await
        });
    }
}

#[test]
fn a_listener_that_is_not_served_yet_holds_its_address_and_lets_go_of_it() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(1);
        let first = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = first.local().clone();
        let refused = Listener::bind(&address, &crate::support::listening(), &loops).err();
        assert!(matches!(refused, Some(ListenError::InUse { .. })), "{refused:?}");
        drop(first);
        drop(crate::support::bind(&loops, &address, &crate::support::listening()));
    }
}

#[test]
fn a_port_of_another_program_is_in_use_even_if_that_one_would_share_it() {
    let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    other.set_reuse_address(true).expect("a socket");
    other.set_reuse_port(true).expect("a socket");
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    other.bind(&any.into()).expect("a free port");
    other.listen(1).expect("a bound socket");
    let address = other.local_addr().expect("a bound socket").as_socket().expect("an IP address");
    let address = format!("tcp:{address}");
    let refused = Listener::bind(&address, &crate::support::listening(), &crate::support::loops(2)).err();
    assert!(matches!(refused, Some(ListenError::InUse { .. })), "{refused:?}");
}

#[test]
fn a_host_of_another_machine_is_not_here() {
    // TEST-NET-1 of RFC 5737 belongs to no machine.
    let address = "tcp:192.0.2.1:0";
    let refused = Listener::bind(address, &crate::support::listening(), &crate::support::loops(1)).err();
    assert!(matches!(refused, Some(ListenError::NotHere { .. })), "{refused:?}");
}
