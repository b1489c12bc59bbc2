//! A connection that left HTTP by a response 101, and its way to the caller.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use anywire_mux::Upgraded;
use anywire_wire::Connection;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, split};
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
    let carried = async move { drop(carry(connection, theirs, patience).await) };
    (Upgraded::new(ours, received), Box::pin(carried))
}

async fn carry(connection: Connection, caller: DuplexStream, patience: Duration) -> io::Result<()> {
    let (mut from_peer, mut to_peer) = split(connection);
    let (mut from_caller, mut to_caller) = split(caller);
    let (tell, mut upward) = watch::channel(Upward::Flows);
    let up = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = from_caller.read(&mut buffer).await?;
            let write = async {
                if read == 0 {
                    // With TLS this is a write, too.
                    return to_peer.shutdown().await;
                }
                to_peer.write_all(&buffer[..read]).await?;
                to_peer.flush().await
            };
            let mut write = pin!(write);
            match timeout(LOOK_EVERY, &mut write).await {
                Ok(written) => written?,
                Err(_) => {
                    tell.send_replace(Upward::IsStuck);
                    write.await?;
                    tell.send_replace(Upward::Flows);
                }
            }
            if read == 0 {
                break;
            }
        }
        tell.send_replace(Upward::HasEnded);
        Ok(())
    };
    let down = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = tokio::select! {
                read = from_peer.read(&mut buffer) => read?,
                () = gone(&mut upward, &mut to_caller, patience) => return Err(io::ErrorKind::BrokenPipe.into()),
            };
            if read == 0 {
                return to_caller.shutdown().await;
            }
            if to_caller.write_all(&buffer[..read]).await.is_err() {
                return discard(&mut from_peer, &mut upward, patience).await;
            }
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

/// Ready once the caller has dropped its end. A dropped end looks like the end of its direction, and a peer that neither closes nor
/// reads would keep the connection for ever. Only a write tells the difference. So an empty write asks, while no other is due.
async fn gone(
    upward: &mut watch::Receiver<Upward>,
    to_caller: &mut WriteHalf<DuplexStream>,
    patience: Duration,
) {
    while upward.wait_for(|upward| *upward != Upward::Flows).await.is_ok() {
        if to_caller.write(&[]).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        }
        return all_is_taken(upward, patience).await;
    }
}

/// Drops what the peer says to a caller who has left, and fails once the peer has taken what the caller has sent before.
async fn discard(
    from_peer: &mut ReadHalf<Connection>,
    upward: &mut watch::Receiver<Upward>,
    patience: Duration,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    let dropped = async {
        while from_peer.read(&mut buffer).await? > 0 {}
        io::Result::Ok(())
    };
    tokio::select! {
        // The end of the peer's direction is none of ours.
        Err(error) = dropped => Err(error),
        () = all_is_taken(upward, patience) => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

/// Ready once the peer has taken all of a caller who has left, or nothing for `patience`.
async fn all_is_taken(upward: &mut watch::Receiver<Upward>, patience: Duration) {
    loop {
        let state = *upward.borrow_and_update();
        let is_over = match state {
            Upward::HasEnded => true,
            Upward::IsStuck => {
                timeout(patience, upward.changed()).await.map_or(true, |changed| changed.is_err())
            }
            // It is stuck within a second, or ends.
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

/// How often a caller is looked for that has ended its direction, or whose peer takes nothing.
const LOOK_EVERY: Duration = Duration::from_secs(1);
