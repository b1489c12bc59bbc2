//! Which groups the host listens to, told to routers and to switches that watch for it (MLD: RFC 3810, and RFC 2710 beside routers that know
//! no other): the groups by which neighbours ask for our addresses.
//!
//! A switch that sends a group only to its listeners would else bring us no neighbour solicitations. All reports name all sources, and
//! an answer names all groups, whichever the query asked for: so one answer is pending at most, whatever comes.

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use anywire_packet::mld::{Listening, Query, Version, reports};
use anywire_packet::ndp::solicited_node;
use anywire_tcp::Instant;
use fastrand::Rng;

use super::layer::Layer;

/// The groups, and what is to be said of them.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// When a change is told, or told once more.
    change_due: Option<Instant>,
    /// When queries are answered.
    answer_due: Option<Instant>,
    answered: Option<Instant>,
    /// A router that knows the first version alone was heard of, and counts as present until then (RFC 3810 8.2.1).
    v1_until: Option<Instant>,
}

#[derive(Debug)]
struct Group {
    address: Ipv6Addr,
    /// Or it was left, which is still to be told.
    is_joined: bool,
    /// How often the last change is still to be told.
    untold: u8,
}

/// What the host says of each group.
type Records = Vec<(Listening, Ipv6Addr)>;

impl Groups {
    /// Listens to a group. Does nothing if it does already.
    pub(super) fn join(&mut self, now: Instant, address: Ipv6Addr) {
        match self.groups.iter_mut().find(|group| group.address == address) {
            Some(group) if group.is_joined => return,
            Some(group) => (group.is_joined, group.untold) = (true, ROBUSTNESS),
            None => self.groups.push(Group { address, is_joined: true, untold: ROBUSTNESS }),
        }
        self.change_due = Some(now);
    }

    /// Listens to a group no more.
    pub(super) fn leave(&mut self, address: Ipv6Addr) {
        let joined = self.groups.iter_mut().find(|group| group.address == address && group.is_joined);
        if let Some(group) = joined {
            (group.is_joined, group.untold) = (false, ROBUSTNESS);
            // At once.
            self.change_due = Some(Instant::default());
        }
    }

    /// The link may lead to other switches than before: tells them all groups.
    pub(super) fn tell_again(&mut self, now: Instant) {
        for group in self.groups.iter_mut().filter(|group| group.is_joined) {
            group.untold = ROBUSTNESS;
            self.change_due = Some(now);
        }
    }

    /// Answers a query within the time that it gives (RFC 3810 6.2), if it asks for a group of ours.
    pub(super) fn on_query(&mut self, now: Instant, query: &Query, random: &mut Rng) {
        if query.version == Version::V1 {
            self.v1_until = Some(now + OLDER_VERSION_TIMEOUT);
        }
        let mut joined = self.groups.iter().filter(|group| group.is_joined);
        if !joined.any(|group| query.group.is_none_or(|asked| asked == group.address)) {
            return;
        }
        let due = now + query.response_max.mul_f64(random.f64());
        // Whoever asks without a pause gets no more than so many answers.
        let due = self.answered.map_or(due, |answered| due.max(answered + ANSWER_INTERVAL_MIN));
        self.answer_due = Some(self.answer_due.map_or(due, |pending| pending.min(due)));
    }

    /// What is to be said now, if anything is.
    pub(super) fn take_due(&mut self, now: Instant, random: &mut Rng) -> Records {
        let mut records = Records::new();
        if self.change_due.is_some_and(|due| due <= now) {
            for group in self.groups.iter_mut().filter(|group| group.untold > 0) {
                group.untold -= 1;
                let change = if group.is_joined { Listening::Begins } else { Listening::Ends };
                records.push((change, group.address));
            }
            self.groups.retain(|group| group.is_joined || group.untold > 0);
            let has_more = self.groups.iter().any(|group| group.untold > 0);
            let wait = UNSOLICITED_REPORT_INTERVAL.mul_f64(random.f64());
            self.change_due = has_more.then(|| now + wait.max(ANSWER_INTERVAL_MIN));
        }
        if self.answer_due.is_some_and(|due| due <= now) {
            (self.answer_due, self.answered) = (None, Some(now));
            for group in self.groups.iter().filter(|group| group.is_joined) {
                if records.iter().all(|(_, told)| *told != group.address) {
                    records.push((Listening::Still, group.address));
                }
            }
        }
        records
    }

    /// The version that routers on the link understand.
    pub(super) fn version(&self, now: Instant) -> Version {
        if self.v1_until.is_some_and(|until| now < until) { Version::V1 } else { Version::V2 }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.change_due.into_iter().chain(self.answer_due).min()
    }
}

impl Layer {
    /// Listens to the group of an address.
    pub(super) fn join_group(&mut self, now: Instant, address: IpAddr) {
        if let Some(group) = group_of(address) {
            self.reported.join(now, group);
            self.report_groups(now);
        }
    }

    /// The group of an address is left with the address, unless another one has the same.
    pub(super) fn leave_group(&mut self, address: IpAddr) {
        if let Some(group) = group_of(address)
            && self.addresses.iter().all(|known| group_of(known.ip) != Some(group))
        {
            self.reported.leave(group);
        }
    }

    /// Takes in what is neither of the neighbours nor for a program: a router may ask for groups.
    pub(super) fn on_multicast_query(&mut self, now: Instant, packet: &[u8]) {
        match Query::parse(packet) {
            Ok(Some(query)) => {
                self.counters.group_queries += 1;
                self.reported.on_query(now, &query, &mut self.random);
            }
            Ok(None) => self.counters.ignored += 1,
            Err(_) => self.refuse(),
        }
    }

    /// Says what is due of the groups (RFC 3810 5.2).
    pub(super) fn report_groups(&mut self, now: Instant) {
        let records = self.reported.take_due(now, &mut self.random);
        if records.is_empty() {
            return;
        }
        let of_link =
            self.addresses.iter().filter(|address| address.is_ours()).find_map(|address| match address.ip {
                IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(ip),
                _ => None,
            });
        let source = of_link.unwrap_or(Ipv6Addr::UNSPECIFIED);
        for frame in reports(self.reported.version(now), self.mac, source, &records) {
            self.counters.group_reports += 1;
            self.push(frame);
        }
    }
}

/// By which neighbours ask for an address.
fn group_of(address: IpAddr) -> Option<Ipv6Addr> {
    match address {
        IpAddr::V6(ip) => Some(solicited_node(ip)),
        IpAddr::V4(_) => None,
    }
}

// RFC 3810 9.1 and 9.11.
const ROBUSTNESS: u8 = 2;
const UNSOLICITED_REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// RFC 3810 9.12: twice the query interval of 125 s, and 10 s for the response.
const OLDER_VERSION_TIMEOUT: Duration = Duration::from_secs(260);
/// The least time between two answers.
const ANSWER_INTERVAL_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    fn group(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, number)
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1000)
    }

    fn query(asked: Option<u16>, millis: u64, version: Version) -> Query {
        Query { group: asked.map(group), response_max: Duration::from_millis(millis), version }
    }

    /// All that is said until nothing is due any more, with its times.
    fn run(groups: &mut Groups, random: &mut Rng) -> Vec<(Instant, Records)> {
        let mut all = Vec::new();
        while let Some(due) = groups.next_deadline() {
            all.push((due, groups.take_due(due, random)));
            assert!(all.len() < 20, "it never ends: {all:?}");
        }
        all
    }

    #[test]
    fn a_change_is_told_twice_within_a_second() {
        for seed in 0..100 {
            let (mut groups, mut random) = (Groups::default(), Rng::with_seed(seed));
            groups.join(at(5), group(1));
            groups.join(at(5), group(1));
            let told = run(&mut groups, &mut random);
            let join = vec![(Listening::Begins, group(1))];
            assert_eq!(told.iter().map(|(_, records)| records).collect::<Vec<_>>(), [&join, &join]);
            assert!(told[0].0 == at(5) && told[1].0 <= at(1005), "seed {seed}: {told:?}");
            groups.leave(group(1));
            groups.leave(group(1));
            groups.leave(group(2));
            let told = run(&mut groups, &mut random);
            let leave = vec![(Listening::Ends, group(1))];
            assert_eq!(told.iter().map(|(_, records)| records).collect::<Vec<_>>(), [&leave, &leave]);
            assert!(groups.groups.is_empty());
        }
    }

    #[test]
    fn a_router_of_the_first_version_is_remembered_for_260_seconds() {
        let (mut groups, mut random) = (Groups::default(), Rng::with_seed(1));
        assert_eq!(groups.version(at(0)), Version::V2);
        groups.on_query(at(0), &query(None, 0, Version::V1), &mut random);
        groups.on_query(at(1), &query(None, 0, Version::V2), &mut random);
        assert_eq!((groups.version(at(259_999)), groups.version(at(260_000))), (Version::V1, Version::V2));
        assert_eq!(groups.next_deadline(), None, "there is no group");
    }

    proptest! {
        /// Each query for a group of ours is answered in time, by at most ten answers a second, and none for others.
        #[test]
        fn queries_are_answered_in_time_whatever_comes(
            seed: u64,
            queries in prop::collection::vec((0_u64..300, prop::option::of(0_u16..3), 0_u64..20_000, any::<bool>()), 1..100),
        ) {
            let (mut groups, mut random) = (Groups::default(), Rng::with_seed(seed));
            (0..2).for_each(|number| groups.join(at(0), group(number)));
            run(&mut groups, &mut random);
            let mut now = at(10_000);
            let mut answers = Vec::new();
            let mut awaited: Vec<Instant> = Vec::new();
            for (pause, asked, within, v1) in queries {
                let next = now + Duration::from_millis(pause);
                while let Some(due) = groups.next_deadline().filter(|due| *due <= next) {
                    prop_assert!(due >= now, "it was due before");
                    prop_assert_eq!(groups.take_due(due, &mut random).len(), 2);
                    prop_assert!(groups.next_deadline().is_none(), "one answer at a time");
                    prop_assert!(awaited.iter().all(|by| due <= *by), "too late: {:?} of {:?}", due, awaited);
                    awaited.clear();
                    answers.push(due);
                    now = due;
                }
                now = next;
                groups.on_query(now, &query(asked, within, if v1 { Version::V1 } else { Version::V2 }), &mut random);
                if asked.is_none_or(|asked| asked < 2) {
                    awaited.push(now + Duration::from_millis(within).max(ANSWER_INTERVAL_MIN));
                }
                prop_assert_eq!(groups.next_deadline().is_some(), !awaited.is_empty());
            }
            prop_assert!(answers.windows(2).all(|pair| pair[1].since(pair[0]) >= ANSWER_INTERVAL_MIN), "{:?}", answers);
        }
    }
}
