//! A connection that left HTTP by a response 101, and its way to the caller.

use std::future::Future;
use std::pin::Pin;

use anywire_wire::{Connection, Upgraded};
use bytes::Bytes;
use tokio::io::DuplexStream;

/// Copies until both sides have ended or one has failed.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()>>>;

/// The caller's end of a connection, which may be used on any executor, and the task of the loop's end. `received` came
/// behind the response's head.
pub(crate) fn tunnel(mut connection: Connection, received: Bytes) -> (Upgraded<DuplexStream>, Tunnel) {
    let (ours, mut theirs) = tokio::io::duplex(AHEAD_BYTES);
    let tunnel = async move {
        // Either side learns of a failure by the end of its stream.
        let _ = tokio::io::copy_bidirectional(&mut connection, &mut theirs).await;
    };
    (Upgraded::new(ours, received), Box::pin(tunnel))
}

/// Bytes that may be on their way between the caller and the loop, each way.
const AHEAD_BYTES: usize = 64 << 10;
