//! One call after the other, the one call that blocks, and the clock.
//!
//! packetdrill has two threads. One goes through the script, and its calls are answered at once. The other makes the one
//! system call that may block while the script goes on. A call that blocks is tried again after every event. Its thread then asks
//! for the time, and packetdrill takes this as the time of the return. So the server serves no other call in between.
//!
//! Time is virtual. A thread that sleeps or waits for a packet moves it, from deadline to deadline of the engine. Each question
//! for the time moves it by a microsecond, because packetdrill spins on the clock just before an event.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};

use crate::call::{Answer, Call, Client, Errno, Reply, Request, give_up};
use crate::network::Network;
use crate::setup::Setup;
use crate::sockets::Sockets;

/// Executes the calls.
pub(crate) struct Server {
    /// The thread that goes through the script.
    main: ThreadId,
    requests: Receiver<Request>,
    network: Network,
    sockets: Sockets,
    blocked: Option<Blocked>,
}

/// The call that blocks.
struct Blocked {
    request: Request,
    /// When it has waited long enough, if there is such a time.
    until_micros: Option<u64>,
}

impl Server {
    /// Starts a server in a thread of its own. The script runs in the calling thread.
    pub(crate) fn open(setup: Setup) -> Client {
        let (client, requests) = channel();
        let main = thread::current().id();
        let work = move || {
            let network = Network::new(setup);
            Self { main, requests, network, sockets: Sockets::default(), blocked: None }.work();
        };
        match thread::Builder::new().name("stack".to_owned()).spawn(work) {
            Ok(_) => Client::new(client),
            Err(error) => give_up(&format!("starting a thread: {error}")),
        }
    }

    /// Serves until the last client has gone.
    fn work(mut self) {
        while let Ok(request) = self.requests.recv() {
            self.serve(request);
        }
    }

    fn serve(&mut self, mut request: Request) {
        // Before its call the second thread waits for the call's time, and meanwhile the first waits for it.
        let moves_time = request.from == self.main || matches!(request.call, Call::Sleep { .. } | Call::Now);
        let until_micros = self.limit_of(&request.call);
        loop {
            if let Some(answer) = self.attempt(&mut request.call, until_micros) {
                self.retry_blocked();
                // A caller that has gone needs no answer.
                let _ = request.answer.send(answer);
                if !moves_time {
                    self.await_return(request.from);
                }
                return;
            }
            if !moves_time {
                if self.blocked.replace(Blocked { request, until_micros }).is_some() {
                    give_up("two calls block at the same time: packetdrill has one thread for them");
                }
                return;
            }
            // The script itself waits: nothing else can happen than what the engine does by itself.
            self.step_towards(until_micros, &request.call);
        }
    }

    /// When a call with a timeout has waited long enough.
    fn limit_of(&self, call: &Call) -> Option<u64> {
        match call {
            Call::Poll { timeout_millis, .. } | Call::EpollWait { timeout_millis, .. } => {
                let millis = u64::try_from(*timeout_millis).ok()?;
                Some(self.network.micros() + millis * 1000)
            }
            Call::Sleep { micros } => Some(self.network.micros() + micros),
            _ => None,
        }
    }

    /// Does a call, or finds that it has to wait.
    fn attempt(&mut self, call: &mut Call, until_micros: Option<u64>) -> Option<Answer> {
        let is_late = until_micros.is_some_and(|until| until <= self.network.micros());
        match call {
            Call::Now => {
                self.network.tick();
                Some(Ok(Reply::Number(self.network.micros() as i64)))
            }
            Call::Sleep { .. } => is_late.then_some(crate::call::DONE),
            Call::NextPacket => {
                let (micros, bytes) = self.network.take_packet()?;
                Some(Ok(Reply::Packet { bytes, micros }))
            }
            Call::Inject { packet } => {
                let answer =
                    if self.network.inject(packet) { crate::call::DONE } else { Err(Errno(libc::EINVAL)) };
                self.take_events();
                Some(answer)
            }
            call => {
                let answer = self.sockets.attempt(&mut self.network, call, is_late);
                self.network.pump();
                self.take_events();
                answer
            }
        }
    }

    fn take_events(&mut self) {
        while let Some(ready) = self.network.next_ready() {
            self.sockets.note(&mut self.network, ready);
        }
    }

    /// Moves time to the next event: a deadline of the engine, the timeout of the blocked call, or `until_micros`.
    fn step_towards(&mut self, until_micros: Option<u64>, waiting: &Call) {
        let patience = self.blocked.as_ref().and_then(|blocked| blocked.until_micros);
        let next = [self.network.next_deadline(), patience, until_micros].into_iter().flatten().min();
        let Some(next) = next else {
            give_up(&format!("{waiting:?} waits for ever: the stack has nothing more to do"));
        };
        if until_micros.is_none() && next > self.network.last_heard_micros() + SILENCE_MICROS {
            give_up(&format!("{waiting:?} has waited for {} s in vain", SILENCE_MICROS / 1_000_000));
        }
        self.network.advance(next);
        self.take_events();
        self.retry_blocked();
    }

    /// Tries the blocked call again after an event.
    fn retry_blocked(&mut self) {
        let Some(mut blocked) = self.blocked.take() else { return };
        match self.attempt(&mut blocked.request.call, blocked.until_micros) {
            Some(answer) => {
                let _ = blocked.request.answer.send(answer);
                self.await_return(blocked.request.from);
            }
            None => self.blocked = Some(blocked),
        }
    }

    /// Lets a thread come back from its call: time stands still until it has asked for it.
    fn await_return(&mut self, thread: ThreadId) {
        let mut others = Vec::new();
        while let Ok(mut request) = self.requests.recv() {
            if request.from != thread {
                others.push(request);
                continue;
            }
            let asks_for_time = matches!(request.call, Call::Now);
            if let Some(answer) = self.attempt(&mut request.call, None) {
                let _ = request.answer.send(answer);
            }
            if asks_for_time {
                break;
            }
        }
        for request in others {
            self.serve(request);
        }
    }
}

/// After so long without a packet in either direction none is expected any more.
const SILENCE_MICROS: u64 = 600 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{DONE, Wish};

    /// A client, and a descriptor that listens on port 8080.
    fn listening() -> (Client, i32) {
        let mut setup = Setup::parse("address=192.168.0.2").expect("good flags");
        setup.settings.checksums = false;
        let client = Server::open(setup);
        let fd = number(client.call(Call::Socket)) as i32;
        let address = "192.168.0.2:8080".parse().expect("an address");
        assert_eq!(client.call(Call::Bind { fd, address }), DONE);
        assert_eq!(client.call(Call::Listen { fd }), DONE);
        (client, fd)
    }

    #[track_caller]
    fn number(answer: Answer) -> i64 {
        match answer {
            Ok(Reply::Number(number)) => number,
            other => panic!("{other:?} is no number"),
        }
    }

    /// A TCP segment over IPv4 from the peer, without a TCP checksum.
    fn segment(flags: u8, seq: u32, ack: u32, payload: &[u8]) -> Vec<u8> {
        let length = (40 + payload.len()) as u8;
        let mut packet = vec![0x45, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 168, 0, 2];
        let mut sum: u32 =
            packet.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
        sum = (sum & 0xffff) + (sum >> 16);
        packet[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
        packet.extend(4000_u16.to_be_bytes());
        packet.extend(8080_u16.to_be_bytes());
        packet.extend(seq.to_be_bytes());
        packet.extend(ack.to_be_bytes());
        packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        packet.extend(payload);
        packet
    }

    #[track_caller]
    fn next_packet(client: &Client) -> (u64, Vec<u8>) {
        match client.call(Call::NextPacket) {
            Ok(Reply::Packet { bytes, micros }) => (micros, bytes),
            other => panic!("{other:?} is no packet"),
        }
    }

    /// Lets the peer connect; gives the number of the first byte that it expects.
    fn shake_hands(client: &Client) -> u32 {
        assert_eq!(client.call(Call::Inject { packet: segment(2, 0, 0, &[]) }), DONE);
        let (_, answer) = next_packet(client);
        let seq: [u8; 4] = answer[24..28].try_into().expect("a sequence number");
        let ack = u32::from_be_bytes(seq).wrapping_add(1);
        assert_eq!(client.call(Call::Inject { packet: segment(16, 1, ack, &[]) }), DONE);
        ack
    }

    #[test]
    fn waiting_for_a_packet_moves_time() {
        let (client, _) = listening();
        assert_eq!(client.call(Call::Inject { packet: segment(2, 0, 0, &[]) }), DONE);
        let (first, _) = next_packet(&client);
        // The SYN-ACK once more, after the first timeout of RFC 6298.
        let (second, _) = next_packet(&client);
        assert!((999_000..=1_001_000).contains(&(second - first)), "{first} {second}");
        assert!(number(client.call(Call::Now)) as u64 > second);
    }

    #[test]
    fn a_call_that_blocks_ends_when_its_packet_has_come() {
        let (client, listener) = listening();
        let (client, ack) = (&client, shake_hands(&client));
        let (told, telling) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let Ok(Reply::Accepted { fd, .. }) = client.call(Call::Accept { fd: listener }) else {
                    panic!("no peer has connected");
                };
                client.call(Call::Now).expect("the time");
                told.send(fd).expect("the test listens");
                let read = client.call(Call::Receive { fd, length: 100, flags: 0 });
                let at = number(client.call(Call::Now));
                assert_eq!(read, Ok(Reply::Bytes(b"hello".to_vec())));
                told.send(at as i32).expect("the test listens");
            });
            telling.recv().expect("accepted");
            // Even if the second thread calls later, the bytes were there at this moment.
            let before = number(client.call(Call::Now));
            assert_eq!(client.call(Call::Inject { packet: segment(24, 1, ack, b"hello") }), DONE);
            let after = telling.recv().expect("read");
            assert!((before as i32..before as i32 + 10).contains(&after), "{before} {after}");
        });
    }

    #[test]
    fn what_would_block_says_so_and_what_is_late_comes_back() {
        let (client, fd) = listening();
        let argument = libc::O_RDWR | libc::O_NONBLOCK;
        assert_eq!(client.call(Call::Control { fd, command: libc::F_SETFL, argument }), DONE);
        assert_eq!(client.call(Call::Accept { fd }), Err(Errno(libc::EAGAIN)));
        let before = number(client.call(Call::Now));
        let wishes = vec![Wish { fd, events: libc::POLLIN as u32, data: 7 }];
        let nothing = vec![Wish { fd, events: 0, data: 7 }];
        assert_eq!(client.call(Call::Poll { wishes, timeout_millis: 250 }), Ok(Reply::Events(nothing)));
        assert_eq!(number(client.call(Call::Now)) - before, 250_001);
    }

    #[test]
    fn errors_are_those_of_a_kernel() {
        let (client, fd) = listening();
        let receive = |fd| client.call(Call::Receive { fd, length: 1, flags: 0 });
        assert_eq!(receive(9999), Err(Errno(libc::EBADF)));
        assert_eq!(receive(fd), Err(Errno(libc::ENOTCONN)));
        let ack = shake_hands(&client);
        let Ok(Reply::Accepted { fd, .. }) = client.call(Call::Accept { fd }) else {
            panic!("no peer has connected")
        };
        assert_eq!(client.call(Call::Shutdown { fd, how: libc::SHUT_WR }), DONE);
        let bytes = vec![0; 10];
        assert_eq!(client.call(Call::Send { fd, bytes, taken: 0, flags: 0 }), Err(Errno(libc::EPIPE)));
        assert_eq!(client.call(Call::Inject { packet: segment(4, 1, ack, &[]) }), DONE);
        assert_eq!(receive(fd), Err(Errno(libc::ECONNRESET)));
        assert_eq!(receive(fd), Ok(Reply::Bytes(Vec::new())), "an error is told once");
    }
}
