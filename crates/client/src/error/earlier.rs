//! What an error says of the attempts, the requests and the hops before the one that failed.

use super::Error;

impl Error {
    /// The error of a call that was sent so many times. `was_sent`: the peer may have acted on an attempt before the last one.
    pub(crate) fn after(mut self, attempts: u32, was_sent: bool) -> Self {
        match &mut self {
            // The requests of one attempt's interceptors.
            Self::Retried { attempts: counted, is_budget_spent: false, .. } => {
                *counted = attempts.max(*counted);
                if was_sent {
                    self.set_sent();
                }
                self
            }
            Self::Retried { .. } => self,
            _ if attempts == 1 => self,
            _ => {
                if was_sent {
                    self.set_sent();
                }
                Self::Retried { attempts, is_budget_spent: false, was_sent, source: Box::new(self) }
            }
        }
    }

    /// The error of a call that so many redirects have led here, whose peers have acted on it.
    pub(crate) fn behind_hops(mut self, hops: usize) -> Self {
        if hops == 0 || self.may_have_been_processed() {
            return self;
        }
        self.set_sent();
        match self.may_have_been_processed() {
            true => self,
            false => Self::Redirected { hops, source: Box::new(self) },
        }
    }

    /// The error of a call or an attempt whose interceptors have sent so many requests, of which the peer may have acted on one; of 0 as it is.
    pub(crate) fn behind_requests(mut self, requests: u32) -> Self {
        if requests == 0 {
            return self;
        }
        self.set_sent();
        match self.may_have_been_processed() {
            true => self,
            false => Self::Retried {
                attempts: requests,
                is_budget_spent: false,
                was_sent: true,
                source: Box::new(self),
            },
        }
    }

    /// Has it say that something of the call was sent, if it says anything about that.
    fn set_sent(&mut self) {
        match self {
            Self::Retried { was_sent, source, .. } => {
                *was_sent = true;
                source.set_sent();
            }
            Self::RequestBody { sent, .. }
            | Self::RequestHead { sent, .. }
            | Self::Shutdown { sent }
            | Self::Connect { sent, .. }
            | Self::Proxy { sent, .. }
            | Self::Loop { sent, .. }
            | Self::Timeout { sent, .. }
            | Self::ClosedByPeer { sent, .. }
            | Self::Stream { sent, .. }
            | Self::GoAway { sent, .. }
            | Self::Http2 { sent, .. }
            | Self::Io { sent, .. } => *sent = true,
            _ => {}
        }
    }
}
