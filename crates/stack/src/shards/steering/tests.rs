//! A segment has one owner, whatever comes, listens, leaves and dials.

use anywire_packet::Addresses;
use proptest::prelude::*;

use super::*;

fn flow(local: SocketAddr, remote: SocketAddr) -> Flow {
    let addresses = match (local.ip(), remote.ip()) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            Addresses::V4 { local: local.to_bits(), remote: remote.to_bits() }
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            Addresses::V6 { local: local.to_bits(), remote: remote.to_bits() }
        }
        _ => panic!("of one family"),
    };
    Flow { addresses, local_port: local.port(), remote_port: remote.port(), is_syn: true }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn of(members: std::ops::RangeInclusive<LoopNumber>) -> Steering {
    let mut steering = Steering::new(Key::new([1, 2]));
    members.for_each(|number| steering.join(number, true));
    steering
}

/// The owners of connections from many ports of a few peers.
fn owners(steering: &Steering, local: SocketAddr) -> Vec<Owner> {
    flows(local).map(|flow| steering.owner(&flow)).collect()
}

fn flows(local: SocketAddr) -> impl Iterator<Item = Flow> {
    let remotes = (1..=4_u8).flat_map(move |host| {
        (30_000..30_500_u16).map(move |port| match local {
            SocketAddr::V4(_) => SocketAddr::from(([10, 0, 0, host], port)),
            SocketAddr::V6(_) => SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, host.into()], port)),
        })
    });
    remotes.map(move |remote| flow(local, remote))
}

#[test]
fn connections_of_a_service_are_spread_over_its_loops() {
    for service in ["10.0.0.2:80", "[fd00::2]:80"].map(address) {
        let mut steering = of(1..=3);
        steering.open(service, 3);
        (1..=3).for_each(|number| assert!(steering.listen(service, number)));
        let owners = owners(&steering, service);
        for number in 1..=3 {
            let count = owners.iter().filter(|owner| **owner == Owner::Loop(number)).count();
            // 667 of 2000 on average, and less by chance once in a million times.
            assert!(count > 540, "loop {number} has {count}");
        }
    }
}

/// A peer that has whole networks of addresses and knows how they are mixed still cannot aim at one loop.
#[test]
fn addresses_that_were_chosen_for_it_are_spread_as_well() {
    let (mut steering, service) = (of(1..=3), address("[fd00::2]:80"));
    steering.open(service, 3);
    (1..=3).for_each(|number| assert!(steering.listen(service, number)));
    let known = 0x9e37_79b9_7f4a_7c15_u64;
    for mix in [|_, _| 0, u64::wrapping_mul, std::ops::BitXor::bitxor, u64::wrapping_add] {
        let remotes = (0..2000).map(|network| {
            let high = 0xfd00_0000_0000_0000 + network;
            u128::from(high) << 64 | u128::from(0x1234 ^ mix(high, known))
        });
        let owners: Vec<_> = remotes
            .map(|remote| steering.owner(&flow(service, (std::net::Ipv6Addr::from(remote), 30_000).into())))
            .collect();
        for number in 1..=3 {
            let count = owners.iter().filter(|owner| **owner == Owner::Loop(number)).count();
            assert!(count > 540, "loop {number} has {count}");
        }
    }
}

#[test]
fn frames_for_a_loop_that_has_not_begun_are_nobody_elses() {
    let (mut steering, service) = (of(1..=2), address("10.0.0.2:80"));
    steering.open(service, 2);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::NotYet));
    assert!(steering.listen(service, 1));
    let before = owners(&steering, service);
    assert!(before.contains(&Owner::NotYet) && before.contains(&Owner::Loop(1)));
    assert!(steering.listen(service, 1) && owners(&steering, service) == before, "it has its slot");
    assert!(steering.listen(service, 2));
    for (before, after) in before.into_iter().zip(owners(&steering, service)) {
        assert_eq!(after, if before == Owner::NotYet { Owner::Loop(2) } else { before });
    }
}

#[test]
fn slots_of_a_loop_that_ends_go_to_those_that_listen() {
    let (mut steering, service) = (of(1..=4), address("10.0.0.2:80"));
    steering.open(service, 3);
    assert!(steering.listen(service, 1) && steering.listen(service, 2));
    let before = owners(&steering, service);
    steering.leave(2);
    for (before, after) in before.into_iter().zip(owners(&steering, service)) {
        assert_eq!(after, if before == Owner::Loop(2) { Owner::Loop(1) } else { before });
    }
    assert!(steering.listen(service, 3), "the slot that nobody has had waits for it");
    let before = owners(&steering, service);
    steering.join(5, true);
    assert!(steering.listen(service, 4), "the service is for three, and one of them has ended");
    let with_another = owners(&steering, service);
    assert!(!steering.listen(service, 5) && owners(&steering, service) == with_another);
    for (before, after) in before.into_iter().zip(with_another) {
        assert!(
            after == before || (before, after) == (Owner::Loop(1), Owner::Loop(4)),
            "{before:?} {after:?}"
        );
    }
    steering.leave(1);
    steering.leave(4);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::Loop(3)));
    steering.leave(3);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::NotYet));
    assert!(steering.listen(service, 5));
}

/// A loop without the address would answer no frame for it.
#[test]
fn slots_at_an_address_that_is_taken_away_go_to_those_that_have_it() {
    let (mut steering, service) = (of(1..=4), address("10.0.0.2:80"));
    let elsewhere = address("10.0.0.3:80");
    for place in [service, elsewhere] {
        (1..=3).for_each(|number| steering.begin_to_answer(place.ip(), number));
        steering.open(place, 3);
        (1..=3).for_each(|number| assert!(steering.listen(place, number)));
    }
    let before = [service, elsewhere].map(|place| owners(&steering, place));
    steering.end_to_answer(service.ip(), 2);
    for (before, after) in before[0].iter().zip(owners(&steering, service)) {
        match before {
            Owner::Loop(2) => assert!(matches!(after, Owner::Loop(1 | 3)), "{after:?}"),
            other => assert_eq!(after, *other, "its connections go on"),
        }
    }
    assert_eq!(owners(&steering, elsewhere), before[1]);
    // It listens still.
    steering.begin_to_answer(service.ip(), 2);
    assert_eq!(owners(&steering, service), before[0]);
    // Another one has begun to listen in its place.
    steering.end_to_answer(service.ip(), 2);
    assert!(steering.listen(service, 4));
    let with_another = owners(&steering, service);
    steering.begin_to_answer(service.ip(), 2);
    assert_eq!(owners(&steering, service), with_another);
    (1..=4).for_each(|number| steering.end_to_answer(service.ip(), number));
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::NotYet));
    // One that does not listen gets none, nor does one of a service that is gone.
    steering.leave(1);
    steering.join(1, true);
    steering.begin_to_answer(service.ip(), 1);
    steering.close(service);
    steering.begin_to_answer(service.ip(), 3);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::Nobody));
}

/// The heir's own connections stay, and what it has inherited goes to the loop that comes in the place of the one that has ended.
#[test]
fn a_loop_that_comes_later_gets_what_others_have_inherited() {
    let (mut steering, service) = (of(1..=2), address("10.0.0.2:80"));
    steering.open(service, 2);
    assert!(steering.listen(service, 1) && steering.listen(service, 2));
    let before = owners(&steering, service);
    steering.leave(2);
    steering.join(3, true);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::Loop(1)));
    assert!(steering.listen(service, 3));
    for (before, after) in before.into_iter().zip(owners(&steering, service)) {
        assert_eq!(after, if before == Owner::Loop(2) { Owner::Loop(3) } else { before });
    }
}

/// Connections that drain keep their owner though the next service at their address has another number of loops: no more of them
/// change it than a loop more needs, and none with fewer.
#[test]
fn connections_that_drain_outlive_another_number_of_loops() {
    for (first, second, kept_min) in [(2, 3, 1240), (3, 2, 1240), (1, 4, 430), (4, 4, 2000)] {
        let (mut steering, service) = (of(1..=4), address("10.0.0.2:80"));
        steering.open(service, first);
        (1..=first as LoopNumber).for_each(|number| assert!(steering.listen(service, number)));
        let before = owners(&steering, service);
        steering.close(service);
        steering.open(service, second);
        // Segments of what drains go where they went before.
        let segments = |steering: &Steering| -> Vec<_> {
            flows(service).map(|flow| steering.owner(&Flow { is_syn: false, ..flow })).collect()
        };
        assert!(segments(&steering) == before, "{first} {second}");
        (1..=second as LoopNumber).for_each(|number| assert!(steering.listen(service, number)));
        let after = segments(&steering);
        assert!(after == owners(&steering, service), "nobody waits: {first} {second}");
        let kept = before.iter().zip(&after).filter(|(before, after)| before == after).count();
        assert!(kept >= kept_min, "{first} {second}: {kept} of 2000");
        for number in 1..=second as LoopNumber {
            let count = after.iter().filter(|owner| **owner == Owner::Loop(number)).count();
            assert!(count > 2000 / second * 4 / 5, "{first} {second}: loop {number} has {count}");
        }
    }
}

/// One that has not begun to listen anew would refuse what should wait for it.
#[test]
fn slots_of_an_earlier_service_wait_for_those_that_will_listen() {
    let (mut steering, service) = (of(1..=3), address("10.0.0.2:80"));
    steering.open(service, 2);
    assert!(steering.listen(service, 1) && steering.listen(service, 2));
    steering.close(service);
    steering.open(service, 2);
    steering.leave(1);
    assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::NotYet));
    assert!(steering.listen(service, 2) && owners(&steering, service).contains(&Owner::NotYet));
    assert!(steering.listen(service, 3) && !owners(&steering, service).contains(&Owner::NotYet));
}

/// Connections of the others stay where they are, and so do those of a service that has gone or that began anew.
#[test]
fn what_is_under_way_keeps_its_owner() {
    let (mut steering, service) = (of(1..=3), address("10.0.0.2:80"));
    steering.open(service, 3);
    (1..=3).for_each(|number| assert!(steering.listen(service, number)));
    let before = owners(&steering, service);
    steering.leave(2);
    for (before, after) in before.iter().zip(owners(&steering, service)) {
        assert_ne!(after, Owner::Loop(2));
        assert!(*before == Owner::Loop(2) || after == *before);
    }
    steering.close(service);
    assert!(!steering.is_open(service));
    let before = owners(&steering, service);
    // The same loops in another order, and one more.
    steering.join(4, true);
    steering.open(service, 3);
    assert!(steering.sorts() && owners(&steering, service).iter().all(|owner| *owner == Owner::NotYet));
    for number in [3, 4, 1] {
        assert!(steering.listen(service, number));
    }
    let kept = before.iter().zip(owners(&steering, service)).filter(|(a, b)| **a == *b).count();
    assert!(kept > 1200, "{kept} of 2000: one slot of three has a new loop");
    assert!(owners(&steering, service).contains(&Owner::Loop(4)));
}

#[test]
fn a_loop_that_has_an_address_answers() {
    let (mut steering, ip) = (of(1..=3), address("10.0.0.2:80").ip());
    assert_eq!(steering.answers(ip, 1, 0), None);
    [2, 1, 2].into_iter().for_each(|number| steering.begin_to_answer(ip, number));
    let answering = [1, 2].map(|receives| steering.answers(ip, receives, 7));
    assert_eq!(answering, [Some(1), Some(2)], "the one that receives a question, if it can");
    assert_eq!([0, 1, 2].map(|turn| steering.answers(ip, 3, turn)), [Some(2), Some(1), Some(2)]);
    steering.end_to_answer(ip, 2);
    assert_eq!([0, 1].map(|turn| steering.answers(ip, 2, turn)), [Some(1); 2]);
    steering.leave(1);
    assert_eq!(steering.answers(ip, 3, 0), None);
}

#[test]
fn a_loop_that_has_left_gets_nothing() {
    let (mut steering, service) = (of(1..=2), address("10.0.0.2:80"));
    steering.open(service, 1);
    steering.leave(2);
    assert!(!steering.listen(service, 2) && steering.give_blocks(2, 7).is_empty());
    steering.begin_to_answer(service.ip(), 2);
    assert_eq!(steering.answers(service.ip(), 1, 0), None);
    assert!(steering.listen(service, 1), "it has taken no place");
}

#[test]
fn services_are_told_apart_by_address_and_port() {
    let mut steering = of(1..=2);
    let services = ["10.0.0.2:80", "10.0.0.3:80", "10.0.0.2:81"].map(address);
    for (service, number) in services.into_iter().zip([1, 2, 2]) {
        steering.open(service, 1);
        assert!(steering.listen(service, number));
    }
    for (service, number) in services.into_iter().zip([1, 2, 2]) {
        assert!(owners(&steering, service).iter().all(|owner| *owner == Owner::Loop(number)));
    }
    assert_eq!(owners(&steering, address("10.0.0.4:80"))[0], Owner::Nobody);
}

#[test]
fn each_port_to_dial_from_has_one_loop() {
    let mut steering = of(1..=2);
    let listened = address("10.0.0.2:50000");
    steering.open(listened, 1);
    let mut given = [Vec::new(), Vec::new()];
    while let [one, two] = [1, 2].map(|number| steering.give_blocks(number, 777))
        && !(one.is_empty() && two.is_empty())
    {
        assert!(one.iter().chain(&two).all(|block| !block.ports().contains(&50_000)));
        given[0].extend(one);
        given[1].extend(two);
    }
    assert_eq!(given[0].len() + given[1].len(), PortBlock::all().len() - 1);
    assert!(given.iter().all(|blocks| blocks.len() > 100), "both have a good part");
    for (number, blocks) in given.iter().enumerate() {
        for block in blocks {
            let local = SocketAddr::new(listened.ip(), *block.ports().start() + 5);
            assert!(owners(&steering, local).iter().all(|owner| *owner == Owner::Loop(number as u16 + 1)));
        }
    }
    steering.leave(1);
    assert_eq!(
        steering.free_port(listened.ip()),
        Some(
            *given[0]
                .iter()
                .filter(|block| *block.ports().start() >= 49_152)
                .min()
                .expect("some")
                .ports()
                .start()
        )
    );
}

#[test]
fn services_that_ended_are_forgotten_in_the_end() {
    let mut steering = of(1..=1);
    for port in 1..3000 {
        let service = SocketAddr::from(([10, 0, 0, 2], port));
        steering.open(service, 1);
        assert!(steering.listen(service, 1));
        steering.close(service);
        assert!(steering.services.len() <= ENDED_MAX);
    }
    steering.leave(1);
    assert!(steering.services.is_empty());
}

proptest! {
    // Each case asks for thousands of owners.
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever happens to others, and in whatever order: a segment has one owner, which is there.
    #[test]
    fn an_owner_is_there(steps in prop::collection::vec((0..7_u8, 0..6_u16, 0..4_usize), 0..60)) {
        let (mut steering, mut last) = (of(1..=2), 2);
        let services = ["10.0.0.2:80", "10.0.0.2:50000", "10.0.0.3:80", "[fd00::2]:80"].map(address);
        for (what, which, at) in steps {
            let members: Vec<_> = steering.members().collect();
            // The last ones have left.
            let known: Vec<_> = members.iter().copied().chain([1, 2, last]).collect();
            let member = known.get(usize::from(which)).copied();
            match (what, member) {
                (0, _) => {
                    last += 1;
                    steering.join(last, which % 2 == 0);
                }
                (1, Some(member)) => steering.leave(member),
                (2, _) if !steering.is_open(services[at]) && !steering.is_dialled_from(services[at].port()) => {
                    steering.open(services[at], usize::from(which));
                }
                (3, Some(member)) => _ = steering.listen(services[at], member),
                (4, _) if steering.is_open(services[at]) => steering.close(services[at]),
                (5, Some(member)) => drop(steering.give_blocks(member, 7 * at)),
                (6, Some(member)) => steering.begin_to_answer(services[at].ip(), member),
                _ => {}
            }
            let members: Vec<_> = steering.members().collect();
            for service in services {
                let answers = steering.answers(service.ip(), 0, usize::from(which));
                prop_assert!(answers.is_none_or(|number| members.contains(&number)));
                for owner in flows(service).step_by(97).map(|flow| steering.owner(&flow)) {
                    prop_assert!(!matches!(owner, Owner::Loop(number) if !members.contains(&number)));
                }
            }
        }
    }
}
