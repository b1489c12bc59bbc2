//! Which loop has a connection: by the port that it was dialled from, or by a hash among the loops that listen.
//!
//! All loops go by the same table, so a segment has one owner, on whatever queue it arrives. A table is never changed: a change makes
//! another one, in which most connections keep their owner:
//!
//! - A loop that dials has blocks of ports of its own, from which it never parts.
//! - Each service has 240 slots, and a connection belongs to the loop of its slot. A loop that begins to listen takes its share of them.
//!   Until a slot has a loop that listens, a SYN for it waits.
//! - When a loop ends, its connections have ended, and loops that listen inherit the slots where it listened, until another loop begins to
//!   listen in its place.
//! - A service that is gone keeps its slots: its connections may go on, though the next service at its address is for another number of
//!   loops.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use anywire_tcp::PortBlock;

use super::flow::Flow;
use super::flow_hash::{Key, flow_hash};
use super::slots::Slots;

/// The number of a loop on its device; 0 is nobody.
pub(super) type LoopNumber = u16;

/// Who has what. See the module's documentation.
#[derive(Debug, Clone)]
pub(super) struct Steering {
    /// The loops that use the device, in the order in which they came.
    members: Vec<Member>,
    /// By the number of the block: the loop that dials from there, or 0.
    blocks: Box<[LoopNumber]>,
    /// Sorted by port and address.
    services: Vec<SharedService>,
    /// The loops that answer for each address.
    answering: HashMap<IpAddr, Vec<LoopNumber>>,
    /// Nobody can choose ports and addresses that all lead to one loop.
    key: Key,
    /// Services that have ended so far.
    ended: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    number: LoopNumber,
    has_queue: bool,
}

/// An address and port that is listened on, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SharedService {
    address: SocketAddr,
    slots: Slots,
    /// When it has ended, counted in services; none while it is open.
    ended: Option<u64>,
}

/// Who has a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Loop(LoopNumber),
    /// A loop that has not begun to listen.
    NotYet,
    /// Nobody: any loop may say so to the peer.
    Nobody,
}

impl Steering {
    pub(super) fn new(key: Key) -> Self {
        let blocks = vec![0; PortBlock::all().len()].into_boxed_slice();
        Self { members: Vec::new(), blocks, services: Vec::new(), answering: HashMap::new(), key, ended: 0 }
    }

    /// Whether frames may be for other loops than the one that gets them, or too early.
    pub(super) fn sorts(&self) -> bool {
        let is_early = |service: &SharedService| service.ended.is_none() && !service.slots.are_all_served();
        self.members.len() > 1 || self.services.iter().any(is_early)
    }

    /// Whether a loop uses the device. One that has left gets nothing any more, though its host is kept and asks.
    pub(super) fn has_member(&self, number: LoopNumber) -> bool {
        self.members().any(|member| member == number)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = LoopNumber> {
        self.members.iter().map(|member| member.number)
    }

    /// The loop by which a loop sends that has no queue: those with one are shared out. One of those that are `stuck` only if all are.
    pub(super) fn uplink(&self, of: LoopNumber, stuck: &[LoopNumber]) -> Option<LoopNumber> {
        let with_queue = || self.members.iter().filter(|member| member.has_queue).map(|member| member.number);
        let going = || with_queue().filter(|number| !stuck.contains(number));
        match going().count() {
            0 => with_queue().nth(usize::from(of) % with_queue().count().max(1)),
            count => going().nth(usize::from(of) % count),
        }
    }

    /// The loops that have no queue.
    pub(super) fn without_queue(&self) -> impl Iterator<Item = LoopNumber> {
        self.members.iter().filter(|member| !member.has_queue).map(|member| member.number)
    }

    /// Those that send by this one.
    pub(super) fn sending_by(&self, uplink: LoopNumber) -> impl Iterator<Item = LoopNumber> {
        self.without_queue().filter(move |number| self.uplink(*number, &[]) == Some(uplink))
    }

    /// The loop that answers a frame of no connection: the one that receives it, if it has the address, or else each that has it in
    /// turn, since one of them may be stuck. `turn` counts such frames.
    pub(super) fn answers(&self, ip: IpAddr, receives: LoopNumber, turn: usize) -> Option<LoopNumber> {
        let answering = self.answering.get(&ip)?;
        let own = answering.iter().find(|number| **number == receives);
        own.or_else(|| answering.get(turn % answering.len())).copied()
    }

    /// Who has the connection between these ends.
    pub(super) fn owner(&self, flow: &Flow) -> Owner {
        if let Some(block) = PortBlock::of(flow.local_port)
            && self.blocks[block.index()] != 0
        {
            return Owner::Loop(self.blocks[block.index()]);
        }
        let (local, _) = flow.addresses.ips();
        let Ok(place) = self.find(SocketAddr::new(local, flow.local_port)) else { return Owner::Nobody };
        let SharedService { slots, ended, .. } = &self.services[place];
        match slots.owner(flow_hash(self.key, flow)) {
            // What is not there is not there: any loop may say so.
            None if ended.is_some() => Owner::Nobody,
            // A slot of an earlier service: its loop has connections, and does not listen any more, or not yet.
            Some(number) if !flow.is_syn || ended.is_some() || slots.is_listening(number) => {
                Owner::Loop(number)
            }
            _ => Owner::NotYet,
        }
    }

    fn find(&self, address: SocketAddr) -> Result<usize, usize> {
        let key = |address: &SocketAddr| (address.port(), address.ip());
        self.services.binary_search_by_key(&key(&address), |service| key(&service.address))
    }

    /// Whether somebody listens there.
    pub(super) fn is_open(&self, address: SocketAddr) -> bool {
        self.find(address).is_ok_and(|place| self.services[place].ended.is_none())
    }

    /// Whether a loop dials from the ports around this one.
    pub(super) fn is_dialled_from(&self, port: u16) -> bool {
        PortBlock::of(port).is_some_and(|block| self.blocks[block.index()] != 0)
    }

    /// Whether a service at this port is open, or has connections that may go on.
    fn has_service(&self, block: PortBlock) -> bool {
        let first = self.services.partition_point(|service| service.address.port() < *block.ports().start());
        self.services.get(first).is_some_and(|service| block.ports().contains(&service.address.port()))
    }

    // Changes.

    pub(super) fn join(&mut self, number: LoopNumber, has_queue: bool) {
        self.members.push(Member { number, has_queue });
    }

    pub(super) fn set_queue(&mut self, number: LoopNumber, has_queue: bool) {
        if let Some(member) = self.members.iter_mut().find(|member| member.number == number) {
            member.has_queue = has_queue;
        }
    }

    /// The engine of this loop has the address from now on. If the loop listens there, it has its share of the connections again.
    pub(super) fn begin_to_answer(&mut self, ip: IpAddr, number: LoopNumber) {
        if !self.has_member(number) {
            return;
        }
        let answering = self.answering.entry(ip).or_default();
        if !answering.contains(&number) {
            answering.push(number);
        }
        for service in self.services_at(ip) {
            service.slots.come_back(number);
        }
    }

    /// The engine of this loop has the address no more. Its connections there have ended, and others get those that come.
    pub(super) fn end_to_answer(&mut self, ip: IpAddr, number: LoopNumber) {
        for service in self.services_at(ip) {
            service.slots.leave_for_now(number);
        }
        let Some(answering) = self.answering.get_mut(&ip) else { return };
        answering.retain(|other| *other != number);
        if answering.is_empty() {
            self.answering.remove(&ip);
        }
    }

    /// The services at an address that are open.
    fn services_at(&mut self, ip: IpAddr) -> impl Iterator<Item = &mut SharedService> {
        self.services.iter_mut().filter(move |service| service.address.ip() == ip && service.ended.is_none())
    }

    /// Takes a loop out that has ended.
    pub(super) fn leave(&mut self, number: LoopNumber) {
        self.members.retain(|member| member.number != number);
        self.answering.retain(|_, answering| {
            answering.retain(|other| *other != number);
            !answering.is_empty()
        });
        self.blocks.iter_mut().filter(|owner| **owner == number).for_each(|owner| *owner = 0);
        for service in &mut self.services {
            service.slots.lose(number);
        }
        self.services.retain(|service| service.ended.is_none() || service.slots.have_owners());
    }

    /// So many loops will listen there. The slots of an earlier service stay until they are taken.
    pub(super) fn open(&mut self, address: SocketAddr, loops: usize) {
        match self.find(address) {
            Ok(place) => {
                let service = &mut self.services[place];
                service.slots.open(loops);
                service.ended = None;
            }
            Err(place) => {
                let slots = Slots::new(loops);
                self.services.insert(place, SharedService { address, slots, ended: None });
            }
        }
    }

    /// A loop begins to listen, and takes its share of the slots. False if as many loops listen as the service is for, or if this one has
    /// left.
    #[must_use]
    pub(super) fn listen(&mut self, address: SocketAddr, number: LoopNumber) -> bool {
        if !self.has_member(number) {
            return false;
        }
        // Of a service that is gone, or is none, nothing is shared out.
        let Ok(place) = self.find(address) else { return true };
        self.services[place].slots.listen(number)
    }

    /// Nobody listens there any more; connections go on.
    pub(super) fn close(&mut self, address: SocketAddr) {
        let Ok(place) = self.find(address) else { return };
        self.ended += 1;
        self.services[place].ended = Some(self.ended);
        let ended = || self.services.iter().filter_map(|service| service.ended);
        if ended().count() > ENDED_MAX
            && let Some(first) = ended().min()
        {
            self.services.retain(|service| service.ended != Some(first));
        }
    }

    /// Blocks for a loop that dials: as many as it has already, but no more than half of those that are free. `start` is anywhere.
    pub(super) fn give_blocks(&mut self, number: LoopNumber, start: usize) -> Vec<PortBlock> {
        if !self.has_member(number) {
            return Vec::new();
        }
        let free = |block: &PortBlock| self.blocks[block.index()] == 0 && !self.has_service(*block);
        let mut all: Vec<_> = PortBlock::all().filter(free).collect();
        let had = self.blocks.iter().filter(|owner| **owner == number).count();
        let count = had.clamp(1, (all.len() / 2).max(1)).min(all.len());
        let start = start % all.len().max(1);
        all.rotate_left(start);
        all.truncate(count);
        for block in &all {
            self.blocks[block.index()] = number;
        }
        all
    }

    /// A port to listen at that nobody uses.
    pub(super) fn free_port(&self, ip: IpAddr) -> Option<u16> {
        (LISTENED_FIRST..=u16::MAX)
            .find(|port| !self.is_dialled_from(*port) && self.find(SocketAddr::new(ip, *port)).is_err())
    }
}

/// The first of the ports that nobody has by name (RFC 6335 section 6).
const LISTENED_FIRST: u16 = 49_152;

/// Services that have ended and whose slots are kept; above that the one that ended first is forgotten.
const ENDED_MAX: usize = 1024;

#[cfg(test)]
mod tests;
