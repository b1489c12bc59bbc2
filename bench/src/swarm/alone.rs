//! Parts of the stack alone: the pair of devices, and one connection with much to send.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use anywire_stack::device::Device;
use anywire_stack::pair::{Endpoint, Settings as PairSettings};
use anywire_tcp::{
    ConnectOptions, Engine, Events, Frames, Instant as Moment, Limits, Mac, Route, Settings, Via,
};
use serde_json::{Value, json};

/// Does something on a core, in a thread of its own, so that this one stays free.
///
/// # Errors
/// There is no such core, or what it did failed.
pub fn on_core<R: Send>(core: usize, what: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    std::thread::scope(|scope| {
        let done = scope.spawn(move || {
            anywire_sys::cpu::pin_current_thread(core)
                .with_context(|| format!("pinning to core {core} failed"))?;
            what()
        });
        done.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Batches of frames of 64 bytes from one end of a pair to the other, for this long.
///
/// # Errors
/// A frame was lost.
pub fn pair(core: usize, time: Duration) -> Result<Value> {
    on_core(core, || {
        let [mut one, mut two] = ends();
        let (mut out, mut into) = (Frames::new(), Frames::new());
        let mut frame = [0; 64];
        frame[..6].copy_from_slice(&mac(2).bytes());
        frame[6..12].copy_from_slice(&mac(1).bytes());
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed() < time {
            let now = Moment::from_micros(start.elapsed().as_micros() as u64);
            for _ in 0..BATCHES_A_LOOK {
                while out.push(&frame) {}
                sent += one.transmit(now, &mut out) as u64;
                two.receive(now, &mut into);
                into.clear();
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        let received = two.counters().frames_in;
        ensure!(received == sent, "{sent} frames of 64 bytes went into the pair, and {received} came out");
        Ok(json!({ "frames_per_second": received as f64 / seconds, "frames": received, "seconds": seconds }))
    })
}

/// One connection, one direction: both engines, checksums and the pair on one core. The reader compares
/// every byte.
///
/// # Errors
/// The connection did not open, or other bytes came than were sent.
pub fn bulk(core: usize, time: Duration) -> Result<Value> {
    on_core(core, || {
        let [one, two] = ends();
        let (mut client, mut server) = (End::new(one, 1)?, End::new(two, 2)?);
        server.engine.listen("10.0.0.2:7".parse()?, ConnectOptions::default())?;
        let sender = client.engine.connect("10.0.0.2:7".parse()?, ConnectOptions::default())?;
        // Both ends go through the same text, each at its own pace.
        let text: Vec<u8> = (0..TEXT_BYTES).map(|place: usize| (place * 151 + (place >> 8)) as u8).collect();
        let (mut at, mut seen, mut is_right) = (0, 0, true);
        let (mut start, mut received, mut receiver) = (Instant::now(), 0_u64, None);
        let began = Instant::now();
        while began.elapsed() < WARM_UP || start.elapsed() < time {
            if began.elapsed() < WARM_UP {
                (start, received) = (Instant::now(), 0);
            }
            for _ in 0..TURNS_A_LOOK {
                let now = Moment::from_micros(began.elapsed().as_micros() as u64);
                at = (at + client.engine.send(sender, &text[at..])) % TEXT_BYTES;
                client.round(now);
                server.round(now);
                for news in &server.ready {
                    if news.events.has(Events::INCOMING) {
                        receiver = Some(news.id);
                    }
                }
                let Some(receiver) = receiver else { continue };
                loop {
                    let taken = server.engine.recv(receiver, |bytes| {
                        let length = bytes.len().min(TEXT_BYTES - seen);
                        is_right &= bytes[..length] == text[seen..seen + length];
                        length
                    });
                    if taken == 0 {
                        break;
                    }
                    seen = (seen + taken) % TEXT_BYTES;
                    received += taken as u64;
                }
                server.send(now);
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        ensure!(is_right, "other bytes came than were sent");
        ensure!(received > 0, "nothing came");
        let retransmits = client.engine.counters().retransmits;
        let bits_per_second = received as f64 * 8.0 / seconds;
        Ok(json!({
            "bits_per_second": bits_per_second, "bytes": received, "seconds": seconds, "retransmits": retransmits
        }))
    })
}

/// An engine on its device.
struct End {
    engine: Engine,
    device: Endpoint,
    frames: Frames,
    ready: Vec<anywire_tcp::Ready>,
}

impl End {
    fn new(device: Endpoint, number: u8) -> Result<Self> {
        let mut engine = Engine::new(Settings::new([1, 2, 3, number.into()]), Limits::default())?;
        engine.set_mac(mac(number));
        engine.add_address([10, 0, 0, number].into())?;
        engine.add_route(Route {
            network: "10.0.0.0/8".parse()?,
            via: Via::OnLink,
            mtu: 1500,
            source: None,
        })?;
        engine.add_neighbour([10, 0, 0, 3 - number].into(), mac(3 - number))?;
        Ok(Self { engine, device, frames: Frames::new(), ready: Vec::new() })
    }

    /// Takes a batch in, and sends what there is room for.
    fn round(&mut self, now: Moment) {
        self.engine.advance(now);
        if self.device.receive(now, &mut self.frames) > 0 {
            self.engine.receive(now, &mut self.frames);
        }
        self.ready.clear();
        self.ready.extend(std::iter::from_fn(|| self.engine.next_ready()));
        self.send(now);
    }

    fn send(&mut self, now: Moment) {
        while self.engine.wants_to_transmit() && self.device.room() >= Frames::BATCH {
            self.engine.transmit(now, &mut self.frames);
            if self.frames.is_empty() {
                return;
            }
            self.device.transmit(now, &mut self.frames);
        }
    }
}

fn ends() -> [Endpoint; 2] {
    Endpoint::pair(PairSettings::default())
}

const fn mac(last: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 1, last])
}

const BATCHES_A_LOOK: usize = 1000;
const TURNS_A_LOOK: usize = 1000;
const TEXT_BYTES: usize = 1 << 16;
/// Until the windows have grown.
const WARM_UP: Duration = Duration::from_millis(200);
