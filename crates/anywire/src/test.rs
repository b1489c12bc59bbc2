//! Tests of a service: router, layers, limits, deadlines and the protocol, without a socket, on a clock that the test moves.
//!
//! ```
//! use std::time::Duration;
//!
//! use anywire::test::TestServer;
//! use anywire::{Router, StatusCode};
//!
//! async fn slow() -> &'static str {
//!     tokio::time::sleep(Duration::from_secs(30)).await;
//!     "done"
//! }
//!
//! let server = TestServer::new(Router::new().get("/hello", async || "Hello!").get("/slow", slow))?;
//! let response = server.wait(server.get("/hello").send())?;
//! assert_eq!(server.wait(response.text())?, "Hello!");
//!
//! // Half a minute passes at once, and everything that is due in it happens in its order. The deadlines of the call are, too.
//! let slow = server.start(server.get("/slow").read_timeout(Duration::from_secs(60)));
//! server.advance(Duration::from_secs(30));
//! assert_eq!(server.wait(slow)??.status(), StatusCode::OK);
//!
//! // The bytes themselves, in and out.
//! let mut connection = server.connect();
//! connection.send("GET /hello HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
//! assert!(connection.read_to_end().starts_with(b"HTTP/1.1 200 OK\r\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod clock;
mod connection;
mod wait;

use std::fmt;
use std::time::Duration;

use anywire_client::{Call, Client, Error, Response};
use anywire_http::Method;
use anywire_loops::{Loops, Task};
use anywire_server::{Counters, Router, Server, ServerError, ServerHandle};
use anywire_wire::{Address, ToAddress};

use self::clock::Clock;
pub use self::connection::TestConnection;
use self::wait::wait_for;

/// A server for one test, on a loop of its own, and a client beside it.
///
/// Time stands still on that loop, for deadlines of server and client as for the timers of handlers, until
/// [`advance`](Self::advance) moves it. The `date` of responses is today's. Dropping it ends the server.
pub struct TestServer {
    client: Client,
    running: ServerHandle,
    loops: Loops,
    address: Address,
    /// `None` where time is the world's.
    clock: Option<Clock>,
    patience: Duration,
}

impl TestServer {
    /// Serves a router in memory, with default limits.
    ///
    /// # Errors
    /// What [`Server::start`] reports, such as a mistake in the routes.
    pub fn new(router: Router) -> Result<Self, ServerError> {
        Self::of(Server::new(router))
    }

    /// Serves in memory what has been set up otherwise: with limits, layers, observers. Its number of loops and the addresses
    /// it listens on are left as they are; give it none.
    ///
    /// # Errors
    /// What [`Server::start`] reports.
    pub fn of(server: Server) -> Result<Self, ServerError> {
        let loops = start_loop();
        let clock = Clock::stop(&loops);
        Self::start_server(server, "memory:", loops, Some(clock))
    }

    /// Serves a router on a real address, such as `tcp:127.0.0.1:0` with a free port, where time is the world's.
    ///
    /// # Errors
    /// What [`Server::start`] reports, such as an address that is taken.
    pub fn on(router: Router, address: impl ToAddress) -> Result<Self, ServerError> {
        Self::start_server(Server::new(router), address, start_loop(), None)
    }

    fn start_server(
        server: Server,
        address: impl ToAddress,
        loops: Loops,
        clock: Option<Clock>,
    ) -> Result<Self, ServerError> {
        let running = server.on(&loops).listen(address).start()?;
        let address = running.addresses().last().cloned().expect("a server has the addresses it was given");
        let client = Client::builder().on(&loops).build();
        Ok(Self { client, running, loops, address, clock, patience: PATIENCE })
    }

    /// How much of the world's time [`wait`](Self::wait) and the connections of [`connect`](Self::connect) wait before they fail the
    /// test: a minute, unless this says otherwise. The server's clock has no part in it.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// A call of this path, which may have a query.
    pub fn get(&self, path: &str) -> Call {
        self.request(Method::GET, path)
    }

    /// A call of this path, to be given a body.
    pub fn post(&self, path: &str) -> Call {
        self.request(Method::POST, path)
    }

    /// A call of this path with any method. Its `host` is `localhost`.
    pub fn request(&self, method: Method, path: &str) -> Call {
        self.client.request(method, format!("http://localhost{path}")).via(&self.address)
    }

    /// Begins a call and returns at once. The time that [`advance`](Self::advance) adds counts for it from then on. Give the task to
    /// [`wait`](Self::wait), which ends a test that hangs; [`Task::wait`] waits for ever.
    pub fn start(&self, call: Call) -> Task<Result<Response, Error>> {
        self.loops.get(0).spawn(move || call.send())
    }

    /// Waits for a call, the body of a response, or what [`start`](Self::start) gave, in a test that is not `async`. One that is awaits
    /// them itself.
    ///
    /// # Panics
    /// After a minute of the world's time, or [another time](Self::patience): what it waits for needs [`advance`](Self::advance), or
    /// never comes.
    #[track_caller]
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        wait_for(future, self.patience).unwrap_or_else(|| {
            panic!(
                "it has not ended within {:?}; does it wait for time, see `TestServer::advance`?",
                self.patience
            )
        })
    }

    /// Lets so much time pass: whatever is due happens in its order, each when everything before it has been done, and the
    /// time between is left out. Timers come in whole milliseconds, so it may be one more. A deadline of
    /// [`Limits`](anywire_server::Limits) is late by up to 1 ms and 1 % of its length, so one of a second has come after 1,020 ms.
    ///
    /// A function on a pool takes the world's time, and this does not wait for it: [`wait`](Self::wait) for its response first.
    ///
    /// # Panics
    /// If the server is [`on`](Self::on) a real address.
    pub fn advance(&self, time: Duration) {
        let clock = self.clock.as_ref().expect("on a real address time passes by itself");
        clock.advance(&self.loops, time);
    }

    /// A connection for bytes that the test writes itself.
    ///
    /// # Panics
    /// If the server refuses it, such as for want of room ([`Limits::connections`](anywire_server::Limits::connections)).
    pub fn connect(&self) -> TestConnection {
        TestConnection::dial(&self.loops, &self.address, self.patience)
    }

    /// The client, with its default timeouts.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Where the server listens: a name in memory, or what [`on`](Self::on) was given, with the port that was free.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The loop of the server.
    pub fn loops(&self) -> &Loops {
        &self.loops
    }

    /// What the server has counted so far.
    pub fn counters(&self) -> Counters {
        self.running.counters()
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn start_loop() -> Loops {
    Loops::start(1).expect("the system has a thread left")
}

/// Much longer than any test works; only one that hangs gets there.
const PATIENCE: Duration = Duration::from_secs(60);
