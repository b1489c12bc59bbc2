//! An idle swarm takes no rounds: its thread sleeps until a frame, mail or a deadline comes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::hub::{Adapter, Hub};
use crate::swarms::{Net, QUICK, address};
use anywire_stack::device::{Capabilities, Device, DeviceCounters, Readiness};
use anywire_stack::swarm::{Either, GroupId, Incoming, Instant, Mail, MailLimits, Swarm, select, sleep};
use anywire_tcp::Frames;

#[tokio::test(start_paused = true)]
async fn a_task_of_tokio_waits_for_the_device_and_for_mail() {
    let (hub, notifiers) = (Hub::default(), crate::hosts::Notifiers::default());
    let mail = Mail::<u32>::new(MailLimits::default());
    let live = |host: u8| notifiers.attach(hub.adapter(crate::swarms::mac(host)));
    let sent = Rc::new(RefCell::new(Vec::new()));
    let mut server = Swarm::new(
        crate::swarms::engine(crate::swarms::settings(1), 1),
        live(1),
        10,
        |mut incoming: Incoming| {
            let mut mailbox = mail.mailbox().expect("room");
            let sent = Rc::clone(&sent);
            async move {
                while let Either::First(Ok(message)) = select(mailbox.recv(), incoming.conn.readable()).await
                {
                    incoming.conn.send(&message.to_be_bytes()[..]).await;
                    sent.borrow_mut().push(*message);
                }
            }
        },
    )
    .expect("address space");
    server.attach(&mail);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let got = Rc::new(Cell::new(0));
    let mut client = Swarm::new(
        crate::swarms::engine(crate::swarms::settings(2), 2),
        live(2),
        10,
        |mut incoming: Incoming| {
            let got = Rc::clone(&got);
            async move {
                let mut bytes = [0; 4];
                while incoming.conn.read_exact(&mut bytes).await.is_ok() {
                    got.set(u32::from_be_bytes(bytes));
                    if got.get() == 3 {
                        return;
                    }
                }
            }
        },
    )
    .expect("address space");
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");

    let post = mail.post();
    let stop = Arc::new(tokio::sync::Notify::new());
    let stopped = Arc::clone(&stop);
    // A task of its own, whose timers do not wake that of the swarms.
    tokio::spawn(async move {
        for message in 1..=3 {
            // An hour of virtual time: the clock stops only where a task waits for it.
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let post = post.clone();
            let other = std::thread::spawn(move || post.to_group(GroupId::EVERYONE, message));
            other.join().expect("it does not panic").expect("room");
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        stop.notify_waiters();
    });
    tokio::join!(server.run_until(stopped.notified()), client.run_until(stopped.notified()));
    assert_eq!((got.get(), &sent.borrow()[..]), (3, &[1, 2, 3][..]));
    assert_eq!((server.tasks(), client.tasks()), (0, 0));
    // A poll for the start, each message, and the end.
    let polls = server.counters().tasks.polls;
    assert!(polls <= 10, "{polls} polls of tasks");
}

#[test]
fn a_thread_without_a_runtime_is_woken_by_mail() {
    let mail = Mail::<u32>::new(MailLimits::default());
    let mut net = Net::new();
    let got = Rc::new(Cell::new(0));
    let mut server = net.host(1, 10, |incoming: Incoming| {
        let (mut mailbox, got) = (mail.mailbox().expect("room"), Rc::clone(&got));
        async move {
            let _conn = incoming.conn;
            while let Ok(message) = mailbox.recv().await {
                got.set(*message);
            }
        }
    });
    server.attach(&mail);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 10, |incoming: Incoming| async move {
        let _conn = incoming.conn;
        sleep(Duration::from_secs(1)).await;
    });
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(10, &mut [&mut server, &mut client]);
    let (post, (asleep, sleeps)) = (mail.post(), mpsc::channel());
    let other = std::thread::spawn(move || {
        for message in 1..=100 {
            sleeps.recv().expect("the swarm's thread is there");
            post.to_group(GroupId::EVERYONE, message).expect("room");
        }
    });
    for message in 1..=100 {
        asleep.send(()).expect("it listens");
        while got.get() < message {
            // Far longer than a test may take: only mail ends it.
            server.rest(net.now, Duration::from_secs(10_000));
            net.pass(1, &mut [&mut server]);
        }
    }
    other.join().expect("it does not panic");
    // With a deadline that is due, there is no rest.
    client.rest(Instant::from_micros(net.now.as_micros() + 2_000_000), Duration::from_secs(10_000));
}

#[test]
fn a_rest_ends_with_a_deadline_and_does_not_begin_while_mail_waits() {
    let mail = Mail::<u32>::new(MailLimits::default());
    let mut net = Net::new();
    let start = |incoming: Incoming| async move {
        let _conn = incoming.conn;
        sleep(Duration::from_secs(1)).await;
    };
    let (mut server, mut client) = (net.host(1, 10, start), net.host(2, 10, start));
    server.attach(&mail);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    client.open(address(2, 1000), address(1, 7), QUICK).expect("room");
    net.pass(10, &mut [&mut server, &mut client]);
    // Far longer than a test may take. No wake-up of this thread is left from before.
    let far = Duration::from_secs(10_000);
    let due = client.next_deadline().expect("it sleeps");
    client.rest(Instant::from_micros(due.as_micros() - 1000), far);
    // Nobody rests when it comes, so it wakes no thread.
    mail.post().to_group(GroupId::EVERYONE, 1).expect("room");
    server.rest(net.now, far);
}

/// A device that has no room for a time, and tells its owner of nothing.
struct Deaf {
    adapter: Adapter,
    has_room_at: Instant,
    now: Instant,
    looks: Rc<Cell<u32>>,
}

impl Device for Deaf {
    fn capabilities(&self) -> Capabilities {
        self.adapter.capabilities()
    }

    fn receive(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.now = now;
        self.looks.set(self.looks.get() + 1);
        self.adapter.receive(now, frames)
    }

    fn room(&self) -> usize {
        if self.now < self.has_room_at { 0 } else { self.adapter.room() }
    }

    fn transmit(&mut self, now: Instant, frames: &mut Frames) -> usize {
        self.adapter.transmit(now, frames)
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Hook
    }

    fn counters(&self) -> DeviceCounters {
        self.adapter.counters()
    }
}

#[tokio::test(start_paused = true)]
async fn a_device_without_room_is_looked_at_from_time_to_time() {
    let looks = Rc::new(Cell::new(0));
    let device = Deaf {
        adapter: Hub::default().adapter(crate::swarms::mac(1)),
        has_room_at: Instant::from_micros(1_500_000),
        now: Instant::default(),
        looks: Rc::clone(&looks),
    };
    let start = |incoming: Incoming| async move { drop(incoming) };
    let mut client = Swarm::new(crate::swarms::engine(crate::swarms::settings(1), 1), device, 10, start)
        .expect("address space");
    client.open(address(1, 1000), address(2, 7), QUICK).expect("room");
    // The swarm's clock starts at a second.
    client.run_until(tokio::time::sleep(Duration::from_millis(450))).await;
    assert_eq!(client.device().counters().frames_out, 0);
    assert!((40..60).contains(&looks.get()), "{} rounds", looks.get());
    client.run_until(tokio::time::sleep(Duration::from_millis(100))).await;
    assert_eq!(client.device().counters().frames_out, 1, "the SYN");
    assert!(client.next_deadline().is_some_and(|deadline| deadline > Instant::from_micros(1_600_000)));
}
