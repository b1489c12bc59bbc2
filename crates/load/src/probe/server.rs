//! The server's side, read from `/proc` and by perf: CPU by thread, context switches, softirqs, system calls, queues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anywire_sys::cores::{self, CoreTime};
use anywire_sys::listeners::{self, ListenDrops};
use anywire_sys::process::{ThreadUse, Wait, threads_of};
use serde::{Deserialize, Serialize};

use super::error::ProbeError;
use super::queues::QueueWatch;
use super::spread::micros;

/// The server's process and its child processes, while many connections were served.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Requests that were served meanwhile, by which the figures for one request are counted.
    pub requests: usize,
    /// System calls of one request, by name, while single requests were served; `null` if they may not be counted.
    pub syscalls_per_request: Option<BTreeMap<String, f64>>,
    /// How they were counted.
    pub syscalls_method: Option<String>,
    /// CPU time of one request.
    pub cpu_us_per_request: Option<CpuPerRequest>,
    /// Context switches of one request because a thread had to wait.
    pub voluntary_switches_per_request: Option<f64>,
    /// Context switches of one request because another thread got the core.
    pub involuntary_switches_per_request: Option<f64>,
    /// Threads that used any CPU time, or that wait for connections; those with the most first.
    pub threads: Vec<ThreadShare>,
    /// How even the load is among threads that do the same; `null` if no two of them do.
    pub balance: Option<Balance>,
    /// Packets that were received, which is in no process's CPU time.
    pub softirq: Option<Softirq>,
}

/// CPU time of one request, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CpuPerRequest {
    /// All of it.
    pub total: f64,
    /// In the server's own code; `null` if the requests took too little for the steps of 10 ms in which the kernel tells it.
    pub user: Option<f64>,
    /// In the kernel.
    pub sys: Option<f64>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadShare {
    /// Its process.
    pub pid: i32,
    /// Its number.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// CPU time while many connections were served, in microseconds.
    pub cpu: f64,
    /// Its share of the process's.
    pub share: f64,
    /// Whether it waited for events of sockets before these connections, or after; `null` if that may not be looked at.
    pub is_loop: Option<bool>,
}

/// How even the load is among threads of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Balance {
    /// What their names have in common.
    pub threads_named: String,
    /// How many there are.
    pub threads: usize,
    /// The CPU time of the busiest, divided by the mean: 1 is even.
    pub max_over_mean: f64,
    /// The share of the busiest.
    pub max_share: f64,
    /// The CPU time of all, in microseconds.
    pub cpu: f64,
}

/// Softirqs, and what they cost beside the process: since the probe began, or since this was last measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Softirq {
    /// CPU time of softirqs on all cores, in microseconds.
    pub softirq: f64,
    /// The server's part of it: half, if client and server are on one host, because each segment that one of them sends is received by
    /// the other; else all.
    pub of_server: f64,
    /// CPU time of the process meanwhile, in microseconds.
    pub process: f64,
    /// The server's part divided by it and the process together.
    pub share: Option<f64>,
    /// Whether client and server are on one host, so that what the client receives is in it as well.
    pub is_local: bool,
    /// CPU time of all processes but the server's and the probe's meanwhile, in microseconds. The kernel does not tell whose packets it
    /// received, so that they are no fault of the server's on a machine that others share.
    #[serde(default)]
    pub others: f64,
    /// Each core that did anything.
    pub cores: Vec<CoreShare>,
}

/// One core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoreShare {
    /// Its number.
    pub core: usize,
    /// All CPU time on it, of whatever process, in microseconds.
    pub busy: f64,
    /// The part in softirqs, in microseconds.
    pub softirq: f64,
}

/// A socket that listens on the server's port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenerFacts {
    /// Where it listens.
    pub address: String,
    /// Its inode.
    pub inode: u64,
    /// The most connections that were seen waiting to be accepted.
    pub accept_queue: u32,
    /// How many may wait (`listen(2)`, within `net.core.somaxconn`); `null` if the kernel does not say, or the socket is in another
    /// network namespace.
    #[serde(default)]
    pub backlog: Option<u32>,
    /// How often that was looked at, from the begin of the probe on.
    pub looks: u64,
    /// Whether the process holds it; `null` if that cannot be read.
    pub is_own: Option<bool>,
}

/// The process at one moment.
#[derive(Debug, Clone)]
pub(super) struct Moment {
    threads: BTreeMap<i32, ThreadUse>,
    /// The probe's own.
    client: BTreeMap<i32, ThreadUse>,
    cores: Vec<CoreTime>,
    drops: Option<ListenDrops>,
}

impl Moment {
    pub(super) fn now(pid: i32) -> Result<Self, ProbeError> {
        let threads = threads_of(pid).map_err(|source| ProbeError::Process { pid, source })?;
        let by_number =
            |threads: Vec<ThreadUse>| threads.into_iter().map(|thread| (thread.tid, thread)).collect();
        Ok(Self {
            threads: by_number(threads),
            // Figures less, and no reason to end.
            client: by_number(threads_of(std::process::id().cast_signed()).unwrap_or_default()),
            cores: cores::read().unwrap_or_default(),
            drops: listeners::drops_around(pid),
        })
    }

    /// The process and its child processes.
    pub(super) fn pids(&self) -> BTreeSet<i32> {
        self.threads.values().map(|thread| thread.pid).collect()
    }

    /// The numbers of all threads.
    pub(super) fn tids(&self) -> impl Iterator<Item = i32> {
        self.threads.keys().copied()
    }

    /// Connections that were turned away since an earlier moment because an accept queue was full.
    pub(super) fn overflows_since(&self, before: &Self) -> Option<u64> {
        Some(self.drops?.overflows.saturating_sub(before.drops?.overflows))
    }

    /// What was done since an earlier moment, while so many requests were served.
    pub(super) fn since(&self, before: &Self, pid: i32, requests: usize) -> Server {
        let used = used(&before.threads, &self.threads);
        let total: Duration = used.iter().map(|thread| thread.run_time).sum();
        let per_request = |count: f64| (requests > 0).then(|| count / requests as f64);
        let sum = |of: fn(&Used) -> Option<u64>| used.iter().map(of).sum::<Option<u64>>();
        let (user, system) = used.iter().fold((Duration::ZERO, Duration::ZERO), |(user, system), thread| {
            (user + thread.user, system + thread.system)
        });
        let is_split = user + system >= TICKS_MIN;
        let split = |part: Duration| {
            let share = part.as_secs_f64() / (user + system).as_secs_f64();
            is_split.then(|| per_request(micros(total) * share)).flatten()
        };
        let switches = |of| sum(of).and_then(|count: u64| per_request(count as f64));
        Server {
            requests,
            syscalls_per_request: None,
            syscalls_method: None,
            cpu_us_per_request: per_request(micros(total))
                .filter(|_| !total.is_zero())
                .map(|each| CpuPerRequest { total: each, user: split(user), sys: split(system) }),
            voluntary_switches_per_request: switches(|thread| Some(thread.switches?.0)),
            involuntary_switches_per_request: switches(|thread| Some(thread.switches?.1)),
            threads: shares(&used, total),
            balance: balance(&used, pid),
            softirq: None,
        }
    }

    /// Softirqs since an earlier moment, beside the process.
    pub(super) fn softirqs_since(&self, before: &Self, is_local: bool) -> Option<Softirq> {
        let process = used(&before.threads, &self.threads).iter().map(|thread| thread.run_time).sum();
        let client = used(&before.client, &self.client);
        // A test probes its own process.
        let client = client.iter().filter(|thread| !self.threads.contains_key(&thread.tid));
        let client = client.map(|thread| thread.run_time).sum();
        softirq(&before.cores, &self.cores, process, client, is_local)
    }
}

/// What a thread has used between two moments.
#[derive(Debug, Clone)]
struct Used {
    pid: i32,
    tid: i32,
    name: String,
    run_time: Duration,
    user: Duration,
    system: Duration,
    /// Voluntary and involuntary.
    switches: Option<(u64, u64)>,
    /// What it waited for before and after. A thread that has only just started waits for something else.
    waited_for: [Option<Wait>; 2],
}

impl Used {
    /// Whether it waited for events, as far as is known.
    fn is_loop(&self) -> Option<bool> {
        let is_loop = |wait: &Wait| *wait == Wait::Events;
        self.waited_for.iter().flatten().map(is_loop).reduce(|before, after| before || after)
    }
}

fn used(before: &BTreeMap<i32, ThreadUse>, after: &BTreeMap<i32, ThreadUse>) -> Vec<Used> {
    let of = |thread: &ThreadUse| {
        // A thread that has started meanwhile began with nothing.
        let earlier = before.get(&thread.tid);
        let run_time = |thread: &ThreadUse| thread.run_time.unwrap_or(thread.user + thread.system);
        let difference = |of: &dyn Fn(&ThreadUse) -> Duration| {
            of(thread).saturating_sub(earlier.map_or(Duration::ZERO, of))
        };
        let switches = thread
            .switches
            .map(|now| earlier.and_then(|earlier| earlier.switches).map_or(now, |then| now - then));
        Used {
            pid: thread.pid,
            tid: thread.tid,
            name: thread.name.clone(),
            run_time: difference(&run_time),
            user: difference(&|thread| thread.user),
            system: difference(&|thread| thread.system),
            switches: switches.map(|switches| (switches.voluntary, switches.involuntary)),
            waited_for: [earlier.and_then(|earlier| earlier.waits_for), thread.waits_for],
        }
    };
    after.values().map(of).collect()
}

fn shares(used: &[Used], total: Duration) -> Vec<ThreadShare> {
    let mut threads: Vec<_> = used
        .iter()
        .filter(|thread| !thread.run_time.is_zero() || thread.is_loop() == Some(true))
        .map(|thread| ThreadShare {
            pid: thread.pid,
            tid: thread.tid,
            name: thread.name.clone(),
            cpu: micros(thread.run_time),
            share: if total.is_zero() { 0.0 } else { thread.run_time.as_secs_f64() / total.as_secs_f64() },
            is_loop: thread.is_loop(),
        })
        .collect();
    threads.sort_by(|one, other| other.cpu.total_cmp(&one.cpu));
    threads.truncate(THREADS_SHOWN);
    threads
}

/// The balance among threads that are alike: event loops whose names differ in digits alone. The main thread of the process is none of
/// them, because it mostly starts the others. Threads that wait for work from a queue are not, since whoever is awake takes the next job:
/// of those, one alone waits for events at any moment. So loops are alike that wait at the same moment, before or after.
fn balance(used: &[Used], pid: i32) -> Option<Balance> {
    let mut groups: BTreeMap<(usize, String), Vec<Duration>> = BTreeMap::new();
    for thread in used.iter().filter(|thread| thread.tid != pid) {
        let name: String = thread.name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
        let name = name.trim_end_matches(['-', '_', '/', ':', '#']);
        for (moment, wait) in thread.waited_for.iter().enumerate() {
            if *wait == Some(Wait::Events) {
                groups.entry((moment, name.to_owned())).or_default().push(thread.run_time);
            }
        }
    }
    let sum = |times: &[Duration]| times.iter().sum::<Duration>();
    let ((_, name), times) = groups
        .into_iter()
        .filter(|(_, times)| times.len() > 1)
        .max_by_key(|(_, times)| (sum(times), times.len()))?;
    let (total, max) = (sum(&times), *times.iter().max()?);
    if total.is_zero() {
        return None;
    }
    let max_share = max.as_secs_f64() / total.as_secs_f64();
    Some(Balance {
        threads_named: name,
        threads: times.len(),
        max_over_mean: max_share * times.len() as f64,
        max_share,
        cpu: micros(total),
    })
}

fn softirq(
    before: &[CoreTime],
    after: &[CoreTime],
    process: Duration,
    client: Duration,
    is_local: bool,
) -> Option<Softirq> {
    let earlier = |core: &CoreTime| before.iter().find(|earlier| earlier.core == core.core).copied();
    let spent: Vec<CoreTime> = after.iter().filter_map(|core| Some(*core - earlier(core)?)).collect();
    if spent.is_empty() {
        return None;
    }
    let softirq: Duration = spent.iter().map(|core| core.softirq).sum();
    let of_server = if is_local { softirq / 2 } else { softirq };
    let both = of_server + process;
    let in_processes: Duration =
        spent.iter().map(|core| core.busy.saturating_sub(core.softirq + core.interrupt)).sum();
    Some(Softirq {
        softirq: micros(softirq),
        of_server: micros(of_server),
        process: micros(process),
        share: (!both.is_zero()).then(|| of_server.as_secs_f64() / both.as_secs_f64()),
        is_local,
        others: micros(in_processes.saturating_sub(process + client)),
        cores: spent
            .iter()
            .filter(|core| !core.busy.is_zero())
            .map(|core| CoreShare { core: core.core, busy: micros(core.busy), softirq: micros(core.softirq) })
            .collect(),
    })
}

/// Sockets that listen on this port around the process, with the longest queues that were seen.
pub(super) fn listeners(pid: i32, port: u16, watch: Option<&QueueWatch>) -> Option<Vec<ListenerFacts>> {
    let threads = threads_of(pid).unwrap_or_default();
    let holders: BTreeSet<i32> = threads.iter().map(|thread| thread.pid).collect();
    let sockets = listeners::on_port(pid, port, &holders)?;
    let seen = watch.map(|watch| watch.seen()).unwrap_or_default();
    let facts = sockets.iter().map(|socket| ListenerFacts {
        address: socket.address.to_string(),
        inode: socket.inode,
        accept_queue: seen.longest(socket.inode).max(socket.accept_queue),
        backlog: socket.backlog,
        looks: seen.looks + 1,
        is_own: socket.is_own,
    });
    Some(facts.collect())
}

/// Ten steps of the kernel's clock: with fewer, the split between user and system says little.
const TICKS_MIN: Duration = Duration::from_millis(100);

/// A page of threads; a pool of hundreds has no more to tell.
const THREADS_SHOWN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: i32, name: &str, ms: u64, waits_for: Option<Wait>) -> Used {
        let run_time = Duration::from_millis(ms);
        Used {
            pid: 10,
            tid,
            name: name.to_owned(),
            run_time,
            user: Duration::ZERO,
            system: Duration::ZERO,
            switches: None,
            waited_for: [waits_for; 2],
        }
    }

    #[test]
    fn loops_are_compared_with_loops() {
        let events = Some(Wait::Events);
        let uneven = [
            thread(10, "server", 0, Some(Wait::Other)),
            thread(11, "worker-1", 90, events),
            thread(12, "worker-2", 5, events),
            thread(13, "worker-13", 5, events),
            thread(14, "timer", 0, events),
        ];
        let balance = balance(&uneven, 10).expect("three are alike");
        assert_eq!((balance.threads_named.as_str(), balance.threads), ("worker", 3));
        assert!((balance.max_share - 0.9).abs() < 1e-9 && (balance.max_over_mean - 2.7).abs() < 1e-9);
    }

    #[test]
    fn a_loop_is_known_though_it_had_only_just_started_or_is_still_busy() {
        let (events, other) = (Some(Wait::Events), Some(Wait::Other));
        let mut threads =
            [11, 12, 13, 14].map(|tid| Used { name: format!("worker-{tid}"), ..thread(tid, "", 0, None) });
        threads[0].run_time = Duration::from_millis(30);
        for [before, after] in [[other, events], [None, events], [events, None], [events, other]] {
            for thread in &mut threads[1..] {
                thread.waited_for = [before, after];
            }
            threads[0].waited_for = [events; 2];
            let balance = balance(&threads, 10).expect("four are alike");
            assert_eq!((balance.threads, balance.max_share), (4, 1.0));
            assert!(
                shares(&threads, Duration::from_millis(30)).iter().all(|thread| thread.is_loop == Some(true))
            );
        }
        // As a pool whose threads wait for events in turn.
        let turns = |tid, waited_for| Used { waited_for, ..thread(tid, "tokio", 10 * tid as u64, None) };
        assert_eq!(balance(&[turns(11, [events, other]), turns(12, [other, events])], 10), None);
    }

    #[test]
    fn a_main_thread_and_a_pool_have_no_balance() {
        let events = Some(Wait::Events);
        // As Node.js: the main thread works, and all names are alike.
        let one = [
            thread(10, "node", 90, events),
            thread(11, "node", 0, events),
            thread(12, "node", 0, Some(Wait::Other)),
        ];
        assert_eq!(balance(&one, 10), None);
        // As Go: one thread waits for events, and whichever is awake works.
        let pool =
            [thread(11, "go", 50, events), thread(12, "go", 1, Some(Wait::Other)), thread(13, "go", 1, None)];
        assert_eq!(balance(&pool, 10), None);
    }

    #[test]
    fn softirqs_stand_beside_the_process() {
        let core = |softirq| CoreTime {
            core: 3,
            softirq: Duration::from_millis(softirq),
            busy: Duration::from_millis(softirq + 10),
            ..CoreTime::default()
        };
        let (process, none) = (Duration::from_millis(100), Duration::ZERO);
        let apart = softirq(&[core(50)], &[core(150)], process, none, false).expect("a core");
        assert_eq!((apart.of_server, apart.share, apart.others), (100_000.0, Some(0.5), 0.0));
        assert_eq!((apart.cores[0].core, apart.cores[0].softirq), (3, 100_000.0));
        // On one host the other half is the client's.
        let together = softirq(&[core(50)], &[core(250)], process, none, true).expect("a core");
        assert_eq!((together.softirq, together.of_server, together.share), (200_000.0, 100_000.0, Some(0.5)));
        assert_eq!(softirq(&[], &[core(1)], process, none, true), None, "a core that was not there before");
    }

    #[test]
    fn softirqs_may_be_of_other_processes() {
        let ms = Duration::from_millis;
        let core = |busy, interrupt, softirq| CoreTime {
            core: 0,
            busy: ms(busy),
            interrupt: ms(interrupt),
            softirq: ms(softirq),
        };
        let others = |process, client| {
            softirq(&[core(10, 0, 0)], &[core(1010, 50, 150)], ms(process), ms(client), true)
                .expect("a core")
                .others
        };
        assert_eq!(others(300, 200), 300_000.0);
        assert_eq!(others(500, 400), 0.0, "the clock of cores is coarse");
    }
}
