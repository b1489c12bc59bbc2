//! The servers that are compared: one file each, and one line in [`SERVERS`].
//!
//! A server runs in a process of its own (`bench serve NAME`), on one thread that works, pinned to one core. All answer
//! `GET /` with the same body and the same kind of head ([`BODY`], [`CONTENT_TYPE`]); what a peer adds and cannot leave
//! out (nginx and may_minihttp name themselves) stays. The size of each answer is in the result.

mod actix;
pub(crate) mod anywire;
pub(crate) mod api;
mod axum;
pub(crate) mod h2o;
pub(crate) mod hyper;
mod limit;
mod may_minihttp;
mod nghttpd;
pub(crate) mod nginx;
pub(crate) mod tool;

use std::net::{SocketAddr, TcpListener};
use std::process;
use std::thread;

use anyhow::{Context, Result, bail};
use anywire_load::Protocol as Http;
use anywire_wire::Address;
use socket2::{Domain, Protocol, Socket, Type};

use crate::child::{self, Announcement};

/// Every server that can be measured. The first is what the others are divided by.
pub static SERVERS: &[Server] = &[
    limit::SERVER,
    anywire::SERVER,
    may_minihttp::SERVER,
    hyper::SERVER,
    axum::SERVER,
    actix::SERVER,
    nginx::SERVER,
    h2o::SERVER,
    nghttpd::SERVER,
];

/// What every server answers to `GET /`: the same as the limit does.
pub const BODY: &str = "Hello, world!";
/// The length of what every server of HTTP/2 answers to `GET /large`.
pub const LARGE_BYTES: usize = 1 << 20;
/// The content type of every answer.
pub const CONTENT_TYPE: &str = "text/plain; charset=utf-8";
/// Connections that wait to be accepted; large enough for 10,000 that come at once (the kernel cuts it to `somaxconn`).
pub const BACKLOG: i32 = 4096;

/// One candidate of `bench http-server`.
pub struct Server {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// The version that was built in, or that is installed.
    pub version: fn() -> String,
    /// How it is set, in one line, so that a reader can object.
    pub settings: &'static str,
    /// The versions of HTTP by which it is measured.
    pub protocols: &'static [Http],
    /// Serves this version until the process ends. Tells the argument once connections are taken.
    pub serve: fn(&Announce, Http) -> Result<()>,
}

/// Tells the process that waits for this server where it listens. That process ends the server by closing its standard
/// input.
pub struct Announce;

impl Announce {
    /// Connections are taken here; from now on the end of standard input ends this process.
    pub(crate) fn listening(&self, address: SocketAddr) {
        child::announce(&Announcement::Listening(address));
        thread::spawn(|| {
            child::wait_for_end_of_input();
            process::exit(0)
        });
    }

    /// The same for a server that has something to clear away: returns at the end of standard input.
    pub(crate) fn listening_until_end(&self, address: SocketAddr) {
        child::announce(&Announcement::Listening(address));
        child::wait_for_end_of_input();
    }
}

/// The server of this name.
///
/// # Errors
/// No such server: the message lists those there are.
pub fn named(name: &str) -> Result<&'static Server> {
    let all = || SERVERS.iter().chain(crate::tls::SERVERS);
    let Some(server) = all().find(|server| server.name == name) else {
        let names: Vec<_> = all().map(|server| server.name).collect();
        bail!("no server is named `{name}`; there are: {}", names.join(", "));
    };
    Ok(server)
}

/// Body of `bench serve NAME`: serves until standard input closes. Anywire's server can listen at one address more.
///
/// # Errors
/// The server did not start, or broke; if nobody knows its address yet, that is told instead of it.
pub fn serve(name: &str, http: Http, also: Option<&Address>) -> Result<()> {
    let end = match also {
        Some(also) => anywire::run(&Announce, |server| server.listen("tcp:127.0.0.1:0").listen(also)),
        None => named(name).and_then(|server| (server.serve)(&Announce, http)),
    };
    if let Err(error) = &end {
        child::announce(&Announcement::Failed(format!("{error:#}")));
    }
    end
}

/// A listening socket on a free port of loopback, non-blocking: for the servers that take one.
pub(crate) fn listener() -> Result<TcpListener> {
    let socket = bound_socket(Sharing::No)?;
    socket.listen(BACKLOG).context("listening on loopback failed")?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A port that stays reserved while the returned socket lives, for servers that bind by themselves with SO_REUSEPORT.
/// The socket does not listen, so no connection comes its way.
pub(crate) fn reserved_port() -> Result<(Socket, SocketAddr)> {
    let socket = bound_socket(Sharing::Yes)?;
    let address = socket.local_addr()?.as_socket().context("a TCP socket without an address")?;
    Ok((socket, address))
}

/// A port that was free a moment ago, for servers that cannot share one.
fn free_port() -> Result<SocketAddr> {
    bound_socket(Sharing::No)?.local_addr()?.as_socket().context("a TCP socket without an address")
}

#[derive(Clone, Copy, PartialEq)]
enum Sharing {
    No,
    Yes,
}

fn bound_socket(sharing: Sharing) -> Result<Socket> {
    let socket =
        Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).context("no TCP socket to be had")?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Yes)?;
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&address.into()).with_context(|| format!("binding {address} failed"))?;
    Ok(socket)
}
