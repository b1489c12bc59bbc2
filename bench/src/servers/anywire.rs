//! anywire's own server: one loop, one route, everything else as it comes.

use anyhow::{Context, Result};
use anywire_server::{Router, Server as AnywireServer};
use anywire_wire::ListenOptions;

use super::{Announce, BACKLOG, BODY, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "anywire",
    version: || versions::locked("anywire-server"),
    settings: "1 loop, default limits, all deadlines on",
    serve,
};

fn serve(announce: &Announce) -> Result<()> {
    let running = AnywireServer::new(Router::new().get("/", async || BODY))
        .listen("tcp:127.0.0.1:0")
        .listen_options(ListenOptions { backlog: BACKLOG as u32, ..ListenOptions::default() })
        .loops(1)
        .start()?;
    let address = running.addresses().next().context("it listens nowhere")?;
    let address = address.location().parse().with_context(|| format!("{address} is no socket address"))?;
    announce.listening_until_end(address);
    drop(running);
    Ok(())
}
