//! A call that is not sent yet keeps its client, on a loop and elsewhere.

use crate::support::{OK, Peer, block_on, builder, client, on_each_wire};

#[test]
fn a_call_outlives_the_name_of_its_client() {
    on_each_wire(|wire| {
        let peer = Peer::answering(wire, OK);
        let call = builder().build().get(peer.url("/"));
        let call = call.via(peer.via());
        assert_eq!(block_on(call.send()).expect("a response").status(), 200);
    });
}

#[test]
fn a_call_on_a_loop_outlives_the_last_client() {
    on_each_wire(|wire| {
        let (report, ends) = std::sync::mpsc::channel();
        let peer = Peer::start(wire, move |mut talk| {
            while talk.request().is_some() {
                talk.say(OK);
            }
            let _ = report.send(());
        });
        let (loops, client) = client(1, |builder| builder);
        let counting = client.clone();
        let (url, via) = (peer.url("/"), peer.via().clone());
        let last = move || async move {
            client.get(&url).via(&via).send().await.expect("a response");
            let (called, sent) = (client.get(&url).via(&via), client.get(&url).via(&via).send());
            drop((client, counting));
            // The idle connection goes before the calls are polled.
            tokio::task::yield_now().await;
            called.send().await.expect("a response");
            sent.await.expect("a response");
        };
        loops.get(0).spawn(last).wait().expect("no panic");
        // No connection stays.
        (0..peer.accepted()).for_each(|_| ends.recv().expect("the client closes"));
    });
}
