//! Requests that differ from the single ones in their head alone: HEAD, codings offered, a body that waits.

use std::time::Duration;

use anywire_http::Method;
use anywire_http::h1::Framing;
use anywire_loops::clock::{after, precise};

use super::super::link::{Fault, FaultKind, Wanted};
use super::super::measures::{Compression, Expectation, Head};
use super::super::spread::micros;
use super::super::target::Target;

/// HEAD, and GET behind it: a body behind the head of HEAD would be taken for the next answer.
pub(crate) async fn head(target: &Target) -> Result<Head, Fault> {
    let mut line = target.open().await?;
    let plain = line.exchange(&target.get(), target.patience()).await?;
    if !plain.keep_alive {
        line = target.open().await?;
    }
    let question = target.question(&Method::HEAD, target.path(), &[]);
    let answer = line.exchange(&question, target.patience()).await?;
    let mut has_body = line.has_unread();
    if has_body || !answer.keep_alive {
        line = target.open().await?;
    }
    let mut next = line.exchange(&target.get(), target.patience()).await;
    if !has_body && matches!(&next, Err(fault) if fault.kind == FaultKind::Parse) {
        has_body = true;
        next = target.open().await?.exchange(&target.get(), target.patience()).await;
    }
    // A page that is made anew each time has a length of its own each time.
    let is_steady =
        plain.status == answer.status && next.is_ok_and(|next| next.body_bytes == plain.body_bytes);
    let lengths = answer.headers.stated_length().zip(plain.headers.stated_length());
    Ok(Head {
        status: answer.status.as_u16(),
        same_length: lengths.filter(|_| is_steady).map(|(one, other)| one == other),
        has_body,
    })
}

/// The same request, with codings offered. Nothing is decoded: the length says enough.
pub(crate) async fn compression(target: &Target) -> Result<Compression, Fault> {
    let mut line = target.open().await?;
    let plain = target.question(&Method::GET, target.path(), &[("accept-encoding", "identity")]);
    let plain = line.exchange(&plain, target.patience()).await?;
    if !plain.keep_alive {
        line = target.open().await?;
    }
    let question = target.question(&Method::GET, target.path(), &[("accept-encoding", OFFERED)]);
    let answer = line.exchange(&question, target.patience()).await?;
    Ok(Compression {
        offered: OFFERED.to_owned(),
        coding: answer.headers.content_coding(),
        body_bytes: answer.body_bytes,
        plain_bytes: plain.body_bytes,
    })
}

/// GET with a body of one byte that waits for `100 Continue`, as uploads do. GET changes nothing in the service (RFC 9110 section 9.3.1
/// allows a body, and gives it no meaning).
pub(crate) async fn expect(target: &Target) -> Result<Expectation, Fault> {
    let mut link = target.open_http1().await?;
    let fields = [("expect", "100-continue")];
    let Ok(request) = target.head(&Method::GET, target.path(), &fields, Framing::Length(1)) else {
        return Err(Fault { kind: FaultKind::Parse, message: "the request cannot be written".into() });
    };
    let sent_at = precise();
    link.send(&request, target.patience()).await?;
    // A final answer may come at once; else 100, of which the decoder tells with the answer behind the body.
    let wait = after(sent_at, CLIENTS_WAIT.min(target.plan.timeout));
    let (said, read) = link.wait_for_bytes(wait).await?;
    let body_needed = !said || link.begins_with_interim();
    if body_needed {
        link.send(b"x", target.patience()).await?;
    }
    let answer = match link.receive(Wanted::Get, sent_at, target.patience()).await {
        Ok(answer) => Some(answer),
        Err(fault) if fault.kind == FaultKind::Timeout || !body_needed => return Err(fault),
        // It was answered by a close.
        Err(_) => None,
    };
    let interim = answer.as_ref().map(|answer| answer.interim);
    let has_continued = interim.is_some_and(|count| count > 0) && said && body_needed;
    Ok(Expectation {
        continue_after: has_continued.then(|| micros(read.saturating_duration_since(sent_at))),
        status: answer.map(|answer| answer.status.as_u16()),
        answered_without_body: !body_needed,
        ignored: body_needed && interim == Some(0),
    })
}

/// The codings that browsers offer.
const OFFERED: &str = "gzip, br, zstd";
/// How long curl waits before it sends the body all the same.
const CLIENTS_WAIT: Duration = Duration::from_secs(1);
