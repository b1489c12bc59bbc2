//! TLS: what was agreed on, the certificate, and whether later connections resume the session of the first.

#[cfg(feature = "tls")]
use std::time::SystemTime;

use super::super::line::Line;
use super::super::link::Fault;
use super::super::measures::TlsFacts;
use super::super::spread::micros;
use super::super::target::Target;
use super::tls_versions;

/// Opens a few connections. `None` if they have no TLS around them.
pub(crate) async fn tls(target: &Target) -> Result<Option<TlsFacts>, Fault> {
    let first = visited(target).await?;
    let Some(agreed) = first.connection().negotiated().cloned() else { return Ok(None) };
    let mut facts = TlsFacts {
        version: agreed.version.clone(),
        cipher_suite: agreed.cipher_suite.clone(),
        alpn: agreed.protocol.clone(),
        subject: None,
        issuer: None,
        days_left: None,
        days_in_all: None,
        versions: None,
        offered: 0,
        resumed: 0,
        handshake: None,
        handshake_resumed: None,
    };
    #[cfg(feature = "tls")]
    {
        facts.subject = agreed.peer_subject();
        facts.issuer = agreed.peer_issuer();
        if let Some((from, until)) = agreed.peer_validity() {
            facts.days_left = Some(days_between(SystemTime::now(), until));
            facts.days_in_all = Some(days_between(from, until));
        }
    }
    note(&mut facts, &first);
    for _ in 0..LATER {
        let line = visited(target).await?;
        facts.offered += 1;
        facts.resumed += usize::from(is_resumed(&line));
        note(&mut facts, &line);
    }
    let versions = tls_versions(target).await;
    facts.versions = versions.map_err(|error| Fault::of_dial(&target.address, &error))?;
    Ok(Some(facts))
}

/// A connection with an answer on it: TLS 1.3 sends what a later connection resumes by behind the handshake.
async fn visited(target: &Target) -> Result<Line, Fault> {
    target.open_and_get().await
}

fn is_resumed(line: &Line) -> bool {
    line.connection().negotiated().is_some_and(|agreed| agreed.is_resumed)
}

/// The shortest handshake of its kind.
fn note(facts: &mut TlsFacts, line: &Line) {
    let of_kind = if is_resumed(line) { &mut facts.handshake_resumed } else { &mut facts.handshake };
    let time = line.tls().map(micros);
    *of_kind = (*of_kind).into_iter().chain(time).reduce(f64::min);
}

/// From one time to another in days, below 0 if that is earlier.
#[cfg(feature = "tls")]
fn days_between(from: SystemTime, until: SystemTime) -> f64 {
    let seconds = match until.duration_since(from) {
        Ok(later) => later.as_secs_f64(),
        Err(earlier) => -earlier.duration().as_secs_f64(),
    };
    seconds / 86_400.0
}

/// Connections after the first.
const LATER: usize = 3;
