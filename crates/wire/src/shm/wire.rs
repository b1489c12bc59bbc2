//! The wire: how it listens and dials.

use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::task::Context;
use std::time::Duration;

use anywire_sys::shm::RING_MIN_BYTES;
use tokio::net::UnixStream;

use super::transport::ShmTransport;
use crate::address::Address;
use crate::connection::Connection;
use crate::dialer::DialOptions;
use crate::error::{DialError, ListenError};
use crate::listener::ListenOptions;
use crate::socket::SocketAcceptor;
use crate::unix::{self, Listening, Unix};
use crate::wires::{Arrival, Bound, Dialing, Wire};

/// Shared memory. As on Unix sockets there is one listening socket, and its connections are distributed round-robin.
pub(crate) struct Shm;

impl Wire for Shm {
    fn scheme(&self) -> &'static str {
        "shm"
    }

    fn summary(&self) -> &'static str {
        "shared memory between processes, set up over a Unix socket at this path or (with @) abstract name"
    }

    fn form(&self) -> &'static str {
        "a path of at most 107 bytes such as shm:/run/app.ring, or an abstract name such as shm:@app"
    }

    fn normalise(&self, location: &str) -> Result<String, String> {
        Unix.normalise(location)
    }

    fn options(&self) -> &'static [&'static str] {
        &["mode", "ring", "spin"]
    }

    fn normalise_option(&self, location: &str, name: &str, value: &str) -> Result<String, String> {
        if name == "mode" {
            return Unix.normalise_option(location, name, value);
        }
        if name == "spin" {
            let spin = spin(value).ok_or_else(|| format!("{value:?} is no time up to 1ms, such as 20us"))?;
            return Ok(format!("{}us", spin.as_micros()));
        }
        let bytes = ring_bytes(value).ok_or_else(|| {
            format!("{value:?} is no size of a ring: a power of two from 4k to 1m, such as 64k")
        })?;
        Ok(if bytes >= 1 << 20 { format!("{}m", bytes >> 20) } else { format!("{}k", bytes >> 10) })
    }

    fn bind(
        &'static self,
        address: &Address,
        options: &ListenOptions,
        _: usize,
    ) -> Result<Bound, ListenError> {
        let Listening { socket, guard } = unix::listen(address, options)?;
        let ring_max_bytes = address.option("ring").and_then(ring_bytes).unwrap_or(RING_MAX_BYTES);
        let spin = spin_of(address);
        let accept = move |listener: &UnixStream, cx: &mut Context<'_>| {
            let accepted = |stream| Box::new(Accepted { stream, ring_max_bytes, spin }) as Box<dyn Arrival>;
            unix::poll_accept(listener, cx).map_ok(accepted)
        };
        let acceptor = SocketAcceptor::new(socket, unix::join, unix::leave, accept);
        let local = Address::from_wire(self, address.location());
        Ok(Bound { local, acceptors: vec![Box::new(acceptor)], guard })
    }

    fn dial<'a>(&'static self, address: &'a Address, options: &'a DialOptions) -> Dialing<'a> {
        Box::pin(async move {
            let stream = unix::connect(address, options).await?;
            let ring_bytes = address.option("ring").and_then(ring_bytes).unwrap_or(RING_BYTES);
            let dialled = ShmTransport::dial(stream, ring_bytes, spin_of(address));
            Ok(Connection::new(dialled.map_err(|cause| DialError::from_io(address, cause))?))
        })
    }

    fn scratch(&'static self) -> Option<Address> {
        Some(Address::from_wire(self, self.normalise(&unix::scratch_path("ring")?).ok()?))
    }
}

/// A socket that is registered with no loop yet.
struct Accepted {
    stream: StdStream,
    ring_max_bytes: usize,
    spin: Duration,
}

impl Arrival for Accepted {
    fn register(self: Box<Self>) -> io::Result<Connection> {
        let stream = UnixStream::from_std(self.stream)?;
        Ok(Connection::new(ShmTransport::accept(stream, self.ring_max_bytes, self.spin)))
    }
}

fn spin_of(address: &Address) -> Duration {
    address.option("spin").and_then(spin).unwrap_or_default()
}

fn spin(value: &str) -> Option<Duration> {
    let (number, unit) = match value.strip_suffix("us") {
        Some(number) => (number, 1),
        None => (value.strip_suffix("ms")?, 1000),
    };
    let number: u64 = number.parse().ok().filter(|_| !number.starts_with('+'))?;
    let spin = Duration::from_micros(number.checked_mul(unit)?);
    (spin <= SPIN_MAX).then_some(spin)
}

fn ring_bytes(value: &str) -> Option<usize> {
    let (number, unit) = match value.as_bytes().last()? {
        b'k' => (&value[..value.len() - 1], 1 << 10),
        b'm' => (&value[..value.len() - 1], 1 << 20),
        _ => (value, 1),
    };
    // Rust reads "+4" as a number, too.
    let number: usize = number.parse().ok().filter(|_| !number.starts_with('+'))?;
    let bytes = number.checked_mul(unit)?;
    (bytes.is_power_of_two() && (RING_MIN_BYTES..=RING_MAX_BYTES).contains(&bytes)).then_some(bytes)
}

/// Each ring of a connection that is dialled: about as large as the buffer of a Unix socket. A woken end begins some 50 us
/// later, and its peer reads 64 KiB in far less. With rings of 64 KiB both ends mostly wait, and messages of that size come at a
/// sixth of the rate (`anywire lab ipc`).
const RING_BYTES: usize = 256 * 1024;
/// The largest ring that is accepted. Each process pays for the pages that it touches first.
const RING_MAX_BYTES: usize = 1024 * 1024;
/// A loop that spins keeps its core busy, though other tasks have their turns.
const SPIN_MAX: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_spin_have_one_spelling() {
        let normal = |value| Shm.normalise_option("/run/a", "spin", value);
        for (value, expected) in [("20us", "20us"), ("1ms", "1000us"), ("0ms", "0us")] {
            assert_eq!(normal(value).as_deref(), Ok(expected), "{value}");
        }
        for value in
            ["", "us", "20", "20s", "2ms", "1001us", "+1us", "-1us", "1.5us", "99999999999999999999ms"]
        {
            assert!(normal(value).is_err_and(|wrong| wrong.contains("20us")), "{value}");
        }
    }

    #[test]
    fn sizes_of_rings_have_one_spelling() {
        let normal = |value| Shm.normalise_option("/run/a", "ring", value);
        for (value, expected) in
            [("65536", "64k"), ("64k", "64k"), ("1m", "1m"), ("1024k", "1m"), ("4k", "4k")]
        {
            assert_eq!(normal(value).as_deref(), Ok(expected), "{value}");
        }
        for value in ["", "k", "2k", "65k", "2m", "+64k", "-1", "64kb", "99999999999999999999m", "64\u{e9}"] {
            assert!(normal(value).is_err_and(|wrong| wrong.contains("64k")), "{value}");
        }
    }
}
