//! What a task wrote before it ended arrives, even if its loop has nothing else to do and is shut down at
//! once.

use std::sync::mpsc;

#[test]
fn what_was_written_outlives_its_loop() {
    for address in crate::support::addresses() {
        let (loops, peers) = (crate::support::loops(2), crate::support::loops(1));
        let (served, serving) = mpsc::channel();
        let listening = crate::support::bind(&loops, &address, &crate::support::listening()).serve(
            move |mut connection| {
                let served = served.clone();
                drop(anywire_loops::spawn(async move {
                    served.send(()).expect("the test waits");
                    let all: Vec<u8> = (0..200_000).map(|at| (at % 251) as u8).collect();
                    connection.write_all(&all).await.expect("the peer reads");
                }));
            },
        );
        let address = listening.local().clone();
        let reading = peers.get(0).spawn(move || async move {
            let mut connection = crate::support::dial(&address).await;
            let all = crate::support::read_to_end(&mut connection).await.expect("an orderly end");
            assert!(all.iter().enumerate().all(|(at, &byte)| byte == (at % 251) as u8));
            all.len()
        });
        serving.recv_timeout(crate::support::HANG).expect("it is served");
        let ended = loops.shutdown(crate::support::HANG).expect("this is no loop");
        assert!(ended.is_clean(), "{ended:?}");
        assert_eq!(reading.wait().expect("no panic"), 200_000);
    }
}
