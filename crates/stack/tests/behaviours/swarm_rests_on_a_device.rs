//! A swarm that rests on a device with a descriptor is woken by frames, by mail and by deadlines.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant as Clock};

use anywire_stack::swarm::{GroupId, Incoming, Instant, Mail, MailLimits, Swarm};
use anywire_stack::tap::{Options, Tap};
use anywire_tcp::ConnectOptions;

use crate::kernel::{TAP, Version, engine, in_own_network, open};

/// Longer than a test may take.
const LONG: Duration = Duration::from_secs(10_000);

#[test]
fn frames_end_a_rest() {
    in_own_network("swarm_rests_on_a_device::frames_end_a_rest", || {
        let tap = open(Options::default());
        let mut swarm = Swarm::new(engine(&tap, |_| ()), tap, 100, |mut incoming: Incoming| async move {
            while let Some(received) = incoming.conn.recv().await {
                incoming.conn.send(received).await;
            }
        })
        .expect("address space");
        swarm.engine().listen(Version::V4.ours(7), ConnectOptions::default()).expect("a free port");
        let calling = std::thread::spawn(|| {
            let mut socket = TcpStream::connect(Version::V4.ours(7)).expect("somebody listens");
            for number in 0..20_u8 {
                socket.write_all(&[number; 100]).expect("it takes all");
                let mut back = [0; 100];
                socket.read_exact(&mut back).expect("it comes back");
                assert_eq!(back, [number; 100]);
            }
        });
        let (start, mut rounds) = (Clock::now(), 0);
        let now = || Instant::from_micros(1_000_000 + start.elapsed().as_micros() as u64);
        while !calling.is_finished() || swarm.tasks() > 0 {
            rounds += 1;
            if swarm.round(now()) == 0 {
                swarm.rest(now(), LONG);
            }
        }
        calling.join().expect("every echo came back");
        assert!(rounds < 2000, "{rounds} rounds: it did not rest");
    });
}

#[test]
fn mail_ends_a_rest() {
    in_own_network("swarm_rests_on_a_device::mail_ends_a_rest", || {
        let mail = Mail::<u32>::new(MailLimits::default());
        // It stays down, so that no frame comes.
        let tap = Tap::open(TAP, Options::default()).expect("it was made");
        let start = |incoming: Incoming| async move { drop(incoming) };
        let mut swarm = Swarm::new(engine(&tap, |_| ()), tap, 100, start).expect("address space");
        swarm.attach(&mail);
        let (_mailbox, post) = (mail.mailbox().expect("room"), mail.post());
        let (asleep, sleeps) = mpsc::channel();
        let other = std::thread::spawn(move || {
            for message in 0..100 {
                sleeps.recv().expect("the swarm's thread is there");
                post.to_group(GroupId::EVERYONE, message).expect("room");
            }
        });
        let now = Instant::from_micros(1_000_000);
        for _ in 0..100 {
            asleep.send(()).expect("it listens");
            while swarm.round(now) == 0 {
                swarm.rest(now, LONG);
            }
        }
        other.join().expect("no panic");
    });
}
