//! A name server on the loopback that a test scripts, for one record each answer.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

/// What a question is about.
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) kind: u16,
    /// Its number, which an answer repeats (RFC 1035, section 4.1.1).
    pub(crate) id: [u8; 2],
    bytes: Vec<u8>,
}

pub(crate) const A: u16 = 1;
pub(crate) const AAAA: u16 = 28;
pub(crate) const SRV: u16 = 33;

/// A name server. It ends with the process.
pub(crate) struct NameServer {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    /// Sends what `answer` says, datagram by datagram.
    pub(crate) fn start(answer: impl Fn(&Question) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        let asked = Arc::<Mutex<Vec<_>>>::default();
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
                let Some(question) = Question::parse(&buffer[..length]) else { continue };
                noted.lock().expect("no panic").push((question.name.clone(), question.kind));
                for datagram in answer(&question) {
                    // A peer that has its answer closes its socket.
                    let _ = socket.send_to(&datagram, peer);
                }
            }
        });
        Self { address, asked }
    }

    /// How often it was asked for these records of a name.
    pub(crate) fn asked(&self, name: &str, kind: u16) -> usize {
        let asked = self.asked.lock().expect("no panic");
        asked.iter().filter(|(one, other)| one == name && *other == kind).count()
    }
}

impl Question {
    fn parse(message: &[u8]) -> Option<Self> {
        let id = [*message.first()?, *message.get(1)?];
        let (mut at, mut labels) = (12, Vec::new());
        loop {
            let length = usize::from(*message.get(at)?);
            let label = message.get(at + 1..at + 1 + length)?;
            at += 1 + length;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        }
        let kind = u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]);
        Some(Self { name: labels.join("."), kind, bytes: message.get(12..at + 4)?.to_vec(), id })
    }

    /// An answer of these records, each with its TTL and data.
    pub(crate) fn answer(&self, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        self.message(0, records)
    }

    /// There is no such name.
    pub(crate) fn no_such_name(&self) -> Vec<u8> {
        self.message(3, &[])
    }

    /// The server has failed.
    pub(crate) fn failed(&self) -> Vec<u8> {
        self.message(2, &[])
    }

    /// As an answer of another one's, who guesses the number of the query.
    pub(crate) fn guessed(&self, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let mut message = self.answer(records);
        message[0] ^= 0x5a;
        message
    }

    fn message(&self, code: u8, records: &[(u32, Vec<u8>)]) -> Vec<u8> {
        let count = (records.len() as u16).to_be_bytes();
        // A response, with recursion.
        let mut message =
            vec![self.id[0], self.id[1], 0x81, 0x80 | code, 0, 1, count[0], count[1], 0, 0, 0, 0];
        message.extend(&self.bytes);
        for (ttl, data) in records {
            // The name of the question, by a pointer.
            message.extend([0xc0, 12]);
            message.extend(self.kind.to_be_bytes());
            message.extend([0, 1]);
            message.extend(ttl.to_be_bytes());
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(data);
        }
        message
    }
}

/// The data of an SRV record.
pub(crate) fn srv(priority: u16, port: u16, host: &str) -> Vec<u8> {
    let mut data = [priority, 1, port].map(u16::to_be_bytes).concat();
    for label in host.split('.') {
        data.push(label.len() as u8);
        data.extend(label.as_bytes());
    }
    data.push(0);
    data
}
