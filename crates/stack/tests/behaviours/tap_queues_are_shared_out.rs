//! Two loops with a queue each of one TAP device: the kernel learns from what they send by which queue to answer, so that loops hardly
//! ever pass on what belongs to others.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anywire_stack::device::{Device, DeviceCounters};
use anywire_stack::shards::{HostOptions, Shards, SharedHost};
use anywire_stack::stream::ListenOptions;
use anywire_stack::tap::{Options, Tap};

use crate::again;
use crate::hosts::{bytes, echo};
use crate::kernel::{Version, in_own_network, runtime, set_kernel_addresses, shell};

/// One loop, which serves until it is told to end.
fn serve(
    shards: &Arc<Shards>,
    tap: Tap,
    number: u8,
    ends: &AtomicBool,
    begins: &AtomicBool,
) -> DeviceCounters {
    runtime().block_on(async {
        let mac = tap.capabilities().mac.expect("a TAP has one");
        let queue: Box<dyn Device + Send> = Box::new(tap);
        let shard = shards.join([queue]).expect("there is room");
        let options = HostOptions::new([number.into(); 4], number.into(), mac);
        let (host, driver, watch) = SharedHost::start(shard, options, |_| ()).expect("memory");
        tokio::task::spawn_local(driver);
        tokio::task::spawn_local(watch);
        host.join("10.0.0.2/24".parse().expect("a network"), None).await.expect("nobody has it");
        let mut listener = host.listen(Version::V4.ours(80), ListenOptions::default()).expect("it is free");
        begins.store(true, Ordering::Release);
        tokio::task::spawn_local(async move {
            while let Ok(stream) = listener.accept().await {
                tokio::task::spawn_local(echo(stream));
            }
        });
        while !ends.load(Ordering::Acquire) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        host.interface().device_counters()
    })
}

#[test]
fn and_few_frames_are_passed_on() {
    in_own_network("tap_queues_are_shared_out::and_few_frames_are_passed_on", || {
        assert!(again::is_inner());
        shell("ip link delete tap0; ip tuntap add dev tap0 mode tap multi_queue; ip link set tap0 up");
        set_kernel_addresses();
        let taps = [(); 2].map(|()| Tap::open("tap0", Options::default()).expect("it has queues"));
        let shards = Shards::new(taps[0].capabilities(), None, [1234; 2]);
        let _service = shards.reserve(Version::V4.ours(80), 2).expect("nobody listens there");
        let (ends, begins) = (AtomicBool::new(false), [(); 2].map(|()| AtomicBool::new(false)));
        let counters = thread::scope(|scope| {
            let loops: Vec<_> = (taps.into_iter().zip(&begins).zip(1..))
                .map(|((tap, begins), number)| {
                    let (shards, ends) = (&shards, &ends);
                    scope.spawn(move || serve(shards, tap, number, ends, begins))
                })
                .collect();
            while begins.iter().any(|begins| !begins.load(Ordering::Acquire)) {
                thread::yield_now();
            }
            for number in 0..100 {
                let mut socket = TcpStream::connect(Version::V4.ours(80)).expect("somebody listens");
                for round in 0..10 {
                    let sent = bytes(number + round, 3000);
                    socket.write_all(&sent).expect("it takes all");
                    let mut back = vec![0; 3000];
                    socket.read_exact(&mut back).expect("it is open");
                    assert!(back == sent, "connection {number}");
                }
                socket.shutdown(Shutdown::Write).expect("it is open");
                assert_eq!(socket.read(&mut [0]).expect("it ends well"), 0);
            }
            ends.store(true, Ordering::Release);
            loops.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        for loop_counters in &counters {
            assert!(loop_counters.frames_in > 500, "{counters:?}");
            // Half of them would be if the kernel did not learn.
            assert!(loop_counters.passed_on * 5 < loop_counters.frames_in, "{counters:?}");
        }
        let sum = |count: fn(&DeviceCounters) -> u64| counters.iter().map(count).sum::<u64>();
        // Both have what concerns neighbours, too.
        assert!(sum(|counters| counters.passed_on) <= sum(|counters| counters.taken_over), "{counters:?}");
        assert_eq!(sum(|counters| counters.dropped_in), 0, "{counters:?}");
    });
}
