//! As many connections as the limit allows are served; later ones wait, and come in as earlier ones close.

use std::sync::mpsc;

use anywire_wire::ConnectionLimit;

#[test]
fn at_the_limit_accepting_pauses() {
    for (address, loop_count) in
        crate::support::addresses_without_handshake().flat_map(|address| [(address.clone(), 1), (address, 2)])
    {
        let loops = crate::support::loops(loop_count);
        let (served, serving) = mpsc::channel();
        let listening = crate::support::bind(&loops, &address, &crate::support::listening())
            .limited_by(&ConnectionLimit::new(2))
            .serve(move |connection| {
                served.send(()).expect("the test waits");
                drop(anywire_loops::spawn(crate::support::echo(connection)));
            });
        let address = listening.local().clone();
        let count = 10;
        let peers = crate::support::loops(1);
        let dialling = peers.get(0).spawn(move || async move {
            let mut connections = std::collections::VecDeque::new();
            for _ in 0..count {
                connections.push_back(crate::support::dial(&address).await);
            }
            // Some are served: which ones is the system's choice. Each that closes makes room for another.
            while !connections.is_empty() {
                let served = crate::support::first_answered(connections.make_contiguous()).await;
                drop(connections.remove(served));
            }
        });
        dialling.wait().expect("all are served in the end");
        assert_eq!(serving.iter().take(count).count(), count);
        assert!(listening.limit().pauses() > 0, "it paused");
        crate::support::eventually("all permits are free", || listening.limit().open() == 0);
    }
}

#[test]
fn never_more_than_the_limit_are_served() {
    for address in crate::support::addresses() {
        let loops = crate::support::loops(2);
        let (served, serving) = mpsc::channel();
        let (close, closing) = tokio::sync::watch::channel(());
        let listening = crate::support::bind(&loops, &address, &crate::support::listening())
            .limited_by(&ConnectionLimit::new(2))
            .serve(move |connection| {
                let (served, mut closing) = (served.clone(), closing.clone());
                drop(anywire_loops::spawn(async move {
                    served.send(()).expect("the test waits");
                    let _ = closing.changed().await;
                    drop(connection);
                }));
            });
        let dialled = listening.local().clone();
        let peers = crate::support::loops(1);
        let dialling = peers.get(0).spawn(move || async move {
            let mut connections = Vec::new();
            for _ in 0..8 {
                connections.push(crate::support::dial(&dialled).await);
            }
            for connection in &mut connections {
                let _ = crate::support::read_to_end(connection).await;
            }
        });
        for _ in 0..2 {
            serving.recv_timeout(crate::support::HANG).expect("two are served");
        }
        crate::support::eventually("the others wait", || listening.limit().pauses() > 0);
        assert_eq!(listening.limit().open(), 2);
        assert!(serving.try_recv().is_err(), "no third one is served");
        // Now each of them ends as soon as it is served.
        drop(close);
        for _ in 2..8 {
            serving.recv_timeout(crate::support::HANG).expect("the others are served, too");
        }
        dialling.wait().expect("all were closed");
    }
}

#[test]
fn listeners_that_share_a_limit_are_served_as_one() {
    let loops = crate::support::loops(1);
    let limit = ConnectionLimit::new(2);
    let listening: Vec<_> = crate::support::addresses_without_handshake()
        .map(|address| {
            crate::support::bind(&loops, &address, &crate::support::listening()).limited_by(&limit)
        })
        .map(|listener| {
            listener.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))))
        })
        .collect();
    let addresses: Vec<_> = listening.iter().map(|one| one.local().clone()).collect();
    crate::support::on_a_loop(move || async move {
        let mut open = Vec::new();
        for address in addresses.iter().cycle().take(2) {
            let mut connection = crate::support::dial(address).await;
            crate::support::ask_echo(&mut connection).await;
            open.push(connection);
        }
        for address in &addresses {
            let pauses = limit.pauses();
            let mut waiting = crate::support::dial(address).await;
            while limit.pauses() == pauses {
                tokio::task::yield_now().await;
            }
            assert_eq!(limit.open(), 2);
            drop(open.pop());
            crate::support::ask_echo(&mut waiting).await;
            open.push(waiting);
        }
    });
}

#[test]
fn a_limit_lets_one_in_at_least() {
    assert_eq!(ConnectionLimit::new(0).max(), 1);
    // By default some descriptors are left to what else the process does.
    let descriptors = anywire_sys::descriptors::limit().soft;
    assert!(u64::try_from(ConnectionLimit::default().max()).is_ok_and(|max| max < descriptors));
}
