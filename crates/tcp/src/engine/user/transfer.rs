//! Bytes between a connection and its holder: into the send queue, out of the receive queue, and from one to the other.

use std::mem::ManuallyDrop;

use crate::engine::input::deliver::{InFrame, Unread};
use crate::engine::output::scheduler::Scheduler;
use crate::engine::output::transmit::receive_room;
use crate::engine::{ConnId, ConnIndex, Engine};
use crate::frames::Frames;
use crate::pool::{Cell, Pool, SEGMENT_BYTES};
use crate::shared_payload::SharedPayload;
use crate::tcb::{Flags, State, Tcb};

impl Engine {
    /// Copies bytes into the send queue, to leave when the windows allow; gives how many were taken. Fewer than given means
    /// that the queue is full: [`Events::WRITABLE`](crate::engine::Events::WRITABLE) tells when there is room again.
    pub fn send(&mut self, id: ConnId, mut bytes: &[u8]) -> usize {
        if !self.is_held(id) {
            return 0;
        }
        let index = id.0;
        let given = bytes.len();
        while !bytes.is_empty() {
            let tcb = &self.tcbs[index];
            let room = self.room_of(tcb);
            let wanted = bytes.len().min(room as usize);
            if wanted == 0 || !tcb.state.may_send() || tcb.has(Flags::FIN_QUEUED) {
                break;
            }
            let mss = usize::from(tcb.eff_mss);
            let (tail, unsent) = (tcb.send_tail, tcb.has_unsent());
            // Behind bytes that have not left yet, as long as they make one segment.
            if unsent {
                let have = usize::from(self.pool.segment(tail).length);
                let more = self.pool.room_of(tail).min(mss.saturating_sub(have)).min(wanted);
                if more > 0 {
                    self.pool.append(tail, more).copy_from_slice(&bytes[..more]);
                    self.tcbs[index].write_end += more as u32;
                    bytes = &bytes[more..];
                    continue;
                }
            }
            let part = wanted.min(mss);
            // While something is queued more will come, and shares the segment.
            let size = if tail.is_none() { part } else { mss };
            let Some(cell) = self.take_to_send(index, size) else { break };
            self.pool.append(cell, part).copy_from_slice(&bytes[..part]);
            self.enqueue(index, cell);
            bytes = &bytes[part..];
        }
        if !bytes.is_empty() {
            self.want_room(index, bytes.len());
        }
        if self.tcbs[index].has_unsent() {
            self.schedule(index);
        }
        self.check(index);
        given - bytes.len()
    }

    /// Sends all of a payload that many connections share, without a copy for each in its send queue; gives how many bytes were
    /// taken. Where it does not make a segment of its own, because it is longer or shares one with what waits, it is copied as by
    /// [`send`](Self::send).
    pub fn send_shared(&mut self, id: ConnId, payload: &SharedPayload) -> usize {
        let (index, length) = (id.0, payload.bytes().len());
        if self.is_held(id) && length > 0 && self.takes_at_once(&self.tcbs[index], length) {
            let is_first = self.tcbs[index].send_tail.is_none();
            if let Some(cell) = self.pool.take_shared(payload, is_first) {
                self.enqueue(index, cell);
                self.schedule(index);
                self.check(index);
                return length;
            }
        }
        self.send(id, payload.bytes())
    }

    /// Writes a message of `length` bytes into the send queue in place. False if the queue has no room:
    /// [`Events::WRITABLE`](crate::engine::Events::WRITABLE) tells when it has some again. Or if the message is longer than a segment:
    /// [`send`](Self::send) then takes it in parts.
    #[inline]
    #[must_use = "nothing was sent if there was no room"]
    pub fn send_with(&mut self, id: ConnId, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let index = id.0;
        if !self.is_held(id) {
            return false;
        }
        if length == 0 || !self.takes_at_once(&self.tcbs[index], length) {
            return self.send_with_any(index, length, write);
        }
        let tcb = &mut self.tcbs[index];
        let is_put = put_new(tcb, &mut self.pool, length, write);
        if is_put {
            self.scheduler.enter(index, tcb);
        } else {
            self.want_room(index, length);
        }
        self.check(index);
        is_put
    }

    /// The same for a queue that is not empty, or for a long message.
    #[inline(never)]
    fn send_with_any(&mut self, index: ConnIndex, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let tcb = &self.tcbs[index];
        let may_send = tcb.state.may_send() && !tcb.has(Flags::FIN_QUEUED);
        if length == 0 || length > usize::from(tcb.eff_mss) || !may_send {
            return false;
        }
        if length > self.room_of(tcb) as usize {
            self.want_room(index, length);
            return false;
        }
        if let Some(tail) = self.tail_with_room(tcb, length) {
            self.pool.append_written(tail, length, write);
            let tcb = &mut self.tcbs[index];
            tcb.write_end += length as u32;
            self.scheduler.enter(index, tcb);
            self.check(index);
            return true;
        }
        let bytes = cell_bytes(tcb, length);
        let Some(cell) = self.take_to_send(index, bytes) else {
            self.want_room(index, bytes);
            return false;
        };
        let taken = Taken { pool: &mut self.pool, cell };
        taken.pool.append_written(cell, length, write);
        let _kept = ManuallyDrop::new(taken);
        self.enqueue(index, cell);
        self.schedule(index);
        self.check(index);
        true
    }

    /// Whether a message of `length` bytes fits into a segment, a cell and the queue, and joins no other message.
    #[inline(always)]
    fn takes_at_once(&self, tcb: &Tcb, length: usize) -> bool {
        tcb.state == State::Established
            && !tcb.has(Flags::FIN_QUEUED)
            && length <= usize::from(tcb.eff_mss)
            && length <= self.at_once_bytes
            && (tcb.send_tail.is_none()
                || tcb.has(Flags::NO_NAGLE) && !tcb.has_unsent() && length <= self.room_of(tcb) as usize)
    }

    /// The last segment, if it has not left and takes so many bytes more: messages that wait share a segment.
    fn tail_with_room(&self, tcb: &Tcb, length: usize) -> Option<Cell> {
        if !tcb.has_unsent() {
            return None;
        }
        let have = usize::from(self.pool.segment(tcb.send_tail).length);
        let fits = have + length <= usize::from(tcb.eff_mss) && length <= self.pool.room_of(tcb.send_tail);
        fits.then_some(tcb.send_tail)
    }

    /// Sends arrived bytes back: moves the next unread ones, up to `length`, into the send queue. Gives how many. Unread
    /// bytes of a connection that has ended can go nowhere, and are dropped.
    #[inline]
    #[must_use = "what was not moved is still to be read"]
    pub fn splice(&mut self, id: ConnId, length: usize) -> usize {
        let index = id.0;
        if !self.is_held(id) {
            return 0;
        }
        let tcb = &self.tcbs[index];
        // Nearly always all that is unread is one message in one frame, and nothing waits to be sent.
        if let Unread::InFrame(number) = Unread::of(tcb)
            && usize::from(self.in_frames[number].length) == length
            && self.takes_at_once(tcb, length)
        {
            let (tcb, unread) = (&mut self.tcbs[index], &mut self.in_frames[number]);
            let bytes = unread.bytes(&self.received, number);
            if !put_new(tcb, &mut self.pool, length, |room| room.copy_from_slice(bytes)) {
                self.want_room(index, length);
                return 0;
            }
            take_from_frame(tcb, unread, length);
            if leaves_at_once(tcb, length) {
                // The answer takes the ACK along, so the end of the batch need not look at this TCB again.
                *unread = InFrame::NONE;
            }
            self.scheduler.enter(index, tcb);
            widen_window(index, tcb, self.settings.receive_window, &mut self.scheduler);
            self.check(index);
            return length;
        }
        self.splice_any(id, length)
    }

    /// The same for several parts, or for bytes that join a queued segment.
    #[inline(never)]
    fn splice_any(&mut self, id: ConnId, length: usize) -> usize {
        let index = id.0;
        let tcb = &self.tcbs[index];
        let room = (self.room_of(tcb) as usize).min(usize::from(tcb.eff_mss));
        let wanted = length.min(tcb.readable() as usize).min(room);
        if !tcb.state.may_send() || tcb.has(Flags::FIN_QUEUED) || tcb.readable() == 0 {
            if tcb.state == State::Closed {
                self.drop_unread(index);
            }
            return 0;
        }
        let tail = self.tail_with_room(tcb, wanted);
        let bytes = cell_bytes(tcb, wanted);
        let cell = if wanted == 0 { None } else { tail.or_else(|| self.take_to_send(index, bytes)) };
        let Some(cell) = cell else {
            self.want_room(index, bytes);
            return 0;
        };
        let mut moved = 0;
        while moved < wanted {
            let taken = match Unread::of(&self.tcbs[index]) {
                Unread::InFrame(number) => {
                    let bytes = self.in_frames[number].bytes(&self.received, number);
                    let taken = bytes.len().min(wanted - moved);
                    self.pool.append(cell, taken).copy_from_slice(&bytes[..taken]);
                    take_from_frame(&mut self.tcbs[index], &mut self.in_frames[number], taken);
                    taken
                }
                _ => self.splice_kept(index, cell, wanted - moved),
            };
            if taken == 0 {
                break;
            }
            moved += taken;
        }
        if tail.is_some() {
            self.tcbs[index].write_end += moved as u32;
        } else {
            self.enqueue(index, cell);
        }
        widen_window(index, &mut self.tcbs[index], self.settings.receive_window, &mut self.scheduler);
        self.schedule(index);
        self.check(index);
        moved
    }

    /// The same for bytes in the pool. A cell cannot be read while another one is written.
    #[cold]
    fn splice_kept(&mut self, index: ConnIndex, cell: Cell, wanted: usize) -> usize {
        let Unread::Kept(tail) = Unread::of(&self.tcbs[index]) else { return 0 };
        let mut part = [0; SEGMENT_BYTES];
        let taken = self.read_kept(index, tail, |bytes| {
            let taken = bytes.len().min(wanted);
            part[..taken].copy_from_slice(&bytes[..taken]);
            taken
        });
        self.pool.append(cell, taken).copy_from_slice(&part[..taken]);
        taken
    }

    /// Asks for the cache lines of the connection in a [place](ConnId::index), which is about to be used.
    #[inline]
    pub fn prefetch(&self, place: u32) {
        self.tcbs.prefetch(ConnIndex(place));
        self.idle_timers.prefetch(ConnIndex(place));
    }

    /// A cell for the send queue of a connection. The last of the memory is for connections with an empty queue.
    #[inline]
    fn take_to_send(&mut self, index: ConnIndex, bytes: usize) -> Option<Cell> {
        if !self.tcbs[index].send_tail.is_none() {
            return self.pool.take_more(bytes);
        }
        self.pool.take(bytes).or_else(|| if self.reclaim() { self.pool.take(bytes) } else { None })
    }

    /// Remembers that the user waits for room in the connection's queue, or for memory for so many bytes.
    #[cold]
    fn want_room(&mut self, index: ConnIndex, bytes: usize) {
        let tcb = &mut self.tcbs[index];
        tcb.flags.set(Flags::WANTS_ROOM);
        // With something in flight, its ACK tells of room.
        if tcb.flight() == 0 && !self.pool.has_room_for(bytes) && !tcb.has(Flags::WAITS_FOR_MEMORY) {
            tcb.flags.set(Flags::WAITS_FOR_MEMORY);
            if self.waiting_for_memory.len() >= 2 * self.tcbs.places() as usize {
                self.waiting_for_memory.forget_earlier(&mut self.tcbs);
            }
            self.waiting_for_memory.push_back(index, bytes);
        }
    }

    /// Puts a filled cell behind the others.
    #[inline]
    pub(crate) fn enqueue(&mut self, index: ConnIndex, cell: Cell) {
        let tcb = &mut self.tcbs[index];
        let kept = self.pool.segment_mut(cell);
        kept.seq = tcb.write_end;
        tcb.write_end = kept.end();
        tcb.send_tail = self.pool.push_back(tcb.send_tail, cell);
        if tcb.send_next.is_none() {
            tcb.send_next = cell;
        }
        tcb.queued += 1;
    }

    /// Bytes that the send queue of a connection takes.
    #[inline]
    pub(crate) fn room_of(&self, tcb: &Tcb) -> u32 {
        if tcb.queued >= self.limits.send_segments {
            return 0;
        }
        self.limits.send_bytes.saturating_sub(tcb.write_end - tcb.snd_una)
    }

    /// How many bytes [`send`](Self::send) would take now, as far as this connection's own limit goes.
    pub fn send_room(&self, id: ConnId) -> usize {
        if self.is_held(id) { self.room_of(&self.tcbs[id.0]) as usize } else { 0 }
    }

    /// Shows the next bytes that have arrived, without copying, and takes as many as `read` says it has used. There may be
    /// more behind them: call again until it gives 0.
    #[inline]
    pub fn recv(&mut self, id: ConnId, read: impl FnOnce(&[u8]) -> usize) -> usize {
        let index = id.0;
        if !self.is_held(id) {
            return 0;
        }
        let tcb = &mut self.tcbs[index];
        let taken = match Unread::of(tcb) {
            Unread::Nothing => return 0,
            Unread::InFrame(number) => {
                let unread = &mut self.in_frames[number];
                let bytes = unread.bytes(&self.received, number);
                let taken = read(bytes).min(bytes.len());
                take_from_frame(tcb, unread, taken);
                taken
            }
            Unread::Kept(tail) => self.read_kept(index, tail, read),
        };
        widen_window(index, &mut self.tcbs[index], self.settings.receive_window, &mut self.scheduler);
        self.check(index);
        taken
    }

    /// The same for bytes in the pool.
    fn read_kept(&mut self, index: ConnIndex, tail: Cell, read: impl FnOnce(&[u8]) -> usize) -> usize {
        let first = self.pool.front(tail);
        let bytes = self.pool.bytes_of(first);
        let taken = read(bytes).min(bytes.len());
        let kept = self.pool.segment_mut(first);
        kept.start += taken as u16;
        kept.length -= taken as u16;
        let tcb = &mut self.tcbs[index];
        if kept.length == 0 {
            tcb.receive_tail = self.pool.pop_front(tail);
        }
        *tcb.unread_mut() -= taken as u32;
        taken
    }

    /// Copies the next bytes that have arrived behind `out`, up to `length`, without taking them, in one piece however many
    /// segments brought them; gives how many.
    pub fn peek(&self, id: ConnId, length: usize, out: &mut Vec<u8>) -> usize {
        if !self.is_held(id) {
            return 0;
        }
        let before = out.len();
        match Unread::of(&self.tcbs[id.0]) {
            Unread::Nothing => {}
            Unread::InFrame(number) => {
                let bytes = self.in_frames[number].bytes(&self.received, number);
                out.extend_from_slice(&bytes[..bytes.len().min(length)]);
            }
            Unread::Kept(tail) => {
                for cell in self.pool.queue(tail) {
                    let bytes = self.pool.bytes_of(cell);
                    let left = length - (out.len() - before);
                    out.extend_from_slice(&bytes[..bytes.len().min(left)]);
                    if left <= bytes.len() {
                        break;
                    }
                }
            }
        }
        out.len() - before
    }

    /// Whether a send has found no room, and [`Events::WRITABLE`](crate::engine::Events::WRITABLE) will tell of some.
    pub fn wants_room(&self, id: ConnId) -> bool {
        self.is_held(id) && {
            let tcb = &self.tcbs[id.0];
            tcb.has(Flags::WANTS_ROOM) && tcb.state.may_send()
        }
    }

    /// Bytes that have arrived in order and wait to be read.
    pub fn readable(&self, id: ConnId) -> usize {
        if self.is_held(id) { self.tcbs[id.0].readable() as usize } else { 0 }
    }

    /// Whether the peer has ended its direction by a FIN; a reset that came behind it changes nothing of that.
    pub fn has_peer_closed(&self, id: ConnId) -> bool {
        self.is_held(id) && self.tcbs[id.0].has(Flags::FIN_RECEIVED)
    }

    /// Whether everything that the peer will ever send has been read.
    pub fn is_finished(&self, id: ConnId) -> bool {
        !self.is_held(id) || {
            let tcb = &self.tcbs[id.0];
            tcb.readable() == 0 && (tcb.has(Flags::FIN_RECEIVED) || tcb.state == State::Closed)
        }
    }
}

impl InFrame {
    /// The bytes of its frame that were not read yet.
    #[inline(always)]
    fn bytes(self, held: &Frames, frame: usize) -> &[u8] {
        held.part(frame, self.start.into(), self.length.into())
    }
}

/// A cell on its way to a queue, given back if its writer panics.
struct Taken<'p> {
    pool: &'p mut Pool,
    cell: Cell,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.pool.free(self.cell);
    }
}

/// Appends a message, filled by `write`, to the queue of sent data. False if there is no memory.
#[inline(always)]
fn put_new(tcb: &mut Tcb, pool: &mut Pool, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
    let Some((cell, kept)) = pool.take_written(length, write) else { return false };
    kept.length = length as u16;
    kept.seq = tcb.write_end;
    tcb.write_end += length as u32;
    tcb.send_next = cell;
    tcb.queued += 1;
    if !tcb.send_tail.is_none() {
        pool.push_back(tcb.send_tail, cell);
    }
    tcb.send_tail = cell;
    true
}

/// How large a cell for a message should be: where something is under way, others may join it while it waits.
fn cell_bytes(tcb: &Tcb, length: usize) -> usize {
    if tcb.send_tail.is_none() || tcb.has(Flags::NO_NAGLE) { length } else { usize::from(tcb.eff_mss) }
}

/// So many bytes of a frame were read.
#[inline(always)]
fn take_from_frame(tcb: &mut Tcb, unread: &mut InFrame, taken: usize) {
    unread.start += taken as u16;
    unread.length -= taken as u16;
    if unread.length == 0 {
        tcb.receive_tail = Cell::NONE;
    }
    *tcb.unread_mut() -= taken as u32;
}

/// Whether a message that was just queued, the only one, leaves in the turn of its connection, whatever happens: nothing is in flight,
/// and the peer's window takes it.
#[inline(always)]
fn leaves_at_once(tcb: &Tcb, length: usize) -> bool {
    tcb.flight() == 0 && tcb.extension == Tcb::NO_EXTENSION && (tcb.snd_nxt + length as u32).le(tcb.snd_right)
}

/// After reading: a window that has become small is widened as soon as that is worth a segment (RFC 9293 3.8.6.2.2).
#[inline(always)]
fn widen_window(index: ConnIndex, tcb: &mut Tcb, limit: u32, scheduler: &mut Scheduler) {
    let left = tcb.rcv_right - tcb.rcv_nxt;
    if left >= limit / 2 {
        return;
    }
    let step = receive_room(tcb, limit).saturating_sub(left);
    let is_worth_it = step >= (2 * u32::from(tcb.eff_mss)).min(limit / 2) && left < step;
    if is_worth_it && tcb.state.may_receive() {
        tcb.flags.set(Flags::ACK_NOW);
        scheduler.enter(index, tcb);
    }
}
