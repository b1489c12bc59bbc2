//! Records in, records out: the state of TLS on one connection, without I/O.
//!
//! It uses rustls' unbuffered interface: records are opened where they were read to, and sealed where they leave from, so
//! that a connection between two messages holds no buffer.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{CommonState, Error, InvalidMessage};

/// The two roles.
pub(super) enum Session {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl Session {
    /// Whether the handshake is done, and all that this end says in it is sealed.
    fn is_done(&self) -> bool {
        !self.state().is_handshaking() && !self.state().wants_write()
    }

    pub(super) fn state(&self) -> &CommonState {
        match self {
            Self::Client(client) => client,
            Self::Server(server) => server,
        }
    }

    /// Takes one step. Returns how much of the input is done with.
    fn process(
        &mut self,
        input: &mut [u8],
        opened: &mut Opened<'_>,
        outgoing: &mut Vec<u8>,
        sealing: &Sealing<'_>,
    ) -> (usize, Result<Step, Error>) {
        match self {
            Self::Client(client) => step(client.process_tls_records(input), opened, outgoing, sealing),
            Self::Server(server) => step(server.process_tls_records(input), opened, outgoing, sealing),
        }
    }
}

/// One connection's records.
pub(super) struct Records {
    session: Box<Session>,
    /// Read and not opened, from `incoming_at` on.
    incoming: Vec<u8>,
    incoming_at: usize,
    /// Whether `incoming` may have a whole record.
    may_open: bool,
    /// Opened and not taken, from `plain_at` on.
    plain: Vec<u8>,
    plain_at: usize,
    /// Sealed and not sent, from `sent` on.
    outgoing: Vec<u8>,
    sent: usize,
    /// The peer has said that it sends no more.
    is_ended: bool,
    /// This end has.
    has_ended: bool,
    failed: Option<Error>,
}

/// The work of a turn besides opening.
#[derive(Clone, Copy)]
enum Sealing<'b> {
    Nothing,
    Bytes(&'b [u8]),
    CloseNotify,
}

/// How a state was handled.
enum Step {
    /// There may be more to open.
    Again,
    /// More has to come first.
    Blocked,
    /// The sealing is done.
    Done,
    Ended,
}

/// Where opened bytes go: the caller's buffer, and what does not fit there.
struct Opened<'b> {
    into: &'b mut [u8],
    filled: usize,
    beyond: &'b mut Vec<u8>,
}

impl Opened<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let room = &mut self.into[self.filled..];
        let fitting = bytes.len().min(room.len());
        room[..fitting].copy_from_slice(&bytes[..fitting]);
        self.filled += fitting;
        self.beyond.extend_from_slice(&bytes[fitting..]);
    }

    fn is_full(&self) -> bool {
        !self.beyond.is_empty() || (self.filled > 0 && self.filled == self.into.len())
    }
}

impl Records {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session: Box::new(session),
            incoming: Vec::new(),
            incoming_at: 0,
            // The end that dials speaks first.
            may_open: true,
            plain: Vec::new(),
            plain_at: 0,
            outgoing: Vec::new(),
            sent: 0,
            is_ended: false,
            has_ended: false,
            failed: None,
        }
    }

    pub(super) fn state(&self) -> &CommonState {
        self.session.state()
    }

    /// Whether a read would give something without the wire.
    pub(super) fn is_readable(&self) -> bool {
        self.has_plain() || self.may_open || self.is_ended || self.failed.is_some()
    }

    fn has_plain(&self) -> bool {
        self.plain_at < self.plain.len()
    }

    /// Whether received bytes are unread.
    pub(super) fn has_unread(&self) -> bool {
        // Bytes behind the end are no part of the stream.
        self.has_plain() || (!self.is_ended && self.incoming_at < self.incoming.len())
    }

    /// Whether the peer has said that it sends no more, and everything before that was taken.
    pub(super) fn is_at_end(&self) -> bool {
        self.is_ended && !self.has_plain()
    }

    /// Fails, because the peer has sent more than any message has without ending one.
    pub(super) fn refuse_incoming(&mut self) -> Error {
        let error = Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge);
        self.failed = Some(error.clone());
        error
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) fn is_server(&self) -> bool {
        matches!(*self.session, Session::Server(_))
    }

    /// Takes opened bytes that did not fit into an earlier buffer.
    pub(super) fn take_plain(&mut self, into: &mut [u8]) -> usize {
        let waiting = &self.plain[self.plain_at..];
        let taken = waiting.len().min(into.len());
        into[..taken].copy_from_slice(&waiting[..taken]);
        self.plain_at += taken;
        if !self.has_plain() {
            self.plain = Vec::new();
            self.plain_at = 0;
        }
        taken
    }

    /// Bytes that were read and not opened stand at the front of the buffer to read into: takes them there, and says how
    /// many they are.
    pub(super) fn move_incoming(&mut self, to: &mut [u8]) -> usize {
        let waiting = &self.incoming[self.incoming_at..];
        let moved = waiting.len();
        to[..moved].copy_from_slice(waiting);
        self.incoming = Vec::new();
        self.incoming_at = 0;
        moved
    }

    /// Opens the records of `input`, which is everything that was read and not opened, and fills the caller's buffer.
    pub(super) fn open(&mut self, input: &mut [u8], into: &mut [u8]) -> Result<usize, Error> {
        debug_assert!(self.incoming.is_empty(), "they were moved");
        let (consumed, filled) = self.turn(input, into, Sealing::Nothing);
        self.incoming.extend_from_slice(&input[consumed..]);
        self.outcome(filled)
    }

    /// As [`open`](Self::open), with what an earlier call left. Nothing to do without [`may_open`](Self::may_open).
    pub(super) fn open_rest(&mut self, into: &mut [u8]) -> Result<usize, Error> {
        let filled = self.turn_on_rest(into, Sealing::Nothing);
        self.outcome(filled)
    }

    pub(super) fn may_open(&self) -> bool {
        self.may_open
    }

    fn outcome(&self, filled: usize) -> Result<usize, Error> {
        match &self.failed {
            Some(failed) if filled == 0 && !self.has_plain() => Err(failed.clone()),
            _ => Ok(filled),
        }
    }

    /// Seals bytes.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.turn_on_rest(&mut [], Sealing::Bytes(bytes));
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Says that no more is sent.
    pub(super) fn seal_end(&mut self) {
        if self.failed.is_none() {
            self.turn_on_rest(&mut [], Sealing::CloseNotify);
            self.has_ended = true;
        }
    }

    /// Sealed bytes that wait to leave.
    pub(super) fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.sent..]
    }

    pub(super) fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.outgoing.clear();
            free_list::give_back(std::mem::take(&mut self.outgoing));
        }
    }

    /// Drops sealed bytes.
    pub(super) fn forget_outgoing(&mut self) {
        self.sent(self.outgoing.len() - self.sent);
    }

    fn turn_on_rest(&mut self, into: &mut [u8], sealing: Sealing<'_>) -> usize {
        let mut rest = std::mem::take(&mut self.incoming);
        let (consumed, filled) = self.turn(&mut rest[self.incoming_at..], into, sealing);
        self.incoming_at += consumed;
        if self.incoming_at < rest.len() {
            self.incoming = rest;
        } else {
            self.incoming_at = 0;
        }
        filled
    }

    /// Opens and seals until more input is needed, the caller's buffer is full, or what was to be sealed is. Returns how
    /// much of the input is done with, and how much of the buffer is filled.
    fn turn(&mut self, input: &mut [u8], into: &mut [u8], sealing: Sealing<'_>) -> (usize, usize) {
        let mut consumed = 0;
        let is_shaking_hands = self.state().is_handshaking();
        let mut opened = Opened { into, filled: 0, beyond: &mut self.plain };
        self.may_open = loop {
            if self.failed.is_some() {
                break false;
            }
            let mut process =
                || self.session.process(&mut input[consumed..], &mut opened, &mut self.outgoing, &sealing);
            let (discard, step) = if self.has_ended { contained(process) } else { process() };
            consumed += discard;
            match step {
                // Bytes behind the handshake are for the first read.
                Ok(Step::Again) if is_shaking_hands && self.session.is_done() => break true,
                Ok(Step::Again) if matches!(sealing, Sealing::Nothing) && opened.is_full() => break true,
                Ok(Step::Again) => {}
                // The wire is open, so that this cannot be; if it is, no byte may be lost in silence.
                Ok(Step::Blocked) if matches!(sealing, Sealing::Bytes(_)) => {
                    self.failed = Some(Error::HandshakeNotComplete);
                }
                Ok(Step::Blocked) => break false,
                // Sealing opens no further than it must.
                Ok(Step::Done) => break self.may_open,
                Ok(Step::Ended) => self.is_ended = true,
                Err(error) => self.failed = Some(error),
            }
        };
        let filled = opened.filled;
        self.queue_alert(&mut input[consumed..]);
        (consumed, filled)
    }

    /// Takes the alert about the failure, if rustls made one.
    fn queue_alert(&mut self, input: &mut [u8]) {
        while self.failed.is_some() && self.state().wants_write() {
            let mut opened = Opened { into: &mut [], filled: 0, beyond: &mut Vec::new() };
            let _ = self.session.process(input, &mut opened, &mut self.outgoing, &Sealing::Nothing);
        }
    }
}

/// A step behind the end of our stream. A record of the peer's that is bad makes rustls send an alert, and a debug build of it
/// asserts that none follows our `close_notify`: no peer may cause a panic, so that is a failure as any other.
fn contained(process: impl FnOnce() -> (usize, Result<Step, Error>)) -> (usize, Result<Step, Error>) {
    let failed = || Error::General("a record behind the end of the stream cannot be opened".to_owned());
    if !cfg!(debug_assertions) {
        return process();
    }
    catch_unwind(AssertUnwindSafe(process)).unwrap_or_else(|_| (0, Err(failed())))
}

/// Deals with one state of rustls. Returns how much of the input is done with.
fn step<Data>(
    UnbufferedStatus { discard, state, .. }: UnbufferedStatus<'_, '_, Data>,
    opened: &mut Opened<'_>,
    outgoing: &mut Vec<u8>,
    sealing: &Sealing<'_>,
) -> (usize, Result<Step, Error>) {
    let mut discard = discard;
    let step = match state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                Some(Ok(record)) => {
                    discard += record.discard;
                    opened.put(record.payload);
                }
                Some(Err(error)) => break Err(error),
                None => break Ok(Step::Again),
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            append(outgoing, HANDSHAKE_ROOM_BYTES, |room| match data.encode(room) {
                Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    Appended::Needs(required_size)
                }
                // It is encoded once.
                Err(EncodeError::AlreadyEncoded) => Appended::Bytes(0),
                Ok(bytes) => Appended::Bytes(bytes),
            });
            Ok(Step::Again)
        }
        // Order is all that counts, and the output keeps it.
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
            let room = |bytes: usize| bytes + (bytes / RECORD_MAX_BYTES + 2) * RECORD_OVERHEAD_BYTES;
            let mut is_exhausted = false;
            let mut tried = |tried: Result<usize, EncryptError>| match tried {
                Ok(bytes) => Appended::Bytes(bytes),
                Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
                    Appended::Needs(required_size)
                }
                Err(EncryptError::EncryptExhausted) => {
                    is_exhausted = true;
                    Appended::Bytes(0)
                }
            };
            match sealing {
                Sealing::Nothing => return (discard, Ok(Step::Blocked)),
                Sealing::Bytes(bytes) => {
                    append(outgoing, room(bytes.len()), |room| tried(traffic.encrypt(bytes, room)));
                }
                Sealing::CloseNotify => {
                    append(outgoing, room(0), |room| tried(traffic.queue_close_notify(room)));
                }
            }
            if is_exhausted { Err(Error::EncryptError) } else { Ok(Step::Done) }
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
        Ok(ConnectionState::PeerClosed) => Ok(Step::Ended),
        // Both ends have said that they send no more.
        Ok(ConnectionState::Closed) => Ok(Step::Blocked),
        // Neither is asked for: early data is off.
        Ok(_) => Err(Error::General("early data came although it was not offered".to_owned())),
        Err(error) => Err(error),
    };
    (discard, step)
}

/// How much of the room was taken, or how much it takes.
enum Appended {
    Bytes(usize),
    Needs(usize),
}

/// Makes room at the end of the output, has it written, and keeps the written part.
fn append(outgoing: &mut Vec<u8>, room: usize, mut write: impl FnMut(&mut [u8]) -> Appended) {
    if outgoing.capacity() == 0 {
        *outgoing = free_list::take();
    }
    let begin = outgoing.len();
    outgoing.resize(begin + room, 0);
    let written = match write(&mut outgoing[begin..]) {
        Appended::Bytes(bytes) => bytes,
        Appended::Needs(room) => {
            outgoing.resize(begin + room, 0);
            match write(&mut outgoing[begin..]) {
                Appended::Bytes(bytes) => bytes,
                Appended::Needs(_) => 0,
            }
        }
    };
    outgoing.truncate(begin + written);
}

/// The most that one record carries (RFC 8446 section 5.1).
pub(super) const RECORD_MAX_BYTES: usize = 16 * 1024;
/// Head, nonce and tag of a record of any suite, and more.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Most messages of a handshake fit.
const HANDSHAKE_ROOM_BYTES: usize = 2048;

/// Output buffers that no connection of this thread uses.
mod free_list {
    use std::cell::RefCell;

    thread_local! {
        static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    }

    /// A buffer without content.
    pub(super) fn take() -> Vec<u8> {
        FREE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    /// Keeps an empty buffer for the next connection.
    pub(super) fn give_back(buffer: Vec<u8>) {
        debug_assert!(buffer.is_empty());
        FREE.with_borrow_mut(|free| {
            if free.len() < COUNT_MAX && (1..=SIZE_MAX_BYTES).contains(&buffer.capacity()) {
                free.push(buffer);
            }
        });
    }

    /// One is taken and given back in the turn of one connection; more only while peers read slowly.
    const COUNT_MAX: usize = 4;
    const SIZE_MAX_BYTES: usize = 256 * 1024;
}
