//! Failed calls and loads in words for the person who typed them. They name the options of this command and who is at
//! fault, and come with curl's exit codes.

use anywire::Chain;
use anywire::client::proxy::{ProxyError, ProxyReason};
use anywire::client::{Error, Fault, Phase, RedirectFault, UrlError};
use anywire::http::h1::DecodeError;
use anywire::http::h2::{self, Abuse};
use anywire::http::{BodyError, StatusCode};
use anywire::load::LoadError;
use anywire::wire::DialError;

use crate::failure::{Code, Failure};
use crate::trust;

/// A failed call as two lines and an exit code.
pub(crate) fn call(url: &str, error: &Error) -> Failure {
    let url = match error {
        // The typed text without its password, if it has one.
        Error::Url { url, .. } => url,
        _ => url,
    };
    let calling = |code, found: &str| Failure::new(code, format_args!("calling {url}: {found}"));
    match error {
        Error::Connect { source, .. } => dial(source),
        Error::Proxy { source, .. } => proxy(url, source),
        Error::Url { source, .. } => bad_url(url, source),
        Error::ReservedHeader { name } => {
            calling(Code::Usage, &format!("the field {name:?} is written by the command, from the data"))
                .help("leave it out of --header, and give the body with --data")
        }
        Error::Encode(_) => {
            calling(Code::Usage, &found(error)).help("correct the Host field of --header: HOST, or HOST:PORT")
        }
        Error::Tunnel => calling(Code::Usage, "CONNECT asks for a tunnel, not for an answer")
            .help("choose another method with --request"),
        Error::RequestBody { source, .. } => {
            // The reason says which file it is about.
            let reason = match source {
                BodyError::Failed(reason) => found(&**reason),
                other => found(other),
            };
            calling(Code::Read, &format!("the data could not be sent: {reason}"))
                .help("see that what --data names can be read to its end")
        }
        Error::Timeout { phase, limit, .. } => {
            let is_before = matches!(phase, Phase::Resolve | Phase::Connect | Phase::Handshake);
            let option = if is_before { "--connect-timeout" } else { "--timeout" };
            calling(Code::Timeout, &format!("{phase} lasted over {limit:?}"))
                .help(format_args!("see what the server does, or raise {option}"))
        }
        Error::ClosedByPeer { phase, .. } => {
            let code = if *phase == Phase::Body { Code::Partial } else { Code::Empty };
            calling(code, &format!("the server closed the connection while {phase}"))
                .help(format_args!("the server is at fault, and its log may say why; {}", repeat(error)))
        }
        Error::SpeaksTls { .. } => calling(Code::Answer, "the server speaks TLS on this port")
            .help("write https:// instead of http://, or check the port"),
        Error::NoTls { address } => {
            calling(Code::Usage, &format!("the scheme is https, and there is no TLS over {address}"))
                .help("write http://, or name another wire with --via")
        }
        Error::Io { source, .. } if let Some(found) = error.handshake() => {
            calling(Code::Answer, &format!("the TLS connection broke: {source}")).help(trust::help(found))
        }
        Error::Io { phase, source, .. } => {
            calling(Code::Answer, &format!("the connection broke while {phase}: {source}"))
                .help(format_args!("see the server's log and the network; {}", repeat(error)))
        }
        Error::Response { source, .. } => answer(url, source),
        Error::Http2 { source: h2::Error::SpeaksHttp1, .. } => {
            calling(Code::Answer, "the server answers with HTTP/1 where HTTP/2 was asked for")
                .help("leave out --http2; or write https:// if it speaks HTTP/2 over TLS alone")
        }
        Error::Http2 { source: source @ h2::Error::Excess { what, .. }, .. } => {
            let failure = calling(Code::Answer, &format!("the answer is too large: {}", found(source)));
            let is_head = matches!(what, Abuse::HeadBytes | Abuse::Continuations);
            failure.help(limit_help(is_head.then_some("--max-head")))
        }
        Error::Http2 { phase, source, .. } => {
            calling(Code::Http2, &format!("the connection broke while {phase}: {}", found(source)))
                .help(format_args!("{SERVER_AT_FAULT}; {}", repeat(error)))
        }
        // It leaves in order: that is its right, and no fault.
        Error::GoAway { said, .. } if said.code == h2::Code::NO_ERROR && !error.may_have_been_processed() => {
            calling(
                Code::Http2,
                &format!("the server is leaving, and did not act on the request: GOAWAY, {said}"),
            )
            .help("it can be sent again without harm: call again when the server, or another one, is there")
        }
        Error::GoAway { phase, said, .. } => {
            calling(Code::Http2, &format!("the server ended the connection by GOAWAY while {phase}: {said}"))
                .help(format_args!("{SERVER_AT_FAULT}; {}", repeat(error)))
        }
        Error::Stream { code, why: None, .. } if *code == h2::Code::HTTP_1_1_REQUIRED => {
            calling(Code::Stream, "the server wants this request over HTTP/1.1 (HTTP_1_1_REQUIRED)")
                .help("ask with --http1")
        }
        Error::Stream { code, phase, why: None, .. } => {
            calling(Code::Stream, &format!("the server reset the stream while {phase}: {code}"))
                .help(format_args!("{SERVER_AT_FAULT}; {}", repeat(error)))
        }
        Error::Stream { why: Some(why), .. } => {
            calling(Code::Stream, &format!("the answer breaks the rules of HTTP/2: {}", found(why)))
                .help("the server is at fault: it must send what HTTP/2 allows")
        }
        Error::Interim { count, .. } => {
            calling(Code::Answer, &format!("{count} interim answers (1xx) came, and no final one"))
                .help("the server is at fault: it must end them with a final answer")
        }
        Error::Redirect { url: from, status, location, fault } => redirect(from, *status, location, fault),
        Error::Retried { attempts, source, .. } => {
            call(url, source).after(format_args!("; this was attempt {attempts}, the last one"))
        }
        Error::Redirected { source, .. } => call(url, source),
        Error::Body(cause) => {
            calling(Code::Answer, &found(cause)).help("see the server's log and the network")
        }
        other => calling(code(other), &found(other)).help(match other.fault() {
            Fault::Caller => "'anywire get --help' shows how a call is written",
            other => at_fault(other),
        }),
    }
}

/// Where to look for the reason.
fn at_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Peer => SERVER_AT_FAULT,
        Fault::Limit => "call less at a time",
        _ => "see the system's limits ('ulimit -a') and the network",
    }
}

const SERVER_AT_FAULT: &str = "the server is at fault, and its log may say why";

/// Whether the same call may be made again.
fn repeat(error: &Error) -> &'static str {
    if error.may_have_been_processed() {
        "it may have acted on the request, so call again only if that does no harm"
    } else {
        "nothing was sent, so call again"
    }
}

/// The exit code of an error that no case above names.
fn code(error: &Error) -> Code {
    match error.fault() {
        Fault::Caller => Code::Usage,
        Fault::Peer => Code::Answer,
        _ => Code::Failed,
    }
}

/// A proxy that made no connection: its words name it.
fn proxy(url: &str, error: &ProxyError) -> Failure {
    let code = match error.reason() {
        _ if error.is_timeout() => Code::Timeout,
        ProxyReason::Dial(DialError::Resolve { .. }) => Code::ResolveProxy,
        ProxyReason::Dial(_) if error.is_handshake() => Code::Handshake,
        ProxyReason::Dial(_) => Code::Connect,
        ProxyReason::Socks(_) | ProxyReason::NotSocks | ProxyReason::Target => Code::Socks,
        ProxyReason::LoginWanted { .. } | ProxyReason::LoginRefused if error.proxy().is_socks() => {
            Code::Socks
        }
        _ => Code::Answer,
    };
    let help = match error.reason() {
        ProxyReason::LoginWanted { .. } | ProxyReason::LoginRefused => {
            "write the user into its URL: --proxy http://USER:PASSWORD@HOST:PORT"
        }
        ProxyReason::TimedOut { .. } => "see what it waits for, or raise --connect-timeout",
        _ => "see the proxy and its log; --noproxy HOSTS goes without it",
    };
    Failure::new(code, format_args!("calling {url}: {}", found(error))).help(help)
}

/// A redirect that is not followed.
fn redirect(from: &str, status: StatusCode, location: &str, fault: &RedirectFault) -> Failure {
    let (code, help) = match fault {
        RedirectFault::TooMany(_) => (Code::Redirects, "raise --max-redirs, or see with -v where they lead"),
        RedirectFault::Circle => (Code::Redirects, "the server is at fault; -v shows the way"),
        RedirectFault::ClearText => (Code::Failed, "call that URL itself, if it may be read on its way"),
        RedirectFault::BodyIsGone => {
            (Code::Rewind, "call that URL itself: the data are too large to be kept")
        }
        RedirectFault::LeavesWire => {
            (Code::Failed, "call that URL itself, with a --via of its own or without one")
        }
        _ => (Code::Answer, "the server is at fault: it must name a URL of http or https"),
    };
    let fault = found(fault);
    Failure::new(
        code,
        format_args!("calling {from}: the redirect ({status}) to {location:?} is not followed: {fault}"),
    )
    .help(help)
}

/// No connection: the wire's words name the address, and what would help.
pub(crate) fn dial(error: &DialError) -> Failure {
    if let Some(found) = error.handshake() {
        let code = match found {
            _ if found.is_not_pinned() => Code::Pinned,
            _ if found.is_certificate() => Code::Certificate,
            _ => Code::Handshake,
        };
        return Failure::of(code, error).help(trust::help(found));
    }
    let code = match error {
        _ if error.is_timeout() => Code::Timeout,
        DialError::Handshake { .. } => Code::Handshake,
        DialError::Resolve { .. } => Code::Resolve,
        // This process is at its end, not the way to the server.
        DialError::Descriptors { .. } => Code::Failed,
        _ => Code::Connect,
    };
    let failure = Failure::of(code, error);
    match trust::help_with(&found(error)) {
        Some(help) if code == Code::Handshake => failure.help(help),
        _ => failure,
    }
}

/// An answer that is no answer, or one over a limit of this command.
fn answer(url: &str, error: &DecodeError) -> Failure {
    let found = found(error);
    if error.fault() == Fault::Limit {
        let option = match error {
            DecodeError::HeadTooLarge { .. } => Some("--max-head"),
            DecodeError::TooManyHeaders { .. } => Some("--max-fields"),
            DecodeError::StartLineTooLong { .. } => Some("--max-start-line"),
            _ => None,
        };
        let failure =
            Failure::new(Code::Answer, format_args!("calling {url}: the answer is too large: {found}"));
        return failure.help(limit_help(option));
    }
    let found = match error {
        DecodeError::StartLine => "it does not begin with a status line such as HTTP/1.1 200 OK",
        _ => &found,
    };
    let help = match error {
        DecodeError::StartLine => {
            "see that the port is right: HTTP/1.1 without TLS is expected there, and the server sent something else"
        }
        _ if error.is_cut_short() => "the server is at fault: it closed too early, and its log may say why",
        _ => "the server is at fault: it must send what HTTP/1.1 allows",
    };
    let code = if error.is_cut_short() { Code::Partial } else { Code::Answer };
    Failure::new(code, format_args!("calling {url}: the answer breaks the rules of HTTP/1.1: {found}"))
        .help(help)
}

/// What helps if an answer is over a limit, by the option that sets it.
fn limit_help(option: Option<&str>) -> String {
    match option {
        Some(option) => format!("raise {option}, or let the server send less"),
        None => "the server is at fault: nobody needs so much of it".to_owned(),
    }
}

/// What helps if a load found, in these words, that an answer is over a limit.
pub(crate) fn limit_of_load(found: &str) -> Option<String> {
    let (_, over) = found.split_once("over a limit of this run: ")?;
    let option = OPTION_OF_HEAD.iter().find(|(start, end, _)| over.starts_with(start) && over.contains(end));
    Some(limit_help(option.map(|(.., option)| *option)))
}

/// How the texts of limits on heads begin, what else is in them, and their options.
const OPTION_OF_HEAD: &[(&str, &str, &str)] = &[
    ("reading the start line", "bytes", "--max-start-line"),
    ("reading the head", "bytes", "--max-head"),
    ("reading the head", "headers", "--max-fields"),
    ("reading frames", "of a head", "--max-head"),
];

/// A load that cannot run: what the plan asks for came from options, so that these are what to change.
pub(crate) fn plan(error: &LoadError) -> Failure {
    let wrong = Failure::new(Code::Usage, found(error));
    match error {
        LoadError::Limit { what, least, most, .. } => {
            let option = OPTION_OF.iter().find(|(asked, _)| what.contains(asked)).map(|(_, option)| option);
            match option {
                Some(option) => wrong.help(format_args!("give {option} a value from {least} to {most}")),
                None => wrong.help(format_args!("ask for {least} to {most}")),
            }
        }
        // Its own words say where it stands and how it is written.
        LoadError::Script { .. } => Failure::of(Code::Usage, error),
        LoadError::Request { .. } => wrong.help("correct the Host field of --header: HOST, or HOST:PORT"),
        LoadError::Url { source: UrlError::UserInfo, .. } => {
            wrong.help("leave the user out of it, and send -H 'Authorization: Basic ...' instead")
        }
        LoadError::Url { source, .. } => wrong.help(url_help(source)),
        LoadError::Address { .. } => wrong.help(WRITE_URL),
        LoadError::Method { .. } => wrong.help("choose another --method"),
        other => Failure::of(Code::Failed, other),
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        plan(&error)
    }
}

/// What a plan may ask too much of, and the option that says how much.
const OPTION_OF: &[(&str, &str)] = &[
    ("connections", "--connections"),
    ("in one write (pipeline)", "--pipeline"),
    ("depth", "--depth"),
    ("ms of timeout", "--timeout (in ms)"),
    ("ms of connect timeout", "--connect-timeout (in ms)"),
    ("ms of handshake timeout", "--connect-timeout (in ms)"),
    ("ms of warm-up", "--warm-up (in ms)"),
    ("ms of duration", "--duration (in ms)"),
    ("bytes of one request", "--data with --header (in bytes)"),
    ("requests", "--requests"),
];

/// A URL that is none, as it may be shown.
pub(crate) fn bad_url(url: &str, error: &UrlError) -> Failure {
    Failure::new(Code::Usage, format_args!("calling {url}: {}", found(error))).help(url_help(error))
}

fn url_help(error: &UrlError) -> &'static str {
    match error {
        UrlError::Tls => "use http://, if the server takes it",
        UrlError::UserInfo => "leave the user out of it, and write --user USER:PASSWORD beside it",
        _ => WRITE_URL,
    }
}

const WRITE_URL: &str = "write it as http://HOST[:PORT]/PATH, or with https; a wire is named beside it, as in --via unix:/run/app.sock";

/// What was found, without the advice, which is for programmers.
fn found(error: &dyn std::error::Error) -> String {
    Chain(error).message().found
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_exit_code_and_the_help_follow_the_error() {
        let (origin, second) = (|| "http://h".to_owned(), Duration::from_secs(1));
        let address: anywire::wire::Address = "tcp:127.0.0.1:1".parse().expect("an address");
        let connect = |source| Error::Connect { origin: origin(), source, sent: false };
        let late = |phase| Error::Timeout { origin: origin(), phase, limit: second, sent: false };
        let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
        for (error, code, help) in [
            (connect(DialError::Timeout { address: address.clone(), after: second }), 28, "firewall"),
            (connect(DialError::Descriptors { address }), 1, "ulimit"),
            (late(Phase::Connect), 28, "raise --connect-timeout"),
            (late(Phase::Handshake), 28, "raise --connect-timeout"),
            (late(Phase::Read), 28, "raise --timeout"),
            (
                Error::RequestBody { origin: origin(), source: BodyError::failed(broken()), sent: true },
                26,
                "--data",
            ),
            (
                Error::Io { origin: origin(), phase: Phase::Read, source: broken(), sent: true },
                56,
                "may have acted",
            ),
        ] {
            let failure = call("http://h/", &error);
            assert!(format!("{failure:?}").contains(help), "{failure:?}");
            assert_eq!(failure.report(), code, "{failure:?}");
        }
    }
}
