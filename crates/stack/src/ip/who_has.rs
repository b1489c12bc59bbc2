//! Whether somebody on a link has an address, asked before anything else uses the device.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use anywire_packet::Mac;
use anywire_tcp::{Engine, Frames};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::event::Event;
use super::layer::Layer;
use super::settings::{Limits, Probing, Settings};
use crate::device::{Device, LinkEvent, Readiness};

/// Probes a link for an address (RFC 5227, RFC 4862), and returns the interface that has answered, if one has. Blocks for as long as `probing`
/// says, and not at all longer if nobody answers.
///
/// `devices` are the queues of the link, which nobody else uses meanwhile: the first one asks, and the answer may come by any. All other
/// frames that arrive are dropped, as by a host without addresses; nothing is announced. `mac` is the interface that asks, and `seed` is
/// where its random times start. If the address is free, [`Layer::add_free_address`] uses it without asking again.
///
/// # Errors
/// `NetworkDown` if the device goes meanwhile, `InvalidInput` if there is none or if no host can have the address; else what the system
/// says.
pub fn who_has<D: Device + ?Sized>(
    devices: &mut [Box<D>],
    mac: Mac,
    address: IpAddr,
    probing: Probing,
    seed: u64,
) -> io::Result<Option<Mac>> {
    let (Some(first), start) = (devices.first(), Instant::now()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link has a queue"));
    };
    let (mut incoming, mut outgoing) = (first.batch(), first.batch());
    // It is never given the address, so it opens nothing and answers nobody.
    let mut engine = Engine::new(anywire_tcp::Settings::new([seed; 4]), few())?;
    engine.set_mac(mac);
    let mut settings = Settings::new(seed);
    settings.probing = probing;
    let mut layer = Layer::new(mac, settings, Limits::default());
    let now = || anywire_tcp::Instant::from_micros(start.elapsed().as_micros() as u64);
    layer.add_address(now(), address).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidInput, wrong))?;
    loop {
        // Looked at before the device: a thread that comes late finds the answer there, and not that its time is over.
        let at = now();
        let mut is_quiet = true;
        for device in &mut *devices {
            is_quiet &= device.receive(at, &mut incoming) == 0;
            engine.receive(at, &mut incoming);
            layer.input(at, &mut engine);
            while let Some(event) = device.link_event() {
                if event == LinkEvent::Gone {
                    return Err(io::ErrorKind::NetworkDown.into());
                }
            }
        }
        layer.advance(at, &mut engine);
        match layer.next_event() {
            Some(Event::AddressInUse { by, .. }) => return Ok(Some(by)),
            Some(Event::AddressReady(_)) => return Ok(None),
            Some(Event::AddressRefused { reason, .. }) => return Err(io::Error::other(reason)),
            _ => {}
        }
        send(&mut *devices[0], at, &mut layer, &mut engine, &mut outgoing);
        if is_quiet && !layer.has_events() {
            let due = layer.next_deadline().map_or(LOOK_EVERY, |due| due.since(now()));
            wait(devices, due.min(LOOK_EVERY))?;
        }
    }
}

/// Sends what the layer has to say. What finds no room is said again by the next probe.
fn send<D: Device + ?Sized>(
    device: &mut D,
    now: anywire_tcp::Instant,
    layer: &mut Layer,
    engine: &mut Engine,
    outgoing: &mut Frames,
) {
    let room = device.room();
    layer.output(now, engine, outgoing, room);
    device.transmit(now, outgoing);
}

/// Sleeps until one of the devices has frames, or for so long.
fn wait<D: Device + ?Sized>(devices: &mut [Box<D>], longest: Duration) -> io::Result<()> {
    let mut watched = Vec::new();
    for device in &mut *devices {
        if device.before_sleep(std::task::Waker::noop()) {
            return Ok(());
        }
    }
    for device in &*devices {
        if let Readiness::Descriptor(descriptor) = device.readiness() {
            watched.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        }
    }
    let longest = if watched.len() < devices.len() { crate::wait::POLL_EVERY.min(longest) } else { longest };
    match poll(&mut watched, Some(&longest.try_into().map_err(io::Error::other)?)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// An engine that holds nothing.
fn few() -> anywire_tcp::Limits {
    let mut limits = anywire_tcp::Limits::default();
    (limits.connections, limits.half_open, limits.time_wait, limits.extensions) = (1, 1, 1, 1);
    (limits.segment_bytes, limits.neighbours, limits.listeners) = (1 << 16, 1, 1);
    limits
}

/// How long a sleep lasts at most: what a device does not tell is seen then.
const LOOK_EVERY: Duration = Duration::from_millis(10);
