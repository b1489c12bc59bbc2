//! What a driver has below its engine and beside its device: a layer that resolves addresses, or none where all neighbours are known,
//! and what the device tells of its link.
//!
//! Both drivers, that of streams and that of a swarm, go through here, so neighbours, addresses and links are the same for both.

use std::io;
use std::net::IpAddr;

use anywire_tcp::{Engine, Frames, Instant};

use crate::device::{Device, LinkEvent};
use crate::ip::{Event, Layer, LayerError};

/// An optional layer, and the link.
#[derive(Debug)]
pub(crate) struct LowerLayer {
    layer: Option<Layer>,
    /// The last change of the link, until the user is told: the next one takes its place.
    link: Option<Event>,
    /// The first peer without a route to it, until the user is told.
    no_route: Option<Event>,
    /// The last change of the interface's address, and the last address of ours that the kernel was given, until the user is told.
    mac: Option<Event>,
    kernel: Option<Event>,
    /// The last lower MTU, until the user is told.
    mtu: Option<Event>,
    /// Times that the link has gone down.
    pub(crate) link_downs: u64,
}

impl LowerLayer {
    pub(crate) const fn new(layer: Option<Layer>) -> Self {
        Self { layer, link: None, no_route: None, mac: None, kernel: None, mtu: None, link_downs: 0 }
    }

    pub(crate) const fn layer(&self) -> Option<&Layer> {
        self.layer.as_ref()
    }

    pub(crate) const fn layer_mut(&mut self) -> Option<&mut Layer> {
        self.layer.as_mut()
    }

    /// Takes what the engine has left of the batch that it received last.
    #[inline]
    pub(crate) fn input(&mut self, now: Instant, engine: &mut Engine) {
        if let Some(layer) = &mut self.layer {
            layer.input(now, engine);
        }
        if let Some((peer, network)) = engine.take_unroutable() {
            self.no_route = Some(Event::NoRoute { peer, network });
        }
    }

    /// Keeps back what has to wait for a neighbour, and adds frames of its own. See [`Layer::output`].
    #[inline]
    pub(crate) fn output(&mut self, now: Instant, engine: &mut Engine, frames: &mut Frames, room: usize) {
        if let Some(layer) = &mut self.layer {
            layer.output(now, engine, frames, room);
        }
    }

    /// Does what is due by time.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, engine: &mut Engine) {
        if let Some(layer) = &mut self.layer
            && layer.next_deadline().is_some_and(|deadline| deadline <= now)
        {
            layer.advance(now, engine);
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.layer.as_ref().and_then(Layer::next_deadline)
    }

    #[inline]
    pub(crate) fn wants_to_transmit(&self) -> bool {
        self.layer.as_ref().is_some_and(Layer::wants_to_transmit)
    }

    /// The next change of the device's link, which its owner may have to act on; noted for the user.
    #[inline]
    pub(crate) fn take_link_event<D: Device + ?Sized>(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        device: &mut D,
    ) -> Option<LinkEvent> {
        let event = device.link_event()?;
        self.note(now, engine, event);
        Some(event)
    }

    #[cold]
    fn note(&mut self, now: Instant, engine: &mut Engine, event: LinkEvent) {
        match event {
            LinkEvent::Up => {
                self.link = Some(Event::LinkUp);
                self.layer.iter_mut().for_each(|layer| layer.announce_again(now));
            }
            LinkEvent::Down => {
                self.link_downs += 1;
                self.link = Some(Event::LinkDown);
            }
            LinkEvent::Gone => self.link = Some(Event::DeviceGone),
            // Not if the user has given the engine another one.
            LinkEvent::MacChanged { from, to } if from == engine.mac() => {
                self.mac = Some(Event::MacChanged { from, to });
            }
            LinkEvent::KernelHasAddress(address) if engine.has_address(address) => {
                self.kernel = Some(Event::KernelHasAddress(address));
            }
            LinkEvent::MtuLowered { mtu } => {
                engine.lower_mtu(u16::try_from(mtu).unwrap_or(u16::MAX));
                self.mtu = Some(Event::MtuLowered { mtu });
            }
            LinkEvent::MacChanged { .. } | LinkEvent::KernelHasAddress(_) | LinkEvent::Departed => {}
        }
    }

    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        let own = [&self.link, &self.no_route, &self.mac, &self.kernel, &self.mtu];
        own.into_iter().any(Option::is_some) || self.layer.as_ref().is_some_and(Layer::has_events)
    }

    /// The next event for the user. That of the link comes first.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let Self { link, no_route, mac, kernel, mtu, layer, .. } = self;
        let own = [link, no_route, mac, kernel, mtu].into_iter().find_map(Option::take);
        own.or_else(|| layer.as_mut()?.next_event())
    }

    /// Adds an address by the layer, or to the engine alone if there is none: then it is used at once.
    pub(crate) fn add_address(
        &mut self,
        engine: &mut Engine,
        address: IpAddr,
        add: impl FnOnce(&mut Layer) -> Result<(), LayerError>,
    ) -> io::Result<()> {
        match &mut self.layer {
            Some(layer) => add(layer).map_err(io::Error::other),
            None => engine.add_address(address).map_err(io::Error::other),
        }
    }

    /// Takes an address away. Says how many connections it has ended.
    pub(crate) fn remove_address(&mut self, engine: &mut Engine, address: IpAddr) -> usize {
        match &mut self.layer {
            Some(layer) => layer.remove_address(engine, address),
            None => engine.remove_address(address),
        }
    }
}
