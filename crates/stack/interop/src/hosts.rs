//! Hosts alike: the kernel's sockets and the engine's streams.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anywire_stack::stream::{Interface, ListenOptions, Stream};
use anywire_sys::tcp_info::TcpInfo;
use anywire_tcp::KeepAlive;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::transfer::{EngineSaw, KernelSaw};

/// A host: calls and listens.
pub(crate) trait Host: Clone + 'static {
    type Socket: Socket;
    type Listener;

    /// The same host, whose connections send by this congestion control if they are the kernel's.
    fn controlled_by(&self, congestion_control: &str) -> Self;

    async fn call(&self, to: SocketAddr) -> io::Result<Self::Socket>;
    fn listen(&self, at: SocketAddr) -> io::Result<Self::Listener>;
    async fn accept(listener: &mut Self::Listener) -> io::Result<Self::Socket>;
    fn engine(&self) -> Option<EngineSaw>;
}

/// A connection of a host.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Resets it as soon as it is dropped.
    fn reset_when_dropped(&mut self) -> io::Result<()>;

    /// Probes every second, and gives up after two probes without an answer.
    fn keep_alive(&mut self) -> io::Result<()>;

    fn kernel(&self) -> Option<KernelSaw>;
}

/// The kernel of this namespace.
#[derive(Clone)]
pub(crate) struct Kernel {
    /// Set for each socket: not every kernel lets a namespace have another one than the machine.
    pub(crate) congestion_control: String,
}

impl Kernel {
    fn socket(&self, family_of: SocketAddr) -> io::Result<TcpSocket> {
        let socket = if family_of.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if !self.congestion_control.is_empty() {
            SockRef::from(&socket).set_tcp_congestion(self.congestion_control.as_bytes())?;
        }
        Ok(socket)
    }
}

impl Host for Kernel {
    type Socket = TcpStream;
    type Listener = TcpListener;

    fn controlled_by(&self, congestion_control: &str) -> Self {
        Self { congestion_control: congestion_control.to_owned() }
    }

    async fn call(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let stream = self.socket(to)?.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn listen(&self, at: SocketAddr) -> io::Result<TcpListener> {
        let socket = self.socket(at)?;
        socket.set_reuseaddr(true)?;
        socket.bind(at)?;
        socket.listen(BACKLOG as u32)
    }

    async fn accept(listener: &mut TcpListener) -> io::Result<TcpStream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn engine(&self) -> Option<EngineSaw> {
        None
    }
}

impl Socket for TcpStream {
    fn reset_when_dropped(&mut self) -> io::Result<()> {
        SockRef::from(&*self).set_linger(Some(Duration::ZERO))
    }

    fn keep_alive(&mut self) -> io::Result<()> {
        let second = Duration::from_secs(1);
        let probes = TcpKeepalive::new().with_time(second).with_interval(second).with_retries(2);
        SockRef::from(&*self).set_tcp_keepalive(&probes)
    }

    fn kernel(&self) -> Option<KernelSaw> {
        let info = TcpInfo::of(self).ok()?;
        Some(KernelSaw {
            timestamps: info.options.timestamps,
            sack: info.options.sack,
            window_scales: info.options.window_scales,
            segment_bytes_out: info.segment_bytes_out,
            segment_bytes_in: info.segment_bytes_in,
            retransmits: info.retransmits,
            window_limited_us: info.window_limited.unwrap_or_default().as_micros() as u64,
        })
    }
}

/// An engine on a device.
impl Host for Interface {
    type Socket = Stream;
    type Listener = anywire_stack::stream::Listener;

    fn controlled_by(&self, _: &str) -> Self {
        self.clone()
    }

    async fn call(&self, to: SocketAddr) -> io::Result<Stream> {
        self.connect(to).await
    }

    fn listen(&self, at: SocketAddr) -> io::Result<Self::Listener> {
        Self::listen(self, at, ListenOptions { backlog: BACKLOG, ..ListenOptions::default() })
    }

    async fn accept(listener: &mut Self::Listener) -> io::Result<Stream> {
        listener.accept().await
    }

    fn engine(&self) -> Option<EngineSaw> {
        let counters = self.with_engine(|engine| *engine.counters());
        Some(EngineSaw {
            retransmits: counters.retransmits,
            timeouts: counters.timeouts,
            fast_recoveries: counters.fast_recoveries,
            out_of_order: counters.out_of_order,
            held_dropped: counters.out_of_order_dropped,
            malformed: counters.frames_malformed,
            keep_alives: counters.keep_alives,
            window_probes: counters.window_probes,
        })
    }
}

impl Socket for Stream {
    fn reset_when_dropped(&mut self) -> io::Result<()> {
        self.abort();
        Ok(())
    }

    fn keep_alive(&mut self) -> io::Result<()> {
        let second = Duration::from_secs(1);
        self.set_keep_alive(Some(KeepAlive { idle: second, interval: second, probes: 2 }));
        Ok(())
    }

    fn kernel(&self) -> Option<KernelSaw> {
        None
    }
}

/// Connections that wait to be accepted: more than call at once.
const BACKLOG: usize = 16_384;
