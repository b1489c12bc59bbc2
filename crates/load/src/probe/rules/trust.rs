//! Clocks and certificates.

use super::super::outcome::Outcome;
use super::super::verdict::Class;
use super::{Found, Rule};
use crate::text::time;

pub(super) const RULES: &[Rule] = &[
    Rule {
        class: Class::Clock,
        judge: clock,
        why: "caches count the age of answers from 'Date', and tokens, cookies and certificates are judged by the server's clock",
        change: "let the server's clock follow NTP ('timedatectl' shows whether it does), or this machine's, if that is the wrong one",
    },
    Rule {
        class: Class::CertificateEnds,
        judge: certificate_ends,
        why: "from its end on no client that checks certificates talks to the service",
        change: "renew the certificate, and have it renewed by itself (ACME); see that the server loads the new one",
    },
    Rule {
        class: Class::OldTls,
        judge: old_tls,
        why: "TLS 1.0 and 1.1 must not be used (RFC 8996): they rest on SHA-1 and MD5, audits fail, and an attacker on the way may look for \
              clients that fall back to them",
        change: "allow TLS 1.2 and 1.3 alone (nginx: ssl_protocols TLSv1.2 TLSv1.3; OpenSSL: MinProtocol = TLSv1.2)",
    },
    Rule {
        class: Class::NoResumption,
        judge: no_resumption,
        why: "each connection makes a whole handshake: signatures that cost the server a fraction of a ms of CPU time, and with TLS 1.2 a \
              round trip more",
        change: "turn session tickets on (nginx: ssl_session_tickets on), with keys that all processes and machines of the service share",
    },
];

fn clock(outcome: &Outcome) -> Option<Found> {
    let skew = outcome.clock?.skew_seconds;
    (skew.abs() > SKEW_SECONDS).then(|| {
        let direction = if skew > 0.0 { "ahead of" } else { "behind" };
        Found::warning(format!(
            "the server's 'Date' is {} {direction} this machine's clock",
            time(skew.abs() * 1e6)
        ))
    })
}

fn certificate_ends(outcome: &Outcome) -> Option<Found> {
    let tls = outcome.tls.as_ref()?;
    let left = tls.days_left?;
    // Certificates of a few days are renewed in their last third.
    let enough = tls.days_in_all.map_or(DAYS_ENOUGH, |all| (all / 3.0).min(DAYS_ENOUGH));
    let whose = tls.subject.as_deref().filter(|subject| !subject.is_empty()).unwrap_or("the server");
    if left < 0.0 {
        Some(Found::problem(format!("the certificate of {whose} ended {:.1} days ago", -left)))
    } else if left < enough {
        Some(Found::warning(format!("the certificate of {whose} ends in {left:.1} days")))
    } else {
        None
    }
}

fn old_tls(outcome: &Outcome) -> Option<Found> {
    let versions = outcome.tls.as_ref()?.versions.as_ref()?;
    let old: Vec<_> = versions.iter().filter(|version| OUT_OF_USE.contains(&version.as_str())).collect();
    let others = versions.len() - old.len();
    (!old.is_empty()).then(|| {
        let old: Vec<&str> = old.into_iter().map(String::as_str).collect();
        let beside = if others == 0 { ", and nothing newer" } else { "" };
        Found::warning(format!("the server agrees to {}{beside}", old.join(" and ")))
    })
}

fn no_resumption(outcome: &Outcome) -> Option<Found> {
    let tls = outcome.tls.as_ref()?;
    (tls.offered >= OFFERED_MIN && tls.resumed == 0).then(|| {
        let handshake =
            tls.handshake.map_or_else(String::new, |handshake| format!(", which takes {}", time(handshake)));
        Found::note(format!(
            "{} later connections offered to resume, and each made a whole handshake{handshake}",
            tls.offered
        ))
    })
}

/// A date has whole seconds, and may be a second old; a request takes some, too.
const SKEW_SECONDS: f64 = 5.0;
/// Two weeks to find out why it was not renewed.
const DAYS_ENOUGH: f64 = 14.0;
/// One connection may have met a process that does not share its keys.
const OFFERED_MIN: usize = 2;
/// RFC 8996.
const OUT_OF_USE: [&str; 2] = ["TLSv1.0", "TLSv1.1"];
