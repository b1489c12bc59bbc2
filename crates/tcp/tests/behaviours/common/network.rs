//! Two engines and the link between them, which delays, loses, doubles, overtakes, damages and cuts frames, by a seed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::time::Duration;

use anywire_tcp::{Counters, Engine, Frames, Instant, Meta};

use super::random::Random;
use super::wire::{ACK, SYN, Segment};

/// What a link does to frames: probabilities, and times in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    pub loss: f64,
    pub duplicate: f64,
    /// A frame is held back by up to ten delays.
    pub reorder: f64,
    /// One bit is turned.
    pub corrupt: f64,
    /// The end is cut off.
    pub truncate: f64,
    pub delay: u64,
    pub jitter: u64,
    /// Bytes a second; zero: no limit.
    pub rate: u64,
    /// Frames that wait for the rate; more are dropped.
    pub queue: usize,
}

impl Impairment {
    /// A link that only takes time.
    pub fn delay(micros: u64) -> Self {
        Self { delay: micros, ..Self::default() }
    }

    /// Anything that may happen.
    pub fn any(random: &mut Random) -> Self {
        let mut some = |most: f64| {
            let share = random.between(0, 1000) as f64 / 1000.0;
            if random.chance(0.5) { 0.0 } else { most * share }
        };
        let (loss, duplicate, reorder) = (some(0.1), some(0.05), some(0.1));
        let (corrupt, truncate) = (some(0.02), some(0.02));
        let delay = random.pick(&[10, 200, 1_000, 10_000, 50_000]);
        let jitter = random.pick(&[0, 0, delay / 10, delay]);
        let rate = random.pick(&[0, 0, 10_000_000, 1_000_000]);
        Self { loss, duplicate, reorder, corrupt, truncate, delay, jitter, rate, queue: 100 }
    }
}

/// The shift that an end has offered, and the right edge that it has announced.
type Edge = (Option<u8>, Option<u32>);

/// Makes fewer frames of some that arrive together.
pub type Join = fn(&[Vec<u8>]) -> Vec<(Vec<u8>, Meta)>;

/// Two engines; what one transmits comes to the other.
pub struct Network {
    pub engines: [Engine; 2],
    /// From the first to the second, and back.
    pub impairments: [Impairment; 2],
    pub now: Instant,
    pub random: Random,
    /// Frames on their way: when they arrive, a number that keeps their order, to whom, and what.
    under_way: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    /// The one batch for all turns: its memory is too large to be taken each time.
    batch: Frames,
    frames_sent: u64,
    /// When the link is free again, each way.
    free_at: [u64; 2],
    waiting: [usize; 2],
    pub lost: u64,
    pub damaged: u64,
    traces: bool,
    /// A hash of every frame that left, and of when: equal for two runs that are alike.
    pub course: u64,
    /// Numbers of segments with payload of the first engine that are dropped, counted from 0.
    pub drops: BTreeSet<usize>,
    data_segments: usize,
    /// The longest packet that the path takes at a time, in bytes; longer ones vanish.
    pub path: Option<Box<dyn Fn(Instant) -> usize>>,
    /// What the far end makes of frames that arrive together, if it joins them.
    pub joins: Option<Join>,
    /// Whether windows are looked at. Not where a cookie that comes twice may open a connection once more.
    pub checks_windows: bool,
    /// The right edge that each end has announced, by ports and direction: it never goes back.
    edges: HashMap<(usize, u16, u16), Edge>,
}

impl Network {
    pub fn new(engines: [Engine; 2], impairment: Impairment, random: Random) -> Self {
        Self {
            engines,
            impairments: [impairment; 2],
            now: Instant::from_micros(1_000_000),
            random,
            under_way: BTreeMap::new(),
            batch: Frames::new(),
            frames_sent: 0,
            free_at: [0; 2],
            waiting: [0; 2],
            lost: 0,
            damaged: 0,
            course: 0,
            traces: std::env::var_os("ANYWIRE_TRACE").is_some(),
            drops: BTreeSet::new(),
            data_segments: 0,
            path: None,
            joins: None,
            checks_windows: true,
            edges: HashMap::new(),
        }
    }

    /// Hands frames that an engine sent to the link.
    fn carry(&mut self, from: usize, frame: &[u8]) {
        let now = self.now.as_micros();
        let mut hasher = DefaultHasher::new();
        (self.course, now, from, frame).hash(&mut hasher);
        self.course = hasher.finish();
        if self.traces
            && let Some(segment) = Segment::of(frame)
        {
            eprintln!("{now} {from} {}>{} {segment:?}", segment.from.port(), segment.to.port());
        }
        if self.checks_windows {
            self.check_edge(from, frame);
        }
        if from == 0
            && !self.drops.is_empty()
            && Segment::of(frame).is_some_and(|segment| !segment.payload.is_empty())
        {
            self.data_segments += 1;
            if self.drops.contains(&(self.data_segments - 1)) {
                return;
            }
        }
        if self.path.as_ref().is_some_and(|path| frame.len() - 14 > path(self.now)) {
            self.lost += 1;
            return;
        }
        let link = self.impairments[from];
        let mut leaves = now;
        if link.rate > 0 {
            let backlog = self.free_at[from].saturating_sub(now) * link.rate / 1_000_000 / 1500;
            if backlog > link.queue as u64 {
                self.lost += 1;
                return;
            }
            leaves = now.max(self.free_at[from]) + frame.len() as u64 * 1_000_000 / link.rate;
            self.free_at[from] = leaves;
        }
        let random = &mut self.random;
        let copies = if random.chance(link.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            if random.chance(link.loss) {
                self.lost += 1;
                continue;
            }
            let mut frame = frame.to_vec();
            if random.chance(link.corrupt) {
                let bit = random.below(8 * frame.len() as u64);
                frame[bit as usize / 8] ^= 1 << (bit % 8);
                self.damaged += 1;
            }
            if random.chance(link.truncate) {
                frame.truncate(random.below(frame.len() as u64) as usize);
                self.damaged += 1;
            }
            let mut at = leaves + link.delay + random.below(link.jitter + 1);
            if random.chance(link.reorder) {
                at += random.below(10 * (link.delay + 100));
            }
            self.frames_sent += 1;
            self.under_way.insert((at, self.frames_sent), (1 - from, frame));
        }
    }

    /// RFC 9293 3.8.6: a window is not taken back.
    fn check_edge(&mut self, from: usize, frame: &[u8]) {
        let Some(segment) = Segment::of(frame) else { return };
        let key = (from, segment.from.port(), segment.to.port());
        if segment.is(SYN) {
            let edge = segment.is(ACK).then(|| segment.ack.wrapping_add(u32::from(segment.window)));
            self.edges.insert(key, (segment.scale, edge));
            return;
        }
        if !segment.is(ACK) || segment.is(super::wire::RST) {
            return;
        }
        // Scaling holds if both SYNs have it.
        let Some((peer_scale, _)) = self.edges.get(&(1 - from, key.2, key.1)).copied() else { return };
        let Some((scale, edge)) = self.edges.get_mut(&key) else { return };
        let shift = scale.filter(|_| peer_scale.is_some()).unwrap_or(0);
        let right = segment.ack.wrapping_add(u32::from(segment.window) << shift);
        let before = edge.unwrap_or(right);
        // By less than a unit it seems to go back if the buffer is full (RFC 7323 2.4).
        let taken_back = before.wrapping_sub(right) as i32;
        assert!(taken_back < 1 << shift, "the window was taken back: {segment:?}, it was {before}");
        *edge = Some(if taken_back > 0 { before } else { right });
    }

    /// Delivers the frames that are due and runs the deadlines that have passed. `app` is called for each engine after
    /// every such step.
    pub fn turn(&mut self, app: &mut impl FnMut(&mut Engine, usize, Instant)) {
        let now = self.now.as_micros();
        let mut batch = mem::replace(&mut self.batch, Frames::with_room(0, 0));
        for end in 0..2 {
            batch.clear();
            let due: Vec<_> = self
                .under_way
                .range(..=(now, u64::MAX))
                .filter(|(_, (to, _))| *to == end)
                .map(|(key, _)| *key)
                .take(batch.room())
                .collect();
            let taken = due.iter().map(|key| self.under_way.remove(key).expect("it was there").1);
            let arrived: Vec<_> = taken.filter(|frame| !frame.is_empty()).collect();
            let arrived = match self.joins {
                Some(join) => join(&arrived),
                None => arrived.into_iter().map(|frame| (frame, Meta::default())).collect(),
            };
            for (frame, meta) in arrived {
                assert!(batch.push(&frame), "room");
                batch.describe_last(meta);
            }
            if !batch.is_empty() {
                self.engines[end].receive(self.now, &mut batch);
            }
            app(&mut self.engines[end], end, self.now);
            self.engines[end].advance(self.now);
            app(&mut self.engines[end], end, self.now);
            for round in 0.. {
                assert!(round < 10_000, "it never stops sending");
                batch.clear();
                self.engines[end].transmit(self.now, &mut batch);
                for frame in batch.iter() {
                    self.carry(end, frame);
                }
                if !self.engines[end].wants_to_transmit() {
                    break;
                }
            }
        }
        self.batch = batch;
    }

    /// What a run has come to: its course, and what both engines counted.
    pub fn outcome(&self) -> (u64, [Counters; 2]) {
        (self.course, self.engines.each_ref().map(|engine| *engine.counters()))
    }

    /// When something happens next, on the link or in an engine.
    pub fn next(&self) -> Option<Instant> {
        let arrival = self.under_way.keys().next().map(|(at, _)| Instant::from_micros(*at));
        let deadlines = self.engines.iter().map(Engine::next_deadline);
        deadlines.chain([arrival]).flatten().min()
    }

    /// Runs until `done` says so or nothing is left to happen; gives whether it was done. `app` is what uses the
    /// connections. Panics after `limit` of virtual time.
    pub fn run(
        &mut self,
        limit: Duration,
        mut app: impl FnMut(&mut Engine, usize, Instant),
        mut done: impl FnMut(&Self) -> bool,
    ) -> bool {
        let end = self.now + limit;
        let (mut turns_at, mut turns) = (self.now, 0);
        loop {
            self.turn(&mut app);
            if done(self) {
                return true;
            }
            let Some(next) = self.next() else { return false };
            self.now = self.now.max(next);
            assert!(self.now <= end, "it hangs: not done after {limit:?} of virtual time");
            turns = if self.now == turns_at { turns + 1 } else { 0 };
            turns_at = self.now;
            assert!(turns < 100_000, "it spins: time does not move on");
        }
    }
}
