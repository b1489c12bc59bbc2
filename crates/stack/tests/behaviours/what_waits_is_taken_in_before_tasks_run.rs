//! A host whose device is behind receives all that waits before its tasks run, so that the device drops nothing meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;

use anywire_stack::pair::{Endpoint, Settings};
use anywire_stack::stream::{Interface, Stream};
use anywire_tcp::{Cidr, Engine, Limits, Mac, Route, Via};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{spawn_local, unconstrained};

use crate::scripted::Scripted;

/// More than a few batches.
const STREAMS: usize = 200;

fn engine(own: u8, other: u8) -> Engine {
    let mut engine =
        Engine::new(anywire_tcp::Settings::new([own.into(); 4]), Limits::default()).expect("memory");
    let (own, mac, peer) = (address(own), |last| Mac::new([2, 0, 0, 0, 0, last]), address(other));
    engine.set_mac(mac(own.port() as u8));
    engine.add_address(own.ip()).expect("there is room");
    let route = Route { network: Cidr::host(peer.ip()), via: Via::OnLink, mtu: 1500, source: None };
    engine.add_route(route).expect("a good route");
    engine.add_neighbour(peer.ip(), mac(other)).expect("there is room");
    engine
}

fn address(last: u8) -> SocketAddr {
    ([10, 0, 0, last], last.into()).into()
}

/// In how many runs of its driver a server had what 200 clients had written at once, when the tasks that read it ran.
fn runs(is_behind: bool) -> usize {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build_local(Default::default()).expect("a runtime");
    runtime.block_on(unconstrained(async {
        let [near, far] = Endpoint::pair(Settings::default());
        let (client, driver) = Interface::new(engine(1, 2), near);
        spawn_local(driver);
        let far = Scripted::new(far);
        far.script.is_behind.set(is_behind);
        let (server, driver) = Interface::new(engine(2, 1), far);
        spawn_local(driver);
        let mut listener = server.listen(address(2), Default::default()).expect("the port is free");
        let (mut calling, runs) = (Vec::new(), Rc::<RefCell<BTreeSet<u64>>>::default());
        let reading: Vec<_> = {
            let mut reading = Vec::new();
            for _ in 0..STREAMS {
                calling.push(client.connect(address(2)).await.expect("somebody listens"));
                let mut stream: Stream = listener.accept().await.expect("it has come");
                let (server, runs) = (server.clone(), Rc::clone(&runs));
                reading.push(spawn_local(async move {
                    assert_eq!(stream.read_u8().await.expect("the client writes"), 7);
                    runs.borrow_mut().insert(server.counters().polls);
                }));
            }
            reading
        };
        for stream in &mut calling {
            stream.write_u8(7).await.expect("the server is there");
        }
        for reading in reading {
            reading.await.expect("no panic");
        }
        let runs = runs.borrow();
        runs.len()
    }))
}

#[test]
fn tasks_run_when_nothing_waits_if_the_device_is_behind() {
    assert_eq!(runs(true), 1);
}

#[test]
fn tasks_run_after_each_batch_otherwise() {
    assert!(runs(false) > 1);
}
