//! What several tests need: a small server whose faults can be chosen, and results to make pages of.

#![allow(dead_code, reason = "each test file uses its part")]

/// Tests in namespaces of their own.
#[path = "../../../../wire/tests/behaviours/again/mod.rs"]
pub(crate) mod again;
pub(crate) mod browser;
pub(crate) mod faulty;
pub(crate) mod faulty_h2;
pub(crate) mod h2_server;
pub(crate) mod layout;
pub(crate) mod recorder;
pub(crate) mod sample;
pub(crate) mod server;
pub(crate) mod sides;
#[path = "../../../../sys/tests/behaviours/skipped/mod.rs"]
pub(crate) mod skipped;
/// A certificate for the servers.
#[cfg(feature = "tls")]
#[path = "../../../../wire/tests/behaviours/support/trial.rs"]
pub(crate) mod trial;

use std::time::Duration;

use anywire_load::{Handles, LoadError, Outcome, Plan};
use anywire_loops::Loops;
use anywire_wire::ListenOptions;

/// How to listen on any wire: with a certificate for those that need one, and a protocol to agree on.
pub(crate) fn listening(protocol: &str) -> ListenOptions {
    ListenOptions {
        #[cfg(feature = "tls")]
        tls: Some(trial::server()),
        protocols: vec![protocol.to_owned()],
        ..ListenOptions::default()
    }
}

/// The plan for servers with that certificate.
pub(crate) fn trusting(plan: Plan) -> Plan {
    Plan { server_name: Some("peer.example".to_owned()), ..plan }
}

/// Trust in that certificate, and a way to end a run.
pub(crate) fn handles() -> Handles {
    Handles {
        #[cfg(feature = "tls")]
        tls: Some(trial::client()),
        ..Handles::default()
    }
}

/// Runs a plan with trust in that certificate.
pub(crate) fn run(loops: &Loops, plan: Plan) -> Result<Outcome, LoadError> {
    anywire_load::run(loops, plan, handles())
}

/// What a run gives whose warm-up was long enough: on a busy machine the shortest may pass before anything has come.
pub(crate) fn warmed<T>(run: impl FnMut(Duration) -> Option<T>) -> T {
    let warm_ups = [20, 200, 2000, 20_000].map(Duration::from_millis);
    warm_ups.into_iter().find_map(run).expect("20 s are enough")
}

/// Waits until something is so that another thread brings about.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 60, "{what}: not within 60 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}
