//! The limit: a raw epoll loop in C style that parses nothing. Every other server is divided by it.

use std::thread;

use anyhow::{Context, Result};
use anywire_ladder::{Options, Rung};

use super::{Announce, BODY, Http, Server};
use crate::versions;

pub(super) const SERVER: Server = Server {
    name: "limit",
    version: || versions::locked("anywire-ladder"),
    settings: "raw epoll loop, level-triggered, one read and one write a turn, answers prebuilt, requests not parsed",
    protocols: &[Http::Http1],
    serve,
};

fn serve(announce: &Announce, _: Http) -> Result<()> {
    let limit = Rung::named("epoll").context("the ladder has no epoll rung")?;
    let limit = limit
        .start(Options { core: None, body_bytes: BODY.len() })
        .context("the raw epoll loop did not start")?;
    announce.listening(limit.address());
    loop {
        thread::park();
    }
}
