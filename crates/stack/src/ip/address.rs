//! One address of the host: probed (RFC 5227 2.1, RFC 4862 5.4), used and announced if no other host answers, then defended
//! (RFC 5227 2.4).

use std::net::IpAddr;
use std::time::Duration;

use anywire_tcp::Instant;
use fastrand::Rng;

use super::settings::Probing;

/// An address of ours.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) ip: IpAddr,
    stage: Stage,
    /// When something is to be done for it next.
    pub(super) due: Option<Instant>,
    /// When somebody else was seen with it, and we have said that it is ours.
    defended: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// So many probes are to be sent, and then answers are waited for.
    Probing(u8),
    /// The last probe waits for an answer.
    Waiting,
    /// It is ours, and so many announcements are left.
    Ours(u8),
    /// It is ours, and another layer, on another loop, announces and defends it. False until it is used.
    Followed(bool),
}

/// What is due for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Ask whether somebody else has it.
    Probe,
    /// It is ours: use it, and tell everybody.
    Use,
    /// Tell everybody once more.
    Announce,
    /// It is ours: use it, and leave it to another layer to say so.
    Follow,
}

/// What follows from an address conflict (RFC 5227 section 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    /// It is not ours yet, and will not be.
    Lost,
    /// It is ours: say so.
    Defend,
    /// It was said a moment ago.
    Known,
}

impl Address {
    /// An address to be probed from now on.
    pub(super) fn new(now: Instant, ip: IpAddr, probing: &Probing, random: &mut Rng) -> Self {
        let wait = if probing.probes == 0 { Duration::ZERO } else { probing.wait_max.mul_f64(random.f64()) };
        let stage = if probing.probes == 0 { Stage::Waiting } else { Stage::Probing(probing.probes) };
        Self { ip, stage, due: Some(now + wait), defended: None }
    }

    /// An address that another layer has probed, and announces and defends.
    pub(super) const fn followed(now: Instant, ip: IpAddr) -> Self {
        Self { ip, stage: Stage::Followed(false), due: Some(now), defended: None }
    }

    /// The layer that has led it is gone: this one announces and defends it from now on.
    pub(super) fn lead(&mut self, now: Instant) {
        if let Stage::Followed(true) = self.stage {
            self.stage = Stage::Ours(ANNOUNCEMENTS);
            self.announce_again(now);
        }
    }

    /// It is announced anew, if this layer leads it.
    pub(super) fn announce_again(&mut self, now: Instant) {
        if let Stage::Ours(_) = self.stage {
            self.stage = Stage::Ours(ANNOUNCEMENTS);
            self.due = Some(now);
        }
    }

    /// Whether it is ours.
    pub(super) const fn is_ours(&self) -> bool {
        matches!(self.stage, Stage::Ours(_) | Stage::Followed(true))
    }

    /// What is due at `now`, if anything is; the next thing gets its time.
    pub(super) fn take_due(&mut self, now: Instant, probing: &Probing, random: &mut Rng) -> Option<Due> {
        self.due.filter(|due| *due <= now)?;
        let (stage, wait, due) = match self.stage {
            Stage::Probing(1) => (Stage::Waiting, Some(probing.answer_wait), Due::Probe),
            Stage::Probing(left) => {
                let spread = probing.interval_max.saturating_sub(probing.interval_min);
                let wait = probing.interval_min + spread.mul_f64(random.f64());
                (Stage::Probing(left.saturating_sub(1)), Some(wait), Due::Probe)
            }
            Stage::Waiting => (Stage::Ours(ANNOUNCEMENTS - 1), Some(ANNOUNCE_INTERVAL), Due::Use),
            Stage::Ours(0) => (Stage::Ours(0), None, Due::Announce),
            Stage::Ours(left) => {
                let wait = (left > 1).then_some(ANNOUNCE_INTERVAL);
                (Stage::Ours(left - 1), wait, Due::Announce)
            }
            Stage::Followed(_) => (Stage::Followed(true), None, Due::Follow),
        };
        self.stage = stage;
        self.due = wait.map(|wait| now + wait);
        Some(due)
    }

    /// Somebody else has it.
    pub(super) fn conflict(&mut self, now: Instant) -> Conflict {
        match self.stage {
            Stage::Ours(_) => {}
            // The other layer defends it.
            Stage::Followed(_) => return Conflict::Known,
            Stage::Probing(_) | Stage::Waiting => return Conflict::Lost,
        }
        if self.defended.is_some_and(|at| now.since(at) < DEFEND_INTERVAL) {
            return Conflict::Known;
        }
        self.defended = Some(now);
        Conflict::Defend
    }
}

/// RFC 5227 1.1.
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn run(probing: &Probing, seed: u64) -> Vec<(u128, Due)> {
        let mut random = Rng::with_seed(seed);
        let mut address = Address::new(Instant::default(), [10, 0, 0, 1].into(), probing, &mut random);
        let mut all = Vec::new();
        while let Some(now) = address.due {
            let due = address.take_due(now, probing, &mut random).expect("it is due");
            all.push((now.since(Instant::default()).as_millis(), due));
            assert!(all.len() < 20, "it never ends: {all:?}");
        }
        all
    }

    #[test]
    fn it_is_probed_for_as_long_as_rfc_5227_asks() {
        for seed in 0..100 {
            let all = run(&Probing::RFC_5227, seed);
            let what: Vec<_> = all.iter().map(|(_, due)| *due).collect();
            assert_eq!(what, [Due::Probe, Due::Probe, Due::Probe, Due::Use, Due::Announce], "seed {seed}");
            let at: Vec<_> = all.iter().map(|(at, _)| *at).collect();
            assert!(at[0] <= 1000 && (1000..=2000).contains(&(at[1] - at[0])), "seed {seed}: {at:?}");
            assert!((1000..=2000).contains(&(at[2] - at[1])) && at[3] - at[2] == 2000, "seed {seed}: {at:?}");
        }
        assert_eq!(run(&Probing::OFF, 1), [(0, Due::Use), (2000, Due::Announce)]);
    }

    #[test]
    fn one_that_is_followed_is_used_in_silence_until_it_is_led() {
        let mut random = Rng::with_seed(1);
        let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
        let mut address = Address::followed(at(1), [10, 0, 0, 1].into());
        address.lead(at(1));
        assert!(!address.is_ours(), "it is not used yet");
        assert_eq!(address.take_due(at(1), &Probing::RFC_5227, &mut random), Some(Due::Follow));
        assert_eq!((address.is_ours(), address.due), (true, None));
        assert_eq!(address.conflict(at(2)), Conflict::Known);
        address.lead(at(3));
        assert!(address.is_ours());
        let mut announced = 0;
        while let Some(due) = address.due {
            assert_eq!(address.take_due(due, &Probing::RFC_5227, &mut random), Some(Due::Announce));
            announced += 1;
        }
        assert_eq!((announced, address.conflict(at(9))), (2, Conflict::Defend));
    }

    #[test]
    fn it_is_lost_before_it_is_ours_and_defended_every_ten_seconds_afterwards() {
        let mut random = Rng::with_seed(1);
        let at = |seconds: u64| Instant::from_micros(seconds * 1_000_000);
        let mut address = Address::new(at(0), [10, 0, 0, 1].into(), &Probing::RFC_5227, &mut random);
        assert_eq!(address.conflict(at(0)), Conflict::Lost);
        while !address.is_ours() {
            address.take_due(at(100), &Probing::RFC_5227, &mut random);
            address.due = Some(at(100));
        }
        assert_eq!(
            [100, 101, 109, 110, 111].map(|second| address.conflict(at(second))),
            [Conflict::Defend, Conflict::Known, Conflict::Known, Conflict::Defend, Conflict::Known]
        );
    }
}
