//! What has been read of an answer that is coming, in either version of HTTP: its reads and their times, and how much of its body.

use std::time::{Duration, Instant};

use anywire_advice::Message;

use super::link::{Answer, Fault, FaultKind};

/// What has come of an answer beside its head.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) reads: usize,
    pub(super) body_bytes: u64,
    interim: usize,
    /// A read ended behind the head, and a body was to come.
    pub(super) head_alone: bool,
    /// From the head that came alone to the first bytes of the body.
    gap: Option<Duration>,
    pub(super) last_read: Option<Instant>,
    /// The longest time between two reads.
    pause: Option<Duration>,
}

impl Reading {
    /// A read has brought something.
    pub(super) fn read(&mut self, now: Instant) {
        self.reads += 1;
        if let Some(last) = self.last_read.replace(now) {
            self.pause = self.pause.max(Some(now.saturating_duration_since(last)));
        }
    }

    /// An interim answer (1xx) has come.
    pub(super) fn interim(&mut self) -> Result<(), Fault> {
        self.interim += 1;
        if self.interim <= INTERIM_MAX {
            return Ok(());
        }
        let message = format!("the server sent over {INTERIM_MAX} interim answers before its answer");
        Err(Fault { kind: FaultKind::Parse, message: message.into() })
    }

    /// A piece of the body has come, behind a head that came then. A body may have so many bytes.
    pub(super) fn body(
        &mut self,
        bytes: usize,
        head_at: Option<Instant>,
        now: Instant,
        bytes_max: u64,
    ) -> Result<(), Fault> {
        if self.body_bytes == 0 && self.head_alone {
            self.gap = head_at.map(|head_at| now.saturating_duration_since(head_at));
        }
        self.body_bytes += bytes as u64;
        if self.body_bytes <= bytes_max {
            return Ok(());
        }
        let message = Message::new(format!("the body of an answer has more than {bytes_max} bytes"));
        let message = message.with_help("probe a path with a shorter answer");
        Err(Fault { kind: FaultKind::Parse, message })
    }

    /// The answer whose head has come, with what was read behind it.
    pub(super) fn of(self, head: Answer) -> Answer {
        let Self { reads, body_bytes, interim, head_alone, gap, pause, .. } = self;
        Answer { reads, body_bytes, interim, head_alone, gap, pause, ..head }
    }
}

/// Far more than any server sends before one answer, and an end for one that sends nothing else.
const INTERIM_MAX: usize = 100;
