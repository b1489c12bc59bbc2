//! Sockstress: peers open connections honestly and then hold them and the data queued for them, at no cost of their own.
//! Ten minutes of all its forms, beside honest peers.

use std::collections::HashMap;
use std::time::Duration;

use anywire_tcp::{ConnId, ConnectOptions, Events};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::random::Random;
use crate::common::wire::{ACK, FIN, RST, SYN, Segment};

/// What a request is answered with.
const ANSWER: usize = 4096;
const REQUEST: usize = 16;
/// The service gives up on a connection that has asked nothing for so long.
const IDLE: Duration = Duration::from_secs(30);
const STEP_MILLIS: u64 = 250;

/// The forms of the attack, by the names of the original tool.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A handshake with a window of zero, and nothing more.
    ZeroWindow,
    /// A request, and a window of four bytes.
    SmallWindow,
    /// A request, a window of zero, and data behind a gap.
    SegmentHoles,
    /// A request, a window of zero, and a FIN.
    RequestFinPause,
    /// A request, three duplicate ACKs, and then nothing.
    RenoPressure,
}

const FORMS: [Form; 5] =
    [Form::ZeroWindow, Form::SmallWindow, Form::SegmentHoles, Form::RequestFinPause, Form::RenoPressure];

/// The service: it answers requests, and lets go of who is idle.
struct Service {
    host: Host,
    owed: HashMap<ConnId, usize>,
}

impl Service {
    fn new(predicts: bool) -> Self {
        let (mut settings, mut limits) = (settings(), small_limits());
        settings.predicts = predicts;
        (limits.connections, limits.extensions, limits.segment_bytes) = (2048, 2048, 1 << 20);
        let mut host = Host::with(settings, limits);
        host.engine.listen(Peer::new().there, ConnectOptions::default()).unwrap();
        Self { host, owed: HashMap::new() }
    }

    /// Takes segments in, runs the service, and gives the segments it sends.
    fn exchange(&mut self, segments: &[Segment]) -> Vec<Segment> {
        let mut sent = Vec::new();
        for batch in segments.chunks(16) {
            self.host.give(batch);
            self.act();
            sent.extend(self.host.sent());
        }
        self.act();
        sent.extend(self.host.sent());
        sent
    }

    fn act(&mut self) {
        for (id, events) in self.host.news() {
            if events.has(Events::INCOMING) {
                self.owed.insert(id, 0);
            }
            let Some(owed) = self.owed.get_mut(&id) else { continue };
            let bytes = self.host.read(id).len();
            *owed += bytes / REQUEST * ANSWER;
            if bytes > 0 || events.has(Events::INCOMING) {
                self.host.engine.set_idle_deadline(id, Some(self.host.now + IDLE));
            }
            while *owed > 0 {
                let taken = self.host.engine.send(id, &[0x61; ANSWER][..(*owed).min(ANSWER)]);
                *owed -= taken;
                if taken == 0 {
                    break;
                }
            }
            if events.has(Events::DEADLINE) {
                self.host.engine.abort(id);
                self.owed.remove(&id);
            } else if events.has(Events::CLOSED) || self.host.engine.is_finished(id) && *owed == 0 {
                self.host.engine.close(id);
                self.owed.remove(&id);
            }
        }
    }
}

/// The other ends, by their ports.
#[derive(Default)]
struct World {
    attackers: HashMap<u16, (Peer, Form)>,
    /// With the bytes of an answer that they still wait for.
    honest: HashMap<u16, (Peer, usize)>,
    answers: u64,
}

impl World {
    /// The peers' answers to the segments sent to them.
    fn replies(&mut self, sent: &[Segment]) -> Vec<Segment> {
        let mut replies = Vec::new();
        for segment in sent {
            let port = segment.to.port();
            if segment.is(RST) {
                self.attackers.remove(&port);
                self.honest.remove(&port);
            } else if let Some((peer, waiting)) = self.honest.get_mut(&port) {
                peer.heard(segment);
                peer.seq = peer.seq.wrapping_add(u32::from(segment.is(SYN)));
                *waiting = waiting.saturating_sub(segment.payload.len());
                self.answers += u64::from(*waiting == 0 && !segment.payload.is_empty());
                if segment.len() > 0 {
                    replies.push(peer.acks());
                }
            } else if let Some((peer, form)) = self.attackers.get_mut(&port) {
                replies.extend(attack(peer, *form, segment));
            }
        }
        replies
    }
}

/// What an attacker says to a segment.
fn attack(peer: &mut Peer, form: Form, segment: &Segment) -> Vec<Segment> {
    if !segment.is(SYN) {
        // It answers probes and so does not look dead, but acknowledges nothing.
        return if form == Form::RenoPressure { vec![] } else { vec![peer.acks()] };
    }
    peer.heard(segment);
    peer.seq = peer.seq.wrapping_add(1);
    peer.window = match form {
        Form::SmallWindow => 4,
        Form::RenoPressure => 65_535,
        _ => 0,
    };
    let mut all = vec![peer.segment(ACK)];
    if form != Form::ZeroWindow {
        all.push(peer.data(&[1; REQUEST]));
    }
    match form {
        Form::SegmentHoles => all.extend([1, 3, 5].map(|gap| peer.data_at(gap * 100, &[2; 50]))),
        Form::RequestFinPause => all.push(peer.segment(FIN | ACK)),
        Form::RenoPressure => all.extend([peer.acks(), peer.acks(), peer.acks()]),
        _ => {}
    }
    all
}

/// Answers that ten honest peers get in ten minutes beside so many new attackers a step.
fn answers_beside(attackers_a_step: u16, predicts: bool) -> (u64, impl PartialEq + std::fmt::Debug) {
    let (mut service, mut world, mut random) = (Service::new(predicts), World::default(), Random::new(1));
    let mut ports = (2000_u16..=65_000).cycle();
    for step in 0..600_000 / STEP_MILLIS {
        let mut coming = Vec::new();
        for _ in 0..attackers_a_step {
            let port = ports.next().expect("it never ends");
            let peer = Peer::new().port(port);
            coming.push(peer.syn());
            world.attackers.insert(port, (peer, random.pick(&FORMS)));
        }
        for number in 0..10_u16 {
            // One that was reset, or is never answered, comes again from the same port.
            let (peer, waiting) = world.honest.entry(1000 + number).or_insert_with(|| {
                let peer = Peer { seq: step as u32 * 100_000, ..Peer::new().port(1000 + number) };
                coming.push(peer.syn());
                (peer, 0)
            });
            if peer.ack != 0 && *waiting == 0 {
                coming.push(peer.data(&[1; REQUEST]));
                *waiting = ANSWER;
            }
        }
        let mut rounds = 0;
        while !coming.is_empty() && rounds < 20 {
            let sent = service.exchange(&coming);
            coming = world.replies(&sent);
            rounds += 1;
        }
        // Runs the deadlines step by step, and collects the segments sent meanwhile.
        let sent: Vec<_> =
            service.host.wait_millis(STEP_MILLIS).into_iter().map(|(_, segment)| segment).collect();
        let replies = world.replies(&sent);
        let sent = service.exchange(&replies);
        service.exchange(&world.replies(&sent));
        for (peer, _) in world.honest.values_mut() {
            peer.later(STEP_MILLIS as u32);
        }
    }
    assert!(service.host.engine.memory().segments_in_use <= 5 << 18, "the pool's limit, and a quarter");
    (world.answers, service.host.outcome())
}

#[test]
fn ten_minutes_of_every_form() {
    let (alone, _) = answers_beside(0, true);
    assert!(alone >= 10 * 2300, "one answer a step: {alone}");
    let [predicted, general] = [true, false].map(|predicts| answers_beside(5, predicts));
    assert_eq!(predicted, general);
    let (beside, _) = predicted;
    assert!(beside * 10 >= alone * 8, "{beside} of {alone} answers");
}
