//! A connection that left HTTP by a response 101, and its way to the caller.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use anywire_mux::Upgraded;
use anywire_wire::Connection;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf, copy, split};
use tokio::sync::watch;

/// Copies until both sides have ended, one has failed, or the caller is gone.
pub(crate) type Tunnel = Pin<Box<dyn Future<Output = ()>>>;

/// The caller's end of a connection, which may be used on any executor, and the task of the loop's end. `received` came
/// behind the response's head.
pub(crate) fn tunnel(connection: Connection, received: Bytes) -> (Upgraded<DuplexStream>, Tunnel) {
    let (ours, theirs) = tokio::io::duplex(AHEAD_BYTES);
    // Either side learns of a failure by the end of its stream.
    (Upgraded::new(ours, received), Box::pin(async move { drop(carry(connection, theirs).await) }))
}

async fn carry(connection: Connection, caller: DuplexStream) -> io::Result<()> {
    let (mut from_peer, mut to_peer) = split(connection);
    let (mut from_caller, mut to_caller) = split(caller);
    let (tell, mut caller_has_ended) = watch::channel(false);
    let up = async {
        copy(&mut from_caller, &mut to_peer).await?;
        to_peer.shutdown().await?;
        tell.send_replace(true);
        Ok(())
    };
    let down = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = tokio::select! {
                read = from_peer.read(&mut buffer) => read?,
                () = gone(&mut caller_has_ended, &mut to_caller) => return Err(io::ErrorKind::BrokenPipe.into()),
            };
            if read == 0 {
                return to_caller.shutdown().await;
            }
            to_caller.write_all(&buffer[..read]).await?;
        }
    };
    tokio::try_join!(up, down).map(drop)
}

/// Ready once the caller has dropped its end. That looks like the end of its direction, and a peer that does not close
/// would keep the connection for ever. Only a write tells the difference, and none is due.
async fn gone(caller_has_ended: &mut watch::Receiver<bool>, to_caller: &mut WriteHalf<DuplexStream>) {
    if caller_has_ended.wait_for(|ended| *ended).await.is_ok() {
        while to_caller.write(&[]).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Bytes that may be on their way between the caller and the loop, each way.
const AHEAD_BYTES: usize = 64 << 10;

/// Read from the peer at once.
const BUFFER_BYTES: usize = 8 << 10;

/// How often a caller that has ended its direction is looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
