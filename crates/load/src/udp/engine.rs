//! One loop's part of a load: it sends at its rate, and takes what comes back.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anywire_loops::clock;
use anywire_sys::cpu;
use anywire_wire::udp::{Outgoing, Received, Sent, Udp, UdpError, UdpOptions};
use tokio::time::MissedTickBehavior;

use super::flow::{Arrival, Flow, MARKS};
use super::header::{Alien, Header};
use super::plan::UdpPlan;
use crate::histogram::Latency;
use crate::pacer::{Pacer, Part};
use crate::schedule::{Gaps, Schedule};
use crate::stop::Stop;

/// What one loop does.
pub(crate) struct LoopPart {
    pub(crate) plan: Arc<UdpPlan>,
    pub(crate) stop: Stop,
    pub(crate) run: u64,
    /// This one of so many loops.
    pub(crate) number: usize,
    pub(crate) loops: usize,
    /// When all loops begin to send.
    pub(crate) begin: Instant,
    /// Where others see how it goes.
    pub(crate) live: Arc<Live>,
}

/// What a loop has counted so far, for those who look from other threads. Each count is written by the loop alone.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Live {
    /// Datagrams that were sent, and those that came back in time.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.received.load(Relaxed))
    }
}

/// What one loop has seen.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Datagrams that should have been sent by the end of the plan's time.
    pub(crate) intended: u64,
    /// Datagrams that should have been sent until the end: fewer, if the run was ended early.
    pub(crate) due: u64,
    /// Datagrams that could still have come back when the run was ended early.
    pub(crate) on_their_way: u64,
    pub(crate) sent: u64,
    pub(crate) send_calls: u64,
    /// Sends that found no room, and were made again.
    pub(crate) no_room: u64,
    /// The system refused them.
    pub(crate) refused: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) lag_max: Option<Duration>,
    pub(crate) received: u64,
    pub(crate) receive_calls: u64,
    pub(crate) messages: u64,
    pub(crate) late: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) extent_max: u64,
    pub(crate) corrupt: u64,
    pub(crate) foreign: u64,
    /// The target's system said that nobody receives there.
    pub(crate) unreachable: u64,
    pub(crate) from_intended: Latency,
    pub(crate) from_sent: Latency,
    pub(crate) dropped_here: u64,
    /// How long it was from the begin until the last datagram was sent, and the next would have been due.
    pub(crate) sending: Duration,
    /// How long that should have been.
    pub(crate) planned: Duration,
    pub(crate) busy: Option<Duration>,
    pub(crate) receive_buffer_bytes: usize,
    pub(crate) was_stopped: bool,
}

impl Tally {
    fn new() -> Self {
        Self {
            intended: 0,
            due: 0,
            on_their_way: 0,
            sent: 0,
            send_calls: 0,
            refused: 0,
            no_room: 0,
            first_error: None,
            lag_max: None,
            received: 0,
            receive_calls: 0,
            messages: 0,
            late: 0,
            duplicated: 0,
            reordered: 0,
            extent_max: 0,
            corrupt: 0,
            foreign: 0,
            unreachable: 0,
            from_intended: Latency::new(),
            from_sent: Latency::new(),
            dropped_here: 0,
            sending: Duration::ZERO,
            planned: Duration::ZERO,
            busy: None,
            receive_buffer_bytes: 0,
            was_stopped: false,
        }
    }
}

impl LoopPart {
    /// Makes the sockets, sends, receives, and gives the account.
    pub(crate) async fn run(self) -> Result<Tally, UdpError> {
        let options = UdpOptions {
            receive_buffer_bytes: self.plan.receive_buffer_bytes,
            offload: self.plan.offload,
            ..UdpOptions::default()
        };
        let mut sockets = Vec::new();
        for _ in (self.number..self.plan.sockets()).step_by(self.loops) {
            sockets.push(Rc::new(Udp::connect(&self.plan.target, &options).await?));
        }
        let mut tally = Tally::new();
        tally.receive_buffer_bytes = sockets.first().map_or(0, |socket| socket.receive_buffer().given_bytes);
        let flows = (0..self.plan.flows).map(|_| Flow::default()).collect();
        let book = Rc::new(Book {
            plan: Arc::clone(&self.plan),
            stop: self.stop.clone(),
            run: self.run,
            begin: self.begin,
            live: Arc::clone(&self.live),
            mark_every: self.plan.patience() / MARKS,
            flows: RefCell::new(flows),
            tally: RefCell::new(tally),
            received: RefCell::new(sockets.first().map(|socket| Received::new(socket))),
            to_come: Cell::new(0),
        });
        let receiving: Vec<_> = sockets
            .iter()
            .zip((self.number..).step_by(self.loops))
            .map(|(socket, number)| anywire_loops::spawn(Rc::clone(&book).receive(Rc::clone(socket), number)))
            .collect();
        tokio::time::sleep_until(self.begin.into()).await;
        let busy = cpu::current_thread_cpu().ok();
        self.send(&book, &sockets).await;
        book.wait_for_the_rest().await;
        receiving.iter().for_each(|task| task.abort());
        let mut tally = book.tally.borrow().clone();
        let used = cpu::current_thread_cpu().ok().zip(busy);
        tally.busy = used.map(|(now, before)| (now - before).total());
        tally.dropped_here = sockets.iter().filter_map(|socket| socket.drops()).map(u64::from).sum();
        Ok(tally)
    }

    /// The flows of this loop, by their numbers in the plan.
    fn flows(&self) -> impl Iterator<Item = usize> {
        let (sockets, loops, number) = (self.plan.sockets(), self.loops, self.number);
        (0..self.plan.flows).filter(move |flow| flow % sockets % loops == number)
    }

    /// How many datagrams of this loop there are, and when they end. Those of all loops add up to the plan; by Poisson, how many they are
    /// is drawn with their gaps.
    fn amount(&self, pacer: &Pacer) -> (u64, Duration) {
        match self.plan.schedule.gaps {
            Gaps::Poisson => (u64::MAX, self.plan.duration),
            Gaps::Even | Gaps::Jitter => (pacer.among(self.plan.datagrams()), Duration::MAX),
        }
    }

    /// How long all datagrams of the plan take, with the time until the next one would be due.
    fn time(&self) -> Duration {
        let plan = &*self.plan;
        match plan.schedule.gaps {
            Gaps::Poisson => plan.duration,
            Gaps::Even | Gaps::Jitter => {
                let even = Schedule { gaps: Gaps::Even, ..plan.schedule };
                Pacer::new(&even, plan.duration, Part::whole()).intended(plan.datagrams())
            }
        }
    }

    /// Sends each datagram when it is due, or as soon after as can be.
    async fn send(&self, book: &Book, sockets: &[Rc<Udp>]) {
        let plan = &*self.plan;
        let own_flows: Vec<(u32, &Rc<Udp>)> =
            self.flows().map(|flow| (flow as u32, &sockets[flow % plan.sockets() / self.loops])).collect();
        let Some((_, first)) = own_flows.first() else { return };
        // The datagrams of the plan are dealt to its flows in turn, so that those of the loops are no two at the same time.
        let pacer = Pacer::new(&plan.schedule, plan.duration, plan.part_of_flows(self.flows()));
        let (total, ends) = self.amount(&pacer);
        let at_once = if plan.offload { JOINED } else { 1 };
        let (mut outgoing, mut datagram) = (Outgoing::new(first), Vec::new());
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut made, mut due, mut sending, mut next) = (0, 0, Duration::ZERO, pacer.first());
        while made < total && next.at < ends {
            tick.tick().await;
            if self.is_over(book) {
                break;
            }
            due = total.min(pacer.due(self.begin.elapsed().min(ends.saturating_sub(NANOSECOND))));
            let mut since_rest = 0;
            while made < due {
                let (flow, socket) = own_flows[(made / at_once) as usize % own_flows.len()];
                // Those that leave together belong to one flow.
                let until = due.min((made / at_once + 1) * at_once);
                let mut sent = Sent::default();
                for _ in made..until {
                    book.write(flow, next.at, &mut datagram);
                    next = pacer.after(&next);
                    if outgoing.push_to_peer(&datagram).is_err() {
                        self.flush(book, socket, &mut outgoing, &mut sent).await;
                        // A queue that is empty has room for the longest one.
                        let _ = outgoing.push_to_peer(&datagram);
                    }
                }
                self.flush(book, socket, &mut outgoing, &mut sent).await;
                book.sent(&sent);
                since_rest += until - made;
                made = until;
                if since_rest >= SENT_AT_ONCE {
                    since_rest = 0;
                    tokio::task::yield_now().await;
                    if self.is_over(book) {
                        break;
                    }
                }
            }
            sending = self.begin.elapsed();
        }
        let tally = &mut *book.tally.borrow_mut();
        let is_complete = made == total || next.at >= ends;
        tally.intended = if is_complete { made } else { pacer.among(plan.datagrams()) };
        tally.due = if tally.was_stopped { due } else { tally.intended };
        if made > 0 {
            // Else the rate of few would be that of one more: the last one has its time, too.
            tally.planned = if is_complete { self.time() } else { next.at };
            tally.sending = sending.max(tally.planned);
        }
    }

    /// Sends what waits. A Unix socket whose peer reads nothing may never have room: what waits at the end is dropped.
    async fn flush(&self, book: &Book, socket: &Udp, outgoing: &mut Outgoing, sent: &mut Sent) {
        while !socket.try_flush(outgoing, sent) {
            if self.is_over(book) {
                *outgoing = Outgoing::new(socket);
                return;
            }
            // An error of the socket will be one of the next datagram, too.
            let _ = tokio::time::timeout(TICK, socket.room()).await;
        }
    }

    /// Whether nothing more is to be sent: the run was stopped, or is too far behind.
    fn is_over(&self, book: &Book) -> bool {
        let is_stopped = self.stop.is_stopped();
        book.tally.borrow_mut().was_stopped |= is_stopped;
        is_stopped || self.begin.elapsed() > self.plan.duration.saturating_add(CATCH_UP)
    }
}

/// What the tasks of a loop share.
struct Book {
    plan: Arc<UdpPlan>,
    stop: Stop,
    run: u64,
    begin: Instant,
    live: Arc<Live>,
    mark_every: Duration,
    /// All flows of the plan, of which this loop uses its own.
    flows: RefCell<Vec<Flow>>,
    tally: RefCell<Tally>,
    /// One for all sockets, since its memory is large.
    received: RefCell<Option<Received>>,
    /// Datagrams that are on their way.
    to_come: Cell<u64>,
}

impl Book {
    fn write(&self, flow: u32, intended: Duration, datagram: &mut Vec<u8>) {
        let of_flow = &mut self.flows.borrow_mut()[flow as usize];
        let sent = self.begin.elapsed();
        let number = of_flow.send(sent, self.mark_every);
        let header = Header { flow, run: self.run, number, intended, sent };
        header.write(self.plan.bytes, datagram);
        let tally = &mut *self.tally.borrow_mut();
        tally.lag_max = tally.lag_max.max(Some(sent.saturating_sub(intended)));
    }

    fn sent(&self, sent: &Sent) {
        let tally = &mut *self.tally.borrow_mut();
        tally.sent += sent.datagrams;
        self.live.sent.store(tally.sent, Relaxed);
        tally.send_calls += sent.calls;
        tally.refused += sent.failed;
        tally.no_room += sent.no_room;
        if let (None, Some(error)) = (&tally.first_error, &sent.error) {
            tally.first_error = Some(error.to_string());
        }
        self.to_come.set(self.to_come.get() + sent.datagrams);
    }

    /// Takes what comes to a socket, which has this number among all of the plan.
    async fn receive(self: Rc<Self>, socket: Rc<Udp>, number: usize) {
        loop {
            // It fails only when the loop ends.
            if socket.arrived().await.is_err() {
                return;
            }
            let now = self.begin.elapsed();
            let mut received = self.received.borrow_mut();
            let Some(received) = received.as_mut() else { return };
            match socket.take(received) {
                Ok(true) => self.arrive(received, number, now),
                Ok(false) => {}
                Err(gone) if gone.kind() == io::ErrorKind::ConnectionRefused => {
                    self.tally.borrow_mut().unreachable += 1;
                }
                // What the system says of a socket concerns no datagram that can be named; the loss will show.
                Err(_) => {}
            }
        }
    }

    fn arrive(&self, received: &Received, socket: usize, now: Duration) {
        let (flows, tally) = (&mut *self.flows.borrow_mut(), &mut *self.tally.borrow_mut());
        tally.receive_calls += 1;
        tally.messages += received.messages() as u64;
        let mut settled = 0;
        for datagram in received.iter() {
            let header = match Header::read(datagram.data(), self.run, self.plan.bytes) {
                Ok(header) => header,
                Err(Alien::Corrupt) => {
                    // It settles nothing: the whole one may still come.
                    tally.corrupt += 1;
                    continue;
                }
                Err(Alien::Foreign) => {
                    tally.foreign += 1;
                    continue;
                }
            };
            // One of a flow that another socket sends was returned to the wrong peer.
            let flow = header.flow as usize;
            let of_socket = flows.get_mut(flow).filter(|_| flow % self.plan.sockets() == socket);
            let arrival = of_socket.map(|flow| flow.arrive(header.number));
            match arrival {
                None | Some(Arrival::Unknown) => tally.foreign += 1,
                Some(Arrival::Duplicate) => tally.duplicated += 1,
                Some(Arrival::InOrder | Arrival::Reordered { .. }) => {
                    settled += 1;
                    let took = now.saturating_sub(header.sent);
                    if took > self.plan.patience() {
                        // Whenever it was sent, it is lost by now.
                        continue;
                    }
                    if took > self.plan.wait {
                        tally.late += 1;
                    } else {
                        tally.received += 1;
                    }
                    tally.from_sent.record(took);
                    tally.from_intended.record(now.saturating_sub(header.intended));
                }
            }
            if let Some(Arrival::Reordered { extent }) = arrival {
                tally.reordered += 1;
                tally.extent_max = tally.extent_max.max(extent);
            }
        }
        self.live.received.store(tally.received, Relaxed);
        self.to_come.set(self.to_come.get().saturating_sub(settled));
    }

    /// Until all have come, or the time is over in which one still counts as late.
    async fn wait_for_the_rest(&self) {
        let until = clock::after(Instant::now(), self.plan.patience());
        while self.to_come.get() > 0 && Instant::now() < until {
            if self.stop.is_stopped() {
                self.tally.borrow_mut().was_stopped = true;
                break;
            }
            tokio::time::sleep(TICK).await;
        }
        // A second copy of the last ones may follow at once.
        tokio::time::sleep(TICK * 5).await;
        let tally = &mut *self.tally.borrow_mut();
        if tally.was_stopped {
            let (now, patience) = (self.begin.elapsed(), self.plan.patience());
            let flows = self.flows.borrow();
            tally.on_their_way = flows.iter().map(|flow| flow.on_their_way(now, patience)).sum();
        }
    }
}

const NANOSECOND: Duration = Duration::from_nanos(1);
/// How often datagrams that are due are sent: the finest that tokio's timers do.
const TICK: Duration = Duration::from_millis(1);
/// How long a sender that is behind goes on after its time; then it leaves the rest unsent.
const CATCH_UP: Duration = Duration::from_secs(1);
/// Datagrams until those that have come back have their turn.
const SENT_AT_ONCE: u64 = 128;
/// Datagrams of a flow that leave together, if the system may join them.
const JOINED: u64 = 64;
