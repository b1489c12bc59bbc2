//! iceoryx2 between two threads, as its own benchmark sets it up: one publisher and one subscriber for each direction, both
//! ends looking all the time.

use std::hint::spin_loop;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use anywire_ipc::Pattern;
use anywire_load::Latency;
use anywire_sys::cpu;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::{NodeBuilder, ipc};

use super::SIZE_BYTES;

/// Microseconds of the median round trip, or messages a second.
pub(super) fn measure(pattern: Pattern, duration: Duration) -> Result<f64> {
    let cores = cpu::available_cores();
    let open = |end: usize, core: usize| {
        cpu::pin_current_thread(core)?;
        End::open(end, pattern)
    };
    // Both ports of both ends are there before the first message, and until the last: a message of a publisher that has gone may
    // be lost.
    let (ready, done) = (Barrier::new(2), Barrier::new(2));
    let run = |end: usize, core: usize, work: &dyn Fn(&End) -> Result<f64>| {
        let end = open(end, core);
        ready.wait();
        let figure = end.as_ref().map_err(|error| anyhow!("{error:#}")).and_then(work);
        done.wait();
        figure
    };
    let (run, cores) = (&run, &cores);
    thread::scope(|scope| {
        let one = scope.spawn(move || run(0, cores[0], &|end| end.ask(pattern, duration)));
        let other = scope.spawn(move || run(1, cores[cores.len() - 1], &|end| end.answer(pattern)));
        let asked = one.join().ok().context("an end panicked")??;
        let answered = other.join().ok().context("an end panicked")??;
        Ok(if pattern == Pattern::PingPong { asked } else { answered })
    })
}

/// A message; the first byte says whether it is the last.
type Message = [u8; SIZE_BYTES];

struct End {
    publisher: Publisher<ipc::Service, Message, ()>,
    subscriber: Subscriber<ipc::Service, Message, ()>,
}

impl End {
    fn open(end: usize, pattern: Pattern) -> Result<Self> {
        // Without a strategy of its own, a publisher waits for room.
        let node = NodeBuilder::new().create::<ipc::Service>().map_err(|error| anyhow!("{error:?}"))?;
        let buffered = if pattern == Pattern::PingPong { 1 } else { STREAM_BUFFERED };
        let service = |direction: usize| {
            let name = format!("anywire-bench/{}/{pattern:?}/{direction}", std::process::id());
            node.service_builder(&name.as_str().try_into().map_err(|error| anyhow!("{error:?}"))?)
                .publish_subscribe::<Message>()
                .max_publishers(1)
                .max_subscribers(1)
                .history_size(0)
                .subscriber_max_buffer_size(buffered)
                .enable_safe_overflow(false)
                .open_or_create()
                .map_err(|error| anyhow!("{error:?}"))
        };
        let (to, from) = (service(end)?, service(1 - end)?);
        Ok(Self {
            publisher: to.publisher_builder().create().map_err(|error| anyhow!("{error:?}"))?,
            subscriber: from.subscriber_builder().create().map_err(|error| anyhow!("{error:?}"))?,
        })
    }

    fn send(&self, first: u8) -> Result<()> {
        let sample = self.publisher.loan_uninit().map_err(|error| anyhow!("{error:?}"))?;
        let mut message = [7; SIZE_BYTES];
        message[0] = first;
        sample.write_payload(message).send().map_err(|error| anyhow!("{error:?}"))?;
        Ok(())
    }

    /// The first byte of the next message; an error if none comes for some seconds.
    fn receive(&self) -> Result<u8> {
        for _ in 0..LOOKS_MAX {
            if let Some(sample) = self.subscriber.receive().map_err(|error| anyhow!("{error:?}"))? {
                // All of it is read, as the other ways do.
                let message: Message = *sample;
                return Ok(std::hint::black_box(message)[0]);
            }
            spin_loop();
        }
        bail!("the other end sends nothing any more")
    }

    fn ask(&self, pattern: Pattern, duration: Duration) -> Result<f64> {
        let mut latency = Latency::default();
        let over = Instant::now() + duration;
        let mut now = Instant::now();
        while now < over {
            if pattern == Pattern::PingPong {
                self.send(MORE)?;
                self.receive()?;
                let then = std::mem::replace(&mut now, Instant::now());
                latency.record(now - then);
            } else {
                for _ in 0..SENDS_PER_LOOK {
                    self.send(MORE)?;
                }
                now = Instant::now();
            }
        }
        self.send(LAST)?;
        Ok(latency.summary().map_or(0.0, |summary| summary.p50))
    }

    fn answer(&self, pattern: Pattern) -> Result<f64> {
        let (start, mut count) = (Instant::now(), 0u64);
        while self.receive()? == MORE {
            count += 1;
            if pattern == Pattern::PingPong {
                self.send(MORE)?;
            }
        }
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }
}

const MORE: u8 = 1;
const LAST: u8 = 0;
/// As the ways of `anywire-ipc` have it.
const SENDS_PER_LOOK: usize = 16;
/// Some seconds: a look takes tens of nanoseconds.
const LOOKS_MAX: u32 = 1 << 28;
/// About as many as a ring of shared memory holds.
const STREAM_BUFFERED: usize = 512;
