//! The next hops of connections, by number: the Ethernet header for each, filled in from outside.
//!
//! A connection keeps the number of its next hop, so a segment costs one look into a list. Which interface a next hop has is
//! found out by others (ARP, neighbour discovery), who call [`Engine::set_neighbour`](crate::engine::Engine::set_neighbour). Until then
//! frames for it are addressed to its [number](unresolved), which no interface has, and whoever resolves addresses keeps them
//! back.
//!
//! A number is valid as long as it is held or pinned. One that is neither is given away when all are taken, the longest idle first.

use core::net::IpAddr;
use std::collections::{HashMap, VecDeque};

use anywire_packet::{Link, Mac};

use crate::engine::ip::routes::RouteError;
use crate::engine::{bytes_of_list, bytes_of_map, bytes_of_queue};

/// The numbers of next hops.
pub(crate) struct Neighbours {
    max: usize,
    /// The engine's own interface.
    mac: Mac,
    /// What every frame begins with.
    links: Vec<Link>,
    /// Whether a segment was acknowledged that went there, since this was asked last.
    progress: Vec<bool>,
    list: Vec<Neighbour>,
    numbers: HashMap<IpAddr, u16>,
    /// Those that were neither held nor pinned when they were listed.
    idle: VecDeque<u16>,
    /// How many are one of the two.
    taken: usize,
    /// Held ones whose interface is not known.
    unresolved: usize,
    /// The last holder of such a one has let go of it, when its frame had just been written perhaps.
    has_left_unresolved: bool,
}

struct Neighbour {
    address: IpAddr,
    /// Connections and replies that have its number, and may send there.
    holders: u32,
    /// Routes whose gateway it is, and one more if the user has set its interface for good.
    pins: u32,
    is_listed_idle: bool,
    is_resolved: bool,
    is_permanent: bool,
}

impl Neighbours {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max: max.min(usize::from(u16::MAX)),
            mac: Mac::default(),
            links: Vec::new(),
            progress: Vec::new(),
            list: Vec::new(),
            numbers: HashMap::new(),
            idle: VecDeque::new(),
            taken: 0,
            unresolved: 0,
            has_left_unresolved: false,
        }
    }

    pub(crate) const fn mac(&self) -> Mac {
        self.mac
    }

    /// Makes `mac` the source of all frames.
    pub(crate) fn set_mac(&mut self, mac: Mac) {
        self.mac = mac;
        for link in &mut self.links {
            *link = Link::new(link.destination(), mac);
        }
    }

    /// The header of frames for a next hop.
    #[inline]
    pub(crate) fn link(&self, number: u16) -> &Link {
        &self.links[usize::from(number)]
    }

    /// The number of a next hop, which is to be held before another one is asked for. None if all are held.
    pub(crate) fn number_of(&mut self, address: IpAddr) -> Option<u16> {
        if let Some(number) = self.numbers.get(&address) {
            return Some(*number);
        }
        let number = if self.list.len() < self.max { self.append(address) } else { self.reuse(address)? };
        self.links[usize::from(number)] = Link::new(unresolved(number), self.mac);
        self.numbers.insert(address, number);
        self.list_idle(number);
        Some(number)
    }

    fn append(&mut self, address: IpAddr) -> u16 {
        self.links.push(Link::default());
        self.progress.push(false);
        self.list.push(Neighbour::new(address));
        (self.list.len() - 1) as u16
    }

    /// The number that was idle for longest.
    fn reuse(&mut self, address: IpAddr) -> Option<u16> {
        loop {
            let number = self.idle.pop_front()?;
            let neighbour = &mut self.list[usize::from(number)];
            neighbour.is_listed_idle = false;
            if neighbour.is_taken() {
                continue;
            }
            self.numbers.remove(&neighbour.address);
            *neighbour = Neighbour::new(address);
            self.progress[usize::from(number)] = false;
            return Some(number);
        }
    }

    /// One more has this number.
    #[inline]
    pub(crate) fn acquire(&mut self, number: u16) {
        let neighbour = &mut self.list[usize::from(number)];
        if neighbour.holders == 0 {
            self.taken += usize::from(!neighbour.is_taken());
            self.unresolved += usize::from(!neighbour.is_resolved);
        }
        neighbour.holders += 1;
    }

    /// One that had this number has it no more.
    #[inline]
    pub(crate) fn release(&mut self, number: u16) {
        let neighbour = &mut self.list[usize::from(number)];
        debug_assert!(neighbour.holders > 0, "a number is released as often as it is held");
        neighbour.holders -= 1;
        if neighbour.holders == 0 {
            self.unresolved -= usize::from(!neighbour.is_resolved);
            self.has_left_unresolved |= !neighbour.is_resolved;
            self.leave(number);
        }
    }

    /// Keeps this number for a route, which itself sends nothing.
    pub(crate) fn pin(&mut self, number: u16) {
        let neighbour = &mut self.list[usize::from(number)];
        self.taken += usize::from(!neighbour.is_taken());
        neighbour.pins += 1;
    }

    /// The route is gone.
    pub(crate) fn unpin(&mut self, number: u16) {
        self.list[usize::from(number)].pins -= 1;
        self.leave(number);
    }

    /// Somebody has let go of a number.
    fn leave(&mut self, number: u16) {
        if !self.list[usize::from(number)].is_taken() {
            self.taken -= 1;
            self.list_idle(number);
        }
    }

    fn list_idle(&mut self, number: u16) {
        let neighbour = &mut self.list[usize::from(number)];
        if !std::mem::replace(&mut neighbour.is_listed_idle, true) {
            self.idle.push_back(number);
        }
    }

    /// Whether those whose connection does not stand yet should take no more numbers: three quarters are taken.
    #[inline]
    pub(crate) const fn are_short(&self) -> bool {
        self.taken >= self.max - self.max / 4
    }

    /// Sets the interface of a next hop for good.
    pub(crate) fn add(&mut self, address: IpAddr, mac: Mac) -> Result<(), RouteError> {
        if mac.is_group() {
            return Err(RouteError::NotAnInterface(mac));
        }
        let number = self.number_of(address).ok_or(RouteError::TooMany)?;
        let neighbour = &mut self.list[usize::from(number)];
        if !std::mem::replace(&mut neighbour.is_permanent, true) {
            self.pin(number);
        }
        self.resolve(number, Some(mac));
        Ok(())
    }

    /// Sets the interface of a next hop, or says that it is not known any more. Nothing of one that has no number, or whose
    /// interface was set for good.
    pub(crate) fn set(&mut self, address: IpAddr, mac: Option<Mac>) {
        if let Some(number) = self.numbers.get(&address).copied()
            && !self.list[usize::from(number)].is_permanent
        {
            self.resolve(number, mac.filter(|mac| !mac.is_group()));
        }
    }

    fn resolve(&mut self, number: u16, mac: Option<Mac>) {
        let neighbour = &mut self.list[usize::from(number)];
        if neighbour.holders > 0 {
            self.unresolved -= usize::from(!neighbour.is_resolved);
            self.unresolved += usize::from(mac.is_none());
        }
        neighbour.is_resolved = mac.is_some();
        self.links[usize::from(number)] = Link::new(mac.unwrap_or_else(|| unresolved(number)), self.mac);
    }

    /// Whether frames may have left that are addressed to a number, since [`begin_batch`](Self::begin_batch).
    pub(crate) const fn has_unresolved(&self) -> bool {
        self.unresolved > 0 || self.has_left_unresolved
    }

    /// The next frames are of another batch.
    #[inline]
    pub(crate) const fn begin_batch(&mut self) {
        self.has_left_unresolved = false;
    }

    /// The next hop whose number a frame is addressed to.
    pub(crate) fn unresolved_of(&self, frame: &[u8]) -> Option<IpAddr> {
        let [a, b, c, d, high, low] = *frame.first_chunk()?;
        let number = u16::from_be_bytes([high, low]);
        let neighbour = self.list.get(usize::from(number)).filter(|_| [a, b, c, d] == UNRESOLVED)?;
        Some(neighbour.address)
    }

    /// Whether a connection or a reply leads there.
    pub(crate) fn is_held(&self, address: IpAddr) -> bool {
        self.numbers.get(&address).is_some_and(|number| self.list[usize::from(*number)].holders > 0)
    }

    /// What went to this next hop was acknowledged.
    #[inline]
    pub(crate) fn note_progress(&mut self, number: u16) {
        self.progress[usize::from(number)] = true;
    }

    /// Whether anything was, since the last call.
    pub(crate) fn take_progress(&mut self, address: IpAddr) -> bool {
        let number = self.numbers.get(&address);
        number.is_some_and(|number| std::mem::take(&mut self.progress[usize::from(*number)]))
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of_list(&self.links)
            + bytes_of_list(&self.progress)
            + bytes_of_list(&self.list)
            + bytes_of_map(&self.numbers)
            + bytes_of_queue(&self.idle)
    }
}

impl Neighbour {
    const fn new(address: IpAddr) -> Self {
        Self { address, holders: 0, pins: 0, is_listed_idle: false, is_resolved: false, is_permanent: false }
    }

    const fn is_taken(&self) -> bool {
        self.holders > 0 || self.pins > 0
    }
}

/// Where frames go for a next hop whose interface is not known: an address of a group, which no interface has as its own.
const fn unresolved(number: u16) -> Mac {
    let ([a, b, c, d], [high, low]) = (UNRESOLVED, number.to_be_bytes());
    Mac::new([a, b, c, d, high, low])
}

/// Locally administered, and of a group.
const UNRESOLVED: [u8; 4] = [3, 0, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[test]
    fn a_number_is_given_away_only_when_nobody_holds_it() {
        let mut neighbours = Neighbours::new(3);
        let numbers: Vec<_> = (0..3).filter_map(|last| neighbours.number_of(ip(last))).collect();
        neighbours.acquire(numbers[0]);
        neighbours.acquire(numbers[2]);
        neighbours.acquire(numbers[2]);
        assert_eq!(neighbours.number_of(ip(3)), Some(numbers[1]), "the only idle one");
        neighbours.acquire(numbers[1]);
        assert_eq!(neighbours.number_of(ip(4)), None);
        neighbours.release(numbers[2]);
        assert_eq!(neighbours.number_of(ip(4)), None, "one holder is left");
        neighbours.release(numbers[2]);
        assert_eq!(
            neighbours.number_of(ip(2)),
            Some(numbers[2]),
            "it is known as long as nobody needs its number"
        );
        assert_eq!(neighbours.number_of(ip(4)), Some(numbers[2]));
        assert_eq!(neighbours.number_of(ip(0)), Some(numbers[0]));
        assert!(neighbours.is_held(ip(0)) && !neighbours.is_held(ip(2)) && !neighbours.is_held(ip(4)));
    }

    #[test]
    fn what_is_pinned_stays_and_is_not_waited_for() {
        let mut neighbours = Neighbours::new(1);
        let number = neighbours.number_of(ip(1)).expect("room");
        neighbours.pin(number);
        assert_eq!((neighbours.number_of(ip(2)), neighbours.has_unresolved()), (None, false));
        neighbours.acquire(number);
        neighbours.unpin(number);
        assert_eq!((neighbours.number_of(ip(2)), neighbours.has_unresolved()), (None, true));
        neighbours.release(number);
        assert_eq!(neighbours.number_of(ip(2)), Some(number));
    }

    #[test]
    fn many_holders_leave_one_entry_among_the_idle() {
        let mut neighbours = Neighbours::new(2);
        let number = neighbours.number_of(ip(1)).expect("room");
        for _ in 0..1000 {
            neighbours.acquire(number);
            neighbours.release(number);
        }
        assert_eq!(neighbours.idle.len(), 1);
    }

    #[test]
    fn a_frame_tells_whom_it_waits_for() {
        let mut neighbours = Neighbours::new(10);
        neighbours.set_mac(Mac::new([2, 0, 0, 0, 0, 9]));
        let number = neighbours.number_of(ip(1)).expect("room");
        neighbours.acquire(number);
        let header = |neighbours: &Neighbours| {
            neighbours.link(number).header(anywire_packet::ethernet::EtherType::IPV4)
        };
        let waiting = header(&neighbours);
        assert_eq!((neighbours.unresolved_of(&waiting), neighbours.has_unresolved()), (Some(ip(1)), true));
        let mac = Mac::new([2, 0, 0, 0, 0, 1]);
        neighbours.release(number);
        assert!(neighbours.has_unresolved(), "its frame may be in the batch that is written");
        neighbours.begin_batch();
        assert!(!neighbours.has_unresolved(), "nobody holds it");
        neighbours.acquire(number);
        neighbours.set(ip(1), Some(mac));
        assert!(!neighbours.has_unresolved() && neighbours.unresolved_of(&header(&neighbours)).is_none());
        assert_eq!(header(&neighbours)[..12], [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9]);
        neighbours.set(ip(1), None);
        assert_eq!(header(&neighbours), waiting);
        neighbours.set(ip(1), Some(Mac::BROADCAST));
        assert_eq!(header(&neighbours), waiting, "no group is a neighbour");
        assert_eq!(neighbours.add(ip(1), Mac::BROADCAST), Err(RouteError::NotAnInterface(Mac::BROADCAST)));
        neighbours.add(ip(1), mac).expect("room");
        neighbours.set(ip(1), None);
        assert!(!neighbours.has_unresolved(), "it was set for good");
    }

    #[test]
    fn progress_is_told_once() {
        let mut neighbours = Neighbours::new(10);
        let number = neighbours.number_of(ip(1)).expect("room");
        neighbours.note_progress(number);
        assert_eq!([neighbours.take_progress(ip(1)), neighbours.take_progress(ip(1))], [true, false]);
        assert!(!neighbours.take_progress(ip(2)));
    }
}
