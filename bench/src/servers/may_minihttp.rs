//! may_minihttp: stackful coroutines, one worker thread.
//!
//! It parses leniently and has no deadlines, so it shows what a thin HTTP layer costs, not what a server needs.

use std::io;

use anyhow::Result;
use may_minihttp::{HttpServer, HttpService, Request, Response};

use super::{Announce, BODY, Http, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "may_minihttp",
    version: || versions::locked("may_minihttp"),
    settings: "set_workers(1), stack 0x1000 words as in its own examples, no default features (no io timeouts, no work stealing)",
    protocols: &[Http::Http1],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    // The process is pinned already; may would move its worker to the first core of the machine.
    may::config().set_worker_pin(false);
    may::config().set_workers(1).set_pool_capacity(1000).set_stack_size(0x1000);
    // It binds with SO_REUSEPORT and does not say which port it got.
    let (reservation, address) = super::reserved_port()?;
    let server = HttpServer(Hello).start(address)?;
    drop(reservation);
    announce.listening(address);
    server.join().map_err(|_| anyhow::anyhow!("the accepting coroutine of may_minihttp panicked"))
}

#[derive(Clone)]
struct Hello;

impl HttpService for Hello {
    fn call(&mut self, _: Request<'_, '_, '_>, response: &mut Response<'_>) -> io::Result<()> {
        // The same content type as everybody's; the crate wants the whole line as a constant.
        response.header("Content-Type: text/plain; charset=utf-8").body(BODY);
        Ok(())
    }
}
