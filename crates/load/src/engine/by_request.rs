//! What became of each request of a script, on one loop.

use std::collections::BTreeMap;
use std::time::Duration;

use anywire_http::StatusCode;

use crate::histogram::Latency;
use crate::script::{Compiled, ScriptLimits};

/// The requests of a script with several, by their numbers.
#[derive(Debug)]
pub(crate) struct ByRequest {
    shares: Vec<RequestShare>,
}

/// What became of one of them in the measured part.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestShare {
    pub(crate) answered: u64,
    /// Answers that were not as expected.
    pub(crate) bad: u64,
    pub(crate) statuses: BTreeMap<u16, u64>,
    /// `None` if there are too many requests for a histogram each.
    pub(crate) latency: Option<Latency>,
}

impl ByRequest {
    /// Nothing of any yet; `None` for a script of one request, of which the totals say all.
    pub(crate) fn new(script: &Compiled, limits: &ScriptLimits) -> Option<Self> {
        let count = script.requests.len();
        if count < 2 {
            return None;
        }
        let latency = (count <= limits.requests_with_latency).then(Latency::new);
        Some(Self { shares: vec![RequestShare { latency, ..RequestShare::default() }; count] })
    }

    /// Counts an answer.
    pub(crate) fn answered(&mut self, request: usize, taken: Duration, status: StatusCode, is_good: bool) {
        let Some(share) = self.shares.get_mut(request) else { return };
        share.answered += 1;
        share.bad += u64::from(!is_good);
        *share.statuses.entry(status.as_u16()).or_default() += 1;
        if let Some(latency) = &mut share.latency {
            latency.record(taken);
        }
    }

    /// What became of each.
    pub(crate) fn shares(&self) -> &[RequestShare] {
        &self.shares
    }
}

impl RequestShare {
    /// Adds what became of it on another loop.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.bad += other.bad;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        match (&mut self.latency, &other.latency) {
            (Some(own), Some(other)) => own.merge(other),
            (own, _) => *own = None,
        }
    }
}
