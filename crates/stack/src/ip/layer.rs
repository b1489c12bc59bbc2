//! The layer itself: frames in and out, and whom each is for.

use std::collections::VecDeque;
use std::net::IpAddr;

use anywire_advice::Advice;
use anywire_packet::ethernet::{EtherType, Link, Mac};
use anywire_packet::icmp::port_unreachable;
use anywire_packet::layout::finish;
use anywire_packet::ndp::{ALL_NODES, group_mac, solicited_node};
use anywire_packet::{Addresses, Checks, Icmp, Packet, Parsed, Refusal, general};
use anywire_sys::martian::is_martian;
use anywire_tcp::{Checksum, Engine, Frames, Instant, Meta};
use fastrand::Rng;

use super::address::{Address, Conflict, Due};
use super::answer::{TokenBucket, echo_reply};
use super::cache::{Cache, CacheCounters, Todo};
use super::event::Event;
use super::mld::Groups;
use super::settings::{Counters, Limits, Probing, Settings};

/// The layer below TCP, for one engine on one link.
///
/// After each input the outputs are drained, as with the engine: [`output`](Self::output) for frames, and
/// [`next_event`](Self::next_event) for the user.
///
/// ```
/// use anywire_stack::ip::{Event, Layer, Limits, Probing, Settings};
/// use anywire_tcp::{ConnectOptions, Engine, Frames, Instant, Mac, Route, Via};
///
/// let host = |last: u8| {
///     let mac = Mac::new([2, 0, 0, 0, 0, last]);
///     let mut engine = Engine::new(anywire_tcp::Settings::new([last.into(); 4]), Default::default())?;
///     engine.set_mac(mac);
///     engine.add_route(Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
///     let mut settings = Settings::new(last.into());
///     settings.probing = Probing::OFF;
///     let mut layer = Layer::new(mac, settings, Limits::default());
///     layer.add_address(Instant::default(), [10, 0, 0, last].into())?;
///     layer.advance(Instant::default(), &mut engine);
///     assert_eq!(layer.next_event(), Some(Event::AddressReady([10, 0, 0, last].into())));
///     Ok::<_, Box<dyn std::error::Error>>((engine, layer))
/// };
/// let mut hosts = [host(1)?, host(2)?];
/// hosts[1].0.listen("10.0.0.2:80".parse()?, ConnectOptions::default())?;
/// hosts[0].0.connect("10.0.0.2:80".parse()?, ConnectOptions::default())?;
///
/// let mut frames = Frames::new();
/// for step in 1..10 {
///     let now = Instant::from_micros(step * 1000);
///     for from in [0, 1] {
///         let (engine, layer) = &mut hosts[from];
///         engine.transmit(now, &mut frames);
///         layer.output(now, engine, &mut frames, usize::MAX);
///         let (engine, layer) = &mut hosts[1 - from];
///         engine.receive(now, &mut frames);
///         layer.input(now, engine);
///     }
/// }
/// assert_eq!((hosts[1].0.counters().opened, hosts[1].1.counters().answered), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Layer {
    pub(super) mac: Mac,
    settings: Settings,
    limits: Limits,
    pub(super) cache: Cache,
    pub(super) addresses: Vec<Address>,
    /// The groups by which neighbours ask for the addresses that it announces.
    pub(super) reported: Groups,
    answer_tokens: TokenBucket,
    neighbour_tokens: TokenBucket,
    /// Frames of its own that wait for room.
    outgoing: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    pub(super) random: Rng,
    /// The cache of neighbours counts for itself.
    pub(super) counters: Counters,
}

/// Why an address was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// [`Limits::addresses`] is reached.
    #[error("{0} addresses are the limit{help}", help = Advice("raise the layer's limit of addresses"))]
    TooManyAddresses(usize),
    /// An address that no host can have on a network: loopback, say, or that of a group.
    #[error("{0} is no address that a host can have on a network{help}", help = Advice("give it another"))]
    NotAHost(IpAddr),
    /// It is there already.
    #[error("{0} is an address of this layer already")]
    Known(IpAddr),
}

impl Layer {
    /// A layer without addresses for the interface `mac`, which the [engine](Engine::set_mac) has too.
    pub fn new(mac: Mac, settings: Settings, limits: Limits) -> Self {
        Self {
            mac,
            settings,
            limits,
            cache: Cache::new(settings, limits),
            addresses: Vec::new(),
            reported: Groups::default(),
            answer_tokens: TokenBucket::new(limits.answers_per_second, limits.answers_burst),
            neighbour_tokens: TokenBucket::new(
                limits.neighbour_answers_per_second,
                limits.neighbour_answers_burst,
            ),
            outgoing: VecDeque::new(),
            events: VecDeque::new(),
            random: Rng::with_seed(settings.seed.rotate_left(32)),
            counters: Counters::default(),
        }
    }

    /// Gives the host an address, which is the engine's once nobody else has answered to it: [`Event::AddressReady`] or
    /// [`Event::AddressInUse`] says so, after [`Settings::probing`].
    ///
    /// # Errors
    /// See [`LayerError`].
    pub fn add_address(&mut self, now: Instant, address: IpAddr) -> Result<(), LayerError> {
        self.add(now, address, self.settings.probing)
    }

    /// Gives the host an address that nobody has, as [`who_has`](super::who_has) has found a moment ago: it is the engine's at the next
    /// [`advance`](Self::advance), and announced.
    ///
    /// # Errors
    /// See [`LayerError`].
    pub fn add_free_address(&mut self, now: Instant, address: IpAddr) -> Result<(), LayerError> {
        self.add(now, address, Probing::OFF)
    }

    /// Gives the host an address that another layer has, on another loop of the same device: it is the engine's at the next
    /// [`advance`](Self::advance), and the other layer goes on to announce and defend it.
    ///
    /// # Errors
    /// See [`LayerError`].
    pub fn follow_address(&mut self, now: Instant, address: IpAddr) -> Result<(), LayerError> {
        self.may_add(address)?;
        self.addresses.push(Address::followed(now, address));
        Ok(())
    }

    /// Announces and defends an address from now on that was [followed](Self::follow_address). Does nothing with others.
    pub fn lead_address(&mut self, now: Instant, address: IpAddr) {
        let known = self.addresses.iter_mut().find(|known| known.ip == address);
        known.into_iter().for_each(|known| known.lead(now));
    }

    /// Takes an address away, which neighbours get no answer for any more. Its connections end, and their peers get a reset. Does nothing
    /// if it is not there. Says how many connections have ended.
    pub fn remove_address(&mut self, engine: &mut Engine, address: IpAddr) -> usize {
        self.addresses.retain(|known| known.ip != address);
        self.leave_group(address);
        // Nobody is to take it for one that is ready now.
        self.events.retain(|event| event.settles_address() != Some(address));
        engine.remove_address(address)
    }

    /// Announces all addresses once more that it leads: the link may lead to other neighbours than before.
    pub fn announce_again(&mut self, now: Instant) {
        self.addresses.iter_mut().for_each(|address| address.announce_again(now));
        self.reported.tell_again(now);
    }

    fn add(&mut self, now: Instant, address: IpAddr, probing: Probing) -> Result<(), LayerError> {
        self.may_add(address)?;
        self.addresses.push(Address::new(now, address, &probing, &mut self.random));
        Ok(())
    }

    fn may_add(&self, address: IpAddr) -> Result<(), LayerError> {
        if is_martian(address) {
            return Err(LayerError::NotAHost(address));
        }
        if self.addresses.iter().any(|known| known.ip == address) {
            return Err(LayerError::Known(address));
        }
        if self.addresses.len() >= self.limits.addresses {
            return Err(LayerError::TooManyAddresses(self.limits.addresses));
        }
        Ok(())
    }

    /// The groups of interfaces that the device has to listen to, beside its own address and broadcast: those by which neighbours
    /// ask for an IPv6 address (RFC 4861 7.2.1).
    pub fn groups(&self) -> Vec<Mac> {
        let nodes = self.addresses.iter().filter_map(|address| match address.ip {
            IpAddr::V6(ip) => Some(group_mac(solicited_node(ip))),
            IpAddr::V4(_) => None,
        });
        let mut groups: Vec<_> = nodes.collect();
        if !groups.is_empty() {
            groups.push(group_mac(ALL_NODES));
        }
        groups
    }

    /// Takes what the engine has left of the batch that it received last. To be called after each
    /// [`Engine::receive`].
    pub fn input(&mut self, now: Instant, engine: &mut Engine) {
        let shared = &*engine;
        for (frame, meta) in shared.left_over() {
            let whole = finished(frame, meta);
            self.on_frame(now, shared, whole.as_deref().unwrap_or(frame), meta);
        }
        self.settle(engine);
    }

    /// Keeps back frames for neighbours that are not known, of a batch that the engine has just filled, and adds frames of its own
    /// while there are fewer than `frames_max`. To be called after each [`Engine::transmit`], before the device has the batch.
    pub fn output(&mut self, now: Instant, engine: &mut Engine, frames: &mut Frames, frames_max: usize) {
        if engine.has_unresolved() {
            let (shared, cache) = (&*engine, &mut self.cache);
            frames.retain(|frame, meta| {
                let Some(next_hop) = shared.unresolved(frame) else { return true };
                cache.send(now, next_hop, finished(frame, meta).unwrap_or_else(|| frame.to_vec()), shared);
                false
            });
            self.settle(engine);
        }
        while frames.len() < frames_max
            && frames.room() > 0
            && let Some(frame) = self.outgoing.pop_front()
        {
            if !frames.push(&frame) {
                if frames.is_empty() {
                    // Longer than any frame of this device.
                    self.counters.outgoing_dropped += 1;
                    continue;
                }
                self.outgoing.push_front(frame);
                break;
            }
        }
    }

    /// Whether [`output`](Self::output) has frames of its own to add.
    pub fn wants_to_transmit(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Does what is due by time.
    pub fn advance(&mut self, now: Instant, engine: &mut Engine) {
        let mut place = 0;
        while let Some(address) = self.addresses.get_mut(place) {
            let ip = address.ip;
            place += 1;
            let due = address.take_due(now, &self.settings.probing, &mut self.random);
            if let Some(Due::Probe | Due::Use | Due::Announce) = due {
                // Before it is probed: the switch has to let the answer through (RFC 4862 5.4.2).
                self.join_group(now, ip);
            }
            match due {
                Some(Due::Probe) => self.probe(ip),
                Some(due @ (Due::Use | Due::Follow)) => {
                    if let Err(reason) = engine.add_address(ip) {
                        place -= 1;
                        self.addresses.remove(place);
                        self.leave_group(ip);
                        self.tell(Event::AddressRefused { address: ip, reason });
                        continue;
                    }
                    self.tell(Event::AddressReady(ip));
                    if due == Due::Use {
                        self.announce(ip);
                    }
                }
                Some(Due::Announce) => self.announce(ip),
                None => {}
            }
        }
        self.report_groups(now);
        self.cache.advance(now, engine);
        self.settle(engine);
    }

    /// When [`advance`](Self::advance) is to be called next.
    pub fn next_deadline(&self) -> Option<Instant> {
        let addresses = self.addresses.iter().filter_map(|address| address.due);
        addresses.chain(self.cache.next_deadline()).chain(self.reported.next_deadline()).min()
    }

    /// Whether [`next_event`](Self::next_event) has one.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What has happened, the oldest first.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The counters.
    pub const fn counters(&self) -> Counters {
        let CacheCounters { resolved, unreachable, moved, evicted, not_asked, pending_dropped, undelivered } =
            self.cache.counters;
        Counters {
            resolved,
            unreachable,
            moved,
            evicted,
            not_asked,
            pending_dropped,
            undelivered,
            ..self.counters
        }
    }

    pub(super) fn on_frame(&mut self, now: Instant, engine: &Engine, frame: &[u8], meta: Meta) {
        let Some((link, ether_type, packet)) = Link::parse(frame) else { return self.refuse() };
        let is_ours = link.destination() == self.mac || link.destination().is_group();
        // Our own, which a switch has brought back, or of nobody.
        if !is_ours || link.source() == self.mac || link.source().is_group() {
            return self.refuse();
        }
        match ether_type {
            EtherType::ARP => self.on_arp(now, engine, &link, packet, meta),
            EtherType::IPV4 | EtherType::IPV6 => self.on_ip(now, engine, &link, frame, meta),
            _ => self.counters.ignored += 1,
        }
    }

    fn on_ip(&mut self, now: Instant, engine: &Engine, link: &Link, frame: &[u8], meta: Meta) {
        let mut place = Parsed::default();
        match general(frame, Checks::ALL, &mut place) {
            Ok(Packet::Icmp(Icmp::EchoRequest(addresses))) => {
                if self.answer(now, engine, link, &addresses, || echo_reply(frame)) {
                    self.counters.echoes += 1;
                }
            }
            Ok(Packet::Icmp(Icmp::Other)) => self.on_ndp(now, engine, link, frame, meta),
            Err(Refusal::Protocol) => {
                let Some(addresses) = Addresses::of(frame) else { return self.refuse() };
                if self.answer(now, engine, link, &addresses, || port_unreachable(frame)) {
                    self.counters.ports_unreachable += 1;
                }
            }
            _ => self.refuse(),
        }
    }

    /// Answers a packet for an address of ours, if there are tokens left. Whether it was answered.
    fn answer(
        &mut self,
        now: Instant,
        engine: &Engine,
        link: &Link,
        addresses: &Addresses,
        answer: impl FnOnce() -> Option<Vec<u8>>,
    ) -> bool {
        let (local, remote) = addresses.ips();
        let is_for_us = link.destination() == self.mac && self.owns(local) && addresses.are_of_hosts();
        let Some(hop) = engine.next_hop(remote).ok().filter(|_| is_for_us) else {
            self.refuse();
            return false;
        };
        let Some(answer) = answer() else {
            self.counters.ignored += 1;
            return false;
        };
        if !self.answer_tokens.take(now) {
            self.counters.answers_withheld += 1;
            return false;
        }
        self.cache.send(now, hop.address, answer, engine);
        true
    }

    /// Whether an address is ours, and not only probed for.
    pub(super) fn owns(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip && address.is_ours())
    }

    /// Whether a neighbour who asks for an address gets an answer now, which is counted either way.
    pub(super) fn may_answer(&mut self, now: Instant, engine: &Engine, asking: IpAddr) -> bool {
        let may = engine.uses_neighbour(asking) || self.neighbour_tokens.take(now);
        self.counters.answered += u64::from(may);
        self.counters.neighbours_unanswered += u64::from(!may);
        may
    }

    /// Somebody else uses an address of ours, if it is one.
    pub(super) fn on_conflict(&mut self, now: Instant, ip: IpAddr, by: Mac) {
        let Some(place) = self.addresses.iter().position(|address| address.ip == ip) else { return };
        self.counters.conflicts += 1;
        match self.addresses[place].conflict(now) {
            Conflict::Lost => {
                self.addresses.remove(place);
                self.leave_group(ip);
                self.tell(Event::AddressInUse { address: ip, by });
            }
            Conflict::Defend => {
                self.announce(ip);
                self.tell(Event::AddressConflict { address: ip, by });
            }
            Conflict::Known => {}
        }
    }

    pub(super) const fn refuse(&mut self) {
        self.counters.refused += 1;
    }

    /// Puts a frame of its own among those that leave.
    pub(super) fn push(&mut self, frame: Vec<u8>) {
        if self.outgoing.len() >= self.limits.outgoing {
            self.counters.outgoing_dropped += 1;
            return;
        }
        self.outgoing.push_back(frame);
    }

    fn tell(&mut self, event: Event) {
        self.events.push_back(event);
        if self.events.len() > self.limits.events {
            // Somebody waits for what becomes of an address of ours. Of neighbours, anybody on the link can make any number of events.
            let of_others = self.events.iter().position(|event| event.settles_address().is_none());
            let lost = self.events.remove(of_others.unwrap_or(0));
            self.counters.events_lost += u64::from(lost.is_some());
        }
    }

    /// Does what the cache asks for.
    fn settle(&mut self, engine: &mut Engine) {
        while let Some(todo) = self.cache.todo.pop_front() {
            match todo {
                Todo::Ask(address, mac) => self.ask(engine, address, mac),
                Todo::Set(address, mac) => engine.set_neighbour(address, mac),
                Todo::Watch(address) => {
                    engine.take_progress(address);
                }
                Todo::Send(mac, mut frame) => {
                    if let Some(head) = frame.first_chunk_mut() {
                        *head = mac.bytes();
                        self.push(frame);
                    }
                }
                Todo::Moved { address, from, to } => self.tell(Event::NeighbourMoved { address, from, to }),
                Todo::Unreachable(address) => self.tell(Event::NeighbourUnreachable(address)),
                Todo::Undelivered(frame) => engine.undelivered(&frame),
            }
        }
    }
}

/// A copy of a frame whose checksum somebody has left to others, with the checksum.
fn finished(frame: &[u8], meta: Meta) -> Option<Vec<u8>> {
    let mut whole = (meta.checksum == Checksum::Partial).then(|| frame.to_vec())?;
    finish(&mut whole);
    Some(whole)
}
