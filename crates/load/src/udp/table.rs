//! The outcome of a load of datagrams as text for a terminal.

use std::fmt;

use super::outcome::UdpOutcome;
use super::search::{SearchOutcome, Trial};
use crate::search::Stage;
use crate::text::{Columns, digits, grouped, known, time, whole};

impl fmt::Display for UdpOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        writeln!(
            f,
            "{}: {} datagrams/s of {} bytes for {} s, {} flows over {} sockets",
            self.target,
            whole(plan.datagrams_per_second),
            plan.bytes,
            digits(plan.duration_seconds),
            plan.flows,
            plan.sockets
        )?;
        for remark in self.remarks() {
            writeln!(f, "{remark}")?;
        }
        writeln!(f)?;
        let mut columns = Columns::new(1, &["round trip from", "p50", "p90", "p99", "p99.9", "max"]);
        for (name, latency) in [("intended time", &self.latency.intended), ("send", &self.latency.sent)] {
            let Some(latency) = latency else { continue };
            let figures = [latency.p50, latency.p90, latency.p99, latency.p99_9, latency.max];
            columns.row(std::iter::once(name.to_owned()).chain(figures.map(time)).collect());
        }
        f.write_str(&columns.render())?;
        writeln!(f)?;
        let mut columns = Columns::new(2, &[]);
        self.counts().into_iter().for_each(|row| columns.row(row));
        f.write_str(&columns.render())
    }
}

impl UdpOutcome {
    /// The counts as rows of a name and a text, for the table and for the page.
    pub(crate) fn counts(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |name: &str, text: String| rows.push(vec![name.to_owned(), text]);
        let rate = &self.rate;
        row(
            "sent",
            format!("{} of {} ({}/s)", grouped(self.sent), grouped(self.intended), known(rate.sent, whole)),
        );
        row("received", format!("{} ({}/s)", grouped(self.received), known(rate.received, whole)));
        let loss = known(self.loss, |loss| digits(loss * 100.0));
        row("lost", format!("{} ({loss} %)", grouped(self.lost)));
        let layers = &self.loss_by_layer;
        let count = |count: Option<u64>| count.map_or_else(|| "unknown".to_owned(), grouped);
        let there = count(layers.socket_there);
        row(
            "  at sockets",
            format!("{} (here {}, there {there})", count(layers.socket), grouped(layers.socket_here)),
        );
        row("  in the namespace", count(layers.namespace));
        row("  at devices", count(layers.device));
        row("  in queues to send", count(layers.send_queue));
        row("  unexplained", grouped(layers.unexplained));
        layers.unread.iter().for_each(|unread| row("", unread.clone()));
        if self.rate.interrupted {
            row("on their way", grouped(self.on_their_way));
        }
        row("late", grouped(self.late));
        row("duplicated", grouped(self.duplicated));
        row("reordered", format!("{}, by {} at most", grouped(self.reordered), self.reorder_extent_max));
        row("corrupt", grouped(self.corrupt));
        row("none of this run", grouped(self.foreign));
        let calls = &self.calls;
        row(
            "system calls",
            format!(
                "{} datagrams a send, {} a receive, {} a message",
                known(calls.datagrams_per_send, digits),
                known(calls.datagrams_per_receive, digits),
                known(calls.datagrams_per_message, digits)
            ),
        );
        for share in &self.agents {
            row(&format!("agent {}", share.agent.index), share.line());
        }
        for share in &self.loops {
            let cpu = known(share.cpu_seconds, |seconds| format!("{} s", digits(seconds)));
            let name = share.core.map_or_else(String::new, |core| format!(" on core {core}"));
            let text =
                format!("{} sent, {} received, CPU {cpu}", grouped(share.sent), grouped(share.received));
            row(&format!("loop {}{name}", share.id), text);
        }
        let balance = &self.balance;
        let (received, cpu) = (balance.received_max_to_mean, balance.cpu_max_to_mean);
        row("largest to mean", format!("received {}, CPU {}", known(received, digits), known(cpu, digits)));
        rows
    }
}

impl Trial {
    /// Its line in the table and on the page.
    pub(crate) fn cells(&self) -> Vec<String> {
        let yes = |is_so: Option<bool>| match is_so {
            Some(true) => "yes".to_owned(),
            Some(false) => "no".to_owned(),
            None => "-".to_owned(),
        };
        let stage = match self.stage {
            Stage::Search => "search",
            Stage::Confirm => "confirm",
        };
        let rate = whole(self.datagrams_per_second);
        vec![stage.to_owned(), rate, grouped(self.sent), grouped(self.lost), yes(self.held), yes(self.kept)]
    }
}

pub(crate) const TRIAL_HEADINGS: [&str; 6] = ["run", "datagrams/s", "sent", "lost", "held", "rate kept"];

impl fmt::Display for SearchOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns = Columns::new(1, &TRIAL_HEADINGS);
        self.trials.iter().for_each(|trial| columns.row(trial.cells()));
        f.write_str(&columns.render())?;
        let loss = digits(self.loss_max * 100.0);
        match self.highest_rate {
            Some(rate) => {
                let confirmed = if self.confirmed { ", confirmed by a longer run" } else { "" };
                writeln!(
                    f,
                    "\nhighest rate with at most {loss} % lost: {} datagrams/s{confirmed}",
                    whole(rate)
                )?
            }
            None => writeln!(f, "\nno rate was found with at most {loss} % lost")?,
        }
        if self.interrupted {
            writeln!(f, "the search was ended early: higher rates may hold")?;
        }
        if self.limited_by_sender {
            writeln!(f, "this end could send no faster, so the service may stand more")?;
        }
        writeln!(f)?;
        self.outcome.fmt(f)
    }
}
