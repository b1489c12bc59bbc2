//! Messages reach one task, a group or everyone, once each, also from other threads; what cannot be delivered is counted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use crate::hub::Adapter;
use crate::swarms::{Net, QUICK, address};
use anywire_stack::swarm::{
    Either, GroupId, Incoming, Mail, MailCounters, MailError, MailLimits, Mailbox, Post, SlowReader, Swarm,
    select, sleep,
};

/// What each task has got, by the port of its peer.
type Got = Rc<RefCell<BTreeMap<u16, Vec<u32>>>>;

/// So many connections from ports 1000 up, to a swarm whose tasks are made by `start`.
fn with_tasks<F, S>(connections: u16, mail: &Mail<u32>, start: S) -> (Net, Swarm<F, S, Adapter>)
where
    F: Future<Output = ()>,
    S: FnMut(Incoming) -> F,
{
    let mut net = Net::new();
    let mut server = net.host(1, 1000, start);
    server.attach(mail);
    server.engine().listen(address(1, 7), QUICK).expect("a free port");
    let mut client = net.host(2, 1000, |incoming: Incoming| async move {
        let _conn = incoming.conn;
        sleep(Duration::from_secs(1000)).await;
    });
    for port in 1000..1000 + connections {
        client.open(address(2, port), address(1, 7), QUICK).expect("room");
    }
    net.pass(50, &mut [&mut server, &mut client]);
    assert_eq!(server.tasks(), usize::from(connections));
    (net, server)
}

async fn collect(incoming: Incoming, mut mailbox: Mailbox<u32>, got: Got) {
    let port = incoming.peer.port();
    while let Ok(message) = mailbox.recv().await {
        got.borrow_mut().entry(port).or_default().push(*message);
    }
}

#[test]
fn one_a_group_and_everyone_are_reached_from_another_thread() {
    let mail = Mail::new(MailLimits::default());
    let odd = mail.group(SlowReader::Skip).expect("room");
    let (got, ids) = (Got::default(), RefCell::new(Vec::new()));
    let (mut net, mut server) = with_tasks(10, &mail, |incoming: Incoming| {
        let mailbox = mail.mailbox().expect("room");
        ids.borrow_mut().push(mailbox.id());
        if incoming.peer.port() % 2 == 1 {
            mailbox.join(odd).expect("it is there");
            mailbox.join(odd).expect("once is enough");
        }
        collect(incoming, mailbox, Rc::clone(&got))
    });
    let (post, first) = (mail.post(), ids.borrow()[0]);
    let others = std::thread::spawn(move || {
        post.to(first, 1).expect("room");
        post.to_group(odd, 2).expect("room");
        post.to_group(GroupId::EVERYONE, 3).expect("room");
        post.to(first, 4).expect("room");
    });
    others.join().expect("it does not panic");
    assert_eq!(server.next_deadline(), Some(Default::default()), "a thread must not sleep on it");
    let polls = server.counters().tasks.polls;
    net.pass(1, &mut [&mut server]);
    // Messages to a group come after messages to one mailbox.
    for (port, messages) in got.borrow().iter() {
        let expected: &[u32] = match port {
            1000 => &[1, 4, 3],
            port if port % 2 == 1 => &[2, 3],
            _ => &[3],
        };
        assert_eq!(messages, expected, "{port}");
    }
    assert_eq!(got.borrow().len(), 10);
    assert_eq!(server.counters().tasks.polls - polls, 10, "each task is woken once for all");
    assert_eq!(mail.counters(), MailCounters { delivered: 17, ..MailCounters::default() });
}

#[test]
fn readers_that_are_too_slow_lose_what_their_group_says() {
    for (slow, kept, counted) in [
        (SlowReader::DropOldest, &[6, 7, 8, 9][..], MailCounters { dropped_oldest: 6, ..Default::default() }),
        (SlowReader::Skip, &[0, 1, 2, 3], MailCounters { skipped: 6, ..Default::default() }),
        (SlowReader::Disconnect, &[], MailCounters { disconnected: 1, ..Default::default() }),
    ] {
        let mail = Mail::new(MailLimits { messages: 4, ..MailLimits::default() });
        let group = mail.group(slow).expect("room");
        let (got, ends) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
        let (mut net, mut server) = with_tasks(1, &mail, |incoming: Incoming| {
            let (got, ends) = (Rc::clone(&got), Rc::clone(&ends));
            let mut mailbox = mail.mailbox().expect("room");
            mailbox.join(group).expect("it is there");
            async move {
                let _conn = incoming.conn;
                sleep(Duration::from_millis(100)).await;
                loop {
                    match select(mailbox.recv(), sleep(Duration::from_millis(100))).await {
                        Either::First(Ok(message)) => got.borrow_mut().push(*message),
                        Either::First(Err(error)) => {
                            assert_eq!(error, MailError::TooSlow);
                            return ends.set(1);
                        }
                        Either::Second(()) => return,
                    }
                }
            }
        });
        let post = mail.post();
        (0..10).for_each(|message| post.to_group(group, message).expect("room"));
        net.pass(400, &mut [&mut server]);
        assert_eq!(*got.borrow(), kept, "{slow:?}");
        assert_eq!(ends.get(), u32::from(slow == SlowReader::Disconnect));
        assert_eq!(MailCounters { delivered: 0, ..mail.counters() }, counted);
        assert_eq!((server.tasks(), server.counters().tasks.panicked), (0, 0));
    }
}

#[test]
fn what_nobody_can_get_is_refused_or_counted() {
    let limits = MailLimits { mailboxes: 2, groups: 1, posts: 3, ..MailLimits::default() };
    let mail = Mail::<u32>::new(limits);
    let (mut net, mut server) = with_tasks(0, &mail, |incoming: Incoming| async move { drop(incoming) });
    let first = mail.mailbox().expect("room");
    let (old, second) = (first.id(), mail.mailbox().expect("room"));
    assert_eq!(mail.mailbox().expect_err("two"), MailError::TooManyMailboxes);
    drop(first);
    let third = mail.mailbox().expect("the place of the first");
    assert_ne!(old, third.id());
    let group = mail.group(SlowReader::Skip).expect("room");
    assert_eq!(mail.group(SlowReader::Skip), Err(MailError::TooManyGroups));
    second.join(group).expect("it is there");
    mail.end_group(group);
    assert_eq!(third.join(group), Err(MailError::NoGroup));
    let next = mail.group(SlowReader::Skip).expect("the place of the first");
    assert_ne!(group, next);
    let post = mail.post();
    post.to(old, 1).expect("room");
    post.to_group(group, 2).expect("room");
    post.to_group(next, 3).expect("room");
    assert_eq!(post.to_group(next, 4), Err(MailError::Full));
    net.pass(1, &mut [&mut server]);
    assert_eq!(mail.counters(), MailCounters { undeliverable: 2, refused: 1, ..Default::default() });
    drop((server, second, third));
    post.to(old, 5).expect("the mail is there");
    drop(mail);
    assert_eq!(post.to(old, 6), Err(MailError::Gone));
}

#[test]
fn members_that_come_and_go_while_a_message_is_delivered_disturb_nobody() {
    let mail = Mail::new(MailLimits { deliveries_a_round: 7, ..MailLimits::default() });
    let group = mail.group(SlowReader::Skip).expect("room");
    let members: Rc<RefCell<Vec<Mailbox<u32>>>> = Rc::default();
    let (mut net, mut server) = with_tasks(0, &mail, |incoming: Incoming| async move { drop(incoming) });
    let post: Post<u32> = mail.post();
    let join = || {
        let mailbox = mail.mailbox().expect("room");
        mailbox.join(group).expect("it is there");
        members.borrow_mut().push(mailbox);
    };
    (0..100).for_each(|_| join());
    post.to_group(group, 1).expect("room");
    for round in 0..10 {
        server.round(net.now);
        // The first ones have it, the last ones have not.
        members.borrow_mut().remove(0);
        members.borrow_mut().pop();
        if round % 2 == 0 {
            let kept = members.borrow_mut().remove(50);
            kept.leave(group);
        }
        join();
    }
    post.to_group(group, 2).expect("room");
    net.pass(10, &mut [&mut server]);
    let delivered = mail.counters().delivered;
    // There are 85 members at the end, and 10 of them joined after the first message.
    let now = members.borrow().len() as u64;
    assert_eq!(now, 85);
    assert!((now + 75..now + 100).contains(&delivered), "{delivered}");
    assert_eq!(mail.counters().skipped, 0, "nobody gets one twice");
    // All leave, and the group is as it was.
    members.borrow_mut().clear();
    join();
    post.to_group(group, 3).expect("room");
    net.pass(10, &mut [&mut server]);
    assert_eq!(mail.counters().delivered, delivered + 1);
}

#[test]
fn most_members_may_leave_while_a_message_is_delivered() {
    let mail = Mail::new(MailLimits { deliveries_a_round: 7, ..MailLimits::default() });
    let group = mail.group(SlowReader::Skip).expect("room");
    let (mut net, mut server) = with_tasks(0, &mail, |incoming: Incoming| async move { drop(incoming) });
    let open = || {
        let mailbox = mail.mailbox().expect("room");
        mailbox.join(group).expect("it is there");
        mailbox
    };
    let mut members: Vec<Mailbox<u32>> = (0..100).map(|_| open()).collect();
    mail.post().to_group(group, 1).expect("room");
    server.round(net.now);
    assert_eq!(server.next_deadline(), Some(Default::default()), "a thread must not sleep on it");
    members.drain(..60);
    // Who comes now has not been there when it was posted.
    members.push(open());
    net.pass(1, &mut [&mut server]);
    assert_eq!(mail.counters().delivered, 7 + 40);
    // Places that were left are closed: the next message is delivered in one round.
    members.drain(2..);
    for _ in 0..1000 {
        members.push(open());
        members.pop();
    }
    mail.post().to_group(group, 2).expect("room");
    server.round(net.now);
    assert_eq!(mail.counters().delivered, 47 + 2);
}

#[test]
fn a_mailbox_without_room_gives_its_reader_up_at_once() {
    let limits = MailLimits { messages: 0, slow: SlowReader::Disconnect, ..MailLimits::default() };
    let mail = Mail::new(limits);
    let error = Rc::new(Cell::new(None));
    let (mut net, mut server) = with_tasks(1, &mail, |incoming: Incoming| {
        let (mut mailbox, error) = (mail.mailbox().expect("room"), Rc::clone(&error));
        async move {
            let _conn = incoming.conn;
            error.set(mailbox.recv().await.err());
        }
    });
    mail.post().to_group(GroupId::EVERYONE, 1).expect("room");
    net.pass(1, &mut [&mut server]);
    assert_eq!((error.get(), server.tasks()), (Some(MailError::TooSlow), 0));
}

/// A message that may have a mailbox in it, as a session has that is handed from one task to another.
struct Session {
    _mailbox: Option<Mailbox<Self>>,
}

#[test]
fn a_message_that_is_dropped_may_have_a_mailbox_in_it() {
    for slow in [SlowReader::DropOldest, SlowReader::Skip, SlowReader::Disconnect] {
        let mail = Mail::new(MailLimits { messages: 2, slow, mailboxes: 8, ..MailLimits::default() });
        let mut net = Net::new();
        let mut server = net.host(1, 10, |incoming: Incoming| async move { drop(incoming) });
        server.attach(&mail);
        let (post, target) = (mail.post(), mail.mailbox().expect("room"));
        let (gone, ended) = (mail.mailbox().expect("room").id(), mail.group(slow).expect("room"));
        mail.end_group(ended);
        let session = || Session { _mailbox: Some(mail.mailbox().expect("room")) };
        // Too many for it, and some for nobody.
        for _ in 0..3 {
            post.to(target.id(), session()).expect("room");
        }
        post.to(gone, session()).expect("room");
        post.to_group(ended, session()).expect("room");
        net.pass(2, &mut [&mut server]);
        drop(target);
        // All of their mailboxes are free again.
        let all: Vec<_> = std::iter::from_fn(|| mail.mailbox().ok()).take(9).collect();
        assert_eq!(all.len(), 8, "{slow:?}");
    }
}

/// Everything has a limit: what waits for members of a group, too.
#[test]
fn messages_to_groups_that_wait_for_their_delivery_are_limited() {
    let limits = MailLimits { posts: 100, deliveries_a_round: 10, ..MailLimits::default() };
    let mail: Mail<Rc<()>> = Mail::new(limits);
    let group = mail.group(SlowReader::DropOldest).expect("room");
    let boxes: Vec<_> = (0..100).map(|_| mail.mailbox().expect("room")).collect();
    boxes.iter().for_each(|one| one.join(group).expect("it is there"));
    let net = Net::new();
    let mut server = net.host(1, 10, |_: Incoming| async {});
    server.attach(&mail);
    let (post, alive) = (mail.post(), Rc::new(()));
    let mut refused = 0;
    for _ in 0..1000 {
        for _ in 0..100 {
            refused += u32::from(post.to_group(group, Rc::clone(&alive)).is_err());
        }
        server.round(net.now);
    }
    let held = Rc::strong_count(&alive) - 1;
    // A mailbox holds 16, and 100 may wait: all else must have been refused, or the memory grows without end.
    assert!(held < 3000, "{held} messages are held, {refused} were refused");
}

/// A message to everyone is for those who were there when the thread took it.
#[test]
fn a_mailbox_that_is_opened_later_does_not_get_earlier_messages_to_everyone() {
    let mail: Mail<u32> = Mail::new(MailLimits { deliveries_a_round: 1, ..MailLimits::default() });
    let mut net = Net::new();
    let mut server = net.host(1, 10, |_: Incoming| async {});
    server.attach(&mail);
    let (_one, two, _three) =
        (mail.mailbox().expect("room"), mail.mailbox().expect("room"), mail.mailbox().expect("room"));
    drop(two);
    mail.post().to_group(GroupId::EVERYONE, 7).expect("room");
    server.round(net.now);
    let before = mail.counters().delivered;
    assert_eq!(before, 1, "the first has it");
    let _later = mail.mailbox().expect("room");
    net.pass(10, &mut [&mut server]);
    assert_eq!(mail.counters().delivered, 2, "the first and the third were there");
}

/// A mailbox that may hold no message holds none.
#[test]
fn a_limit_of_no_messages_holds_none() {
    let mail: Mail<Rc<()>> = Mail::new(MailLimits { messages: 0, ..MailLimits::default() });
    let mut net = Net::new();
    let mut server = net.host(1, 10, |_: Incoming| async {});
    server.attach(&mail);
    let mailbox = mail.mailbox().expect("room");
    let alive = Rc::new(());
    mail.post().to(mailbox.id(), Rc::clone(&alive)).expect("room");
    net.pass(1, &mut [&mut server]);
    let counters = mail.counters();
    assert_eq!(Rc::strong_count(&alive), 1, "{counters:?}");
    assert_eq!(counters, MailCounters { skipped: 1, ..MailCounters::default() });
}
