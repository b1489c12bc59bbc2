//! Latencies that are kept apart only where they are seen, each in a histogram that is made at its first use: by class of
//! status, and the server's own time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::engine::columns::Sample;
use crate::histogram::{Latency, LatencySummary};

/// Such latencies of one loop, or of all. At most nine histograms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Apart {
    /// By the first digit of the status. Those of 2xx are the rest, so that the usual response costs nothing here.
    classes: [Option<Box<Latency>>; 10],
    /// Of requests that were given up: they have no status.
    given_up: Option<Box<Latency>>,
    server: Option<Box<Latency>>,
}

impl Apart {
    /// Records a response.
    #[inline]
    pub(crate) fn record(&mut self, sample: &Sample) {
        let class = sample.status.as_u16() / 100;
        if class != USUAL || sample.server_time.is_some() {
            self.record_unusual(class, sample);
        }
    }

    #[cold]
    fn record_unusual(&mut self, class: u16, sample: &Sample) {
        if class != USUAL
            && let Some(latency) = self.classes.get_mut(usize::from(class))
        {
            latency.get_or_insert_default().record(sample.taken());
        }
        if let Some(time) = sample.server_time {
            self.server.get_or_insert_default().record(time);
        }
    }

    /// Records requests that were given up at this age.
    pub(crate) fn record_given_up(&mut self, age: Duration, requests: u64) {
        self.given_up.get_or_insert_default().record_many(age, requests);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let own = self.classes.iter_mut().chain([&mut self.given_up, &mut self.server]);
        let others = other.classes.iter().chain([&other.given_up, &other.server]);
        for (own, other) in own.zip(others) {
            if let Some(other) = other {
                own.get_or_insert_default().merge(other);
            }
        }
    }

    /// By class, such as `5xx`, out of all latencies from the send.
    pub(crate) fn by_status(&self, all: &Latency) -> BTreeMap<String, LatencySummary> {
        let mut others = Latency::new();
        self.classes.iter().chain([&self.given_up]).flatten().for_each(|one| others.merge(one));
        let usual = all.since(&others);
        let of_class = |class: u16| match class {
            USUAL => usual.summary(),
            class => self.classes[usize::from(class)].as_ref()?.summary(),
        };
        (0..10).filter_map(|class| Some((format!("{class}xx"), of_class(class)?))).collect()
    }

    /// The server's own time.
    pub(crate) fn server(&self) -> Option<LatencySummary> {
        self.server.as_ref()?.summary()
    }
}

/// The class of most responses.
const USUAL: u16 = 2;

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use anywire_http::StatusCode;

    use super::*;

    #[test]
    fn each_class_has_its_own_latencies_and_2xx_the_rest() {
        let (mut apart, mut all) = (Apart::default(), Latency::new());
        let begun = Instant::now();
        for (status, ms, server_time) in [(200, 1, None), (503, 20, Some(3)), (204, 2, None), (404, 9, None)]
        {
            let ended_at = begun + Duration::from_millis(ms);
            let sample = Sample {
                step: 0,
                intended: begun,
                sent_at: begun,
                first_byte: ended_at,
                ended_at,
                status: StatusCode::from_u16(status).expect("a status"),
                bytes: 0,
                body_bytes: 0,
                server_time: server_time.map(Duration::from_millis),
            };
            all.record(sample.taken());
            apart.record(&sample);
        }
        all.record(Duration::from_secs(5));
        apart.record_given_up(Duration::from_secs(5), 1);
        let mut merged = Apart::default();
        merged.merge(&apart);
        let by_status = merged.by_status(&all);
        let seen: Vec<_> = by_status.iter().map(|(class, one)| (class.as_str(), one.count)).collect();
        assert_eq!(seen, [("2xx", 2), ("4xx", 1), ("5xx", 1)]);
        assert!((by_status["2xx"].max - 2000.0).abs() < 5.0, "{:?}", by_status["2xx"].max);
        assert!((by_status["5xx"].p50 - 20_000.0).abs() < 50.0, "{:?}", by_status["5xx"].p50);
        assert_eq!(merged.server().expect("one told its time").count, 1);
        assert_eq!(Apart::default().server(), None);
    }
}
