//! Why a body cannot be read, or a response cannot be had in a format that its peer accepts.

use std::error::Error as StdError;

use anywire_advice::{Advice, Chain};
use anywire_http::{IntoResponse, Method, Response, StatusCode};

use crate::conditions::takes;
use crate::extract::Rejection;
use crate::layers::Problem;
use crate::respond::{Error, FAILED};

/// Why [`Decoded`](super::Decoded) or [`Format`](super::Format) refused a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecRejection {
    /// As of an extractor of the body: it is too large, breaks off, or is JSON that does not fit.
    #[error(transparent)]
    Extractor(#[from] Rejection),
    /// 415, the peer's fault: no codec of the route reads this type.
    #[error("the content type is {found:?}, expected {reads}", reads = reads.join(", "))]
    ContentType {
        /// What the request said.
        found: String,
        /// What is read.
        reads: Vec<String>,
        /// The method of the request.
        method: Method,
    },
    /// 406, the peer's fault: it accepts nothing that the codecs of the route write.
    #[error("nothing of what is accepted is available{help}", help = Advice(format_args!("accept {}", writes.join(", "))))]
    NotAcceptable {
        /// What is available.
        writes: Vec<String>,
    },
    /// 400, the peer's fault, or what the codec says: it cannot read the body.
    #[error("the body does not fit")]
    Decode {
        /// The status that the peer gets.
        status: StatusCode,
        /// What the codec says.
        #[source]
        cause: Box<dyn StdError + Send + Sync>,
    },
    /// What a [`CodecAdvice`](super::CodecAdvice) says.
    #[error("{}", .0.message())]
    Advice(Error),
}

impl CodecRejection {
    /// The status that the peer gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Extractor(rejection) => rejection.status(),
            Self::ContentType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            Self::Decode { status, .. } => *status,
            Self::Advice(error) => error.status(),
        }
    }
}

impl IntoResponse for CodecRejection {
    fn into_response(self) -> Response {
        let status = self.status();
        let problem = match status.is_server_error() {
            true => Problem::new(status).detail(FAILED),
            false => Problem::new(status).detail(Chain(&self).for_peer().to_string()),
        };
        let response = match &self {
            Self::ContentType { reads, method, .. } => {
                let mut response = problem.member("supported", reads.clone()).into_text();
                let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
                takes::refuse(&mut response.headers, method, &reads);
                response
            }
            Self::NotAcceptable { writes } => {
                problem.member("available", writes.clone()).into_text().header("vary", "accept")
            }
            Self::Decode { .. } => problem.into_text(),
            Self::Extractor(_) | Self::Advice(_) => return self.into_inner(),
        };
        response.caused_by(&self)
    }
}

impl CodecRejection {
    /// The response of what it only passes on.
    fn into_inner(self) -> Response {
        match self {
            Self::Extractor(rejection) => rejection.into_response(),
            Self::Advice(error) => error.into_response(),
            other => other.status().into(),
        }
    }
}
