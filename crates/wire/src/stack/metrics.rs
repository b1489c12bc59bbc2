//! The counters of a host under their names: those of Linux where it counts the same, and those for Prometheus.

use anywire_loops::metrics::{Kind, Text};

use super::inspect::{HostSnapshot, Snapshot};

/// Something that a host has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counter {
    /// For Prometheus, such as `anywire_stack_tcp_retransmits_total`.
    pub name: &'static str,
    /// As `nstat` prints it where Linux counts the same, such as `TcpRetransSegs`; else a name that begins with `Stack`.
    pub nstat: &'static str,
    /// What is counted.
    pub help: &'static str,
    /// How often it was counted since the start.
    pub value: u64,
}

/// A table of counters: field, name for Prometheus, name of `nstat`, what is counted.
macro_rules! counters {
    ($fields:ident: $source:ty, $prefix:literal, $($field:ident $name:literal $nstat:literal $help:literal;)*) => {
        fn $fields(source: &$source) -> impl Iterator<Item = Counter> {
            [$(Counter {
                name: concat!("anywire_stack_", $prefix, "_", $name, "_total"),
                nstat: $nstat,
                help: $help,
                value: source.$field,
            }),*]
            .into_iter()
        }

        #[cfg(test)]
        mod $fields {
            /// The fields that the table has.
            pub(super) const FIELDS: &[&str] = &[$(stringify!($field)),*];
        }
    };
}

counters! { tcp: anywire_stack::stream::EngineCounters, "tcp",
    frames_received "receive_frames" "StackInFrames" "Frames that came in.";
    frames_sent "transmit_frames" "StackOutFrames" "Frames that went out.";
    frames_ignored "ignored_frames" "StackInIgnored" "Frames that were no TCP for an address of the host.";
    frames_malformed "malformed_frames" "TcpInErrs" "Frames with a wrong checksum, length or option.";
    fragments_refused "refused_fragments" "StackFragsRefused" "Fragments of IP, which are not put together.";
    neighbours_refused "refused_neighbours" "StackNeighsRefused" "Answers and SYNs dropped because all neighbours were in use.";
    unroutable "unroutable" "IpOutNoRoutes" "Segments without an answer since no route leads to their sender.";
    opened "opened" "StackOpens" "Connections that were opened, from both ends.";
    accepted "accepted" "TcpPassiveOpens" "Connections that the peer opened.";
    closed "closed" "StackCloses" "Connections that ended by FINs.";
    reset "reset" "TcpEstabResets" "Connections that ended by a reset, from either end.";
    timed_out "timed_out" "TcpExtTCPAbortOnTimeout" "Connections given up because the peer did not answer.";
    cookies_sent "cookies_sent" "TcpExtSyncookiesSent" "SYNs answered with a cookie.";
    cookies_accepted "cookies_accepted" "TcpExtSyncookiesRecv" "Connections that a cookie brought about.";
    refused_by_limit "refused_by_limit" "TcpExtListenDrops" "SYNs and acceptances that found no place.";
    listen_overflows "listen_overflows" "TcpExtListenOverflows" "SYNs and ACKs dropped because the backlog was full.";
    time_wait_evicted "time_wait_evicted" "TcpExtTCPTimeWaitOverflow" "TIME-WAITs cut short, because there were too many.";
    time_wait_reused "time_wait_reused" "TcpExtTWRecycled" "TIME-WAITs that gave way to a new connection.";
    retransmits "retransmits" "TcpRetransSegs" "Segments sent again.";
    timeouts "timeouts" "TcpExtTCPTimeouts" "Retransmission timeouts.";
    fast_recoveries "fast_recoveries" "StackFastRecoveries" "Losses noticed without a timeout.";
    loss_probes "loss_probes" "TcpExtTCPLossProbes" "Loss probes.";
    out_of_window "out_of_window" "StackOutOfWindow" "Segments outside the window.";
    refused_by_paws "refused_by_paws" "TcpExtPAWSEstab" "Segments refused for an old timestamp.";
    challenges "challenges" "TcpExtTCPChallengeACK" "ACKs that challenge what may be forged.";
    answers_withheld "answers_withheld" "StackAnswersWithheld" "Answers that the limit of their connection held back.";
    out_of_order "out_of_order" "TcpExtTCPOFOQueue" "Segments held that arrived out of order.";
    out_of_order_dropped "out_of_order_dropped" "TcpExtOfoPruned" "Segments out of order that were dropped again.";
    evicted_for_memory "evicted_for_memory" "TcpExtTCPAbortOnMemory" "Connections reset because others found no memory.";
    dropped_for_memory "dropped_for_memory" "TcpExtTCPRcvQDrop" "Payloads dropped because no memory was left.";
    sacks_ignored "ignored_sacks" "StackSacksIgnored" "ACKs with SACK blocks that were skipped.";
    black_holes_suspected "suspected_black_holes" "StackBlackHoles" "Paths that seemed to drop large packets without a word.";
    path_probes "path_probes" "StackPathProbes" "Segments sent to find out what a path carries.";
    path_probes_lost "lost_path_probes" "TcpExtTCPMTUPFail" "Of these, the ones that did not arrive.";
    path_mtus_evicted "evicted_path_mtus" "StackPathMtusEvicted" "Paths forgotten early, because too many are narrow.";
    resets_sent "resets_sent" "TcpOutRsts" "Resets sent.";
    replies_dropped "dropped_replies" "StackRepliesDropped" "Replies that belong to no connection and had no room.";
    window_probes "window_probes" "TcpExtTCPWinProbe" "Probes of closed windows.";
    keep_alives "keep_alives" "TcpExtTCPKeepAlive" "Keep-alive probes.";
}

counters! { ip: anywire_stack::ip::Counters, "ip",
    asked_and_told "neighbour_messages" "StackNeighIn" "Messages of ARP and neighbour discovery that came in.";
    answered "neighbour_answers" "StackNeighAnswers" "Questions for an address of the host that were answered.";
    neighbours_unanswered "unanswered_neighbours" "StackNeighUnanswered" "Questions of neighbours that the limit left without an answer.";
    questions "neighbour_questions" "StackNeighOut" "Questions that were sent.";
    resolved "resolved_neighbours" "StackNeighResolved" "Neighbours that were found.";
    unreachable "unreachable_neighbours" "StackNeighUnreachable" "Neighbours that have not answered.";
    moved "moved_neighbours" "StackNeighMoved" "Neighbours whose interface became another one.";
    evicted "evicted_neighbours" "StackNeighEvicted" "Neighbours forgotten for others.";
    not_asked "unasked_frames" "StackNeighNotAsked" "Frames dropped since their neighbour could not be asked for.";
    pending_dropped "pending_dropped_frames" "StackNeighPendingDrops" "Frames that gave way to later ones while they waited.";
    undelivered "undelivered_frames" "StackNeighUndelivered" "Frames that waited for a neighbour in vain.";
    echoes "echoes" "IcmpOutEchoReps" "Requests of ICMP echo that were answered.";
    ports_unreachable "ports_unreachable" "IcmpOutDestUnreachs" "Datagrams for no port, which was told.";
    answers_withheld "icmp_withheld" "IcmpOutRateLimitHost" "Answers of ICMP that the limit held back.";
    outgoing_dropped "dropped_frames" "StackIpOutDrops" "Frames of the layer that found no room.";
    refused "refused_frames" "IpInHdrErrors" "Frames that are not as they must be, or for another interface.";
    group_queries "group_queries" "StackMldInQueries" "Questions of routers for groups (MLD).";
    group_reports "group_reports" "StackMldOutReports" "Reports of groups of the host that were sent.";
    ignored "unknown_frames" "IpInUnknownProtos" "Frames of other protocols.";
    conflicts "address_conflicts" "StackAddrConflicts" "Times that somebody else was seen with an address of the host.";
    events_lost "lost_events" "StackEventsLost" "Events that were not taken in time.";
}

counters! { interface: anywire_stack::stream::InterfaceCounters, "interface",
    departed "departed" "StackDeparted" "Connections whose other end is known to have gone for good.";
    polls "polls" "StackPolls" "Times that the driver has run.";
    link_downs "link_downs" "StackLinkDowns" "Times that the link has gone down.";
}

counters! { link: anywire_stack::device::DeviceCounters, "device",
    frames_in "receive_frames" "StackDevInFrames" "Frames that the host has received.";
    bytes_in "receive_bytes" "StackDevInOctets" "Bytes that the host has received.";
    frames_out "transmit_frames" "StackDevOutFrames" "Frames that the host has sent.";
    bytes_out "transmit_bytes" "StackDevOutOctets" "Bytes that the host has sent.";
    dropped_in "receive_dropped_frames" "StackDevInDrops" "Frames that arrived when the host had fallen too far behind.";
    dropped_out "transmit_dropped_frames" "StackDevOutDrops" "Frames of the host that found no room, or no link.";
    super_frames_in "receive_super_frames" "StackDevInSuper" "Received frames that held several segments.";
    super_frames_out "transmit_super_frames" "StackDevOutSuper" "Super-frames that the sent frames left as.";
    passed_on "passed_on_frames" "StackDevPassedOn" "Frames that came by the queue of this loop and belong to another one.";
    taken_over "taken_over_frames" "StackDevTakenOver" "Frames of this loop that came by the queue of another one.";
    no_chunk "receive_no_chunk" "StackDevInNoChunk" "Times that the kernel found no chunk for a frame (AF_XDP).";
    receive_ring_full "receive_ring_full_frames" "StackDevInRingFull" "Frames that found no room in the receive ring (AF_XDP).";
    invalid_descriptors "invalid_descriptors" "StackDevInvalidDescs" "Descriptors that the kernel refused (AF_XDP).";
    transmit_busy "transmit_busy" "StackDevOutBusy" "Times that the interface took no more frames for now, or dropped one (AF_XDP).";
}

impl HostSnapshot {
    /// All that engine, layer, interface and device have counted.
    pub fn counters(&self) -> Vec<Counter> {
        let below = interface(&self.interface).chain(link(&self.link));
        tcp(&self.tcp).chain(ip(&self.ip)).chain(below).collect()
    }

    /// What rises and falls: name, what it is, and how much there is of it now.
    fn gauges(&self) -> [(&'static str, &'static str, u64); 5] {
        [
            (
                "anywire_stack_tcp_connections",
                "Connections that are open, opening or ending.",
                self.open as u64,
            ),
            (
                "anywire_stack_tcp_half_open",
                "Connections of which only a SYN has come.",
                self.half_open as u64,
            ),
            ("anywire_stack_tcp_time_wait", "Connections in TIME-WAIT.", self.time_wait as u64),
            ("anywire_stack_tcp_memory_bytes", "Memory of the engine.", self.memory.total() as u64),
            (
                "anywire_stack_ip_neighbours",
                "Neighbours that are known or asked for.",
                self.neighbours.len() as u64,
            ),
        ]
    }
}

impl Snapshot {
    /// All counters as the text that Prometheus scrapes (its format 0.0.4), with the labels `device`, `loop` and `loops`: a server and a
    /// client of one process may each have a loop 0. Empty without a device.
    ///
    /// The type of its content is `text/plain; version=0.0.4`.
    pub fn prometheus(&self) -> String {
        let labels = |host: &HostSnapshot| {
            let (number, loops) = (host.loop_number.to_string(), host.loops_number.to_string());
            [("device", host.device.clone()), ("loop", number), ("loops", loops)]
        };
        let mut text = Text::new("");
        let counters: Vec<_> = self.hosts.iter().map(|host| (labels(host), host.counters())).collect();
        let gauges: Vec<_> = self.hosts.iter().map(|host| (labels(host), host.gauges())).collect();
        for at in 0..counters.first().map_or(0, |(_, all)| all.len()) {
            let Counter { name, help, .. } = counters[0].1[at];
            let samples = counters.iter().map(|(labels, all)| (labels, all[at].value as f64));
            text.family(Kind::Counter, name, help, samples);
        }
        for at in 0..gauges.first().map_or(0, |(_, all)| all.len()) {
            let (name, help, _) = gauges[0].1[at];
            text.family(
                Kind::Gauge,
                name,
                help,
                gauges.iter().map(|(labels, all)| (labels, all[at].2 as f64)),
            );
        }
        text.into_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fmt::Debug;

    use super::*;

    /// The names of the fields of a value, from how it is printed.
    fn fields(value: &impl Debug) -> Vec<String> {
        let text = format!("{value:#?}");
        let lines = text.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        lines.map(|(name, _)| name.to_owned()).collect()
    }

    #[test]
    fn each_counter_is_in_the_tables() {
        assert_eq!(fields(&anywire_stack::stream::EngineCounters::default()), tcp::FIELDS);
        assert_eq!(fields(&anywire_stack::ip::Counters::default()), ip::FIELDS);
        assert_eq!(fields(&anywire_stack::stream::InterfaceCounters::default()), interface::FIELDS);
        assert_eq!(fields(&anywire_stack::device::DeviceCounters::default()), link::FIELDS);
    }

    #[test]
    fn no_name_comes_twice_and_each_follows_the_rules() {
        let all: Vec<_> = tcp(&Default::default())
            .chain(ip(&Default::default()))
            .chain(interface(&Default::default()))
            .chain(link(&Default::default()))
            .collect();
        for Counter { name, help, .. } in &all {
            let is_of_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
            assert!(name.starts_with("anywire_stack_") && name.ends_with("_total"), "{name}");
            assert!(name.chars().all(is_of_name) && help.ends_with('.'), "{name} {help}");
        }
        let [names, nstat]: [HashSet<_>; 2] =
            [all.iter().map(|one| one.name).collect(), all.iter().map(|one| one.nstat).collect()];
        assert_eq!((names.len(), nstat.len()), (all.len(), all.len()));
    }
}
