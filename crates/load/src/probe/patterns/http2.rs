//! A connection of HTTP/2: its settings and windows, the round trip of a PING, and single requests.

use anywire_advice::Chain;
use anywire_loops::clock::precise;

use super::super::link::Fault;
use super::super::measures::Http2;
use super::super::session::Session;
use super::super::spread::{Spread, micros};
use super::super::target::Target;

/// Opens it. `None` if the server does not agree to HTTP/2 (ALPN).
pub(crate) async fn http2(target: &Target) -> Result<Option<Http2>, Fault> {
    let dialled = match target.dial(Some("h2")).await {
        Ok(dialled) => dialled,
        // What a server says that speaks none of the protocols that were offered.
        Err(error) if Chain(&error).to_string().contains(NO_PROTOCOL) => return Ok(None),
        Err(error) => return Err(Fault::of_dial(&target.address, &error)),
    };
    let agreed = dialled.connection.negotiated().and_then(|agreed| agreed.protocol.as_deref());
    if target.address.has_tls() && agreed != Some("h2") {
        return Ok(None);
    }
    let mut session = Session::new(dialled, &target.plan.limits);
    let question = target.get();
    let begun = precise();
    session.greeted(target.patience()).await?;
    let settings_after = precise().saturating_duration_since(begun);
    // What stands behind the settings in the same read belongs to them, such as a larger window.
    let sent_at = precise();
    session.send(&question, target.patience()).await?;
    let status = session.receive(sent_at, target.patience()).await?.status.as_u16();
    let settings = session.settings();
    let ping = session.ping(target.patience()).await?;
    let mut latencies = Vec::new();
    let begun = precise();
    while latencies.len() < REQUESTS && !target.is_over(begun) {
        let sent_at = precise();
        let sent = session.send(&question, target.patience()).await;
        // How a connection ends is seen by the single requests.
        let Ok(()) = sent else { break };
        let Ok(answer) = session.receive(sent_at, target.patience()).await else { break };
        latencies.push(answer.latency());
        if !answer.keep_alive {
            break;
        }
    }
    Ok(Some(Http2 {
        settings: micros(settings_after),
        max_streams: settings.streams,
        stream_window_bytes: settings.stream_window_bytes,
        connection_window_bytes: settings.connection_window_bytes,
        frame_bytes: settings.frame_bytes,
        head_bytes: settings.head_bytes,
        ping: Some(micros(ping)),
        status,
        latency: Spread::of(latencies),
    }))
}

/// Single requests.
const REQUESTS: usize = 50;
/// What an alert of TLS says to an offer of HTTP/2 alone.
const NO_PROTOCOL: &str = "none of the application protocols that were offered";
