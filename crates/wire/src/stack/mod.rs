//! `stack:DEVICE/IP:PORT`: TCP of our own, on a device that carries its frames; and what operators ask of it.
//!
//! A program tells of its hosts by [`snapshot`], and of their frames by [`Capture`]. `anywire serve` does so on a socket of its own, for
//! `anywire stack`.
//!
//! | file | holds |
//! | --- | --- |
//! | `location` | which device, where on it, and the options |
//! | `switch` | `stack:switch/…`: between the loops of this process, over no kernel at all |
//! | `devices` | which devices this process has open |
//! | `host` | the hosts of a loop: one for each device |
//! | `device` | listening and dialling there |
//! | `inspect`, `metrics`, `capture` | for operators: connections and neighbours, counters under their names, frames |
//! | `checks` | what must hold before anything runs: the MTU, and that nobody else has the address |

mod capture;
mod checks;
mod device;
mod devices;
mod host;
mod inspect;
mod location;
mod metrics;
mod switch;

use std::any::Any;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use anywire_advice::Message;
use anywire_stack::stream::Stream;
use anywire_sys::thread_bound::ThreadBound;

pub use anywire_stack::stream::ConnectionInfo;

pub use self::capture::{Capture, CaptureOptions};
pub use self::inspect::{HostSnapshot, Snapshot, snapshot};
use self::location::{DeviceName, Location};
pub use self::metrics::Counter;
use crate::address::Address;
use crate::connection::{Connection, Transport};
use crate::dialer::DialOptions;
use crate::error::ListenError;
use crate::listener::ListenOptions;
use crate::wires::{Arrival, Bound, Dialing, Wire};

/// TCP of our own.
pub(crate) struct Stack;

impl Wire for Stack {
    fn scheme(&self) -> &'static str {
        "stack"
    }

    fn summary(&self) -> &'static str {
        "TCP of our own, on a TAP device, by AF_XDP, or within one process"
    }

    fn form(&self) -> &'static str {
        "DEVICE/IP:PORT, such as stack:tap0/10.0.0.2:80, stack:xdp:eth0/[2001:db8::2]:80 or stack:switch/10.0.0.2:80"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        Location::parse(location).map(|location| location.to_string())
    }

    fn options(&self) -> &'static [&'static str] {
        location::OPTIONS
    }

    fn normalise_option(&self, location: &str, name: &str, value: &str) -> Result<String, String> {
        location::normalise_option(location, name, value)
    }

    fn host_and_port<'a>(&self, location: &'a str) -> Option<(&'a str, u16)> {
        crate::place::host_and_port(location.split_once('/')?.1)
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        loops: usize,
    ) -> Result<Bound, ListenError> {
        let location = location_of(address);
        match location.device {
            DeviceName::Switch => switch::bind(self, address, location.address, options, loops),
            _ => device::bind(self, address, &location, options, loops),
        }
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        let location = location_of(address);
        match location.device {
            DeviceName::Switch => Box::pin(switch::dial(address, location.address, options)),
            _ => Box::pin(device::dial(address, location, options)),
        }
    }

    fn scratch(&'static self) -> Option<Address> {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let scratch = Location { device: DeviceName::Switch, address: ([10, 254, high, low], 80).into() };
        Some(Address::from_wire(self, scratch.to_string()))
    }

    fn is_within_process(&self, location: &str) -> bool {
        Location::parse(location).is_ok_and(|location| location.device == DeviceName::Switch)
    }
}

/// Of an address that was normalised.
fn location_of(address: &Address) -> Location<'_> {
    Location::parse(address.location()).expect("an address of this wire is DEVICE/IP:PORT")
}

/// Whether a loop calls, which alone can have hosts.
fn on_a_loop() -> io::Result<()> {
    match anywire_loops::current() {
        Some(_) => Ok(()),
        None => {
            let message = Message::new("this wire is dialled and served on loops only");
            Err(io::Error::other(message.with_help("use LoopHandle::spawn")))
        }
    }
}

/// A connection that waits on its loop.
struct StackArrival(ThreadBound<StackTransport>);

impl StackArrival {
    fn of(transport: StackTransport) -> Box<dyn Arrival> {
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

struct StackTransport {
    stream: Stream,
    device: Arc<str>,
    /// What must live as long as the connection.
    _keeps: Option<Box<dyn Any>>,
}

impl StackTransport {
    fn new(stream: Stream, device: &Arc<str>, keeps: Option<Box<dyn Any>>) -> Self {
        Self { stream, device: Arc::clone(device), _keeps: keeps }
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

/// How long a loop that ends waits for a peer to acknowledge the remaining bytes. Each acknowledgement restarts it.
/// Long enough for a peer thread that waits for a core on a crowded machine.
const LAST_WORDS: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_stands_for_a_free_one() {
        let address = "stack:switch/10.1.0.1:0".parse::<Address>().expect("an address");
        let bound = Stack.bind(&address, &ListenOptions::default(), 1).expect("nobody listens there");
        assert!(location_of(&bound.local).address.port() >= 49_152, "{}", bound.local);
    }
}
