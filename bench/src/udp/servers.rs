//! The echo servers: a raw loop, anywire, and tokio's own socket, each on one pinned thread of this process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use anywire_loops::{Loops, Pinning};
use anywire_server::udp::{Datagram, Replies, UdpOptions, UdpServer, UdpServerHandle};
use anywire_sys::cpu;
use anywire_sys::udp_limit::UdpLimit;

/// Which server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `recvmmsg` and `sendmmsg`, blocking, and nothing else.
    Limit,
    /// `UdpServer` as it is.
    Anywire,
    /// The same without GRO and GSO.
    AnywireAlone,
    /// tokio's `UdpSocket`: a call each way for each datagram.
    Tokio,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Limit, Self::Anywire, Self::AnywireAlone, Self::Tokio];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Anywire => "anywire",
            Self::AnywireAlone => "anywire-alone",
            Self::Tokio => "tokio",
        }
    }
}

/// A server that runs.
pub enum Server {
    /// The raw loop.
    Limit(UdpLimit),
    /// anywire, with its loops.
    Anywire(UdpServerHandle, Loops),
    /// tokio.
    Tokio(TokioEcho),
}

impl Server {
    /// Starts it on a core.
    pub fn start(kind: Kind, core: usize) -> Result<Self> {
        Ok(match kind {
            Kind::Limit => Self::Limit(UdpLimit::start(Some(core), RECEIVE_BUFFER)?),
            Kind::Tokio => Self::Tokio(TokioEcho::start(core)?),
            Kind::Anywire | Kind::AnywireAlone => {
                let loops = Loops::builder().count(1).pinning(Pinning::Cores(vec![core])).start()?;
                let offload = kind == Kind::Anywire;
                let options =
                    UdpOptions { receive_buffer_bytes: RECEIVE_BUFFER, offload, ..UdpOptions::default() };
                let echo = || {
                    |datagram: &Datagram<'_>, replies: &mut Replies<'_>| {
                        let _ = replies.send(datagram, datagram.data());
                    }
                };
                let server =
                    UdpServer::new(echo).listen("udp:127.0.0.1:0").options(options).on(&loops).start();
                Self::Anywire(server.map_err(anyhow::Error::msg)?, loops)
            }
        })
    }

    /// Where it receives.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Limit(limit) => limit.address(),
            Self::Anywire(server, _) => server.addresses()[0].socket_addr().expect("it is an IP address"),
            Self::Tokio(tokio) => tokio.address,
        }
    }

    /// CPU time of its thread.
    pub fn cpu(&self) -> Result<Duration> {
        let thread = match self {
            Self::Limit(limit) => limit.thread_id(),
            Self::Anywire(_, loops) => loops.get(0).thread_id(),
            Self::Tokio(tokio) => tokio.thread_id,
        };
        Ok(cpu::thread_run_time(thread)?)
    }

    /// Datagrams that it has returned.
    pub fn echoed(&self) -> u64 {
        match self {
            Self::Limit(limit) => limit.echoed(),
            Self::Anywire(server, _) => server.counters().replies,
            Self::Tokio(tokio) => tokio.shared.echoed.load(Ordering::Relaxed),
        }
    }
}

/// tokio's socket, as its documentation shows an echo.
pub struct TokioEcho {
    address: SocketAddr,
    thread_id: i32,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    echoed: AtomicU64,
    is_stopped: AtomicBool,
}

impl TokioEcho {
    fn start(core: usize) -> Result<Self> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let (started, start) = mpsc::channel();
        let thread = thread::spawn(move || {
            let pinned = cpu::pin_current_thread(core).map(|()| cpu::thread_id());
            let told = started.send(pinned);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let (Ok(()), Ok(runtime)) = (told, runtime) {
                // It ends with its socket.
                let _ = runtime.block_on(echo(socket, &of_thread));
            }
        });
        let thread_id = start.recv().context("the thread ended at once")??;
        Ok(Self { address, thread_id, shared, thread: Some(thread) })
    }
}

async fn echo(socket: std::net::UdpSocket, shared: &Shared) -> std::io::Result<()> {
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let mut buffer = [0; 2048];
    while !shared.is_stopped.load(Ordering::Relaxed) {
        let wait = tokio::time::timeout(Duration::from_millis(20), socket.readable());
        if wait.await.is_err() {
            continue;
        }
        while let Ok((length, peer)) = socket.try_recv_from(&mut buffer) {
            socket.send_to(&buffer[..length], peer).await?;
            shared.echoed.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

impl Drop for TokioEcho {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// As much as a machine gives whose limit was raised as the warning of the sockets says.
pub const RECEIVE_BUFFER: usize = 4 << 20;
