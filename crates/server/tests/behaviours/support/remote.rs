//! A connection over any wire for a test that blocks: a task on a loop of its own does what it is told.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::sync::{LazyLock, mpsc};
use std::task::{Context, Poll};

use anywire_loops::Loops;
use anywire_wire::{Address, Connection, DialError, DialOptions, Dialer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::HANG;

/// The end of a connection that dialled. Dropping it, and its clones, closes the connection.
#[derive(Clone)]
pub(crate) struct Remote {
    orders: UnboundedSender<Order>,
}

enum Order {
    /// Written as the wire takes it, beside whatever else is ordered.
    Write(Vec<u8>),
    Read(usize, mpsc::Sender<io::Result<Vec<u8>>>),
    HalfClose,
    Reset,
}

impl Remote {
    pub(crate) fn dial(address: &Address) -> Self {
        Self::try_dial(address).expect("the server listens")
    }

    pub(crate) fn try_dial(address: &Address) -> Result<Self, DialError> {
        Self::try_dial_with(address, dialling())
    }

    pub(crate) fn try_dial_with(address: &Address, options: DialOptions) -> Result<Self, DialError> {
        static LOOPS: LazyLock<Loops> =
            LazyLock::new(|| Loops::start(4).expect("the system has threads left"));
        let (orders, ordered) = unbounded_channel();
        let (connected, connection) = mpsc::channel();
        let address = address.clone();
        drop(LOOPS.next_in_turn().spawn(move || async move {
            let dialled = Dialer::new(options).dial(&address).await;
            let connection = match dialled {
                Ok(connection) => connection,
                Err(error) => return drop(connected.send(Err(error))),
            };
            drop(connected.send(Ok(())));
            let mut end = End { connection, ordered, waiting: VecDeque::new(), ends: false, reader: None };
            poll_fn(|cx| end.poll(cx)).await;
        }));
        connection.recv_timeout(HANG).expect("an answer in time")?;
        Ok(Self { orders })
    }

    pub(crate) fn half_close(&self) {
        self.order(Order::HalfClose);
    }

    pub(crate) fn reset(self) {
        self.order(Order::Reset);
    }

    fn order(&self, order: Order) {
        assert!(self.orders.send(order).is_ok(), "its loop goes on as long as the test");
    }
}

impl Write for Remote {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.order(Order::Write(bytes.to_vec()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Remote {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (sender, read) = mpsc::channel();
        self.order(Order::Read(buffer.len(), sender));
        let bytes = read.recv_timeout(HANG).map_err(io::Error::other)??;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
}

/// How to dial on any wire: with trust in the certificate of the wires with TLS.
pub(crate) fn dialling() -> DialOptions {
    DialOptions {
        #[cfg(feature = "tls")]
        tls: Some(super::trial::client()),
        #[cfg(feature = "tls")]
        server_name: Some("localhost".to_owned()),
        ..DialOptions::default()
    }
}

/// What the task works with.
struct End {
    connection: Connection,
    ordered: UnboundedReceiver<Order>,
    waiting: VecDeque<u8>,
    ends: bool,
    reader: Option<(usize, mpsc::Sender<io::Result<Vec<u8>>>)>,
}

impl End {
    /// Ready once the connection is to be dropped.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.ordered.poll_recv(cx) {
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Ready(Some(Order::Write(bytes))) => self.waiting.extend(bytes),
                Poll::Ready(Some(Order::Read(len, sender))) => self.reader = Some((len, sender)),
                Poll::Ready(Some(Order::HalfClose)) => self.ends = true,
                Poll::Ready(Some(Order::Reset)) => {
                    self.connection.abort();
                    return Poll::Ready(());
                }
                Poll::Pending => break,
            }
        }
        while !self.waiting.is_empty() {
            match self.connection.poll_write(cx, self.waiting.as_slices().0) {
                Poll::Ready(Ok(written)) => drop(self.waiting.drain(..written)),
                // The server no longer reads; what it has sent can still be read.
                Poll::Ready(Err(_)) => self.waiting.clear(),
                Poll::Pending => break,
            }
        }
        // Pending or failed, it is told by the next write or read.
        let _ = self.connection.poll_flush(cx);
        if self.ends && self.waiting.is_empty() && self.connection.poll_half_close(cx).is_ready() {
            self.ends = false;
        }
        if let Some((len, sender)) = self.reader.take() {
            let mut buffer = vec![0; len];
            match self.connection.poll_read(cx, &mut buffer) {
                Poll::Ready(read) => drop(sender.send(read.map(|read| buffer[..read].to_vec()))),
                Poll::Pending => self.reader = Some((len, sender)),
            }
        }
        Poll::Pending
    }
}
