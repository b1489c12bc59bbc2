//! A connection that left HTTP by a response 101, and its way to the caller.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use anywire_mux::{Departure, Upgraded};
use anywire_wire::Connection;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, split};
use tokio::sync::watch;
use tokio::time::timeout;

/// Copies until both sides have ended, one has failed, or the caller is gone.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()>>>;

/// The caller's end of a connection, which may be used on any executor, and the task of the loop's end. `received` came
/// behind the response's head. Once the caller is gone, the peer may take nothing for `patience` at most.
pub(crate) fn tunnel(
    connection: Connection,
    received: Bytes,
    patience: Duration,
) -> (Upgraded<DuplexStream>, Tunnel) {
    let (ours, theirs) = tokio::io::duplex(AHEAD_BYTES);
    // Either side learns of a failure by the end of its stream.
    let (upgraded, departure) = Upgraded::new(ours, received).watched();
    let carried = async move { drop(carry(connection, theirs, departure, patience).await) };
    (upgraded, Box::pin(carried))
}

async fn carry(
    connection: Connection,
    caller: DuplexStream,
    departure: Departure,
    patience: Duration,
) -> io::Result<()> {
    let (mut from_peer, mut to_peer) = split(connection);
    let (mut from_caller, mut to_caller) = split(caller);
    let (tell, upward) = watch::channel(Upward::Flows);
    let up = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = from_caller.read(&mut buffer).await?;
            if read == 0 {
                // With TLS this is a write, too.
                watched(&tell, to_peer.shutdown()).await?;
                break;
            }
            let mut rest = &buffer[..read];
            while !rest.is_empty() {
                // Each part that the peer takes is progress.
                match watched(&tell, to_peer.write(rest)).await? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    taken => rest = &rest[taken..],
                }
            }
            watched(&tell, to_peer.flush()).await?;
        }
        tell.send_replace(Upward::HasEnded);
        Ok(())
    };
    let mut up_ends = upward.clone();
    let down = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut over = pin!(async {
            // Seen by the bytes alone, a caller who has dropped its end has ended its direction, and a peer that neither closes nor reads
            // would keep the connection for ever.
            departure.await;
            all_is_taken(upward, patience).await;
            io::Error::from(io::ErrorKind::BrokenPipe)
        });
        loop {
            let read = tokio::select! {
                read = from_peer.read(&mut buffer) => read?,
                error = &mut over => return Err(error),
            };
            // An error says that the caller is gone, who hears no more. What it has sent before goes on to the peer.
            if read > 0 {
                let _ = to_caller.write_all(&buffer[..read]).await;
                continue;
            }
            let _ = to_caller.shutdown().await;
            return tokio::select! {
                _ = up_ends.wait_for(|upward| *upward == Upward::HasEnded) => Ok(()),
                error = &mut over => Err(error),
            };
        }
    };
    tokio::try_join!(up, down).map(drop)
}

/// How the bytes of the caller fare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upward {
    Flows,
    /// The peer takes none for now.
    IsStuck,
    HasEnded,
}

/// Carries out a write, and tells when it does not come to its end.
async fn watched<T>(
    tell: &watch::Sender<Upward>,
    write: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut write = pin!(write);
    match timeout(STUCK_AFTER, &mut write).await {
        Ok(written) => written,
        Err(_) => {
            tell.send_replace(Upward::IsStuck);
            let written = write.await?;
            tell.send_replace(Upward::Flows);
            Ok(written)
        }
    }
}

/// Ready once the peer has taken all of a caller who has left, or nothing for `patience`.
async fn all_is_taken(mut upward: watch::Receiver<Upward>, patience: Duration) {
    loop {
        let state = *upward.borrow_and_update();
        let is_over = match state {
            Upward::HasEnded => true,
            Upward::IsStuck => {
                timeout(patience, upward.changed()).await.map_or(true, |changed| changed.is_err())
            }
            // It is stuck soon, or ends.
            Upward::Flows => upward.changed().await.is_err(),
        };
        if is_over {
            return;
        }
    }
}

/// Bytes that may be on their way between the caller and the loop, each way.
const AHEAD_BYTES: usize = 64 << 10;

/// Read at once from either side.
const BUFFER_BYTES: usize = 8 << 10;

/// How long the peer may take nothing before its patience begins to count.
const STUCK_AFTER: Duration = Duration::from_secs(1);
