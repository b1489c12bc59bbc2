//! The ways to the peer: some are slow, some lead nowhere, each has a handshake, and all are counted.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use anywire_client::connector::{Connecting, Connector, Target};
use anywire_wire::{Address, Connection, DialError, Dialer, Negotiated, Transport};

use crate::support::Dice;

/// What each end says first.
pub(super) const HELLO: &[u8] = b"hello";

#[derive(Clone)]
pub(super) struct Roads {
    peer: Address,
    turns: Arc<AtomicU64>,
    open: Arc<Open>,
}

/// Connections that are dialled or open.
#[derive(Default)]
struct Open {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Roads {
    /// To a peer in memory. TLS goes around the connections if the URL says so.
    pub(super) fn new(peer: &Address, seed: u64) -> Self {
        let peer = peer.to_string().replace("tls+", "").parse().expect("an address");
        Self { peer, turns: Arc::new(AtomicU64::new(seed << 40)), open: Arc::default() }
    }

    pub(super) fn open(&self) -> usize {
        self.open.now.load(Ordering::SeqCst)
    }

    pub(super) fn most_open(&self) -> usize {
        self.open.most.load(Ordering::SeqCst)
    }
}

impl Connector for Roads {
    fn connect<'a>(&'a self, target: &'a Target) -> Connecting<'a> {
        let counted = Counted::new(&self.open);
        Box::pin(async move {
            let dice = Dice::new(self.turns.fetch_add(1, Ordering::Relaxed));
            dice.rest(20).await;
            if dice.once_in(12) {
                return Err(DialError::Refused { address: self.peer.clone() }.into());
            }
            let inner = Dialer::default().dial(&self.peer).await?;
            let mut connection = target.secure(inner).await?;
            let mut greeting = [0; HELLO.len()];
            let mut got = 0;
            connection.write_all(HELLO).await.map_err(|_| self.lost())?;
            while got < greeting.len() {
                match connection.read(&mut greeting[got..]).await {
                    Ok(count @ 1..) => got += count,
                    _ => return Err(self.lost().into()),
                }
            }
            Ok(Connection::new(Counting { inner: connection, _counted: counted }))
        })
    }
}

impl Roads {
    fn lost(&self) -> DialError {
        DialError::Reset { address: self.peer.clone() }
    }
}

struct Counted(Arc<Open>);

impl Counted {
    fn new(open: &Arc<Open>) -> Self {
        let now = open.now.fetch_add(1, Ordering::SeqCst) + 1;
        open.most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection that is counted for as long as the client holds it. With TLS the wire below may stay for a while, for a peer that has yet
/// to read the last bytes: beyond the cap, and few at a time.
struct Counting {
    inner: Connection,
    _counted: Counted,
}

impl Transport for Counting {
    fn negotiated(&self) -> Option<&Arc<Negotiated>> {
        self.inner.negotiated()
    }

    fn is_buffered(&self) -> bool {
        self.inner.is_buffered()
    }

    fn held_back(&self) -> usize {
        self.inner.held_back()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_flush(cx)
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_readable(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_read(cx, buffer)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.inner.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner.poll_write_vectored(cx, slices)
    }

    fn poll_half_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner.poll_half_close(cx)
    }

    fn abort(&mut self) {
        self.inner.abort();
    }

    fn local(&self) -> Address {
        self.inner.local()
    }

    fn peer(&self) -> Address {
        self.inner.peer()
    }
}
