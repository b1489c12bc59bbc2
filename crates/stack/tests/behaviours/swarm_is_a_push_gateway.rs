//! A push gateway: very many devices connect and stay; messages from another thread reach one of them, a group, or all.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use crate::swarms::{Net, QUICK, Rounds, address};
use anywire_stack::swarm::{
    Deadline, Either, FrameError, GroupId, Incoming, LengthPrefix, Mail, MailLimits, Mailbox, MailboxId,
    Post, SharedPayload, SlowReader, select,
};

/// 100,000 in all.
const DEVICES_A_HOST: u32 = 50_000;
const IDLE: Duration = Duration::from_secs(60);
const MESSAGES: LengthPrefix = LengthPrefix::u16(1000);

/// Which mailbox a device has.
type Directory = Rc<RefCell<HashMap<u32, MailboxId>>>;

/// Serves a device. It sends its number first. Any later message shows that it is alive, and resets its idle deadline.
async fn serve(
    mut incoming: Incoming,
    mut mailbox: Mailbox<SharedPayload>,
    directory: Directory,
) -> Result<(), FrameError> {
    let conn = &mut incoming.conn;
    let number = MESSAGES.recv(conn, |hello| hello.try_into().map(u32::from_be_bytes)).await?;
    let Some(Ok(number)) = number else { return Ok(()) };
    directory.borrow_mut().insert(number, mailbox.id());
    let mut idle = Deadline::after(IDLE);
    loop {
        match select(conn.readable(), select(mailbox.recv(), &mut idle)).await {
            Either::First(true) => {
                MESSAGES.recv(conn, |_| ()).await?;
                idle.reset(IDLE);
            }
            Either::Second(Either::First(Ok(message))) => {
                if conn.send(&*message).await < message.bytes().len() {
                    return Err(FrameError::Unsent);
                }
            }
            // It has ended, was too slow, or has said nothing for too long.
            _ => return Ok(()),
        }
    }
}

#[test]
fn a_hundred_thousand_devices_get_what_is_pushed() {
    let mut net = Net::new();
    let limits = MailLimits { slow: SlowReader::Disconnect, ..MailLimits::default() };
    let mail = Mail::<SharedPayload>::new(limits);
    let tens = mail.group(SlowReader::DropOldest).expect("room");
    let directory = Directory::default();
    let mut gateway = net.host(1, 1 << 18, |incoming: Incoming| {
        let (mailbox, directory) = (mail.mailbox(), Rc::clone(&directory));
        if let Ok(mailbox) = &mailbox
            && incoming.peer.port().is_multiple_of(10)
        {
            mailbox.join(tens).expect("it is there");
        }
        async move {
            if let Ok(mailbox) = mailbox {
                serve(incoming, mailbox, directory).await.expect("devices keep to the protocol");
            }
        }
    });
    gateway.attach(&mail);
    gateway.engine().listen(address(1, 7), QUICK).expect("a free port");

    // Messages by their first byte, and devices whose connections were closed.
    let (got, ended) = (Rc::new(RefCell::new([0_u32; 4])), Rc::new(Cell::new(0_u32)));
    let devices = |host: u8| {
        let (got, ended) = (Rc::clone(&got), Rc::clone(&ended));
        move |mut incoming: Incoming| {
            let (got, ended) = (Rc::clone(&got), Rc::clone(&ended));
            let number = u32::from(host) << 16 | u32::from(incoming.local.port());
            async move {
                let conn = &mut incoming.conn;
                MESSAGES.send(conn, &number.to_be_bytes()).await.expect("it is open");
                while let Ok(Some(kind)) = MESSAGES.recv(conn, |message| message[0]).await {
                    got.borrow_mut()[usize::from(kind)] += 1;
                }
                ended.set(ended.get() + 1);
            }
        }
    };
    let mut hosts = [net.host(2, 1 << 17, devices(2)), net.host(3, 1 << 17, devices(3))];
    let all = 2 * DEVICES_A_HOST as usize;
    let mut opened = 0;
    while directory.borrow().len() < all {
        for port in (10_000 + opened..10_000 + DEVICES_A_HOST).take(512) {
            for (host, swarm) in (2..).zip(&mut hosts) {
                swarm.open(address(host, port as u16), address(1, 7), QUICK).expect("room");
            }
            opened += 1;
        }
        round_of_all(&mut net, &mut gateway, &mut hosts);
    }
    assert_eq!((gateway.tasks(), gateway.counters().refused), (all, 0));

    // Another thread pushes.
    let (post, (say, hear)) = (mail.post(), mpsc::channel::<MailboxId>());
    let pusher = std::thread::spawn(move || push(&post, tens, &hear));
    say.send(directory.borrow()[&(3 << 16 | 12_345)]).expect("it waits");
    pusher.join().expect("it does not panic");
    round_of_all(&mut net, &mut gateway, &mut hosts);
    assert_eq!(mail.counters().delivered, 1 + 10_000 + all as u64);
    assert_eq!(*got.borrow(), [0, 1, 10_000, all as u32]);
    // Devices that got one message delay its ACK. The payload is kept once meanwhile; copies would take 2 KiB a device.
    let kept = gateway.engine().memory().segments_in_use;
    assert_eq!(kept, (all - 10_001) * 64 + 902);

    // No device sends any more, so all connections are closed.
    for _ in 0..70 {
        net.now = net.now + Duration::from_secs(1);
        round_of_all(&mut net, &mut gateway, &mut hosts);
    }
    while gateway.tasks() > 0 || ended.get() < all as u32 {
        round_of_all(&mut net, &mut gateway, &mut hosts);
    }
    assert_eq!(gateway.counters().tasks.panicked, 0);
    assert_eq!(mail.counters().disconnected, 0);
}

fn push(post: &Post<SharedPayload>, tens: GroupId, hear: &mpsc::Receiver<MailboxId>) {
    let one = hear.recv().expect("the test says whom");
    let message = |kind: u8| SharedPayload::from(MESSAGES.encode(&[kind; 900]).expect("short enough"));
    post.to(one, message(1)).expect("room");
    post.to_group(tens, message(2)).expect("room");
    post.to_group(GroupId::EVERYONE, message(3)).expect("room");
}

/// Lets a millisecond pass.
fn round_of_all(net: &mut Net, gateway: &mut dyn Rounds, hosts: &mut [impl Rounds; 2]) {
    let [one, other] = hosts;
    net.pass(1, &mut [gateway, one, other]);
}
