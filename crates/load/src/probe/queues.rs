//! How many connections wait to be accepted, looked at again and again while the probe runs: a queue is full for moments, so a look at
//! the end would miss it.

use std::collections::BTreeMap;

use anywire_sys::listeners::{self, ListeningSocket};

use super::watch::Watch;

/// Looks at accept queues until it is dropped.
pub(super) type QueueWatch = Watch<Seen>;

/// Watches the sockets that listen on this port around a process. `None` if the system has no thread for it.
pub(super) fn watch(pid: i32, port: u16) -> Option<QueueWatch> {
    let look = move || listeners::queues_on_port(pid, port);
    Watch::start("accept-queues", look, |seen: &mut Seen, queues| seen.note(&queues))
}

/// What was seen so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// By inode.
    longest: BTreeMap<u64, u32>,
    pub(super) looks: u64,
}

impl Seen {
    fn note(&mut self, queues: &[ListeningSocket]) {
        self.looks += 1;
        for socket in queues {
            let longest = self.longest.entry(socket.inode).or_default();
            *longest = (*longest).max(socket.accept_queue);
        }
    }

    /// The longest queue of a socket.
    pub(super) fn longest(&self, inode: u64) -> u32 {
        self.longest.get(&inode).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_queue_that_was_long_once_is_known_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let pid = i32::try_from(std::process::id()).expect("numbers of processes are small");
        let watch = watch(pid, address.port()).expect("a thread");
        let longest = || watch.seen().longest.values().copied().max();
        let hang = Instant::now() + Duration::from_secs(60);
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(Instant::now() < hang, "{what}: {:?}", watch.seen());
                thread::sleep(Duration::from_millis(1));
            }
        };
        let waiting: Vec<_> = (0..5).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        until("all wait", &|| longest() == Some(5));
        for _ in &waiting {
            listener.accept().expect("one waits");
        }
        let looks = watch.seen().looks;
        until("it looks on", &|| watch.seen().looks > looks + 1);
        assert_eq!(longest(), Some(5));
    }

    #[test]
    fn each_socket_has_its_own_queue() {
        let socket = |inode, accept_queue| ListeningSocket {
            address: ([127, 0, 0, 1], 80).into(),
            inode,
            accept_queue,
            backlog: None,
            is_own: None,
        };
        let mut seen = Seen::default();
        seen.note(&[socket(1, 3), socket(2, 0)]);
        seen.note(&[socket(1, 1), socket(2, 9)]);
        assert_eq!((seen.longest(1), seen.longest(2), seen.longest(3), seen.looks), (3, 9, 0, 2));
    }
}
