//! What the server's process and its machine spend.

use super::super::outcome::Outcome;
use super::super::verdict::Class;
use super::{Found, Rule, percent};
use crate::text::time;

pub(super) const RULES: &[Rule] = &[
    Rule {
        class: Class::UnbalancedThreads,
        judge: unbalanced_threads,
        why: "the service is full when its busiest thread is, and the cores of the others stay idle",
        change: "spread connections evenly: one listening socket that all threads accept from, or SO_REUSEPORT with more connections than \
                 threads; no thread that accepts and keeps them (nginx: reuseport; Node.js: the cluster module)",
    },
    Rule {
        class: Class::ManySyscalls,
        judge: many_syscalls,
        why: "each call costs 0.1 to 1 us and more on a virtual machine; an answer on a kept connection needs a read, a write, and a part \
              of a wait",
        change: "read into a buffer of some KiB instead of byte by byte, write once, and cache what is asked of files and clocks",
    },
    Rule {
        class: Class::Softirq,
        judge: softirq,
        why: "the kernel receives packets outside of any process, on whichever core the interrupt came, so that the service has less than \
              'top' shows",
        change: "spread the interrupts over more cores (RSS: ethtool -L and -x, or RPS in /sys/class/net/IF/queues), turn GRO on, and have \
                 fewer and larger segments",
    },
];

fn unbalanced_threads(outcome: &Outcome) -> Option<Found> {
    let balance = outcome.server.as_ref()?.balance.as_ref()?;
    let connections = outcome.many.as_ref()?.opened;
    // Two threads that share evenly are at 1, and one that does it all is at 2.
    let uneven = (balance.threads as f64 * 0.9).min(UNEVEN);
    let is_enough = balance.cpu >= CPU_MIN_US && connections >= CONNECTIONS_PER_THREAD * balance.threads;
    (is_enough && balance.max_over_mean >= uneven).then(|| {
        Found::problem(format!(
            "of {} threads {:?} that wait for events, one has used {} of their CPU time, {:.1} times the mean, with {connections} connections",
            balance.threads,
            balance.threads_named,
            percent(balance.max_share),
            balance.max_over_mean,
        ))
    })
}

fn many_syscalls(outcome: &Outcome) -> Option<Found> {
    let calls = outcome.server.as_ref()?.syscalls_per_request.as_ref()?;
    let all: f64 = calls.values().sum();
    (all > CALLS_MANY).then(|| {
        let mut most: Vec<_> = calls.iter().collect();
        most.sort_by(|one, other| other.1.total_cmp(one.1));
        let most: Vec<_> = most.iter().take(4).map(|(name, count)| format!("{count:.1} {name}")).collect();
        Found::warning(format!("a request costs {all:.1} system calls: {}", most.join(", ")))
    })
}

fn softirq(outcome: &Outcome) -> Option<Found> {
    let seen = outcome.server.as_ref()?.softirq.as_ref()?;
    let share = seen.share?;
    let is_enough = seen.of_server >= SOFTIRQ_MIN_US && seen.others <= OTHERS_MAX * seen.softirq;
    (is_enough && share > 1.0 / 3.0).then(|| {
        let busiest = seen.cores.iter().max_by(|one, other| one.softirq.total_cmp(&other.softirq));
        let busiest = busiest.map_or_else(String::new, |core| {
            format!(", most of it on core {} ({})", core.core, time(core.softirq))
        });
        let half = if seen.is_local { " (half of all, since the client is on this host, too)" } else { "" };
        Found::warning(format!(
            "receiving packets took {}{half} of CPU time beside {} of the process: {} of both{busiest}",
            time(seen.of_server),
            time(seen.process),
            percent(share),
        ))
    })
}

/// One thread in three or more that does twice its share.
const UNEVEN: f64 = 2.0;
/// Less CPU time shows little of how it is shared.
const CPU_MIN_US: f64 = 10_000.0;
/// With fewer connections chance alone makes threads uneven.
const CONNECTIONS_PER_THREAD: usize = 4;
/// Some four to ten are usual: Go and Node.js ask their poller and wake their threads.
const CALLS_MANY: f64 = 20.0;
/// Packets of other processes are counted as well: with more work of theirs beside, nobody knows whose they were.
const OTHERS_MAX: f64 = 0.5;
/// Ten steps of the kernel's clock.
const SOFTIRQ_MIN_US: f64 = 100_000.0;
