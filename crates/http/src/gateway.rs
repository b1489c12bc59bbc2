//! The status that an error of a call to another server is worth, wherever such an error meets a response.
//!
//! A handler that calls another server acts as a gateway: the other one's fault is a 502, its silence a 504 (RFC 9110 sections
//! 15.6.3 and 15.6.5). A server does not know the errors of a client, nor a client the responses of a server. So the client
//! says here what its errors are worth, once for the process.

use std::error::Error;
use std::iter::successors;
use std::sync::OnceLock;

use http::StatusCode;

/// What an error is worth if it is one of a call. It is asked for each cause too.
pub type StatusOf = fn(&(dyn Error + 'static)) -> Option<StatusCode>;

/// Says what errors of calls are worth. Only the first word counts.
pub fn know_calls(status_of: StatusOf) {
    // A second client says the same.
    let _ = CALLS.set(status_of);
}

/// The status for this error, or for the first of its causes that is one of a call. `None` if none is.
pub fn status_of_call(error: &(dyn Error + 'static)) -> Option<StatusCode> {
    let status_of = CALLS.get()?;
    successors(Some(error), |&error| error.source()).find_map(status_of)
}

static CALLS: OnceLock<StatusOf> = OnceLock::new();

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::BodyError;

    #[derive(Debug, thiserror::Error)]
    #[error("a call")]
    struct Call;

    #[test]
    fn a_cause_is_found_behind_other_errors() {
        let body = || BodyError::failed(io::Error::other(Call));
        assert_eq!(status_of_call(&Call), None, "nobody has said what it is worth");
        know_calls(|error| error.is::<Call>().then_some(StatusCode::BAD_GATEWAY));
        know_calls(|_| Some(StatusCode::OK));
        assert_eq!(status_of_call(&Call), Some(StatusCode::BAD_GATEWAY));
        assert_eq!(status_of_call(&BodyError::failed(Call)), Some(StatusCode::BAD_GATEWAY));
        assert_eq!(status_of_call(&BodyError::Timeout), None);
        // `io::Error` shows the source of what it wraps, not that itself.
        assert_eq!(status_of_call(&body()), None);
    }
}
