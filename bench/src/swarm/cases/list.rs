//! The cases and their bars, in the order of the table.

use serde::Serialize;

/// What a figure must reach, and what would be good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// This part of the model's figure, measured in the same run.
    OfModel(f64),
    None,
}

/// A row of the table.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) anchor: &'static str,
    pub(super) run: What,
    pub(super) figures: &'static [Figure],
}

/// What is run.
#[derive(Clone, Copy)]
pub(super) enum What {
    /// `anywire lab swarm` with these options.
    Swarm(&'static [&'static str]),
    /// The same in so many rounds, each beside the model; that with the median part of it counts.
    Rounds(usize, &'static [&'static str]),
    /// The pair of devices alone, here.
    Pair,
    /// One connection with much to send, here.
    Bulk,
}

/// One figure of a case, and its goal.
pub(super) struct Figure {
    pub(super) unit: &'static str,
    pub(super) of: Of,
    pub(super) bar: Goal,
    pub(super) aim: Goal,
}

/// Where a figure comes from.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The key of the result, divided by this.
    Key(&'static str, f64),
    /// The rate divided by that of the case of this name.
    RateTo(&'static str),
    /// Nanoseconds an echo divided by those of the case of this name.
    TimeTo(&'static str),
}

const MILLION: f64 = 1e6;

const fn at_least(unit: &'static str, of: Of, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of, bar: Goal::AtLeast(bar), aim }
}

const fn at_most(unit: &'static str, of: Of, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of, bar: Goal::AtMost(bar), aim }
}

const fn rate(unit: &'static str, bar: Goal, aim: Goal) -> Figure {
    Figure { unit, of: Of::Key("echoes_per_second", MILLION), bar, aim }
}

const fn of_rate(unit: &'static str, case: &'static str, bar: f64, aim: Goal) -> Figure {
    Figure { unit, of: Of::RateTo(case), bar: Goal::AtLeast(bar), aim }
}

const EVERY_BYTE: Figure = at_most("corrupt payloads", Of::Key("corrupt", 1.0), 0.0, Goal::None);

/// The table, in its order.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "lawful",
        what: "6 M + 6 M, random, checksums, 3 segments",
        anchor: "2.3 M (4.3 M without any of that, sequential)",
        run: What::Swarm(&["-c", "6000000", "--duration", "60s"]),
        figures: &[
            rate("M echo/s", Goal::OfModel(0.70), Goal::OfModel(0.80)),
            at_most("bytes an endpoint", Of::Key("bytes_per_endpoint", 1.0), 200.0, Goal::AtMost(160.0)),
            at_most("starved", Of::Key("starved", 1.0), 0.0, Goal::None),
            at_most("longest gap, rounds", Of::Key("longest_gap_ratio", 1.0), 1.5, Goal::AtMost(1.1)),
            at_least("Jain", Of::Key("jain", 1.0), 0.999, Goal::None),
            EVERY_BYTE,
        ],
    },
    Case {
        name: "keep-alive",
        what: "lawful, with keep-alive at both ends",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--keep-alive", "15s"]),
        figures: &[of_rate("of the rate without", "lawful", 0.95, Goal::AtLeast(0.98)), EVERY_BYTE],
    },
    Case {
        name: "no-timestamps",
        what: "lawful, without timestamps",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--no-timestamps"]),
        figures: &[of_rate("of the rate with", "lawful", 0.95, Goal::AtLeast(0.98)), EVERY_BYTE],
    },
    Case {
        name: "kept",
        what: "6 M + 6 M with keep-alive and idle deadlines",
        anchor: "-",
        run: What::Swarm(&[
            "-c",
            "6000000",
            "--duration",
            "20s",
            "--keep-alive",
            "60s",
            "--idle-deadline",
            "5m",
        ]),
        figures: &[
            at_most("bytes an endpoint", Of::Key("bytes_per_endpoint", 1.0), 200.0, Goal::AtMost(160.0)),
            EVERY_BYTE,
        ],
    },
    Case {
        name: "two-segments",
        what: "the same, ACK rides on the next request",
        anchor: "-",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--segments", "2"]),
        figures: &[rate("M echo/s", Goal::OfModel(0.70), Goal::OfModel(0.80)), EVERY_BYTE],
    },
    Case {
        name: "like-for-like",
        what: "sequential, no checksums, 2 segments",
        anchor: "4.3 M",
        run: What::Swarm(&[
            "-c",
            "6000000",
            "--duration",
            "20s",
            "--segments",
            "2",
            "--order",
            "sequential",
            "--no-checksum",
        ]),
        figures: &[rate("M echo/s", Goal::OfModel(0.55), Goal::OfModel(0.70)), EVERY_BYTE],
    },
    Case {
        name: "few",
        what: "256 connections, median of 9 rounds",
        anchor: "5.0 M",
        run: What::Rounds(9, &["-c", "256", "--duration", "5s"]),
        figures: &[rate("M echo/s", Goal::OfModel(0.75), Goal::OfModel(0.90)), EVERY_BYTE],
    },
    Case {
        name: "push",
        what: "one server to 6 M connections",
        anchor: "4.5 M/s",
        run: What::Swarm(&["-c", "6000000", "--mode", "push", "--duration", "20s"]),
        figures: &[rate("M messages/s", Goal::AtLeast(4.5), Goal::AtLeast(8.0)), EVERY_BYTE],
    },
    Case {
        name: "push-1m",
        what: "one server to 1 M connections",
        anchor: "-",
        run: What::Swarm(&["-c", "1000000", "--mode", "push", "--duration", "20s"]),
        figures: &[rate("M messages/s", Goal::None, Goal::None), EVERY_BYTE],
    },
    Case {
        name: "group",
        what: "the same, posted to the group by another thread",
        anchor: "-",
        run: What::Swarm(&["-c", "1000000", "--mode", "group", "--duration", "20s"]),
        figures: &[of_rate("of the push from inside", "push-1m", 0.9, Goal::None), EVERY_BYTE],
    },
    Case {
        name: "short",
        what: "connect, echo, FIN; TIME-WAIT of 60 s",
        anchor: "1.4 M/s (1.8 M with RST), MSL 0",
        run: What::Swarm(&["-c", "1000", "--mode", "short", "--time-wait", "60s", "--duration", "20s"]),
        figures: &[rate("M connections/s", Goal::AtLeast(1.4), Goal::AtLeast(2.5)), EVERY_BYTE],
    },
    Case {
        name: "http",
        what: "HTTP keep-alive, 1 M connections",
        anchor: "2.5 M/s",
        run: What::Swarm(&["-c", "1000000", "--mode", "http", "--duration", "20s"]),
        figures: &[rate("M requests/s", Goal::AtLeast(2.0), Goal::AtLeast(3.5)), EVERY_BYTE],
    },
    Case {
        name: "switch",
        what: "switch alone, 64 B frames",
        anchor: "26-28 M/s",
        run: What::Pair,
        figures: &[at_least("M frames/s", Of::Key("frames_per_second", MILLION), 30.0, Goal::AtLeast(60.0))],
    },
    Case {
        name: "bulk",
        what: "bulk, one connection over the switch",
        anchor: "-",
        run: What::Bulk,
        figures: &[at_least("Gbit/s", Of::Key("bits_per_second", 1e9), 20.0, Goal::AtLeast(40.0))],
    },
    Case {
        name: "loss",
        what: "6 M + 6 M, 0.1 % loss",
        anchor: "never tested",
        run: What::Swarm(&["-c", "6000000", "--duration", "20s", "--loss", "0.001"]),
        figures: &[
            EVERY_BYTE,
            Figure {
                unit: "of the loss-free rate",
                of: Of::RateTo("lawful"),
                bar: Goal::None,
                aim: Goal::AtLeast(0.8),
            },
        ],
    },
    Case {
        name: "tasks",
        what: "tasks: 100 M in one process",
        anchor: "40 B, 80 M/s claimed (31 M shown)",
        run: What::Swarm(&["tasks", "--count", "100000000", "--duration", "10s"]),
        figures: &[
            at_most("bytes a task", Of::Key("bytes_per_task", 1.0), 40.0, Goal::None),
            at_least("M switches/s, sequential", Of::Key("switches_per_second", MILLION), 80.0, Goal::None),
            Figure {
                unit: "M switches/s, random",
                of: Of::Key("switches_per_second_random", MILLION),
                bar: Goal::None,
                aim: Goal::AtLeast(80.0),
            },
        ],
    },
    Case {
        name: "small",
        what: "10 k connections: 12 M cost at most so many times more an echo",
        anchor: "-",
        run: What::Swarm(&["-c", "10000", "--duration", "10s"]),
        figures: &[at_most("times", Of::TimeTo("lawful"), 3.0, Goal::AtMost(2.3))],
    },
];
