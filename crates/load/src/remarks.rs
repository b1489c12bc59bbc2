//! What a reader must know before the figures: that the run ended early, lost requests, or measured something else than
//! it was asked to. The table, the page and the command say the same sentences.

use anywire_advice::Message;

use crate::errors::{ErrorKind, ErrorSample, MORE_DESCRIPTORS};
use crate::outcome::Outcome;
use crate::text::{counted, digits, grouped, time};

impl Outcome {
    /// Why the figures are not what the plan asked for, one sentence each; empty after a run without a fault.
    ///
    /// Errors among the responses are not repeated here, unless no response was good.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        remarks.extend(self.saturation().map(|message| message.to_string()));
        remarks.extend(self.early_end());
        remarks.extend(self.lost_agents());
        remarks.extend(self.missing_connections().map(|message| message.to_string()));
        remarks.extend(self.missing_streams());
        remarks.extend(self.missing_cookies());
        remarks.extend(self.no_good_answer().map(|message| message.to_string()));
        remarks.extend(self.lost_in_warm_up());
        remarks.extend(self.coarseness());
        remarks
    }

    /// That this end was too slow for its own schedule, and why: then nothing is said of the server.
    pub fn saturation(&self) -> Option<Message> {
        (self.generator.saturated == Some(true)).then(|| {
            let reasons = self.generator.reasons.join("; ");
            Message::new(format!(
                "saturated: the load generator was the limit, so this is no verdict: {reasons}"
            ))
            .with_help(SATURATION_HELP)
        })
    }

    /// What of the plan was not carried out: the time or requests that a run which ended early left, or connections.
    pub fn shortfall(&self) -> Option<Message> {
        let lost = || self.lost_agents().map(Message::new);
        self.early_end().map(Message::new).or_else(lost).or_else(|| self.missing_connections())
    }

    /// How far the run came, if it was stopped or given up before its plan was carried out.
    fn early_end(&self) -> Option<String> {
        let rate = &self.rate;
        if rate.interrupted {
            return Some(format!("interrupted after {} s: what follows is a part", digits(rate.seconds)));
        }
        if !rate.given_up {
            return None;
        }
        if rate.seconds == 0.0 {
            return Some("ended before anything was measured: every connection was given up".to_owned());
        }
        let part = match (self.plan.requests, self.plan.duration_seconds) {
            (Some(requests), _) => {
                format!("with {} of {} requests sent", grouped(self.totals.measured.sent), grouped(requests))
            }
            (None, asked) => {
                format!("after {} of {} s", digits(rate.seconds), asked.unwrap_or_default())
            }
        };
        Some(format!("ended early, {part}: every connection that had work left was given up"))
    }

    /// That agents were lost, with the first reason; `None` if none was.
    pub fn lost_agents(&self) -> Option<String> {
        let lost = || self.agents.iter().filter_map(|share| Some((&share.agent, share.agent.lost.as_ref()?)));
        let (first, why) = lost().next()?;
        let (count, of) = (lost().count(), self.agents.len());
        let were = if count == 1 { "was" } else { "were" };
        let others = "the figures are those of the others";
        let (index, address) = (first.index, &first.address);
        Some(format!("{count} of {of} agents {were} lost, {others}: agent {index} at {address}: {why}"))
    }

    /// That not one answer was good, with the first reason; not said of a run that was stopped.
    pub fn no_good_answer(&self) -> Option<Message> {
        let totals = &self.totals;
        // An answer that goes on has ended nowhere, and its events are what was asked for.
        let has_events = self.events.as_ref().is_some_and(|events| events.count > 0);
        if totals.measured.good() > 0 || has_events || self.rate.interrupted {
            return None;
        }
        let samples = || totals.measured.error_samples.iter().chain(&totals.warm_up.error_samples);
        // Why some connections did not open is not why those that did had no answer.
        let of_requests =
            samples().find(|sample| totals.connections.opened > 0 && !sample.kind.is_of_dialling());
        let again = totals.measured.sent_again.saturating_add(totals.warm_up.sent_again);
        let Message { found, help } = match of_requests.or_else(|| samples().next()) {
            Some(sample) => sample.message(),
            None if again > 0 => {
                let requests = counted(again, "request");
                let said = totals.measured.announced.as_ref().or(totals.warm_up.announced.as_ref());
                let how = said.map_or_else(String::new, |said| format!(" by GOAWAY, {said}"));
                let found =
                    format!("the server closed{how}, and announced that it would not act on {requests}");
                Message::new(found).with_help("it leaves in order: load it when it is there again")
            }
            None => {
                let oldest =
                    larger(totals.measured.oldest_unanswered_us, totals.warm_up.oldest_unanswered_us);
                match oldest {
                    Some(us) => {
                        format!("the oldest request had waited for {} when the time was up", time(us)).into()
                    }
                    None => "nothing was sent in the time that was measured".into(),
                }
            }
        };
        let found = match totals.measured.answered {
            0 => format!("no request was answered: {found}"),
            answered => format!("none of the {} answers was good: {found}", grouped(answered)),
        };
        Some(Message { found, help })
    }

    /// That a connection had so few answers in the time that one more or less of each makes a difference: without a schedule they come
    /// at the same moments, one latency apart, and the time begins and ends between two of them.
    pub(crate) fn coarseness(&self) -> Option<String> {
        let (rate, plan) = (&self.rate, &self.plan);
        if plan.duration_seconds.is_none() || plan.schedule.is_some() || rate.interrupted || rate.given_up {
            return None;
        }
        let took = self.latency.send.as_ref()?.p50;
        let share = took / (rate.seconds * 1e6);
        // Of many in flight on a connection some come all the time, however long each took.
        let is_few = self.totals.measured.answered as f64 * COARSE < plan.connections as f64;
        (rate.seconds > 0.0 && share > COARSE && is_few).then(|| {
            let (took, percent) = (time(took), digits((share * 100.0).min(100.0)));
            format!("an answer took {took}, {percent} % of the time: the rate may be off by as much; measure for longer")
        })
    }

    fn lost_in_warm_up(&self) -> Option<String> {
        let warm_up = &self.totals.warm_up;
        // A connection that the server closed with a word loses what was pipelined behind; that is no fault.
        if warm_up.errors.total() == 0 && warm_up.unanswered_at_end == 0 {
            return None;
        }
        let errors = match warm_up.error_samples.first() {
            Some(first) => format!("{} (first {first})", warm_up.errors.line()),
            None => "none".to_owned(),
        };
        Some(format!(
            "warm-up, which is in no figure: {} requests sent, {} answered, {} on their way at the end{}; errors: {errors}",
            grouped(warm_up.sent),
            grouped(warm_up.answered),
            grouped(warm_up.unanswered_at_end),
            warm_up.oldest_unanswered_us.map_or_else(String::new, |us| format!(" (oldest {})", time(us))),
        ))
    }

    /// That fewer connections carried the load than were asked for.
    fn missing_connections(&self) -> Option<Message> {
        let connections = &self.totals.connections;
        if self.totals.measured.errors.of(ErrorKind::Descriptors) > 0 {
            let found = format!(
                "only {} of {} connections were open: this process is out of file descriptors",
                connections.open_at_start, self.plan.connections,
            );
            return Some(Message::new(found).with_help(MORE_DESCRIPTORS));
        }
        let asked = self.plan.connections;
        if connections.never_open > 0 && !self.rate.given_up && !self.rate.interrupted {
            // The first reason why a connection did not come about, of those that only dialling has.
            let why = self.totals.measured.error_samples.iter().find(|sample| sample.kind.is_of_dialling());
            let Message { found, help } =
                why.map_or_else(|| "no attempt has ended".into(), ErrorSample::message);
            let found = format!("{} of {asked} connections were never open: {found}", connections.never_open);
            return Some(Message { found, help });
        }
        if connections.given_up > 0 && !self.rate.given_up {
            let found = format!(
                "{} of {} connections were given up before the end: the others carried the load alone",
                connections.given_up, asked,
            );
            return Some(found.into());
        }
        None
    }

    /// That the server allowed fewer streams than were asked for.
    fn missing_streams(&self) -> Option<String> {
        let allowed = self.totals.connections.streams_allowed?;
        Some(format!(
            "the server allows {allowed} streams on a connection, {} were asked for: there were no more requests in flight",
            self.plan.depth,
        ))
    }
}

impl Outcome {
    /// That users had more cookies than they may keep, so that later requests lacked some.
    fn missing_cookies(&self) -> Option<String> {
        let over_limit = self.cookies.map(|cookies| cookies.over_limit).filter(|count| *count > 0)?;
        Some(format!(
            "{} not kept, because their user had as many as a user may keep: later requests went without them",
            were(over_limit, "cookie"),
        ))
    }
}

/// `1 cookie was`, `2 cookies were`
fn were(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "was" } else { "were" })
}

/// The share of the time that one answer may take without a word.
const COARSE: f64 = 0.05;

/// What helps if this end was too slow for its own schedule.
pub(crate) const SATURATION_HELP: &str =
    "use more loops on cores of their own, another machine, or a lower rate";

/// The larger of two figures, either of which may be unknown.
fn larger(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}
