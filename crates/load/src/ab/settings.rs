//! Which two servers, and how they are loaded.

use std::fmt;
use std::io;
use std::time::Duration;

use anywire_wire::Address;
#[cfg(feature = "tls")]
use anywire_wire::tls::ClientTls;

use crate::compare::CandidateError;
use crate::contrast::Noise;
use crate::errors::LoadError;
use crate::handles::Handles;
use crate::plan::Plan;
use crate::stop::Stop;

/// One of the two servers.
pub struct Side {
    /// What it is called in the result.
    pub name: String,
    /// The URL to load.
    pub url: String,
    /// The address that is dialled instead of the URL's host and port (`None`: those).
    pub via: Option<Address>,
    /// Whom to trust on a wire with TLS (`None`: whom the platform trusts).
    #[cfg(feature = "tls")]
    pub tls: Option<ClientTls>,
    /// The name that the server has to prove over TLS (`None`: the host of the URL).
    pub server_name: Option<String>,
    /// Tells the number of its process on this machine, anew in each round (`None`: its CPU time is unknown).
    pub process: Option<Box<dyn Fn() -> io::Result<i32>>>,
    /// Starts it anew before each round (`None`: it runs on).
    pub restart: Option<Restart>,
}

/// Starts a server anew, and returns when it takes connections. Its error ends the comparison, and the rounds before it stay.
pub type Restart = Box<dyn Fn() -> Result<(), CandidateError>>;

impl Side {
    /// A server that runs on, at this URL.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            via: None,
            #[cfg(feature = "tls")]
            tls: None,
            server_name: None,
            process: None,
            restart: None,
        }
    }

    /// What a load of it needs beside its plan; `stop` ends it early.
    pub(super) fn handles(&self, stop: &Stop) -> Handles {
        Handles {
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
            stop: stop.clone(),
            ..Handles::default()
        }
    }
}

impl fmt::Debug for Side {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Side")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// How both sides are loaded.
#[derive(Debug, Clone)]
pub struct Options {
    /// The load of either side. The side gives its URL, address and server name, and these options its length. The warm-up is
    /// for the first turn of a side in each round; each later turn begins with a tenth of its length as warm-up. With a schedule,
    /// whose rate must be constant, both sides are loaded at that rate, and latencies count from when a request should have left. Its random
    /// gaps are drawn by the seed below: the same for both sides, and others in each turn.
    pub plan: Plan,
    /// Rounds (10; five are the fewest that can show anything).
    pub rounds: usize,
    /// How long each side is measured in each round (2 s).
    pub duration: Duration,
    /// How long a side is loaded until it is the other's turn (`None`: 0.2 s, but so long that a schedule has 100 requests in
    /// it, and that a run opens at most 10,000 connections to a side, because this machine has ports for few more in a minute).
    pub turn: Option<Duration>,
    /// The seed of the order of the turns and of the resamples (`None`: a random one); the result names it.
    pub seed: Option<u32>,
    /// Up to which deviation a difference does not count (2 %).
    pub noise: Noise,
    /// The handle that ends it early.
    pub stop: Stop,
}

impl Options {
    /// Whether it can be measured so; the plan is checked with its first turn.
    ///
    /// # Errors
    ///
    /// A round is longer than the plan's limits allow.
    pub fn check(&self) -> Result<(), LoadError> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (asked, most) = (ms(self.duration), ms(self.plan.limits.time));
        if asked <= most {
            return Ok(());
        }
        Err(LoadError::Limit { what: "ms of duration", asked, least: 1, most })
    }

    /// How many turns each side has in a round, all of the same length.
    pub fn turns(&self) -> usize {
        let turn = self.turn.unwrap_or_else(|| self.usual_turn());
        let asked = (self.duration.as_secs_f64() / turn.as_secs_f64().max(1e-3)).round() as usize;
        let asked = asked.clamp(1, TURNS_MAX);
        if self.turn.is_some() {
            return asked;
        }
        asked.min((CONNECTIONS_OPENED_MAX / (self.plan.connections * self.rounds).max(1)).max(1))
    }

    /// The default length of a turn, before it is made longer to spare ports.
    fn usual_turn(&self) -> Duration {
        let Some(schedule) = &self.plan.schedule else { return TURN };
        let enough = REQUESTS_OF_TURN / schedule.shape.mean();
        TURN.max(Duration::try_from_secs_f64(enough).unwrap_or(Duration::MAX))
    }

    /// About how long it takes.
    pub fn time(&self) -> Duration {
        let turns = self.turns() as u32;
        let between = self.warm_up_between().saturating_mul(turns.saturating_sub(1));
        let warm_up = self.plan.warm_up.saturating_add(between);
        self.duration
            .saturating_add(warm_up)
            .saturating_mul(2 * u32::try_from(self.rounds).unwrap_or(u32::MAX))
    }

    /// The warm-up of a turn that is not the first of its side in a round.
    pub(super) fn warm_up_between(&self) -> Duration {
        (self.duration / self.turns() as u32 / 10).min(self.plan.warm_up)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            plan: Plan { warm_up: Duration::from_millis(500), ..Plan::new("http://localhost/") },
            rounds: 10,
            duration: Duration::from_secs(2),
            turn: None,
            seed: None,
            noise: Noise::default(),
            stop: Stop::new(),
        }
    }
}

/// Long enough that opening the connections is a small part of it, and short against what moves the speed of a machine.
const TURN: Duration = Duration::from_millis(200);

/// Fewer requests than these of a schedule are mostly the first ones on new connections.
const REQUESTS_OF_TURN: f64 = 100.0;

/// Turns of a millisecond for more than a day, which is the longest round by default.
const TURNS_MAX: usize = 100_000_000;

/// Each leaves a port in TIME-WAIT for a minute, and Linux has 28,000 of them.
const CONNECTIONS_OPENED_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    fn options(connections: usize, duration_ms: u64, turn_ms: Option<u64>) -> Options {
        Options {
            plan: Plan { connections, ..Options::default().plan },
            duration: Duration::from_millis(duration_ms),
            turn: turn_ms.map(Duration::from_millis),
            ..Options::default()
        }
    }

    #[test]
    fn turns_are_short_unless_they_would_use_up_the_ports() {
        assert_eq!(options(64, 2000, None).turns(), 10);
        assert_eq!(options(500, 2000, None).turns(), 2);
        assert_eq!(options(5000, 2000, None).turns(), 1);
        assert_eq!(options(5000, 2000, Some(500)).turns(), 4, "what is asked for is done");
        assert_eq!(options(1, 50, None).turns(), 1);
        assert_eq!(options(1, 50, Some(0)).turns(), 50, "a turn has a millisecond at least");
    }

    #[test]
    fn turns_at_a_low_rate_are_long_enough_for_a_hundred_requests() {
        let turns = |rate: f64| {
            let options = options(64, 2000, None);
            Options { plan: Plan { schedule: Some(Schedule::constant(rate)), ..options.plan }, ..options }
                .turns()
        };
        assert_eq!([10_000.0, 500.0, 250.0, 100.0, 1.0].map(turns), [10, 10, 5, 2, 1]);
        // What is no rate is refused before it is used.
        assert_eq!([f64::NAN, 0.0, -1.0].map(turns), [1, 1, 1]);
    }

    #[test]
    fn no_time_is_too_long_to_be_refused() {
        for (duration_ms, turn_ms) in [(1 << 32, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
            let mut options = options(64, duration_ms, Some(turn_ms));
            options.plan.warm_up = Duration::MAX;
            assert!(options.turns() >= 1 && options.time() >= Duration::from_secs(1));
            assert!(options.check().is_err_and(|error| error.to_string().contains("ms of duration")));
        }
        assert!(options(64, 86_400_000, None).check().is_ok());
    }

    #[test]
    fn its_time_is_that_of_all_turns() {
        let options = options(64, 2000, None);
        // 2 s in ten turns, half a second before the first and 20 ms before each other, twice in each of ten rounds.
        assert_eq!(options.time(), Duration::from_millis(2 * 10 * (2000 + 500 + 9 * 20)));
    }
}
