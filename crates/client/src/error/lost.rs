//! The words for calls that were lost on their way.

use std::fmt;

use anywire_http::h2::{Code, MessageError};

use crate::Phase;

/// Who ended a stream, and why.
pub(super) struct Cut {
    pub(super) code: Code,
    pub(super) phase: Phase,
    pub(super) why: Option<MessageError>,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, phase, why } = self;
        match why {
            None => write!(f, "was reset by the peer with {code} while {phase}"),
            Some(why) => write!(f, "was ended with {code} while {phase}: {why}"),
        }
    }
}

pub(super) fn advice_when_lost(sent: bool) -> &'static str {
    match sent {
        true => "it may have been processed, so send it again only if that does no harm",
        false => "nothing was sent, so it can be sent again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_lost_request_says_whether_it_may_be_repeated() {
        let lost = |sent| Error::ClosedByPeer { origin: "http://h".into(), phase: Phase::Read, sent };
        assert!(lost(true).may_have_been_processed());
        assert!(lost(true).to_string().contains("may have been processed"));
        assert!(!lost(false).may_have_been_processed());
        assert!(lost(false).to_string().contains("nothing was sent"));
    }
}
