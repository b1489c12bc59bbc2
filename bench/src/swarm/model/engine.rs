//! One end of the model: control blocks, tasks, table, kept segments, and the stages that a batch goes through.

use anyhow::{Context, Result, ensure};
use anywire_sys::arena::{Arena, Pages};

use super::BROKEN;
use super::frame::{ACK, Frame, PSH, Segment};
use super::table::{Table, hash};

/// All connections of one side.
pub struct Engine {
    /// Connection i is block i.
    pub blocks: Arena<Block>,
    /// Task i serves connection i, and lies elsewhere.
    tasks: Arena<Task>,
    table: Table,
    kept: Kept,
    ethernet: [u8; 14],
    /// The batch that is being received, one entry a frame.
    arrivals: Vec<Arrival>,
}

/// A frame between the stages.
#[derive(Clone, Copy)]
struct Arrival {
    segment: Segment,
    hash: u64,
    index: u32,
}

/// A connection, laid out as the engine's: one line that each segment touches, one for window and queue.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub struct Block {
    remote_address: u32,
    remote_port: u16,
    local_port: u16,
    local_address: u32,
    receive_next: u32,
    receive_right: u32,
    send_unacknowledged: u32,
    send_next: u32,
    send_right: u32,
    window_update: u32,
    timestamp_recent: u32,
    acknowledged_last: u32,
    round_trip: u16,
    round_trip_variance: u16,
    deadline: u32,
    ready_next: u32,
    state: u16,
    flags: u16,
    segment_bytes: u16,
    retries: u16,

    congestion_window: u32,
    threshold: u32,
    recover: u32,
    window_max: u32,
    epoch_start: u32,
    cubic: [u16; 2],
    /// The unacknowledged segment, or [`NONE`].
    transmit_head: u32,
    receive_head: u32,
    extension: u32,
    wheel_next: u32,
    send_window_max: u16,
    peer_segment_bytes: u16,
    active_last: u32,
    profile: [u8; 4],
    spare: [u32; 3],
}

/// What the task of a connection keeps between two messages, in as many bytes as that of an echo takes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Task {
    /// Messages that it has had; the rest is as it would be.
    messages: u32,
    _state: [u32; 3],
}

const _: () = assert!(size_of::<Block>() == 128);

impl Block {
    /// Connection `index`, established: the client's end, or the server's.
    fn established(index: u32, client: bool) -> Self {
        // As the reference system numbers them: 60,000 ports to an address.
        let (client_address, server_address) = (0x0a00_0001 + index / 60_000, 0x0a80_0001);
        let (client_port, server_port) = (1024 + (index % 60_000) as u16, 80);
        let (from_client, from_server) = (index.wrapping_mul(0x9e37_79b1), index.wrapping_mul(0x85eb_ca77));
        let (send_next, receive_next) =
            if client { (from_client, from_server) } else { (from_server, from_client) };
        let (local, remote) = ((client_address, client_port), (server_address, server_port));
        let (local, remote) = if client { (local, remote) } else { (remote, local) };
        Self {
            remote_address: remote.0,
            remote_port: remote.1,
            local_port: local.1,
            local_address: local.0,
            receive_next,
            receive_right: receive_next.wrapping_add(WINDOW_BYTES),
            send_unacknowledged: send_next,
            send_next,
            send_right: send_next.wrapping_add(WINDOW_BYTES),
            window_update: receive_next,
            timestamp_recent: 0,
            acknowledged_last: receive_next,
            round_trip: 0,
            round_trip_variance: 0,
            deadline: 0,
            ready_next: NONE,
            state: ESTABLISHED,
            flags: 0,
            segment_bytes: 1448,
            retries: 0,
            congestion_window: 14_480,
            threshold: u32::MAX,
            recover: 0,
            window_max: 0,
            epoch_start: 0,
            cubic: [0; 2],
            transmit_head: NONE,
            receive_head: NONE,
            extension: NONE,
            wheel_next: NONE,
            send_window_max: 0xffff,
            peer_segment_bytes: 1448,
            active_last: 0,
            profile: [0; 4],
            spare: [0; 3],
        }
    }

    #[inline(always)]
    fn is_of(&self, segment: &Segment) -> bool {
        self.remote_address == segment.source_address
            && self.remote_port == segment.source_port
            && self.local_port == segment.destination_port
            && self.local_address == segment.destination_address
    }
}

impl Engine {
    /// Blocks and table of so many established connections.
    pub fn established(connections: u32, client: bool) -> Result<Self> {
        let mut blocks = Arena::reserve(connections as usize, Block::established(0, client))?;
        let mut tasks = Arena::reserve(connections as usize, Task { messages: 0, _state: [0; 3] })?;
        tasks.grow_to(connections as usize);
        let mut table = Table::for_entries(connections as usize)?;
        blocks.grow_to(connections as usize);
        for (index, block) in (0..connections).zip(blocks.iter_mut()) {
            *block = Block::established(index, client);
            table.insert(
                hash(block.remote_address, block.local_address, block.remote_port, block.local_port),
                index,
            );
        }
        let (mut client_mac, mut server_mac) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        if client {
            std::mem::swap(&mut client_mac, &mut server_mac);
        }
        let mut ethernet = [0; 14];
        ethernet[..6].copy_from_slice(&client_mac);
        ethernet[6..12].copy_from_slice(&server_mac);
        ethernet[12..].copy_from_slice(&[8, 0]);
        let kept = Kept::none(connections as usize + super::BATCH_MAX)?;
        Ok(Self { blocks, tasks, table, kept, ethernet, arrivals: Vec::new() })
    }

    /// Forgets all kept segments. From now on places are used in the order of `random`, or one after another. That
    /// many places are made usable.
    pub fn start_over(&mut self, places: usize, random: Option<&mut super::Random>) {
        for block in self.blocks.iter_mut() {
            block.transmit_head = NONE;
        }
        self.kept.start_over(places, random);
    }

    /// Memory of blocks, tasks and table, and of the places for kept segments.
    pub fn bytes(&self) -> usize {
        self.blocks.bytes() + self.tasks.bytes() + self.table.bytes() + self.kept.lines.bytes()
    }

    /// The pages that the blocks lie in.
    pub fn pages(&self) -> Pages {
        self.blocks.pages()
    }

    /// Asks for the memory of a connection and of its task.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        self.blocks.prefetch(index as usize);
        self.tasks.prefetch(index as usize);
    }

    /// Messages that the task of this connection has had.
    #[inline(always)]
    pub fn messages(&self, index: u32) -> u32 {
        self.tasks[index as usize].messages
    }

    /// Stage 4, the task: has another message.
    #[inline(always)]
    pub fn resume(&mut self, index: u32) {
        let task = &mut self.tasks[index as usize];
        task.messages = task.messages.wrapping_add(1);
    }

    /// Stage 4, the task: hands data to a connection, which keeps a copy until it is acknowledged.
    #[inline(always)]
    pub fn send(&mut self, index: u32, payload: &[u8], now: u32, prefetch: bool) {
        let block = &mut self.blocks[index as usize];
        let place = self.kept.take(prefetch);
        let kept = self.kept.place(place);
        kept[..4].copy_from_slice(&block.send_next.to_ne_bytes());
        kept[4..8].copy_from_slice(&(payload.len() as u32).to_ne_bytes());
        kept[8..12].copy_from_slice(&now.to_ne_bytes());
        kept[NOTES_BYTES..NOTES_BYTES + payload.len()].copy_from_slice(payload);
        block.transmit_head = place;
    }

    /// Stage 5: the frame of what was sent, or of a bare acknowledgment if there is nothing.
    #[inline(always)]
    pub fn transmit(&mut self, index: u32, frame: &mut Frame, now: u32, settings: &Settings) -> Result<()> {
        let block = &mut self.blocks[index as usize];
        let payload = if block.transmit_head == NONE {
            &[]
        } else {
            let kept = self.kept.place(block.transmit_head);
            let bytes = u32::from_ne_bytes([kept[4], kept[5], kept[6], kept[7]]) as usize;
            &kept[NOTES_BYTES..NOTES_BYTES + bytes]
        };
        let bytes = payload.len() as u32;
        let until = block.send_next.wrapping_add(bytes);
        let in_flight = until.wrapping_sub(block.send_unacknowledged);
        let allowed = block.state == ESTABLISHED
            && in_flight <= block.congestion_window
            && !before(block.send_right, until);
        ensure!(allowed, "{BROKEN}: a segment was not allowed to leave");
        let segment = Segment {
            source_address: block.local_address,
            destination_address: block.remote_address,
            source_port: block.local_port,
            destination_port: block.remote_port,
            sequence: block.send_next,
            acknowledgment: block.receive_next,
            flags: if bytes > 0 { ACK | PSH } else { ACK },
            window: (block.receive_right.wrapping_sub(block.receive_next) >> WINDOW_SCALE) as u16,
            timestamp: now,
            timestamp_echo: block.timestamp_recent,
            payload_bytes: bytes as u16,
        };
        frame.write(&self.ethernet, &segment, payload, settings.checksum);
        block.send_next = until;
        block.acknowledged_last = block.receive_next;
        if bytes > 0 {
            block.deadline = now.wrapping_add(200);
            if settings.keep_until_sent {
                self.kept.give_back(std::mem::replace(&mut block.transmit_head, NONE));
            }
        }
        Ok(())
    }

    /// Stages 1 to 3: reads a batch, finds its connections, and brings each up to date.
    ///
    /// The connections of the batch are then [`Engine::arrived`].
    #[inline(always)]
    pub fn receive(&mut self, frames: &[Frame], now: u32, settings: &Settings) -> Result<()> {
        self.arrivals.clear();
        for frame in frames {
            let segment =
                frame.read(settings.checksum).with_context(|| format!("{BROKEN}: a bad frame came"))?;
            let hash = hash(
                segment.source_address,
                segment.destination_address,
                segment.source_port,
                segment.destination_port,
            );
            if settings.prefetch {
                self.table.prefetch(hash);
            }
            self.arrivals.push(Arrival { segment, hash, index: NONE });
        }
        // The first one with the same tag is nearly always the right one; the block will tell, once it is here.
        for arrival in &mut self.arrivals {
            arrival.index = self.table.find(arrival.hash, |_| true).unwrap_or(NONE);
            if settings.prefetch {
                self.blocks.prefetch(arrival.index as usize);
                self.tasks.prefetch(arrival.index as usize);
            }
        }
        for arrival in &mut self.arrivals {
            let Arrival { segment, hash, index } = arrival;
            if !self.blocks.get(*index as usize).is_some_and(|block| block.is_of(segment)) {
                let blocks = &self.blocks;
                *index = self
                    .table
                    .find(*hash, |index| blocks[index as usize].is_of(segment))
                    .with_context(|| format!("{BROKEN}: a connection was not found"))?;
            }
            let in_order = accept(&mut self.blocks[*index as usize], segment, &mut self.kept, now);
            ensure!(in_order, "{BROKEN}: a segment was not acceptable");
        }
        Ok(())
    }

    /// The connection of a frame of the last batch, and how many bytes came for it.
    #[inline(always)]
    pub fn arrived(&self, place: usize) -> (u32, u16) {
        let arrival = &self.arrivals[place];
        (arrival.index, arrival.segment.payload_bytes)
    }
}

/// What a connection does with a segment in its steady state: RFC 9293, 3.10.7.4, on the path where all is in order.
#[inline(always)]
fn accept(block: &mut Block, segment: &Segment, kept: &mut Kept, now: u32) -> bool {
    let in_order = block.state == ESTABLISHED
        && segment.flags & !PSH == ACK
        && segment.sequence == block.receive_next
        && !before(segment.timestamp, block.timestamp_recent)
        && !before(block.receive_right, segment.sequence.wrapping_add(u32::from(segment.payload_bytes)))
        && !before(segment.acknowledgment, block.send_unacknowledged)
        && !before(block.send_next, segment.acknowledgment);
    if !in_order {
        return false;
    }
    if !before(block.acknowledged_last, segment.sequence) {
        block.timestamp_recent = segment.timestamp;
    }
    if segment.acknowledgment != block.send_unacknowledged {
        block.send_unacknowledged = segment.acknowledgment;
        let sample = now.wrapping_sub(segment.timestamp_echo).min(0x0fff) as i32;
        let error = sample - i32::from(block.round_trip >> 3);
        block.round_trip = (i32::from(block.round_trip) + error) as u16;
        let variance = i32::from(block.round_trip_variance);
        block.round_trip_variance = (variance + error.abs() - (variance >> 2)) as u16;
        block.retries = 0;
        if segment.acknowledgment == block.send_next {
            block.deadline = 0;
        }
        if block.transmit_head != NONE {
            kept.give_back(std::mem::replace(&mut block.transmit_head, NONE));
        }
    }
    block.send_right = segment.acknowledgment.wrapping_add(u32::from(segment.window) << WINDOW_SCALE);
    block.window_update = segment.sequence;
    block.receive_next = segment.sequence.wrapping_add(u32::from(segment.payload_bytes));
    block.receive_right = block.receive_next.wrapping_add(WINDOW_BYTES);
    block.active_last = now;
    true
}

/// How an engine works, in the terms that its stages need.
#[derive(Clone, Copy)]
pub struct Settings {
    pub checksum: bool,
    pub prefetch: bool,
    pub keep_until_sent: bool,
}

/// Copies of what was sent, in places of 256 bytes that are used again as soon as they are free.
struct Kept {
    /// Two a place, since a prefetch is of two cache lines.
    lines: Arena<[u8; 128]>,
    free: Vec<u32>,
}

impl Kept {
    fn none(places_max: usize) -> Result<Self> {
        Ok(Self { lines: Arena::reserve(places_max * 2, [0; 128])?, free: Vec::new() })
    }

    fn start_over(&mut self, places: usize, random: Option<&mut super::Random>) {
        self.lines.grow_to(places * 2);
        self.free.clear();
        self.free.extend((0..places as u32).rev());
        if let Some(random) = random {
            random.shuffle(&mut self.free);
        }
    }

    #[inline(always)]
    fn take(&mut self, prefetch: bool) -> u32 {
        if prefetch && let Some(&place) = self.free.get(self.free.len().wrapping_sub(1 + KEPT_AHEAD)) {
            self.lines.prefetch(place as usize * 2);
            self.lines.prefetch(place as usize * 2 + 1);
        }
        self.free.pop().expect("there is a place for each connection and one for each frame of a batch")
    }

    #[inline(always)]
    fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }

    #[inline(always)]
    fn place(&mut self, place: u32) -> &mut [u8] {
        self.lines[place as usize * 2..][..2].as_flattened_mut()
    }
}

/// Whether sequence number (or time) `a` comes before `b`; both wrap.
#[inline(always)]
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// No index.
pub const NONE: u32 = u32::MAX;
const ESTABLISHED: u16 = 4;
const WINDOW_BYTES: u32 = 65_536;
const WINDOW_SCALE: u32 = 3;
/// Before the data of a kept segment: sequence number, length, time of sending.
const NOTES_BYTES: usize = 16;
/// How many free places ahead are asked for.
const KEPT_AHEAD: usize = 8;

const _: () = assert!(NOTES_BYTES + super::frame::PAYLOAD_BYTES_MAX <= 256);
