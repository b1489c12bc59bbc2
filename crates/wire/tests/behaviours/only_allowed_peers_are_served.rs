//! A listener may be told whose connections to take; others are closed at once, and counted.

use anywire_wire::{Address, AllowedPeers, ListenOptions};

fn serve_only(
    allowed: AllowedPeers,
    address: &Address,
) -> (anywire_loops::Loops, anywire_wire::ListenerHandle) {
    let loops = crate::support::loops(2);
    let options = ListenOptions { allowed_peers: Some(allowed), ..crate::support::listening() };
    let listening = crate::support::serve_echo(&loops, address, &options);
    (loops, listening)
}

/// A name for each wire that knows its peers.
fn names(part: &str) -> impl Iterator<Item = Address> {
    let schemes = ["unix"].into_iter().chain(cfg!(feature = "shm").then_some("shm"));
    let names = schemes.map(move |scheme| format!("{scheme}:@only-allowed-{part}-{}", std::process::id()));
    names.map(|name| name.parse().expect("an address")).collect::<Vec<_>>().into_iter()
}

#[test]
fn a_user_or_group_on_the_list_is_served() {
    let uids = vec![rustix::process::geteuid().as_raw()];
    let gids = vec![rustix::process::getegid().as_raw()];
    for allowed in [AllowedPeers { uids, gids: vec![] }, AllowedPeers { uids: vec![], gids }] {
        for name in names("served") {
            let (_loops, listening) = serve_only(allowed.clone(), &name);
            let address = listening.local().clone();
            crate::support::on_a_loop(move || async move {
                crate::support::ask_echo(&mut crate::support::dial(&address).await).await
            });
            assert_eq!(listening.counters().refused_peers, 0);
        }
    }
}

#[test]
fn anybody_else_is_not() {
    let stranger = AllowedPeers {
        uids: vec![rustix::process::geteuid().as_raw() + 1],
        gids: vec![rustix::process::getegid().as_raw() + 1],
    };
    for address in crate::support::addresses_without_handshake().chain(names("not")) {
        // Neither on a wire that knows the peer nor on one that does not.
        let (_loops, listening) = serve_only(stranger.clone(), &address);
        let address = listening.local().clone();
        crate::support::on_a_loop(move || async move {
            match crate::support::dialer().dial(&address).await {
                Ok(mut connection) => {
                    assert_eq!(
                        crate::support::read_to_end(&mut connection).await.expect("an orderly end"),
                        b""
                    );
                }
                // There the set-up fails.
                Err(error) => assert_eq!(address.scheme(), "shm", "{error}"),
            }
        });
        assert_eq!(listening.counters().refused_peers, 1);
        crate::support::eventually("its permit is free", || listening.limit().open() == 0);
    }
}
