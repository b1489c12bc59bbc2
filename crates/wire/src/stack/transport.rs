//! A connection of this wire, and one that waits to be registered with its loop.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use anywire_stack::stream::Stream;
use anywire_sys::thread_bound::ThreadBound;

use super::Stack;
use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::wires::Arrival;

/// A connection that waits on its loop.
pub(super) struct StackArrival(ThreadBound<StackTransport>);

impl StackArrival {
    pub(super) fn of(transport: StackTransport) -> Box<dyn Arrival> {
        Box::new(Self(ThreadBound::new(transport)))
    }
}

impl Arrival for StackArrival {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        let transport = self.0.into_inner();
        let transport =
            transport.ok_or_else(|| io::Error::other("a connection of this wire cannot leave its loop"))?;
        Ok(Connection::new(transport))
    }
}

pub(super) struct StackTransport {
    stream: Stream,
    device: Arc<str>,
}

impl StackTransport {
    pub(super) fn new(stream: Stream, device: &Arc<str>) -> Self {
        Self { stream, device: Arc::clone(device) }
    }

    fn address(&self, address: SocketAddr) -> Address {
        Address::from_wire(&Stack, format!("{}/{address}", self.device))
    }
}

impl Transport for StackTransport {
    #[inline]
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_readable(cx).map(Ok)
    }

    #[inline]
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_read_into(cx, buffer)
    }

    #[inline]
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.poll_write_from(cx, &[IoSlice::new(bytes)])
    }

    #[inline]
    fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write_from(cx, slices)
    }

    fn poll_half_close(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.half_close())
    }

    fn abort(&mut self) {
        self.stream.abort();
    }

    fn local(&self) -> Address {
        self.address(self.stream.local_addr())
    }

    fn peer(&self) -> Address {
        self.address(self.stream.peer_addr())
    }
}
