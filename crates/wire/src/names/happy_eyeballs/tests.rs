//! RFC 8305 as a table of events and times, and any order of events by chance.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const DELAY: Duration = Duration::from_millis(250);

fn v6(last: u16) -> SocketAddr {
    SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, last], 80))
}

fn v4(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 80))
}

/// The machine, and a clock that the test moves.
struct Scene {
    machine: HappyEyeballs,
    start: Instant,
    now: Instant,
}

impl Scene {
    fn new(queries: &[Records]) -> Self {
        let start = clock::precise();
        Self { machine: HappyEyeballs::new(DELAY, queries), start, now: start }
    }

    fn answer(&mut self, records: Records, addresses: &[SocketAddr]) {
        let fresh: Vec<_> =
            addresses.iter().map(|&address| Candidate { address, is_cooling: false }).collect();
        self.machine.process_input(Input::Answer { records, addresses: &fresh }, self.now);
    }

    fn fail(&mut self) {
        self.machine.process_input(Input::Failed, self.now);
    }

    fn at(&mut self, milliseconds: u64) {
        self.now = self.start + Duration::from_millis(milliseconds);
    }

    #[track_caller]
    fn attempts(&mut self, address: SocketAddr) {
        assert_eq!(self.machine.next_output(self.now), Output::Attempt(address));
    }

    #[track_caller]
    fn waits_until(&mut self, milliseconds: u64) {
        let until = self.start + Duration::from_millis(milliseconds);
        assert_eq!(self.machine.next_output(self.now), Output::Wait(Some(until)));
    }

    #[track_caller]
    fn waits(&mut self) {
        assert_eq!(self.machine.next_output(self.now), Output::Wait(None));
    }

    #[track_caller]
    fn is_over(&mut self) {
        assert_eq!(self.machine.next_output(self.now), Output::Over);
    }
}

#[test]
fn ipv6_begins_at_once_and_ipv4_waits_for_it() {
    let mut scene = Scene::new(&[Records::V6, Records::V4]);
    scene.waits();
    scene.at(10);
    scene.answer(Records::V4, &[v4(1)]);
    scene.waits_until(60);
    scene.at(30);
    scene.answer(Records::V6, &[v6(1)]);
    scene.attempts(v6(1));
    scene.waits_until(280);
    scene.at(280);
    scene.attempts(v4(1));
    scene.waits();
}

#[test]
fn ipv4_begins_when_ipv6_is_late_or_absent() {
    let mut scene = Scene::new(&[Records::V6, Records::V4]);
    scene.answer(Records::V4, &[v4(1), v4(2)]);
    scene.at(50);
    scene.attempts(v4(1));
    scene.at(60);
    scene.answer(Records::V6, &[v6(1)]);
    scene.waits_until(300);
    scene.at(300);
    scene.attempts(v6(1));
    let mut scene = Scene::new(&[Records::V6, Records::V4]);
    scene.answer(Records::V4, &[v4(1)]);
    scene.at(1);
    scene.answer(Records::V6, &[]);
    scene.attempts(v4(1));
}

#[test]
fn families_take_turns_and_the_first_choice_stays_first() {
    let mut scene = Scene::new(&[Records::Any]);
    scene.answer(Records::Any, &[v4(1), v4(2), v4(3), v6(1), v6(2)]);
    for address in [v4(1), v6(1), v4(2), v6(2), v4(3)] {
        scene.attempts(address);
        scene.fail();
    }
    scene.is_over();
}

#[test]
fn a_failure_brings_the_next_address_at_once() {
    let mut scene = Scene::new(&[Records::Any]);
    scene.answer(Records::Any, &[v6(1), v6(2)]);
    scene.attempts(v6(1));
    scene.at(5);
    scene.fail();
    scene.attempts(v6(2));
    scene.waits();
    scene.fail();
    scene.is_over();
}

#[test]
fn what_has_failed_lately_is_tried_last() {
    let mut scene = Scene::new(&[Records::Any]);
    let candidate = |(address, is_cooling)| Candidate { address, is_cooling };
    let addresses = [(v6(1), true), (v4(1), false), (v4(2), false)].map(candidate);
    scene.machine.process_input(Input::Answer { records: Records::Any, addresses: &addresses }, scene.now);
    for address in [v4(1), v4(2), v6(1)] {
        scene.attempts(address);
        scene.fail();
    }
    scene.is_over();
}

#[test]
fn a_late_answer_is_waited_for_when_all_else_has_failed() {
    let mut scene = Scene::new(&[Records::V6, Records::V4]);
    scene.answer(Records::V6, &[v6(1)]);
    scene.attempts(v6(1));
    scene.fail();
    scene.waits();
    scene.at(900);
    scene.answer(Records::V4, &[v4(1)]);
    scene.attempts(v4(1));
}

/// How an attempt ends, and after how many milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Connects(u64),
    Fails(u64),
    Silent,
}

#[derive(Debug, Clone)]
struct Given {
    is_v6: bool,
    is_cooling: bool,
    end: End,
}

fn given() -> impl Strategy<Value = Given> {
    let end = prop_oneof![
        (0..600_u64).prop_map(End::Connects),
        (0..600_u64).prop_map(End::Fails),
        Just(End::Silent)
    ];
    (any::<bool>(), prop::bool::weighted(0.2), end).prop_map(|(is_v6, is_cooling, end)| Given {
        is_v6,
        is_cooling,
        end,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Answer(usize),
    Ends(usize),
}

proptest! {
    /// Whatever comes in whatever order: each address is tried once, in turn, with its head start, and none is forgotten.
    #[test]
    fn each_address_has_its_turn(
        all in vec(given(), 0..12),
        times in [0..400_u64, 0..400],
        together: bool,
    ) {
        let queries: &[Records] = if together { &[Records::Any] } else { &[Records::V6, Records::V4] };
        let addresses: Vec<SocketAddr> = all
            .iter()
            .enumerate()
            .map(|(at, given)| if given.is_v6 { v6(at as u16) } else { v4(at as u8) })
            .collect();
        let mut scene = Scene::new(queries);
        let mut agenda: BTreeMap<(u64, Happens), ()> = BTreeMap::new();
        for (at, _) in queries.iter().enumerate() {
            agenda.insert((times[at], Happens::Answer(at)), ());
        }
        let (mut now, mut last_attempt, mut tried, mut known) = (0, None::<u64>, Vec::new(), Vec::new());
        let (mut failed_since, mut connected, mut v6_answered) = (false, false, together);
        let mut first_answer = None;
        'run: loop {
            scene.at(now);
            let until = loop {
                match scene.machine.next_output(scene.now) {
                    Output::Attempt(address) => {
                        let at = addresses.iter().position(|one| *one == address).expect("one of them");
                        prop_assert!(known.contains(&at) && !tried.contains(&at));
                        if let Some(last) = last_attempt {
                            prop_assert!(failed_since || now >= last + 250, "the head start is kept");
                        } else if !v6_answered {
                            prop_assert!(now >= first_answer.expect("there was one") + 50);
                        }
                        let fresh_left = |is_v6| known.iter().any(|one: &usize| {
                            !tried.contains(one) && !all[*one].is_cooling && all[*one].is_v6 == is_v6
                        });
                        if all[at].is_cooling {
                            prop_assert!(!fresh_left(true) && !fresh_left(false), "those that failed are last");
                        } else if let Some(before) = tried.iter().rev().find(|one: &&usize| !all[**one].is_cooling)
                            && all[*before].is_v6 == all[at].is_v6
                        {
                            prop_assert!(!fresh_left(!all[at].is_v6), "the families take turns");
                        }
                        tried.push(at);
                        (last_attempt, failed_since) = (Some(now), false);
                        match all[at].end {
                            End::Connects(after) | End::Fails(after) => {
                                agenda.insert((now + after, Happens::Ends(at)), ());
                            }
                            End::Silent => {}
                        }
                    }
                    Output::Wait(until) => break until,
                    Output::Over => break 'run,
                }
            };
            let until = until.map(|until| until.duration_since(scene.start).as_millis() as u64);
            prop_assert!(until.is_none_or(|until| until > now), "no busy wait");
            let next = agenda.first_key_value().map(|(key, ())| *key);
            match (next, until) {
                (Some((at, _)), Some(until)) if until < at => now = until,
                (Some((at, Happens::Answer(query))), _) => {
                    agenda.pop_first();
                    now = at;
                    scene.at(now);
                    let fits = |given: &Given| together || given.is_v6 == (query == 0);
                    let those: Vec<usize> = (0..all.len()).filter(|at| fits(&all[*at])).collect();
                    let candidates: Vec<_> = those
                        .iter()
                        .map(|at| Candidate { address: addresses[*at], is_cooling: all[*at].is_cooling })
                        .collect();
                    if !candidates.is_empty() {
                        first_answer.get_or_insert(now);
                    }
                    v6_answered |= query == 0;
                    known.extend(those);
                    let input = Input::Answer { records: queries[query], addresses: &candidates };
                    scene.machine.process_input(input, scene.now);
                }
                (Some((at, Happens::Ends(attempt))), _) => {
                    agenda.pop_first();
                    now = at;
                    if matches!(all[attempt].end, End::Connects(_)) {
                        connected = true;
                        break 'run;
                    }
                    scene.at(now);
                    failed_since = true;
                    scene.fail();
                }
                (None, Some(until)) => now = until,
                // Only silent attempts are left.
                (None, None) => break 'run,
            }
        }
        if !connected {
            prop_assert_eq!(tried.len(), all.len(), "none is forgotten");
            prop_assert!(all.iter().all(|given| !matches!(given.end, End::Connects(_))));
        }
    }
}
