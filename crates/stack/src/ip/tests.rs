//! The cache of neighbours by itself: its states (RFC 4861 7.3.2), what messages change, and what never happens.

use std::collections::HashSet;
use std::net::IpAddr;
use std::time::Duration;

use anywire_packet::Mac;
use anywire_tcp::Instant;
use proptest::prelude::*;

use super::cache::{Cache, State, Todo, Users};
use super::learn::Message;
use super::settings::{Limits, Settings};

/// Connections, as the test says.
#[derive(Default)]
struct Connections {
    used: HashSet<IpAddr>,
    progress: HashSet<IpAddr>,
}

impl Users for Connections {
    fn use_neighbour(&self, address: IpAddr) -> bool {
        self.used.contains(&address)
    }

    fn have_progressed(&mut self, address: IpAddr) -> bool {
        self.progress.remove(&address)
    }
}

const A: Mac = Mac::new([2, 0, 0, 0, 0, 0xa]);
const B: Mac = Mac::new([2, 0, 0, 0, 0, 0xb]);

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1000)
}

fn cache() -> Cache {
    Cache::new(Settings::new(7), Limits::default())
}

/// All that is to be done, beside [`Todo::Watch`].
fn todo(cache: &mut Cache) -> Vec<Todo> {
    cache.todo.drain(..).filter(|todo| !matches!(todo, Todo::Watch(_))).collect()
}

/// One that is known, in this state, with a connection or not.
fn known(state: State, users: &mut Connections, is_used: bool) -> Cache {
    let mut cache = cache();
    if is_used {
        users.used.insert(ip(1));
    }
    cache.send(at(0), ip(1), vec![0; 60], users);
    if state != State::Incomplete {
        cache.learn(at(1), ip(1), Some(A), Message::Solicited { overrides: true }, users);
        cache.enter(ip(1), state, None);
    }
    cache.todo.clear();
    cache
}

#[test]
fn a_neighbour_is_asked_for_three_times_and_given_up() {
    let (mut cache, mut users) = (cache(), Connections::default());
    cache.send(at(0), ip(1), vec![1; 60], &users);
    assert_eq!(todo(&mut cache), [Todo::Ask(ip(1), None)]);
    for millis in [1000, 2000] {
        cache.advance(at(millis - 1), &mut users);
        assert_eq!(todo(&mut cache), []);
        cache.advance(at(millis), &mut users);
        assert_eq!(todo(&mut cache), [Todo::Ask(ip(1), None)]);
    }
    cache.advance(at(3000), &mut users);
    let undelivered = Todo::Undelivered(vec![1; 60]);
    assert_eq!(todo(&mut cache), [Todo::Unreachable(ip(1)), undelivered, Todo::Set(ip(1), None)]);
    assert_eq!((cache.counters.unreachable, cache.counters.undelivered), (1, 1));
    assert!(cache.neighbours.is_empty() && cache.next_deadline().is_none() && cache.order.is_empty());
}

#[test]
fn the_latest_frames_wait_and_leave_in_their_order() {
    let (mut cache, users) = (cache(), Connections::default());
    for number in 0..5 {
        cache.send(at(0), ip(1), vec![number; 60], &users);
    }
    todo(&mut cache);
    cache.learn(at(1), ip(1), Some(A), Message::Solicited { overrides: true }, &users);
    let left = [2, 3, 4].map(|number| Todo::Send(A, vec![number; 60]));
    assert_eq!(todo(&mut cache), [&[Todo::Set(ip(1), Some(A))][..], &left].concat());
    assert_eq!((cache.counters.pending_dropped, cache.counters.resolved, cache.pending), (2, 1, 0));
    cache.send(at(2), ip(1), vec![9; 60], &users);
    assert_eq!(todo(&mut cache), [Todo::Set(ip(1), Some(A)), Todo::Send(A, vec![9; 60])]);
}

#[test]
fn one_with_a_connection_is_asked_unless_the_connection_progresses() {
    for progresses in [true, false] {
        let mut users = Connections::default();
        let mut cache = known(State::Reachable, &mut users, true);
        cache.confirm(at(0), ip(1));
        let over = cache.next_deadline().expect("it is reachable for a while");
        assert!((at(15_000)..=at(45_000)).contains(&over), "{over:?}");
        cache.advance(over, &mut users);
        assert_eq!(cache.state_of(ip(1)), Some((State::Delay, Some(A))));
        // What was acknowledged before proves nothing of now.
        assert_eq!(cache.todo.drain(..).collect::<Vec<_>>(), [Todo::Watch(ip(1))]);
        let mut now = over + Duration::from_secs(5);
        if progresses {
            users.progress.insert(ip(1));
            cache.advance(now, &mut users);
            assert_eq!(
                (todo(&mut cache), cache.state_of(ip(1))),
                (vec![], Some((State::Reachable, Some(A))))
            );
            continue;
        }
        for _ in 0..3 {
            cache.advance(now, &mut users);
            assert_eq!(todo(&mut cache), [Todo::Ask(ip(1), Some(A))], "to its interface alone");
            assert_eq!(cache.state_of(ip(1)), Some((State::Probe, Some(A))));
            now = now + Duration::from_secs(1);
        }
        cache.advance(now, &mut users);
        assert_eq!(todo(&mut cache), [Todo::Unreachable(ip(1)), Todo::Set(ip(1), None)]);
    }
}

#[test]
fn one_without_connections_is_not_asked_and_the_next_frame_passes_here() {
    let mut users = Connections::default();
    let mut cache = known(State::Reachable, &mut users, false);
    cache.confirm(at(0), ip(1));
    cache.advance(at(60_000), &mut users);
    assert_eq!(todo(&mut cache), [Todo::Set(ip(1), None)]);
    assert_eq!((cache.state_of(ip(1)), cache.next_deadline()), (Some((State::Stale, Some(A))), None));
    cache.send(at(70_000), ip(1), vec![1; 60], &users);
    assert_eq!(todo(&mut cache), [Todo::Set(ip(1), Some(A)), Todo::Send(A, vec![1; 60])]);
    assert_eq!(cache.state_of(ip(1)), Some((State::Delay, Some(A))));
}

/// The table of RFC 4861, appendix C, as far as it is about messages.
#[test]
fn messages_change_what_rfc_4861_lets_them() {
    use State::{Delay, Incomplete, Probe, Reachable, Stale};
    let answered = |overrides| Message::Solicited { overrides };
    let announced = |overrides| Message::Unsolicited { overrides };
    // Doubtful is DELAY for one with a connection, and STALE for one without.
    for is_used in [true, false] {
        let doubtful = if is_used { Delay } else { Stale };
        for (state, mac, message, then) in [
            (Incomplete, Some(B), answered(false), (Reachable, B)),
            (Incomplete, Some(B), announced(false), (Delay, B)),
            (Incomplete, Some(B), Message::Solicitation, (Delay, B)),
            (Reachable, Some(B), answered(true), (Reachable, B)),
            (Reachable, Some(B), answered(false), (doubtful, A)),
            (Stale, Some(B), answered(false), (Stale, A)),
            (Probe, Some(B), announced(false), (Probe, A)),
            (Probe, Some(A), answered(false), (Reachable, A)),
            (Probe, None, answered(true), (Reachable, A)),
            (Stale, Some(A), announced(true), (Stale, A)),
            (Reachable, Some(A), announced(true), (Reachable, A)),
            (Reachable, None, announced(true), (Reachable, A)),
            (Reachable, Some(B), announced(true), (doubtful, B)),
            (Probe, Some(B), Message::Solicitation, (doubtful, B)),
            (Reachable, Some(A), Message::Solicitation, (Reachable, A)),
        ] {
            let mut users = Connections::default();
            let mut cache = known(state, &mut users, is_used);
            cache.learn(at(5), ip(1), mac, message, &users);
            let (state_then, mac_then) = then;
            assert_eq!(
                cache.state_of(ip(1)),
                Some((state_then, Some(mac_then))),
                "{state:?} {mac:?} {message:?}"
            );
            let moved = Todo::Moved { address: ip(1), from: A, to: B };
            let is_moved = todo(&mut cache).contains(&moved);
            assert_eq!(is_moved, state != Incomplete && mac_then == B, "{state:?} {mac:?} {message:?}");
        }
    }
    // An answer without an interface tells nothing of one that is asked for.
    let mut users = Connections::default();
    let mut cache = known(Incomplete, &mut users, true);
    cache.learn(at(5), ip(1), None, answered(true), &users);
    assert_eq!(cache.state_of(ip(1)), Some((Incomplete, None)));
}

#[test]
fn only_who_asks_us_is_new() {
    let (mut cache, users) = (cache(), Connections::default());
    for message in [Message::Unsolicited { overrides: true }, Message::Solicited { overrides: true }] {
        cache.learn(at(0), ip(1), Some(A), message, &users);
        assert_eq!((cache.state_of(ip(1)), todo(&mut cache)), (None, vec![]));
    }
    cache.learn(at(0), ip(1), Some(A), Message::Solicitation, &users);
    assert_eq!(cache.state_of(ip(1)), Some((State::Stale, Some(A))));
}

#[test]
fn those_with_connections_and_those_that_are_asked_for_stay() {
    let limits = Limits { neighbours: 10, resolving: 4, ..Limits::default() };
    let (mut cache, mut users) = (Cache::new(Settings::new(7), limits), Connections::default());
    users.used.insert(ip(0));
    cache.learn(at(0), ip(0), Some(A), Message::Solicitation, &users);
    cache.send(at(0), ip(1), vec![1; 60], &users);
    for number in 2..200 {
        cache.learn(at(0), ip(number), Some(A), Message::Solicitation, &users);
        assert!(cache.neighbours.len() <= 10 && cache.order.len() == cache.neighbours.len());
    }
    assert!(cache.state_of(ip(0)).is_some() && cache.state_of(ip(1)).is_some());
    assert_eq!(cache.counters.evicted, 200 - 10);
    // Frames to many of whom nothing is known: so many are asked for, and the others are counted.
    for number in 0..50 {
        cache.send(at(0), [10, 1, 0, number].into(), vec![1; 60], &users);
    }
    assert_eq!((cache.incomplete, cache.counters.not_asked), (4, 47));
}

#[derive(Debug, Clone)]
enum Step {
    Send(u8),
    Learn(u8, Option<bool>, u8),
    Pass(u32),
    Use(u8, bool),
    Progress(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u8..12).prop_map(Step::Send),
        (0u8..12, any::<Option<bool>>(), 0u8..5)
            .prop_map(|(who, mac, message)| Step::Learn(who, mac, message)),
        (0u32..20_000).prop_map(Step::Pass),
        (0u8..12, any::<bool>()).prop_map(|(who, is_used)| Step::Use(who, is_used)),
        (0u8..12).prop_map(Step::Progress),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn whatever_happens_the_books_are_right(steps in steps(), seed: u64) {
        let limits = Limits { neighbours: 6, resolving: 3, pending: 5, ..Limits::default() };
        let (mut cache, mut users) = (Cache::new(Settings::new(seed), limits), Connections::default());
        let mut now = Instant::default();
        for step in steps {
            match step {
                Step::Send(who) => cache.send(now, ip(who), vec![who; 60], &users),
                Step::Learn(who, mac, message) => {
                    let mac = mac.map(|is_a| if is_a { A } else { B });
                    let overrides = message & 1 == 1;
                    let message = match message {
                        0 | 1 => Message::Solicited { overrides },
                        2 | 3 => Message::Unsolicited { overrides },
                        _ => Message::Solicitation,
                    };
                    cache.learn(now, ip(who), mac, message, &users);
                }
                Step::Pass(millis) => {
                    now = now + Duration::from_millis(millis.into());
                    cache.advance(now, &mut users);
                    prop_assert!(cache.next_deadline().is_none_or(|at| at > now));
                }
                Step::Use(who, true) => {
                    users.used.insert(ip(who));
                }
                Step::Use(who, false) => {
                    users.used.remove(&ip(who));
                }
                Step::Progress(who) => {
                    users.progress.insert(ip(who));
                }
            }
            let all = cache.neighbours.values();
            prop_assert!(cache.neighbours.len() <= 6 && cache.incomplete <= 3 && cache.pending <= 5);
            prop_assert_eq!(cache.order.len(), cache.neighbours.len());
            prop_assert_eq!(all.clone().filter(|one| one.mac.is_none()).count(), cache.incomplete);
            prop_assert_eq!(all.clone().map(|one| one.pending.len()).sum::<usize>(), cache.pending);
            prop_assert_eq!(all.clone().filter(|one| one.until.is_some()).count(), cache.deadlines.len());
            for one in all {
                prop_assert_eq!(one.mac.is_none(), one.state == State::Incomplete);
                prop_assert!(one.pending.len() <= 3 && (one.mac.is_none() || one.pending.is_empty()));
                // No state but STALE lasts by itself.
                prop_assert_eq!(one.until.is_none(), one.state == State::Stale);
            }
            cache.todo.clear();
        }
    }
}
