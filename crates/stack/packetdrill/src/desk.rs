//! One call after the other, the one call that blocks, and the clock.
//!
//! packetdrill has two threads: one goes through the script, the other sits in the one system call that may block while the
//! script goes on. The desk answers the first at once. A call of the second that cannot be answered yet is kept and tried again
//! after everything that happens; once it is answered, nobody else is served until its thread has asked for the time,
//! because that is the time at which packetdrill takes the call to have returned.
//!
//! Time is virtual. It moves when somebody sleeps or waits for a packet, then from deadline to deadline of the engine, and by a
//! microsecond whenever somebody asks for it: packetdrill spins on the clock just before an event.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, ThreadId};

use crate::call::{Answer, Call, Errno, Letter, Line, Reply, give_up};
use crate::network::Network;
use crate::setup::Setup;
use crate::sockets::Sockets;

/// Does the calls.
pub(crate) struct Desk {
    /// The thread that goes through the script.
    main: ThreadId,
    letters: Receiver<Letter>,
    network: Network,
    sockets: Sockets,
    kept: Option<Kept>,
}

/// The call that blocks.
struct Kept {
    letter: Letter,
    /// When it has waited long enough, if there is such a time.
    until_micros: Option<u64>,
}

impl Desk {
    /// Opens a desk in a thread of its own, for a script in the thread that calls this.
    pub(crate) fn open(setup: Setup) -> Line {
        let (line, letters) = channel();
        let main = thread::current().id();
        let work = move || {
            let network = Network::new(setup);
            Self { main, letters, network, sockets: Sockets::default(), kept: None }.work();
        };
        match thread::Builder::new().name("stack".to_owned()).spawn(work) {
            Ok(_) => Line::new(line),
            Err(error) => give_up(&format!("starting a thread: {error}")),
        }
    }

    /// Serves until nobody can call any more.
    fn work(mut self) {
        while let Ok(letter) = self.letters.recv() {
            self.serve(letter);
        }
    }

    fn serve(&mut self, mut letter: Letter) {
        // Before its call the second thread waits for the call's time, and meanwhile the first waits for it.
        let moves_time = letter.from == self.main || matches!(letter.call, Call::Sleep { .. } | Call::Now);
        let until_micros = self.limit_of(&letter.call);
        loop {
            if let Some(answer) = self.attempt(&mut letter.call, until_micros) {
                self.retry_kept();
                // Whoever is gone needs no answer.
                let _ = letter.answer.send(answer);
                if !moves_time {
                    self.await_return(letter.from);
                }
                return;
            }
            if !moves_time {
                if self.kept.replace(Kept { letter, until_micros }).is_some() {
                    give_up("two calls block at the same time: packetdrill has one thread for them");
                }
                return;
            }
            // The script itself waits: nothing else can happen than what the engine does by itself.
            self.step_towards(until_micros, &letter.call);
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
                self.note_news();
                Some(answer)
            }
            call => {
                let answer = self.sockets.attempt(&mut self.network, call, is_late);
                self.network.pump();
                self.note_news();
                answer
            }
        }
    }

    fn note_news(&mut self) {
        for news in self.network.take_news() {
            self.sockets.note(&mut self.network, news);
        }
    }

    /// Moves time on to whatever comes first: a deadline of the engine, the end of the kept call's patience, `until_micros`.
    fn step_towards(&mut self, until_micros: Option<u64>, waiting: &Call) {
        let patience = self.kept.as_ref().and_then(|kept| kept.until_micros);
        let next = [self.network.next_deadline(), patience, until_micros].into_iter().flatten().min();
        let Some(next) = next else {
            give_up(&format!("{waiting:?} waits for ever: the stack has nothing more to do"));
        };
        if until_micros.is_none() && next > self.network.last_heard_micros() + SILENCE_MICROS {
            give_up(&format!("{waiting:?} has waited for {} s in vain", SILENCE_MICROS / 1_000_000));
        }
        self.network.advance(next);
        self.note_news();
        self.retry_kept();
    }

    /// Something has happened: perhaps the kept call can be answered now.
    fn retry_kept(&mut self) {
        let Some(mut kept) = self.kept.take() else { return };
        match self.attempt(&mut kept.letter.call, kept.until_micros) {
            Some(answer) => {
                let _ = kept.letter.answer.send(answer);
                self.await_return(kept.letter.from);
            }
            None => self.kept = Some(kept),
        }
    }

    /// Lets a thread come back from its call: time stands still until it has asked for it.
    fn await_return(&mut self, thread: ThreadId) {
        let mut others = Vec::new();
        while let Ok(mut letter) = self.letters.recv() {
            if letter.from != thread {
                others.push(letter);
                continue;
            }
            let asks_for_time = matches!(letter.call, Call::Now);
            if let Some(answer) = self.attempt(&mut letter.call, None) {
                let _ = letter.answer.send(answer);
            }
            if asks_for_time {
                break;
            }
        }
        for letter in others {
            self.serve(letter);
        }
    }
}

/// After so long without a packet in either direction none is expected any more.
const SILENCE_MICROS: u64 = 600 * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{DONE, Wish};

    /// A desk, and a descriptor that listens on port 8080.
    fn listening() -> (Line, i32) {
        let mut setup = Setup::parse("address=192.168.0.2").expect("good flags");
        setup.settings.checksums = false;
        let line = Desk::open(setup);
        let fd = number(line.call(Call::Socket)) as i32;
        let address = "192.168.0.2:8080".parse().expect("an address");
        assert_eq!(line.call(Call::Bind { fd, address }), DONE);
        assert_eq!(line.call(Call::Listen { fd }), DONE);
        (line, fd)
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
    fn next_packet(line: &Line) -> (u64, Vec<u8>) {
        match line.call(Call::NextPacket) {
            Ok(Reply::Packet { bytes, micros }) => (micros, bytes),
            other => panic!("{other:?} is no packet"),
        }
    }

    /// Lets the peer connect; gives the number of the first byte that it expects.
    fn shake_hands(line: &Line) -> u32 {
        assert_eq!(line.call(Call::Inject { packet: segment(2, 0, 0, &[]) }), DONE);
        let (_, answer) = next_packet(line);
        let seq: [u8; 4] = answer[24..28].try_into().expect("a sequence number");
        let ack = u32::from_be_bytes(seq).wrapping_add(1);
        assert_eq!(line.call(Call::Inject { packet: segment(16, 1, ack, &[]) }), DONE);
        ack
    }

    #[test]
    fn waiting_for_a_packet_moves_time() {
        let (line, _) = listening();
        assert_eq!(line.call(Call::Inject { packet: segment(2, 0, 0, &[]) }), DONE);
        let (first, _) = next_packet(&line);
        // The SYN-ACK once more, after the first timeout of RFC 6298.
        let (second, _) = next_packet(&line);
        assert!((999_000..=1_001_000).contains(&(second - first)), "{first} {second}");
        assert!(number(line.call(Call::Now)) as u64 > second);
    }

    #[test]
    fn a_call_that_blocks_ends_when_its_packet_has_come() {
        let (line, listener) = listening();
        let (line, ack) = (&line, shake_hands(&line));
        let (told, telling) = channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                let Ok(Reply::Accepted { fd, .. }) = line.call(Call::Accept { fd: listener }) else {
                    panic!("nobody has connected");
                };
                line.call(Call::Now).expect("the time");
                told.send(fd).expect("somebody listens");
                let read = line.call(Call::Receive { fd, length: 100, flags: 0 });
                let at = number(line.call(Call::Now));
                assert_eq!(read, Ok(Reply::Bytes(b"hello".to_vec())));
                told.send(at as i32).expect("somebody listens");
            });
            telling.recv().expect("accepted");
            // Whether the second thread has called by now or not: what it reads was there at this moment.
            let before = number(line.call(Call::Now));
            assert_eq!(line.call(Call::Inject { packet: segment(24, 1, ack, b"hello") }), DONE);
            let after = telling.recv().expect("read");
            assert!((before as i32..before as i32 + 10).contains(&after), "{before} {after}");
        });
    }

    #[test]
    fn what_would_block_says_so_and_what_is_late_comes_back() {
        let (line, fd) = listening();
        let argument = libc::O_RDWR | libc::O_NONBLOCK;
        assert_eq!(line.call(Call::Control { fd, command: libc::F_SETFL, argument }), DONE);
        assert_eq!(line.call(Call::Accept { fd }), Err(Errno(libc::EAGAIN)));
        let before = number(line.call(Call::Now));
        let wishes = vec![Wish { fd, events: libc::POLLIN as u32, data: 7 }];
        let nothing = vec![Wish { fd, events: 0, data: 7 }];
        assert_eq!(line.call(Call::Poll { wishes, timeout_millis: 250 }), Ok(Reply::Events(nothing)));
        assert_eq!(number(line.call(Call::Now)) - before, 250_001);
    }

    #[test]
    fn errors_are_those_of_a_kernel() {
        let (line, fd) = listening();
        let receive = |fd| line.call(Call::Receive { fd, length: 1, flags: 0 });
        assert_eq!(receive(9999), Err(Errno(libc::EBADF)));
        assert_eq!(receive(fd), Err(Errno(libc::ENOTCONN)));
        let ack = shake_hands(&line);
        let Ok(Reply::Accepted { fd, .. }) = line.call(Call::Accept { fd }) else {
            panic!("nobody has connected")
        };
        assert_eq!(line.call(Call::Shutdown { fd, how: libc::SHUT_WR }), DONE);
        let bytes = vec![0; 10];
        assert_eq!(line.call(Call::Send { fd, bytes, taken: 0, flags: 0 }), Err(Errno(libc::EPIPE)));
        assert_eq!(line.call(Call::Inject { packet: segment(4, 1, ack, &[]) }), DONE);
        assert_eq!(receive(fd), Err(Errno(libc::ECONNRESET)));
        assert_eq!(receive(fd), Ok(Reply::Bytes(Vec::new())), "an error is told once");
    }
}
