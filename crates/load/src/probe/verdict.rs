//! A verdict: what was seen, why it costs, and what to change.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A judgement of a service, drawn by a rule from the figures of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What it is about.
    pub class: Class,
    /// How much it matters.
    pub severity: Severity,
    /// What was seen, in one sentence with its figures.
    pub evidence: String,
    /// Why that costs.
    pub why: String,
    /// What to change.
    pub change: String,
}

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// What a verdict is about. In JSON it is the name with underscores.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum Class {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Class {
            /// All classes, in the order in which verdicts are given.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name in JSON and text.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

classes! {
    /// The rest of an answer waits for the acknowledgement of its first part, about 40 ms (Nagle's algorithm).
    DelayedAck = "delayed_ack",
    /// An answer leaves in two writes where one would do.
    SplitWrite = "split_write",
    /// A short answer leaves in three writes or more.
    FlushPerAnswer = "flush_per_answer",
    /// Each connection serves one request.
    NoKeepAlive = "no_keep_alive",
    /// Connections are closed after few requests.
    ShortKeepAlive = "short_keep_alive",
    /// Connections are closed without a word, or inside an answer.
    EarlyClose = "early_close",
    /// Answers to pipelined requests come in another order.
    OutOfOrder = "out_of_order",
    /// More answers come than were asked for.
    UnaskedAnswers = "unasked_answers",
    /// A body comes behind the head that answers HEAD.
    HeadWithBody = "head_with_body",
    /// HEAD states another length than GET has.
    HeadDiffers = "head_differs",
    /// A request whose body waits for `100 Continue` waits in vain.
    IgnoresExpect = "ignores_expect",
    /// A long answer is cut because its reader pauses.
    CutsSlowReaders = "cuts_slow_readers",
    /// A slow request holds up others.
    BlocksItsLoop = "blocks_its_loop",
    /// The server's own time is much shorter than that on the wire.
    ServerTimeDiffers = "server_time_differs",
    /// Connections wait because the accept queue is full.
    ListenOverflow = "listen_overflow",
    /// One of several threads does the work of all.
    UnbalancedThreads = "unbalanced_threads",
    /// A request costs many system calls.
    ManySyscalls = "many_syscalls",
    /// Receiving packets takes a large part of the CPU time.
    Softirq = "softirq",
    /// Segments are lost on the way.
    Retransmits = "retransmits",
    /// The server takes little at a time.
    SmallWindow = "small_window",
    /// Requests wait for the server to read.
    WindowStalls = "window_stalls",
    /// The server's clock is wrong.
    Clock = "clock",
    /// The certificate ends soon, or has ended.
    CertificateEnds = "certificate_ends",
    /// The server speaks versions of TLS that are out of use.
    OldTls = "old_tls",
    /// Each TLS connection makes a whole handshake.
    NoResumption = "no_resumption",
    /// No rule has anything to say.
    Clean = "clean",
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// How much a verdict matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is wrong: of [`Class::Clean`] alone.
    None,
    /// It costs a little, or may be on purpose.
    Note,
    /// It costs each user of the service time, or will soon.
    Warning,
    /// It costs much, or breaks clients.
    Problem,
}

impl Severity {
    /// The name in JSON and text.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One that a verdict can fail for: `note`, `warning` or `problem`.
impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let severities = [Self::Note, Self::Warning, Self::Problem];
        let found = severities.into_iter().find(|severity| severity.name() == text);
        found.ok_or_else(|| format!("{text:?} is no severity; choose from note, warning, problem"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for class in Class::ALL {
            assert_eq!(serde_json::to_string(class).unwrap(), format!("\"{class}\""));
        }
        for severity in [Severity::None, Severity::Note, Severity::Warning, Severity::Problem] {
            assert_eq!(serde_json::to_string(&severity).unwrap(), format!("\"{severity}\""));
        }
    }

    #[test]
    fn severities_are_in_order_and_none_is_not_asked_for() {
        assert!(Severity::None < Severity::Note && Severity::Note < Severity::Warning);
        assert!(Severity::Warning < Severity::Problem);
        assert_eq!("warning".parse(), Ok(Severity::Warning));
        assert!("none".parse::<Severity>().is_err_and(|said| said.contains("note, warning, problem")));
    }
}
